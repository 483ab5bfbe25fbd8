/* The two kinds of heads. */
#include "core/draft/exit_heads.h"

#include "kernels/sample.h"

bool exit_heads_draw(const struct exit_heads* e, const struct sampler* sampler, uint64_t position,
                     struct result* out) {
	const int vocab = e->shape->vocab;
	return result_from_logits(out, WANT_TOKEN | WANT_TOP, out->logits, vocab, sampler, position,
	                          e->logits + vocab);
}

static void classify(const struct exit_heads* e, int blocks, const float* state, int n,
                     const struct sampler* sampler, uint64_t position, const uint8_t* want,
                     struct result* out) {
	for (int i = 0; i < n; i++) {
		if (!(want[i] & WANT_LOGITS))
			out[i].logits = e->logits;
		e->apply(e->heads, blocks, state + (size_t)i * (size_t)e->shape->dim, out[i].logits);
		if (!exit_heads_draw(e, sampler, position + (uint64_t)i, &out[i]))
			out[i].top = 0;
	}
}

bool exit_heads_fill(struct exit_heads* e, int blocks, const float* state, int n,
                     const struct sampler* sampler, uint64_t position, const uint8_t* want,
                     struct result* out, struct pass* pass) {
	const size_t dim = (size_t)e->shape->dim;
	const int end = 2 * e->shape->n_blocks;
	if (e->rows[blocks] != e->shape->dim) {
		classify(e, blocks, state, n, sampler, position, want, out);
		return false;
	}
	for (int i = 0; i < n; i++)
		e->apply(e->heads, blocks, state + (size_t)i * dim, e->in + (size_t)i * dim);
	e->segment =
	    (struct segment){.cache = e->scratch, .base = e->scratch->committed, .n = n, .sampler = sampler};
	*pass = pass_over(&e->segment, NULL, NULL, end, want, out);
	pass->state = e->in;
	pass->first = end;
	pass->head = pass->bare_head = true;
	return true;
}
