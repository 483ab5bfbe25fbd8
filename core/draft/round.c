/* One round: the passes it asks for and what it makes of their results. */
#include "core/draft/round.h"

void round_start(struct round* round, struct cache* cache, const struct sampler* sampler, int32_t root) {
	round->segment = (struct segment){.cache = cache, .base = cache->committed, .n = 1, .sampler = sampler};
	round->root = root;
	round->steps = 0;
	round->stopped = false;
	round->chance = 1;
	round->tree.n = 0;
	round->verdict.accepted = 0;
}

static struct pass exact_pass(struct round* round, int rows, int blocks) {
	round->segment.n = rows;
	return (struct pass){.kind = PASS_EXACT,
	                     .n = rows,
	                     .n_segments = 1,
	                     .segment = &round->segment,
	                     .first = 0,
	                     .last = 2 * blocks,
	                     .head = true,
	                     .tap = -1,
	                     .want = round->want};
}

void round_draft_pass(struct round* round, const struct mask* skip, int blocks, struct pass* pass) {
	const int d = round->steps;
	round->token[0] = d == 0 ? round->root : round->step[d - 1].token;
	round->parent[0] = d - 1;
	round->want[0] = WANT_TOKEN | WANT_TOP;
	round->step[d].top = TREE_RANKS;
	*pass = exact_pass(round, 1, blocks);
	pass->token = round->token;
	pass->parent = round->parent;
	pass->skip = skip;
	pass->out = &round->step[d];
}

bool draft_goes_on(const struct draft_policy* policy, const struct result* step, int steps, float chance) {
	return steps < policy->max_steps && step->max_probability >= policy->threshold &&
	       chance >= policy->min_reach[steps];
}

void round_take_draft(struct round* round, const struct draft_policy* policy, bool is_end) {
	const struct result* step = &round->step[round->steps++];
	round->chance *= policy->accept[draft_bin(step->max_probability)];
	round->stopped = is_end || !draft_goes_on(policy, step, round->steps, round->chance);
}

void round_verify_pass(struct round* round, const struct tree_policy* policy,
                       const struct acceptance_table* table, int blocks, uint8_t extra_want,
                       struct pass* pass) {
	struct cache* cache = round->segment.cache;
	if (cache->pending > 0)
		cache->backend->discard(cache);
	tree_build(&round->tree, round->root, round->step, round->steps, policy, table);
	for (int i = 0; i < round->tree.n; i++) {
		round->want[i] = (uint8_t)(WANT_TOKEN | extra_want);
		round->out[i].top = MAX_TOP;
	}
	*pass = exact_pass(round, round->tree.n, blocks);
	pass->token = round->tree.token;
	pass->parent = round->tree.parent;
	pass->out = round->out;
}

void round_take_verify(struct round* round) {
	struct cache* cache = round->segment.cache;
	tree_verify(&round->tree, round->out, &round->verdict);
	cache->backend->commit(cache, round->verdict.path, round->verdict.accepted + 1);
}
