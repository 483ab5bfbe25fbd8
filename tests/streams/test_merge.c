/* When passes share, by measured cost; and that their parts come back as they were. */
#include "streams/service/merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void unknown_costs_are_seen_apart_first(void** unused) {
	(void)unused;
	struct merge_costs c = {.asked = 0};
	const int rows[] = {1, 1};
	assert_false(merge_pays(&c, rows, 2));
	merge_see(&c, 1, false, 1.0);
	assert_true(merge_pays(&c, rows, 2)); /* now what sharing costs is worth a try */
}

/* Decisions out of 1,000 when a shared pass of n rows costs 1 + slope·(n - 1). */
static int merged_of_thousand(double slope) {
	struct merge_costs c = {.asked = 0};
	const int rows[] = {1, 3, 2};
	int merged = 0;
	for (int i = 0; i < 3; i++)
		merge_see(&c, rows[i], false, 1 + slope * (rows[i] - 1));
	for (int i = 0; i < 1000; i++)
		if (merge_pays(&c, rows, 3)) {
			merged++;
			merge_see(&c, 6, true, 1 + slope * 5 + (slope > 0.9 ? 0.5 : 0));
		}
	return merged;
}

static void it_follows_the_cost(void** unused) {
	(void)unused;
	assert_true(merged_of_thousand(0.05) >= 980); /* memory-bound: rows are nearly free */
	assert_true(merged_of_thousand(1.0) <=
	            20); /* compute-bound, and sharing costs extra: tried now and then */
}

static void parts_come_back(void** unused) {
	(void)unused;
	static struct merged_pass m;
	struct cache cache[2] = {{.committed = 5}, {.committed = 9, .pending = 2}};
	const int32_t tokens[2][3] = {{10, 11, 12}, {20, 21, 0}}, parents[3] = {-1, 0, 0};
	const uint8_t want[3] = {WANT_TOKEN, WANT_TOP, WANT_TOKEN};
	struct result out[2][3] = {{{.top = 1}, {.top = 2}, {.top = 3}}, {{.top = 4}, {.top = 5}}};
	const struct segment segment[2] = {{.cache = &cache[0], .base = 5, .n = 3},
	                                   {.cache = &cache[1], .base = 9, .n = 2}};
	struct pass pass[2];
	for (int i = 0; i < 2; i++)
		pass[i] = (struct pass){.kind = PASS_EXACT,
		                        .n = segment[i].n,
		                        .n_segments = 1,
		                        .segment = &segment[i],
		                        .token = tokens[i],
		                        .parent = i == 0 ? parents : NULL,
		                        .last = 8,
		                        .head = true,
		                        .tap = -1,
		                        .want = want,
		                        .out = out[i]};
	merge_begin(&m, 8);
	merge_add(&m, &pass[0]);
	merge_add(&m, &pass[1]);
	assert_int_equal(m.pass.n, 5);
	assert_int_equal(m.pass.n_segments, 2);
	const int32_t all[] = {10, 11, 12, 20, 21}, expected[] = {-1, 0, 0, -1, 2};
	for (int i = 0; i < 5; i++) {
		assert_int_equal(m.token[i], all[i]);
		assert_int_equal(m.parent[i], expected[i]);
		assert_int_equal(m.out[i].top, i + 1);
		m.out[i].token = 100 + i;
	}
	assert_int_equal(merge_take(&m, &pass[1], merge_take(&m, &pass[0], 0)), 5);
	assert_int_equal(out[0][2].token, 102);
	assert_int_equal(out[1][0].token, 103);
	const struct mask skip = {{1}};
	pass[0].skip = &skip; /* a draft step never shares with full passes */
	assert_false(merge_fits(&pass[0], 0));
	pass[0].skip = NULL;
	assert_true(merge_fits(&pass[0], 0));
	pass[0].low = &skip; /* nor one with low-bit weights */
	assert_false(merge_fits(&pass[0], 0));
	pass[0].low = NULL;
	pass[0].low_head = true;
	assert_false(merge_fits(&pass[0], 0));
	assert_true(merge_fits(&pass[1], MAX_ROWS - 2));
	assert_false(merge_fits(&pass[1], MAX_ROWS - 1));
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(unknown_costs_are_seen_apart_first),
	    cmocka_unit_test(it_follows_the_cost),
	    cmocka_unit_test(parts_come_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
