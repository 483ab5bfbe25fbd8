/* The log marginal likelihood, its gradient, and the hyper-parameters that maximise it.
 *
 * The gradient needs, for every parameter t, the sum over pairs of B_ij dK_ij/dt with B = aa' - K⁻¹
 * (Rasmussen & Williams Eq. 5.9). K depends on a pair through its cell (h_0, h_1) alone, so B is first
 * summed by cell, once for all parameters. */
#include <gsl/gsl_blas.h>
#include <gsl/gsl_linalg.h>
#include <math.h>
#include <nlopt.h>
#include <stdlib.h>
#include <string.h>

#include "gp/internal.h"

/* What an impossible point is worth. */
static const double WORST = -1e12;

int gp_parameters(const struct gp* g) { return g->groups + 2; }

struct likelihood {
	struct gp* g;
	const int* chosen; /* (n) observations, or NULL: all */
	int n;
	double best; /* the largest value so far, and where */
	double best_x[GP_MAX_PARAMETERS];
};

static int at(const struct likelihood* l, int i) { return l->chosen ? l->chosen[i] : i; }

/* a = K⁻¹(y - mean), with the mean profiled; scratch holds the factor. Returns a'(y - mean). */
static double residuals(const struct likelihood* l, double* a) {
	struct gp* g = l->g;
	const size_t n = (size_t)l->n, capacity = (size_t)g->option.capacity;
	double* one = g->work + capacity;
	for (int i = 0; i < l->n; i++) {
		a[i] = g->y[at(l, i)];
		one[i] = 1;
	}
	gsl_matrix_view factor = square(g->scratch, l->n, g->option.capacity);
	gsl_vector_view va = gsl_vector_view_array(a, n), vone = gsl_vector_view_array(one, n);
	gsl_blas_dtrsv(CblasLower, CblasNoTrans, CblasNonUnit, &factor.matrix, &va.vector);
	gsl_blas_dtrsv(CblasLower, CblasNoTrans, CblasNonUnit, &factor.matrix, &vone.vector);
	double cross = 0, own = 1, fit = 0;
	gsl_blas_ddot(&vone.vector, &va.vector, &cross);
	gsl_blas_ddot(&vone.vector, &vone.vector, &own);
	gsl_blas_daxpy(-cross / own, &vone.vector, &va.vector);
	gsl_blas_ddot(&va.vector, &va.vector, &fit);
	gsl_blas_dtrsv(CblasLower, CblasTrans, CblasNonUnit, &factor.matrix, &va.vector);
	return fit;
}

/* Sums B by cell, and over pairs of one window; scratch holds K⁻¹. */
static double sum_by_cell(const struct likelihood* l, const double* a, double* histogram) {
	const struct gp* g = l->g;
	const size_t capacity = (size_t)g->option.capacity;
	double shared = 0;
	memset(histogram, 0, (size_t)g->cells * sizeof *histogram);
	for (int i = 0; i < l->n; i++) {
		const double* row = g->scratch + (size_t)i * capacity;
		const int first = at(l, i);
		for (int j = 0; j < i; j++) {
			const int second = at(l, j);
			const double b = 2 * (a[i] * a[j] - row[j]);
			histogram[cell_of(g, point(g, first), point(g, second))] += b;
			if (same_window(g, first, second))
				shared += b;
		}
		histogram[0] += a[i] * a[i] - row[i];
		shared += a[i] * a[i] - row[i];
	}
	return shared;
}

static void gradient_of(const struct likelihood* l, const struct gp_hyper* h, const double* a,
                        double* gradient) {
	struct gp* g = l->g;
	const double shared = sum_by_cell(l, a, g->histogram);
	const int power = kernel_power(g->option.kernel);
	double amplitude = 0, length[GP_MAX_GROUPS] = {0};
	for (int first = 0; first <= g->group_dims[0]; first++)
		for (int second = 0; second <= g->group_dims[1]; second++) {
			const int cell = first * g->stride + second;
			const double b = g->histogram[cell];
			amplitude += b * 2 * g->trial.value[cell];
			/* d s / d log length_g = -p weight_g h_g */
			length[0] -= b * g->trial.slope[cell] * power * g->trial.weight[0] * first;
			length[1] -= b * g->trial.slope[cell] * power * g->trial.weight[1] * second;
		}
	gradient[0] = amplitude / 2;
	for (int i = 0; i < g->groups; i++)
		gradient[1 + i] = length[i] / 2;
	gradient[1 + g->groups] = shared * h->window * h->window;
}

static enum gp_result evaluate(const struct likelihood* l, const struct gp_hyper* h, double* value,
                               double* gradient) {
	struct gp* g = l->g;
	table_fill(g, h, &g->trial);
	const enum gp_result result =
	    covariance_factor(g, h, &g->trial, g->option.jitter, l->chosen, l->n, g->scratch);
	if (result != GP_OK)
		return result;
	double* a = g->work;
	*value = -0.5 * residuals(l, a) - 0.5 * l->n * log(2 * M_PI);
	for (int i = 0; i < l->n; i++)
		*value -= log(g->scratch[(size_t)i * (size_t)g->option.capacity + (size_t)i]);
	if (!gradient)
		return GP_OK;
	gsl_matrix_view matrix = square(g->scratch, l->n, g->option.capacity);
	if (gsl_linalg_cholesky_invert(&matrix.matrix) != 0)
		return GP_NOT_POSITIVE;
	gradient_of(l, h, a, gradient);
	return GP_OK;
}

enum gp_result gp_likelihood(struct gp* g, const struct gp_hyper* h, double* value, double* gradient) {
	if (!hyper_valid(h, g->groups) || g->n == 0)
		return GP_INVALID;
	return evaluate(&(struct likelihood){.g = g, .n = g->n}, h, value, gradient);
}

/* ---- fitting ------------------------------------------------------------------------------ */

static struct gp_hyper hyper_from(const struct gp* g, const double* x) {
	struct gp_hyper h = g->hyper;
	h.amplitude = exp(x[0]);
	for (int i = 0; i < g->groups; i++)
		h.length[i] = exp(x[1 + i]);
	h.window = exp(x[1 + g->groups]);
	return h;
}

/* NLopt's objective; a point without a factor is as bad as can be said in a finite number. */
static double objective(unsigned n, const double* x, double* gradient, void* user) {
	struct likelihood* l = user;
	const struct gp_hyper h = hyper_from(l->g, x);
	double value = 0, slope[GP_MAX_PARAMETERS] = {0};
	const bool good = evaluate(l, &h, &value, slope) == GP_OK && isfinite(value);
	if (!good) {
		value = WORST;
		memset(slope, 0, sizeof slope);
	}
	if (gradient)
		memcpy(gradient, slope, n * sizeof *slope);
	if (good && value > l->best) {
		l->best = value;
		memcpy(l->best_x, x, n * sizeof *x);
	}
	return value;
}

static int spread(int n, int most, int* chosen) {
	if (most <= 0 || most > n)
		most = n;
	for (int i = 0; i < most; i++)
		chosen[i] = (int)((int64_t)i * n / most);
	return most;
}

/* From x; the best point seen is left in l, whatever the optimiser says of how it ended. */
static bool maximise(struct likelihood* l, int evaluations, double* x) {
	const nlopt_opt opt = nlopt_create(NLOPT_LD_LBFGS, (unsigned)gp_parameters(l->g));
	if (!opt)
		return false;
	l->best = WORST;
	nlopt_set_max_objective(opt, objective, l);
	nlopt_set_lower_bounds1(opt, log(1e-3));
	nlopt_set_upper_bounds1(opt, log(1e3));
	nlopt_set_ftol_abs(opt, 1e-7);
	nlopt_set_maxeval(opt, evaluations);
	double value = 0;
	nlopt_optimize(opt, x, &value);
	nlopt_destroy(opt);
	return l->best > WORST;
}

enum gp_result gp_fit(struct gp* g, int evaluations, int most) {
	if (evaluations < 1 || g->n < 2)
		return GP_INVALID;
	int* chosen = malloc((size_t)g->n * sizeof *chosen);
	if (!chosen)
		return GP_NO_OPTIMUM;
	struct likelihood l = {.g = g, .chosen = chosen, .n = spread(g->n, most, chosen)};
	double x[GP_MAX_PARAMETERS];
	x[0] = log(g->hyper.amplitude);
	for (int i = 0; i < g->groups; i++)
		x[1 + i] = log(g->hyper.length[i]);
	x[1 + g->groups] = log(g->hyper.window);
	for (int i = 0; i < gp_parameters(g); i++)
		x[i] = fmin(fmax(x[i], log(1e-3)), log(1e3));
	const bool found = maximise(&l, evaluations, x);
	free(chosen);
	if (!found)
		return GP_NO_OPTIMUM;
	const struct gp_hyper h = hyper_from(g, l.best_x);
	return gp_set_hyper(g, &h);
}
