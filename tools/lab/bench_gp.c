/* The Gaussian process at 1,000 observations in 156 dimensions, on one core. The observations are those a
 * search makes: masks of 70 bits scored as k of 32 on windows of 20 masks each, from an additive truth. */
#include "tools/lab/bench_gp.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gp/gp.h"
#include "gp/random.h"
#include "kernels/clock.h"

enum { DIMS = 156, SIZE = 70, OBSERVATIONS = 1000, ADDED = 50, PROPOSALS = 7, TRIALS = 32, EVALUATIONS = 16 };
enum { BENCH_WORDS = (DIMS + 63) / 64 };

static int by_value(const void* a, const void* b) {
	const double x = *(const double*)a, y = *(const double*)b;
	return (x > y) - (x < y);
}

static void draw_mask(struct gp_random* r, uint64_t* bits) {
	memset(bits, 0, BENCH_WORDS * sizeof *bits);
	for (int left = SIZE; left > 0;) {
		const int i = gp_below(r, DIMS);
		const uint64_t bit = (uint64_t)1 << (i & 63);
		left -= !(bits[i >> 6] & bit);
		bits[i >> 6] |= bit;
	}
}

/* k of 32 at a truth that half of the dimensions lower. */
static double score(struct gp_random* r, const uint64_t* bits, double* variance) {
	double truth = 0.97;
	for (int i = 0; i < DIMS; i += 2)
		truth -= 0.012 * (double)(bits[i >> 6] >> (i & 63) & 1);
	int matches = 0;
	for (int t = 0; t < TRIALS; t++)
		matches += gp_uniform(r) < truth;
	const double p = (matches + 1.0) / (TRIALS + 2.0);
	*variance = p * (1 - p) / TRIALS;
	return (double)matches / TRIALS;
}

static bool add(struct gp* g, struct gp_random* r, int i) {
	uint64_t bits[BENCH_WORDS];
	double variance;
	draw_mask(r, bits);
	const double y = score(r, bits, &variance);
	return gp_add(g, bits, y, variance, 1 + i / 20) == GP_OK;
}

struct figures {
	double add_ms, propose_ms, fit_s;
};

static bool measure(struct gp* g, struct figures* f) {
	struct gp_random random = {1};
	double times[ADDED > PROPOSALS ? ADDED : PROPOSALS];
	for (int i = 0; i < OBSERVATIONS; i++) {
		const double began = seconds_now();
		if (!add(g, &random, i))
			return false;
		if (i >= OBSERVATIONS - ADDED)
			times[i - (OBSERVATIONS - ADDED)] = seconds_now() - began;
	}
	qsort(times, ADDED, sizeof *times, by_value);
	f->add_ms = 1e3 * times[ADDED / 2];
	const double began = seconds_now();
	if (gp_fit(g, EVALUATIONS, 0) != GP_OK)
		return false;
	f->fit_s = seconds_now() - began;
	for (int i = 0; i < PROPOSALS; i++) {
		uint64_t bits[BENCH_WORDS];
		const double start = seconds_now();
		const struct gp_search search = {.size = SIZE,
		                                 .acquisition = GP_UCB,
		                                 .kappa = 2.5,
		                                 .starts = 3,
		                                 .evaluations = 6,
		                                 .rounds = 3,
		                                 .seed = (uint64_t)i};
		if (gp_propose(g, &search, bits) != GP_OK)
			return false;
		times[i] = seconds_now() - start;
	}
	qsort(times, PROPOSALS, sizeof *times, by_value);
	f->propose_ms = 1e3 * times[PROPOSALS / 2];
	return true;
}

int bench_gp(bool json) {
	uint8_t group[DIMS];
	for (int i = 0; i < DIMS; i++)
		group[i] = i & 1;
	struct gp* g = gp_open(&(struct gp_options){
	    .dims = DIMS,
	    .group = group,
	    .capacity = OBSERVATIONS,
	    .kernel = GP_MATERN52,
	    .jitter = 1e-6,
	    .hyper = {.amplitude = 0.2, .length = {6, 6}, .window = 0.05},
	});
	struct figures f = {0};
	const bool done = g && measure(g, &f);
	gp_close(g);
	if (!done) {
		fprintf(stderr, "swiftlet: the Gaussian process could not be run: no memory for %d observations\n",
		        OBSERVATIONS);
		return 1;
	}
	if (json) {
		printf(
		    "{\"observations\": %d, \"dimensions\": %d, \"add_ms\": %.4f, \"propose_ms\": %.3f, \"fit_s\": "
		    "%.3f}\n",
		    OBSERVATIONS, DIMS, f.add_ms, f.propose_ms, f.fit_s);
		return 0;
	}
	printf("Gaussian process, %d observations, %d dimensions\n", OBSERVATIONS, DIMS);
	printf("  %-34s %9.3f ms\n", "adding one observation", f.add_ms);
	printf("  %-34s %9.3f ms\n", "one Bayesian proposal", f.propose_ms);
	printf("  %-34s %9.3f s\n", "fitting the hyper-parameters", f.fit_s);
	return 0;
}
