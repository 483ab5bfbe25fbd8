#include "core/model/kept.h"

#include <stdlib.h>

void* kept_new(struct kept* kept, size_t bytes) {
	void** grown = realloc(kept->memory, (kept->n + 1) * sizeof *grown);
	if (!grown)
		return NULL;
	kept->memory = grown;
	void* made = malloc(bytes ? bytes : 1);
	if (made)
		kept->memory[kept->n++] = made;
	return made;
}

void kept_free(struct kept* kept) {
	for (size_t i = 0; i < kept->n; i++)
		free(kept->memory[i]);
	free(kept->memory);
	*kept = (struct kept){0};
}
