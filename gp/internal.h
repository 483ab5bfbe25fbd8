/* Shared by the files of the Gaussian process: its state, the covariance, and the likelihood. */
#pragma once

#include <gsl/gsl_cblas.h>
#include <gsl/gsl_matrix.h>
#include <stddef.h>

#include "gp/gp.h"

struct observation {
	double y, variance;
	int64_t window; /* as given */
};

struct gp {
	struct gp_options option;
	int groups, n;
	uint8_t group[GP_MAX_DIMS];
	struct gp_hyper hyper;
	double jitter; /* in use; raised when the covariance could not be factored */
	double mean;   /* in use */

	struct observation* observation; /* (capacity) */
	double* point;                   /* (capacity, dims) */
	double* squares;                 /* the memory of the next three, which is taken as it is written to */
	double* distance;                /* (groups, capacity, capacity) d_g, lower triangles */
	double* factor;                  /* (capacity, capacity) lower Cholesky factor of the covariance */
	double* scratch;                 /* (capacity, capacity) the likelihood's */
	double* half_y;   /* (capacity) L⁻¹ y, grows with the factor; the memory of the next ones too */
	double* half_one; /* (capacity) L⁻¹ 1 */
	double* alpha;    /* (capacity) K⁻¹ (y - mean) */
	double* work;     /* (4, capacity) */
};

static inline const double* point_at(const struct gp* g, int i) {
	return g->point + (size_t)i * (size_t)g->option.dims;
}
static inline size_t pair_at(const struct gp* g, int i, int j) {
	return (size_t)i * (size_t)g->option.capacity + (size_t)j;
}
static inline bool share_window(const struct gp* g, int i, int j) {
	const int64_t window = g->observation[i].window;
	return i == j || (window != 0 && window == g->observation[j].window);
}

/* k and dk/ds at s = Σ weight_g d_g. */
double kernel_at(enum gp_kernel, double amplitude, double s, double* slope);
/* Exponent p of weight = length^-p. */
int kernel_power(enum gp_kernel);
void kernel_weights(const struct gp*, const struct gp_hyper*, double weight[GP_MAX_GROUPS]);
/* The same of two observations, j <= i. */
double kernel_between(const struct gp*, const struct gp_hyper*, const double weight[GP_MAX_GROUPS], int i,
                      int j, double* slope);

/* In place: the lower triangle of the covariance under these, and its factor. Returns GP_OK or
 * GP_NOT_POSITIVE. */
enum gp_result covariance_factor(const struct gp*, const struct gp_hyper*, double jitter, double* matrix);
/* With the factor of all observations: x = L⁻¹ x, or with CblasTrans L'⁻¹ x. */
void solve_factor(const struct gp*, const double* factor, enum CBLAS_TRANSPOSE, double* x);
/* half_y = L⁻¹ y, half_one = L⁻¹ 1. */
void halve(const struct gp*, const double* factor, double* half_y, double* half_one);
/* From these halves: the mean, profiled (1'K⁻¹y / 1'K⁻¹1), and alpha = K⁻¹(y - mean). Returns
 * (y - mean)'alpha. */
double solve_halves(const struct gp*, const double* factor, const double* half_y, const double* half_one,
                    double* alpha, double* mean);
gsl_matrix_view square(const struct gp*, double* data);

/* The i-th hyper-parameter: amplitude, the lengths, window, noise; how many of them gp_fit chooses. */
double* hyper_parameter(const struct gp*, struct gp_hyper*, int i);
int hyper_count(const struct gp*);
/* All of them finite and over 0. */
bool hyper_valid(const struct gp*, const struct gp_hyper*);
/* Takes these and rebuilds: O(n³). */
enum gp_result gp_set_hyper(struct gp*, const struct gp_hyper*);
/* Log marginal likelihood (R&W Eq. 2.30) of all observations under these hyper-parameters, the mean profiled,
 * plus the logarithm of their priors up to a constant; gradient (hyper_count; may be NULL) with respect to
 * their logarithms (R&W Eq. 5.9). Changes nothing else. O(n³). */
enum gp_result gp_likelihood(struct gp*, const struct gp_hyper*, double* value, double* gradient);
