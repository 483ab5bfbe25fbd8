/* Trees and verdicts on random drafts: shape, width, order, and the accepted path against a plain search. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above */
#include <cmocka.h>

#include "core/decode/speculate.h"
#include "core/draft/mask.h"

static const int paper_top_k[4] = {10, 5, 3, 1};

/* The input of a planner's tree: a draft model's chain of steps, and probabilities. */
struct drafted {
	struct cache cache;
	struct drafter_set set;
	struct acceptance probabilities;
	struct planner planner;
};

static void open_drafted(struct drafted* d) {
	const struct drafter_setup setup = {.context = 64, .vocab = 4096};
	memset(d, 0, sizeof *d);
	assert_true(drafter_set_open(&d->set, 1u << SOURCE_mask, &setup));
	acceptance_open(&d->probabilities);
	planner_open(&d->planner, &d->set, &d->probabilities);
}

static void random_chances(struct drafted* d) {
	for (int bin = 0; bin < DRAFT_BINS; bin++)
		for (int rank = 0; rank < TREE_RANKS; rank++)
			d->probabilities.seen[SOURCE_mask][bin][rank] = (struct tally){(float)(rand() % 1000), 1000};
}

/* SWIFT's tree of the chain below the token 7; max_rows 0: as published, every candidate. */
static const struct tree* take_all(struct drafted* d, const struct result* step, int steps, int max_rows,
                                   const float* cost, float draft_cost) {
	void* mask = d->set.state[SOURCE_mask];
	const struct round_limits limits = {SLICE_ROWS, MAX_DRAFT, 1};
	mask_start(mask, &(struct mask_round){.segment = {.cache = &d->cache}, .top_k = paper_top_k});
	memcpy(mask_loop_results(mask), step, (size_t)steps * sizeof *step);
	mask_take_loop(mask, 7, steps);
	if (cost)
		memcpy(d->planner.costs.verify, cost, sizeof d->planner.costs.verify);
	planner_start(&d->planner, 7, &limits);
	planner_take_all(&d->planner, max_rows > 0 ? max_rows : MAX_ROWS, cost != NULL, draft_cost);
	return &d->planner.tree;
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
	static struct drafted d;
	open_drafted(&d);
	for (int n = 0; n <= SLICE_ROWS; n++)
		cost[n] = 1 + 0.03f * (float)n;
	for (int trial = 0; trial < 2000; trial++) {
		const int steps = rand() % 26;
		random_chances(&d);
		random_draft(step, steps);
		const struct tree* tree = take_all(&d, step, steps, 0, NULL, 0);
		check_shape(tree, step, steps);
		int all = 1;
		for (int i = 0; i < steps; i++)
			all += tree_width(paper_top_k, step[i].max_probability);
		assert_int_equal(tree->n, all); /* as published: every candidate */
		const int most = 2 + rand() % 40;
		tree = take_all(&d, step, steps, most, NULL, 0);
		check_shape(tree, step, steps);
		assert_int_equal(tree->n, all < most ? all : most);
		tree = take_all(&d, step, steps, most, cost, 0);
		check_shape(tree, step, steps);
		assert_true(tree->n <= most);
	}
	drafter_set_close(&d.set);
}

/* Tokens expected from verifying the tree, the bonus token included. */
static float expected(const struct tree* tree) {
	float sum = 0;
	for (int row = 0; row < tree->n; row++)
		sum += tree->chance[row];
	return sum;
}

/* The best prefix by exhaustion: no other number of rows has a better rate of expected tokens. */
static void test_best_prefix(void** state) {
	(void)state;
	static struct result step[MAX_DRAFT];
	static float cost[SLICE_ROWS + 1];
	static struct drafted d;
	open_drafted(&d);
	for (int trial = 0; trial < 500; trial++) {
		const int steps = 1 + rand() % 12;
		const float draft_cost = 0.6f * (float)steps;
		cost[1] = 1;
		for (int n = 2; n <= SLICE_ROWS; n++)
			cost[n] = cost[n - 1] + (float)(rand() % 100) / 1000;
		random_chances(&d);
		random_draft(step, steps);
		const struct tree* tree = take_all(&d, step, steps, SLICE_ROWS, cost, draft_cost);
		const float rate = expected(tree) / (draft_cost + cost[tree->n]);
		for (int rows = 2; rows <= SLICE_ROWS; rows++) {
			tree = take_all(&d, step, steps, rows, NULL, 0);
			assert_true(expected(tree) / (draft_cost + cost[tree->n]) <= rate * 1.0001f);
		}
	}
	drafter_set_close(&d.set);
}

static void test_verdict(void** state) {
	(void)state;
	static struct result step[MAX_DRAFT], out[MAX_ROWS];
	static struct drafted d;
	struct verdict verdict;
	open_drafted(&d);
	for (int trial = 0; trial < 5000; trial++) {
		const int steps = rand() % 20;
		random_chances(&d);
		random_draft(step, steps);
		const struct tree tree = *take_all(&d, step, steps, 0, NULL, 0);
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
	drafter_set_close(&d.set);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes), cmocka_unit_test(test_best_prefix),
	                                   cmocka_unit_test(test_verdict)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
