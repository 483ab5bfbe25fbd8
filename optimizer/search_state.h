/* The search's state, shared by the files that make it up. Each calls only those after it: search.c (the
 * object, its doors, what it observes), search_propose.c (which mask is scored next), search_removal.c
 * (which sub-layer goes next), search_incumbent.c (which mask drafts, and when the search ends),
 * search_value.c (what a mask is worth); or published.c. */
#ifndef SWIFTLET_OPTIMIZER_SEARCH_STATE_H
#define SWIFTLET_OPTIMIZER_SEARCH_STATE_H

#include "gp/gp.h"
#include "gp/random.h"
#include "optimizer/level_search.h"
#include "optimizer/record.h"
#include "optimizer/search.h"

enum { MAX_SUGGESTIONS = SEARCH_SPANS, RUNNERS_UP = 3, MAX_RESCORES = RUNNERS_UP + 1 };

/* Where greedy removal stands. */
struct removal {
	bool begun;
	struct vector mask;        /* what is gone */
	double now;                /* its mean log-probability on this window; NaN: to be scored */
	double loss[MAX_DIMS];     /* when last tried, for what it saves; NaN: never */
	bool tried[MAX_DIMS];      /* in this step */
	int trials;                /* of this step */
	double measured, expected; /* losses, and the influence of what was tried */
};

struct search {
	struct search_options option;
	struct search_costs cost;
	bool have_costs;
	int dims, size;                 /* skippable sub-layers; those a proposal skips where the size is fixed */
	bool free_size;                 /* as many as pay */
	struct quantized_set quantized; /* what has draft weights once drafts run with them, nothing before */
	struct record record;
	struct belief belief;
	struct gp_random random;
	struct gp* gp;               /* as published; NULL: never Bayesian */
	struct level_search* levels; /* searches in place of all below; NULL: draft weights are not by channel */
	int next_fit;                /* of the process, at so many observations */
	struct removal removal;
	double standing,
	    level; /* of the incumbent, as entries stand; its log-probability on this window, NaN: none */

	int64_t window;
	int window_size;     /* 0: none set */
	int steps_on_window; /* on the present one */
	int incumbent;       /* entry */
	bool pending;        /* the incumbent was put there unscored, and stays until it is scored */
	bool given;          /* it came from outside: influence does not replace it */
	struct mask asked;   /* what was given, with what it says of draft weights that are not there yet */
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
	int improved_at; /* steps when the incumbent last changed */
	bool sparing;    /* windows may not cost what they like */
	bool hopeless;   /* no mask is thought to pay */
};

static inline struct entry* search_incumbent(const struct search* s) {
	return &s->record.entry[s->incumbent];
}

/* Whether masks are looked for by removal: where spans are known. Without them, of another runtime's model,
 * they are drawn. */
static inline bool search_removes(const struct search* s) { return s->belief.spanned; }
/* Whether these save the same, so that scores alone tell them apart; else they have to be priced. */
static inline bool search_ranks(const struct search* s) { return search_removes(s) && !s->free_size; }

/* search_value.c */
/* Sub-layers that a ratio skips. */
int value_size(const struct search*, double skip_ratio);
/* Whether size is a matter of cost, and costs are known: then speed is what is searched. */
bool value_priced(const struct search*);
/* The speed-up of a mask whose draft steps are right with the chance alpha. */
double value_speedup(const struct search*, const struct vector*, double alpha);
/* In the search's objective; the matchness itself breaks ties, as where no chain pays. */
double value_of(const struct search*, const struct vector*, double matchness);
/* The matchness to expect of a mask with its own scores, and what to count on from it in the objective. */
double value_matchness(const struct search*, const struct entry*);
double value_expected(const struct search*, const struct entry*);
/* The spans of least damage, the least first, by damage of single sub-layers (dims) and what neighbours
 * together do beside it, each with another beginning: of the size or the share of cost saved (0: of the
 * search's own), or where these are free the ones that pay most. At most SEARCH_SPANS; how many there are. */
int value_best_spans(const struct search*, const double* damage, double share, int most, struct vector* out);
/* Whether that much is saved, or that many are left out. */
bool value_enough(const struct search*, const struct vector*);
/* The sub-layers of least damage (bits), or of least damage for what skipping them saves: exactly
 * s->size of them skipped, or where the size is free as many as pay. */
struct vector value_best(const struct search*, const double* damage);
/* The best by what is believed: by influence, as far as scores have not said more; of spans as many as are
 * asked for. */
int value_first_guesses(const struct search*, int most, struct vector* out);
/* All that is not skipped and that draft weights make cheaper runs quantized, where that pays by this damage
 * (bits).
 */
void value_round(const struct search*, struct vector*, const double* damage);

/* Whether some span would pay beside draft weights if leaving it out hurt half as much as is believed. */
bool value_hopes(const struct search*);

/* What leaving a skippable sub-layer out saves, and all that a mask leaves out: in plain steps, or counted
 * where that is what is given. */
double value_saves(const struct search*, int i);
double value_saved(const struct search*, const struct vector*);

/* search_removal.c */
void removal_window(struct removal*); /* a new one */
bool removal_propose(struct search*, struct vector*);
/* A mask was scored on the present window. */
void removal_see(struct search*, const struct vector*, double log_probability);

/* search_incumbent.c */
/* Puts a mask there that is to be scored next. */
void incumbent_place(struct search*, const struct vector*);
/* A mask that was given stays as it was, with what it says of draft weights, sub-layer by sub-layer. */
bool incumbent_runs_as_asked(const struct search*, const struct vector*);
/* The mask that runs so. */
struct mask incumbent_mask(const struct search*, const struct vector*);
/* A mask was scored in full on this window, with the mean log-probability that it gives to the text. */
void incumbent_weigh(struct search*, int entry, double log_probability);
/* The best posterior mean drafts, or of given size the best beside the incumbent on the same windows. `step`:
 * after a proposal, not a score again. */
void incumbent_compare(struct search*, bool step);
bool incumbent_is_known(const struct entry*);
/* Whether a mask was scored in full on the present window. */
bool incumbent_scored_here(const struct search*, int entry);
/* Ends the search where its rules say so. */
void incumbent_check_stop(struct search*);
/* A new window, of which nothing has been scored: what is to be scored again on it. */
void incumbent_stand_again(struct search*);

/* published.c: the search as it was published, if that is wanted. False on no memory. */
bool published_open(struct search*);
/* The best mask so far, and its score; NaN: it has none. */
void published_place(struct search*, const struct vector*, double score);
/* True where the proposal is a Bayesian one. */
bool published_propose(struct search*, struct vector* out);
void published_observe(struct search*, const struct vector*, double score);

#endif
