/* Products of activations in halves with weights of any type. It is a file of its own so that several can be
 * compiled at once. */
#include "kernels/cuda/product.cuh"

template void launch_product_of<__half, true>(const struct cuda_backend*, const struct device_product*,
                                              const void*, int, int, int);
