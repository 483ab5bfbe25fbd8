/* Types that are multiplied as floats, a block at a time: too rare, or too far from whole numbers on a grid,
 * for products of their own. */
#ifndef SWIFTLET_KERNELS_DTYPE_DECODED_H
#define SWIFTLET_KERNELS_DTYPE_DECODED_H

#include "kernels/backend.h"

/* Whether the type is one of them. */
static inline bool dtype_is_decoded(enum dtype type) { return type >= DTYPE_MXFP4 && type < DTYPE_COUNT; }

/* Widens one block of such a type. x (dtype_block(type)) */
void decoded_block_to_float(enum dtype type, const void* block, float* x);

#endif
