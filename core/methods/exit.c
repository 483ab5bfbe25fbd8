/* The `exit` drafter: the model's first blocks with its own head (LayerSkip, Elhoushi et al. 2024), or with a
 * head trained for the exit (PPD, Zhang et al. 2024). */
#include "core/methods/chain.h"
#include "core/model/auxiliary_weights.h"
#include "kernels/sample.h"

static void* exit_open(const struct method_drafter_setup* setup) {
	struct chain_setup chain = *setup->chain;
	chain.states |= chain.heads != NULL;
	return chain_open(sizeof(struct chain), &chain);
}

/* True when a trained head replaces the model's at this exit. */
static bool is_trained(const struct chain* c) {
	return c->setup.heads && c->setup.heads->heads->weight[c->span / 2];
}

/* The trained head's choices for the newest row. */
static void ask_head(struct chain* c, struct pass* pass) {
	struct exit_heads* heads = c->setup.heads;
	struct result* out = &c->result[c->steps];
	uint8_t* want = &c->want[c->steps];
	const float* last = c->hidden + (size_t)(c->rows - 1) * (size_t)c->setup.shape->dim;
	out->logits = heads->logits;
	*want = chain_ask(c, out);
	if (c->segment.sampler)
		*want |= WANT_LOGITS;
	exit_heads_fill(heads, c->span / 2, last, 1, want, out, pass);
}

/* The head's pass has no position. So the sampler's noise for the coming token is added to its choices. */
static void draw_token(struct chain* c) {
	const int vocab = c->setup.shape->vocab;
	struct result* out = &c->result[c->steps];
	result_from_logits(out, WANT_TOKEN | WANT_TOP, out->logits, vocab, c->segment.sampler,
	                   (uint64_t)(c->segment.base + c->steps + 1), c->setup.heads->logits + vocab);
}

static void exit_step(void* state, struct pass* pass) {
	struct chain* c = state;
	if (c->second)
		ask_head(c, pass);
	else
		chain_row_pass(c, !is_trained(c), pass);
}

static void exit_take(void* state) {
	struct chain* c = state;
	if (c->second) {
		struct cache* scratch = c->setup.heads->scratch;
		if (c->segment.sampler)
			draw_token(c);
		scratch->backend->discard(scratch);
		chain_step(c);
		return;
	}
	c->rows++;
	c->second = is_trained(c);
	if (!c->second)
		chain_step(c);
}

const struct method_drafter exit_drafter = {
    .open = exit_open, .close = chain_close, .step = exit_step, .take = exit_take};
