/* Span influence: what leaving out neighbouring sub-layers together does to the text at hand.
 *
 * Of the sub-layers [i, j): the mean over rows of 1 - cos(state before i, state before j), Block Influence
 * (Men et al. 2024, "ShortGPT", eq. 1) of a span. Per sub-layer it misleads on real models; the span of least
 * influence is nearly the best of its cost. Rows are of generated text: a prompt's last rows and the massive
 * activations of the first ones tell of other layers. */
#ifndef SWIFTLET_OPTIMIZER_SPANS_H
#define SWIFTLET_OPTIMIZER_SPANS_H

#include "kernels/backend.h"

/* Rows after which more would move the best span little: 31 of one answer chose what 700 of twelve did, or
 * nearly. */
enum { SPANS_ENOUGH = 32 };

struct spans {
	int blocks;
	double rows;
	/* (2L + 1, 2L + 1) sums over rows; [i][j], i < j: before sub-layer i and before sub-layer j */
	double* sum;
};

/* False on no memory; close in any case. */
bool spans_open(struct spans*, int blocks);
void spans_close(struct spans*);
void spans_forget(struct spans*);
/* Adds `n` rows of `dim`; state[b]: before sub-layer b, for b in (0, 2L], NULL where it is not known. */
void spans_add(struct spans*, float* const* state, int n, int dim);
/* Mean influence of the sub-layers [first, last). */
double spans_influence(const struct spans*, int first, int last);

#endif
