/* A pass that begins at the head, from what the trained heads make of states. */
#include "core/methods/exit_heads.h"

#include "core/model/auxiliary_weights.h"

void exit_heads_fill(struct exit_heads* e, int blocks, const float* state, int n, const uint8_t* want,
                     struct result* out, struct pass* pass) {
	const struct model_shape* shape = &e->scratch->backend->weights->shape;
	const size_t dim = (size_t)shape->dim;
	const int end = 2 * shape->n_blocks;
	for (int i = 0; i < n; i++)
		heads_apply(e->heads, blocks, state + (size_t)i * dim, e->in + (size_t)i * dim);
	e->segment = (struct segment){.cache = e->scratch, .base = e->scratch->committed, .n = n};
	*pass = pass_over(&e->segment, NULL, NULL, end, want, out);
	pass->state = e->in;
	pass->first = end;
	pass->head = pass->bare_head = true;
}
