/* Counts with priors and a memory of some hundred trials. */
#include "core/draft/chances.h"

#include <math.h>
#include <string.h>

static const float memory = 400, prior_weight = 16, first_weight = 8, first_memory = 200, misses_weight = 1;
static const float most_chance = 0.998f, unknown_first = 0.75f;

static void count(struct tally* tally, bool right, float most) {
	if (tally->trials >= most) {
		tally->trials *= 1 - 1 / most;
		tally->right *= 1 - 1 / most;
	}
	tally->trials += 1;
	tally->right += right ? 1.0f : 0.0f;
}

void chances_open(struct chances* chances) {
	memset(chances, 0, sizeof *chances);
	for (int source = 0; source < DRAFTER_COUNT; source++)
		chances_first_anew(chances, source, NAN);
}

/* The drafter's prior, with the odds of a miss as many times as high as misses came more often than it said:
 * every bin learns so from all of them. */
static float prior_of(const struct chances* chances, int source, int bin, int rank) {
	const float said = drafters[source]->prior(bin, rank % TREE_RANKS);
	const struct misses* misses = &chances->misses[source];
	const float times = (misses->came + misses_weight) / (misses->expected + misses_weight);
	return rank % TREE_RANKS > 0 ? said : said / (said + (1 - said) * times);
}

float chances_of(const struct chances* chances, int source, int bin, int rank) {
	const float prior = prior_of(chances, source, bin, rank);
	const struct tally* seen = &chances->seen[source][bin][rank];
	return fminf(most_chance, (seen->right + prior_weight * prior) / (seen->trials + prior_weight));
}

float chances_first(const struct chances* chances, int source) {
	return chances->first[source].right / chances->first[source].trials;
}

void chances_first_anew(struct chances* chances, int source, float start) {
	const float right = isnan(start) ? unknown_first : start;
	chances->first[source] = (struct tally){first_weight * right, first_weight};
	chances->misses[source] = (struct misses){0, 0};
}

static void count_misses(struct misses* misses, float said, bool right) {
	misses->came = misses->came * (1 - 1 / first_memory) + (right ? 0.0f : 1.0f);
	misses->expected = misses->expected * (1 - 1 / first_memory) + 1 - said;
}

void chances_see(struct chances* chances, int source, int bin, int rank, bool right) {
	count(&chances->seen[source][bin][rank], right, memory);
	if (rank % TREE_RANKS > 0)
		return;
	count(&chances->first[source], right, first_memory);
	count_misses(&chances->misses[source], drafters[source]->prior(bin, 0), right);
}
