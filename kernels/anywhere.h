/* Inline functions that run on the host and on a CUDA device with the same results, and the bits of floats
 * for them. */
#pragma once

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define ANYWHERE static __host__ __device__ __forceinline__
#else
#define ANYWHERE static inline
#endif

ANYWHERE float float_from_bits(uint32_t bits) {
	float x;
	memcpy(&x, &bits, 4);
	return x;
}

ANYWHERE uint32_t bits_from_float(float x) {
	uint32_t bits;
	memcpy(&bits, &x, 4);
	return bits;
}
