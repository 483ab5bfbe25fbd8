/* Chooses the next point: maximises the acquisition on the relaxed cube, then on real points.
 *
 * The relaxed maximisation keeps the number of bits by x_i = sigmoid(u_i + shift(u)), with the shift that
 * makes the sum right. So NLopt's L-BFGS sees only a box as constraint. Both kernels depend on a point
 * through s_j = Σ weight (x_i - z_ji)² (Matérn) or Σ weight |x_i - z_ji| (Hamming) to each observation z_j,
 * which for bits z is a constant plus a sum over the set bits of z. */
#include <gsl/gsl_cdf.h>
#include <gsl/gsl_randist.h>
#include <math.h>
#include <nlopt.h>
#include <stdlib.h>
#include <string.h>

#include "gp/internal.h"
#include "gp/random.h"
#include "gp/ranked.h"

/* STARTS of the relaxed maximisation, of so many EVALUATIONS each, then ROUNDS of swaps. */
enum { STARTS = 3, EVALUATIONS = 6, ROUNDS = 3, PARTNERS = 16 };

struct hunt {
	struct gp* g;
	const struct gp_search* search;
	double best_mean;          /* the largest posterior mean at an observation, which EI has to exceed */
	double x[GP_MAX_DIMS];     /* the relaxed point */
	double slope[GP_MAX_DIMS]; /* d acquisition / dx */
};

static bool has(const uint64_t* bits, int i) { return bits[i >> 6] >> (i & 63) & 1u; }
static void flip(uint64_t* bits, int i) { bits[i >> 6] ^= (uint64_t)1 << (i & 63); }

/* ---- the acquisition and its slopes ------------------------------------------------------- */

/* The acquisition from mean and variance, with d/dmean and d/dvariance. */
static double acquisition(const struct hunt* h, double mean, double variance, double* by_mean,
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

/* s_j of the relaxed point to every observation, by set bits: s (n). */
static void distances(const struct hunt* h, double* s) {
	const struct gp* g = h->g;
	const bool squared = kernel_power(g->option.kernel) == 2;
	double base = 0, change[GP_MAX_DIMS];
	for (int i = 0; i < g->option.dims; i++) {
		const double weight = g->table.weight[g->group[i]], x = h->x[i];
		base += weight * (squared ? x * x : x);
		change[i] = weight * (1 - 2 * x);
	}
	for (int j = 0; j < g->n; j++) {
		const uint64_t* z = point(g, j);
		s[j] = base;
		for (int w = 0; w < g->words; w++)
			for (uint64_t rest = z[w]; rest; rest &= rest - 1)
				s[j] += change[w * 64 + __builtin_ctzll(rest)];
	}
}

/* slope_i = Σ_j factor_j ds_j/dx_i. */
static void slopes(struct hunt* h, const double* factor) {
	const struct gp* g = h->g;
	const bool squared = kernel_power(g->option.kernel) == 2;
	double all = 0, set[GP_MAX_DIMS] = {0};
	for (int j = 0; j < g->n; j++) {
		const uint64_t* z = point(g, j);
		all += factor[j];
		for (int w = 0; w < g->words; w++)
			for (uint64_t rest = z[w]; rest; rest &= rest - 1)
				set[w * 64 + __builtin_ctzll(rest)] += factor[j];
	}
	for (int i = 0; i < g->option.dims; i++) {
		const double weight = g->table.weight[g->group[i]];
		h->slope[i] = squared ? 2 * weight * (h->x[i] * all - set[i]) : weight * (all - 2 * set[i]);
	}
}

/* The acquisition at h->x; its gradient in h->slope. Two triangular solves. */
static double relaxed(struct hunt* h) {
	struct gp* g = h->g;
	const size_t n = (size_t)g->n, capacity = (size_t)g->option.capacity;
	double *s = g->work, *k = s + capacity, *slope = k + capacity, *solved = slope + capacity;
	distances(h, s);
	double mean = g->mean;
	for (size_t j = 0; j < n; j++) {
		k[j] = kernel_at(g->option.kernel, g->hyper.amplitude, s[j], &slope[j]);
		mean += k[j] * g->alpha[j];
		solved[j] = k[j];
	}
	solve_factor(g, g->factor, CblasNoTrans, solved);
	const double used = cblas_ddot(g->n, solved, 1, solved, 1);
	const double variance = g->hyper.amplitude * g->hyper.amplitude - used;
	solve_factor(g, g->factor, CblasTrans, solved);
	double by_mean, by_variance;
	const double value = acquisition(h, mean, variance, &by_mean, &by_variance);
	for (size_t j = 0; j < n; j++)
		slope[j] *= by_mean * g->alpha[j] - 2 * by_variance * solved[j];
	slopes(h, slope);
	return value;
}

/* ---- the relaxed cube --------------------------------------------------------------------- */

static double sigmoid(double u) { return 1 / (1 + exp(-u)); }

/* x from u, by bisection on the shift, since the sum rises with it. */
static void point_of(struct hunt* h, const double* u) {
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
static double objective(unsigned n, const double* u, double* gradient, void* user) {
	struct hunt* h = user;
	point_of(h, u);
	const double value = relaxed(h);
	if (!gradient)
		return value;
	double total = 1e-300, common = 0;
	for (unsigned i = 0; i < n; i++) {
		const double t = h->x[i] * (1 - h->x[i]);
		total += t;
		common += t * h->slope[i];
	}
	for (unsigned i = 0; i < n; i++)
		gradient[i] = h->x[i] * (1 - h->x[i]) * (h->slope[i] - common / total);
	return value;
}

static void round_to_largest(const struct hunt* h, uint64_t* bits) {
	double x[GP_MAX_DIMS];
	int largest[GP_MAX_DIMS], n = 0;
	for (int i = 0; i < h->g->option.dims; i++)
		n = ranked_add(x, largest, n, h->search->size, h->x[i], i);
	memset(bits, 0, (size_t)h->g->words * sizeof *bits);
	for (int i = 0; i < n; i++)
		flip(bits, largest[i]);
}

static void climb_relaxed(struct hunt* h, const uint64_t* from, struct gp_random* random, uint64_t* bits) {
	const int dims = h->g->option.dims;
	double u[GP_MAX_DIMS], best = 0;
	for (int i = 0; i < dims; i++)
		u[i] = (from ? (has(from, i) ? 1.5 : -1.5) : 0) + 0.3 * gp_normal(random);
	const nlopt_opt opt = nlopt_create(NLOPT_LD_LBFGS, (unsigned)dims);
	if (opt) {
		nlopt_set_max_objective(opt, objective, h);
		nlopt_set_lower_bounds1(opt, -8);
		nlopt_set_upper_bounds1(opt, 8);
		nlopt_set_maxeval(opt, EVALUATIONS);
		nlopt_optimize(opt, u, &best);
		nlopt_destroy(opt);
	}
	point_of(h, u);
	round_to_largest(h, bits);
}

/* ---- the discrete set --------------------------------------------------------------------- */

struct scored_vector {
	uint64_t bits[WORDS];
	double mean, value;
};

/* The mean with some bits flipped, from the cells of the present point. Flipping bit i moves the cell of
 * observation j by its group's stride: up if z_ji equals the point's bit, else down. */
static double mean_flipped(const struct gp* g, const int* cell, const uint64_t* bits, int first, int second) {
	const int step[2] = {g->stride, 1};
	const int move[2] = {step[g->group[first]], step[g->group[second]]};
	const unsigned was[2] = {has(bits, first), has(bits, second)};
	double mean = g->mean;
	for (int j = 0; j < g->n; j++) {
		const uint64_t* z = point(g, j);
		int at = cell[j] + (has(z, first) == was[0] ? move[0] : -move[0]);
		if (second != first)
			at += has(z, second) == was[1] ? move[1] : -move[1];
		mean += g->table.value[at] * g->alpha[j];
	}
	return mean;
}

/* Judges candidates by acquisition: one triangular solve for all of them. */
static void judge_point(struct hunt* h, struct scored_vector* c, int count) {
	struct gp* g = h->g;
	double* k = g->work;
	if (count == 0)
		return;
	for (int j = 0; j < g->n; j++)
		for (int i = 0; i < count; i++)
			k[j * count + i] = g->table.value[cell_of(g, point(g, j), c[i].bits)];
	cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, g->n, count, 1, g->factor,
	            g->option.capacity, k, count);
	for (int i = 0; i < count; i++) {
		double used = 0, by_mean, by_variance;
		for (int j = 0; j < g->n; j++)
			used += k[j * count + i] * k[j * count + i];
		const double variance = g->hyper.amplitude * g->hyper.amplitude - used;
		c[i].value = acquisition(h, c[i].mean, variance > 0 ? variance : 0, &by_mean, &by_variance);
	}
}

/* The bits whose flip gives the highest mean: set bits, or unset ones. */
static int partners(const struct gp* g, const int* cell, const uint64_t* bits, bool set, int* best) {
	double mean[PARTNERS];
	int count = 0;
	for (int i = 0; i < g->option.dims; i++)
		if (has(bits, i) == set)
			count = ranked_add(mean, best, count, PARTNERS, mean_flipped(g, cell, bits, i, i), i);
	return count;
}

static struct scored_vector swapped(const struct gp* g, const uint64_t* from, int drop, int take,
                                    double mean) {
	struct scored_vector c = {.mean = mean};
	memcpy(c.bits, from, (size_t)g->words * sizeof *from);
	flip(c.bits, drop);
	flip(c.bits, take);
	return c;
}

/* The allowed swaps of `from` with the highest mean, among the best bits of each side. */
static int best_swaps(struct hunt* h, const uint64_t* from, struct scored_vector* list) {
	const struct gp* g = h->g;
	int* cell = (int*)(void*)(g->work + (size_t)BATCH * (size_t)g->option.capacity);
	for (int j = 0; j < g->n; j++)
		cell[j] = cell_of(g, point(g, j), from);
	int drop[PARTNERS], take[PARTNERS], pair[BATCH], count = 0;
	double mean[BATCH];
	const int drops = partners(g, cell, from, true, drop), takes = partners(g, cell, from, false, take);
	for (int a = 0; a < drops; a++)
		for (int b = 0; b < takes; b++) {
			const double mine = mean_flipped(g, cell, from, drop[a], take[b]);
			if (count == BATCH && mean[count - 1] >= mine)
				continue;
			const struct scored_vector c = swapped(g, from, drop[a], take[b], mine);
			if (!gp_observed(g, c.bits))
				count = ranked_add(mean, pair, count, BATCH, mine, a * PARTNERS + b);
		}
	for (int i = 0; i < count; i++)
		list[i] = swapped(g, from, drop[pair[i] / PARTNERS], take[pair[i] % PARTNERS], mean[i]);
	return count;
}

/* From a rounded point: takes the best swap up to ROUNDS times, if it is better or if the point itself may
 * not be proposed. */
static bool refine_point(struct hunt* h, const uint64_t* from, struct scored_vector* best) {
	struct scored_vector list[BATCH], here = {.value = -INFINITY};
	memcpy(here.bits, from, (size_t)h->g->words * sizeof *from);
	bool found = !gp_observed(h->g, from);
	if (found) {
		gp_predict(h->g, from, &here.mean, NULL);
		judge_point(h, &here, 1);
	}
	for (int round = 0; round < ROUNDS || !found; round++) {
		const int count = best_swaps(h, here.bits, list);
		judge_point(h, list, count);
		int top = -1;
		for (int i = 0; i < count; i++)
			if (list[i].value > here.value && (top < 0 || list[i].value > list[top].value))
				top = i;
		if (top < 0)
			break;
		here = list[top];
		found = true;
	}
	if (found && here.value > best->value)
		*best = here;
	return found;
}

/* ---- proposing ---------------------------------------------------------------------------- */

/* The posterior mean of mean + f at every observation, from K alpha = y - mean: value (n). */
static void fitted(const struct gp* g, double* value) {
	const double square_window = g->hyper.window * g->hyper.window;
	for (int i = 0; i < g->n; i++) {
		const struct observation* o = &g->observation[i];
		double offset = o->window == 0 ? g->alpha[i] : 0;
		for (int j = 0; j < g->n; j++)
			if (same_window(g, i, j))
				offset += g->alpha[j];
		value[i] = o->y - (o->variance + g->jitter) * g->alpha[i] - square_window * offset;
	}
}

/* The numbers of distinct observations of the right size with the largest posterior means. */
static int best_observed(struct hunt* h, int most, int* best) {
	const struct gp* g = h->g;
	double* value = g->work;
	fitted(g, value);
	h->best_mean = -INFINITY;
	for (int i = 0; i < g->n; i++)
		h->best_mean = fmax(h->best_mean, value[i]);
	int count = 0;
	while (count < most) {
		int top = -1;
		for (int i = 0; i < g->n; i++) {
			bool fresh = true;
			int size = 0;
			for (int w = 0; w < g->words; w++)
				size += __builtin_popcountll(point(g, i)[w]);
			for (int j = 0; j < count; j++)
				fresh = fresh && cell_of(g, point(g, i), point(g, best[j])) != 0;
			if (fresh && size == h->search->size && (top < 0 || value[i] > value[top]))
				top = i;
		}
		if (top < 0)
			break;
		best[count++] = top;
	}
	return count;
}

static bool valid(const struct gp* g, const struct gp_search* s) {
	return s->size >= 0 && s->size <= g->option.dims && isfinite(s->kappa) && g->n > 0;
}

enum gp_result gp_propose(struct gp* g, const struct gp_search* s, uint64_t* bits) {
	if (!valid(g, s))
		return GP_INVALID;
	struct hunt h = {.g = g, .search = s};
	struct gp_random random = {s->seed};
	struct scored_vector best = {.value = -INFINITY};
	int from[STARTS];
	/* All but the last start from the best known points, the last from the middle of the cube. */
	const int known = best_observed(&h, STARTS - 1, from);
	bool found = false;
	for (int i = 0; i < STARTS; i++) {
		uint64_t rounded[WORDS] = {0};
		climb_relaxed(&h, i < known ? point(g, from[i]) : NULL, &random, rounded);
		found = refine_point(&h, rounded, &best) || found;
	}
	if (!found)
		return GP_NONE_LEFT;
	memcpy(bits, best.bits, (size_t)g->words * sizeof *bits);
	return GP_OK;
}
