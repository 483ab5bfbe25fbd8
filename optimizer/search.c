/* The layer-set search: which mask to score next, which one is best, and when to stop.
 *
 * Noise rules it: a window of 32 trials has a standard error of some 0.04 near the top. So the mask that
 * drafts is the one with the best posterior mean (optimizer/belief.h), which has every score and every draft
 * in it, where costs count as the speed-up that follows from it (optimizer/speedup.h). Proposals are draws
 * from the same posterior, with a Bayesian one now and then; at a window move the incumbent and the three
 * runners-up are scored again; and the search is confirmed by its windows one by one and together. */
#include "optimizer/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "optimizer/published.h"
#include "optimizer/random_mask.h"
#include "optimizer/record.h"
#include "optimizer/speedup.h"

enum { MAX_SUGGESTIONS = 8, RUNNERS_UP = 3, MAX_RESCORES = RUNNERS_UP + 1, SIZES = 9 };

/* r until costs are known, where it is the search's to choose. */
static const double FIRST_RATIO = 0.45;
/* The most that is skipped, before any score, when what is believed there is extrapolated far; and after. */
static const double MOST_RATIO[2] = {0.7, 0.9};

struct search {
	struct search_options option;
	struct search_costs cost;
	bool have_costs;
	int dims, size; /* skippable sub-layers; those a proposal skips where the size is fixed */
	bool free_size; /* as many as pay */
	struct record record;
	struct belief belief;
	struct gp_random random;
	struct bayes* bayes;
	struct published published;
	int next_draw;

	int64_t window;
	int window_size;     /* 0: none set */
	int steps_on_window; /* on the present one */
	int incumbent;       /* entry */
	bool pending;        /* the incumbent was put there unscored, and stays until it is scored */
	bool given;          /* it came from outside: influence does not replace it */
	int64_t chosen_on;   /* the window that the incumbent became the best on */
	double chosen_by;    /* its score then; NaN: none */
	int64_t unseen_matches, unseen_rows;
	int wait[MAX_RESCORES]; /* entries to score again on this window, last first */
	int waiting;
	struct vector suggestion[MAX_SUGGESTIONS];
	int suggestions;
	double drafts; /* draft steps seen since the incumbent was last compared */

	enum search_state state;
	int steps;       /* proposals observed */
	int opened_at;   /* steps when the search was last (re)opened */
	int improved_at; /* steps when the incumbent last changed */
	bool exhausted;  /* no mask of this size is left */
	double seconds;
};

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

static int size_of(const struct search* s, double skip_ratio) {
	return (int)floor(skip_ratio * s->dims + 1e-9);
}

static bool is_step(enum proposal_kind kind) { return kind == PROPOSAL_RANDOM || kind == PROPOSAL_BAYES; }

static struct entry* incumbent_of(const struct search* s) { return &s->record.entry[s->incumbent]; }

/* ---- what a mask is worth ----------------------------------------------------------------- */

static bool by_speedup(const struct search* s) {
	return s->option.objective == OBJECTIVE_SPEEDUP && s->have_costs;
}

static double speedup_at(const struct search* s, const struct vector* v, double alpha) {
	int kind[2] = {0, 0};
	for (int i = 0; i < s->dims; i++)
		kind[i & 1] += vector_has(v, i);
	return speedup_of(&s->cost, s->option.blocks, kind[0], kind[1], alpha);
}

/* In the search's objective; the matchness itself breaks ties, as where no chain pays. */
static double value_of(const struct search* s, const struct vector* v, double matchness) {
	return by_speedup(s) ? speedup_at(s, v, matchness) + 1e-6 * matchness : matchness;
}

static double estimate(const struct search* s, const struct entry* e) {
	return belief_matchness(&s->belief, &e->bits, &e->own);
}

/* What to count on from a mask that was scored so often, where masks of all sizes compete: other text may
 * have three tenths more misses, and the more a mask skips the more it has to lose. */
static double cautious(double matchness, int scores) {
	return 1 - (1 - matchness) * (1 + 0.3 / (1.0 + scores));
}

static double estimated_value(const struct search* s, const struct entry* e) {
	const double matchness = estimate(s, e);
	return value_of(s, &e->bits, s->free_size ? cautious(matchness, e->own.scores) : matchness);
}

/* order (dims) by rising key: insertion sort, stable, for at most some hundred. */
static void sort_by(const double* key, int* order, int n) {
	for (int i = 0; i < n; i++) {
		int at = i;
		for (; at > 0 && key[order[at - 1]] > key[i]; at--)
			order[at] = order[at - 1];
		order[at] = i;
	}
}

static struct vector prefix(const int* order, int size) {
	struct vector v = {{0}};
	for (int n = 0; n < size; n++)
		vector_set(&v, order[n], true);
	return v;
}

/* The sub-layers of least damage, or of least damage for what skipping them saves: exactly s->size of them,
 * or where the size is free as many as pay. */
static struct vector best_of(const struct search* s, const double* damage) {
	double key[MAX_DIMS] = {0};
	int order[MAX_DIMS], size = s->size;
	const bool choose = s->free_size && by_speedup(s);
	for (int i = 0; i < s->dims; i++) {
		const double saved = i & 1 ? s->cost.mlp : s->cost.attention;
		key[i] = choose && damage[i] > 0 && saved > 0 ? damage[i] / saved : damage[i];
	}
	sort_by(key, order, s->dims);
	double sum = 0, best = 0;
	int kind[2] = {0, 0};
	for (int n = 1; choose && n <= size_of(s, MOST_RATIO[s->record.observations > 0]); n++) {
		sum += damage[order[n - 1]];
		kind[order[n - 1] & 1]++;
		const double alpha =
		    cautious(calibration_matchness(&s->belief.link, fmax(0, sum)), s->record.observations);
		const double value = speedup_of(&s->cost, s->option.blocks, kind[0], kind[1], alpha) + 1e-6 * alpha;
		if (value > best) {
			best = value;
			size = n;
		}
	}
	return prefix(order, size);
}

/* ---- the incumbent ------------------------------------------------------------------------ */

/* From now on what is scored of it is unseen. */
static void choose(struct search* s, int index) {
	const struct entry* e = &s->record.entry[index];
	s->incumbent = index;
	s->unseen_matches = s->unseen_rows = 0;
	s->chosen_on = s->window;
	s->chosen_by = e->rows > 0 ? (double)e->matches / (double)e->rows : NAN;
	s->drafts = 0;
}

/* Puts a mask there that is to be scored next. */
static void place(struct search* s, const struct vector* v) {
	choose(s, record_entry(&s->record, v, &s->incumbent));
	s->chosen_by = NAN;
	s->pending = true;
	s->waiting = 0;
}

static bool is_known(const struct entry* e) { return e->rows > 0 || e->own.trials > 0; }

/* By matchness alone the smallest mask would win. */
static bool fits(const struct search* s, const struct entry* e) {
	return by_speedup(s) || vector_count(&e->bits) >= s->size;
}

/* The best posterior mean drafts. */
static void compare(struct search* s, bool step) {
	if (s->pending)
		return;
	int best = s->incumbent;
	double most = estimated_value(s, incumbent_of(s));
	for (int i = 0; i < s->record.entries; i++) {
		const struct entry* e = &s->record.entry[i];
		if (i == s->incumbent || !is_known(e) || !fits(s, e))
			continue;
		const double value = estimated_value(s, e);
		if (value > most) {
			most = value;
			best = i;
		}
	}
	s->drafts = 0;
	if (best == s->incumbent)
		return;
	choose(s, best);
	if (step)
		s->improved_at = s->steps;
}

/* ---- opening and closing ------------------------------------------------------------------ */

static bool check(const struct search_options* o, struct error* error) {
	if (o->blocks < 3 || o->blocks > MAX_BLOCKS)
		return error_set(error, "search: %d blocks, expected 3 to %d: the first and last are never skipped",
		                 o->blocks, MAX_BLOCKS);
	const bool by_price = o->skip_ratio == 0 && o->objective == OBJECTIVE_SPEEDUP && !o->published;
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

static bool open_parts(struct search* s, const struct search_options* o) {
	const struct mask mask = search_start_mask(o->blocks);
	struct vector start;
	vector_of(&mask, s->dims, &start);
	const int capacity = 2 * (o->max_steps < 100000 ? o->max_steps : 100000) + 1024;
	if (!record_open(&s->record, capacity) || !belief_open(&s->belief, s->dims, s->size, o->seed ^ 0x5eed))
		return false;
	place(s, &start);
	if (o->published)
		return published_open(&s->published, o, s->dims, s->size, &start);
	return o->bayes_interval == 0 || (s->bayes = bayes_open(o, s->dims));
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
	s->free_size = o->skip_ratio == 0;
	s->size = size_of(s, s->free_size ? FIRST_RATIO : o->skip_ratio);
	s->random.state = o->seed;
	s->incumbent = -1;
	if (!open_parts(s, o)) {
		search_close(s);
		error_set(error, "search: no memory for %d steps", o->max_steps);
		return NULL;
	}
	return s;
}

void search_close(struct search* s) {
	if (!s)
		return;
	bayes_close(s->bayes);
	published_close(&s->published);
	record_close(&s->record);
	belief_close(&s->belief);
	free(s);
}

/* ---- stopping ----------------------------------------------------------------------------- */

/* Over max_matchness on confirm + 1 windows. Since the incumbent is the best of many noisy scores, a few
 * lucky windows are common; so where confirmation is asked for, one window more is pooled, with one success
 * and one failure added, and the posterior mean must agree. */
static bool is_confirmed(const struct search* s, const struct entry* e) {
	if (s->free_size && by_speedup(s))
		return false; /* a small mask is soon that good; a larger one may be worth more */
	if (e->last_window != s->window || e->above <= s->option.confirm)
		return false;
	if (e->last_matches <= s->option.max_matchness * e->last_rows)
		return false;
	if (s->option.confirm == 0)
		return true;
	if (e->rows < (int64_t)(s->option.confirm + 2) * s->window_size ||
	    estimate(s, e) <= s->option.max_matchness)
		return false;
	return (double)(e->matches + 1) > s->option.max_matchness * (double)(e->rows + 2);
}

static void check_stop(struct search* s) {
	if (s->state != SEARCH_RUNNING)
		return;
	const bool confirmed = s->option.published ? s->published.best_score > s->option.max_matchness
	                                           : is_confirmed(s, incumbent_of(s));
	if (confirmed)
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
		if (i == s->incumbent || e->rows == 0 || !fits(s, e))
			continue;
		const double mine = estimated_value(s, e);
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
	if (s->state != SEARCH_RUNNING || s->pending || s->steps_on_window == 0 || s->option.published)
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
		belief_window(&s->belief);
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

static bool is_new(const struct search* s, const struct vector* v) { return record_find(&s->record, v) < 0; }

/* Swaps sub-layers at random until the mask is one not seen before; false when a few swaps do not get there.
 */
static bool make_new(struct search* s, struct vector* v) {
	for (int try = 0; try < 16; try++) {
		if (is_new(s, v))
			return true;
		random_swap(&s->random, s->dims, v);
	}
	return is_new(s, v);
}

/* How many of the weights a proposal draws; the others stay at their mean. With all of them drawn a proposal
 * has many sub-layers wrong at once, and matchness is flattest there: it falls with the square root of the
 * number that are wrong, so that a token near the top tells several times as much. */
static const double DRAWN_SHARE = 0.5;

/* The best mask of a draw from the posterior (Thompson sampling), in some of its weights, or where the size
 * is to be found too in all of them. */
static bool propose_informed(struct search* s, struct vector* out) {
	double mean[MAX_DIMS], drawn[MAX_DIMS];
	linear_weights(s->belief.linear, mean);
	const double share = s->free_size ? 1 : DRAWN_SHARE;
	for (int try = 0; try < 4; try++) {
		linear_draw(s->belief.linear, s->next_draw++ % BELIEF_DRAWS, 1.5, drawn);
		for (int i = 0; i < s->dims; i++)
			if (gp_uniform(&s->random) > share)
				drawn[i] = mean[i];
		*out = best_of(s, drawn);
		if (is_new(s, out))
			return true;
	}
	return make_new(s, out);
}

/* Random draws keep hitting known masks: where few sets exist, take the first new one, if there is one. */
static bool first_new(const struct search* s, int size, struct vector* v) {
	*v = (struct vector){{0}};
	for (int i = 0; i < size; i++)
		vector_set(v, i, true);
	do
		if (is_new(s, v))
			return true;
	while (next_mask(v, s->dims));
	return false;
}

/* The size that proposals have now: where it is free, that of the best mask, but not so small that there
 * would soon be none left (the best mask is small where nothing pays). */
static int present_size(const struct search* s) {
	if (!s->free_size || !by_speedup(s))
		return s->size;
	const int best = vector_count(&incumbent_of(s)->bits), least = (s->dims + 4) / 5;
	return best > least ? best : least;
}

static bool propose_random(struct search* s, struct vector* out) {
	const bool blind = s->option.bayes_interval == 0 || (!s->belief.informed && s->steps < 8);
	const bool uniform = blind || (!s->belief.informed && gp_below(&s->random, 8) == 0);
	if (!uniform && propose_informed(s, out))
		return true;
	const int size = present_size(s);
	for (int try = 0; try < 64; try++) {
		random_mask(&s->random, s->dims, size, out);
		if (is_new(s, out))
			return true;
	}
	return first_new(s, size, out);
}

/* What a challenger must be able to exceed: one match less than the incumbent, since ties are broken by
 * posterior mean. Where costs count, the fewest matches at which this mask is worth as much. */
static int needed_for(const struct search* s, const struct vector* v) {
	if (!scored_here(s, s->incumbent))
		return 0;
	const struct entry* e = incumbent_of(s);
	const double target = value_of(s, &e->bits, (double)e->last_matches / e->last_rows);
	int least = 0;
	while (least < s->window_size && value_of(s, v, (double)least / s->window_size) < target)
		least++;
	return least > 0 ? least - 1 : 0;
}

static bool fill(const struct search* s, struct proposal* p, enum proposal_kind kind,
                 const struct vector* v) {
	p->kind = kind;
	p->step = is_step(kind) ? s->steps + 1 : 0;
	p->mask = mask_of(v, s->dims);
	p->needed = p->step && !s->option.published ? needed_for(s, v) : 0;
	return true;
}

/* The process has the linear model's sum as its prior mean, and holds what that leaves: interactions. */
static void want_bayes(struct search* s) {
	double trend[MAX_DIMS];
	linear_weights(s->belief.linear, trend);
	for (int i = 0; i < s->dims; i++)
		trend[i] = -trend[i];
	bayes_want(s->bayes, present_size(s), trend, gp_random_bits(&s->random));
}

static bool propose_step(struct search* s, struct proposal* p) {
	struct vector v;
	const int interval = s->option.bayes_interval, step = s->steps + 1;
	if (s->bayes && step % interval == 0)
		want_bayes(s);
	if (s->bayes && bayes_take(s->bayes, &v) && make_new(s, &v))
		return fill(s, p, PROPOSAL_BAYES, &v);
	if (propose_random(s, &v))
		return fill(s, p, PROPOSAL_RANDOM, &v);
	s->exhausted = true;
	check_stop(s);
	return false;
}

/* Expected gain in time a token, in plain steps, from what one score of `rows` may show of a mask. */
static double worth_of(const struct search* s, const struct vector* v, int rows) {
	static const double node[] = {-2.857, -1.356, 0, 1.356, 2.857}; /* Gauss-Hermite, five points */
	static const double weight[] = {0.01126, 0.22208, 0.53333, 0.22208, 0.01126};
	const int index = record_find(&s->record, v);
	const struct evidence* own = index < 0 ? NULL : &s->record.entry[index].own;
	const double mean = belief_matchness(&s->belief, v, own), known = belief_variance(&s->belief, v, own);
	const double told = known * known / (known + belief_noise(mean, rows) / 4); /* distances tell more */
	const double present = fmax(1, search_speedup(s));
	double gain = 0;
	for (int i = 0; i < 5; i++) {
		const double value = speedup_at(s, v, mean + node[i] * sqrt(told));
		gain += weight[i] * fmax(0, 1 / present - 1 / fmax(1, value));
	}
	return gain;
}

/* The sizes along the order of damage now, 0.1 … 0.9 of what may be skipped: the unscored one that is worth
 * most, while one is worth anything to speak of. */
static bool propose_size(struct search* s, struct proposal* p) {
	if (!s->free_size || !by_speedup(s))
		return false;
	double damage[MAX_DIMS], most = 1e-3;
	int order[MAX_DIMS];
	struct vector best;
	bool found = false;
	linear_weights(s->belief.linear, damage);
	sort_by(s->belief.informed ? s->belief.influence : damage, order, s->dims);
	for (int i = 1; i <= SIZES; i++) {
		const struct vector v = prefix(order, size_of(s, 0.1 * i));
		const int index = record_find(&s->record, &v);
		const double worth =
		    index >= 0 && s->record.entry[index].rows > 0 ? 0 : worth_of(s, &v, s->window_size);
		if (worth > most) {
			most = worth;
			best = v;
			found = true;
		}
	}
	return found && fill(s, p, PROPOSAL_SIZE, &best);
}

static bool propose_published(struct search* s, struct proposal* p) {
	check_stop(s);
	if (s->state != SEARCH_RUNNING)
		return false;
	struct vector v;
	const bool bayes = published_propose(&s->published, &v);
	return fill(s, p, bayes ? PROPOSAL_BAYES : PROPOSAL_RANDOM, &v);
}

static bool propose(struct search* s, struct proposal* p) {
	if (s->window_size < 1)
		return false;
	if (s->option.published)
		return propose_published(s, p);
	if (s->pending)
		return fill(s, p, PROPOSAL_START, &incumbent_of(s)->bits);
	if (s->suggestions > 0)
		return fill(s, p, PROPOSAL_START, &s->suggestion[0]);
	check_stop(s);
	if (s->state != SEARCH_RUNNING)
		return false;
	while (s->waiting > 0 && scored_here(s, s->wait[s->waiting - 1]))
		s->waiting--;
	if (s->waiting > 0)
		return fill(s, p, PROPOSAL_RESCORE, &s->record.entry[s->wait[s->waiting - 1]].bits);
	return propose_size(s, p) || propose_step(s, p);
}

bool search_propose(struct search* s, struct proposal* p) {
	const double began = now();
	const bool more = propose(s, p);
	s->seconds += now() - began;
	return more;
}

double search_worth(const struct search* s, const struct proposal* p) {
	struct vector v;
	if (!s->have_costs || s->option.published || !vector_of(&p->mask, s->dims, &v))
		return NAN;
	return worth_of(s, &v, s->window_size > 0 ? s->window_size : 32);
}

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
static int learn(struct search* s, const struct vector* v, const struct score* score) {
	const bool here = score->window == s->window && score->window != 0;
	const int before = s->record.observations;
	int index = record_entry(&s->record, v, &s->incumbent);
	index = record_observe(&s->record, index, score, &s->incumbent);
	if (s->record.observations <= before)
		s->waiting = 0;
	struct entry* e = &s->record.entry[index];
	double variance;
	const double damage = belief_see(&s->belief, v, score, here, &e->own, &variance);
	e->matches += score->matches;
	e->rows += score->rows;
	if (index == s->incumbent && !s->pending && score->window != s->chosen_on) {
		s->unseen_matches += score->matches;
		s->unseen_rows += score->rows;
	}
	if (s->bayes)
		bayes_observe(s->bayes, v, -damage, variance, score->window);
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
	return rows >= 1 && rows <= 1 << 20 && matches >= 0 && matches <= rows && vector_of(mask, s->dims, out);
}

static void observe_published(struct search* s, const struct vector* v, int matches, int rows) {
	published_observe(&s->published, v, matches, rows);
	s->steps++;
	if (s->published.improved_at == s->published.steps)
		s->improved_at = s->steps;
}

void search_observe(struct search* s, const struct proposal* p, int matches, int rows, double distance) {
	struct vector v;
	if (s->window_size < 1 || rows > s->window_size || !plausible(s, &p->mask, matches, rows, &v))
		return;
	const double began = now();
	const bool step = is_step(p->kind);
	if (s->option.published) {
		observe_published(s, &v, matches, rows);
	} else {
		s->steps += step;
		s->steps_on_window += step;
		drop_suggestion(s, &v);
		const int index = learn(s, &v, &(struct score){matches, rows, distance, s->window});
		if (!step && s->waiting > 0 && s->wait[s->waiting - 1] == index)
			s->waiting--;
		if (s->pending && index == s->incumbent) {
			s->pending = false;
			s->chosen_on = s->window;
			s->chosen_by = (double)matches / rows;
		}
		compare(s, step);
	}
	check_stop(s);
	s->seconds += now() - began;
}

void search_observe_mask(struct search* s, const struct mask* mask, int matches, int rows, int64_t window) {
	struct vector v;
	if (s->option.published || window < 0 || !plausible(s, mask, matches, rows, &v))
		return;
	const double began = now();
	learn(s, &v, &(struct score){matches, rows, NAN, window});
	compare(s, false);
	check_stop(s);
	s->seconds += now() - began;
}

/* Looked at again once as many draft steps have been seen as a mask's acceptance may have moved by. */
enum { DRAFTS_TO_COMPARE = 64 };

void search_see_draft(struct search* s, const struct mask* mask, double accepted, double trials) {
	struct vector v;
	if (s->option.published || !(trials > 0) || !isfinite(trials) || !(accepted >= 0 && accepted <= trials) ||
	    !vector_of(mask, s->dims, &v))
		return;
	const int index = record_find(&s->record, &v);
	if (index < 0)
		return;
	belief_see_draft(&s->record.entry[index].own, accepted, trials);
	s->drafts += trials;
	if (s->drafts >= DRAFTS_TO_COMPARE)
		compare(s, false);
}

/* ---- influence ---------------------------------------------------------------------------- */

/* Brings all scores again, in their order, under the new prior. */
static void replay(struct search* s) {
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
		double variance;
		belief_see(&s->belief, &e->bits, &o->score, o->score.window != 0, &e->own, &variance);
	}
	if (window != s->window)
		belief_window(&s->belief);
}

void search_set_influence(struct search* s, const double* influence, double rows) {
	if (s->option.published || !(rows > 0))
		return;
	for (int i = 0; i < s->dims; i++)
		if (!(influence[i + 2] >= 0) || !isfinite(influence[i + 2]))
			return;
	const double began = now();
	belief_inform(&s->belief, influence + 2);
	if (s->bayes)
		bayes_inform(s->bayes, influence + 2);
	replay(s);
	if (s->pending && !s->given) {
		const struct vector v = best_of(s, s->belief.influence);
		place(s, &v);
	} else {
		compare(s, false);
	}
	s->seconds += now() - began;
}

/* ---- the best, and what comes from outside ------------------------------------------------ */

struct mask search_best(const struct search* s, double* matchness) {
	if (matchness)
		*matchness = s->unseen_rows > 0 ? (double)s->unseen_matches / (double)s->unseen_rows : NAN;
	return mask_of(s->option.published ? &s->published.best : &incumbent_of(s)->bits, s->dims);
}

double search_chosen_by(const struct search* s) {
	if (s->option.published)
		return s->published.best_score < 0 ? NAN : s->published.best_score;
	return s->chosen_by;
}

double search_expected(const struct search* s) {
	if (s->option.published)
		return search_chosen_by(s);
	const bool known = s->belief.informed || s->record.observations > 0 || is_known(incumbent_of(s));
	return known ? estimate(s, incumbent_of(s)) : NAN;
}

double search_speedup(const struct search* s) {
	if (!s->have_costs || s->option.published)
		return NAN;
	return speedup_at(s, &incumbent_of(s)->bits, estimate(s, incumbent_of(s)));
}

void search_adopt(struct search* s, const struct mask* mask) {
	struct vector v;
	if (!vector_of(mask, s->dims, &v))
		return;
	s->given = true;
	if (s->option.published)
		s->published.best = v;
	else
		place(s, &v);
}

static void suggest(struct search* s, const struct vector* v) {
	drop_suggestion(s, v);
	if (s->suggestions < MAX_SUGGESTIONS)
		s->suggestion[s->suggestions++] = *v;
}

void search_suggest(struct search* s, const struct mask* mask) {
	struct vector v;
	if (!s->option.published && vector_of(mask, s->dims, &v))
		suggest(s, &v);
}

/* The incumbent brought to another size: the costliest sub-layers go, or the cheapest come. */
static struct vector resized(const struct search* s, const struct vector* from) {
	struct vector v = *from;
	double damage[MAX_DIMS];
	linear_weights(s->belief.linear, damage);
	for (int count = vector_count(&v); count != s->size; count = vector_count(&v)) {
		const bool grow = count < s->size;
		int pick = -1;
		for (int i = 0; i < s->dims; i++)
			if (vector_has(&v, i) != grow &&
			    (pick < 0 || (grow ? damage[i] < damage[pick] : damage[i] > damage[pick])))
				pick = i;
		vector_set(&v, pick, grow);
	}
	return v;
}

/* A lower ratio's mask competes with the incumbent; a higher one's must replace it, since by matchness
 * alone the smaller mask would always stay. */
void search_set_skip_ratio(struct search* s, double r) {
	const bool by_price = r == 0 && s->option.objective == OBJECTIVE_SPEEDUP;
	if (s->option.published || (!by_price && !(r > 0 && r <= 1)))
		return;
	const int size = size_of(s, by_price ? FIRST_RATIO : r);
	const bool same = by_price == s->free_size && size == s->size;
	s->option.skip_ratio = r;
	s->free_size = by_price;
	if (same)
		return;
	const bool rise = size > s->size;
	s->size = size;
	s->exhausted = false;
	if (!by_price) {
		const struct vector v = resized(s, &incumbent_of(s)->bits);
		if (rise || s->pending)
			place(s, &v);
		else
			suggest(s, &v);
	}
	search_reopen(s);
}

void search_set_costs(struct search* s, const struct search_costs* cost) {
	if (!isfinite(cost->attention) || !isfinite(cost->mlp) || !isfinite(cost->fixed) || cost->attention < 0 ||
	    cost->mlp < 0 || cost->fixed < 0 || cost->max_draft < 1 || s->option.published)
		return;
	s->cost = *cost;
	s->have_costs = true;
	if (s->pending && !s->given && s->belief.informed && by_speedup(s)) {
		const struct vector v = best_of(s, s->belief.influence);
		if (!vector_equal(&v, &incumbent_of(s)->bits))
			place(s, &v);
	} else {
		compare(s, false);
	}
}

void search_reopen(struct search* s) {
	s->state = SEARCH_RUNNING;
	s->opened_at = s->improved_at = s->steps;
	for (int i = 0; i < s->record.entries; i++)
		s->record.entry[i].above = 0;
	linear_loosen(s->belief.linear, 0.05);
}

void search_settle(struct search* s) {
	s->state = SEARCH_CONFIRMED;
	s->waiting = 0;
}

bool search_waits(const struct search* s) {
	return !s->option.published && (s->pending || s->suggestions > 0);
}

enum search_state search_state(const struct search* s) { return s->state; }
int search_steps(const struct search* s) { return s->steps; }

double search_skip_ratio(const struct search* s) {
	return s->free_size ? (double)vector_count(&incumbent_of(s)->bits) / s->dims : s->option.skip_ratio;
}

void search_seconds(const struct search* s, double* foreground, double* background) {
	if (foreground)
		*foreground = s->seconds;
	if (background)
		*background = s->bayes ? bayes_seconds(s->bayes) : 0;
}

void search_each(const struct search* s,
                 void (*visit)(void* user, const struct mask*, int matches, int rows, int64_t window),
                 void* user) {
	for (int i = 0; i < s->record.observations; i++) {
		const struct observation* o = &s->record.observation[i];
		const struct mask mask = mask_of(&s->record.entry[o->entry].bits, s->dims);
		visit(user, &mask, o->score.matches, o->score.rows, o->score.window);
	}
}
