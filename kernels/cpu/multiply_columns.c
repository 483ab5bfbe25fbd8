/* Products of activation rows with quantized draft weights by input channel, cut by lines for the pool.
 *
 * Each row first chooses the channels that it keeps. Some lines are then multiplied with several rows at a
 * time. How lines are cut over threads changes no bits. */
#include "kernels/cpu/cpu.h"

#include <assert.h>
#include <stdlib.h>

/* ---- which channels ------------------------------------------------------------------------- */

static size_t round_up_line(size_t bytes) { return (bytes + 63) / 64 * 64; }

bool column_lists_open(struct cpu_backend* b, const struct column_weights* weights) {
	int channels = 0;
	for (int i = 0; i < weights->n_blocks * COLUMN_KINDS; i++) {
		const int here = weights->block[i / COLUMN_KINDS].map[i % COLUMN_KINDS].map.channels;
		channels = here > channels ? here : channels;
	}
	const size_t room = column_list_room(channels), values = round_up_line(room * sizeof(float));
	const size_t groups = round_up_line((size_t)column_groups((int)room) * sizeof(float));
	const size_t row = round_up_line(room * sizeof(uint16_t)) + values + groups, n = (size_t)b->slice_rows;
	free(b->lists_memory);
	b->lists_memory = aligned_alloc(64, n * row);
	for (size_t i = 0; b->lists_memory && i < n; i++) {
		unsigned char* at = (unsigned char*)b->lists_memory + i * row;
		b->list[i] = (struct column_list){.value = (float*)(void*)at,
		                                  .step = (float*)(void*)(at + values),
		                                  .channel = (uint16_t*)(void*)(at + values + groups)};
	}
	return b->lists_memory != NULL;
}

struct list_job {
	struct cpu_backend* b;
	const struct column_map* map;
	const float* x;
	float share;
};

static void list_row(void* user, int i, int thread) {
	(void)thread;
	const struct list_job* job = user;
	const float* x = job->x + (size_t)i * (size_t)job->map->channels;
	struct column_list* list = &job->b->list[i];
	const float threshold = column_threshold(job->map, x, job->share);
	column_finish(job->map, list,
	              job->b->kernels->column_keep(job->map, x, threshold, list->channel, list->value));
}

/* ---- products ------------------------------------------------------------------------------- */

struct column_job {
	const struct cpu_kernels* kernels;
	const struct column_map* map;
	const struct column_list* list;
	const struct product* product;
	int count, n;
	int parts; /* of each tile */
};

/* Outputs from `begin` on go to the products that they are of. */
static void give_outputs(const struct column_job* job, int64_t begin, int64_t left, int row,
                         const float* from) {
	for (int p = 0; p < job->count && left > 0; p++) {
		const struct product* product = &job->product[p];
		const int64_t rows = product->w->rows;
		if (begin < rows) {
			const int64_t some = rows - begin < left ? rows - begin : left;
			memcpy(product->out + (size_t)row * product->stride + begin, from, (size_t)some * sizeof *from);
			from += some;
			left -= some;
			begin += some;
		}
		begin -= rows;
	}
}

enum { ROWS_TOGETHER = 4 };

static void column_part(void* user, int part, int thread) {
	(void)thread;
	const struct column_job* job = user;
	const int64_t t = part / job->parts, i = part % job->parts;
	const struct column_span tile = column_tile(job->map->outputs, t);
	const int64_t first = tile.lines * i / job->parts, end = tile.lines * (i + 1) / job->parts;
	const struct column_span span = {tile.line + first, (int)(end - first)};
	_Alignas(64) float out[ROWS_TOGETHER][COLUMN_TILE_LINES * COLUMN_OUTPUTS];
	for (int r = 0; span.lines > 0 && r < job->n; r += ROWS_TOGETHER) {
		const int some = job->n - r < ROWS_TOGETHER ? job->n - r : ROWS_TOGETHER;
		job->kernels->column_product(out[0], COLUMN_TILE_LINES * COLUMN_OUTPUTS, job->map, t, span,
		                             job->list + r, some);
		for (int k = 0; k < some; k++)
			give_outputs(job, span.line * COLUMN_OUTPUTS, (int64_t)span.lines * COLUMN_OUTPUTS, r + k,
			             out[k]);
	}
}

/* Parts of a tile: one, unless threads would then have unequal shares. */
static int count_parts(const struct cpu_backend* b, int64_t tiles) {
	int parts = 1;
	while (parts < COLUMN_TILE_LINES && tiles * parts % b->threads && tiles * parts < 4 * b->threads)
		parts++;
	return parts;
}

void multiply_columns(struct cpu_backend* b, const float* x, int n, const struct block_map* m, float share,
                      const struct product* product, int count) {
	assert(n >= 1 && n <= b->slice_rows && count == m->n_matrices);
	struct list_job lists = {.b = b, .map = &m->map, .x = x, .share = share};
	spread(b, n, (double)n * m->map.channels * 16, list_row, &lists);
	const int64_t tiles = column_tiles(m->map.outputs);
	struct column_job job = {.kernels = b->kernels,
	                         .map = &m->map,
	                         .list = b->list,
	                         .product = product,
	                         .count = count,
	                         .n = n,
	                         .parts = count_parts(b, tiles)};
	spread(b, (int)tiles * job.parts, (double)block_map_bytes(m) * (double)share * n, column_part, &job);
}
