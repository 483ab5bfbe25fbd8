/* A drafter that makes the whole round of a method. It guesses a tree at once (grow), or makes a chain of
 * steps by passes (step and take; its state then begins with a struct chain). */
#pragma once

#include "core/draft/drafter.h"

struct method_drafter_setup {
	int context, vocab;
	int most;                        /* tokens that it guesses ahead, at most MAX_DRAFT */
	const struct chain_setup* chain; /* of those that make passes (chain.h) */
};

/* Only open may allocate. All functions but open and close are optional. */
struct method_drafter {
	void* (*open)(const struct method_drafter_setup*); /* NULL on no memory */
	void (*close)(void* state);
	/* A text begins; tokens were emitted; a tree was verified: as in struct drafter. */
	void (*begin)(void* state, const struct drafter_text*);
	void (*append)(void* state, const int32_t* token, int n);
	void (*see)(void* state, const struct tree*, const struct verdict*, const struct result* out);
	/* Adds rows below the root, none deeper than `depth`. */
	void (*grow)(void* state, struct tree*, int depth);
	/* Fills a pass for the chain's next step, which may need several; takes its results. */
	void (*step)(void* state, struct pass*);
	void (*take)(void* state);
	/* For a drafter that reads every row of the prompt, from its chain's tap `prompt`: how many it has read;
	 * a pass that reads n more; takes that pass's results. */
	int (*seen)(const void* state);
	void (*read)(void* state, int n, struct pass*);
};

extern const struct method_drafter ngram_drafter, jacobi_drafter, lookahead_drafter, skip_drafter,
    exit_drafter, adapter_drafter;
