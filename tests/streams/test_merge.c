/* Which passes may be one, and that their parts come back as they were. */
#include "streams/service/merge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void parts_come_back(void** unused) {
	(void)unused;
	static struct merged_pass m;
	struct cache cache[2] = {{.committed = 5}, {.committed = 9, .pending = 2}};
	const int32_t tokens[2][3] = {{10, 11, 12}, {20, 21, 0}}, parents[3] = {-1, 0, 0};
	const uint8_t want[3] = {WANT_TOKEN, WANT_TOP, WANT_TOKEN};
	struct result out[2][3] = {{{.top = 1}, {.top = 2}, {.top = 3}}, {{.top = 4}, {.top = 5}}};
	const struct segment segment[2] = {{.cache = &cache[0], .base = 5, .n = 3},
	                                   {.cache = &cache[1], .base = 9, .n = 2}};
	const float states[2][3 * 4] = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12},
	                                {21, 22, 23, 24, 25, 26, 27, 28}};
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
	assert_true(merge_open(&m, 4));
	merge_begin(&m, &pass[0]);
	assert_true(merge_fits(&m, &pass[1]));
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
	assert_null(m.pass.state);
	for (int i = 0; i < 2; i++) /* an MTP layer's rows bring states */
		pass[i].state = states[i];
	merge_begin(&m, &pass[0]);
	assert_true(merge_fits(&m, &pass[1]));
	merge_add(&m, &pass[1]);
	assert_memory_equal(m.pass.state, states[0], 12 * sizeof(float));
	assert_memory_equal(m.pass.state + 12, states[1], 8 * sizeof(float));
	pass[1].state = NULL;
	merge_begin(&m, &pass[0]);
	assert_false(merge_fits(&m, &pass[1]));
	merge_close(&m);
}

static void only_passes_of_the_same_weights_share(void** unused) {
	(void)unused;
	static struct merged_pass m;
	struct cache cache = {.committed = 5};
	const struct segment segment = {.cache = &cache, .base = 5, .n = 2};
	const int32_t token[2] = {1, 2};
	const uint8_t want[2] = {WANT_TOKEN, WANT_TOKEN};
	struct result out[2] = {{.top = 1}};
	const struct mask skip = {.word = {4}}, same = {.word = {4}}, other = {.word = {8}},
	                  empty = {.word = {0}};
	const struct pass full = {.kind = PASS_EXACT,
	                          .n = 2,
	                          .n_segments = 1,
	                          .segment = &segment,
	                          .token = token,
	                          .last = 8,
	                          .head = true,
	                          .tap = -1,
	                          .want = want,
	                          .out = out};
	struct pass draft = full, prompt = full, tapped = full, stated = full;
	float states[8 * 4];
	assert_true(merge_open(&m, 4));
	stated.states = states;
	merge_begin(&m, &stated); /* the first part's first row is the pass's */
	assert_ptr_equal(m.pass.states, states);
	tapped.tap = 7;
	merge_add(&m, &tapped); /* and a tap is in its way */
	assert_null(m.pass.states);
	merge_begin(&m, &full);
	merge_add(&m, &stated);
	assert_null(m.pass.states);
	tapped.tap = -1;
	merge_begin(&m, &full);
	draft.skip = &skip;
	assert_false(merge_fits(&m, &draft));
	draft.skip = &empty;
	assert_true(merge_fits(&m, &draft));
	draft.quantized = &skip;
	assert_false(merge_fits(&m, &draft));
	draft.quantized = NULL;
	draft.quantized_head = true;
	assert_false(merge_fits(&m, &draft));
	prompt.head = false;
	assert_true(merge_fits(&m, &prompt));
	prompt.kind = PASS_PREFILL;
	assert_false(merge_fits(&m, &prompt));
	tapped.tap = 7;
	assert_true(merge_fits(&m, &tapped));
	merge_add(&m, &tapped);
	tapped.tap = 3;
	assert_false(merge_fits(&m, &tapped));
	draft = full;
	draft.skip = &skip;
	merge_begin(&m, &draft);
	draft.skip = &same;
	assert_true(merge_fits(&m, &draft));
	draft.skip = &other;
	assert_false(merge_fits(&m, &draft));
	while (m.pass.n < MAX_ROWS) {
		draft.skip = &same;
		assert_true(merge_fits(&m, &draft));
		merge_add(&m, &draft);
	}
	assert_false(merge_fits(&m, &draft));
	merge_close(&m);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(parts_come_back),
	    cmocka_unit_test(only_passes_of_the_same_weights_share),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
