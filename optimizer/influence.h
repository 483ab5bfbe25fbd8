/* Influence: how much each sub-layer changes the hidden states of the present text.
 *
 * The influence of a sub-layer f is the mean over rows x of 1 - cos(x, x + f(x)), which is Block Influence
 * (Men et al. 2024, "ShortGPT", eq. 1) by sub-layer. Backends return it for each row of a pass that runs
 * anyway, so a prompt's prefill gives it at no cost. Rows at the first few positions are left out: BOS has
 * massive activations there, which would hide the effect on all other rows. */
#ifndef SWIFTLET_OPTIMIZER_INFLUENCE_H
#define SWIFTLET_OPTIMIZER_INFLUENCE_H

#include "kernels/backend.h"

enum {
	INFLUENCE_FIRST = 4,    /* positions left out */
	INFLUENCE_ENOUGH = 64,  /* rows from which on decoding adds no more to a short prompt's */
	INFLUENCE_MEMORY = 4096 /* rows that count at most, since older text fades */
};

/* Of one workload. A plain value. */
struct influence {
	double sum[2 * MAX_BLOCKS];
	double rows;
};

/* Adds one row, number `row` of the n rows of a pass that ran all 2L sub-layers; of: (2L, n) as the pass
 * filled it. A row with a value that is not finite is left out. */
void influence_add(struct influence*, const float* of, int blocks, int n, int row);
/* Adds what another knows. */
void influence_join(struct influence*, const struct influence* other, int blocks);
/* mean (2L), zeros before any row. */
void influence_mean(const struct influence*, int blocks, double* mean);

#endif
