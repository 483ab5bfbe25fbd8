/* A row's logits are the same bits however it is computed.
 *
 * The measure is one-row decoding: a cache of its own, one thread, one row a pass, every row committed
 * before the next. Against it: random trees in one pass and in pieces, more rows than a slice, a base
 * below the committed tokens, masks, spans with rewind, taps, states to go on from, several sequences in a
 * pass, thread counts, chunks of prefill, paths committed out of trees. All compared with memcmp. */
#pragma once

#include "tests/kernels/support_random_model.h"

enum { INVARIANCE_CONTEXT = 400 };

struct invariance_way {
	/* Opens a backend for INVARIANCE_CONTEXT tokens; NULL with the error set where there is none. */
	struct backend* (*open)(const struct weight_table*, const struct invariance_way*, int threads,
	                        struct error*);
	const char* isa; /* for the CPU */
	enum dtype cache;
	const int* size; /* (n_sizes) rows of the trees tried */
	int n_sizes;
	int text; /* most tokens that are committed before the trees; 0: 120 */
};

/* Fails the cmocka test at the first difference. False, with the reason printed, where the backend does not
 * open. */
bool invariance_holds(const struct random_model*, const struct invariance_way*, uint64_t seed);
