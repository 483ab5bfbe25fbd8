/* One sequence's keys and values: its committed tokens and the tree of pending rows, in pages that sequences
 * with the same beginning share (pages.h).
 *
 * Pending rows lie behind the committed tokens. Nothing is ever cloned but a shared page that a sequence goes
 * on in the middle of: commit moves the kept path's rows down over the others, everything else is a counter.
 * Keys of a model whose rotation depends on the prompt's length are not shared. */
#include "kernels/cpu/cpu.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int pages_for(int slots) { return (slots + PAGE_SLOTS - 1) / PAGE_SLOTS; }

/* Of a full context with the most pending rows, and one that is copied. */
static int most_pages(const struct cpu_cache* c) { return pages_for(c->head.capacity + MAX_ROWS) + 1; }

static bool sizes(struct cpu_cache* c, const struct model_shape* s, size_t* page_bytes) {
	c->slot_bytes = dtype_row_bytes(c->head.type, s->head_dim);
	size_t most;
	return !__builtin_mul_overflow(c->slot_bytes, (size_t)PAGE_SLOTS, &c->head_bytes) &&
	       !__builtin_mul_overflow(c->head_bytes, 2 * (size_t)s->kv_heads, &c->block_bytes) &&
	       !__builtin_mul_overflow(c->block_bytes, (size_t)s->n_blocks, page_bytes) &&
	       !__builtin_mul_overflow(*page_bytes, (size_t)most_pages(c), &most) && most <= SIZE_MAX / 4;
}

static struct page_pool* pool_of(struct cpu_backend* b, enum dtype type) {
	return &b->pages[type == DTYPE_F32 ? 0 : type == DTYPE_F16 ? 1 : 2];
}

static bool check_cache(const struct cpu_backend* b, int capacity, enum dtype type, struct error* error) {
	const int head_dim = b->head.weights->shape.head_dim;
	if (type != DTYPE_F16 && type != DTYPE_F32 && type != DTYPE_Q8_0)
		return error_set(error, "a cache of type %s was asked for; the CPU keeps f16, f32 or q8_0",
		                 dtype_name(type));
	if (dtype_row_bytes(type, head_dim) == 0)
		return error_set(error,
		                 "a cache of type %s was asked for; the model's heads of %d elements are not whole "
		                 "blocks of %d",
		                 dtype_name(type), head_dim, dtype_block(type));
	if (capacity < 1 || capacity > b->context)
		return error_set(error, "a cache of %d tokens was asked for; the backend was opened for 1 to %d",
		                 capacity, b->context);
	return true;
}

static bool open_pages(struct cpu_cache* c, struct cpu_backend* b, size_t page_bytes, struct error* error) {
	struct page_pool* pool = pool_of(b, c->head.type);
	if (pool->page_bytes == 0 && !pages_open(pool, page_bytes, b->cache_bytes))
		return error_set(error, "out of memory for %zu MiB of caches", b->cache_bytes >> 20);
	if (!pages_want(pool, most_pages(c)))
		return error_set(error, "a cache of %d tokens takes %zu MiB at most: there are %zu MiB for all",
		                 c->head.capacity, (size_t)most_pages(c) * page_bytes >> 20,
		                 b->cache_bytes ? b->cache_bytes >> 20 : (size_t)pool->made * page_bytes >> 20);
	c->pool = pool;
	return true;
}

struct cache* cpu_cache_open(struct backend* backend, int capacity, enum dtype type, struct error* error) {
	struct cpu_backend* b = cpu_of(backend);
	const struct model_shape* s = &backend->weights->shape;
	if (!check_cache(b, capacity, type, error))
		return NULL;
	struct cpu_cache* c = calloc(1, sizeof *c);
	if (!c) {
		error_set(error, "out of memory for a cache");
		return NULL;
	}
	c->head.backend = backend;
	c->head.capacity = capacity;
	c->head.type = type;
	size_t page_bytes = 0;
	if (!sizes(c, s, &page_bytes)) {
		error_set(error, "a cache of %d tokens is too large", capacity);
		cpu_cache_close(&c->head);
		return NULL;
	}
	c->page = calloc((size_t)most_pages(c), sizeof *c->page);
	c->bytes = calloc((size_t)most_pages(c), sizeof *c->bytes);
	c->token = calloc((size_t)capacity, sizeof *c->token);
	c->hidden = calloc((size_t)MAX_ROWS * (size_t)s->dim, sizeof(float));
	if (!c->page || !c->bytes || !c->token || !c->hidden)
		error_set(error, "out of memory for a cache of %d tokens", capacity);
	else if (open_pages(c, b, page_bytes, error)) {
		c->head.bytes = page_bytes * (size_t)pages_for(capacity);
		return &c->head;
	}
	cpu_cache_close(&c->head);
	return NULL;
}

/* ---- pages -------------------------------------------------------------------------------- */

static void hold(struct cpu_cache* c, int at, struct page* page) {
	c->page[at] = page;
	c->bytes[at] = page->bytes;
}

/* Gives back the pages from `from` on, the last first: what a text ends with is forgotten first. */
static void give_back(struct cpu_cache* c, int from) {
	while (c->n_pages > from)
		pages_leave(c->pool, c->page[--c->n_pages]);
	c->named = c->named < from ? c->named : from;
}

void cpu_cache_close(struct cache* cache) {
	if (!cache)
		return;
	struct cpu_cache* c = (struct cpu_cache*)cache;
	if (c->pool) {
		give_back(c, 0);
		pages_want_no_more(c->pool, most_pages(c));
	}
	free(c->page);
	free(c->bytes);
	free(c->token);
	free(c->hidden);
	free(c);
}

/* The page in whose middle the sequence goes on is its own. */
static bool own_page(struct cpu_cache* c, int at) {
	struct page* shared = c->page[at];
	if (shared->users == 1 && shared->name == 0)
		return true;
	struct page* copy = pages_take(c->pool);
	if (!copy)
		return false;
	memcpy(copy->bytes, shared->bytes, c->pool->page_bytes);
	pages_leave(c->pool, shared);
	hold(c, at, copy);
	c->named = c->named < at ? c->named : at;
	return true;
}

bool cpu_reserve(struct cache* cache, int rows) {
	struct cpu_cache* c = (struct cpu_cache*)cache;
	const int first = cache->committed / PAGE_SLOTS;
	const int wanted = pages_for(cache->committed + cache->pending + rows);
	if (first < c->n_pages && !own_page(c, first))
		return false;
	while (c->n_pages < wanted) {
		struct page* page = pages_take(c->pool);
		if (!page)
			return false;
		hold(c, c->n_pages++, page);
	}
	return true;
}

int cpu_room(const struct cache* cache) {
	const int pages = ((const struct cpu_cache*)cache)->pool->unused;
	return pages < INT32_MAX / PAGE_SLOTS ? pages * PAGE_SLOTS : INT32_MAX;
}

static bool sharable(const struct cpu_cache* c) {
	const struct model_shape* s = &c->head.backend->weights->shape;
	const enum rope_scaling every = s->rope.scaling, sliding = s->sliding_rope.scaling;
	return every != ROPE_DYNAMIC && every != ROPE_LONGROPE && sliding != ROPE_DYNAMIC &&
	       sliding != ROPE_LONGROPE;
}

/* Pages that have become full get their names, or make way for the ones that hold the same. */
static void name_pages(struct cpu_cache* c) {
	for (; (c->named + 1) * PAGE_SLOTS <= c->clean && sharable(c); c->named++) {
		const int32_t* token = c->token + c->named * PAGE_SLOTS;
		const int64_t after = c->named > 0 ? c->page[c->named - 1]->name : 0;
		struct page* same = pages_find(c->pool, after, token);
		if (!same) {
			pages_name(c->pool, c->page[c->named], after, token);
			continue;
		}
		pages_use(c->pool, same);
		pages_leave(c->pool, c->page[c->named]);
		hold(c, c->named, same);
	}
}

int cpu_adopt(struct cache* cache, const int32_t* token, int n) {
	struct cpu_cache* c = (struct cpu_cache*)cache;
	int own = 0;
	while (own < n && own < cache->committed && c->token[own] == token[own])
		own++;
	cpu_truncate(cache, own);
	for (int at = own / PAGE_SLOTS; (at + 1) * PAGE_SLOTS <= n && c->named == at; at++) {
		const int32_t* wanted = token + at * PAGE_SLOTS;
		struct page* page = pages_find(c->pool, at > 0 ? c->page[at - 1]->name : 0, wanted);
		if (!page || (at + 1) * PAGE_SLOTS > cache->capacity)
			break;
		cpu_truncate(cache, at * PAGE_SLOTS);
		pages_use(c->pool, page);
		hold(c, c->n_pages++, page);
		memcpy(c->token + at * PAGE_SLOTS, wanted, PAGE_SLOTS * sizeof *wanted);
		c->named++;
		c->clean = cache->committed = c->named * PAGE_SLOTS;
	}
	return cache->committed;
}

/* ---- rows --------------------------------------------------------------------------------- */

/* Moves the rows at the path's slots to the slots after the committed ones. A path ascends, so a row
 * never lands on one that is still to be moved. */
static void compact(const struct cpu_cache* c, size_t head, const int32_t* path, int n) {
	const int first = c->head.committed;
	for (int j = 0; j < n; j++)
		if (path[j] != j)
			memcpy(slot_at(c, head, first + j), slot_at(c, head, first + path[j]), c->slot_bytes);
}

static bool in_place(const int32_t* path, int n) {
	for (int j = 0; j < n; j++)
		if (path[j] != j)
			return false;
	return true;
}

/* The pending rows of the path, which lie in order now, are text. */
static void take_tokens(struct cpu_cache* c, const int32_t* path, int n) {
	struct cache* cache = &c->head;
	for (int j = 0; j < n; j++) {
		const struct pending_row* row = &c->row[path ? path[j] : j];
		c->token[cache->committed] = row->token;
		c->clean += c->clean == cache->committed && row->skipped == NOTHING_SKIPPED;
		cache->committed++;
	}
	cpu_discard(cache);
	name_pages(c);
}

void cpu_take_prefill(struct cache* cache, int n) { take_tokens((struct cpu_cache*)cache, NULL, n); }

void cpu_commit(struct cache* cache, const int32_t* path, int n) {
	struct cpu_cache* c = (struct cpu_cache*)cache;
	const struct model_shape* s = &cache->backend->weights->shape;
	assert(n >= 0 && n <= cache->pending && cache->committed + n <= cache->capacity);
	for (int j = 0; j < n; j++) {
		assert(path[j] >= j && path[j] < cache->pending && c->row[path[j]].base == cache->committed);
		assert(c->row[path[j]].parent == (j ? path[j - 1] : -1));
	}
	if (!in_place(path, n))
		for (int i = 0; i < s->n_blocks; i++)
			for (int h = 0; h < s->kv_heads; h++) {
				compact(c, keys_at(c, i, h), path, n);
				compact(c, values_at(c, i, h), path, n);
			}
	take_tokens(c, path, n);
}

/* The page that the next row goes to is kept. */
void cpu_discard(struct cache* cache) {
	cache->pending = 0;
	give_back((struct cpu_cache*)cache, cache->committed / PAGE_SLOTS + 1);
}

bool cpu_rewind(struct cache* cache, int sub_layer) {
	struct cpu_cache* c = (struct cpu_cache*)cache;
	for (int i = 0; i < cache->pending; i++)
		if (c->row[i].at != sub_layer || c->row[i].skipped < sub_layer)
			return false;
	for (int i = 0; i < cache->pending; i++)
		c->row[i].skipped = NOTHING_SKIPPED;
	return true;
}

void cpu_truncate(struct cache* cache, int committed) {
	struct cpu_cache* c = (struct cpu_cache*)cache;
	assert(committed >= 0 && committed <= cache->committed);
	cache->committed = committed;
	c->clean = c->clean < committed ? c->clean : committed;
	c->named = c->named < committed / PAGE_SLOTS ? c->named : committed / PAGE_SLOTS;
	cache->pending = 0;
	give_back(c, pages_for(committed));
}
