/* Activations to int8 blocks, AVX2; the same bytes as the plain way. */
#include "kernels/cpu/matmul.h"

#if defined(__AVX2__)
#include <immintrin.h>
#include <math.h>

static float largest_lane(__m256 v) {
	const __m128 a = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
	const __m128 b = _mm_max_ps(a, _mm_movehl_ps(a, a));
	return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

/* max |x|, or NaN when a value is not finite */
static float largest_of(const float* x, int n) {
	const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
	__m256 largest = _mm256_setzero_ps(), finite = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
	for (int i = 0; i < n; i += 8) {
		const __m256 a = _mm256_and_ps(_mm256_loadu_ps(x + i), magnitude);
		largest = _mm256_max_ps(largest, a);
		finite = _mm256_and_ps(finite, _mm256_cmp_ps(a, _mm256_set1_ps(INFINITY), _CMP_LT_OQ));
	}
	return _mm256_movemask_ps(finite) == 0xff ? largest_lane(largest) : NAN;
}

/* q (32) */
static void quantize_32(const float* x, int8_t* q, float inverse) {
	const __m256 scale = _mm256_set1_ps(inverse);
	const __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), scale));
	const __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8), scale));
	const __m256i c = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 16), scale));
	const __m256i d = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 24), scale));
	const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
	const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7); /* packing goes by halves */
	_mm256_storeu_si256((void*)q, _mm256_permutevar8x32_epi32(bytes, order));
}

static void sums_of_16(const int8_t* q, int32_t sums[2]) {
	const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), _mm256_loadu_si256((const void*)q));
	__m256i sum = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
	sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32(sum, 0x4e));
	sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32(sum, 0xb1));
	sums[0] = _mm256_extract_epi32(sum, 0);
	sums[1] = _mm256_extract_epi32(sum, 4);
}

static void offset_sums(const int8_t* q, int offset, uint8_t sums[8]) {
	__m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), _mm256_loadu_si256((const void*)q));
	pairs = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0x4e));
	pairs = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0xb1));
	pairs = _mm256_mullo_epi16(pairs, _mm256_set1_epi16((short)-offset));
	const int32_t halves[2] = {_mm256_extract_epi32(pairs, 0), _mm256_extract_epi32(pairs, 4)};
	memcpy(sums, halves, 8);
}

#include "kernels/cpu/prepare.h"

void avx2_prepare(enum dtype weight, void* out, const float* x, int cols) { prepare(weight, out, x, cols); }
#endif
