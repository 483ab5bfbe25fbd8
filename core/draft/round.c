/* One verify pass. */
#include "core/draft/round.h"

void round_start(struct round* round, struct cache* cache, const struct sampler* sampler) {
	round->segment = (struct segment){.cache = cache, .base = cache->committed, .sampler = sampler};
	round->verdict.accepted = 0;
}

void round_verify_pass(struct round* round, const struct tree* tree, int blocks, uint8_t extra_want,
                       struct pass* pass) {
	struct cache* cache = round->segment.cache;
	if (cache->pending > 0)
		cache->backend->discard(cache);
	round->tree = tree;
	round->segment.n = tree->n;
	for (int i = 0; i < tree->n; i++) {
		round->want[i] = (uint8_t)(WANT_TOKEN | extra_want);
		round->out[i].top = TREE_RANKS;
	}
	*pass = (struct pass){.kind = PASS_EXACT,
	                      .n = tree->n,
	                      .n_segments = 1,
	                      .segment = &round->segment,
	                      .token = tree->token,
	                      .parent = tree->parent,
	                      .last = 2 * blocks,
	                      .head = true,
	                      .tap = -1,
	                      .want = round->want,
	                      .out = round->out};
}

void round_take_verify(struct round* round) {
	struct cache* cache = round->segment.cache;
	tree_verify(round->tree, round->out, &round->verdict);
	cache->backend->commit(cache, round->verdict.path, round->verdict.accepted + 1);
}
