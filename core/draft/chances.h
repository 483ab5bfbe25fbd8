/* What evidence is worth: the chance that a candidate is the target's token, learned from verification.
 *
 * Drafters ask about the children of one node in turn, so a candidate's chance is that of being right when
 * all those before it are wrong, times what those before it leave: chances at one node never sum to more
 * than 1. It is learned so as well: of a node whose target token is known, each candidate up to the right one
 * is a trial, in the tree or not. Counts are kept by source, evidence bin and rank, and more narrowly by what
 * the other drafters say of the node; the narrow ones start from the broad ones, those from the drafter's
 * prior, and all fade.
 *
 * Predictions are compared with what came: tokens that verified trees were expected to bring and brought, by
 * source. */
#ifndef SWIFTLET_CORE_DRAFT_CHANCES_H
#define SWIFTLET_CORE_DRAFT_CHANCES_H

#include "core/draft/drafter.h"

/* What the other drafters say of a node: nothing, the same token, or only other tokens; unsure or sure of it.
 */
enum company { ALONE, AGREED, AGREED_SURELY, OPPOSED, OPPOSED_SURELY, COMPANIES };

struct tally {
	float right, trials;
};

struct calibration {
	double predicted, realized; /* draft tokens: chances of verified rows, accepted rows */
	int64_t rows;               /* verified */
};

struct chances {
	struct tally broad[DRAFTER_COUNT][EVIDENCE_BINS][TREE_RANKS];
	struct tally fresh[DRAFTER_COUNT][EVIDENCE_BINS][TREE_RANKS]; /* trials that nobody has stored yet */
	struct tally narrow[DRAFTER_COUNT][EVIDENCE_BINS][TREE_RANKS][COMPANIES];
	struct tally lift[DRAFTER_COUNT][COMPANIES]; /* trials: the sum of broad chances */
	struct tally first[DRAFTER_COUNT];           /* each drafter's first choices, whatever the evidence */
	float trust[DRAFTER_COUNT]; /* factor of its chances that keeps predictions of verified trees true */
	struct calibration calibration[DRAFTER_COUNT];
};

void chances_open(struct chances*);
/* In (0, 1): by the evidence, and what the other drafters say. */
float chances_of(const struct chances*, int source, int bin, int rank, enum company);
/* By the evidence alone. */
float chances_broad(const struct chances*, int source, int bin, int rank);
/* Chance that a drafter's first choice at some node is right. */
float chances_first(const struct chances*, int source);
/* The drafter is not what it was (another mask): its first choices are right as often as `start` says, NaN
 * where that is not known, which is held worth a few trials. */
void chances_first_anew(struct chances*, int source, float start);
/* What earlier runs counted of a bin, where nothing was counted here yet; it fades like what is. */
void chances_begin(struct chances*, int source, int bin, int rank, double right, double trials);
/* One trial. */
void chances_see(struct chances*, int source, int bin, int rank, enum company, bool right);
/* A verified tree, with the chances that it was built from. */
void chances_calibrate(struct chances*, const struct tree*, const struct verdict*);

#endif
