/* Products with F32, F16 and BF16 weights, written once for every vector width.
 *
 * Included by one source file an instruction set, which defines before it:
 *   V, V_LANES                    a vector of floats and its lanes
 *   v_zero() v_load(float*) v_store(float*, V) v_fma(a, b, c) v_sum(V)
 *   v_sums(const V[4], float[4])  four v_sums at once, the same bits
 *   v_weights(type, bytes)        the next V_LANES weights as floats
 *   STREAMS                       weight rows that are read side by side where activation rows are few
 *   TILE_ROWS (4), TILE_N (3 or 6), UP_TO_TILE_N (UP_TO_3 or UP_TO_6)
 *                                 weight rows and activation rows whose products fit in registers
 *
 * An element has one accumulator of V_LANES sums: column k goes to sum k mod V_LANES by fused
 * multiply-add, columns in ascending order, and v_sum adds the lanes up in a fixed order. Everything else
 * here is order of work, which changes no bit. Few activation rows meet weight rows that are read from end
 * to end; for more, the product is cut into tiles: activation rows are taken in groups of at most TILE_N;
 * columns in pieces, so that a group's piece stays in the first-level cache while it meets the
 * TILES·TILE_ROWS weight rows of a block; accumulators wait in memory between pieces. While one block is
 * multiplied, the one behind it is fetched, from its first line to its last, evenly spread over the work. */
#include "kernels/cpu/matmul.h"

enum {
	LINE = 64,
	TILES = 4,    /* of a block */
	STREAM_N = 3, /* activation rows that meet one weight row at a time */
	MAX_GROUPS = (SLICE_ROWS + TILE_N - 1) / TILE_N,
	TILE_SUMS = TILE_ROWS * TILE_N * V_LANES,
	PIECE_BYTES = 24 << 10,  /* of a group of activation rows: half a first-level cache */
	STREAM_BYTES = 32 << 10, /* of activation rows */
	FEW_ROWS = 8,            /* that meet weights about as fast as memory gives them */
	STREAM_AHEAD = 12 << 10,
	BLOCK_BYTES = 64 << 10, /* of weights: a share of a second-level cache */
	PANEL_BYTES = 256 << 10
};

/* One run: TILE_ROWS weight rows against one group of activation rows, over one piece of columns. */
struct matmul_run {
	const uint8_t* w; /* first row at the piece's first column */
	size_t w_stride;
	const uint8_t* x;
	size_t x_stride;
	float* sums;       /* (TILE_ROWS, TILE_N, V_LANES) from piece to piece */
	bool first, last;  /* piece of the columns: sums start from 0, and go to `out` */
	float* out;        /* (group, TILE_ROWS) */
	size_t out_stride; /* floats */
	int out_rows;      /* of TILE_ROWS */
	int64_t steps;     /* whole vectors */
	int tail;          /* columns behind them */
	/* The lines to fetch: line `ahead_at` / 256 first, `ahead_step` / 256 lines on with every step */
	const uint8_t* ahead;
	size_t ahead_at, ahead_step;
};

/* The last, partial vector of a row, filled with zeros. */
INLINED V last_weights(enum dtype type, const uint8_t* w, int count) {
	uint8_t whole[V_LANES * 4] = {0};
	memcpy(whole, w, (size_t)count * dtype_block_bytes(type));
	return v_weights(type, whole);
}

/* If rows are few, the second level is near enough, and the first one's buffers are for demands; with more
 * of them there is less than a line a step. */
INLINED void fetch(const struct matmul_run* run, bool few, size_t at) {
	const uint8_t* line = run->ahead + (at >> 8) * LINE;
	if (!few)
		__builtin_prefetch(line, 0, 3);
	for (size_t l = 0; few && l < run->ahead_step; l += 256)
		__builtin_prefetch(line + l / 256 * LINE, 0, 2);
}

/* Four sums of a column of the tile; where a tile stands for fewer rows, those. */
INLINED void store_sums(const V sums[TILE_ROWS], float* out, int rows) {
	float all[TILE_ROWS];
	if (rows == TILE_ROWS)
		v_sums(sums, out);
	else {
		v_sums(sums, all);
		memcpy(out, all, (size_t)rows * sizeof *out);
	}
}

INLINED void float_run(int n, enum dtype type, bool few, const struct matmul_run* run) {
	const size_t size = type == DTYPE_F32 ? 4 : 2;
	V sum[TILE_ROWS][TILE_N];
	if (run->first) {
		UNROLLED for (int r = 0; r < TILE_ROWS; r++) UNROLLED for (int i = 0; i < n; i++) sum[r][i] =
		    v_zero();
	} else {
		UNROLLED for (int r = 0; r < TILE_ROWS; r++) UNROLLED for (int i = 0; i < n; i++) sum[r][i] =
		    v_load(run->sums + (r * TILE_N + i) * V_LANES);
	}
	size_t at = run->ahead_at;
	const uint8_t *w = run->w, *x = run->x;
	for (int64_t s = 0; s < run->steps; s++) {
		fetch(run, few, at);
		at += run->ahead_step;
		V xs[TILE_N];
		UNROLLED for (int i = 0; i < n; i++) xs[i] =
		    v_load((const float*)(const void*)(x + (size_t)i * run->x_stride));
		UNROLLED for (int r = 0; r < TILE_ROWS; r++) {
			const V ws = v_weights(type, w + (size_t)r * run->w_stride);
			UNROLLED for (int i = 0; i < n; i++) sum[r][i] = v_fma(ws, xs[i], sum[r][i]);
		}
		w += V_LANES * size;
		x += V_LANES * sizeof(float);
	}
	if (run->tail)
		UNROLLED for (int r = 0; r < TILE_ROWS; r++) {
			const V ws = last_weights(type, w + (size_t)r * run->w_stride, run->tail);
			UNROLLED for (int i = 0; i < n; i++) {
				const V xs = v_load((const float*)(const void*)(x + (size_t)i * run->x_stride));
				sum[r][i] = v_fma(ws, xs, sum[r][i]);
			}
		}
	if (run->last) {
		UNROLLED for (int i = 0; i < n; i++) {
			V column[TILE_ROWS];
			UNROLLED for (int r = 0; r < TILE_ROWS; r++) column[r] = sum[r][i];
			store_sums(column, run->out + (size_t)i * run->out_stride, run->out_rows);
		}
	} else {
		UNROLLED for (int r = 0; r < TILE_ROWS; r++) UNROLLED for (int i = 0; i < n; i++)
		    v_store(run->sums + (r * TILE_N + i) * V_LANES, sum[r][i]);
	}
}

#define FLOAT_TYPES(X) X(DTYPE_F32) X(DTYPE_F16) X(DTYPE_BF16)

/* The shapes that are compiled: every type times 1…TILE_N activation rows. */
typedef void runs_function(bool few, int n, const struct matmul_run* run);
#define FLOAT_RUNS(type)                                                                                     \
	static void runs_##type(bool few, int n, const struct matmul_run* run) {                                 \
		if (few)                                                                                             \
			switch (n) { UP_TO_TILE_N(CASE, float_run, type, true, run) }                                    \
		else                                                                                                 \
			switch (n) { UP_TO_TILE_N(CASE, float_run, type, false, run) }                                   \
	}
#define RUNS_OF(type) [type] = runs_##type,
FLOAT_TYPES(FLOAT_RUNS)
static runs_function* const float_runs[DTYPE_COUNT] = {FLOAT_TYPES(RUNS_OF)};

/* How a product is cut. */
struct cut {
	enum dtype type;
	int n, groups;
	int64_t cols, piece; /* columns a piece, whole lines of weights */
	int tiles;           /* a block */
	size_t row_bytes, x_stride;
};

static struct cut cut_for(const struct tensor* w, int n) {
	struct cut c = {.type = w->type, .n = n, .cols = w->cols};
	c.groups = (n + TILE_N - 1) / TILE_N;
	c.row_bytes = dtype_row_bytes(w->type, w->cols);
	c.x_stride = prepared_float_bytes(w->cols);
	const int64_t rows = (n + c.groups - 1) / c.groups, most = PIECE_BYTES / 4 / rows;
	const int64_t pieces = (c.cols + most - 1) / most;
	c.piece = ((c.cols + pieces - 1) / pieces + 63) / 64 * 64;
	const size_t tile_bytes =
	    (size_t)(c.piece < c.cols ? c.piece : c.cols) * dtype_block_bytes(c.type) * TILE_ROWS;
	const size_t tiles = BLOCK_BYTES / (tile_bytes + 1);
	c.tiles = tiles < 1 ? 1 : tiles > TILES ? TILES : (int)tiles;
	return c;
}

/* Activation rows of group g, and the first of them: as even as can be. */
static int group_rows(const struct cut* c, int g) { return c->n / c->groups + (g < c->n % c->groups); }
static int group_first(const struct cut* c, int g) {
	return g * (c->n / c->groups) + (g < c->n % c->groups ? g : c->n % c->groups);
}

/* One block: rows that fill its tiles, or, with a row stride of 0, one row. */
struct block {
	const uint8_t* w;
	int tiles, rows;
	float* sums; /* (groups, TILES, TILE_SUMS) */
	float* out;  /* (n, rows) */
	size_t out_stride;
};

/* One piece of one block: every group meets every tile. Piece by piece the block behind it is fetched, from
 * its first line on: `fetched` / 256 lines of it so far. */
static void block_piece(const struct cut* c, const struct block* b, int64_t k, const uint8_t* x,
                        size_t* fetched) {
	const bool last = c->cols - k <= c->piece;
	const int64_t columns = last ? c->cols - k : c->piece;
	const size_t size = dtype_block_bytes(c->type);
	struct matmul_run run = {
	    .w_stride = c->row_bytes, .x_stride = c->x_stride, .first = k == 0, .last = last};
	run.out_stride = b->out_stride;
	run.out_rows = b->rows < TILE_ROWS ? b->rows : TILE_ROWS;
	run.steps = columns / V_LANES;
	run.tail = (int)(columns % V_LANES);
	run.ahead = b->w + (size_t)b->rows * c->row_bytes;
	run.ahead_step = 256 * TILE_ROWS * V_LANES * size / LINE / (size_t)c->groups;
	for (int g = 0; g < c->groups; g++) {
		run.x = x + (size_t)group_first(c, g) * c->x_stride + (size_t)k * sizeof(float);
		for (int t = 0; t < b->tiles; t++) {
			run.w = b->w + (size_t)t * TILE_ROWS * c->row_bytes + (size_t)k * size;
			run.ahead_at = *fetched;
			*fetched += (size_t)run.steps * run.ahead_step;
			run.sums = b->sums + (g * TILES + t) * TILE_SUMS;
			run.out = b->out + (size_t)group_first(c, g) * b->out_stride + t * TILE_ROWS;
			float_runs[c->type](c->n <= FEW_ROWS, group_rows(c, g), &run);
		}
	}
}

static void block_product(const struct cut* c, const struct block* b, const uint8_t* x) {
	size_t fetched = 0;
	for (int64_t k = 0; k < c->cols; k += c->piece)
		block_piece(c, b, k, x, &fetched);
}

/* sum (rows, n) += w · x for `vectors` vectors of columns; weight rows w_stride bytes apart */
INLINED void stream_vectors(enum dtype type, int rows, int n, V sum[][STREAM_N], const uint8_t* w,
                            size_t w_stride, const uint8_t* x, size_t x_stride, int vectors) {
	UNROLLED for (int v = 0; v < vectors; v++) {
		V xs[STREAM_N];
		UNROLLED for (int i = 0; i < n; i++) xs[i] =
		    v_load((const float*)(const void*)(x + (size_t)i * x_stride) + v * V_LANES);
		UNROLLED for (int r = 0; r < rows; r++) {
			const V ws =
			    v_weights(type, w + (size_t)r * w_stride + (size_t)v * V_LANES * (type == DTYPE_F32 ? 4 : 2));
			UNROLLED for (int i = 0; i < n; i++) sum[r][i] = v_fma(ws, xs[i], sum[r][i]);
		}
	}
}

/* Weight rows from end to end, `apart` rows from one to the next; outputs likewise. One alone is a part of
 * one long stream, each line of which is fetched once, well ahead; several are followed by the core's own
 * fetching, and do not wait for one another's sums. */
INLINED void stream_row(enum dtype type, int rows, int n, const uint8_t* w, int64_t apart, int64_t cols,
                        const uint8_t* x, size_t x_stride, float* out, size_t out_stride) {
	const size_t size = type == DTYPE_F32 ? 4 : 2, w_stride = (size_t)(apart * cols) * size;
	const int line = LINE / (int)size, tail = (int)(cols % V_LANES);
	V sum[STREAMS][STREAM_N];
	UNROLLED for (int r = 0; r < rows; r++) UNROLLED for (int i = 0; i < n; i++) sum[r][i] = v_zero();
	int64_t k = 0;
	for (; k + line <= cols; k += line) {
		const uint8_t* at = w + (size_t)k * size;
		if (STREAMS == 1)
			__builtin_prefetch(at + STREAM_AHEAD, 0, 2);
		stream_vectors(type, rows, n, sum, at, w_stride, x + (size_t)k * 4, x_stride, line / V_LANES);
	}
	for (; k + V_LANES <= cols; k += V_LANES)
		stream_vectors(type, rows, n, sum, w + (size_t)k * size, w_stride, x + (size_t)k * 4, x_stride, 1);
	if (tail)
		UNROLLED for (int r = 0; r < rows; r++) {
			const V ws = last_weights(type, w + (size_t)r * w_stride + (size_t)k * size, tail);
			UNROLLED for (int i = 0; i < n; i++) sum[r][i] =
			    v_fma(ws, v_load((const float*)(const void*)(x + (size_t)i * x_stride) + k), sum[r][i]);
		}
	UNROLLED for (int r = 0; r < rows; r++) UNROLLED for (int i = 0; i < n; i++)
	    out[(size_t)i * out_stride + (size_t)(r * apart)] = v_sum(sum[r][i]);
}

INLINED void stream_rows(int n, enum dtype type, const uint8_t* w, int64_t rows, int64_t cols,
                         const uint8_t* x, size_t x_stride, float* out, size_t out_stride) {
	const size_t row_bytes = (size_t)cols * (type == DTYPE_F32 ? 4 : 2);
	const int64_t apart = rows / STREAMS;
	for (int64_t r = 0; r < apart; r++)
		stream_row(type, STREAMS, n, w + (size_t)r * row_bytes, apart, cols, x, x_stride, out + r,
		           out_stride);
	for (int64_t r = apart * STREAMS; r < rows; r++)
		stream_row(type, 1, n, w + (size_t)r * row_bytes, 0, cols, x, x_stride, out + r, out_stride);
}

/* One weight row at a time while the activation rows fit in the first-level cache beside it. */
static bool is_streamed(int n, int64_t cols) {
	return n == 1 || (n <= STREAM_N && n * cols * (int64_t)sizeof(float) <= STREAM_BYTES);
}

typedef void stream_function(int n, const uint8_t* w, int64_t rows, int64_t cols, const uint8_t* x,
                             size_t x_stride, float* out, size_t out_stride);
#define STREAM(type)                                                                                         \
	static void stream_##type(int n, const uint8_t* w, int64_t rows, int64_t cols, const uint8_t* x,         \
	                          size_t x_stride, float* out, size_t out_stride) {                              \
		switch (n) { UP_TO_3(CASE, stream_rows, type, w, rows, cols, x, x_stride, out, out_stride) }         \
	}
#define STREAM_OF(type) [type] = stream_##type,
FLOAT_TYPES(STREAM)
static stream_function* const float_streams[DTYPE_COUNT] = {FLOAT_TYPES(STREAM_OF)};

static void float_stream(float* out, size_t out_stride, const struct tensor* w, int64_t begin, int64_t end,
                         const uint8_t* x, int n) {
	const uint8_t* first = (const uint8_t*)w->data + dtype_row_bytes(w->type, w->cols) * (size_t)begin;
	float_streams[w->type](n, first, end - begin, w->cols, x, prepared_float_bytes(w->cols), out + begin,
	                       out_stride);
}

/* At most SLICE_ROWS activation rows. */
static void float_tiles(float* out, size_t out_stride, const struct tensor* w, int64_t begin, int64_t end,
                        const uint8_t* x, int n) {
	_Alignas(64) float sums[MAX_GROUPS * TILES * TILE_SUMS];
	struct cut c = cut_for(w, n);
	const size_t row_bytes = c.row_bytes;
	struct block b = {.sums = sums, .out_stride = out_stride};
	int64_t r = begin;
	for (; end - r >= TILE_ROWS; r += b.rows) {
		const int64_t left = (end - r) / TILE_ROWS;
		b.tiles = left < c.tiles ? (int)left : c.tiles;
		b.rows = b.tiles * TILE_ROWS;
		b.w = (const uint8_t*)w->data + row_bytes * (size_t)r;
		b.out = out + r;
		block_product(&c, &b, x);
	}
	c.row_bytes = 0; /* the rows that fill no tile: each as all rows of one */
	b.tiles = b.rows = 1;
	for (; r < end; r++) {
		b.w = (const uint8_t*)w->data + row_bytes * (size_t)r;
		b.out = out + r;
		block_product(&c, &b, x);
	}
}

/* Many activation rows are taken SLICE_ROWS at a time, which fit in a second-level cache, and all of them
 * meet a panel of weights while that is in one. */
static void float_matmul(float* out, size_t out_stride, const struct tensor* w, int64_t begin, int64_t end,
                         const uint8_t* x, int n) {
	if (is_streamed(n, w->cols)) {
		float_stream(out, out_stride, w, begin, end, x, n);
		return;
	}
	const int64_t fit = (int64_t)(PANEL_BYTES / dtype_row_bytes(w->type, w->cols));
	const int64_t panel = n <= SLICE_ROWS ? end - begin : (fit / TILE_ROWS + 1) * TILE_ROWS;
	for (int64_t r = begin; r < end; r += panel)
		for (int first = 0; first < n; first += SLICE_ROWS)
			float_tiles(out + (size_t)first * out_stride, out_stride, w, r, end - r < panel ? end : r + panel,
			            x + (size_t)first * prepared_float_bytes(w->cols),
			            n - first < SLICE_ROWS ? n - first : SLICE_ROWS);
}

/* Products with weights of every type; included behind matmul_decoded.h. */
#define MATMUL(isa)                                                                                          \
	void isa##_matmul(float* out, size_t out_stride, const struct tensor* w, int64_t begin, int64_t end,     \
	                  const void* x, int n) {                                                                \
		if (dtype_is_float(w->type))                                                                         \
			float_matmul(out, out_stride, w, begin, end, x, n);                                              \
		else if (dtype_is_decoded(w->type))                                                                  \
			decoded_matmul(out, out_stride, w, begin, end, x, n);                                            \
		else                                                                                                 \
			isa##_quantized_matmul(out, out_stride, w, begin, end, x, n);                                    \
	}
