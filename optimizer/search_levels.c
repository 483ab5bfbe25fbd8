/* The search for the levels that a draft reads, over few real dimensions (level_point.h).
 *
 * It starts from given levels. A proposal's score is the log-probability that the draft gives to the target's
 * tokens, which separates masks with fewer rows than hits do. Hits then calibrate log-probabilities. If the
 * share read is free, the search maximises the expected speed-up at measured costs; otherwise it maximises
 * the score. The process's posterior decides which scored mask is better than the best one so far by more
 * than luck. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/decode/cost.h"
#include "optimizer/search_state.h"

enum { CAPACITY = 128, KEPT = 96, FIRST_FIT = 8, FIT_EVALUATIONS = 12, STARTS = 96, CLIMB = 120 };

/* Hits that a rise of the mean log-probability by one brings, before scores have shown it: measured on
 * SmolLM2 at a read of .43 (bench search). It counts as this many rows of scores. */
static const double FIRST_SLOPE = 0.35, SLOPE_ROWS = 64;
/* A mask replaces the best one if its estimate is better by this many deviations, because the best of many is
 * often so by luck. If scores alone choose, rows on the same windows are assumed to stray this much. */
static const double PROVEN = 2, STRAY = 0.8;
/* The optimism about a proposal, in deviations. */
static const double HOPE = 1;

struct level_entry {
	struct mask mask;
	double x[LEVEL_DIMS];
	int64_t matches, rows; /* on all windows */
	double lead;           /* its rows' log-probabilities less the best one's on the same windows, summed */
	int64_t compared;      /* such rows */
	int64_t last_window;   /* 0: none */
	double level;          /* mean log-probability there */
};

struct level_space {
	struct level_model model;
	bool known;    /* the model's bytes are */
	double layers; /* what a draft step's layers cost when all of them is read; 0: unknown */
	struct level_entry entry[CAPACITY];
	int entries, best;
	double proposed[LEVEL_DIMS];
	/* sums over all scores, by rows: log-probability and hits, what they do together */
	double sum_rows, sum_level, sum_hits, sum_square, sum_product;
};

/* ---- opening -------------------------------------------------------------------------------- */

static struct gp* open_process(void) {
	struct gp_options o = {
	    .dims = LEVEL_DIMS,
	    .capacity = CAPACITY,
	    .jitter = 1e-6,
	    .prior_width = 0.7,
	    /* of mean log-probabilities; noise: a row around the mean of its window and levels */
	    .hyper = {.amplitude = 0.25, .window = 0.15, .noise = STRAY}};
	for (int i = 0; i < LEVEL_DIMS; i++)
		o.hyper.length[i] = 0.7;
	return gp_open(&o);
}

bool levels_open(struct search* s) {
	s->levels = calloc(1, sizeof *s->levels);
	if (!s->levels || (s->option.bayes_interval > 0 && !(s->gp = open_process())))
		return false;
	s->levels->model.blocks = s->option.blocks;
	s->levels->entries = 1;
	s->next_fit = FIRST_FIT;
	s->pending = true;
	return true;
}

bool levels_known(const struct search* s) { return s->levels->known; }

/* ---- the value of a mask ---------------------------------------------------------------------- */

static bool maximises_speed(const struct search* s) {
	return s->levels->layers > 0 && !s->option.given_share;
}

/* The hits that a mean log-probability comes to, by all scores. */
static double estimate_hits(const struct level_space* l, double level) {
	if (l->sum_rows <= 0)
		return NAN;
	const double mean_level = l->sum_level / l->sum_rows, mean_hits = l->sum_hits / l->sum_rows;
	const double square = l->sum_square - l->sum_rows * mean_level * mean_level;
	const double product = l->sum_product - l->sum_rows * mean_level * mean_hits;
	/* the prior counts as SLOPE_ROWS rows whose levels have a standard deviation of .1 */
	const double before = SLOPE_ROWS * 0.01;
	const double slope = (fmax(0, product) + before * FIRST_SLOPE) / (fmax(0, square) + before);
	return fmin(1, fmax(0, mean_hits + slope * (level - mean_level)));
}

double levels_cost(const struct search* s, const struct mask* mask) {
	return fmax(1e-3,
	            s->cost.fixed + s->levels->layers * level_share(&s->levels->model, mask, &s->option.start));
}

static double rate_mask(const struct search* s, const struct mask* mask, double level) {
	if (!maximises_speed(s))
		return level;
	const double alpha = estimate_hits(s->levels, level);
	return chain_rate(s->cost.verify, s->cost.max_draft, alpha, levels_cost(s, mask)) + 1e-6 * level;
}

/* The estimated mean log-probability of a mask; without a process, that of its last scores. */
static double estimate_level(const struct search* s, const struct level_entry* e) {
	double mean = e->level;
	if (s->gp && gp_count(s->gp) > 0)
		gp_predict(s->gp, e->x, &mean, NULL);
	return mean;
}

/* Its lead over the best one of the time when it became it. */
static double mean_lead(const struct level_entry* e) {
	return e->compared > 0 ? e->lead / (double)e->compared : 0;
}

double levels_matchness(const struct search* s) {
	const struct level_entry* const e = &s->levels->entry[s->levels->best];
	return e->rows > 0 ? estimate_hits(s->levels, estimate_level(s, e)) : NAN;
}

/* ---- the best ------------------------------------------------------------------------------- */

/* The gain of a mask over the best one, less what luck may have done; -INFINITY: unknown. */
static double bound_lead(const struct search* s, const struct level_entry* e) {
	const struct level_entry* const best = &s->levels->entry[s->levels->best];
	double lead, deviation;
	if (s->gp && e->rows > 0) {
		gp_compare(s->gp, e->x, best->x, &lead, &deviation);
	} else if (!s->gp && e->compared > 0) {
		lead = e->lead / (double)e->compared - mean_lead(best);
		deviation = STRAY / sqrt((double)e->compared);
	} else {
		return -INFINITY;
	}
	return lead - PROVEN * deviation;
}

bool levels_choose(struct search* s, struct mask* out, double* chosen_by) {
	struct level_space* const l = s->levels;
	if (s->pending)
		return false;
	const struct level_entry* const now = &l->entry[l->best];
	const double level = estimate_level(s, now);
	double most = rate_mask(s, &now->mask, level);
	int best = l->best;
	for (int i = 0; i < l->entries; i++) {
		const double lead = i == l->best ? -INFINITY : bound_lead(s, &l->entry[i]);
		const double worth = lead > -INFINITY ? rate_mask(s, &l->entry[i].mask, level + lead) : -INFINITY;
		if (worth > most) {
			most = worth;
			best = i;
		}
	}
	if (best == l->best)
		return false;
	const struct level_entry* const e = &l->entry[best];
	l->best = best;
	*out = e->mask;
	*chosen_by = e->rows > 0 ? (double)e->matches / (double)e->rows : NAN;
	return true;
}

/* ---- what it learns ------------------------------------------------------------------------- */

void levels_set_costs(struct search* s) {
	struct level_space* const l = s->levels;
	double layers = 0;
	for (int k = 0; k < COLUMN_KINDS; k++)
		layers += s->option.blocks * s->cost.channel[k];
	if (!(layers > 0))
		return;
	l->layers = layers;
	memcpy(l->model.bytes, s->cost.channel, sizeof l->model.bytes);
	for (int i = 0; i < l->entries && !l->known; i++)
		level_point(&l->model, &l->entry[i].mask, &s->option.start, l->entry[i].x);
	l->known = true;
}

static int find_entry(const struct level_space* l, const struct mask* mask) {
	for (int i = l->entries; i-- > 0;)
		if (mask_equal(&l->entry[i].mask, mask))
			return i;
	return -1;
}

/* The oldest go, but the best one, which comes first. */
static void forget_entries(struct level_space* l) {
	const struct level_entry best = l->entry[l->best];
	memmove(l->entry + 1, l->entry + l->entries - KEPT + 1, (KEPT - 1) * sizeof *l->entry);
	l->entry[0] = best;
	l->entries = KEPT;
	for (int i = KEPT; i-- > 1;) /* it may have been among those */
		if (mask_equal(&l->entry[i].mask, &best.mask))
			l->entry[i] = l->entry[--l->entries];
	l->best = 0;
}

/* The mask's entry, made when it is new; x: its point, or NULL. */
static int find_or_add_entry(struct search* s, const struct mask* mask, const double* x) {
	struct level_space* const l = s->levels;
	const int known = find_entry(l, mask);
	if (known >= 0)
		return known;
	if (l->entries == CAPACITY)
		forget_entries(l);
	struct level_entry* const e = &l->entry[l->entries];
	*e = (struct level_entry){.mask = *mask};
	if (x)
		memcpy(e->x, x, sizeof e->x);
	else if (l->known)
		level_point(&l->model, mask, &s->option.start, e->x);
	return l->entries++;
}

bool levels_adopt(struct search* s, const struct mask* mask) {
	struct level_space* const l = s->levels;
	l->best = find_or_add_entry(s, mask, NULL);
	return l->entry[l->best].rows > 0;
}

/* ---- proposing ------------------------------------------------------------------------------ */

/* Around the best one, and now and then anywhere. */
static void draw_point(struct search* s, double* x) {
	static const double near = 0.15;
	const struct level_entry* const best = &s->levels->entry[s->levels->best];
	const bool anywhere = gp_below(&s->random, 4) == 0;
	for (int i = 0; i < LEVEL_DIMS; i++)
		x[i] = anywhere ? gp_uniform(&s->random) : best->x[i] + near * gp_normal(&s->random);
}

/* An upper confidence bound: what the point is worth if it is better than thought. */
static double bound_worth(void* user, const double* x, double mean, double deviation) {
	const struct search* const s = user;
	const struct mask mask = level_mask(&s->levels->model, x);
	return rate_mask(s, &mask, mean + HOPE * deviation);
}

static bool ask_process(struct search* s, const double* fixed, double* x) {
	const struct gp_search how = {.worth = bound_worth,
	                              .user = s,
	                              .fixed = fixed,
	                              .starts = STARTS,
	                              .evaluations = CLIMB,
	                              .seed = gp_random_bits(&s->random)};
	if (gp_count(s->gp) >= s->next_fit) {
		gp_fit(s->gp, FIT_EVALUATIONS);
		s->next_fit = gp_count(s->gp) * 3 / 2;
	}
	memcpy(x, s->levels->entry[s->levels->best].x, LEVEL_DIMS * sizeof *x);
	return gp_maximise(s->gp, &how, x) == GP_OK;
}

/* The share read stays if it is not searched. */
static void fix_coordinates(const struct search* s, double* fixed) {
	const struct level_model* const m = &s->levels->model;
	for (int i = 0; i < LEVEL_DIMS; i++)
		fixed[i] = NAN;
	if (!maximises_speed(s))
		fixed[LEVEL_READ] =
		    level_read_coordinate(level_share(m, &(struct mask){.word = {0}}, &s->option.start));
}

bool levels_best_is_scored_here(const struct search* s) {
	return s->levels->entry[s->levels->best].last_window == s->window;
}

enum proposal_kind levels_propose(struct search* s, struct mask* out) {
	double fixed[LEVEL_DIMS], *const x = s->levels->proposed;
	fix_coordinates(s, fixed);
	const bool turn = s->gp && (s->steps + 1) % s->option.bayes_interval == 0;
	const bool bayes = turn && gp_count(s->gp) > 1 && ask_process(s, fixed, x);
	if (!bayes)
		draw_point(s, x);
	for (int i = 0; i < LEVEL_DIMS; i++)
		x[i] = isnan(fixed[i]) ? fmin(1, fmax(0, x[i])) : fixed[i];
	*out = level_mask(&s->levels->model, x);
	return bayes ? PROPOSAL_BAYES : PROPOSAL_RANDOM;
}

/* ---- observing ------------------------------------------------------------------------------ */

static void add_to_sums(struct level_space* l, double level, double hits, int rows) {
	l->sum_rows += rows;
	l->sum_level += rows * level;
	l->sum_hits += rows * hits;
	l->sum_square += rows * level * level;
	l->sum_product += rows * level * hits;
}

static void add_to_process(struct search* s, const struct level_entry* e, double level, int rows) {
	if (!s->gp)
		return;
	if (gp_count(s->gp) == CAPACITY)
		gp_forget(s->gp, KEPT);
	gp_add(s->gp, e->x, level, 1.0 / rows, s->window);
	s->next_fit = s->next_fit > CAPACITY ? CAPACITY : s->next_fit;
}

void levels_observe(struct search* s, const struct proposal* p, int matches, int rows) {
	struct level_space* const l = s->levels;
	const double level = p->log_probability;
	const bool step = p->kind == PROPOSAL_RANDOM || p->kind == PROPOSAL_BAYES;
	struct level_entry* const e = &l->entry[find_or_add_entry(s, &p->mask, step ? l->proposed : NULL)];
	const struct level_entry* const best = &l->entry[l->best];
	if (e != best && levels_best_is_scored_here(s)) {
		e->lead += (level - best->level + mean_lead(best)) * rows;
		e->compared += rows;
	}
	e->matches += matches;
	e->rows += rows;
	e->level = level;
	e->last_window = s->window;
	add_to_sums(l, level, (double)matches / rows, rows);
	add_to_process(s, e, level, rows);
}
