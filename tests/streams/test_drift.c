/* The change test: its false alarms and its delay, by simulation. */
#include "streams/memory/drift.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static uint64_t state;
static double uniform(void) { /* splitmix64 */
	uint64_t z = (state += 0x9E3779B97F4A7C15u);
	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
	return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* One round of drafting: up to 6 steps, stopped by the first failure. */
static bool round_of(struct drift* d, double p, int* trials) {
	const int steps = 1 + (int)(uniform() * 6);
	int accepted = 0;
	while (accepted < steps && uniform() < p)
		accepted++;
	*trials += accepted + (accepted < steps);
	return drift_add(d, accepted, steps);
}

static struct drift fresh(void) {
	struct drift d;
	drift_open(&d);
	return d;
}

static void false_alarms_are_rare(void** unused) {
	(void)unused;
	const double levels[] = {0.5, 0.7, 0.8, 0.9, 0.97};
	for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
		state = 11 + i;
		struct drift d = fresh();
		int trials = 0;
		while (trials < 500000)
			round_of(&d, levels[i], &trials);
		const double per = 1e4 * (double)d.drifts / trials;
		printf("acceptance %.2f: %.2f drifts per 10,000 trials\n", levels[i], per);
		assert_true(per < 0.3);
	}
}

/* Acceptance that differs from instance to instance (sd 0.08), as real text's does: no one turn. */
static void uneven_text_is_no_drift(void** unused) {
	(void)unused;
	state = 99;
	struct drift d = fresh();
	int trials = 0;
	while (trials < 300000) {
		const double p = fmin(0.98, 0.8 + 0.08 * (uniform() + uniform() + uniform() + uniform() - 2) * 1.73);
		for (int until = trials + 80; trials < until;)
			round_of(&d, p, &trials);
	}
	const double per = 1e4 * (double)d.drifts / trials;
	printf("uneven text: %.2f drifts per 10,000 trials\n", per);
	assert_true(per < 1.0);
}

static int compare(const void* a, const void* b) { return *(const int*)a - *(const int*)b; }

static void delay(double before, double after, int limit, bool expected) {
	enum { RUNS = 401 };
	static int delays[RUNS];
	for (int run = 0; run < RUNS; run++) {
		struct drift d = fresh();
		int trials = 0;
		if (expected)
			drift_expect(&d, 512 * before, 512);
		else
			while (trials < 400)
				round_of(&d, before, &trials);
		trials = 0;
		while (trials < 5000 && !round_of(&d, after, &trials))
			;
		delays[run] = trials;
	}
	qsort(delays, RUNS, sizeof *delays, compare);
	printf("%.2f -> %.2f%s: noticed after %d trials (median), %d (90 %%)\n", before, after,
	       expected ? " (baseline from the bank)" : "", delays[RUNS / 2], delays[RUNS * 9 / 10]);
	assert_true(delays[RUNS / 2] <= limit);
}

static void turns_are_noticed_soon(void** unused) {
	(void)unused;
	state = 5;
	delay(0.9, 0.6, 60, false);
	delay(0.9, 0.6, 60, true);
	delay(0.95, 0.5, 40, false);
	delay(0.8, 0.5, 120, false);
}

static void a_rise_is_no_fall(void** unused) {
	(void)unused;
	state = 3;
	struct drift d = fresh();
	int trials = 0;
	while (trials < 400)
		round_of(&d, 0.6, &trials);
	while (trials < 3000)
		assert_false(round_of(&d, 0.95, &trials));
	assert_true(d.successes > 0.9 * d.trials); /* the baseline follows */
}

static void odd_input(void** unused) {
	(void)unused;
	struct drift d = fresh();
	assert_false(drift_add(&d, 0, 0));
	assert_int_equal(d.trials_seen, 0);
	drift_expect(&d, 5, 0);
	assert_true(d.trials == 0);
	drift_expect(&d, 7, 5); /* more successes than trials: refused */
	assert_true(d.trials == 0);
	drift_expect(&d, 1e9, 1e9); /* a baseline of 1: still a test, never a NaN */
	for (int i = 0; i < 200; i++)
		drift_add(&d, 0, 1);
	assert_true(d.drifts >= 1);
	assert_true(d.cusum >= 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(false_alarms_are_rare),
	    cmocka_unit_test(uneven_text_is_no_drift),
	    cmocka_unit_test(turns_are_noticed_soon),
	    cmocka_unit_test(a_rise_is_no_fall),
	    cmocka_unit_test(odd_input),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
