/* The `lookahead` drafter (Fu et al. 2024): a window of W columns and N - 1 levels of guesses, whose columns
 * are n-grams. A pool keeps n-grams by first token, and those that begin with the root are candidates. Each
 * column hangs below the first level of the one before it, so that the window is a tree. */
#include <stdlib.h>
#include <string.h>

#include "core/methods/method_drafter.h"

enum { COLUMNS = 5, LEVELS = 2, KEPT = 5 }; /* W; N - 1; n-grams a token */

struct gram {
	int32_t token[LEVELS];
};

struct kept_grams {
	struct gram gram[KEPT]; /* that followed a token, the newest first */
	int n;
};

struct lookahead {
	int vocab;
	struct gram column[COLUMNS]; /* the window's */
	int last[COLUMNS];           /* the row of its last token in the present tree; -1: not in it */
	struct kept_grams pool[];    /* (vocab) */
};

static void* lookahead_open(const struct method_drafter_setup* setup) {
	struct lookahead* g = calloc(1, sizeof *g + (size_t)setup->vocab * sizeof g->pool[0]);
	if (g)
		g->vocab = setup->vocab;
	return g;
}

/* The levels start as repetitions of the prompt's last tokens. */
static void lookahead_begin(void* state, const struct drafter_text* text) {
	struct lookahead* g = state;
	const int n = text->n_prompt;
	memset(g->pool, 0, (size_t)g->vocab * sizeof *g->pool);
	for (int i = 0; i < LEVELS * COLUMNS; i++)
		g->column[i % COLUMNS].token[i / COLUMNS] = text->prompt[n - 1 - i % n];
}

static void grow_window(struct lookahead* g, struct tree* tree, int depth) {
	for (int j = 0, above = 0; j < COLUMNS; j++) {
		int row = above;
		for (int i = 0; i < LEVELS; i++) {
			const bool fits = row >= 0 && tree->depth[row] < depth;
			row = fits ? tree_add(tree, row, g->column[j].token[i], SOURCE_retrieval, 0, 1) : -1;
			if (i == 0)
				above = row;
		}
		g->last[j] = row;
	}
}

static void lookahead_grow(void* state, struct tree* tree, int depth) {
	struct lookahead* g = state;
	const struct kept_grams* kept = &g->pool[tree->token[0]];
	for (int k = 0; k < kept->n; k++)
		for (int i = 0, row = 0; i < LEVELS && i < depth; i++)
			row = tree_add(tree, row, kept->gram[k].token[i], SOURCE_retrieval, 0, 1);
	grow_window(g, tree, depth);
}

/* The newest n-gram comes first. A known one moves to the front. */
static void keep_gram(struct kept_grams* kept, const struct gram* gram) {
	int at = 0;
	while (at < kept->n && memcmp(&kept->gram[at], gram, sizeof *gram) != 0)
		at++;
	if (at == kept->n && kept->n < KEPT)
		kept->n++;
	for (int i = at < KEPT ? at : KEPT - 1; i > 0; i--)
		kept->gram[i] = kept->gram[i - 1];
	kept->gram[0] = *gram;
}

static void lookahead_see(void* state, const struct tree* tree, const struct verdict* verdict,
                          const struct result* out) {
	struct lookahead* g = state;
	(void)tree;
	(void)verdict;
	for (int j = 0; j < COLUMNS; j++) {
		if (g->last[j] < 0)
			continue;
		int32_t* const token = g->column[j].token;
		const int32_t first = token[0];
		memmove(token, token + 1, (LEVELS - 1) * sizeof *token);
		token[LEVELS - 1] = out[g->last[j]].token;
		keep_gram(&g->pool[first], &g->column[j]);
	}
}

const struct method_drafter lookahead_drafter = {.open = lookahead_open,
                                                 .close = free,
                                                 .begin = lookahead_begin,
                                                 .grow = lookahead_grow,
                                                 .see = lookahead_see};
