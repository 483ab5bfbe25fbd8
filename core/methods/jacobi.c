/* The `jacobi` drafter: a window of guesses for all positions at once. The target's answer to a guess is the
 * next guess for the position after it (Santilli et al. 2023). */
#include <stdlib.h>

#include "core/methods/method_drafter.h"

struct jacobi {
	int most;
	int32_t window[MAX_DRAFT]; /* (most) */
};

static void* jacobi_open(const struct method_drafter_setup* setup) {
	struct jacobi* g = calloc(1, sizeof *g);
	if (g)
		g->most = setup->most;
	return g;
}

/* The window starts as repetitions of the prompt's last token. */
static void jacobi_begin(void* state, const struct drafter_text* text) {
	struct jacobi* g = state;
	for (int i = 0; i < g->most; i++)
		g->window[i] = text->prompt[text->n_prompt - 1];
}

static void jacobi_grow(void* state, struct tree* tree, int depth) {
	const struct jacobi* g = state;
	for (int i = 0, row = 0; i < g->most && i < depth; i++)
		row = tree_add(tree, row, g->window[i], SOURCE_retrieval, 0, 1);
}

static void jacobi_see(void* state, const struct tree* tree, const struct verdict* v,
                       const struct result* out) {
	struct jacobi* g = state;
	int n = 0;
	for (int row = v->accepted + 1; row < tree->n; row++)
		g->window[n++] = out[row].token;
	while (n < g->most)
		g->window[n++] = v->bonus;
}

const struct method_drafter jacobi_drafter = {
    .open = jacobi_open, .close = free, .begin = jacobi_begin, .grow = jacobi_grow, .see = jacobi_see};
