/* Products of few activation rows with four weight rows side by side, read from end to end: included by
 * neon_quantized.h.
 *
 * 32 columns of each weight row are taken apart into two registers, which meet every activation row before
 * the next come; sums across a register are four rows' at a time, a lane a row. Floats meet as in the tiles.
 */

INLINED int8x16_t signed_bytes(uint8x16_t v) { return vreinterpretq_s8_u8(v); }
INLINED uint8x16_t low_nibbles(uint8x16_t v) { return vandq_u8(v, vdupq_n_u8(15)); }

/* Bit j of the two bytes at `high` as 16 in byte j */
INLINED uint8x16_t fifth_of_16(const uint8_t* high) {
	const uint8x16_t spread = vcombine_u8(vdup_n_u8(high[0]), vdup_n_u8(high[1]));
	const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u));
	return vandq_u8(vtstq_u8(spread, bit), vdupq_n_u8(16));
}

/* A block of 32 */
INLINED void take_32(enum dtype type, const uint8_t* w, int8x16_t q[2]) {
	if (type == DTYPE_Q8_0) {
		q[0] = signed_bytes(vld1q_u8(w + 2));
		q[1] = signed_bytes(vld1q_u8(w + 18));
		return;
	}
	const uint8x16_t packed = vld1q_u8(w + dtype_bytes_of(type) - 16);
	uint8x16_t first = low_nibbles(packed), second = vshrq_n_u8(packed, 4);
	if (type == DTYPE_IQ4_NL) {
		q[0] = iq4_of(first);
		q[1] = iq4_of(second);
		return;
	}
	if (high_at(type)) {
		first = vorrq_u8(first, fifth_of_16(w + high_at(type)));
		second = vorrq_u8(second, fifth_of_16(w + high_at(type) + 2));
	}
	q[0] = signed_bytes(first);
	q[1] = signed_bytes(second);
}

/* The 16-bit floats at `at` of four rows */
INLINED floats four_halves(const uint8_t* const w[SIDE], size_t at) {
	const uint16x4_t v = {load_u16(w[0] + at), load_u16(w[1] + at), load_u16(w[2] + at), load_u16(w[3] + at)};
	return vcvt_f32_f16(vreinterpret_f16_u16(v));
}

/* The activation rows of a call, and what their sums are made of */
struct few {
	const uint8_t* x;
	struct prepared layout;
	int64_t cols;
};

INLINED void small_block(enum dtype type, int n, const struct few* f, const uint8_t* const w[SIDE], int64_t b,
                         floats* sum) {
	const bool minimum = type == DTYPE_Q4_1 || type == DTYPE_Q5_1;
	const bool offset = type == DTYPE_Q4_0 || type == DTYPE_Q5_0;
	struct taken taken;
	ints dot[GROUP_ROWS];
	UNROLLED for (int r = 0; r < SIDE; r++) take_32(type, w[r], taken.q[r]);
	rows_dot(n, dot, products_in_16_bits(type), 2, &taken, (const int8_t*)f->x + b * 32, f->layout.bytes);
	const floats wd = four_halves(w, 0), wm = minimum ? four_halves(w, 2) : wd;
	UNROLLED for (int i = 0; i < n; i++) {
		const uint8_t* x = f->x + (size_t)i * f->layout.bytes + b * 4;
		if (offset)
			dot[i] = vaddq_s32(dot[i], to_all(x + f->layout.sums));
		const floats d = floats_mul(wd, float_to_all(x + f->layout.d));
		sum[i] = floats_fma(floats_from_ints(dot[i]), d, sum[i]);
		if (minimum)
			sum[i] = floats_fma(wm, float_to_all(x + f->layout.sums), sum[i]);
	}
}

/* ---- blocks of 256 --------------------------------------------------------------------------- */

/* Group g's scale of every row: its byte of the 16 that each row has */
INLINED ints scale_of(const int8x16_t scales[SIDE], int g) {
	const int16x4_t v = {scales[0][g], scales[1][g], scales[2][g], scales[3][g]};
	return vmovl_s16(v);
}

/* Groups 2p and 2p + 1 of 32 columns of q4_k or q5_k */
INLINED void take_k4_groups(enum dtype type, const uint8_t* w, int p, int8x16_t first[2], int8x16_t second[2]) {
	UNROLLED for (int half = 0; half < 2; half++) {
		const uint8x16_t packed = vld1q_u8(w + (type == DTYPE_Q5_K ? 48 : 16) + p * 32 + half * 16);
		uint8x16_t low = low_nibbles(packed), high = vshrq_n_u8(packed, 4);
		if (type == DTYPE_Q5_K) {
			const uint8x16_t fifth = vld1q_u8(w + 16 + half * 16), sixteen = vdupq_n_u8(16);
			low = vorrq_u8(low, vandq_u8(vtstq_u8(fifth, vdupq_n_u8((uint8_t)(1 << 2 * p))), sixteen));
			high = vorrq_u8(high, vandq_u8(vtstq_u8(fifth, vdupq_n_u8((uint8_t)(2 << 2 * p))), sixteen));
		}
		first[half] = signed_bytes(low);
		second[half] = signed_bytes(high);
	}
}

INLINED void k4_block(enum dtype type, int n, const struct few* f, const uint8_t* const w[SIDE], int64_t b,
                      floats* sum) {
	int8x16_t scales[SIDE];
	int16x8_t minima[SIDE];
	ints dot[GROUP_ROWS];
	UNROLLED for (int i = 0; i < n; i++) dot[i] = ints_set(0);
	UNROLLED for (int r = 0; r < SIDE; r++) {
		uint64_t scale, min;
		k4_scales_minima(w[r] + 4, &scale, &min);
		scales[r] = vreinterpretq_s8_u64(vdupq_n_u64(scale));
		minima[r] = vreinterpretq_s16_u16(vmovl_u8(vcreate_u8(min)));
	}
	const int8_t* q = (const int8_t*)f->x + b * 256;
	UNROLLED for (int p = 0; p < 4; p++) {
		struct taken first, second;
		ints some[GROUP_ROWS];
		UNROLLED for (int r = 0; r < SIDE; r++) take_k4_groups(type, w[r], p, first.q[r], second.q[r]);
		rows_dot(n, some, products_in_16_bits(type), 2, &first, q + p * 64, f->layout.bytes);
		UNROLLED for (int i = 0; i < n; i++) dot[i] = vmlaq_s32(dot[i], some[i], scale_of(scales, 2 * p));
		rows_dot(n, some, products_in_16_bits(type), 2, &second, q + p * 64 + 32, f->layout.bytes);
		UNROLLED for (int i = 0; i < n; i++) dot[i] = vmlaq_s32(dot[i], some[i], scale_of(scales, 2 * p + 1));
	}
	const floats wd = four_halves(w, 0), wm = floats_negated(four_halves(w, 2));
	UNROLLED for (int i = 0; i < n; i++) {
		const uint8_t* x = f->x + (size_t)i * f->layout.bytes;
		const int16x8_t sums = vreinterpretq_s16_u8(vld1q_u8(x + f->layout.sums + b * 16));
		ints less[SIDE];
		UNROLLED for (int r = 0; r < SIDE; r++) less[r] =
		    vmlal_high_s16(vmull_s16(vget_low_s16(minima[r]), vget_low_s16(sums)), minima[r], sums);
		const floats product =
		    floats_fma(wm, floats_from_ints(four_sums(less)), floats_mul(wd, floats_from_ints(dot[i])));
		sum[i] = floats_fma(float_to_all(x + f->layout.d + b * 4), product, sum[i]);
	}
}

/* Groups s and s + 2 of 32 columns of a half of a block of q6_k, 32 not yet taken off */
INLINED void take_q6_groups(const uint8_t* w, int half, int s, int8x16_t first[2], int8x16_t second[2]) {
	UNROLLED for (int part = 0; part < 2; part++) {
		const uint8x16_t packed = vld1q_u8(w + half * 64 + s * 32 + part * 16);
		const uint8x16_t two = vld1q_u8(w + 128 + half * 32 + part * 16), mask = vdupq_n_u8(0x30);
		first[part] = signed_bytes(
		    vorrq_u8(low_nibbles(packed), vandq_u8(s ? vshlq_n_u8(two, 2) : vshlq_n_u8(two, 4), mask)));
		second[part] =
		    signed_bytes(vorrq_u8(vshrq_n_u8(packed, 4), vandq_u8(s ? vshrq_n_u8(two, 2) : two, mask)));
	}
}

/* dot += the products of two groups of 16 columns, of which each has its scale */
INLINED void q6_k_groups(int n, ints dot[], const struct taken* taken, const int8x16_t scales[SIDE], int g,
                         const int8_t* q, size_t x_stride) {
	UNROLLED for (int part = 0; part < 2; part++) {
		struct taken one;
		ints some[GROUP_ROWS];
		UNROLLED for (int r = 0; r < SIDE; r++) one.q[r][0] = taken->q[r][part];
		rows_dot(n, some, products_in_16_bits(DTYPE_Q6_K), 1, &one, q + part * 16, x_stride);
		UNROLLED for (int i = 0; i < n; i++) dot[i] = vmlaq_s32(dot[i], some[i], scale_of(scales, g + part));
	}
}

INLINED void q6_k_block(int n, const struct few* f, const uint8_t* const w[SIDE], int64_t b, floats* sum) {
	const size_t x_stride = f->layout.bytes;
	const uint8_t* starts = f->x + f->layout.starts + b * 64;
	const int8_t* q = (const int8_t*)f->x + b * 256;
	int8x16_t scales[SIDE];
	ints dot[GROUP_ROWS];
	UNROLLED for (int r = 0; r < SIDE; r++) scales[r] = signed_bytes(vld1q_u8(w[r] + 192));
	UNROLLED for (int i = 0; i < n; i++) { /* what 32 less makes */
		ints less[SIDE];
		UNROLLED for (int r = 0; r < SIDE; r++) {
			const int16x8_t low = vmovl_s8(vget_low_s8(scales[r])), high = vmovl_high_s8(scales[r]);
			less[r] = vmulq_s32(vmovl_s16(vget_low_s16(low)), ints_load(starts + (size_t)i * x_stride));
			less[r] = vmlaq_s32(less[r], vmovl_high_s16(low), ints_load(starts + (size_t)i * x_stride + 16));
			less[r] = vmlaq_s32(less[r], vmovl_s16(vget_low_s16(high)),
			                    ints_load(starts + (size_t)i * x_stride + 32));
			less[r] = vmlaq_s32(less[r], vmovl_high_s16(high), ints_load(starts + (size_t)i * x_stride + 48));
		}
		dot[i] = four_sums(less);
	}
	UNROLLED for (int half = 0; half < 2; half++) UNROLLED for (int s = 0; s < 2; s++) {
		struct taken first, second;
		const int g = half * 8 + s * 2;
		UNROLLED for (int r = 0; r < SIDE; r++) take_q6_groups(w[r], half, s, first.q[r], second.q[r]);
		q6_k_groups(n, dot, &first, scales, g, q + g * 16, x_stride);
		q6_k_groups(n, dot, &second, scales, g + 4, q + (g + 4) * 16, x_stride);
	}
	const floats wd = four_halves(w, 208);
	UNROLLED for (int i = 0; i < n; i++) {
		const floats d = float_to_all(f->x + (size_t)i * x_stride + f->layout.d + b * 4);
		sum[i] = floats_fma(d, floats_mul(wd, floats_from_ints(dot[i])), sum[i]);
	}
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Four weight rows against n activation rows; out (n, SIDE) */
INLINED void four_rows(enum dtype type, int n, const struct few* f, const uint8_t* w[SIDE],
                       floats out[GROUP_ROWS]) {
	const int slots = small_blocks(type) ? SLOTS : SUPER_SLOTS, block = small_blocks(type) ? 32 : 256;
	floats sum[SLOTS][GROUP_ROWS];
	UNROLLED for (int s = 0; s < slots; s++) UNROLLED for (int i = 0; i < n; i++) sum[s][i] = vdupq_n_f32(0);
	for (int64_t b = 0; b < f->cols / block; b++) {
		floats* to = sum[b % slots];
		if (small_blocks(type))
			small_block(type, n, f, w, b, to);
		else if (type == DTYPE_Q6_K)
			q6_k_block(n, f, w, b, to);
		else
			k4_block(type, n, f, w, b, to);
		UNROLLED for (int r = 0; r < SIDE; r++) w[r] += dtype_bytes_of(type);
	}
	for (int half = slots / 2; half > 0; half /= 2)
		for (int s = 0; s < half; s++)
			UNROLLED for (int i = 0; i < n; i++) sum[s][i] = floats_add(sum[s][i], sum[s + half][i]);
	UNROLLED for (int i = 0; i < n; i++) out[i] = sum[0][i];
}

INLINED void all_rows(enum dtype type, int n, const struct tensor* w, int64_t begin, int64_t end,
                      const struct few* f, float* out, size_t out_stride) {
	const size_t row_bytes = (size_t)(w->cols / (small_blocks(type) ? 32 : 256)) * dtype_bytes_of(type);
	for (int64_t r = begin; r < end; r += SIDE) {
		const int64_t count = end - r < SIDE ? end - r : SIDE;
		const uint8_t* row[SIDE];
		floats sums[GROUP_ROWS];
		for (int k = 0; k < SIDE; k++) /* the last one again where there are fewer */
			row[k] = (const uint8_t*)w->data + row_bytes * (size_t)(r + (k < count ? k : count - 1));
		four_rows(type, n, f, row, sums);
		for (int i = 0; i < n; i++)
			memcpy(out + (size_t)i * out_stride + (size_t)r, &sums[i], (size_t)count * sizeof(float));
	}
}

#define ROWS_CASE(n, type)                                                                                   \
	case n:                                                                                                  \
		all_rows(type, n, w, begin, end, f, out, out_stride);                                                \
		break;
#define ROWS(type)                                                                                           \
	static void rows_##type(int n, const struct tensor* w, int64_t begin, int64_t end, const struct few* f,  \
	                        float* out, size_t out_stride) {                                                 \
		switch (n) {                                                                                         \
			ROWS_CASE(1, type)                                                                               \
			ROWS_CASE(2, type)                                                                               \
			ROWS_CASE(3, type)                                                                               \
			ROWS_CASE(4, type)                                                                               \
			ROWS_CASE(5, type)                                                                               \
			ROWS_CASE(6, type)                                                                               \
			ROWS_CASE(7, type)                                                                               \
			ROWS_CASE(8, type)                                                                               \
		}                                                                                                    \
	}
ROWS(DTYPE_Q8_0)
ROWS(DTYPE_Q4_0)
ROWS(DTYPE_Q4_1)
ROWS(DTYPE_Q5_0)
ROWS(DTYPE_Q5_1)
ROWS(DTYPE_IQ4_NL)
ROWS(DTYPE_Q4_K)
ROWS(DTYPE_Q5_K)
ROWS(DTYPE_Q6_K)

/* False, and nothing done, where there are too many activation rows or the type goes by tiles. */
static bool rows_matmul(float* out, size_t out_stride, const struct tensor* w, int64_t begin, int64_t end,
                        const uint8_t* x, int n) {
	const struct few f = {.x = x, .layout = prepared_layout(w->type, (int)w->cols), .cols = w->cols};
#define TYPE(type)                                                                                           \
	case type:                                                                                               \
		rows_##type(n, w, begin, end, &f, out, out_stride);                                                  \
		return true
	if (n > GROUP_ROWS)
		return false;
	switch (w->type) {
		TYPE(DTYPE_Q8_0);
		TYPE(DTYPE_Q4_0);
		TYPE(DTYPE_Q4_1);
		TYPE(DTYPE_Q5_0);
		TYPE(DTYPE_Q5_1);
		TYPE(DTYPE_IQ4_NL);
		TYPE(DTYPE_Q4_K);
		TYPE(DTYPE_Q5_K);
		TYPE(DTYPE_Q6_K);
	default:
		return false;
	}
#undef TYPE
}
