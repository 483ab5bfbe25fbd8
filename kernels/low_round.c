/* Rounding weights to few bits on any processor; low_round_blocks.h says how. */
#include "kernels/low.h"
#include "kernels/low_round_blocks.h"

void low_round(enum dtype type, void* out, const float* x, int64_t cols) { round_blocks(type, out, x, cols); }

void low_weave(enum dtype type, void* out, const float* x, int64_t stride) {
	round_woven(type, out, x, stride);
}
