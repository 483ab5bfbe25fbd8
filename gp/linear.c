/* Bayesian linear regression in covariance form. The state is (constant, offset, weights…). An observation is
 * one Kalman measurement with the row h, which is 0/1 except for the offset. So h'P is a sum of rows of P,
 * and the update a rank-one downdate. */
#include "gp/linear.h"

#include <gsl/gsl_linalg.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gp/internal.h"
#include "gp/random.h"

enum { CONSTANT, OFFSET, WEIGHTS };

struct linear_model {
	struct linear_options option;
	int n;              /* state length: dims + 2 */
	double* covariance; /* (n, n) symmetric */
	double* factor;     /* (dims, dims) workspace: of the weights' covariance */
	double* mean;       /* (n) */
	double* gain;       /* (n) workspace */
	int* active;        /* (n) workspace: indices where h is not 0 */
	struct gp_random random;
};

struct linear_model* linear_open(const struct linear_options* o) {
	if (!(o->dims >= 1 && o->dims <= 1024 && o->constant_sd > 0 && o->offset_sd >= 0))
		return NULL;
	struct linear_model* m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	const size_t n = (size_t)o->dims + WEIGHTS;
	m->option = *o;
	m->n = (int)n;
	m->random.state = o->seed;
	m->covariance = calloc(n * n, sizeof *m->covariance);
	m->factor = calloc(n * n, sizeof *m->factor);
	m->mean = calloc(n, sizeof *m->mean);
	m->gain = calloc(n, sizeof *m->gain);
	m->active = calloc(n, sizeof *m->active);
	if (!m->covariance || !m->factor || !m->mean || !m->gain || !m->active) {
		linear_close(m);
		return NULL;
	}
	return m;
}

void linear_close(struct linear_model* m) {
	if (!m)
		return;
	free(m->covariance);
	free(m->factor);
	free(m->mean);
	free(m->gain);
	free(m->active);
	free(m);
}

void linear_begin(struct linear_model* m, const struct linear_prior* p) {
	const size_t n = (size_t)m->n, split = WEIGHTS + (size_t)p->split;
	memset(m->covariance, 0, n * n * sizeof *m->covariance);
	m->mean[CONSTANT] = m->mean[OFFSET] = 0;
	m->covariance[CONSTANT * n + CONSTANT] = m->option.constant_sd * m->option.constant_sd;
	m->covariance[OFFSET * n + OFFSET] = m->option.offset_sd * m->option.offset_sd;
	memcpy(m->mean + WEIGHTS, p->mean, (size_t)m->option.dims * sizeof *p->mean);
	for (size_t i = WEIGHTS; i < n; i++) {
		for (size_t j = WEIGHTS; i < split && j < split; j++)
			m->covariance[i * n + j] = p->scale_sd * p->scale_sd * m->mean[i] * m->mean[j];
		m->covariance[i * n + i] += p->sd[i - WEIGHTS] * p->sd[i - WEIGHTS];
	}
}

void linear_group(struct linear_model* m) {
	const size_t n = (size_t)m->n;
	for (size_t i = 0; i < n; i++)
		m->covariance[i * n + OFFSET] = m->covariance[OFFSET * n + i] = 0;
	m->covariance[OFFSET * n + OFFSET] = m->option.offset_sd * m->option.offset_sd;
	m->mean[OFFSET] = 0;
}

/* Indices at which h is not 0, without the offset's. */
static int active_of(struct linear_model* m, const uint64_t* bits) {
	int count = 0;
	m->active[count++] = CONSTANT;
	for (int i = 0; i < m->option.dims; i++)
		if (bits[i >> 6] >> (i & 63) & 1)
			m->active[count++] = WEIGHTS + i;
	return count;
}

/* h'x */
static double sum_at(const struct linear_model* m, const double* x, int count, double share) {
	double sum = share * x[OFFSET];
	for (int i = 0; i < count; i++)
		sum += x[m->active[i]];
	return sum;
}

/* h'P */
static void take_gain(struct linear_model* m, int count, double share) {
	const size_t n = (size_t)m->n;
	for (size_t j = 0; j < n; j++)
		m->gain[j] = share * m->covariance[OFFSET * n + j];
	for (int i = 0; i < count; i++) {
		const double* row = m->covariance + (size_t)m->active[i] * n;
		for (size_t j = 0; j < n; j++)
			m->gain[j] += row[j];
	}
}

void linear_add(struct linear_model* m, const uint64_t* bits, double y, double variance, double share,
                bool in_group) {
	if (!isfinite(y) || !isfinite(variance) || variance <= 0 || !isfinite(share))
		return;
	const size_t n = (size_t)m->n;
	const int count = active_of(m, bits);
	if (!in_group) {
		variance += share * share * m->option.offset_sd * m->option.offset_sd;
		share = 0;
	}
	take_gain(m, count, share);
	const double scale = 1 / (sum_at(m, m->gain, count, share) + variance);
	const double surprise = (y - sum_at(m, m->mean, count, share)) * scale;
	for (size_t i = 0; i < n; i++) {
		m->mean[i] += surprise * m->gain[i];
		const double part = m->gain[i] * scale;
		double* row = m->covariance + i * n;
		for (size_t j = 0; j < n; j++)
			row[j] -= part * m->gain[j];
	}
}

double linear_mean(const struct linear_model* m, const uint64_t* bits) {
	double sum = m->mean[CONSTANT];
	for (int w = 0; w * 64 < m->option.dims; w++)
		for (uint64_t rest = bits[w]; rest; rest &= rest - 1)
			sum += m->mean[WEIGHTS + w * 64 + __builtin_ctzll(rest)];
	return sum;
}

double linear_offset(const struct linear_model* m) { return m->mean[OFFSET]; }

void linear_weights(const struct linear_model* m, double* out) {
	memcpy(out, m->mean + WEIGHTS, (size_t)m->option.dims * sizeof *out);
}

void linear_draw(struct linear_model* m, double scale, double* out) {
	const size_t dims = (size_t)m->option.dims, n = (size_t)m->n;
	for (size_t i = 0; i < dims; i++) {
		memcpy(m->factor + i * dims, m->covariance + (WEIGHTS + i) * n + WEIGHTS, dims * sizeof *m->factor);
		out[i] = scale * gp_normal(&m->random);
	}
	set_up_libraries();
	gsl_matrix_view factor = gsl_matrix_view_array(m->factor, dims, dims);
	if (gsl_linalg_cholesky_decomp1(&factor.matrix) == GSL_SUCCESS)
		cblas_dtrmv(CblasRowMajor, CblasLower, CblasNoTrans, CblasNonUnit, m->option.dims, m->factor,
		            m->option.dims, out, 1);
	else
		memset(out, 0, dims * sizeof *out);
	cblas_daxpy(m->option.dims, 1, m->mean + WEIGHTS, 1, out, 1);
}
