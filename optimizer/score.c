/* Scores proposals: the window of generated text, and matchness in one parallel pass.
 *
 * Matchness is the share of the window's tokens that the model without the mask's sub-layers predicts. As
 * published (SWIFT Eq. 3 and 4), keys and values before the window are the target's, and inside it the
 * draft's: the pass runs with base = the window's start while later tokens are committed behind it, and its
 * rows are discarded. A draft is seldom that long. By default each row is a segment of its own that sees the
 * target's keys and values of all tokens before it, as a round's first draft step does. Masks chosen this way
 * are much better on real models (bench search).
 *
 * The log-probability that a mask gives to the text counts beside its hits. */
#include "optimizer/optimizer_state.h"

#include <math.h>
#include <stdlib.h>

#include "core/decode/cost.h"

void optimizer_adopt_best(struct optimizer* o) {
	double matchness = NAN;
	const struct mask best = search_best(o->search, &matchness);
	session_adopt(o->session, &best, matchness);
}

static double clock_now(const struct optimizer* o) { return options_clock(session_options(o->session)); }

static void charge_since(struct optimizer* o, double began) {
	session_charge_learning(o->session, clock_now(o) - began);
}

/* Call while the text is still the previous one. */
void score_new_instance(struct optimizer* o) {
	const struct learner_view view = session_learning(o->session);
	const int generated = view.n_text - view.n_prompt;
	if (generated > 0)
		o->window.usual += (generated - o->window.usual) * (o->window.usual > 0 ? 0.125 : 1);
	o->window.size = 0;
}

/* True when a window may cost any amount: with an unlimited budget, or while no request waits. */
static bool is_free(const struct learner_view* v) { return isinf(v->options->learning.budget) || v->idle; }

/* While idle, all generated text is used, in the longest possible windows. */
static int count_idle_rows(const struct learner_view* v) {
	enum { IDLE_ROWS = 64 };
	const int generated = v->n_text - v->n_prompt - 1;
	const int most = v->options->learning.window > IDLE_ROWS ? v->options->learning.window : IDLE_ROWS;
	const int rows = generated < most ? generated : most;
	return rows > v->options->learning.window_min ? rows : v->options->learning.window_min;
}

/* Rows of a window: gamma. Short texts get fewer rows, so that time is left for scoring. If rows are
 * expensive, the window has as many as make a row a quarter cheaper with each doubling: more rows would teach
 * less than the first ones of another proposal. */
static int choose_rows(const struct optimizer* o, const struct learner_view* v) {
	const struct cost_model* cost = &v->engine->cost;
	const int least = v->options->learning.window_min;
	int rows = v->options->learning.window;
	if (v->options->learning.published)
		return rows;
	if (v->idle)
		return count_idle_rows(v);
	const double most = v->end - v->n_prompt, usual = o->window.usual;
	while (rows / 2 >= least && rows > 0.75 * (usual > 0 ? fmin(usual, most) : most))
		rows /= 2;
	while (!is_free(v) && rows / 2 >= least &&
	       cost_verify(cost, rows) / rows > 0.75 * cost_verify(cost, rows / 2) / (rows / 2))
		rows /= 2;
	return rows;
}

/* The window's place in the generated text: the last tokens, or as published the first ones. While idle
 * nothing newer comes, so earlier windows are used in turn. */
static int choose_start(const struct optimizer* o, const struct learner_view* v, int generated, int rows) {
	const int last = generated - rows, places = last / rows;
	if (v->options->learning.published)
		return 0;
	return v->idle && places > 0 ? last - (int)((o->window.id + 1) % (places + 1)) * rows : last;
}

/* Moves the window once there are as many newer tokens. With a budget it stays until it was used, because
 * after a move the best levels are scored again. */
static void move_window(struct optimizer* o, const struct learner_view* v) {
	struct window* w = &o->window;
	const int generated = v->n_text - v->n_prompt, rows = choose_rows(o, v);
	if (generated < rows + 1)
		return;
	/* a short window of a busy time proves little, and one that all rows of a mask match ends the search */
	const bool short_one = v->idle && w->size < rows;
	if (w->size > 0 && !short_one) {
		const bool used = w->scored >= SEARCH_ON_A_WINDOW;
		const bool newer = generated - (w->start + w->size) >= rows;
		if (v->options->learning.published || !(v->idle ? used : newer && (used || is_free(v))))
			return;
	}
	const int start = choose_start(o, v, generated, rows);
	if (w->size == rows && w->start == start)
		return; /* there is no other */
	w->id++;
	w->start = start;
	w->size = rows;
	w->base = v->n_prompt + w->start - 1;
	w->scored = 0;
	search_window(o->search, w->id, rows);
}

/* True if masks may pay here beside the present drafts. The estimate takes the best mask so far, with half of
 * its wrong predictions corrected by further search. Before any score it takes a mask of half of the
 * sub-layers with the acceptance of published masks of large models (SWIFT section 3.2.1 and Figure 2 (a):
 * over 90 %). If rows are expensive no mask pays, and windows are expensive, too. */
static bool may_pay(const struct optimizer* o, const struct learner_view* v) {
	static const double published = 0.9;
	const struct cost_model* cost = &v->engine->cost;
	if (v->options->drafting.when != SWIFTLET_DRAFT_AUTO || v->options->learning.published)
		return true;
	double matchness = sqrt(search_expected(o->search)), c = INFINITY;
	const struct draft_states states = session_states(o->session, v->mask);
	if (mask_count(v->mask) > 0 || states.any)
		c = cost_draft(cost, states_variant(&states, v->mask));
	if (isnan(matchness)) {
		double attention, mlp, fixed;
		cost_sub_layers(cost, false, NULL, &attention, &mlp, &fixed);
		c = fmin(c, 0.5 * v->engine->model->weights.shape.n_blocks * (attention + mlp) + fixed);
		matchness = published;
	}
	return chain_rate_now(cost, v->options->drafting.max_draft, matchness, c) > v->rate;
}

/* A row that scores levels costs about as much as a draft step, and the levels found at a given share read
 * beat the start by no more than noise (docs/lessons.md). So levels are scored only in free time. */
static bool is_affordable(const struct optimizer* o, const struct learner_view* v) {
	if (is_free(v))
		return true;
	const struct mask none = {.word = {0}};
	return !v->by_channel && may_pay(o, v) &&
	       session_affords_learning(
	           o->session, cost_matchness(&v->engine->cost, (struct variant){.skip = &none}, o->window.size));
}

bool score_begin(struct learner* learner) {
	struct optimizer* o = (struct optimizer*)learner;
	struct window* w = &o->window;
	const struct learner_view v = session_learning(o->session);
	if (!v.options->learning.search ||
	    (search_state(o->search) != SEARCH_RUNNING && !search_waits(o->search)))
		return false;
	move_window(o, &v);
	if (w->size == 0 || !is_affordable(o, &v))
		return false;
	const double began = clock_now(o);
	const bool proposed = search_propose(o->search, &w->proposal);
	charge_since(o, began);
	if (proposed)
		o->scored = session_states(o->session, &w->proposal.mask);
	return proposed;
}

/* ---- scores ------------------------------------------------------------------------------- */

/* Runs n rows of the text from the token at `base` on as drafts with the mask compute them. Each row is a
 * segment of its own, or as published they form a chain, whose rows read the draft's keys and values of
 * earlier rows. */
static struct pass fill_scoring_pass(const struct session* s, struct scoring* rows, const struct mask* mask,
                                     const struct draft_states* states, int base, int n, bool chain) {
	const struct learner_view v = session_learning(s);
	for (int i = 0; i < n; i++) {
		rows->parent[i] = chain ? i - 1 : -1;
		rows->want[i] = chain ? WANT_TOKEN : WANT_TOKEN | WANT_TOP;
		rows->result[i].top = MAX_TOP;
		rows->segment[i] = (struct segment){.cache = v.cache, .base = base + i, .n = chain ? n : 1};
	}
	struct pass pass = pass_over(rows->segment, v.text + base, rows->parent,
	                             2 * v.engine->model->weights.shape.n_blocks, rows->want, rows->result);
	pass.n = n;
	pass.n_segments = chain ? 1 : n;
	pass.skip = mask;
	pass.quantized = states_quantized(states);
	pass.quantized_head = states->head;
	pass.levels = states_levels(states);
	pass.head = true;
	return pass;
}

static int count_matches(const struct scoring* rows, const int32_t* truth, int n) {
	int matches = 0;
	for (int i = 0; i < n; i++)
		matches += rows->result[i].token == truth[i];
	return matches;
}

void score_fill(struct learner* learner, struct pass* pass) {
	struct optimizer* o = (struct optimizer*)learner;
	const struct window* w = &o->window;
	*pass = fill_scoring_pass(o->session, &o->pass, &w->proposal.mask, &o->scored, w->base, w->size,
	                          session_options(o->session)->learning.published);
}

bool score_take(struct learner* learner, const struct pass* pass, double seconds) {
	struct optimizer* o = (struct optimizer*)learner;
	struct window* w = &o->window;
	const struct learner_view v = session_learning(o->session);
	const int32_t* truth = v.text + w->base + 1;
	session_charge_learning(o->session, seconds);
	if (!v.idle)
		cost_see_score(&v.engine->cost, states_variant(&o->scored, &w->proposal.mask), pass->n, seconds);
	double sum = v.options->learning.published ? NAN : 0; /* the published search asks for no probabilities */
	for (int i = 0; i < w->size && !v.options->learning.published; i++)
		sum += search_log_probability(result_probability(&o->pass.result[i], truth[i]));
	v.cache->backend->discard(v.cache);
	w->proposal.log_probability = sum / w->size;
	const double began = clock_now(o);
	search_observe(o->search, &w->proposal, count_matches(&o->pass, truth, w->size), w->size);
	charge_since(o, began);
	w->scored++;
	o->proposals += w->proposal.step > 0;
	optimizer_adopt_best(o);
	return true;
}

/* ---- judging ------------------------------------------------------------------------------ */

/* Scores the present text by the published matchness, with the draft's own keys inside a window. That
 * measures a mask along a chain; the search's scores above measure the first step. */
bool session_judge(struct session* s, const struct mask* mask, int* matches, int* rows, struct error* error) {
	const struct learner_view v = session_learning(s);
	const struct model_shape* shape = &v.engine->model->weights.shape;
	const struct draft_states states = session_states(s, mask);
	*matches = *rows = 0;
	if (!v.done || v.cache->committed < v.n_text - 1 ||
	    attention_blocks(shape) < shape->n_blocks) /* windows begin where there is no state */
		return true;
	const int window = v.options->learning.window;
	struct backend* backend = v.engine->backend;
	struct scoring* scoring = malloc(sizeof *scoring);
	bool good = scoring || error_set(error, "out of memory");
	for (int base = v.n_prompt - 1; good && base + window < v.n_text; base += window) {
		const struct pass pass = fill_scoring_pass(s, scoring, mask, &states, base, window, true);
		good = backend->run(backend, &pass, error);
		if (good) {
			backend->discard(v.cache);
			*matches += count_matches(scoring, v.text + base + 1, window);
			*rows += window;
		}
	}
	free(scoring);
	return good;
}
