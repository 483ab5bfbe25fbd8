/* Makes the elements of synthetic tensors in memory. Cores take pieces of about a megabyte. An element
 * depends only on its row and column, so it does not matter which core makes it. Most elements are plain
 * draws, one hash each in 32-bit arithmetic, and this loop is also compiled for AVX2. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/synth.h"
#include "kernels/cpu/pool.h"
#include "kernels/synth_block.h"
#include "kernels/synth_value.h"

enum { PIECE_ELEMENTS = 1 << 19, STRIP = 1024 };

/* ---- draws -------------------------------------------------------------------------------- */

static inline __attribute__((always_inline)) void draw_strip(float* out, const struct synth_row* row,
                                                             uint32_t first, int n) {
	for (int i = 0; i < n; i++)
		out[i] = (float)synth_draw(row->own, first + (uint32_t)i) * row->scale;
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2"))) static void draw_avx2(float* out, const struct synth_row* row, uint32_t first,
                                                      int n) {
	draw_strip(out, row, first, n);
}
#endif

/* Draws n elements of a row from a column on. */
static void draw_values(float* out, const struct synth_row* row, uint32_t first, int n) {
#if defined(__x86_64__) && defined(__GNUC__)
	if (__builtin_cpu_supports("avx2")) {
		draw_avx2(out, row, first, n);
		return;
	}
#endif
	draw_strip(out, row, first, n);
}

/* ---- elements as they are stored ------------------------------------------------------------ */

void synth_encode(enum dtype type, void* out, const float* x, int64_t n) {
	const int block = dtype_block(type);
	const size_t bytes = dtype_block_bytes(type);
	if (block == 1)
		for (int64_t i = 0; i < n; i++)
			dtype_put(type, out, i, x[i]);
	else
		for (int64_t i = 0; i < n; i += block, out = (uint8_t*)out + bytes)
			synth_block(type, out, x + i);
}

/* ---- one piece ---------------------------------------------------------------------------- */

/* Strips hold a whole number of blocks, because cols does. */
static void fill_row(const struct tensor* t, const struct synth_row* row, uint8_t* out) {
	const bool plain = t->synth.kind == SYNTH_NORMAL;
	float strip[STRIP];
	for (int64_t c = 0; c < t->cols; c += STRIP) {
		const int n = t->cols - c < STRIP ? (int)(t->cols - c) : STRIP;
		if (plain && c >= row->begin && c + n <= row->end)
			draw_values(strip, row, (uint32_t)c, n);
		else
			for (int i = 0; i < n; i++)
				strip[i] = synth_element(&t->synth, row, c + i);
		synth_encode(t->type, out, strip, n);
		out += dtype_row_bytes(t->type, n);
	}
}

static void fill_rows(const struct tensor* t, int64_t begin, int64_t end) {
	uint8_t* const out = (uint8_t*)(uintptr_t)t->data;
	for (int64_t r = begin; r < end; r++) {
		const struct synth_row row = synth_row_of(&t->synth, r, t->rows, t->cols);
		fill_row(t, &row, out + (size_t)r * dtype_row_bytes(t->type, t->cols));
	}
}

/* ---- all of them -------------------------------------------------------------------------- */

struct fill_work {
	struct tensor* const* tensor;
	const int64_t* first_piece; /* (n + 1) of each tensor, ascending */
	int n;
};

static int64_t piece_rows(const struct tensor* t) {
	const int64_t rows = PIECE_ELEMENTS / t->cols;
	return rows > 0 ? rows : 1;
}

static void fill_piece(void* user, int piece, int thread) {
	const struct fill_work* work = user;
	int low = 0, high = work->n; /* the last tensor that begins no later */
	(void)thread;
	while (high - low > 1) {
		const int middle = low + (high - low) / 2;
		*(work->first_piece[middle] <= piece ? &low : &high) = middle;
	}
	const struct tensor* t = work->tensor[low];
	const int64_t rows = piece_rows(t);
	const int64_t begin = (piece - work->first_piece[low]) * rows, end = begin + rows;
	fill_rows(t, begin, end < t->rows ? end : t->rows);
}

bool synth_fill(struct tensor* const* list, int n, struct error* error) {
	int64_t* first = calloc((size_t)n + 1, sizeof *first);
	struct pool* pool = pool_open(0);
	struct fill_work work = {.tensor = list, .first_piece = first, .n = n};
	for (int j = 0; first && j < n; j++) {
		const int64_t rows = piece_rows(list[j]);
		first[j + 1] = first[j] + (list[j]->rows + rows - 1) / rows;
	}
	const bool good = first && pool && first[n] <= INT_MAX;
	if (good)
		pool_run(pool, (int)first[n], fill_piece, &work);
	if (pool)
		pool_close(pool);
	free(first);
	return good || error_set(error, "synth: out of memory for the plan of the weights");
}
