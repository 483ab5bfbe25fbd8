/* Acceptance by rejection sampling: lossless in distribution, where the coupled rule (tree.h) is to the
 * bit.
 *
 * At a row with target distribution p, its children were drawn in turn, without replacement, from the draft's
 * q. A child x is accepted with probability min(1, p(x)/q(x)); else p becomes the normalised max(p - q, 0), q
 * loses x, and the next child is tried; with none left the token comes from what p has become (Leviathan et
 * al. 2023, Algorithm 1, for chains; for trees the recursive form of Jeon et al. 2024, arXiv 2402.14160). A
 * child that was chosen without chance has the q that is all on it. Nothing may be left out of a tree for
 * what was drawn. */
#ifndef SWIFTLET_CORE_METHODS_REJECTION_H
#define SWIFTLET_CORE_METHODS_REJECTION_H

#include "core/draft/tree.h"

struct rejection {
	int vocab;
	const struct sampler* sampler; /* its filters shape p and q; its seed and sequence make the draws */
	float *p, *q, *scratch;        /* (vocab) each, the caller's */
};

/* out[i].logits (vocab): the target's at row i of the tree. q[i] (vocab): the logits that row i's children
 * were drawn by, with the sampler's filters, in row order; NULL: they were chosen without chance. position:
 * of the token after the root. The draws are other than gumbel_noise's at the same seed. */
void tree_reject(const struct tree*, const struct result* out, const float* const* q, uint64_t position,
                 const struct rejection*, struct verdict*);

#endif
