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

INLINED uint64_t load_u64(const void* p) {
	uint64_t x;
	memcpy(&x, p, 8);
	return x;
}

/* Eight scales and eight minima of q4_k and q5_k, a byte each: k4_scale_min for all at once. */
INLINED void k4_scales_minima(const uint8_t* packed, uint64_t* scales, uint64_t* minima) {
	const uint64_t first = load_u32(packed), second = load_u32(packed + 4), third = load_u32(packed + 8);
	const uint64_t six = 0x3f3f3f3fu, four = 0x0f0f0f0fu, two = 0x03030303u;
	*scales = (first & six) | ((third & four) | (first >> 6 & two) << 4) << 32;
	*minima = (second & six) | ((third >> 4 & four) | (second >> 6 & two) << 4) << 32;
}

/* Sixteen scales of q3_k, a byte each, 32 not yet taken off: q3_scale for all at once. */
INLINED void q3_scales(const uint8_t* packed, uint64_t* first, uint64_t* last) {
	const uint64_t low = load_u64(packed), high = load_u32(packed + 8);
	const uint64_t four = 0x0f0f0f0f0f0f0f0fu, two = 0x03030303u;
	*first = (low & four) | (high & two) << 4 | (high >> 2 & two) << 36;
	*last = (low >> 4 & four) | (high >> 4 & two) << 4 | (high >> 6 & two) << 36;
}

#endif
