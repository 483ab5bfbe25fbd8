/* Gaussian-process regression over bit vectors, as a library of its own.
 *
 * Its use follows GSL and NLopt: gp_open, gp_add for each observation, gp_fit now and then, gp_predict and
 * gp_propose as needed, gp_close. Points are bits in {0,1}^dims in one or two groups (kinds), each with a
 * length-scale. The model of an observation is
 *
 *     y = mean + f(bits) + offset(window) + noise,   f ~ GP(0, k),  offset ~ N(0, window^2),
 *
 * so observations of one window share an error and are compared among themselves. noise has the variance
 * given with the observation, plus a small jitter. The constant mean is its generalised least squares
 * estimate. With h_g the number of differing bits of group g, the kernels are
 *
 *     Matérn 5/2:          amplitude^2 (1 + √5 r + 5r²/3) exp(-√5 r),  r² = Σ h_g / length_g²
 *     exponential-Hamming: amplitude^2 exp(-Σ h_g / length_g)
 *
 * (Rasmussen & Williams 2006, Eq. 4.17 and 4.18 on the cube). Linear algebra is GSL's on OpenBLAS; the
 * optimisers are NLopt's. */
#ifndef SWIFTLET_GP_GP_H
#define SWIFTLET_GP_GP_H

#include <stdbool.h>
#include <stdint.h>

enum { GP_MAX_DIMS = 508, GP_MAX_GROUPS = 2, GP_MAX_PARAMETERS = GP_MAX_GROUPS + 2 };

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

/* Standard deviations of f and of a window's offset, lengths in (root) bits; all positive. */
struct gp_hyper {
	double amplitude;
	double length[GP_MAX_GROUPS];
	double window;
	double mean; /* filled by gp_hyper: the most likely mean given the other parameters */
};

struct gp_options {
	int dims;             /* 1..GP_MAX_DIMS; a point is (dims + 63) / 64 words, unused bits 0 */
	const uint8_t* group; /* (dims) 0 or 1, or NULL for one group; copied */
	int capacity;         /* observations, 1..8192 */
	enum gp_kernel kernel;
	double jitter; /* variance added to every observation's, > 0 */
	struct gp_hyper hyper;
};

struct gp;
/* NULL when an option is out of range or there is no memory. */
struct gp* gp_open(const struct gp_options*);
void gp_close(struct gp*);

/* Adds an observation with its noise variance, O(n²): the Cholesky factor grows by a row. Window 0 is a
 * window of its own. A point may be observed again. */
enum gp_result gp_add(struct gp*, const uint64_t* bits, double y, double variance, int64_t window);
/* Drops the oldest observations until `keep` are left, and rebuilds: O(keep³). */
enum gp_result gp_forget(struct gp*, int keep);
int gp_count(const struct gp*);
/* True when the point is among the observations. O(n). */
bool gp_observed(const struct gp*, const uint64_t* bits);

/* Posterior of mean and f together at a point, without a window's offset and noise. O(n²). variance may be
 * NULL (O(n) then). */
void gp_predict(struct gp*, const uint64_t* bits, double* mean, double* variance);

struct gp_hyper gp_hyper(const struct gp*);
/* Takes these and rebuilds: O(n³). */
enum gp_result gp_set_hyper(struct gp*, const struct gp_hyper*);
/* Log marginal likelihood (R&W Eq. 2.30) of all observations under these hyper-parameters, the mean profiled,
 * and its gradient with respect to the logarithms of amplitude, length of each group in use,
 * and window (R&W Eq. 5.9; may be NULL). Changes nothing else. O(n³). */
enum gp_result gp_likelihood(struct gp*, const struct gp_hyper*, double* value, double* gradient);
int gp_parameters(const struct gp*); /* entries of the gradient */
/* Maximises the likelihood from the present hyper-parameters (NLopt, L-BFGS, within bounds of a factor 1000
 * about 1) with at most `evaluations` of value and gradient, O(n³) each; then rebuilds. */
enum gp_result gp_fit(struct gp*, int evaluations);

struct gp_search {
	int size; /* bits set in the proposal, exactly */
	enum gp_acquisition acquisition;
	double kappa; /* UCB: mean + kappa · standard deviation */
	uint64_t seed;
};
/* The best unobserved point of `size` bits that is found: NLopt on the relaxed cube with the number of bits
 * kept, rounding to the largest coordinates, then swaps on the discrete set, ranked by posterior mean and
 * judged by acquisition. `bits` has the words of gp_options.dims. */
enum gp_result gp_propose(struct gp*, const struct gp_search*, uint64_t* bits);

#endif
