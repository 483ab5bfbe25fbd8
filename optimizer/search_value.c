/* What a mask is worth to the search: its expected matchness, or the speed-up that follows from it under
 * measured costs (optimizer/speedup.h). */
#include <math.h>

#include "optimizer/search_state.h"
#include "optimizer/speedup.h"

/* The most that is skipped, before any score, when what is believed there is extrapolated far; and after. */
static const double MOST_RATIO[2] = {0.7, 0.9};

int value_size(const struct search* s, double skip_ratio) { return (int)floor(skip_ratio * s->dims + 1e-9); }

bool value_by_speedup(const struct search* s) {
	return s->option.objective == OBJECTIVE_SPEEDUP && s->have_costs;
}

/* c: the cost of a draft step by its states. */
static double value_cost(const struct search* s, const struct vector* v) {
	const struct search_costs* cost = &s->cost;
	double c = vector_has(v, vector_head_bit(s->dims)) ? cost->low_fixed : cost->fixed;
	for (int i = 0; i < s->dims + 4; i++) {
		if (i >= 2 && i < s->dims + 2 && vector_has(v, i - 2))
			continue;
		const bool low = vector_has(v, vector_low_bit(i, s->dims));
		c += i & 1 ? (low ? cost->low_mlp : cost->mlp) : low ? cost->low_attention : cost->attention;
	}
	return c;
}

/* The speed-up of a mask whose draft steps are right with the chance alpha. */
static double value_speedup(const struct search* s, const struct vector* v, double alpha) {
	return speedup_of(&s->cost, value_cost(s, v), alpha);
}

double value_of(const struct search* s, const struct vector* v, double matchness) {
	return value_by_speedup(s) ? value_speedup(s, v, matchness) + 1e-6 * matchness : matchness;
}

double value_matchness(const struct search* s, const struct entry* e) {
	return belief_matchness(&s->belief, &e->bits, &e->own);
}

double value_present(const struct search* s) {
	return value_speedup(s, &search_incumbent(s)->bits, value_matchness(s, search_incumbent(s)));
}

/* What to count on from a mask that was scored so often, where masks of all sizes compete: other text may
 * have three tenths more misses, and the more a mask skips the more it has to lose. */
static double cautious(double matchness, int scores) {
	return 1 - (1 - matchness) * (1 + 0.3 / (1.0 + scores));
}

double value_expected(const struct search* s, const struct entry* e) {
	const double matchness = value_matchness(s, e);
	return value_of(s, &e->bits, s->free_size ? cautious(matchness, e->own.scores) : matchness);
}

/* order (n) by rising key: insertion sort, stable, for at most some hundred. */
static void value_sort(const double* key, int* order, int n) {
	for (int i = 0; i < n; i++) {
		int at = i;
		for (; at > 0 && key[order[at - 1]] > key[i]; at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
}

static struct vector value_first(const int* order, int size) {
	struct vector v = {{0}};
	for (int n = 0; n < size; n++)
		vector_set(&v, order[n], true);
	return v;
}

/* ---- spans ---------------------------------------------------------------------------------- */

static bool by_cost(const struct search* s) { return s->option.skip_cost > 0 && s->have_costs; }

/* Whether sub-layers are counted, cost being unknown or not what is given. */
static bool counted(const struct search* s) { return !by_cost(s) && !(s->free_size && value_by_speedup(s)); }

double value_saves(const struct search* s, int i) {
	if (counted(s))
		return 1.0 / s->dims;
	return i & 1 ? s->cost.mlp : s->cost.attention;
}

double value_saved(const struct search* s, const struct vector* v) {
	double sum = 0;
	for (int i = 0; i < s->dims; i++)
		sum += vector_has(v, i) ? value_saves(s, i) : 0;
	return sum;
}

bool value_enough(const struct search* s, const struct vector* v) {
	return by_cost(s) ? value_saved(s, v) >= s->option.skip_cost - 1e-9 : vector_count(v, s->dims) >= s->size;
}

struct vector value_best_span(const struct search* s, const double* damage, double share) {
	const bool any = share == 0 && s->free_size && value_by_speedup(s);
	const double most = any ? value_size(s, MOST_RATIO[s->record.observations > 0]) : s->dims;
	const double wanted = share > 0 ? share : s->option.skip_cost;
	double best = -INFINITY;
	int from = 0, to = 0;
	for (int i = 0; i < s->dims; i++) {
		double sum = 0, gone = 0;
		for (int j = i + 1; j <= s->dims && j - i <= most; j++) {
			sum += damage[j - 1];
			gone += value_saves(s, j - 1);
			const bool enough = any || (wanted > 0 ? gone >= wanted - 1e-9 : j - i >= s->size);
			if (!enough)
				continue;
			const double all = belief_together(&s->belief, i, j) * sum;
			const double alpha =
			    any ? cautious(calibration_matchness(&s->belief.link, all), s->record.observations) : 0;
			const double value = any ? speedup_of(&s->cost, 1 - gone, alpha) + 1e-6 * alpha : -all;
			if (value > best) {
				best = value;
				from = i;
				to = j;
			}
			if (!any)
				break;
		}
	}
	struct vector v = {{0}};
	for (int i = from; i < to; i++)
		vector_set(&v, i, true);
	return v;
}

/* Adds the sub-layers of least damage for what they save until the share of cost wanted is saved, and takes
 * out those of most damage that it does not need. */
static void value_trim(const struct search* s, struct vector* v, const double* damage) {
	if (!by_cost(s))
		return;
	while (!value_enough(s, v)) {
		int best = -1;
		for (int i = 0; i < s->dims; i++)
			if (!vector_has(v, i) &&
			    (best < 0 || damage[i] * value_saves(s, best) < damage[best] * value_saves(s, i)))
				best = i;
		if (best < 0)
			return;
		vector_set(v, best, true);
	}
	for (;;) {
		int worst = -1;
		const double spare = value_saved(s, v) - s->option.skip_cost + 1e-9;
		for (int i = 0; i < s->dims; i++)
			if (vector_has(v, i) && value_saves(s, i) <= spare && (worst < 0 || damage[i] > damage[worst]))
				worst = i;
		if (worst < 0)
			return;
		vector_set(v, worst, false);
	}
}

/* ---- states by price ---------------------------------------------------------------------- */

/* From the full model towards the empty one: a sub-layer goes from stored to low, from low to skipped, or
 * where low is a poor bargain at once to skipped. Steps of least damage for what they save come first, so
 * that the states before each are the best of their price, if damage adds up. */
struct step {
	int bit; /* that is set */
	double damage, saved, key;
};

static void add_step(struct step* step, int* n, int bit, double damage, double saved) {
	const double key = damage > 0 && saved > 0 ? damage / saved : damage;
	int at = (*n)++;
	for (; at > 0 && step[at - 1].key > key; at--)
		step[at] = step[at - 1];
	step[at] = (struct step){bit, damage, saved, key};
}

/* The steps of sub-layer i; `skips`: it may be skipped. */
static void steps_of(const struct search* s, int i, bool skips, const double* damage, struct step* step,
                     int* n) {
	const int low_bit = vector_low_bit(i, s->dims);
	const double stored = i & 1 ? s->cost.mlp : s->cost.attention;
	const double low = i & 1 ? s->cost.low_mlp : s->cost.low_attention;
	const bool rounds = copied_has(&s->copied, i) && low < stored;
	const double by_low = rounds ? damage[low_bit] : 0, by_skip = skips ? damage[i - 2] : 0;
	/* rounding first, where it is the better bargain */
	const bool both = rounds && (!skips || by_low * low <= (by_skip - by_low) * (stored - low));
	if (both)
		add_step(step, n, low_bit, by_low, stored - low);
	if (skips)
		add_step(step, n, i - 2, by_skip - (both ? by_low : 0), both ? low : stored);
}

static void take_step(const struct search* s, struct vector* v, int bit) {
	if (bit < s->dims)
		vector_set(v, vector_low_bit(bit + 2, s->dims), false);
	vector_set(v, bit, true);
}

/* The best way to go on from v, whose damage is `sum`; `stay`: not at all is one. */
static struct vector best_way(const struct search* s, struct vector v, double sum, const struct step* step,
                              int n, bool stay) {
	const int most = value_size(s, MOST_RATIO[s->record.observations > 0]);
	struct vector best = v;
	double c = value_cost(s, &v), value, most_value = 0;
	for (int i = stay ? -1 : 0, skipped = vector_count(&v, s->dims); i < n; i++) {
		if (i >= 0 && step[i].bit < s->dims && ++skipped > most)
			break;
		if (i >= 0) {
			take_step(s, &v, step[i].bit);
			sum += step[i].damage;
			c -= step[i].saved;
		}
		const double alpha =
		    cautious(calibration_matchness(&s->belief.link, fmax(0, sum)), s->record.observations);
		value = speedup_of(&s->cost, c, alpha) + 1e-6 * alpha;
		if (value > most_value) {
			most_value = value;
			best = v;
		}
	}
	return best;
}

/* Whatever has a copy runs low. */
static void round_all(const struct search* s, struct vector* v) {
	const struct mask mask = mask_of(v, &(struct copied){.head = false}, s->dims);
	vector_of(&mask, &s->copied, s->dims, v);
}

static double head_saved(const struct search* s) {
	return s->copied.head ? s->cost.fixed - s->cost.low_fixed : 0;
}

void value_round(const struct search* s, struct vector* v, const double* damage) {
	struct step step[MAX_BITS];
	int n = 0;
	double sum = 0;
	if (!value_by_speedup(s)) {
		round_all(s, v);
		return;
	}
	*v = vector_skips(v, s->dims);
	for (int i = 0; i < s->dims + 4; i++) {
		const bool skipped = i >= 2 && i < s->dims + 2 && vector_has(v, i - 2);
		if (skipped)
			sum += damage[i - 2];
		else
			steps_of(s, i, false, damage, step, &n);
	}
	if (head_saved(s) > 0)
		add_step(step, &n, vector_head_bit(s->dims), damage[vector_head_bit(s->dims)], head_saved(s));
	*v = best_way(s, *v, sum, step, n, true);
}

struct vector value_best(const struct search* s, const double* damage) {
	if (s->free_size && value_by_speedup(s)) {
		struct step step[MAX_BITS];
		int n = 0;
		for (int i = 0; i < s->dims + 4; i++)
			steps_of(s, i, i >= 2 && i < s->dims + 2, damage, step, &n);
		if (head_saved(s) > 0)
			add_step(step, &n, vector_head_bit(s->dims), damage[vector_head_bit(s->dims)], head_saved(s));
		return best_way(s, (struct vector){{0}}, 0, step, n, false);
	}
	int order[MAX_DIMS];
	value_sort(damage, order, s->dims);
	struct vector v = value_first(order, by_cost(s) ? 0 : s->size);
	value_trim(s, &v, damage);
	value_round(s, &v, damage);
	return v;
}

struct vector value_first_guess(const struct search* s) {
	double damage[MAX_BITS];
	linear_weights(s->belief.linear, damage);
	if (!s->belief.spanned)
		return value_best(s, s->belief.informed ? s->belief.influence : damage);
	struct vector v = value_best_span(s, damage, 0);
	value_round(s, &v, damage);
	return v;
}
