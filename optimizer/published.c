/* Uniform proposals, a Bayesian one now and then, the best raw score: published.h. */
#include "optimizer/published.h"

#include "optimizer/random_mask.h"

bool published_open(struct published* p, const struct search_options* o, int dims, int size,
                    const struct vector* start) {
	*p = (struct published){.dims = dims,
	                        .size = size,
	                        .interval = o->bayes_interval,
	                        .random = {o->seed},
	                        .best = *start,
	                        .best_score = -1};
	if (p->interval > 0)
		p->bayes = bayes_open(o, dims);
	return p->interval == 0 || p->bayes;
}

void published_close(struct published* p) { bayes_close(p->bayes); }

bool published_propose(struct published* p, struct vector* out) {
	if (p->bayes && (p->steps + 1) % p->interval == 0) {
		bayes_want(p->bayes, p->size, NULL, gp_random_bits(&p->random));
		if (bayes_take(p->bayes, out))
			return true;
	}
	random_mask(&p->random, p->dims, p->size, out);
	return false;
}

/* The published process is told raw scores as if they had no noise to speak of (alpha = 1e-6). */
void published_observe(struct published* p, const struct vector* v, int matches, int rows) {
	const double score = (double)matches / rows;
	p->steps++;
	if (score > p->best_score) {
		p->best = *v;
		p->best_score = score;
		p->improved_at = p->steps;
	}
	if (p->bayes)
		bayes_observe(p->bayes, v, score, 1e-6, 0);
}
