/* Stores floats in the element types that made-up models can have. */
#include "core/model/synth.h"
#include "kernels/synth_block.h"

bool synth_can_encode(enum dtype type, struct error* error) {
	switch (type) {
	case DTYPE_F32:
	case DTYPE_F16:
	case DTYPE_BF16:
	case DTYPE_Q8_0:
	case DTYPE_Q4_0:
	case DTYPE_Q4_1:
	case DTYPE_Q5_0:
	case DTYPE_Q5_1:
	case DTYPE_Q4_K:
	case DTYPE_Q6_K:
		return true;
	default:
		return error_set(error, "f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q6_k");
	}
}

void synth_encode(enum dtype type, void* out, const float* x, int64_t n) {
	const int block = dtype_block(type);
	const size_t bytes = dtype_block_bytes(type);
	uint16_t* half = out;
	if (type == DTYPE_F32)
		memcpy(out, x, (size_t)n * sizeof *x);
	else if (type == DTYPE_F16)
		for (int64_t i = 0; i < n; i++)
			half[i] = synth_f16(x[i]);
	else if (type == DTYPE_BF16)
		for (int64_t i = 0; i < n; i++)
			half[i] = synth_bf16(x[i]);
	else
		for (int64_t i = 0; i < n; i += block, out = (uint8_t*)out + bytes)
			synth_block(type, out, x + i);
}
