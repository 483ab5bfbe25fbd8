/* Matrix products, avx2. */
#include "kernels/cpu/matmul.h"

size_t avx2_prepared_bytes(enum dtype weight, int cols) { return reference_prepared_bytes(weight, cols); }

void avx2_prepare(enum dtype weight, void* out, const float* x, int cols) {
	reference_prepare(weight, out, x, cols);
}

void avx2_matmul(float* out, size_t out_stride, const struct tensor* w, int64_t begin, int64_t end,
                 const void* x, int n) {
	reference_matmul(out, out_stride, w, begin, end, x, n);
}
