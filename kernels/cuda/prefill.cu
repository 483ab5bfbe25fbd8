/* Prefill chunks by the library's products: quantized weights are widened to the activations' type before. */
#include "kernels/cuda/multiply.cuh"

/* One element, as floats. */
__device__ float element_of(const struct matrix& w, int row, int column) {
	const int units = units_of<true>(w), group = column / UNIT, within = column % UNIT;
	const unsigned char* bytes = static_cast<const unsigned char*>(w.data) + (size_t)row * units * UNIT_BYTES;
	if (w.type == DTYPE_Q8_0) {
		const float scale =
		    __half2float(static_cast<const __half*>(w.scale)[(size_t)row * (w.cols / UNIT) + group]);
		return (float)(signed char)bytes[interleaved_byte(group, within)] * scale;
	}
	const bool six = w.type == DTYPE_Q6_K;
	const struct nibble_place at = nibble_place(group, within, six);
	const int nibble = bytes[at.byte] >> at.shift & 15;
	if (!six) {
		const struct group_scales s = scales_of(w, row, group / 4);
		return s.scale[group % 4] * (float)nibble + s.added[group % 4];
	}
	const unsigned char* high =
	    static_cast<const unsigned char*>(w.high) + (size_t)row * units * (UNIT_BYTES / 2);
	const int value = nibble | (high[at.high_byte] >> at.high_shift & 3) << 4;
	const size_t super = (size_t)row * (w.cols / SUPER) + column / SUPER;
	const signed char scale = static_cast<const signed char*>(w.scale)[16 * super + column % SUPER / 16];
	return __half2float(w.factor[super]) * (float)scale * (float)(value - 32);
}

template <class T> __global__ void dequantize_kernel(T* out, struct matrix w, int64_t n) {
	const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		out[i] = to_activation<T>(element_of(w, (int)(i / w.cols), (int)(i % w.cols)));
}

bool prefill_product(struct cuda_backend* b, const struct matrix* w, const void* x, int n, float* out,
                     struct error* error) {
	const float one = 1, zero = 0;
	const void* data = w->data;
	const cudaDataType_t type = b->bf16 ? CUDA_R_16BF : CUDA_R_16F;
	if (kept_as_stored((enum dtype)w->type)) {
		const int64_t count = (int64_t)w->rows * w->cols;
		const unsigned blocks = (unsigned)((count + 255) / 256);
		data = b->work.dequantized;
		if (b->bf16)
			dequantize_kernel<<<blocks, 256, 0, b->stream>>>((__nv_bfloat16*)b->work.dequantized, *w, count);
		else
			dequantize_kernel<<<blocks, 256, 0, b->stream>>>((__half*)b->work.dequantized, *w, count);
	}
	CUBLAS_TRY(b->calls.gemm(b->cublas, CUBLAS_OP_T, CUBLAS_OP_N, w->rows, n, w->cols, &one, data, type,
	                         w->cols, x, type, w->cols, &zero, out, CUDA_R_32F, w->rows, CUBLAS_COMPUTE_32F,
	                         CUBLAS_GEMM_DEFAULT),
	           error);
	return true;
}
