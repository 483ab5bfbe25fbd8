/* Random masks: uniform draws from the sets of one size. */
#pragma once

#include "gp/random.h"
#include "kernels/backend.h"

enum { MAX_DIMS = 2 * MAX_BLOCKS - 4 };

/* A uniformly random set of `size` of the `dims` sub-layers from 2 on: the first of a Fisher-Yates shuffle of
 * 2, 3, 4…, with one gp_below(dims - i) each (search_masks.c). */
void random_mask(struct gp_random*, int dims, int size, struct mask* out);
