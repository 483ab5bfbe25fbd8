/* Shared by the host files that launch products. */
#pragma once

#include "kernels/cuda/cuda.cuh"

/* A block takes a tile of TILE rows of a matrix, its WARPS warps an equal share of the columns each. */
enum { WARPS = 8, TILE = 16, FUSED_HEAD = 256, FEW_BUCKETS = 2 };

__device__ __host__ static inline int tiles_in(int rows) { return (rows + TILE - 1) / TILE; }

/* A product whose activations are of type T, and whose weights are all of the same, or of any type (MIXED).
 * `parts` blocks share out a tile. */
template <class T, bool MIXED>
void launch_product_of(const struct cuda_backend*, const struct device_product*, const void* x, int bucket,
                       int sub_layer, int parts);
