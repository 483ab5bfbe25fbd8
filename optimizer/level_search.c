/* The search over levels; level_search.h says how it goes. */
#include "optimizer/level_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/decode/session_cost.h"
#include "gp/random.h"
#include "gp/reals.h"

enum { CAPACITY = 128, KEPT = 96, FIRST_FIT = 8, FIT_EVALUATIONS = 12, STARTS = 96, CLIMB = 120 };

/* What a mean log-probability's rise by one brings in hits, before scores have told: so it is on SmolLM2 at a
 * read of .43 (bench search). So many rows' worth of scores that is believed. */
static const double FIRST_SLOPE = 0.35, SLOPE_ROWS = 64;
/* Acceptance while drafting is believed against scores as so many rows. */
static const double DRAFT_ROWS = 64;
/* A mask takes the best one's place when it is thought to be better by so many deviations of that: the best
 * of many by luck is not. Where scores alone choose, rows on the same windows are taken to stray by so much.
 */
static const double PROVEN = 2, STRAY = 0.8;
/* What a proposal is hoped to be better than thought, in deviations. */
static const double HOPE = 1;

struct level_entry {
	struct mask mask;
	double x[LEVEL_DIMS];
	int64_t matches, rows; /* on all windows */
	double lead;           /* its rows' log-probabilities less the best one's on the same windows, summed */
	int64_t compared;      /* such rows */
	int64_t last_window;   /* 0: none */
	double level;          /* mean log-probability there */
	double accepted, trials;
};

struct level_search {
	struct level_options option;
	struct level_model model;
	struct reals* process; /* NULL: scores alone choose */
	struct gp_random random;
	bool known;                                  /* the model's bytes are */
	double layers, rest, verify[SLICE_ROWS + 1]; /* costs; layers 0: unknown */
	int max_draft;

	struct level_entry entry[CAPACITY];
	int entries, best;
	bool pending; /* the best was put there unscored, and stays until it is scored */
	double proposed[LEVEL_DIMS];
	/* sums over all scores, by rows: log-probability and hits, what they do together */
	double sum_rows, sum_level, sum_hits, sum_square, sum_product;

	int64_t window;
	int window_size;
	int64_t chosen_on; /* the window that the best became it on */
	double chosen_by;  /* its hits then; NaN: none */
	int64_t unseen_matches, unseen_rows;
	int steps, improved_at, next_fit;
	enum search_state state;
};

/* ---- opening -------------------------------------------------------------------------------- */

static struct reals* open_process(void) {
	struct reals_options o = {
	    .dims = LEVEL_DIMS,
	    .capacity = CAPACITY,
	    .jitter = 1e-6,
	    .prior_width = 0.7,
	    /* of mean log-probabilities: a row's own strays from what its window and its levels say */
	    .hyper = {.amplitude = 0.25, .window = 0.15, .noise = STRAY}};
	for (int i = 0; i < LEVEL_DIMS; i++)
		o.hyper.length[i] = 0.7;
	return reals_open(&o);
}

struct level_search* level_open(const struct level_options* o) {
	struct level_search* s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->option = *o;
	s->model.blocks = o->blocks;
	s->random.state = o->seed;
	s->next_fit = FIRST_FIT;
	s->chosen_by = NAN;
	s->pending = true;
	s->entries = 1;
	if (o->bayes_interval > 0 && !(s->process = open_process())) {
		free(s);
		return NULL;
	}
	return s;
}

void level_close(struct level_search* s) {
	if (!s)
		return;
	reals_close(s->process);
	free(s);
}

/* ---- what a mask is worth -------------------------------------------------------------------- */

static bool is_priced(const struct level_search* s) { return s->layers > 0 && !s->option.given_share; }

/* The hits that a mean log-probability comes to, by all scores. */
static double hits_at(const struct level_search* s, double level) {
	if (s->sum_rows <= 0)
		return NAN;
	const double mean_level = s->sum_level / s->sum_rows, mean_hits = s->sum_hits / s->sum_rows;
	const double square = s->sum_square - s->sum_rows * mean_level * mean_level;
	const double product = s->sum_product - s->sum_rows * mean_level * mean_hits;
	/* SLOPE_ROWS rows that stray by a tenth say what was known before */
	const double before = SLOPE_ROWS * 0.01;
	const double slope = (fmax(0, product) + before * FIRST_SLOPE) / (fmax(0, square) + before);
	return fmin(1, fmax(0, mean_hits + slope * (level - mean_level)));
}

/* Of a draft step at that share. */
static double cost_of(const struct level_search* s, const struct mask* mask) {
	return fmax(1e-3, s->rest + s->layers * level_share(&s->model, mask, &s->option.start));
}

static double worth_of(const struct level_search* s, const struct mask* mask, double level) {
	if (!is_priced(s))
		return level;
	const double alpha = hits_at(s, level);
	return chain_rate(s->verify, s->max_draft, alpha, cost_of(s, mask)) + 1e-6 * level;
}

/* The mean log-probability that is thought to be a mask's; of its last scores where there is no process. */
static double level_of(const struct level_search* s, const struct level_entry* e) {
	double mean = e->level;
	if (s->process && reals_count(s->process) > 0)
		reals_predict(s->process, e->x, &mean, NULL);
	return mean;
}

/* Its lead over the best one of the time when it became it. */
static double standing_of(const struct level_entry* e) {
	return e->compared > 0 ? e->lead / (double)e->compared : 0;
}

/* ---- the best ------------------------------------------------------------------------------- */

static void choose_entry(struct level_search* s, int index) {
	const struct level_entry* e = &s->entry[index];
	if (index == s->best)
		return;
	s->best = index;
	s->unseen_matches = s->unseen_rows = 0;
	s->chosen_on = s->window;
	s->chosen_by = e->rows > 0 ? (double)e->matches / (double)e->rows : NAN;
	s->improved_at = s->steps;
}

/* By how much a mask is better than the best one, less what luck may have done; -INFINITY: nothing says so.
 */
static double proven_lead(const struct level_search* s, const struct level_entry* e) {
	const struct level_entry* const best = &s->entry[s->best];
	double lead, deviation;
	if (s->process && e->rows > 0) {
		reals_compare(s->process, e->x, best->x, &lead, &deviation);
	} else if (!s->process && e->compared > 0) {
		lead = e->lead / (double)e->compared - standing_of(best);
		deviation = STRAY / sqrt((double)e->compared);
	} else {
		return -INFINITY;
	}
	return lead - PROVEN * deviation;
}

static void compare_entries(struct level_search* s) {
	if (s->pending)
		return;
	const struct level_entry* const now = &s->entry[s->best];
	const double level = level_of(s, now);
	double most = worth_of(s, &now->mask, level);
	int best = s->best;
	for (int i = 0; i < s->entries; i++) {
		const double lead = i == s->best ? -INFINITY : proven_lead(s, &s->entry[i]);
		const double worth = lead > -INFINITY ? worth_of(s, &s->entry[i].mask, level + lead) : -INFINITY;
		if (worth > most) {
			most = worth;
			best = i;
		}
	}
	choose_entry(s, best);
}

/* ---- what it is told ------------------------------------------------------------------------ */

static void place_points(struct level_search* s) {
	for (int i = 0; i < s->entries; i++)
		level_point(&s->model, &s->entry[i].mask, &s->option.start, s->entry[i].x);
}

void level_set_bytes(struct level_search* s, const double bytes[COLUMN_KINDS]) {
	memcpy(s->model.bytes, bytes, sizeof s->model.bytes);
	if (!s->known)
		place_points(s);
	s->known = true;
}

void level_set_costs(struct level_search* s, double layers, double rest, const double* verify,
                     int max_draft) {
	s->layers = layers;
	s->rest = rest;
	s->max_draft = max_draft;
	memcpy(s->verify, verify, sizeof s->verify);
	compare_entries(s);
}

void level_set_spans(struct level_search* s, const struct spans* spans) {
	if (spans->rows > 0 && spans->blocks == s->model.blocks)
		level_model_spans(&s->model, spans);
}

void level_window(struct level_search* s, int64_t window, int size) {
	s->window = window;
	s->window_size = size;
}

static int find_entry(const struct level_search* s, const struct mask* mask) {
	for (int i = s->entries; i-- > 0;)
		if (mask_equal(&s->entry[i].mask, mask))
			return i;
	return -1;
}

/* The oldest go, but the best one, which comes first. */
static void forget_entries(struct level_search* s) {
	const struct level_entry best = s->entry[s->best];
	memmove(s->entry + 1, s->entry + s->entries - KEPT + 1, (KEPT - 1) * sizeof *s->entry);
	s->entry[0] = best;
	s->entries = KEPT;
	for (int i = KEPT; i-- > 1;) /* it may have been among those */
		if (mask_equal(&s->entry[i].mask, &best.mask))
			s->entry[i] = s->entry[--s->entries];
	s->best = 0;
}

static int add_entry(struct level_search* s, const struct mask* mask, const double* x) {
	if (s->entries == CAPACITY)
		forget_entries(s);
	struct level_entry* const e = &s->entry[s->entries];
	*e = (struct level_entry){.mask = *mask};
	if (x)
		memcpy(e->x, x, sizeof e->x);
	else if (s->known)
		level_point(&s->model, mask, &s->option.start, e->x);
	return s->entries++;
}

void level_adopt(struct level_search* s, const struct mask* mask) {
	int index = find_entry(s, mask);
	if (index < 0)
		index = add_entry(s, mask, NULL);
	choose_entry(s, index);
	s->pending = s->entry[index].rows == 0;
}

void level_see_draft(struct level_search* s, const struct mask* mask, double accepted, double trials) {
	const int index = find_entry(s, mask);
	if (index < 0 || !(trials > 0) || !isfinite(trials) || !(accepted >= 0 && accepted <= trials))
		return;
	struct level_entry* const e = &s->entry[index];
	const double fade = e->trials > 8 * DRAFT_ROWS ? 0.5 : 1; /* what was long ago counts less */
	e->accepted = fade * e->accepted + accepted;
	e->trials = fade * e->trials + trials;
}

/* ---- proposing ------------------------------------------------------------------------------ */

/* Around the best one, and now and then anywhere. */
static void draw_point(struct level_search* s, double* x) {
	static const double near = 0.15;
	const bool anywhere = gp_below(&s->random, 4) == 0;
	for (int i = 0; i < LEVEL_DIMS; i++)
		x[i] = anywhere ? gp_uniform(&s->random) : s->entry[s->best].x[i] + near * gp_normal(&s->random);
}

/* An upper confidence bound: what the point is worth if it is better than thought. */
static double hopeful_worth(void* user, const double* x, double mean, double deviation) {
	const struct level_search* const s = user;
	const struct mask mask = level_mask(&s->model, x);
	return worth_of(s, &mask, mean + HOPE * deviation);
}

static bool ask_process(struct level_search* s, const double* fixed, double* x) {
	const struct reals_search how = {.worth = hopeful_worth,
	                                 .user = s,
	                                 .fixed = fixed,
	                                 .starts = STARTS,
	                                 .evaluations = CLIMB,
	                                 .seed = gp_random_bits(&s->random)};
	if (reals_count(s->process) >= s->next_fit) {
		reals_fit(s->process, FIT_EVALUATIONS);
		s->next_fit = reals_count(s->process) * 3 / 2;
	}
	memcpy(x, s->entry[s->best].x, LEVEL_DIMS * sizeof *x);
	return reals_maximise(s->process, &how, x) == GP_OK;
}

/* What is given stays: the share where it is not searched, and no block goes before spans are known. */
static void hold_fixed(const struct level_search* s, double* fixed) {
	for (int i = 0; i < LEVEL_DIMS; i++)
		fixed[i] = NAN;
	if (!is_priced(s))
		fixed[LEVEL_READ] =
		    level_read_coordinate(level_share(&s->model, &(struct mask){.word = {0}}, &s->option.start));
	if (s->model.span_first[1] == 0)
		fixed[LEVEL_BLOCKS] = 0;
}

static enum proposal_kind next_point(struct level_search* s, double* x) {
	double fixed[LEVEL_DIMS];
	hold_fixed(s, fixed);
	const bool turn = s->process && (s->steps + 1) % s->option.bayes_interval == 0;
	if (turn && reals_count(s->process) > 1 && ask_process(s, fixed, x))
		return PROPOSAL_BAYES;
	draw_point(s, x);
	for (int i = 0; i < LEVEL_DIMS; i++)
		x[i] = isnan(fixed[i]) ? fmin(1, fmax(0, x[i])) : fixed[i];
	return PROPOSAL_RANDOM;
}

static bool is_scored_here(const struct level_search* s, const struct level_entry* e) {
	return s->window > 0 && e->last_window == s->window;
}

bool level_propose(struct level_search* s, struct proposal* p) {
	const struct level_entry* const best = &s->entry[s->best];
	if (s->window_size < 1 || !s->known)
		return false;
	*p = (struct proposal){
	    .kind = s->pending ? PROPOSAL_START : PROPOSAL_RESCORE, .mask = best->mask, .log_probability = NAN};
	memcpy(s->proposed, best->x, sizeof s->proposed);
	if (s->pending || (s->state == SEARCH_RUNNING && !is_scored_here(s, best)))
		return true;
	if (s->state != SEARCH_RUNNING)
		return false;
	p->kind = next_point(s, s->proposed);
	p->step = s->steps + 1;
	p->mask = level_mask(&s->model, s->proposed);
	return true;
}

/* ---- observing ------------------------------------------------------------------------------ */

static void add_to_sums(struct level_search* s, double level, double hits, int rows) {
	s->sum_rows += rows;
	s->sum_level += rows * level;
	s->sum_hits += rows * hits;
	s->sum_square += rows * level * level;
	s->sum_product += rows * level * hits;
}

static void tell_process(struct level_search* s, const struct level_entry* e, double level, int rows) {
	if (!s->process)
		return;
	if (reals_count(s->process) == CAPACITY)
		reals_forget(s->process, KEPT);
	reals_add(s->process, e->x, level, 1.0 / rows, s->window);
	s->next_fit = s->next_fit > CAPACITY ? CAPACITY : s->next_fit;
}

static void note_score(struct level_search* s, int index, double level, int matches, int rows) {
	struct level_entry* const e = &s->entry[index];
	const struct level_entry* const best = &s->entry[s->best];
	if (index != s->best && is_scored_here(s, best)) {
		e->lead += (level - best->level + standing_of(best)) * rows;
		e->compared += rows;
	}
	e->matches += matches;
	e->rows += rows;
	e->level = level;
	e->last_window = s->window;
	if (index == s->best && !s->pending && s->window != s->chosen_on) {
		s->unseen_matches += matches;
		s->unseen_rows += rows;
	}
}

static void check_stop(struct level_search* s) {
	if (s->state != SEARCH_RUNNING)
		return;
	if (s->steps >= s->option.max_steps)
		s->state = SEARCH_EXHAUSTED;
	else if (s->steps - s->improved_at >= s->option.patience)
		s->state = SEARCH_PATIENCE;
}

void level_observe(struct level_search* s, const struct proposal* p, int matches, int rows) {
	const double level = p->log_probability;
	if (!s->known || rows < 1 || rows > s->window_size || matches < 0 || matches > rows || !isfinite(level))
		return;
	const bool step = search_is_step(p->kind);
	int index = find_entry(s, &p->mask);
	if (index < 0)
		index = add_entry(s, &p->mask, s->proposed);
	s->steps += step;
	note_score(s, index, level, matches, rows);
	add_to_sums(s, level, (double)matches / rows, rows);
	tell_process(s, &s->entry[index], level, rows);
	if (s->pending && index == s->best) {
		s->pending = false;
		s->chosen_on = s->window;
		s->chosen_by = (double)matches / rows;
	}
	compare_entries(s);
	check_stop(s);
}

/* ---- what is asked of it -------------------------------------------------------------------- */

struct mask level_best(const struct level_search* s, double* matchness) {
	if (matchness)
		*matchness = s->unseen_rows > 0 ? (double)s->unseen_matches / (double)s->unseen_rows : NAN;
	return s->entry[s->best].mask;
}

double level_chosen_by(const struct level_search* s) { return s->chosen_by; }

double level_expected(const struct level_search* s) {
	const struct level_entry* const e = &s->entry[s->best];
	const double scored = s->sum_rows > 0 && e->rows > 0 ? hits_at(s, level_of(s, e)) : NAN;
	const double rows = isnan(scored) ? 0 : DRAFT_ROWS;
	if (isnan(scored) && e->trials < 1)
		return NAN;
	return (e->accepted + (rows > 0 ? rows * scored : 0)) / (e->trials + rows);
}

double level_speedup(const struct level_search* s) {
	const double alpha = level_expected(s);
	return s->layers > 0 && !isnan(alpha)
	           ? chain_rate(s->verify, s->max_draft, alpha, cost_of(s, &s->entry[s->best].mask))
	           : NAN;
}

bool level_waits(const struct level_search* s) { return s->pending && s->known; }
int level_steps(const struct level_search* s) { return s->steps; }
enum search_state level_state(const struct level_search* s) { return s->state; }
void level_settle(struct level_search* s) { s->state = SEARCH_CONFIRMED; }
