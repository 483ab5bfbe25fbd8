/* The layer-set search: the object, and what it observes.
 *
 * Noise rules it: a window of 32 trials has a standard error of some 0.04 near the top. So the mask that
 * drafts is the one with the best posterior mean (optimizer/belief.h), which has every score and every draft
 * in it, where costs count as the speed-up that follows from it (search_value.c). Proposals come by removal
 * or, where no spans are known, as draws from the same posterior (search_propose.c); at a window move the
 * incumbent and the three runners-up are scored again, and the search is confirmed by its windows one by one
 * and together (search_incumbent.c). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optimizer/search_state.h"

/* r until costs are known, where it is the search's to choose. */
static const double FIRST_RATIO = 0.45;

const char* search_state_name(enum search_state state) {
	static const char* const name[] = {"running", "confirmed", "exhausted", "patience"};
	return name[state];
}

double search_log_probability(double p) { return log(fmax(0.03, p)); }

struct mask search_start_mask(int blocks) {
	struct mask mask = {.word = {0}};
	for (int block = 1; block <= blocks - 2 && block < MAX_BLOCKS; block += 2) {
		mask_set(&mask, 2 * block, true);
		mask_set(&mask, 2 * block + 1, true);
	}
	return mask;
}

/* ---- opening and closing ------------------------------------------------------------------ */

static bool check_options(const struct search_options* o, struct error* error) {
	if (o->blocks < 3 || o->blocks > MAX_BLOCKS)
		return error_set(error, "search: %d blocks, expected 3 to %d: the first and last are never skipped",
		                 o->blocks, MAX_BLOCKS);
	const bool by_cost = o->skip_ratio == 0 && o->skip_cost == 0 && !o->published;
	if (!(o->skip_cost >= 0 && o->skip_cost < 1) || (o->skip_cost > 0 && o->published))
		return error_set(error, "search: share of cost to save %g, expected 0 or more, under 1",
		                 o->skip_cost);
	if (!by_cost && o->draft_bits > 0)
		return error_set(error, "search: quantized draft weights where the size is no matter of cost");
	if (!by_cost && !(o->skip_ratio > 0 && o->skip_ratio <= 1))
		return error_set(error, "search: skip ratio %g, expected more than 0 and at most 1", o->skip_ratio);
	if (o->bayes_interval < 0 || o->max_steps < 0 || o->max_steps > 1000000 || o->patience < 1 ||
	    o->confirm < 0 || o->confirm > 1000)
		return error_set(error,
		                 "search: a negative or very large interval, number of steps, patience or "
		                 "confirmation (%d, %d, %d, %d)",
		                 o->bayes_interval, o->max_steps, o->patience, o->confirm);
	if (!(o->max_matchness >= 0) || !(o->kappa >= 0) || !isfinite(o->kappa))
		return error_set(error, "search: maximal matchness %g or kappa %g, expected 0 or more",
		                 o->max_matchness, o->kappa);
	return true;
}

static struct level_search* open_levels(const struct search_options* o) {
	enum { INTERVAL = 2 }; /* every other proposal is the process's (bench search) */
	const struct level_options how = {.blocks = o->blocks,
	                                  .bayes_interval = o->bayes_interval > 0 ? INTERVAL : 0,
	                                  .max_steps = o->max_steps,
	                                  .patience = o->patience,
	                                  .given_share = o->given_share,
	                                  .start = o->levels,
	                                  .seed = o->seed ^ 0x1e7e15};
	return level_open(&how);
}

static bool open_parts(struct search* s, const struct search_options* o) {
	const struct mask mask = search_start_mask(o->blocks);
	struct vector start;
	vector_of(&mask, &s->quantized, s->dims, &start);
	const int capacity = 2 * (o->max_steps < 100000 ? o->max_steps : 100000) + 1024;
	if (!record_open(&s->record, capacity) ||
	    !belief_open(&s->belief, s->dims, o->draft_bits, s->size, o->seed ^ 0x5eed))
		return false;
	incumbent_place(s, &start);
	if (o->channels && !(s->levels = open_levels(o)))
		return false;
	if (!o->published)
		return true;
	published_place(s, &start, NAN);
	return published_open(s);
}

struct search* search_open(const struct search_options* o, struct error* error) {
	if (!check_options(o, error))
		return NULL;
	struct search* s = calloc(1, sizeof *s);
	if (!s) {
		error_set(error, "search: no memory");
		return NULL;
	}
	s->option = *o;
	s->dims = 2 * (o->blocks - 2);
	s->free_size = o->skip_ratio == 0;
	s->size = value_size(s, s->free_size ? FIRST_RATIO : o->skip_ratio);
	s->random.state = o->seed;
	s->incumbent = -1;
	if (!open_parts(s, o)) {
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
	record_close(&s->record);
	belief_close(&s->belief);
	level_close(s->levels);
	free(s);
}

/* ---- windows and proposals ---------------------------------------------------------------- */

void search_window(struct search* s, int64_t window, int size) {
	if (size < 1 || window < 1 || (window == s->window && size == s->window_size))
		return;
	if (window != s->window)
		belief_window(&s->belief);
	s->window = window;
	s->window_size = size;
	if (s->levels) {
		level_window(s->levels, window, size);
		return;
	}
	s->level = NAN;
	removal_window(&s->removal);
	incumbent_stand_again(s);
}

void search_spend(struct search* s, bool freely) { s->sparing = !freely; }
bool search_spares(const struct search* s) { return s->levels != NULL && s->sparing; }

/* ---- observing ---------------------------------------------------------------------------- */

/* A full score on the present window: what stopping and early ends go by. */
static void note_window(struct search* s, struct entry* e, const struct score* score) {
	const bool above = score->matches > s->option.max_matchness * score->rows;
	if (e->last_window == score->window) {
		/* The window has grown: what it said when it was shorter is part of what it says now. */
		e->above -= e->last_matches > s->option.max_matchness * e->last_rows;
		e->matches -= e->last_matches;
		e->rows -= e->last_rows;
	}
	e->above += above;
	e->last_window = score->window;
	e->last_matches = score->matches;
	e->last_rows = score->rows;
}

/* Takes a score in: the models, the mask's own figures. Returns the entry. Renumbered masks would leave
 * `wait` dangling: it goes when the record forgets. */
static int learn_score(struct search* s, const struct vector* v, const struct score* score) {
	const bool here = score->window == s->window && score->window != 0;
	const int before = s->record.observations;
	const int index = record_observe(&s->record, v, score, &s->incumbent);
	if (s->record.observations <= before)
		s->waiting = 0;
	struct entry* e = &s->record.entry[index];
	belief_see(&s->belief, v, score, here, &e->own);
	e->matches += score->matches;
	e->rows += score->rows;
	if (index == s->incumbent && !s->pending && score->window != s->chosen_on) {
		s->unseen_matches += score->matches;
		s->unseen_rows += score->rows;
	}
	if (here && score->rows == s->window_size)
		note_window(s, e, score);
	return index;
}

static void drop_suggestion(struct search* s, const struct vector* v) {
	int left = 0;
	for (int i = 0; i < s->suggestions; i++)
		if (!vector_equal(&s->suggestion[i], v))
			s->suggestion[left++] = s->suggestion[i];
	s->suggestions = left;
}

/* False for what no evaluation can have said. */
static bool plausible(const struct search* s, const struct mask* mask, int matches, int rows,
                      struct vector* out) {
	return rows >= 1 && rows <= 1 << 20 && matches >= 0 && matches <= rows &&
	       vector_of(mask, &s->quantized, s->dims, out);
}

void search_observe(struct search* s, const struct proposal* p, int matches, int rows) {
	struct vector v;
	if (s->levels) {
		level_observe(s->levels, p, matches, rows);
		return;
	}
	if (s->window_size < 1 || rows > s->window_size || !plausible(s, &p->mask, matches, rows, &v))
		return;
	const bool step = search_is_step(p->kind);
	if (s->option.published) {
		published_observe(s, &v, (double)matches / rows);
	} else {
		s->steps += step;
		s->steps_on_window += step;
		drop_suggestion(s, &v);
		const int index = learn_score(s, &v, &(struct score){matches, rows, s->window});
		if (rows == s->window_size) {
			incumbent_weigh(s, index, p->log_probability);
			removal_see(s, &v, p->log_probability);
		}
		if (p->kind != PROPOSAL_REMOVAL)
			s->record.entry[index].may_draft = true;
		if (p->kind == PROPOSAL_START)
			s->record.entry[index].equal = true;
		if (!step && s->waiting > 0 && s->wait[s->waiting - 1] == index)
			s->waiting--;
		if (s->pending && index == s->incumbent) {
			s->pending = false;
			s->chosen_on = s->window;
			s->chosen_by = (double)matches / rows;
		}
		incumbent_compare(s, step);
	}
	incumbent_check_stop(s);
}

void search_observe_mask(struct search* s, const struct mask* mask, int matches, int rows, int64_t window) {
	struct vector v;
	if (s->option.published || s->levels || window < 0 || !plausible(s, mask, matches, rows, &v))
		return;
	s->record.entry[learn_score(s, &v, &(struct score){matches, rows, window})].may_draft = true;
	incumbent_compare(s, false);
	incumbent_check_stop(s);
}

/* Looked at again once as many draft steps have been seen as a mask's acceptance may have moved by. */
enum { DRAFTS_TO_COMPARE = 64 };

void search_see_draft(struct search* s, const struct mask* mask, double accepted, double trials) {
	struct vector v;
	if (s->levels) {
		level_see_draft(s->levels, mask, accepted, trials);
		return;
	}
	if (s->option.published || !(trials > 0) || !isfinite(trials) || !(accepted >= 0 && accepted <= trials) ||
	    !vector_of(mask, &s->quantized, s->dims, &v))
		return;
	const bool drafts_now = vector_equal(&v, &search_incumbent(s)->bits);
	const int index = drafts_now ? s->incumbent : record_find(&s->record, &v);
	if (index < 0)
		return;
	belief_see_draft(&s->record.entry[index].own, accepted, trials);
	s->drafts += trials;
	if (s->drafts >= DRAFTS_TO_COMPARE)
		incumbent_compare(s, false);
}

/* ---- influence ---------------------------------------------------------------------------- */

/* Brings all scores again, in their order, under the new prior. */
static void replay_observations(struct search* s) {
	int64_t window = 0;
	for (int i = 0; i < s->record.entries; i++) {
		struct evidence* own = &s->record.entry[i].own;
		*own = (struct evidence){.accepted = own->accepted, .trials = own->trials};
	}
	for (int i = 0; i < s->record.observations; i++) {
		const struct observation* o = &s->record.observation[i];
		struct entry* e = &s->record.entry[o->entry];
		if (o->score.window != 0 && o->score.window != window) {
			belief_window(&s->belief);
			window = o->score.window;
		}
		belief_see(&s->belief, &e->bits, &o->score, o->score.window != 0, &e->own);
	}
	if (window != s->window)
		belief_window(&s->belief);
}

/* Whether the incumbent is a guess, which a better one replaces: nobody gave it, no score or service has held
 * it. */
static bool is_guess(const struct search* s) { return s->pending && !s->given && s->state == SEARCH_RUNNING; }

static void suggest(struct search* s, const struct vector* v) {
	drop_suggestion(s, v);
	if (s->suggestions < MAX_SUGGESTIONS)
		s->suggestion[s->suggestions++] = *v;
}

/* What is known before any score places the incumbent, and beside it what is to be scored with it. */
static void guess(struct search* s) {
	struct vector v[SEARCH_SPANS];
	const int n = value_first_guesses(s, SEARCH_SPANS, v);
	if (s->pending && vector_equal(&v[0], &search_incumbent(s)->bits))
		return;
	incumbent_place(s, &v[0]);
	s->suggestions = 0;
	for (int i = 1; i < n; i++)
		suggest(s, &v[i]);
}

/* Under a new prior. */
static void weigh_again(struct search* s) {
	replay_observations(s);
	if (is_guess(s))
		guess(s);
	else
		incumbent_compare(s, false);
	s->hopeless = !value_hopes(s);
}

/* Of the sub-layers that may be skipped. */
static bool is_influence(const struct search* s, const double* influence) {
	for (int i = 2; i < s->dims + 2; i++)
		if (!(influence[i] >= 0 && isfinite(influence[i])))
			return false;
	return true;
}

void search_set_influence(struct search* s, const double* influence, double rows) {
	if (s->option.published || s->levels || !(rows > 0) || s->belief.spanned || !is_influence(s, influence))
		return;
	belief_inform(&s->belief, influence);
	weigh_again(s);
}

void search_set_spans(struct search* s, const struct spans* spans) {
	double influence[MAX_DIMS + 4];
	if (s->option.published || !(spans->rows > 0) || 2 * (spans->blocks - 2) != s->dims)
		return;
	for (int i = 0; i < s->dims + 4; i++) {
		const int first = i > 0 ? i : 1; /* the embedding is no tap's */
		influence[i] = spans_influence(spans, first, first + 1);
	}
	if (!is_influence(s, influence))
		return;
	if (s->levels) {
		level_set_spans(s->levels, spans);
		return;
	}
	belief_inform_spans(&s->belief, spans, influence);
	s->removal.begun = false;
	weigh_again(s);
}

/* ---- the best, and what comes from outside ------------------------------------------------ */

struct mask search_best(const struct search* s, double* matchness) {
	if (s->levels)
		return level_best(s->levels, matchness);
	if (matchness)
		*matchness = s->unseen_rows > 0 ? (double)s->unseen_matches / (double)s->unseen_rows : NAN;
	return incumbent_mask(s, &search_incumbent(s)->bits);
}

double search_chosen_by(const struct search* s) {
	return s->levels ? level_chosen_by(s->levels) : s->chosen_by;
}

double search_expected(const struct search* s) {
	if (s->levels)
		return level_expected(s->levels);
	if (s->option.published)
		return s->chosen_by;
	const bool known =
	    s->belief.informed || s->record.observations > 0 || incumbent_is_known(search_incumbent(s));
	return known ? value_matchness(s, search_incumbent(s)) : NAN;
}

double search_hope(const struct search* s) {
	if (s->levels)
		return sqrt(level_expected(s->levels));
	return s->record.observations > 0 ? sqrt(value_matchness(s, search_incumbent(s))) : NAN;
}

bool search_hopeless(const struct search* s) { return s->hopeless; }

double search_speedup(const struct search* s) {
	if (s->levels)
		return level_speedup(s->levels);
	const struct entry* e = search_incumbent(s);
	return s->have_costs ? value_speedup(s, &e->bits, value_matchness(s, e)) : NAN;
}

void search_adopt(struct search* s, const struct mask* mask) {
	struct vector v;
	if (!vector_of(mask, &s->quantized, s->dims, &v))
		return;
	s->given = true;
	s->asked = *mask;
	if (s->levels) {
		level_adopt(s->levels, mask);
		return;
	}
	if (s->option.published)
		published_place(s, &v, s->chosen_by);
	else
		incumbent_place(s, &v);
}

/* ---- the quantized draft weights --------------------------------------------------------------------- */

/* A mask that was never scored must be expected to be so much better to take the place of one that was. */
static const double BETTER = 1.03;

void search_use_draft_weights(struct search* s) {
	struct vector v = search_incumbent(s)->bits;
	if (s->option.draft_bits == 0 || quantized_any(&s->quantized))
		return;
	const bool asked = incumbent_runs_as_asked(s, &v), free = s->pending && !s->given;
	s->quantized = (struct quantized_set){s->option.quantized, s->option.head_quantized};
	if (s->levels)
		return;
	s->hopeless = !value_hopes(s);
	if (asked)
		vector_of(&s->asked, &s->quantized, s->dims, &v);
	else
		value_first_guesses(s, 1, &v);
	if (asked || free) {
		incumbent_place(s, &v);
		return;
	}
	const struct entry entry = {.bits = v};
	if (value_expected(s, &entry) > BETTER * value_expected(s, search_incumbent(s)))
		incumbent_place(s, &v);
	else
		suggest(s, &v);
}

bool search_has_draft_weights(const struct search* s) { return quantized_any(&s->quantized); }

static void tell_levels(struct search* s) {
	double layers = 0;
	for (int k = 0; k < COLUMN_KINDS; k++)
		layers += s->option.blocks * s->cost.channel[k];
	if (!(layers > 0))
		return;
	level_set_bytes(s->levels, s->cost.channel);
	level_set_costs(s->levels, layers, s->cost.quantized_fixed, s->cost.verify, s->cost.max_draft);
}

void search_set_costs(struct search* s, const struct search_costs* cost) {
	const double each[] = {cost->attention,           cost->mlp,           cost->fixed,
	                       cost->quantized_attention, cost->quantized_mlp, cost->quantized_fixed};
	for (size_t i = 0; i < sizeof each / sizeof *each; i++)
		if (!(each[i] >= 0 && isfinite(each[i])))
			return;
	if (cost->max_draft < 1 || s->option.published)
		return;
	s->cost = *cost;
	s->have_costs = true;
	if (s->levels) {
		tell_levels(s);
		return;
	}
	if (s->option.skip_cost > 0 && cost->attention + cost->mlp > 0)
		s->size = (int)fmin(s->dims, ceil(2 * s->option.skip_cost / (cost->attention + cost->mlp)));
	if (is_guess(s) && s->belief.informed && (value_priced(s) || s->option.skip_cost > 0)) {
		guess(s);
	} else {
		incumbent_compare(s, false);
	}
	s->hopeless = !value_hopes(s);
}

void search_settle(struct search* s) {
	s->state = SEARCH_CONFIRMED;
	s->waiting = 0;
	if (s->levels)
		level_settle(s->levels);
}

bool search_waits(const struct search* s) {
	return s->levels ? level_waits(s->levels) : s->pending || s->suggestions > 0;
}

enum search_state search_state(const struct search* s) {
	return s->levels ? level_state(s->levels) : s->state;
}
int search_steps(const struct search* s) { return s->levels ? level_steps(s->levels) : s->steps; }

static double skipped_share(const struct search* s) {
	const struct mask best = level_best(s->levels, NULL);
	return (double)mask_count(&best) / s->dims;
}

double search_skip_ratio(const struct search* s) {
	if (s->levels)
		return skipped_share(s);
	return s->free_size || s->option.skip_cost > 0
	           ? (double)vector_count(&search_incumbent(s)->bits, s->dims) / s->dims
	           : s->option.skip_ratio;
}
