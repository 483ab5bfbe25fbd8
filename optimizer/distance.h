/* How far a draft's hidden states end from the full model's, over the window that proposals are scored on.
 *
 * The distance of a row is one minus the cosine between the two states as the output head sees them: after
 * the last sub-layer, weighted by the output norm's weights. The full model's states are those that plain
 * steps and verify passes end with anyway: the last ones are kept, by position, and copied when a window is
 * set on them. optimizer/calibration.h says what for. */
#ifndef SWIFTLET_OPTIMIZER_DISTANCE_H
#define SWIFTLET_OPTIMIZER_DISTANCE_H

#include "kernels/backend.h"

struct distance {
	int dim, capacity; /* rows */
	float* gain;       /* (dim) the output norm's weights */
	float* pass;       /* (MAX_ROWS, dim) of the pass at hand: a tap's output */
	float* recent;     /* (capacity, dim) the full model's, position p in row p % capacity */
	int from, upto;    /* positions that `recent` holds: [from, upto) */
	float* full;       /* (capacity, dim) of the window's rows, from its first */
	int known;         /* rows of `full`; 0: this window's are not known */
};

/* Takes 4·dim·(2·rows + MAX_ROWS + 1) bytes. False on no memory; distance_close then frees what there is. */
bool distance_open(struct distance*, const struct weight_table*, int rows);
void distance_close(struct distance*);
/* A new text: nothing is known of it. */
void distance_forget(struct distance*);
/* Row `row` of the pass at hand was the full model's at this position, which follows the last one kept, or
 * begins anew. */
void distance_keep(struct distance*, int position, int row);
/* The window is [base, base + rows) from now on; known where all of it was kept. */
void distance_window(struct distance*, int base, int rows);
/* Sum over `n` rows of pass[0 …] against full[first …]. NaN where a state is not finite. */
double distance_sum(const struct distance*, int first, int n);

#endif
