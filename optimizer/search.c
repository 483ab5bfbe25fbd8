/* The layer-set search: which mask to score next, which one is best, and when to stop.
 *
 * Noise rules it: a window of 32 trials has a standard error of some 0.04 near the top. So masks are compared
 * only where they were scored on the same window, by a posterior mean that also has every earlier score in
 * it; at a window move the incumbent and the three runners-up by posterior mean are scored again; and the
 * search is confirmed by its windows one by one and together. */
#include "optimizer/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "optimizer/search_internal.h"

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

const char* search_state_name(enum search_state state) {
	switch (state) {
	case SEARCH_RUNNING:
		return "running";
	case SEARCH_CONFIRMED:
		return "confirmed";
	case SEARCH_EXHAUSTED:
		return "exhausted";
	case SEARCH_PATIENCE:
		return "patience";
	}
	return "unknown";
}

struct mask search_start_mask(int blocks) {
	struct mask mask = {{0}};
	for (int block = 1; block <= blocks - 2 && block < MAX_BLOCKS; block += 2) {
		mask_set(&mask, 2 * block, true);
		mask_set(&mask, 2 * block + 1, true);
	}
	return mask;
}

/* ---- masks and vectors -------------------------------------------------------------------- */

/* False when the mask skips what may not be skipped. */
static bool vector_of(const struct search* s, const struct mask* mask, struct vector* out) {
	*out = (struct vector){{0}};
	for (int sub_layer = 0; sub_layer < 2 * MAX_BLOCKS; sub_layer++) {
		if (!mask_has(mask, sub_layer))
			continue;
		if (sub_layer < 2 || sub_layer >= s->dims + 2)
			return false;
		vector_set(out, sub_layer - 2, true);
	}
	return true;
}

static struct mask mask_of(const struct search* s, const struct vector* v) {
	struct mask mask = {{0}};
	for (int i = 0; i < s->dims; i++)
		mask_set(&mask, i + 2, vector_has(v, i));
	return mask;
}

static int size_of(const struct search* s, double skip_ratio) {
	return (int)floor(skip_ratio * s->dims + 1e-9);
}

/* ---- opening and closing ------------------------------------------------------------------ */

static bool check(const struct search_options* o, struct error* error) {
	if (o->blocks < 3 || o->blocks > MAX_BLOCKS)
		return error_set(error, "search: %d blocks, expected 3 to %d: the first and last are never skipped",
		                 o->blocks, MAX_BLOCKS);
	const bool by_price = o->skip_ratio == 0 && o->objective == OBJECTIVE_SPEEDUP;
	if (!by_price && !(o->skip_ratio > 0 && o->skip_ratio <= 1))
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

static struct linear_model* linear_of(const struct search* s) {
	/* A uniform mask's score spreads over some 0.2, whatever the number of sub-layers in it. */
	const double terms = s->size > 0 ? s->size : 1;
	return linear_open(&(struct linear_options){.dims = s->dims,
	                                            .members = DRAWS,
	                                            .mean = 0.7,
	                                            .mean_sd = 0.3,
	                                            .weight_sd = 0.2 / sqrt(terms),
	                                            .offset_sd = 0.05,
	                                            .seed = s->option.seed ^ 0x5eed});
}

struct search* search_open(const struct search_options* o, struct error* error) {
	if (!check(o, error))
		return NULL;
	struct search* s = calloc(1, sizeof *s);
	if (!s) {
		error_set(error, "search: no memory");
		return NULL;
	}
	s->option = *o;
	s->dims = 2 * (o->blocks - 2);
	s->skip_ratio = o->skip_ratio > 0 ? o->skip_ratio : 0.45;
	s->size = size_of(s, s->skip_ratio);
	s->random.state = o->seed;
	s->incumbent = -1;
	const struct mask start = search_start_mask(o->blocks);
	vector_of(s, &start, &s->start);
	const int capacity = 2 * (o->max_steps < 100000 ? o->max_steps : 100000) + 1024;
	s->linear = linear_of(s);
	calibration_open(&s->calibration);
	s->weight = calloc((size_t)s->dims, sizeof *s->weight);
	s->order = calloc((size_t)s->dims, sizeof *s->order);
	if (!record_open(&s->record, capacity) || !s->linear || !s->weight || !s->order ||
	    (o->bayes_interval > 0 && !(s->background = background_open(s)))) {
		search_close(s);
		error_set(error, "search: no memory for %d steps", o->max_steps);
		return NULL;
	}
	return s;
}

void search_close(struct search* s) {
	if (!s)
		return;
	background_close(s->background);
	record_close(&s->record);
	linear_close(s->linear);
	free(s->weight);
	free(s->order);
	free(s);
}

/* ---- stopping ----------------------------------------------------------------------------- */

/* Over max_matchness on confirm + 1 windows. Since the incumbent is the best of many noisy scores, a few
 * lucky windows are common; so where confirmation is asked for, one window more is pooled, with one success
 * and one failure added, and the posterior mean must agree. */
static bool is_confirmed(const struct search* s, const struct entry* e) {
	if (e->last_window != s->window || e->above <= s->option.confirm)
		return false;
	if (e->last_matches <= s->option.max_matchness * e->last_rows)
		return false;
	if (s->option.confirm == 0)
		return true;
	if (e->rows < (int64_t)(s->option.confirm + 2) * s->window_size ||
	    estimate_of(s, e) <= s->option.max_matchness)
		return false;
	return (double)(e->matches + 1) > s->option.max_matchness * (double)(e->rows + 2);
}

static void check_stop(struct search* s) {
	if (s->state != SEARCH_RUNNING)
		return;
	if (s->incumbent >= 0 && is_confirmed(s, &s->record.entry[s->incumbent]))
		s->state = SEARCH_CONFIRMED;
	else if (s->exhausted || s->steps - s->opened_at >= s->option.max_steps)
		s->state = SEARCH_EXHAUSTED;
	else if (s->steps - s->improved_at >= s->option.patience)
		s->state = SEARCH_PATIENCE;
}

/* ---- windows ------------------------------------------------------------------------------ */

/* Keeps the best few by posterior mean, best first. */
static int runners_up(const struct search* s, int* best, int most) {
	double value[RUNNERS_UP];
	int n = 0;
	for (int i = 0; i < s->record.entries; i++) {
		const struct entry* e = &s->record.entry[i];
		if (i == s->incumbent || e->rows == 0 ||
		    (s->option.objective == OBJECTIVE_MATCHNESS && vector_count(&e->bits) != s->size))
			continue;
		const double mine = estimate_value(s, e);
		int at = n < most ? n++ : most;
		for (; at > 0 && value[at - 1] < mine; at--)
			if (at < most) {
				value[at] = value[at - 1];
				best[at] = best[at - 1];
			}
		if (at < most) {
			value[at] = mine;
			best[at] = i;
		}
	}
	return n;
}

/* Rescoring may not eat what little search a tight budget pays for: no more of it than the last window had
 * steps, and the incumbent waits for a challenger where there were none. */
static void queue_rescores(struct search* s) {
	s->waiting = 0;
	if (s->state != SEARCH_RUNNING || s->incumbent < 0 || s->steps_on_window == 0)
		return;
	const int room = s->steps_on_window - 1 < RUNNERS_UP ? s->steps_on_window - 1 : RUNNERS_UP;
	int best[RUNNERS_UP];
	const int n = room > 0 ? runners_up(s, best, room) : 0;
	for (int i = n; i-- > 0;)
		s->wait[s->waiting++] = best[i];
	s->wait[s->waiting++] = s->incumbent;
}

void search_window(struct search* s, int64_t window, int size) {
	if (size < 1 || window < 1 || (window == s->window && size == s->window_size))
		return;
	const double began = now();
	if (window != s->window)
		linear_group(s->linear);
	s->window = window;
	s->window_size = size;
	queue_rescores(s);
	s->steps_on_window = 0;
	s->seconds += now() - began;
}

/* ---- proposing ---------------------------------------------------------------------------- */

static bool scored_here(const struct search* s, int entry) {
	const struct entry* e = &s->record.entry[entry];
	return e->last_window == s->window && e->last_rows == s->window_size;
}

/* What a challenger must be able to exceed: one match less than the incumbent, since ties are broken by
 * posterior mean. Where costs count, the fewest matches at which this mask is worth as much. */
static int needed_for(const struct search* s, const struct vector* v) {
	if (s->incumbent < 0 || !scored_here(s, s->incumbent))
		return 0;
	const struct entry* e = &s->record.entry[s->incumbent];
	const double target = value_of(s, &e->bits, (double)e->last_matches / e->last_rows);
	int least = 0;
	while (least < s->window_size && value_of(s, v, (double)least / s->window_size) < target)
		least++;
	return least > 0 ? least - 1 : 0;
}

static void fill(const struct search* s, struct proposal* p, enum proposal_kind kind,
                 const struct vector* v) {
	p->kind = kind;
	p->step = kind == PROPOSAL_RANDOM || kind == PROPOSAL_BAYES ? s->steps + 1 : 0;
	p->mask = mask_of(s, v);
	p->needed = p->step ? needed_for(s, v) : 0;
}

static bool propose_step(struct search* s, struct proposal* p) {
	struct vector v;
	const int interval = s->option.bayes_interval, step = s->steps + 1;
	if (interval > 0) {
		if (step % interval == 0)
			background_want(s);
		if (background_take(s, &v) && make_new(s, &v)) {
			fill(s, p, PROPOSAL_BAYES, &v);
			return true;
		}
	}
	if (propose_random(s, &v)) {
		fill(s, p, PROPOSAL_RANDOM, &v);
		return true;
	}
	s->exhausted = true;
	check_stop(s);
	return false;
}

static bool propose(struct search* s, struct proposal* p) {
	if (s->window_size < 1)
		return false;
	if (s->incumbent < 0) {
		fill(s, p, PROPOSAL_START, &s->start);
		return true;
	}
	if (s->suggestions > 0) {
		fill(s, p, PROPOSAL_START, &s->suggestion[0]);
		return true;
	}
	check_stop(s);
	if (s->state != SEARCH_RUNNING)
		return false;
	while (s->waiting > 0 && scored_here(s, s->wait[s->waiting - 1]))
		s->waiting--;
	if (s->waiting > 0) {
		fill(s, p, PROPOSAL_RESCORE, &s->record.entry[s->wait[s->waiting - 1]].bits);
		return true;
	}
	return propose_step(s, p);
}

bool search_propose(struct search* s, struct proposal* p) {
	const double began = now();
	const bool more = propose(s, p);
	s->seconds += now() - began;
	return more;
}

/* ---- observing ---------------------------------------------------------------------------- */

/* Variance of the share of n trials: binomial at the chance the model expects, held off 0 and 1 by one
 * success and one failure. (At the share seen, a lucky score would pass for a sure one.) */
static double binomial_variance(double expected, int rows) {
	const double chance = expected < 0 ? 0 : expected > 1 ? 1 : expected;
	const double p = (chance * rows + 1.0) / (rows + 2.0);
	return p * (1 - p) / rows;
}

static double expected_here(const struct search* s, const struct vector* v, bool here) {
	return linear_mean(s->linear, v->word) + (here ? linear_offset(s->linear) : 0);
}

/* Renumbered masks would leave `wait` dangling: it goes when the record forgets. */
static int record_mask(struct search* s, const struct vector* v, int matches, int rows, int64_t window) {
	const int before = s->record.observations;
	record_entry(&s->record, v, &s->incumbent);
	record_observe(&s->record, record_find(&s->record, v), matches, rows, window, &s->incumbent);
	if (s->record.observations <= before)
		s->waiting = 0;
	return record_find(&s->record, v);
}

/* Joins what the distance says to what the hits say. */
static void sharpen(struct search* s, double distance, double binomial, double* y, double* variance) {
	if (!(distance >= 0) || !isfinite(distance))
		return;
	const double weight = calibration_weight(&s->calibration);
	const double expected = calibration_matchness(&s->calibration, distance);
	calibration_see(&s->calibration, distance, *y, binomial);
	*y = (*y + weight * expected) / (1 + weight);
	*variance /= 1 + weight;
}

/* Takes a score in: the models, the mask's own figures. Returns the entry. */
static int learn(struct search* s, const struct vector* v, int matches, int rows, double distance,
                 int64_t window) {
	const bool here = window == s->window && window != 0;
	double y = (double)matches / rows;
	/* On one window about half of the binomial variance is the tokens' own ease, which all masks share and
	 * which the window's offset takes up. */
	const double binomial = binomial_variance(expected_here(s, v, here), rows);
	double variance = here ? binomial / 2 : binomial;
	sharpen(s, distance, binomial, &y, &variance);
	const int index = record_mask(s, v, matches, rows, window);
	struct entry* e = &s->record.entry[index];
	linear_add(s->linear, v->word, y, variance, here);
	e->residual += (y - expected_here(s, v, here)) / variance;
	e->residual_weight += 1 / variance;
	e->matches += matches;
	e->rows += rows;
	if (index == s->incumbent && window != e->chosen_window) {
		e->unseen_matches += matches;
		e->unseen_rows += rows;
	}
	if (s->background)
		background_observe(s, v, y, variance, window);
	if (here && rows == s->window_size) {
		const bool above = matches > s->option.max_matchness * rows;
		if (e->last_window == window) {
			/* The window has grown: what it said when it was shorter is part of what it says now. */
			e->above -= e->last_matches > s->option.max_matchness * e->last_rows;
			e->matches -= e->last_matches;
			e->rows -= e->last_rows;
		}
		e->above += above;
		e->last_window = window;
		e->last_matches = matches;
		e->last_rows = rows;
	}
	return index;
}

/* Both have been scored on this window, so that its ease or difficulty favours neither; what decides is the
 * posterior mean, which has this score in it and all others too. */
static bool beats(const struct search* s, const struct entry* a, const struct entry* b) {
	return estimate_value(s, a) > estimate_value(s, b);
}

/* The incumbent has just been scored: what was scored on this window before it may beat it. */
static void meet_challengers(struct search* s) {
	for (int i = 0; i < s->record.entries; i++)
		if (i != s->incumbent && scored_here(s, i) &&
		    beats(s, &s->record.entry[i], &s->record.entry[s->incumbent]))
			s->incumbent = i;
}

/* From now on what is scored of it is unseen. */
static void choose(struct search* s, int index) {
	struct entry* e = &s->record.entry[index];
	s->incumbent = index;
	e->unseen_matches = e->unseen_rows = 0;
	e->chosen_window = s->window;
	e->chosen_by = e->rows > 0 ? (double)e->matches / (double)e->rows : NAN;
}

static void challenge(struct search* s, int index, bool step) {
	const int before = s->incumbent;
	if (s->incumbent < 0 && vector_equal(&s->record.entry[index].bits, &s->start))
		s->incumbent = index;
	if (s->incumbent < 0 || !scored_here(s, index))
		return;
	const struct entry *it = &s->record.entry[index], *best = &s->record.entry[s->incumbent];
	if (index == s->incumbent) {
		meet_challengers(s);
	} else if (!scored_here(s, s->incumbent)) {
		/* Worth a look where the posterior mean says so: the incumbent is scored beside it. */
		if (s->waiting < MAX_RESCORES && estimate_value(s, it) > estimate_value(s, best))
			s->wait[s->waiting++] = s->incumbent;
	} else if (beats(s, it, best)) {
		s->incumbent = index;
	}
	if (s->incumbent != before)
		choose(s, s->incumbent);
	if (step && s->incumbent != before)
		s->improved_at = s->steps;
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
	return rows >= 1 && rows <= 1 << 20 && matches >= 0 && matches <= rows && vector_of(s, mask, out);
}

void search_observe(struct search* s, const struct proposal* p, int matches, int rows, double distance) {
	struct vector v;
	if (s->window_size < 1 || rows > s->window_size || !plausible(s, &p->mask, matches, rows, &v))
		return;
	const double began = now();
	const bool step = p->kind == PROPOSAL_RANDOM || p->kind == PROPOSAL_BAYES;
	if (step) {
		s->steps++;
		s->steps_on_window++;
	}
	drop_suggestion(s, &v);
	const int index = learn(s, &v, matches, rows, distance, s->window);
	if (!step && s->waiting > 0 && s->wait[s->waiting - 1] == index)
		s->waiting--;
	challenge(s, index, step);
	check_stop(s);
	s->seconds += now() - began;
}

void search_observe_mask(struct search* s, const struct mask* mask, int matches, int rows, int64_t window) {
	struct vector v;
	if (window < 0 || !plausible(s, mask, matches, rows, &v))
		return;
	const double began = now();
	const int index = learn(s, &v, matches, rows, NAN, window);
	challenge(s, index, false);
	check_stop(s);
	s->seconds += now() - began;
}

/* ---- the best, and what comes from outside ------------------------------------------------ */

struct mask search_best(const struct search* s, double* matchness) {
	const struct entry* e = s->incumbent < 0 ? NULL : &s->record.entry[s->incumbent];
	if (matchness)
		*matchness = e && e->unseen_rows > 0 ? (double)e->unseen_matches / (double)e->unseen_rows : NAN;
	return mask_of(s, e ? &e->bits : &s->start);
}

double search_chosen_by(const struct search* s) {
	return s->incumbent < 0 ? NAN : s->record.entry[s->incumbent].chosen_by;
}

double search_expected(const struct search* s) {
	if (s->incumbent >= 0)
		return estimate_of(s, &s->record.entry[s->incumbent]);
	return s->influence_rows > 0 ? fmin(1, fmax(0, linear_mean(s->linear, s->start.word))) : NAN;
}

double search_speedup(const struct search* s) {
	if (!s->have_costs)
		return NAN;
	const struct vector* v = s->incumbent < 0 ? &s->start : &s->record.entry[s->incumbent].bits;
	const double expected = search_expected(s);
	return speedup_of(s, v, isnan(expected) ? 0.7 : expected);
}

double search_worth(const struct search* s, const struct proposal* p) {
	struct vector v;
	if (!s->have_costs || !vector_of(s, &p->mask, &v))
		return NAN;
	const double now_worth = fmax(1, search_speedup(s));
	const double worth = speedup_of(s, &v, fmin(1, linear_mean(s->linear, v.word) + 0.05));
	return fmax(0, 1 / now_worth - 1 / fmax(1, worth));
}

void search_see_draft(struct search* s, const struct mask* mask, double accepted, double trials) {
	struct vector v;
	if (!(trials > 0) || !(accepted >= 0 && accepted <= trials) || !vector_of(s, mask, &v))
		return;
	const int index = record_find(&s->record, &v);
	if (index < 0)
		return;
	struct entry* e = &s->record.entry[index];
	const double share = accepted / trials, variance = 4 * fmax(0.02, share * (1 - share)) / trials;
	e->residual += (share - linear_mean(s->linear, v.word)) / variance;
	e->residual_weight += 1 / variance;
}

/* The least influential sub-layers of the present size. */
static struct vector prefix(const struct search* s, int size) {
	struct vector v = {{0}};
	for (int n = 0; n < size; n++) {
		int least = -1;
		for (int i = 0; i < s->dims; i++)
			if (!vector_has(&v, i) && (least < 0 || s->influence[i] < s->influence[least]))
				least = i;
		vector_set(&v, least, true);
	}
	return v;
}

void search_set_influence(struct search* s, const double* influence, double rows) {
	if (s->option.published || !(rows > 0))
		return;
	for (int i = 0; i < s->dims; i++)
		if (!(influence[i + 2] >= 0) || !isfinite(influence[i + 2]))
			return;
	for (int i = 0; i < s->dims; i++)
		s->influence[i] = influence[i + 2];
	s->influence_rows = rows;
	if (s->incumbent < 0 && !s->adopted)
		s->start = prefix(s, s->size);
}

static void adopt(struct search* s, const struct vector* v) {
	s->adopted = true;
	s->start = *v;
	s->incumbent = -1;
	s->waiting = 0;
}

void search_adopt(struct search* s, const struct mask* mask) {
	struct vector v;
	if (vector_of(s, mask, &v))
		adopt(s, &v);
}

static void suggest(struct search* s, const struct vector* v) {
	drop_suggestion(s, v);
	if (s->suggestions < MAX_SUGGESTIONS)
		s->suggestion[s->suggestions++] = *v;
}

void search_suggest(struct search* s, const struct mask* mask) {
	struct vector v;
	if (vector_of(s, mask, &v))
		suggest(s, &v);
}

/* The incumbent brought to another size: the costliest sub-layers go, or the cheapest come. */
static struct vector resized(struct search* s, const struct vector* from) {
	struct vector v = *from;
	linear_weights(s->linear, s->weight);
	for (int count = vector_count(&v); count != s->size; count = vector_count(&v)) {
		const bool grow = count < s->size;
		int pick = -1;
		for (int i = 0; i < s->dims; i++)
			if (vector_has(&v, i) != grow &&
			    (pick < 0 || (grow ? s->weight[i] > s->weight[pick] : s->weight[i] < s->weight[pick])))
				pick = i;
		vector_set(&v, pick, grow);
	}
	return v;
}

/* A lower ratio's mask competes with the incumbent; a higher one's must replace it, since by matchness
 * alone the smaller mask would always stay. */
void search_set_skip_ratio(struct search* s, double r) {
	if (r == 0 && s->option.objective == OBJECTIVE_SPEEDUP)
		r = 0.45;
	if (!(r > 0 && r <= 1) || size_of(s, r) == s->size) {
		if (r > 0 && r <= 1)
			s->skip_ratio = r;
		return;
	}
	const bool rise = r > s->skip_ratio;
	s->skip_ratio = r;
	s->size = size_of(s, r);
	s->exhausted = false;
	const struct vector v = resized(s, s->incumbent < 0 ? &s->start : &s->record.entry[s->incumbent].bits);
	if (rise)
		adopt(s, &v);
	else
		suggest(s, &v);
	search_reopen(s);
}

void search_set_costs(struct search* s, const struct search_costs* cost) {
	if (!isfinite(cost->attention) || !isfinite(cost->mlp) || !isfinite(cost->fixed) || cost->attention < 0 ||
	    cost->mlp < 0 || cost->fixed < 0 || cost->max_draft < 1)
		return;
	s->cost = *cost;
	s->have_costs = true;
}

void search_reopen(struct search* s) {
	s->state = SEARCH_RUNNING;
	s->opened_at = s->improved_at = s->steps;
	for (int i = 0; i < s->record.entries; i++)
		s->record.entry[i].above = 0;
	linear_loosen(s->linear, 0.25);
}

void search_settle(struct search* s) {
	s->state = SEARCH_CONFIRMED;
	s->waiting = 0;
}

bool search_waits(const struct search* s) { return s->incumbent < 0 || s->suggestions > 0; }

enum search_state search_state(const struct search* s) { return s->state; }
int search_steps(const struct search* s) { return s->steps; }
double search_skip_ratio(const struct search* s) { return s->skip_ratio; }

void search_seconds(const struct search* s, double* foreground, double* background) {
	if (foreground)
		*foreground = s->seconds;
	if (background)
		*background = s->background ? background_seconds(s->background) : 0;
}

void search_each(const struct search* s,
                 void (*visit)(void* user, const struct mask*, int matches, int rows, int64_t window),
                 void* user) {
	for (int i = 0; i < s->record.observations; i++) {
		const struct observation* o = &s->record.observation[i];
		const struct mask mask = mask_of(s, &s->record.entry[o->entry].bits);
		visit(user, &mask, o->matches, o->rows, o->window);
	}
}
