/* Takes, names, finds and returns pages; commits tokens; keeps the tree of pending rows. */
#include "kernels/paged_cache.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static struct paged_cache* paged_cache_of(struct cache* cache) { return (struct paged_cache*)cache; }

static int pages_for(int slots) { return (slots + PAGE_SLOTS - 1) / PAGE_SLOTS; }

int paged_most(int capacity) { return pages_for(capacity + MAX_ROWS) + 1; }

/* ---- opening ------------------------------------------------------------------------------ */

static bool want_pages(struct paged_cache* c, struct page_pool* pool, struct error* error) {
	const size_t most = (size_t)c->most_pages * pool->page_bytes >> 20;
	if (!pages_want(pool, c->most_pages))
		return pool->bounded
		           ? error_set(error,
		                       "a cache of %d tokens may take %zu MiB, but all caches together have %zu MiB: "
		                       "lower --context or raise --cache-memory",
		                       c->head.capacity, most, (size_t)pool->made * pool->page_bytes >> 20)
		           : error_set(error,
		                       "a cache of %d tokens takes %zu MiB, more than this machine gives; use a "
		                       "smaller --context",
		                       c->head.capacity, most);
	c->pool = pool;
	return true;
}

bool paged_open(struct paged_cache* c, struct backend* backend, int capacity, enum dtype type,
                struct page_pool* pool, struct error* error) {
	c->head.backend = backend;
	c->head.capacity = capacity;
	c->head.type = type;
	c->head.bytes = pool->page_bytes * (size_t)pages_for(capacity);
	c->most_pages = paged_most(capacity);
	c->page = calloc((size_t)c->most_pages, sizeof *c->page);
	c->bytes = calloc((size_t)c->most_pages * (size_t)pool->memories, sizeof *c->bytes);
	c->token = calloc((size_t)capacity, sizeof *c->token);
	if (!c->page || !c->bytes || !c->token)
		return error_set(error, "out of memory for a cache of %d tokens", capacity);
	return want_pages(c, pool, error);
}

/* ---- pages -------------------------------------------------------------------------------- */

static void hold_page(struct paged_cache* c, int at, struct page* page) {
	c->page[at] = page;
	for (int m = 0; m < c->pool->memories; m++)
		c->bytes[(size_t)m * (size_t)c->most_pages + (size_t)at] = pages_at(c->pool, page, m);
}

/* Returns the pages from `from` on, the last one first, so that the end of a text is forgotten first. */
static void give_back(struct paged_cache* c, int from) {
	while (c->n_pages > from)
		pages_leave(c->pool, c->page[--c->n_pages]);
	c->named = c->named < from ? c->named : from;
}

void paged_close(struct paged_cache* c) {
	if (c->pool) {
		give_back(c, 0);
		pages_want_no_more(c->pool, c->most_pages);
	}
	free(c->page);
	free(c->bytes);
	free(c->token);
}

/* Copies the page in which the sequence continues, if others share it. */
static bool own_page(struct paged_cache* c, int at) {
	struct page* shared = c->page[at];
	if (shared->users == 1 && shared->name == 0)
		return true;
	struct page* copy = pages_take(c->pool);
	if (!copy)
		return false;
	pages_copy(c->pool, copy, shared);
	pages_leave(c->pool, shared);
	hold_page(c, at, copy);
	c->named = c->named < at ? c->named : at;
	return true;
}

bool paged_reserve(struct cache* cache, int rows) {
	struct paged_cache* c = paged_cache_of(cache);
	const int first = cache->committed / PAGE_SLOTS;
	const int wanted = pages_for(cache->committed + cache->pending + rows);
	assert(rows >= 0 && cache->pending + rows <= MAX_ROWS);
	if (first < c->n_pages && !own_page(c, first))
		return false;
	while (c->n_pages < wanted) {
		struct page* page = pages_take(c->pool);
		if (!page)
			return false;
		hold_page(c, c->n_pages++, page);
	}
	return true;
}

int paged_room(const struct cache* cache) {
	const int pages = ((const struct paged_cache*)cache)->pool->unused;
	return pages < INT32_MAX / PAGE_SLOTS ? pages * PAGE_SLOTS : INT32_MAX;
}

/* Keys are not shared if the model's rotation depends on the prompt's length, or if it has recurrent blocks
 * of which the backend keeps no states. */
static bool is_sharable(const struct paged_cache* c) {
	const struct model_shape* s = &c->head.backend->weights->shape;
	const enum rope_scaling every = s->rope.scaling, sliding = s->sliding_rope.scaling;
	return (attention_blocks(s) == s->n_blocks || c->head.backend->next_kept) && every != ROPE_DYNAMIC &&
	       every != ROPE_LONGROPE && sliding != ROPE_DYNAMIC && sliding != ROPE_LONGROPE;
}

/* The name before the first page of a text, which no page has. Each tenant has another. */
static int64_t name_before(const struct paged_cache* c, int page) {
	return page > 0 ? c->page[page - 1]->name : -(int64_t)c->head.tenant;
}

/* Names full pages, or replaces them by shared pages with the same tokens. */
static void name_pages(struct paged_cache* c) {
	for (; (c->named + 1) * PAGE_SLOTS <= c->clean && is_sharable(c); c->named++) {
		const int32_t* token = c->token + c->named * PAGE_SLOTS;
		const int64_t after = name_before(c, c->named);
		struct page* same = pages_find(c->pool, after, token);
		if (c->named > 0)
			c->page[c->named - 1]->followed = true;
		if (!same) {
			pages_name(c->pool, c->page[c->named], after, token);
			continue;
		}
		pages_use(c->pool, same);
		pages_leave(c->pool, c->page[c->named]);
		hold_page(c, c->named, same);
	}
}

/* If the prefill has bits of its own, only pages that whole chunks filled are kept and found. Other rows'
 * kernels depend on the prompt's length. */
int paged_adopt(struct cache* cache, const int32_t* token, int n) {
	struct paged_cache* c = paged_cache_of(cache);
	const int whole = cache->backend->prefill_is_exact ? 1 : PREFILL_CHUNK;
	const int kept = whole == 1 ? cache->committed : c->clean;
	int own = 0;
	while (own < n && own < kept && c->token[own] == token[own])
		own++;
	paged_truncate(cache, own / whole * whole);
	for (int at = cache->committed / PAGE_SLOTS; (at + 1) * PAGE_SLOTS <= n && c->named == at; at++) {
		const int32_t* wanted = token + at * PAGE_SLOTS;
		struct page* page = pages_find(c->pool, name_before(c, at), wanted);
		if (!page || (at + 1) * PAGE_SLOTS > cache->capacity)
			break;
		paged_truncate(cache, at * PAGE_SLOTS);
		pages_use(c->pool, page);
		hold_page(c, c->n_pages++, page);
		memcpy(c->token + at * PAGE_SLOTS, wanted, PAGE_SLOTS * sizeof *wanted);
		c->named++;
		c->clean = cache->committed = c->named * PAGE_SLOTS;
	}
	if (cache->committed % whole != 0)
		paged_truncate(cache, cache->committed / whole * whole);
	return cache->committed;
}

struct known_text paged_know(const struct paged_cache* c, const int32_t* token, int n) {
	struct known_text known = {.kept = 0};
	const struct page* last = NULL;
	for (int end = PAGE_SLOTS; end <= n && end <= c->head.capacity; end += PAGE_SLOTS) {
		const struct page* page =
		    pages_find(c->pool, last ? last->name : -(int64_t)c->head.tenant, token + end - PAGE_SLOTS);
		if (!page) {
			known.branch = last && last->followed ? end - PAGE_SLOTS : 0;
			break;
		}
		known.kept = page->state ? end : known.kept;
		last = page;
	}
	return known;
}

struct page* paged_last_named(const struct paged_cache* c) {
	const int n = c->head.committed / PAGE_SLOTS;
	return n > 0 && c->head.committed % PAGE_SLOTS == 0 && c->named >= n ? c->page[n - 1] : NULL;
}

size_t paged_page_bytes(const struct cache* cache) {
	return ((const struct paged_cache*)cache)->pool->page_bytes;
}

bool paged_save(const struct cache* cache, int page, void* to) {
	const struct paged_cache* c = (const struct paged_cache*)cache;
	assert(c->pool->memories == 1);
	if (page >= c->named)
		return false;
	memcpy(to, paged_bytes(c, 0)[page], c->pool->page_bytes);
	return true;
}

bool paged_restore(struct cache* cache, const int32_t* token, const void* from) {
	struct paged_cache* c = paged_cache_of(cache);
	const int at = cache->committed / PAGE_SLOTS;
	assert(c->pool->memories == 1 && cache->pending == 0);
	if (c->named * PAGE_SLOTS != cache->committed || cache->committed + PAGE_SLOTS > cache->capacity ||
	    !is_sharable(c))
		return false;
	paged_truncate(cache, cache->committed);
	struct page* page = from ? pages_take(c->pool) : pages_find(c->pool, name_before(c, at), token);
	if (!page)
		return false;
	if (!from)
		pages_use(c->pool, page);
	hold_page(c, c->n_pages++, page);
	if (from)
		memcpy(paged_bytes(c, 0)[at], from, c->pool->page_bytes);
	memcpy(c->token + cache->committed, token, PAGE_SLOTS * sizeof *token);
	c->clean = cache->committed += PAGE_SLOTS;
	if (from)
		name_pages(c);
	else
		c->named++;
	return true;
}

/* ---- rows --------------------------------------------------------------------------------- */

static void append_rows(const struct pass* pass, const struct segment* segment, int r0) {
	struct paged_cache* c = paged_cache_of(segment->cache);
	const int before = segment->cache->pending;
	assert(before + segment->n <= MAX_ROWS && segment->base >= 0 && segment->base <= c->head.committed);
	assert(pass->kind != PASS_PREFILL || (before == 0 && segment->base == c->head.committed));
	for (int i = 0; i < segment->n; i++) {
		const int parent = pass->parent ? pass->parent[r0 + i] : i ? before + i - 1 : -1;
		assert(parent >= -1 && parent < before + i);
		assert(parent < 0 || c->row[parent].base == segment->base);
		c->row[before + i] = (struct pending_row){
		    .token = pass->token ? pass->token[r0 + i] : -1,
		    .parent = parent,
		    .depth = parent < 0 ? 0 : c->row[parent].depth + 1,
		    .base = segment->base,
		    .at = pass->first,
		    .skipped = pass->first > 0 || pass->state ? 0 : NOTHING_SKIPPED,
		};
	}
	c->head.pending = before + segment->n;
}

bool paged_begin(const struct pass* pass, struct error* error) {
	if (!pass_appends(pass))
		return true;
	for (int i = 0, r0 = 0; i < pass->n_segments; r0 += pass->segment[i++].n) {
		if (!paged_reserve(pass->segment[i].cache, pass->segment[i].n)) {
			paged_end(pass, false);
			return error_set(error, "the memory for caches is in use");
		}
		append_rows(pass, &pass->segment[i], r0);
	}
	return true;
}

/* The index of a segment's first row among the cache's pending rows, to which the pass has appended it. */
static int first_of(const struct pass* pass, int segment) {
	const struct cache* cache = pass->segment[segment].cache;
	int first = cache->pending;
	for (int i = segment; i < pass->n_segments; i++)
		first -= pass->segment[i].cache == cache ? pass->segment[i].n : 0;
	return first;
}

const struct segment* paged_next(const struct pass* pass, struct paged_walk* walk, int r, int* index) {
	for (; walk->within >= pass->segment[walk->segment].n; walk->within = 0)
		walk->segment++;
	if (walk->within == 0 && pass_appends(pass))
		walk->first = first_of(pass, walk->segment);
	*index = pass_appends(pass) ? walk->first + walk->within : pass->row[r];
	walk->within++;
	return &pass->segment[walk->segment];
}

/* Commits the first n pending rows, or those of the path, which are in order now. Other caches may find rows
 * of the full model; if the prefill has bits of its own, only whole chunks counted from 0. */
static void take_tokens(struct paged_cache* c, const int32_t* path, int n, bool prefilled) {
	struct cache* cache = &c->head;
	const bool found = cache->backend->prefill_is_exact ||
	                   (prefilled && n == PREFILL_CHUNK && cache->committed % PREFILL_CHUNK == 0);
	assert(cache->committed + n <= cache->capacity);
	for (int j = 0; j < n; j++) {
		const struct pending_row* row = &c->row[path ? path[j] : j];
		c->token[cache->committed] = row->token;
		c->clean += found && c->clean == cache->committed && row->skipped == NOTHING_SKIPPED;
		cache->committed++;
	}
	paged_discard(cache);
	name_pages(c);
}

void paged_end(const struct pass* pass, bool done) {
	for (int i = 0; i < pass->n_segments; i++)
		if (!done)
			paged_discard(pass->segment[i].cache);
		else if (pass->kind == PASS_PREFILL)
			take_tokens(paged_cache_of(pass->segment[i].cache), NULL, pass->segment[i].n, true);
}

int paged_ancestors(const struct paged_cache* c, int row, int32_t* slot) {
	const int n = c->row[row].depth + 1;
	for (int i = n - 1, at = row; i >= 0; i--, at = c->row[at].parent)
		slot[i] = c->head.committed + at;
	return n;
}

int paged_generated(const struct paged_cache* c, int row, int prompt, int32_t* token) {
	const int base = c->row[row].base, n = c->row[row].depth + 1 - (prompt > base ? prompt - base : 0);
	for (int i = n - 1, at = row; i >= 0; i--, at = c->row[at].parent)
		token[i] = c->row[at].token;
	return n > 0 ? n : 0;
}

bool paged_moves(const struct paged_cache* c, const int32_t* path, int n) {
	bool moves = false;
	(void)c;
	assert(n >= 0 && n <= c->head.pending && c->head.committed + n <= c->head.capacity);
	for (int j = 0; j < n; j++) {
		assert(path[j] >= j && path[j] < c->head.pending && c->row[path[j]].base == c->head.committed);
		assert(c->row[path[j]].parent == (j ? path[j - 1] : -1));
		moves = moves || path[j] != j;
	}
	return moves;
}

void paged_commit(struct paged_cache* c, const int32_t* path, int n) { take_tokens(c, path, n, false); }

/* Keeps the page that the next row goes to. */
void paged_discard(struct cache* cache) {
	cache->pending = 0;
	give_back(paged_cache_of(cache), cache->committed / PAGE_SLOTS + 1);
}

bool paged_rewind(struct cache* cache, int sub_layer) {
	struct paged_cache* c = paged_cache_of(cache);
	if (sub_layer % 2 && cache->backend->weights->shape.parallel)
		return false;
	for (int i = 0; i < cache->pending; i++)
		if (c->row[i].at != sub_layer || c->row[i].skipped < sub_layer)
			return false;
	for (int i = 0; i < cache->pending; i++)
		c->row[i].skipped = NOTHING_SKIPPED;
	return true;
}

void paged_truncate(struct cache* cache, int committed) {
	struct paged_cache* c = paged_cache_of(cache);
	assert(committed >= 0 && committed <= cache->committed);
	cache->committed = committed;
	c->lowest = least(c->lowest, committed);
	c->clean = c->clean < committed ? c->clean : committed;
	c->named = c->named < committed / PAGE_SLOTS ? c->named : committed / PAGE_SLOTS;
	cache->pending = 0;
	give_back(c, pages_for(committed));
}
