/* Matrix products, AVX-512. */
#include "kernels/cpu/matmul.h"

#if defined(__AVX512F__)
#include <immintrin.h>

typedef __m512 V;
enum { V_LANES = 16, TILE_ROWS = 4, TILE_N = 6, STORED_LINES = 1, STREAM_N = 8, STREAM_ROWS = 4 };
#define SIDE_BY_SIDE(n) ((n) <= 6 ? 4 : 3)
#define STREAM_CASES(type)                                                                                   \
	STREAM_CASE(type, 2)                                                                                     \
	STREAM_CASE(type, 3)                                                                                     \
	STREAM_CASE(type, 4)                                                                                     \
	STREAM_CASE(type, 5)                                                                                     \
	STREAM_CASE(type, 6)                                                                                     \
	STREAM_CASE(type, 7)                                                                                     \
	STREAM_CASE(type, 8)

static inline V v_zero(void) { return _mm512_setzero_ps(); }
static inline V v_load(const float* p) { return _mm512_loadu_ps(p); }
static inline void v_store(float* p, V a) { _mm512_storeu_ps(p, a); }
static inline V v_fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }

static inline float v_sum(V a) {
	const __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
	const __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
	const __m128 d = _mm_add_ps(c, _mm_movehl_ps(c, c));
	return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}

/* Halves are added to halves as v_sum adds them, of two or four vectors at a time. */
static inline void v_sums(const V a[4], float* out) {
	const V ab =
	    _mm512_add_ps(_mm512_shuffle_f32x4(a[0], a[1], 0x44), _mm512_shuffle_f32x4(a[0], a[1], 0xee));
	const V cd =
	    _mm512_add_ps(_mm512_shuffle_f32x4(a[2], a[3], 0x44), _mm512_shuffle_f32x4(a[2], a[3], 0xee));
	const V b = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xdd));
	const V c = _mm512_add_ps(b, _mm512_permute_ps(b, 0x4e));
	const V d = _mm512_add_ps(c, _mm512_movehdup_ps(c));
	_mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, d)));
}

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

#include "kernels/cpu/matmul_float.h"

size_t avx512_prepared_bytes(enum dtype weight, int cols) { return reference_prepared_bytes(weight, cols); }

void avx512_prepare(enum dtype weight, void* out, const float* x, int cols) {
	avx2_prepare(weight, out, x, cols); /* 32 floats a block: wider vectors would not help */
}

void avx512_matmul(float* out, size_t out_stride, const struct tensor* w, int64_t begin, int64_t end,
                   const void* x, int n) {
	if (dtype_is_float(w->type))
		float_matmul(out, out_stride, w, begin, end, x, n);
	else
		avx512_quantized_matmul(out, out_stride, w, begin, end, x, n);
}
#endif
