/* The tree of draft tokens that one pass verifies.
 *
 * Row 0 is the root, the last emitted token, which has no keys and values yet. Candidates of any drafter hang
 * below it in any shape. SWIFT's tree is a special case: the chain of the draft's top-1 tokens, and beside
 * each chain token its top-k alternatives, which have no children (section 4.2, "dynamic verification"). */
#pragma once

#include "kernels/backend.h"

enum { TREE_RANKS = 10 }; /* candidates of one drafter at one node, at most */

struct tree {
	int n; /* rows, root included */
	int32_t token[MAX_ROWS];
	int32_t parent[MAX_ROWS]; /* -1 for the root; a parent comes before its children */
	int16_t depth[MAX_ROWS];  /* 0 for the root */
	int16_t rank[MAX_ROWS];   /* 0: its drafter's first choice (a chain token), 1…: later choices */
	uint8_t source[MAX_ROWS]; /* its drafter, whose estimate counts; 0 for the root */
	float chance[MAX_ROWS];   /* the chance that verification accepts the path to it; 1 for the root */
};

/* A tree of the root alone. */
void tree_start(struct tree*, int32_t root);
/* The child of `row` that holds the token, or -1. */
int tree_child(const struct tree*, int row, int32_t token);
/* Adds a child of `parent` whose path has this chance of acceptance, unless the parent has that child
 * already. Returns the row; -1 when MAX_ROWS are taken or the parent is at depth MAX_DRAFT. */
int tree_add(struct tree*, int parent, int32_t token, int source, int rank, float chance);
/* Keeps the first n rows. */
void tree_cut(struct tree*, int n);

/* ---- verification --------------------------------------------------------------------------- */

/* The longest path of the tree that the target would have taken itself. The target's own token is computed at
 * every row (argmax, or the coupled sample). If it is a child of that row, the child is accepted and looked
 * at next. If not, it is the bonus token. So the output is plain decoding's, whatever was drafted. */
struct verdict {
	int accepted;                /* draft tokens kept */
	int32_t path[MAX_DRAFT + 1]; /* (accepted + 1) rows of the tree to commit, the root first */
	int32_t bonus;               /* the token after the path */
};

/* out[i] is the target's result at row i of the tree. */
void tree_verify(const struct tree*, const struct result* out, struct verdict*);

int draft_bin(float top_probability); /* as in struct draft_policy */
/* SWIFT's number of candidates a depth, for top-1 probability in (0, .5], (.5, .8], (.8, .95], (.95, 1]. */
int tree_width(const int top_k[4], float top_probability);
