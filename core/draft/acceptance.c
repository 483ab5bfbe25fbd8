/* Acceptance estimates: counts with priors and a memory of some hundred trials. */
#include "core/draft/acceptance.h"

#include <math.h>
#include <string.h>

static const float memory = 400, prior_weight = 16, first_weight = 8, first_memory = 200,
                   rejections_weight = 1;
static const float most_acceptance = 0.998f, unknown_first = 0.75f;

static void count_trial(struct tally* tally, bool right, float most) {
	if (tally->trials >= most) {
		tally->trials *= 1 - 1 / most;
		tally->right *= 1 - 1 / most;
	}
	tally->trials += 1;
	tally->right += right ? 1.0f : 0.0f;
}

void acceptance_open(struct acceptance* acceptance) {
	memset(acceptance, 0, sizeof *acceptance);
	for (int source = 0; source < DRAFTER_COUNT; source++)
		acceptance_reset_first(acceptance, source, NAN);
}

/* The drafter's prior, with its odds of rejection scaled by observed over expected rejections: so every bin
 * learns from all of them. */
static float prior_of(const struct acceptance* acceptance, int source, int bin, int rank) {
	const float expected = drafters[source]->prior(bin, rank % TREE_RANKS);
	const struct rejections* rejections = &acceptance->rejections[source];
	const float times = (rejections->came + rejections_weight) / (rejections->expected + rejections_weight);
	return rank % TREE_RANKS > 0 ? expected : expected / (expected + (1 - expected) * times);
}

float acceptance_of(const struct acceptance* acceptance, int source, int bin, int rank) {
	const float prior = prior_of(acceptance, source, bin, rank);
	const struct tally* seen = &acceptance->seen[source][bin][rank];
	return fminf(most_acceptance, (seen->right + prior_weight * prior) / (seen->trials + prior_weight));
}

float acceptance_first(const struct acceptance* acceptance, int source) {
	return acceptance->first[source].right / acceptance->first[source].trials;
}

void acceptance_reset_first(struct acceptance* acceptance, int source, float start) {
	const float right = isnan(start) ? unknown_first : start;
	acceptance->first[source] = (struct tally){first_weight * right, first_weight};
	acceptance->rejections[source] = (struct rejections){0, 0};
}

static void count_rejections(struct rejections* rejections, float expected, bool right) {
	rejections->came = rejections->came * (1 - 1 / first_memory) + (right ? 0.0f : 1.0f);
	rejections->expected = rejections->expected * (1 - 1 / first_memory) + 1 - expected;
}

void acceptance_observe(struct acceptance* acceptance, int source, int bin, int rank, bool right) {
	count_trial(&acceptance->seen[source][bin][rank], right, memory);
	if (rank % TREE_RANKS > 0)
		return;
	count_trial(&acceptance->first[source], right, first_memory);
	count_rejections(&acceptance->rejections[source], drafters[source]->prior(bin, 0), right);
}
