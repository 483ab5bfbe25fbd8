/* Gaussian-process regression, as a library of its own.
 *
 * Its use follows GSL and NLopt: gp_open, gp_add for each observation, gp_fit now and then, gp_predict as
 * needed, gp_propose or gp_maximise for the next point, gp_close. Points lie in the unit cube; bit vectors
 * are its corners. Dimensions form groups, each with a length-scale. The model of an observation is
 *
 *     y = mean + f(x) + offset(window) + noise,  f ~ GP(0, k),  offset ~ N(0, window²),
 *                                                noise ~ N(0, noise²·variance + jitter)
 *
 * so observations of one window share an error and are compared among themselves. The constant mean is its
 * generalised least squares estimate. With d_g the sum of (x_i - z_i)² over the dimensions of group g (for
 * bits the number that differ), the kernels are
 *
 *     Matérn 5/2:          amplitude² (1 + √5 r + 5r²/3) exp(-√5 r),  r² = Σ d_g / length_g²
 *     exponential-Hamming: amplitude² exp(-Σ d_g / length_g)
 *
 * (Rasmussen & Williams 2006, Eq. 4.17, 4.18 and section 5.1). Linear algebra is GSL's on OpenBLAS; the
 * optimisers are NLopt's. Memory is taken by gp_open; NLopt takes some in gp_fit, gp_propose and gp_maximise.
 * One thread at a time may use a process. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { GP_MAX_DIMS = 508, GP_MAX_GROUPS = 16, GP_MAX_PARAMETERS = GP_MAX_GROUPS + 3 };

enum gp_result {
	GP_OK,
	GP_INVALID,      /* an argument is out of range */
	GP_FULL,         /* capacity observations are held */
	GP_NOT_POSITIVE, /* the covariance matrix has no Cholesky factor, even with more jitter */
	GP_NO_OPTIMUM,   /* the optimiser failed; hyper-parameters stay as they were */
	GP_NONE_LEFT     /* no unobserved point could be found */
};

enum gp_kernel { GP_MATERN52, GP_HAMMING };
enum gp_acquisition { GP_UCB, GP_EI };

/* Standard deviations of f, of a window's offset and of noise of variance 1; lengths of the groups in use.
 * All positive. */
struct gp_hyper {
	double amplitude, window, noise;
	double length[GP_MAX_GROUPS];
};

struct gp_options {
	int dims; /* 1..GP_MAX_DIMS */
	const uint8_t*
	    group;    /* (dims) each below GP_MAX_GROUPS; copied. NULL: each dimension is a group of its own */
	int capacity; /* observations, 1..2048 */
	enum gp_kernel kernel;
	double jitter; /* > 0 */
	/* Standard deviation of the logarithm of each hyper-parameter about its value here (log-normal priors),
	 * so that a handful of observations does not settle them; 0: no priors */
	double prior_width;
	bool known_noise; /* gp_fit leaves `noise` as it is */
	struct gp_hyper hyper;
};

struct gp;
/* NULL when an option is out of range or there is no memory. */
struct gp* gp_open(const struct gp_options*);
void gp_close(struct gp*);

/* Adds an observation at x (dims, in [0, 1]), O(n²): the Cholesky factor grows by a row. Window 0 is a window
 * of its own. A point may be observed again. */
enum gp_result gp_add(struct gp*, const double* x, double y, double variance, int64_t window);
/* Drops the oldest observations until `keep` are left, and rebuilds: O(keep³). */
enum gp_result gp_forget(struct gp*, int keep);
int gp_count(const struct gp*);
/* True when the point is among the observations. O(n). */
bool gp_observed(const struct gp*, const double* x);

/* Posterior of mean and f together at a point, without a window's offset and noise; without observations the
 * mean is 0. O(n²). variance may be NULL (O(n) then). */
void gp_predict(const struct gp*, const double* x, double* mean, double* variance);
/* Posterior of f(x) - f(z): mean and standard deviation. O(n²). */
void gp_compare(const struct gp*, const double* x, const double* z, double* mean, double* deviation);
/* Maximises likelihood and priors from the present hyper-parameters (NLopt, L-BFGS, within bounds of a factor
 * 1000 about 1) with at most `evaluations` of value and gradient, O(n³) each; then rebuilds. */
enum gp_result gp_fit(struct gp*, int evaluations);

struct gp_subset {
	int size; /* bits set in the proposal, exactly */
	enum gp_acquisition acquisition;
	double kappa; /* UCB: mean + kappa · standard deviation */
	uint64_t seed;
};
/* The best unobserved corner of `size` bits that is found: NLopt on the relaxed cube with the number of bits
 * kept, rounding to the largest coordinates, then swaps of two bits along the slopes. x (dims): 0 or 1 each.
 */
enum gp_result gp_propose(const struct gp*, const struct gp_subset*, double* x);

struct gp_search {
	/* The worth of a point whose value is estimated as `mean`, with a standard deviation of `deviation`. */
	double (*worth)(void* user, const double* x, double mean, double deviation);
	void* user;
	const double* fixed; /* (dims) fixed coordinates; NaN: free. NULL: all are free */
	int starts;          /* random points, 1 or more, half of them around the best known ones */
	int evaluations;     /* evaluations of the climb from the best of them (NLopt, Nelder-Mead) */
	uint64_t seed;
};
/* The most worthwhile point of the cube that is found, in at most GP_MAX_GROUPS dimensions: the best of the
 * random points, then a climb. x (dims): where the climb may begin too, and the result. */
enum gp_result gp_maximise(const struct gp*, const struct gp_search*, double* x);
