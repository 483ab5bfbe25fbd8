/* The `exit` drafter: the model's first blocks, and its own head (LayerSkip, Elhoushi et al. 2024) or one
 * that was trained for the exit (PPD, Zhang et al. 2024). */
#include "core/draft/chain.h"

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

static uint64_t position_of(const struct chain* c) { return (uint64_t)(c->segment.base + c->steps + 1); }

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

static void exit_fill(void* state, const struct tree* tree, int head, int carry, struct pass* pass) {
	struct exit_drafter* e = state;
	(void)tree, (void)head, (void)carry;
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
			exit_heads_draw(heads, c->segment.sampler, position_of(c), &e->result);
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

const struct drafter drafter_exit = {.name = "exit",
                                     .open = exit_open,
                                     .close = chain_close,
                                     .makes_chain = true,
                                     .fill = exit_fill,
                                     .take = exit_take};
