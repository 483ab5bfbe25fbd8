/* What a mask could be: a search without a budget, for comparing with.
 *
 * A model writes 32 texts; masks are scored by SWIFT's matchness (Eq. 3) on a window of 32 tokens of each,
 * and local search goes from mask to mask by single swaps (and, where the size is free, by one sub-layer more
 * or less) until none of all of them is better. What is reported is matchness on the next windows. Runs on
 * one backend, for seconds on a model of some megabytes, for days on a large one. */
#ifndef SWIFTLET_TOOLS_PROGRAM_REFERENCE_MASK_H
#define SWIFTLET_TOOLS_PROGRAM_REFERENCE_MASK_H

#include "kernels/backend.h"

/* The texts and the caches that hold them; the backend must be opened for reference_context() tokens and
 * outlive it. */
struct reference_texts;
int reference_context(void);
/* NULL with the error set. */
struct reference_texts* reference_open(struct backend*, struct error*);
void reference_close(struct reference_texts*);

/* What makes a mask good. Of two masks of one size the one with more matchness must be worth more. */
struct reference_goal {
	int size; /* sub-layers to skip, or -1: any number */
	double (*worth)(const void* user, const struct mask*, double matchness); /* NULL: matchness itself */
	const void* user;
	const struct mask* start; /* where local search begins, or NULL: at the best by single sub-layers */
};

struct reference {
	struct mask mask;
	double matchness; /* on windows that the search did not see */
	double worth;     /* of that */
	long scored;      /* masks looked at */
};

/* The best mask that local search finds, among masks of inner blocks' sub-layers. False with the error set
 * when a pass fails. */
bool reference_search(struct reference_texts*, const struct reference_goal*, struct reference* out,
                      struct error*);
/* Matchness of a mask on the windows that searches do not see; negative with the error set. */
double reference_judge(struct reference_texts*, const struct mask*, struct error*);

/* What drafting costs, in one-row full passes at the same context. */
struct reference_prices {
	double attention, mlp;   /* what a draft step saves by leaving out one of a kind */
	double v[MAX_DRAFT + 2]; /* a verify pass of n rows, n >= 1 */
	int most;                /* draft steps a round, at most; 1 to MAX_DRAFT */
};
/* As reference_goal.worth, user = struct reference_prices: tokens per plain step, M / ((M - 1)·c/alpha + v),
 * of the best fixed number of draft steps when each is accepted with the chance `matchness`. */
double reference_speed(const void* prices, const struct mask*, double matchness);

#endif
