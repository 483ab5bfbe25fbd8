/* The two kinds of heads. */
#include "core/decode/exit_heads.h"

#include "kernels/sample.h"

static bool classify(const struct exit_heads* e, int block, const float* state, int n, const uint8_t* want,
                     struct result* out) {
	const size_t dim = (size_t)e->heads->shape->dim;
	const int vocab = e->heads->shape->vocab;
	for (int i = 0; i < n; i++) {
		heads_apply(e->heads, block, state + (size_t)i * dim, e->logits);
		if (!result_from_logits(&out[i], want[i], e->logits, vocab, NULL, 0, e->logits + vocab))
			return false;
	}
	return true;
}

bool exit_heads_run(const struct exit_heads* e, struct backend* backend, int block, const float* state, int n,
                    const uint8_t* want, struct result* out, struct error* error) {
	const size_t dim = (size_t)e->heads->shape->dim;
	const int end = 2 * e->heads->shape->n_blocks;
	if (heads_classify(e->heads, block))
		return classify(e, block, state, n, want, out) ||
		       error_set(error, "the head of block %d gave no finite numbers", block);
	for (int i = 0; i < n; i++)
		heads_apply(e->heads, block, state + (size_t)i * dim, e->in + (size_t)i * dim);
	const struct segment segment = {.cache = e->scratch, .n = n};
	struct pass pass = pass_over(&segment, NULL, NULL, end, want, out);
	pass.state = e->in;
	pass.first = end;
	pass.head = true;
	pass.bare_head = true;
	const bool good = backend->run(backend, &pass, error);
	backend->discard(e->scratch);
	return good;
}
