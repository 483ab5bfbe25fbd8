/* Products of activations in halves, by weights of any type: a file by itself, so that several are compiled
 * at once. */
#include "kernels/cuda/product.cuh"

void launch_product_half_mixed(const struct cuda_backend* b, cudaStream_t stream, const struct product* p,
                               const void* x, int bucket, int sub_layer, int parts) {
	launch_product_of<__half, true>(b, stream, p, x, bucket, sub_layer, parts);
}
