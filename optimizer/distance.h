/* How far a draft's hidden states end from the full model's, over the window that proposals are scored on.
 *
 * The distance of a row is one minus the cosine between the two states as the output head sees them: after
 * the last sub-layer, weighted by the output norm's weights. The full model's states of a window are computed
 * once, in one pass over tokens that are committed already. optimizer/calibration.h says what for. */
#ifndef SWIFTLET_OPTIMIZER_DISTANCE_H
#define SWIFTLET_OPTIMIZER_DISTANCE_H

#include "kernels/backend.h"

struct distance {
	int dim, capacity; /* rows */
	float* gain;       /* (dim) the output norm's weights */
	float* full;       /* (capacity, dim) of the window's rows, from its first */
	float* draft;      /* (capacity, dim) of the pass at hand */
	int known;         /* rows of `full` */
};

/* Takes 4·dim·(2·rows + 1) bytes. False on no memory; distance_close then frees what there is. */
bool distance_open(struct distance*, const struct weight_table*, int rows);
void distance_close(struct distance*);
/* Sum over `n` rows of draft[0 …] against full[first …]. NaN where a state is not finite. */
double distance_sum(const struct distance*, int first, int n);

#endif
