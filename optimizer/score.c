/* Scoring proposals: the window of generated text, and matchness in one parallel pass.
 *
 * Matchness is the share of the window's tokens that the model without the mask's sub-layers predicts. As
 * published (SWIFT Eq. 3 and 4) keys and values before the window are the target's, inside it the draft's:
 * the pass runs with base = the window's start while later tokens are committed behind it, and its rows are
 * discarded. A draft is seldom that long: by default each row is a segment of its own that sees the target's
 * keys and values of all tokens before it, as a round's first draft step does. Masks that were chosen so are
 * better by far on real models (bench search).
 *
 * What a mask is judged by is the log-probability that it gives to the text, beside its hits. */
#include "optimizer/optimizer_state.h"

#include <math.h>
#include <string.h>

void optimizer_adopt_best(struct optimizer* o) {
	double matchness = NAN;
	const struct mask best = search_best(o->search, &matchness);
	session_adopt(o->session, &best, matchness);
}

void optimizer_charge(struct optimizer* o, double seconds) {
	struct session* s = o->session;
	const double plain = cost_plain_seconds(&s->engine->cost);
	if (s->phase == PHASE_IDLE)
		return;
	s->figures.seconds.optimize += seconds;
	if (plain > 0)
		budget_learn(s->budget, seconds / plain / session_cost_unit(s));
}

static double now(const struct optimizer* o) { return options_clock(&o->session->options); }

/* To be called while the text is still the one before. */
void score_new_instance(struct optimizer* o) {
	const struct session* s = o->session;
	const int generated = s->n_text - s->n_prompt;
	if (generated > 0)
		o->window.usual += (generated - o->window.usual) * (o->window.usual > 0 ? 0.125 : 1);
	o->window.size = 0;
}

/* Whether a window may cost what it likes: under an unlimited budget, or while no request waits. */
static bool is_free(const struct session* s) {
	return isinf(s->options.opt_budget) || s->phase == PHASE_IDLE;
}

/* While no request waits: all that was generated, in windows as long as they may be. */
static int long_window(const struct optimizer* o) {
	enum { IDLE_ROWS = 64 };
	const struct session* s = o->session;
	const int generated = s->n_text - s->n_prompt - 1;
	const int most = s->options.window > IDLE_ROWS ? s->options.window : IDLE_ROWS;
	const int rows = generated < most ? generated : most;
	return rows > s->options.window_min ? rows : s->options.window_min;
}

/* Rows of a window: gamma, but where texts are short no more than the usual one leaves time to score on; and
 * where rows are dear only as many as make a row a quarter cheaper with each doubling: more would tell little
 * that another proposal's first rows would not. */
static int window_rows(const struct optimizer* o) {
	const struct session* s = o->session;
	const struct cost_model* cost = &s->engine->cost;
	int rows = s->options.window;
	if (s->options.published)
		return rows;
	if (s->phase == PHASE_IDLE)
		return long_window(o);
	const double most = s->end - s->n_prompt, usual = o->window.usual;
	while (rows / 2 >= s->options.window_min && rows > 0.75 * (usual > 0 ? fmin(usual, most) : most))
		rows /= 2;
	if (is_free(s))
		return rows;
	while (rows / 2 >= s->options.window_min &&
	       cost_verify(cost, rows) / rows > 0.75 * cost_verify(cost, rows / 2) / (rows / 2))
		rows /= 2;
	return rows;
}

/* The window's place among the generated tokens: their last ones, or as published their first. While no
 * request waits nothing newer comes, and the windows before are gone through in turn. */
static int window_start(const struct optimizer* o, int generated, int rows) {
	const struct session* s = o->session;
	if (s->options.published)
		return 0;
	const int last = generated - rows;
	if (s->phase != PHASE_IDLE)
		return last;
	const int places = last / rows;
	return places > 0 ? last - (int)((o->window.id + 1) % (places + 1)) * rows : last;
}

/* Moves the window when as many newer tokens exist. On a budget it stays until it has been used: a move makes
 * the best mask be scored again. */
static void move_window(struct optimizer* o) {
	const struct session* s = o->session;
	struct window* w = &o->window;
	const int generated = s->n_text - s->n_prompt, rows = window_rows(o);
	if (generated < rows + 1)
		return;
	if (w->size > 0) {
		const bool used = w->scored >= SEARCH_SPANS;
		const bool newer = generated - (w->start + w->size) >= rows;
		if (s->options.published || !(s->phase == PHASE_IDLE ? used : newer && (used || is_free(s))))
			return;
	}
	const int start = window_start(o, generated, rows);
	if (w->size == rows && w->start == start)
		return; /* there is no other */
	w->id++;
	w->start = start;
	w->size = rows;
	w->base = s->n_prompt + w->start - 1;
	w->scored = 0;
	const double began = now(o);
	search_window(o->search, w->id, rows);
	optimizer_charge(o, now(o) - began);
}

/* Whether masks may come to pay here beside what drafts now: the best so far, mended by what searching on may
 * bring; before any score one of half of the sub-layers that keeps what published masks of large models keep
 * (SWIFT section 3.2.1 and Figure 2 (a): over 90 % of drafted tokens are accepted). Where rows are dear none
 * does, and windows are dear, too. */
static bool may_pay(const struct optimizer* o) {
	static const double published = 0.9;
	const struct session* s = o->session;
	const struct cost_model* cost = &s->engine->cost;
	if (s->options.draft != SWIFTLET_DRAFT_AUTO || s->options.published)
		return true;
	if (search_hopeless(o->search))
		return false;
	double matchness = search_hope(o->search), c = INFINITY;
	const struct states states = session_states(s, &s->mask);
	if (mask_count(&s->mask) > 0 || states.any)
		c = cost_draft(cost, states_variant(&states, &s->mask));
	if (isnan(matchness)) {
		double attention, mlp, fixed;
		cost_sub_layers(cost, false, NULL, &attention, &mlp, &fixed);
		c = fmin(c, 0.5 * s->engine->model->weights.shape.n_blocks * (attention + mlp) + fixed);
		matchness = published;
	}
	return chain_rate_now(cost, s->options.max_draft, matchness, c) > (double)planner_rate(&s->planner);
}

static bool is_affordable(const struct optimizer* o) {
	const struct session* s = o->session;
	if (is_free(s))
		return true;
	const struct cost_model* cost = &s->engine->cost;
	/* the others' tokens would wait for it */
	if (s->batch.sequences > 0 || s->batch.hurried || cost_plain_seconds(cost) <= 0 || !may_pay(o))
		return false;
	const struct mask none = {.word = {0}};
	const double pass = cost_matchness(cost, (struct variant){.skip = &none}, o->window.size);
	return budget_allows_learning(s->budget, pass / session_cost_unit(s));
}

bool score_begin(struct learner* learner) {
	struct optimizer* o = (struct optimizer*)learner;
	struct session* s = o->session;
	struct window* w = &o->window;
	if (!s->options.search || (search_state(o->search) != SEARCH_RUNNING && !search_waits(o->search)))
		return false;
	search_spend(o->search, is_free(s));
	if (search_spares(o->search))
		return false;
	move_window(o);
	if (w->size == 0 || !is_affordable(o))
		return false;
	const double began = now(o);
	const bool proposed = search_propose(o->search, &w->proposal);
	optimizer_charge(o, now(o) - began);
	if (!proposed)
		return false;
	o->scored = (struct states){.head = false};
	if (search_has_draft_weights(o->search))
		o->scored = session_states(s, &w->proposal.mask);
	return true;
}

/* ---- scores ------------------------------------------------------------------------------- */

/* n rows of the text from the token at `base` on, as the mask drafts them: each one a segment of its own
 * where there are `segment` (n), else as published a chain, whose rows see the draft's keys and values of
 * those before. */
static struct pass scoring_pass(struct session* s, const struct mask* mask, const struct states* states,
                                int base, int n, int32_t* parent, struct segment* segment) {
	for (int i = 0; i < n; i++) {
		parent[i] = segment ? -1 : i - 1;
		s->want[i] = segment ? WANT_TOKEN | WANT_TOP : WANT_TOKEN;
		s->result[i].top = MAX_TOP;
		if (segment)
			segment[i] = (struct segment){.cache = s->cache, .base = base + i, .n = 1};
	}
	s->segment = (struct segment){.cache = s->cache, .base = base, .n = n};
	struct pass pass = pass_over(&s->segment, s->text + base, parent,
	                             2 * s->engine->model->weights.shape.n_blocks, s->want, s->result);
	if (segment) {
		pass.segment = segment;
		pass.n_segments = n;
	}
	pass.skip = mask;
	pass.quantized = states_quantized(states);
	pass.quantized_head = states->head;
	pass.levels = states_levels(states);
	pass.head = true;
	return pass;
}

static int count_matches(const struct session* s, int base, int n) {
	int matches = 0;
	for (int i = 0; i < n; i++)
		matches += s->result[i].token == s->text[base + i + 1];
	return matches;
}

void score_fill(struct learner* learner, struct pass* pass) {
	struct optimizer* o = (struct optimizer*)learner;
	struct session* s = o->session;
	struct window* w = &o->window;
	*pass = scoring_pass(s, &w->proposal.mask, &o->scored, w->base, w->size, o->row_parent,
	                     s->options.published ? NULL : o->segment);
}

bool score_take(struct learner* learner, const struct pass* pass, double seconds) {
	struct optimizer* o = (struct optimizer*)learner;
	struct session* s = o->session;
	struct window* w = &o->window;
	optimizer_charge(o, seconds);
	if (s->phase != PHASE_IDLE)
		cost_see_score(&s->engine->cost, states_variant(&o->scored, &w->proposal.mask), pass->n, seconds);
	const int32_t* truth = s->text + w->base + 1;
	double sum = s->options.published ? NAN : 0; /* as published no probabilities were wanted */
	for (int i = 0; i < w->size && !s->options.published; i++)
		sum += search_log_probability(result_probability(&s->result[i], truth[i]));
	s->cache->backend->discard(s->cache);
	w->proposal.log_probability = sum / w->size;
	const double began = now(o);
	search_observe(o->search, &w->proposal, count_matches(s, w->base, w->size), w->size);
	optimizer_charge(o, now(o) - began);
	w->scored++;
	s->figures.optimize_steps += w->proposal.step > 0;
	optimizer_adopt_best(o);
	return true;
}

/* ---- judging ------------------------------------------------------------------------------ */

/* One window of the text at hand, by matchness as published: the draft's own keys inside the window. It says
 * what a mask keeps as a chain goes on; the search's scores above say what a first step keeps. */
static bool judge_window(struct session* s, const struct mask* mask, int base, int n, int* matches,
                         struct error* error) {
	int32_t parent[MAX_ROWS];
	const struct states states = session_states(s, mask);
	const struct pass pass = scoring_pass(s, mask, &states, base, n, parent, NULL);
	struct backend* backend = s->engine->backend;
	if (!backend->run(backend, &pass, error))
		return false;
	backend->discard(s->cache);
	*matches += count_matches(s, base, n);
	return true;
}

bool session_judge(struct session* s, const struct mask* mask, int* matches, int* rows, struct error* error) {
	*matches = *rows = 0;
	const struct model_shape* shape = &s->engine->model->weights.shape;
	if (s->phase != PHASE_DONE || s->cache->committed < s->n_text - 1 ||
	    attention_blocks(shape) < shape->n_blocks) /* windows begin where there is no state */
		return true;
	const int window = s->options.window;
	for (int base = s->n_prompt - 1; base + window < s->n_text; base += window) {
		if (!judge_window(s, mask, base, window, matches, error))
			return false;
		*rows += window;
	}
	return true;
}
