/* Weights by input channel, 64-bit ARM with dotprod. */
#include "kernels/cpu/matmul.h"

#if defined(__aarch64__)
#include "kernels/cpu/columns.h"
#include "kernels/cpu/neon_ints.h"

#define COLUMN_NARROW 0
#define COLUMN_WHOLE 0
INLINED ints codes_dot(ints sum, ints codes, ints q) {
	return vdotq_s32(sum, signed_bytes_of(codes), signed_bytes_of(q));
}

#include "kernels/cpu/column_vectors_neon.h"

#include "kernels/cpu/column_product.h"

COLUMN_PRODUCT(dotprod)
#endif
