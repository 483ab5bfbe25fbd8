/* Counts with priors and a memory of some hundred trials. */
#include "core/draft/chances.h"

#include <math.h>
#include <string.h>

static const float memory = 400, prior_weight = 4, broad_weight = 6, first_weight = 8, first_memory = 200;
static const float lift_weight = 2, lift_memory = 400, most_chance = 0.998f;
static const float trust_weight = 30, trust_memory = 900, least_trust = 0.5f, most_trust = 1.25f;
static const float unknown_first = 0.75f;

static float mean(struct tally tally, float prior, float weight) {
	return (tally.right + weight * prior) / (tally.trials + weight);
}

static void count(struct tally* tally, bool right, float trial, float most) {
	if (tally->trials >= most) {
		tally->trials *= 1 - trial / most;
		tally->right *= 1 - trial / most;
	}
	tally->trials += trial;
	tally->right += right ? 1.0f : 0.0f;
}

void chances_open(struct chances* chances) {
	memset(chances, 0, sizeof *chances);
	for (int source = 0; source < DRAFTER_COUNT; source++) {
		chances_first_anew(chances, source, NAN);
		chances->trust[source] = 1;
	}
}

float chances_broad(const struct chances* chances, int source, int bin, int rank) {
	return mean(chances->broad[source][bin][rank], drafters[source]->prior(bin, rank), prior_weight);
}

float chances_of(const struct chances* chances, int source, int bin, int rank, enum company company) {
	const float lift = mean(chances->lift[source][company], 1, lift_weight);
	const float start = fminf(most_chance, lift * chances_broad(chances, source, bin, rank));
	const float chance = mean(chances->narrow[source][bin][rank][company], start, broad_weight);
	return fminf(most_chance, chances->trust[source] * chance);
}

float chances_first(const struct chances* chances, int source) {
	return mean(chances->first[source], unknown_first, 0);
}

void chances_first_anew(struct chances* chances, int source, float start) {
	const float right = isnan(start) ? unknown_first : start;
	chances->first[source] = (struct tally){first_weight * right, first_weight};
}

void chances_begin(struct chances* chances, int source, int bin, int rank, double right, double trials) {
	if (bin < 0 || bin >= drafters[source]->bins || rank < 0 || rank >= TREE_RANKS || !(trials > 0))
		return;
	struct tally* tally = &chances->broad[source][bin][rank];
	const double most = (double)memory / 2, share = trials > most ? most / trials : 1;
	if (tally->trials <= 0)
		*tally = (struct tally){(float)(right * share), (float)(trials * share)};
}

void chances_see(struct chances* chances, int source, int bin, int rank, enum company company, bool right) {
	count(&chances->lift[source][company], right, chances_broad(chances, source, bin, rank), lift_memory);
	count(&chances->broad[source][bin][rank], right, 1, memory);
	chances->fresh[source][bin][rank].trials += 1;
	chances->fresh[source][bin][rank].right += right ? 1.0f : 0.0f;
	count(&chances->narrow[source][bin][rank][company], right, 1, memory);
	if (rank == 0)
		count(&chances->first[source], right, 1, first_memory);
}

void chances_calibrate(struct chances* chances, const struct tree* tree, const struct verdict* verdict) {
	float excess[DRAFTER_COUNT] = {0};
	for (int row = 1; row < tree->n; row++) {
		const int source = tree->source[row];
		chances->calibration[source].predicted += (double)tree->chance[row];
		chances->calibration[source].rows++;
		excess[source] += tree->chance[row];
	}
	for (int i = 1; i <= verdict->accepted; i++) {
		const int source = tree->source[verdict->path[i]];
		chances->calibration[source].realized += 1;
		excess[source] -= 1;
	}
	for (int source = 0; source < DRAFTER_COUNT; source++) {
		const float seen = fminf((float)chances->calibration[source].predicted, trust_memory);
		const float trust = chances->trust[source] * expf(-excess[source] / (trust_weight + seen));
		chances->trust[source] = fminf(most_trust, fmaxf(least_trust, trust));
	}
}
