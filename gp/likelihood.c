/* The log marginal likelihood, its gradient, and its maximum over the hyper-parameters.
 *
 * The gradient needs, for every parameter t, the sum over pairs of B_ij dK_ij/dt with B = aa' - K⁻¹
 * (Rasmussen & Williams Eq. 5.9). K depends on a pair only through its cell (h_0, h_1), so B is first summed
 * by cell, once for all parameters. */
#include <gsl/gsl_linalg.h>
#include <math.h>
#include <nlopt.h>
#include <string.h>

#include "gp/internal.h"

int gp_parameters(const struct gp* g) { return g->groups + 2; }

/* Sums B by cell, and over pairs of one window; scratch holds K⁻¹. */
static double sum_by_cell(const struct gp* g, const double* a, double* histogram) {
	double shared = 0;
	memset(histogram, 0, (size_t)g->cells * sizeof *histogram);
	for (int i = 0; i < g->n; i++) {
		const double* row = g->scratch + (size_t)i * (size_t)g->option.capacity;
		for (int j = 0; j < i; j++) {
			const double b = 2 * (a[i] * a[j] - row[j]);
			histogram[cell_of(g, point(g, i), point(g, j))] += b;
			if (same_window(g, i, j))
				shared += b;
		}
		histogram[0] += a[i] * a[i] - row[i];
		shared += a[i] * a[i] - row[i];
	}
	return shared;
}

static void gradient_of(const struct gp* g, const struct gp_hyper* h, const double* a, double* gradient) {
	const double shared = sum_by_cell(g, a, g->histogram);
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

enum gp_result gp_likelihood(struct gp* g, const struct gp_hyper* h, double* value, double* gradient) {
	if (!hyper_valid(h, g->groups) || g->n == 0)
		return GP_INVALID;
	table_fill(g, h, &g->trial);
	const enum gp_result result = covariance_factor(g, h, &g->trial, g->option.jitter, g->scratch);
	if (result != GP_OK)
		return result;
	const size_t capacity = (size_t)g->option.capacity;
	double *a = g->work, *half_y = a + capacity, *half_one = half_y + capacity, mean;
	halve(g, g->scratch, half_y, half_one);
	*value = -0.5 * solve_halves(g, g->scratch, half_y, half_one, a, &mean) - 0.5 * g->n * log(2 * M_PI);
	for (size_t i = 0; i < (size_t)g->n; i++)
		*value -= log(g->scratch[i * capacity + i]);
	if (!gradient)
		return GP_OK;
	gsl_matrix_view matrix = square(g, g->scratch);
	if (gsl_linalg_cholesky_invert(&matrix.matrix) != 0)
		return GP_NOT_POSITIVE;
	gradient_of(g, h, a, gradient);
	return GP_OK;
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

/* The value of an impossible point. */
static const double WORST = -1e12;

struct climb {
	struct gp* g;
	double best; /* the largest value so far, and where */
	double best_x[GP_MAX_PARAMETERS];
};

/* NLopt's objective; a point without a factor gets a very bad finite value. */
static double objective(unsigned n, const double* x, double* gradient, void* user) {
	struct climb* c = user;
	const struct gp_hyper h = hyper_from(c->g, x);
	double value = 0, slope[GP_MAX_PARAMETERS] = {0};
	const bool good = gp_likelihood(c->g, &h, &value, slope) == GP_OK && isfinite(value);
	if (!good) {
		value = WORST;
		memset(slope, 0, sizeof slope);
	}
	if (gradient)
		memcpy(gradient, slope, n * sizeof *slope);
	if (good && value > c->best) {
		c->best = value;
		memcpy(c->best_x, x, n * sizeof *x);
	}
	return value;
}

enum gp_result gp_fit(struct gp* g, int evaluations) {
	if (evaluations < 1 || g->n < 2)
		return GP_INVALID;
	const int n = gp_parameters(g);
	struct climb climb = {.g = g, .best = WORST};
	double x[GP_MAX_PARAMETERS], value = 0;
	x[0] = log(g->hyper.amplitude);
	for (int i = 0; i < g->groups; i++)
		x[1 + i] = log(g->hyper.length[i]);
	x[1 + g->groups] = log(g->hyper.window);
	for (int i = 0; i < n; i++)
		x[i] = fmin(fmax(x[i], log(1e-3)), log(1e3));
	const nlopt_opt opt = nlopt_create(NLOPT_LD_LBFGS, (unsigned)n);
	if (!opt)
		return GP_NO_OPTIMUM;
	nlopt_set_max_objective(opt, objective, &climb);
	nlopt_set_lower_bounds1(opt, log(1e-3));
	nlopt_set_upper_bounds1(opt, log(1e3));
	nlopt_set_ftol_abs(opt, 1e-7);
	nlopt_set_maxeval(opt, evaluations);
	nlopt_optimize(opt, x, &value); /* the best point that was seen counts, whatever NLopt returns */
	nlopt_destroy(opt);
	if (climb.best == WORST)
		return GP_NO_OPTIMUM;
	const struct gp_hyper h = hyper_from(g, climb.best_x);
	return gp_set_hyper(g, &h);
}
