/* The regression over the unit cube: the covariance and its factor, predictions, the likelihood with its
 * gradient, and the search for the best point. */
#include "gp/reals.h"

#include <gsl/gsl_cblas.h>
#include <gsl/gsl_linalg.h>
#include <math.h>
#include <nlopt.h>
#include <stdlib.h>
#include <string.h>

#include "gp/internal.h"
#include "gp/random.h"

struct reals_observation {
	double x[REALS_MOST_DIMS];
	double y, variance;
	int64_t window;
};

struct reals {
	struct reals_options option;
	struct reals_hyper hyper;
	int n;
	double mean;
	struct reals_observation* observation; /* (capacity) */
	double* factor;                        /* (capacity, capacity) lower Cholesky factor of the covariance */
	double* trial;                         /* (capacity, capacity) the likelihood's */
	double* alpha;                         /* (capacity) K⁻¹ (y - mean) */
	double* work;                          /* (3, capacity) */
};

/* ---- the covariance ------------------------------------------------------------------------- */

/* k, and if wanted -dk/d(r²)·2. The slope of k with respect to the logarithm of a length is that times (x_i -
 * z_i)² / length_i². */
static double kernel_of(const struct reals* g, const struct reals_hyper* h, const double* x, const double* z,
                        double* slope) {
	double square = 0;
	for (int i = 0; i < g->option.dims; i++) {
		const double d = (x[i] - z[i]) / h->length[i];
		square += d * d;
	}
	const double r = sqrt(5 * square), decay = h->amplitude * h->amplitude * exp(-r);
	if (slope)
		*slope = 5.0 / 3 * (1 + r) * decay;
	return (1 + r + r * r / 3) * decay;
}

static bool share_window(const struct reals* g, int i, int j) {
	const int64_t window = g->observation[i].window;
	return i == j || (window != 0 && window == g->observation[j].window);
}

static gsl_matrix_view view_square(const struct reals* g, double* data) {
	return gsl_matrix_view_array_with_tda(data, (size_t)g->n, (size_t)g->n, (size_t)g->option.capacity);
}

/* The lower triangle's factor, in place. */
static enum gp_result factor_covariance(const struct reals* g, const struct reals_hyper* h, double jitter,
                                        double* matrix) {
	for (int i = 0; i < g->n; i++) {
		const struct reals_observation* const o = &g->observation[i];
		double* const row = matrix + (size_t)i * (size_t)g->option.capacity;
		for (int j = 0; j <= i; j++)
			row[j] = kernel_of(g, h, o->x, g->observation[j].x, NULL) +
			         (share_window(g, i, j) ? h->window * h->window : 0);
		row[i] += h->noise * h->noise * o->variance + jitter;
	}
	if (g->n == 0)
		return GP_OK;
	gsl_matrix_view view = view_square(g, matrix);
	return gsl_linalg_cholesky_decomp1(&view.matrix) == GSL_SUCCESS ? GP_OK : GP_NOT_POSITIVE;
}

static void solve_triangle(const struct reals* g, const double* factor, enum CBLAS_TRANSPOSE transpose,
                           double* x) {
	cblas_dtrsv(CblasRowMajor, CblasLower, transpose, CblasNonUnit, g->n, factor, g->option.capacity, x, 1);
}

/* alpha = K⁻¹ (y - mean) with the mean 1'K⁻¹y / 1'K⁻¹1. Returns (y - mean)'alpha. work (capacity) */
static double solve_for_mean(const struct reals* g, const double* factor, double* alpha, double* work,
                             double* mean) {
	for (int i = 0; i < g->n; i++) {
		alpha[i] = g->observation[i].y;
		work[i] = 1;
	}
	solve_triangle(g, factor, CblasNoTrans, alpha);
	solve_triangle(g, factor, CblasNoTrans, work);
	*mean = cblas_ddot(g->n, work, 1, alpha, 1) / cblas_ddot(g->n, work, 1, work, 1);
	cblas_daxpy(g->n, -*mean, work, 1, alpha, 1);
	const double fit = cblas_ddot(g->n, alpha, 1, alpha, 1);
	solve_triangle(g, factor, CblasTrans, alpha);
	return fit;
}

static enum gp_result rebuild(struct reals* g) {
	enum gp_result result = factor_covariance(g, &g->hyper, g->option.jitter, g->factor);
	double jitter = g->option.jitter;
	for (int raise = 0; raise < 6 && result != GP_OK; raise++)
		result = factor_covariance(g, &g->hyper, jitter *= 10, g->factor);
	g->mean = 0;
	if (result == GP_OK && g->n > 0)
		solve_for_mean(g, g->factor, g->alpha, g->work, &g->mean);
	return result;
}

/* ---- opening -------------------------------------------------------------------------------- */

/* In the order of the gradient. */
static double* parameter(struct reals_hyper* h, int i) {
	return i == 0 ? &h->amplitude : i == 1 ? &h->window : i == 2 ? &h->noise : &h->length[i - 3];
}

static bool is_valid(const struct reals_hyper* hyper, int dims) {
	struct reals_hyper h = *hyper;
	for (int i = 0; i < dims + 3; i++)
		if (!(*parameter(&h, i) > 0 && isfinite(*parameter(&h, i))))
			return false;
	return true;
}

struct reals* reals_open(const struct reals_options* o) {
	if (o->dims < 1 || o->dims > REALS_MOST_DIMS || o->capacity < 1 || o->capacity > 1024 ||
	    !(o->jitter > 0) || !(o->prior_width > 0) || !is_valid(&o->hyper, o->dims))
		return NULL;
	struct reals* g = calloc(1, sizeof *g);
	if (!g)
		return NULL;
	const size_t n = (size_t)o->capacity;
	g->option = *o;
	g->hyper = o->hyper;
	g->observation = calloc(n, sizeof *g->observation);
	g->factor = calloc(2 * n + 4, n * sizeof *g->factor);
	if (!g->observation || !g->factor) {
		reals_close(g);
		return NULL;
	}
	g->trial = g->factor + n * n;
	g->alpha = g->trial + n * n;
	g->work = g->alpha + n;
	set_up_libraries();
	return g;
}

void reals_close(struct reals* g) {
	if (!g)
		return;
	free(g->observation);
	free(g->factor);
	free(g);
}

int reals_count(const struct reals* g) { return g->n; }

/* ---- observations and predictions ----------------------------------------------------------- */

enum gp_result reals_add(struct reals* g, const double* x, double y, double variance, int64_t window) {
	if (!isfinite(y) || !(variance >= 0) || !isfinite(variance))
		return GP_INVALID;
	if (g->n == g->option.capacity)
		return GP_FULL;
	struct reals_observation* const o = &g->observation[g->n];
	*o = (struct reals_observation){.y = y, .variance = variance, .window = window};
	for (int i = 0; i < g->option.dims; i++) {
		if (!(x[i] >= 0 && x[i] <= 1))
			return GP_INVALID;
		o->x[i] = x[i];
	}
	g->n++;
	const enum gp_result result = rebuild(g);
	if (result == GP_OK)
		return GP_OK;
	g->n--;
	rebuild(g);
	return result;
}

enum gp_result reals_forget(struct reals* g, int keep) {
	if (keep < 0)
		return GP_INVALID;
	if (keep >= g->n)
		return GP_OK;
	memmove(g->observation, g->observation + g->n - keep, (size_t)keep * sizeof *g->observation);
	g->n = keep;
	return rebuild(g);
}

/* work (n) */
static void predict_with(const struct reals* g, const double* x, double* work, double* mean,
                         double* variance) {
	*mean = g->mean;
	for (int i = 0; i < g->n; i++) {
		work[i] = kernel_of(g, &g->hyper, x, g->observation[i].x, NULL);
		*mean += work[i] * g->alpha[i];
	}
	if (!variance)
		return;
	solve_triangle(g, g->factor, CblasNoTrans, work);
	*variance = fmax(0, g->hyper.amplitude * g->hyper.amplitude - cblas_ddot(g->n, work, 1, work, 1));
}

void reals_predict(const struct reals* g, const double* x, double* mean, double* variance) {
	predict_with(g, x, g->work, mean, variance);
}

void reals_compare(const struct reals* g, const double* x, const double* z, double* mean, double* deviation) {
	double* const k = g->work; /* covariances of the difference with the observations */
	*mean = 0;
	for (int i = 0; i < g->n; i++) {
		const double* const at = g->observation[i].x;
		k[i] = kernel_of(g, &g->hyper, x, at, NULL) - kernel_of(g, &g->hyper, z, at, NULL);
		*mean += k[i] * g->alpha[i];
	}
	const double square = g->hyper.amplitude * g->hyper.amplitude;
	const double before = 2 * (square - kernel_of(g, &g->hyper, x, z, NULL));
	solve_triangle(g, g->factor, CblasNoTrans, k);
	*deviation = sqrt(fmax(0, before - cblas_ddot(g->n, k, 1, k, 1)));
}

struct reals_hyper reals_hyper(const struct reals* g) {
	return g->hyper;
}

enum gp_result reals_set_hyper(struct reals* g, const struct reals_hyper* h) {
	if (!is_valid(h, g->option.dims))
		return GP_INVALID;
	const struct reals_hyper before = g->hyper;
	g->hyper = *h;
	const enum gp_result result = rebuild(g);
	if (result != GP_OK) {
		g->hyper = before;
		rebuild(g);
	}
	return result;
}

/* ---- the likelihood ------------------------------------------------------------------------- */

/* Adds the sums over pairs of B_ij dK_ij/dt for each parameter t; B = alpha alpha' - K⁻¹ (lower triangle in
 * `inverse`). */
static void add_slopes(const struct reals* g, const struct reals_hyper* h, const double* alpha,
                       const double* inverse, double* gradient) {
	for (int i = 0; i < g->n; i++)
		for (int j = 0; j <= i; j++) {
			const struct reals_observation *const a = &g->observation[i], *const b = &g->observation[j];
			const double inverted = inverse[(size_t)i * (size_t)g->option.capacity + (size_t)j];
			/* half of both triangles */
			const double weight = (i == j ? 0.5 : 1) * (alpha[i] * alpha[j] - inverted);
			double slope;
			gradient[0] += weight * 2 * kernel_of(g, h, a->x, b->x, &slope);
			if (share_window(g, i, j))
				gradient[1] += weight * 2 * h->window * h->window;
			if (i == j)
				gradient[2] += weight * 2 * h->noise * h->noise * a->variance;
			for (int d = 0; d < g->option.dims; d++) {
				const double apart = (a->x[d] - b->x[d]) / h->length[d];
				gradient[3 + d] += weight * slope * apart * apart;
			}
		}
}

/* Adds log-normal priors, about the values given at opening, to value and gradient. */
static void add_priors(const struct reals* g, const struct reals_hyper* hyper, double* value,
                       double* gradient) {
	struct reals_hyper h = *hyper, middle = g->option.hyper;
	for (int i = 0; i < g->option.dims + 3; i++) {
		const double off = log(*parameter(&h, i) / *parameter(&middle, i)) / g->option.prior_width;
		*value -= 0.5 * off * off;
		if (gradient)
			gradient[i] -= off / g->option.prior_width;
	}
}

enum gp_result reals_likelihood(struct reals* g, const struct reals_hyper* h, double* value,
                                double* gradient) {
	if (!is_valid(h, g->option.dims) || g->n == 0)
		return GP_INVALID;
	const enum gp_result result = factor_covariance(g, h, g->option.jitter, g->trial);
	if (result != GP_OK)
		return result;
	double *const alpha = g->work, *const one = alpha + g->option.capacity, mean;
	*value = -0.5 * solve_for_mean(g, g->trial, alpha, one, &mean) - 0.5 * g->n * log(2 * M_PI);
	for (int i = 0; i < g->n; i++)
		*value -= log(g->trial[(size_t)i * (size_t)g->option.capacity + (size_t)i]);
	if (gradient) {
		gsl_matrix_view view = view_square(g, g->trial);
		if (gsl_linalg_cholesky_invert(&view.matrix) != GSL_SUCCESS)
			return GP_NOT_POSITIVE;
		memset(gradient, 0, (size_t)(g->option.dims + 3) * sizeof *gradient);
		add_slopes(g, h, alpha, g->trial, gradient);
	}
	add_priors(g, h, value, gradient);
	return GP_OK;
}

/* The value of a point without a factor. */
static const double WORST = -1e12;

struct reals_fitting {
	struct reals* g;
	double best; /* the largest value so far, and where */
	struct reals_hyper best_hyper;
};

static double likelihood_at(unsigned n, const double* x, double* gradient, void* user) {
	struct reals_fitting* const fit = user;
	struct reals_hyper h = fit->g->hyper;
	double value, slope[REALS_MOST_PARAMETERS];
	for (unsigned i = 0; i < n; i++)
		*parameter(&h, (int)i) = exp(x[i]);
	const bool good = reals_likelihood(fit->g, &h, &value, slope) == GP_OK && isfinite(value);
	if (gradient)
		for (unsigned i = 0; i < n; i++)
			gradient[i] = good ? slope[i] : 0;
	if (good && value > fit->best) {
		fit->best = value;
		fit->best_hyper = h;
	}
	return good ? value : WORST;
}

enum gp_result reals_fit(struct reals* g, int evaluations) {
	if (evaluations < 1 || g->n < 2)
		return GP_INVALID;
	struct reals_fitting fit = {.g = g, .best = WORST};
	struct reals_hyper h = g->hyper, middle = g->option.hyper;
	double x[REALS_MOST_PARAMETERS], low[REALS_MOST_PARAMETERS], high[REALS_MOST_PARAMETERS], value;
	const int n = g->option.dims + 3;
	for (int i = 0; i < n; i++) {
		low[i] = log(*parameter(&middle, i) / 20);
		high[i] = log(*parameter(&middle, i) * 20);
		x[i] = fmin(fmax(log(*parameter(&h, i)), low[i]), high[i]);
	}
	const nlopt_opt opt = nlopt_create(NLOPT_LD_LBFGS, (unsigned)n);
	if (!opt)
		return GP_NO_OPTIMUM;
	nlopt_set_max_objective(opt, likelihood_at, &fit);
	nlopt_set_lower_bounds(opt, low);
	nlopt_set_upper_bounds(opt, high);
	nlopt_set_ftol_abs(opt, 1e-4);
	nlopt_set_maxeval(opt, evaluations);
	nlopt_optimize(opt, x, &value); /* the best point that was seen counts, whatever NLopt returns */
	nlopt_destroy(opt);
	return fit.best > WORST ? reals_set_hyper(g, &fit.best_hyper) : GP_NO_OPTIMUM;
}

/* ---- the point that is worth most ----------------------------------------------------------- */

struct reals_hunt {
	const struct reals* g;
	const struct reals_search* search;
	int free[REALS_MOST_DIMS]; /* (n) the coordinates that are */
	int n;
	double x[REALS_MOST_DIMS], best_x[REALS_MOST_DIMS], best;
};

static double worth_at(struct reals_hunt* h) {
	double mean, variance;
	reals_predict(h->g, h->x, &mean, &variance);
	const double value = h->search->worth(h->search->user, h->x, mean, sqrt(variance));
	if (value > h->best) {
		h->best = value;
		memcpy(h->best_x, h->x, sizeof h->x);
	}
	return isfinite(value) ? value : WORST;
}

static double worth_of_free(unsigned n, const double* u, double* gradient, void* user) {
	struct reals_hunt* const h = user;
	(void)gradient; /* none is asked for */
	for (unsigned i = 0; i < n; i++)
		h->x[h->free[i]] = fmin(1, fmax(0, u[i]));
	return worth_at(h);
}

static void draw_points(struct reals_hunt* h) {
	static const double near = 0.15;
	struct gp_random random = {h->search->seed};
	for (int start = 0; start < h->search->starts; start++) {
		const bool anywhere = start < (h->search->starts + 1) / 2;
		for (int i = 0; i < h->n; i++) {
			const double x =
			    anywhere ? gp_uniform(&random) : h->best_x[h->free[i]] + near * gp_normal(&random);
			h->x[h->free[i]] = fmin(1, fmax(0, x));
		}
		worth_at(h);
	}
}

static void climb(struct reals_hunt* h) {
	double u[REALS_MOST_DIMS], value;
	const nlopt_opt opt = h->n > 0 ? nlopt_create(NLOPT_LN_SBPLX, (unsigned)h->n) : NULL;
	if (!opt)
		return;
	for (int i = 0; i < h->n; i++)
		u[i] = h->best_x[h->free[i]];
	nlopt_set_max_objective(opt, worth_of_free, h);
	nlopt_set_lower_bounds1(opt, 0);
	nlopt_set_upper_bounds1(opt, 1);
	nlopt_set_initial_step1(opt, 0.1);
	nlopt_set_maxeval(opt, h->search->evaluations);
	nlopt_optimize(opt, u, &value);
	nlopt_destroy(opt);
}

enum gp_result reals_maximise(const struct reals* g, const struct reals_search* s, double* x) {
	if (!s->worth || s->starts < 1 || s->evaluations < 1)
		return GP_INVALID;
	struct reals_hunt h = {.g = g, .search = s, .best = -INFINITY};
	for (int i = 0; i < g->option.dims; i++) {
		h.x[i] = s->fixed && !isnan(s->fixed[i]) ? s->fixed[i] : x[i];
		if (!s->fixed || isnan(s->fixed[i]))
			h.free[h.n++] = i;
	}
	memcpy(h.best_x, h.x, sizeof h.x);
	worth_at(&h);
	draw_points(&h);
	climb(&h);
	if (!(h.best > -INFINITY))
		return GP_NONE_LEFT;
	memcpy(x, h.best_x, (size_t)g->option.dims * sizeof *x);
	return GP_OK;
}
