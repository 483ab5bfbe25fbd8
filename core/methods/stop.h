/* When a chain of draft steps ends: the stop rules that methods are made with.
 *
 *   fixed      after so many steps
 *   marginal   when the last step's chance is under a threshold (Draft & Verify, Zhang et al. 2023; SWIFT;
 *              Kangaroo Eq. 4)
 *   product    when the product of all steps' probabilities is (AdaSPEED, Algorithm 2)
 *   probe      the same product of what a probe makes of each step's hidden state (AdaSPEED, section II.B)
 *   gain       when what a further step may bring is worth less than it costs
 *
 * A step that is made is kept, so that what is drafted never depends on what was drawn. The threshold of the
 * middle three may adapt by two moving averages (AdaSPEED's appendix, after Draft & Verify):
 *
 *     AR <- b1·AR + (1 - b1)·accepted/drafted,
 *     t  <- b2·t + (1 - b2)·(t + e where AR <= a, else t - e). */
#ifndef SWIFTLET_CORE_METHODS_STOP_H
#define SWIFTLET_CORE_METHODS_STOP_H

#include "kernels/backend.h"

enum stop_rule { STOP_FIXED, STOP_MARGINAL, STOP_PRODUCT, STOP_PROBE, STOP_GAIN };

struct stopper {
	enum stop_rule rule;
	int most;        /* steps, whatever the rule */
	float threshold; /* now */
	float start;     /* what it is at the start of a text */
	bool at_most;    /* a chance that equals the threshold ends the chain too (Kangaroo Eq. 4) */
	bool adapts;
	float average;                     /* AR */
	float product;                     /* of this chain's probabilities so far */
	int steps;                         /* of this chain */
	const struct draft_policy* policy; /* gain: the caller's */
};

/* A text begins: thresholds start anew. */
void stop_begin(struct stopper*);
/* A chain begins. */
void stop_chain(struct stopper*);
/* A step with this chance was made; `top`: its top-1 probability, which `gain` reads its chance from. Whether
 * it is the last; why (a word for traces) through `why`. */
bool stop_after(struct stopper*, float chance, float top, const char** why);
/* The chain was verified. */
void stop_learn(struct stopper*, int drafted, int accepted);

#endif
