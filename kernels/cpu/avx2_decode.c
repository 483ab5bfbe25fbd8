/* Rows widened eight elements at a time, in the order of kernels/dtype.c, so that every bit is the same.
 * Points, nibbles and bytes become indices of a table in a register or whole numbers, then floats. */
#include "kernels/cpu/matmul.h"

#if defined(__AVX2__)
#include <immintrin.h>

static float half_at(const uint8_t* p) { return _cvtsh_ss(load_u16(p)); }

/* ---- codebooks ------------------------------------------------------------------------------- */

static inline __m256i eighths(uint32_t bits, int width, int mask) {
	const __m256i by =
	    _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(width));
	return _mm256_and_si256(_mm256_srlv_epi32(_mm256_set1_epi32((int)bits), by), _mm256_set1_epi32(mask));
}

static inline __m256 with_signs(__m256 x, unsigned signs) {
	const __m256i by = _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24);
	const __m256i sign =
	    _mm256_and_si256(_mm256_sllv_epi32(_mm256_set1_epi32((int)signs), by), _mm256_set1_epi32(INT32_MIN));
	return _mm256_xor_ps(x, _mm256_castsi256_ps(sign));
}

static inline void put_iq2(float* x, float scale, uint16_t point, unsigned signs) {
	const __m256 value = _mm256_setr_ps(8, 25, 43, 0, 8, 25, 43, 0);
	const __m256 v = _mm256_permutevar8x32_ps(value, eighths(point, 2, 3));
	_mm256_storeu_ps(x, with_signs(_mm256_mul_ps(_mm256_set1_ps(scale), v), signs));
}

static inline void put_iq3(float* x, float scale, const float value[8], uint16_t low, uint16_t high,
                           unsigned signs) {
	const __m256 v =
	    _mm256_permutevar8x32_ps(_mm256_loadu_ps(value), eighths(low | (uint32_t)high << 16, 4, 7));
	_mm256_storeu_ps(x, with_signs(_mm256_mul_ps(_mm256_set1_ps(scale), v), signs));
}

static inline void put_iq1(float* x, float scale, uint16_t point, bool less) {
	const __m256 value = _mm256_setr_ps(-1, 0, 1, 2, -1, 0, 1, 2);
	const __m256 v = _mm256_permutevar8x32_ps(value, eighths(point, 2, 3));
	const __m256 moved = _mm256_add_ps(v, _mm256_set1_ps(less ? -0.125f : 0.125f));
	_mm256_storeu_ps(x, _mm256_mul_ps(_mm256_set1_ps(scale), moved));
}

/* ---- whole numbers --------------------------------------------------------------------------- */

/* x[0…16) = d·(q - zero) for sixteen signed bytes */
static inline void put_bytes(float* x, __m256 d, __m128i q, int zero) {
	const __m256i less = _mm256_set1_epi32(zero);
	const __m256i lower = _mm256_sub_epi32(_mm256_cvtepi8_epi32(q), less);
	const __m256i upper = _mm256_sub_epi32(_mm256_cvtepi8_epi32(_mm_srli_si128(q, 8)), less);
	_mm256_storeu_ps(x, _mm256_mul_ps(d, _mm256_cvtepi32_ps(lower)));
	_mm256_storeu_ps(x + 8, _mm256_mul_ps(d, _mm256_cvtepi32_ps(upper)));
}

static inline __m128i load_bytes(const uint8_t* p) { return _mm_loadu_si128((const __m128i*)(const void*)p); }

static inline __m128i low_nibbles(__m128i q) { return _mm_and_si128(q, _mm_set1_epi8(15)); }

static inline __m128i high_nibbles(__m128i q) {
	return _mm_and_si128(_mm_srli_epi16(q, 4), _mm_set1_epi8(15));
}

/* Sixteen bytes of 16 where a bit is set and 0 elsewhere. */
static inline __m128i fifth_bits(uint32_t sixteen) {
	const __m128i which = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
	const __m128i bit = _mm_set1_epi64x((long long)0x8040201008040201);
	const __m128i bytes = _mm_shuffle_epi8(_mm_cvtsi32_si128((int)sixteen), which);
	return _mm_and_si128(_mm_cmpeq_epi8(_mm_and_si128(bytes, bit), bit), _mm_set1_epi8(16));
}

static void widen_q5_0(const struct block_q5_0* b, float* x) {
	const __m256 d = _mm256_set1_ps(half_at(b->d));
	const uint32_t high = load_u32(b->high);
	const __m128i q = load_bytes(b->q);
	put_bytes(x, d, _mm_or_si128(low_nibbles(q), fifth_bits(high)), 16);
	put_bytes(x + 16, d, _mm_or_si128(high_nibbles(q), fifth_bits(high >> 16)), 16);
}

/* x[0…16) = step·q - less for sixteen bytes */
static inline void put_levels(float* x, __m256 step, __m256 less, __m128i q) {
	const __m256 lower = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(q));
	const __m256 upper = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(q, 8)));
	_mm256_storeu_ps(x, _mm256_sub_ps(_mm256_mul_ps(step, lower), less));
	_mm256_storeu_ps(x + 8, _mm256_sub_ps(_mm256_mul_ps(step, upper), less));
}

static void widen_q4_k(const struct block_q4_k* b, float* x) {
	const float d = half_at(b->d), dmin = half_at(b->dmin);
	for (int g = 0; g < 8; g++, x += 32) {
		uint8_t scale, min;
		k4_scale_min(g, b->scales, &scale, &min);
		const __m256 step = _mm256_set1_ps(d * (float)scale), less = _mm256_set1_ps(dmin * (float)min);
		for (int at = 0; at < 32; at += 16) {
			const __m128i q = load_bytes(b->q + g / 2 * 32 + at);
			put_levels(x + at, step, less, g % 2 ? high_nibbles(q) : low_nibbles(q));
		}
	}
}

static void widen_q6_k(const struct block_q6_k* b, float* x) {
	const float d = half_at(b->d);
	UNROLLED for (int g = 0; g < 16; g++) {
		const int half = g / 8, part = g % 8 / 2, at = g % 2 * 16; /* parts of 32 elements */
		const __m128i low = load_bytes(b->low + half * 64 + part % 2 * 32 + at),
		              high = load_bytes(b->high + half * 32 + at);
		const __m128i two = _mm_and_si128(_mm_srl_epi16(high, _mm_cvtsi32_si128(2 * part)), _mm_set1_epi8(3));
		const __m128i four = part < 2 ? low_nibbles(low) : high_nibbles(low);
		put_bytes(x + 16 * g, _mm256_set1_ps(d * (float)b->scales[g]),
		          _mm_or_si128(four, _mm_slli_epi16(two, 4)), 32);
	}
}

static void widen_mxfp4(const struct block_mxfp4* b, float* x) {
	const __m128i value = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
	const __m256 d = _mm256_set1_ps(mxfp4_half_scale(b));
	const __m128i q = load_bytes(b->q);
	put_bytes(x, d, _mm_shuffle_epi8(value, low_nibbles(q)), 0);
	put_bytes(x + 16, d, _mm_shuffle_epi8(value, high_nibbles(q)), 0);
}

static void widen_q4_group(const struct block_q4_group* b, float* x) {
	const __m256 d = _mm256_set1_ps(float_from_bits(load_u32(b->d)));
	const __m128i q = load_bytes(b->q);
	put_bytes(x, d, low_nibbles(q), b->zero);
	put_bytes(x + 16, d, high_nibbles(q), b->zero);
}

static void widen_tq2_0(const struct block_tq2_0* b, float* x) {
	const __m256 d = _mm256_set1_ps(half_at(b->d));
	for (int half = 0; half < 64; half += 16)
		for (int s = 0; s < 4; s++) {
			const __m128i q = _mm_and_si128(_mm_srli_epi16(load_bytes(b->q + half), 2 * s), _mm_set1_epi8(3));
			put_bytes(x + half / 32 * 128 + s * 32 + half % 32, d, q, 1);
		}
}

/* E4M3 lies in a float's fields as it does in its own, but for the exponent's bias: 2^120 makes it up, for
 * subnormals too. Magnitudes of all ones are no numbers. */
static void widen_f8_group(const struct block_f8_group* b, float* x) {
	const __m256 d = _mm256_set1_ps(float_from_bits(load_u32(b->d))), bias = _mm256_set1_ps(0x1p120f);
	for (int j = 0; j < 32; j += 8) {
		const __m256i bits = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)(const void*)(b->q + j)));
		const __m256i size = _mm256_and_si256(bits, _mm256_set1_epi32(127));
		const __m256i sign = _mm256_slli_epi32(_mm256_andnot_si256(_mm256_set1_epi32(127), bits), 24);
		const __m256i none =
		    _mm256_and_si256(_mm256_cmpeq_epi32(size, _mm256_set1_epi32(127)), _mm256_set1_epi32(0x7fc00000));
		const __m256 v = _mm256_mul_ps(_mm256_castsi256_ps(_mm256_slli_epi32(size, 20)), bias);
		const __m256 whole = _mm256_or_ps(v, _mm256_castsi256_ps(_mm256_or_si256(sign, none)));
		_mm256_storeu_ps(x + j, _mm256_mul_ps(whole, d));
	}
}

/* ---- the rows --------------------------------------------------------------------------------- */

static void widen_halves(const uint8_t* row, float* x, int64_t cols) {
	int64_t i = 0;
	for (; i + 8 <= cols; i += 8)
		_mm256_storeu_ps(x + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(const void*)(row + 2 * i))));
	for (; i < cols; i++)
		x[i] = half_at(row + 2 * i);
}

#include "kernels/dtype_widen.h"

void avx2_decode(enum dtype type, const void* row, float* x, int64_t cols) { widen_row(type, row, x, cols); }
#endif
