/* The record of the search: every mask once, with what its windows said, and every observation in order.
 *
 * Fixed arrays taken at the start (untouched pages cost nothing), for more than a search itself asks for;
 * when they are full all but one mask is forgotten. */
#ifndef SWIFTLET_OPTIMIZER_RECORD_H
#define SWIFTLET_OPTIMIZER_RECORD_H

#include "optimizer/belief.h"

/* One mask and what is known of it over all its windows. */
struct entry {
	struct vector bits;
	struct evidence own;
	int64_t matches, rows; /* all windows together */
	/* Sum of its rows' log-probabilities less the incumbent's on the same windows, and how many rows; its
	 * mean on the last one. */
	double above_incumbent, log_probability;
	int compared;
	bool may_draft;      /* it is no mere trial on the way to another */
	bool equal;          /* a first guess: nothing speaks for another one */
	int above;           /* windows that scored it in full and over max_matchness */
	int64_t last_window; /* 0: none */
	int last_matches, last_rows;
};

struct observation {
	int entry;
	struct score score;
};

struct record {
	struct entry* entry;
	struct observation* observation;
	int capacity, entries, observations;
};

bool record_open(struct record*, int capacity);
void record_close(struct record*);
int record_find(const struct record*, const struct vector*); /* entry, or -1; O(entries) */
/* The entry of the mask, made when it is new. May forget, keeping `keep`, which is renumbered. */
int record_entry(struct record*, const struct vector*, int* keep);
/* Adds the observation of a mask; its entry. */
int record_observe(struct record*, const struct vector*, const struct score*, int* keep);

#endif
