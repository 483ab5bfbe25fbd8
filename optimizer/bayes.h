/* The Gaussian process behind the Bayesian proposals, and the thread it may live on.
 *
 * Scores reach it through a ring that only the search writes and only the model reads; a request and its
 * answer pass through one atomic word. So the search never waits for a fit, and no lock can be held by a
 * thread that the scheduler starves. Without a thread the same work runs where the proposal is asked for. */
#ifndef SWIFTLET_OPTIMIZER_BAYES_H
#define SWIFTLET_OPTIMIZER_BAYES_H

#include "optimizer/search_options.h"
#include "optimizer/vector.h"

struct bayes;
/* NULL on no memory. */
struct bayes* bayes_open(const struct search_options*, int dims);
void bayes_close(struct bayes*);
/* One observation: y is larger where the mask is better. */
void bayes_observe(struct bayes*, const struct vector*, double y, double variance, int64_t window);
/* Asks for a proposal of `size` sub-layers; the answer may come later. trend (dims): the prior mean of y is a
 * constant and the sum of these over the sub-layers skipped; NULL: the constant. */
void bayes_want(struct bayes*, int size, const double* trend, uint64_t seed);
/* True with a proposal when one is ready. */
bool bayes_take(struct bayes*, struct vector*);
double bayes_seconds(const struct bayes*); /* of its thread */

#endif
