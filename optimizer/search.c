/* The layer-set search: what both kinds share, from the window to the stopping rules. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/decode/cost.h"
#include "optimizer/search_state.h"

/* Scores are believed against acceptance while drafting as so many rows. */
static const double SCORE_ROWS = 64;

const char* search_state_name(enum search_state state) {
	static const char* const name[] = {"running", "confirmed", "exhausted", "patience"};
	return name[state];
}

double search_log_probability(double p) { return log(fmax(0.03, p)); }

/* ---- opening and closing ------------------------------------------------------------------ */

static bool check_options(const struct search_options* o, struct error* error) {
	if (o->blocks < 3 || o->blocks > MAX_BLOCKS)
		return error_set(error, "search: %d blocks, expected 3 to %d: the first and last are never skipped",
		                 o->blocks, MAX_BLOCKS);
	if (!o->levels && !(o->skip_ratio > 0 && o->skip_ratio <= 1))
		return error_set(error, "search: skip ratio %g, expected more than 0 and at most 1", o->skip_ratio);
	if (o->bayes_interval < 0 || o->max_steps < 0 || o->max_steps > 1000000 || o->patience < 1)
		return error_set(error,
		                 "search: interval %d, steps %d, patience %d: expected an interval of 0 or more, 0 "
		                 "to 1000000 steps and a patience of 1 or more",
		                 o->bayes_interval, o->max_steps, o->patience);
	if (!(o->max_matchness >= 0) || !(o->kappa >= 0) || !isfinite(o->kappa))
		return error_set(error, "search: maximal matchness %g or kappa %g, expected 0 or more",
		                 o->max_matchness, o->kappa);
	return true;
}

struct search* search_open(const struct search_options* o, struct error* error) {
	if (!check_options(o, error))
		return NULL;
	struct search* s = calloc(1, sizeof *s);
	if (!s) {
		error_set(error, "search: out of memory");
		return NULL;
	}
	s->option = *o;
	s->dims = 2 * (o->blocks - 2);
	s->random.state = o->seed;
	s->chosen_by = NAN;
	if (!(o->levels ? levels_open(s) : masks_open(s))) {
		search_close(s);
		error_set(error, "search: out of memory for %d steps", o->max_steps);
		return NULL;
	}
	return s;
}

void search_close(struct search* s) {
	if (!s)
		return;
	gp_close(s->gp);
	free(s->levels);
	free(s);
}

/* ---- proposing ---------------------------------------------------------------------------- */

static void check_stop(struct search* s) {
	if (s->state != SEARCH_RUNNING)
		return;
	if (!s->levels && s->chosen_by > s->option.max_matchness)
		s->state = SEARCH_CONFIRMED;
	else if (s->steps >= s->option.max_steps)
		s->state = SEARCH_EXHAUSTED;
	else if (s->steps - s->improved_at >= s->option.patience)
		s->state = SEARCH_PATIENCE;
}

void search_window(struct search* s, int64_t window, int size) {
	if (size < 1 || window < 1)
		return;
	s->window = window;
	s->window_size = size;
}

bool search_waits(const struct search* s) { return s->pending && (!s->levels || levels_known(s)); }

bool search_propose(struct search* s, struct proposal* p) {
	if (s->window_size < 1 || (s->levels && !levels_known(s)))
		return false;
	*p = (struct proposal){.kind = PROPOSAL_START, .mask = s->best, .log_probability = NAN};
	check_stop(s);
	if (s->pending)
		return true;
	if (s->state != SEARCH_RUNNING)
		return false;
	if (s->levels && !levels_best_is_scored_here(s)) {
		p->kind = PROPOSAL_RESCORE;
		return true;
	}
	p->kind = s->levels ? levels_propose(s, &p->mask) : masks_propose(s, &p->mask);
	p->step = s->steps + 1;
	return true;
}

/* ---- observing ---------------------------------------------------------------------------- */

static void choose_mask(struct search* s, const struct mask* mask, double chosen_by) {
	s->best = *mask;
	s->pending = false;
	s->chosen_on = s->window;
	s->chosen_by = chosen_by;
	s->unseen_matches = s->unseen_rows = 0;
	s->accepted = s->trials = 0;
	s->improved_at = s->steps;
}

static void choose_levels(struct search* s) {
	struct mask mask;
	double chosen_by;
	if (levels_choose(s, &mask, &chosen_by))
		choose_mask(s, &mask, chosen_by);
}

static bool is_allowed(const struct search* s, const struct mask* mask) {
	for (int i = 0; i < 2 * MAX_BLOCKS; i++)
		if (mask_has(mask, i) && (i < 2 || i >= s->dims + 2))
			return false;
	return true;
}

void search_observe(struct search* s, const struct proposal* p, int matches, int rows) {
	if (rows < 1 || rows > s->window_size || matches < 0 || matches > rows || !is_allowed(s, &p->mask) ||
	    (s->levels && (!levels_known(s) || !isfinite(p->log_probability))))
		return;
	const double score = (double)matches / rows;
	s->steps += p->kind == PROPOSAL_RANDOM || p->kind == PROPOSAL_BAYES;
	if (s->levels)
		levels_observe(s, p, matches, rows);
	else if (masks_observe(s, &p->mask, score))
		choose_mask(s, &p->mask, score);
	if (mask_equal(&p->mask, &s->best) && s->pending) {
		s->pending = false;
		s->chosen_on = s->window;
		s->chosen_by = score;
	} else if (mask_equal(&p->mask, &s->best) && s->window != s->chosen_on) {
		s->unseen_matches += matches;
		s->unseen_rows += rows;
	}
	if (s->levels)
		choose_levels(s);
	check_stop(s);
}

void search_see_draft(struct search* s, const struct mask* mask, double accepted, double trials) {
	if (!(trials > 0) || !isfinite(trials) || !(accepted >= 0 && accepted <= trials) ||
	    !mask_equal(mask, &s->best))
		return;
	const double fade = s->trials > 8 * SCORE_ROWS ? 0.5 : 1; /* what was long ago counts less */
	s->accepted = fade * s->accepted + accepted;
	s->trials = fade * s->trials + trials;
}

void search_set_spans(struct search* s, const struct spans* spans) {
	struct mask mask;
	if (!(spans->rows > 0) || spans->blocks != s->option.blocks)
		return;
	const bool guess = isnan(s->chosen_by) && !s->given && s->steps == 0 && s->state == SEARCH_RUNNING;
	if (guess && !s->levels && !s->option.published && masks_best_span(s, spans, &mask) &&
	    !mask_equal(&mask, &s->best)) {
		choose_mask(s, &mask, NAN);
		s->pending = true;
	}
}

void search_set_costs(struct search* s, const struct search_costs* cost) {
	const double each[] = {cost->attention, cost->mlp, cost->fixed};
	for (size_t i = 0; i < sizeof each / sizeof *each; i++)
		if (!(each[i] >= 0 && isfinite(each[i])))
			return;
	if (cost->max_draft < 1)
		return;
	s->cost = *cost;
	if (s->levels) {
		levels_set_costs(s);
		choose_levels(s);
	}
	s->have_costs = !s->levels || levels_known(s);
}

/* ---- the best ----------------------------------------------------------------------------- */

struct mask search_best(const struct search* s, double* matchness) {
	if (matchness)
		*matchness = s->unseen_rows > 0 ? (double)s->unseen_matches / (double)s->unseen_rows : NAN;
	return s->best;
}

double search_chosen_by(const struct search* s) { return s->chosen_by; }

double search_expected(const struct search* s) {
	const double scored = s->levels ? levels_matchness(s) : s->chosen_by;
	const double rows = isnan(scored) ? 0 : SCORE_ROWS;
	if (isnan(scored) && s->trials < 1)
		return NAN;
	return (s->accepted + (rows > 0 ? rows * scored : 0)) / (s->trials + rows);
}

static double cost_draft_step(const struct search* s) {
	if (s->levels)
		return levels_cost(s, &s->best);
	double cost = s->cost.fixed;
	for (int i = 0; i < 2 * s->option.blocks; i++)
		cost += mask_has(&s->best, i) ? 0 : i % 2 == 0 ? s->cost.attention : s->cost.mlp;
	return cost;
}

double search_speedup(const struct search* s) {
	const double alpha = search_expected(s);
	return s->have_costs && !isnan(alpha)
	           ? chain_rate(s->cost.verify, s->cost.max_draft, alpha, cost_draft_step(s))
	           : NAN;
}

void search_adopt(struct search* s, const struct mask* mask) {
	if (!is_allowed(s, mask))
		return;
	const bool scored = s->levels && levels_adopt(s, mask);
	choose_mask(s, mask, NAN);
	s->given = true;
	s->pending = !scored;
}

void search_settle(struct search* s) { s->state = SEARCH_CONFIRMED; }
enum search_state search_state(const struct search* s) { return s->state; }
int search_steps(const struct search* s) { return s->steps; }
double search_skip_ratio(const struct search* s) { return (double)mask_count(&s->best) / s->dims; }
