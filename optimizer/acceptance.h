/* How often the target agrees with the draft, learned as it runs.
 *
 * By bin of the draft's top-1 probability: how often the target's token is the draft's first, second, …
 * choice. Old counts fade, so that the table follows the mask and the text. Beside it, one number for the
 * mask at hand: the chance that a draft step is accepted, which starts from its matchness. */
#ifndef SWIFTLET_OPTIMIZER_ACCEPTANCE_H
#define SWIFTLET_OPTIMIZER_ACCEPTANCE_H

#include "core/draft/round.h"

struct acceptance {
	float hits[DRAFT_BINS][TREE_RANKS];
	float trials[DRAFT_BINS];
	struct acceptance_table table; /* posterior means, what trees and drafts are built from */
	float step_hits, step_trials;  /* of the mask at hand: chain tokens accepted of those looked at */
	float rate;                    /* tokens per plain step of recent rounds, 1 = as plain */
};

void acceptance_open(struct acceptance*);
/* The mask changed: its matchness (NaN when unknown) is worth a few trials. */
void acceptance_new_mask(struct acceptance*, double matchness);
/* What was learned of the mask at hand is held worth no more than a new mask's matchness. */
void acceptance_doubt(struct acceptance*);
/* Learns from a verified round. */
void acceptance_see(struct acceptance*, const struct round*);
/* Learns the rate a round reached: tokens over cost. */
void acceptance_see_rate(struct acceptance*, int tokens, double cost);
/* Chance that a draft step of the mask at hand is accepted. */
float acceptance_step(const struct acceptance*);

#endif
