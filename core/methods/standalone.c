/* One round of a standalone drafter, step by step. Its memory is opened once. */
#include "core/methods/standalone.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/decode/cost.h"
#include "core/decode/session.h"
#include "core/methods/rejection.h"

/* ---- masks ---------------------------------------------------------------------------------- */

static struct mask uniform_mask(int blocks, int size) {
	struct mask mask = {.word = {0}};
	const int dims = 2 * (blocks - 2);
	for (int i = 0; i < size; i++)
		mask_set(&mask, 2 + (int)(((double)i + 0.5) * dims / size), true);
	return mask;
}

/* ---- opening -------------------------------------------------------------------------------- */

/* Kangaroo's eta and CLaSp's belong to their marginal rule. Another rule starts with AdaSPEED's threshold. */
static void set_stopper(struct standalone* m) {
	const struct swiftlet_options* o = m->options;
	const struct method* method = m->method;
	const bool own = o->standalone.stop_rule == STOP_OWN;
	m->stop =
	    (struct stopper){.rule = own ? method->stop : o->standalone.stop_rule,
	                     .most = method_most(o),
	                     .start = o->standalone.stop_threshold >= 0 ? (float)o->standalone.stop_threshold
	                              : own                             ? method->threshold
	                                                                : 0.8f,
	                     .at_most = own && method->at_most,
	                     .adapts = (own ? method->adapts : true) && !o->standalone.stop_fixed,
	                     .policy = &m->policy};
	if (m->drafter == &exit_drafter && method->tree == TREE_CHAIN && m->stop.rule == STOP_FIXED &&
	    o->standalone.speculations == 0)
		m->stop.most = m->choice.steps;
}

/* Choosing exits by cost considers only those with a trained head, if there are heads. */
static bool open_heads(struct standalone* m, const struct cache* cache, struct error* error) {
	const size_t dim = (size_t)shape_of(m)->dim, vocab = (size_t)shape_of(m)->vocab;
	struct heads* heads = &m->engine->heads;
	if (m->drafter != &exit_drafter || heads->bytes == 0)
		return true;
	if (standalone_given_exit(m) == 0)
		exit_choice_keep(&m->choice, heads);
	m->side = m->engine->backend->cache_open(m->engine->backend, 1, cache->type, error);
	m->exit_state = malloc(2 * EXIT_ROWS * dim * sizeof *m->exit_state);
	m->exit_heads = (struct exit_heads){.heads = heads,
	                                    .scratch = m->side,
	                                    .in = m->exit_state ? m->exit_state + EXIT_ROWS * dim : NULL,
	                                    .logits = malloc(3 * vocab * sizeof(float))};
	return m->side &&
	       ((m->exit_state && m->exit_heads.logits) || error_set(error, "out of memory for heads"));
}

static bool open_adapter(struct standalone* m, const struct cache* cache, struct error* error) {
	struct backend* backend = m->engine->side;
	if (m->drafter == &adapter_drafter)
		m->side = backend->cache_open(backend, cache->capacity, cache->type, error);
	return m->side || m->drafter != &adapter_drafter;
}

static bool open_drafter(struct standalone* m, int context, struct error* error) {
	const struct chain_setup chain = {.shape = shape_of(m),
	                                  .reuse = method_has_exit(m->method) && m->options->standalone.reuse,
	                                  .states = m->stop.rule == STOP_PROBE,
	                                  .logits = m->options->standalone.rejection,
	                                  .heads = m->exit_heads.heads ? &m->exit_heads : NULL,
	                                  .side = m->side};
	const struct method_drafter_setup setup = {.context = context + 1,
	                                           .vocab = chain.shape->vocab,
	                                           .most = method_most(m->options),
	                                           .chain = &chain};
	m->state = m->drafter->open(&setup);
	if (!m->state)
		return error_set(error, "out of memory for the drafter of --method %s",
		                 method_name(m->options->drafting.method));
	m->chain = m->drafter->step ? m->state : NULL;
	return true;
}

static bool open_probe(struct standalone* m, struct error* error) {
	const struct probe_weights* given = &m->engine->probe;
	return m->stop.rule != STOP_PROBE ||
	       probe_start(&m->probe, m->chain ? shape_of(m)->dim : 1, m->chain ? given->weight : NULL,
	                   given->bias) ||
	       error_set(error, "out of memory for a probe");
}

static bool open_rejection(struct standalone* m, struct error* error) {
	const size_t vocab = (size_t)shape_of(m)->vocab;
	if (!m->options->standalone.rejection)
		return true;
	m->target_logits = malloc(SLICE_ROWS * vocab * sizeof *m->target_logits);
	m->distribution = malloc(4 * vocab * sizeof *m->distribution);
	return (m->target_logits && m->distribution) || error_set(error, "out of memory for rejection sampling");
}

static bool open_mask(struct standalone* m, struct error* error) {
	if (m->method->mask == MASK_UNIFORM || m->method->mask == MASK_PROGRAMMED) {
		const struct mask mask = uniform_mask(shape_of(m)->n_blocks, method_mask_size(m->options, m->engine));
		session_adopt(m->session, &mask, NAN);
	}
	if (m->method->mask != MASK_PROGRAMMED)
		return true;
	m->programming = malloc(layer_programming_bytes(shape_of(m)));
	return m->programming || error_set(error, "out of memory for dynamic programming");
}

static void close_method(struct driver* driver) {
	struct standalone* m = (struct standalone*)driver;
	if (m->state)
		m->drafter->close(m->state);
	if (m->side)
		m->side->backend->cache_close(m->side);
	probe_end(&m->probe);
	free(m->exit_state);
	free(m->exit_heads.logits);
	free(m->target_logits);
	free(m->distribution);
	free(m->programming);
	free(m);
}

/* ---- a text --------------------------------------------------------------------------------- */

static int limit_kept(const struct driver* driver, int kept) {
	const struct standalone* m = (const struct standalone*)driver;
	const int seen = driver->sees_prompt ? m->drafter->seen(m->state) : kept;
	return seen < kept ? seen / PREFILL_CHUNK * PREFILL_CHUNK : kept;
}

static void release_text(struct driver* driver) {
	struct standalone* m = (struct standalone*)driver;
	const struct session_view view = session_view(m->session);
	if (driver->sees_prompt && !view.prefills_again)
		m->drafter->begin(m->state, &(struct drafter_text){.n_prompt = view.n_prompt});
}

static bool begin_text(struct driver* driver, const struct drafter_text* text, struct error* error) {
	struct standalone* m = (struct standalone*)driver;
	const struct session_view view = session_view(m->session);
	if (m->method->mask == MASK_GIVEN && mask_count(view.mask) == 0)
		return error_set(error,
		                 "--method %s needs a mask, and none was given: swiftlet learn -i TEXTS.jsonl "
		                 "--save-mask FILE finds one, and --mask FILE loads it",
		                 method_name(m->options->drafting.method));
	if (m->options->standalone.rejection && view.sampler && view.penalties)
		return error_set(error,
		                 "--acceptance rejection does not support penalties or logit_bias: leave them out");
	memset(&m->figures, 0, sizeof m->figures);
	stop_begin(&m->stop);
	m->round = 0;
	m->choice.measured_at = 0;
	if (m->drafter->begin)
		m->drafter->begin(m->state, text);
	return true;
}

static void append_text(struct driver* driver, const int32_t* token, int n) {
	struct standalone* m = (struct standalone*)driver;
	if (m->drafter->append)
		m->drafter->append(m->state, token, n);
}

static void tap_prompt(struct driver* driver, struct pass* pass) {
	struct standalone* m = (struct standalone*)driver;
	pass->tap = 2 * m->choice.exit_block - 1;
	pass->tap_out = m->chain->prompt;
}

static void read_prompt(struct driver* driver, int n) {
	struct standalone* m = (struct standalone*)driver;
	m->next = STANDALONE_READ;
	m->reading = n;
}

static bool begin_calibration(struct driver* driver) {
	struct standalone* m = (struct standalone*)driver;
	m->next = STANDALONE_CALIBRATE;
	return calibration_begin(m);
}

/* ---- a round --------------------------------------------------------------------------------- */

/* With rejection sampling drafts draw noise of their own, which differs in each round. */
static const struct sampler* draft_sampler(struct standalone* m, const struct sampler* sampler) {
	if (!sampler || !m->options->standalone.rejection)
		return sampler;
	m->sampler = *sampler;
	m->sampler.seed = sampler->seed ^ (0xd1b54a32d192ed03u * (uint64_t)(m->round + 1));
	return &m->sampler;
}

static void start_chain(struct standalone* m, const struct session_view* view) {
	const bool exits = method_has_exit(m->method);
	const struct segment segment = {.cache = view->cache,
	                                .base = view->cache->committed,
	                                .sampler = draft_sampler(m, view->sampler),
	                                .penalties = view->penalties};
	chain_start(m->chain, view->text[view->n_text - 1],
	            2 * (exits ? m->choice.exit_block : shape_of(m)->n_blocks), exits ? NULL : view->mask,
	            &segment);
}

static bool start_round(struct driver* driver) {
	struct standalone* m = (struct standalone*)driver;
	const struct session_view view = session_view(m->session);
	tree_start(view.tree, view.text[view.n_text - 1]);
	driver->round_cost = 0;
	m->why = "limit";
	m->limit = least(session_useful_depth(m->session, m->stop.most), view.most_rows - 1);
	m->round++;
	if (m->chain)
		start_chain(m, &view);
	if (m->stop.rule == STOP_GAIN)
		standalone_set_policy(m);
	stop_chain(&m->stop);
	m->next = m->chain && m->limit > 0 ? STANDALONE_STEP : STANDALONE_DONE;
	if (!m->chain)
		standalone_guess(m);
	return m->next != STANDALONE_DONE;
}

static void fill_pass(struct driver* driver, struct pass* pass) {
	struct standalone* m = (struct standalone*)driver;
	if (m->next == STANDALONE_READ)
		m->drafter->read(m->state, m->reading, pass);
	else if (m->next == STANDALONE_CALIBRATE)
		calibration_fill(m, pass);
	else if (m->next == STANDALONE_REST)
		chain_rest_pass(m->chain, session_view(m->session).tree, pass);
	else
		m->drafter->step(m->state, pass);
}

static void charge_draft(struct standalone* m, double seconds) {
	const double cost = session_cost_of(m->session, seconds, 0);
	m->figures.draft += seconds;
	m->driver.round_cost += cost;
	m->draft_cost += cost;
}

static void end_chain(struct standalone* m) {
	struct pass pass;
	standalone_build_tree(m);
	m->next =
	    chain_rest_pass(m->chain, session_view(m->session).tree, &pass) ? STANDALONE_REST : STANDALONE_DONE;
}

static void judge_step(struct standalone* m) {
	const int at = m->chain->steps - 1;
	const struct result* step = &m->chain->result[at];
	m->chance[at] = standalone_step_chance(m);
	bool last = stop_after(&m->stop, m->chance[at], step->max_probability, &m->why);
	if (session_ends(m->session, step->token)) {
		last = true;
		m->why = "end";
	} else if (!last && m->chain->steps >= m->limit) {
		last = true;
		m->why = "limit";
	}
	if (last)
		end_chain(m);
}

static void take_step(struct standalone* m, double seconds) {
	const int before = m->chain->steps;
	charge_draft(m, seconds);
	const double began = options_clock(m->options);
	m->drafter->take(m->state);
	charge_draft(m, options_clock(m->options) - began);
	if (m->chain->steps > before)
		judge_step(m);
}

static bool take_pass(struct driver* driver, double seconds) {
	struct standalone* m = (struct standalone*)driver;
	if (m->next == STANDALONE_READ) {
		m->drafter->take(m->state);
		return false;
	}
	if (m->next == STANDALONE_CALIBRATE)
		return !calibration_take(m, seconds);
	if (m->next == STANDALONE_STEP) {
		take_step(m, seconds);
	} else {
		m->figures.verify += seconds;
		driver->round_cost += session_cost_of(m->session, seconds, 0);
		m->next = STANDALONE_DONE;
	}
	return m->next != STANDALONE_DONE;
}

/* ---- verification --------------------------------------------------------------------------- */

static void verify_tree(struct driver* driver, uint8_t wants, struct pass* pass) {
	struct standalone* m = (struct standalone*)driver;
	const struct session_view view = session_view(m->session);
	if (m->options->standalone.rejection && view.sampler)
		wants |= WANT_LOGITS;
	for (int i = 0; m->target_logits && i < view.tree->n; i++)
		view.round->out[i].logits = m->target_logits + (size_t)i * (size_t)shape_of(m)->vocab;
	if (m->chain)
		chain_verify_pass(m->chain, view.round, view.tree, wants, pass);
	else
		round_verify_pass(view.round, view.tree, wants, pass);
}

static void reject_steps(struct standalone* m, const struct session_view* view) {
	const struct tree* tree = view->tree;
	const size_t vocab = (size_t)shape_of(m)->vocab;
	const float* q[MAX_ROWS] = {NULL};
	const struct rejection rejection = {.vocab = (int)vocab,
	                                    .sampler = view->sampler,
	                                    .p = m->distribution,
	                                    .q = m->distribution + vocab,
	                                    .scratch = m->distribution + 2 * vocab};
	for (int d = 0, row = 0; m->chain && row >= 0 && d < m->chain->steps; d++) {
		q[row] = m->chain->result[d].logits;
		row = tree_child(tree, row, m->chain->result[d].token);
	}
	tree_reject(tree, view->round->out, q, (uint64_t)view->cache->committed + 1, &rejection,
	            &view->round->verdict);
}

static void judge_tree(struct driver* driver) {
	struct standalone* m = (struct standalone*)driver;
	const struct session_view view = session_view(m->session);
	if (m->options->standalone.rejection && view.sampler)
		reject_steps(m, &view);
	else
		round_judge(view.round);
}

/* ---- figures -------------------------------------------------------------------------------- */

static void add_figures(const struct driver* driver, struct swiftlet_figures* f) {
	const struct standalone* m = (const struct standalone*)driver;
	f->seconds.draft += m->figures.draft;
	f->seconds.verify += m->figures.verify;
	f->seconds.optimize += m->figures.optimize;
	f->draft_steps += m->figures.steps;
	f->draft_accepted += m->figures.accepted;
	f->exit_block = m->figures.exit_block;
}

static void trace_round(const struct driver* driver, struct round_trace* trace) {
	const struct standalone* m = (const struct standalone*)driver;
	trace->steps = m->chain ? m->chain->steps : 0;
	trace->step = m->chain ? m->chain->result : NULL;
	trace->why = m->why;
	trace->accepted = m->accepted;
}

static const struct driver_calls calls = {.close = close_method,
                                          .keeps = limit_kept,
                                          .begin = begin_text,
                                          .append = append_text,
                                          .release = release_text,
                                          .tap = tap_prompt,
                                          .read = read_prompt,
                                          .calibrate = begin_calibration,
                                          .drafts = standalone_drafts,
                                          .start = start_round,
                                          .fill = fill_pass,
                                          .take = take_pass,
                                          .verify = verify_tree,
                                          .judge = judge_tree,
                                          .learn = standalone_learn,
                                          .figures = add_figures,
                                          .trace = trace_round};

bool method_open(struct session* session, struct error* error) {
	const struct session_view view = session_view(session);
	if (!method_check(view.options, view.engine, error))
		return false;
	if (!method_of(view.options)->drafter)
		return true;
	struct standalone* m = calloc(1, sizeof *m);
	if (!m)
		return error_set(error, "out of memory for a method");
	m->driver.calls = &calls;
	m->session = session;
	m->engine = view.engine;
	m->options = view.options;
	m->method = method_of(view.options);
	m->drafter = m->method->drafter;
	m->driver.sees_prompt = m->drafter->read != NULL;
	session_set_driver(session, &m->driver); /* which closes it from now on */
	exit_choice_open(&m->choice, shape_of(m)->n_blocks, standalone_given_exit(m));
	if (!open_heads(m, view.cache, error) || !open_adapter(m, view.cache, error))
		return false;
	set_stopper(m);
	return open_drafter(m, view.cache->capacity, error) && open_probe(m, error) && open_rejection(m, error) &&
	       open_mask(m, error);
}
