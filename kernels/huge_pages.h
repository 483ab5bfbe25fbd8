/* Memory in huge pages, for large weights. */
#pragma once

#include <stdlib.h>
#include <sys/mman.h>

/* At least `bytes`, in huge pages where the system has them, which cause fewer page faults and TLB misses;
 * for free(). NULL: out of memory. */
static inline void* alloc_huge_pages(size_t bytes) {
	static const size_t huge = (size_t)2 << 20;
	if (bytes > SIZE_MAX - huge)
		return NULL;
	const size_t whole = (bytes + huge - 1) / huge * huge;
	void* memory = aligned_alloc(huge, whole);
	if (memory)
		madvise(memory, whole, MADV_HUGEPAGE); /* a hint */
	return memory;
}
