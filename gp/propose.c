/* The next corner of the cube with a given number of bits: maximises the acquisition on the relaxed cube,
 * rounds, and goes on along swaps of two bits.
 *
 * The relaxed maximisation keeps the number of bits by x_i = sigmoid(u_i + shift(u)), with the shift that
 * makes the sum right. So NLopt's L-BFGS sees only a box as constraint. */
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_randist.h>
#include <math.h>
#include <nlopt.h>
#include <stdlib.h>
#include <string.h>

#include "gp/internal.h"
#include "gp/random.h"
#include "gp/ranked.h"

/* STARTS of the relaxed maximisation, of so many EVALUATIONS each, then ROUNDS of swaps, of which TRIES are
 * judged. */
enum { STARTS = 3, EVALUATIONS = 6, ROUNDS = 4, PARTNERS = 16, TRIES = 6 };

struct hunt {
	const struct gp* g;
	const struct gp_subset* search;
	double weight[GP_MAX_GROUPS];
	double best_mean;          /* the largest posterior mean at an observation, which EI has to exceed */
	double x[GP_MAX_DIMS];     /* the point */
	double slope[GP_MAX_DIMS]; /* d acquisition / dx */
};

/* ---- the acquisition and its slopes ------------------------------------------------------- */

/* The acquisition from mean and variance, with d/dmean and d/dvariance. */
static double compute_acquisition(const struct hunt* h, double mean, double variance, double* by_mean,
                                  double* by_variance) {
	const double sd = sqrt(variance > 1e-18 ? variance : 1e-18);
	if (h->search->acquisition == GP_UCB) {
		*by_mean = 1;
		*by_variance = h->search->kappa / (2 * sd);
		return mean + h->search->kappa * sd;
	}
	const double z = (mean - h->best_mean) / sd;
	*by_mean = gsl_cdf_ugaussian_P(z);
	const double density = gsl_ran_ugaussian_pdf(z);
	*by_variance = density / (2 * sd);
	return (mean - h->best_mean) * *by_mean + sd * density;
}

/* slope_i = Σ_j factor_j ds_j/dx_i with s_j = Σ_i weight_i (x_i - z_ji)². */
static void add_slopes(struct hunt* h, const double* factor) {
	const struct gp* g = h->g;
	memset(h->slope, 0, sizeof h->slope);
	for (int j = 0; j < g->n; j++)
		for (int i = 0; i < g->option.dims; i++)
			h->slope[i] += factor[j] * (h->x[i] - point_at(g, j)[i]);
	for (int i = 0; i < g->option.dims; i++)
		h->slope[i] *= 2 * h->weight[g->group[i]];
}

/* The acquisition at h->x; its gradient in h->slope. Two triangular solves. */
static double evaluate_point(struct hunt* h) {
	const struct gp* g = h->g;
	const int n = g->n;
	double *solved = g->work, *slope = solved + g->option.capacity, mean = g->mean;
	for (int j = 0; j < n; j++) {
		double s = 0;
		for (int i = 0; i < g->option.dims; i++) {
			const double apart = h->x[i] - point_at(g, j)[i];
			s += h->weight[g->group[i]] * apart * apart;
		}
		solved[j] = kernel_at(g->option.kernel, g->hyper.amplitude, s, &slope[j]);
		mean += solved[j] * g->alpha[j];
	}
	solve_factor(g, g->factor, CblasNoTrans, solved);
	const double used = cblas_ddot(n, solved, 1, solved, 1);
	solve_factor(g, g->factor, CblasTrans, solved);
	double by_mean, by_variance;
	const double value =
	    compute_acquisition(h, mean, g->hyper.amplitude * g->hyper.amplitude - used, &by_mean, &by_variance);
	for (int j = 0; j < n; j++)
		slope[j] *= by_mean * g->alpha[j] - 2 * by_variance * solved[j];
	add_slopes(h, slope);
	return value;
}

/* ---- the relaxed cube --------------------------------------------------------------------- */

static double sigmoid(double u) { return 1 / (1 + exp(-u)); }

/* x from u, by bisection on the shift, since the sum rises with it. */
static void place_point(struct hunt* h, const double* u) {
	const int dims = h->g->option.dims;
	double low = -60, high = 60;
	for (int step = 0; step < 50; step++) {
		const double shift = (low + high) / 2;
		double sum = 0;
		for (int i = 0; i < dims; i++)
			sum += sigmoid(u[i] + shift);
		if (sum < h->search->size)
			low = shift;
		else
			high = shift;
	}
	for (int i = 0; i < dims; i++)
		h->x[i] = sigmoid(u[i] + low);
}

/* d/du_i = t_i (slope_i - Σ t slope / Σ t), t = x (1 - x): the shift removes the common part. */
static double compute_objective(unsigned n, const double* u, double* gradient, void* user) {
	struct hunt* h = user;
	place_point(h, u);
	const double value = evaluate_point(h);
	double total = 1e-300, common = 0;
	for (unsigned i = 0; i < n; i++) {
		const double t = h->x[i] * (1 - h->x[i]);
		total += t;
		common += t * h->slope[i];
	}
	for (unsigned i = 0; i < n && gradient; i++)
		gradient[i] = h->x[i] * (1 - h->x[i]) * (h->slope[i] - common / total);
	return value;
}

/* To the corner with the largest coordinates. */
static void round_point(struct hunt* h) {
	double x[GP_MAX_DIMS];
	int largest[GP_MAX_DIMS], n = 0;
	for (int i = 0; i < h->g->option.dims; i++)
		n = ranked_add(x, largest, n, h->search->size, h->x[i], i);
	memset(h->x, 0, sizeof h->x);
	for (int i = 0; i < n; i++)
		h->x[largest[i]] = 1;
}

/* Begins near a corner, or in the middle. */
static void climb_relaxed(struct hunt* h, const double* from, struct gp_random* random) {
	const int dims = h->g->option.dims;
	double u[GP_MAX_DIMS], best = 0;
	for (int i = 0; i < dims; i++)
		u[i] = (from ? 3 * from[i] - 1.5 : 0) + 0.3 * gp_normal(random);
	const nlopt_opt opt = nlopt_create(NLOPT_LD_LBFGS, (unsigned)dims);
	if (opt) {
		nlopt_set_max_objective(opt, compute_objective, h);
		nlopt_set_lower_bounds1(opt, -8);
		nlopt_set_upper_bounds1(opt, 8);
		nlopt_set_maxeval(opt, EVALUATIONS);
		nlopt_optimize(opt, u, &best);
		nlopt_destroy(opt);
	}
	place_point(h, u);
	round_point(h);
}

/* ---- swaps -------------------------------------------------------------------------------- */

struct swap {
	int drop, take;
};

/* The swaps that the slopes promise most of, the best first. */
static int rank_swaps(const struct hunt* h, struct swap* out) {
	double slope[2][PARTNERS], gain[PARTNERS * PARTNERS];
	int partner[2][PARTNERS], n[2] = {0}, order[PARTNERS * PARTNERS], swaps = 0;
	for (int i = 0; i < h->g->option.dims; i++) {
		const bool unset = h->x[i] == 0;
		n[unset] = ranked_add(slope[unset], partner[unset], n[unset], PARTNERS,
		                      unset ? h->slope[i] : -h->slope[i], i);
	}
	for (int i = 0; i < n[0] * n[1]; i++)
		swaps =
		    ranked_add(gain, order, swaps, PARTNERS * PARTNERS, slope[0][i / n[1]] + slope[1][i % n[1]], i);
	for (int i = 0; i < swaps; i++)
		out[i] = (struct swap){partner[0][order[i] / n[1]], partner[1][order[i] % n[1]]};
	return swaps;
}

static void apply_swap(struct hunt* h, const struct swap* swap) {
	h->x[swap->drop] = 1 - h->x[swap->drop];
	h->x[swap->take] = 1 - h->x[swap->take];
}

/* Takes the best swap that leads to a point which was not observed. False: none is worth more than `value`.
 */
static bool improve_point(struct hunt* h, double* value) {
	struct swap swap[PARTNERS * PARTNERS];
	const int swaps = rank_swaps(h, swap);
	int best = -1;
	for (int i = 0, tried = 0; i < swaps && tried < TRIES; i++) {
		apply_swap(h, &swap[i]);
		const bool fresh = !gp_observed(h->g, h->x);
		const double worth = fresh ? evaluate_point(h) : -INFINITY;
		apply_swap(h, &swap[i]);
		tried += fresh;
		if (worth > *value) {
			*value = worth;
			best = i;
		}
	}
	if (best >= 0)
		apply_swap(h, &swap[best]);
	return best >= 0;
}

/* From the rounded point h->x to an unobserved one nearby; what it is worth, -INFINITY: none was found. */
static double refine_point(struct hunt* h) {
	double value = evaluate_point(h);
	if (gp_observed(h->g, h->x))
		value = -INFINITY;
	for (int round = 0; round < ROUNDS && improve_point(h, &value); round++)
		evaluate_point(h); /* the slopes there */
	return value;
}

/* ---- proposing ---------------------------------------------------------------------------- */

/* The posterior mean of mean + f at observation i, from K alpha = y - mean. */
static double fitted_mean(const struct gp* g, int i) {
	const struct observation* o = &g->observation[i];
	double offset = 0;
	for (int j = 0; j < g->n; j++)
		offset += share_window(g, i, j) ? g->alpha[j] : 0;
	return o->y - (g->hyper.noise * g->hyper.noise * o->variance + g->jitter) * g->alpha[i] -
	       g->hyper.window * g->hyper.window * offset;
}

static int best_observed(struct hunt* h) {
	int best = 0;
	h->best_mean = -INFINITY;
	for (int i = 0; i < h->g->n; i++) {
		const double mean = fitted_mean(h->g, i);
		if (mean > h->best_mean) {
			h->best_mean = mean;
			best = i;
		}
	}
	return best;
}

enum gp_result gp_propose(const struct gp* g, const struct gp_subset* s, double* x) {
	if (s->size < 0 || s->size > g->option.dims || !isfinite(s->kappa) || g->n == 0)
		return GP_INVALID;
	struct hunt h = {.g = g, .search = s};
	struct gp_random random = {s->seed};
	double most = -INFINITY;
	kernel_weights(g, &g->hyper, h.weight);
	const int known = best_observed(&h);
	for (int i = 0; i < STARTS;
	     i++) { /* the first starts from the best known point, the others from the middle */
		climb_relaxed(&h, i == 0 ? point_at(g, known) : NULL, &random);
		const double value = refine_point(&h);
		if (value > most) {
			most = value;
			memcpy(x, h.x, (size_t)g->option.dims * sizeof *x);
		}
	}
	return most > -INFINITY ? GP_OK : GP_NONE_LEFT;
}
