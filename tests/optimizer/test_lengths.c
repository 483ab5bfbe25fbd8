/* Costs that know the text's length, in simulated sessions: requests of several lengths take turns on one
 * engine whose attention takes most of the time after long texts. At the first round of each the costs are
 * those of the machine, at each length long answers take at most 2 % longer than plain decoding, and a good
 * draft pays. */
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

enum { LONGEST = 20000, TOKENS = 600 };

static const double C = 0.5, SLOPE = 0.05;

static double pass_seconds(const struct fake* fake, int tokens, int rows) {
	return 1 + SLOPE * (rows - 1) + fake_attention(fake, tokens, rows);
}

struct run {
	double rate; /* against plain decoding of the same tokens */
	double off;  /* the largest deviation of v(n) from the machine's at the first round, n measured lately */
	double plain_off; /* of a plain step's seconds there */
};

static void compare_costs(const struct fake* fake, int tokens, struct run* out) {
	const struct cost_model* cost = &fake->engine.cost;
	const double plain = pass_seconds(fake, tokens, 1);
	out->plain_off = fabs(cost_plain_seconds(cost) / plain - 1);
	for (int knot = 0; cost->rows[knot].rows <= 8; knot++) {
		const struct recent* r = &cost->rows[knot];
		const int n = r->rows;
		const double v = pass_seconds(fake, tokens, n) / plain;
		if (r->n > 0 && cost->passes - r->last <= r->trust)
			out->off = fmax(out->off, fabs(cost_verify(cost, n) / v - 1));
	}
}

/* One request. first: costs are those of no earlier request. */
static struct run answer(struct fake* fake, struct session* session, int n_prompt, bool first) {
	static int32_t prompt[LONGEST];
	char message[256];
	struct swiftlet_request request;
	swiftlet_request_default(&request, &session->options);
	for (int i = 0; i < n_prompt; i++)
		prompt[i] = fake_truth(i);
	request.prompt = prompt;
	request.n_prompt = n_prompt;
	request.max_tokens = TOKENS;
	assert_true(swiftlet_session_start(session, &request, message, sizeof message));
	struct swiftlet_step step;
	struct run result = {0};
	double plain = 0, began = 0;
	int n = 0;
	do {
		assert_true(swiftlet_session_step(session, &step, message, sizeof message));
		for (int i = 0; i < step.n; i++)
			assert_int_equal(step.token[i].id, fake_truth(n_prompt + n + i));
		if (n == 0 && step.n > 0) { /* the prompt is done */
			began = fake->work;
			session_set_length(session);
			if (!first)
				compare_costs(fake, n_prompt, &result);
		} else {
			for (int i = 0; i < step.n; i++)
				plain += pass_seconds(fake, n_prompt + n + i - 1, 1);
		}
		n += step.n;
	} while (step.stop == SWIFTLET_RUNNING);
	result.rate = plain / (fake->work - began);
	return result;
}

static void answer_in_turns(bool (*right)(struct fake*, int, float*), double least_rate) {
	static const int lengths[] = {200, 16000, 200, 6000, 60, 16000, 1000};
	struct fake fake;
	fake_open(&fake, right, C, SLOPE);
	fake_set_attention(&fake, 1.5, 0.15);
	struct swiftlet_options options;
	options_default(&options);
	char message[256];
	assert_int_equal(swiftlet_options_set(&options, "drafters", "mask", message, sizeof message), 1);
	options.cache.context = LONGEST;
	struct session* session = fake_session(&fake, &options);
	assert_non_null(session);
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		const struct run r = answer(&fake, session, lengths[i], i == 0);
		printf("%5d tokens: rate %.3f; at the first round v is off by %.3f, a plain step by %.3f\n",
		       lengths[i], r.rate, r.off, r.plain_off);
		assert_true(r.rate >= least_rate);
		/* before a long text bytes judge, and this machine's attention takes half as long again */
		assert_true(i <= 1 || r.plain_off < 0.01);
		assert_true(i <= 1 || r.off < 0.05);
	}
	swiftlet_session_close(session);
	fake_close(&fake);
}

static void wrong_drafts_cost_little(void** state) {
	(void)state;
	answer_in_turns(fake_always_wrong, 0.98);
}

static void right_drafts_pay_at_each_length(void** state) {
	(void)state;
	answer_in_turns(fake_always_right, 1.15);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(wrong_drafts_cost_little),
	    cmocka_unit_test(right_drafts_pay_at_each_length),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
