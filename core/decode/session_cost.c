/* A session's costs in its own unit, alone and in a batch. */
#include "core/decode/session_state.h"
#include "kernels/attention_cost.h"

double session_cache_bytes(const struct cache* cache, int read) {
	return attention_bytes(&cache->backend->weights->shape, cache->type, cache->committed, read);
}

static double mtp_cache_bytes(const struct session* s) {
	const struct cache *own = s->mtp.cache, *read = s->mtp.outside ? s->cache : own;
	return attention_bytes(&own->backend->weights->shape, own->type, read->committed, read->committed);
}

void session_set_length(const struct session* s) {
	if (s->batch.sequences > 0)
		return;
	cost_at(&s->engine->cost, session_cache_bytes(s->cache, s->cache->committed));
	if (s->draft_cache)
		cost_at(&s->engine->drafting->cost, session_cache_bytes(s->draft_cache, s->draft_cache->committed));
	if (s->mtp.cache)
		cost_at(&s->engine->mtp_cost, mtp_cache_bytes(s));
}

int session_useful_depth(const struct session* s, int most) {
	const int room = s->cache->capacity - s->cache->committed - 1;
	const int left = s->end - s->n_text - 1; /* the bonus token comes on top */
	const int depth = left < room ? left : room;
	return depth < 0 ? 0 : depth < most ? depth : most;
}

double session_cost_unit(const struct session* s) {
	const int sequences = s->batch.sequences + 1;
	return cost_verify(&s->engine->cost, sequences) / sequences;
}

double session_cost_of(const struct session* s, double seconds, double unknown) {
	const double plain = cost_plain_seconds(&s->engine->cost) * session_cost_unit(s);
	return plain > 0 ? seconds / plain : unknown;
}

double session_rows_cost(const struct session* s, double beside, int n) {
	const struct cost_model* cost = &s->engine->cost;
	return 1 + (cost_verify(cost, beside + n) - cost_verify(cost, beside + 1)) / session_cost_unit(s);
}
