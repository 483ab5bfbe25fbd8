/* The `exit` drafter: the model's first blocks, and its own head (LayerSkip, Elhoushi et al. 2024) or one
 * that was trained for the exit (PPD, Zhang et al. 2024). */
#include <stdlib.h>

#include "core/draft/chain.h"
#include "kernels/sample.h"

struct exit_drafter {
	struct chain chain;
	struct segment segment; /* of a head's pass */
	struct result result;
	uint8_t want;
	float *in, *logits; /* (dim); (3·vocab) a head's, for the sampler, and its work space */
};

static void exit_close(void* state) {
	struct exit_drafter* e = state;
	if (!e)
		return;
	chain_close(&e->chain);
	free(e->in);
	free(e->logits);
	free(e);
}

static void* exit_open(const struct drafter_setup* setup) {
	const struct model_shape* shape = setup->chain->shape;
	struct chain_setup chain = *setup->chain;
	struct exit_drafter* e = calloc(1, sizeof *e);
	chain.states |= chain.heads != NULL;
	bool good = e && chain_open(&e->chain, &chain);
	if (good && chain.heads) {
		e->in = malloc((size_t)shape->dim * sizeof *e->in);
		e->logits = malloc(3 * (size_t)shape->vocab * sizeof *e->logits);
		good = e->in && e->logits;
	}
	if (good)
		return e;
	exit_close(e);
	return NULL;
}

static struct chain* exit_chain(void* state) { return &((struct exit_drafter*)state)->chain; }

/* Whether a trained head stands in for the model's at this exit. */
static bool is_trained(const struct chain* c) {
	return c->setup.heads && c->setup.heads->rows[c->span / 2] > 0;
}

static void apply(const struct chain* c, float* out) {
	const float* last = c->hidden + (size_t)(c->rows - 1) * (size_t)c->setup.shape->dim;
	c->setup.heads->apply(c->setup.heads->heads, c->span / 2, last, out);
}

/* The model's head on what the trained one makes of the row's state. */
static void head_pass(struct exit_drafter* e, struct pass* pass) {
	struct chain* c = &e->chain;
	struct cache* scratch = c->setup.side;
	const int end = 2 * c->setup.shape->n_blocks;
	apply(c, e->in);
	scratch->backend->discard(scratch);
	e->want = chain_ask(c, &e->result);
	/* it knows no positions: the sampler's noise comes after it */
	if (c->segment.sampler)
		e->want |= WANT_LOGITS;
	if (!c->logits)
		e->result.logits = e->logits;
	e->segment =
	    (struct segment){.cache = scratch, .base = scratch->committed, .n = 1, .sampler = c->segment.sampler};
	*pass = pass_over(&e->segment, NULL, NULL, end, &e->want, &e->result);
	pass->state = e->in;
	pass->first = end;
	pass->head = pass->bare_head = true;
}

static void exit_fill(void* state, const struct tree* tree, int head, int carry, struct pass* pass) {
	struct exit_drafter* e = state;
	(void)tree, (void)head, (void)carry;
	if (e->chain.second)
		head_pass(e, pass);
	else
		chain_row_pass(&e->chain, !is_trained(&e->chain), pass);
}

/* The step's choices by its logits, with the noise of its place in the text. */
static bool draw(struct exit_drafter* e, struct result* r) {
	const struct chain* c = &e->chain;
	const int vocab = c->setup.shape->vocab;
	return result_from_logits(r, WANT_TOKEN | WANT_TOP, r->logits, vocab, c->segment.sampler,
	                          (uint64_t)(c->segment.base + c->steps + 1), e->logits + vocab);
}

static void exit_take(void* state) {
	struct exit_drafter* e = state;
	struct chain* c = &e->chain;
	struct result* r = &c->result[c->steps];
	if (c->second) {
		*r = e->result;
		if (c->segment.sampler)
			draw(e, r);
		chain_step(c);
		return;
	}
	c->rows++;
	if (!is_trained(c)) {
		chain_step(c);
	} else if (c->setup.heads->rows[c->span / 2] == c->setup.shape->vocab) {
		chain_ask(c, r);
		if (!c->logits)
			r->logits = e->logits;
		apply(c, r->logits);
		c->broken = !draw(e, r);
		if (!c->broken)
			chain_step(c);
	} else {
		c->second = true;
	}
}

const struct drafter drafter_exit = {.name = "exit",
                                     .open = exit_open,
                                     .close = exit_close,
                                     .chain = exit_chain,
                                     .fill = exit_fill,
                                     .take = exit_take};
