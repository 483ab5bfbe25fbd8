/* One round of a standalone drafter, step by step; what it needs is opened once. */
#include "core/decode/standalone.h"

#include <stdlib.h>
#include <string.h>

#include "core/decode/session_state.h"
#include "core/draft/rejection.h"

static const struct model_shape* shape_of(const struct session* s) {
	return &s->engine->model->weights.shape;
}

/* ---- masks ---------------------------------------------------------------------------------- */

static struct mask uniform_mask(int blocks, int size) {
	struct mask mask = {.word = {0}};
	const int dims = 2 * (blocks - 2);
	for (int i = 0; i < size; i++)
		mask_set(&mask, 2 + (int)(((double)i + 0.5) * dims / size), true);
	return mask;
}

/* ---- opening -------------------------------------------------------------------------------- */

/* Kangaroo's eta and CLaSp's are their marginal rules'; another rule starts as AdaSPEED's. */
static void set_stopper(struct session* s) {
	struct standalone* m = s->standalone;
	const struct swiftlet_options* o = &s->options;
	const struct method* method = m->method;
	const bool own = o->stop_rule == SWIFTLET_STOP_OWN;
	m->stop = (struct stopper){.rule = own ? method->stop : (enum stop_rule)(o->stop_rule - 1),
	                           .most = method_most(o),
	                           .start = o->stop_threshold >= 0 ? (float)o->stop_threshold
	                                    : own                  ? method->threshold
	                                                           : 0.8f,
	                           .at_most = own && method->at_most,
	                           .adapts = (own ? method->adapts : true) && !o->stop_fixed,
	                           .policy = &s->plan.draft};
	if (method->source == SOURCE_exit && method->tree == TREE_CHAIN && m->stop.rule == STOP_FIXED &&
	    o->speculations == 0)
		m->stop.most = m->choice.steps;
}

/* Exits by cost are those that have a head, where there are heads. */
static bool open_heads(struct session* s, struct error* error) {
	struct standalone* m = s->standalone;
	const size_t dim = (size_t)shape_of(s)->dim, vocab = (size_t)shape_of(s)->vocab;
	struct heads* heads = &s->engine->heads;
	if (m->method->source != SOURCE_exit || heads->bytes == 0)
		return true;
	if (standalone_given_exit(s) == 0)
		exit_choice_keep(&m->choice, heads);
	m->side = s->engine->backend->cache_open(s->engine->backend, 1, s->cache->type, error);
	m->exit_state = malloc(2 * EXIT_ROWS * dim * sizeof *m->exit_state);
	m->exit_heads = (struct exit_heads){.heads = heads,
	                                    .weight = heads->weight,
	                                    .apply = heads_apply,
	                                    .scratch = m->side,
	                                    .in = m->exit_state ? m->exit_state + EXIT_ROWS * dim : NULL,
	                                    .logits = malloc(3 * vocab * sizeof(float))};
	return m->side &&
	       ((m->exit_state && m->exit_heads.logits) || error_set(error, "out of memory for heads"));
}

static bool open_adapter(struct session* s, struct error* error) {
	struct backend* backend = s->engine->side;
	if (s->standalone->method->source == SOURCE_adapter)
		s->standalone->side = backend->cache_open(backend, s->cache->capacity, s->cache->type, error);
	return s->standalone->side || s->standalone->method->source != SOURCE_adapter;
}

static bool open_drafter(struct session* s, struct error* error) {
	struct standalone* m = s->standalone;
	const struct chain_setup chain = {.shape = shape_of(s),
	                                  .reuse = method_has_exit(m->method) && s->options.reuse,
	                                  .states = m->stop.rule == STOP_PROBE,
	                                  .logits = s->options.rejection,
	                                  .heads = m->exit_heads.heads ? &m->exit_heads : NULL,
	                                  .side = m->side};
	const struct drafter_setup setup = {.context = s->cache->capacity + 1,
	                                    .vocab = chain.shape->vocab,
	                                    .most = method_most(&s->options),
	                                    .chain = &chain};
	m->drafter = drafters[m->method->source];
	if (!drafter_set_open(&s->drafters, 1u << m->method->source, &setup))
		return error_set(error, "out of memory for the drafter of --method %s", m->method->name);
	m->state = s->drafters.state[m->method->source];
	m->chain = m->drafter->step ? m->state : NULL;
	return true;
}

static bool open_probe(struct session* s, struct error* error) {
	const struct probe_weights* given = &s->engine->probe;
	struct standalone* m = s->standalone;
	return m->stop.rule != STOP_PROBE ||
	       probe_start(&m->probe, m->chain ? shape_of(s)->dim : 1, m->chain ? given->weight : NULL,
	                   given->bias) ||
	       error_set(error, "out of memory for a probe");
}

static bool open_rejection(struct session* s, struct error* error) {
	struct standalone* m = s->standalone;
	const size_t vocab = (size_t)shape_of(s)->vocab;
	if (!s->options.rejection)
		return true;
	m->target_logits = malloc(SLICE_ROWS * vocab * sizeof *m->target_logits);
	m->distribution = malloc(4 * vocab * sizeof *m->distribution);
	return (m->target_logits && m->distribution) || error_set(error, "out of memory for rejection sampling");
}

static bool open_mask(struct session* s, struct error* error) {
	struct standalone* m = s->standalone;
	const int blocks = shape_of(s)->n_blocks;
	if (m->method->mask == MASK_UNIFORM || m->method->mask == MASK_PROGRAMMED)
		s->mask = uniform_mask(blocks, method_mask_size(s));
	if (m->method->mask != MASK_PROGRAMMED)
		return true;
	m->programming = malloc(layer_programming_bytes(shape_of(s)));
	return m->programming || error_set(error, "out of memory for dynamic programming");
}

bool standalone_open(struct session* s, struct error* error) {
	struct standalone* m = s->standalone = calloc(1, sizeof *m);
	if (!m)
		return error_set(error, "out of memory for a method");
	m->method = method_of(&s->options);
	exit_choice_open(&m->choice, shape_of(s)->n_blocks, standalone_given_exit(s));
	if (!open_heads(s, error) || !open_adapter(s, error))
		return false;
	set_stopper(s);
	return open_drafter(s, error) && open_probe(s, error) && open_rejection(s, error) && open_mask(s, error);
}

void standalone_close(struct standalone* m) {
	if (!m)
		return;
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

size_t session_method_bytes(const struct session* s) {
	const struct standalone* m = s->standalone;
	const size_t dim = (size_t)shape_of(s)->dim, vocab = (size_t)shape_of(s)->vocab;
	size_t bytes = s->drafts.any ? s->engine->draft_weights.table.bytes : 0;
	if (!m)
		return bytes;
	bytes += sizeof *m + (m->chain ? sizeof *m->chain + (MAX_DRAFT + 2) * dim * sizeof(float) : 0);
	if (m->method->source == SOURCE_adapter)
		bytes += s->engine->adapter.bytes + m->side->bytes;
	if (m->method->source == SOURCE_exit)
		bytes += s->engine->heads.bytes;
	const struct drafter_setup setup = {.vocab = shape_of(s)->vocab};
	if (m->drafter->bytes)
		bytes += m->drafter->bytes(&setup);
	if (m->distribution)
		bytes += (SLICE_ROWS + MAX_DRAFT + 4) * vocab * sizeof *m->distribution;
	if (m->programming)
		bytes += layer_programming_bytes(shape_of(s));
	return bytes + probe_bytes(&m->probe);
}

/* ---- a text --------------------------------------------------------------------------------- */

bool standalone_sees_prompt(const struct session* s) { return s->standalone && s->standalone->drafter->read; }

int standalone_keeps(const struct session* s, int kept) {
	const int seen = standalone_sees_prompt(s) ? s->standalone->drafter->seen(s->standalone->state) : kept;
	return seen < kept ? seen / PREFILL_CHUNK * PREFILL_CHUNK : kept;
}

void standalone_release(struct session* s) {
	if (standalone_sees_prompt(s) && s->again == 0)
		s->standalone->drafter->begin(s->standalone->state, &(struct drafter_text){.n_prompt = s->n_prompt});
}

bool standalone_begin(struct session* s, struct error* error) {
	struct standalone* m = s->standalone;
	if (m->method->mask == MASK_GIVEN && mask_count(&s->mask) == 0)
		return error_set(error,
		                 "--method %s drafts with a mask that was found before and none was given: swiftlet "
		                 "learn -i TEXTS.jsonl --save-mask FILE makes one, --mask FILE gives it",
		                 m->method->name);
	if (s->options.rejection && s->sampled && s->history.on)
		return error_set(error, "--acceptance rejection knows no penalties or biases: expected none");
	stop_begin(&m->stop);
	m->round = 0;
	m->choice.measured_at = 0;
	return true;
}

/* ---- a round --------------------------------------------------------------------------------- */

/* Under rejection drafts draw noise of their own, another each round. */
static const struct sampler* draft_sampler(struct session* s) {
	struct standalone* m = s->standalone;
	if (!s->sampled || !s->options.rejection)
		return s->sampled ? &s->sampler : NULL;
	m->sampler = s->sampler;
	m->sampler.seed = s->sampler.seed ^ (0xd1b54a32d192ed03u * (uint64_t)(m->round + 1));
	return &m->sampler;
}

static void start_chain(struct session* s) {
	struct standalone* m = s->standalone;
	const bool exits = method_has_exit(m->method);
	const struct segment segment = {.cache = s->cache,
	                                .base = s->cache->committed,
	                                .sampler = draft_sampler(s),
	                                .penalties = penalties_now(s)};
	chain_start(m->chain, s->text[s->n_text - 1], 2 * (exits ? m->choice.exit_block : shape_of(s)->n_blocks),
	            exits ? NULL : &s->mask, &segment);
}

void standalone_start(struct session* s) {
	struct standalone* m = s->standalone;
	tree_start(&s->planner.tree, s->text[s->n_text - 1]);
	m->why = "limit";
	m->limit = session_useful_depth(s, m->stop.most);
	if (s->log_probs.top > 0)
		m->limit = least(m->limit, LOGPROB_ROWS - 1);
	m->round++;
	if (m->chain)
		start_chain(s);
	if (m->stop.rule == STOP_GAIN)
		standalone_set_policy(s);
	stop_chain(&m->stop);
	m->next = m->chain && m->limit > 0 ? STANDALONE_STEP : STANDALONE_DONE;
	if (!m->chain)
		standalone_guess(s);
}

void standalone_fill(struct session* s, struct pass* pass) {
	struct standalone* m = s->standalone;
	if (m->next == STANDALONE_REST) {
		chain_rest_pass(m->chain, &s->planner.tree, pass);
		return;
	}
	m->drafter->step(m->state, pass);
}

static void charge_draft(struct session* s, double seconds) {
	const double cost = session_cost_of(s, seconds, 0);
	s->figures.seconds.draft += seconds;
	s->round_cost += cost;
	s->standalone->draft_cost += cost;
}

static void end_chain(struct session* s) {
	struct pass pass;
	standalone_build_tree(s);
	s->standalone->next =
	    chain_rest_pass(s->standalone->chain, &s->planner.tree, &pass) ? STANDALONE_REST : STANDALONE_DONE;
}

static void after_step(struct session* s) {
	struct standalone* m = s->standalone;
	const int at = m->chain->steps - 1;
	const struct result* step = &m->chain->result[at];
	m->chance[at] = standalone_step_chance(m);
	bool last = stop_after(&m->stop, m->chance[at], step->max_probability, &m->why);
	if (session_ends(s, step->token)) {
		last = true;
		m->why = "end";
	} else if (!last && m->chain->steps >= m->limit) {
		last = true;
		m->why = "limit";
	}
	if (last)
		end_chain(s);
}

void standalone_take(struct session* s, double seconds) {
	struct standalone* m = s->standalone;
	if (m->next == STANDALONE_REST) {
		s->figures.seconds.verify += seconds;
		s->round_cost += session_cost_of(s, seconds, 0);
		m->next = STANDALONE_DONE;
		return;
	}
	const int before = m->chain->steps;
	charge_draft(s, seconds);
	const double began = options_clock(&s->options);
	m->drafter->take(m->state);
	charge_draft(s, options_clock(&s->options) - began);
	if (m->chain->steps > before)
		after_step(s);
}

/* ---- verification --------------------------------------------------------------------------- */

void standalone_verify_pass(struct session* s, uint8_t wants, struct pass* pass) {
	struct standalone* m = s->standalone;
	const struct tree* tree = &s->planner.tree;
	if (s->options.rejection && s->sampled)
		wants |= WANT_LOGITS;
	for (int i = 0; m->target_logits && i < tree->n; i++)
		s->round.out[i].logits = m->target_logits + (size_t)i * (size_t)shape_of(s)->vocab;
	if (m->chain)
		chain_verify_pass(m->chain, &s->round, tree, wants, pass);
	else
		round_verify_pass(&s->round, tree, wants, pass);
}

static void reject_steps(struct session* s) {
	struct standalone* m = s->standalone;
	const struct tree* tree = &s->planner.tree;
	const size_t vocab = (size_t)shape_of(s)->vocab;
	const float* q[MAX_ROWS] = {NULL};
	const struct rejection rejection = {.vocab = (int)vocab,
	                                    .sampler = &s->sampler,
	                                    .p = m->distribution,
	                                    .q = m->distribution + vocab,
	                                    .scratch = m->distribution + 2 * vocab};
	for (int d = 0, row = 0; m->chain && row >= 0 && d < m->chain->steps; d++) {
		q[row] = m->chain->result[d].logits;
		row = tree_child(tree, row, m->chain->result[d].token);
	}
	tree_reject(tree, s->round.out, q, (uint64_t)s->cache->committed + 1, &rejection, &s->round.verdict);
	round_commit(&s->round);
}

void standalone_verdict(struct session* s) {
	if (s->options.rejection && s->sampled)
		reject_steps(s);
	else
		round_take_verify(&s->round);
}

void session_trace(const struct session* s, struct round_trace* out) {
	const struct standalone* m = s->standalone;
	*out = (struct round_trace){.round = s->figures.full_passes,
	                            .position = s->round.segment.base,
	                            .steps = m && m->chain ? m->chain->steps : 0,
	                            .step = m && m->chain ? m->chain->result : NULL,
	                            .why = m ? m->why : "planned",
	                            .tree = &s->planner.tree,
	                            .accepted = m ? m->accepted : s->round.verdict.accepted,
	                            .bonus = s->round.verdict.bonus};
}
