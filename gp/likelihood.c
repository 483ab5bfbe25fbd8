/* The log marginal likelihood, its gradient, and its maximum over the hyper-parameters.
 *
 * The gradient needs, for every parameter t, the sum over pairs of B_ij dK_ij/dt with B = aa' - K⁻¹
 * (Rasmussen & Williams Eq. 5.9). */
#include <gsl/gsl_linalg.h>
#include <math.h>
#include <nlopt.h>
#include <string.h>

#include "gp/internal.h"

/* Half the sums over pairs; scratch holds K⁻¹. */
static void gradient_of(const struct gp* g, const struct gp_hyper* h, const double* a, double* gradient) {
	const size_t all = (size_t)g->option.capacity * (size_t)g->option.capacity;
	double weight[GP_MAX_GROUPS], *const length = gradient + 1, shared = 0, noise = 0;
	kernel_weights(g, h, weight);
	memset(gradient, 0, (size_t)hyper_count(g) * sizeof *gradient);
	for (int i = 0; i < g->n; i++)
		for (int j = 0; j <= i; j++) {
			const size_t at = pair_at(g, i, j);
			const double b = (i == j ? 0.5 : 1) * (a[i] * a[j] - g->scratch[at]);
			double slope;
			gradient[0] += 2 * b * kernel_between(g, h, weight, i, j, &slope);
			for (int k = 0; k < g->groups; k++) /* d s / d log length_g = -p weight_g d_g */
				length[k] -= b * slope * weight[k] * g->distance[(size_t)k * all + at];
			if (share_window(g, i, j))
				shared += b;
			if (i == j)
				noise += b * g->observation[i].variance;
		}
	for (int k = 0; k < g->groups; k++)
		length[k] *= kernel_power(g->option.kernel);
	gradient[g->groups + 1] = 2 * shared * h->window * h->window;
	if (!g->option.known_noise)
		gradient[g->groups + 2] = 2 * noise * h->noise * h->noise;
}

static void add_priors(const struct gp* g, const struct gp_hyper* hyper, double* value, double* gradient) {
	struct gp_hyper h = *hyper, middle = g->option.hyper;
	for (int i = 0; i < hyper_count(g) && g->option.prior_width > 0; i++) {
		const double off =
		    log(*hyper_parameter(g, &h, i) / *hyper_parameter(g, &middle, i)) / g->option.prior_width;
		*value -= 0.5 * off * off;
		if (gradient)
			gradient[i] -= off / g->option.prior_width;
	}
}

enum gp_result gp_likelihood(struct gp* g, const struct gp_hyper* h, double* value, double* gradient) {
	if (!hyper_valid(g, h) || g->n == 0)
		return GP_INVALID;
	const enum gp_result result = covariance_factor(g, h, g->option.jitter, g->scratch);
	if (result != GP_OK)
		return result;
	const size_t capacity = (size_t)g->option.capacity;
	double *a = g->work, *half_y = a + capacity, *half_one = half_y + capacity, mean;
	halve(g, g->scratch, half_y, half_one);
	*value = -0.5 * solve_halves(g, g->scratch, half_y, half_one, a, &mean) - 0.5 * g->n * log(2 * M_PI);
	for (int i = 0; i < g->n; i++)
		*value -= log(g->scratch[pair_at(g, i, i)]);
	if (gradient) {
		gsl_matrix_view matrix = square(g, g->scratch);
		if (gsl_linalg_cholesky_invert(&matrix.matrix) != GSL_SUCCESS)
			return GP_NOT_POSITIVE;
		gradient_of(g, h, a, gradient);
	}
	add_priors(g, h, value, gradient);
	return GP_OK;
}

/* ---- fitting ------------------------------------------------------------------------------ */

/* The value of an impossible point. */
static const double WORST = -1e12;

struct climb {
	struct gp* g;
	double best; /* the largest value so far, and where */
	struct gp_hyper best_hyper;
};

/* NLopt's objective; a point without a factor gets a very bad finite value. */
static double compute_objective(unsigned n, const double* x, double* gradient, void* user) {
	struct climb* c = user;
	struct gp_hyper h = c->g->hyper;
	double value = 0, slope[GP_MAX_PARAMETERS] = {0};
	for (unsigned i = 0; i < n; i++)
		*hyper_parameter(c->g, &h, (int)i) = exp(x[i]);
	const bool good = gp_likelihood(c->g, &h, &value, slope) == GP_OK && isfinite(value);
	for (unsigned i = 0; i < n && gradient; i++)
		gradient[i] = good ? slope[i] : 0;
	if (good && value > c->best) {
		c->best = value;
		c->best_hyper = h;
	}
	return good ? value : WORST;
}

enum gp_result gp_fit(struct gp* g, int evaluations) {
	if (evaluations < 1 || g->n < 2)
		return GP_INVALID;
	const int n = hyper_count(g);
	struct climb climb = {.g = g, .best = WORST};
	struct gp_hyper h = g->hyper;
	double x[GP_MAX_PARAMETERS], value = 0;
	for (int i = 0; i < n; i++)
		x[i] = fmin(fmax(log(*hyper_parameter(g, &h, i)), log(1e-3)), log(1e3));
	const nlopt_opt opt = nlopt_create(NLOPT_LD_LBFGS, (unsigned)n);
	if (!opt)
		return GP_NO_OPTIMUM;
	nlopt_set_max_objective(opt, compute_objective, &climb);
	nlopt_set_lower_bounds1(opt, log(1e-3));
	nlopt_set_upper_bounds1(opt, log(1e3));
	nlopt_set_ftol_abs(opt, 1e-7);
	nlopt_set_maxeval(opt, evaluations);
	nlopt_optimize(opt, x, &value); /* the best point that was seen counts, whatever NLopt returns */
	nlopt_destroy(opt);
	return climb.best > WORST ? gp_set_hyper(g, &climb.best_hyper) : GP_NO_OPTIMUM;
}
