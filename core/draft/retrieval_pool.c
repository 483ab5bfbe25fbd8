/* Earlier texts in two generations. The younger one grows. When it is full, the older one is dropped. */
#include "core/draft/retrieval.h"

#include <stdlib.h>

struct retrieval_pool* retrieval_pool_open(int capacity) {
	struct retrieval_pool* pool = calloc(1, sizeof *pool);
	if (!pool)
		return NULL;
	pool->capacity = capacity / POOL_GENERATIONS;
	for (int i = 0; i < POOL_GENERATIONS; i++)
		pool->generation[i] = suffix_open(pool->capacity);
	if (pool->generation[0] && pool->generation[1])
		return pool;
	retrieval_pool_close(pool);
	return NULL;
}

void retrieval_pool_close(struct retrieval_pool* pool) {
	if (!pool)
		return;
	for (int i = 0; i < POOL_GENERATIONS; i++)
		suffix_close(pool->generation[i]);
	free(pool);
}

static void begin_generation(struct retrieval_pool* pool) {
	struct suffix_index* oldest = pool->generation[1];
	pool->generation[1] = pool->generation[0];
	pool->generation[0] = oldest;
	suffix_clear(oldest);
}

void retrieval_pool_add(struct retrieval_pool* pool, const int32_t* token, int n) {
	const int from = n > pool->capacity ? n - pool->capacity : 0;
	if (suffix_size(pool->generation[0]) + n - from > pool->capacity)
		begin_generation(pool);
	suffix_break(pool->generation[0]);
	for (int i = from; i < n; i++)
		suffix_append(pool->generation[0], token[i]);
	pool->version++;
}
