/* Weights by input channel, 64-bit ARM. */
#include "kernels/cpu/matmul.h"

#if defined(__aarch64__)
#include "kernels/column_round.h"
#include "kernels/cpu/columns.h"
#include "kernels/cpu/neon_ints.h"

#define COLUMN_NARROW 0
#define COLUMN_WHOLE 0
INLINED ints codes_dot(ints sum, ints codes, ints q) {
	const int8x16_t a = signed_bytes_of(codes), b = signed_bytes_of(q);
	const int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b)), high = vmull_high_s8(a, b);
	return vaddq_s32(sum, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
}

#include "kernels/cpu/column_vectors_neon.h"

#include "kernels/cpu/column_product.h"

COLUMN_PRODUCT(neon)
#endif
