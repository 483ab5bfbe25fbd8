/* The `jacobi` drafter: a window of guesses, all positions at once; what the target says at a guess is the
 * next guess for the position after it (Santilli et al. 2023). */
#include <stdlib.h>

#include "core/draft/drafter.h"

struct jacobi {
	int most;
	bool begun;
	int32_t window[MAX_DRAFT]; /* (most) */
};

static void* jacobi_open(const struct drafter_setup* setup) {
	struct jacobi* g = calloc(1, sizeof *g);
	if (g)
		g->most = setup->most;
	return g;
}

static void jacobi_forget(void* state, int length) { ((struct jacobi*)state)->begun = length > 0; }

/* The window starts as the prompt's last token, over and over. */
static void jacobi_append(void* state, const int32_t* token, int n) {
	struct jacobi* g = state;
	for (int i = 0; !g->begun && i < g->most; i++)
		g->window[i] = token[n - 1];
	g->begun = true;
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

const struct drafter drafter_jacobi = {.name = "jacobi",
                                       .open = jacobi_open,
                                       .close = free,
                                       .forget = jacobi_forget,
                                       .append = jacobi_append,
                                       .grow = jacobi_grow,
                                       .see = jacobi_see};
