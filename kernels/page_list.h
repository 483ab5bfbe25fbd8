/* The work that both backends do on the host to list the pages that drafts read: they choose the rows whose
 * attention mass is kept, and the pages that have most of it. */
#pragma once

#include "kernels/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of a slice whose attention mass is kept: of a long segment the last. One more such row leaves so much
 * of what was there. */
enum { NOTED_ROWS = 32 };
static const float MASS_KEPT = 1 - 1.0f / NOTED_ROWS;

/* Pages before those that are read in any case; the first one is listed in any case too. */
static inline int pages_to_list(const struct cache* c) { return c->committed / LIST_POSITIONS - 1; }
/* Whether `budget` of those are a list: within its limits, and not all of the text. */
static inline bool can_list(const struct cache* c, int budget) {
	return budget >= 1 && budget <= MAX_LISTED && pages_to_list(c) > budget + 1;
}

/* Where a block's mass of a page lies, by page and by block. */
struct page_mass {
	const float* mass;
	size_t by_page, by_block;
};
/* Fills the list where can_list is true: page 0, and of [1, pages_to_list) those with the largest mass by
 * block, ascending; ties go to the first. page (n_blocks, budget + 1) becomes the list's. */
void page_list_fill(const struct cache*, struct page_mass, int budget, int32_t* page, struct page_list*);

#ifdef __cplusplus
}
#endif
