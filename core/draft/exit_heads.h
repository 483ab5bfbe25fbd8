/* Trained heads behind early blocks: what they say of states that were tapped there.
 *
 * A head of (dim, dim) goes before the model's own output matrix, which a pass applies; one of (vocab, dim)
 * is a classifier by itself. */
#ifndef SWIFTLET_CORE_DRAFT_EXIT_HEADS_H
#define SWIFTLET_CORE_DRAFT_EXIT_HEADS_H

#include "kernels/backend.h"

struct heads;

struct exit_heads {
	const struct heads* heads;
	const struct model_shape* shape;
	const int* rows; /* by blocks run: dim or vocab; 0: no head */
	/* out (rows) of the state x (dim) */
	void (*apply)(const struct heads*, int blocks, const float* x, float* out);
	struct cache* scratch; /* of the model's backend, holds nothing */
	float* in;             /* (states at once, dim) work space */
	float* logits;         /* (3·vocab) likewise */
	/* of the pass */
	struct segment segment;
};

/* out (n), each with `top` set: the likeliest tokens by the head after so many blocks, of state (n, dim).
 * want (n): WANT_TOKEN, WANT_TOP, WANT_LOGITS. True: this pass over the scratch cache tells, whose rows the
 * caller discards; false: out has been told, with `top` 0 where the numbers were not finite. The noise of a
 * sampler (or NULL) for a text's tokens from `position` on is a classifier's alone: a pass knows no
 * positions, so that where it asks for WANT_LOGITS exit_heads_draw comes after it. */
bool exit_heads_fill(struct exit_heads*, int blocks, const float* state, int n, const struct sampler*,
                     uint64_t position, const uint8_t* want, struct result* out, struct pass*);
/* The choices by out->logits (vocab). False where they are not finite. */
bool exit_heads_draw(const struct exit_heads*, const struct sampler*, uint64_t position, struct result* out);

#endif
