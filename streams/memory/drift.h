/* Notices that the text has turned: a change test on the acceptance of each verify pass.
 *
 * A round that drafts d steps and keeps a of them is a run of Bernoulli trials that stops at the first
 * failure: min(a + 1, d) trials, and one failure when a < d. On these trials runs Page's cumulative sum
 * (Page 1954; Page-Hinkley is its mean-shift form) of the log likelihood ratio between the baseline
 * acceptance and one whose odds are `odds` times lower (and, for the other direction, higher). The
 * baseline is learned from the first trials (or handed in by the bank) and is taken one standard
 * error on the safe side while it is uncertain; the ratio is divided by the measured dispersion of
 * blocks of 32 trials, since real text is not a coin (quasi-likelihood). While the sum for a fall is above 0,
 * trials are held back from both (DRIFT_HELD at most): else a change would teach the test to expect it.
 *
 * False alarms, simulated by tests/streams/test_drift.c with the defaults (baseline learned): at most 0.2
 * falls per 10,000 trials where acceptance is constant between 0.5 and 0.97, 0.7 where it differs from
 * instance to instance (sd 0.08). A turn from 0.9 to 0.6 is noticed after about 30 trials (median). On
 * streams: tools/streams/README.md. */
#ifndef SWIFTLET_STREAMS_MEMORY_DRIFT_H
#define SWIFTLET_STREAMS_MEMORY_DRIFT_H

#include <stdbool.h>
#include <stdint.h>

enum drift_event {
	DRIFT_NONE,
	DRIFT_FALL, /* the mask fits the text worse than before: the search is to be reopened */
	DRIFT_RISE  /* it fits better: a new baseline, nothing else */
};

struct drift_options {
	double odds;      /* the change looked for, as a ratio of odds, > 1 */
	double threshold; /* of the cumulative sum, in nats */
	int baseline;     /* trials before the test starts */
	int memory;       /* trials the baseline remembers at most */
};

enum { DRIFT_BLOCK = 32, DRIFT_HELD = 64 };

/* A plain value: copy it freely. Read the counters; change it through the functions. */
struct drift {
	struct drift_options options;
	double successes, trials; /* of the baseline, at most `memory` trials' weight */
	double fall, rise;        /* the two cumulative sums */
	int block_trials, block_failures;
	double dispersion_sum, dispersion_weight;
	/* not in the baseline yet: what came since the sum for a fall last stood at 0 */
	double held_successes, held_trials, held_dispersion;
	int held_blocks;
	int64_t trials_seen, falls, rises;
	int64_t since; /* trials since the baseline began */
};

void drift_options_default(struct drift_options*);
void drift_open(struct drift*, const struct drift_options*);
/* The mask has changed or the search was reopened: the baseline is learned anew. Counters stay. */
void drift_restart(struct drift*);
/* What a stored mask is known to reach, as successes of trials: the test can start at once. */
void drift_expect(struct drift*, double successes, double trials);
/* One verify pass: `accepted` of `steps` draft steps, 0 <= accepted <= steps. steps = 0 is no trial. After
 * an event the baseline starts again. */
enum drift_event drift_add(struct drift*, int accepted, int steps);
/* The acceptance a trial is expected to have, NaN before the first. */
double drift_baseline(const struct drift*);

#endif
