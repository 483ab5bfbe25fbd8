/* Products with the screened head's coarse copy, interleaved Q4_0 (kernels/interleaved.h), with NEON.
 *
 * Included by neon_quantized.h behind INTERLEAVED_BATCH (activation rows whose sums fit the registers;
 * UP_TO_INTERLEAVED_BATCH) and interleaved_small_dot.
 *
 * Each lane holds a word of its weight row from the start. Weights are read from end to end, and only their
 * nibbles have to be unpacked. */

enum {
	FETCHED_AHEAD = 4096 /* bytes: what a core reads within memory's latency; its own fetching stays behind */
};

/* In each block of 32 columns the INTERLEAVED_ROWS scales stand first, then the words of nibbles. */
enum {
	INTERLEAVED_SMALL = INTERLEAVED_ROWS * (int)sizeof(struct block_q4_0),
	INTERLEAVED_SCALES = INTERLEAVED_ROWS * 2
};

/* LANES weight rows from `lane` on, of blocks of 32 at w, against n activation rows from x on; out (n,
 * out_stride). A block's integers are exact; blocks are added up in ascending order. */
INLINED void interleaved_small_lanes(int n, const uint8_t* w, int lane, int64_t cols, const uint8_t* x,
                                     const struct prepared* layout, float* out, size_t out_stride) {
	const uint8_t *d = x + layout->d, *starts = x + layout->sums;
	const int8_t* q = (const int8_t*)x;
	floats sum[INTERLEAVED_BATCH];
	UNROLLED for (int i = 0; i < n; i++) sum[i] = floats_zero();
	for (int64_t b = 0; b < cols / 32; b++, w += INTERLEAVED_SMALL, q += 32, d += 4, starts += 4) {
		ints dot[INTERLEAVED_BATCH];
		fetch_stream(w + FETCHED_AHEAD, sizeof(struct block_q4_0), 0, 1, true);
		UNROLLED for (int i = 0; i < n; i++) dot[i] = to_all(starts + (size_t)i * layout->bytes);
		interleaved_small_dot(n, dot, w + INTERLEAVED_SCALES + lane * 4, q, layout->bytes);
		const floats wd = floats_load_halves(w + lane * 2);
		UNROLLED for (int i = 0; i < n; i++) {
			const floats both = floats_mul(wd, float_to_all(d + (size_t)i * layout->bytes));
			sum[i] = floats_fma(both, floats_from_ints(dot[i]), sum[i]);
		}
	}
	UNROLLED for (int i = 0; i < n; i++) floats_store_anywhere(out + (size_t)i * out_stride, sum[i]);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void interleaved_small_rows(int n, const uint8_t* w, int lane, int64_t cols, const uint8_t* x,
                                   const struct prepared* layout, float* out, size_t out_stride) {
	switch (n) {
		UP_TO_INTERLEAVED_BATCH(CASE, interleaved_small_lanes, w, lane, cols, x, layout, out, out_stride)
	}
}

/* begin and end are multiples of INTERLEAVED_ROWS. */
static void interleaved_matmul(float* out, size_t out_stride, const struct tensor* w, int64_t begin,
                               int64_t end, const uint8_t* x, int n) {
	const struct prepared layout = prepared_layout(w->type, (int)w->cols);
	const size_t row_bytes = dtype_row_bytes(w->type, w->cols);
	for (int64_t r = begin; r < end; r += INTERLEAVED_ROWS) {
		const uint8_t* tile = (const uint8_t*)w->data + row_bytes * (size_t)r;
		for (int i = 0; i < n; i += INTERLEAVED_BATCH)
			for (int lane = 0; lane < INTERLEAVED_ROWS; lane += LANES) {
				const int rows = n - i < INTERLEAVED_BATCH ? n - i : INTERLEAVED_BATCH;
				const uint8_t* xi = x + (size_t)i * layout.bytes;
				float* to = out + (size_t)i * out_stride + (size_t)(r + lane);
				interleaved_small_rows(rows, tile, lane, w->cols, xi, &layout, to, out_stride);
			}
	}
}
