/* Bayesian linear regression in covariance form. The state is (constant, offset, weights…); an observation
 * is one Kalman measurement with the row h, 0/1 but for the offset, so h'P is a sum of rows of P and the
 * update a rank-one downdate. Members share the gain and differ in their noise (Matheron's rule: exact
 * posterior draws). */
#include "gp/linear.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "gp/random.h"

enum { CONSTANT, OFFSET, WEIGHTS };

struct linear_model {
	struct linear_options option;
	int n;              /* state length: dims + 2 */
	double* covariance; /* (n, n) symmetric */
	double* mean;       /* (n) */
	double* member;     /* (members, n) */
	double* gain;       /* (n) workspace */
	int* active;        /* (n) workspace: indices where h is not 0 */
	double* sd;         /* (n) prior standard deviations, the weights' own parts */
	struct gp_random random;
};

/* p may be NULL: weights alike about zero. */
static void start(struct linear_model* m, const struct linear_prior* p) {
	const size_t n = (size_t)m->n, split = WEIGHTS + (size_t)(p ? p->split : 0);
	for (size_t i = 0; i < n; i++)
		m->mean[i] = i == CONSTANT ? m->option.mean : i >= WEIGHTS && p ? p->mean[i - WEIGHTS] : 0;
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++) {
			const bool together = p && i >= WEIGHTS && j >= WEIGHTS && i < split && j < split;
			const double scale = together ? p->scale_sd : 0;
			m->covariance[i * n + j] =
			    scale * scale * m->mean[i] * m->mean[j] + (i == j ? m->sd[i] * m->sd[i] : 0);
		}
	for (int e = 0; e < m->option.members; e++) {
		const double scale = p ? 1 + p->scale_sd * gp_normal(&m->random) : 1;
		for (size_t i = 0; i < n; i++)
			m->member[(size_t)e * n + i] =
			    m->mean[i] * (i >= WEIGHTS && i < split ? scale : 1) + m->sd[i] * gp_normal(&m->random);
	}
}

static bool in_range(const struct linear_options* o) {
	return o->dims >= 1 && o->dims <= 1024 && o->members >= 0 && o->members <= 4096 && isfinite(o->mean) &&
	       o->mean_sd > 0 && o->weight_sd > 0 && o->offset_sd >= 0;
}

struct linear_model* linear_open(const struct linear_options* o) {
	if (!in_range(o))
		return NULL;
	struct linear_model* m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	const size_t n = (size_t)o->dims + WEIGHTS;
	m->option = *o;
	m->n = (int)n;
	m->random.state = o->seed;
	m->covariance = calloc(n * n, sizeof *m->covariance);
	m->mean = calloc(n, sizeof *m->mean);
	m->member = calloc(n * ((size_t)o->members + 1), sizeof *m->member);
	m->gain = calloc(n, sizeof *m->gain);
	m->active = calloc(n, sizeof *m->active);
	m->sd = calloc(n, sizeof *m->sd);
	if (!m->covariance || !m->mean || !m->member || !m->gain || !m->active || !m->sd) {
		linear_close(m);
		return NULL;
	}
	for (size_t i = 0; i < n; i++)
		m->sd[i] = i == CONSTANT ? o->mean_sd : i == OFFSET ? o->offset_sd : o->weight_sd;
	start(m, NULL);
	return m;
}

void linear_close(struct linear_model* m) {
	if (!m)
		return;
	free(m->covariance);
	free(m->mean);
	free(m->member);
	free(m->gain);
	free(m->active);
	free(m->sd);
	free(m);
}

void linear_begin(struct linear_model* m, const struct linear_prior* p) {
	for (int i = 0; i < m->option.dims; i++)
		m->sd[WEIGHTS + i] = p->sd[i];
	start(m, p);
}

void linear_group(struct linear_model* m) {
	const size_t n = (size_t)m->n;
	for (size_t i = 0; i < n; i++)
		m->covariance[i * n + OFFSET] = m->covariance[OFFSET * n + i] = 0;
	m->covariance[OFFSET * n + OFFSET] = m->option.offset_sd * m->option.offset_sd;
	m->mean[OFFSET] = 0;
	for (int e = 0; e < m->option.members; e++)
		m->member[(size_t)e * n + OFFSET] = m->option.offset_sd * gp_normal(&m->random);
}

/* Indices where h is not 0, the offset's left out. */
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
	for (int e = 0; e < m->option.members; e++) {
		double* member = m->member + (size_t)e * n;
		const double noise = sqrt(variance) * gp_normal(&m->random);
		const double own = (y + noise - sum_at(m, member, count, share)) * scale;
		for (size_t j = 0; j < n; j++)
			member[j] += own * m->gain[j];
	}
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
	for (int i = 0; i < m->option.dims; i++)
		out[i] = m->mean[WEIGHTS + i];
}

double linear_draw(const struct linear_model* m, int member, double scale, double* out) {
	const double* draw = m->member + (size_t)member * (size_t)m->n;
	for (int i = 0; i < m->option.dims; i++) {
		const double mean = m->mean[WEIGHTS + i];
		out[i] = mean + scale * (draw[WEIGHTS + i] - mean);
	}
	return m->mean[CONSTANT] + scale * (draw[CONSTANT] - m->mean[CONSTANT]);
}
