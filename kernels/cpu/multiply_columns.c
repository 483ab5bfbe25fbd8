/* Products of activation rows with quantized draft weights by input channel, cut by lines for the pool.
 *
 * Each row first chooses the channels that it keeps. Some lines are then multiplied with several rows at a
 * time. How lines are cut over threads changes no bits. */
#include "kernels/cpu/cpu.h"

#include <assert.h>
#include <stdlib.h>

/* ---- which channels ------------------------------------------------------------------------- */

static size_t round_up_line(size_t bytes) { return (bytes + 63) / 64 * 64; }

/* Outputs of a map whose halves different threads multiply */
enum { FEW_OUTPUTS = COLUMN_FEW_LINES * COLUMN_OUTPUTS };

bool column_lists_open(struct cpu_backend* b, const struct column_weights* weights) {
	int channels = 0;
	for (int i = 0; i < weights->n_blocks * COLUMN_KINDS; i++) {
		const int here = weights->block[i / COLUMN_KINDS].map[i % COLUMN_KINDS].map.channels;
		channels = here > channels ? here : channels;
	}
	const size_t room = column_list_room(channels), values = round_up_line(room * sizeof(float));
	const size_t groups = round_up_line((size_t)column_groups((int)room) * sizeof(float));
	const size_t half = round_up_line(room * sizeof(uint16_t)) + values + groups;
	const size_t second = FEW_OUTPUTS * sizeof(float), n = (size_t)b->slice_rows;
	free(b->lists_memory);
	b->lists_memory = aligned_alloc(64, n * (second + 2 * half));
	b->second_halves = b->lists_memory;
	for (size_t i = 0; b->lists_memory && i < 2 * n; i++) {
		unsigned char* at = (unsigned char*)b->lists_memory + n * second + i * half;
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

/* A half of a row's channels. Both halves find the same threshold. */
static void list_half(void* user, int i, int thread) {
	(void)thread;
	const struct list_job* job = user;
	const float* x = job->x + (size_t)(i / 2) * (size_t)job->map->channels;
	struct column_list* list = &job->b->list[i];
	const float threshold = column_threshold(job->map, x, job->share);
	const struct column_range range = column_half(job->map->channels, i % 2);
	column_finish(job->map, list,
	              job->b->kernels->column_keep(job->map, range, x, threshold, list->channel, list->value));
}

/* ---- products ------------------------------------------------------------------------------- */

struct column_job {
	const struct cpu_kernels* kernels;
	const struct column_map* map;
	const struct column_list* list; /* (n, 2) */
	const struct product* product;
	float* second; /* (n, FEW_OUTPUTS) the second half's products, where a part has one half */
	int count, n;
	int cut;   /* 2: a part has one half; 1: it has both */
	int parts; /* of each tile */
};

/* Outputs from `begin` on go to the products that they are of; `add`: are added there. */
static void give_outputs(const struct column_job* job, int64_t begin, int64_t left, int row,
                         const float* from, bool add) {
	for (int p = 0; p < job->count && left > 0; p++) {
		const struct product* product = &job->product[p];
		const int64_t rows = product->w->rows;
		if (begin < rows) {
			const int64_t some = rows - begin < left ? rows - begin : left;
			float* out = product->out + (size_t)row * product->stride + begin;
			for (int64_t i = 0; i < some; i++)
				out[i] = add ? out[i] + from[i] : from[i];
			from += some;
			left -= some;
			begin += some;
		}
		begin -= rows;
	}
}

enum { ROWS_TOGETHER = 4 };

/* The products of some lines with one half of up to ROWS_TOGETHER rows' channels */
static void some_rows(const struct column_job* job, int64_t tile, struct column_span span, int half, int r,
                      int n) {
	_Alignas(64) float out[ROWS_TOGETHER][COLUMN_TILE_LINES * COLUMN_OUTPUTS];
	struct column_list list[ROWS_TOGETHER];
	const int64_t begin = span.line * COLUMN_OUTPUTS, outputs = (int64_t)span.lines * COLUMN_OUTPUTS;
	for (int k = 0; k < n; k++)
		list[k] = job->list[2 * (r + k) + half];
	job->kernels->column_product(out[0], COLUMN_TILE_LINES * COLUMN_OUTPUTS, job->map, tile, span, list, n);
	for (int k = 0; k < n; k++)
		if (half == 0 || job->cut == 1)
			give_outputs(job, begin, outputs, r + k, out[k], half == 1);
		else
			memcpy(job->second + (size_t)(r + k) * FEW_OUTPUTS + begin, out[k],
			       (size_t)outputs * sizeof **out);
}

static void column_part(void* user, int part, int thread) {
	(void)thread;
	const struct column_job* job = user;
	const int i = part / job->cut % job->parts, half = part % job->cut;
	const int64_t t = part / job->cut / job->parts;
	const struct column_span tile = column_tile(job->map->outputs, t);
	const int64_t first = tile.lines * i / job->parts, end = tile.lines * (i + 1) / job->parts;
	const struct column_span span = {tile.line + first, (int)(end - first)};
	for (int r = 0; span.lines > 0 && r < job->n; r += ROWS_TOGETHER) {
		const int n = job->n - r < ROWS_TOGETHER ? job->n - r : ROWS_TOGETHER;
		some_rows(job, t, span, half, r, n);
		if (job->cut == 1)
			some_rows(job, t, span, 1, r, n);
	}
}

static void add_second_half(void* user, int row, int thread) {
	(void)thread;
	const struct column_job* job = user;
	give_outputs(job, 0, job->map->outputs, row, job->second + (size_t)row * FEW_OUTPUTS, true);
}

/* Parts of a tile: one, unless threads would then have unequal shares of the map's pieces. */
static int count_parts(const struct cpu_backend* b, int64_t pieces, int lines) {
	int parts = 1;
	while (parts < lines && pieces * parts % b->threads && pieces * parts < 4 * b->threads)
		parts++;
	return parts;
}

void multiply_columns(struct cpu_backend* b, const float* x, int n, const struct block_map* m, float share,
                      const struct product* product, int count) {
	assert(n >= 1 && n <= b->slice_rows && count == m->n_matrices);
	struct list_job lists = {.b = b, .map = &m->map, .x = x, .share = share};
	/* a channel takes as long as reading some hundred bytes */
	spread(b, 2 * n, (double)n * m->map.channels * 160, list_half, &lists);
	const int64_t outputs = m->map.outputs, tiles = column_tiles(outputs);
	const int cut = column_lines(outputs) <= COLUMN_FEW_LINES ? 2 : 1;
	struct column_job job = {.kernels = b->kernels,
	                         .map = &m->map,
	                         .list = b->list,
	                         .product = product,
	                         .second = b->second_halves,
	                         .count = count,
	                         .n = n,
	                         .cut = cut,
	                         .parts = count_parts(b, tiles * cut, column_tile(outputs, 0).lines)};
	spread(b, (int)tiles * cut * job.parts, (double)block_map_bytes(m) * (double)share * n, column_part,
	       &job);
	if (cut == 2)
		spread(b, n, (double)n * (double)outputs * 8, add_second_half, &job);
}
