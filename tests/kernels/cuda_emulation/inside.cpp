/* State that the CUDA backend does not hand out, read from the emulated device. */
#include "kernels/cuda/cuda.cuh"
#include "tests/kernels/cuda_emulation/emulated.h"

void emulated_logits(const struct backend* backend, int rows, float* out) {
	const struct cuda_backend* b = (const struct cuda_backend*)backend;
	cudaMemcpy(out, b->work.logits, (size_t)rows * (size_t)b->shape.vocab * sizeof *out,
	           cudaMemcpyDeviceToHost);
}

void emulated_mass(const struct cache* cache, int pages, float* out) {
	const int blocks = ((const struct cuda_backend*)cache->backend)->shape.n_blocks;
	cudaMemcpy(out, ((const struct cuda_cache*)cache)->mass, (size_t)pages * (size_t)blocks * sizeof *out,
	           cudaMemcpyDeviceToHost);
}
