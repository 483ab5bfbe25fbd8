/* The process on the cube: its posterior and likelihood against plain elimination on the same formulas, its
 * gradient against differences, lengths that are learned, and the point that is worth most against a grid. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gp/internal.h"
#include "gp/random.h"

enum { DIMS = 3, MOST = 40 };

static const struct gp_hyper hyper = {
    .amplitude = 0.3, .window = 0.1, .noise = 0.5, .length = {0.3, 0.7, 1.5}};

struct data {
	double x[MOST][DIMS], y[MOST], variance[MOST];
	int64_t window[MOST];
	int n;
};

static struct gp* open_cube(int capacity) {
	struct gp* g = gp_open(&(struct gp_options){
	    .dims = DIMS, .capacity = capacity, .jitter = 1e-6, .prior_width = 0.7, .hyper = hyper});
	assert_non_null(g);
	return g;
}

/* The first coordinate matters, the second a little, the third not at all. */
static double truth(const double* x) { return -2 * (x[0] - 0.6) * (x[0] - 0.6) - 0.2 * x[1]; }

static struct data draw_data(int n, double noise, uint64_t seed) {
	struct gp_random random = {seed};
	struct data d = {.n = n};
	for (int i = 0; i < n; i++) {
		for (int k = 0; k < DIMS; k++)
			d.x[i][k] = gp_uniform(&random);
		d.window[i] = i % 5 == 4 ? 0 : 1 + i / 8;
		d.variance[i] = noise * noise * (1 + i % 3);
		d.y[i] = truth(d.x[i]) + 0.1 * (i / 8) + sqrt(d.variance[i]) * gp_normal(&random);
	}
	return d;
}

static void add_all(struct gp* g, const struct data* d) {
	for (int i = 0; i < d->n; i++)
		assert_int_equal(gp_add(g, d->x[i], d->y[i], d->variance[i], d->window[i]), GP_OK);
}

static double covariance(const double* a, const double* b, const struct gp_hyper* h) {
	double square = 0;
	for (int k = 0; k < DIMS; k++)
		square += pow((a[k] - b[k]) / h->length[k], 2);
	const double r = sqrt(5 * square);
	return h->amplitude * h->amplitude * (1 + r + 5 * square / 3) * exp(-r);
}

/* Gauss-Jordan with pivots: matrix (n, n) becomes its inverse; the logarithm of its determinant. */
static double invert(double m[MOST][MOST], int n) {
	static double e[MOST][2 * MOST];
	double log_determinant = 0;
	for (int i = 0; i < n; i++)
		for (int j = 0; j < 2 * n; j++)
			e[i][j] = j < n ? m[i][j] : j - n == i;
	for (int c = 0; c < n; c++) {
		int pivot = c;
		for (int i = c; i < n; i++)
			pivot = fabs(e[i][c]) > fabs(e[pivot][c]) ? i : pivot;
		for (int j = 0; j < 2 * n; j++) {
			const double swap = e[c][j];
			e[c][j] = e[pivot][j];
			e[pivot][j] = swap;
		}
		log_determinant += log(fabs(e[c][c]));
		const double lead = e[c][c];
		for (int j = 0; j < 2 * n; j++)
			e[c][j] /= lead;
		for (int i = 0; i < n; i++) {
			const double by = e[i][c];
			for (int j = 0; i != c && j < 2 * n; j++)
				e[i][j] -= by * e[c][j];
		}
	}
	for (int i = 0; i < n; i++)
		memcpy(m[i], &e[i][n], (size_t)n * sizeof m[i][0]);
	return log_determinant;
}

struct oracle {
	double inverse[MOST][MOST], weight[MOST], mean, likelihood;
};

static void solve_plainly(const struct data* d, const struct gp_hyper* h, struct oracle* o) {
	double up = 0, down = 0, fit = 0;
	for (int i = 0; i < d->n; i++)
		for (int j = 0; j < d->n; j++) {
			const bool same = i == j || (d->window[i] && d->window[i] == d->window[j]);
			o->inverse[i][j] = covariance(d->x[i], d->x[j], h) + (same ? h->window * h->window : 0) +
			                   (i == j ? h->noise * h->noise * d->variance[i] + 1e-6 : 0);
		}
	const double log_determinant = invert(o->inverse, d->n);
	for (int i = 0; i < d->n; i++)
		for (int j = 0; j < d->n; j++) {
			up += o->inverse[i][j] * d->y[j];
			down += o->inverse[i][j];
		}
	o->mean = up / down;
	for (int i = 0; i < d->n; i++) {
		o->weight[i] = 0;
		for (int j = 0; j < d->n; j++)
			o->weight[i] += o->inverse[i][j] * (d->y[j] - o->mean);
		fit += (d->y[i] - o->mean) * o->weight[i];
	}
	o->likelihood = -0.5 * (fit + log_determinant + d->n * log(2 * M_PI));
}

static void posterior(void** state) {
	(void)state;
	const struct data d = draw_data(MOST, 0.05, 1);
	struct gp* g = open_cube(MOST);
	static struct oracle o;
	double value, mean, variance;
	gp_predict(g, d.x[0], &mean, &variance);
	assert_true(mean == 0 && fabs(variance - 0.09) < 1e-12);
	add_all(g, &d);
	assert_int_equal(gp_add(g, d.x[0], 0, 0, 0), GP_FULL);
	solve_plainly(&d, &hyper, &o);
	assert_int_equal(gp_likelihood(g, &hyper, &value, NULL), GP_OK);
	assert_true(fabs(value - o.likelihood) < 1e-6 * fabs(o.likelihood)); /* in the middle of the priors */
	struct gp_random random = {2};
	for (int try = 0; try < 20; try++) {
		double x[DIMS], k[MOST], expected = o.mean, spread = 0.09;
		for (int i = 0; i < DIMS; i++)
			x[i] = gp_uniform(&random);
		for (int i = 0; i < d.n; i++) {
			k[i] = covariance(x, d.x[i], &hyper);
			expected += k[i] * o.weight[i];
		}
		for (int i = 0; i < d.n; i++)
			for (int j = 0; j < d.n; j++)
				spread -= k[i] * o.inverse[i][j] * k[j];
		gp_predict(g, x, &mean, &variance);
		assert_true(fabs(mean - expected) < 1e-7 && fabs(variance - spread) < 1e-7);
		/* of the difference to an observed point */
		double apart = 0, other = 0, both = 2 * (0.09 - covariance(x, d.x[3], &hyper)), c[MOST];
		for (int i = 0; i < d.n; i++) {
			c[i] = k[i] - covariance(d.x[3], d.x[i], &hyper);
			other += c[i] * o.weight[i];
		}
		for (int i = 0; i < d.n; i++)
			for (int j = 0; j < d.n; j++)
				both -= c[i] * o.inverse[i][j] * c[j];
		double deviation;
		gp_compare(g, x, d.x[3], &apart, &deviation);
		assert_true(fabs(apart - other) < 1e-7 && fabs(deviation - sqrt(both)) < 1e-5);
	}
	gp_close(g);
}

static void forgets_the_oldest(void** state) {
	(void)state;
	struct data d = draw_data(20, 0.05, 3);
	struct gp *g = open_cube(20), *fresh = open_cube(20);
	add_all(g, &d);
	assert_int_equal(gp_forget(g, 12), GP_OK);
	assert_int_equal(gp_count(g), 12);
	for (int i = 8; i < 20; i++)
		gp_add(fresh, d.x[i], d.y[i], d.variance[i], d.window[i]);
	double a, b, va, vb;
	gp_predict(g, d.x[0], &a, &va);
	gp_predict(fresh, d.x[0], &b, &vb);
	assert_true(fabs(a - b) < 1e-10 && fabs(va - vb) < 1e-10);
	gp_close(g);
	gp_close(fresh);
}

static double* parameter(struct gp_hyper* h, int i) {
	return i == 0 ? &h->amplitude : i <= DIMS ? &h->length[i - 1] : i == DIMS + 1 ? &h->window : &h->noise;
}

static void gradient_is_the_slope(void** state) {
	(void)state;
	const struct data d = draw_data(30, 0.05, 4);
	struct gp* g = open_cube(30);
	add_all(g, &d);
	struct gp_random random = {5};
	for (int try = 0; try < 5; try++) {
		struct gp_hyper at = hyper;
		double value, gradient[DIMS + 3];
		for (int i = 0; i < DIMS + 3; i++)
			*parameter(&at, i) *= exp(0.5 * gp_normal(&random));
		assert_int_equal(gp_likelihood(g, &at, &value, gradient), GP_OK);
		for (int i = 0; i < DIMS + 3; i++) {
			struct gp_hyper less = at, more = at;
			double below, above;
			*parameter(&less, i) *= exp(-1e-4);
			*parameter(&more, i) *= exp(1e-4);
			gp_likelihood(g, &less, &below, NULL);
			gp_likelihood(g, &more, &above, NULL);
			const double slope = (above - below) / 2e-4;
			if (!(fabs(slope - gradient[i]) < 1e-4 * fmax(1, fabs(slope))))
				fail_msg("parameter %d: %.9g, expected %.9g", i, gradient[i], slope);
		}
	}
	gp_close(g);
}

/* A length that does not matter grows, one that does stays short; the likelihood never falls. */
static void learns_what_matters(void** state) {
	(void)state;
	struct data d = draw_data(MOST, 0.02, 6);
	struct gp* g = gp_open(&(struct gp_options){
	    .dims = DIMS,
	    .capacity = MOST,
	    .jitter = 1e-6,
	    .prior_width = 1,
	    .hyper = {.amplitude = 0.3, .window = 0.1, .noise = 1, .length = {0.5, 0.5, 0.5}}});
	add_all(g, &d);
	struct gp_hyper before = g->hyper, after;
	double was, is;
	assert_int_equal(gp_likelihood(g, &before, &was, NULL), GP_OK);
	assert_int_equal(gp_fit(g, 60), GP_OK);
	after = g->hyper;
	assert_int_equal(gp_likelihood(g, &after, &is, NULL), GP_OK);
	assert_true(is >= was);
	assert_true(after.length[2] > 1.5 * after.length[0]);
	gp_close(g);
}

static double upper_bound(void* user, const double* x, double mean, double deviation) {
	(void)x;
	return mean + *(double*)user * deviation;
}

/* Better than any of a grid of 21³ points, with a coordinate held where it is given. */
static void finds_what_is_worth_most(void** state) {
	(void)state;
	const struct data d = draw_data(24, 0.02, 7);
	struct gp* g = open_cube(24);
	add_all(g, &d);
	for (int held = 0; held < 2; held++) {
		double kappa = 1, fixed[DIMS] = {NAN, 0.35, NAN}, best = -INFINITY, x[DIMS] = {0.5, 0.5, 0.5};
		const struct gp_search how = {.worth = upper_bound,
		                              .user = &kappa,
		                              .fixed = held ? fixed : NULL,
		                              .starts = 64,
		                              .evaluations = 200,
		                              .seed = 8};
		for (int i = 0; i < 21 * 21 * 21; i++) {
			const double at[DIMS] = {i % 21 / 20.0, held ? 0.35 : i / 21 % 21 / 20.0, i / 441 / 20.0};
			double mean, variance;
			gp_predict(g, at, &mean, &variance);
			best = fmax(best, mean + kappa * sqrt(variance));
		}
		assert_int_equal(gp_maximise(g, &how, x), GP_OK);
		double mean, variance;
		gp_predict(g, x, &mean, &variance);
		assert_true(mean + kappa * sqrt(variance) > best - 1e-3);
		for (int k = 0; k < DIMS; k++)
			assert_true(x[k] >= 0 && x[k] <= 1);
		assert_true(!held || x[1] == 0.35);
	}
	gp_close(g);
}

static void refuses(void** state) {
	(void)state;
	const struct gp_options good = {
	    .dims = DIMS, .capacity = 4, .jitter = 1e-6, .prior_width = 1, .hyper = hyper};
	struct gp_options bad[5] = {good, good, good, good, good};
	bad[0].dims = GP_MAX_GROUPS + 1;
	bad[1].capacity = 0;
	bad[2].jitter = 0;
	bad[3].hyper.length[1] = 0;
	bad[4].prior_width = -1;
	for (int i = 0; i < 5; i++)
		assert_null(gp_open(&bad[i]));
	struct gp* g = open_cube(4);
	const double outside[DIMS] = {0.5, 1.01, 0.5}, inside[DIMS] = {0.5, 1, 0};
	assert_int_equal(gp_add(g, outside, 0, 1, 0), GP_INVALID);
	assert_int_equal(gp_add(g, inside, NAN, 1, 0), GP_INVALID);
	assert_int_equal(gp_add(g, inside, 0, -1, 0), GP_INVALID);
	assert_int_equal(gp_fit(g, 10), GP_INVALID);
	assert_int_equal(gp_count(g), 0);
	struct gp_hyper h = hyper;
	h.noise = INFINITY;
	assert_int_equal(gp_set_hyper(g, &h), GP_INVALID);
	gp_close(g);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(posterior),
	    cmocka_unit_test(forgets_the_oldest),
	    cmocka_unit_test(gradient_is_the_slope),
	    cmocka_unit_test(learns_what_matters),
	    cmocka_unit_test(finds_what_is_worth_most),
	    cmocka_unit_test(refuses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
