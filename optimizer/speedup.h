/* The speed-up to expect from a mask under measured costs. */
#ifndef SWIFTLET_OPTIMIZER_SPEEDUP_H
#define SWIFTLET_OPTIMIZER_SPEEDUP_H

#include "optimizer/search_options.h"

/* Of a draft step at cost c: the best over chain lengths D of M / ((M - 1)·c/alpha + v(n)): a chain of D
 * steps, each accepted after the last with the chance alpha, has M = 1 + alpha + … + alpha^D, (M - 1)/alpha =
 * D and n = D + 1 rows. D is at least 1: where no chain pays it is under 1, and still tells which mask is
 * nearest to paying. */
double speedup_of(const struct search_costs*, double c, double alpha);

#endif
