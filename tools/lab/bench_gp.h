/* `swiftlet bench gp`: what the Gaussian process costs at its largest. */
#ifndef SWIFTLET_TOOLS_LAB_BENCH_GP_H
#define SWIFTLET_TOOLS_LAB_BENCH_GP_H

#include <stdbool.h>

/* Times, with 1,000 observations in 156 dimensions (a model of 80 blocks): adding one, one Bayesian proposal,
 * one fit of the hyper-parameters. Prints a table or one JSON object. Returns the exit status. */
int bench_gp(bool json);

#endif
