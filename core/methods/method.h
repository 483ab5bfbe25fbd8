/* The methods: which drafter drafts, when drafting stops, and what is verified. The caller chooses the rule
 * of acceptance for any method.
 *
 * A table has a row for each method that is named by a paper or a baseline. The session itself implements
 * `auto`, `swift` and `vanilla` (core/decode); the others drive it (standalone.h). */
#pragma once

#include "core/decode/engine.h"
#include "core/methods/method_drafter.h"
#include "core/methods/stop.h"

/* MASK_RANDOM, MASK_GIVEN: the caller sets one. */
enum method_mask { MASK_NONE, MASK_UNIFORM, MASK_RANDOM, MASK_GIVEN, MASK_PROGRAMMED };

enum method_tree {
	TREE_CHAIN,
	TREE_WIDE,     /* SWIFT's tree: each step's token and its alternatives */
	TREE_CHILDREN, /* the likeliest tokens of each step: ppd's tree */
	TREE_GUESSED   /* as the drafter has it, and whole */
};

struct method {
	const struct method_drafter* drafter; /* NULL: rounds are planned, or plain */
	enum method_mask mask;
	enum method_tree tree;
	enum stop_rule stop;
	float threshold; /* of the stop rule */
	bool at_most;    /* a probability that equals the threshold also ends the chain */
	bool adapts;
	int most; /* draft steps a round; 0: by cost, or --max-draft */
};

extern const struct method methods[SWIFTLET_METHODS];

static inline const struct method* method_of(const struct swiftlet_options* options) {
	return &methods[options->drafting.method];
}

/* True when the drafter's rows end at an exit. */
static inline bool method_has_exit(const struct method* method) {
	return method->drafter == &exit_drafter || method->drafter == &adapter_drafter;
}

/* Draft steps a round at most; --max-draft unless the options or the method set another number. */
int method_most(const struct swiftlet_options*);
/* True when a model with its opened auxiliary weights has what the method needs, except a mask; otherwise the
 * error names what is missing and how to make it. */
bool method_has_auxiliary_weights(const struct method*, const struct engine*, struct error*);
/* The same for all that the options ask for: exits, children, acceptance. */
bool method_check(const struct swiftlet_options*, const struct engine*, struct error*);
