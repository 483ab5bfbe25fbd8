/* Rows widened eight elements at a time: the formulas of kernels/dtype.c and kernels/dtype_decoded.c in the
 * same order, so that every bit is the same. Points, nibbles and bytes become indices of a table in a
 * register or whole numbers, then floats. */
#include "kernels/cpu/matmul.h"

#if defined(__AVX2__)
#include <immintrin.h>

#include "kernels/dtype_decoded.h"

static float half_at(const uint8_t* p) { return _cvtsh_ss(load_u16(p)); }

static uint32_t load_u32(const uint8_t* p) {
	uint32_t bits;
	memcpy(&bits, p, 4);
	return bits;
}

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

static inline unsigned eight_signs(uint32_t seven) {
	seven &= 127;
	return (unsigned)(seven | (uint32_t)__builtin_parity(seven) << 7);
}

static inline void put_iq2(float* x, float scale, uint16_t point, unsigned signs) {
	const __m256 value = _mm256_setr_ps(8, 25, 43, 0, 8, 25, 43, 0);
	const __m256 v = _mm256_permutevar8x32_ps(value, eighths(point, 2, 3));
	_mm256_storeu_ps(x, with_signs(_mm256_mul_ps(_mm256_set1_ps(scale), v), signs));
}

static inline void put_iq3(float* x, float scale, __m256 value, uint16_t low, uint16_t high, unsigned signs) {
	const __m256 v = _mm256_permutevar8x32_ps(value, eighths(low | (uint32_t)high << 16, 4, 7));
	_mm256_storeu_ps(x, with_signs(_mm256_mul_ps(_mm256_set1_ps(scale), v), signs));
}

static inline void put_iq1(float* x, float scale, uint16_t point, bool less) {
	const __m256 value = _mm256_setr_ps(-1, 0, 1, 2, -1, 0, 1, 2);
	const __m256 v = _mm256_permutevar8x32_ps(value, eighths(point, 2, 3));
	const __m256 moved = _mm256_add_ps(v, _mm256_set1_ps(less ? -0.125f : 0.125f));
	_mm256_storeu_ps(x, _mm256_mul_ps(_mm256_set1_ps(scale), moved));
}

static void decode_iq2_xxs(const struct block_iq2_xxs* b, float* x) {
	const float d = half_at(b->d);
	for (int g = 0; g < 8; g++) {
		const uint32_t more = load_u32(b->q + 8 * g + 4);
		const float scale = d * (0.5f + (float)(more >> 28)) * 0.25f;
		for (int p = 0; p < 4; p++)
			put_iq2(x + 32 * g + 8 * p, scale, codebook_iq2_xxs[b->q[8 * g + p]], eight_signs(more >> 7 * p));
	}
}

static void decode_iq2_xs(const struct block_iq2_xs* b, float* x) {
	const float d = half_at(b->d);
	for (int p = 0; p < 32; p++) {
		const uint16_t q = load_u16(b->q + 2 * p);
		const float scale = d * (0.5f + (float)(b->scales[p / 4] >> 4 * (p / 2 & 1) & 15)) * 0.25f;
		put_iq2(x + 8 * p, scale, codebook_iq2_xs[q & 511], eight_signs(q >> 9));
	}
}

static void decode_iq2_s(const struct block_iq2_s* b, float* x) {
	const float d = half_at(b->d);
	for (int p = 0; p < 32; p++) {
		const int q = b->q[p] | (b->high[p / 4] >> 2 * (p % 4) & 3) << 8;
		const float scale = d * (0.5f + (float)(b->scales[p / 4] >> 4 * (p / 2 & 1) & 15)) * 0.25f;
		put_iq2(x + 8 * p, scale, codebook_iq2_s[q], b->signs[p]);
	}
}

static void decode_iq3_xxs(const struct block_iq3_xxs* b, float* x) {
	const __m256 value = _mm256_setr_ps(4, 12, 20, 28, 36, 44, 52, 62);
	const float d = half_at(b->d);
	for (int p = 0; p < 32; p++) {
		const uint32_t more = load_u32(b->scales + 4 * (p / 4));
		const float scale = d * (0.5f + (float)(more >> 28)) * 0.5f;
		put_iq3(x + 8 * p, scale, value, codebook_iq3_xxs[b->q[2 * p]], codebook_iq3_xxs[b->q[2 * p + 1]],
		        eight_signs(more >> 7 * (p % 4)));
	}
}

static void decode_iq3_s(const struct block_iq3_s* b, float* x) {
	const __m256 value = _mm256_setr_ps(1, 3, 5, 7, 9, 11, 13, 15);
	const float d = half_at(b->d);
	for (int p = 0; p < 32; p++) {
		const int high = b->high[p / 4] >> 2 * (p % 4);
		const float scale = d * (float)(1 + 2 * (b->scales[p / 8] >> 4 * (p / 4 & 1) & 15));
		put_iq3(x + 8 * p, scale, value, codebook_iq3_s[b->q[2 * p] | (high & 1) << 8],
		        codebook_iq3_s[b->q[2 * p + 1] | (high & 2) << 7], b->signs[p]);
	}
}

static void decode_iq1_s(const struct block_iq1_s* b, float* x) {
	const float d = half_at(b->d);
	for (int p = 0; p < 32; p++) {
		const int high = load_u16(b->high + 2 * (p / 4));
		const float scale = d * (float)(2 * (high >> 12 & 7) + 1);
		put_iq1(x + 8 * p, scale, codebook_iq1[b->q[p] | (high >> 3 * (p % 4) & 7) << 8], high & 0x8000);
	}
}

static void decode_iq1_m(const struct block_iq1_m* b, float* x) {
	unsigned bits = 0;
	for (int i = 0; i < 4; i++)
		bits |= (unsigned)(load_u16(b->scales + 2 * i) >> 12) << 4 * i;
	const float d = _cvtsh_ss((uint16_t)bits);
	for (int p = 0; p < 32; p++) {
		const int high = b->high[p / 2] >> 4 * (p % 2);
		const float scale = d * (float)(2 * (load_u16(b->scales + 2 * (p / 8)) >> 3 * (p / 2 % 4) & 7) + 1);
		put_iq1(x + 8 * p, scale, codebook_iq1[b->q[p] | (high & 7) << 8], high & 8);
	}
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

static void decode_mxfp4(const struct block_mxfp4* b, float* x) {
	const __m128i value = _mm_setr_epi8(0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);
	const uint32_t bits = b->exponent < 2 ? 0x00200000u << b->exponent : (uint32_t)(b->exponent - 1) << 23;
	const __m256 d = _mm256_set1_ps(float_from_bits(bits));
	const __m128i q = load_bytes(b->q);
	put_bytes(x, d, _mm_shuffle_epi8(value, low_nibbles(q)), 0);
	put_bytes(x + 16, d, _mm_shuffle_epi8(value, high_nibbles(q)), 0);
}

static void decode_q4_group(const struct block_q4_group* b, float* x) {
	const __m256 d = _mm256_set1_ps(float_from_bits(load_u32(b->d)));
	const __m128i q = load_bytes(b->q);
	put_bytes(x, d, low_nibbles(q), b->zero);
	put_bytes(x + 16, d, high_nibbles(q), b->zero);
}

static void decode_tq2_0(const struct block_tq2_0* b, float* x) {
	const __m256 d = _mm256_set1_ps(half_at(b->d));
	for (int half = 0; half < 64; half += 16)
		for (int s = 0; s < 4; s++) {
			const __m128i q = _mm_and_si128(_mm_srli_epi16(load_bytes(b->q + half), 2 * s), _mm_set1_epi8(3));
			put_bytes(x + half / 32 * 128 + s * 32 + half % 32, d, q, 1);
		}
}

/* E4M3 lies in a float's fields as it does in its own, but for the exponent's bias: 2^120 makes it up, for
 * subnormals too. Magnitudes of all ones are no numbers. */
static void decode_f8_group(const struct block_f8_group* b, float* x) {
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

/* ---- what low-bit copies are mostly made of -------------------------------------------------- */

static void decode_halves(const uint8_t* row, float* x, int64_t cols) {
	int64_t i = 0;
	for (; i + 8 <= cols; i += 8)
		_mm256_storeu_ps(x + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(const void*)(row + 2 * i))));
	for (; i < cols; i++)
		x[i] = half_at(row + 2 * i);
}

static void decode_bf16(const uint8_t* row, float* x, int64_t cols) {
	for (int64_t i = 0; i < cols; i++)
		x[i] = bf16_to_float(load_u16(row + 2 * i));
}

static void decode_q8_0(const struct block_q8_0* b, float* x) {
	const float d = half_at(b->d);
	for (int j = 0; j < 32; j++)
		x[j] = d * (float)b->q[j];
}

/* ---- the rows --------------------------------------------------------------------------------- */

#define DECODE_BLOCKS(type)                                                                                  \
	for (int64_t i = 0; i < cols / elements; i++)                                                            \
		decode_##type((const struct block_##type*)row + i, x + i * elements);                                \
	break

void avx2_decode(enum dtype type, const void* row, float* x, int64_t cols) {
	const int elements = dtype_block(type);
	switch (type) {
	case DTYPE_F16:
		decode_halves(row, x, cols);
		break;
	case DTYPE_BF16:
		decode_bf16(row, x, cols);
		break;
	case DTYPE_Q8_0:
		DECODE_BLOCKS(q8_0);
	case DTYPE_MXFP4:
		DECODE_BLOCKS(mxfp4);
	case DTYPE_IQ1_S:
		DECODE_BLOCKS(iq1_s);
	case DTYPE_IQ1_M:
		DECODE_BLOCKS(iq1_m);
	case DTYPE_IQ2_XXS:
		DECODE_BLOCKS(iq2_xxs);
	case DTYPE_IQ2_XS:
		DECODE_BLOCKS(iq2_xs);
	case DTYPE_IQ2_S:
		DECODE_BLOCKS(iq2_s);
	case DTYPE_IQ3_XXS:
		DECODE_BLOCKS(iq3_xxs);
	case DTYPE_IQ3_S:
		DECODE_BLOCKS(iq3_s);
	case DTYPE_TQ2_0:
		DECODE_BLOCKS(tq2_0);
	case DTYPE_Q4_GROUP:
		DECODE_BLOCKS(q4_group);
	case DTYPE_F8_GROUP:
		DECODE_BLOCKS(f8_group);
	default:
		dtype_to_float(type, row, x, cols);
	}
}
#endif
