/* Products of activation rows with quantized draft weights by input channel, cut by lines for the pool.
 *
 * Each row first chooses the channels that it keeps. Some lines are then multiplied with several rows at a
 * time. How lines are cut over threads changes no bits. */
#include "kernels/cpu/cpu.h"

#include <assert.h>
#include <stdlib.h>

#include "kernels/cpu/matmul.h"

/* ---- which channels ------------------------------------------------------------------------- */

/* Several rows' lists are made by all threads, and each then reads them. Of a single row each thread lists
 * for itself what it needs: that is no longer than waiting for the other threads, and one that wrote a list
 * last in its own cache need not fetch it from another's. */

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
	const size_t half = round_up_line(room * sizeof(uint16_t)) + 2 * values + groups;
	const size_t second = FEW_OUTPUTS * sizeof(float);
	const size_t n = (size_t)(b->slice_rows > b->threads ? b->slice_rows : b->threads);
	free(b->lists_memory);
	b->lists_memory = aligned_alloc(64, n * (sizeof *b->list + second + 2 * half));
	b->list = b->lists_memory;
	b->second_halves = b->list ? (float*)(void*)(b->list + n) : NULL;
	for (size_t i = 0; b->list && i < 2 * n; i++) {
		unsigned char* at = (unsigned char*)b->second_halves + n * second + i * half;
		b->list[i / 2].made[i % 2] = b->list[i / 2].limited = 0;
		b->list[i / 2].half[i % 2] =
		    (struct column_list){.value = (float*)(void*)at,
		                         .size = (float*)(void*)(at + values),
		                         .step = (float*)(void*)(at + 2 * values),
		                         .channel = (uint16_t*)(void*)(at + 2 * values + groups)};
	}
	return b->lists_memory != NULL;
}

struct list_job {
	struct cpu_backend* b;
	const struct column_map* map;
	const float* x;
	float share;
};

static float threshold_of(const struct list_job* job, const float* x) {
	return job->b->kernels->column_threshold(job->map, x, job->share);
}

static void list_half(const struct list_job* job, const float* x, float threshold, int half,
                      struct column_list* list) {
	const struct column_range range = column_half(job->map->channels, half);
	column_finish(list, job->b->kernels->column_keep(job->map, range, x, threshold, list));
}

static void list_half_of_row(void* user, int i, int thread) {
	(void)thread;
	const struct list_job* job = user;
	const float* x = job->x + (size_t)(i / 2) * (size_t)job->map->channels;
	list_half(job, x, threshold_of(job, x), i % 2, &job->b->list[i / 2].half[i % 2]);
}

/* A single row's, once for each thread that asks */
static const struct column_list* own_list(const struct list_job* job, int half, int thread) {
	struct row_lists* own = &job->b->list[thread];
	const uint64_t now = job->b->column_products;
	if (own->limited != now)
		own->threshold = threshold_of(job, job->x);
	if (own->made[half] != now)
		list_half(job, job->x, own->threshold, half, &own->half[half]);
	own->limited = own->made[half] = now;
	return &own->half[half];
}

/* ---- products ------------------------------------------------------------------------------- */

struct column_job {
	const struct cpu_kernels* kernels;
	const struct column_map* map;
	const struct list_job* lists;
	const struct product* product;
	const struct column_map* next; /* the map that the step multiplies next, or NULL */
	float* second; /* (n, FEW_OUTPUTS) the second half's products, where a part has one half */
	int count, n;
	int cut;   /* 2: a part has one half; 1: it has both */
	int parts; /* of each tile */
	int all_parts;
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
                      int n, int thread) {
	_Alignas(64) float out[ROWS_TOGETHER][COLUMN_TILE_LINES * COLUMN_OUTPUTS];
	struct column_list list[ROWS_TOGETHER];
	const int64_t begin = span.line * COLUMN_OUTPUTS, outputs = (int64_t)span.lines * COLUMN_OUTPUTS;
	for (int k = 0; k < n; k++)
		list[k] = job->n == 1 ? *own_list(job->lists, half, thread) : job->lists->b->list[r + k].half[half];
	job->kernels->column_product(out[0], COLUMN_TILE_LINES * COLUMN_OUTPUTS, job->map, tile, span, list, n);
	for (int k = 0; k < n; k++)
		if (half == 0 || job->cut == 1)
			give_outputs(job, begin, outputs, r + k, out[k], half == 1);
		else
			memcpy(job->second + (size_t)(r + k) * FEW_OUTPUTS + begin, out[k],
			       (size_t)outputs * sizeof **out);
}

/* Fetches what listing the next map's channels reads, part i of n. Otherwise that would wait for memory. */
static void fetch_next(const struct column_map* map, int i, int n) {
	const int begin = (int)((int64_t)map->channels * i / n),
	          end = (int)((int64_t)map->channels * (i + 1) / n);
	for (int j = begin; j < end; j += COLUMN_LINE / 2)
		fetch_line(map->norm + j, true);
	for (int j = begin; j < end; j += COLUMN_LINE)
		fetch_line(map->peak + j, true);
}

static void column_part(void* user, int part, int thread) {
	const struct column_job* job = user;
	if (job->next)
		fetch_next(job->next, part, job->all_parts);
	const int i = part / job->cut % job->parts, half = part % job->cut;
	const int64_t t = part / job->cut / job->parts;
	const struct column_span tile = column_tile(job->map->outputs, t);
	const int64_t first = tile.lines * i / job->parts, end = tile.lines * (i + 1) / job->parts;
	const struct column_span span = {tile.line + first, (int)(end - first)};
	for (int r = 0; span.lines > 0 && r < job->n; r += ROWS_TOGETHER) {
		const int n = job->n - r < ROWS_TOGETHER ? job->n - r : ROWS_TOGETHER;
		some_rows(job, t, span, half, r, n, thread);
		if (job->cut == 1)
			some_rows(job, t, span, 1, r, n, thread);
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
	const int64_t outputs = m->map.outputs, tiles = column_tiles(outputs);
	const int cut = column_lines(outputs) <= COLUMN_FEW_LINES ? 2 : 1;
	const int parts = count_parts(b, tiles * cut, column_tile(outputs, 0).lines);
	b->column_products++;
	/* a channel takes as long as reading some hundred bytes */
	if (n > 1)
		spread(b, 2 * n, (double)n * m->map.channels * 160, list_half_of_row, &lists);
	struct column_job job = {.kernels = b->kernels,
	                         .map = &m->map,
	                         .lists = &lists,
	                         .product = product,
	                         .second = b->second_halves,
	                         .count = count,
	                         .n = n,
	                         .cut = cut,
	                         .parts = parts,
	                         .all_parts = (int)tiles * cut * parts,
	                         .next = m->next};
	spread(b, job.all_parts, (double)block_map_bytes(m) * (double)share * n, column_part, &job);
	if (cut == 2)
		spread(b, n, (double)n * (double)outputs * 8, add_second_half, &job);
}
