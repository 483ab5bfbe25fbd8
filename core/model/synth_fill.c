/* Makes the elements of made-up tensors in memory: pieces of about a megabyte, handed out to a thread
 * a CPU. Who makes a piece does not matter, an element depends on its row and column alone.
 *
 * Most elements are plain draws, of which there are only 1021 different ones: they are stored through a
 * table, and what remains is a hash an element in 32-bit arithmetic, compiled for wide registers too. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/synth.h"
#include "kernels/cpu/pool.h"
#include "kernels/synth_value.h"

enum { PIECE_ELEMENTS = 1 << 19, STRIP = 1024, DRAWS = 2 * SYNTH_SPREAD + 1 };

/* ---- draws -------------------------------------------------------------------------------- */

typedef void draw_function(int16_t* out, struct synth_row_key key, uint32_t first, int n);

SYNTH_INLINE void draw_strip(int16_t* out, struct synth_row_key key, uint32_t first, int n) {
	for (int i = 0; i < n; i++)
		out[i] = (int16_t)(synth_draw(key, first + (uint32_t)i) + SYNTH_SPREAD);
}

static void draw_plain(int16_t* out, struct synth_row_key key, uint32_t first, int n) {
	draw_strip(out, key, first, n);
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2"))) static void draw_avx2(int16_t* out, struct synth_row_key key, uint32_t first,
                                                      int n) {
	draw_strip(out, key, first, n);
}

static draw_function* choose_draw(void) { return __builtin_cpu_supports("avx2") ? draw_avx2 : draw_plain; }
#else
static draw_function* choose_draw(void) { return draw_plain; }
#endif

/* Every element is one draw. */
static bool is_plain(const struct synth_tensor* t) { return t->kind == SYNTH_NORMAL && t->common == 0; }

/* ---- one piece ---------------------------------------------------------------------------- */

union table { /* the stored form of each draw */
	float f32[DRAWS];
	uint16_t f16[DRAWS];
};

static void make_table(union table* table, enum dtype type, float scale) {
	for (int i = 0; i < DRAWS; i++) {
		const float x = (float)(i - SYNTH_SPREAD) * scale;
		if (type == DTYPE_F32)
			table->f32[i] = x;
		else
			table->f16[i] = type == DTYPE_F16 ? synth_f16(x) : synth_bf16(x);
	}
}

/* A row of plain draws, in a type of one element a block. */
static void fill_row_by_table(const struct tensor* t, const struct synth_row* row, uint8_t* out,
                              const union table* table, draw_function* draw) {
	int16_t strip[STRIP];
	const size_t size = dtype_block_bytes(t->type);
	memset(out, 0, size * (size_t)t->cols);
	for (int64_t c = row->begin; c < row->end; c += STRIP) {
		const int n = row->end - c < STRIP ? (int)(row->end - c) : STRIP;
		draw(strip, row->own, (uint32_t)c, n);
		if (t->type == DTYPE_F32)
			for (int i = 0; i < n; i++)
				((float*)(void*)out)[c + i] = table->f32[strip[i]];
		else
			for (int i = 0; i < n; i++)
				((uint16_t*)(void*)out)[c + i] = table->f16[strip[i]];
	}
}

/* The elements of n columns, all of them draws of one row. */
static void plain_strip(float* out, const struct synth_row* row, int64_t column, int n, draw_function* draw) {
	int16_t strip[STRIP];
	draw(strip, row->own, (uint32_t)column, n);
	for (int i = 0; i < n; i++)
		out[i] = (float)(strip[i] - SYNTH_SPREAD) * row->scale;
}

/* A row of anything else. A strip is a whole number of blocks: cols is one. */
static void fill_row(const struct tensor* t, const struct synth_row* row, uint8_t* out, draw_function* draw) {
	float strip[STRIP];
	for (int64_t c = 0; c < t->cols; c += STRIP) {
		const int n = t->cols - c < STRIP ? (int)(t->cols - c) : STRIP;
		if (is_plain(&t->synth) && c >= row->begin && c + n <= row->end)
			plain_strip(strip, row, c, n, draw);
		else
			for (int i = 0; i < n; i++)
				strip[i] = synth_element(&t->synth, row, c + i);
		synth_encode(t->type, out, strip, n);
		out += dtype_row_bytes(t->type, n);
	}
}

static void fill_rows(const struct synth_job* job, int64_t begin, int64_t end, draw_function* draw) {
	const struct tensor* t = job->tensor;
	const size_t bytes = dtype_row_bytes(t->type, t->cols);
	const bool plain = is_plain(&t->synth) && dtype_block(t->type) == 1;
	union table table;
	float made_for = 0.0f;
	for (int64_t r = begin; r < end; r++) {
		const struct synth_row row = synth_row_of(&t->synth, r, t->rows, t->cols);
		uint8_t* out = (uint8_t*)job->out + (size_t)r * bytes;
		if (plain && (r == begin || row.scale != made_for)) {
			make_table(&table, t->type, row.scale);
			made_for = row.scale;
		}
		if (plain)
			fill_row_by_table(t, &row, out, &table, draw);
		else
			fill_row(t, &row, out, draw);
	}
}

/* ---- all of them -------------------------------------------------------------------------- */

struct work {
	const struct synth_job* job;
	const int64_t* first_piece; /* (n + 1) of each job, ascending */
	int n;
	draw_function* draw;
};

static int64_t piece_rows(const struct tensor* t) {
	const int64_t rows = PIECE_ELEMENTS / t->cols;
	return rows > 0 ? rows : 1;
}

static void fill_piece(void* user, int piece, int thread) {
	const struct work* work = user;
	int low = 0, high = work->n; /* the last job that begins no later */
	(void)thread;
	while (high - low > 1) {
		const int middle = low + (high - low) / 2;
		*(work->first_piece[middle] <= piece ? &low : &high) = middle;
	}
	const struct synth_job* job = &work->job[low];
	const int64_t rows = piece_rows(job->tensor);
	const int64_t begin = job->begin + (piece - work->first_piece[low]) * rows, end = begin + rows;
	fill_rows(job, begin, end < job->end ? end : job->end, work->draw);
}

bool synth_fill(const struct synth_job* job, int n, struct error* error) {
	int64_t* first = calloc((size_t)n + 1, sizeof *first);
	struct pool* pool = pool_open(0);
	const struct work work = {.job = job, .first_piece = first, .n = n, .draw = choose_draw()};
	for (int j = 0; first && j < n; j++) {
		const int64_t rows = piece_rows(job[j].tensor);
		first[j + 1] = first[j] + (job[j].end - job[j].begin + rows - 1) / rows;
	}
	const bool good = first && pool && first[n] <= INT_MAX;
	if (good)
		pool_run(pool, (int)first[n], fill_piece, (void*)(uintptr_t)&work);
	if (pool)
		pool_close(pool);
	free(first);
	return good || error_set(error, "synth: no memory to plan the weights");
}
