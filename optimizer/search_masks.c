/* The search over sets of whole sub-layers, as published (Xia et al. 2025, section 4.1; the code where that
 * and the paper differ).
 *
 * Proposal o is Bayesian if o is a multiple of the interval, and otherwise uniformly random among the sets of
 * floor(r·2(L-2)) sub-layers. The best mask is the one whose raw score is strictly greater than all before.
 */
#include <math.h>

#include "optimizer/random_mask.h"
#include "optimizer/search_state.h"

enum { FIT_FIRST = 32, FIT_LAST = 512, FIT_EVALUATIONS = 16, MAX_OBSERVATIONS = 1024 };

void random_mask(struct gp_random* random, int dims, int size, struct mask* out) {
	int order[MAX_DIMS];
	for (int i = 0; i < dims; i++)
		order[i] = i + 2;
	*out = (struct mask){.word = {0}};
	for (int i = 0; i < size; i++) {
		const int j = i + gp_below(random, dims - i);
		const int taken = order[j];
		order[j] = order[i];
		order[i] = taken;
		mask_set(out, taken, true);
	}
}

static int mask_size(const struct search* s) { return (int)(s->option.skip_ratio * s->dims + 1e-9); }

static struct gp* open_process(const struct search* s) {
	/* to begin with, half of the cube is one length */
	const double length = s->option.hamming ? 0.5 * s->dims : sqrt(0.5 * s->dims);
	uint8_t kind[MAX_DIMS];
	for (int i = 0; i < s->dims; i++)
		kind[i] = i & 1;
	return gp_open(&(struct gp_options){
	    .dims = s->dims,
	    .group = kind,
	    .capacity = MAX_OBSERVATIONS,
	    .kernel = s->option.hamming ? GP_HAMMING : GP_MATERN52,
	    .jitter = 1e-6,
	    .known_noise = true,
	    .hyper = {.amplitude = 0.2, .length = {length, length}, .window = 0.05, .noise = 1},
	});
}

bool masks_open(struct search* s) {
	s->next_fit = FIT_FIRST;
	for (int block = 1; block <= s->option.blocks - 2 && s->option.published; block += 2) {
		mask_set(&s->best, 2 * block, true);
		mask_set(&s->best, 2 * block + 1, true);
	}
	return s->option.bayes_interval == 0 || (s->gp = open_process(s)) != NULL;
}

bool masks_best_span(const struct search* s, const struct spans* spans, struct mask* out) {
	const int size = mask_size(s);
	int best = 0;
	for (int first = 2; first + size <= s->dims + 2; first++) {
		const double influence = spans_influence(spans, first, first + size);
		if (influence >= 0 && (best == 0 || influence < spans_influence(spans, best, best + size)))
			best = first;
	}
	*out = (struct mask){.word = {0}};
	for (int i = 0; i < size && best > 0; i++)
		mask_set(out, best + i, true);
	return best > 0 && size > 0;
}

/* Only at 32, 64… 512 observations: the factor is rebuilt then. */
static void fit_when_due(struct search* s) {
	if (gp_count(s->gp) < s->next_fit || s->next_fit > FIT_LAST)
		return;
	gp_fit(s->gp, FIT_EVALUATIONS);
	while (s->next_fit <= gp_count(s->gp))
		s->next_fit *= 2;
}

static bool propose_bayes(struct search* s, struct mask* out) {
	const struct gp_subset how = {.size = mask_size(s),
	                              .acquisition = s->option.expected_improvement ? GP_EI : GP_UCB,
	                              .kappa = s->option.kappa,
	                              .seed = gp_random_bits(&s->random)};
	double x[MAX_DIMS];
	fit_when_due(s);
	if (gp_propose(s->gp, &how, x) != GP_OK)
		return false;
	*out = (struct mask){.word = {0}};
	for (int i = 0; i < s->dims; i++)
		if (x[i] > 0)
			mask_set(out, i + 2, true);
	return true;
}

enum proposal_kind masks_propose(struct search* s, struct mask* out) {
	if (s->gp && (s->steps + 1) % s->option.bayes_interval == 0 && propose_bayes(s, out))
		return PROPOSAL_BAYES;
	random_mask(&s->random, s->dims, mask_size(s), out);
	return PROPOSAL_RANDOM;
}

/* The published process takes raw scores as nearly free of noise (alpha = 1e-6). */
static void observe_score(struct search* s, const struct mask* mask, double score) {
	double x[MAX_DIMS];
	for (int i = 0; i < s->dims; i++)
		x[i] = mask_has(mask, i + 2);
	if (gp_count(s->gp) == MAX_OBSERVATIONS)
		gp_forget(s->gp, MAX_OBSERVATIONS * 3 / 4);
	gp_add(s->gp, x, score, 1e-6, 0);
}

bool masks_observe(struct search* s, const struct mask* mask, double score) {
	if (s->gp)
		observe_score(s, mask, score);
	return !s->pending && !(score <= s->chosen_by); /* NaN before any */
}
