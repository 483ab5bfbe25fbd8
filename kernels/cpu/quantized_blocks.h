/* Quantized blocks as the vector kernels see them: sizes the compiler can see through, and packed scales
 * taken apart all at once. */
#ifndef SWIFTLET_KERNELS_CPU_QUANTIZED_BLOCKS_H
#define SWIFTLET_KERNELS_CPU_QUANTIZED_BLOCKS_H

#include "kernels/cpu/matmul.h"

#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 64")
#endif
#define INLINED static inline __attribute__((always_inline))

/* Of the types that are multiplied as stored. */
INLINED bool small_blocks(enum dtype type) { return dtype_table[type].elements == BLOCK_SMALL; }
INLINED size_t dtype_bytes_of(enum dtype type) { return dtype_table[type].bytes; }

INLINED uint32_t load_u32(const void* p) {
	uint32_t x;
	memcpy(&x, p, 4);
	return x;
}

#endif
