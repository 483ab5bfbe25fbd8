/* Uniform proposals, a Bayesian one now and then, the best raw score: published.h. */
#include "optimizer/published.h"

#include <math.h>

#include "optimizer/random_mask.h"

enum { FIT_FIRST = 32, FIT_LAST = 512, FIT_EVALUATIONS = 16, MAX_OBSERVATIONS = 1024 };

static struct gp* open_process(const struct search_options* o, int dims) {
	const bool hamming = o->kernel == SEARCH_HAMMING;
	/* Half of the cube away is one length away, to begin with. */
	const double length = hamming ? 0.5 * dims : sqrt(0.5 * dims);
	uint8_t kind[MAX_DIMS];
	for (int i = 0; i < dims; i++)
		kind[i] = i & 1;
	return gp_open(&(struct gp_options){
	    .dims = dims,
	    .group = kind,
	    .capacity = MAX_OBSERVATIONS,
	    .kernel = hamming ? GP_HAMMING : GP_MATERN52,
	    .jitter = 1e-6,
	    .hyper = {.amplitude = 0.2, .length = {length, length}, .window = 0.05},
	});
}

bool published_open(struct published* p, const struct search_options* o, int dims, int size,
                    const struct vector* start) {
	*p = (struct published){.option = o,
	                        .dims = dims,
	                        .size = size,
	                        .random = {o->seed},
	                        .next_fit = FIT_FIRST,
	                        .best = *start,
	                        .best_score = -1};
	if (o->bayes_interval > 0)
		p->gp = open_process(o, dims);
	return o->bayes_interval == 0 || p->gp;
}

void published_close(struct published* p) { gp_close(p->gp); }

/* At 32, 64… 512 observations: the factor is rebuilt only then. */
static void fit_when_due(struct published* p) {
	if (gp_count(p->gp) < p->next_fit || p->next_fit > FIT_LAST)
		return;
	gp_fit(p->gp, FIT_EVALUATIONS);
	while (p->next_fit <= gp_count(p->gp))
		p->next_fit *= 2;
}

static bool propose_bayes(struct published* p, struct vector* out) {
	const struct gp_search how = {.size = p->size,
	                              .acquisition = p->option->acquisition == SEARCH_EI ? GP_EI : GP_UCB,
	                              .kappa = p->option->kappa,
	                              .seed = gp_random_bits(&p->random)};
	fit_when_due(p);
	*out = (struct vector){{0}};
	return gp_propose(p->gp, &how, out->word) == GP_OK;
}

bool published_propose(struct published* p, int step, struct vector* out) {
	if (p->gp && step % p->option->bayes_interval == 0 && propose_bayes(p, out))
		return true;
	random_mask(&p->random, p->dims, p->size, out);
	return false;
}

/* The published process is told raw scores as if they had no noise to speak of (alpha = 1e-6). */
static void tell_process(struct published* p, const struct vector* v, double score) {
	if (gp_count(p->gp) == MAX_OBSERVATIONS)
		gp_forget(p->gp, MAX_OBSERVATIONS * 3 / 4);
	gp_add(p->gp, v->word, score, 1e-6, 0);
}

bool published_observe(struct published* p, const struct vector* v, int matches, int rows) {
	const double score = (double)matches / rows;
	const bool better = score > p->best_score;
	if (better) {
		p->best = *v;
		p->best_score = score;
	}
	if (p->gp)
		tell_process(p, v, score);
	return better;
}
