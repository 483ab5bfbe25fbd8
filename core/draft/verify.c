/* Walking down the tree along the target's own tokens. */
#include "core/draft/verify.h"

static int child_with(const struct tree* tree, int row, int32_t token) {
	for (int i = row + 1; i < tree->n; i++)
		if (tree->parent[i] == row && tree->token[i] == token)
			return i;
	return -1;
}

void tree_verify(const struct tree* tree, const struct result* out, struct verdict* verdict) {
	int row = 0;
	verdict->accepted = 0;
	verdict->path[0] = 0;
	for (;;) {
		const int child = child_with(tree, row, out[row].token);
		if (child < 0)
			break;
		row = child;
		verdict->path[++verdict->accepted] = row;
	}
	verdict->bonus = out[row].token;
}
