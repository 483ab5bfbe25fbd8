/* Masks at random: uniform sets of a size. */
#ifndef SWIFTLET_OPTIMIZER_RANDOM_MASK_H
#define SWIFTLET_OPTIMIZER_RANDOM_MASK_H

#include "gp/random.h"
#include "optimizer/vector.h"

/* A uniformly random set of `size` of `dims` sub-layers: the first of a Fisher-Yates shuffle of 0, 1, 2…,
 * with one gp_below(dims - i) each. */
void random_mask(struct gp_random*, int dims, int size, struct vector* out);

#endif
