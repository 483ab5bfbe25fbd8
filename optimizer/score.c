/* Scoring proposals: the window of generated text, and matchness in one parallel pass.
 *
 * Matchness (SWIFT Eq. 3 and 4) is the share of the window's tokens that the model without the mask's
 * sub-layers predicts. Keys and values before the window are the target's, inside it the draft's: the pass
 * runs with base = the window's start while later tokens are committed behind it, and its rows are
 * discarded. A proposal that cannot win after its first 8 rows is given up.
 *
 * Beside its hits a proposal's distance to the full model is measured (optimizer/distance.h); for that the
 * full model's hidden states of a window are computed before the first proposal that is scored on it. */
#include "optimizer/session_state.h"

#include <math.h>
#include <string.h>

enum { FIRST_ROWS = 8 };

void score_new_instance(struct session* s) { s->window.size = 0; }

/* How long a window the generated tokens allow: gamma, or while there are fewer, a power of two times the
 * shortest; 0: none. */
static int window_size(const struct session* s, int generated) {
	if (generated >= s->options.window)
		return s->options.window;
	int size = s->options.window_min;
	if (generated < size)
		return 0;
	while (2 * size <= generated)
		size *= 2;
	return size;
}

/* Moves the window when gamma newer tokens exist. On a budget it stays until it has been used: a move makes
 * the best masks be scored again. */
static void move_window(struct session* s) {
	struct window* w = &s->window;
	const int generated = s->n_text - s->n_prompt, size = window_size(s, generated);
	const bool longer = size > w->size;
	const bool newer = w->size > 0 && generated - (w->start + w->size) >= s->options.window &&
	                   (isinf(s->options.opt_budget) || w->scored >= FIRST_ROWS);
	if (size == 0 || (!longer && !newer))
		return;
	const bool grown = w->size > 0 && !newer;
	w->start = w->size == 0 || !newer ? 0 : generated - size;
	w->size = size;
	w->base = s->n_prompt + w->start - 1;
	w->scored = 0;
	if (!grown)
		s->distance.known = 0;
	search_window(s->search, grown ? w->id : ++w->id, size);
}

/* Whether scoring the first rows alone is cheaper on average than scoring all at once. */
static bool splitting_pays(const struct session* s, const struct mask* mask, int rows) {
	if (isinf(s->options.opt_budget))
		return true; /* under an unlimited budget figures are to repeat: no decision by the clock */
	const struct cost_model* cost = &s->engine->cost;
	const struct variant v = session_variant(s, mask);
	const double first = cost_matchness(cost, v, FIRST_ROWS);
	const double rest = cost_matchness(cost, v, rows - FIRST_ROWS);
	return first + (1 - s->window.abandoned) * rest < cost_matchness(cost, v, rows);
}

/* Puts the seconds that the search itself has used since the last call on the ledger and in the figures. */
static void charge_search(struct session* s) {
	double foreground, background;
	search_seconds(s->search, &foreground, &background);
	const struct backend* backend = s->engine->backend;
	const double used = foreground + background / backend->threads(backend);
	const double seconds = used - s->search_host, plain = cost_plain_seconds(&s->engine->cost);
	s->search_host = used;
	s->figures.seconds.optimize += seconds;
	if (plain > 0)
		ledger_search(&s->ledger, seconds / plain);
}

bool score_begin(struct session* s) {
	struct window* w = &s->window;
	if (!s->search || !s->options.search ||
	    (search_state(s->search) != SEARCH_RUNNING && !search_waits(s->search)))
		return false;
	move_window(s);
	if (w->size == 0)
		return false;
	const struct cost_model* cost = &s->engine->cost;
	const struct mask likely = search_best(s->search, NULL);
	const int states = s->distance.capacity > 0 ? w->size - s->distance.known : 0;
	if (!isinf(s->options.opt_budget) && cost->plain <= 0)
		return false;
	const double before = states > 0 ? cost_verify(cost, states) : 0;
	if (!ledger_allows_search(&s->ledger,
	                          before + cost_matchness(cost, session_variant(s, &likely), w->size)))
		return false;
	const bool proposed = search_propose(s->search, &w->proposal);
	charge_search(s);
	if (!proposed)
		return false;
	w->rows = w->matches = 0;
	w->distance = s->distance.capacity > 0 ? 0 : NAN;
	w->full = states > 0;
	w->upto = w->size > FIRST_ROWS && w->proposal.needed > 0 && splitting_pays(s, &w->proposal.mask, w->size)
	              ? FIRST_ROWS
	              : w->size;
	return true;
}

/* The rows of the window whose states are not known yet. What they see before them is committed. */
static void full_pass(struct session* s, struct pass* pass) {
	struct distance* d = &s->distance;
	const int last = 2 * s->engine->model->weights.shape.n_blocks, base = s->window.base + d->known;
	const int n = s->window.size - d->known;
	memset(s->want, WANT_NOTHING, sizeof s->want);
	s->segment = (struct segment){.cache = s->cache, .base = base, .n = n};
	*pass = (struct pass){.kind = PASS_EXACT,
	                      .n = n,
	                      .n_segments = 1,
	                      .segment = &s->segment,
	                      .token = s->text + base,
	                      .last = last,
	                      .tap = last - 1,
	                      .tap_out = d->full + (size_t)d->known * (size_t)d->dim,
	                      .want = s->want,
	                      .out = s->result};
}

void score_pass(struct session* s, struct pass* pass) {
	struct window* w = &s->window;
	if (w->full) {
		full_pass(s, pass);
		return;
	}
	const int n = w->upto - w->rows, last = 2 * s->engine->model->weights.shape.n_blocks;
	const bool measured = s->distance.capacity > 0;
	for (int i = 0; i < n; i++) {
		s->row_parent[i] = w->rows + i - 1;
		s->want[i] = WANT_TOKEN;
	}
	s->segment = (struct segment){.cache = s->cache, .base = w->base, .n = n};
	*pass = (struct pass){.kind = PASS_EXACT,
	                      .n = n,
	                      .n_segments = 1,
	                      .segment = &s->segment,
	                      .token = s->text + w->base + w->rows,
	                      .parent = s->row_parent,
	                      .skip = &w->proposal.mask,
	                      .low = s->low,
	                      .low_head = s->low_head,
	                      .last = last,
	                      .head = true,
	                      .tap = measured ? last - 1 : -1,
	                      .tap_out = s->distance.draft,
	                      .want = s->want,
	                      .out = s->result};
}

bool score_take(struct session* s) {
	struct window* w = &s->window;
	if (w->full) {
		s->distance.known = w->size;
		w->full = false;
		s->cache->backend->discard(s->cache);
		return false;
	}
	if (s->distance.capacity > 0)
		w->distance += distance_sum(&s->distance, w->rows, w->upto - w->rows);
	const int32_t* truth = s->text + w->base + w->rows + 1;
	for (int i = 0; i < w->upto - w->rows; i++)
		w->matches += s->result[i].token == truth[i];
	const bool split = w->rows == 0 && w->upto < w->size;
	w->rows = w->upto;
	if (split) {
		const bool lost = w->matches + w->size - w->rows <= w->proposal.needed;
		w->abandoned += 0.05 * ((lost ? 1.0 : 0.0) - w->abandoned);
		if (!lost) {
			w->upto = w->size;
			return false;
		}
	}
	s->cache->backend->discard(s->cache);
	search_observe(s->search, &w->proposal, w->matches, w->rows, w->distance / w->rows);
	w->scored++;
	s->figures.optimize_steps += w->proposal.kind == PROPOSAL_RANDOM || w->proposal.kind == PROPOSAL_BAYES;
	score_adopt_best(s);
	charge_search(s);
	return true;
}

void score_adopt_best(struct session* s) {
	double matchness = NAN;
	const struct mask best = search_best(s->search, &matchness);
	s->matchness = matchness;
	if (mask_equal(&best, &s->mask))
		return;
	s->mask = best;
	plan_new_mask(s);
}
