/* The `adapter` drafter: the model's first blocks, followed by a trained layer with a cache of its own
 * (Kangaroo, Liu et al. 2024).
 *
 * It needs the state of every token of the text. It takes the prompt's states during the prefill. Tokens that
 * verification brought beyond the draft go with the next round's first pass. */
#include <stdlib.h>
#include <string.h>

#include "core/methods/chain.h"

enum { ADAPTER_ROWS = PREFILL_CHUNK > MAX_DRAFT + 3 ? PREFILL_CHUNK : MAX_DRAFT + 3 };

struct adapter_state {
	struct chain chain;
	struct segment segment;
	float*
	    in; /* (MAX_DRAFT + 3, dim) states of committed tokens that it has not processed, and the new row's */
	int n_behind; /* the former */
	int rows;     /* pending in its cache */
	int filled;   /* of the pass that is under way */
	bool reading; /* the prompt */
	struct result result[ADAPTER_ROWS];
	uint8_t want[ADAPTER_ROWS];
	int32_t parent[MAX_DRAFT + 3];
};

static void adapter_close(void* state) {
	struct adapter_state* a = state;
	free(a->in);
	chain_close(a);
}

static void* adapter_open(const struct method_drafter_setup* setup) {
	const size_t row = (size_t)setup->chain->shape->dim * sizeof(float);
	struct chain_setup chain = *setup->chain;
	chain.states = true;
	struct adapter_state* a = chain_open(sizeof *a, &chain);
	if (!a)
		return NULL;
	a->in = malloc((MAX_DRAFT + 3) * row);
	a->chain.prompt = malloc(PREFILL_CHUNK * row);
	if (a->in && a->chain.prompt)
		return a;
	adapter_close(a);
	return NULL;
}

/* Rows from given states. At most the last one's result is wanted. */
static void side_pass(struct adapter_state* a, const float* state, int n, uint8_t want, struct pass* pass) {
	struct cache* side = a->chain.setup.side;
	a->filled = n;
	memset(a->want, WANT_NOTHING, (size_t)n);
	a->want[n - 1] = want;
	a->segment =
	    (struct segment){.cache = side, .base = side->committed, .n = n, .sampler = a->chain.segment.sampler};
	*pass = pass_over(&a->segment, NULL, NULL, 3, a->want, a->result);
	pass->state = state;
	pass->first = 2;
	pass->head = want != WANT_NOTHING;
}

/* ---- the prompt --------------------------------------------------------------------------- */

static int adapter_seen(const void* state) {
	return ((const struct adapter_state*)state)->chain.setup.side->committed;
}

static void adapter_begin(void* state, const struct drafter_text* text) {
	struct adapter_state* a = state;
	struct cache* side = a->chain.setup.side;
	side->backend->truncate(side, text->kept);
	side->prompt_length = text->n_prompt;
	a->n_behind = 0;
	a->reading = false;
}

static void adapter_read(void* state, int n, struct pass* pass) {
	struct adapter_state* a = state;
	a->reading = true;
	side_pass(a, a->chain.prompt, n, WANT_NOTHING, pass);
}

/* ---- a round ------------------------------------------------------------------------------ */

/* The states that it has not processed, and the new row's. */
static void step_pass(struct adapter_state* a, struct pass* pass) {
	struct chain* c = &a->chain;
	const size_t dim = (size_t)c->setup.shape->dim;
	struct cache* side = c->setup.side;
	if (c->steps == 0 && side->pending > 0)
		side->backend->discard(side); /* of a round that came to nothing */
	a->rows = c->steps == 0 ? 0 : a->rows;
	const int behind = a->n_behind, n = c->steps == 0 ? behind : 0;
	memcpy(a->in + (size_t)behind * dim, c->hidden + (size_t)(c->rows - 1) * dim, dim * sizeof *a->in);
	side_pass(a, a->in + (size_t)(behind - n) * dim, n + 1, chain_ask(c, &a->result[n]), pass);
	/* rows of a round form one chain */
	for (int i = 0; i <= n; i++)
		a->parent[i] = a->rows + i - 1;
	pass->parent = a->parent;
}

static void adapter_step(void* state, struct pass* pass) {
	struct adapter_state* a = state;
	if (a->chain.second)
		step_pass(a, pass);
	else
		chain_row_pass(&a->chain, false, pass);
}

static void adapter_take(void* state) {
	struct adapter_state* a = state;
	struct chain* c = &a->chain;
	if (a->reading) {
		int32_t path[PREFILL_CHUNK];
		for (int i = 0; i < a->filled; i++)
			path[i] = i;
		c->setup.side->backend->commit(c->setup.side, path, a->filled);
		a->reading = false;
	} else if (c->second) {
		c->result[c->steps] = a->result[a->filled - 1];
		a->rows += a->filled;
		chain_step(c);
	} else {
		c->rows++;
		c->second = true;
	}
}

/* Keeps the part of the path that it has processed; the rest comes first next time. The tree is a chain. */
static void adapter_see(void* state, const struct tree* tree, const struct verdict* verdict,
                        const struct result* out) {
	struct adapter_state* a = state;
	const struct chain* c = &a->chain;
	const size_t dim = (size_t)c->setup.shape->dim;
	const int path_rows = verdict->accepted + 1, seen = path_rows < c->steps ? path_rows : c->steps;
	int32_t path[MAX_DRAFT + MAX_DRAFT + 2];
	(void)tree, (void)out;
	if (c->steps > 0) {
		for (int i = 0; i < a->n_behind + seen; i++)
			path[i] = i;
		c->setup.side->backend->commit(c->setup.side, path, a->n_behind + seen);
		a->n_behind = 0;
	}
	for (int i = seen; i < path_rows; i++)
		memcpy(a->in + (size_t)a->n_behind++ * dim, c->hidden + (size_t)i * dim, dim * sizeof *a->in);
}

const struct method_drafter adapter_drafter = {.open = adapter_open,
                                               .close = adapter_close,
                                               .begin = adapter_begin,
                                               .see = adapter_see,
                                               .seen = adapter_seen,
                                               .read = adapter_read,
                                               .step = adapter_step,
                                               .take = adapter_take};
