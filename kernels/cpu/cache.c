/* One sequence's keys and values, its committed tokens and the tree of pending rows.
 *
 * Memory is taken once and zero, so that the system gives pages only where tokens have been. Nothing is
 * ever cloned: commit moves the kept path's rows down over the others, everything else is a counter. */
#include "kernels/cpu/cpu.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static bool sizes(struct cpu_cache* c, const struct model_shape* s, size_t* store) {
	const size_t element = c->head.type == DTYPE_F16 ? 2 : 4;
	c->slot_bytes = element * (size_t)s->head_dim;
	return !__builtin_mul_overflow(c->slot_bytes, (size_t)c->slots, &c->head_bytes) &&
	       !__builtin_mul_overflow(c->head_bytes, (size_t)s->kv_heads, &c->block_bytes) &&
	       !__builtin_mul_overflow(c->block_bytes, (size_t)s->n_blocks, store) && *store <= SIZE_MAX / 4;
}

struct cache* cpu_cache_open(struct backend* backend, int capacity, enum dtype type, struct error* error) {
	const struct cpu_backend* b = cpu_of(backend);
	const struct model_shape* s = &backend->weights->shape;
	if (type != DTYPE_F16 && type != DTYPE_F32) {
		error_set(error, "a cache of type %s was asked for; the CPU keeps f16 or f32", dtype_name(type));
		return NULL;
	}
	if (capacity < 1 || capacity > b->context) {
		error_set(error, "a cache of %d tokens was asked for; the backend was opened for 1 to %d", capacity,
		          b->context);
		return NULL;
	}
	struct cpu_cache* c = calloc(1, sizeof *c);
	if (!c) {
		error_set(error, "out of memory for a cache");
		return NULL;
	}
	c->head.backend = backend;
	c->head.capacity = capacity;
	c->head.type = type;
	c->slots = capacity + MAX_ROWS;
	size_t store = 0;
	if (sizes(c, s, &store)) {
		c->keys = calloc(store, 1);
		c->values = calloc(store, 1);
		c->hidden = calloc((size_t)MAX_ROWS * (size_t)s->dim, sizeof(float));
	}
	if (!c->keys || !c->values || !c->hidden) {
		error_set(error, "out of memory for a cache of %d tokens (%zu MiB of keys and values)", capacity,
		          store / 524288);
		cpu_cache_close(&c->head);
		return NULL;
	}
	c->head.bytes = 2 * store;
	return &c->head;
}

void cpu_cache_close(struct cache* cache) {
	if (!cache)
		return;
	struct cpu_cache* c = (struct cpu_cache*)cache;
	free(c->keys);
	free(c->values);
	free(c->hidden);
	free(c);
}

/* Moves the rows at the path's slots to the slots after the committed ones. A path ascends, so a row
 * never lands on one that is still to be moved. */
static void compact(const struct cpu_cache* c, unsigned char* head, const int32_t* path, int n) {
	unsigned char* first = head + (size_t)c->head.committed * c->slot_bytes;
	for (int j = 0; j < n; j++)
		if (path[j] != j)
			memcpy(first + (size_t)j * c->slot_bytes, first + (size_t)path[j] * c->slot_bytes, c->slot_bytes);
}

static bool in_place(const int32_t* path, int n) {
	for (int j = 0; j < n; j++)
		if (path[j] != j)
			return false;
	return true;
}

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
				compact(c, cache_rows(c, c->keys, i, h), path, n);
				compact(c, cache_rows(c, c->values, i, h), path, n);
			}
	cache->committed += n;
	cache->pending = 0;
}

void cpu_discard(struct cache* cache) { cache->pending = 0; }

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
	assert(committed >= 0 && committed <= cache->committed);
	cache->committed = committed;
	cache->pending = 0;
}
