/* Opens and closes sessions, begins requests and reads figures. flow.c does the rest. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/decode/session_state.h"

/* ---- opening ------------------------------------------------------------------------------ */

/* The requested drafters as bits, or all that pay on the backend. A backend with a draft loop of its own is a
 * device. */
static unsigned choose_drafters(unsigned asked, const struct backend* backend) {
	unsigned which = 0;
	for (int i = 0; i < DRAFTER_COUNT; i++) {
		const bool pays = backend->draft || !drafters[i]->pays_on_devices;
		if (asked >> i & 1u && (pays || asked != SWIFTLET_ALL_DRAFTERS))
			which |= 1u << i;
	}
	return which;
}

/* --draft always is SWIFT's rule, in which only the model with a mask drafts. */
static bool open_drafters(struct session* s, int context) {
	const struct drafter_setup setup = {.context = context + 1,
	                                    .vocab = s->engine->model->weights.shape.vocab};
	struct swiftlet_options* o = &s->options;
	o->drafting.drafters = choose_drafters(o->drafting.drafters, s->engine->backend);
	unsigned which = o->drafting.when == SWIFTLET_DRAFT_NEVER    ? 0
	                 : o->drafting.when == SWIFTLET_DRAFT_ALWAYS ? 1u << SOURCE_mask
	                                                             : o->drafting.drafters;
	if (!s->engine->drafting)
		which &= ~(1u << SOURCE_model);
	if (!s->engine->mtp)
		which &= ~(1u << SOURCE_mtp);
	if (!drafter_set_open(&s->drafters, which, &setup))
		return false;
	if (!s->drafters.state[SOURCE_retrieval] || o->drafting.pool == 0)
		return true;
	s->pool = retrieval_pool_open(o->drafting.pool);
	session_use_pool(s, s->pool);
	return s->pool != NULL;
}

static bool open_parts(struct session* s, struct error* error) {
	struct backend* backend = s->engine->backend;
	const struct model* model = s->engine->model;
	const int context = options_context(&s->options, model);
	s->cache = backend->cache_open(backend, context, options_cache_type(&s->options, model), error);
	if (!s->cache)
		return false;
	s->text = calloc((size_t)context + 1, sizeof *s->text);
	if (!s->text || !emitter_open(&s->emitter, model->tokenizer))
		return error_set(error, "out of memory for a session of %d tokens", context);
	if (options_plan(&s->options) && !open_drafters(s, context))
		return error_set(error, "out of memory for the drafters of %d tokens", context);
	if (!draft_pages_open(s))
		return error_set(error, "out of memory for the pages that drafts read");
	return draft_model_join(s, error) && mtp_join(s, error);
}

struct session* session_open(struct engine* engine, const struct swiftlet_options* options,
                             struct error* error) {
	struct session* s = calloc(1, sizeof *s);
	if (!s) {
		error_set(error, "out of memory for a session");
		return NULL;
	}
	s->engine = engine;
	s->options = *options;
	/* A window is scored from its beginning, for which recurrent blocks have no state. */
	if (attention_blocks(&engine->model->weights.shape) < engine->model->weights.shape.n_blocks)
		s->options.learning.search = false;
	if (options->draft_weights.bits > 0)
		s->draft_weights = engine_draft_weights(engine);
	s->matchness = NAN;
	budget_open(&s->own_budget, options->learning.budget);
	s->budget = &s->own_budget;
	acceptance_open(&s->acceptance);
	planner_open(&s->planner, &s->drafters, &s->acceptance);
	if (!open_parts(s, error)) {
		session_close(s);
		return NULL;
	}
	plan_new_mask(s);
	return s;
}

void session_close(struct session* s) {
	if (!s)
		return;
	if (s->cache)
		s->engine->backend->cache_close(s->cache);
	if (s->draft_cache)
		s->draft_cache->backend->cache_close(s->draft_cache);
	mtp_close(&s->mtp);
	if (s->learner)
		s->learner->calls->close(s->learner);
	drafter_set_close(&s->drafters);
	draft_pages_close(&s->pages);
	if (s->driver)
		s->driver->calls->close(s->driver);
	retrieval_pool_close(s->pool);
	emitter_close(&s->emitter);
	free(s->text);
	penalties_close(s);
	constraint_close(s);
	free(s->log_probs.logits);
	free(s->log_probs.scratch);
	free(s->tap);
	free(s->signature.mean);
	embedding_close(&s->embedding);
	free(s);
}

/* ---- requests ----------------------------------------------------------------------------- */

static bool check_request(const struct session* s, const struct swiftlet_request* r, struct error* error) {
	const int vocab = s->engine->model->weights.shape.vocab;
	if (r->n_prompt < 1)
		return error_set(error, "the prompt is empty: expected at least one token");
	const int most =
	    s->cache->capacity - (r->max_tokens > 1); /* the last token takes no place in the cache */
	if (r->n_prompt > most)
		return error_set(
		    error,
		    "the prompt has %d tokens: the context of %d tokens holds at most %d (--context N sets "
		    "another size)",
		    r->n_prompt, s->cache->capacity, most);
	for (int i = 0; i < r->n_prompt; i++)
		if (r->prompt[i] < 0 || r->prompt[i] >= vocab)
			return error_set(error, "prompt token %d is %d: expected 0 to %d", i, r->prompt[i], vocab - 1);
	for (int i = 0; i < r->n_expected; i++)
		if (r->expected[i] < 0 || r->expected[i] >= vocab)
			return error_set(error, "expected token %d is %d: expected 0 to %d", i, r->expected[i],
			                 vocab - 1);
	if (r->max_tokens < 1)
		return error_set(error, "max_tokens is %d: expected at least 1", r->max_tokens);
	if (!(r->temperature >= 0 && r->temperature <= 100))
		return error_set(error, "temperature is %g: expected 0 to 100", r->temperature);
	if (!(r->top_p > 0 && r->top_p <= 1))
		return error_set(error, "top_p is %g: expected more than 0, at most 1", r->top_p);
	if (!(r->min_p >= 0 && r->min_p <= 1))
		return error_set(error, "min_p is %g: expected 0 to 1", r->min_p);
	if (r->top_k < 0)
		return error_set(error, "top_k is %d: expected 0 (off) or more", r->top_k);
	if (r->logprobs < 0 || r->logprobs > MAX_TOP)
		return error_set(error, "logprobs is %d: expected 0 to %d", r->logprobs, MAX_TOP);
	if (r->prompt_logprobs && !s->engine->backend->prefill_is_exact)
		return error_set(error, "the backend %s does not compute log probabilities of prompts: use the CPU",
		                 s->engine->backend->name);
	if (r->n_end_tokens < 0 || r->n_end_tokens > SWIFTLET_END_TOKENS)
		return error_set(error, "n_end_tokens is %d: expected 0 to %d", r->n_end_tokens, SWIFTLET_END_TOKENS);
	if (r->grammar && r->ignore_eos && r->n_end_tokens == 0)
		return error_set(
		    error, "a grammar with ignore_eos needs stop_token_ids, because some token must end the answer");
	return penalties_check(s, r, error);
}

static bool prepare_logprobs(struct session* s, const struct swiftlet_request* r, struct error* error) {
	const size_t vocab = (size_t)s->engine->model->weights.shape.vocab;
	s->log_probs.top = r->logprobs;
	s->log_probs.of_prompt = r->prompt_logprobs && r->logprobs > 0;
	s->log_probs.prompt_reported = s->log_probs.n_prompt = 0;
	if (r->logprobs == 0 || s->log_probs.logits)
		return true;
	s->log_probs.logits = malloc(vocab * LOGPROB_ROWS * sizeof *s->log_probs.logits);
	s->log_probs.scratch = malloc(2 * vocab * sizeof *s->log_probs.scratch);
	return (s->log_probs.logits && s->log_probs.scratch) ||
	       error_set(error, "out of memory for log probabilities");
}

bool session_length_matters(const struct session* s, int n_prompt) {
	const struct model_shape* shape = &s->engine->model->weights.shape;
	const struct rope* const each[] = {&shape->rope, &shape->sliding_rope};
	const int longest = n_prompt > s->cache->prompt_length ? n_prompt : s->cache->prompt_length;
	for (int i = 0; i < 2; i++)
		if ((each[i]->scaling == ROPE_DYNAMIC || each[i]->scaling == ROPE_LONGROPE) &&
		    longest > each[i]->original_context)
			return true;
	return false;
}

static bool is_recurrent(const struct session* s) {
	const struct model_shape* shape = &s->engine->model->weights.shape;
	return attention_blocks(shape) < shape->n_blocks;
}

/* The first tokens that the cache and the prompt have in common, but for the prompt's last one. */
static int count_common(const struct session* s, const int32_t* prompt, int n) {
	/* If prefill computes other bits than exact rows, only whole chunks may stay. */
	const int held = s->engine->backend->prefill_is_exact ? s->cache->committed : s->chunk_tokens;
	int common = 0;
	if (session_length_matters(s, n))
		return 0;
	while (common < held && common < n - 1 && s->text[common] == prompt[common])
		common++;
	return common;
}

int session_common_prefix(const struct session* s, const int32_t* prompt, int n) {
	const int common = count_common(s, prompt, n);
	if (s->cache->backend->next_kept) /* any session finds the states that are kept */
		return common == s->cache->committed ? common : 0;
	return common / PREFILL_CHUNK * PREFILL_CHUNK;
}

void session_set_tenant(struct session* s, int tenant, bool shares_prefixes) {
	const int pages = shares_prefixes ? 0 : tenant;
	if (s->cache->tenant != pages) {
		s->cache->backend->truncate(s->cache, 0);
		s->chunk_tokens = 0;
		s->cache->tenant = pages;
	}
	draft_model_forget(s, pages);
	s->tenant = tenant;
}

/* Keeps a prefix of a text, or finds one in other sessions' caches. At least one row is left to run. */
static int keep_prefix(struct session* s, const int32_t* text, int n) {
	struct backend* backend = s->cache->backend;
	if (s->log_probs.of_prompt || s->embedding.out) { /* kept rows have neither logits nor states */
		backend->truncate(s->cache, 0);
		return 0;
	}
	if (backend->adopt && !session_reads_prompt(s) && !session_length_matters(s, n))
		return backend->adopt(s->cache, text, n - 1);
	int kept = count_common(s, text, n);
	if (!is_recurrent(s))
		kept = kept / PREFILL_CHUNK * PREFILL_CHUNK;
	backend->truncate(s->cache, kept);
	kept = s->cache->committed; /* recurrent blocks have no state behind every token */
	if (s->driver)
		kept = s->driver->calls->keeps(s->driver, kept);
	backend->truncate(s->cache, kept);
	if (s->cache->committed < kept)
		backend->truncate(s->cache, 0);
	return s->cache->committed;
}

static void start_text(struct session* s, const struct swiftlet_request* r) {
	const int kept = keep_prefix(s, r->prompt, r->n_prompt);
	s->cache->prompt_length = r->n_prompt;
	s->chunk_tokens = kept;
	memcpy(s->text, r->prompt, (size_t)r->n_prompt * sizeof *s->text);
	s->n_text = s->n_prompt = r->n_prompt;
	const int left = s->cache->capacity - r->n_prompt, room = left > 0 ? left : 1;
	s->end = r->n_prompt + (r->max_tokens < room ? r->max_tokens : room);
	memset(&s->figures, 0, sizeof s->figures);
	s->figures.prompt_tokens = r->n_prompt;
	s->figures.cached_tokens = kept;
}

/* Drafters read the prompt while no token is waited for. */
static bool start_drafters(struct session* s, const struct swiftlet_request* r, struct error* error) {
	const struct drafter_text text = {.tenant = s->tenant,
	                                  .prompt = r->prompt,
	                                  .n_prompt = r->n_prompt,
	                                  .kept = s->figures.cached_tokens,
	                                  .expected = r->expected,
	                                  .n_expected = r->n_expected,
	                                  .acceptor = s->constraint.acceptor};
	drafter_set_begin(&s->drafters, &text);
	return !s->driver || s->driver->calls->begin(s->driver, &text, error);
}

static void start_ends(struct session* s, const struct swiftlet_request* r) {
	const struct model* model = s->engine->model;
	s->n_end_tokens = 0;
	for (int i = 0; i < model->n_end_tokens && !r->ignore_eos; i++)
		s->end_token[s->n_end_tokens++] = model->end_token[i];
	for (int i = 0; i < r->n_end_tokens; i++)
		s->end_token[s->n_end_tokens++] = r->end_token[i];
}

static void start_sampler(struct session* s, const struct swiftlet_request* r) {
	s->sampled = r->temperature > 0;
	s->sampler = (struct sampler){.temperature = (float)r->temperature,
	                              .top_k = r->top_k,
	                              .top_p = (float)r->top_p,
	                              .min_p = (float)r->min_p,
	                              .seed = r->seed,
	                              .sequence = r->sequence};
}

bool session_start(struct session* s, const struct swiftlet_request* r, struct error* error) {
	if (!check_request(s, r, error) || !emitter_start(&s->emitter, s->engine->model->tokenizer, r, error) ||
	    !prepare_logprobs(s, r, error) || !penalties_start(s, r, error) || !embedding_start(s, r, error))
		return false;
	if (s->cache->pending > 0)
		s->cache->backend->discard(s->cache);
	if (s->learner)
		s->learner->calls->begin_text(s->learner);
	start_text(s, r);
	start_ends(s, r);
	start_sampler(s, r);
	if (!constraint_start(s, r, error) || !start_drafters(s, r, error))
		return false;
	s->signature.rows = 0;
	if (s->signature.mean)
		memset(s->signature.mean, 0, sizeof(float) * (size_t)s->engine->model->weights.shape.dim);
	s->cancelled = false;
	s->failure.message[0] = 0;
	s->stop = SWIFTLET_RUNNING;
	s->n_tokens = 0;
	s->again = 0;
	draft_model_begin(s);
	mtp_begin(s);
	draft_pages_begin(&s->pages);
	s->trial.wanted = false;
	s->phase = PHASE_PREFILL;
	return true;
}

void session_cancel(struct session* s) { s->cancelled = true; }

/* True while the prompt, or a text that is computed again, is incomplete. */
static bool is_prefilling(const struct session* s) {
	return s->phase == PHASE_PREFILL || s->phase == PHASE_READ;
}

/* ---- figures ------------------------------------------------------------------------------ */

void session_figures(const struct session* s, struct swiftlet_figures* f) {
	*f = s->figures;
	f->tokens = s->n_text - s->n_prompt;
	f->stop = s->stop;
	f->stop_string = s->emitter.stopped_by;
	if (s->phase != PHASE_DONE && s->phase != PHASE_IDLE && !is_prefilling(s))
		f->seconds.decode += options_clock(&s->options) - s->started;
	if (s->driver)
		s->driver->calls->figures(s->driver, f);
	const double named = f->seconds.draft + f->seconds.verify + f->seconds.plain + f->seconds.optimize;
	f->seconds.other = fmax(0, f->seconds.decode - named);
	/* the first token comes with the prefill */
	f->tokens_per_second = quotient(f->tokens - 1, f->seconds.decode);
	f->mean_generated = quotient((double)f->round_tokens, (double)f->verify_passes);
	f->alpha = quotient((double)f->draft_accepted, (double)f->draft_steps);
	f->matchness = s->matchness;
	f->chosen_by = NAN;
	f->search_state = "off";
	if (s->learner)
		s->learner->calls->figures(s->learner, f);
	f->skip_ratio = f->c = f->expected_speedup = f->read = NAN;
	f->n_attention = f->n_mlp = f->n_quantized_attention = f->n_quantized_mlp = f->quantized_head = 0;
	f->compression_ratio = quotient(f->tokens - 1, (double)f->full_passes);
	for (int w = 0; w < SWIFTLET_CTAR; w++)
		f->ctar[w] = quotient((double)f->ctar_passes[w], (double)f->full_passes);
	if (s->options.drafting.method == SWIFTLET_VANILLA)
		return;
	const int blocks = s->engine->model->weights.shape.n_blocks;
	for (int b = 0; b < blocks; b++) {
		if (mask_has(&s->mask, 2 * b))
			f->attention[f->n_attention++] = b;
		if (mask_has(&s->mask, 2 * b + 1))
			f->mlp[f->n_mlp++] = b;
		if (mask_has(&s->drafts.sub_layers, 2 * b))
			f->quantized_attention[f->n_quantized_attention++] = b;
		if (mask_has(&s->drafts.sub_layers, 2 * b + 1))
			f->quantized_mlp[f->n_quantized_mlp++] = b;
	}
	f->quantized_head = s->drafts.head;
	if (f->draft_steps > 0 && !s->driver)
		f->read = pass_bytes_layers_read(&s->engine->cost.bytes, session_drafts_with(s));
	f->skip_ratio = quotient(f->n_attention + f->n_mlp, 2 * (blocks - 2));
	if (f->draft_steps > 0 && cost_plain_seconds(&s->engine->cost) > 0) {
		const double m = f->mean_generated, a = f->alpha;
		f->c = s->driver ? f->seconds.draft / (double)f->draft_steps / cost_plain_seconds(&s->engine->cost)
		                 : cost_draft(&s->engine->cost, session_drafts_with(s));
		/* SWIFT Eq. 6 knows one drafter */
		f->expected_speedup = a > 0 && (s->driver || f->source[SOURCE_mask].accepted == f->accepted)
		                          ? m * a / ((m - 1) * f->c + a)
		                          : NAN;
	}
}

/* ---- masks and the rest of session.h ------------------------------------------------------ */

void session_set_mask(struct session* s, const struct mask* mask) {
	s->mask = *mask;
	s->matchness = NAN;
	if (s->learner)
		s->learner->calls->adopt(s->learner, mask);
	plan_new_mask(s);
}

struct mask session_quantized(const struct session* s, bool* head) {
	*head = s->drafts.head;
	return s->drafts.sub_layers;
}

struct acceptance* session_acceptance(struct session* s) {
	return &s->acceptance;
}

struct engine* session_engine(struct session* s) {
	return s->engine;
}

const struct swiftlet_options* session_options(const struct session* s) { return &s->options; }

void session_adopt(struct session* s, const struct mask* mask, double matchness) {
	s->matchness = matchness;
	if (mask_equal(mask, &s->mask))
		return;
	s->mask = *mask;
	plan_new_mask(s);
}

void session_set_driver(struct session* s, struct driver* driver) { s->driver = driver; }

struct session_view session_view(struct session* s) {
	return (struct session_view){.engine = s->engine,
	                             .options = &s->options,
	                             .cache = s->cache,
	                             .text = s->text,
	                             .n_text = s->n_text,
	                             .n_prompt = s->n_prompt,
	                             .mask = &s->mask,
	                             .drafts = session_drafts_with(s),
	                             .sampler = s->sampled ? &s->sampler : NULL,
	                             .penalties = penalties_now(s),
	                             .constrained = s->constraint.acceptor != NULL,
	                             .prefills_again = s->again > 0,
	                             .most_rows = s->log_probs.top > 0 ? LOGPROB_ROWS : MAX_ROWS,
	                             .tree = &s->planner.tree,
	                             .round = &s->round};
}

void session_trace(const struct session* s, struct round_trace* out) {
	*out = (struct round_trace){.round = s->figures.full_passes,
	                            .position = s->round.segment.base,
	                            .why = "planned",
	                            .tree = &s->planner.tree,
	                            .accepted = s->round.verdict.accepted,
	                            .bonus = s->round.verdict.bonus};
	if (s->driver)
		s->driver->calls->trace(s->driver, out);
}

void session_set_batch(struct session* s, const struct batch* batch) { s->batch = *batch; }
void session_share_budget(struct session* s, struct speculation_budget* budget) { s->budget = budget; }

int session_prefill_left(const struct session* s) {
	return is_prefilling(s) ? (s->again > 0 ? s->again : s->n_prompt) - s->cache->committed : 0;
}

bool session_reserve(struct session* s, const struct session_work* work) {
	const bool loop = work->kind == WORK_DRAFT_LOOP;
	struct cache* cache = loop ? s->cache : work->pass.segment->cache; /* heads and adapters have their own */
	const int rows = loop ? s->plan.draft.max_steps : pass_appends(&work->pass) ? work->pass.n : 0;
	return !cache->backend->reserve || cache->backend->reserve(cache, rows);
}

int session_room(const struct session* s) {
	const struct backend* backend = s->cache->backend;
	return backend->room ? backend->room(s->cache) : INT_MAX;
}

/* Computes the text of a decoding sequence again, without the last token, whose row comes next. Other
 * sequences may still have pages of it. */
void session_release(struct session* s) {
	const bool over = s->phase == PHASE_DONE || s->phase == PHASE_IDLE;
	if (over)
		s->phase = PHASE_DONE;
	else {
		if (!is_prefilling(s))
			s->again = s->n_text - 1;
		else if (s->again == 0)
			s->figures.cached_tokens = 0;
		s->phase = PHASE_PREFILL;
	}
	s->cache->backend->truncate(s->cache, 0);
	draft_model_release(s);
	mtp_forget(s);
	if (s->driver)
		s->driver->calls->release(s->driver);
	s->chunk_tokens = 0;
}

void session_limit_prefill(struct session* s, int rows) {
	s->prefill_rows = s->engine->backend->prefill_is_exact ? rows : 0;
}

void session_use_pool(struct session* s, const struct retrieval_pool* pool) {
	if (s->drafters.state[SOURCE_retrieval])
		retrieval_use_pool(s->drafters.state[SOURCE_retrieval], pool);
}

const int32_t* session_text(const struct session* s, int* n) {
	*n = s->n_text;
	return s->text;
}

struct cache* session_cache(struct session* s) {
	return s->cache;
}

void session_remember(struct session* s, struct retrieval_pool* pool) {
	retrieval_pool_add(pool, s->text, s->n_text);
}

struct mask session_mask(const struct session* s, double* matchness) {
	if (matchness)
		*matchness = s->matchness;
	return s->mask;
}

void session_want_signature(struct session* s) {
	if (!s->signature.mean && !session_reads_prompt(s) && session_open_tap(s))
		s->signature.mean = calloc((size_t)s->engine->model->weights.shape.dim, sizeof *s->signature.mean);
}

const float* session_signature(const struct session* s) {
	return s->signature.rows > 0 && s->phase != PHASE_PREFILL ? s->signature.mean : NULL;
}

int64_t session_last_round(const struct session* s, int* draft_steps, int* accepted) {
	*draft_steps = s->last_round.draft_steps;
	*accepted = s->last_round.accepted;
	return s->last_round.count;
}
