/* The layer-set search on made-up planted models: it finds them, repeats nothing, stops when it should. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
	                               .confirm = 1,
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
		int rows;
		const int matches = planted_score(p, &proposal.mask, window, WINDOW, proposal.needed, &rows);
		search_observe(s, &proposal, matches, rows);
	}
}

static void observe_all(struct search* s, const struct proposal* p, int matches) {
	search_observe(s, p, matches, WINDOW);
}

static void start_mask(void** state) {
	(void)state;
	const struct mask mask = search_start_mask(6);
	for (int block = 0; block < 6; block++) {
		assert_int_equal(mask_has(&mask, 2 * block), block == 1 || block == 3);
		assert_int_equal(mask_has(&mask, 2 * block + 1), block == 1 || block == 3);
	}
	assert_int_equal(mask_count(&mask), 4);
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
			o.published = true;
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

/* Planted models of 24, 32 and 40 blocks, 5 seeds, 1,000 proposals on windows of 32 tokens that move every
 * 15, by hits alone and without influence: the planted set, or on 40 blocks what lacks a few of it. Beside it
 * blind random search and the start mask. */
static void finds_planted_models(void** state) {
	(void)state;
	enum { SEEDS = 5 };
	static const int blocks[] = {24, 32, 40};
	static const double asked[] = {0.95, 0.92, 0.85}; /* of the mean */
	for (int b = 0; b < 3; b++) {
		double mean = 0;
		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			struct planted p;
			planted_make(&p, blocks[b], seed);
			double truth[2];
			for (int blind = 0; blind < 2; blind++) {
				struct search_options o = options(blocks[b], seed);
				o.max_matchness = 1; /* never above: all 1,000 */
				o.patience = 1000;
				o.bayes_interval = blind ? 0 : 25;
				struct search* s = open_search(&o);
				run(s, &p, 15);
				assert_int_equal(search_steps(s), 1000);
				const struct mask best = search_best(s, NULL);
				truth[blind] = planted_truth(&p, &best);
				search_close(s);
			}
			const struct mask uniform = search_start_mask(blocks[b]);
			printf("%d blocks, seed %d: search %.3f, random only %.3f, uniform %.3f, planted %.3f\n",
			       blocks[b], (int)seed, truth[0], truth[1], planted_truth(&p, &uniform),
			       planted_truth(&p, &p.mask));
			assert_true(truth[0] > truth[1] + 0.05);
			mean += truth[0] / SEEDS;
		}
		assert_true(mean >= asked[b]);
	}
}

/* With the stopping rules on it ends sooner and is not far off. */
static void stops_near_the_planted_mask(void** state) {
	(void)state;
	double sum = 0;
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct planted p;
		planted_make(&p, 24, seed);
		const struct search_options o = options(24, seed);
		struct search* s = open_search(&o);
		run(s, &p, 15);
		const struct mask best = search_best(s, NULL);
		printf("seed %d: %s after %d steps, %.3f\n", (int)seed, search_state_name(search_state(s)),
		       search_steps(s), planted_truth(&p, &best));
		assert_int_equal(search_state(s), SEARCH_CONFIRMED);
		sum += planted_truth(&p, &best);
		search_close(s);
	}
	assert_true(sum / 5 >= 0.95);
}

static void repeats_nothing(void** state) {
	(void)state;
	static struct mask seen[700];
	struct planted p;
	planted_make(&p, 24, 3);
	struct search_options o = options(24, 9);
	o.max_matchness = 1;
	o.max_steps = 600;
	o.patience = 600;
	struct search* s = open_search(&o);
	struct proposal proposal;
	int steps = 0, scored = 0;
	for (int64_t window = 0; scored < 2000; scored++) {
		if (scored % 20 == 0)
			search_window(s, ++window, WINDOW);
		if (!search_propose(s, &proposal))
			break;
		if (proposal.step) {
			assert_int_equal(proposal.step, steps + 1);
			assert_int_equal(mask_count(&proposal.mask), 19); /* floor(0.45 * 44) */
			assert_false(mask_has(&proposal.mask, 0) || mask_has(&proposal.mask, 1));
			assert_false(mask_has(&proposal.mask, 46) || mask_has(&proposal.mask, 47));
			for (int i = 0; i < steps; i++)
				assert_false(mask_equal(&seen[i], &proposal.mask));
			seen[steps++] = proposal.mask;
			assert_int_equal(proposal.kind, PROPOSAL_RANDOM);
		}
		int rows;
		const int matches = planted_score(&p, &proposal.mask, window, WINDOW, proposal.needed, &rows);
		search_observe(s, &proposal, matches, rows);
	}
	assert_int_equal(steps, 600);
	assert_int_equal(search_state(s), SEARCH_EXHAUSTED);
	search_close(s);
}

/* Four skippable sub-layers, one skipped: four masks, then no more. */
static void small_spaces_end(void** state) {
	(void)state;
	struct search_options o = options(4, 1);
	struct search* s = open_search(&o);
	struct proposal proposal;
	int steps = 0;
	search_window(s, 1, WINDOW);
	while (search_propose(s, &proposal)) {
		steps += proposal.step > 0;
		assert_true(steps <= 4);
		observe_all(s, &proposal, 16);
	}
	assert_int_equal(steps, 4);
	assert_int_equal(search_state(s), SEARCH_EXHAUSTED);
	search_close(s);
}

static void stopping_rules(void** state) {
	(void)state;
	struct proposal proposal;
	for (int confirm = 0; confirm < 3; confirm++) {
		struct search_options o = options(24, 1);
		o.confirm = confirm;
		struct search* s = open_search(&o);
		int64_t window = 0;
		search_window(s, ++window, WINDOW);
		for (int i = 0; search_propose(s, &proposal); i++) {
			/* Only what was there first matches, and always. */
			const struct mask start = search_start_mask(24);
			observe_all(s, &proposal, mask_equal(&proposal.mask, &start) ? 32 : 10);
			if (i % 10 == 9)
				search_window(s, ++window, WINDOW);
			assert_true(window < 60);
		}
		assert_int_equal(search_state(s), SEARCH_CONFIRMED);
		assert_true(window > confirm);
		assert_true(confirm > 0 || window == 1);
		search_close(s);
	}
	struct search_options o = options(24, 1);
	o.patience = 40;
	struct search* s = open_search(&o);
	search_window(s, 1, WINDOW);
	while (search_propose(s, &proposal))
		observe_all(s, &proposal, proposal.kind == PROPOSAL_START ? 25 : 5);
	assert_int_equal(search_state(s), SEARCH_PATIENCE);
	assert_int_equal(search_steps(s), 40);
	assert_false(search_propose(s, &proposal));
	search_close(s);
}

/* A move asks for the incumbent and three others again, before anything new. */
static void windows_rescore(void** state) {
	(void)state;
	const struct search_options o = options(24, 2);
	struct search* s = open_search(&o);
	struct proposal proposal;
	double matchness;
	assert_false(search_propose(s, &proposal)); /* no window yet */
	search_best(s, &matchness);
	assert_true(isnan(matchness));
	search_window(s, 1, WINDOW);
	assert_true(search_propose(s, &proposal));
	assert_int_equal(proposal.kind, PROPOSAL_START);
	assert_int_equal(proposal.needed, 0);
	observe_all(s, &proposal, 20);
	for (int i = 0; i < 10; i++) {
		assert_true(search_propose(s, &proposal));
		assert_int_equal(proposal.kind, PROPOSAL_RANDOM);
		observe_all(s, &proposal, 8 + i / 2);
	}
	const struct mask best = search_best(s, &matchness);
	assert_true(isnan(matchness)); /* the score that chose it is no estimate for other text */
	assert_true(search_chosen_by(s) == 20.0 / 32);
	search_window(s, 2, WINDOW);
	struct mask asked[4];
	for (int i = 0; i < 4; i++) {
		assert_true(search_propose(s, &proposal));
		assert_int_equal(proposal.kind, PROPOSAL_RESCORE);
		assert_int_equal(proposal.step, 0);
		asked[i] = proposal.mask;
		for (int j = 0; j < i; j++)
			assert_false(mask_equal(&asked[i], &asked[j]));
		observe_all(s, &proposal, i == 0 ? 21 : 20);
	}
	const struct mask after = search_best(s, &matchness);
	assert_true(mask_equal(&after, &best) && matchness == 21.0 / 32);
	assert_true(search_chosen_by(s) == 20.0 / 32);
	assert_true(mask_equal(&asked[0], &best));
	assert_int_equal(search_steps(s), 10);
	assert_true(search_propose(s, &proposal));
	assert_true(proposal.step == 11);
	/* A proposal must be able to reach the incumbent's 21: 20 with all rows left is too few. */
	assert_int_equal(proposal.needed, 20);
	search_close(s);
}

/* A budget of one score a window must still search: no window may go to rescoring alone for ever. */
static void tight_budgets_still_search(void** state) {
	(void)state;
	const struct search_options o = options(24, 2);
	struct search* s = open_search(&o);
	struct proposal proposal;
	for (int64_t window = 1; window <= 100; window++) {
		search_window(s, window, 16);
		assert_true(search_propose(s, &proposal));
		search_observe(s, &proposal, 8, 16);
	}
	assert_true(search_steps(s) >= 30);
	search_close(s);
}

/* A window that grows is one window: it cannot confirm twice. */
static void growing_windows(void** state) {
	(void)state;
	const struct search_options o = options(24, 2);
	struct search* s = open_search(&o);
	struct proposal proposal;
	for (int size = 8; size <= 256; size *= 2) {
		search_window(s, 1, size);
		for (int i = 0; i < 6 && search_propose(s, &proposal); i++)
			search_observe(s, &proposal, proposal.step ? size / 2 : size, size);
	}
	assert_int_equal(search_state(s), SEARCH_RUNNING);
	search_close(s);
}

static void adoption(void** state) {
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
	assert_true(search_propose(s, &proposal) && proposal.step == 1);

	const struct mask start = search_start_mask(24);
	search_adopt(s, &start);
	best = search_best(s, NULL);
	assert_true(mask_equal(&best, &start));
	assert_true(search_propose(s, &proposal));
	assert_true(mask_equal(&proposal.mask, &start));
	search_close(s);
}

/* Whatever a client sends is taken or ignored, never believed beyond reason. */
static void odd_observations(void** state) {
	(void)state;
	const struct search_options o = options(24, 2);
	struct search* s = open_search(&o);
	struct planted p;
	planted_make(&p, 24, 5);
	struct mask beyond = p.mask, all, none = {.word = {0}};
	mask_set(&beyond, 2 * 23, true);
	memset(&all, 0xff, sizeof all);
	search_observe_mask(s, &p.mask, 5, 0, 1);
	search_observe_mask(s, &p.mask, -1, 8, 1);
	search_observe_mask(s, &p.mask, 9, 8, 1);
	search_observe_mask(s, &p.mask, 5, INT32_MIN, 1);
	search_observe_mask(s, &p.mask, INT32_MAX, INT32_MAX, 1);
	search_observe_mask(s, &p.mask, 5, 8, -3);
	search_observe_mask(s, &beyond, 5, 8, 1);
	search_observe_mask(s, &all, 5, 8, 1);
	assert_true(isnan(search_expected(s))); /* nothing was taken */
	search_observe_mask(s, &none, 8, 8, INT64_MAX);
	struct proposal proposal = {.kind = PROPOSAL_BAYES, .mask = p.mask};
	search_observe(s, &proposal, 4, 8); /* before any window */
	search_window(s, 1, 0);
	search_window(s, 1, -5);
	search_window(s, -1, 32);
	assert_false(search_propose(s, &proposal));
	search_window(s, 1, 32);
	assert_true(search_propose(s, &proposal));
	search_observe(s, &proposal, 40, 33);
	assert_true(search_propose(s, &proposal));
	assert_int_equal(proposal.kind, PROPOSAL_START);
	/* More than is remembered: the oldest go, the incumbent stays. */
	observe_all(s, &proposal, 30);
	const struct mask best = search_best(s, NULL);
	for (int i = 0; i < 8000; i++) {
		struct mask mask = {.word = {0}};
		for (int bit = 0; bit < 16; bit++)
			mask_set(&mask, 2 + bit, i >> bit & 1);
		search_observe_mask(s, &mask, 3, 8, i % 7);
	}
	const struct mask still = search_best(s, NULL);
	assert_true(mask_equal(&best, &still));
	assert_true(search_propose(s, &proposal));
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

/* Where the costs say so, the search leaves the ratio: with MLPs dear and attention cheap to keep it skips
 * more MLPs than attentions, and what it finds is worth more than the planted mask of fixed size. */
static double speedup(const struct search_costs* c, const struct planted* p, const struct mask* mask) {
	double cost = c->fixed + p->blocks * (c->attention + c->mlp);
	for (int i = 0; i < p->dims; i++)
		cost -= mask_has(mask, i + 2) ? (i & 1 ? c->mlp : c->attention) : 0;
	const double a = planted_truth(p, mask);
	double best = 1, emitted = 1, reach = 1;
	for (int depth = 1; depth <= c->max_draft; depth++) {
		reach *= a;
		emitted += reach;
		best = fmax(best, emitted / (depth * cost + c->verify[depth + 1]));
	}
	return best;
}

static void speedup_objective(void** state) {
	(void)state;
	enum { SEEDS = 4 };
	struct search_costs costs = {.attention = 0.3 / 24, .mlp = 0.6 / 24, .fixed = 0.1, .max_draft = 8};
	for (int n = 1; n <= SLICE_ROWS; n++)
		costs.verify[n] = 1 + 0.04 * (n - 1);
	double mean = 0;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct planted p;
		planted_make(&p, 24, seed + 1);
		struct search_options o = options(24, seed + 2);
		o.skip_ratio = 0;
		o.max_matchness = 1;
		o.patience = 1000;
		struct search* s = open_search(&o);
		search_set_costs(s, &costs);
		run(s, &p, 15);
		const struct mask best = search_best(s, NULL), start = search_start_mask(24);
		const double found = speedup(&costs, &p, &best), planted = speedup(&costs, &p, &p.mask);
		printf("speed-up: start %.3f, planted %.3f, found %.3f with %d of %d skipped\n",
		       speedup(&costs, &p, &start), planted, found, mask_count(&best), p.dims);
		mean += found / planted / SEEDS;
		search_close(s);
	}
	assert_true(mean >= 0.93);
}

/* ---- influence ---------------------------------------------------------------------------- */

static void make_influence(double* influence, int blocks, uint64_t seed) {
	struct gp_random random = {seed};
	for (int i = 0; i < 2 * blocks; i++)
		influence[i] = 0.002 + 0.02 * gp_uniform(&random);
	influence[0] = influence[1] = 0; /* never skipped, however little they do */
}

/* The `size` least influential of those that may be skipped. */
static struct mask least_influential(const double* influence, int blocks, int size) {
	struct mask mask = {.word = {0}};
	for (int n = 0; n < size; n++) {
		int least = -1;
		for (int i = 2; i < 2 * blocks - 2; i++)
			if (!mask_has(&mask, i) && (least < 0 || influence[i] < influence[least]))
				least = i;
		mask_set(&mask, least, true);
	}
	return mask;
}

static void influence_orders(void** state) {
	(void)state;
	double influence[48], matchness;
	make_influence(influence, 24, 3);
	const struct search_options o = options(24, 1);
	struct search* s = open_search(&o);
	assert_true(isnan(search_expected(s)));
	search_set_influence(s, influence, 64);
	struct mask best = search_best(s, &matchness);
	struct mask expected = least_influential(influence, 24, 19);
	assert_true(mask_equal(&best, &expected));
	assert_true(isnan(matchness) && isnan(search_chosen_by(s)));
	assert_true(search_expected(s) > 0.3 && search_expected(s) < 1);
	/* better known: another order; a mask from outside stays */
	make_influence(influence, 24, 4);
	search_set_influence(s, influence, 128);
	best = search_best(s, NULL);
	expected = least_influential(influence, 24, 19);
	assert_true(mask_equal(&best, &expected));
	const struct mask start = search_start_mask(24);
	search_adopt(s, &start);
	search_set_influence(s, influence, 256);
	best = search_best(s, NULL);
	assert_true(mask_equal(&best, &start));
	/* NaN carries no information */
	influence[7] = NAN;
	const double before = search_expected(s);
	search_set_influence(s, influence, 64);
	assert_true(search_expected(s) == before);
	search_close(s);
}

/* Influence that reveals the planted set, as near as scores do: found before any score, kept after many. */
static void influence_is_a_prior(void** state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++) {
		struct planted p;
		planted_make(&p, 24, seed);
		double influence[48] = {0};
		struct gp_random random = {seed};
		for (int i = 0; i < p.dims; i++) /* costs, but that every fifth looks harmless */
			influence[i + 2] = i % 5 == 0 ? 1e-3 : 0.1 * p.cost[i] + 1e-3 * gp_uniform(&random);
		struct search_options o = options(24, seed);
		o.max_matchness = 1;
		o.max_steps = o.patience = 300;
		struct search* s = open_search(&o);
		search_set_influence(s, influence, 64);
		const struct mask first = search_best(s, NULL);
		run(s, &p, 15);
		const struct mask best = search_best(s, NULL);
		printf("seed %d: influence alone %.3f, after 300 proposals %.3f\n", (int)seed,
		       planted_truth(&p, &first), planted_truth(&p, &best));
		assert_true(planted_truth(&p, &first) > 0.7);
		assert_true(planted_truth(&p, &best) >= 0.95);
		search_close(s);
	}
}

/* ---- cost -------------------------------------------------------------------------------- */

static struct search_costs costs_of(int blocks, double slope) {
	struct search_costs costs = {
	    .attention = 0.3 / blocks, .mlp = 0.6 / blocks, .fixed = 0.1, .max_draft = 12};
	for (int n = 1; n <= SLICE_ROWS; n++)
		costs.verify[n] = 1 + slope * (n - 1);
	return costs;
}

/* Spans whose influence is the sum of their sub-layers'. */
static void report_spans(struct search* s, const double* influence, int blocks) {
	struct spans spans;
	assert_true(spans_open(&spans, blocks));
	spans.rows = 64;
	for (int i = 0; i < 2 * blocks; i++) {
		double sum = 0;
		for (int j = i + 1; j <= 2 * blocks; j++)
			spans.sum[i * (2 * blocks + 1) + j] = spans.rows * (sum += influence[j - 1]);
	}
	search_set_spans(s, &spans);
	spans_close(&spans);
}

/* The same influence, other costs: the size follows them, without a new score, and where rows are dear it is
 * said that nothing pays. */
static void costs_change_the_size(void** state) {
	(void)state;
	double influence[48];
	make_influence(influence, 24, 3);
	struct search_options o = options(24, 1);
	o.skip_ratio = 0;
	struct search* s = open_search(&o);
	assert_true(isnan(search_speedup(s)));
	search_set_influence(s, influence, 64);
	struct mask best = search_best(s, NULL);
	assert_int_equal(mask_count(&best), 19); /* no costs yet: r = 0.45 */
	/* Removal goes through sizes, the smaller the better, a sub-layer at a time. */
	struct search_costs costs = costs_of(24, 0);
	search_set_costs(s, &costs);
	report_spans(s, influence, 24);
	search_window(s, 1, WINDOW);
	struct proposal proposal;
	bool seen[45] = {false};
	int sizes = 0;
	for (int i = 0; i < 60 && search_propose(s, &proposal); i++) {
		const int size = mask_count(&proposal.mask);
		sizes += !seen[size];
		seen[size] = true;
		if (proposal.kind == PROPOSAL_REMOVAL)
			assert_true(size == 0 || seen[size - 1]);
		proposal.log_probability = -0.01 * size;
		observe_all(s, &proposal, 32 - size / 5);
	}
	assert_true(sizes >= 5);
	best = search_best(s, NULL);
	const int small = mask_count(&best);
	const double cheap = search_speedup(s);
	printf("free rows: %d skipped, speed-up %.2f\n", small, cheap);
	assert_true(cheap > 1.2);
	/* Drafting for a tenth of the cost makes size worthless: a draft step costs mostly what no mask saves.
	 */
	costs.attention /= 50;
	costs.mlp /= 50;
	search_set_costs(s, &costs);
	best = search_best(s, NULL);
	assert_true(mask_count(&best) < small);
	/* Rows that cost a plain step each: no mask pays, and that is said. */
	costs = costs_of(24, 1);
	search_set_costs(s, &costs);
	assert_true(search_speedup(s) <= 1);
	search_close(s);
}

/* Fixed by hand, the size stays whatever it costs. */
static void a_given_ratio_stays(void** state) {
	(void)state;
	double influence[48];
	make_influence(influence, 24, 3);
	struct search_options o = options(24, 1);
	struct search* s = open_search(&o);
	const struct search_costs costs = costs_of(24, 0.02);
	search_set_influence(s, influence, 64);
	search_set_costs(s, &costs);
	struct proposal proposal;
	search_window(s, 1, WINDOW);
	for (int i = 0; i < 30; i++) {
		assert_true(search_propose(s, &proposal));
		assert_int_equal(mask_count(&proposal.mask), 19);
		observe_all(s, &proposal, 20 + i % 5);
	}
	search_close(s);
}

/* ---- states with quantized draft weights ------------------------------------------------------------- */

/* Rounding does a hundredth of the damage that skipping does. */
struct rounded {
	double influence[48];
};

static double damage_of(const struct rounded* r, const struct mask* mask) {
	double sum = 0;
	for (int i = 0; i < 48; i++)
		sum += mask_has(mask, i) ? 1.35 * r->influence[i] : mask_stores(mask, i) ? 0 : 0.01 * r->influence[i];
	return sum;
}

static int matches_of(double damage) {
	return (int)lround(WINDOW * fmax(0, 1 - 0.8 * sqrt(damage) - 0.6 * damage));
}

static struct search* open_states(struct rounded* r, double quantized, const struct mask* first) {
	struct search_options o = options(24, 1);
	*r = (struct rounded){.influence = {0}};
	make_influence(r->influence, 24, 3);
	o.skip_ratio = 0;
	o.draft_bits = 4;
	o.head_quantized = true;
	for (int i = 0; i < 48; i++)
		mask_set(&o.quantized, i, true);
	struct search* s = open_search(&o);
	struct search_costs costs = costs_of(24, 0.02);
	costs.quantized_attention = quantized * costs.attention;
	costs.quantized_mlp = quantized * costs.mlp;
	costs.quantized_fixed = quantized * costs.fixed;
	if (first)
		search_adopt(s, first);
	search_set_influence(s, r->influence, 64);
	search_set_costs(s, &costs);
	search_window(s, 1, WINDOW);
	return s;
}

/* Draft weights arrive: where they are much cheaper all runs quantized and nothing is skipped, at once; where
 * they are no cheaper all is as it was. */
static void a_copy_is_taken_where_it_pays(void** state) {
	(void)state;
	struct rounded r;
	struct search* s = open_states(&r, 0.28, NULL);
	const struct mask before = search_best(s, NULL);
	const double without = search_speedup(s);
	assert_false(search_has_draft_weights(s));
	assert_true(mask_count(&before) > 0 && !mask_has_stored(&before));
	search_use_draft_weights(s);
	assert_true(search_has_draft_weights(s));
	struct mask best = search_best(s, NULL);
	assert_int_equal(mask_count(&best), 0);
	assert_false(mask_has_stored(&best));
	assert_true(search_speedup(s) > without);
	/* what is proposed then runs quantized as well, or names what does not */
	struct proposal p;
	for (int i = 0; i < 60 && search_propose(s, &p); i++) {
		const double damage = damage_of(&r, &p.mask);
		for (int b = 0; b < 48; b++)
			assert_false(mask_has(&p.mask, b) && mask_stores(&p.mask, b));
		search_observe(s, &p, matches_of(damage), WINDOW);
	}
	best = search_best(s, NULL);
	assert_true(mask_count(&best) <= 4);
	search_close(s);
	s = open_states(&r, 1, NULL);
	const struct mask kept = search_best(s, NULL);
	search_use_draft_weights(s);
	best = search_best(s, NULL);
	assert_int_equal(mask_count(&best), mask_count(&kept));
	for (int i = 0; i < 48; i++)
		assert_int_equal(mask_stores(&best, i), !mask_has(&kept, i));
	assert_true(best.stored_head);
	search_close(s);
}

/* Beside draft weights that are cheap there is nothing to look for, unless something can be skipped for next
 * to nothing; without one there always is. */
static void what_to_hope_for_beside_a_copy(void** state) {
	(void)state;
	struct rounded r;
	struct search* s = open_states(&r, 0.28, NULL);
	assert_false(search_hopeless(s));
	search_use_draft_weights(s);
	assert_true(search_hopeless(s));
	for (int i = 20; i < 32; i++)
		r.influence[i] = 1e-6;
	search_set_influence(s, r.influence, 128);
	assert_false(search_hopeless(s));
	search_close(s);
}

/* With draft weights by input channel nothing is searched before drafts run with them, then levels are, and
 * only in windows that may cost what they like. */
static void levels_are_searched_by_channel(void** state) {
	(void)state;
	struct search_options o = options(24, 1);
	struct search_costs costs = costs_of(24, 0.02);
	double influence[48];
	struct proposal p;
	o.skip_ratio = 0;
	o.draft_bits = 4;
	o.channels = true;
	o.levels = (struct levels){{{50, 50, 50, 75}, {50, 50, 50, 75}, {50, 50, 50, 75}}};
	for (int i = 0; i < 48; i++)
		mask_set(&o.quantized, i, true);
	make_influence(influence, 24, 3);
	struct search* s = open_search(&o);
	search_set_influence(s, influence, 64);
	search_set_costs(s, &costs);
	search_window(s, 1, WINDOW);
	struct mask best = search_best(s, NULL);
	assert_int_equal(mask_count(&best), 0);
	assert_false(search_propose(s, &p));
	for (int k = 0; k < COLUMN_KINDS; k++)
		costs.channel[k] = 0.25 * (costs.attention + costs.mlp) / COLUMN_KINDS;
	search_set_costs(s, &costs);
	search_use_draft_weights(s);
	assert_true(search_has_draft_weights(s) && search_waits(s) && isnan(search_speedup(s)));
	search_spend(s, false);
	assert_true(search_spares(s));
	search_spend(s, true);
	assert_false(search_spares(s));
	for (int i = 0; i < 40; i++) {
		assert_true(search_propose(s, &p));
		assert_int_equal(p.step, i);
		assert_true(i == 0 || p.mask.has_levels);
		p.log_probability = -0.5;
		search_observe(s, &p, WINDOW * 3 / 4, WINDOW);
	}
	assert_int_equal(search_steps(s), 39);
	assert_true(search_speedup(s) > 0);
	search_close(s);
}

/* What is given stays: skipped, and its choices for draft weights before there are some. */
static void a_given_mask_keeps_its_states(void** state) {
	(void)state;
	struct rounded r;
	struct mask given = {.word = {0}};
	mask_set(&given, 9, true);
	mask_store(&given, 4);
	given.stored_head = 1;
	struct search* s = open_states(&r, 0.28, &given);
	struct mask best = search_best(s, NULL);
	assert_true(mask_equal(&best, &given));
	search_use_draft_weights(s);
	best = search_best(s, NULL);
	assert_true(mask_equal(&best, &given));
	struct proposal p;
	assert_true(search_propose(s, &p));
	assert_true(mask_equal(&p.mask, &given));
	search_close(s);
}

/* ---- drafting's evidence ------------------------------------------------------------------ */

static void drafts_move_the_choice(void** state) {
	(void)state;
	const struct search_options o = options(24, 2);
	struct search* s = open_search(&o);
	struct proposal first, second;
	search_window(s, 1, WINDOW);
	assert_true(search_propose(s, &first));
	observe_all(s, &first, 26);
	assert_true(search_propose(s, &second));
	observe_all(s, &second, 26);
	const struct mask before = search_best(s, NULL);
	const double expected = search_expected(s);
	/* It is accepted far less often than its score promised. */
	for (int i = 0; i < 100; i++)
		search_see_draft(s, &before, 0.4, 2);
	const struct mask after = search_best(s, NULL);
	assert_false(mask_equal(&before, &after));
	assert_true(search_expected(s) <= expected + 0.02);
	/* Nonsense moves nothing. */
	search_see_draft(s, &after, NAN, 10);
	search_see_draft(s, &after, 11, 10);
	search_see_draft(s, &after, 0, INFINITY);
	search_see_draft(s, &after, -1, 10);
	const struct mask still = search_best(s, NULL);
	assert_true(mask_equal(&after, &still));
	search_close(s);
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
	double influence[48];
	make_influence(influence, 24, 1);
	search_set_influence(s, influence, 64); /* ignored */
	struct mask best = search_start_mask(24), ours = search_best(s, NULL);
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
		int rows;
		const int matches = planted_score(&p, &mask, window, WINDOW, 0, &rows);
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
		assert_int_equal(proposal.needed, 0);
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
	    cmocka_unit_test(start_mask),
	    cmocka_unit_test(bad_options),
	    cmocka_unit_test(finds_planted_models),
	    cmocka_unit_test(stops_near_the_planted_mask),
	    cmocka_unit_test(repeats_nothing),
	    cmocka_unit_test(small_spaces_end),
	    cmocka_unit_test(stopping_rules),
	    cmocka_unit_test(windows_rescore),
	    cmocka_unit_test(tight_budgets_still_search),
	    cmocka_unit_test(growing_windows),
	    cmocka_unit_test(adoption),
	    cmocka_unit_test(odd_observations),
	    cmocka_unit_test(repeats_with_its_seed),
	    cmocka_unit_test(speedup_objective),
	    cmocka_unit_test(influence_orders),
	    cmocka_unit_test(influence_is_a_prior),
	    cmocka_unit_test(costs_change_the_size),
	    cmocka_unit_test(a_given_ratio_stays),
	    cmocka_unit_test(a_copy_is_taken_where_it_pays),
	    cmocka_unit_test(what_to_hope_for_beside_a_copy),
	    cmocka_unit_test(levels_are_searched_by_channel),
	    cmocka_unit_test(a_given_mask_keeps_its_states),
	    cmocka_unit_test(drafts_move_the_choice),
	    cmocka_unit_test(published_steps),
	    cmocka_unit_test(published_rules),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
