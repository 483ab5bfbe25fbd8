/* Types that are multiplied as floats, a block at a time: too rare, or too far from whole numbers on a grid,
 * for products of their own. */
#ifndef SWIFTLET_KERNELS_DTYPE_DECODED_H
#define SWIFTLET_KERNELS_DTYPE_DECODED_H

#include "kernels/backend.h"

/* Whether the type is one of them. */
static inline bool dtype_is_decoded(enum dtype type) { return type >= DTYPE_MXFP4 && type < DTYPE_COUNT; }

/* The points that GGUF's IQ1, IQ2 and IQ3 types choose among (dtype_codebooks.c), coordinate 0 in the lowest
 * bits. Eight coordinates of two bits: iq1's stand for -1, 0, 1, iq2's for 8, 25, 43. */
extern const uint16_t codebook_iq1[2048], codebook_iq2_xxs[256], codebook_iq2_xs[512], codebook_iq2_s[1024];
/* Four coordinates of four bits: iq3_xxs's stand for 4, 12, 20, 28, 36, 44, 52, 62, iq3_s's for 1, 3 … 15. */
extern const uint16_t codebook_iq3_xxs[256], codebook_iq3_s[512];

#endif
