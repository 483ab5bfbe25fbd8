/* Stop rules: when a chain of draft steps ends.
 *
 *    fixed      after a number of steps
 *    marginal   when the last step's probability is under a threshold (Draft & Verify, Zhang et al. 2023;
 *               SWIFT; Kangaroo Eq. 4)
 *    product    when the product of all steps' probabilities is (AdaSPEED, Algorithm 2)
 *    probe      the same product of a probe's estimates from each step's hidden state (AdaSPEED, II.B)
 *    gain       when a further step is expected to bring less than it costs
 *
 * A step that was made is kept, so that the length of a draft never depends on what was drawn. The threshold
 * of the middle three may adapt by two moving averages (AdaSPEED's appendix, after Draft & Verify):
 *
 *     AR <- b1·AR + (1 - b1)·accepted/drafted,     t  <- b2·t + (1 - b2)·(t + e if AR <= a, else t - e). */
#pragma once

#include "core/decode/options.h"
#include "kernels/backend.h"

struct stopper {
	enum stop_rule rule;
	int most;        /* steps, whatever the rule */
	float threshold; /* now */
	float start;     /* what it is at the start of a text */
	bool at_most;    /* a probability that equals the threshold also ends the chain (Kangaroo Eq. 4) */
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
/* A step with this probability was made; `top`: its top-1 probability, which `gain` uses. Returns whether it
 * is the last one, and the reason (a word for traces) in `why`. */
bool stop_after(struct stopper*, float chance, float top, const char** why);
/* The chain was verified. */
void stop_learn(struct stopper*, int drafted, int accepted);
