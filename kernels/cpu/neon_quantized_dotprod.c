/* Products with quantized weights, NEON with dotprod. */
#include "kernels/cpu/matmul.h"

#if defined(__aarch64__)
#include "kernels/cpu/neon_dotprod.h"

/* dot (n) = 16·vectors columns of four weight rows times those of the activation rows at q */
INLINED void rows_dot(int n, ints dot[], enum dtype type, int vectors, const struct taken* w, const int8_t* q,
                      size_t x_stride) {
	(void)type;
	UNROLLED for (int i = 0; i < n; i++) dot[i] = row_dot(vectors, w, q + (size_t)i * x_stride);
}

#include "kernels/cpu/neon_quantized.h"

QUANTIZED_MATMUL(dotprod, rows_matmul)
#endif
