/* The loss, its gradient, and GSL's minimiser. */
#include "core/methods/logistic.h"

#include <gsl/gsl_errno.h>
#include <gsl/gsl_multimin.h>
#include <math.h>
#include <stdlib.h>

struct problem {
	const float* x; /* (n, dims) */
	const uint8_t* y;
	int n, dims;
	double ridge;
	double *mean, *scale; /* (dims) of the features */
};

static const float* row_at(const struct problem* p, int i) { return p->x + (size_t)i * (size_t)p->dims; }

/* log(1 + e^z) */
static double softplus(double z) { return z > 0 ? z + log1p(exp(-z)) : log1p(exp(z)); }

/* w (dims + 1): weights of scaled features, then the bias. */
static double score_row(const struct problem* p, const double* w, int i) {
	double z = w[p->dims];
	for (int j = 0; j < p->dims; j++)
		z += w[j] * ((double)row_at(p, i)[j] - p->mean[j]) * p->scale[j];
	return z;
}

/* The loss, and its gradient if there is a vector for it. Both vectors are the minimiser's own, with stride
 * 1. */
static double compute_loss(const gsl_vector* v, const struct problem* p, gsl_vector* slope) {
	double value = 0;
	const double* w = v->data;
	double* g = slope ? slope->data : NULL;
	if (slope)
		gsl_vector_set_zero(slope);
	for (int i = 0; i < p->n; i++) {
		const double z = score_row(p, w, i);
		const double error = 1 / (1 + exp(-z)) - p->y[i];
		value += softplus(p->y[i] ? -z : z) / p->n;
		for (int j = 0; slope && j < p->dims; j++)
			g[j] += error * ((double)row_at(p, i)[j] - p->mean[j]) * p->scale[j] / p->n;
		if (slope)
			g[p->dims] += error / p->n;
	}
	for (int j = 0; j < p->dims; j++) {
		value += p->ridge / 2 * w[j] * w[j];
		if (slope)
			g[j] += p->ridge * w[j];
	}
	return value;
}

static double value_of(const gsl_vector* v, void* of) { return compute_loss(v, of, NULL); }
static void slope_of(const gsl_vector* v, void* of, gsl_vector* slope) { compute_loss(v, of, slope); }
static void value_and_slope(const gsl_vector* v, void* of, double* value, gsl_vector* slope) {
	*value = compute_loss(v, of, slope);
}

static void measure_loss(struct problem* p) {
	for (int j = 0; j < p->dims; j++) {
		double sum = 0, squares = 0;
		for (int i = 0; i < p->n; i++)
			sum += (double)row_at(p, i)[j];
		p->mean[j] = sum / p->n;
		for (int i = 0; i < p->n; i++)
			squares += ((double)row_at(p, i)[j] - p->mean[j]) * ((double)row_at(p, i)[j] - p->mean[j]);
		const double deviation = sqrt(squares / p->n);
		p->scale[j] = deviation > 1e-6 ? 1 / deviation : 0;
	}
}

static void minimise_loss(struct problem* p, gsl_multimin_fdfminimizer* how, gsl_vector* v, int steps) {
	gsl_multimin_function_fdf function = {
	    .f = value_of, .df = slope_of, .fdf = value_and_slope, .n = (size_t)p->dims + 1, .params = p};
	gsl_multimin_fdfminimizer_set(how, &function, v, 0.1, 0.1);
	for (int i = 0; i < steps; i++)
		if (gsl_multimin_fdfminimizer_iterate(how) != GSL_SUCCESS ||
		    gsl_multimin_test_gradient(how->gradient, 1e-4) == GSL_SUCCESS)
			break;
	gsl_vector_memcpy(v, how->x);
}

bool logistic_fit(const float* x, const uint8_t* y, int n, int dims, double ridge, int steps, float* weight,
                  float* bias) {
	int ones = 0;
	for (int i = 0; i < n; i++)
		ones += y[i];
	if (n < 2 || ones == 0 || ones == n)
		return false;
	gsl_set_error_handler_off();
	struct problem p = {.x = x, .y = y, .n = n, .dims = dims, .ridge = ridge};
	p.mean = calloc(2 * (size_t)dims, sizeof *p.mean);
	gsl_vector* v = gsl_vector_calloc((size_t)dims + 1);
	gsl_multimin_fdfminimizer* how =
	    gsl_multimin_fdfminimizer_alloc(gsl_multimin_fdfminimizer_vector_bfgs2, (size_t)dims + 1);
	const bool good = p.mean && v && how;
	if (good) {
		p.scale = p.mean + dims;
		measure_loss(&p);
		double constant = (double)*bias;
		for (int j = 0; j < dims; j++) {
			v->data[j] = p.scale[j] > 0 ? (double)weight[j] / p.scale[j] : 0;
			constant += (double)weight[j] * p.mean[j];
		}
		v->data[dims] = constant;
		minimise_loss(&p, how, v, steps);
		constant = v->data[dims];
		for (int j = 0; j < dims; j++) {
			const double w = v->data[j] * p.scale[j];
			weight[j] = (float)w;
			constant -= w * p.mean[j];
		}
		*bias = (float)constant;
	}
	free(p.mean);
	gsl_vector_free(v);
	gsl_multimin_fdfminimizer_free(how);
	return good;
}

double logistic_chance(const float* weight, float bias, const float* x, int dims) {
	double z = (double)bias;
	for (int j = 0; j < dims; j++)
		z += (double)weight[j] * (double)x[j];
	return 1 / (1 + exp(-z));
}
