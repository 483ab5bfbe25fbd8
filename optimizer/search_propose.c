/* Random search, as SWIFT's Eq. 2 has it between Bayesian proposals, but not blind: one proposal in eight
 * is uniform, the others are the best mask of a draw from the posterior of a linear model of all scores
 * so far (Thompson sampling), in some of its weights. With no Bayesian steps at all every proposal is
 * uniform, which is random search as published. No mask comes twice. */
#include "optimizer/search_internal.h"

/* A uniformly random set of the given size: the first of a Fisher-Yates shuffle. */
static void uniform(struct search* s, int size, struct vector* out) {
	for (int i = 0; i < s->dims; i++)
		s->order[i] = i;
	*out = (struct vector){{0}};
	for (int i = 0; i < size; i++) {
		const int j = i + gp_below(&s->random, s->dims - i);
		const int taken = s->order[j];
		s->order[j] = s->order[i];
		s->order[i] = taken;
		vector_set(out, taken, true);
	}
}

/* Changes one sub-layer for another at random; the size stays. */
static void swap_one(struct search* s, struct vector* v) {
	const int count = vector_count(v);
	if (count == 0 || count == s->dims)
		return;
	int drop = gp_below(&s->random, count), take = gp_below(&s->random, s->dims - count);
	for (int i = 0; i < s->dims; i++) {
		const bool had = vector_has(v, i);
		if (had && drop-- == 0)
			vector_set(v, i, false);
		else if (!had && take-- == 0)
			vector_set(v, i, true);
	}
}

static bool is_new(const struct search* s, const struct vector* v) {
	return record_find(&s->record, v) < 0 && !(s->incumbent < 0 && vector_equal(v, &s->start));
}

/* The next set of the same size in colexicographic order; false after the last. */
static bool next_set(struct vector* v, int dims) {
	int run = 0;
	for (int i = 0; i + 1 < dims; i++) {
		if (!vector_has(v, i))
			continue;
		run++;
		if (vector_has(v, i + 1))
			continue;
		for (int j = 0; j <= i; j++)
			vector_set(v, j, j < run - 1);
		vector_set(v, i + 1, true);
		return true;
	}
	return false;
}

/* Random draws keep hitting known masks: where few sets exist, take the first new one, if there is one. */
static bool first_new(const struct search* s, struct vector* v) {
	*v = (struct vector){{0}};
	for (int i = 0; i < s->size; i++)
		vector_set(v, i, true);
	do
		if (is_new(s, v))
			return true;
	while (next_set(v, s->dims));
	return false;
}

/* How many of the weights a proposal draws; the others stay at their mean. With all of them drawn a proposal
 * has many sub-layers wrong at once, and matchness is flattest there: it falls with the square root of the
 * number that are wrong, so that a token near the top tells several times as much. */
static const double DRAWN_SHARE = 0.5;

static void thompson(struct search* s, struct vector* out) {
	double mean[MAX_DIMS];
	const int member = s->next_draw++ % DRAWS;
	const double constant = linear_draw(s->linear, member, 1, s->weight);
	linear_weights(s->linear, mean);
	for (int i = 0; i < s->dims; i++)
		if (gp_uniform(&s->random) > DRAWN_SHARE)
			s->weight[i] = mean[i];
	best_of_weights(s, s->weight, constant, out);
}

/* For the speed-up objective the number of sub-layers is the search's to find: around the ratio's. */
static int random_size(struct search* s) {
	if (s->option.objective != OBJECTIVE_SPEEDUP)
		return s->size;
	const int low = s->size / 2, high = s->size + (s->size + 1) / 2;
	const int size = low + gp_below(&s->random, high - low + 1);
	return size > s->dims ? s->dims : size;
}

bool make_new(struct search* s, struct vector* v) {
	for (int try = 0; try < 16; try++) {
		if (is_new(s, v))
			return true;
		swap_one(s, v);
	}
	return is_new(s, v);
}

static bool informed(struct search* s, struct vector* out) {
	for (int try = 0; try < 4; try++) {
		thompson(s, out);
		if (is_new(s, out))
			return true;
	}
	return make_new(s, out);
}

bool propose_random(struct search* s, struct vector* out) {
	if (s->option.bayes_interval > 0 && s->steps >= 8 && gp_below(&s->random, 8) != 0 && informed(s, out))
		return true;
	for (int try = 0; try < 64; try++) {
		uniform(s, random_size(s), out);
		if (is_new(s, out))
			return true;
	}
	return first_new(s, out);
}
