/* The memory of caches, in pages of PAGE_SLOTS tokens that sequences share.
 *
 * A page holds keys and values of all blocks. Once it is full of committed tokens it gets a name: the page
 * before it and its own tokens; a sequence that comes to the same tokens after the same page uses that page
 * and gives its own back. A named page that nobody uses is kept until its memory is needed, the longest
 * unused first. Pages are made when caches are opened, and only counted and linked afterwards: the decode
 * path allocates nothing. One thread at a time, as the backend. */
#ifndef SWIFTLET_KERNELS_CPU_PAGES_H
#define SWIFTLET_KERNELS_CPU_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu/kernels.h"

struct page {
	unsigned char* bytes; /* (n_blocks, 2, kv_heads, PAGE_SLOTS, head_dim), keys before values */
	int users;            /* caches that hold it */
	int64_t name;         /* > 0: unique among all names ever given; 0: none */
	int64_t after;        /* the name of the page before it, 0 for the first of a text */
	int32_t token[PAGE_SLOTS];
	struct page* next;          /* of the free ones, or of those with the same place in the table */
	struct page *older, *newer; /* of the named ones without users */
};

struct page_pool {
	size_t page_bytes;
	bool bounded;     /* all the pages there will be have been made */
	int made, wanted; /* pages; by the caches that are open, if nothing is shared */
	int unused;       /* free, or named without users */
	struct page* free;
	struct page *oldest, *newest;
	struct page** table; /* (1 << table_bits) named pages by their name */
	int table_bits;
	int64_t names;
	struct arena* arenas;
};

/* bytes: the most that pages may take, 0: what the caches that are opened may need. False on no memory. */
bool pages_open(struct page_pool*, size_t page_bytes, size_t bytes);
void pages_close(struct page_pool*);
/* A cache that may come to use n pages opens, or closes. False when there is no memory for it, or when it
 * alone wants more than there will be. */
bool pages_want(struct page_pool*, int n);
void pages_want_no_more(struct page_pool*, int n);

/* A page for one user; NULL when all are in use. */
struct page* pages_take(struct page_pool*);
void pages_use(struct page_pool*, struct page*);
void pages_leave(struct page_pool*, struct page*);
/* The page that holds these tokens after the one of that name; NULL: there is none. */
struct page* pages_find(const struct page_pool*, int64_t after, const int32_t* token);
void pages_name(struct page_pool*, struct page*, int64_t after, const int32_t* token);

#endif
