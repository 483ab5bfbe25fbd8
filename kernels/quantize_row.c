/* Rounding weights to few bits on any processor; quantize_blocks.h explains how. */
#include "kernels/draft_weights.h"
#include "kernels/quantize_blocks.h"

void quantize_row(enum dtype type, void* out, const float* x, int64_t cols) {
	round_blocks(type, out, x, cols);
}
