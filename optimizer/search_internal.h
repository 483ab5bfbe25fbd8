/* What the files of the layer-set search share: the record of masks and observations, the rules, and the
 * state of one search. optimizer/search.h is the door. */
#ifndef SWIFTLET_OPTIMIZER_SEARCH_INTERNAL_H
#define SWIFTLET_OPTIMIZER_SEARCH_INTERNAL_H

#include <stdatomic.h>

#include "gp/linear.h"
#include "gp/random.h"
#include "optimizer/calibration.h"
#include "optimizer/search.h"

enum { MAX_SUGGESTIONS = 8, RUNNERS_UP = 3, MAX_RESCORES = RUNNERS_UP + 1, DRAWS = 24 };
enum { MAX_DIMS = 2 * MAX_BLOCKS - 4, VECTOR_WORDS = MASK_WORDS };

/* The skippable sub-layers of a mask as a bit vector: bit i is sub-layer i + 2. */
struct vector {
	uint64_t word[VECTOR_WORDS];
};

/* One mask and what is known of it over all its windows. */
struct entry {
	struct vector bits;
	int64_t matches, rows; /* all windows together */
	int above;             /* windows that scored it in full and over max_matchness */
	int64_t last_window;   /* 0: none */
	int last_matches, last_rows;
	double residual, residual_weight;    /* of its scores against the linear model, by precision */
	int64_t unseen_matches, unseen_rows; /* on windows scored after it had become the best */
	double chosen_by;                    /* the score it was chosen by */
	int64_t chosen_window;               /* the window it was chosen on */
};

struct observation {
	int entry;
	int matches, rows;
	int64_t window;
};

/* Masks by content (open addressing), observations in order. Fixed capacity; when it is full the older
 * half of the observations is forgotten. */
struct record {
	struct entry* entry;
	struct observation* observation;
	int* slot;  /* (slots) entry + 1, or 0 */
	int* moved; /* (capacity) workspace of forgetting */
	int slots, capacity, entries, observations;
};

struct background;

struct search {
	struct search_options option;
	struct search_costs cost;
	bool have_costs;
	int dims, size; /* skippable sub-layers; those a proposal skips */
	double skip_ratio;
	struct record record;
	struct linear_model* linear;
	struct calibration calibration;
	struct gp_random random;
	int next_draw;

	int64_t window;
	int window_size;     /* 0: none set */
	int steps_on_window; /* on the present one */
	int incumbent;       /* entry, or -1 while `start` waits for its first score */
	struct vector start; /* the incumbent before any score */
	bool start_scored, adopted;
	double influence[MAX_DIMS]; /* (dims) */
	double influence_rows;      /* 0: none */
	int wait[MAX_RESCORES];     /* entries to score again on this window, last first */
	int waiting;
	struct vector suggestion[MAX_SUGGESTIONS];
	int suggestions;

	enum search_state state;
	int steps;           /* proposals observed */
	int opened_at;       /* steps when the search was last (re)opened */
	int improved_at;     /* steps when the incumbent last changed */
	bool exhausted;      /* no mask of this size is left */
	struct vector tried; /* workspace */
	double* weight;      /* (dims) workspace */
	int* order;          /* (dims) workspace */
	struct background* background;
	double seconds;
};

/* search_record.c */
bool record_open(struct record*, int capacity);
void record_close(struct record*);
int record_find(const struct record*, const struct vector*); /* entry, or -1 */
/* The entry of the mask, made when it is new. May forget (see struct record), keeping `keep`, which is
 * renumbered. */
int record_entry(struct record*, const struct vector*, int* keep);
void record_observe(struct record*, int entry, int matches, int rows, int64_t window, int* keep);

/* search_value.c: what a mask is worth at a matchness, in the search's objective. */
double speedup_of(const struct search*, const struct vector*, double alpha);
double value_of(const struct search*, const struct vector*, double matchness);
/* Posterior mean of a known mask's matchness: the linear model's, corrected by its own scores. */
double estimate_of(const struct search*, const struct entry*);
double estimate_value(const struct search*, const struct entry*);
/* Skips the sub-layers of least weight: exactly s->size of them, or for OBJECTIVE_SPEEDUP as many as pay,
 * the constant being that of the weights' linear model. */
void best_of_weights(struct search*, const double* weight, double constant, struct vector* out);

/* search_propose.c: a mask not seen before; false when there is none left. */
bool propose_random(struct search*, struct vector*);
/* Swaps sub-layers of a known mask at random until it is one not seen before; false when a few swaps do not
 * get there. */
bool make_new(struct search*, struct vector*);

/* search_model.c: the Gaussian process and the thread it may live on. */
struct background* background_open(const struct search*);
void background_close(struct background*);
void background_observe(struct search*, const struct vector*, double matchness, double variance,
                        int64_t window);
/* Asks for a Bayesian proposal; the answer may come later. */
void background_want(struct search*);
/* True with a proposal when one is ready. */
bool background_take(struct search*, struct vector*);
double background_seconds(const struct background*);

static inline bool vector_has(const struct vector* v, int i) { return v->word[i >> 6] >> (i & 63) & 1u; }
static inline void vector_set(struct vector* v, int i, bool on) {
	const uint64_t bit = (uint64_t)1 << (i & 63);
	if (on)
		v->word[i >> 6] |= bit;
	else
		v->word[i >> 6] &= ~bit;
}
static inline bool vector_equal(const struct vector* a, const struct vector* b) {
	uint64_t differs = 0;
	for (int i = 0; i < VECTOR_WORDS; i++)
		differs |= a->word[i] ^ b->word[i];
	return differs == 0;
}
static inline int vector_count(const struct vector* v) {
	int n = 0;
	for (int i = 0; i < VECTOR_WORDS; i++)
		n += __builtin_popcountll(v->word[i]);
	return n;
}

#endif
