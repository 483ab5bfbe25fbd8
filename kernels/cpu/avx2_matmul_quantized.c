/* Products with quantized weights, AVX2. */
#include "kernels/cpu/matmul.h"

#if defined(__AVX2__)
#include "kernels/cpu/ints_256.h"

#define NARROW 1
enum { SIGNED_BYTES = true };

static inline ints ints_iq4(ints index) {
	const __m128i values = _mm_loadu_si128((const void*)iq4_values);
	return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), index);
}
/* In both 16-bit halves */
static inline ints ints_scale(ints scale) {
	return _mm256_blend_epi16(scale, _mm256_slli_epi32(scale, 16), 0xaa);
}
static inline ints ints_two_products(ints sum, ints a, ints b) {
	return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}
static inline ints ints_scaled(ints sum, ints products, ints scale) {
	sum = ints_two_products(sum, products, scale);
	IN_ORDER(sum);
	return sum;
}
static inline ints dot_four(ints sum, ints w, const void* x) {
	sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(w, to_all(x)));
	IN_ORDER(sum);
	return sum;
}
static inline ints dot_four_signed(ints sum, ints w, const void* x) {
	const ints pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(to_all(x), w));
	sum = ints_two_products(sum, pairs, _mm256_set1_epi16(1));
	IN_ORDER(sum);
	return sum;
}

#include "kernels/cpu/matmul_quantized.h"

#include "kernels/cpu/matmul_products.h"

#include "kernels/cpu/matmul_direct.h"

#include "kernels/cpu/matmul_interleaved.h"

bool avx2_interleaves(enum dtype type) { return group_functions[type][0] != NULL; }

QUANTIZED_MATMUL(avx2, direct_matmul)
#endif
