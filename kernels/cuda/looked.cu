/* Attention mass of the target's rows by page, and the lists that are made of it (kernels/cpu/looked.c has
 * the idea).
 *
 * Attention leaves each noted row's weights by block of the model, key head and page (attention.cu). One
 * launch after the pass adds them to the caches' sums, rows and heads in order, so that the bits depend on
 * nothing else. It is no part of a captured pass: a pass without noted rows has none. The sums go to the host
 * when a list is made, and the list goes to the device with the slice of each pass that reads it. */
#include <assert.h>
#include <string.h>

#include "kernels/cuda/cuda.cuh"

/* Tokens that have left the text have no attention mass. Sums lie by page, so those of the pages from one on
 * lie together. */
static void forget_dropped(const struct cuda_backend* b, struct cuda_cache* c) {
	const int lowest = c->paged.lowest;
	const size_t from = (size_t)(lowest / LIST_POSITIONS) * (size_t)b->shape.n_blocks * sizeof(float);
	c->paged.lowest = INT32_MAX;
	if (lowest == INT32_MAX)
		return;
	cudaMemsetAsync((char*)c->mass + from, 0, mass_bytes(b) - from, b->stream);
	if (lowest == 0)
		c->noted = 0;
}

/* ---- noting --------------------------------------------------------------------------------- */

void note_row(const struct cuda_backend* b, const struct segment* segment, int behind,
              struct device_row* row) {
	struct cuda_cache* c = (struct cuda_cache*)segment->cache;
	struct device_slice* s = b->staging;
	if (!segment->noted || segment->pages || !c->mass || behind >= NOTED_ROWS || s->noted == NOTED_ROWS)
		return;
	forget_dropped(b, c);
	c->noted++;
	row->noted = s->noted++;
	row->mass = c->mass;
}

/* A thread has one page in one block of the model, and all rows of it. */
__global__ void add_looked_kernel(const float* looked, int kv_heads, int blocks, int first, int pages,
                                  struct block_set unlisted, const struct device_slice* s) {
	const int block = first + (int)blockIdx.y, page = (int)(blockIdx.x * blockDim.x + threadIdx.x);
	if (leaves_out(s, 2 * block) || (unlisted.word[block >> 6] >> (block & 63) & 1u))
		return;
	for (int r = 0; r < s->n; r++) {
		const struct device_row& row = s->row[r];
		if (row.noted < 0 || page > row.position / LIST_POSITIONS)
			continue;
		const size_t at = ((size_t)block * NOTED_ROWS + row.noted) * kv_heads;
		float* mass = &row.mass[(size_t)page * blocks + block];
		float sum = *mass * MASS_KEPT;
		for (int h = 0; h < kv_heads; h++)
			sum += looked[(at + h) * pages + page];
		*mass = sum;
	}
}

/* Blocks that read no lists: those with a window, and recurrent ones. */
static struct block_set unlisted_blocks(const struct model_shape* m) {
	struct block_set set = m->recurrent;
	for (int i = 0; i < MAX_BLOCKS / 64 && m->sliding_window > 0; i++)
		set.word[i] |= m->sliding.word[i];
	return set;
}

void launch_looked(const struct cuda_backend* b, const struct pass* pass) {
	enum { THREADS = 64 };
	const struct model_shape* m = &b->shape;
	const struct device_slice* s = b->staging;
	const int first = (pass->first + 1) / 2, end = (pass->last + 1) / 2;
	if (s->noted == 0 || first >= end)
		return;
	const dim3 grid((unsigned)(s->chunks * CHUNK_PAGES + THREADS - 1) / THREADS, (unsigned)(end - first));
	add_looked_kernel<<<grid, THREADS, 0, b->stream>>>(b->work.looked, m->kv_heads, m->n_blocks, first,
	                                                   look_pages(b), unlisted_blocks(m), b->slice);
}

/* ---- listing -------------------------------------------------------------------------------- */

bool cuda_list_pages(struct cache* cache, int budget, int32_t* page, struct page_list* list) {
	struct cuda_cache* c = (struct cuda_cache*)cache;
	const struct cuda_backend* b = (const struct cuda_backend*)cache->backend;
	const size_t blocks = (size_t)b->shape.n_blocks;
	if (devices_gone(b) || cudaSetDevice(b->device) != cudaSuccess)
		return false;
	forget_dropped(b, c);
	if (!can_list(cache, budget) || c->noted == 0)
		return false;
	const size_t bytes = (size_t)pages_to_list(cache) * blocks * sizeof(float);
	if (cudaMemcpyAsync(b->host_mass, c->mass, bytes, cudaMemcpyDeviceToHost, b->stream) != cudaSuccess ||
	    cudaStreamSynchronize(b->stream) != cudaSuccess)
		return false; /* the next pass reports it */
	page_list_fill(cache, {b->host_mass, blocks, 1}, budget, page, list);
	return true;
}

/* ---- reading -------------------------------------------------------------------------------- */

size_t put_page_list(const struct cuda_backend* b, const struct page_list* list, size_t at,
                     struct device_row* row) {
	if (!list)
		return 0;
	const size_t bytes = (size_t)b->shape.n_blocks * (size_t)list->n * sizeof *list->page;
	assert(is_alone(b) && list->n <= MAX_LISTED + 1 && list->n * LIST_POSITIONS <= list->from);
	row->list = (int)at;
	row->listed = list->n;
	row->listed_from = list->from;
	memcpy((char*)b->staging + at, list->page, bytes);
	return bytes;
}
