/* Times the Gaussian process with 1,000 observations in 156 dimensions on one core. The observations are like
 * a search's: masks of 70 bits, scored as k of 32 on windows of 20 masks each, from an additive truth. */
#include <string.h>

#include "gp/gp.h"
#include "gp/random.h"
#include "kernels/clock.h"
#include "tools/lab/bench.h"

enum { DIMS = 156, SIZE = 70, OBSERVATIONS = 1000, ADDED = 50, PROPOSALS = 7, TRIALS = 32, EVALUATIONS = 16 };

static void draw_mask(struct gp_random* r, double* bits) {
	memset(bits, 0, DIMS * sizeof *bits);
	for (int left = SIZE; left > 0;) {
		const int i = gp_below(r, DIMS);
		left -= !(bits[i] > 0);
		bits[i] = 1;
	}
}

/* k of 32, from a truth that half of the dimensions lower. */
static double score_point(struct gp_random* r, const double* bits, double* variance) {
	double truth = 0.97;
	for (int i = 0; i < DIMS; i += 2)
		truth -= 0.012 * bits[i];
	int matches = 0;
	for (int t = 0; t < TRIALS; t++)
		matches += gp_uniform(r) < truth;
	const double p = (matches + 1.0) / (TRIALS + 2.0);
	*variance = p * (1 - p) / TRIALS;
	return (double)matches / TRIALS;
}

static bool add_observations(struct gp* g, struct gp_random* r, int i) {
	double bits[DIMS];
	double variance;
	draw_mask(r, bits);
	const double y = score_point(r, bits, &variance);
	return gp_add(g, bits, y, variance, 1 + i / 20) == GP_OK;
}

static bool measure_gp(struct gp* g, cJSON* out) {
	struct gp_random random = {1};
	double times[ADDED > PROPOSALS ? ADDED : PROPOSALS];
	for (int i = 0; i < OBSERVATIONS; i++) {
		const double began = seconds_now();
		if (!add_observations(g, &random, i))
			return false;
		if (i >= OBSERVATIONS - ADDED)
			times[i - (OBSERVATIONS - ADDED)] = seconds_now() - began;
	}
	cJSON_AddNumberToObject(out, "add_ms", 1e3 * bench_median(times, ADDED));
	const double began = seconds_now();
	if (gp_fit(g, EVALUATIONS) != GP_OK)
		return false;
	const double fit = seconds_now() - began;
	for (int i = 0; i < PROPOSALS; i++) {
		double bits[DIMS];
		const double start = seconds_now();
		const struct gp_subset search = {
		    .size = SIZE, .acquisition = GP_UCB, .kappa = 2.5, .seed = (uint64_t)i};
		if (gp_propose(g, &search, bits) != GP_OK)
			return false;
		times[i] = seconds_now() - start;
	}
	cJSON_AddNumberToObject(out, "propose_ms", 1e3 * bench_median(times, PROPOSALS));
	cJSON_AddNumberToObject(out, "fit_s", fit);
	return true;
}

int bench_gp_main(int argc, char** argv) {
	bool json = false;
	const struct command_option option[] = {FLAG("json", "print one JSON object instead of a table", &json)};
	struct command_line line = {
	    .name = "bench gp",
	    .usage = "[--json]",
	    .about =
	        "Times three things with 1,000 observations in 156 dimensions (a model of 80 blocks): adding\n"
	        "an observation, a Bayesian proposal, and a fit of the hyper-parameters.",
	    OPTIONS(option)};
	const int status = options_parse(&line, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	uint8_t group[DIMS];
	for (int i = 0; i < DIMS; i++)
		group[i] = i & 1;
	struct gp* g = gp_open(&(struct gp_options){
	    .dims = DIMS,
	    .group = group,
	    .capacity = OBSERVATIONS,
	    .kernel = GP_MATERN52,
	    .jitter = 1e-6,
	    .known_noise = true,
	    .hyper = {.amplitude = 0.2, .length = {6, 6}, .window = 0.05, .noise = 1},
	});
	cJSON* const out = cJSON_CreateObject();
	cJSON_AddNumberToObject(out, "observations", OBSERVATIONS);
	cJSON_AddNumberToObject(out, "dimensions", DIMS);
	const bool done = g && measure_gp(g, out);
	gp_close(g);
	if (done)
		return report_print(out, json);
	cJSON_Delete(out);
	return complain(STATUS_FAILED, "the Gaussian process could not be run: out of memory for %d observations",
	                OBSERVATIONS);
}
