/* Building trees, row by row or SWIFT's from a chain of draft steps; walking down them. */
#include "core/draft/tree.h"

#include "core/draft/queue.h"

void tree_start(struct tree* tree, int32_t root) {
	tree->n = 1;
	tree->token[0] = root;
	tree->parent[0] = -1;
	tree->depth[0] = tree->rank[0] = 0;
	tree->source[0] = 0;
	tree->chance[0] = tree->expected = 1;
}

int tree_child(const struct tree* tree, int row, int32_t token) {
	for (int i = row + 1; i < tree->n; i++)
		if (tree->parent[i] == row && tree->token[i] == token)
			return i;
	return -1;
}

static void credit(struct tree* tree, int row, int source, int rank, float chance) {
	if (chance <= tree->chance[row])
		return;
	tree->expected += chance - tree->chance[row];
	tree->chance[row] = chance;
	tree->source[row] = (uint8_t)source;
	tree->rank[row] = (int16_t)rank;
}

static int append(struct tree* tree, int parent, int32_t token, int source, int rank, float chance) {
	const int i = tree->n++;
	tree->token[i] = token;
	tree->parent[i] = parent;
	tree->depth[i] = (int16_t)(tree->depth[parent] + 1);
	tree->rank[i] = (int16_t)rank;
	tree->source[i] = (uint8_t)source;
	tree->chance[i] = chance;
	tree->expected += chance;
	return i;
}

int tree_add(struct tree* tree, int parent, int32_t token, int source, int rank, float chance) {
	const int row = tree_child(tree, parent, token);
	if (row >= 0) {
		credit(tree, row, source, rank, chance);
		return row;
	}
	if (tree->n == MAX_ROWS || tree->depth[parent] == MAX_DRAFT)
		return -1;
	return append(tree, parent, token, source, rank, chance);
}

void tree_cut(struct tree* tree, int n) {
	while (tree->n > n)
		tree->expected -= tree->chance[--tree->n];
}

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

/* ---- SWIFT's tree --------------------------------------------------------------------------- */

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

static void collect(struct queue* queue, const struct result* step, int steps,
                    const struct tree_policy* policy, const struct acceptance_table* table) {
	float path = 1;
	queue->n = 0;
	for (int d = 0; d < steps; d++) {
		const float* chance = table->chance[draft_bin(step[d].max_probability)];
		int width = tree_width(policy->top_k, step[d].max_probability);
		if (width > step[d].top)
			width = step[d].top;
		for (int rank = 0; rank < width; rank++)
			queue_push(queue, (struct queued){path * chance[rank], (int16_t)(d + 1), (int16_t)rank, 0});
		path *= chance[0];
	}
}

/* Rows of the prefix with the most expected tokens over measured cost; at least the root and one more. */
static int best_prefix(const struct tree* tree, const struct tree_policy* policy) {
	float expected = 1, best = 0;
	int rows = tree->n;
	for (int n = 2; n <= tree->n && n <= SLICE_ROWS; n++) {
		expected += tree->chance[n - 1];
		const float rate = expected / (policy->draft_cost + policy->verify_cost[n]);
		if (rate > best) {
			best = rate;
			rows = n;
		}
	}
	return rows;
}

void tree_build(struct tree* tree, int32_t root, const struct result* step, int steps,
                const struct tree_policy* policy, const struct acceptance_table* table) {
	struct queue queue;
	int chain[MAX_DRAFT + 1] = {0}; /* row of the chain token at each depth */
	tree_start(tree, root);
	collect(&queue, step, steps, policy, table);
	while (queue.n > 0 && tree->n < policy->max_rows) {
		const struct queued c = queue_pop(&queue);
		const int row =
		    append(tree, chain[c.depth - 1], step[c.depth - 1].top_token[c.rank], 0, c.rank, c.chance);
		if (c.rank == 0)
			chain[c.depth] = row;
	}
	if (!policy->all && policy->verify_cost)
		tree_cut(tree, best_prefix(tree, policy));
}
