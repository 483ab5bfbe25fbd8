/* What a mask is worth: its matchness, or the speed-up to expect from it under measured costs. */
#include <math.h>
#include <stdlib.h>

#include "optimizer/search_internal.h"

/* A draft step's cost with these sub-layers skipped, over a one-row full pass: c. */
static double draft_cost(const struct search* s, int attention, int mlp) {
	const double blocks = s->option.blocks;
	const double c = s->cost.fixed + (blocks - attention) * s->cost.attention + (blocks - mlp) * s->cost.mlp;
	return c > 1e-3 ? c : 1e-3;
}

/* The best over chain lengths D of M / ((M - 1)·c/alpha + v(n)): a chain of D steps, each accepted after
 * the last with the chance a, has M = 1 + a + … + a^D, (M - 1)/alpha = D and n = D + 1 rows. D = 0 is a
 * plain step. */
static double speedup(const struct search* s, int attention, int mlp, double a) {
	const double c = draft_cost(s, attention, mlp);
	a = a < 0 ? 0 : a > 1 ? 1 : a;
	double best = 1, emitted = 1, reach = 1;
	for (int depth = 1; depth <= s->cost.max_draft && depth < SLICE_ROWS; depth++) {
		reach *= a;
		emitted += reach;
		const double gain = emitted / (depth * c + s->cost.verify[depth + 1]);
		if (gain > best)
			best = gain;
	}
	return best;
}

static bool by_speedup(const struct search* s) {
	return s->option.objective == OBJECTIVE_SPEEDUP && s->have_costs;
}

double speedup_of(const struct search* s, const struct vector* v, double alpha) {
	int kind[2] = {0, 0};
	for (int i = 0; i < s->dims; i++)
		kind[i & 1] += vector_has(v, i);
	return speedup(s, kind[0], kind[1], alpha);
}

double value_of(const struct search* s, const struct vector* v, double matchness) {
	if (!by_speedup(s))
		return matchness;
	int kind[2] = {0, 0};
	for (int i = 0; i < s->dims; i++)
		kind[i & 1] += vector_has(v, i);
	/* The matchness itself breaks ties, as where no chain pays. */
	return speedup(s, kind[0], kind[1], matchness) + 1e-6 * matchness;
}

/* How far one mask's matchness strays from a sum over its sub-layers, squared. */
static const double STRAY = 0.015 * 0.015;

double estimate_of(const struct search* s, const struct entry* e) {
	double mean = linear_mean(s->linear, e->bits.word);
	if (e->residual_weight > 0)
		mean += e->residual / (e->residual_weight + 1 / STRAY);
	return mean < 0 ? 0 : mean > 1 ? 1 : mean;
}

double estimate_value(const struct search* s, const struct entry* e) {
	return value_of(s, &e->bits, estimate_of(s, e));
}

/* order[0..count-1] by falling key: insertion sort, stable, for at most some hundred. */
static void sort_by(const double* key, int* order, int count) {
	for (int i = 0; i < count; i++) {
		int at = i;
		for (; at > 0 && key[order[at - 1]] < key[i]; at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
}

void best_of_weights(struct search* s, const double* weight, double constant, struct vector* out) {
	double key[MAX_DIMS];
	const bool free_size = by_speedup(s);
	for (int i = 0; i < s->dims; i++) {
		const double saved = i & 1 ? s->cost.mlp : s->cost.attention;
		key[i] = free_size && weight[i] < 0 && saved > 0 ? weight[i] / saved : weight[i];
	}
	sort_by(key, s->order, s->dims);
	int size = s->size;
	if (free_size) {
		int kind[2] = {0, 0};
		double matchness = constant, best = 0;
		size = 0;
		for (int n = 1; n <= s->dims; n++) {
			matchness += weight[s->order[n - 1]];
			kind[s->order[n - 1] & 1]++;
			const double value = speedup(s, kind[0], kind[1], matchness);
			if (value > best) {
				best = value;
				size = n;
			}
		}
	}
	*out = (struct vector){{0}};
	for (int n = 0; n < size; n++)
		vector_set(out, s->order[n], true);
}
