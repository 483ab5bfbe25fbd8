/* The `mask` drafter: the model itself, with sub-layers left out (SWIFT). And the `model` drafter: another
 * model, a smaller one of the same vocabulary (Leviathan et al. 2023), whose passes are the same with nothing
 * left out, over a cache of its own.
 *
 * A pass tells the draft model's choices after the head, the end of its own chain of first choices; rows that
 * cheaper drafters propose below the head may go with it, and where the draft model agrees with one, the
 * chain goes on through it: one pass, several tokens (a cascade). The evidence is the row's top-1
 * probability. */
#ifndef SWIFTLET_CORE_DRAFT_MASK_H
#define SWIFTLET_CORE_DRAFT_MASK_H

#include "core/draft/drafter.h"

/* What a sequence drafts with in the round that begins. The pointers are the caller's, good until it ends. */
struct mask_round {
	/* Its cache, where nothing is pending (a pass's rows stay so, for the caller to discard), sampler and
	 * penalties; the rest is the drafter's. */
	struct segment segment;
	const struct mask* skip;
	const int* top_k; /* (4) as tree_width takes them: a row's candidates beyond are spare; NULL: none is */
	const int32_t* end_token; /* (n_end_tokens) nothing is drafted after one */
	int n_end_tokens;
	/* (n_behind) of the text before the root what the cache has not: it goes with the first pass */
	const int32_t* behind;
	int n_behind;
	/* Of a draft step's cost, where drafts may choose among few tokens (shortlist.h); 0: they may not */
	double head_share;
};

/* So many tokens behind at most go with a pass. */
enum { MASK_BEHIND = MAX_ROWS - SLICE_ROWS - 1 };
void mask_start(void* state, const struct mask_round*);
/* Steps along its own first choices. */
int mask_steps(const void* state);
/* What the draft model said, (mask_rows); of a chain, by depth. */
const struct result* mask_results(const void* state);
/* After verification: draft steps whose path was the target's, and of them those whose first choice was too.
 */
void mask_judge(const void* state, const struct tree*, const struct result* out, int* steps, int* right);
/* A device's whole draft loop in place of passes: where its results go (MAX_DRAFT), and how many steps from
 * the root it took. */
struct result* mask_loop_results(void* state);
void mask_take_loop(void* state, int32_t root, int steps);
/* Rows that the draft model has been run on in this round. */
int mask_rows(const void* state);

#endif
