/* The search's state: the part that both kinds of search share (search.c), and the part of each kind. */
#pragma once

#include "gp/gp.h"
#include "gp/random.h"
#include "optimizer/level_point.h"
#include "optimizer/search.h"

/* Scored levels (search_levels.c). */
struct level_space;

struct search {
	struct search_options option;
	struct search_costs cost;
	bool have_costs;
	int dims; /* skippable sub-layers */
	struct gp_random random;
	struct gp* gp;              /* NULL: never Bayesian */
	int next_fit;               /* of it, at so many observations */
	struct level_space* levels; /* NULL: masks are searched */

	struct mask best;
	bool pending, given; /* it waits for its score; it came from outside */
	int64_t chosen_on;   /* the window that it became the best on */
	double chosen_by;    /* its score then; NaN: none */
	int64_t unseen_matches, unseen_rows;
	double accepted, trials; /* of drafts with it */

	int64_t window;
	int window_size; /* 0: none set */
	enum search_state state;
	int steps, improved_at; /* proposals observed, also when the best one last changed */
};

/* search_masks.c */
bool masks_open(struct search*);
/* The span of least influence; false: there is none. */
bool masks_best_span(const struct search*, const struct spans*, struct mask*);
enum proposal_kind masks_propose(struct search*, struct mask*);
/* True if it is the best by now. */
bool masks_observe(struct search*, const struct mask*, double score);

/* search_levels.c */
bool levels_open(struct search*);
/* The maps' bytes are known: points have a meaning from then on. */
bool levels_known(const struct search*);
void levels_set_costs(struct search*);
/* True if the mask was scored before. */
bool levels_adopt(struct search*, const struct mask*);
bool levels_best_is_scored_here(const struct search*);
enum proposal_kind levels_propose(struct search*, struct mask*);
void levels_observe(struct search*, const struct proposal*, int matches, int rows);
/* True if another one is better by now; its score on all windows, or NaN. */
bool levels_choose(struct search*, struct mask*, double* chosen_by);
/* The best one's hits by its scores; NaN: it has none. The cost of a draft step with it. */
double levels_matchness(const struct search*);
double levels_cost(const struct search*, const struct mask*);
