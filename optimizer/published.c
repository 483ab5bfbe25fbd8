/* SWIFT's search as published (Xia et al. 2025, section 4.1; the code where that and the paper differ).
 *
 * Proposal o is Bayesian where o is a multiple of the interval, else uniformly random among the sets of
 * floor(r·2(L-2)) sub-layers. The first one scored replaces the start mask, later ones do where their raw
 * score is strictly greater than the best ever. Nothing is scored twice. It is kept as it was published: what
 * makes the search better belongs to the other files. */
#include <math.h>

#include "optimizer/random_mask.h"
#include "optimizer/search_state.h"

enum { FIT_FIRST = 32, FIT_LAST = 512, FIT_EVALUATIONS = 16, MAX_OBSERVATIONS = 1024 };

bool published_open(struct search* s) {
	const bool hamming = s->option.hamming;
	/* To begin with, half of the cube is one length. */
	const double length = hamming ? 0.5 * s->dims : sqrt(0.5 * s->dims);
	uint8_t kind[MAX_DIMS];
	for (int i = 0; i < s->dims; i++)
		kind[i] = i & 1;
	s->next_fit = FIT_FIRST;
	if (s->option.bayes_interval > 0)
		s->gp = gp_open(&(struct gp_options){
		    .dims = s->dims,
		    .group = kind,
		    .capacity = MAX_OBSERVATIONS,
		    .kernel = hamming ? GP_HAMMING : GP_MATERN52,
		    .jitter = 1e-6,
		    .hyper = {.amplitude = 0.2, .length = {length, length}, .window = 0.05},
		});
	return s->option.bayes_interval == 0 || s->gp;
}

void published_place(struct search* s, const struct vector* v, double score) {
	incumbent_place(s, v);
	s->pending = false;
	s->chosen_by = score;
}

/* Only at 32, 64… 512 observations: the factor is rebuilt then. */
static void fit_when_due(struct search* s) {
	if (gp_count(s->gp) < s->next_fit || s->next_fit > FIT_LAST)
		return;
	gp_fit(s->gp, FIT_EVALUATIONS);
	while (s->next_fit <= gp_count(s->gp))
		s->next_fit *= 2;
}

static bool propose_bayes(struct search* s, struct vector* out) {
	const struct gp_search how = {.size = s->size,
	                              .acquisition = s->option.expected_improvement ? GP_EI : GP_UCB,
	                              .kappa = s->option.kappa,
	                              .seed = gp_random_bits(&s->random)};
	fit_when_due(s);
	*out = (struct vector){{0}};
	return gp_propose(s->gp, &how, out->word) == GP_OK;
}

bool published_propose(struct search* s, struct vector* out) {
	if (s->gp && (s->steps + 1) % s->option.bayes_interval == 0 && propose_bayes(s, out))
		return true;
	random_mask(&s->random, s->dims, s->size, out);
	return false;
}

/* The published process takes raw scores as nearly free of noise (alpha = 1e-6). */
static void observe_score(struct gp* gp, const struct vector* v, double score) {
	if (gp_count(gp) == MAX_OBSERVATIONS)
		gp_forget(gp, MAX_OBSERVATIONS * 3 / 4);
	gp_add(gp, v->word, score, 1e-6, 0);
}

void published_observe(struct search* s, const struct vector* v, double score) {
	s->steps++;
	if (!(score <= s->chosen_by)) { /* NaN before any */
		published_place(s, v, score);
		s->improved_at = s->steps;
	}
	if (s->gp)
		observe_score(s->gp, v, score);
}
