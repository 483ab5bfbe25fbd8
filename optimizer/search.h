/* The layer-set search: propose, observe, best.
 *
 * SWIFT section 4.1: random search finds what drafts leave out, with a proposal of Bayesian optimization
 * (gp/) every few steps (Eq. 2), scored by matchness (Eq. 4) on text that the model has just generated. It
 * searches either sets of whole sub-layers of a given number (search_masks.c: bits, as published), or, if
 * drafts read weights by input channel, the shares of each kind of map (search_levels.c: few real numbers).
 * This file knows only masks and scores. It runs no model, and serves any runtime that can score a mask
 * (streams/ offers it over HTTP). The state is carried from window to window and from instance to instance.
 * search_open takes all memory but NLopt's. */
#pragma once

#include "optimizer/spans.h"

struct search_options {
	int blocks;        /* L; sub-layers of the first and last block are never skipped */
	double skip_ratio; /* r: exactly floor(r·2(L-2)) sub-layers are skipped */
	/* beta: step o is Bayesian if o % beta == 0. 0: never, and scores alone choose levels. */
	int bayes_interval;
	int max_steps;             /* S */
	int patience;              /* steps without improvement */
	double max_matchness;      /* stop above it */
	bool expected_improvement; /* the process's acquisition; else upper confidence bound */
	bool hamming;              /* its kernel; else Matern 5/2 */
	double kappa;
	uint64_t seed;
	/* The start mask is the published one (blocks 1, 3, 5… up to L - 2), which the first scored mask
	 * replaces. Otherwise nothing is skipped until spans are known; then the span of least influence is
	 * scored first. */
	bool published;
	/* Levels are searched in place of sub-layers, from `start` on. With given_share they keep the share read,
	 * and the search maximises the score; otherwise it maximises the expected speed-up at the costs set. */
	bool levels, given_share;
	struct levels start;
};

/* Costs in one-row full passes. */
struct search_costs {
	double attention, mlp; /* one sub-layer of each kind */
	double fixed; /* what no mask saves: embedding, head, overhead; with levels, of the draft weights */
	double channel[COLUMN_KINDS];  /* levels: one block's maps, whole, averaged */
	double verify[SLICE_ROWS + 1]; /* v(n) of n rows; v[1] = 1 */
	int max_draft;
};

/* A window is good for so many proposals. */
enum { SEARCH_ON_A_WINDOW = 12 };

enum proposal_kind {
	PROPOSAL_START,   /* a mask that was given, or the first one, scored on its first window */
	PROPOSAL_RESCORE, /* the best one on a new window; counts as no step */
	PROPOSAL_RANDOM,
	PROPOSAL_BAYES
};

struct proposal {
	enum proposal_kind kind;
	int step; /* o, 1-based; 0 for START and RESCORE */
	struct mask mask;
	/* Set by the scorer: mean log-probability that the draft gives to the text's tokens, by which levels are
	 * judged; NaN: not measured. */
	double log_probability;
};

/* The log-probability of a token with probability p, or .03 at least. A wrong row is lost however wrong it
 * is, and lower floors let the few worst rows choose (bench search). */
double search_log_probability(double p);

enum search_state { SEARCH_RUNNING, SEARCH_CONFIRMED, SEARCH_EXHAUSTED, SEARCH_PATIENCE };
const char* search_state_name(enum search_state);

struct search;
/* NULL with the error set (blocks < 3, ratio out of range, no memory). */
struct search* search_open(const struct search_options*, struct error*);
void search_close(struct search*);

/* From now on a new window of `size` trials is the ground truth. `window` counts up from 1; windows of
 * different numbers share no text. */
void search_window(struct search*, int64_t window, int size);
/* The next mask to score on the current window; false if the search has ended, if no window is set, or if
 * levels are searched and their costs are not known. */
bool search_propose(struct search*, struct proposal*);
/* `matches` of the `rows` scored, at most the window's. */
void search_observe(struct search*, const struct proposal*, int matches, int rows);

/* The influence of every span of sub-layers. It gives the first mask. Levels do not use it. */
void search_set_spans(struct search*, const struct spans*);
void search_set_costs(struct search*, const struct search_costs*);
/* Drafting with a mask has measured its acceptance: `accepted` of `trials` draft steps whose path was right
 * so far (both may be fractions: recent ones weigh more). */
void search_see_draft(struct search*, const struct mask*, double accepted, double trials);

/* The mask that should draft now, and its unseen matchness: hits over rows on windows scored after it had
 * become the best (in [0, 1], NaN before any). */
struct mask search_best(const struct search*, double* matchness);
/* The score by which it was chosen. It is too high, being the best of many. NaN if scores did not choose it.
 */
double search_chosen_by(const struct search*);
/* The matchness to expect from it, by scores and drafts; NaN when nothing is known. */
double search_expected(const struct search*);
/* The expected speed-up of drafting with it: max over D of M / ((M - 1)·c/alpha + v(n)) at the costs set. At
 * most 1: drafting with it does not pay. NaN: unknown. */
double search_speedup(const struct search*);
/* Takes a mask as the best, to be scored next (an import, a bank entry, --mask). */
void search_adopt(struct search*, const struct mask*);
/* The mask is known to hold (a bank's, long served): proposals end, as confirmed. */
void search_settle(struct search*);
/* True while a mask waits for its score, whatever the state. */
bool search_waits(const struct search*);
enum search_state search_state(const struct search*);
int search_steps(const struct search*);         /* proposals observed, START and RESCORE left out */
double search_skip_ratio(const struct search*); /* of the best mask */
