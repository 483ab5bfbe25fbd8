/* Promise 3, never slower, with an injected clock: whatever the draft does, the balance stays above its
 * floor and long runs take at most 2 % longer than plain decoding; a good draft is made use of. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka wants the ones above */
#include <cmocka.h>

#include "tests/optimizer/support_fake.h"

/* Right at the first step, then sure and wrong: every round is as costly as it can be. */
static bool lures(struct fake* fake, int position, float* probability) {
	(void)position;
	*probability = 0.97f;
	return fake->cache.pending < 1;
}

/* Earns trust for a while, then betrays it. */
static bool turns(struct fake* fake, int position, float* probability) {
	(void)fake;
	*probability = 0.9f;
	return position / 300 % 2 == 0;
}

static bool flips_coins(struct fake* fake, int position, float* probability) {
	(void)position;
	*probability = (float)(fake_random(fake) % 100) / 100;
	return fake_random(fake) % 2;
}

/* Layers cannot be left out, but rounded. */
static bool right_when_quantized(struct fake* fake, int position, float* probability) {
	(void)position;
	*probability = 0.95f;
	return fake->quantized ? fake_random(fake) % 20 != 0 : fake_random(fake) % 2;
}

struct run {
	double worst;          /* least balance over floor, in plain steps */
	double slowdown, rate; /* against plain decoding on the same clock, however that swings */
	double learned;        /* spent on learning, in plain steps */
	struct swiftlet_figures figures;
};

/* join: the token from which on there are quantized draft weights whose steps cost quantized_c; 0: never. */
static struct run run_joined(struct fake* fake, const char* const* option, int tokens, int join,
                             double quantized_c) {
	struct swiftlet_options options;
	char message[256];
	options_default(&options);
	for (; option && option[0]; option += 2)
		assert_int_equal(swiftlet_options_set(&options, option[0], option[1], message, sizeof message), 1);
	if (join > 0)
		fake_plan_draft_weights(fake);
	struct session* session = fake_session(fake, &options);
	assert_non_null(session);
	const int32_t prompt[] = {1, 2, 3};
	struct swiftlet_request request;
	swiftlet_request_default(&request, &options);
	request.prompt = prompt;
	request.n_prompt = 3;
	request.max_tokens = tokens;
	assert_true(swiftlet_session_start(session, &request, message, sizeof message));
	struct swiftlet_step step;
	struct run result = {.worst = INFINITY};
	int n = 0;
	double start = 0;
	do {
		const int known = cost_rows_known(&fake->engine.cost);
		assert_true(swiftlet_session_step(session, &step, message, sizeof message));
		/* the planner makes no leap into rows that nobody has measured */
		assert_true(session->driver || session->planner.tree.n <= 2 * known);
		for (int i = 0; i < step.n; i++, n++)
			assert_int_equal(step.token[i].id, fake_truth(3 + n));
		if (n == 1)
			start = fake->work;
		if (join > 0 && n >= join && !engine_draft_weights(&fake->engine))
			fake_join_draft_weights(fake, quantized_c);
		const double margin = session->budget->balance - budget_floor(session->budget);
		result.worst = margin < result.worst ? margin : result.worst;
		if (n > 512) {
			const double slowdown = (fake->work - start) / (n - 1);
			result.slowdown = slowdown > result.slowdown ? slowdown : result.slowdown;
		}
	} while (step.stop == SWIFTLET_RUNNING);
	assert_int_equal(n, tokens);
	result.rate = (n - 1) / (fake->work - start);
	result.learned = session->budget->learned;
	session_figures(session, &result.figures);
	swiftlet_session_close(session);
	return result;
}

static struct run run(struct fake* fake, const char* const* option, int tokens) {
	return run_joined(fake, option, tokens, 0, 0);
}

static void test_adversaries(void** state) {
	(void)state;
	static const struct {
		const char* name;
		bool (*right)(struct fake*, int, float*);
	} adversary[] = {
	    {"always wrong", fake_always_wrong}, {"lures", lures}, {"turns", turns}, {"coins", flips_coins}};
	static const char* const ratios[] = {"0.3", "0.45", "0.6"};
	for (size_t i = 0; i < sizeof adversary / sizeof adversary[0]; i++)
		for (size_t r = 0; r < 3; r++)
			for (int noisy = 0; noisy < 2; noisy++) {
				/* alone, and beside drafters that find the fake text's own repetitions */
				const char* const who = r == 2 ? "all" : "mask";
				struct fake fake;
				fake_open(&fake, adversary[i].right, 1 - atof(ratios[r]) * 0.9, noisy ? 0.1 : 0.02);
				fake.noise = noisy ? 0.1 : 0;
				fake.random = i * 7 + r;
				const char* const options[] = {"skip-ratio", ratios[r], "drafters", who, NULL};
				const struct run result = run(&fake, options, 3000);
				printf("%-12s r %s %s, %s: least margin %.2f steps, worst slowdown %.4f, rate %.3f\n",
				       adversary[i].name, ratios[r], noisy ? "noisy" : "exact", who, result.worst,
				       result.slowdown, result.rate);
				/* costs are running means: with noise in the clock one pass may exceed its worst case */
				assert_true(result.worst >= (noisy ? -1.0 : -1e-6));
				assert_true(result.slowdown <= (noisy ? 1.03 : 1.0201));
				fake_close(&fake);
			}
}

/* A model with recurrent blocks takes the accepted rows once more when they are committed. The account of a
 * round holds this time, whatever the drafts are like, and where it is bearable good drafts pay. */
static void test_rows_that_are_taken_again(void** state) {
	(void)state;
	static const struct {
		const char* name;
		bool (*right)(struct fake*, int, float*);
	} draft[] = {{"always wrong", fake_always_wrong},
	             {"lures", lures},
	             {"turns", turns},
	             {"coins", flips_coins},
	             {"always right", fake_always_right}};
	for (size_t i = 0; i < sizeof draft / sizeof draft[0]; i++)
		for (int dear = 0; dear < 2; dear++) {
			struct fake fake;
			fake_open(&fake, draft[i].right, 0.6, 0.02);
			fake.again = dear ? 0.5 : 0.05;
			fake.random = i;
			const char* const options[] = {"skip-ratio", "0.45", "drafters", "mask", NULL};
			const struct run result = run(&fake, options, 3000);
			printf("%-12s, %.2f again: least margin %.2f steps, worst slowdown %.4f, rate %.3f\n",
			       draft[i].name, fake.again, result.worst, result.slowdown, result.rate);
			assert_true(result.worst >= -1e-6);
			assert_true(result.slowdown <= 1.03);
			assert_true(draft[i].right != fake_always_right || dear || result.rate > 1.25);
			fake_close(&fake);
		}
}

/* The rounds of a method whose drafter decides alone hold this time, too. */
static void test_methods_take_rows_again(void** state) {
	(void)state;
	static const char* const methods[] = {"uniform", "random", "jacobi"};
	for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
		struct fake fake;
		fake_open(&fake, fake_always_right, 0.6, 0.02);
		fake.again = 0.5;
		const char* const options[] = {"method", methods[i], NULL};
		const struct run result = run(&fake, options, 600);
		const double rounds = result.figures.seconds.plain + result.figures.seconds.draft +
		                      result.figures.seconds.verify + result.figures.seconds.optimize;
		printf("%-9s: rounds account for %.2f of %.2f seconds, %d tokens accepted\n", methods[i], rounds,
		       result.figures.seconds.decode, (int)result.figures.accepted);
		assert_true(fabs(rounds - result.figures.seconds.decode) < 1e-6);
		fake_close(&fake);
	}
}

/* Plain steps on a machine that was busy make a plain step look long. A round of drafts that are all wrong
 * still loses no more time than it takes. */
static void test_a_round_loses_at_most_its_time(void** state) {
	(void)state;
	struct fake fake;
	struct swiftlet_options options;
	char message[256];
	fake_open(&fake, fake_always_wrong, 0.5, 0.05);
	options_default(&options);
	options.drafting.drafters = 1u << SOURCE_mask;
	options.drafting.when = SWIFTLET_DRAFT_ALWAYS;
	struct session* session = fake_session(&fake, &options);
	const int32_t prompt[] = {1, 2, 3};
	struct swiftlet_request request;
	swiftlet_request_default(&request, &options);
	request.prompt = prompt;
	request.n_prompt = 3;
	request.max_tokens = 100;
	for (int busy = 0; busy < 2; busy++) { /* the first generation shows what drafts and rows cost */
		struct swiftlet_figures figures;
		struct swiftlet_step step;
		assert_true(swiftlet_session_start(session, &request, message, sizeof message));
		do {
			assert_true(swiftlet_session_step(session, &step, message, sizeof message));
			session_figures(session, &figures);
			for (int i = 0; busy && figures.full_passes == 0 && i < 30; i++)
				cost_see_full(&fake.engine.cost, 1, 40, 0);
		} while (step.stop == SWIFTLET_RUNNING && !(busy && figures.verify_passes > 0));
		printf("%s: lost %.2f of %.2f s in rounds that saved %.2f s\n", busy ? "busy" : "quiet",
		       figures.seconds_lost, figures.seconds.draft + figures.seconds.verify, figures.seconds_saved);
		assert_true(figures.seconds_lost > 0 && figures.seconds_saved == 0);
		assert_true(figures.seconds_lost < figures.seconds.draft + figures.seconds.verify);
	}
	swiftlet_session_close(session);
	fake_close(&fake);
}

static void test_good_draft_pays(void** state) {
	(void)state;
	struct fake fake;
	fake_open(&fake, fake_always_right, 0.6, 0.02);
	/* one size: the fake's drafts cost the same whatever is skipped */
	const char* const options[] = {"skip-ratio", "0.45", "drafters", "mask", NULL};
	const struct run result = run(&fake, options, 2000);
	printf("always right: rate %.3f\n", result.rate);
	assert_true(result.worst >= -1e-6);
	assert_true(result.rate > 1.35); /* 26 tokens for 25·0.6 + 1.5 would be 1.57 */
	fake_close(&fake);
}

/* If rows are dear and masks prove wrong, learning ends, and costs little for the rest of the text: of what
 * it may spend, 1 % of plain time, at most a fifth. Some coins fall so that a mask looks right for long. */
static void test_learning_ends_where_no_mask_may_pay(void** state) {
	(void)state;
	enum { COINS = 12, SHORTER = 3000 };
	double learned[2] = {0, 0};
	for (int coins = 0; coins < COINS; coins++)
		for (int longer = 0; longer < 2; longer++) {
			struct fake fake;
			fake_open(&fake, flips_coins, 0.6, 0.2);
			fake.random = (uint64_t)coins;
			const char* const options[] = {"skip-ratio", "0.45", "drafters", "mask", NULL};
			learned[longer] += run(&fake, options, (1 + longer) * SHORTER).learned;
			fake_close(&fake);
		}
	printf("learned: %.2f, %.2f steps\n", learned[0], learned[1]);
	assert_true(learned[0] > 0 && learned[1] - learned[0] < 0.2 * 0.01 * COINS * SHORTER);
}

/* Draft weights are no way around the budget, whatever they guess, and however slow they prove. */
static void test_adversaries_with_a_copy(void** state) {
	(void)state;
	static bool (*const right[])(struct fake*, int, float*) = {fake_always_wrong, lures, turns, flips_coins};
	for (size_t i = 0; i < sizeof right / sizeof right[0]; i++)
		for (int dear = 0; dear < 2; dear++) {
			struct fake fake;
			fake_open(&fake, right[i], 0.6, dear ? 0.1 : 0.02);
			fake.random = i;
			const char* const options[] = {"drafters", dear ? "all" : "mask", NULL};
			const struct run result = run_joined(&fake, options, 3000, 300, dear ? 0.95 : 0.3);
			printf("copy at %.1f, adversary %zu: least margin %.2f steps, worst slowdown %.4f, rate %.3f\n",
			       fake.quantized_c, i, result.worst, result.slowdown, result.rate);
			assert_true(result.worst >= -1e-6);
			assert_true(result.slowdown <= 1.0215);
			fake_close(&fake);
		}
}

/* Draft weights that pay are used soon after they are ready, where nothing else pays. */
static void test_a_copy_pays(void** state) {
	(void)state;
	struct fake fake;
	fake_open(&fake, right_when_quantized, 0.6, 0.02);
	const char* const options[] = {"drafters", "mask", NULL};
	const struct run result = run_joined(&fake, options, 2000, 200, 0.3);
	printf("a copy at token 200 of 2000: rate %.3f\n", result.rate);
	assert_true(result.worst >= -1e-6);
	assert_true(result.rate > 1.4); /* chains of eight would be 2.0 */
	fake_close(&fake);
}

/* Memory whose speed swings: plain steps and verify passes are measured at different moments, which may
 * neither end drafting that pays nor begin drafting that does not. */
static void test_swinging_clock(void** state) {
	(void)state;
	static const struct {
		const char* name;
		bool (*right)(struct fake*, int, float*);
		double slope;
	} draft[] = {{"right", fake_always_right, 0.02},
	             {"right, rows dear", fake_always_right, 0.1},
	             {"coins", flips_coins, 0.05},
	             {"coins, rows dear", flips_coins, 0.2},
	             {"wrong", fake_always_wrong, 0.05},
	             {"lures", lures, 0.05},
	             {"turns", turns, 0.05}};
	static const double period[] = {0, 20, 100, 500};
	for (size_t i = 0; i < 2 * sizeof draft / sizeof draft[0]; i++) {
		const size_t d = i / 2;
		double steady = 0;
		for (size_t k = 0; k < sizeof period / sizeof period[0]; k++) {
			struct fake fake;
			fake_open(&fake, draft[d].right, 0.6, draft[d].slope);
			fake.random = d;
			fake.swing = 1.6;
			fake.period = period[k];
			fake.memory = i % 2;
			/* no proposals: their thread's answers come at some time or other */
			const char* const options[] = {"skip-ratio", "0.45", "drafters", "mask", "max-steps", "0", NULL};
			const struct run result = run(&fake, options, 3000);
			printf("%-16s %s every %3.0f steps: rate %.3f, worst slowdown %.4f\n", draft[d].name,
			       fake.memory ? "memory swings" : "all swings   ", period[k], result.rate, result.slowdown);
			if (k == 0)
				steady = result.rate;
			assert_true(result.slowdown <= 1.03);
			assert_true(result.rate >= 0.98);
			assert_true(result.rate >= 0.82 * steady);
			fake_close(&fake);
		}
	}
}

static void test_accounts(void** state) {
	(void)state;
	struct speculation_budget budget;
	budget_open(&budget, -1); /* the default */
	assert_float_equal(budget_floor(&budget), -3.5, 1e-12);
	assert_float_equal(budget_round_limit(&budget), 4.5, 1e-12);
	assert_false(budget_allows_learning(&budget, 1)); /* its share of nothing */
	for (int i = 0; i < 1000; i++)
		budget_round(&budget, 1, 1);
	assert_float_equal(budget_floor(&budget), -13.5, 1e-12);
	budget_round(&budget, 10, 1);
	assert_float_equal(budget.balance, -9, 1e-12);
	/* a draft that lost does not stop learning … */
	assert_true(budget_allows_learning(&budget, 10));
	assert_false(budget_allows_learning(&budget, 10.1));
	budget_learn(&budget, 10);
	assert_false(budget_allows_learning(&budget, 0.1));
	/* half of what was earned is learning's too, up to the advance */
	budget_round(&budget, 1, 20);
	assert_float_equal(budget.balance, 10, 1e-12);
	assert_true(budget_allows_learning(&budget, 5));
	assert_false(budget_allows_learning(&budget, 5.3));
	budget_learn(&budget, 5.2);
	assert_true(fabs(budget.balance - 5.01) < 1e-9); /* … which it takes for good */
	budget_round(&budget, 15, 1);
	assert_true(fabs(budget.balance + 8.99) < 1e-9);
	/* and what was learned at a loss does not stop a draft that pays */
	budget_learn(&budget, 1000);
	assert_true(fabs(budget.balance + 8.99) < 1e-9);
	budget_round(&budget, 10, 40);
	assert_true(fabs(budget_round_limit(&budget) - 36.13) < 1e-9);
	/* a share that was given is all there is */
	budget_open(&budget, 0.5);
	budget_round(&budget, 10, 40);
	assert_true(budget_allows_learning(&budget, 20));
	assert_false(budget_allows_learning(&budget, 20.1));
	budget_learn(&budget, 20);
	assert_float_equal(budget.balance, 30, 1e-12);
}

/* Draft weights are paid for with what drafting has earned, or else by learning's share. */
static void test_making_a_copy(void** state) {
	(void)state;
	struct speculation_budget budget;
	budget_open(&budget, -1);
	/* not before as many tokens as it takes steps */
	for (int i = 0; i < 40; i++) {
		assert_false(budget_allows_making(&budget, 1, 40, 40, 1000));
		budget_round(&budget, 1, 1);
	}
	/* ahead of time; it may take half as much again as was thought */
	assert_true(budget_allows_making(&budget, 1, 40, 40, 1000));
	/* in requests that can bring in what is left of it */
	assert_true(budget_allows_making(&budget, 1, 20, 20, 60));
	assert_false(budget_allows_making(&budget, 1, 20, 20, 59));
	assert_true(budget_allows_making(&budget, 1, 20, 5, 15));
	/* or after requests that were long enough together, however short this one is */
	assert_true(budget_allows_making(&budget, 1, 20, 13, 1));
	assert_false(budget_allows_making(&budget, 1, 20, 13.4, 1));
	assert_false(budget_allows_making(&budget, 1, 41, 10, 1));
	assert_false(budget_allows_learning(&budget, 0.5));
	budget_make(&budget, 71, 40);
	assert_float_equal(budget.balance, 0, 1e-12);
	assert_true(budget_allows_making(&budget, 1, 40, 40, 1000));
	assert_false(budget_allows_making(&budget, 1.1, 40, 40, 1000));
	for (int i = 0; i < 7260; i++)
		budget_round(&budget, 1, 1);
	/* then learning's share, and half of what drafting has earned */
	assert_true(budget_allows_making(&budget, 2, 25, 25, 1000));
	assert_false(budget_allows_making(&budget, 2.1, 25, 25, 1000));
	budget_make(&budget, 2, 25);
	assert_false(budget_allows_making(&budget, 0.1, 25, 25, 1000));
	assert_false(budget_allows_learning(&budget, 0.1));
	budget_round(&budget, 1, 9);
	assert_true(budget_allows_making(&budget, 4, 25, 25, 1000));
	assert_false(budget_allows_making(&budget, 4.2, 25, 25, 1000));
	budget_make(&budget, 4, 25);
	assert_float_equal(budget.balance, 4, 1e-12);
	assert_float_equal(budget.learned, 73, 1e-12);
	/* what takes long has learning's share, whatever drafting has earned */
	budget_open(&budget, -1);
	budget_round(&budget, 40, 100);
	assert_true(budget_allows_making(&budget, 1, 48, 48, 1000));
	assert_true(budget_allows_making(&budget, 1, 49, 49, 1000));
	budget_make(&budget, 1, 49);
	assert_float_equal(budget.balance, 60, 1e-12);
	assert_false(budget_allows_making(&budget, 1, 49, 48, 1000));
	assert_true(budget_allows_making(&budget, 1, 48, 48, 1000));
	/* or a third of the time of all requests */
	budget_round(&budget, 92, 92);
	assert_true(budget_allows_making(&budget, 3, 49, 64, 1));
	assert_false(budget_allows_making(&budget, 3, 49, 64.1, 1));
	budget_make(&budget, 61, 49);
	assert_true(budget_allows_making(&budget, 2, 49, 2, 1));
	assert_false(budget_allows_making(&budget, 2.1, 49, 2, 1));
	/* drafts that lost do not keep a model from its draft weights: learning has a share of its own */
	budget_open(&budget, 0.1);
	budget_round(&budget, 110, 100);
	assert_true(budget_allows_making(&budget, 10, 100, 100, 0));
	budget_open(&budget, 0);
	budget_round(&budget, 100, 100);
	assert_false(budget_allows_making(&budget, 1, 1, 1, 1000));
}

/* Search debt, however large, leaves drafting alone: a draft that pays is made use of beside a search without
 * a budget, and the text is decoded faster than plainly but for what the search itself takes. */
static void test_learning_stops_no_draft(void** state) {
	(void)state;
	struct fake fake;
	fake_open(&fake, fake_always_right, 0.6, 0.2);
	const char* const options[] = {"opt-budget", "0.5", "drafters", "mask", NULL};
	const struct run result = run(&fake, options, 3000);
	printf("budget 0.5: rate %.3f, %lld scored\n", result.rate, (long long)fake.scored);
	assert_true(result.worst >= -1e-6);
	assert_true(fake.drafts > 1000);
	fake_close(&fake);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_accounts),
	                                   cmocka_unit_test(test_making_a_copy),
	                                   cmocka_unit_test(test_swinging_clock),
	                                   cmocka_unit_test(test_adversaries),
	                                   cmocka_unit_test(test_rows_that_are_taken_again),
	                                   cmocka_unit_test(test_methods_take_rows_again),
	                                   cmocka_unit_test(test_adversaries_with_a_copy),
	                                   cmocka_unit_test(test_a_copy_pays),
	                                   cmocka_unit_test(test_learning_stops_no_draft),
	                                   cmocka_unit_test(test_a_round_loses_at_most_its_time),
	                                   cmocka_unit_test(test_good_draft_pays),
	                                   cmocka_unit_test(test_learning_ends_where_no_mask_may_pay)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
