/* Prefill chunks by the library's products: quantized weights are widened to the activations' type before. */
#include "kernels/cuda/multiply.cuh"

template <class T> __global__ void dequantize_kernel(T* out, struct matrix w, int64_t n) {
	const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		out[i] = to_activation<T>(element_of(w, (int)(i / w.cols), (int)(i % w.cols)));
}

__global__ void bias_kernel(float* x, const float* bias, int width) {
	for (int j = threadIdx.x; j < width; j += blockDim.x)
		x[(size_t)blockIdx.x * width + j] += bias[j];
}

bool prefill_product(struct cuda_backend* b, const struct device_weights* weights, const float* bias,
                     const void* x, int n, float* out, struct error* error) {
	const struct matrix* w = &weights->stored;
	const float one = 1, zero = 0;
	const void* data = w->data;
	const cudaDataType_t type = b->bf16 ? CUDA_R_16BF : CUDA_R_16F;
	if (kept_as_stored(w->type)) {
		const int64_t count = (int64_t)w->rows * w->cols;
		const unsigned blocks = (unsigned)((count + 255) / 256);
		data = b->work.dequantized;
		by_activation(b, [&](auto activation) {
			dequantize_kernel<<<blocks, 256, 0, b->stream>>>((decltype(activation)*)b->work.dequantized, *w,
			                                                 count);
		});
	}
	CUBLAS_TRY(b->calls.gemm(b->cublas, CUBLAS_OP_T, CUBLAS_OP_N, w->rows, n, w->cols, &one, data, type,
	                         w->cols, x, type, w->cols, &zero, out, CUDA_R_32F, w->rows, CUBLAS_COMPUTE_32F,
	                         CUBLAS_GEMM_DEFAULT),
	           error);
	if (bias)
		bias_kernel<<<n, 256, 0, b->stream>>>(out, bias, w->rows);
	return true;
}
