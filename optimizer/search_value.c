/* What a mask is worth to the search: its expected matchness, or the speed-up that follows from it under
 * measured costs. */
#include <math.h>

#include "core/decode/session_cost.h"
#include "gp/ranked.h"
#include "optimizer/search_state.h"

/* The most that is skipped, before any score, when what is believed there is extrapolated far; and after. */
static const double MOST_RATIO[2] = {0.7, 0.9};

int value_size(const struct search* s, double skip_ratio) { return (int)floor(skip_ratio * s->dims + 1e-9); }

bool value_priced(const struct search* s) { return s->free_size && s->have_costs; }

/* Of one of all sub-layers. */
static double sub_layer_cost(const struct search* s, int i, bool quantized) {
	if (quantized && mask_has(&s->quantized.sub_layers, i))
		return i & 1 ? s->cost.quantized_mlp : s->cost.quantized_attention;
	return i & 1 ? s->cost.mlp : s->cost.attention;
}

/* c: the cost of a draft step by its states. */
static double value_cost(const struct search* s, const struct vector* v) {
	const bool quantized = vector_has(v, s->dims);
	double c = quantized && s->quantized.head ? s->cost.quantized_fixed : s->cost.fixed;
	for (int i = 0; i < s->dims + 4; i++)
		if (i < 2 || i >= s->dims + 2 || !vector_has(v, i - 2))
			c += sub_layer_cost(s, i, quantized);
	return c;
}

/* Of a draft step at that cost, right with the chance alpha: the best over chain lengths D of
 * M / ((M - 1)·c/alpha + v(n)): a chain of D steps, each accepted after the last with the chance alpha, has
 * M = 1 + alpha + … + alpha^D, (M - 1)/alpha = D and n = D + 1 rows. D is at least 1: where no chain pays it
 * is under 1, and still tells which mask is nearest to paying. */
static double speedup_of(const struct search* s, double step, double alpha) {
	return chain_rate(s->cost.verify, s->cost.max_draft, fmax(0, fmin(1, alpha)), fmax(1e-3, step));
}

double value_speedup(const struct search* s, const struct vector* v, double alpha) {
	return speedup_of(s, value_cost(s, v), alpha);
}

double value_of(const struct search* s, const struct vector* v, double matchness) {
	return value_priced(s) ? value_speedup(s, v, matchness) + 1e-6 * matchness : matchness;
}

double value_matchness(const struct search* s, const struct entry* e) {
	return belief_matchness(&s->belief, &e->bits, &e->own);
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

/* What is to be expected at that damage, and the value of a draft step at that cost then. */
static double worth_at(const struct search* s, double step, double damage) {
	const double alpha = cautious(belief_at(&s->belief, fmax(0, damage)), s->record.observations);
	return speedup_of(s, step, alpha) + 1e-6 * alpha;
}

/* The `most` of n that have the least keys, the least first. */
static void least_of(const double* key, int n, int most, int* order) {
	double least[MAX_DIMS];
	for (int i = 0, kept = 0; i < n; i++)
		kept = ranked_add(least, order, kept, most, -key[i], i);
}

/* ---- spans ---------------------------------------------------------------------------------- */

static bool by_cost(const struct search* s) { return s->option.skip_cost > 0 && s->have_costs; }

/* Whether sub-layers are counted, cost being unknown or not what is given. */
static bool counted(const struct search* s) { return !by_cost(s) && !value_priced(s); }

double value_saves(const struct search* s, int i) {
	if (counted(s))
		return 1.0 / s->dims;
	return sub_layer_cost(s, i + 2, false);
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

/* The best span from sub-layer `i` on: its end, or where none saves enough -1; its value. */
static int best_end(const struct search* s, const double* damage, double share, int i, double* value) {
	const bool any = share == 0 && value_priced(s);
	const double most = any ? value_size(s, MOST_RATIO[s->record.observations > 0]) : s->dims;
	const double wanted = share > 0 ? share : s->option.skip_cost;
	const struct vector none = {{0}};
	const double full = value_cost(s, &none);
	double sum = 0, gone = 0;
	int end = -1;
	*value = -INFINITY;
	for (int j = i + 1; j <= s->dims && j - i <= most; j++) {
		sum += damage[j - 1];
		gone += value_saves(s, j - 1);
		const double all = belief_together(&s->belief, i, j) * sum;
		if (!any && (wanted > 0 ? gone >= wanted - 1e-9 : j - i >= s->size)) {
			*value = -all;
			return j;
		}
		const double here = any ? worth_at(s, full - gone, all) : -INFINITY;
		if (here > *value) {
			*value = here;
			end = j;
		}
	}
	return end;
}

int value_best_spans(const struct search* s, const double* damage, double share, int most,
                     struct vector* out) {
	double value[SEARCH_SPANS], mine;
	int first[SEARCH_SPANS], end[MAX_DIMS], n = 0;
	for (int i = 0; i < s->dims; i++) {
		end[i] = best_end(s, damage, share, i, &mine);
		if (end[i] >= 0)
			n = ranked_add(value, first, n, most, mine, i);
	}
	for (int k = 0; k < n; k++) {
		out[k] = (struct vector){{0}};
		for (int i = first[k]; i < end[first[k]]; i++)
			vector_set(&out[k], i, true);
	}
	return n;
}

/* Adds the sub-layers of least damage for what they save until the share of cost wanted is saved, and takes
 * out those of most damage that it does not need. */
static void skip_to_cost(const struct search* s, struct vector* v, const double* damage) {
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

/* ---- states by cost ---------------------------------------------------------------------- */

/* Of states whose damage adds up. */
static double value_by(const struct search* s, const struct vector* v, const double* damage) {
	double sum = 0;
	for (int i = 0; i < s->belief.bits; i++)
		sum += vector_has(v, i) ? damage[i] : 0;
	return worth_at(s, value_cost(s, v), sum);
}

void value_round(const struct search* s, struct vector* v, const double* damage) {
	*v = vector_skips(v, s->dims);
	if (!quantized_any(&s->quantized))
		return;
	struct vector quantized = *v;
	vector_set(&quantized, s->dims, true);
	if (value_by(s, &quantized, damage) >= value_by(s, v, damage))
		*v = quantized;
}

/* From these states towards the empty model: sub-layers of least damage for what they save are skipped first,
 * so that the masks on the way are the best of their cost, if damage adds up. The best; its value. */
static double skip_on(const struct search* s, struct vector* v, const double* damage) {
	double key[MAX_DIMS];
	int order[MAX_DIMS];
	for (int i = 0; i < s->dims; i++) {
		const double saved = sub_layer_cost(s, i + 2, vector_has(v, s->dims));
		key[i] = damage[i] > 0 && saved > 0 ? damage[i] / saved : damage[i];
	}
	const int most = value_size(s, MOST_RATIO[s->record.observations > 0]);
	least_of(key, s->dims, most, order);
	struct vector now = *v;
	/* the full model is no draft */
	double best = vector_has(v, s->dims) ? value_by(s, v, damage) : 0;
	for (int n = 0; n < most; n++) {
		vector_set(&now, order[n], true);
		const double value = value_by(s, &now, damage);
		if (value > best) {
			best = value;
			*v = now;
		}
	}
	return best;
}

struct vector value_best(const struct search* s, const double* damage) {
	if (value_priced(s)) {
		struct vector stored = {{0}}, quantized = {{0}};
		const double without = skip_on(s, &stored, damage);
		vector_set(&quantized, s->dims, true);
		return quantized_any(&s->quantized) && skip_on(s, &quantized, damage) >= without ? quantized : stored;
	}
	int order[MAX_DIMS];
	struct vector v = {{0}};
	if (by_cost(s)) {
		skip_to_cost(s, &v, damage);
		return v;
	}
	least_of(damage, s->dims, s->size, order);
	for (int n = 0; n < s->size; n++)
		vector_set(&v, order[n], true);
	return v;
}

bool value_hopes(const struct search* s) {
	double damage[MAX_BITS];
	struct vector quantized = {{0}};
	if (!quantized_any(&s->quantized) || !s->belief.informed)
		return true;
	linear_weights(s->belief.linear, damage);
	vector_set(&quantized, s->dims, true);
	const double c = value_cost(s, &quantized), sum = damage[s->dims],
	             present = value_by(s, &quantized, damage);
	for (int i = 0; i < s->dims; i++) {
		double saved = 0, hurt = 0;
		for (int j = i; j < s->dims; j++) {
			saved += sub_layer_cost(s, j + 2, true);
			hurt += damage[j];
			const double all = sum + 0.5 * belief_together(&s->belief, i, j + 1) * hurt;
			if (worth_at(s, c - saved, all) > present)
				return true;
		}
	}
	return false;
}

int value_first_guesses(const struct search* s, int most, struct vector* out) {
	double damage[MAX_BITS];
	linear_weights(s->belief.linear, damage);
	if (!s->belief.spanned) {
		out[0] = value_best(s, damage);
		return 1;
	}
	const int n = value_best_spans(s, damage, 0, most, out);
	for (int i = 0; i < n; i++)
		value_round(s, &out[i], damage);
	return n;
}
