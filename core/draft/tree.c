/* Builds trees, row by row or as SWIFT does from a chain of draft steps, and walks down them. */
#include "core/draft/tree.h"

void tree_start(struct tree* tree, int32_t root) {
	tree->n = 1;
	tree->token[0] = root;
	tree->parent[0] = -1;
	tree->depth[0] = tree->rank[0] = 0;
	tree->source[0] = 0;
	tree->chance[0] = 1;
}

int tree_child(const struct tree* tree, int row, int32_t token) {
	for (int i = row + 1; i < tree->n; i++)
		if (tree->parent[i] == row && tree->token[i] == token)
			return i;
	return -1;
}

int tree_add(struct tree* tree, int parent, int32_t token, int source, int rank, float chance) {
	const int row = tree_child(tree, parent, token);
	if (row >= 0)
		return row;
	if (tree->n == MAX_ROWS || tree->depth[parent] == MAX_DRAFT)
		return -1;
	const int i = tree->n++;
	tree->token[i] = token;
	tree->parent[i] = parent;
	tree->depth[i] = (int16_t)(tree->depth[parent] + 1);
	tree->rank[i] = (int16_t)rank;
	tree->source[i] = (uint8_t)source;
	tree->chance[i] = chance;
	return i;
}

void tree_cut(struct tree* tree, int n) { tree->n = n < tree->n ? n : tree->n; }

/* ---- verification --------------------------------------------------------------------------- */

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

/* ---- what probabilities come to ------------------------------------------------------------- */

int draft_bin(float top_probability) {
	const int bin = (int)(top_probability * DRAFT_BINS);
	return bin < 0 ? 0 : bin < DRAFT_BINS ? bin : DRAFT_BINS - 1;
}

int tree_width(const int top_k[4], float top_probability) {
	const int k = top_k[top_probability <= 0.5f    ? 0
	                    : top_probability <= 0.8f  ? 1
	                    : top_probability <= 0.95f ? 2
	                                               : 3];
	return k < 1 ? 1 : k < TREE_RANKS ? k : TREE_RANKS;
}
