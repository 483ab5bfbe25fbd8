/* Span influence: how much leaving out neighbouring sub-layers together changes the present text's states.
 *
 * The influence of the sub-layers [i, j) is the mean over rows of 1 - cos(state before i, state before j),
 * Block Influence (Men et al. 2024, "ShortGPT", eq. 1) of a span. By single sub-layers it misleads on real
 * models. The span of least influence is nearly the best of its cost. Rows come from generated text: a
 * prompt's last rows, and the first rows with their massive activations, favour other layers. */
#pragma once

#include "kernels/backend.h"

/* So many rows of an answer choose spans. From eight rows on more make no difference: the spans that 8, 16
 * and 64 rows choose have the same alpha within .009. The worst choice of eight rows was worse than that of
 * 16 (docs/lessons.md). */
enum { SPANS_ENOUGH = 16 };

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
/* Adds `n` rows of `dim`; state[b]: before sub-layer b, for b in (0, 2L], NULL if it is unknown. */
void spans_add(struct spans*, float* const* state, int n, int dim);
/* Mean influence of the sub-layers [first, last). */
double spans_influence(const struct spans*, int first, int last);
