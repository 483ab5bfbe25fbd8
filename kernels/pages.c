/* Free lists, names and their table. */
#include "kernels/pages.h"

#include "kernels/kept_states.h"

#include <stdlib.h>
#include <string.h>

/* Pages that were made at once. */
struct arena {
	struct arena* next;
	unsigned char* bytes[MAX_PAGE_MEMORIES];
	struct page page[];
};

bool pages_open(struct page_pool* pool, const struct page_memory* memory, int memories, size_t bytes) {
	*pool = (struct page_pool){.memories = memories};
	for (int m = 0; m < memories; m++) {
		pool->memory[m] = memory[m];
		pool->page_bytes += memory[m].page_bytes;
	}
	if (bytes == 0)
		return true;
	const size_t n = bytes / pool->page_bytes;
	const bool made = n >= 1 && n <= INT32_MAX / 2 && pages_want(pool, (int)n);
	pool->wanted = 0;
	pool->bounded = true;
	return made;
}

static void close_arena(const struct page_pool* pool, struct arena* arena) {
	for (int m = 0; m < pool->memories; m++)
		if (arena->bytes[m])
			pool->memory[m].give_back(pool->memory[m].user, arena->bytes[m]);
	free(arena);
}

void pages_close(struct page_pool* pool) {
	while (pool->arenas) {
		struct arena* next = pool->arenas->next;
		close_arena(pool, pool->arenas);
		pool->arenas = next;
	}
	free(pool->table);
}

unsigned char* pages_at(const struct page_pool* pool, const struct page* page, int memory) {
	return page->arena->bytes[memory] + (size_t)page->number * pool->memory[memory].page_bytes;
}

void pages_copy(const struct page_pool* pool, const struct page* to, const struct page* from) {
	for (int m = 0; m < pool->memories; m++) {
		const struct page_memory* memory = &pool->memory[m];
		memory->copy(memory->user, pages_at(pool, to, m), pages_at(pool, from, m), memory->page_bytes);
	}
}

/* ---- the table ---------------------------------------------------------------------------- */

static size_t place_page(const struct page_pool* pool, int64_t after, const int32_t* token) {
	uint64_t h = (uint64_t)after * 0x9e3779b97f4a7c15u;
	for (int i = 0; i < PAGE_SLOTS; i++)
		h = (h ^ (uint32_t)token[i]) * 0xff51afd7ed558ccdu, h ^= h >> 32;
	return (size_t)(h >> (64 - pool->table_bits));
}

static void put_page(struct page_pool* pool, struct page* page) {
	struct page** at = &pool->table[place_page(pool, page->after, page->token)];
	page->next = *at;
	*at = page;
}

static void forget_name(struct page_pool* pool, struct page* page) {
	struct page** at = &pool->table[place_page(pool, page->after, page->token)];
	while (*at != page)
		at = &(*at)->next;
	*at = page->next;
	page->name = 0;
	page->followed = false;
	if (page->state)
		page->state->page = NULL;
	page->state = NULL;
}

/* Twice as many places as pages at least; those that have names are put in anew. */
static bool grow_table(struct page_pool* pool, int pages) {
	int bits = pool->table_bits ? pool->table_bits : 4;
	while (((int64_t)1 << bits) < 2 * (int64_t)pages)
		bits++;
	if (bits == pool->table_bits)
		return true;
	struct page** old = pool->table;
	const size_t places = old ? (size_t)1 << pool->table_bits : 0;
	struct page** table = calloc((size_t)1 << bits, sizeof(struct page*));
	if (!table)
		return false;
	pool->table = table;
	pool->table_bits = bits;
	for (size_t i = 0; i < places; i++)
		for (struct page *page = old[i], *next; page; page = next) {
			next = page->next;
			put_page(pool, page);
		}
	free(old);
	return true;
}

/* ---- making pages ------------------------------------------------------------------------- */

static struct arena* open_arena(const struct page_pool* pool, int n) {
	struct arena* arena = calloc(1, sizeof *arena + (size_t)n * sizeof arena->page[0]);
	for (int m = 0; arena && m < pool->memories; m++) {
		const struct page_memory* memory = &pool->memory[m];
		arena->bytes[m] = memory->take(memory->user, (size_t)n * memory->page_bytes);
		if (!arena->bytes[m]) {
			close_arena(pool, arena);
			arena = NULL;
		}
	}
	return arena;
}

static bool make_page(struct page_pool* pool, int n) {
	struct arena* arena = grow_table(pool, pool->made + n) ? open_arena(pool, n) : NULL;
	if (!arena)
		return false;
	arena->next = pool->arenas;
	pool->arenas = arena;
	for (int i = n; i-- > 0;) {
		arena->page[i].arena = arena;
		arena->page[i].number = i;
		arena->page[i].next = pool->free;
		pool->free = &arena->page[i];
	}
	pool->made += n;
	pool->unused += n;
	return true;
}

bool pages_want(struct page_pool* pool, int n) {
	if (pool->bounded && n > pool->made)
		return false;
	const int missing = pool->wanted + n - pool->made;
	if (!pool->bounded && missing > 0 && !make_page(pool, missing))
		return false;
	pool->wanted += n;
	return true;
}

void pages_want_no_more(struct page_pool* pool, int n) { pool->wanted -= n; }

/* ---- using them --------------------------------------------------------------------------- */

static void leave_row(struct page_pool* pool, struct page* page) {
	*(page->older ? &page->older->newer : &pool->oldest) = page->newer;
	*(page->newer ? &page->newer->older : &pool->newest) = page->older;
	page->older = page->newer = NULL;
}

struct page* pages_take(struct page_pool* pool) {
	struct page* page = pool->free;
	if (page)
		pool->free = page->next;
	else if (pool->oldest) {
		page = pool->oldest;
		leave_row(pool, page);
		forget_name(pool, page);
	} else
		return NULL;
	page->next = NULL;
	page->users = 1;
	pool->unused--;
	return page;
}

void pages_use(struct page_pool* pool, struct page* page) {
	if (page->users++ > 0)
		return;
	leave_row(pool, page);
	pool->unused--;
}

void pages_leave(struct page_pool* pool, struct page* page) {
	if (--page->users > 0)
		return;
	pool->unused++;
	if (page->name > 0) {
		page->older = pool->newest;
		*(pool->newest ? &pool->newest->newer : &pool->oldest) = page;
		pool->newest = page;
	} else {
		page->next = pool->free;
		pool->free = page;
	}
}

struct page* pages_find(const struct page_pool* pool, int64_t after, const int32_t* token) {
	struct page* page = pool->table[place_page(pool, after, token)];
	while (page && (page->after != after || memcmp(page->token, token, sizeof page->token) != 0))
		page = page->next;
	return page;
}

void pages_name(struct page_pool* pool, struct page* page, int64_t after, const int32_t* token) {
	page->name = ++pool->names;
	page->after = after;
	memcpy(page->token, token, sizeof page->token);
	put_page(pool, page);
}
