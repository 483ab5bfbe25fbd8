/* Trained heads behind early blocks: what they say of states that were tapped there. A head (dim, dim) goes
 * before the model's own output matrix, which a pass applies. */
#ifndef SWIFTLET_CORE_METHODS_EXIT_HEADS_H
#define SWIFTLET_CORE_METHODS_EXIT_HEADS_H

#include "kernels/backend.h"

struct heads;

struct exit_heads {
	const struct heads* heads;
	float* const* weight; /* by blocks run; NULL: no head */
	/* out (dim) of the state x (dim) */
	void (*apply)(const struct heads*, int blocks, const float* x, float* out);
	struct cache* scratch; /* of the model's backend, holds nothing */
	float* in;             /* (states at once, dim) work space */
	float* logits;         /* (3·vocab) likewise, of draws alone */
	/* of the pass */
	struct segment segment;
};

/* The pass over the scratch cache, whose rows the caller discards, that tells what the head after so many
 * blocks says of state (n, dim). */
void exit_heads_fill(struct exit_heads*, int blocks, const float* state, int n, const uint8_t* want,
                     struct result* out, struct pass*);

#endif
