/* Rounding to q4_k and q4_0, sixteen blocks side by side. */
#include "kernels/cpu/matmul.h"

#if defined(__AVX512F__)
#include "kernels/quantize_blocks.h"

void avx512_quantize_interleaved(enum dtype type, void* out, const float* x, int64_t stride) {
	round_interleaved(type, out, x, stride);
}
#endif
