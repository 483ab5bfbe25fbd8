/* Keys and values of sequences in the host's memory, in pages (kernels/paged_cache.h). */
#include "kernels/cpu/cpu.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct page_pool* pool_of(struct cpu_backend* b, enum dtype type) {
	return &b->pages[type == DTYPE_F32 ? 0 : type == DTYPE_F16 ? 1 : 2];
}

static bool check_cache(const struct cpu_backend* b, int capacity, enum dtype type, struct error* error) {
	const struct model_shape* s = &b->head.weights->shape;
	const int full = s->full_head_dim ? s->full_head_dim : s->head_dim;
	const int head_dim = dtype_row_bytes(type, s->head_dim) == 0 ? s->head_dim : full;
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

/* Blocks that keep keys and values follow one another. */
static bool place_block(struct cpu_cache* c, const struct model_shape* s, int b, enum dtype type,
                        size_t* page_bytes) {
	struct block_place* p = &c->place[b];
	const int from = block_keys_of(s, b);
	if (block_set_has(&s->recurrent, b) || s->keys_outside) /* it has no keys */
		return true;
	if (from != b) {
		*p = c->place[from];
		return true;
	}
	p->at = *page_bytes;
	p->slot_bytes = dtype_row_bytes(type, block_head_dim(s, b));
	if (__builtin_mul_overflow(p->slot_bytes, (size_t)PAGE_SLOTS, &p->head_bytes) ||
	    __builtin_mul_overflow(p->head_bytes, (size_t)block_kv_heads(s, b), &p->half) ||
	    __builtin_add_overflow(p->at, p->half, page_bytes))
		return false;
	if (s->latent) { /* keys are values */
		p->half = 0;
		return true;
	}
	return !__builtin_add_overflow(*page_bytes, p->half, page_bytes);
}

static bool set_sizes(struct cpu_cache* c, const struct model_shape* s, int capacity, enum dtype type,
                      size_t* page_bytes) {
	enum { SMALLEST = 64 }; /* a page that holds nothing, which no pool takes */
	size_t most;
	for (int b = 0; b < s->n_blocks; b++)
		if (!place_block(c, s, b, type, page_bytes))
			return false;
	if (*page_bytes == 0)
		*page_bytes = SMALLEST;
	return !__builtin_mul_overflow(*page_bytes, (size_t)paged_most(capacity), &most) && most <= SIZE_MAX / 4;
}

/* Zero, so that the system gives memory of its own only where tokens have been: in large pages of its own,
 * where it can, since attention goes through all of it in pieces of a few kilobytes. */
static void* take_memory(void* user, size_t bytes) {
	enum { LARGE_PAGE = 1 << 21 };
	unsigned char* taken = calloc(1, bytes);
	(void)user;
#ifdef MADV_HUGEPAGE
	const size_t skip = LARGE_PAGE - (uintptr_t)taken % LARGE_PAGE;
	if (taken && bytes > skip + LARGE_PAGE)
		(void)madvise(taken + skip, (bytes - skip) / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
#endif
	return taken;
}

static void give_memory_back(void* user, void* taken) {
	(void)user;
	free(taken);
}

static void copy_page(void* user, void* to, const void* from, size_t bytes) {
	(void)user;
	memcpy(to, from, bytes);
}

static bool open_pool(struct page_pool* pool, const struct cpu_backend* b, size_t page_bytes,
                      struct error* error) {
	const struct page_memory memory = {
	    .page_bytes = page_bytes, .take = take_memory, .give_back = give_memory_back, .copy = copy_page};
	return pool->page_bytes > 0 || pages_open(pool, &memory, 1, b->cache_bytes) ||
	       error_set(error, "out of memory for %zu MiB of caches", b->cache_bytes >> 20);
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
	struct page_pool* pool = pool_of(b, type);
	size_t page_bytes = 0;
	c->hidden = calloc(MAX_ROWS * (size_t)s->dim, sizeof(float));
	c->beside = attention_beside(s) ? calloc(MAX_ROWS * (size_t)s->dim, sizeof(float)) : NULL;
	const size_t states = MAX_ROWS * (size_t)s->altup * (size_t)s->dim;
	c->altup = states ? calloc(states, sizeof(float)) : NULL;
	c->paged.head.backend = backend;
	if (!set_sizes(c, s, capacity, type, &page_bytes))
		error_set(error, "a cache of %d tokens is too large", capacity);
	else if (!c->hidden || (attention_beside(s) && !c->beside) || (states && !c->altup) ||
	         !recurrent_open_cache(c))
		error_set(error, "out of memory for a cache of %d tokens", capacity);
	else if (open_pool(pool, b, page_bytes, error) &&
	         paged_open(&c->paged, backend, capacity, type, pool, error)) {
		c->paged.head.bytes += recurrent_bytes(s);
		c->wants_kept = b->recurrent.blocks > 0 && kept_states_want(&b->kept);
		if (c->wants_kept == (b->recurrent.blocks > 0) && looked_open(c, b))
			return &c->paged.head;
		error_set(error, "out of memory for a cache of %d tokens", capacity);
	}
	cpu_cache_close(&c->paged.head);
	return NULL;
}

void cpu_cache_close(struct cache* cache) {
	if (!cache)
		return;
	struct cpu_cache* c = (struct cpu_cache*)cache;
	paged_close(&c->paged);
	if (c->wants_kept)
		kept_states_want_no_more(&cpu_of(cache->backend)->kept);
	looked_close(c);
	recurrent_close_cache(c);
	free(c->hidden);
	free(c->beside);
	free(c->altup);
	free(c);
}

/* ---- rows --------------------------------------------------------------------------------- */

/* Moves the keys at the path's slots to the slots after the committed ones. */
static void compact_keys(const struct cpu_cache* c, size_t head, int head_dim, const int32_t* path, int n) {
	const int first = c->paged.head.committed;
	for (int j = 0; j < n; j++)
		if (path[j] != j)
			key_copy(c->paged.head.type, page_at(c, head, first + j), (first + j) % PAGE_SLOTS,
			         page_at(c, head, first + path[j]), (first + path[j]) % PAGE_SLOTS, head_dim);
}

/* And the values, or keys that are values. */
static void compact_values(const struct cpu_cache* c, int b, size_t head, const int32_t* path, int n) {
	const int first = c->paged.head.committed;
	for (int j = 0; j < n; j++)
		if (path[j] != j)
			memcpy(slot_at(c, b, head, first + j), slot_at(c, b, head, first + path[j]),
			       c->place[b].slot_bytes);
}

void cpu_commit(struct cache* cache, const int32_t* path, int n) {
	struct cpu_cache* c = (struct cpu_cache*)cache;
	const struct model_shape* s = &cache->backend->weights->shape;
	recurrent_commit(c, path, n);
	recurrent_discard(c);
	if (paged_moves(&c->paged, path, n))
		for (int i = 0; i < s->n_blocks; i++)
			for (int h = 0;
			     h < block_kv_heads(s, i) && block_keys_of(s, i) == i && !block_set_has(&s->recurrent, i);
			     h++) {
				compact_values(c, i, values_at(c, i, h), path, n);
				if (!s->latent)
					compact_keys(c, keys_at(c, i, h), block_head_dim(s, i), path, n);
			}
	paged_commit(&c->paged, path, n);
	recurrent_keep(c);
}

void cpu_discard(struct cache* cache) {
	recurrent_discard((struct cpu_cache*)cache);
	paged_discard(cache);
}

void cpu_truncate(struct cache* cache, int committed) {
	paged_truncate(cache, recurrent_go_back((struct cpu_cache*)cache, committed));
}

/* The cache's own text goes on from its last token alone, and any text from where a state is kept. */
int cpu_adopt_states(struct cache* cache, const int32_t* token, int n) {
	struct cpu_cache* c = (struct cpu_cache*)cache;
	const struct known_text known = paged_know(&c->paged, token, n);
	int own = 0;
	while (own < n && own < cache->committed && c->paged.token[own] == token[own])
		own++;
	c->recurrent.branch = known.branch;
	if (own == cache->committed && own >= known.kept) {
		cpu_truncate(cache, own);
		return own;
	}
	paged_truncate(cache, 0); /* named pages are found again */
	paged_adopt(cache, token, known.kept);
	assert(cache->committed == known.kept);
	recurrent_take_kept(c);
	return cache->committed;
}
