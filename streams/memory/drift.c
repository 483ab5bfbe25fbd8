/* Page's cumulative sums on acceptance; drift.h says what and why. */
#include "streams/memory/drift.h"

#include <math.h>

void drift_options_default(struct drift_options* o) {
	*o = (struct drift_options){.odds = 4.0, .threshold = 8.0, .baseline = 64, .memory = 1024};
}

void drift_open(struct drift* d, const struct drift_options* o) {
	*d = (struct drift){.options = *o};
	drift_restart(d);
}

void drift_restart(struct drift* d) {
	d->successes = d->trials = 0;
	d->fall = d->rise = 0;
	d->block_trials = d->block_failures = 0;
	d->held_successes = d->held_trials = d->held_dispersion = 0;
	d->held_blocks = 0;
	d->dispersion_sum = d->dispersion_weight = 16; /* blocks of belief in a fair coin */
	d->since = 0;
}

static void keep_at_most(double* successes, double* trials, double most) {
	const double keep = fmin(1, most / *trials);
	*successes *= keep;
	*trials *= keep;
}

void drift_expect(struct drift* d, double successes, double trials) {
	drift_restart(d);
	if (!(trials > 0) || !(successes >= 0) || successes > trials)
		return;
	d->successes = successes;
	d->trials = trials;
	keep_at_most(&d->successes, &d->trials, d->options.memory);
}

/* Half a success and half a failure more than seen (Jeffreys), so that it is never 0 or 1. */
static double estimate(const struct drift* d) { return (d->successes + 0.5) / (d->trials + 1); }

double drift_baseline(const struct drift* d) { return d->trials > 0 ? estimate(d) : NAN; }

static double shift_odds(double p, double ratio) { return p * ratio / (1 - p + p * ratio); }

/* The log likelihood ratio of one trial between acceptance q and p. */
static double ratio(bool success, double p, double q) {
	return success ? log(q / p) : log((1 - q) / (1 - p));
}

static double clamp(double p) { return fmin(fmax(p, 1e-4), 1 - 1e-4); }

/* What was held back is believed. */
static void absorb(struct drift* d) {
	d->successes += d->held_successes;
	d->trials += d->held_trials;
	if (d->trials > 0)
		keep_at_most(&d->successes, &d->trials, d->options.memory);
	const double fade = pow(0.97, d->held_blocks);
	d->dispersion_sum = fade * d->dispersion_sum + d->held_dispersion;
	d->dispersion_weight = fade * d->dispersion_weight + d->held_blocks;
	d->held_successes = d->held_trials = d->held_dispersion = 0;
	d->held_blocks = 0;
}

static void learn(struct drift* d, bool success) {
	d->held_successes += success;
	d->held_trials += 1;
	d->block_failures += !success;
	if (++d->block_trials == DRIFT_BLOCK) {
		const double q = 1 - estimate(d);
		const double off = d->block_failures - DRIFT_BLOCK * q;
		d->held_dispersion += fmin(off * off / (DRIFT_BLOCK * q * (1 - q)), 16);
		d->held_blocks++;
		d->block_trials = d->block_failures = 0;
	}
	if (d->fall <= 0 || d->held_trials >= DRIFT_HELD)
		absorb(d);
}

static enum drift_event trial(struct drift* d, bool success) {
	enum drift_event event = DRIFT_NONE;
	d->trials_seen++;
	d->since++;
	if (d->trials >= d->options.baseline) {
		const double p = estimate(d);
		const double doubt = sqrt(p * (1 - p) / d->trials);
		const double low = clamp(p - doubt), high = clamp(p + doubt);
		const double dispersion = fmin(fmax(d->dispersion_sum / d->dispersion_weight, 1), 4);
		d->fall += ratio(success, low, shift_odds(low, 1 / d->options.odds)) / dispersion;
		d->rise += ratio(success, high, shift_odds(high, d->options.odds)) / dispersion;
		d->fall = fmax(d->fall, 0);
		d->rise = fmax(d->rise, 0);
		if (d->fall > d->options.threshold)
			event = DRIFT_FALL;
		else if (d->rise > d->options.threshold)
			event = DRIFT_RISE;
	}
	if (event == DRIFT_NONE) {
		learn(d, success);
		return event;
	}
	d->falls += event == DRIFT_FALL;
	d->rises += event == DRIFT_RISE;
	drift_restart(d);
	return event;
}

enum drift_event drift_add(struct drift* d, int accepted, int steps) {
	enum drift_event event = DRIFT_NONE;
	for (int i = 0; i < accepted && event == DRIFT_NONE; i++)
		event = trial(d, true);
	if (event == DRIFT_NONE && accepted < steps)
		event = trial(d, false);
	return event;
}
