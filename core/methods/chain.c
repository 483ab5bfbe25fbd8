/* Makes rows up to the span; and the `skip` drafter, which leaves out sub-layers of the model's own steps. */
#include "core/methods/chain.h"

#include <stdlib.h>

void* chain_open(size_t size, const struct chain_setup* setup) {
	const size_t dim = (size_t)setup->shape->dim, vocab = (size_t)setup->shape->vocab;
	struct chain* c = calloc(1, size);
	if (!c)
		return NULL;
	c->setup = *setup;
	c->hidden = setup->states ? malloc((MAX_DRAFT + 2) * dim * sizeof *c->hidden) : NULL;
	c->logits = setup->logits ? malloc(MAX_DRAFT * vocab * sizeof *c->logits) : NULL;
	if ((c->hidden || !setup->states) && (c->logits || !setup->logits))
		return c;
	chain_close(c);
	return NULL;
}

void chain_close(void* state) {
	struct chain* c = state;
	free(c->hidden);
	free(c->logits);
	free(c->prompt);
	free(c);
}

void chain_start(struct chain* c, int32_t root, int span, const struct mask* skip,
                 const struct segment* segment) {
	c->root = root;
	c->span = span;
	c->skip = skip;
	c->segment = *segment;
	c->rows = c->steps = 0;
	c->second = false;
}

uint8_t chain_ask(struct chain* c, struct result* out) {
	out->top = TREE_RANKS;
	if (c->logits)
		out->logits = c->logits + (size_t)c->steps * (size_t)c->setup.shape->vocab;
	return (uint8_t)(WANT_TOKEN | WANT_TOP | (c->logits ? WANT_LOGITS : 0));
}

static void tap_of(const struct chain* c, int row, struct pass* pass) {
	if (!c->hidden)
		return;
	pass->tap = c->span - 1;
	pass->tap_out = c->hidden + (size_t)row * (size_t)c->setup.shape->dim;
}

void chain_row_pass(struct chain* c, bool head, struct pass* pass) {
	const int row = c->rows;
	c->token[row] = row == 0 ? c->root : c->result[row - 1].token;
	c->parent[row] = row - 1;
	c->segment.n = 1;
	c->want[c->steps] = chain_ask(c, &c->result[c->steps]);
	*pass = pass_over(&c->segment, &c->token[row], &c->parent[row], c->span, &c->want[c->steps],
	                  &c->result[c->steps]);
	pass->skip = c->skip;
	pass->head = head;
	tap_of(c, row, pass);
}

void chain_step(struct chain* c) {
	c->second = false;
	c->steps++;
}

/* Rows of the tree that have not run up to the span. */
static int rest_rows(struct chain* c, const struct tree* tree) {
	int n = 0;
	c->pending[0] = 0;
	for (int row = 1; row < tree->n; row++) {
		const int depth = tree->depth[row], above = c->pending[tree->parent[row]];
		if (tree->rank[row] == 0 && depth < c->rows && above == depth - 1) {
			c->pending[row] = depth;
			continue;
		}
		const int at = c->rows + n++;
		c->pending[row] = at;
		c->token[at] = tree->token[row];
		c->parent[at] = above;
	}
	return n;
}

bool chain_rest_pass(struct chain* c, const struct tree* tree, struct pass* pass) {
	const int n = c->setup.reuse && c->steps > 0 ? rest_rows(c, tree) : 0;
	c->segment.n = n;
	*pass = pass_over(&c->segment, c->token + c->rows, c->parent + c->rows, c->span, NULL, NULL);
	if (c->prompt)
		tap_of(c, c->rows, pass);
	return n > 0;
}

void chain_verify_pass(struct chain* c, struct round* round, const struct tree* tree, uint8_t wants,
                       struct pass* pass) {
	struct cache* cache = c->segment.cache;
	if (c->setup.reuse && c->steps > 0 && cache->backend->rewind(cache, c->span)) {
		rest_rows(c, tree);
		round_rest_pass(round, tree, c->pending, c->span, wants, pass);
		return;
	}
	round_verify_pass(round, tree, wants, pass);
	if (c->prompt)
		tap_of(c, 0, pass);
}

static void* skip_open(const struct method_drafter_setup* setup) {
	return chain_open(sizeof(struct chain), setup->chain);
}

static void skip_step(void* state, struct pass* pass) { chain_row_pass(state, true, pass); }

static void skip_take(void* state) {
	struct chain* c = state;
	c->rows++;
	chain_step(c);
}

const struct method_drafter skip_drafter = {
    .open = skip_open, .close = chain_close, .step = skip_step, .take = skip_take};
