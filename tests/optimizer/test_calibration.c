/* What a distance is taken to say of matchness: learned where it says something, let be where it does not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
/* cmocka wants the ones above */
#include <cmocka.h>

#include "gp/random.h"
#include "optimizer/calibration.h"

enum { ROWS = 32, SCORES = 400 };

/* Scores of masks whose distance and matchness go together as given; `told` is what the search is told of the
 * distance. */
static void learn(struct calibration* c, double (*matchness)(double distance), double noise, uint64_t seed) {
	struct gp_random random = {seed};
	calibration_open(c, 0.75, 0.75);
	for (int i = 0; i < SCORES; i++) {
		const double distance = 0.02 + 0.28 * gp_uniform(&random), p = matchness(distance);
		int hits = 0;
		for (int t = 0; t < ROWS; t++)
			hits += gp_uniform(&random) < p;
		const double told =
		    noise < 0 ? 0.3 * gp_uniform(&random) : distance * exp(noise * gp_normal(&random));
		calibration_see(c, told, (double)hits / ROWS, p * (1 - p) / ROWS);
	}
}

static double root(double distance) { return 1 - 0.9 * sqrt(distance); }
static double straight(double distance) { return 1 - 1.6 * distance; }

static void learns_either_law(void** state) {
	(void)state;
	double (*const law[])(double) = {root, straight};
	for (int l = 0; l < 2; l++)
		for (uint64_t seed = 1; seed <= 5; seed++) {
			struct calibration c;
			learn(&c, law[l], 0.05, seed);
			for (double d = 0.02; d < 0.3; d += 0.02)
				assert_true(fabs(calibration_matchness(&c, d) - law[l](d)) < 0.03);
			assert_true(calibration_weight(&c) >= 1.5);
		}
}

static void misses_never_fall_with_distance(void** state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 5; seed++)
		for (double noise = -1; noise < 2; noise += 1) {
			struct calibration c;
			learn(&c, straight, noise, seed);
			assert_true(calibration_matchness(&c, 0) == 1);
			for (double d = 0; d < 2; d += 0.05) {
				const double near = calibration_matchness(&c, d), far = calibration_matchness(&c, d + 0.05);
				assert_true(near >= far && far >= 0);
			}
		}
}

static void what_says_nothing_weighs_little(void** state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct calibration useful, useless;
		learn(&useful, straight, 0.05, seed);
		learn(&useless, straight, -1, seed);
		printf("weights %.2f and %.2f\n", calibration_weight(&useful), calibration_weight(&useless));
		assert_true(calibration_weight(&useless) < 0.6);
		assert_true(calibration_weight(&useful) > 3 * calibration_weight(&useless));
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(learns_either_law),
	                                   cmocka_unit_test(misses_never_fall_with_distance),
	                                   cmocka_unit_test(what_says_nothing_weighs_little)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
