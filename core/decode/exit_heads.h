/* Trained heads behind early blocks, several rows at once: what they say of states that were tapped there.
 *
 * A head of (dim, dim) goes before the model's own output matrix, which a pass applies; one of (vocab, dim)
 * is a classifier by itself. */
#ifndef SWIFTLET_CORE_DECODE_EXIT_HEADS_H
#define SWIFTLET_CORE_DECODE_EXIT_HEADS_H

#include "core/model/parts.h"
#include "kernels/backend.h"

struct exit_heads {
	const struct heads* heads;
	struct cache* scratch;  /* of the model's backend, holds nothing */
	float* in;              /* (rows, dim) work space */
	float* logits;          /* (3·vocab) likewise */
	struct segment segment; /* of the pass */
};

/* out (n), each with `top` set: the likeliest tokens by the head after so many blocks, of state (n, dim).
 * want (n): WANT_TOKEN and WANT_TOP. True: this pass over the scratch cache tells, whose rows the caller
 * discards; false: out has been told, with `top` 0 where the numbers were not finite. */
bool exit_heads_fill(struct exit_heads*, int block, const float* state, int n, const uint8_t* want,
                     struct result* out, struct pass*);

#endif
