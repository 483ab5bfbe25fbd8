/* The `mask` drafter: the model itself, with sub-layers left out (SWIFT). The `model` drafter: a smaller
 * model with the same vocabulary (Leviathan et al. 2023). Its passes leave nothing out and use a cache of its
 * own. The `mtp` drafter: a layer that the model's files hold beside it (DeepSeek-AI 2024, DeepSeek-V3,
 * section 2.2), also with a cache of its own. Each of its rows takes a token and a state: the model's state
 * of the token before, or in a draft the layer's own state of the row before. An assistant (segment.reads)
 * drafts in the same way, and its cache keeps nothing.
 *
 * A pass gives the draft model's choices after the head, which is the end of its chain of first choices. Rows
 * that cheaper drafters propose below the head may go with it. If the draft model agrees with one, the chain
 * continues through it: one pass, several tokens (a cascade). The evidence is the row's top-1 probability. */
#pragma once

#include "core/draft/drafter.h"

/* The setup of a sequence's drafts in the coming round. The pointers are the caller's, valid until the round
 * ends. */
struct mask_round {
	/* Its cache, in which nothing is pending (rows of passes stay pending, and the caller discards them), its
	 * sampler and penalties; the rest is the drafter's. */
	struct segment segment;
	const struct mask* skip;
	const int*
	    top_k; /* (4) numbers for tree_width: a row's candidates beyond them are spare; NULL: none is spare */
	const int32_t* end_token; /* (n_end_tokens) tokens after which nothing is drafted */
	int n_end_tokens;
	/* (n_behind) tokens before the root that the cache lacks; the first pass computes them */
	const int32_t* behind;
	int n_behind;
	/* `mtp` alone; others NULL. (n_behind + 1, state_width) the model's states of the tokens before those and
	 * before the root; room for the states of all rows (MAX_ROWS, state_width). */
	const float* states;
	float* own_states;
	/* A share of a draft step's cost, if drafts may choose among few tokens (shortlist.h); 0: they may not */
	double head_share;
};

/* Tokens that may be computed in this way at most. */
enum { MASK_BEHIND = MAX_ROWS - SLICE_ROWS - 1 };
void mask_start(void* state, const struct mask_round*);
/* Steps along its own first choices. */
int mask_steps(const void* state);
/* The draft model's choices, (mask_rows); of a chain, by depth. */
const struct result* mask_results(const void* state);
/* After verification, along the target's path: how many draft steps were made, and how many of these chose
 * the target's token. */
void mask_judge(const void* state, const struct tree*, const struct result* out, int* steps, int* right);
/* A device's whole draft loop in place of passes: where its results go (MAX_DRAFT), and how many steps it
 * took from the root. */
struct result* mask_loop_results(void* state);
void mask_take_loop(void* state, int32_t root, int steps);
/* Rows that the draft model has been run on in this round. */
int mask_rows(const void* state);
