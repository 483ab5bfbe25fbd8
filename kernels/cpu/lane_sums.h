/* Adds up a vector's lanes in one fixed order: halves to halves, until one is left. The sums of several
 * vectors at a time are the same additions. */
#pragma once

#include <immintrin.h>

static inline float lane_sum_256(__m256 a) {
	const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
	const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
	return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

static inline void lane_sums_256(__m256 x, __m256 y, float out[2]) {
	const __m256 b = _mm256_add_ps(_mm256_permute2f128_ps(x, y, 0x20), _mm256_permute2f128_ps(x, y, 0x31));
	const __m256 c = _mm256_add_ps(b, _mm256_permute_ps(b, 0x4e));
	const __m256 d = _mm256_add_ps(c, _mm256_movehdup_ps(c));
	out[0] = _mm256_cvtss_f32(d);
	out[1] = _mm_cvtss_f32(_mm256_extractf128_ps(d, 1));
}

#if defined(__AVX512F__)
static inline float lane_sum_512(__m512 a) {
	return lane_sum_256(_mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1)));
}

static inline void lane_sums_512(const __m512 a[4], float out[4]) {
	const __m512 x =
	    _mm512_add_ps(_mm512_shuffle_f32x4(a[0], a[1], 0x44), _mm512_shuffle_f32x4(a[0], a[1], 0xee));
	const __m512 y =
	    _mm512_add_ps(_mm512_shuffle_f32x4(a[2], a[3], 0x44), _mm512_shuffle_f32x4(a[2], a[3], 0xee));
	const __m512 b = _mm512_add_ps(_mm512_shuffle_f32x4(x, y, 0x88), _mm512_shuffle_f32x4(x, y, 0xdd));
	const __m512 c = _mm512_add_ps(b, _mm512_permute_ps(b, 0x4e));
	const __m512 d = _mm512_add_ps(c, _mm512_movehdup_ps(c));
	_mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, d)));
}
#endif
