#include "core/model/kept.h"

#include "core/files/grow.h"

void* kept_new(struct kept* kept, size_t bytes) {
	if (!grow_by_one(&kept->memory, kept->n, sizeof *kept->memory))
		return NULL;
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
