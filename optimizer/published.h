/* SWIFT's search as published (Xia et al. 2025, section 4.1; the code where that and the paper differ).
 *
 * Proposal o is Bayesian where o is a multiple of the interval, else uniformly random among the sets of
 * floor(r·2(L-2)) sub-layers. The first one scored replaces the start mask, later ones do where their raw
 * score is strictly greater than the best ever. Nothing is scored twice. It is kept as it was published: what
 * makes the search better belongs to optimizer/search.c. */
#ifndef SWIFTLET_OPTIMIZER_PUBLISHED_H
#define SWIFTLET_OPTIMIZER_PUBLISHED_H

#include "gp/gp.h"
#include "gp/random.h"
#include "optimizer/search_options.h"
#include "optimizer/vector.h"

struct published {
	const struct search_options* option; /* the caller's */
	int dims, size;
	struct gp_random random;
	struct gp* gp; /* NULL: never Bayesian */
	int next_fit;  /* at so many observations */
	struct vector best;
	double best_score; /* negative before any */
};

/* `best` is the start mask. False on no memory; close in any case. */
bool published_open(struct published*, const struct search_options*, int dims, int size,
                    const struct vector* start);
void published_close(struct published*);
/* Proposal number `step`, from 1 on. True where it is a Bayesian one. */
bool published_propose(struct published*, int step, struct vector* out);
/* True where no score was better. */
bool published_observe(struct published*, const struct vector*, int matches, int rows);

#endif
