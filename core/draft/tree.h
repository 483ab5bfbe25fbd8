/* The tree of draft tokens that one verify pass looks at.
 *
 * Row 0 is the root, the last token emitted, which has no key or value yet. The chain of the draft's
 * top-1 tokens hangs from it, and beside each chain token its top-k alternatives, which go no deeper
 * (SWIFT section 4.2, "dynamic verification"). */
#ifndef SWIFTLET_CORE_DRAFT_TREE_H
#define SWIFTLET_CORE_DRAFT_TREE_H

#include "kernels/backend.h"

enum { TREE_RANKS = 10 }; /* the chain token and its alternatives at one depth, at most */

struct tree {
	int n; /* rows, root included */
	int32_t token[MAX_ROWS];
	int32_t parent[MAX_ROWS]; /* -1 for the root; a parent comes before its children */
	int16_t depth[MAX_ROWS];  /* 0 for the root */
	int16_t rank[MAX_ROWS];   /* 0 for a chain token, 1… for its alternatives */
	float expected;           /* tokens expected from verifying it, the bonus token included */
};

/* Learned chances that the target's token is the draft's rank-th, by the bin of its top-1 probability. */
struct acceptance_table {
	float chance[DRAFT_BINS][TREE_RANKS];
};

struct tree_policy {
	int max_rows; /* root counted, 2..MAX_ROWS */
	bool all;     /* every candidate, as published; else the best prefix by path chance */
	int top_k[4]; /* candidates a depth for top-1 probability in (0, .5], (.5, .8], (.8, .95], (.95, 1] */
	/* v(n) for n in 0..SLICE_ROWS in one-row passes, with what drafting has cost: the prefix with the most
	 * expected tokens over cost is taken. NULL: the prefix of max_rows. */
	const float* verify_cost;
	float draft_cost;
};

int draft_bin(float top_probability); /* as struct draft_policy says */
int tree_width(const int top_k[4], float top_probability);
/* step[d] is the draft's result for depth d + 1, d in [0, steps). */
void tree_build(struct tree*, int32_t root, const struct result* step, int steps, const struct tree_policy*,
                const struct acceptance_table*);

#endif
