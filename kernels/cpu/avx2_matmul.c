/* Matrix products, AVX2 with FMA and F16C. */
#include "kernels/cpu/matmul.h"

#if defined(__AVX2__)
#include "kernels/cpu/lane_sums.h"

typedef __m256 V;
enum { V_LANES = 8, TILE_ROWS = 4, TILE_N = 3, STREAMS = 4 };
#define UP_TO_TILE_N UP_TO_3

static inline V v_zero(void) { return _mm256_setzero_ps(); }
static inline V v_load(const float* p) { return _mm256_loadu_ps(p); }
static inline void v_store(float* p, V a) { _mm256_storeu_ps(p, a); }
static inline V v_fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }

static inline float v_sum(V a) { return lane_sum_256(a); }
static inline void v_sums(const V a[4], float* out) {
	lane_sums_256(a[0], a[1], out);
	lane_sums_256(a[2], a[3], out + 2);
}

static inline V v_weights(enum dtype type, const uint8_t* p) {
	switch (type) {
	case DTYPE_F16:
		return _mm256_cvtph_ps(_mm_loadu_si128((const void*)p));
	case DTYPE_BF16:
		return _mm256_castsi256_ps(
		    _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void*)p)), 16));
	default:
		return _mm256_loadu_ps((const void*)p);
	}
}

#define decode_row avx2_decode
#include "kernels/cpu/matmul_decoded.h"
#include "kernels/cpu/matmul_float.h"

MATMUL(avx2)
MATMUL(avxvnni)
#endif
