/* The MTP layer of a model as a drafter (core/draft/mask.h). The engine opens it as a model of one block,
 * with a backend and costs of its own. Each session has a cache there, and keeps the model's last states.
 *
 * A row of the layer takes a token and the model's state of the token before it, and predicts the token
 * after. The layer's cache holds such rows, not those of drafts, and none before the last ROOM tokens when it
 * begins: rotations depend only on distances, so its text may begin anywhere. So a prompt costs nothing, and
 * a drafter that rests needs no passes.
 *
 * An assistant (core/model/assistant.c) takes the layer's place. Its rows read the model's cache, so its own
 * has the rows of a draft alone, and no row is missing. */
#include "core/decode/session_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Kept states: of all rows that one pass may take up to the root, and of how many if more come. */
enum { ROOM = MASK_BEHIND + 1, KEPT = 96 };

/* ---- opening ------------------------------------------------------------------------------ */

bool mtp_join(struct session* s, struct error* error) {
	struct mtp* m = &s->mtp;
	const struct engine* engine = s->engine;
	const size_t dim = (size_t)engine->model->weights.shape.dim;
	if (!s->drafters.state[SOURCE_mtp])
		return true;
	m->outside = engine->mtp->weights->shape.keys_outside;
	m->state = malloc(ROOM * dim * sizeof *m->state);
	m->rows = malloc(MAX_ROWS * dim * sizeof *m->rows);
	if (!m->state || !m->rows)
		return error_set(error, "out of memory for the states that the MTP layer reads");
	m->cache =
	    engine->mtp->cache_open(engine->mtp, m->outside ? 1 : s->cache->capacity, s->cache->type, error);
	return m->cache != NULL;
}

void mtp_close(struct mtp* m) {
	if (m->cache)
		m->cache->backend->cache_close(m->cache);
	free(m->state);
	free(m->rows);
}

/* ---- the model's states ------------------------------------------------------------------- */

/* The layer's text begins with the token after the first state that is kept. */
static void restart_text(struct mtp* m) {
	m->cache->backend->truncate(m->cache, 0);
	m->start = m->first + 1;
}

void mtp_forget(struct session* s) {
	if (!s->mtp.cache)
		return;
	s->mtp.n = 0;
	restart_text(&s->mtp);
}

void mtp_begin(struct session* s) {
	mtp_forget(s);
	if (s->mtp.cache)
		s->mtp.cache->prompt_length = s->n_prompt;
}

/* The first token of the text whose row the cache lacks. */
static int next_token(const struct mtp* m) { return m->start + m->cache->committed; }

static void drop_states(struct session* s, int n) {
	struct mtp* m = &s->mtp;
	const size_t dim = (size_t)s->engine->model->weights.shape.dim;
	m->first += n;
	m->n -= n;
	memmove(m->state, m->state + (size_t)n * dim, (size_t)m->n * dim * sizeof *m->state);
	if (m->first + 1 > next_token(m) || m->cache->committed == 0)
		restart_text(m);
}

/* Makes room for one more state: drops those that the cache has read, or else the oldest. */
static void make_room(struct session* s) {
	struct mtp* m = &s->mtp;
	if (m->n < ROOM)
		return;
	const int read = next_token(m) - 1 - m->first;
	drop_states(s, read > 0 ? read : m->n - KEPT);
}

void mtp_keep(struct session* s, int at, const int32_t* path, int n) {
	struct mtp* m = &s->mtp;
	const size_t dim = (size_t)s->engine->model->weights.shape.dim;
	if (!m->cache)
		return;
	if (m->n == 0 || at != m->first + m->n) {
		m->first = at;
		mtp_forget(s);
	}
	for (int i = 0; i < n; i++) {
		const size_t row = (size_t)(path ? path[i] : i);
		make_room(s);
		memcpy(m->state + (size_t)m->n++ * dim, m->rows + row * dim, dim * sizeof *m->state);
	}
}

/* ---- costs -------------------------------------------------------------------------------- */

/* The cost of a pass of some rows, of which one goes through the head. */
static double cost_rows(const struct session* s, int rows) {
	const struct cost_model* mine = &s->engine->mtp_cost;
	return draft_model_cost(s->engine, mine, cost_rows_with_heads(mine, rows, 1));
}

/* Tokens before the text's last one whose rows the cache lacks; -1: their states are gone. */
static int count_missing(const struct session* s) {
	const struct mtp* m = &s->mtp;
	if (m->n == 0 || m->first + m->n != s->n_text - 1)
		return -1;
	return m->outside ? 0 : s->n_text - 1 - next_token(m);
}

/* Drops the oldest of them if reading all would cost too much. */
static void limit_behind(struct session* s) {
	enum { USUAL = 16 };
	const double most = cost_rows(s, 1) + (s->engine->mtp_cost.plain_steps > 0 ? 1 : 0.5);
	int n = count_missing(s);
	while (n > USUAL && cost_rows(s, n + 1) > most)
		n /= 2;
	if (n < count_missing(s))
		drop_states(s, s->n_text - 2 - n - s->mtp.first);
}

/* A step's cost for this sequence. The sequences of a batch share passes of the layer. */
static double cost_step(const struct session* s) {
	const int rows = s->batch.sequences + 1;
	return draft_model_cost(s->engine, &s->engine->mtp_cost, rows) / rows;
}

/* Up to FEW rows come in every round, and its passes bear them; more come after a rest. */
void mtp_set_costs(struct session* s, bool passed) {
	enum { FEW = 8, ROUNDS = 16 };
	struct cost_table* costs = &s->planner.costs;
	if (!s->mtp.cache)
		return;
	const int n = passed ? 0 : count_missing(s), few = least(n, FEW);
	const double unit = session_cost_unit(s), step = n >= 0 ? cost_step(s) / unit : INFINITY;
	const double often = n > 0 ? (cost_rows(s, few + 1) - cost_rows(s, 1)) / unit : 0;
	const double start = n > 0 ? (cost_rows(s, n + 1) - cost_rows(s, 1)) / unit : 0;
	costs->pass[SOURCE_mtp] = (float)step;
	costs->start[SOURCE_mtp] = (float)(often + (start - often) / ROUNDS);
	costs->pass_worst[SOURCE_mtp] = (float)(step + start);
}

/* ---- a round ------------------------------------------------------------------------------ */

/* The rows before the root are part of the text that penalties have counted. */
static const struct penalties* shift_penalties(struct session* s) {
	const struct penalties* now = penalties_now(s);
	if (!now)
		return NULL;
	s->mtp.penalties = *now;
	s->mtp.penalties.prompt = s->n_text - 1;
	return &s->mtp.penalties;
}

/* A head by groups reads few of its rows already. */
static double head_share(const struct session* s) {
	const bool grouped = tensor_present(&s->engine->mtp->weights->centroids);
	return grouped ? 0 : cost_head_share(&s->engine->mtp_cost, (struct variant){.skip = NULL});
}

void mtp_round(struct session* s) {
	struct mtp* m = &s->mtp;
	if (!m->cache)
		return;
	if (m->cache->pending > 0)
		m->cache->backend->discard(m->cache);
	limit_behind(s);
	const int n = count_missing(s), first = s->n_text - 1 - (n > 0 ? n : 0);
	const size_t dim = (size_t)s->engine->model->weights.shape.dim;
	const struct mask_round round = {.segment = {.cache = m->cache,
	                                             .reads = m->outside ? s->cache : NULL,
	                                             .later = m->outside ? first : m->start,
	                                             .sampler = s->sampled ? &s->sampler : NULL,
	                                             .penalties = shift_penalties(s)},
	                                 .end_token = s->end_token,
	                                 .n_end_tokens = s->n_end_tokens,
	                                 .behind = s->text + first,
	                                 .n_behind = n > 0 ? n : 0,
	                                 .states = m->state + (n >= 0 ? (size_t)(first - 1 - m->first) * dim : 0),
	                                 .own_states = m->rows,
	                                 .head_share = head_share(s)};
	mask_start(s->drafters.state[SOURCE_mtp], &round);
}
