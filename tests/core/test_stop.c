/* Stop rules, each against its paper's sentence; the threshold's two moving averages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/methods/stop.h"

/* Steps until the chain of these probabilities ends. */
static int steps(struct stopper* s, const float* chance, int n) {
	const char* why;
	stop_chain(s);
	for (int i = 0; i < n; i++)
		if (stop_after(s, chance[i], chance[i], &why))
			return i + 1;
	return n + 1;
}

static const float PROBABILITIES[] = {0.9f, 0.9f, 0.85f, 0.7f, 0.95f, 0.2f, 0.9f, 0.9f};
enum { N = sizeof PROBABILITIES / sizeof *PROBABILITIES };

static struct stopper stopper(enum stop_rule rule, float threshold, int most) {
	struct stopper s = {.rule = rule, .start = threshold, .most = most};
	stop_begin(&s);
	return s;
}

static void each_rule_ends_at_its_threshold(void** state) {
	(void)state;
	struct stopper s = stopper(STOP_FIXED, 0.8f, 5);
	assert_int_equal(steps(&s, PROBABILITIES, N), 5);
	s = stopper(STOP_MARGINAL, 0.8f, 25);
	assert_int_equal(steps(&s, PROBABILITIES, N), 4); /* 0.7 is the first under it, and is kept */
	s = stopper(STOP_PRODUCT, 0.8f, 25);
	assert_int_equal(steps(&s, PROBABILITIES, N), 3); /* 0.81, then 0.6885 */
	s = stopper(STOP_PROBE, 0.5f, 25);
	assert_int_equal(steps(&s, PROBABILITIES, N), 4);
	s = stopper(STOP_MARGINAL, 0.1f, 25);
	assert_int_equal(steps(&s, PROBABILITIES, N), N + 1);
	s = stopper(STOP_MARGINAL, 0.1f, 3);
	assert_int_equal(steps(&s, PROBABILITIES, N), 3);
}

static void kangaroo_stops_at_its_threshold_too(void** state) {
	(void)state;
	const float equal[] = {0.9f, 0.6f, 0.9f};
	struct stopper s = stopper(STOP_MARGINAL, 0.6f, 6);
	assert_int_equal(steps(&s, equal, 3), 4);
	s.at_most = true;
	assert_int_equal(steps(&s, equal, 3), 2);
}

static void gain_reads_its_policy(void** state) {
	(void)state;
	struct draft_policy policy = {.max_steps = 8};
	for (int bin = 0; bin < DRAFT_BINS; bin++)
		policy.accept[bin] = 0.5f;
	for (int d = 0; d <= MAX_DRAFT; d++)
		policy.min_reach[d] = 0.2f;
	struct stopper s = stopper(STOP_GAIN, 0, 25);
	s.policy = &policy;
	assert_int_equal(steps(&s, PROBABILITIES, N), 3); /* 0.5, 0.25, 0.125 */
}

static void the_threshold_follows_acceptance(void** state) {
	(void)state;
	struct stopper s = stopper(STOP_PRODUCT, 0.8f, 25);
	s.adapts = true;
	stop_learn(&s, 4, 4); /* AR 0.5 <= 0.9: up by a tenth of 0.01 */
	assert_float_equal(s.average, 0.5f, 1e-6);
	assert_float_equal(s.threshold, 0.801f, 1e-6);
	for (int i = 0; i < 4; i++)
		stop_learn(&s, 4, 4);
	assert_true(s.average > 0.9f); /* 0.96875 */
	const float before = s.threshold;
	stop_learn(&s, 4, 4);
	assert_float_equal(s.threshold, before - 0.001f, 1e-6);
	stop_learn(&s, 0, 0); /* nothing was drafted, nothing is learned */
	assert_float_equal(s.threshold, before - 0.001f, 1e-6);
	stop_begin(&s);
	assert_float_equal(s.threshold, 0.8f, 1e-6);
	assert_float_equal(s.average, 0, 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_rule_ends_at_its_threshold),
	    cmocka_unit_test(kangaroo_stops_at_its_threshold_too),
	    cmocka_unit_test(gain_reads_its_policy),
	    cmocka_unit_test(the_threshold_follows_acceptance),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
