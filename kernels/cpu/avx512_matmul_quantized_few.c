/* Products of one or two activation rows with quantized weights, AVX-512 with VNNI.
 *
 * Weights that are used once or twice are not worth turning round: each weight row is read from end to end,
 * as memory likes it, and multiplied in registers where it is taken apart. A block's integers are added up
 * across lanes, exactly, and meet the float sums of avx512_matmul_quantized.c in its order. */
#include "kernels/cpu/matmul.h"

#if defined(__AVX512VNNI__)
#include "kernels/cpu/lane_sums.h"
#include "kernels/cpu/quantized_blocks.h"

enum { FEW = 2, CHUNK = 16 };

INLINED __m128i load_128(const void* p) { return _mm_loadu_si128(p); }
INLINED __m256i load_256(const void* p) { return _mm256_loadu_si256(p); }

INLINED float float_at(const uint8_t* p) {
	float x;
	memcpy(&x, p, 4);
	return x;
}

/* Shifts every 32 bytes' half by its own count and keeps `mask` of each byte. */
INLINED __m512i bits_of(__m512i v, int low, int high, int mask) {
	const __m512i shift =
	    _mm512_inserti64x4(_mm512_set1_epi16((short)low), _mm256_set1_epi16((short)high), 1);
	return _mm512_and_si512(_mm512_srlv_epi16(v, shift), _mm512_set1_epi8((char)mask));
}

INLINED __m512i add_where(__m512i v, uint64_t where, int what) {
	return _mm512_mask_add_epi8(v, where, v, _mm512_set1_epi8((char)what));
}

/* ---- blocks of 32 ---------------------------------------------------------------------------- */

/* Two blocks' 16 bytes of nibbles as 64 bytes */
INLINED __m512i nibbles(const uint8_t* a, const uint8_t* b) {
	const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_broadcastsi128_si256(load_128(a))),
	                                        _mm256_broadcastsi128_si256(load_128(b)), 1);
	const __m512i shift = _mm512_set_epi64(0x0004000400040004, 0x0004000400040004, 0, 0, 0x0004000400040004,
	                                       0x0004000400040004, 0, 0);
	return _mm512_and_si512(_mm512_srlv_epi16(both, shift), _mm512_set1_epi8(15));
}

/* iq4_values + 128 */
INLINED __m512i iq4_lookup(__m512i index) {
	const __m128i values = _mm_xor_si128(load_128(iq4_values), _mm_set1_epi8((char)0x80));
	return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), index);
}

/* The integers of two blocks */
INLINED __m512i block_pair(enum dtype type, const uint8_t* a, const uint8_t* b) {
	switch (type) {
	case DTYPE_Q8_0:
		return _mm512_xor_si512(
		    _mm512_inserti64x4(_mm512_castsi256_si512(load_256(a + 2)), load_256(b + 2), 1),
		    _mm512_set1_epi8((char)0x80));
	case DTYPE_Q4_0:
		return nibbles(a + 2, b + 2);
	case DTYPE_Q4_1:
		return nibbles(a + 4, b + 4);
	case DTYPE_Q5_0:
		return add_where(nibbles(a + 6, b + 6), load_u32(a + 2) | (uint64_t)load_u32(b + 2) << 32, 16);
	case DTYPE_Q5_1:
		return add_where(nibbles(a + 8, b + 8), load_u32(a + 4) | (uint64_t)load_u32(b + 4) << 32, 16);
	default:
		return iq4_lookup(nibbles(a + 2, b + 2));
	}
}

INLINED __m512i halves_added(__m512i a, __m512i b) {
	return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
}

INLINED __m512i quarters_added(__m512i a, __m512i b) {
	return _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
}

/* Lane j is the sum of the lanes that belong to block j: vector j/2 holds blocks j and j+1 in its halves. */
INLINED __m512i block_sums(const __m512i v[CHUNK / 2]) {
	const __m512i a = quarters_added(halves_added(v[0], v[1]), halves_added(v[2], v[3]));
	const __m512i b = quarters_added(halves_added(v[4], v[5]), halves_added(v[6], v[7]));
	const __m512i sums = _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
	const __m512i order = _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
	return _mm512_permutexvar_epi32(order, sums);
}

/* sum (n) += `count` blocks at w, at most CHUNK, times the activations' columns at q, d and sums */
INLINED void small_chunk(enum dtype type, int count, int n, __m512 sum[], const uint8_t* w, const uint8_t* q,
                         const uint8_t* d, const uint8_t* sums, size_t x_stride) {
	static const uint8_t zeros[sizeof(struct block_q8_0)];
	const size_t bytes = dtype_bytes_of(type);
	const __mmask16 present = (__mmask16)((1u << count) - 1);
	_Alignas(64) uint32_t head[CHUNK] = {0};
	__m512i dot[FEW][CHUNK / 2];
	for (int b = 0; b < count; b++) /* read when all else is done */
		head[b] = load_u32(w + (size_t)b * bytes);
	UNROLLED for (int p = 0; p < CHUNK / 2; p++) {
		if (p * 2 >= count) {
			UNROLLED for (int i = 0; i < n; i++) dot[i][p] = _mm512_setzero_si512();
			continue;
		}
		const uint8_t* first = w + (size_t)p * 2 * bytes;
		const __m512i wq = block_pair(type, first, p * 2 + 1 < count ? first + bytes : zeros);
		UNROLLED for (int i = 0; i < n; i++) dot[i][p] = _mm512_dpbusd_epi32(
		    _mm512_setzero_si512(), wq, _mm512_loadu_si512(q + (size_t)i * x_stride + p * 64));
	}
	const __m512i heads = _mm512_load_si512(head);
	const __m512 wd = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(heads));
	const __m512 wm = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(heads, 16)));
	UNROLLED for (int i = 0; i < n; i++) {
		const __m512i behind = _mm512_maskz_loadu_epi32(present, sums + (size_t)i * x_stride);
		const __m512 xd = _mm512_maskz_loadu_ps(present, d + (size_t)i * x_stride);
		__m512i whole = block_sums(dot[i]);
		if (!dtype_has_min(type))
			whole = _mm512_add_epi32(whole, behind);
		const __m512 dots = _mm512_cvtepi32_ps(whole);
		sum[i] = _mm512_mask3_fmadd_ps(dots, _mm512_mul_ps(wd, xd), sum[i], present);
		if (dtype_has_min(type))
			sum[i] = _mm512_mask3_fmadd_ps(wm, _mm512_castsi512_ps(behind), sum[i], present);
	}
}

INLINED void small_row(enum dtype type, int n, const uint8_t* w, int64_t cols, const uint8_t* x,
                       const struct prepared* layout, float* out, size_t out_stride) {
	const size_t bytes = dtype_bytes_of(type) * CHUNK;
	const uint8_t *q = x, *d = x + layout->d, *sums = x + layout->sums;
	__m512 sum[FEW];
	UNROLLED for (int i = 0; i < n; i++) sum[i] = _mm512_setzero_ps();
	int left = (int)(cols / 32);
	for (; left >= CHUNK; left -= CHUNK, w += bytes, q += CHUNK * 32, d += CHUNK * 4, sums += CHUNK * 4) {
		small_chunk(type, CHUNK, n, sum, w, q, d, sums, layout->bytes);
	}
	if (left)
		small_chunk(type, left, n, sum, w, q, d, sums, layout->bytes);
	UNROLLED for (int i = 0; i < n; i++) out[(size_t)i * out_stride] = lane_sum_512(sum[i]);
}

/* ---- blocks of 256 --------------------------------------------------------------------------- */

/* A block taken apart; types with groups of 32 have each scale twice. */
struct super {
	__m512i q[4];
	__m256i scale;
	__m128i min;   /* a byte a group */
	uint32_t head; /* d, and dmin above it */
};

INLINED void super_q4_k(struct super* out, const struct block_q4_k* w) {
	UNROLLED for (int p = 0; p < 4; p++) out->q[p] =
	    bits_of(_mm512_broadcast_i64x4(load_256(w->q + p * 32)), 0, 4, 15);
}

/* Where 64 elements' bit `low` (first 32) or `low` + 1 (last 32) of `high` is set */
INLINED uint64_t high_bits(__m512i high, int low) {
	return _mm512_test_epi8_mask(
	    high, _mm512_inserti64x4(_mm512_set1_epi8((char)(1 << low)), _mm256_set1_epi8((char)(2 << low)), 1));
}

INLINED void super_q5_k(struct super* out, const struct block_q5_k* w) {
	const __m512i high = _mm512_broadcast_i64x4(load_256(w->high));
	UNROLLED for (int p = 0; p < 4; p++) {
		const __m512i low = bits_of(_mm512_broadcast_i64x4(load_256(w->q + p * 32)), 0, 4, 15);
		out->q[p] = add_where(low, high_bits(high, 2 * p), 16);
	}
}

/* The 6-bit scales and minima of q4_k and q5_k */
INLINED void set_k4_scales(struct super* out, const uint8_t* packed) {
	uint64_t scales, minima;
	k4_scales_minima(packed, &scales, &minima);
	const __m128i s = _mm_cvtsi64_si128((long long)scales), m = _mm_cvtsi64_si128((long long)minima);
	out->scale = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(s, s));
	out->min = m;
}

INLINED void super_q2_k(struct super* out, const struct block_q2_k* w) {
	const __m128i packed = load_128(w->scales), four = _mm_set1_epi8(15);
	out->scale = _mm256_cvtepu8_epi16(_mm_and_si128(packed, four));
	out->min = _mm_and_si128(_mm_srli_epi16(packed, 4), four);
	UNROLLED for (int p = 0; p < 4; p++) out->q[p] =
	    bits_of(_mm512_broadcast_i64x4(load_256(w->q + p / 2 * 32)), p % 2 * 4, p % 2 * 4 + 2, 3);
}

INLINED void super_q3_k(struct super* out, const struct block_q3_k* w) {
	uint64_t first, last;
	q3_scales(w->scales, &first, &last);
	const __m256i scale = _mm256_cvtepu8_epi16(_mm_set_epi64x((long long)last, (long long)first));
	out->scale = _mm256_sub_epi16(scale, _mm256_set1_epi16(32));
	const __m512i third = _mm512_broadcast_i64x4(load_256(w->high));
	UNROLLED for (int p = 0; p < 4; p++) {
		const __m512i q = _mm512_broadcast_i64x4(load_256(w->q + p / 2 * 32));
		const __m512i two_bits = bits_of(q, p % 2 * 4, p % 2 * 4 + 2, 3);
		out->q[p] = add_where(two_bits, high_bits(third, 2 * p), 4);
	}
}

INLINED void super_q6_k(struct super* out, const struct block_q6_k* w) {
	out->scale = _mm256_cvtepi8_epi16(load_128(w->scales));
	UNROLLED for (int p = 0; p < 4; p++) {
		const __m512i low = _mm512_loadu_si512(w->low + p / 2 * 64);
		const __m512i high = _mm512_broadcast_i64x4(load_256(w->high + p / 2 * 32));
		const __m512i four = bits_of(low, p % 2 * 4, p % 2 * 4, 15);
		const __m512i two = bits_of(high, p % 2 * 4, p % 2 * 4 + 2, 3);
		out->q[p] = _mm512_or_si512(four, _mm512_slli_epi16(two, 4));
	}
}

INLINED void super_block(enum dtype type, struct super* out, const uint8_t* w) {
	switch (type) {
	case DTYPE_Q2_K:
		super_q2_k(out, (const void*)w);
		out->head = load_u32(((const struct block_q2_k*)w)->d);
		break;
	case DTYPE_Q3_K:
		super_q3_k(out, (const void*)w);
		out->head = load_u16(((const struct block_q3_k*)w)->d);
		break;
	case DTYPE_Q6_K:
		super_q6_k(out, (const void*)w);
		out->head = load_u16(((const struct block_q6_k*)w)->d);
		break;
	default:
		if (type == DTYPE_Q4_K)
			super_q4_k(out, (const void*)w);
		else
			super_q5_k(out, (const void*)w);
		set_k4_scales(out, w + 4);
		out->head = load_u32(w);
	}
}

/* Scales of the four groups of 64 elements p of a block, each for its eight pairs */
INLINED __m512i scales_of(__m256i scale, int p) {
	const __m512i all = _mm512_broadcast_i64x4(scale);
	const __m512i first = _mm512_set_epi64(0x0003000300030003, 0x0003000300030003, 0x0002000200020002,
	                                       0x0002000200020002, 0x0001000100010001, 0x0001000100010001, 0, 0);
	return _mm512_permutexvar_epi16(_mm512_add_epi16(first, _mm512_set1_epi16((short)(p * 4))), all);
}

INLINED __m128i four_lanes(__m256i v) {
	return _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

/* The integers of a block times 256 columns, in sixteen lanes */
INLINED __m512i super_dot(enum dtype type, const struct super* w, const uint8_t* q, const uint8_t* starts) {
	__m512i dot = _mm512_setzero_si512();
	if (group_offset(type))
		dot = _mm512_mullo_epi32(_mm512_cvtepi16_epi32(w->scale), _mm512_loadu_si512(starts));
	UNROLLED for (int p = 0; p < 4; p++) dot = _mm512_dpwssd_epi32(
	    dot, _mm512_maddubs_epi16(w->q[p], _mm512_loadu_si512(q + p * 64)), scales_of(w->scale, p));
	return dot;
}

/* Lane j is the sum of vector j's lanes. */
INLINED __m128i four_sums(const __m512i v[4]) {
	const __m512i a = quarters_added(halves_added(v[0], v[1]), halves_added(v[2], v[3]));
	return four_lanes(_mm256_add_epi32(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1)));
}

/* Minima of four blocks with as many sums of activations, in four lanes a block; `most` blocks are there. */
INLINED __m512i minima_product(enum dtype type, const __m128i min[4], const uint8_t* sums, int most) {
	if (group_of(type) == 32) {
		const __m256i all =
		    _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_unpacklo_epi64(min[0], min[1])),
		                            _mm_unpacklo_epi64(min[2], min[3]), 1);
		return _mm512_madd_epi16(_mm512_cvtepu8_epi16(all), _mm512_loadu_si512(sums));
	}
	const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(min[0]), min[1], 1);
	const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(min[2]), min[3], 1);
	const __m512i more = most > 2 ? _mm512_loadu_si512(sums + 64) : _mm512_setzero_si512();
	const __m512i a = _mm512_madd_epi16(_mm512_cvtepu8_epi16(low), _mm512_loadu_si512(sums));
	const __m512i b = _mm512_madd_epi16(_mm512_cvtepu8_epi16(high), more);
	return _mm512_add_epi32(_mm512_shuffle_i32x4(a, b, 0x88), _mm512_shuffle_i32x4(a, b, 0xdd));
}

/* Lane j is the sum of lanes 4j…4j + 3. */
INLINED __m128i quarter_sums(__m512i v) {
	const __m512i two = _mm512_add_epi32(v, _mm512_shuffle_epi32(v, 0x4e));
	const __m512i one = _mm512_add_epi32(two, _mm512_shuffle_epi32(two, 0xb1));
	return _mm512_castsi512_si128(_mm512_maskz_compress_epi32(0x1111, one));
}

INLINED __m128 four_halves(__m128i v) {
	return _mm_cvtph_ps(_mm_packus_epi32(_mm_and_si128(v, _mm_set1_epi32(0xffff)), v));
}

/* sum (n) += `count` blocks at w, at most four, times the activations' columns from block b on */
INLINED void super_chunk(enum dtype type, int count, int n, __m128 sum[], const uint8_t* w, int64_t b,
                         const uint8_t* x, const struct prepared* layout) {
	const bool minimum = !group_offset(type);
	const __mmask8 present = (__mmask8)((1u << count) - 1);
	__m512i dot[FEW][4];
	__m128i min[4];
	uint32_t head[4] = {0};
	UNROLLED for (int j = 0; j < 4; j++) {
		if (j >= count) {
			UNROLLED for (int i = 0; i < n; i++) dot[i][j] = _mm512_setzero_si512();
			min[j] = _mm_setzero_si128();
			continue;
		}
		struct super block;
		const uint8_t* at = w + (size_t)j * dtype_bytes_of(type);
		super_block(type, &block, at);
		head[j] = block.head;
		if (minimum)
			min[j] = block.min;
		UNROLLED for (int i = 0; i < n; i++) {
			const uint8_t* xi = x + (size_t)i * layout->bytes;
			dot[i][j] = super_dot(type, &block, xi + (b + j) * 256, xi + layout->starts + (b + j) * 64);
		}
	}
	const __m128i heads = _mm_setr_epi32((int)head[0], (int)head[1], (int)head[2], (int)head[3]);
	const __m128 wd = four_halves(heads), wm = four_halves(_mm_srli_epi32(heads, 16));
	UNROLLED for (int i = 0; i < n; i++) {
		__m128 product = _mm_mul_ps(wd, _mm_cvtepi32_ps(four_sums(dot[i])));
		const uint8_t* xi = x + (size_t)i * layout->bytes;
		if (minimum) {
			const uint8_t* sums = xi + layout->sums + sums_bytes(type, 256) * (size_t)b;
			const __m128i less = quarter_sums(minima_product(type, min, sums, count));
			product = _mm_fnmadd_ps(wm, _mm_cvtepi32_ps(less), product);
		}
		const __m128 d = _mm_maskz_loadu_ps(present, xi + layout->d + b * 4);
		sum[i] = _mm_mask3_fmadd_ps(d, product, sum[i], present);
	}
}

INLINED void super_row(enum dtype type, int n, const uint8_t* w, int64_t cols, const uint8_t* x,
                       const struct prepared* layout, float* out, size_t out_stride) {
	const size_t bytes = dtype_bytes_of(type) * 4;
	__m128 sum[FEW];
	UNROLLED for (int i = 0; i < n; i++) sum[i] = _mm_setzero_ps();
	int64_t b = 0;
	for (; b + 4 <= cols / 256; b += 4, w += bytes)
		super_chunk(type, 4, n, sum, w, b, x, layout);
	if (b < cols / 256)
		super_chunk(type, (int)(cols / 256 - b), n, sum, w, b, x, layout);
	UNROLLED for (int i = 0; i < n; i++) {
		const __m128 two = _mm_add_ps(sum[i], _mm_movehl_ps(sum[i], sum[i]));
		out[(size_t)i * out_stride] = _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
	}
}

/* ---- rows ------------------------------------------------------------------------------------ */

INLINED void each_row(enum dtype type, int n, const struct tensor* w, int64_t begin, int64_t end,
                      const uint8_t* x, float* out, size_t out_stride) {
	const struct prepared layout = prepared_layout(type, (int)w->cols);
	const size_t row_bytes = (size_t)(w->cols / (small_blocks(type) ? 32 : 256)) * dtype_bytes_of(type);
	for (int64_t r = begin; r < end; r++) {
		const uint8_t* row = (const uint8_t*)w->data + row_bytes * (size_t)r;
		if (small_blocks(type))
			small_row(type, n, row, w->cols, x, &layout, out + r, out_stride);
		else
			super_row(type, n, row, w->cols, x, &layout, out + r, out_stride);
	}
}

bool avx512_quantized_few(float* out, size_t out_stride, const struct tensor* w, int64_t begin, int64_t end,
                          const uint8_t* x, int n) {
#define ROWS(type)                                                                                           \
	case type:                                                                                               \
		if (n == 1)                                                                                          \
			each_row(type, 1, w, begin, end, x, out, out_stride);                                            \
		else                                                                                                 \
			each_row(type, 2, w, begin, end, x, out, out_stride);                                            \
		return true
	if (n > FEW)
		return false;
	switch (w->type) {
		ROWS(DTYPE_Q8_0);
		ROWS(DTYPE_Q4_0);
		ROWS(DTYPE_Q4_1);
		ROWS(DTYPE_Q5_0);
		ROWS(DTYPE_Q5_1);
		ROWS(DTYPE_Q2_K);
		ROWS(DTYPE_Q3_K);
		ROWS(DTYPE_Q4_K);
		ROWS(DTYPE_Q5_K);
		ROWS(DTYPE_Q6_K);
		ROWS(DTYPE_IQ4_NL);
	default:
		return false;
	}
#undef ROWS
}
#endif
