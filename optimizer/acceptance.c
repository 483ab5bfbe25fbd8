/* Counting agreements, with a prior and a memory of about two hundred trials a bin. */
#include "optimizer/acceptance.h"

#include <math.h>
#include <string.h>

static const float prior_weight = 4, memory = 200;

/* Before anything was seen: the first choice is right as often as its probability says, and each further
 * one takes half of what is left. */
static float prior(int bin, int rank) {
	const float p = ((float)bin + 0.5f) / DRAFT_BINS;
	return rank == 0 ? p : (1 - p) * ldexpf(1, -rank);
}

static void update_bin(struct acceptance* a, int bin) {
	for (int rank = 0; rank < TREE_RANKS; rank++)
		a->table.chance[bin][rank] =
		    (a->hits[bin][rank] + prior_weight * prior(bin, rank)) / (a->trials[bin] + prior_weight);
}

void acceptance_open(struct acceptance* a) {
	memset(a, 0, sizeof *a);
	a->rate = 1;
	for (int bin = 0; bin < DRAFT_BINS; bin++)
		update_bin(a, bin);
	acceptance_new_mask(a, NAN);
}

void acceptance_new_mask(struct acceptance* a, double matchness) {
	const float start = isnan(matchness) ? 0.75f : (float)matchness;
	a->step_trials = 8;
	a->step_hits = 8 * start;
}

void acceptance_doubt(struct acceptance* a) {
	a->step_hits *= 8 / a->step_trials;
	a->step_trials = 8;
}

static void fade(struct acceptance* a, int bin) {
	if (a->trials[bin] < memory)
		return;
	const float keep = 1 - 1 / memory;
	a->trials[bin] *= keep;
	for (int rank = 0; rank < TREE_RANKS; rank++)
		a->hits[bin][rank] *= keep;
}

/* The target's token at the chain's parent of depth d + 1 is known as far as the accepted path stays on
 * the chain; there the draft's whole list of choices is compared, in the tree or not. */
void acceptance_see(struct acceptance* a, const struct round* round) {
	for (int d = 0; d < round->steps && d <= round->verdict.accepted; d++) {
		const int row = round->verdict.path[d];
		if (round->tree.rank[row] != 0)
			break;
		const struct result* step = &round->step[d];
		const int bin = draft_bin(step->max_probability);
		fade(a, bin);
		a->trials[bin] += 1;
		for (int rank = 0; rank < TREE_RANKS && rank < step->top; rank++)
			if (step->top_token[rank] == round->out[row].token)
				a->hits[bin][rank] += 1;
		update_bin(a, bin);
		if (a->step_trials > memory) {
			a->step_hits *= 1 - 1 / memory;
			a->step_trials *= 1 - 1 / memory;
		}
		a->step_trials += 1;
		a->step_hits += step->top_token[0] == round->out[row].token ? 1.0f : 0.0f;
	}
}

void acceptance_see_rate(struct acceptance* a, int tokens, double cost) {
	const float rate = (float)(tokens / cost);
	a->rate += 0.05f * (rate - a->rate);
}

float acceptance_step(const struct acceptance* a) { return a->step_hits / a->step_trials; }
