/* Products with quantized weights, AVX-VNNI: 256 bits. */
#include "kernels/cpu/matmul.h"

#if defined(__AVXVNNI__)
#include "kernels/cpu/ints_256.h"

#define NARROW 0
enum { SIGNED_BYTES = false };

/* iq4_values + 128 */
static inline ints ints_iq4(ints index) {
	const __m128i values = _mm_loadu_si128((const void*)iq4_values);
	return ints_flip_signs(_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), index));
}
static inline ints ints_scale(ints scale) { return scale; }
static inline ints ints_two_products(ints sum, ints a, ints b) { return _mm256_dpwssd_avx_epi32(sum, a, b); }
static inline ints ints_scaled(ints sum, ints products, ints scale) {
	sum = _mm256_add_epi32(sum, _mm256_mullo_epi32(products, scale));
	IN_ORDER(sum);
	return sum;
}
static inline ints dot_four(ints sum, ints w, const void* x) {
	sum = _mm256_dpbusd_avx_epi32(sum, w, to_all(x));
	IN_ORDER(sum);
	return sum;
}

#include "kernels/cpu/matmul_quantized.h"

#include "kernels/cpu/matmul_products.h"

#include "kernels/cpu/matmul_direct.h"

#include "kernels/cpu/matmul_interleaved.h"

bool avxvnni_interleaves(enum dtype type) { return group_functions[type][0] != NULL; }

QUANTIZED_MATMUL(avxvnni, direct_matmul)
#endif
