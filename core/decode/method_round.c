/* One round of a method, step by step; what it needs is opened once. */
#include "core/decode/method_round.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/decode/layer_programming.h"
#include "core/decode/session_state.h"
#include "core/draft/rejection.h"
#include "kernels/sample.h"

static int least(int a, int b) { return a < b ? a : b; }

static const struct model_shape* shape_of(const struct session* s) {
	return &s->engine->model->weights.shape;
}

static bool has_exit(const struct method_round* m) {
	return m->method->drafter == DRAFTS_EXIT || m->method->drafter == DRAFTS_ADAPTER;
}

static bool has_adapter(const struct method_round* m) { return m->method->drafter == DRAFTS_ADAPTER; }

/* A trained head stands in for the model's at this exit. */
static bool has_head(const struct session* s) {
	const struct method_round* m = s->method;
	return m->method->drafter == DRAFTS_EXIT && s->engine->heads.bytes > 0 &&
	       s->engine->heads.weight[m->span / 2];
}

/* What guesses, or NULL. */
static const struct drafter* guesser(const struct method_round* m) {
	return m->method->drafter == DRAFTS_GUESSES ? drafters[m->method->source] : NULL;
}

static bool needs_hidden(const struct session* s) {
	return has_adapter(s->method) || has_head(s) || s->method->stop.rule == STOP_PROBE;
}

/* ---- masks ---------------------------------------------------------------------------------- */

static struct mask uniform_mask(int blocks, int size) {
	struct mask mask = {.word = {0}};
	const int dims = 2 * (blocks - 2);
	for (int i = 0; i < size; i++)
		mask_set(&mask, 2 + (int)(((double)i + 0.5) * dims / size), true);
	return mask;
}

/* SWIFT's own ratio where none is given. */
int method_mask_size(const struct session* s) {
	const double ratio = s->options.skip_ratio > 0 ? s->options.skip_ratio : 0.45;
	const int size = (int)(ratio * 2 * (shape_of(s)->n_blocks - 2));
	return size > 1 ? size : 1;
}

static void start_mask(struct session* s) {
	const enum method_mask kind = s->method->method->mask;
	const int blocks = shape_of(s)->n_blocks;
	if (kind == MASK_UNIFORM || kind == MASK_PROGRAMMED)
		s->mask = uniform_mask(blocks, method_mask_size(s));
}

/* CLaSp after a verification: on the last committed token. */
static void program(struct session* s) {
	const int size = method_mask_size(s), at = s->cache->committed - 1;
	struct layer_programming spent;
	struct error error;
	const double began = options_clock(&s->options);
	if (layer_programming(s->engine->backend, s->cache, s->text + at, at, 1, size, s->method->programmed_mask,
	                      s->method->programming, &spent, &error))
		s->mask = s->method->programmed_mask[size];
	s->figures.seconds.optimize += options_clock(&s->options) - began;
}

/* ---- opening -------------------------------------------------------------------------------- */

static enum stop_rule rule_of(const struct swiftlet_options* o, const struct method* method) {
	return o->stop_rule == SWIFTLET_STOP_OWN ? method->stop : (enum stop_rule)(o->stop_rule - 1);
}

/* Kangaroo's eta and CLaSp's are their marginal rules'; another rule starts as AdaSPEED's. */
static void set_stopper(struct method_round* m, const struct swiftlet_options* o) {
	const struct method* method = m->method;
	const bool own = o->stop_rule == SWIFTLET_STOP_OWN;
	m->stop = (struct stopper){.rule = rule_of(o, method),
	                           .start = o->stop_threshold >= 0 ? (float)o->stop_threshold
	                                    : own                  ? method->threshold
	                                                           : 0.8f,
	                           .at_most = own && method->at_most,
	                           .adapts = (own ? method->adapts : true) && !o->stop_fixed,
	                           .target = 0.9f,
	                           .policy = &m->policy};
	m->stop.most = method_most(o);
	if (method->drafter == DRAFTS_EXIT && method->tree == TREE_CHAIN && m->stop.rule == STOP_FIXED &&
	    o->speculations == 0)
		m->stop.most = m->choice.steps;
}

static bool open_probe(struct session* s, struct error* error) {
	const struct probe_weights* given = &s->engine->probe;
	const bool guesses = guesser(s->method) != NULL;
	return probe_start(&s->method->probe, guesses ? 1 : shape_of(s)->dim, guesses ? NULL : given->weight,
	                   given->bias) ||
	       error_set(error, "out of memory for a probe");
}

struct backend* method_backend(const struct session* s, const struct cache* cache) {
	return has_adapter(s->method) && cache == s->method->side ? s->engine->side : s->engine->backend;
}

static bool open_side(struct session* s, struct error* error) {
	struct method_round* m = s->method;
	struct backend* backend = has_adapter(m) ? s->engine->side : s->engine->backend;
	const size_t dim = (size_t)shape_of(s)->dim;
	m->side = backend->cache_open(backend, has_adapter(m) ? s->cache->capacity : 1, s->cache->type, error);
	m->head_logits = malloc(3 * (size_t)shape_of(s)->vocab * sizeof *m->head_logits);
	m->behind = malloc((MAX_DRAFT + 2) * dim * sizeof *m->behind);
	m->side_in = malloc((MAX_DRAFT + 3) * dim * sizeof *m->side_in);
	m->prefill = malloc(PREFILL_CHUNK * dim * sizeof *m->prefill);
	return m->side && ((m->behind && m->side_in && m->prefill && m->head_logits) ||
	                   error_set(error, "out of memory for an adapter"));
}

static bool open_rejection(struct session* s, struct error* error) {
	struct method_round* m = s->method;
	const size_t vocab = (size_t)shape_of(s)->vocab;
	m->target_logits = malloc(SLICE_ROWS * vocab * sizeof *m->target_logits);
	m->draft_logits = malloc(MAX_DRAFT * vocab * sizeof *m->draft_logits);
	m->distribution = malloc(4 * vocab * sizeof *m->distribution);
	return (m->target_logits && m->draft_logits && m->distribution) ||
	       error_set(error, "out of memory for rejection sampling");
}

/* The exit that is given, or that a part was made for. */
static int given_exit(const struct session* s) {
	const struct engine* e = s->engine;
	if (s->method->method->drafter == DRAFTS_ADAPTER)
		return e->adapter.exit_block;
	return s->options.exit_block > 0 ? s->options.exit_block : e->probe.weight ? e->probe.exit_block : 0;
}

/* Exits by price are those that have a head, where there are heads. */
static void open_choice(struct session* s) {
	struct method_round* m = s->method;
	const int given = given_exit(s);
	exit_choice_open(&m->choice, shape_of(s)->n_blocks, given);
	if (given == 0 && m->method->drafter == DRAFTS_EXIT && s->engine->heads.bytes > 0)
		exit_choice_keep(&m->choice, &s->engine->heads);
}

static bool open_all(struct session* s, struct error* error) {
	struct method_round* m = s->method;
	const struct swiftlet_options* o = &s->options;
	const int blocks = shape_of(s)->n_blocks;
	const size_t dim = (size_t)shape_of(s)->dim;
	open_choice(s);
	set_stopper(m, o);
	m->span = has_exit(m) ? 2 * m->choice.exit_block : 2 * blocks;
	m->reuse = has_exit(m) && o->reuse;
	m->hidden = malloc((MAX_DRAFT + 2) * dim * sizeof *m->hidden);
	if (!m->hidden)
		return error_set(error, "out of memory for hidden states");
	if (m->stop.rule == STOP_PROBE && !open_probe(s, error))
		return false;
	if ((has_adapter(m) || s->engine->heads.bytes > 0) && !open_side(s, error))
		return false;
	if (o->rejection && !open_rejection(s, error))
		return false;
	if (m->method->mask == MASK_PROGRAMMED) {
		m->programming = malloc(layer_programming_bytes(shape_of(s)));
		m->programmed_mask = calloc(2 * (size_t)blocks, sizeof *m->programmed_mask);
		if (!m->programming || !m->programmed_mask)
			return error_set(error, "out of memory for dynamic programming");
	}
	start_mask(s);
	return true;
}

struct method_round* method_open(struct session* s, const struct method* method, struct error* error) {
	s->method = calloc(1, sizeof *s->method);
	if (!s->method) {
		error_set(error, "out of memory for %s", method->name);
		return NULL;
	}
	s->method->method = method;
	return open_all(s, error) ? s->method : NULL;
}

void method_close(struct method_round* m) {
	if (!m)
		return;
	if (m->side)
		m->side->backend->cache_close(m->side);
	free(m->hidden);
	free(m->behind);
	free(m->side_in);
	free(m->prefill);
	free(m->head_logits);
	probe_end(&m->probe);
	free(m->target_logits);
	free(m->draft_logits);
	free(m->distribution);
	free(m->programming);
	free(m->programmed_mask);
	free(m);
}

static size_t cache_bytes(const struct method_round* m) { return m->side ? m->side->bytes : 0; }

size_t session_method_bytes(const struct session* s) {
	const struct method_round* m = s->method;
	const size_t dim = (size_t)shape_of(s)->dim, vocab = (size_t)shape_of(s)->vocab;
	if (!m)
		return s->drafts.any ? s->engine->low.table.bytes : 0;
	size_t bytes = (s->drafts.any ? s->engine->low.table.bytes : 0) + sizeof *m +
	               (MAX_DRAFT + 2) * dim * sizeof *m->hidden;
	if (has_adapter(m))
		bytes += s->engine->adapter.bytes + cache_bytes(m);
	if (m->method->drafter == DRAFTS_EXIT)
		bytes += s->engine->heads.bytes;
	const struct drafter_setup setup = {.vocab = shape_of(s)->vocab};
	if (guesser(m) && guesser(m)->bytes)
		bytes += guesser(m)->bytes(&setup);
	if (m->distribution)
		bytes += (SLICE_ROWS + MAX_DRAFT + 4) * vocab * sizeof *m->distribution;
	if (m->method->mask == MASK_PROGRAMMED)
		bytes += layer_programming_bytes(shape_of(s));
	return bytes + probe_bytes(&m->probe);
}

/* ---- a text --------------------------------------------------------------------------------- */

int method_keeps(const struct session* s, int kept) {
	const struct method_round* m = s->method;
	return method_sees_prompt(s) && m->side->committed < kept
	           ? m->side->committed / PREFILL_CHUNK * PREFILL_CHUNK
	           : kept;
}

bool method_sees_prompt(const struct session* s) { return s->method && has_adapter(s->method); }

bool method_begin(struct session* s, int kept, struct error* error) {
	struct method_round* m = s->method;
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
	if (has_adapter(m)) {
		m->side->backend->truncate(m->side, kept);
		m->side->prompt_length = s->n_prompt;
	}
	m->n_behind = 0;
	return true;
}

bool method_taps(const struct session* s, int* tap, float** out) {
	const struct method_round* m = s->method;
	if (!method_sees_prompt(s))
		return false;
	*tap = m->span - 1;
	*out = m->prefill;
	return true;
}

/* Rows of the adapter from given states; only the last one's result is wanted, if any. */
static void side_pass(struct method_round* m, const float* state, int n, const uint8_t* want,
                      struct result* out, struct pass* pass) {
	const bool adapter = has_adapter(m);
	const int blocks = m->side->backend->weights->shape.n_blocks;
	m->side_segment =
	    (struct segment){.cache = m->side, .base = m->side->committed, .n = n, .sampler = m->segment.sampler};
	*pass = pass_over(&m->side_segment, NULL, NULL, adapter ? 3 : 2 * blocks, want, out);
	pass->state = state;
	pass->first = adapter ? 2 : 2 * blocks;
	pass->head = want[n - 1] != WANT_NOTHING;
	pass->bare_head = !adapter;
}

bool method_prefilled(struct session* s, int n, struct error* error) {
	struct method_round* m = s->method;
	struct pass pass;
	int32_t path[PREFILL_CHUNK];
	if (!method_sees_prompt(s))
		return true;
	memset(m->prefill_want, WANT_NOTHING, sizeof m->prefill_want);
	side_pass(m, m->prefill, n, m->prefill_want, s->result, &pass);
	for (int i = 0; i < n; i++)
		path[i] = i;
	struct backend* backend = method_backend(s, m->side);
	if (!backend->run(backend, &pass, error))
		return false;
	m->side->backend->commit(m->side, path, n);
	return true;
}

/* ---- drafting ------------------------------------------------------------------------------- */

/* Under rejection drafts draw noise of their own, another each round. */
static const struct sampler* draft_sampler(struct session* s) {
	struct method_round* m = s->method;
	if (!s->sampled || !s->options.rejection)
		return s->sampled ? &s->sampler : NULL;
	m->sampler = s->sampler;
	m->sampler.seed = s->sampler.seed ^ (0xd1b54a32d192ed03u * (uint64_t)(m->round + 1));
	return &m->sampler;
}

/* Under rejection what is drafted decides what is said, and one seed is to mean one text: prices are by bytes
 * then, not by the clock. */
static struct cost_model prices_of(const struct session* s) {
	return s->options.rejection ? cost_by_bytes(&s->engine->cost) : s->engine->cost;
}

/* Exits are measured once 17 tokens are there, and again when there are four times as many. */
static void choose_exit(struct session* s) {
	struct method_round* m = s->method;
	const int generated = s->n_text - s->n_prompt, n = least(generated, EXIT_ROWS + 1);
	struct error error;
	const bool by_children = m->method->tree == TREE_CHILDREN; /* and one step */
	const bool given =
	    given_exit(s) > 0 &&
	    (by_children ? s->options.children > 0 : s->options.speculations > 0 || m->stop.rule != STOP_FIXED);
	if (m->method->drafter != DRAFTS_EXIT || given || generated < 17 || generated < 4 * m->choice.measured_at)
		return;
	m->choice.measured_at = generated;
	const double began = options_clock(&s->options);
	const int from = s->n_text - n;
	const struct exit_heads heads = {.heads = &s->engine->heads,
	                                 .scratch = m->side,
	                                 .in = m->prefill ? m->prefill + EXIT_ROWS * (size_t)shape_of(s)->dim
	                                                  : NULL,
	                                 .logits = m->head_logits};
	if (exit_choice_measure(&m->choice, s->engine->backend, s->cache, s->text + from, from, n,
	                        s->sampled ? &s->sampler : NULL, m->side ? &heads : NULL, m->prefill, &error)) {
		const bool children = m->method->tree == TREE_CHILDREN;
		const struct cost_model cost = prices_of(s);
		exit_choice_make(&m->choice, &cost, m->reuse,
		                 m->stop.rule == STOP_FIXED ? s->options.speculations : 0,
		                 children ? s->options.children : -1, s->options.max_draft);
		m->span = 2 * m->choice.exit_block;
		if (m->stop.rule == STOP_FIXED && !children && s->options.speculations == 0)
			m->stop.most = m->choice.steps;
	}
	s->figures.seconds.optimize += options_clock(&s->options) - began;
}

/* The chance that the next step is right, and the least chance at which a further one pays, by depth. */
static void set_policy(struct session* s) {
	struct method_round* m = s->method;
	const struct cost_model cost = prices_of(s);
	const bool timed = !s->options.rejection;
	double right = 4, trials = 8;
	m->policy = (struct draft_policy){.max_steps = m->limit};
	for (int bin = 0; bin < DRAFT_BINS; bin++) {
		m->policy.accept[bin] = (m->right[bin] + 2 * ((float)bin + 0.5f) / DRAFT_BINS) / (m->trials[bin] + 2);
		right += (double)m->right[bin];
		trials += (double)m->trials[bin];
	}
	const double measured =
	    m->drafted > 7 && timed && !guesser(m)
	        ? m->draft_cost / (double)m->drafted
	        : cost_draft(&cost, states_variant(&s->drafts, &s->mask)) * m->span / (2 * shape_of(s)->n_blocks);
	const double c = guesser(m) ? 0 : measured;
	const double rate = m->cost > 16 && timed ? fmax(1, (double)m->tokens / m->cost) : 1;
	for (int d = 1; d <= MAX_DRAFT; d++)
		m->policy.min_reach[d] = (float)(rate * price_least_token(&cost, c, right / trials, d));
}

static int limit_of(const struct session* s) {
	const struct method_round* m = s->method;
	int limit = price_useful_depth(s, m->stop.most);
	if (s->log_probs.top > 0)
		limit = least(limit, LOGPROB_ROWS - 1);
	return limit;
}

static float guess_chance(const struct method_round* m, int depth) {
	return (m->depth_right[depth] + 1) / (m->depth_trials[depth] + 2);
}

/* Cuts a guessed chain where the stop rule says so; its chances are those of the depths. */
static void stop_guess(struct session* s) {
	struct method_round* m = s->method;
	struct tree* tree = &s->planner.tree;
	m->why = "steps";
	for (int row = 1; row < tree->n; row++) {
		const float chance = guess_chance(m, tree->depth[row]);
		tree->chance[row] = tree->chance[tree->parent[row]] * chance;
	}
	if (m->stop.rule == STOP_FIXED || m->method->tree == TREE_GUESSED)
		return;
	for (int row = 1; row < tree->n; row++) {
		const float chance = guess_chance(m, row);
		const float by =
		    m->stop.rule == STOP_PROBE && m->probe.known ? probe_chance(&m->probe, &chance) : chance;
		if (stop_after(&m->stop, by, chance, &m->why)) {
			tree_cut(tree, row + 1);
			return;
		}
	}
}

static void fill_guess(struct session* s) {
	struct method_round* m = s->method;
	int depth = price_useful_depth(s, MAX_DRAFT);
	if (s->log_probs.top > 0)
		depth = m->method->tree == TREE_GUESSED ? 0 : least(depth, LOGPROB_ROWS - 1);
	guesser(m)->grow(s->drafters.state[m->method->source], &s->planner.tree, depth);
	if (s->options.rejection && s->planner.tree.n > SLICE_ROWS)
		tree_cut(&s->planner.tree, SLICE_ROWS);
	stop_guess(s);
}

/* Drafting took that long. */
void method_charge(struct session* s, double seconds) {
	const double plain = cost_plain_seconds(&s->engine->cost) * price_unit(s);
	const double cost = plain > 0 ? seconds / plain : 0;
	s->figures.seconds.draft += seconds;
	s->round_cost += cost;
	s->method->draft_cost += cost;
}

/* ---- a round --------------------------------------------------------------------------------- */

void method_start(struct session* s) {
	struct method_round* m = s->method;
	if (m->method->mask == MASK_PROGRAMMED && s->n_text > s->n_prompt + 1)
		program(s);
	choose_exit(s);
	tree_start(&s->planner.tree, s->text[s->n_text - 1]);
	m->steps = m->rows = m->side_rows = 0;
	m->reused = false;
	m->why = "limit";
	m->limit = limit_of(s);
	m->round++;
	m->segment = (struct segment){.cache = s->cache,
	                              .base = s->cache->committed,
	                              .sampler = draft_sampler(s),
	                              .penalties = penalties_now(s)};
	if (m->stop.rule == STOP_GAIN)
		set_policy(s);
	stop_chain(&m->stop);
	m->next = !guesser(m) && m->limit > 0 ? STEP_MODEL : STEP_NONE;
	if (guesser(m))
		fill_guess(s);
}

bool method_goes_on(const struct session* s) { return s->method->next != STEP_NONE; }

static uint8_t draft_wants(const struct session* s) {
	return (uint8_t)(WANT_TOKEN | WANT_TOP | (s->options.rejection ? WANT_LOGITS : 0));
}

static void ask(const struct session* s, struct result* out, uint8_t* want) {
	const struct method_round* m = s->method;
	*want = draft_wants(s);
	out->top = TREE_RANKS;
	out->logits =
	    m->draft_logits ? m->draft_logits + (size_t)m->steps * (size_t)shape_of(s)->vocab : m->head_logits;
	/* a head's pass knows no positions: its sampler's noise comes after it */
	if (has_head(s) && m->segment.sampler)
		*want |= WANT_LOGITS;
}

/* The next row of the chain, up to the span. */
static void model_pass(struct session* s, struct pass* pass) {
	struct method_round* m = s->method;
	const int row = m->rows;
	const bool head = !has_adapter(m) && !has_head(s);
	m->token[row] = row == 0 ? s->text[s->n_text - 1] : m->result[row - 1].token;
	m->parent[row] = row - 1;
	m->segment.n = 1;
	ask(s, &m->result[m->steps], &m->want[m->steps]);
	*pass = pass_over(&m->segment, &m->token[row], &m->parent[row], m->span, &m->want[m->steps],
	                  &m->result[m->steps]);
	pass->skip = m->method->drafter == DRAFTS_MASK ? &s->mask : NULL;
	pass->head = head;
	pass->tap = needs_hidden(s) ? m->span - 1 : -1;
	pass->tap_out = m->hidden + (size_t)row * (size_t)shape_of(s)->dim;
	if (m->method->drafter == DRAFTS_MASK) {
		pass->low = states_low(&s->drafts);
		pass->low_head = s->drafts.head;
	}
}

/* The states that the adapter has not seen, and the new row's; or that under its trained head. */
static void adapter_pass(struct session* s, struct pass* pass) {
	struct method_round* m = s->method;
	const size_t dim = (size_t)shape_of(s)->dim;
	const float* last = m->hidden + (size_t)(m->rows - 1) * dim;
	int n = 0;
	if (!has_adapter(m)) {
		heads_apply(&s->engine->heads, m->span / 2, last, m->side_in);
		m->side->backend->discard(m->side);
	} else {
		if (m->side_rows == 0) {
			memcpy(m->side_in, m->behind, (size_t)m->n_behind * dim * sizeof *m->side_in);
			n = m->n_behind;
		}
		memcpy(m->side_in + (size_t)n * dim, last, dim * sizeof *m->side_in);
	}
	memset(m->side_want, WANT_NOTHING, (size_t)n);
	ask(s, &m->side_result[n], &m->side_want[n]);
	side_pass(m, m->side_in, n + 1, m->side_want, m->side_result, pass);
	/* rows of a round form one chain */
	for (int i = 0; i <= n; i++)
		m->side_parent[i] = has_adapter(m) ? m->side_rows + i - 1 : -1;
	pass->parent = m->side_parent;
}

/* Rows of the tree that have not run up to the span. */
static int rest_rows(struct session* s) {
	struct method_round* m = s->method;
	const struct tree* tree = &s->planner.tree;
	int n = 0;
	m->pending[0] = 0;
	for (int row = 1; row < tree->n; row++) {
		const int depth = tree->depth[row], above = m->pending[tree->parent[row]];
		if (tree->rank[row] == 0 && depth < m->rows && above == depth - 1) {
			m->pending[row] = depth;
			continue;
		}
		const int at = m->rows + n++;
		m->pending[row] = at;
		m->token[at] = tree->token[row];
		m->parent[at] = above;
	}
	return n;
}

static void rest_pass(struct session* s, struct pass* pass) {
	struct method_round* m = s->method;
	const int n = rest_rows(s);
	m->segment.n = n;
	*pass = pass_over(&m->segment, m->token + m->rows, m->parent + m->rows, m->span, NULL, NULL);
	pass->tap = has_adapter(m) ? m->span - 1 : -1;
	pass->tap_out = m->hidden + (size_t)m->rows * (size_t)shape_of(s)->dim;
}

void method_fill(struct session* s, struct pass* pass) {
	switch (s->method->next) {
	case STEP_MODEL:
		model_pass(s, pass);
		return;
	case STEP_SIDE:
		adapter_pass(s, pass);
		return;
	default:
		rest_pass(s, pass);
	}
}

/* ---- the tree ------------------------------------------------------------------------------- */

static int width_of(const struct session* s, const struct result* step) {
	const struct method_round* m = s->method;
	int width = 1;
	if (m->method->tree == TREE_CHILDREN)
		width = s->options.children > 0 ? s->options.children : m->choice.children;
	else if (m->method->tree == TREE_WIDE)
		width = tree_width(method_top_k(&s->options, s->sampled), step->max_probability);
	return least(width, step->top);
}

/* Each step's token, and beside it its alternatives in the order in which they were drawn. */
static void build_tree(struct session* s) {
	struct method_round* m = s->method;
	struct tree* tree = &s->planner.tree;
	const int most = s->log_probs.top > 0 ? LOGPROB_ROWS : SLICE_ROWS;
	/* a chain that fits comes first: alternatives take what it leaves */
	int left = most - 1 - m->steps;
	for (int d = 0, at = 0; d < m->steps; d++) {
		const struct result* step = &m->result[d];
		const int more = least(width_of(s, step) - 1, left > 0 ? left : 0);
		const float above = tree->chance[at];
		int chain = 0;
		for (int rank = 0; rank <= more; rank++) {
			const float chance = rank == 0 ? m->chance[d] : (1 - m->chance[d]) / (float)(2 << rank);
			const int row = tree_add(tree, at, step->top_token[rank], 0, rank, above * chance);
			chain = rank == 0 ? row : chain;
		}
		left -= more;
		at = chain;
	}
}

static float chance_of(const struct session* s, const struct result* step) {
	const struct method_round* m = s->method;
	const struct probe* p = &m->probe;
	const size_t dim = (size_t)shape_of(s)->dim;
	if (m->stop.rule == STOP_PROBE && p->known)
		return probe_chance(p, m->hidden + (size_t)m->steps * dim);
	return m->stop.rule == STOP_PRODUCT || m->stop.rule == STOP_PROBE ? step->top_probability[0]
	                                                                  : step->max_probability;
}

static void end_chain(struct session* s) {
	struct method_round* m = s->method;
	build_tree(s);
	m->next = m->reuse && rest_rows(s) > 0 ? STEP_REST : STEP_NONE;
}

static void after_step(struct session* s) {
	struct method_round* m = s->method;
	const struct result* step = &m->result[m->steps];
	const float chance = chance_of(s, step);
	m->chance[m->steps] = chance;
	m->steps++;
	bool last = stop_after(&m->stop, chance, step->max_probability, &m->why);
	if (session_ends(s, step->token)) {
		last = true;
		m->why = "end";
	} else if (!last && m->steps >= m->limit) {
		last = true;
		m->why = "limit";
	}
	if (last)
		end_chain(s);
	else
		m->next = STEP_MODEL;
}

/* What a trained classifier says of the row that has just run up to it. */
static void classify(struct session* s) {
	struct method_round* m = s->method;
	const size_t vocab = (size_t)shape_of(s)->vocab;
	const float* state = m->hidden + (size_t)(m->rows - 1) * (size_t)shape_of(s)->dim;
	struct result* r = &m->result[m->steps];
	const double began = options_clock(&s->options);
	heads_apply(&s->engine->heads, m->span / 2, state, r->logits);
	const bool finite =
	    result_from_logits(r, WANT_TOKEN | WANT_TOP, r->logits, (int)vocab, m->segment.sampler,
	                       (uint64_t)(s->cache->committed + m->steps + 1), m->head_logits + vocab);
	method_charge(s, options_clock(&s->options) - began);
	if (finite)
		after_step(s);
	else
		end_chain(s);
}

void method_take(struct session* s) {
	struct method_round* m = s->method;
	switch (m->next) {
	case STEP_MODEL:
		m->rows++;
		if (has_head(s) && heads_classify(&s->engine->heads, m->span / 2))
			classify(s);
		else if (has_adapter(m) || has_head(s))
			m->next = STEP_SIDE;
		else
			after_step(s);
		return;
	case STEP_SIDE: {
		const int n = has_adapter(m) && m->side_rows == 0 ? m->n_behind : 0;
		m->result[m->steps] = m->side_result[n];
		if (!has_adapter(m) && m->segment.sampler) {
			const size_t vocab = (size_t)shape_of(s)->vocab;
			struct result* r = &m->result[m->steps];
			result_from_logits(r, WANT_TOKEN | WANT_TOP, r->logits, (int)vocab, m->segment.sampler,
			                   (uint64_t)(s->cache->committed + m->steps + 1), m->head_logits + vocab);
		}
		m->side_rows += n + 1;
		after_step(s);
		return;
	}
	default:
		m->next = STEP_NONE;
	}
}

/* ---- verification --------------------------------------------------------------------------- */

void method_verify_pass(struct session* s, uint8_t wants, struct pass* pass) {
	struct method_round* m = s->method;
	struct round* round = &s->round;
	const struct tree* tree = &s->planner.tree;
	const int blocks = shape_of(s)->n_blocks;
	if (s->options.rejection && s->sampled)
		wants |= WANT_LOGITS;
	for (int i = 0; m->target_logits && i < tree->n; i++)
		round->out[i].logits = m->target_logits + (size_t)i * (size_t)shape_of(s)->vocab;
	m->reused = m->reuse && m->steps > 0 && s->cache->backend->rewind(s->cache, m->span);
	if (m->reused) {
		rest_rows(s);
		round_rest_pass(round, tree, m->pending, m->span, blocks, wants, pass);
		return;
	}
	round_verify_pass(round, tree, blocks, wants, pass);
	if (has_adapter(m)) {
		pass->tap = m->span - 1;
		pass->tap_out = m->hidden;
	}
}

double method_rest_share(const struct session* s) {
	double attention, mlp, fixed;
	cost_sub_layers(&s->engine->cost, false, &attention, &mlp, &fixed);
	const int blocks = shape_of(s)->n_blocks;
	const double rest = (blocks - s->method->span / 2) * (attention + mlp) + fixed;
	return rest / (blocks * (attention + mlp) + fixed);
}

static void reject(struct session* s) {
	struct method_round* m = s->method;
	const struct tree* tree = &s->planner.tree;
	const size_t vocab = (size_t)shape_of(s)->vocab;
	const float* q[MAX_ROWS] = {NULL};
	const struct rejection rejection = {.vocab = (int)vocab,
	                                    .sampler = &s->sampler,
	                                    .p = m->distribution,
	                                    .q = m->distribution + vocab,
	                                    .scratch = m->distribution + 2 * vocab};
	for (int d = 0, row = 0; row >= 0 && d < m->steps; d++) {
		q[row] = m->result[d].logits;
		row = tree_child(tree, row, m->result[d].token);
	}
	tree_reject(tree, s->round.out, q, (uint64_t)s->cache->committed + 1, &rejection, &s->round.verdict);
	round_commit(&s->round);
}

void method_verdict(struct session* s) {
	if (s->options.rejection && s->sampled)
		reject(s);
	else
		round_take_verify(&s->round);
}

/* ---- learning ------------------------------------------------------------------------------- */

static void fit_probe(struct session* s) {
	if (!probe_is_due(&s->method->probe))
		return;
	const double began = options_clock(&s->options);
	probe_fit(&s->method->probe);
	s->figures.seconds.optimize += options_clock(&s->options) - began;
}

static void see_step(float* right, float* trials, bool was_right) {
	const float keep = 0.995f;
	*right = *right * keep + (was_right ? 1.0f : 0.0f);
	*trials = *trials * keep + 1;
}

/* What the target said of each step whose path was its own. */
static void learn_steps(struct session* s) {
	struct method_round* m = s->method;
	const struct tree* tree = &s->planner.tree;
	const struct verdict* v = &s->round.verdict;
	const size_t dim = (size_t)shape_of(s)->dim;
	for (int d = 0, row = 0; d < m->steps && d <= v->accepted; d++) {
		const int chain = tree_child(tree, row, m->result[d].token);
		const bool right = d < v->accepted && v->path[d + 1] == chain;
		const int bin = draft_bin(m->result[d].max_probability);
		see_step(&m->right[bin], &m->trials[bin], right);
		if (m->stop.rule == STOP_PROBE)
			probe_see(&m->probe, m->hidden + (size_t)d * dim, right);
		if (!right)
			break;
		row = chain;
	}
}

static void learn_guess(struct session* s) {
	struct method_round* m = s->method;
	const struct tree* tree = &s->planner.tree;
	const struct verdict* v = &s->round.verdict;
	const int deepest = m->method->tree == TREE_GUESSED ? m->method->most : tree->n - 1;
	for (int d = 1; d <= deepest && d <= v->accepted + 1; d++) {
		const float chance = guess_chance(m, d);
		see_step(&m->depth_right[d], &m->depth_trials[d], d <= v->accepted);
		see_step(&m->right[draft_bin(chance)], &m->trials[draft_bin(chance)], d <= v->accepted);
		if (m->stop.rule == STOP_PROBE)
			probe_see(&m->probe, &chance, d <= v->accepted);
	}
	drafter_set_see(&s->drafters, tree, v, s->round.out);
}

/* The adapter keeps what it has seen of the path; the rest of it comes first next time. The tree is a chain.
 */
static void commit_side(struct session* s) {
	struct method_round* m = s->method;
	const size_t dim = (size_t)shape_of(s)->dim, bytes = dim * sizeof *m->behind;
	const int path_rows = s->round.verdict.accepted + 1, seen = least(path_rows, m->steps);
	int32_t path[MAX_DRAFT + MAX_DRAFT + 2];
	if (m->side_rows > 0) {
		for (int i = 0; i < m->n_behind + seen; i++)
			path[i] = i;
		m->side->backend->commit(m->side, path, m->n_behind + seen);
		m->n_behind = 0;
	}
	for (int i = seen; i < path_rows; i++)
		memcpy(m->behind + (size_t)m->n_behind++ * dim, m->hidden + (size_t)i * dim, bytes);
}

void method_learn(struct session* s, int emitted, int accepted) {
	struct method_round* m = s->method;
	const int drafted = guesser(m) ? s->planner.tree.depth[s->planner.tree.n - 1] : m->steps;
	s->figures.draft_steps += drafted;
	s->figures.draft_accepted += accepted;
	s->figures.exit_block = has_exit(m) ? m->span / 2 : 0;
	m->accepted = accepted;
	m->drafted += m->steps;
	m->tokens += emitted;
	m->cost += s->round_cost;
	stop_learn(&m->stop, drafted, accepted);
	if (guesser(m))
		learn_guess(s);
	else
		learn_steps(s);
	if (has_adapter(m))
		commit_side(s);
	if (m->stop.rule == STOP_PROBE)
		fit_probe(s);
}

void method_trace(const struct session* s, struct round_trace* out) {
	const struct method_round* m = s->method;
	*out = (struct round_trace){.round = s->figures.full_passes,
	                            .position = s->round.segment.base,
	                            .steps = m ? m->steps : 0,
	                            .step = m ? m->result : NULL,
	                            .why = m ? m->why : "planned",
	                            .tree = &s->planner.tree,
	                            .accepted = m ? m->accepted : s->round.verdict.accepted,
	                            .bonus = s->round.verdict.bonus};
}
