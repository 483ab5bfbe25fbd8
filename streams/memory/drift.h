/* Detects drift of the text: a change test on the acceptance of each verify pass.
 *
 * A round that drafts d steps and keeps a of them is a run of Bernoulli trials that stops at the first
 * failure: min(a + 1, d) trials, and one failure when a < d. On these trials runs Page's cumulative sum (Page
 * 1954; Page-Hinkley is its mean-shift form) of the log likelihood ratio between the baseline acceptance and
 * one whose odds are four times lower. The baseline is learned from the first trials, or the bank gives it,
 * and it remembers the last thousand. While it is uncertain, the test uses it with one standard error on the
 * safe side. The ratio is divided by the measured dispersion of blocks of 32 trials, because trials of real
 * text are not independent (quasi-likelihood).
 *
 * False alarms, simulated by tests/streams/test_drift.c with the defaults (baseline learned): at most 0.3
 * drifts per 10,000 trials where acceptance is constant between 0.5 and 0.97, 0.4 where it differs from
 * instance to instance (sd 0.08). A change from 0.9 to 0.6 is noticed after about 30 trials (median).
 * tools/streams/README.md has results on streams. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A plain value: copy it freely. Read the counters; change it through the functions. */
struct drift {
	double successes, trials; /* of the baseline */
	double cusum;             /* the cumulative sum */
	int block_trials, block_failures;
	double dispersion_sum, dispersion_weight;
	int64_t trials_seen, drifts;
};

void drift_open(struct drift*);
/* Sets the baseline to a stored mask's known acceptance, so that the test starts at once. */
void drift_expect(struct drift*, double successes, double trials);
/* One verify pass: `accepted` of `steps` draft steps, 0 <= accepted <= steps. steps = 0 is no trial. True
 * when acceptance has fallen: the mask fits the text worse than before, and the search is to begin anew. The
 * baseline then starts again. */
bool drift_add(struct drift*, int accepted, int steps);
