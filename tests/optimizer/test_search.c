/* The search over sets of layers on made-up planted models: as published, with a warm start, until it ends.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gp/random.h"
#include "optimizer/search.h"
#include "support_planted.h"

enum { WINDOW = 32 };

static struct search_options options(int blocks, uint64_t seed) {
	return (struct search_options){.blocks = blocks,
	                               .skip_ratio = 0.45,
	                               .bayes_interval = 25,
	                               .max_steps = 1000,
	                               .patience = 300,
	                               .max_matchness = 0.95,
	                               .kappa = 2.5,
	                               .seed = seed};
}

static struct search* open_search(const struct search_options* o) {
	struct error error = {{0}};
	struct search* s = search_open(o, &error);
	if (!s)
		fail_msg("%s", error.message);
	return s;
}

/* Runs until it ends, the window moving every `per` proposals. Returns proposals scored in all. */
static int run(struct search* s, const struct planted* p, int per) {
	struct proposal proposal;
	int scored = 0;
	for (int64_t window = 0;; scored++) {
		if (scored % per == 0)
			search_window(s, ++window, WINDOW);
		if (!search_propose(s, &proposal))
			return scored;
		search_observe(s, &proposal, planted_score(p, &proposal.mask, window, WINDOW), WINDOW);
	}
}

static void observe_all(struct search* s, const struct proposal* p, int matches) {
	search_observe(s, p, matches, WINDOW);
}

/* One row of states that turn by a tenth a sub-layer, and from sub-layer `quiet` on by nearly nothing for as
 * many sub-layers as a mask skips. */
static struct spans make_spans(int blocks, int quiet) {
	enum { DIM = 2 };
	static float at[2 * MAX_BLOCKS][DIM];
	float* row[2 * MAX_BLOCKS + 1] = {NULL};
	struct spans spans;
	double turn = 0;
	const int size = (int)(0.45 * 2 * (blocks - 2) + 1e-9);
	assert_true(spans_open(&spans, blocks));
	for (int i = 0; i < 2 * blocks; i++) {
		turn += i >= quiet && i < quiet + size ? 1e-3 : 0.1;
		at[i][0] = (float)cos(turn);
		at[i][1] = (float)sin(turn);
		row[i + 1] = at[i];
	}
	spans_add(&spans, row, 1, DIM);
	return spans;
}

static void bad_options(void** state) {
	(void)state;
	struct error error;
	for (int i = 0; i < 8; i++) {
		struct search_options o = options(24, 1);
		switch (i) {
		case 0:
			o.blocks = 2;
			break;
		case 1:
			o.blocks = MAX_BLOCKS + 1;
			break;
		case 2:
			o.skip_ratio = 0;
			break;
		case 3:
			o.skip_ratio = NAN;
			break;
		case 4:
			o.skip_ratio = 1.5;
			break;
		case 5:
			o.bayes_interval = -1;
			break;
		case 6:
			o.patience = 0;
			break;
		default:
			o.kappa = INFINITY;
			break;
		}
		error.message[0] = 0;
		assert_null(search_open(&o, &error));
		assert_true(strlen(error.message) > 10);
	}
}

/* With every fifth proposal the process's, three models: better than the start by far, and the more so the
 * longer. */
static void finds_better_masks(void** state) {
	(void)state;
	double start = 0, early = 0, late = 0;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct planted p;
		planted_make(&p, 24, seed);
		for (int more = 0; more < 2; more++) {
			struct search_options o = options(24, seed);
			o.bayes_interval = 5;
			o.max_steps = o.patience = more ? 400 : 20;
			o.published = true;
			struct search* s = open_search(&o);
			run(s, &p, 12);
			const struct mask best = search_best(s, NULL), first = planted_start(24);
			assert_int_equal(mask_count(&best), 19);
			*(more ? &late : &early) += planted_truth(&p, &best) / 3;
			start += planted_truth(&p, &first) / 6;
			search_close(s);
		}
	}
	printf("start %.3f, after 20 proposals %.3f, after 400 %.3f\n", start, early, late);
	assert_true(late > early && late > start + 0.1);
}

/* The first mask is the span of least influence; it is scored first, and what is known better later replaces
 * it until then. */
static void starts_from_the_best_span(void** state) {
	(void)state;
	const struct search_options o = options(24, 2);
	struct search* s = open_search(&o);
	struct mask best = search_best(s, NULL);
	assert_int_equal(mask_count(&best), 0);
	assert_true(isnan(search_expected(s)) && !search_waits(s));
	for (int quiet = 9; quiet >= 6; quiet -= 3) {
		struct spans spans = make_spans(24, quiet);
		search_set_spans(s, &spans);
		spans_close(&spans);
		best = search_best(s, NULL);
		assert_int_equal(mask_count(&best), 19);
		for (int i = 0; i < 48; i++)
			assert_int_equal(mask_has(&best, i), i >= quiet && i < quiet + 19);
		assert_true(search_waits(s));
	}
	struct proposal proposal;
	search_window(s, 1, WINDOW);
	assert_true(search_propose(s, &proposal) && proposal.kind == PROPOSAL_START);
	assert_true(mask_equal(&proposal.mask, &best));
	observe_all(s, &proposal, 24);
	assert_true(search_chosen_by(s) == 0.75 && !search_waits(s));
	struct spans spans = make_spans(24, 12);
	search_set_spans(s, &spans); /* too late */
	spans_close(&spans);
	struct mask still = search_best(s, NULL);
	assert_true(mask_equal(&still, &best));
	assert_true(search_propose(s, &proposal) && proposal.step == 1);
	observe_all(s, &proposal, 24); /* as good: no reason to change */
	still = search_best(s, NULL);
	assert_true(mask_equal(&still, &best));
	search_propose(s, &proposal);
	observe_all(s, &proposal, 25);
	still = search_best(s, NULL);
	assert_true(mask_equal(&still, &proposal.mask));
	assert_true(fabs(search_expected(s) - 25.0 / 32) < 1e-12);
	/* drafts move what is expected */
	search_see_draft(s, &still, 64, 64);
	assert_true(fabs(search_expected(s) - (50 + 64) / 128.0) < 1e-12);
	search_see_draft(s, &still, 65, 64);
	search_see_draft(s, &still, 0, INFINITY);
	search_see_draft(s, &best, 0, 64); /* another mask's */
	assert_true(fabs(search_expected(s) - (50 + 64) / 128.0) < 1e-12);
	search_close(s);
}

static void costs_what_it_found(void** state) {
	(void)state;
	const struct search_options o = options(24, 2);
	struct search* s = open_search(&o);
	struct proposal proposal;
	struct search_costs costs = {.attention = 0.01, .mlp = 0.03, .fixed = 0.04, .max_draft = 8};
	for (int n = 1; n <= SLICE_ROWS; n++)
		costs.verify[n] = 1 + 0.01 * (n - 1);
	struct mask mask = {.word = {0}};
	for (int i = 2; i < 22; i++)
		mask_set(&mask, i, true);
	search_adopt(s, &mask);
	search_window(s, 1, WINDOW);
	assert_true(search_propose(s, &proposal));
	observe_all(s, &proposal, 32);
	assert_true(isnan(search_speedup(s)));
	search_set_costs(s, &costs);
	/* ten blocks of 24 are left out */
	const double c = 0.04 + 14 * 0.04;
	assert_true(fabs(search_speedup(s) - 9 / (8 * c + 1.08)) < 1e-9);
	search_close(s);
}

static void a_given_mask_is_scored_first(void** state) {
	(void)state;
	const struct search_options o = options(24, 2);
	struct search* s = open_search(&o);
	struct planted p;
	planted_make(&p, 24, 5);
	struct proposal proposal;
	search_window(s, 1, WINDOW);
	search_propose(s, &proposal);
	observe_all(s, &proposal, 20);
	search_adopt(s, &p.mask);
	struct mask wrong = p.mask;
	mask_set(&wrong, 1, true); /* the first block's: refused */
	search_adopt(s, &wrong);
	assert_true(search_propose(s, &proposal));
	assert_int_equal(proposal.kind, PROPOSAL_START);
	assert_true(mask_equal(&proposal.mask, &p.mask));
	observe_all(s, &proposal, 30);
	struct mask best = search_best(s, NULL);
	assert_true(mask_equal(&best, &p.mask));
	assert_true(search_propose(s, &proposal) && proposal.step == 2);
	search_settle(s);
	assert_false(search_propose(s, &proposal));
	const struct mask start = planted_start(24);
	search_adopt(s, &start);
	best = search_best(s, NULL);
	assert_true(mask_equal(&best, &start) && search_waits(s));
	assert_true(search_propose(s, &proposal));
	assert_true(mask_equal(&proposal.mask, &start));
	search_close(s);
}

/* A client's figures are taken or ignored, and never outweigh measurements. */
static void odd_observations(void** state) {
	(void)state;
	const struct search_options o = options(24, 2);
	struct search* s = open_search(&o);
	struct proposal p = {.kind = PROPOSAL_RESCORE}, proposal;
	search_observe(s, &p, 4, 8); /* before any window */
	search_window(s, 1, 0);
	search_window(s, 1, -5);
	search_window(s, -1, 32);
	assert_false(search_propose(s, &proposal));
	search_window(s, 1, WINDOW);
	mask_set(&p.mask, 5, true);
	search_observe(s, &p, 5, 0);
	search_observe(s, &p, -1, 8);
	search_observe(s, &p, 9, 8);
	search_observe(s, &p, 5, INT32_MIN);
	search_observe(s, &p, 33, 33);
	search_observe(s, &p, INT32_MAX, INT32_MAX);
	mask_set(&p.mask, 2 * 23, true);
	search_observe(s, &p, 5, 8);
	memset(&p.mask, 0xff, sizeof p.mask);
	search_observe(s, &p, 5, 8);
	assert_true(isnan(search_expected(s))); /* nothing was taken */
	/* more than the process remembers */
	for (int i = 0; i < 1200; i++) {
		p.mask = (struct mask){.word = {0}};
		for (int bit = 0; bit < 16; bit++)
			mask_set(&p.mask, 2 + bit, i >> bit & 1);
		search_observe(s, &p, 3, 8);
	}
	assert_int_equal(search_steps(s), 0);
	assert_true(search_propose(s, &proposal));
	search_close(s);
}

static void ends_by_its_rules(void** state) {
	(void)state;
	struct search_options o = options(24, 3);
	o.max_steps = 0;
	struct search* s = open_search(&o);
	struct proposal proposal;
	search_window(s, 1, WINDOW);
	assert_false(search_propose(s, &proposal));
	assert_int_equal(search_state(s), SEARCH_EXHAUSTED);
	search_close(s);
	/* the only mask of a small model, again and again */
	o = options(3, 3);
	o.skip_ratio = 1;
	o.patience = 40;
	s = open_search(&o);
	search_window(s, 1, WINDOW);
	while (search_propose(s, &proposal)) {
		assert_int_equal(mask_count(&proposal.mask), 2);
		observe_all(s, &proposal, 20);
	}
	assert_int_equal(search_state(s), SEARCH_PATIENCE);
	assert_true(search_skip_ratio(s) == 1);
	search_close(s);
}

static void repeats_with_its_seed(void** state) {
	(void)state;
	struct planted p;
	planted_make(&p, 24, 8);
	struct mask best[2];
	int steps[2];
	for (int i = 0; i < 2; i++) {
		struct search_options o = options(24, 11);
		o.max_steps = 200;
		struct search* s = open_search(&o);
		run(s, &p, 12);
		best[i] = search_best(s, NULL);
		steps[i] = search_steps(s);
		search_close(s);
	}
	assert_true(mask_equal(&best[0], &best[1]));
	assert_int_equal(steps[0], steps[1]);
}

/* ---- as published ------------------------------------------------------------------------- */

/* Random search with the best raw score, written once more: a Fisher-Yates shuffle for each proposal. */
static void published_steps(void** state) {
	(void)state;
	struct planted p;
	planted_make(&p, 24, 3);
	struct search_options o = options(24, 5);
	o.published = true;
	o.bayes_interval = 0;
	o.max_matchness = 0.84;
	struct search* s = open_search(&o);
	struct spans spans = make_spans(24, 5);
	search_set_spans(s, &spans); /* ignored */
	spans_close(&spans);
	struct mask best = planted_start(24), ours = search_best(s, NULL);
	assert_true(mask_equal(&best, &ours));
	struct gp_random random = {5};
	double most = -1;
	int since = 0, step = 0;
	for (; most <= 0.84 && since < 300 && step < 1000; step++) {
		int order[44];
		struct mask mask = {.word = {0}};
		for (int i = 0; i < 44; i++)
			order[i] = i;
		for (int i = 0; i < 19; i++) {
			const int j = i + gp_below(&random, 44 - i), taken = order[j];
			order[j] = order[i];
			order[i] = taken;
			mask_set(&mask, taken + 2, true);
		}
		const int64_t window = step / 12 + 1;
		const int matches = planted_score(&p, &mask, window, WINDOW);
		since++;
		if ((double)matches / WINDOW > most) {
			most = (double)matches / WINDOW;
			best = mask;
			since = 0;
		}
		struct proposal proposal;
		search_window(s, window, WINDOW);
		assert_int_equal(search_state(s), SEARCH_RUNNING);
		assert_true(search_propose(s, &proposal));
		assert_int_equal(proposal.kind, PROPOSAL_RANDOM);
		assert_int_equal(proposal.step, step + 1);
		assert_true(mask_equal(&proposal.mask, &mask));
		search_observe(s, &proposal, matches, WINDOW);
		ours = search_best(s, NULL);
		assert_true(mask_equal(&ours, &best));
		assert_true(search_chosen_by(s) == most);
	}
	struct proposal proposal;
	assert_false(search_propose(s, &proposal));
	assert_true(search_state(s) == (most > 0.84 ? SEARCH_CONFIRMED : SEARCH_PATIENCE));
	printf("published: %d steps, best raw score %.3f, truth %.3f\n", step, most, planted_truth(&p, &best));
	search_close(s);
}

/* Each bayes_interval-th is Bayesian, nothing is scored again, and it stops by its three rules. */
static void published_rules(void** state) {
	(void)state;
	struct search_options o = options(24, 5);
	o.published = true;
	o.patience = 120;
	struct search* s = open_search(&o);
	struct proposal proposal;
	int steps = 0;
	for (; search_propose(s, &proposal) || steps == 0; steps++) {
		if (steps % 12 == 0)
			search_window(s, steps / 12 + 1, WINDOW);
		if (steps == 0)
			assert_true(search_propose(s, &proposal));
		assert_int_equal(proposal.kind, (steps + 1) % 25 == 0 ? PROPOSAL_BAYES : PROPOSAL_RANDOM);
		assert_int_equal(mask_count(&proposal.mask), 19);
		observe_all(s, &proposal, steps == 30 ? 20 : 10 + steps % 7);
	}
	assert_int_equal(steps, 31 + 120);
	assert_int_equal(search_state(s), SEARCH_PATIENCE);
	search_close(s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(bad_options),
	    cmocka_unit_test(finds_better_masks),
	    cmocka_unit_test(starts_from_the_best_span),
	    cmocka_unit_test(costs_what_it_found),
	    cmocka_unit_test(a_given_mask_is_scored_first),
	    cmocka_unit_test(odd_observations),
	    cmocka_unit_test(ends_by_its_rules),
	    cmocka_unit_test(repeats_with_its_seed),
	    cmocka_unit_test(published_steps),
	    cmocka_unit_test(published_rules),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
