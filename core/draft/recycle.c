/* The `recycle` drafter: Token Recycling (Luo et al. 2024, arXiv 2408.08696).
 *
 * It keeps each token's likeliest successors according to the target, from the last verified row that held
 * the token: (vocab, successors). Every verified row renews them, accepted or not. A tree of them costs
 * nothing, and is right when a token's successor depends on little else. The evidence is the successor's
 * probability in that row.
 *
 * On a CPU, finding each row's likeliest tokens costs up to 9 % of the speed when sampling, and greedily as
 * much as the drafts bring (docs/lessons.md). It pays where rows cost next to nothing. */
#include <stdlib.h>
#include <string.h>

#include "core/draft/drafter.h"

enum { SUCCESSORS = 8, BINS = 16 };

struct successors {
	int32_t token[SUCCESSORS];
	uint8_t bin[SUCCESSORS];
	uint8_t n;
};

struct recycle {
	int vocab, tenant;
	struct successors of[]; /* (vocab) */
};

static void* recycle_open(const struct drafter_setup* setup) {
	struct recycle* r = calloc(1, sizeof *r + (size_t)setup->vocab * sizeof r->of[0]);
	if (r)
		r->vocab = setup->vocab;
	return r;
}

/* Successors are of one tenant's texts. */
static void recycle_begin(void* state, const struct drafter_text* text) {
	struct recycle* r = state;
	if (text->tenant != r->tenant)
		memset(r->of, 0, (size_t)r->vocab * sizeof r->of[0]);
	r->tenant = text->tenant;
}

static uint8_t recycle_wants(const void* state) {
	(void)state;
	return WANT_TOP | WANT_ROUGH;
}

static void recycle_see(void* state, const struct tree* tree, const struct verdict* verdict,
                        const struct result* out) {
	struct recycle* r = state;
	(void)verdict;
	for (int row = 0; row < tree->n; row++) {
		const int32_t token = tree->token[row];
		if (token < 0 || token >= r->vocab || out[row].top < 1)
			continue;
		struct successors* s = &r->of[token];
		s->n = (uint8_t)(out[row].top < SUCCESSORS ? out[row].top : SUCCESSORS);
		for (int i = 0; i < s->n; i++) {
			s->token[i] = out[row].top_token[i];
			s->bin[i] = (uint8_t)draft_bin(out[row].top_probability[i]);
		}
	}
}

static int recycle_extend(void* state, const struct tree* tree, int row, struct candidate* out, int most) {
	const struct recycle* r = state;
	const int32_t token = tree->token[row];
	if (token < 0 || token >= r->vocab)
		return 0;
	const struct successors* s = &r->of[token];
	const int n = s->n < most ? s->n : most;
	for (int i = 0; i < n; i++)
		out[i] = (struct candidate){.token = s->token[i], .bin = s->bin[i]};
	return n;
}

/* About half of the probability is left in another context. */
static float recycle_prior(int bin, int rank) {
	const float p = ((float)bin + 0.5f) / BINS;
	return rank == 0 ? 0.6f * p : 0.1f + 0.4f * p;
}

const struct drafter drafter_recycle = {.bins = BINS,
                                        .wants = recycle_wants,
                                        .pays_on_devices = true,
                                        .prior = recycle_prior,
                                        .open = recycle_open,
                                        .close = free,
                                        .begin = recycle_begin,
                                        .see = recycle_see,
                                        .extend = recycle_extend};
