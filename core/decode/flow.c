/* The session's state machine: which work comes next, and what its results change.
 *
 *     prefill … → round → (score a proposal) → plan → draft step … → verify → round → … → done
 *
 * A step of swiftlet_session_step ends when tokens were emitted, when a chunk of the prefill was computed, or
 * when the generation is over. */
#include <math.h>
#include <string.h>

#include "core/decode/session_state.h"
#include "kernels/sample.h"

static int count_blocks(const struct session* s) { return s->engine->model->weights.shape.n_blocks; }

/* ---- prefill ------------------------------------------------------------------------------ */

/* True when the rows' logits are returned, which the size of their buffer limits. */
static bool reports_prompt_logprobs(const struct session* s) {
	return s->log_probs.of_prompt && s->again == 0;
}

/* Looks for pages that another sequence has computed meanwhile. A method that sees every row cannot use them.
 * If the prefill has bits of its own, only whole chunks of the prompt can be found; exact rows follow. */
static void adopt_pages(struct session* s) {
	struct cache* cache = s->cache;
	const bool exact = cache->backend->prefill_is_exact;
	const int before = cache->committed, end = exact && s->again > 0 ? s->again : s->n_prompt;
	if (!cache->backend->adopt || session_reads_prompt(s) || reports_prompt_logprobs(s) || s->embedding.out ||
	    session_length_matters(s, s->n_prompt) || (!exact && end - before < PREFILL_CHUNK))
		return;
	const int now = cache->backend->adopt(cache, s->text, end - 1);
	if (s->again == 0)
		s->figures.cached_tokens += now - before;
}

/* Rows that a pass over the prompt may take; 0: whole chunks, without a limit. */
static int limit_prefill(const struct session* s) {
	if (!reports_prompt_logprobs(s))
		return s->prefill_rows < PREFILL_CHUNK ? s->prefill_rows : PREFILL_CHUNK;
	return s->prefill_rows > 0 && s->prefill_rows < LOGPROB_ROWS ? s->prefill_rows : LOGPROB_ROWS;
}

/* Rows up to where the cache keeps a state of recurrent blocks. */
static int rows_to_kept(const struct session* s) {
	const struct cache* cache = s->cache;
	return cache->backend->next_kept ? cache->backend->next_kept(cache) - cache->committed : INT32_MAX;
}

/* The buffer for a row's logits. */
static float* logits_row(const struct session* s, int row) {
	return s->log_probs.logits + (size_t)row * (size_t)s->engine->model->weights.shape.vocab;
}

static void set_prefill_wants(struct session* s, int n, bool last) {
	memset(s->want, WANT_NOTHING, sizeof s->want);
	if (last)
		s->want[n - 1] = (uint8_t)(WANT_TOKEN | (s->log_probs.top > 0 ? WANT_LOGITS : 0));
	s->result[n - 1].logits = s->log_probs.logits;
	for (int i = 0; i < n && reports_prompt_logprobs(s); i++) {
		s->want[i] |= WANT_LOGITS;
		s->result[i].logits = logits_row(s, i);
	}
}

/* The tap for a requested embedding, a drafter that sees the prompt, or the signature. */
static void tap_prompt(const struct session* s, struct pass* pass) {
	if (s->embedding.out) {
		pass->tap = pass->last - 1;
		pass->tap_out = s->tap;
	} else if (session_reads_prompt(s)) {
		s->driver->calls->tap(s->driver, pass);
	} else if (s->signature.mean) {
		pass->tap = 2 * (count_blocks(s) / 2) - 1;
		pass->tap_out = s->tap;
	}
}

/* Fills a pass over the prompt: full chunks of 256 positions counted from 0, then the rest as exact rows.
 * With a limit on rows all are exact, and may share a pass. The last row gives the first token. */
static void fill_prefill(struct session* s, struct session_work* work) {
	adopt_pages(s);
	const int from = s->cache->committed, left = session_prefill_left(s);
	const int limit = limit_prefill(s), most = least(limit > 0 ? limit : PREFILL_CHUNK, rows_to_kept(s));
	const bool chunk = limit == 0 && most == PREFILL_CHUNK && s->n_prompt - from >= PREFILL_CHUNK &&
	                   from % PREFILL_CHUNK == 0;
	const int n = left < most ? left : most;
	const bool last = n == left && s->again == 0;
	set_prefill_wants(s, n, last);
	s->segment = (struct segment){.cache = s->cache,
	                              .base = from,
	                              .n = n,
	                              .noted = s->pages.page != NULL,
	                              .sampler = s->sampled ? &s->sampler : NULL,
	                              .penalties = last ? penalties_now(s) : NULL,
	                              .allowed = last ? constraint_last(s, n) : NULL};
	work->kind = WORK_PREFILL;
	work->pass = pass_over(&s->segment, s->text + from, NULL, 2 * count_blocks(s), s->want, s->result);
	work->pass.kind = chunk ? PASS_PREFILL : PASS_EXACT;
	work->pass.head = last || reports_prompt_logprobs(s);
	work->pass.normed_out = s->mtp.rows;
	if (s->again > 0)
		return; /* taps and the learner have read these rows before */
	tap_prompt(s, &work->pass);
}

enum { SIGNATURE_FIRST = 4 };

/* Leaves out BOS and the first few rows, whose massive activations are the same in every text. */
static void add_signature(struct session* s, int first, int rows) {
	const int dim = s->engine->model->weights.shape.dim;
	const int from = first < SIGNATURE_FIRST ? SIGNATURE_FIRST - first : 0;
	for (int i = from; i < rows; i++)
		for (int j = 0; j < dim; j++)
			s->signature.mean[j] += s->tap[(size_t)i * (size_t)dim + (size_t)j];
	s->signature.rows += rows > from ? rows - from : 0;
}

/* ---- emission ----------------------------------------------------------------------------- */

/* Reports a token of this drafter (-1: none), with its log probabilities if its row has logits. */
static struct swiftlet_token describe_token(struct session* s, int32_t id, int source, const float* logits) {
	struct swiftlet_token token = {.id = id, .drafted = source >= 0, .source = source, .logprob = NAN};
	struct result r = {.top = s->log_probs.top};
	const int vocab = s->engine->model->weights.shape.vocab;
	if (!logits ||
	    !result_from_logits(&r, WANT_TOP | WANT_LOG_SUM_EXP, logits, vocab, NULL, 0, s->log_probs.scratch))
		return token;
	token.logprob = logits[id] - r.log_sum_exp;
	token.n_top = r.top;
	for (int i = 0; i < r.top; i++) {
		token.top_id[i] = r.top_token[i];
		token.top_logprob[i] = logits[r.top_token[i]] - r.log_sum_exp;
	}
	return token;
}

/* Log probabilities of the prompt's tokens that n rows from this position on predict. */
static void report_prompt_logprobs(struct session* s, int from, int n) {
	struct log_probs* l = &s->log_probs;
	if (l->prompt_reported == 0)
		l->prompt[l->n_prompt++] = describe_token(s, s->text[l->prompt_reported++], -1, NULL);
	/* without rows that are computed again, and without the first emitted token */
	for (int i = 0; i < n; i++)
		if (from + i + 1 == l->prompt_reported && l->prompt_reported < s->n_prompt)
			l->prompt[l->n_prompt++] =
			    describe_token(s, s->text[l->prompt_reported++], -1, s->result[i].logits);
}

/* Emits one token of this drafter (-1: the full model's own). False when the generation ends with it. */
static bool emit_token(struct session* s, int32_t id, int source, const float* logits) {
	s->token[s->n_tokens++] = describe_token(s, id, source, logits);
	s->text[s->n_text++] = id;
	constraint_emitted(s, id);
	if (session_ends(s, id))
		s->stop = SWIFTLET_EOS;
	else if (emitter_add(&s->emitter, id))
		s->stop = SWIFTLET_STOP;
	else if (s->n_text >= s->end)
		s->stop = SWIFTLET_LENGTH;
	return s->stop == SWIFTLET_RUNNING;
}

/* Registers the text's last n tokens as emitted. */
static void append_to_drafters(struct session* s, int n) {
	const int32_t* token = s->text + s->n_text - n;
	drafter_set_append(&s->drafters, token, n);
	if (s->driver)
		s->driver->calls->append(s->driver, token, n);
}

/* Ends the generation. Committed tokens beyond the text (a draft's path after its end) are dropped. */
static void finish_request(struct session* s) {
	if (s->stop != SWIFTLET_STOP)
		emitter_end(&s->emitter);
	if (s->cache->pending > 0)
		s->cache->backend->discard(s->cache);
	if (s->cache->committed > s->n_text)
		s->cache->backend->truncate(s->cache, s->n_text);
	if (s->pool)
		session_remember(s, s->pool);
	s->phase = PHASE_DONE;
	s->figures.seconds.decode += options_clock(&s->options) - s->started;
}

/* ---- next --------------------------------------------------------------------------------- */

static void fill_verify(struct session* s, struct session_work* work) {
	struct round* round = &s->round;
	const uint8_t logits = s->log_probs.top > 0 ? WANT_LOGITS : 0;
	const uint8_t wants = s->plan.rule == RULE_GAIN ? drafter_set_wants(&s->drafters) : 0;
	for (int i = 0; i < LOGPROB_ROWS && s->log_probs.top > 0; i++)
		round->out[i].logits = logits_row(s, i);
	round->segment.allowed = constraint_rows(s, &s->planner.tree);
	if (s->plan.rule == RULE_DRIVEN)
		s->driver->calls->verify(s->driver, logits, &work->pass);
	else
		round_verify_pass(round, &s->planner.tree, (uint8_t)(logits | wants), &work->pass);
	work->pass.normed_out = s->mtp.rows;
	if (s->learner)
		s->learner->calls->tap(s->learner, &work->pass);
	work->kind = plan_is_plain(s) ? WORK_PLAIN : WORK_VERIFY;
	s->phase = PHASE_VERIFY;
}

static void fill_draft(struct session* s, struct session_work* work) {
	const struct plan_action* action = &s->plan.action;
	work->kind = WORK_DRAFT;
	if (s->plan.rule == RULE_DRIVEN) {
		s->driver->calls->fill(s->driver, &work->pass);
	} else if (session_loops(s)) {
		work->kind = WORK_DRAFT_LOOP;
		return;
	} else {
		drafters[action->source]->fill(s->drafters.state[action->source], &s->planner.tree, action->head,
		                               action->carry, &work->pass);
	}
	if (work->pass
	        .skip) { /* a draft of this model with the mask, and not one of an exit or of another model */
		work->pass.quantized = states_quantized(&s->drafts);
		work->pass.quantized_head = s->drafts.head;
		work->pass.levels = states_levels(&s->drafts);
	}
}

bool session_next(struct session* s, struct session_work* work) {
	memset(work, 0, sizeof *work);
	session_set_length(s);
	if (s->phase == PHASE_ROUND && draft_model_reads(s, &work->pass)) {
		work->kind = WORK_DRAFT;
		s->phase = PHASE_FOLLOW;
		return true;
	}
	if (s->phase == PHASE_ROUND) {
		plan_make_draft_weights(s);
		const bool learns = s->trial.wanted ? true
		                    : s->driver     ? s->driver->calls->calibrate(s->driver)
		                                    : s->learner && s->learner->calls->begin(s->learner);
		s->phase = learns ? PHASE_LEARN : PHASE_PLAN;
	}
	if (s->phase == PHASE_PLAN) {
		plan_round(s);
		round_start(&s->round, s->cache, s->sampled ? &s->sampler : NULL);
		s->round.segment.penalties = penalties_now(s);
		s->round.segment.noted = s->pages.page != NULL;
		s->round_cost = s->round_seconds = 0;
		s->phase = plan_goes_on(s) ? PHASE_DRAFT : PHASE_VERIFY;
	}
	switch (s->phase) {
	case PHASE_PREFILL:
		fill_prefill(s, work);
		return true;
	case PHASE_LEARN:
		work->kind = WORK_MATCHNESS;
		if (s->trial.wanted)
			draft_trial_fill(s, &work->pass);
		else if (s->driver)
			s->driver->calls->fill(s->driver, &work->pass);
		else
			s->learner->calls->fill(s->learner, &work->pass);
		return true;
	case PHASE_READ:
		work->kind = WORK_DRAFT;
		s->driver->calls->read(s->driver, s->segment.n);
		s->driver->calls->fill(s->driver, &work->pass);
		return true;
	case PHASE_DRAFT:
		fill_draft(s, work);
		return true;
	case PHASE_VERIFY:
		fill_verify(s, work);
		return true;
	default:
		return false;
	}
}

static bool run_draft_loop(struct session* s, struct error* error) {
	const struct backend* backend = s->engine->backend;
	void* mask = s->drafters.state[SOURCE_mask];
	const int32_t root = s->text[s->n_text - 1];
	struct segment segment = s->round.segment;
	segment.n = 1;
	segment.pages = s->pages.now;
	segment.noted = false;
	const int steps = backend->draft(s->engine->backend, &segment, root, &s->mask,
	                                 states_quantized(&s->drafts), s->drafts.head, states_levels(&s->drafts),
	                                 &s->plan.draft, mask_loop_results(mask), error);
	if (steps > 0)
		mask_take_loop(mask, root, steps);
	return steps > 0;
}

bool session_next_idle(struct session* s, struct session_work* work) {
	memset(work, 0, sizeof *work);
	session_set_length(s);
	if (!s->learner || (s->phase != PHASE_DONE && s->phase != PHASE_IDLE))
		return false;
	if (s->phase == PHASE_DONE) {
		s->phase = PHASE_IDLE;
		if (s->n_text <= s->n_prompt || s->cache->committed < s->n_text - 1 ||
		    !s->learner->calls->begin(s->learner)) {
			s->phase = PHASE_DONE;
			return false;
		}
	}
	work->kind = WORK_MATCHNESS;
	s->learner->calls->fill(s->learner, &work->pass);
	return true;
}

bool session_run(struct session* s, const struct session_work* work, struct error* error) {
	const struct cache* cache = work->kind == WORK_DRAFT_LOOP ? NULL : work->pass.segment->cache;
	const bool ran =
	    cache ? cache->backend->run(cache->backend, &work->pass, error) : run_draft_loop(s, error);
	if (!ran)
		session_fail(s, error);
	return ran;
}

const struct error* session_failure(const struct session* s) {
	return s->failure.message[0] ? &s->failure : NULL;
}

void session_fail(struct session* s, const struct error* why) {
	if (s->phase == PHASE_DONE)
		return;
	if (s->phase == PHASE_IDLE) {
		s->phase = PHASE_DONE;
	} else {
		s->failure = *why;
		if (!s->failure.message[0])
			error_set(&s->failure, "a pass of the model failed");
		s->stop = SWIFTLET_CANCELLED;
		s->n_tokens = 0;
		finish_request(s);
	}
	s->cache->backend->truncate(s->cache, 0);
	s->chunk_tokens = 0;
}

/* ---- absorb ------------------------------------------------------------------------------- */

/* The sequence's share of a pass's seconds. */
static double share_seconds(const struct pass* pass, int rows, double seconds) {
	return seconds * pass->n / rows;
}

/* Handles a finished pass over n rows of the prompt. */
static bool end_prefill(struct session* s, int n) {
	if (session_prefill_left(s) > 0)
		return true;
	if (s->again > 0) {
		s->again = 0;
		s->phase = PHASE_ROUND;
		return true;
	}
	for (int j = 0; s->signature.rows > 0 && j < s->engine->model->weights.shape.dim; j++)
		s->signature.mean[j] /= (float)s->signature.rows;
	s->started = options_clock(&s->options);
	s->phase = PHASE_ROUND;
	const bool more =
	    emit_token(s, s->result[n - 1].token, -1, s->log_probs.top > 0 ? s->result[n - 1].logits : NULL);
	append_to_drafters(s, 1);
	if (!more || constraint_is_over(s))
		finish_request(s);
	return true;
}

static bool absorb_prefill(struct session* s, const struct session_work* work, int rows, double seconds) {
	struct cache* cache = s->cache;
	const int n = work->pass.n;
	s->figures.seconds.prefill += share_seconds(&work->pass, rows, seconds);
	const int first = s->cache->committed - (work->pass.kind == PASS_PREFILL ? n : 0);
	if (work->pass.tap >= 0 && s->embedding.out)
		embedding_add(s, first, n);
	else if (work->pass.tap >= 0 && s->signature.mean)
		add_signature(s, first, n);
	int32_t path[PREFILL_CHUNK];
	for (int i = 0; i < n; i++)
		path[i] = i;
	mtp_keep(s, first, NULL, n);
	if (reports_prompt_logprobs(s))
		report_prompt_logprobs(s, first, n);
	if (work->pass.kind == PASS_PREFILL)
		s->chunk_tokens = cache->committed;
	else
		cache->backend->commit(cache, path, n);
	if (s->again == 0 && session_reads_prompt(s)) {
		s->phase = PHASE_READ;
		return false;
	}
	return end_prefill(s, n);
}

/* A pass's cost in units. If it took more than twice what was expected, it counts as twice: the machine was
 * busy, and the draft is not to blame. If it took less, it counts as expected: the machine became faster, and
 * plain steps would have, too. (Without this, drafts that are right at random slowed decoding by 2.1 % on an
 * exact clock, and drafts that are right gained 1.02 in place of 1.23 on one that swings every 100 steps.) */
static double bound_cost(const struct session* s, double seconds, double expected) {
	return fmin(2 * expected, fmax(expected, session_cost_of(s, seconds, expected)));
}

static void charge_round(struct session* s, double cost) {
	s->round_cost += cost;
	planner_passed(&s->planner, (float)cost);
}

static void absorb_draft(struct session* s, const struct pass* pass, int rows, double seconds) {
	struct cost_model* cost = &s->engine->cost;
	const struct variant with = session_drafts_with(s);
	struct cost_model* another = draft_model_costs(s->engine, pass->segment->cache->backend);
	const bool alone = rows == pass->n;
	const double share = share_seconds(pass, rows, seconds), whole = cost_draft_rows(cost, with, rows);
	if (another && alone)
		draft_model_see(another, pass->segment->cache->backend, rows, seconds);
	const double thought =
	    another ? draft_model_cost(s->engine, another, rows) : whole * cost_draft(cost, with);
	s->figures.seconds.draft += share;
	s->round_seconds += share;
	charge_round(s, bound_cost(s, share, share_seconds(pass, rows, thought) / session_cost_unit(s)));
	if (alone && !another)
		cost_see_draft(cost, with, seconds / whole);
	const int source = s->plan.action.source;
	drafters[source]->take(s->drafters.state[source]);
}

static void absorb_draft_loop(struct session* s, double seconds) {
	struct cost_model* cost = &s->engine->cost;
	s->figures.seconds.draft += seconds;
	s->round_seconds += seconds;
	const int steps = mask_rows(s->drafters.state[SOURCE_mask]);
	charge_round(
	    s, bound_cost(s, seconds, steps * cost_draft(cost, session_drafts_with(s)) / session_cost_unit(s)));
	cost_see_draft(cost, session_drafts_with(s), seconds / steps);
	s->plan.looped = true;
}

static void absorb_driven(struct session* s, double seconds) {
	s->round_seconds += seconds;
	s->plan.goes_on = s->driver->calls->take(s->driver, seconds);
}

/* A round of cost r that emitted n tokens took r/n of the time of plain steps. The round's own seconds carry
 * this ratio, because the known time of a plain step may be that of a busier moment: with that, a round could
 * lose more time than it took, and a generation seem to need less than none without drafts. */
static void account_round(struct session* s, int emitted) {
	const double saved = (emitted / s->round_cost - 1) * s->round_seconds;
	if (saved < 0) {
		s->figures.lost_rounds++;
		s->figures.seconds_lost -= saved;
	} else if (saved > 0)
		s->figures.seconds_saved += saved;
}

/* The cost of a full pass: alone all of it; in a batch a plain step and what its further rows added, scaled
 * by how much longer than expected the whole pass took. */
static double cost_full_pass(const struct session* s, const struct pass* pass, int rows, double seconds) {
	const struct cost_model* cost = &s->engine->cost;
	if (rows == pass->n)
		return bound_cost(s, seconds, cost_verify(cost, pass->n) / session_cost_unit(s));
	const double expected = cost_verify(cost, rows), unit = session_cost_unit(s);
	const double off = bound_cost(s, seconds, expected / unit) * unit / expected;
	return 1 + off * (session_rows_cost(s, rows - pass->n, pass->n) - 1);
}

/* Commits the accepted path, and returns the seconds that this took: states of recurrent blocks take its rows
 * once more, but the row of a plain step has left its states where they belong. */
static double commit_accepted(struct session* s) {
	const double began = options_clock(&s->options);
	round_commit(&s->round);
	return options_clock(&s->options) - began;
}

static void charge_verify(struct session* s, const struct pass* pass, int rows, double seconds,
                          double commit) {
	const bool plain = plan_is_plain(s), alone = rows == pass->n;
	const double share = share_seconds(pass, rows, seconds) + commit;
	const double whole = alone ? seconds + commit : seconds;
	*(plain ? &s->figures.seconds.plain : &s->figures.seconds.verify) += share;
	s->round_seconds += share;
	s->round_cost += cost_full_pass(s, pass, rows, whole) + (alone ? 0 : session_cost_of(s, commit, 0));
	if (plain && rows == 1)
		plan_settle(s, whole);
	if (alone && pass->first == 0)
		cost_see_full(&s->engine->cost, rows, whole, s->engine->backend->attention_share);
	else if (alone && rows > 1)
		cost_see_full(&s->engine->cost, rows, whole / cost_rest(&s->engine->cost, pass->first), 0);
}

static bool absorb_verify(struct session* s, const struct pass* pass, int rows, double seconds) {
	struct round* round = &s->round;
	const bool plain = plan_is_plain(s);
	const int base = s->cache->committed;
	if (s->plan.rule == RULE_DRIVEN) {
		s->driver->calls->judge(s->driver);
		s->round_cost += s->driver->round_cost;
	} else
		round_judge(round);
	charge_verify(s, pass, rows, seconds, commit_accepted(s));
	const struct verdict* v = &round->verdict;
	if (s->learner)
		s->learner->calls->tapped(s->learner, pass);
	int emitted = 0, accepted = 0;
	bool more = true;
	for (int i = 0; i <= v->accepted && more; i++) {
		const bool drafted = i < v->accepted;
		const float* logits = s->log_probs.top > 0 ? round->out[v->path[i]].logits : NULL;
		const int row = drafted ? v->path[i + 1] : 0;
		more = emit_token(s, drafted ? round->tree->token[row] : v->bonus,
		                  drafted ? round->tree->source[row] : -1, logits);
		emitted++;
		accepted += drafted;
	}
	struct swiftlet_figures* f = &s->figures;
	f->full_passes++;
	f->plain_steps += plain;
	f->verify_passes += !plain;
	f->accepted += accepted;
	f->verified_rows += plain ? 0 : round->tree->n;
	for (int w = 0; w < SWIFTLET_CTAR; w++)
		f->ctar_passes[w] += emitted > w + 1;
	f->round_tokens += plain ? 0 : emitted;
	if (!plain)
		account_round(s, emitted);
	plan_learn(s, emitted, accepted);
	mtp_keep(s, base, v->path, v->accepted + 1); /* when the layer's cache has no pending rows any more */
	append_to_drafters(s, emitted);
	s->phase = PHASE_ROUND;
	if (!more || constraint_is_over(s))
		finish_request(s);
	return true;
}

bool session_absorb(struct session* s, const struct session_work* work, int rows, double seconds) {
	if (s->phase == PHASE_DONE)
		return true;
	if (s->phase == PHASE_IDLE) {
		if (s->learner->calls->take(s->learner, &work->pass, seconds))
			s->phase = PHASE_DONE;
		return s->phase == PHASE_DONE;
	}
	switch (work->kind) {
	case WORK_PREFILL:
		return absorb_prefill(s, work, rows, seconds);
	case WORK_MATCHNESS:
		if (s->trial.wanted) {
			session_charge_learning(s, seconds);
			draft_trial_take(s);
			s->phase = PHASE_PLAN;
		} else if (s->driver ? !s->driver->calls->take(s->driver, seconds)
		                     : s->learner->calls->take(s->learner, &work->pass, seconds))
			s->phase = PHASE_PLAN;
		return false;
	case WORK_DRAFT:
		if (s->phase == PHASE_FOLLOW) {
			draft_model_take(s, &work->pass, rows, share_seconds(&work->pass, rows, seconds));
			s->phase = PHASE_ROUND;
			return true;
		}
		if (s->phase == PHASE_READ) {
			s->figures.seconds.prefill += seconds;
			s->driver->calls->take(s->driver, seconds);
			s->phase = PHASE_PREFILL;
			return end_prefill(s, work->pass.n);
		}
		if (s->plan.rule == RULE_DRIVEN)
			absorb_driven(s, share_seconds(&work->pass, rows, seconds));
		else
			absorb_draft(s, &work->pass, rows, seconds);
		break;
	case WORK_DRAFT_LOOP:
		absorb_draft_loop(s, seconds);
		break;
	case WORK_PLAIN:
	case WORK_VERIFY:
		return absorb_verify(s, &work->pass, rows, seconds);
	}
	s->phase = plan_goes_on(s) ? PHASE_DRAFT : PHASE_VERIFY;
	return false;
}

void session_output(struct session* s, struct swiftlet_step* step) {
	*step = (struct swiftlet_step){.token = s->token,
	                               .n = s->n_tokens,
	                               .prompt = s->log_probs.prompt,
	                               .n_prompt = s->log_probs.n_prompt,
	                               .text = s->emitter.text,
	                               .text_size = s->emitter.shown,
	                               .stop = s->stop};
}

void session_begin_step(struct session* s) {
	s->n_tokens = s->log_probs.n_prompt = 0;
	emitter_step(&s->emitter);
	if (s->cancelled && s->phase != PHASE_DONE && s->phase != PHASE_IDLE) {
		s->stop = SWIFTLET_CANCELLED;
		finish_request(s);
	}
}

bool session_step(struct session* s, struct swiftlet_step* step, struct error* error) {
	struct session_work work;
	session_begin_step(s);
	while (session_next(s, &work)) {
		const double before = options_clock(&s->options);
		if (!session_run(s, &work, error))
			return false;
		if (session_absorb(s, &work, work.pass.n, options_clock(&s->options) - before))
			break;
	}
	if (session_failure(s)) {
		*error = *session_failure(s);
		return false;
	}
	session_output(s, step);
	return true;
}
