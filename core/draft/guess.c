/* Windows of guesses, and n-grams by their first token. */
#include "core/draft/guess.h"

#include "core/draft/drafter.h"

#include <stdlib.h>
#include <string.h>

enum { LEVELS = LOOKAHEAD_GRAM - 1 };

struct gram {
	int32_t token[LEVELS]; /* that follow the first */
};

struct kept {
	struct gram gram[LOOKAHEAD_KEPT]; /* the newest first */
	int n;
};

struct guess {
	enum guess_kind kind;
	int most, vocab;
	int32_t window[MAX_DRAFT];                /* jacobi: (most) */
	int32_t level[LEVELS][LOOKAHEAD_COLUMNS]; /* lookahead */
	int row[LEVELS][LOOKAHEAD_COLUMNS];       /* of the tree at hand; -1: not in it */
	struct kept pool[];                       /* (vocab) with lookahead */
};

static size_t bytes_of(enum guess_kind kind, int vocab) {
	return sizeof(struct guess) + (kind == GUESS_LOOKAHEAD ? (size_t)vocab * sizeof(struct kept) : 0);
}

struct guess* guess_open(enum guess_kind kind, int most, int vocab) {
	struct guess* g = calloc(1, bytes_of(kind, vocab));
	if (g)
		*g = (struct guess){.kind = kind, .most = most < MAX_DRAFT ? most : MAX_DRAFT, .vocab = vocab};
	return g;
}

void guess_close(struct guess* g) { free(g); }

size_t guess_bytes(const struct guess* g) { return bytes_of(g->kind, g->vocab); }

/* The text's last tokens, over and over. */
static int32_t start_token(const int32_t* text, int n, int i) { return text[n - 1 - i % n]; }

void guess_begin(struct guess* g, const int32_t* text, int n) {
	for (int i = 0; i < g->most; i++)
		g->window[i] = text[n - 1];
	for (int i = 0; i < LEVELS; i++)
		for (int j = 0; j < LOOKAHEAD_COLUMNS; j++)
			g->level[i][j] = start_token(text, n, i * LOOKAHEAD_COLUMNS + j);
	if (g->kind == GUESS_LOOKAHEAD)
		memset(g->pool, 0, (size_t)g->vocab * sizeof *g->pool);
}

/* ---- prompt lookup -------------------------------------------------------------------------- */

/* Where the text's last `size` tokens stand first, or -1; not at the end itself. */
static int find_gram(const int32_t* text, int n, int size) {
	for (int at = 0; at + size < n; at++)
		if (memcmp(text + at, text + n - size, (size_t)size * sizeof *text) == 0)
			return at;
	return -1;
}

static void fill_ngram(const struct guess* g, const int32_t* text, int n, int depth, struct tree* tree) {
	int at = -1, size = n - 1 < GUESS_LONGEST ? n - 1 : GUESS_LONGEST;
	for (; size > 0 && at < 0; size--)
		at = find_gram(text, n, size);
	if (at < 0)
		return;
	const int from = at + size + 1, most = g->most < depth ? g->most : depth;
	for (int i = 0, row = 0; i < most && from + i < n; i++)
		row = tree_add(tree, row, text[from + i], SOURCE_retrieval, 0, 1);
}

/* ---- Jacobi --------------------------------------------------------------------------------- */

static void fill_jacobi(const struct guess* g, int depth, struct tree* tree) {
	for (int i = 0, row = 0; i < g->most && i < depth; i++)
		row = tree_add(tree, row, g->window[i], SOURCE_retrieval, 0, 1);
}

static void see_jacobi(struct guess* g, const struct tree* tree, const struct verdict* v,
                       const struct result* out) {
	int n = 0;
	for (int row = v->accepted + 1; row < tree->n; row++)
		g->window[n++] = out[row].token;
	while (n < g->most)
		g->window[n++] = v->bonus;
}

/* ---- lookahead ------------------------------------------------------------------------------ */

static void fill_window(struct guess* g, int depth, struct tree* tree) {
	for (int j = 0, above = 0; j < LOOKAHEAD_COLUMNS; j++) {
		int row = above;
		for (int i = 0; i < LEVELS; i++) {
			const bool fits = row >= 0 && tree->depth[row] < depth;
			row = g->row[i][j] = fits ? tree_add(tree, row, g->level[i][j], SOURCE_retrieval, 0, 1) : -1;
			if (i == 0)
				above = row;
		}
	}
}

static void fill_lookahead(struct guess* g, int depth, struct tree* tree) {
	const struct kept* kept = &g->pool[tree->token[0]];
	for (int k = 0; k < kept->n; k++)
		for (int i = 0, row = 0; i < LEVELS && i < depth; i++)
			row = tree_add(tree, row, kept->gram[k].token[i], SOURCE_retrieval, 0, 1);
	fill_window(g, depth, tree);
}

/* The newest comes first; one that is known moves there. */
static void keep_gram(struct kept* kept, const struct gram* gram) {
	int at = 0;
	while (at < kept->n && memcmp(&kept->gram[at], gram, sizeof *gram) != 0)
		at++;
	if (at == kept->n && kept->n < LOOKAHEAD_KEPT)
		kept->n++;
	for (int i = at < LOOKAHEAD_KEPT ? at : LOOKAHEAD_KEPT - 1; i > 0; i--)
		kept->gram[i] = kept->gram[i - 1];
	kept->gram[0] = *gram;
}

static void see_lookahead(struct guess* g, const struct result* out) {
	for (int j = 0; j < LOOKAHEAD_COLUMNS; j++) {
		const int last = g->row[LEVELS - 1][j];
		if (last < 0)
			continue;
		struct gram gram;
		for (int i = 0; i + 1 < LEVELS; i++)
			gram.token[i] = g->level[i + 1][j];
		gram.token[LEVELS - 1] = out[last].token;
		keep_gram(&g->pool[g->level[0][j]], &gram);
		for (int i = 0; i + 1 < LEVELS; i++)
			g->level[i][j] = g->level[i + 1][j];
		g->level[LEVELS - 1][j] = out[last].token;
	}
}

/* ---- all ------------------------------------------------------------------------------------ */

void guess_fill(struct guess* g, const int32_t* text, int n, int depth, struct tree* tree) {
	if (g->kind == GUESS_NGRAM)
		fill_ngram(g, text, n, depth, tree);
	else if (g->kind == GUESS_JACOBI)
		fill_jacobi(g, depth, tree);
	else
		fill_lookahead(g, depth, tree);
}

void guess_see(struct guess* g, const struct tree* tree, const struct verdict* verdict,
               const struct result* out) {
	if (g->kind == GUESS_JACOBI)
		see_jacobi(g, tree, verdict, out);
	else if (g->kind == GUESS_LOOKAHEAD)
		see_lookahead(g, out);
}
