/* Products of activations in halves, by halves: a file by itself, so that several are compiled at once. */
#include "kernels/cuda/product.cuh"

template void launch_product_of<__half, false>(const struct cuda_backend*, const struct device_product*,
                                               const void*, int, int, int);
