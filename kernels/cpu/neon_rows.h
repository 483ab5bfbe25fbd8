/* Products of few activation rows with four weight rows side by side, read from end to end: included by
 * neon_quantized.h.
 *
 * 32 columns of each weight row are unpacked into two registers, which meet every activation row before the
 * next come; sums across a register are four rows' at a time, a lane a row. Floats meet as in the tiles. */

INLINED int8x16_t signed_bytes(uint8x16_t v) { return vreinterpretq_s8_u8(v); }
INLINED uint8x16_t low_nibbles(uint8x16_t v) { return vandq_u8(v, vdupq_n_u8(15)); }

/* Sixteen bits from bit `first` of a word on, in whole bytes */
INLINED uint8x16_t bits_as_bytes(uint32_t word, int first) {
	const uint8x16_t zero_one = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
	const uint8x16_t at = first ? vaddq_u8(zero_one, vdupq_n_u8(2)) : zero_one;
	const uint8x16_t bit = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u));
	return vtstq_u8(vqtbl1q_u8(vreinterpretq_u8_u32(vdupq_n_u32(word)), at), bit);
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
	if (type == DTYPE_Q5_0) { /* without a fifth bit 16 less: the upper bits of a negative byte */
		const uint32_t without = ~load_u32(w + high_at(type));
		first = vsliq_n_u8(first, bits_as_bytes(without, 0), 4);
		second = vsliq_n_u8(second, bits_as_bytes(without, 16), 4);
	}
	if (type == DTYPE_Q5_1) {
		const uint32_t with = load_u32(w + high_at(type));
		first = vorrq_u8(first, vandq_u8(bits_as_bytes(with, 0), vdupq_n_u8(16)));
		second = vorrq_u8(second, vandq_u8(bits_as_bytes(with, 16), vdupq_n_u8(16)));
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
	const bool minimum = dtype_has_min(type);
	struct taken taken;
	ints dot[GROUP_ROWS];
	UNROLLED for (int r = 0; r < SIDE; r++) take_32(type, w[r], taken.q[r]);
	rows_dot(n, dot, type, 2, &taken, (const int8_t*)f->x + b * 32, f->layout.bytes);
	const floats wd = four_halves(w, 0), wm = minimum ? four_halves(w, 2) : wd;
	UNROLLED for (int i = 0; i < n; i++) {
		const uint8_t* x = f->x + (size_t)i * f->layout.bytes + b * 4;
		if (type == DTYPE_Q4_0)
			dot[i] = vaddq_s32(dot[i], to_all(x + f->layout.sums));
		const floats d = floats_mul(wd, float_to_all(x + f->layout.d));
		sum[i] = floats_fma(floats_from_ints(dot[i]), d, sum[i]);
		if (minimum)
			sum[i] = floats_fma(wm, float_to_all(x + f->layout.sums), sum[i]);
	}
}

/* ---- blocks of 256 --------------------------------------------------------------------------- */

/* The 16 bytes at `at` of every row, as four vectors of 4 bytes a row */
INLINED void turned(const uint8_t* const w[SIDE], size_t at, ints out[4]) {
	ints row[SIDE];
	UNROLLED for (int r = 0; r < SIDE; r++) row[r] = ints_load(w[r] + at);
	turn(row, out);
}

/* dot (n) += 16·vectors columns times their scale, of n activation rows at q */
INLINED void scaled_dot(enum dtype type, int n, ints dot[], int vectors, const struct taken* w, ints scale,
                        const int8_t* q, size_t x_stride) {
	ints some[GROUP_ROWS];
	rows_dot(n, some, type, vectors, w, q, x_stride);
	UNROLLED for (int i = 0; i < n; i++) dot[i] = vmlaq_s32(dot[i], some[i], scale);
}

/* 32 columns of q4_k or q5_k: the high or the low nibbles of the bytes at `at`, their fifth bits where `bit`
 * states */
INLINED void take_k4_group(enum dtype type, const uint8_t* w, size_t at, bool high, uint8x16_t bit,
                           int8x16_t q[2]) {
	UNROLLED for (int half = 0; half < 2; half++) {
		const uint8x16_t packed = vld1q_u8(w + at + half * 16);
		uint8x16_t v = high ? vshrq_n_u8(packed, 4) : low_nibbles(packed);
		if (type == DTYPE_Q5_K) {
			const uint8x16_t fifth = vtstq_u8(vld1q_u8(w + 16 + half * 16), bit);
			v = vorrq_u8(v, vandq_u8(fifth, vdupq_n_u8(16)));
		}
		q[half] = signed_bytes(v);
	}
}

INLINED void k4_block(enum dtype type, int n, const struct few* f, const uint8_t* const w[SIDE], int64_t b,
                      floats* sum) {
	struct header head;
	ints words[4], scale[8], dot[GROUP_ROWS];
	turned(w, 0, words);
	k4_header(&head, words);
	UNROLLED for (int g = 0; g < 8; g++) scale[g] = scale_of(DTYPE_Q4_K, &head, g);
	UNROLLED for (int i = 0; i < n; i++) dot[i] = ints_set(0);
	const int8_t* q = (const int8_t*)f->x + b * 256;
	uint8x16_t bit = vdupq_n_u8(1);
	NOT_UNROLLED for (int p = 0; p < 4; p++) UNROLLED for (int high = 0; high < 2; high++) {
		struct taken taken;
		UNROLLED for (int r = 0; r < SIDE; r++)
		    take_k4_group(type, w[r], (type == DTYPE_Q5_K ? 48 : 16) + (size_t)p * 32, high, bit, taken.q[r]);
		scaled_dot(type, n, dot, 2, &taken, scale[2 * p + high], q + p * 64 + high * 32, f->layout.bytes);
		bit = vshlq_n_u8(bit, 1);
	}
	UNROLLED for (int i = 0; i < n; i++) {
		const uint8_t* x = f->x + (size_t)i * f->layout.bytes;
		const floats product =
		    block_product(type, &head, floats_from_ints(dot[i]), x + f->layout.sums + b * 16);
		sum[i] = floats_fma(float_to_all(x + f->layout.d + b * 4), product, sum[i]);
	}
}

/* Unpacks 16 bytes at each of two places and their upper bits: four groups of 16 columns, less 32. Bits
 * are shifted into their place beside the others, and what lies above them cleared. */
INLINED void take_q6_groups(const uint8_t* first, const uint8_t* high, int8x16_t q[4]) {
	const uint8x16_t low = vld1q_u8(first), other = vld1q_u8(first + 32), two = vld1q_u8(high);
	const uint8x16_t less = vshrq_n_u8(two, 2), six = vdupq_n_u8(63);
	const int8x16_t offset = vdupq_n_s8(32);
	q[0] = vsubq_s8(signed_bytes(vandq_u8(vsliq_n_u8(low, two, 4), six)), offset);
	q[1] = vsubq_s8(signed_bytes(vandq_u8(vsliq_n_u8(other, less, 4), six)), offset);
	q[2] = vsubq_s8(signed_bytes(vandq_u8(vsriq_n_u8(two, low, 4), six)), offset);
	q[3] = vsubq_s8(signed_bytes(vsriq_n_u8(less, other, 4)), offset);
}

INLINED void q6_k_block(int n, const struct few* f, const uint8_t* const w[SIDE], int64_t b, floats* sum) {
	const size_t x_stride = f->layout.bytes;
	ints words[4], scale[16], dot[GROUP_ROWS];
	turned(w, 192, words);
	UNROLLED for (int g = 0; g < 16; g++) scale[g] =
	    ints_right_signed(ints_left(words[g / 4], 24 - 8 * (g % 4)), 24);
	UNROLLED for (int i = 0; i < n; i++) dot[i] = ints_set(0);
	NOT_UNROLLED for (int part = 0; part < 4; part++) {
		struct taken taken[4];
		const int at = part / 2 * 64 + part % 2 * 16, column = part / 2 * 128 + part % 2 * 16;
		const int8_t* q = (const int8_t*)f->x + b * 256 + column;
		UNROLLED for (int r = 0; r < SIDE; r++) {
			int8x16_t four[4];
			take_q6_groups(w[r] + at, w[r] + 128 + part * 16, four);
			UNROLLED for (int g = 0; g < 4; g++) taken[g].q[r][0] = four[g];
		}
		UNROLLED for (int g = 0; g < 4; g++)
		    scaled_dot(DTYPE_Q6_K, n, dot, 1, &taken[g], scale[column / 16 + 2 * g], q + g * 32, x_stride);
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

INLINED void all_rows(int n, enum dtype type, const struct tensor* w, int64_t begin, int64_t end,
                      const struct few* f, float* out, size_t out_stride) {
	const size_t row_bytes = (size_t)(w->cols / (small_blocks(type) ? 32 : 256)) * dtype_bytes_of(type);
	for (int64_t r = begin; r < end; r += SIDE) {
		const int64_t count = end - r < SIDE ? end - r : SIDE;
		const uint8_t* row[SIDE];
		floats sums[GROUP_ROWS];
		for (int k = 0; k < SIDE; k++) /* the last one again where there are fewer */
			row[k] = (const uint8_t*)w->data + row_bytes * (size_t)(r + (k < count ? k : count - 1));
		four_rows(type, n, f, row, sums);
		for (int i = 0; i < n; i++) {
			float* to = out + (size_t)i * out_stride + (size_t)r;
			if (count == SIDE)
				floats_store_anywhere(to, sums[i]);
			else
				memcpy(to, &sums[i], (size_t)count * sizeof(float));
		}
	}
}

typedef void rows_function(int n, const struct tensor* w, int64_t begin, int64_t end, const struct few* f,
                           float* out, size_t out_stride);

#define ROWS(type)                                                                                           \
	static void rows_##type(int n, const struct tensor* w, int64_t begin, int64_t end, const struct few* f,  \
	                        float* out, size_t out_stride) {                                                 \
		switch (n) { UP_TO_8(CASE, all_rows, type, w, begin, end, f, out, out_stride) }                      \
	}
#define ROWS_OF(type) [type] = rows_##type,
MAIN_TYPES(ROWS)
static rows_function* const rows_of[DTYPE_COUNT] = {MAIN_TYPES(ROWS_OF)};

/* False, and nothing done, where tiles take fewer instructions (docs/figures.md): many rows with blocks of
 * 256, and types that have no other way. Many rows with blocks of 32 come by the group. */
static bool rows_matmul(float* out, size_t out_stride, const struct tensor* w, int64_t begin, int64_t end,
                        const uint8_t* x, int n) {
	rows_function* rows = rows_of[w->type];
	if (!rows || (n > GROUP_ROWS && !small_blocks(w->type)))
		return false;
	struct few f = {.x = x, .layout = prepared_layout(w->type, (int)w->cols), .cols = w->cols};
	for (int i = 0; i < n; i += GROUP_ROWS, f.x += GROUP_ROWS * f.layout.bytes)
		rows(n - i < GROUP_ROWS ? n - i : GROUP_ROWS, w, begin, end, &f, out + (size_t)i * out_stride,
		     out_stride);
	return true;
}
