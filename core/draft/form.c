/* The `form` drafter: it drafts the text that a grammar requires.
 *
 * It follows the acceptor down the tree. If only one token is allowed, it is the target's token, at no cost.
 * The planner also asks it which tokens a row allows, so that no candidate is verified in vain. */
#include <stdlib.h>

#include "core/draft/drafter.h"
#include "core/grammar/acceptor.h"

struct form {
	struct acceptor* acceptor;
	int of[MAX_ROWS]; /* an acceptor's state, by row */
};

static void* form_open(const struct drafter_setup* setup) {
	(void)setup;
	return calloc(1, sizeof(struct form));
}

static void form_begin(void* state, const struct drafter_text* text) {
	((struct form*)state)->acceptor = text->acceptor;
}

static int form_extend(void* state, const struct tree* tree, int row, struct candidate* out, int most) {
	struct form* f = state;
	if (!f->acceptor)
		return 0;
	f->of[row] = row == 0 ? acceptor_root(f->acceptor)
	                      : acceptor_step(f->acceptor, f->of[tree->parent[row]], tree->token[row]);
	const int32_t token = most > 0 ? acceptor_forced(f->acceptor, f->of[row]) : -1;
	if (token < 0)
		return 0;
	out[0] = (struct candidate){.token = token};
	return 1;
}

static bool form_allows(void* state, int row, int32_t token) {
	const struct form* f = state;
	if (!f->acceptor)
		return true;
	const uint64_t* allowed = acceptor_allowed(f->acceptor, f->of[row]);
	return allowed && token_is_allowed(allowed, token);
}

/* It is the only one allowed. */
static float form_prior(int bin, int rank) {
	(void)bin;
	return rank == 0 ? 0.9999f : 0.0001f;
}

const struct drafter drafter_form = {.bins = 1,
                                     .prior = form_prior,
                                     .open = form_open,
                                     .close = free,
                                     .begin = form_begin,
                                     .extend = form_extend,
                                     .allows = form_allows};
