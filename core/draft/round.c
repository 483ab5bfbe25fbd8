/* One verify pass. */
#include "core/draft/round.h"

void round_start(struct round* round, struct cache* cache, const struct sampler* sampler) {
	round->segment = (struct segment){.cache = cache, .base = cache->committed, .sampler = sampler};
	round->verdict.accepted = 0;
	round->pending = NULL;
}

static void fill_pass(struct round* round, const struct tree* tree, uint8_t extra_want, struct pass* pass) {
	const int blocks = round->segment.cache->backend->weights->shape.n_blocks;
	round->tree = tree;
	round->segment.n = tree->n;
	for (int i = 0; i < tree->n; i++) {
		round->want[i] = (uint8_t)(WANT_TOKEN | extra_want);
		round->out[i].top = extra_want & WANT_TOP ? TREE_RANKS : 0;
	}
	*pass = pass_over(&round->segment, tree->token, tree->parent, 2 * blocks, round->want, round->out);
	pass->head = true;
}

void round_verify_pass(struct round* round, const struct tree* tree, uint8_t extra_want, struct pass* pass) {
	struct cache* cache = round->segment.cache;
	if (cache->pending > 0)
		cache->backend->discard(cache);
	round->pending = NULL;
	fill_pass(round, tree, extra_want, pass);
}

void round_rest_pass(struct round* round, const struct tree* tree, const int32_t* pending, int from,
                     uint8_t extra_want, struct pass* pass) {
	round->pending = pending;
	fill_pass(round, tree, extra_want, pass);
	pass->first = from;
	pass->row = pending;
}

void round_commit(struct round* round) {
	struct cache* cache = round->segment.cache;
	const struct verdict* v = &round->verdict;
	int32_t path[MAX_DRAFT + 1];
	for (int i = 0; i <= v->accepted; i++)
		path[i] = round->pending ? round->pending[v->path[i]] : v->path[i];
	cache->backend->commit(cache, path, v->accepted + 1);
}

void round_judge(struct round* round) { tree_verify(round->tree, round->out, &round->verdict); }
