/* The `ngram` drafter: the tokens that followed the first earlier place with the text's last 3, 2 or 1 tokens
 * (prompt lookup decoding, Saxena 2023). */
#include <stdlib.h>
#include <string.h>

#include "core/methods/method_drafter.h"

enum { LONGEST = 3 };

struct ngram {
	int most, capacity, n;
	int32_t text[]; /* (capacity) */
};

static void* ngram_open(const struct method_drafter_setup* setup) {
	struct ngram* g = malloc(sizeof *g + (size_t)setup->context * sizeof g->text[0]);
	if (g)
		*g = (struct ngram){.most = setup->most, .capacity = setup->context};
	return g;
}

static void ngram_append(void* state, const int32_t* token, int n) {
	struct ngram* g = state;
	const int more = n < g->capacity - g->n ? n : g->capacity - g->n;
	memcpy(g->text + g->n, token, (size_t)more * sizeof *token);
	g->n += more;
}

static void ngram_begin(void* state, const struct drafter_text* text) {
	((struct ngram*)state)->n = 0;
	ngram_append(state, text->prompt, text->n_prompt);
}

/* The first place of the text's last `size` tokens, except the end itself, or -1. */
static int find_gram(const int32_t* text, int n, int size) {
	for (int at = 0; at + size < n; at++)
		if (memcmp(text + at, text + n - size, (size_t)size * sizeof *text) == 0)
			return at;
	return -1;
}

static void ngram_grow(void* state, struct tree* tree, int depth) {
	const struct ngram* g = state;
	int at = -1, size = g->n - 1 < LONGEST ? g->n - 1 : LONGEST;
	for (; size > 0 && at < 0; size--)
		at = find_gram(g->text, g->n, size);
	if (at < 0)
		return;
	const int from = at + size + 1, most = g->most < depth ? g->most : depth;
	for (int i = 0, row = 0; i < most && from + i < g->n; i++)
		row = tree_add(tree, row, g->text[from + i], SOURCE_retrieval, 0, 1);
}

const struct method_drafter ngram_drafter = {
    .open = ngram_open, .close = free, .begin = ngram_begin, .append = ngram_append, .grow = ngram_grow};
