/* Walking down the tree along the target's own tokens. */
#include "core/draft/verify.h"

void tree_verify(const struct tree* tree, const struct result* out, struct verdict* verdict) {
	int row = 0;
	verdict->accepted = 0;
	verdict->path[0] = 0;
	for (;;) {
		const int child = tree_child(tree, row, out[row].token);
		if (child < 0)
			break;
		row = child;
		verdict->path[++verdict->accepted] = row;
	}
	verdict->bonus = out[row].token;
}
