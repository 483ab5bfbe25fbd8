#include "core/model/kept.h"

#include <stdlib.h>
#include <sys/mman.h>

/* Large ones in huge pages but for their ends: a step that reads all of them waits less for address
 * translation. */
static void* take(size_t bytes) {
	static const size_t huge = (size_t)2 << 20;
	const size_t whole = bytes / huge * huge;
	void* memory = NULL;
	if (whole == 0)
		return malloc(bytes ? bytes : 1);
	if (posix_memalign(&memory, huge, bytes) != 0)
		return NULL;
	madvise(memory, whole, MADV_HUGEPAGE);
	return memory;
}

void* kept_new(struct kept* kept, size_t bytes) {
	void** grown = realloc(kept->memory, (kept->n + 1) * sizeof *grown);
	if (!grown)
		return NULL;
	kept->memory = grown;
	void* made = take(bytes);
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
