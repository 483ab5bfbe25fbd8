/* Ridge least squares from sums (gram.h).
 *
 * W minimises Σ |y - W·u|² + λ Σ_j n·var(u_j)·|W_j|² over the inputs but the constant, so that the units of
 * an input do not matter; λ is the one of a few whose W, fitted without the rows that are held out, has the
 * least error on them, and the W given is fitted to all rows with it (Hoerl and Kennard 1970). */
#ifndef SWIFTLET_CORE_BRIDGE_SOLVE_H
#define SWIFTLET_CORE_BRIDGE_SOLVE_H

#include "core/bridge/gram.h"

struct ridge_fit {
	double lambda;
	double error; /* on the rows held out, over what the mean of no fit (W = 0) leaves: 1 is as bad */
};

/* weight (outputs, inputs - 1) and bias (outputs). False where no block is held out yet, or no memory is. */
bool ridge_solve(const struct gram*, float* weight, float* bias, struct ridge_fit*);

#endif
