/* The `exit` drafter: the model's first blocks, and its own head (LayerSkip, Elhoushi et al. 2024) or one
 * that was trained for the exit (PPD, Zhang et al. 2024). */
#include "core/draft/chain.h"
#include "kernels/sample.h"

struct exit_drafter {
	struct chain chain;
	struct result result; /* of a trained head's pass */
	uint8_t want;
};

static void* exit_open(const struct drafter_setup* setup) {
	struct chain_setup chain = *setup->chain;
	chain.states |= chain.heads != NULL;
	return chain_open(sizeof(struct exit_drafter), &chain);
}

/* Whether a trained head stands in for the model's at this exit. */
static bool is_trained(const struct chain* c) {
	return c->setup.heads && c->setup.heads->weight[c->span / 2];
}

/* What the trained head says of the newest row. */
static void ask_head(struct exit_drafter* e, struct pass* pass) {
	struct chain* c = &e->chain;
	struct exit_heads* heads = c->setup.heads;
	const float* last = c->hidden + (size_t)(c->rows - 1) * (size_t)c->setup.shape->dim;
	e->result.logits = heads->logits;
	e->want = chain_ask(c, &e->result);
	if (c->segment.sampler)
		e->want |= WANT_LOGITS;
	exit_heads_fill(heads, c->span / 2, last, 1, &e->want, &e->result, pass);
}

/* The head's pass knows no positions: its choices with the sampler's noise for the token that comes. */
static void draw(struct exit_drafter* e) {
	const struct chain* c = &e->chain;
	const int vocab = c->setup.shape->vocab;
	result_from_logits(&e->result, WANT_TOKEN | WANT_TOP, e->result.logits, vocab, c->segment.sampler,
	                   (uint64_t)(c->segment.base + c->steps + 1), c->setup.heads->logits + vocab);
}

static void exit_step(void* state, struct pass* pass) {
	struct exit_drafter* e = state;
	if (e->chain.second)
		ask_head(e, pass);
	else
		chain_row_pass(&e->chain, !is_trained(&e->chain), pass);
}

static void exit_take(void* state) {
	struct exit_drafter* e = state;
	struct chain* c = &e->chain;
	struct exit_heads* heads = c->setup.heads;
	if (c->second) {
		if (c->segment.sampler)
			draw(e);
		heads->scratch->backend->discard(heads->scratch);
		c->result[c->steps] = e->result;
		chain_step(c);
		return;
	}
	c->rows++;
	c->second = is_trained(c);
	if (!c->second)
		chain_step(c);
}

const struct drafter drafter_exit = {
    .open = exit_open, .close = chain_close, .step = exit_step, .take = exit_take};
