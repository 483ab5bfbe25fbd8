/* The search for the levels that a draft reads: propose, observe, best, over few real dimensions
 * (level_point.h).
 *
 * As in SWIFT (section 4.1) random proposals are interleaved with those of a Gaussian process, here one over
 * reals (gp/reals.h). It starts from given levels. A proposal is scored on text that was just generated, by
 * the log-probability that the draft gives to the target's tokens, which tells masks apart with fewer rows
 * than hits do; hits say what a log-probability comes to. Where the share read is free, what is searched is
 * the expected speed-up at measured prices; else the score. The process's posterior says which of the masks
 * scored is better than the best one so far by more than luck.
 *
 * It knows masks and scores only. All memory but NLopt's is taken when it is opened. */
#ifndef SWIFTLET_OPTIMIZER_LEVEL_SEARCH_H
#define SWIFTLET_OPTIMIZER_LEVEL_SEARCH_H

#include "optimizer/level_point.h"
#include "optimizer/search.h"

struct level_options {
	int blocks;
	/* Each so-manieth proposal is the process's, as SWIFT's beta; 0: none, and scores alone choose; 1: all.
	 */
	int bayes_interval;
	int max_steps, patience;
	bool given_share;    /* the share read stays that of the start */
	struct levels start; /* what a mask without levels reads */
	uint64_t seed;
};

struct level_search;
/* NULL on no memory. */
struct level_search* level_open(const struct level_options*);
void level_close(struct level_search*);
/* bytes (COLUMN_KINDS) of a block's whole maps, averaged, in any unit; until then nothing is proposed. */
void level_set_bytes(struct level_search*, const double bytes[COLUMN_KINDS]);
/* Of a draft step, in plain steps: what its layers cost when all of them is read, and what it costs beside
 * them; v(n) (SLICE_ROWS + 1); the longest draft. Without costs the share read stays. */
void level_set_costs(struct level_search*, double layers, double rest, const double* verify, int max_draft);
void level_set_spans(struct level_search*, const struct spans*);

/* The calls of search.h of these names. */
void level_window(struct level_search*, int64_t window, int size);
bool level_propose(struct level_search*, struct proposal*);
void level_observe(struct level_search*, const struct proposal*, int matches, int rows);
void level_see_draft(struct level_search*, const struct mask*, double accepted, double trials);
void level_adopt(struct level_search*, const struct mask*);
void level_settle(struct level_search*);
struct mask level_best(const struct level_search*, double* matchness);
double level_chosen_by(const struct level_search*);
double level_expected(const struct level_search*);
double level_speedup(const struct level_search*);
bool level_waits(const struct level_search*);
int level_steps(const struct level_search*);
enum search_state level_state(const struct level_search*);

#endif
