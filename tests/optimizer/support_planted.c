#include "support_planted.h"

#include <math.h>
#include <string.h>

#include "gp/random.h"

struct mask planted_start(int blocks) {
	struct mask mask = {.word = {0}};
	for (int block = 1; block <= blocks - 2; block += 2) {
		mask_set(&mask, 2 * block, true);
		mask_set(&mask, 2 * block + 1, true);
	}
	return mask;
}

void planted_make(struct planted* p, int blocks, uint64_t seed) {
	*p = (struct planted){.blocks = blocks, .dims = 2 * (blocks - 2), .seed = seed, .top = 0.98};
	struct gp_random random = {seed * 77 + 1};
	const int size = (int)(0.45 * p->dims + 1e-9);
	for (int kind = 0; kind < 2; kind++)
		for (int left = (size + 1 - kind) / 2; left > 0;) {
			const int sub_layer = 2 + 2 * gp_below(&random, p->dims / 2) + kind;
			left -= !mask_has(&p->mask, sub_layer);
			mask_set(&p->mask, sub_layer, true);
		}
	const struct mask start = planted_start(blocks);
	int wrong = 0;
	for (int i = 0; i < p->dims; i++)
		wrong += mask_has(&start, i + 2) && !mask_has(&p->mask, i + 2);
	const double mean = log(p->top / 0.45) / wrong;
	for (int i = 0; i < p->dims; i++)
		p->cost[i] = mask_has(&p->mask, i + 2) ? 0.0004 * gp_uniform(&random)
		                                       : mean * (0.75 + 0.5 * gp_uniform(&random));
}

double planted_truth(const struct planted* p, const struct mask* mask) {
	double sum = 0;
	for (int i = 0; i < p->dims; i++)
		sum += mask_has(mask, i + 2) ? p->cost[i] : 0;
	return p->top * exp(-sum);
}

/* The normal quantile by bisection; there is time. */
static double quantile(double probability) {
	double low = -8, high = 8;
	for (int i = 0; i < 50; i++) {
		const double middle = (low + high) / 2;
		if (0.5 * erfc(-middle / sqrt(2)) < probability)
			low = middle;
		else
			high = middle;
	}
	return (low + high) / 2;
}

int planted_score(const struct planted* p, const struct mask* mask, int64_t window, int size) {
	const double bar = quantile(planted_truth(p, mask));
	uint64_t hash = 1;
	for (int i = 0; i < MASK_WORDS; i++) {
		hash = (hash ^ mask->word[i]) * 0x9e3779b97f4a7c15u;
		hash ^= hash >> 31;
	}
	int matches = 0;
	for (int t = 0; t < size; t++) {
		struct gp_random token = {p->seed * 1000003 + (uint64_t)window * 977 + (uint64_t)t * 13};
		struct gp_random own = {hash ^ (p->seed + (uint64_t)window * 7919 + (uint64_t)t * 104729)};
		matches += sqrt(0.5) * (gp_normal(&token) + gp_normal(&own)) < bar;
	}
	return matches;
}
