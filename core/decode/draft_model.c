/* A separate draft model (--draft-model). It is opened with the engine, as an engine of its own. Each session
 * has a cache there, which follows the text. The planner plans its rounds as for any drafter. */
#include "core/decode/session_state.h"

#include <math.h>

/* ---- costs ------------------------------------------------------------------------------- */

/* A number of rows above any measured one costs what it adds to the main model's passes, if that is more. */
double draft_model_cost(const struct engine* engine, const struct cost_model* mine, double rows) {
	const struct cost_model* whole = &engine->cost;
	const double plain = cost_plain_seconds(whole);
	const double step = cost_plain_seconds(mine) > 0 && plain > 0
	                        ? cost_plain_seconds(mine) / plain
	                        : pass_bytes_all(&mine->bytes) / pass_bytes_all(&whole->bytes);
	const double here = cost_verify(mine, rows), there = cost_verify(whole, rows);
	return step * (rows > cost_rows_known(mine) && there > here ? there : here);
}

/* Wide passes are not measured before a single step was. */
void draft_model_see(struct cost_model* mine, const struct backend* runs, int rows, double seconds) {
	if (rows == 1 || mine->plain_steps > 0)
		cost_see_full(mine, rows, seconds, runs->attention_share);
}

struct cost_model* draft_model_costs(struct engine* engine, const struct backend* runs) {
	if (engine->drafting && runs == engine->drafting->backend)
		return &engine->drafting->cost;
	return engine->mtp && runs == engine->mtp ? &engine->mtp_cost : NULL;
}

static double cost_rows(const struct session* s, int rows) {
	return draft_model_cost(s->engine, &s->engine->drafting->cost, rows);
}

/* ---- a session's cache -------------------------------------------------------------------- */

bool draft_model_join(struct session* s, struct error* error) {
	if (!s->drafters.state[SOURCE_model])
		return true;
	struct backend* backend = s->engine->drafting->backend;
	s->draft_cache = backend->cache_open(backend, s->cache->capacity, s->cache->type, error);
	return s->draft_cache != NULL;
}

static void drop_pending(struct cache* cache) {
	if (cache->pending > 0)
		cache->backend->discard(cache);
}

void draft_model_release(struct session* s) {
	if (s->draft_cache)
		s->draft_cache->backend->truncate(s->draft_cache, 0);
}

void draft_model_forget(struct session* s, int tenant) {
	if (!s->draft_cache || s->draft_cache->tenant == tenant)
		return;
	draft_model_release(s);
	s->draft_cache->tenant = tenant;
}

void draft_model_begin(struct session* s) {
	struct cache* cache = s->draft_cache;
	s->reading = READING_WAITS;
	if (!cache)
		return;
	drop_pending(cache);
	if (cache->backend->adopt)
		cache->backend->adopt(cache, s->text, s->n_prompt);
	else
		cache->backend->truncate(cache, 0);
	cache->prompt_length = s->n_prompt;
}

static int count_missing(const struct session* s) { return s->n_text - 1 - s->draft_cache->committed; }

static bool is_known(const struct session* s, int from) {
	const int vocab = s->engine->drafting->model->weights.shape.vocab;
	for (int i = from; i < s->n_text; i++)
		if (s->text[i] >= vocab)
			return false;
	return true;
}

/* Tokens before the text's last one that its cache lacks; -1: too many to draft. */
static int count_missing_rows(const struct session* s) {
	const int n = count_missing(s);
	return n <= MASK_BEHIND && is_known(s, s->draft_cache->committed) ? n : -1;
}

/* ---- the prompt --------------------------------------------------------------------------- */

/* Judges by what the prompt took in the main model. A drafter that doubles the speed saves half of the rest,
 * and a good one half of that. */
static bool is_worth_reading(const struct session* s) {
	const int computed = s->n_prompt - s->figures.cached_tokens;
	const double prefill = s->figures.seconds.prefill / cost_plain_seconds(&s->engine->cost);
	const double cost = computed > 0 ? count_missing(s) * prefill / computed * cost_rows(s, 1) : 0;
	return is_known(s, 0) && cost < 0.25 * (s->end - s->n_text);
}

/* Reads the text once costs are known. Its last rows come one by one if no step has been measured yet. */
bool draft_model_reads(struct session* s, struct pass* pass) {
	enum { MEASURED = 2 };
	const struct cost_model* cost = &s->engine->cost;
	struct cache* cache = s->draft_cache;
	if (!cache || s->reading == READING_DONE ||
	    (s->batch.sequences > 0 ? cost->passes : cost->plain_steps) < CALIBRATE_FIRST ||
	    cost_plain_seconds(cost) <= 0)
		return false;
	if (s->reading == READING_WAITS)
		s->reading = is_worth_reading(s) ? READING : READING_DONE;
	const int left = s->reading == READING ? count_missing(s) : 0;
	if (left <= 0) {
		s->reading = READING_DONE;
		return false;
	}
	const int apart = MEASURED - s->engine->drafting->cost.plain_steps,
	          most = left > apart ? left - apart : 1;
	const int n = apart <= 0 ? left : most, rows = n < PREFILL_CHUNK ? n : PREFILL_CHUNK;
	const bool chunk = rows == PREFILL_CHUNK && cache->committed % PREFILL_CHUNK == 0;
	s->segment = (struct segment){.cache = cache, .base = cache->committed, .n = rows};
	s->want[0] = WANT_TOKEN;
	*pass =
	    pass_over(&s->segment, s->text + cache->committed, NULL, 2 * cache->backend->weights->shape.n_blocks,
	              rows == 1 ? s->want : NULL, rows == 1 ? s->result : NULL);
	pass->kind = chunk ? PASS_PREFILL : PASS_EXACT;
	pass->head = rows == 1; /* a whole step */
	return true;
}

void draft_model_take(struct session* s, const struct pass* pass, int rows, double seconds) {
	int32_t path[PREFILL_CHUNK];
	for (int i = 0; i < pass->n; i++)
		path[i] = i;
	if (rows == 1)
		draft_model_see(&s->engine->drafting->cost, s->engine->drafting->backend, 1, seconds);
	if (pass->kind == PASS_EXACT)
		s->draft_cache->backend->commit(s->draft_cache, path, pass->n);
	s->figures.seconds.prefill += seconds;
	s->started += seconds;
}

/* ---- a round ------------------------------------------------------------------------------ */

void draft_model_round(struct session* s) {
	if (!s->draft_cache)
		return;
	drop_pending(s->draft_cache);
	const int n = count_missing_rows(s);
	const struct mask_round round = {.segment = {.cache = s->draft_cache,
	                                             .sampler = s->sampled ? &s->sampler : NULL,
	                                             .penalties = penalties_now(s)},
	                                 .end_token = s->end_token,
	                                 .n_end_tokens = s->n_end_tokens,
	                                 .behind = s->text + s->draft_cache->committed,
	                                 .n_behind = n > 0 ? n : 0};
	mask_start(s->drafters.state[SOURCE_model], &round);
}

/* The first pass of a round also reads the tokens that its cache lacks. If the drafter pays, it follows from
 * round to round and this costs nearly nothing, so a round bears only a part of it. */
void draft_model_set_costs(struct session* s, bool passed) {
	enum { ROUNDS = 16 };
	struct cost_table* costs = &s->planner.costs;
	if (!s->draft_cache)
		return;
	const int n = passed ? 0 : count_missing_rows(s);
	const double unit = session_cost_unit(s), step = n >= 0 ? cost_rows(s, 1) / unit : INFINITY;
	const double start = n >= 0 ? cost_rows(s, n + 1) / unit - step : 0;
	/* before a step was measured it may cost three times what its bytes suggest */
	const int worst = s->engine->drafting->cost.plain_steps > 0 ? 1 : 3;
	costs->pass[SOURCE_model] = (float)step;
	costs->start[SOURCE_model] = (float)(start / ROUNDS);
	costs->pass_worst[SOURCE_model] = (float)(worst * (step + start));
}
