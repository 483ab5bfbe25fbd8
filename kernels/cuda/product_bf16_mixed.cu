/* Products of activations in BF16, by weights of any type: a file by itself, so that several are compiled at
 * once. */
#include "kernels/cuda/product.cuh"

template void launch_product_of<__nv_bfloat16, true>(const struct cuda_backend*, const struct product*,
                                                     const void*, int, int, int);
