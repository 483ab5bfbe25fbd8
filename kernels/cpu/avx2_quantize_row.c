/* quantize_row, and rounding to a coarse head, with AVX2. */
#include "kernels/cpu/matmul.h"

#if defined(__AVX2__)
#include "kernels/cpu/coarse_row.h"
#include "kernels/draft_weights.h"
#include "kernels/quantize_blocks.h"

void avx2_quantize_row(enum dtype type, void* out, const float* x, int64_t cols) {
	round_blocks(type, out, x, cols);
}

void avx2_coarse_row(struct block_q4_0* out, float* x, int64_t cols, float squares[2]) {
	coarse_row(out, x, cols, squares);
}
#endif
