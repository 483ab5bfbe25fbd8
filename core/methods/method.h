/* The methods: who drafts, when drafting stops, what is verified. How it is accepted is a choice of the
 * caller's for all of them.
 *
 * One table has a row for each method that a paper or a baseline gives its name to; `auto`, `swift` and
 * `vanilla` are the session's own (core/decode), the others drive it (standalone.h). */
#ifndef SWIFTLET_CORE_METHODS_METHOD_H
#define SWIFTLET_CORE_METHODS_METHOD_H

#include "core/decode/engine.h"
#include "core/methods/method_drafter.h"
#include "core/methods/stop.h"

/* MASK_RANDOM, MASK_GIVEN: whoever opens the session, or uses it, sets one. */
enum method_mask { MASK_NONE, MASK_UNIFORM, MASK_RANDOM, MASK_GIVEN, MASK_PROGRAMMED };

enum method_tree {
	TREE_CHAIN,
	TREE_WIDE,     /* SWIFT's: beside each step's token its alternatives */
	TREE_CHILDREN, /* some of the likeliest at each step: ppd's */
	TREE_GUESSED   /* as the drafter has it, and whole */
};

struct method {
	const struct method_drafter* drafter; /* NULL: rounds are planned, or plain */
	enum method_mask mask;
	enum method_tree tree;
	enum stop_rule stop;
	float threshold; /* of the stop rule */
	bool at_most;    /* a chance that equals it ends the chain too */
	bool adapts;
	int most; /* draft steps a round; 0: by cost, or --max-draft */
};

extern const struct method methods[SWIFTLET_METHODS];

static inline const struct method* method_of(const struct swiftlet_options* options) {
	return &methods[options->method];
}

/* Whether the drafter's rows end at an exit. */
static inline bool method_has_exit(const struct method* method) {
	return method->drafter == &exit_drafter || method->drafter == &adapter_drafter;
}

/* Draft steps a round at most, --max-draft where neither options nor method say. */
int method_most(const struct swiftlet_options*);
/* Whether a model, with the auxiliary weights that were opened beside it, has what the method needs, a mask
 * aside; else a sentence that says what is missing and how it is made. */
bool method_has_auxiliary_weights(const struct method*, const struct engine*, struct error*);
/* The same for the whole of what the options ask for: exits, children, acceptance. */
bool method_check(const struct swiftlet_options*, const struct engine*, struct error*);

#endif
