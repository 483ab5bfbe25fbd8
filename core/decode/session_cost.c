/* Costs of batched rows, and of chains. */
#include "core/decode/session_cost.h"

#include <math.h>

#include "core/decode/session_state.h"
#include "kernels/attention_cost.h"

double session_cache_bytes(const struct cache* cache, int read) {
	return attention_bytes(&cache->backend->weights->shape, cache->type, cache->committed, read);
}

void session_set_length(const struct session* s) {
	if (s->batch.sequences > 0)
		return;
	cost_at(&s->engine->cost, session_cache_bytes(s->cache, s->cache->committed));
	if (s->draft_cache)
		cost_at(&s->engine->drafting->cost, session_cache_bytes(s->draft_cache, s->draft_cache->committed));
	if (s->mtp.cache)
		cost_at(&s->engine->mtp_cost, session_cache_bytes(s->mtp.cache, s->mtp.cache->committed));
}

int session_useful_depth(const struct session* s, int most) {
	const int room = s->cache->capacity - s->cache->committed - 1;
	const int left = s->end - s->n_text - 1; /* the bonus token comes on top */
	const int depth = left < room ? left : room;
	return depth < 0 ? 0 : depth < most ? depth : most;
}

double session_cost_unit(const struct session* s) {
	const int sequences = s->batch.sequences + 1;
	return sequences > 1 ? cost_between(&s->engine->cost, sequences) / sequences : 1;
}

double session_cost_of(const struct session* s, double seconds, double unknown) {
	const double plain = cost_plain_seconds(&s->engine->cost) * session_cost_unit(s);
	return plain > 0 ? seconds / plain : unknown;
}

double session_rows_cost(const struct session* s, double beside, int n) {
	const struct cost_model* cost = &s->engine->cost;
	if (s->batch.sequences == 0 && beside < 1)
		return cost_verify(cost, n);
	return 1 + (cost_between(cost, beside + n) - cost_between(cost, beside + 1)) / session_cost_unit(s);
}

double chain_rate(const double* verify, int most, double a, double c) {
	double best = 0, tokens = 1, reach = 1;
	for (int d = 1; d <= most && d < SLICE_ROWS; d++) {
		tokens += reach *= a;
		best = fmax(best, tokens / (d * c + verify[d + 1]));
	}
	return best;
}

double chain_rate_now(const struct cost_model* cost, int most, double a, double c) {
	double verify[SLICE_ROWS + 1];
	for (int n = 1; n <= SLICE_ROWS; n++)
		verify[n] = cost_verify(cost, n);
	return chain_rate(verify, most, a, c);
}

static double least_token(const struct cost_model* cost, double c, double next, int d) {
	double tokens = 0, reach = 1, least_cost = INFINITY;
	for (int e = 1; e == 1 || d + e <= MAX_DRAFT; e++) {
		tokens += reach *= next;
		const double verify = cost_verify(cost, d + e + 1) - cost_verify(cost, d + 1);
		least_cost = fmin(least_cost, (e * c + verify) / tokens);
	}
	return least_cost;
}

void set_min_reach(const struct cost_model* cost, double rate, double c, double next,
                   struct draft_policy* policy) {
	for (int d = 1; d <= MAX_DRAFT; d++)
		policy->min_reach[d] = (float)(rate * least_token(cost, c, next, d));
}
