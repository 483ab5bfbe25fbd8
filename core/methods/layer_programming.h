/* Chooses the sub-layers to skip by dynamic programming on hidden states.
 *
 * This is CLaSp (Chen et al. 2025, arXiv 2505.24196) by sub-layer. g(i, j) is the state after sub-layer i
 * with j skipped that is nearest, by cosine, to the full model's state there. It comes from g(i - 1, j - 1)
 * by skipping i, or from g(i - 1, j) by running it. Keeping one state for each j makes it cheap, but inexact
 * if a worse state would lead to a better one later. It accounts for interactions that a sum over sub-layers
 * cannot express. Passes are filled here and run by the caller. */
#pragma once

#include "kernels/backend.h"

struct layer_programming {
	struct mask* mask;   /* (size + 1) the result: a mask for each number skipped */
	int size, dim, last; /* last: the model's sub-layers */
	int s, j, count;     /* the present pass: its first sub-layer; the numbers of its states, from j on */
	int reach;           /* most sub-layers that can have been skipped so far */
	struct segment segment;
	int32_t token[MAX_ROWS], parent[MAX_ROWS]; /* all the same */
	float *state, *ran;                        /* (size + 1, dim) before and after the sub-layer */
};

/* Bytes of one for a model, with its masks and two sets of states. */
size_t layer_programming_bytes(const struct model_shape*);

/* Begins in layer_programming_bytes() of the caller's memory; allocates nothing. Finds masks of 0 … size <=
 * 2(L - 2) sub-layers, by the token after `base` committed ones of the cache. Nothing may be pending. */
void layer_programming_begin(struct layer_programming*, struct cache*, int32_t token, int base, int size);
/* The next pass; takes its results, true when the masks are found. */
void layer_programming_fill(struct layer_programming*, struct pass*);
bool layer_programming_take(struct layer_programming*);
