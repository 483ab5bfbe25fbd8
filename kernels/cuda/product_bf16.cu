/* Products of activations in BF16, by BF16: a file by itself, so that several are compiled at once. */
#include "kernels/cuda/product.cuh"

template void launch_product_of<__nv_bfloat16, false>(const struct cuda_backend*,
                                                      const struct device_product*, const void*, int, int,
                                                      int);
