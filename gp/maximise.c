/* The point of the cube that is worth most, in few dimensions: random points, then a climb from the best. */
#include <math.h>
#include <nlopt.h>
#include <string.h>

#include "gp/internal.h"
#include "gp/random.h"

struct peak {
	const struct gp* g;
	const struct gp_search* search;
	int free[GP_MAX_GROUPS]; /* (n) the coordinates that are */
	int n;
	double x[GP_MAX_GROUPS], best_x[GP_MAX_GROUPS], best;
};

static double worth_at(struct peak* h) {
	double mean, variance;
	gp_predict(h->g, h->x, &mean, &variance);
	const double value = h->search->worth(h->search->user, h->x, mean, sqrt(variance));
	if (value > h->best) {
		h->best = value;
		memcpy(h->best_x, h->x, sizeof h->x);
	}
	return isfinite(value) ? value : -1e12;
}

static double worth_of_free(unsigned n, const double* u, double* gradient, void* user) {
	struct peak* const h = user;
	(void)gradient; /* none is asked for */
	for (unsigned i = 0; i < n; i++)
		h->x[h->free[i]] = fmin(1, fmax(0, u[i]));
	return worth_at(h);
}

static void draw_points(struct peak* h) {
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

static void climb_from(struct peak* h) {
	double u[GP_MAX_GROUPS], value;
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

enum gp_result gp_maximise(const struct gp* g, const struct gp_search* s, double* x) {
	if (!s->worth || g->option.dims > GP_MAX_GROUPS || s->starts < 1 || s->evaluations < 1)
		return GP_INVALID;
	struct peak h = {.g = g, .search = s, .best = -INFINITY};
	for (int i = 0; i < g->option.dims; i++) {
		h.x[i] = s->fixed && !isnan(s->fixed[i]) ? s->fixed[i] : x[i];
		if (!s->fixed || isnan(s->fixed[i]))
			h.free[h.n++] = i;
	}
	memcpy(h.best_x, h.x, sizeof h.x);
	worth_at(&h);
	draw_points(&h);
	climb_from(&h);
	if (!(h.best > -INFINITY))
		return GP_NONE_LEFT;
	memcpy(x, h.best_x, (size_t)g->option.dims * sizeof *x);
	return GP_OK;
}
