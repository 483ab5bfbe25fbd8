/* What evidence is worth: the chance that a candidate is the target's token, learned from verification.
 *
 * Drafters ask about the children of one node in turn, so a candidate's chance is that of being right when
 * all those before it are wrong, times what those before it leave: chances at one node never sum to more
 * than 1. It is learned so as well: of a node whose target token is known, each candidate up to the right one
 * is a trial, in the tree or not. Counts are kept by source, evidence bin, rank among the node's children and
 * whether another drafter proposes the same; they start from the drafter's prior, and fade. */
#ifndef SWIFTLET_CORE_DRAFT_CHANCES_H
#define SWIFTLET_CORE_DRAFT_CHANCES_H

#include "core/draft/drafter.h"

/* Ranks from TREE_RANKS on are those of candidates that another drafter proposes as well. */
enum { CHANCE_RANKS = 2 * TREE_RANKS };

struct tally {
	float right, trials;
};

/* Of first choices, fading: those that came, and those that the prior told of. A copy of the weights in few
 * bits misses far less often than its probabilities say, much left out more often. */
struct misses {
	float came, expected;
};

struct chances {
	struct tally seen[DRAFTER_COUNT][EVIDENCE_BINS][CHANCE_RANKS];
	struct tally first[DRAFTER_COUNT]; /* each drafter's first choices, whatever the evidence */
	struct misses misses[DRAFTER_COUNT];
};

void chances_open(struct chances*);
/* In (0, 1). */
float chances_of(const struct chances*, int source, int bin, int rank);
/* Chance that a drafter's first choice at some node is right. */
float chances_first(const struct chances*, int source);
/* The drafter is not what it was (another mask): its first choices are right as often as `start` says, NaN
 * where that is not known, which is held worth a few trials. */
void chances_first_anew(struct chances*, int source, float start);
/* One trial. */
void chances_see(struct chances*, int source, int bin, int rank, bool right);

#endif
