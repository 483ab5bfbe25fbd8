/* What a mask could be: a search without a budget, for comparing with.
 *
 * A model writes 32 texts; masks are scored by SWIFT's matchness (Eq. 3) on a window of 32 tokens of each,
 * and local search goes from mask to mask by single swaps until none of all of them is better. What
 * is reported is matchness on the next windows. Runs on one backend, for seconds on a model of some
 * megabytes, for days on a large one. */
#ifndef SWIFTLET_TOOLS_PROGRAM_REFERENCE_MASK_H
#define SWIFTLET_TOOLS_PROGRAM_REFERENCE_MASK_H

#include "kernels/backend.h"

/* The texts and the caches that hold them; the backend must be opened for reference_context() tokens and
 * outlive it. */
struct reference_texts;
int reference_context(void);
/* NULL with the error set. */
struct reference_texts* reference_open(struct backend*, struct error*);
void reference_close(struct reference_texts*);

struct reference {
	struct mask mask;
	double matchness; /* on windows that the search did not see */
	long scored;      /* masks looked at */
};

/* The best mask of `size` sub-layers of inner blocks that local search finds. False with the error set when a
 * pass fails. */
bool reference_search(struct reference_texts*, int size, struct reference* out, struct error*);

#endif
