/* Which sub-layers to skip, by dynamic programming on hidden states.
 *
 * CLaSp (Chen et al. 2025, arXiv 2505.24196) per sub-layer: g(i, j) is the state after sub-layer i with j
 * skipped that is nearest, by cosine, to the full model's state there; it comes from g(i - 1, j - 1) by
 * skipping i or from g(i - 1, j) by running it. Keeping one state for each j is what makes it cheap, and
 * inexact where a state that is worse now would be better later. Interactions that a sum over sub-layers
 * cannot hold are seen. Passes are filled here and run by the caller. */
#ifndef SWIFTLET_CORE_METHODS_LAYER_PROGRAMMING_H
#define SWIFTLET_CORE_METHODS_LAYER_PROGRAMMING_H

#include "kernels/backend.h"

struct layer_programming {
	struct mask* mask;   /* (size + 1) what it finds: of each number skipped */
	int size, dim, last; /* last: the model's sub-layers */
	int s, j, count;     /* the pass at hand: its first sub-layer; states of so many numbers, from j on */
	int reach;           /* most sub-layers that can have been skipped so far */
	struct segment segment;
	int32_t token[MAX_ROWS], parent[MAX_ROWS]; /* all the same */
	float *state, *ran;                        /* (size + 1, dim) before and after running the sub-layer */
};

/* Bytes of one for a model, its masks and two sets of states included. */
size_t layer_programming_bytes(const struct model_shape*);

/* Begins in layer_programming_bytes() of the caller's; allocates nothing. Masks of 0 … size <= 2(L - 2)
 * sub-layers, by the token that follows `base` committed ones of the cache. Nothing may be pending. */
void layer_programming_begin(struct layer_programming*, struct cache*, int32_t token, int base, int size);
/* The next pass; takes its results, true when the masks are there. */
void layer_programming_fill(struct layer_programming*, struct pass*);
bool layer_programming_take(struct layer_programming*);

#endif
