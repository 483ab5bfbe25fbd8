/* Building the tree: candidates, their path chances, and the prefix that is worth verifying. */
#include "core/draft/tree.h"

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

struct candidate {
	float chance; /* that verification accepts the whole path to it */
	int16_t depth, rank;
};

/* Most likely first; at equal chance the shallower, then the better ranked, so that a parent always
 * precedes its children (a child's chance is its parent's times at most 1). */
static bool comes_before(struct candidate x, struct candidate y) {
	if (x.chance != y.chance)
		return x.chance > y.chance;
	return x.depth != y.depth ? x.depth < y.depth : x.rank < y.rank;
}

/* Shell's sort: glibc's qsort allocates above 1 KiB, and the decode path allocates nothing. No two candidates
 * are equal, so the order is the one that any sort gives. */
static void sort(struct candidate* candidate, int n) {
	static const int gap[] = {301, 132, 57, 23, 10, 4, 1};
	for (size_t g = 0; g < sizeof gap / sizeof *gap; g++)
		for (int i = gap[g]; i < n; i++) {
			const struct candidate moving = candidate[i];
			int at = i;
			for (; at >= gap[g] && comes_before(moving, candidate[at - gap[g]]); at -= gap[g])
				candidate[at] = candidate[at - gap[g]];
			candidate[at] = moving;
		}
}

static int collect(struct candidate* out, const struct result* step, int steps,
                   const struct tree_policy* policy, const struct acceptance_table* table) {
	int n = 0;
	float path = 1;
	for (int d = 0; d < steps; d++) {
		const float* chance = table->chance[draft_bin(step[d].max_probability)];
		int width = tree_width(policy->top_k, step[d].max_probability);
		if (width > step[d].top)
			width = step[d].top;
		for (int rank = 0; rank < width; rank++)
			out[n++] = (struct candidate){path * chance[rank], (int16_t)(d + 1), (int16_t)rank};
		path *= chance[0];
	}
	return n;
}

/* Rows of the prefix with the most expected tokens over measured cost; at least the root and one more. */
static int best_prefix(const struct candidate* candidate, int n, const struct tree_policy* policy) {
	float expected = 1, best = 0;
	int rows = n;
	const int limit = n < SLICE_ROWS - 1 ? n : SLICE_ROWS - 1;
	for (int i = 0; i < limit; i++) {
		expected += candidate[i].chance;
		const float rate = expected / (policy->draft_cost + policy->verify_cost[i + 2]);
		if (rate > best) {
			best = rate;
			rows = i + 1;
		}
	}
	return rows;
}

static void add_row(struct tree* tree, int32_t token, int parent, struct candidate candidate) {
	const int i = tree->n++;
	tree->token[i] = token;
	tree->parent[i] = parent;
	tree->depth[i] = candidate.depth;
	tree->rank[i] = candidate.rank;
}

void tree_build(struct tree* tree, int32_t root, const struct result* step, int steps,
                const struct tree_policy* policy, const struct acceptance_table* table) {
	struct candidate candidate[MAX_DRAFT * TREE_RANKS];
	int chain[MAX_DRAFT + 1] = {0}; /* row of the chain token at each depth */
	int n = collect(candidate, step, steps, policy, table);
	tree->n = 0;
	tree->expected = 1;
	add_row(tree, root, -1, (struct candidate){1, 0, 0});
	sort(candidate, n);
	if (!policy->all && policy->verify_cost)
		n = best_prefix(candidate, n, policy);
	if (n > policy->max_rows - 1)
		n = policy->max_rows - 1;
	for (int i = 0; i < n; i++) {
		const struct candidate c = candidate[i];
		if (c.rank == 0)
			chain[c.depth] = tree->n;
		add_row(tree, step[c.depth - 1].top_token[c.rank], chain[c.depth - 1], c);
		tree->expected += c.chance;
	}
}
