/* Proposals: exactly the size asked for, never an observed point, and good ones: on a small cube
 * they are held to the best acquisition of all points, found by trying every one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gp/gp.h"
#include "gp/random.h"

static struct gp* open_gp(int dims, enum gp_kernel kernel) {
	static uint8_t group[GP_MAX_DIMS];
	for (int i = 0; i < dims; i++)
		group[i] = i & 1;
	const double length = kernel == GP_HAMMING ? 0.5 * dims : sqrt(0.5 * dims);
	struct gp* g = gp_open(&(struct gp_options){
	    .dims = dims,
	    .group = group,
	    .capacity = 400,
	    .kernel = kernel,
	    .jitter = 1e-6,
	    .known_noise = true,
	    .hyper = {.amplitude = 0.2, .length = {length, length}, .window = 0.05, .noise = 1},
	});
	assert_non_null(g);
	return g;
}

static void draw(struct gp_random* r, int dims, int size, double* bits) {
	memset(bits, 0, (size_t)dims * sizeof *bits);
	for (int left = size; left > 0;) {
		const int i = gp_below(r, dims);
		left -= bits[i] == 0;
		bits[i] = 1;
	}
}

static int count(const double* bits, int dims) {
	int n = 0;
	for (int i = 0; i < dims; i++) {
		assert_true(bits[i] == 0 || bits[i] == 1);
		n += bits[i] == 1;
	}
	return n;
}

/* Odd-numbered bits cost. */
static double truth(const double* bits, int dims) {
	double y = 0.95;
	for (int i = 1; i < dims; i += 2)
		y -= 0.04 * bits[i];
	return y;
}

static void observe_some(struct gp* g, struct gp_random* r, int dims, int size, int n) {
	for (int i = 0; i < n; i++) {
		double bits[GP_MAX_DIMS];
		draw(r, dims, size, bits);
		assert_int_equal(gp_add(g, bits, truth(bits, dims) + 0.03 * gp_normal(r), 1e-3, 1 + i / 10), GP_OK);
	}
}

static double ucb(struct gp* g, const double* bits) {
	double mean, variance;
	gp_predict(g, bits, &mean, &variance);
	return mean + 2.5 * sqrt(variance);
}

static void sizes_and_repeats(void** state) {
	(void)state;
	static const int dims[] = {4, 36, 64, 65, 156};
	for (int d = 0; d < 5; d++)
		for (int kind = 0; kind < 4; kind++) {
			struct gp* g = open_gp(dims[d], kind & 1 ? GP_HAMMING : GP_MATERN52);
			struct gp_random random = {(uint64_t)(d * 4 + kind)};
			const int size = dims[d] * 45 / 100;
			observe_some(g, &random, dims[d], size, dims[d] < 10 ? 2 : 60);
			for (int i = 0; i < 12; i++) {
				const struct gp_subset search = {.size = size,
				                                 .acquisition = kind & 2 ? GP_EI : GP_UCB,
				                                 .kappa = 2.5,
				                                 .seed = (uint64_t)i};
				double bits[GP_MAX_DIMS];
				const enum gp_result result = gp_propose(g, &search, bits);
				if (result == GP_NONE_LEFT && dims[d] < 10)
					break;
				assert_int_equal(result, GP_OK);
				assert_int_equal(count(bits, dims[d]), size);
				assert_false(gp_observed(g, bits));
				gp_add(g, bits, truth(bits, dims[d]), 1e-3, 100);
			}
			gp_close(g);
		}
}

/* All C(16, 7) = 11,440 points tried: the proposal is within a hair of the best of them. */
static void near_the_best(void** state) {
	(void)state;
	for (int kind = 0; kind < 2; kind++) {
		struct gp* g = open_gp(16, kind & 1 ? GP_HAMMING : GP_MATERN52);
		struct gp_random random = {3};
		observe_some(g, &random, 16, 7, 80);
		double best = -INFINITY, worst = INFINITY;
		for (unsigned all = 0; all < 1 << 16; all++) {
			double bits[16];
			for (int i = 0; i < 16; i++)
				bits[i] = all >> i & 1;
			if (__builtin_popcount(all) != 7 || gp_observed(g, bits))
				continue;
			const double value = ucb(g, bits);
			best = fmax(best, value);
			worst = fmin(worst, value);
		}
		const struct gp_subset search = {.size = 7, .kappa = 2.5, .seed = 1};
		double proposed[16];
		assert_int_equal(gp_propose(g, &search, proposed), GP_OK);
		const double reached = (ucb(g, proposed) - worst) / (best - worst);
		if (reached < 0.95)
			fail_msg("kernel %d: the proposal reaches %.3f of the best acquisition", kind, reached);
		gp_close(g);
	}
}

static void nothing_left(void** state) {
	(void)state;
	struct gp* g = open_gp(4, GP_MATERN52);
	static const double all[][4] = {{1, 1}, {1, 0, 1}, {1, 0, 0, 1}, {0, 1, 1}, {0, 1, 0, 1}, {0, 0, 1, 1}};
	for (int i = 0; i < 6; i++)
		assert_int_equal(gp_add(g, all[i], 0.5, 1e-3, 1), GP_OK);
	const struct gp_subset search = {.size = 2, .kappa = 1};
	double bits[4];
	assert_int_equal(gp_propose(g, &search, bits), GP_NONE_LEFT);
	gp_close(g);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sizes_and_repeats),
	    cmocka_unit_test(near_the_best),
	    cmocka_unit_test(nothing_left),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
