/* The kernels for AVX-512 (F, BW, DQ, VL). */
#include "kernels/cpu/kernels.h"

#if defined(__x86_64__)

#include <float.h>
#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/matmul.h"
#include "kernels/draft_weights.h"
#include "kernels/dtype_blocks.h"

typedef __m512 vec;
enum { LANES = 16, TILE_CHUNKS = 4, PAGES_AT_ONCE = 2 };
#define TILE_HEADS 7
#define TILE_QUERIES 8

static inline __mmask16 first_lanes(int n) { return (__mmask16)((1u << n) - 1); }
static inline vec vec_set(float x) { return _mm512_set1_ps(x); }
static inline vec vec_load(const float* x) { return _mm512_loadu_ps(x); }
static inline vec vec_load_part(const float* x, int n, float rest) {
	return _mm512_mask_loadu_ps(_mm512_set1_ps(rest), first_lanes(n), x);
}
static inline vec vec_load_half(const uint16_t* x) {
	return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)(const void*)x));
}
static inline vec vec_load_half_part(const uint16_t* x, int n) {
	return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(n), x));
}
static inline vec vec_load_bytes(const int8_t* x) {
	return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)(const void*)x)));
}
static inline void vec_store(float* out, vec x) { _mm512_storeu_ps(out, x); }
static inline void vec_store_part(float* out, vec x, int n) { _mm512_mask_storeu_ps(out, first_lanes(n), x); }
static inline void vec_store_half(uint16_t* out, vec x) {
	_mm256_storeu_si256((__m256i*)(void*)out, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
static inline void vec_store_half_part(uint16_t* out, vec x, int n) {
	_mm256_mask_storeu_epi16(out, first_lanes(n), _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
static inline vec vec_add(vec a, vec b) { return _mm512_add_ps(a, b); }
static inline vec vec_sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
static inline vec vec_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
static inline vec vec_div(vec a, vec b) { return _mm512_div_ps(a, b); }
static inline vec vec_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
/* b where one is not a number */
static inline vec vec_max(vec a, vec b) { return _mm512_max_ps(a, b); }
static inline vec vec_min(vec a, vec b) { return _mm512_min_ps(a, b); }
static inline vec vec_round(vec x) {
	return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* x·2^n */
static inline vec vec_times_power(vec x, vec n) { return _mm512_scalef_ps(x, n); }
static inline vec vec_zero_below(vec x, float limit, vec otherwise) {
	return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(limit), _CMP_NLT_UQ), otherwise);
}
static inline bool vec_all_finite(vec x) {
	return _mm512_cmp_ps_mask(_mm512_abs_ps(x), _mm512_set1_ps(FLT_MAX), _CMP_NLE_UQ) == 0;
}
static inline float vec_largest(vec x) { return _mm512_reduce_max_ps(x); }

static inline float vec_sum(vec x) { return _mm512_reduce_add_ps(x); }

#include "kernels/cpu/wide.h"

static uint64_t read_memory(const void* memory, size_t bytes) {
	const __m512i* lines = memory;
	__m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
	for (size_t i = 0; i < bytes / 64; i += 4) {
		a = _mm512_xor_si512(a, _mm512_load_si512(lines + i));
		b = _mm512_xor_si512(b, _mm512_load_si512(lines + i + 1));
		c = _mm512_xor_si512(c, _mm512_load_si512(lines + i + 2));
		d = _mm512_xor_si512(d, _mm512_load_si512(lines + i + 3));
	}
	const __m512i all = _mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d));
	return (uint64_t)_mm512_reduce_or_epi64(all);
}

/* Rows are prepared 32 floats a block: wider vectors would not help. */
const struct cpu_kernels cpu_avx512 =
    CPU_KERNELS("avx512", avx2_prepare, avx512_matmul, avx512_interleaves, avx512_column_threshold,
                avx512_column_keep, avx512_column_product);

#endif
