/* Trained heads behind early blocks, which turn states tapped there into tokens. A head (dim, dim) precedes
 * the model's own output matrix, which a pass applies. */
#pragma once

#include "kernels/backend.h"

struct heads; /* core/model/auxiliary_weights.h */

struct exit_heads {
	const struct heads* heads;
	struct cache* scratch; /* of the model's backend, holds nothing */
	float* in;             /* (states at once, dim) work space */
	float* logits;         /* (3·vocab) likewise, of draws alone */
	/* of the pass */
	struct segment segment;
};

/* A pass over the scratch cache with the head after so many blocks, for states (n, dim). The caller discards
 * its rows. */
void exit_heads_fill(struct exit_heads*, int blocks, const float* state, int n, const uint8_t* want,
                     struct result* out, struct pass*);
