/* Acceptance by rejection sampling. It is lossless in distribution, while the coupled rule (tree.h) is
 * lossless to the bit.
 *
 * The children of a row with target distribution p were drawn in turn, without replacement, from the draft's
 * q. A child x is accepted with probability min(1, p(x)/q(x)). Otherwise p becomes the normalised max(p - q,
 * 0), q loses x, and the next child is tried. With no child left the token comes from p (Leviathan et al.
 * 2023, Algorithm 1, for chains; for trees the recursive form of Jeon et al. 2024, arXiv 2402.14160). A child
 * that was not drawn at random has a q with all probability on it. No drawn child may be left out of a
 * tree. */
#pragma once

#include "core/draft/tree.h"

struct rejection {
	int vocab;
	const struct sampler* sampler; /* its filters shape p and q; its seed and sequence determine the draws */
	float *p, *q, *scratch;        /* (vocab) each, the caller's */
};

/* out[i].logits (vocab): the target's at row i of the tree. q[i] (vocab): the logits from which row i's
 * children were drawn with the sampler's filters, in row order; NULL: they were not drawn. position: of the
 * token after the root. The draws differ from gumbel_noise's at the same seed. */
void tree_reject(const struct tree*, const struct result* out, const float* const* q, uint64_t position,
                 const struct rejection*, struct verdict*);
