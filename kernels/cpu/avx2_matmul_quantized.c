/* Products with quantized weights, AVX2. */
#include "kernels/cpu/matmul.h"
void avx2_quantized_matmul(float* out, size_t out_stride, const struct tensor* w, int64_t begin, int64_t end,
                           const void* x, int n) {
	reference_matmul(out, out_stride, w, begin, end, x, n);
}
