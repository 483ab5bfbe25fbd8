/* Products with interleaved weights (kernels/draft_weights.h), written once over a vector type.
 *
 * Included by one source file an instruction set, which defines before it, besides what matmul_quantized.h
 * asks for, INTERLEAVED_BATCH (activation rows whose sums fit the registers; UP_TO_INTERLEAVED_BATCH) and the
 * products that matmul_products.h asks for, or interleaved_halves and interleaved_small_dot of its own with
 * INTERLEAVED_HALVES 1.
 *
 * A word of every weight row stands in its lane from the start: weights are read from end to end, and what is
 * left to do with them is to part their nibbles. So a product with one activation row takes a third of the
 * instructions that rows of blocks take, and waits for memory alone. The sums are those of q4_k in
 * matmul_quantized.h, in its order. */

/* A block of 256 columns of LANES of the interleaved rows, at `w`: k-th words INTERLEAVED_WORD bytes apart */
struct interleaved_block {
	ints scale[2], min[2]; /* a byte a group, four groups a vector */
	floats d, less;
};

enum {
	INTERLEAVED_WORD = INTERLEAVED_ROWS * 4,
	INTERLEAVED_BLOCK = INTERLEAVED_ROWS * (int)sizeof(struct block_q4_k),
	FETCHED_AHEAD = 4096 /* bytes: what a core reads within memory's latency; its own fetching stays behind */
};

/* Prefetches the lines of one long stream that lie so far behind the part of `bytes` at w */
INLINED void fetch_ahead(const uint8_t* w, int bytes) {
	UNROLLED for (int line = 0; line < bytes; line += 64)
	    __builtin_prefetch((const char*)w + FETCHED_AHEAD + line, 0, 2);
}

INLINED ints interleaved_word(const uint8_t* w, int k) { return ints_load(w + (size_t)k * INTERLEAVED_WORD); }

/* k4_scale_min for all at once, from a block's first four words */
INLINED void take_scales(struct interleaved_block* out, ints both, ints first, ints second, ints third) {
	out->d = floats_from_halves(both);
	out->less = floats_negated(floats_from_halves(ints_right(both, 16)));
	out->scale[0] = low_bits(first, 0, 63);
	out->min[0] = low_bits(second, 0, 63);
	out->scale[1] = ints_or(low_bits(third, 0, 15), moved_bits(first, 6, 4, 0x30));
	out->min[1] = ints_or(low_bits(third, 4, 15), moved_bits(second, 6, 4, 0x30));
}

#if !INTERLEAVED_HALVES
/* sum (n) += 64 columns: those of the low nibbles times `first`, those of the high ones times `second` */
INLINED void interleaved_halves(int n, ints sum[], const uint8_t* w, ints first, ints second, const int8_t* q,
                                size_t x_stride) {
	ints low[INTERLEAVED_BATCH], high[INTERLEAVED_BATCH];
	UNROLLED for (int i = 0; i < n; i++) low[i] = high[i] = ints_set(0);
	UNROLLED for (int c = 0; c < 8; c++) {
		const ints both = interleaved_word(w, c);
		const ints a = low_bits(both, 0, 15), b = low_bits(both, 4, 15);
		UNROLLED for (int i = 0; i < n; i++) {
			low[i] = dot_four(low[i], a, q + (size_t)i * x_stride + c * 4);
			high[i] = dot_four(high[i], b, q + (size_t)i * x_stride + 32 + c * 4);
		}
	}
	UNROLLED for (int i = 0; i < n; i++) sum[i] =
	    ints_scaled(ints_scaled(sum[i], low[i], first), high[i], second);
}
#endif

/* A block's products with n activation rows from its first column on; those join sum (n, LANES). */
INLINED void interleaved_product(int n, const uint8_t* w, const int8_t* q, const uint8_t* d,
                                 const uint8_t* sums, size_t x_stride, float (*sum)[LANES]) {
	struct interleaved_block block;
	ints dot[INTERLEAVED_BATCH];
	take_scales(&block, interleaved_word(w, 0), interleaved_word(w, 1), interleaved_word(w, 2),
	            interleaved_word(w, 3));
	UNROLLED for (int i = 0; i < n; i++) dot[i] = ints_set(0);
	UNROLLED for (int p = 0; p < 4; p++) {
		const ints first = ints_scale(byte_of(block.scale[p / 2], p % 2 * 2));
		const ints second = ints_scale(byte_of(block.scale[p / 2], p % 2 * 2 + 1));
		fetch_ahead(w + p * (INTERLEAVED_BLOCK / 4), INTERLEAVED_BLOCK / 4);
		interleaved_halves(n, dot, w + (size_t)(4 + p * 8) * INTERLEAVED_WORD, first, second, q + p * 64,
		                   x_stride);
	}
	UNROLLED for (int i = 0; i < n; i++) {
		ints less = ints_set(0);
		UNROLLED for (int p = 0; p < 4; p++) less =
		    ints_two_products(less, two_bytes(block.min[p / 2], p % 2 * 2, p % 2 * 2 + 1),
		                      to_all(sums + (size_t)i * x_stride + p * 4));
		const floats product =
		    floats_fma(block.less, floats_from_ints(less), floats_mul(block.d, floats_from_ints(dot[i])));
		const floats xd = float_to_all(d + (size_t)i * x_stride);
		floats_store(sum[i], floats_fma(xd, product, floats_load(sum[i])));
	}
}

/* LANES weight rows against n activation rows from x on; out (n, out_stride) */
INLINED void interleaved_lanes(int n, const uint8_t* w, int64_t cols, const uint8_t* x,
                               const struct prepared* layout, float* out, size_t out_stride) {
	_Alignas(64) float sum[SUPER_SLOTS][INTERLEAVED_BATCH][LANES] = {0};
	const uint8_t* sums = x + layout->sums;
	for (int64_t b = 0; b < cols / 256; b++, w += INTERLEAVED_BLOCK)
		interleaved_product(n, w, (const int8_t*)x + b * 256, x + layout->d + b * 4, sums + b * 16,
		                    layout->bytes, sum[b % SUPER_SLOTS]);
	UNROLLED for (int i = 0; i < n; i++) {
		const floats even = floats_add(floats_load(sum[0][i]), floats_load(sum[2][i]));
		const floats odd = floats_add(floats_load(sum[1][i]), floats_load(sum[3][i]));
		floats_store_anywhere(out + (size_t)i * out_stride, floats_add(even, odd));
	}
}

/* ---- q4_0 ------------------------------------------------------------------------------------ */

/* In each block of 32 columns the INTERLEAVED_ROWS scales stand first, then the words of nibbles. */
enum {
	INTERLEAVED_SMALL = INTERLEAVED_ROWS * (int)sizeof(struct block_q4_0),
	INTERLEAVED_SCALES = INTERLEAVED_ROWS * 2
};

#ifndef NARROW
#define NARROW 0
#endif

#if !INTERLEAVED_HALVES
/* dot (n) += 32 columns of LANES rows from w on times those of the activation rows at q */
INLINED void interleaved_small_dot(int n, ints dot[], const uint8_t* w, const int8_t* q, size_t x_stride) {
	UNROLLED for (int c = 0; c < 4; c++) {
		const ints both = ints_load_anywhere(w + (size_t)c * INTERLEAVED_WORD);
		const ints low = low_bits(both, 0, 15), high = low_bits(both, 4, 15);
		UNROLLED for (int i = 0; i < n; i++) {
			dot[i] = dot_four(dot[i], low, q + (size_t)i * x_stride + c * 4);
			dot[i] = dot_four(dot[i], high, q + (size_t)i * x_stride + 16 + c * 4);
		}
	}
}
#endif

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
		fetch_ahead(w, INTERLEAVED_SMALL);
		UNROLLED for (int i = 0; i < n; i++) dot[i] =
		    NARROW ? ints_set(0) : to_all(starts + (size_t)i * layout->bytes);
		interleaved_small_dot(n, dot, w + INTERLEAVED_SCALES + lane * 4, q, layout->bytes);
		const floats wd = floats_load_halves(w + lane * 2);
		UNROLLED for (int i = 0; i < n; i++) {
#if NARROW /* what was added up in 16 bits */
			dot[i] = ints_scaled(to_all(starts + (size_t)i * layout->bytes), dot[i], ints_scale(ints_set(1)));
#endif
			const floats both = floats_mul(wd, float_to_all(d + (size_t)i * layout->bytes));
			sum[i] = floats_fma(both, floats_from_ints(dot[i]), sum[i]);
		}
	}
	UNROLLED for (int i = 0; i < n; i++) floats_store_anywhere(out + (size_t)i * out_stride, sum[i]);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void interleaved_rows(int n, const uint8_t* w, int64_t cols, const uint8_t* x,
                             const struct prepared* layout, float* out, size_t out_stride) {
	switch (n) { UP_TO_INTERLEAVED_BATCH(CASE, interleaved_lanes, w, cols, x, layout, out, out_stride) }
}

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
				if (w->type == DTYPE_Q4_0)
					interleaved_small_rows(rows, tile, lane, w->cols, xi, &layout, to, out_stride);
				else
					interleaved_rows(rows, tile + lane * 4, w->cols, xi, &layout, to, out_stride);
			}
	}
}
