/* Gaussian-process regression over the unit cube, with a length-scale for each dimension: for few dimensions
 * and few, noisy observations. gp.h is the one over bit vectors.
 *
 * The model of an observation is
 *
 *     y = mean + f(x) + offset(window) + noise,  f ~ GP(0, k),  offset ~ N(0, window²),
 *                                                noise ~ N(0, noise²·variance + jitter)
 *
 * with k(x, z) = amplitude² (1 + √5 r + 5r²/3) exp(-√5 r), r² = Σ (x_i - z_i)² / length_i² (Matérn 5/2 with
 * automatic relevance determination; Rasmussen & Williams 2006, Eq. 4.17 and section 5.1). The mean is the
 * generalised least squares estimate. Hyper-parameters have log-normal priors about those of reals_open, so
 * that a handful of observations does not settle them. Memory is taken at reals_open; NLopt takes some during
 * reals_fit and reals_maximise. One thread at a time may use a process. */
#ifndef SWIFTLET_GP_REALS_H
#define SWIFTLET_GP_REALS_H

#include "gp/gp.h"

enum { REALS_MOST_DIMS = 16, REALS_MOST_PARAMETERS = REALS_MOST_DIMS + 3 };

/* Standard deviations of f, of a window's offset, and of noise of variance 1; lengths in sides of the cube.
 * All positive. */
struct reals_hyper {
	double amplitude, window, noise;
	double length[REALS_MOST_DIMS];
};

struct reals_options {
	int dims;           /* 1..REALS_MOST_DIMS */
	int capacity;       /* observations, 1..1024 */
	double jitter;      /* > 0 */
	double prior_width; /* standard deviation of the logarithm of each hyper-parameter, > 0 */
	struct reals_hyper hyper;
};

struct reals;
/* NULL when an option is out of range or there is no memory. */
struct reals* reals_open(const struct reals_options*);
void reals_close(struct reals*);

/* Adds an observation at x (dims, in [0, 1]): O(n³). Window 0 is a window of its own. */
enum gp_result reals_add(struct reals*, const double* x, double y, double variance, int64_t window);
/* Drops the oldest observations until `keep` are left: O(keep³). */
enum gp_result reals_forget(struct reals*, int keep);
int reals_count(const struct reals*);

/* Posterior of mean and f together at a point, without a window's offset and noise; without observations the
 * mean is 0. O(n²). variance may be NULL (O(n) then). */
void reals_predict(const struct reals*, const double* x, double* mean, double* variance);

/* Posterior of f(x) - f(z): mean and standard deviation. O(n²). */
void reals_compare(const struct reals*, const double* x, const double* z, double* mean, double* deviation);

struct reals_hyper reals_hyper(const struct reals*);
/* Takes these and rebuilds: O(n³). */
enum gp_result reals_set_hyper(struct reals*, const struct reals_hyper*);
/* Log marginal likelihood (R&W Eq. 2.30) of all observations under these hyper-parameters, the mean profiled,
 * plus the logarithm of their priors up to a constant; gradient (dims + 3; may be NULL) with respect to the
 * logarithms of amplitude, window, noise and lengths (R&W Eq. 5.9). O(n³). */
enum gp_result reals_likelihood(struct reals*, const struct reals_hyper*, double* value, double* gradient);
/* Maximises it from the present hyper-parameters (NLopt, L-BFGS, within a factor of 20 about the prior's
 * middle) with at most `evaluations` of value and gradient; then rebuilds. */
enum gp_result reals_fit(struct reals*, int evaluations);

struct reals_search {
	/* The worth of a point whose value is estimated as `mean`, with a standard deviation of `deviation`. */
	double (*worth)(void* user, const double* x, double mean, double deviation);
	void* user;
	const double* fixed; /* (dims) fixed coordinates; NaN: free. NULL: all are free */
	int starts;          /* random points, 1 or more, half of them around the best known ones */
	int evaluations;     /* evaluations of the climb from the best of them (NLopt, Nelder-Mead) */
	uint64_t seed;
};
/* The most worthwhile point of the cube that is found: the best of the random points, then a climb. x (dims):
 * `from`, where the climb may begin too, and the result. */
enum gp_result reals_maximise(const struct reals*, const struct reals_search*, double* x);

#endif
