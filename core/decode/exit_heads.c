/* The two kinds of heads. */
#include "core/decode/exit_heads.h"

#include "kernels/sample.h"

static void classify(const struct exit_heads* e, int block, const float* state, int n, const uint8_t* want,
                     struct result* out) {
	const size_t dim = (size_t)e->heads->shape->dim;
	const int vocab = e->heads->shape->vocab;
	for (int i = 0; i < n; i++) {
		heads_apply(e->heads, block, state + (size_t)i * dim, e->logits);
		if (!result_from_logits(&out[i], want[i], e->logits, vocab, NULL, 0, e->logits + vocab))
			out[i].top = 0;
	}
}

bool exit_heads_fill(struct exit_heads* e, int block, const float* state, int n, const uint8_t* want,
                     struct result* out, struct pass* pass) {
	const size_t dim = (size_t)e->heads->shape->dim;
	const int end = 2 * e->heads->shape->n_blocks;
	if (heads_classify(e->heads, block)) {
		classify(e, block, state, n, want, out);
		return false;
	}
	for (int i = 0; i < n; i++)
		heads_apply(e->heads, block, state + (size_t)i * dim, e->in + (size_t)i * dim);
	e->segment = (struct segment){.cache = e->scratch, .n = n};
	*pass = pass_over(&e->segment, NULL, NULL, end, want, out);
	pass->state = e->in;
	pass->first = end;
	pass->head = pass->bare_head = true;
	return true;
}
