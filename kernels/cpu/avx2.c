/* The kernels for AVX2 with FMA and F16C. */
#include "kernels/cpu/kernels.h"

#if defined(__x86_64__)

#include <float.h>
#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/lane_sums.h"
#include "kernels/cpu/matmul.h"
#include "kernels/draft_weights.h"
#include "kernels/dtype_blocks.h"

typedef __m256 vec;
enum { LANES = 8, TILE_CHUNKS = 4, PAGES_AT_ONCE = 1 };
#define TILE_HEADS 3
#define TILE_QUERIES 3

static inline __m256i first_lanes(int n) {
	return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vec vec_set(float x) { return _mm256_set1_ps(x); }
static inline vec vec_load(const float* x) { return _mm256_loadu_ps(x); }
static inline vec vec_load_part(const float* x, int n, float rest) {
	const __m256i lanes = first_lanes(n);
	return _mm256_blendv_ps(_mm256_set1_ps(rest), _mm256_maskload_ps(x, lanes), _mm256_castsi256_ps(lanes));
}
static inline vec vec_load_half(const uint16_t* x) {
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(const void*)x));
}
static inline vec vec_load_half_part(const uint16_t* x, int n) {
	uint16_t part[LANES] = {0};
	memcpy(part, x, (size_t)n * sizeof *x);
	return vec_load_half(part);
}
static inline vec vec_load_bytes(const int8_t* x) {
	return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)(const void*)x)));
}
static inline void vec_store(float* out, vec x) { _mm256_storeu_ps(out, x); }
static inline void vec_store_part(float* out, vec x, int n) { _mm256_maskstore_ps(out, first_lanes(n), x); }
static inline void vec_store_half(uint16_t* out, vec x) {
	_mm_storeu_si128((__m128i*)(void*)out, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
static inline void vec_store_half_part(uint16_t* out, vec x, int n) {
	uint16_t part[LANES];
	vec_store_half(part, x);
	memcpy(out, part, (size_t)n * sizeof *out);
}
static inline vec vec_add(vec a, vec b) { return _mm256_add_ps(a, b); }
static inline vec vec_sub(vec a, vec b) { return _mm256_sub_ps(a, b); }
static inline vec vec_mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
static inline vec vec_div(vec a, vec b) { return _mm256_div_ps(a, b); }
static inline vec vec_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
/* b where one is not a number */
static inline vec vec_max(vec a, vec b) { return _mm256_max_ps(a, b); }
static inline vec vec_min(vec a, vec b) { return _mm256_min_ps(a, b); }
static inline vec vec_round(vec x) {
	return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* x·2^n, n a whole number from -126 to 127 */
static inline vec vec_times_power(vec x, vec n) {
	const __m256i power =
	    _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
	return _mm256_mul_ps(x, _mm256_castsi256_ps(power));
}
static inline vec vec_zero_below(vec x, float limit, vec otherwise) {
	return _mm256_and_ps(_mm256_cmp_ps(x, _mm256_set1_ps(limit), _CMP_NLT_UQ), otherwise);
}
static inline bool vec_all_finite(vec x) {
	const vec magnitude = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x);
	return _mm256_movemask_ps(_mm256_cmp_ps(magnitude, _mm256_set1_ps(FLT_MAX), _CMP_NLE_UQ)) == 0;
}
static inline float vec_largest(vec x) {
	__m128 m = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
	m = _mm_max_ps(m, _mm_movehl_ps(m, m));
	m = _mm_max_ss(m, _mm_movehdup_ps(m));
	return _mm_cvtss_f32(m);
}

static inline float vec_sum(vec x) { return lane_sum_256(x); }

#include "kernels/cpu/wide.h"

/* Four streams side by side: what the products read fastest. */
static uint64_t read_memory(const void* memory, size_t bytes) {
	const size_t part = bytes / 4 / 64 * 64;
	const unsigned char* at = memory;
	__m256i folded = _mm256_setzero_si256();
	for (size_t i = 0; i < part; i += 32)
		for (size_t stream = 0; stream < 4; stream++)
			folded = _mm256_xor_si256(folded, _mm256_load_si256((const void*)(at + stream * part + i)));
	for (size_t i = part * 4; i < bytes; i += 32)
		folded = _mm256_xor_si256(folded, _mm256_load_si256((const void*)(at + i)));
	uint64_t out[4];
	_mm256_storeu_si256((void*)out, folded);
	return out[0] ^ out[1] ^ out[2] ^ out[3];
}

const struct cpu_kernels cpu_avx2 = CPU_KERNELS("avx2", avx2_prepare, avx2_matmul, avx2_interleaves,
                                                avx2_column_threshold, avx2_column_keep, avx2_column_product);
/* AVX-VNNI serves the products alone. */
const struct cpu_kernels cpu_avxvnni =
    CPU_KERNELS("avx-vnni", avx2_prepare, avxvnni_matmul, avxvnni_interleaves, avx2_column_threshold,
                avx2_column_keep, avxvnni_column_product);

#endif
