/* The bookkeeping of a sequence's KV cache, without the keys and values themselves: the pages that they lie
 * in (pages.h), the tokens that are committed, and the tree of pending rows.
 *
 * Slots below `committed` hold the committed tokens in order, and pending row i lies at slot committed + i;
 * slot i is in page i / PAGE_SLOTS. Nothing is cloned, except a shared page that a sequence continues in its
 * middle. A backend writes the rows of a pass between paged_begin and paged_end. When a path is committed it
 * moves rows down if paged_moves asks for it; all else here is counters. Both backends make their own
 * versions of the calls that backend.h declares. */
#pragma once

#include "kernels/backend.h"
#include "kernels/pages.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { NOTHING_SKIPPED = 2 * MAX_BLOCKS };

struct pending_row {
	int32_t token;
	int32_t parent; /* among the pending rows, or -1 */
	int32_t depth;  /* 0 for a root; the row's position is base + depth */
	int32_t base;
	int32_t at;      /* the sub-layer its hidden state is about to enter */
	int32_t skipped; /* lowest sub-layer left out or run low so far (0 where it began with a state), or
	                    NOTHING_SKIPPED */
};

struct paged_cache {
	struct cache head;
	struct page_pool* pool;
	int most_pages, n_pages;
	struct page** page;    /* (n_pages of most_pages) */
	unsigned char** bytes; /* (memories, most_pages) where they lie */
	int named;             /* leading pages that have names */
	int clean;             /* leading committed tokens that others may find */
	int lowest;            /* the fewest committed tokens since the backend has set this */
	int32_t* token;        /* (capacity) the committed ones */
	struct pending_row row[MAX_ROWS];
};

/* Pages that such a cache may use: for a full context with the most pending rows, and one copied page. */
int paged_most(int capacity);
/* Fills in a cache of a backend's own, all zero before, which is given to paged_close in any case. The pool
 * has been opened. False with the error set if there is too little memory. */
bool paged_open(struct paged_cache*, struct backend*, int capacity, enum dtype, struct page_pool*,
                struct error*);
void paged_close(struct paged_cache*);
/* The addresses of its pages in a memory, (n_pages). */
static inline unsigned char* const* paged_bytes(const struct paged_cache* c, int memory) {
	return c->bytes + (size_t)memory * (size_t)c->most_pages;
}

/* A pass begins: its new rows get memory and are pending. False with the error set if there is none; then no
 * row is pending. */
bool paged_begin(const struct pass*, struct error*);
/* Over the rows of a pass that has begun, zeros before the first. */
struct paged_walk {
	int segment, within; /* the next row's, and which of its rows */
	int first;           /* the segment's, among its cache's pending rows, where the pass appends */
};
/* Row r of the pass, the next one: its segment, and its index among the cache's pending rows. */
const struct segment* paged_next(const struct pass*, struct paged_walk*, int r, int* index);
/* The pass is over: a prefill's rows are committed; those of a failed pass are dropped. */
void paged_end(const struct pass*, bool done);

/* Slots of a pending row's ancestors, root first, its own last; returns how many. */
int paged_ancestors(const struct paged_cache*, int row, int32_t* slot);
/* The tokens of the same rows behind a prompt of so many tokens; returns how many. */
int paged_generated(const struct paged_cache*, int row, int prompt, int32_t* token);

/* True if rows of the path (n), which is to be committed, must move to the slots committed … committed + n
 * - 1. The path ascends: moved in order, no row overwrites one that has still to move. */
bool paged_moves(const struct paged_cache*, const int32_t* path, int n);
/* They have been moved and are text. */
void paged_commit(struct paged_cache*, const int32_t* path, int n);

void paged_discard(struct cache*);
bool paged_rewind(struct cache*, int sub_layer);
void paged_truncate(struct cache*, int committed);
int paged_adopt(struct cache*, const int32_t* token, int n);
/* What the caches of a model with recurrent blocks know of a text. */
struct known_text {
	int kept;   /* tokens behind which a state is kept, the most there are; 0: none */
	int branch; /* tokens after which all texts that are known go on otherwise; 0: nowhere */
};
struct known_text paged_know(const struct paged_cache*, const int32_t* token, int n);
/* The page that ends with the last committed token, if it has a name; else NULL. */
struct page* paged_last_named(const struct paged_cache*);
bool paged_reserve(struct cache*, int rows);
int paged_room(const struct cache*);
/* For pools in one memory that the host reads and writes. */
size_t paged_page_bytes(const struct cache*);
bool paged_save(const struct cache*, int page, void* to);
bool paged_restore(struct cache*, const int32_t* token, const void* from);

#ifdef __cplusplus
}
#endif
