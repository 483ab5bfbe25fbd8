/* The linear model taken in one observation at a time against the same regression solved at once. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "gp/linear.h"
#include "gp/random.h"

enum { DIMS = 9, STATE = DIMS + 4, OBSERVATIONS = 40 }; /* constant, three groups' offsets, weights */

static const struct linear_options OPTIONS = {.dims = DIMS, .constant_sd = 0.3, .offset_sd = 0.05, .seed = 4};
static const double WEIGHT_SD = 0.1;

/* Weights alike about zero. */
static struct linear_model* begun(void) {
	double mean[DIMS] = {0}, sd[DIMS];
	for (int i = 0; i < DIMS; i++)
		sd[i] = WEIGHT_SD;
	struct linear_model* m = linear_open(&OPTIONS);
	assert_non_null(m);
	linear_begin(m, &(struct linear_prior){.mean = mean, .sd = sd});
	return m;
}

struct data {
	uint64_t bits[OBSERVATIONS];
	double y[OBSERVATIONS], variance[OBSERVATIONS];
	int group[OBSERVATIONS]; /* 0..2 in order, -1: outside any */
};

static void make(struct data* d) {
	struct gp_random random = {12};
	for (int i = 0; i < OBSERVATIONS; i++) {
		d->bits[i] = gp_random_bits(&random) & ((1u << DIMS) - 1);
		d->y[i] = 0.5 + 0.2 * gp_normal(&random);
		d->variance[i] = 0.002 + 0.01 * gp_uniform(&random);
		d->group[i] = i % 7 == 3 ? -1 : i * 3 / OBSERVATIONS;
	}
}

/* Normal equations (A'R⁻¹A + P⁻¹) x = A'R⁻¹(y - A m) + …, by Gaussian elimination. */
static void solve_at_once(const struct data* d, double* x) {
	double a[STATE][STATE + 1] = {{0}};
	for (int i = 0; i < STATE; i++) {
		const double sd = i == 0 ? OPTIONS.constant_sd : i < 4 ? OPTIONS.offset_sd : WEIGHT_SD;
		a[i][i] = 1 / (sd * sd);
	}
	for (int n = 0; n < OBSERVATIONS; n++) {
		double h[STATE] = {1};
		double variance = d->variance[n];
		if (d->group[n] >= 0)
			h[1 + d->group[n]] = 1;
		else
			variance += OPTIONS.offset_sd * OPTIONS.offset_sd;
		for (int b = 0; b < DIMS; b++)
			h[4 + b] = (double)(d->bits[n] >> b & 1);
		for (int i = 0; i < STATE; i++) {
			for (int j = 0; j < STATE; j++)
				a[i][j] += h[i] * h[j] / variance;
			a[i][STATE] += h[i] * d->y[n] / variance;
		}
	}
	for (int i = 0; i < STATE; i++)
		for (int k = 0; k < STATE; k++)
			if (k != i) {
				const double f = a[k][i] / a[i][i];
				for (int j = i; j <= STATE; j++)
					a[k][j] -= f * a[i][j];
			}
	for (int i = 0; i < STATE; i++)
		x[i] = a[i][STATE] / a[i][i];
}

static struct linear_model* learn(const struct data* d) {
	struct linear_model* m = begun();
	for (int i = 0, group = 0; i < OBSERVATIONS; i++) {
		if (i * 3 / OBSERVATIONS != group) {
			group = i * 3 / OBSERVATIONS;
			linear_group(m);
		}
		linear_add(m, &d->bits[i], d->y[i], d->variance[i], 1, d->group[i] >= 0);
	}
	return m;
}

static void same_as_at_once(void** state) {
	(void)state;
	struct data d;
	make(&d);
	double x[STATE], weight[DIMS];
	solve_at_once(&d, x);
	struct linear_model* m = learn(&d);
	linear_weights(m, weight);
	assert_true(fabs(linear_mean(m, &(uint64_t){0}) - x[0]) < 1e-9);
	assert_true(fabs(linear_offset(m) - x[3]) < 1e-9);
	for (int b = 0; b < DIMS; b++)
		assert_true(fabs(weight[b] - x[4 + b]) < 1e-9);
	const uint64_t all = (1u << DIMS) - 1;
	double sum = x[0];
	for (int b = 0; b < DIMS; b++)
		sum += x[4 + b];
	assert_true(fabs(linear_mean(m, &all) - sum) < 1e-9);
	linear_close(m);
}

/* The draws have the posterior's mean, and its spread: narrower than the prior's, and no draw is the mean. */
static void draws(void** state) {
	(void)state;
	enum { DRAWS = 400 };
	struct data d;
	make(&d);
	struct linear_model* m = learn(&d);
	double weight[DIMS], draw[DIMS], sum[DIMS] = {0}, square[DIMS] = {0};
	linear_weights(m, weight);
	for (int e = 0; e < DRAWS; e++) {
		linear_draw(m, 1, draw);
		for (int b = 0; b < DIMS; b++) {
			sum[b] += draw[b] - weight[b];
			square[b] += (draw[b] - weight[b]) * (draw[b] - weight[b]);
		}
	}
	for (int b = 0; b < DIMS; b++) {
		const double sd = sqrt(square[b] / DRAWS);
		assert_true(sd > 0.005 && sd < WEIGHT_SD);
		assert_true(fabs(sum[b] / DRAWS) < 4 * sd / sqrt(DRAWS));
	}
	linear_draw(m, 0, draw);
	assert_memory_equal(draw, weight, sizeof draw);
	linear_close(m);
}

/* The variance of a sum of weights, by how far one more observation of it draws the mean. */
static double variance_at(struct linear_model* m, const uint64_t* bits) {
	const double noise = 1e-3, before = linear_mean(m, bits);
	linear_add(m, bits, before + 1, noise, 0, true);
	const double gain = linear_mean(m, bits) - before; /* variance / (variance + noise) */
	return noise * gain / (1 - gain);
}

/* A prior known up to a factor, and a share of the offset: the same as the regression with the factor as a
 * further unknown. Checked through the variance of a sum: what is left of it after one exact observation of
 * the sum is little, of a part of it more; and the mean moves by the gain of the covariance. */
static void prior_with_a_scale(void** state) {
	(void)state;
	struct linear_options o = OPTIONS;
	o.constant_sd = 1e-9;
	struct linear_model* m = linear_open(&o);
	double mean[DIMS], sd[DIMS], prior = 0, own = 0, weight[DIMS];
	uint64_t bits = 0;
	for (int i = 0; i < DIMS; i++) {
		mean[i] = 0.01 * (i + 1);
		sd[i] = 0.002 * (i + 1);
		if (i % 2 == 0) {
			bits |= 1u << i;
			prior += mean[i];
			own += sd[i] * sd[i];
		}
	}
	linear_begin(m, &(struct linear_prior){.mean = mean, .sd = sd, .split = DIMS, .scale_sd = 0.3});
	linear_weights(m, weight);
	assert_memory_equal(weight, mean, sizeof mean);
	assert_true(fabs(linear_mean(m, &bits) - prior) < 1e-12);
	const double variance = own + 0.3 * 0.3 * prior * prior;
	assert_true(fabs(variance_at(m, &bits) - variance) < 1e-12);
	/* two kinds of weights, of which one is known up to a factor */
	double part = 0;
	for (int i = 0; i < 4; i += 2)
		part += mean[i];
	linear_begin(m, &(struct linear_prior){.mean = mean, .sd = sd, .split = 4, .scale_sd = 0.3});
	const double apart = own + 0.09 * part * part;
	assert_true(fabs(variance_at(m, &bits) - apart) < 1e-12);
	linear_begin(m, &(struct linear_prior){.mean = mean, .sd = sd, .split = DIMS, .scale_sd = 0.3});
	/* y = sum + 0.5·offset + noise */
	const double noise = 1e-4, y = 2 * prior;
	const double all = variance + 0.25 * o.offset_sd * o.offset_sd + noise;
	linear_add(m, &bits, y, noise, 0.5, true);
	assert_true(fabs(linear_mean(m, &bits) - prior - (y - prior) * variance / all) < 1e-9);
	assert_true(fabs(linear_offset(m) - (y - prior) * 0.5 * o.offset_sd * o.offset_sd / all) < 1e-9);
	/* a weight that was not observed moves with the scale */
	linear_weights(m, weight);
	assert_true(fabs(weight[1] - mean[1] - (y - prior) * 0.09 * mean[1] * prior / all) < 1e-9);
	assert_true(fabs(variance_at(m, &bits) - (variance - variance * variance / all)) < 1e-9);
	linear_close(m);
}

static void refusals(void** state) {
	(void)state;
	struct linear_options o = OPTIONS;
	o.dims = 0;
	assert_null(linear_open(&o));
	o = OPTIONS;
	o.constant_sd = 0;
	assert_null(linear_open(&o));
	struct linear_model* m = begun();
	const uint64_t bits = 5;
	const double before = linear_mean(m, &bits);
	linear_add(m, &bits, NAN, 0.1, 1, true);
	linear_add(m, &bits, 0.5, 0, 1, true);
	linear_add(m, &bits, 0.5, INFINITY, 1, true);
	assert_true(linear_mean(m, &bits) == before);
	linear_close(m);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(same_as_at_once),
	    cmocka_unit_test(draws),
	    cmocka_unit_test(prior_with_a_scale),
	    cmocka_unit_test(refusals),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
