/* The acceptance estimate: the probability that a candidate is the target's token, learned from verification.
 *
 * Drafters ask about the children of one node in turn, so a candidate's chance is that of being right when
 * all those before it are wrong, times what those before it leave: probabilities at one node never sum to
 * more than 1. It is learned so as well: of a node whose target token is known, each candidate up to the
 * right one is a trial, in the tree or not. Counts are kept by source, evidence bin, rank among the node's
 * children and whether another drafter proposes the same; they start from the drafter's prior, and fade. */
#ifndef SWIFTLET_CORE_DRAFT_ACCEPTANCE_H
#define SWIFTLET_CORE_DRAFT_ACCEPTANCE_H

#include "core/draft/drafter.h"

/* Ranks from TREE_RANKS on are those of candidates that another drafter proposes as well. */
enum { ACCEPTANCE_RANKS = 2 * TREE_RANKS };

struct tally {
	float right, trials;
};

/* Rejected first choices, fading: those that came, and those that the prior expected. Drafts by quantized
 * weights are rejected far less often than their probabilities suggest, drafts that skip much more often. */
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
/* Chance that a drafter's first choice at some node is right. */
float acceptance_first(const struct acceptance*, int source);
/* The drafter is not what it was (another mask): its first choices are right as often as `start` says, NaN
 * where that is not known, which is held worth a few trials. */
void acceptance_reset_first(struct acceptance*, int source, float start);
/* One trial. */
void acceptance_observe(struct acceptance*, int source, int bin, int rank, bool right);

#endif
