/* The cost model: the mean of measurements, v(n) that never falls, and a dear row
 * count that is tried again once its measurement is old. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "core/decode/cost.h"

static struct cost_model opened(void) {
	struct block_weights block = {0};
	block.wq = (struct tensor){.data = &block, .type = DTYPE_F16, .rows = 64, .cols = 64};
	struct weight_table table = {.shape.n_blocks = 1, .block = &block};
	table.output = block.wq;
	struct cost_model cost;
	cost_open(&cost, &table, 0);
	return cost;
}

static void see(struct cost_model* cost, int rows, double seconds, int times) {
	for (int i = 0; i < times; i++)
		cost_see_full(cost, rows, seconds, 0);
}

static void ratios_are_to_the_plain_step(void** state) {
	(void)state;
	struct cost_model cost = opened();
	see(&cost, 1, 0.010, 20);
	see(&cost, 4, 0.012, 20);
	see(&cost, 8, 0.020, 20);
	assert_float_equal(cost_plain_seconds(&cost), 0.010, 1e-6);
	assert_float_equal(cost_verify(&cost, 1), 1, 1e-9);
	assert_float_equal(cost_verify(&cost, 4), 1.2, 1e-6);
	assert_float_equal(cost_verify(&cost, 8), 2.0, 1e-6);
	for (int n = 2; n <= 64; n++)
		assert_true(cost_verify(&cost, n) >= cost_verify(&cost, n - 1));
}

/* One slow first measurement would keep a row count from ever being used again. */
static void a_dear_row_count_is_tried_again(void** state) {
	(void)state;
	struct cost_model cost = opened();
	see(&cost, 1, 0.010, 20);
	see(&cost, 2, 0.010, 20);
	see(&cost, 8, 0.033, 1);
	assert_float_equal(cost_verify(&cost, 8), 3.3, 1e-6);
	see(&cost, 2, 0.010, 200);
	assert_float_equal(cost_verify(&cost, 8), 3.3, 1e-6);
	see(&cost, 2, 0.010, 100);
	see(&cost, 1, 0.010, 2);
	assert_true(cost_verify(&cost, 8) < 1.3);
	see(&cost, 8, 0.013, 1); /* measured anew: the old one has no weight left */
	assert_float_equal(cost_verify(&cost, 8), 1.3, 1e-6);
}

/* Nor does it, where the next ones were quick. */
static void of_a_few_the_least_counts(void** state) {
	(void)state;
	struct cost_model cost = opened();
	see(&cost, 1, 0.010, 20);
	see(&cost, 4, 0.012, 20);
	see(&cost, 8, 0.036, 1);
	see(&cost, 8, 0.015, 1);
	assert_float_equal(cost_verify(&cost, 8), 1.5, 1e-6);
	see(&cost, 8, 0.017, 1);
	assert_float_equal(cost_verify(&cost, 8), 1.5, 1e-6);
	for (int i = 0; i < 40; i++) { /* then the mean */
		see(&cost, 1, 0.010, 1);
		see(&cost, 8, 0.017, 1);
	}
	assert_float_equal(cost_verify(&cost, 8), 1.7, 1e-3);
}

/* A machine that is slower for a while is noticed by whatever passes run then, and by few of them; what
 * passes cost beside each other stays. */
static void the_speed_is_followed(void** state) {
	(void)state;
	struct cost_model cost = opened();
	for (int i = 0; i < 20; i++) {
		see(&cost, 1, 0.010, 1);
		see(&cost, 8, 0.020, 1);
	}
	see(&cost, 8, 0.020, 4);
	see(&cost, 8, 0.032, 20);
	assert_in_range((int)(1e6 * cost_plain_seconds(&cost)), 14500, 16500);
	assert_in_range((int)(1e3 * cost_verify(&cost, 8)), 1950, 2250);
	see(&cost, 8, 0.020, 20);
	assert_in_range((int)(1e6 * cost_plain_seconds(&cost)), 9000, 11000);
	/* plain steps alone move what was measured before along */
	see(&cost, 1, 0.010, 20);
	const double before = cost_verify(&cost, 8);
	see(&cost, 1, 0.016, 30);
	assert_float_equal(cost_plain_seconds(&cost), 0.016, 2e-4);
	assert_float_equal(cost_verify(&cost, 8), before, 1e-6);
}

/* Plain steps correct the estimate of a row count that served to follow the machine's speed. */
static void plain_steps_put_right_what_others_said(void** state) {
	(void)state;
	struct cost_model cost = opened();
	for (int i = 0; i < 20; i++) {
		see(&cost, 1, 0.010, 1);
		see(&cost, 8, 0.020, 1);
	}
	/* eight rows have become dearer by themselves: longer contexts, another kernel */
	for (int i = 0; i < 60; i++) {
		see(&cost, 8, 0.026, 4);
		see(&cost, 1, 0.010, 1);
	}
	assert_in_range((int)(1e3 * cost_verify(&cost, 8)), 2450, 2750);
}

/* Twelve and thirteen rows predict sixteen as the line from eight to sixteen does. */
static void rows_between_knots_keep_the_line(void** state) {
	(void)state;
	struct cost_model cost = opened();
	see(&cost, 1, 0.010, 20);
	for (int i = 0; i < 40; i++) {
		see(&cost, 8, 0.024, 1);
		see(&cost, 16, 0.040, 1);
	}
	see(&cost, 12, 0.032, 100);
	see(&cost, 13, 0.034, 100);
	assert_float_equal(cost_verify(&cost, 16), 4.0, 1e-3);
	assert_float_equal(cost_verify(&cost, 12), 3.2, 1e-3);
}

/* One that is dear indeed is tried less and less. */
static void a_row_count_that_stays_dear_is_tried_ever_less(void** state) {
	(void)state;
	struct cost_model cost = opened();
	see(&cost, 1, 0.010, 20);
	see(&cost, 8, 0.033, 1);
	int trials = 0;
	for (int i = 0; i < 20000; i++) {
		see(&cost, i % 64 == 0 ? 1 : 2, 0.010, 1);
		if (cost_verify(&cost, 8) < 2) {
			see(&cost, 8, 0.033, 1);
			trials++;
		}
	}
	assert_in_range(trials, 2, 5);
}

/* An old measurement that was cheap stays. */
static void a_cheap_row_count_is_not_made_dearer(void** state) {
	(void)state;
	struct cost_model cost = opened();
	see(&cost, 1, 0.010, 20);
	for (int n = 2; n <= 8; n *= 2)
		see(&cost, n, 0.0101, 20);
	see(&cost, 2, 0.0101, 400);
	see(&cost, 1, 0.010, 1);
	assert_float_equal(cost_verify(&cost, 8), 1.01, 1e-6);
}

/* Rows beyond those that were measured: half as dear as the measured ones were, so that they are tried. */
static void more_rows_are_judged_by_fewer(void** state) {
	(void)state;
	struct cost_model cost = opened();
	see(&cost, 1, 0.010, 20);
	assert_float_equal(cost_verify(&cost, 16), 1.30, 1e-6);
	see(&cost, 8, 0.024, 20);
	const double v8 = cost_verify(&cost, 8);
	assert_true(fabs(cost_verify(&cost, 12) - (v8 + 4 * 0.5 * (v8 - 1) / 7)) < 1e-6);
	/* rows that cost nothing go on as was assumed */
	struct cost_model cheap = opened();
	see(&cheap, 1, 0.010, 20);
	for (int n = 2; n <= 8; n *= 2)
		see(&cheap, n, 0.010, 20);
	assert_true(fabs(cost_verify(&cheap, 12) - 1.08) < 1e-6);
}

/* In a batch, where no plain steps come, a row count that has become dearer by itself is separated from a
 * machine that has become slower: the others stay as they are. */
static void rows_are_learned_without_plain_steps(void** state) {
	(void)state;
	struct cost_model cost = opened();
	see(&cost, 1, 0.010, 20);
	see(&cost, 4, 0.030, 100);
	see(&cost, 8, 0.040, 30);
	see(&cost, 8, 0.060, 100);
	assert_in_range((int)(1e3 * cost_verify(&cost, 8) / cost_verify(&cost, 4)), 1990, 2010);
}

static void assert_near(double a, double b, double within) { assert_true(fabs(a - b) <= within); }

/* Kernels begin another tile after eight rows. To eight sequences the step is what a first draft costs. */
static void a_batch_sees_where_costs_step(void** state) {
	(void)state;
	struct cost_model cost = opened();
	for (int i = 0; i < 200; i++) {
		see(&cost, 8, 0.020, 3);
		see(&cost, 9, 0.025, 1);
		see(&cost, 11, 0.026, 1);
	}
	const double v8 = cost_verify(&cost, 8);
	assert_near(cost_verify(&cost, 9) / v8, 1.25, 0.01);
	assert_near(cost_verify(&cost, 10) / v8, 1.275, 0.01);
	assert_near(cost_verify(&cost, 11) / v8, 1.3, 0.01);
}

/* Four prompts of 40 rows are the first pass; then four sequences decode together, and none alone. */
static void prompts_do_not_say_what_a_plain_step_takes(void** state) {
	(void)state;
	struct cost_model cost = opened();
	see(&cost, 160, 300, 1);
	see(&cost, 4, 14, 3);
	see(&cost, 8, 20, 3);
	see(&cost, 16, 40, 3);
	assert_near(cost_plain_seconds(&cost) * cost_verify(&cost, 4), 14, 0.5);
	assert_near(cost_plain_seconds(&cost) * cost_verify(&cost, 8), 20, 0.5);
	assert_near(cost_plain_seconds(&cost) * cost_verify(&cost, 16), 40, 0.5);
	/* a plain step at last: a row of four was thought to take a little more */
	see(&cost, 1, 13, 20);
	assert_near(cost_plain_seconds(&cost), 13, 0.5);
}

/* By input channel rows share nothing. */
static void draft_rows_by_channel_cost_a_pass_each(void** state) {
	(void)state;
	struct cost_model cost = opened();
	const struct levels levels = {.left_out = {{0}}};
	see(&cost, 1, 10, 3);
	see(&cost, 4, 11, 3);
	assert_near(cost_draft_rows(&cost, (struct variant){.levels = &levels}, 4), 4, 1e-9);
	assert_near(cost_draft_rows(&cost, (struct variant){.levels = NULL}, 4), 1.1, 0.05);
}

/* Two blocks of an attention and an MLP of 64 by 64 in two bytes, and a head as large; the draft weights in a
 * quarter of the bytes, but for block 1's MLP, which has none. */
static void a_variant_costs_what_its_states_do(void** state) {
	(void)state;
	struct block_weights block[2] = {{.wq = {0}}}, own[2] = {{.wq = {0}}};
	const struct tensor stored = {.data = &block, .type = DTYPE_F16, .rows = 64, .cols = 64};
	struct tensor small = stored;
	small.rows = 16;
	for (int b = 0; b < 2; b++) {
		block[b].wq = block[b].w_up = stored;
		own[b].wq = own[b].w_up = small;
	}
	own[1].w_up = stored;
	const struct weight_table table = {.shape.n_blocks = 2, .block = block, .output = stored};
	const struct draft_weights quantized = {.stored = &table, .block = own, .output = &small, .head = true};
	struct cost_model cost;
	cost_open(&cost, &table, 0);
	cost_use_draft_weights(&cost, &quantized);
	const struct mask none = {.word = {0}}, attention = {.word = {5}}, first_mlp = {.word = {2}},
	                  all = {.word = {15}};
	const struct variant full = {.skip = &none}, skip = {.skip = &attention},
	                     quantized_only = {.quantized = &attention};
	const struct variant both = {.skip = &attention, .quantized = &all, .quantized_head = true};
	assert_float_equal(cost_draft(&cost, full), 1, 1e-9);
	assert_float_equal(cost_draft(&cost, skip), 3.0 / 5, 1e-9);
	assert_float_equal(cost_draft(&cost, quantized_only), (3 + 2 * 0.25) / 5, 1e-9);
	/* an MLP's draft weights cost what they do on average; what is skipped does not run quantized */
	assert_float_equal(cost_draft(&cost, both), (0.25 + 2 * 0.625) / 5, 1e-9);
	assert_float_equal(cost_draft_worst(&cost, quantized_only), 1, 1e-9);
	/* the two kinds of bytes are measured apart */
	see(&cost, 1, 0.010, 20);
	for (int i = 0; i < 200; i++) {
		cost_see_draft(&cost, skip, 0.010 * 1.1 * 3 / 5);
		cost_see_draft(&cost, both, 0.010 * 2 * (0.25 + 2 * 0.625) / 5);
	}
	const struct variant mlp = {.skip = &first_mlp};
	assert_float_equal(cost_draft(&cost, mlp), 1.1 * 4 / 5, 1e-3);
	assert_float_equal(cost_draft(&cost, quantized_only), (1.1 * 3 + 2 * 0.5) / 5, 1e-3);
	assert_true(cost_draft_worst(&cost, quantized_only) < 1);
}

/* One slow first step is not believed before others have said so; and where none has for long it is tried
 * again. */
static void a_slow_first_step_is_no_verdict(void** state) {
	(void)state;
	struct block_weights block[1] = {{.wq = {0}}};
	const struct tensor stored = {.data = &block, .type = DTYPE_F16, .rows = 64, .cols = 64};
	block[0].wq = block[0].w_up = stored;
	const struct weight_table table = {.shape.n_blocks = 1, .block = block, .output = stored};
	const struct mask attention = {.word = {1}};
	const struct variant skip = {.skip = &attention};
	const double by_bytes = 2.0 / 3;
	struct cost_model cost;
	cost_open(&cost, &table, 0);
	see(&cost, 1, 0.010, 20);
	cost_see_draft(&cost, skip, 0.010 * 2 * by_bytes);
	assert_float_equal(cost_draft(&cost, skip), by_bytes, 1e-9);
	for (int i = 0; i < 20; i++)
		cost_see_draft(&cost, skip, 0.010 * 2 * by_bytes);
	const double known = cost_draft(&cost, skip);
	assert_true(known > 1.8 * by_bytes);
	see(&cost, 1, 0.010, 32); /* soon, since no draft step is made at this cost */
	assert_float_equal(cost_draft(&cost, skip), known, 0);
	see(&cost, 1, 0.010, 1);
	assert_float_equal(cost_draft(&cost, skip), by_bytes, 1e-9);
	/* it is as slow again: the next trial is four times as far away */
	for (int i = 0; i < 20; i++)
		cost_see_draft(&cost, skip, 0.010 * 2 * by_bytes);
	see(&cost, 1, 0.010, 128);
	assert_true(cost_draft(&cost, skip) > 1.8 * by_bytes);
	see(&cost, 1, 0.010, 1);
	assert_float_equal(cost_draft(&cost, skip), by_bytes, 1e-9);
}

/* A machine: weights take W (1 + 0.1 (n - 1)) seconds of a pass of n rows, and attention
 * 2 W length (1 + 0.5 (n - 1)). */
static const double W = 0.010;

static double attention_of(int rows, double length) { return 2 * W * length * (1 + 0.5 * (rows - 1)); }
static double pass_of(int rows, double length) {
	return W * (1 + 0.1 * (rows - 1)) + attention_of(rows, length);
}

static void see_at(struct cost_model* cost, double length, int times) {
	static const int rows[] = {1, 2, 3, 4, 6, 8};
	cost_at(cost, length * pass_bytes_all(&cost->bytes));
	for (int t = 0; t < times; t++)
		for (int i = 0; i < 6; i++)
			cost_see_full(cost, rows[i], pass_of(rows[i], length),
			              attention_of(rows[i], length) / pass_of(rows[i], length));
}

static void assert_costs_at(struct cost_model* cost, double length, double within) {
	const double plain = pass_of(1, length);
	cost_at(cost, length * pass_bytes_all(&cost->bytes));
	assert_near(cost_plain_seconds(cost), plain, within * plain);
	assert_near(cost_attention(cost), attention_of(1, length) / plain, within);
	for (int n = 1; n <= 8; n++) {
		const double v = pass_of(n, length) / plain;
		assert_near(cost_verify(cost, n), v, within * v);
	}
}

static void costs_hold_at_other_lengths(void** state) {
	(void)state;
	static const double lengths[] = {0, 0.01, 0.3, 3, 0.1};
	struct cost_model cost = opened();
	see_at(&cost, 0.15, 100);
	for (int i = 0; i < 5; i++)
		assert_costs_at(&cost, lengths[i], 2e-3);
}

/* Measured at one length and looked at there, a cost is what was measured, whatever attention is taken for.
 */
static void costs_at_the_same_length_are_measured_ones(void** state) {
	(void)state;
	struct cost_model plain = opened(), cost = opened();
	cost_at(&cost, 0.5 * pass_bytes_all(&cost.bytes));
	for (int i = 0; i < 50; i++) {
		const int rows = 1 + i * i % 7;
		cost_see_full(&plain, rows, W * (1 + 0.1 * rows + 0.03 * (i % 3)), 0);
		cost_see_full(&cost, rows, W * (1 + 0.1 * rows + 0.03 * (i % 3)), 0.5 + 0.01 * (i % 30));
	}
	assert_near(cost_plain_seconds(&cost), cost_plain_seconds(&plain), 1e-12);
	for (int n = 1; n <= 8; n++)
		assert_near(cost_verify(&cost, n), cost_verify(&plain, n), 1e-9);
}

/* After a few tokens attention's time is that of threads which wait for each other. Without any measurement
 * the cache's bytes count as the weights' do. */
static void short_texts_do_not_mislead(void** state) {
	(void)state;
	struct cost_model cost = opened();
	cost_at(&cost, 0.001 * pass_bytes_all(&cost.bytes));
	for (int i = 0; i < 500; i++)
		cost_see_full(&cost, 1, W * 1.05, 0.05 / 1.05);
	cost_at(&cost, pass_bytes_all(&cost.bytes));
	assert_near(cost_plain_seconds(&cost), 2 * 1.05 * W, 0.01 * W);
	see_at(&cost, 1, 3);
	assert_costs_at(&cost, 1, 0.08);
	assert_costs_at(&cost, 0.2, 0.1);
}

/* A batch has no plain steps. */
static void wide_passes_hold_at_other_lengths(void** state) {
	(void)state;
	struct cost_model cost = opened();
	cost_at(&cost, 0.001 * pass_bytes_all(&cost.bytes));
	for (int i = 0; i < 40; i++)
		cost_see_full(&cost, 8, 0.020, 0.01);
	cost_at(&cost, pass_bytes_all(&cost.bytes));
	/* weights: 0.020 / (1 + 7 · 0.02) for a plain step; as much again for attention, 2 % a row more */
	const double step = 0.020 / 1.14;
	assert_near(cost_plain_seconds(&cost), 2 * step, 0.01 * step);
	assert_near(cost_verify(&cost, 8), (0.020 + 1.14 * step) / (2 * step), 0.01);
}

/* A draft step reads all weights of a block, and a part of its keys and values. */
static void unread_pages_cost_nothing(void** state) {
	(void)state;
	struct cost_model cost = opened();
	const struct mask none = {.word = {0}}, attention = {.word = {1}};
	const struct variant some = {.skip = &none, .unread = 0.9};
	see_at(&cost, 1.5, 40);
	const double whole = 1 + 2 * 1.5;
	assert_near(cost_draft(&cost, (struct variant){.skip = &none}), 1, 2e-3);
	assert_near(cost_draft(&cost, some), (1 + 0.3) / whole, 2e-3);
	assert_near(cost_draft(&cost, (struct variant){.skip = &attention}), 0.5 / whole, 2e-3);
	for (int i = 0; i < 200; i++) /* it takes a tenth longer */
		cost_see_draft(&cost, some, 1.1 * W * (1 + 0.3));
	assert_near(cost_draft(&cost, some), 1.1 * (1 + 0.3) / whole, 2e-3);
	cost_at(&cost, 0);
	assert_near(cost_draft(&cost, some), 1.1, 2e-3);
	assert_near(cost_rest(&cost, 2), 0.5, 1e-9);
	cost_at(&cost, 1.5 * pass_bytes_all(&cost.bytes));
	assert_near(cost_rest(&cost, 2), 0.5 / whole, 2e-3);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(costs_hold_at_other_lengths),
	    cmocka_unit_test(costs_at_the_same_length_are_measured_ones),
	    cmocka_unit_test(short_texts_do_not_mislead),
	    cmocka_unit_test(wide_passes_hold_at_other_lengths),
	    cmocka_unit_test(unread_pages_cost_nothing),
	    cmocka_unit_test(a_slow_first_step_is_no_verdict),
	    cmocka_unit_test(ratios_are_to_the_plain_step),
	    cmocka_unit_test(a_dear_row_count_is_tried_again),
	    cmocka_unit_test(of_a_few_the_least_counts),
	    cmocka_unit_test(the_speed_is_followed),
	    cmocka_unit_test(plain_steps_put_right_what_others_said),
	    cmocka_unit_test(rows_between_knots_keep_the_line),
	    cmocka_unit_test(a_row_count_that_stays_dear_is_tried_ever_less),
	    cmocka_unit_test(a_cheap_row_count_is_not_made_dearer),
	    cmocka_unit_test(more_rows_are_judged_by_fewer),
	    cmocka_unit_test(rows_are_learned_without_plain_steps),
	    cmocka_unit_test(a_batch_sees_where_costs_step),
	    cmocka_unit_test(prompts_do_not_say_what_a_plain_step_takes),
	    cmocka_unit_test(draft_rows_by_channel_cost_a_pass_each),
	    cmocka_unit_test(a_variant_costs_what_its_states_do),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
