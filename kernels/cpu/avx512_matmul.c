/* Matrix products, AVX-512. */
#include "kernels/cpu/matmul.h"

#if defined(__AVX512F__)
#include "kernels/cpu/lane_sums.h"

typedef __m512 V;
enum { V_LANES = 16, TILE_ROWS = 4, TILE_N = 6, STREAMS = 1 };
#define UP_TO_TILE_N UP_TO_6

static inline V v_zero(void) { return _mm512_setzero_ps(); }
static inline V v_load(const float* p) { return _mm512_loadu_ps(p); }
static inline void v_store(float* p, V a) { _mm512_storeu_ps(p, a); }
static inline V v_fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }

static inline float v_sum(V a) { return lane_sum_512(a); }
static inline void v_sums(const V a[4], float* out) { lane_sums_512(a, out); }

static inline V v_weights(enum dtype type, const uint8_t* p) {
	switch (type) {
	case DTYPE_F16:
		return _mm512_cvtph_ps(_mm256_loadu_si256((const void*)p));
	case DTYPE_BF16:
		return _mm512_castsi512_ps(
		    _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void*)p)), 16));
	default:
		return _mm512_loadu_ps(p);
	}
}

#define decode_row avx2_decode
#include "kernels/cpu/matmul_decoded.h"
#include "kernels/cpu/matmul_float.h"

MATMUL(avx512)
#endif
