/* What a mask is worth to the search: its expected matchness, or the speed-up that follows from it under
 * measured costs (optimizer/speedup.h). */
#include <math.h>

#include "optimizer/search_state.h"
#include "optimizer/speedup.h"

/* The most that is skipped, before any score, when what is believed there is extrapolated far; and after. */
static const double MOST_RATIO[2] = {0.7, 0.9};

bool value_by_speedup(const struct search* s) {
	return s->option.objective == OBJECTIVE_SPEEDUP && s->have_costs;
}

double value_speedup(const struct search* s, const struct vector* v, double alpha) {
	int kind[2] = {0, 0};
	for (int i = 0; i < s->dims; i++)
		kind[i & 1] += vector_has(v, i);
	return speedup_of(&s->cost, s->option.blocks, kind[0], kind[1], alpha);
}

double value_of(const struct search* s, const struct vector* v, double matchness) {
	return value_by_speedup(s) ? value_speedup(s, v, matchness) + 1e-6 * matchness : matchness;
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

/* order (dims) by rising key: insertion sort, stable, for at most some hundred. */
void value_sort(const double* key, int* order, int n) {
	for (int i = 0; i < n; i++) {
		int at = i;
		for (; at > 0 && key[order[at - 1]] > key[i]; at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
}

struct vector value_first(const int* order, int size) {
	struct vector v = {{0}};
	for (int n = 0; n < size; n++)
		vector_set(&v, order[n], true);
	return v;
}

struct vector value_best(const struct search* s, const double* damage) {
	double key[MAX_DIMS] = {0};
	int order[MAX_DIMS], size = s->size;
	const bool choose = s->free_size && value_by_speedup(s);
	for (int i = 0; i < s->dims; i++) {
		const double saved = i & 1 ? s->cost.mlp : s->cost.attention;
		key[i] = choose && damage[i] > 0 && saved > 0 ? damage[i] / saved : damage[i];
	}
	value_sort(key, order, s->dims);
	double sum = 0, best = 0;
	int kind[2] = {0, 0};
	for (int n = s->cost.rounding > 0 ? 0 : 1;
	     choose && n <= search_size(s, MOST_RATIO[s->record.observations > 0]); n++) {
		if (n > 0) {
			sum += damage[order[n - 1]];
			kind[order[n - 1] & 1]++;
		}
		const double alpha =
		    cautious(calibration_matchness(&s->belief.link, fmax(0, sum)), s->record.observations);
		const double value = speedup_of(&s->cost, s->option.blocks, kind[0], kind[1], alpha) + 1e-6 * alpha;
		if (value > best) {
			best = value;
			size = n;
		}
	}
	return value_first(order, size);
}

double value_worth(const struct search* s, const struct vector* v, int rows) {
	static const double node[] = {-2.857, -1.356, 0, 1.356, 2.857}; /* Gauss-Hermite, five points */
	static const double weight[] = {0.01126, 0.22208, 0.53333, 0.22208, 0.01126};
	const int index = record_find(&s->record, v);
	const struct evidence* own = index < 0 ? NULL : &s->record.entry[index].own;
	const double mean = belief_matchness(&s->belief, v, own), known = belief_variance(&s->belief, v, own);
	const double told = known * known / (known + belief_noise(mean, rows) / 4); /* distances tell more */
	const double present = fmax(1, search_speedup(s));
	double gain = 0;
	for (int i = 0; i < 5; i++) {
		const double value = value_speedup(s, v, mean + node[i] * sqrt(told));
		gain += weight[i] * fmax(0, 1 / present - 1 / fmax(1, value));
	}
	return gain;
}
