/* Rounding to q4_k, q4_0 and q8_0, and to a coarse head, with AVX2. */
#include "kernels/cpu/matmul.h"

#if defined(__AVX2__)
#include "kernels/cpu/coarse_row.h"
#include "kernels/low.h"
#include "kernels/low_round_blocks.h"

void avx2_round(enum dtype type, void* out, const float* x, int64_t cols) {
	struct block_q4_k* four = out;
	struct block_q8_0* eight = out;
	switch (type) {
	case DTYPE_Q4_K:
		for (int64_t i = 0; i < cols; i += BLOCK_SUPER)
			round_block_q4_k(four++, x + i);
		break;
	case DTYPE_Q4_0:
		round_row_q4_0(out, x, cols);
		break;
	case DTYPE_Q8_0:
		for (int64_t i = 0; i < cols; i += BLOCK_SMALL)
			round_block_q8_0(eight++, x + i);
		break;
	default:
		low_round(type, out, x, cols);
	}
}

void avx2_coarse_row(struct block_q4_0* out, float* x, int64_t cols, float squares[2]) {
	coarse_row(out, x, cols, squares);
}
#endif
