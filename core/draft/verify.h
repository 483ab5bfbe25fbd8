/* Verification: the longest path of the tree that the target model itself would have taken.
 *
 * The target's own token is computed at every row (argmax, or the coupled sample). Where it is a child of
 * that row, the child is accepted and looked at next; where it is not, it is the bonus token. The output
 * is plain decoding's whatever was drafted. */
#ifndef SWIFTLET_CORE_DRAFT_VERIFY_H
#define SWIFTLET_CORE_DRAFT_VERIFY_H

#include "core/draft/tree.h"

struct verdict {
	int accepted;                /* draft tokens kept */
	int32_t path[MAX_DRAFT + 1]; /* (accepted + 1) rows of the tree, the root first: what is committed */
	int32_t bonus;               /* the token after the path */
};

/* out[i] is the target's result at row i of the tree. */
void tree_verify(const struct tree*, const struct result* out, struct verdict*);

#endif
