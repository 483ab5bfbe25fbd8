/* Any bytes as config.json and as generation_config.json: what is accepted keeps its promises. */
#include <stdlib.h>

#include "core/model/config.h"
#include "tests/fuzz/mutate_json.h"

static void check(const struct config* c) {
	const struct model_shape* m = &c->shape;
	if (m->n_blocks < 1 || m->n_blocks > MAX_BLOCKS || m->dim < 1 || m->heads < 1 || m->kv_heads < 1 ||
	    m->heads % m->kv_heads || m->vocab < 1 || m->context < 1 || m->head_dim < 2)
		abort();
	const int head_dim =
	    m->full_head_dim ? m->full_head_dim : m->head_dim; /* of the blocks that rope is for */
	if (m->rope.dim < 2 || m->rope.dim > head_dim || m->rope.dim % 2 || !(m->rope.factor > 0) ||
	    (m->rope.scaling == ROPE_LONGROPE) != (m->rope.long_factor != NULL))
		abort();
	if (m->n_experts < 0 ||
	    (m->n_experts > 0 && (m->experts_used < 1 || m->experts_used > m->n_experts || m->expert_ffn < 1)))
		abort();
	if (m->sliding_rope.dim < 0 || m->sliding_rope.dim > m->head_dim || m->sliding_rope.dim % 2)
		abort();
	for (int b = 0; b < m->n_blocks; b++)
		if (block_set_has(&m->sliding, b) && m->sliding_window < 1)
			abort();
	float sum = 0;
	for (int i = 0; m->rope.long_factor && i < m->rope.dim / 2; i++)
		sum += m->rope.long_factor[i] + m->rope.short_factor[i];
	for (int i = 0; i < c->n_end_tokens; i++)
		if (c->end_token[i] < 0 || c->end_token[i] >= m->vocab)
			abort();
	if (!(sum >= 0))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	struct error error = {""};
	struct config config = {0};
	if (config_parse(&config, (const char*)data, size, "fuzz", &error)) {
		check(&config);
		if (config_parse_generation(&config, (const char*)data, size, "fuzz", &error))
			check(&config);
	} else if (!error.message[0])
		abort();
	config_free(&config);
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
	return mutate_json(data, size, most, 0, seed);
}
