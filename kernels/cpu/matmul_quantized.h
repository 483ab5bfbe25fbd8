/* Products with quantized weights, written once over a vector type.
 *
 * Included by one source file an instruction set, which defines before it:
 *   ints, LANES             a vector of integers; its 32-bit lanes, which are the weight rows of a tile
 *   SLOTS, SUPER_SLOTS      sums an element has, of blocks of 32 and of blocks of 256
 *   GROUP_ROWS              activation rows whose integers fit the registers
 *   TILES                   tiles that meet them at once: what is sent to the lanes serves all
 *   SIGNED_BYTES            whether bytes that want a sign (q8_0, iq4) are stored with it, or plus 128
 *   ints_ ...               the operations on ints below, floats_from_halves
 * and after it:
 *   quantized_run           multiplies a piece of the tiles with a group of activation rows
 *
 * LANES weight rows are unpacked together, one row in each lane. A vector holds four neighbouring columns of
 * every row. One instruction multiplies them with four columns of an activation row, which are sent to all
 * lanes. So nothing has to be added up across lanes. A block's scales and minima lie in vectors, too, and
 * serve a whole tile at once. A piece of the columns is unpacked into the first-level cache, and all
 * activation rows use it. The loads are short and jump from row to row. So the lines of the next tile are
 * fetched ahead one after another, which is the fastest order for memory.
 *
 * A block's integers are added up exactly. An element has `slots` sums: block b goes to sum b mod slots, in
 * ascending order, and at the end halves are added to halves. Pieces, tiles, groups and rows change no bit.
 */
#include "kernels/cpu/quantized_take.h"

/* Places by value: what is stored cannot change them. */
INLINED void take_piece(enum dtype type, bool interleaved, struct tile* out, struct rows rows, int columns) {
	const size_t blocks = (size_t)columns / (small_blocks(type) ? 32 : 256);
	const size_t apart = (interleaved ? INTERLEAVED_ROWS : 1) * dtype_bytes_of(type);
	const struct use keep = {.tile = out};
	rows.interleaved = interleaved;
	for (size_t b = 0; b < blocks; b++, rows.at += apart)
		take_block(type, &keep, b, &rows);
}

typedef void take_function(struct tile* out, const struct rows* rows, int columns);

#define TAKE(type)                                                                                           \
	static void take_##type(struct tile* out, const struct rows* rows, int columns) {                        \
		take_piece(type, false, out, *rows, columns);                                                        \
	}
#define TAKEN(type) [type] = take_##type,
ALL_TYPES(TAKE)
static take_function* const take_of[DTYPE_COUNT] = {ALL_TYPES(TAKEN)};

/* ---- tiles ----------------------------------------------------------------------------------- */

/* A product of n activation rows with weight rows, tile by tile. */
struct work {
	const struct tensor* w;
	const uint8_t* x;
	struct prepared layout;
	int n, groups, piece;
	size_t row_bytes;
	take_function* take;
};

/* Fewer rows than a tile has: a copy of theirs, and the first one's for those that are dropped. */
static struct rows spare_rows(uint8_t* spare, const uint8_t* at, size_t stride, int count, size_t bytes) {
	for (int r = 0; r < LANES; r++)
		memcpy(spare + (size_t)r * bytes, at + (r < count ? (size_t)r * stride : 0), bytes);
	return (struct rows){.at = spare, .stride = bytes};
}

/* sums (groups, TILES, SLOTS, GROUP_ROWS, LANES) of the `count` rows at `first`, which fill tiles; those that
 * are empty do the first one's again. */
static void run_tiles(const struct work* job, const uint8_t* first, int count, float* sums) {
	struct tile tile[TILES];
	uint8_t spare[LANES * LONG_PIECE / 32 * sizeof(struct block_q8_0)];
	const int64_t cols = job->w->cols;
	const enum dtype type = job->w->type;
	const size_t piece_bytes = dtype_row_bytes(type, job->piece), ahead = TILES * LANES * piece_bytes;
	const size_t advanced = job->w->interleaved ? ahead : piece_bytes;
	const uint8_t* next = first + TILES * LANES * job->row_bytes;
	for (int64_t k = 0; k < cols; k += job->piece, first += advanced, next += ahead) {
		const int columns = cols - k < job->piece ? (int)(cols - k) : job->piece;
		for (int t = 0; t < TILES; t++) {
			const int from = t * LANES < count ? t * LANES : 0;
			struct rows rows = {.at = first + (size_t)from * job->row_bytes, .stride = job->row_bytes};
			if (job->w->interleaved) /* they fill all tiles */
				rows = (struct rows){.at = first + (size_t)from * 4, .lane = from};
			else if (count - from < LANES)
				rows =
				    spare_rows(spare, rows.at, job->row_bytes, count - from, dtype_row_bytes(type, columns));
			job->take(&tile[t], &rows, columns);
		}
		struct run run = {.w = tile, .x_stride = job->layout.bytes, .column = k, .columns = columns};
		run.next = next;
		run.lines = (int)(ahead / 64) / (columns / 32) + 1;
		for (int g = 0, i = 0; g < job->groups; g++) {
			const int some = job->n / job->groups + (g < job->n % job->groups);
			const uint8_t* xi = job->x + (size_t)i * job->layout.bytes;
			run.q = (const int8_t*)xi + k;
			run.d = xi + job->layout.d + (size_t)(k / activation_block(type)) * 4;
			run.sums = xi + job->layout.sums + sums_bytes(type, k);
			run.starts = xi + job->layout.starts + (size_t)(k / 16) * 4;
			run.sum = sums + (size_t)g * GROUP_SUMS;
			quantized_run(type, some, &run);
			run.lines = 0;
			i += some;
		}
	}
}

static int slots_of(enum dtype type) { return activation_block(type) == BLOCK_SMALL ? SLOTS : SUPER_SLOTS; }

/* The sums of a group of `n` rows over slots, halves to halves, into the first */
static void add_slots(float* sums, int slots, int n) {
	for (int half = slots / 2; half > 0; half /= 2)
		for (int s = 0; s < half; s++) {
			float* to = sums + s * GROUP_ROWS * LANES;
			const float* from = to + half * GROUP_ROWS * LANES;
			for (int i = 0; i < n * LANES; i++)
				to[i] += from[i];
		}
}

static void store_tiles(const struct work* job, float* sums, float* out, size_t out_stride, int count) {
	for (int g = 0, i = 0; g < job->groups; g++, sums += GROUP_SUMS) {
		const int some = job->n / job->groups + (g < job->n % job->groups);
		for (int from = 0; from < count; from += LANES) {
			float* tile = sums + from / LANES * TILE_SUMS;
			const int rows = count - from < LANES ? count - from : LANES;
			add_slots(tile, slots_of(job->w->type), some);
			for (int j = 0; j < some; j++)
				memcpy(out + (size_t)(i + j) * out_stride + from, tile + j * LANES,
				       (size_t)rows * sizeof *out);
		}
		i += some;
	}
}

/* The product by tiles, which `take` fills */
static void tiled_matmul(float* out, size_t out_stride, const struct tensor* w, int64_t begin, int64_t end,
                         const uint8_t* x, int n, take_function* take) {
	_Alignas(64) float sums[MAX_GROUPS * GROUP_SUMS];
	struct work job = {.w = w, .x = x, .n = n, .groups = (n + GROUP_ROWS - 1) / GROUP_ROWS, .take = take};
	job.layout = prepared_layout(w->type, (int)w->cols);
	job.row_bytes = dtype_row_bytes(w->type, w->cols);
	job.piece = job.groups > 2 ? LONG_PIECE : SHORT_PIECE;
	if (w->cols < slots_of(w->type) * activation_block(w->type)) /* some stay empty */
		memset(sums, 0, (size_t)(job.groups * GROUP_SUMS) * sizeof *sums);
	for (int64_t r = begin; r < end; r += TILES * LANES) {
		const int count = end - r < TILES * LANES ? (int)(end - r) : TILES * LANES;
		run_tiles(&job, (const uint8_t*)w->data + job.row_bytes * (size_t)r, count, sums);
		store_tiles(&job, sums, out + r, out_stride, count);
	}
}

/* The whole; `few` does few rows another way, or nothing. Its file defines interleaved_matmul, too. */
#define QUANTIZED_MATMUL(isa, few)                                                                           \
	void isa##_quantized_matmul(float* out, size_t out_stride, const struct tensor* w, int64_t begin,        \
	                            int64_t end, const void* x, int n) {                                         \
		if (w->interleaved)                                                                                  \
			interleaved_matmul(out, out_stride, w, begin, end, x, n);                                        \
		else if (!few(out, out_stride, w, begin, end, x, n))                                                 \
			tiled_matmul(out, out_stride, w, begin, end, x, n, take_of[w->type]);                            \
	}
