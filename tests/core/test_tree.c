/* Trees and verdicts on random drafts: shape, width, order, and the accepted path against a plain search. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above */
#include <cmocka.h>

#include "core/draft/tree.h"

static const int paper_top_k[4] = {10, 5, 3, 1};

static void random_table(struct acceptance_table* table) {
	for (int bin = 0; bin < DRAFT_BINS; bin++)
		for (int rank = 0; rank < TREE_RANKS; rank++)
			table->chance[bin][rank] = (float)(rand() % 1000) / 1000;
}

static void random_draft(struct result* step, int steps) {
	for (int d = 0; d < steps; d++) {
		step[d].max_probability = (float)(rand() % 1000 + 1) / 1001;
		step[d].top = TREE_RANKS;
		for (int k = 0; k < TREE_RANKS; k++)
			step[d].top_token[k] = 100 * d + k;
		step[d].token = step[d].top_token[0];
	}
}

static void check_shape(const struct tree* tree, const struct result* step, int steps) {
	assert_int_equal(tree->parent[0], -1);
	assert_int_equal(tree->depth[0], 0);
	for (int i = 1; i < tree->n; i++) {
		const int parent = tree->parent[i], d = tree->depth[i] - 1;
		assert_in_range(parent, 0, i - 1);
		assert_in_range(d, 0, steps - 1);
		assert_int_equal(tree->depth[parent], d);
		assert_int_equal(tree->rank[parent], 0); /* only the chain goes deeper */
		assert_int_equal(tree->token[i], step[d].top_token[tree->rank[i]]);
		assert_true(tree->rank[i] < tree_width(paper_top_k, step[d].max_probability));
		for (int j = 1; j < i; j++)
			assert_false(tree->depth[j] == tree->depth[i] && tree->rank[j] == tree->rank[i]);
	}
}

static void test_shapes(void** state) {
	(void)state;
	static struct result step[MAX_DRAFT];
	static float cost[SLICE_ROWS + 1];
	struct acceptance_table table;
	struct tree tree;
	for (int n = 0; n <= SLICE_ROWS; n++)
		cost[n] = 1 + 0.03f * (float)n;
	for (int trial = 0; trial < 2000; trial++) {
		const int steps = rand() % 26;
		random_table(&table);
		random_draft(step, steps);
		struct tree_policy policy = {.max_rows = MAX_ROWS, .all = true};
		memcpy(policy.top_k, paper_top_k, sizeof paper_top_k);
		tree_build(&tree, 7, step, steps, &policy, &table);
		check_shape(&tree, step, steps);
		int all = 1;
		for (int d = 0; d < steps; d++)
			all += tree_width(paper_top_k, step[d].max_probability);
		assert_int_equal(tree.n, all); /* as published: every candidate */
		policy.all = false;
		policy.max_rows = 2 + rand() % 40;
		tree_build(&tree, 7, step, steps, &policy, &table);
		check_shape(&tree, step, steps);
		assert_int_equal(tree.n, all < policy.max_rows ? all : policy.max_rows);
		policy.verify_cost = cost;
		tree_build(&tree, 7, step, steps, &policy, &table);
		check_shape(&tree, step, steps);
		assert_true(tree.n <= policy.max_rows);
	}
}

/* The best prefix by exhaustion: no other number of rows has a better rate of expected tokens. */
static void test_best_prefix(void** state) {
	(void)state;
	static struct result step[MAX_DRAFT];
	static float cost[SLICE_ROWS + 1];
	struct acceptance_table table;
	struct tree tree;
	for (int trial = 0; trial < 500; trial++) {
		const int steps = 1 + rand() % 12;
		cost[1] = 1;
		for (int n = 2; n <= SLICE_ROWS; n++)
			cost[n] = cost[n - 1] + (float)(rand() % 100) / 1000;
		random_table(&table);
		random_draft(step, steps);
		struct tree_policy policy = {.max_rows = SLICE_ROWS, .draft_cost = 0.6f * (float)steps};
		memcpy(policy.top_k, paper_top_k, sizeof paper_top_k);
		policy.verify_cost = cost;
		tree_build(&tree, 7, step, steps, &policy, &table);
		const float rate = tree.expected / (policy.draft_cost + cost[tree.n]);
		policy.verify_cost = NULL;
		for (int rows = 2; rows <= SLICE_ROWS; rows++) {
			policy.max_rows = rows;
			tree_build(&tree, 7, step, steps, &policy, &table);
			assert_true(tree.expected / (policy.draft_cost + cost[tree.n]) <= rate * 1.0001f);
		}
	}
}

static void test_verdict(void** state) {
	(void)state;
	static struct result step[MAX_DRAFT], out[MAX_ROWS];
	struct acceptance_table table;
	struct tree_policy policy = {.max_rows = MAX_ROWS, .all = true};
	struct tree tree;
	struct verdict verdict;
	memcpy(policy.top_k, paper_top_k, sizeof paper_top_k);
	for (int trial = 0; trial < 5000; trial++) {
		const int steps = rand() % 20;
		random_table(&table);
		random_draft(step, steps);
		tree_build(&tree, 7, step, steps, &policy, &table);
		for (int i = 0; i < tree.n; i++) /* often a child of the row, often not */
			out[i].token = 100 * tree.depth[i] + rand() % (rand() % 3 ? 1 : 12);
		tree_verify(&tree, out, &verdict);
		assert_int_equal(verdict.path[0], 0);
		int row = 0;
		for (int i = 1; i <= verdict.accepted; i++) {
			assert_int_equal(tree.parent[verdict.path[i]], row);
			assert_int_equal(tree.token[verdict.path[i]], out[row].token);
			row = verdict.path[i];
		}
		assert_int_equal(verdict.bonus, out[row].token);
		for (int i = 1; i < tree.n; i++) /* longest: nothing below the end agrees */
			assert_false(tree.parent[i] == row && tree.token[i] == out[row].token);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes), cmocka_unit_test(test_best_prefix),
	                                   cmocka_unit_test(test_verdict)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
