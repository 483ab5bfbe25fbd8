/* Which sub-layers to skip, by dynamic programming on hidden states.
 *
 * CLaSp (Chen et al. 2025, arXiv 2505.24196) per sub-layer: g(i, j) is the state after sub-layer i with j
 * skipped that is nearest, by cosine, to the full model's state there; it comes from g(i - 1, j - 1) by
 * skipping i or from g(i - 1, j) by running it. Keeping one state for each j is what makes it cheap, and
 * inexact where a state that is worse now would be better later. Interactions that a sum over sub-layers
 * cannot hold are seen. */
#ifndef SWIFTLET_CORE_DECODE_LAYER_PROGRAMMING_H
#define SWIFTLET_CORE_DECODE_LAYER_PROGRAMMING_H

#include "kernels/backend.h"

struct layer_programming {
	int rows; /* tokens that it looks at: all states together are at most MAX_ROWS rows where that leaves one
	           */
	double passes; /* what it cost: full passes of `pass_rows` rows */
	int pass_rows;
};

/* Bytes of the work space for a model: two sets of states. */
size_t layer_programming_bytes(const struct model_shape*);

/* backend: runs the passes, the cache's or what stands before it. mask (size + 1): the mask of each number
 * skipped, 0 … size <= 2(L - 2), by the `n` tokens that follow `base` committed ones of the cache (more than
 * are useful are left out). Nothing may be pending. False with the error set when a pass fails. Allocates
 * nothing: `space` is layer_programming_bytes() of the caller's.
 */
bool layer_programming(struct backend*, struct cache*, const int32_t* token, int base, int n, int size,
                       struct mask* mask, void* space, struct layer_programming*, struct error*);

#endif
