/* Estimates are learned from whatever comes, and stay probabilities; trees of several sources merge.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
/* cmocka wants the ones above */
#include <cmocka.h>

#include "core/decode/speculate.h"

static double uniform(void) { return (double)rand() / ((double)RAND_MAX + 1); }

static void test_priors(void** state) {
	(void)state;
	static struct acceptance acceptance;
	acceptance_open(&acceptance);
	for (int source = 0; source < DRAFTER_COUNT; source++) {
		assert_in_range(drafters[source]->bins, 1, EVIDENCE_BINS);
		for (int bin = 0; bin < drafters[source]->bins; bin++)
			for (int rank = 0; rank < ACCEPTANCE_RANKS; rank++) {
				const float chance = acceptance_of(&acceptance, source, bin, rank);
				assert_true(chance > 0 && chance < 1);
			}
	}
}

/* Each bin and rank gets its own chance within the precision of the trials, and follows a change. */
static void test_learning(void** state) {
	(void)state;
	static struct acceptance acceptance;
	static const double truth[2][3] = {{0.9, 0.5, 0.1}, {0.2, 0.7, 0.4}};
	acceptance_open(&acceptance);
	for (int turn = 0; turn < 2; turn++) {
		for (int i = 0; i < 9000; i++)
			acceptance_observe(&acceptance, SOURCE_retrieval, i % 3, i % 3, uniform() < truth[turn][i % 3]);
		for (int bin = 0; bin < 3; bin++)
			assert_true(fabs((double)acceptance_of(&acceptance, SOURCE_retrieval, bin, bin) -
			                 truth[turn][bin]) < 0.1);
	}
}

static void test_first_choices(void** state) {
	(void)state;
	static struct acceptance acceptance;
	acceptance_open(&acceptance);
	acceptance_reset_first(&acceptance, SOURCE_mask, 0.4f);
	assert_true(fabsf(acceptance_first(&acceptance, SOURCE_mask) - 0.4f) < 1e-6f);
	for (int i = 0; i < 2000; i++)
		acceptance_observe(&acceptance, SOURCE_mask, i % DRAFT_BINS, 0, i % 10 != 0);
	assert_true(fabsf(acceptance_first(&acceptance, SOURCE_mask) - 0.9f) < 0.03f);
	for (int i = 0; i < 2000; i++)
		acceptance_observe(&acceptance, SOURCE_mask, i % DRAFT_BINS, 1, false); /* a second choice is none */
	assert_true(fabsf(acceptance_first(&acceptance, SOURCE_mask) - 0.9f) < 0.03f);
	acceptance_reset_first(&acceptance, SOURCE_mask, NAN);
	assert_true(acceptance_first(&acceptance, SOURCE_mask) > 0.5f);
}

/* A drafter that is right more often than it claims is trusted more, one that is right less often less, in
 * bins that nothing was counted in too; another mask begins anew. */
static void test_rejections_scale_the_prior(void** state) {
	(void)state;
	static struct acceptance acceptance;
	acceptance_open(&acceptance);
	const int seen = 4, other = 6;
	const float before = acceptance_of(&acceptance, SOURCE_mask, other, 0);
	const float second = acceptance_of(&acceptance, SOURCE_mask, other, 1);
	for (int i = 0; i < 50; i++)
		acceptance_observe(&acceptance, SOURCE_mask, seen, 0, true);
	const float believed = acceptance_of(&acceptance, SOURCE_mask, other, 0);
	assert_true(believed > before + 0.1f && believed < 1);
	assert_true(fabsf(acceptance_of(&acceptance, SOURCE_mask, other, 1) - second) < 1e-6f);
	acceptance_reset_first(&acceptance, SOURCE_mask, NAN);
	assert_true(fabsf(acceptance_of(&acceptance, SOURCE_mask, other, 0) - before) < 1e-6f);
	for (int i = 0; i < 50; i++)
		acceptance_observe(&acceptance, SOURCE_mask, DRAFT_BINS - 1, 0, false);
	assert_true(acceptance_of(&acceptance, SOURCE_mask, other, 0) < before - 0.1f);
	assert_true(acceptance_of(&acceptance, SOURCE_mask, other, 0) > 0);
}

/* The same child from two sources is one row, the first one's. */
static void test_merging(void** state) {
	(void)state;
	struct tree tree;
	tree_start(&tree, 5);
	assert_int_equal(tree_add(&tree, 0, 8, SOURCE_retrieval, 2, 0.3f), 1);
	assert_int_equal(tree_add(&tree, 0, 9, SOURCE_prediction, 0, 0.2f), 2);
	assert_int_equal(tree_add(&tree, 1, 9, SOURCE_prediction, 0, 0.1f), 3);
	assert_int_equal(tree_add(&tree, 0, 8, SOURCE_prediction, 1, 0.5f), 1);
	assert_int_equal(tree_add(&tree, 0, 9, SOURCE_retrieval, 3, 0.1f), 2);
	assert_int_equal(tree.n, 4);
	assert_int_equal(tree.source[1], SOURCE_retrieval);
	assert_int_equal(tree.rank[1], 2);
	assert_int_equal(tree.source[2], SOURCE_prediction);
	assert_true(fabsf(tree.chance[1] - 0.3f) < 1e-6f && fabsf(tree.chance[2] - 0.2f) < 1e-6f);
	assert_true(fabsf(tree.chance[0] - 1) < 1e-6f && fabsf(tree.chance[3] - 0.1f) < 1e-6f);
	assert_int_equal(tree_child(&tree, 1, 9), 3);
	tree_cut(&tree, 2);
	assert_int_equal(tree.n, 2);
	assert_int_equal(tree_child(&tree, 1, 9), -1);
	while (tree_add(&tree, tree.n - 1, 7, SOURCE_mask, 0, 0.1f) >= 0)
		;
	assert_int_equal(tree.depth[tree.n - 1], MAX_DRAFT); /* as deep as a verdict's path */
	while (tree_add(&tree, 0, 100 + tree.n, SOURCE_mask, 0, 0.1f) >= 0)
		;
	assert_int_equal(tree.n, MAX_ROWS);
}

static void test_names(void** state) {
	(void)state;
	struct error error = {""};
	unsigned which;
	assert_true(drafter_parse("all", &which, &error) && which == (1u << DRAFTER_COUNT) - 1);
	assert_true(drafter_parse("none", &which, &error) && which == 0);
	assert_true(drafter_parse("retrieval,mask", &which, &error) &&
	            which == (1u << SOURCE_retrieval | 1u << SOURCE_mask));
	static const char* const wrong[] = {"", "retrieva", "mask,", ",mask", "mask retrieval", "mask,none"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		error.message[0] = 0;
		assert_false(drafter_parse(wrong[i], &which, &error));
		assert_true(error.message[0] != 0);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_priors),        cmocka_unit_test(test_learning),
	    cmocka_unit_test(test_first_choices), cmocka_unit_test(test_rejections_scale_the_prior),
	    cmocka_unit_test(test_merging),       cmocka_unit_test(test_names)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
