/* Influence: how much each sub-layer does to the text at hand.
 *
 * Of a sub-layer f on hidden states x: the mean over rows of 1 - cos(x, x + f(x)), Block Influence (Men et
 * al. 2024, "ShortGPT", eq. 1) by sub-layer. Backends return it for each row of a pass that runs for other
 * ends, so that a prompt's prefill tells it for nothing. Rows at the first few positions are left out: the
 * massive activations of BOS live there and would hide what the layers do to all others. */
#ifndef SWIFTLET_OPTIMIZER_INFLUENCE_H
#define SWIFTLET_OPTIMIZER_INFLUENCE_H

#include "kernels/backend.h"

enum {
	INFLUENCE_FIRST = 4,    /* positions left out */
	INFLUENCE_ENOUGH = 64,  /* rows after which decoding no longer adds to a short prompt's */
	INFLUENCE_MEMORY = 4096 /* rows that count at most: older text fades */
};

/* Of one workload. A plain value. */
struct influence {
	double sum[2 * MAX_BLOCKS];
	double rows;
};

/* Adds one row, `row` of the n of a pass that ran all 2L sub-layers; of: (2L, n) as the pass filled it.
 * A row with a value that is not finite is left out. */
void influence_add(struct influence*, const float* of, int blocks, int n, int row);
/* Adds what another knows. */
void influence_join(struct influence*, const struct influence* other, int blocks);
/* mean (2L), zeros before any row. */
void influence_mean(const struct influence*, int blocks, double* mean);

#endif
