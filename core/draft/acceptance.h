/* The acceptance estimate: the probability that a candidate is the target's token, learned from verification.
 *
 * Candidates of one node are asked about in turn. A candidate's probability is that of being right when all
 * earlier ones are wrong, times what they leave, so probabilities at one node never sum to more than 1.
 * Learning follows the same order: if a node's target token is known, each candidate up to the right one is a
 * trial, in the tree or not. Counts are kept by source, evidence bin, rank among the node's children and
 * whether another drafter proposes the same token. They start from the drafter's prior, and fade. */
#ifndef SWIFTLET_CORE_DRAFT_ACCEPTANCE_H
#define SWIFTLET_CORE_DRAFT_ACCEPTANCE_H

#include "core/draft/drafter.h"

/* Ranks from TREE_RANKS on belong to candidates that another drafter proposes as well. */
enum { ACCEPTANCE_RANKS = 2 * TREE_RANKS };

struct tally {
	float right, trials;
};

/* Rejected first choices, fading: the observed ones, and those that the prior expected. Drafts by quantized
 * weights are rejected far less often than their probabilities suggest, and drafts that skip much more often.
 */
struct rejections {
	float came, expected;
};

struct acceptance {
	struct tally seen[DRAFTER_COUNT][EVIDENCE_BINS][ACCEPTANCE_RANKS];
	struct tally first[DRAFTER_COUNT]; /* each drafter's first choices, whatever the evidence */
	struct rejections rejections[DRAFTER_COUNT];
};

void acceptance_open(struct acceptance*);
/* In (0, 1). */
float acceptance_of(const struct acceptance*, int source, int bin, int rank);
/* The probability that a drafter's first choice at some node is right. */
float acceptance_first(const struct acceptance*, int source);
/* The drafter has changed (another mask): its first choices are right as often as `start`, NaN if that is
 * unknown. The value counts as a few trials. */
void acceptance_reset_first(struct acceptance*, int source, float start);
/* One trial. */
void acceptance_observe(struct acceptance*, int source, int bin, int rank, bool right);

#endif
