/* Quantized blocks for the vector kernels: sizes that are constants for the compiler, and the lists of types
 * that kernels are compiled for. */
#pragma once

#include "kernels/cpu/matmul.h"

/* For the types that are multiplied as stored. */
INLINED bool small_blocks(enum dtype type) { return dtype_table[type].elements == BLOCK_SMALL; }
INLINED size_t dtype_bytes_of(enum dtype type) { return dtype_table[type].bytes; }

/* Types that are multiplied as stored: those that real files are mostly made of, all but iq4_xs,
 * and all */
#define MAIN_TYPES(X)                                                                                        \
	X(DTYPE_Q8_0)                                                                                            \
	X(DTYPE_Q4_0)                                                                                            \
	X(DTYPE_Q4_1)                                                                                            \
	X(DTYPE_Q5_0)                                                                                            \
	X(DTYPE_Q5_1)                                                                                            \
	X(DTYPE_IQ4_NL)                                                                                          \
	X(DTYPE_Q4_K)                                                                                            \
	X(DTYPE_Q5_K)                                                                                            \
	X(DTYPE_Q6_K)
#define MOST_TYPES(X) MAIN_TYPES(X) X(DTYPE_Q2_K) X(DTYPE_Q3_K)
#define ALL_TYPES(X) MOST_TYPES(X) X(DTYPE_IQ4_XS)
