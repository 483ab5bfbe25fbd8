/* The memory of caches, in pages of PAGE_SLOTS tokens that sequences share.
 *
 * A page holds keys and values of all blocks. Once it is full of committed tokens it gets a name: the name of
 * the page before it, and its own tokens. A sequence that comes to the same tokens after the same page uses
 * that page and gives its own back. A named page without users is kept until its memory is needed; the
 * longest unused goes first. Pages are made when caches are opened, and only counted and linked afterwards,
 * so the decode path allocates nothing. The backend decides where their bytes are: in the host's memory, in a
 * device's, or, if devices share a model, a part of each page on each device. One thread at a time uses them,
 * as with the backend. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PAGE_SLOTS = 32, MAX_PAGE_MEMORIES = 16 };

struct kept_state;

/* One of the memories of pages, and the bytes of a page there: (n_blocks, 2, kv_heads, PAGE_SLOTS, head_dim),
 * keys before values. */
struct page_memory {
	void* user;
	size_t page_bytes;
	void* (*take)(void* user, size_t bytes); /* NULL: there is none */
	void (*give_back)(void* user, void* taken);
	/* Copies one page's bytes to another, after all writes of earlier passes and before those of later ones.
	 */
	void (*copy)(void* user, void* to, const void* from, size_t bytes);
};

struct page {
	struct arena* arena; /* the pages that were made with it, and its number among them */
	int number;
	int users;     /* caches that hold it */
	int64_t name;  /* > 0: unique among all names ever given; 0: none */
	int64_t after; /* the name of the page before it; for the first page of a text 0 or less: its tenant */
	int32_t token[PAGE_SLOTS];
	bool followed;              /* another page has got a name after it */
	struct kept_state* state;   /* behind its last token (kept_states.h); NULL: none is kept */
	struct page* next;          /* of the free ones, or of those with the same place in the table */
	struct page *older, *newer; /* of the named ones without users */
};

struct page_pool {
	struct page_memory memory[MAX_PAGE_MEMORIES];
	int memories;
	size_t page_bytes; /* in all of them */
	bool bounded;      /* all the pages there will be have been made */
	int made, wanted;  /* pages; by the caches that are open, if nothing is shared */
	int unused;        /* free, or named without users */
	struct page* free;
	struct page *oldest, *newest;
	struct page** table; /* (1 << table_bits) named pages by their name */
	int table_bits;
	int64_t names;
	struct arena* arenas;
};

/* bytes: the limit for pages in all memories, 0: as much as the open caches may need. False on no memory. */
bool pages_open(struct page_pool*, const struct page_memory*, int memories, size_t bytes);
void pages_close(struct page_pool*);
/* A cache that may use n pages opens, or closes. False if there is no memory for it, or if it alone needs
 * more than the limit. */
bool pages_want(struct page_pool*, int n);
void pages_want_no_more(struct page_pool*, int n);

/* A page for one user; NULL when all are in use. */
struct page* pages_take(struct page_pool*);
void pages_use(struct page_pool*, struct page*);
void pages_leave(struct page_pool*, struct page*);
/* The page's address in a memory. */
unsigned char* pages_at(const struct page_pool*, const struct page*, int memory);
void pages_copy(const struct page_pool*, const struct page* to, const struct page* from);
/* The page that holds these tokens after the one of that name; NULL: there is none. */
struct page* pages_find(const struct page_pool*, int64_t after, const int32_t* token);
void pages_name(struct page_pool*, struct page*, int64_t after, const int32_t* token);

#ifdef __cplusplus
}
#endif
