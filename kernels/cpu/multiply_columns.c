/* Products of activation rows with quantized draft weights by input channel, cut into tiles for the pool.
 *
 * Each row first says which channels it keeps. A tile is then multiplied with all rows: what one of them has
 * read lies in the cache for the next. How tiles are cut over threads changes no bits. */
#include "kernels/cpu/cpu.h"

#include <assert.h>
#include <stdlib.h>

/* ---- which channels ------------------------------------------------------------------------- */

static size_t round_up_line(size_t bytes) { return (bytes + 63) / 64 * 64; }

bool column_lists_open(struct cpu_backend* b, const struct column_copy* copy) {
	int channels = 0;
	for (int i = 0; i < copy->n_blocks * COLUMN_KINDS; i++) {
		const int here = copy->block[i / COLUMN_KINDS].map[i % COLUMN_KINDS].map.channels;
		channels = here > channels ? here : channels;
	}
	const size_t room = column_list_room(channels), places = round_up_line(room * sizeof(uint32_t));
	const size_t groups = round_up_line((size_t)column_groups((int)room) * sizeof(float));
	const size_t row = round_up_line(room * sizeof(uint16_t)) + 2 * places + groups,
	             n = (size_t)b->slice_rows;
	free(b->lists_memory);
	b->lists_memory = aligned_alloc(64, n * row);
	for (size_t i = 0; b->lists_memory && i < n; i++) {
		unsigned char* at = (unsigned char*)b->lists_memory + i * row;
		b->list[i] = (struct column_list){.place = (uint32_t*)(void*)at,
		                                  .value = (float*)(void*)(at + places),
		                                  .step = (float*)(void*)(at + 2 * places),
		                                  .channel = (uint16_t*)(void*)(at + 2 * places + groups)};
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
	int count, n, tiles_a_part;
};

/* A tile's outputs go to the products that they are of. */
static void give_outputs(const struct column_job* job, int64_t tile, int row, const float* from) {
	int64_t begin = tile * COLUMN_OUTPUTS, left = COLUMN_OUTPUTS;
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

static void column_part(void* user, int part, int thread) {
	(void)thread;
	const struct column_job* job = user;
	const int64_t tiles = column_tiles(job->map->outputs), first = (int64_t)part * job->tiles_a_part;
	const int64_t end = first + job->tiles_a_part < tiles ? first + job->tiles_a_part : tiles;
	float out[COLUMN_OUTPUTS];
	for (int64_t tile = first; tile < end; tile++)
		for (int i = 0; i < job->n; i++) {
			job->kernels->column_product(out, COLUMN_OUTPUTS, job->map, tile, &job->list[i], 1);
			give_outputs(job, tile, i, out);
		}
}

/* Enough parts that threads end together, few enough that a part's lines follow one another */
enum { PARTS_A_THREAD = 4 };

void multiply_columns(struct cpu_backend* b, const float* x, int n, const struct block_map* m, float share,
                      const struct product* product, int count) {
	assert(n >= 1 && n <= b->slice_rows && count == m->n_matrices);
	struct list_job lists = {.b = b, .map = &m->map, .x = x, .share = share};
	spread(b, n, (double)n * m->map.channels * 16, list_row, &lists);
	const int64_t tiles = column_tiles(m->map.outputs), parts = (int64_t)b->threads * PARTS_A_THREAD;
	struct column_job job = {.kernels = b->kernels,
	                         .map = &m->map,
	                         .list = b->list,
	                         .product = product,
	                         .count = count,
	                         .n = n,
	                         .tiles_a_part = (int)((tiles + parts - 1) / parts)};
	spread(b, (int)((tiles + job.tiles_a_part - 1) / job.tiles_a_part),
	       (double)block_map_bytes(m) * (double)share * n, column_part, &job);
}
