/* Rounding to q4_k and q8_0 with AVX2. */
#include "kernels/cpu/matmul.h"

#if defined(__AVX2__)
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
	case DTYPE_Q8_0:
		for (int64_t i = 0; i < cols; i += BLOCK_SMALL)
			round_block_q8_0(eight++, x + i);
		break;
	default:
		low_round(type, out, x, cols);
	}
}
#endif
