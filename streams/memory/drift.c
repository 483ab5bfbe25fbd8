/* Page's cumulative sum of acceptance; drift.h explains it. */
#include "streams/memory/drift.h"

#include <math.h>

/* The change to detect, as a ratio of odds; the threshold of the sum, in nats. */
static const double ODDS = 4, THRESHOLD = 7.5;
/* Trials before the test starts; the most that the baseline remembers; those of a block whose dispersion is
 * measured. */
enum { FIRST = 64, MEMORY = 1024, BLOCK = 32 };

/* Learns the baseline anew. Counters stay. */
static void restart_baseline(struct drift* d) {
	d->successes = d->trials = 0;
	d->cusum = 0;
	d->block_trials = d->block_failures = 0;
	d->dispersion_sum = d->dispersion_weight = 16; /* blocks of belief in a fair coin */
}

void drift_open(struct drift* d) {
	*d = (struct drift){.drifts = 0};
	restart_baseline(d);
}

/* Halves old trials, so that the baseline follows slow changes. */
static void forget_old(struct drift* d) {
	const double keep = fmin(1, MEMORY / d->trials);
	d->successes *= keep;
	d->trials *= keep;
}

void drift_expect(struct drift* d, double successes, double trials) {
	restart_baseline(d);
	if (!(trials > 0) || !(successes >= 0) || successes > trials)
		return;
	d->successes = successes;
	d->trials = trials;
	forget_old(d);
}

/* Adds half a success and half a failure (Jeffreys), so that acceptance is never 0 or 1. */
static double estimate_acceptance(const struct drift* d) { return (d->successes + 0.5) / (d->trials + 1); }

static double shift_odds(double p, double ratio) { return p * ratio / (1 - p + p * ratio); }

/* The log likelihood ratio of one trial between acceptance q and p. */
static double log_likelihood_ratio(bool success, double p, double q) {
	return success ? log(q / p) : log((1 - q) / (1 - p));
}

static double clamp_probability(double p) { return fmin(fmax(p, 1e-4), 1 - 1e-4); }

static void learn_trial(struct drift* d, bool success) {
	d->block_failures += !success;
	if (++d->block_trials == BLOCK) {
		const double q = 1 - estimate_acceptance(d);
		const double off = d->block_failures - BLOCK * q;
		d->dispersion_sum = 0.97 * d->dispersion_sum + fmin(off * off / (BLOCK * q * (1 - q)), 16);
		d->dispersion_weight = 0.97 * d->dispersion_weight + 1;
		d->block_trials = d->block_failures = 0;
	}
	d->successes += success;
	d->trials += 1;
	forget_old(d);
}

/* True when acceptance has drifted. */
static bool add_trial(struct drift* d, bool success) {
	d->trials_seen++;
	if (d->trials >= FIRST) {
		const double p = estimate_acceptance(d);
		const double low = clamp_probability(p - sqrt(p * (1 - p) / d->trials));
		const double dispersion = fmin(fmax(d->dispersion_sum / d->dispersion_weight, 1), 4);
		d->cusum += log_likelihood_ratio(success, low, shift_odds(low, 1 / ODDS)) / dispersion;
		d->cusum = fmax(d->cusum, 0);
		if (d->cusum > THRESHOLD) {
			d->drifts++;
			restart_baseline(d);
			return true;
		}
	}
	learn_trial(d, success);
	return false;
}

bool drift_add(struct drift* d, int accepted, int steps) {
	bool drifted = false;
	for (int i = 0; i < accepted && !drifted; i++)
		drifted = add_trial(d, true);
	return drifted || (accepted < steps && add_trial(d, false));
}
