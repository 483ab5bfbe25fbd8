/* The layer-set search: propose, observe, best.
 *
 * SWIFT section 4.1: the set of sub-layers to skip is found by random search, with a proposal of
 * Bayesian optimization (gp/) every `bayes_interval` steps (Eq. 2), scored by matchness (Eq. 4) on text
 * the model has just generated. So it is as published (published.c). By default masks come by greedy removal
 * (search_removal.c), or where no spans are known, by draws from a linear model's posterior. This file knows
 * masks and scores only: it runs no model, and serves any runtime that can score a mask (streams/ offers it
 * over HTTP). The state is carried from window to window and from instance to instance. */
#ifndef SWIFTLET_OPTIMIZER_SEARCH_H
#define SWIFTLET_OPTIMIZER_SEARCH_H

#include "optimizer/spans.h"

struct search_options {
	int blocks; /* L; sub-layers of the first and last block are never skipped */
	/* r: exactly floor(r·2(L-2)) sub-layers are skipped. 0, not as published: speed is searched, as many are
	 * skipped as pay at measured costs, the start (before costs are known) at r = 0.45. */
	double skip_ratio;
	/* Share of a plain step's cost that a mask saves at least, where costs are known; 0: by ratio or cost.
	 */
	double skip_cost;
	/* beta: as published step o is Bayesian when o % beta == 0. 0: uniformly random proposals only, where no
	 * spans are known. */
	int bayes_interval;
	int max_steps;             /* S */
	int patience;              /* steps without improvement */
	double max_matchness;      /* stop above it ... */
	int confirm;               /* ... on confirm + 1 disjoint windows */
	bool expected_improvement; /* the process's acquisition; else upper confidence bound */
	bool hamming;              /* its kernel; else Matern 5/2 */
	double kappa;
	uint64_t seed;
	/* Quantized draft weights that drafts may run with once search_use_draft_weights was called: their bits
	 * (0: there never is one), the sub-layers that it has, and whether it has the head. Only where the size
	 * is a matter of cost: a mask then says of each sub-layer whether it is skipped, quantized, or as stored.
	 */
	int draft_bits;
	struct mask quantized;
	bool head_quantized;
	/* These draft weights are by input channel: levels are searched in place of sub-layers (level_search.h)
	 * once drafts run with them, and nothing before, from `levels` on; their share read stays where it is
	 * given. */
	bool channels, given_share;
	struct levels levels;
	/* SWIFT as published, in everything that changes a mask: uniformly random proposals, a plain Gaussian
	 * process each bayes_interval-th, the first mask scored replaces the start mask, the best raw score ever
	 * drafts, nothing is scored twice. Influence, costs and `confirm` are ignored. */
	bool published;
};

/* Costs in one-row full passes. */
struct search_costs {
	double attention, mlp; /* one sub-layer of each kind, as stored */
	double fixed;          /* what no mask saves: embedding, head, overhead */
	double quantized_attention, quantized_mlp,
	    quantized_fixed;           /* the same with the quantized draft weights, where there are some */
	double channel[COLUMN_KINDS];  /* one block's maps, whole, where those are by input channel */
	double verify[SLICE_ROWS + 1]; /* v(n) of n rows; v[1] = 1 */
	int max_draft;
};

/* Spans of least influence that are scored before anything else, all on one window: the best of them is the
 * first mask. A window is good for so many proposals. */
enum { SEARCH_SPANS = 12 };

enum proposal_kind {
	PROPOSAL_START,   /* the start mask, or one that was given, scored on its first window */
	PROPOSAL_RESCORE, /* the incumbent or a runner-up on a new window; counts as no step */
	PROPOSAL_RANDOM,
	PROPOSAL_BAYES,
	PROPOSAL_REMOVAL /* on the way of greedy removal; all of its rows are to be scored */
};

static inline bool search_is_step(enum proposal_kind kind) {
	return kind == PROPOSAL_RANDOM || kind == PROPOSAL_BAYES || kind == PROPOSAL_REMOVAL;
}

struct proposal {
	enum proposal_kind kind;
	int step; /* o, 1-based; 0 for START and RESCORE */
	struct mask mask;
	/* Once k matches of `rows` scored rows plus all rows left cannot exceed this count of matches out
	 * of the window's, scoring may stop (search_observe with the rows scored so far). 0: score all. */
	int needed;
	/* For the scorer to say: mean log-probability that the draft gives to the text's tokens; NaN: not
	 * measured. */
	double log_probability;
};

/* Of a token that the draft gives the probability p, or of .03 at least: a row that a draft gets wrong is
 * lost however wrong it is, and lower floors let the few worst rows choose (bench search). */
double search_log_probability(double p);

enum search_state { SEARCH_RUNNING, SEARCH_CONFIRMED, SEARCH_EXHAUSTED, SEARCH_PATIENCE };
const char* search_state_name(enum search_state);

struct search;
/* The start mask: blocks 1, 3, 5… up to L - 2, both sub-layers (published code). */
struct mask search_start_mask(int blocks);
/* NULL with the error set (blocks < 3, ratio out of range, no memory). */
struct search* search_open(const struct search_options*, struct error*);
void search_close(struct search*);

/* A new window of `size` trials is the ground truth from now on. `window` counts up from 1; windows of
 * different numbers share no text. The present number with another size: the window has grown, and what was
 * scored on it is scored again, instead of and not beside. */
void search_window(struct search*, int64_t window, int size);
/* The next mask to score on the current window; false when the search has ended and nothing needs
 * scoring again, or no window is set. Allocates nothing after the first `max_steps` are reserved. */
bool search_propose(struct search*, struct proposal*);
/* `matches` of the `rows` scored; rows < window size when abandoned early. */
void search_observe(struct search*, const struct proposal*, int matches, int rows);
/* Whether windows may cost what they like (true at first). Where they may not, removal among masks that save
 * the same waits: it wants every row of every proposal, which a small share of plain time does not pay for.
 */
void search_spend(struct search*, bool freely);
/* Whether nothing is worth scoring then: a row that scores levels costs about as much as a draft step, and
 * the levels that were found at a given share read beat those it starts from by no more than noise
 * (docs/lessons.md). */
bool search_spares(const struct search*);
/* An observation from elsewhere (an import, a client): window 0 is "unknown". */
void search_observe_mask(struct search*, const struct mask*, int matches, int rows, int64_t window);

/* Block Influence (Men et al. 2024, ShortGPT) by sub-layer: influence (2L), the mean of 1 - cos(x, x + f(x))
 * over `rows` rows of text. It is the prior mean of what a sub-layer costs, and an order: while no mask was
 * scored or adopted, the least influential sub-layers are the best mask of their number. To be called again
 * as it gets better known; each call goes over all observations once. Values that are negative or not finite:
 * the call is ignored. */
void search_set_influence(struct search*, const double* influence, double rows);
/* Likewise from the influence of every span of sub-layers: the first mask is then the best span of its cost.
 */
void search_set_spans(struct search*, const struct spans*);
/* Drafting with a mask measured its acceptance for nothing: `accepted` of `trials` draft steps whose path was
 * right so far (both may be fractions: recent ones weigh more). O(dims). */
void search_see_draft(struct search*, const struct mask*, double accepted, double trials);

/* The mask that should draft now, and its unseen matchness: hits over rows on windows scored after it had
 * become the best (in [0, 1], NaN before any). Without any score: the influence-ordered mask of the present
 * size, or the published start mask. */
struct mask search_best(const struct search*, double* matchness);
/* The score that it was chosen by (over all windows until then): too high, being the best of many. NaN where
 * it was not chosen by scores. */
double search_chosen_by(const struct search*);
/* The matchness to expect from it: the posterior mean, influence's before any score; NaN when nothing at all
 * is known. */
double search_expected(const struct search*);
/* What searching on may still make of the incumbent's matchness: its root, as if half of what is missed could
 * be mended (full greedy removal comes to the 0.5th to 0.7th power of a first mask's on real models). NaN
 * before any score. */
double search_hope(const struct search*);
/* Beside draft weights of the sub-layers nothing is thought to pay, even if skipping hurt half as much as is
 * believed: learning is not worth a request's time. */
bool search_hopeless(const struct search*);
/* The speed-up to expect from drafting with it, max over D of M / ((M - 1)·c/alpha + v(n)), under the costs
 * that were set; not over 1: drafting with it does not pay. NaN without costs. */
double search_speedup(const struct search*);
/* Takes a mask as the incumbent, to be scored next (an import, a bank entry, --mask). */
void search_adopt(struct search*, const struct mask*);
/* From now on drafts run with the draft weights, all that masks do not keep as stored: the incumbent does at
 * once, or gives way to what is then expected to be the best. Until then masks that come and go run as
 * stored. */
void search_use_draft_weights(struct search*);
/* Whether they do. */
bool search_has_draft_weights(const struct search*);
/* What is known is weighed again. */
void search_set_costs(struct search*, const struct search_costs*);
/* The mask is known to hold (a bank's, long served): proposals end, as confirmed. */
void search_settle(struct search*);
/* True while a mask that was adopted, or one of the first guesses, waits for its score, whatever the state.
 */
bool search_waits(const struct search*);
enum search_state search_state(const struct search*);
int search_steps(const struct search*);         /* proposals observed, START and RESCORE left out */
double search_skip_ratio(const struct search*); /* of proposals now: r as set, or that of the best mask */

#endif
