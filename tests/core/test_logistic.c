/* Logistic regression: it finds what made the labels, its loss is a minimum by finite differences, and what
 * cannot be learned from leaves all as it was. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/methods/logistic.h"
#include "gp/random.h"

enum { N = 2000, DIMS = 6 };

static const float TRUTH[DIMS] = {1.5f, -2, 0, 0.5f, 0, 3}, BIAS = -0.7f;

static void draw(float* x, uint8_t* y) {
	struct gp_random random = {11};
	for (int i = 0; i < N; i++) {
		/* features of unlike scales, one that never changes */
		for (int j = 0; j < DIMS; j++)
			x[i * DIMS + j] = j == 4 ? 7 : (float)(gp_normal(&random) * (j == 5 ? 0.1 : 1));
		const double p = logistic_chance(TRUTH, BIAS, x + i * DIMS, DIMS);
		y[i] = gp_uniform(&random) < p;
	}
}

/* The mean cross-entropy of the labels. */
static double loss(const float* x, const uint8_t* y, const float* weight, float bias) {
	double sum = 0;
	for (int i = 0; i < N; i++) {
		const double p = logistic_chance(weight, bias, x + i * DIMS, DIMS);
		sum -= log(y[i] ? p : 1 - p);
	}
	return sum / N;
}

static void finds_what_made_the_labels(void** state) {
	(void)state;
	static float x[N * DIMS];
	static uint8_t y[N];
	float weight[DIMS] = {0}, bias = 0;
	draw(x, y);
	const double before = loss(x, y, weight, bias);
	assert_true(logistic_fit(x, y, N, DIMS, 1e-4, 100, weight, &bias));
	const double after = loss(x, y, weight, bias);
	assert_true(after < 0.8 * before);
	assert_true(after < loss(x, y, TRUTH, BIAS) + 1e-3);
	for (int j = 0; j < 4; j++)
		assert_true(fabs((double)(weight[j] - TRUTH[j])) < 0.35);
	assert_float_equal(weight[4], 0, 1e-6);
	/* a step to either side of any weight is no better */
	for (int j = 0; j < DIMS; j++)
		for (int side = -1; side <= 1; side += 2) {
			float moved[DIMS];
			for (int k = 0; k < DIMS; k++)
				moved[k] = weight[k] + (k == j ? (float)side * 0.2f : 0);
			assert_true(loss(x, y, moved, bias) > after - 1e-4);
		}
}

static void nothing_to_learn_changes_nothing(void** state) {
	(void)state;
	const float x[] = {1, 2, 3, 4};
	const uint8_t same[] = {1, 1, 1, 1}, one[] = {1};
	float weight = 0.25f, bias = -1;
	assert_false(logistic_fit(x, same, 4, 1, 0.01, 10, &weight, &bias));
	assert_false(logistic_fit(x, one, 1, 1, 0.01, 10, &weight, &bias));
	assert_float_equal(weight, 0.25f, 0);
	assert_float_equal(bias, -1, 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(finds_what_made_the_labels),
	    cmocka_unit_test(nothing_to_learn_changes_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
