/* The rows of several sequences in one pass.
 *
 * Passes that run the same weights (the same sub-layers, stored or low) may be one: the weights are then read
 * once for all rows. A row's result is the same in any company. */
#ifndef SWIFTLET_STREAMS_SERVICE_MERGE_H
#define SWIFTLET_STREAMS_SERVICE_MERGE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/backend.h"

/* The arrays belong to this struct; results go to the passes' own. */
struct merged_pass {
	struct pass pass;
	struct segment segment[MAX_ROWS];
	int32_t token[MAX_ROWS], parent[MAX_ROWS];
	uint8_t want[MAX_ROWS];
	struct result out[MAX_ROWS];
	int dim;
	float* state;     /* (MAX_ROWS, dim) what the rows are at the tap, where a pass asks for it */
	float* influence; /* (2L, MAX_ROWS) likewise */
};
/* False on no memory. Takes 4·MAX_ROWS·(dim + sub_layers) bytes. */
bool merge_open(struct merged_pass*, int dim, int sub_layers);
void merge_close(struct merged_pass*);
/* True when the pass may share with others at all: exact, of one sequence, from the first sub-layer on. */
bool merge_may(const struct pass*);
/* Begins with one that may. */
void merge_begin(struct merged_pass*, const struct pass*);
/* True when another may join: it runs the same weights, taps where the others do if they do, and fits. */
bool merge_fits(const struct merged_pass*, const struct pass*);
void merge_add(struct merged_pass*, const struct pass*);
/* Copies the results of the part that began at `row` to its own pass. Returns the row after it. */
int merge_take(const struct merged_pass*, const struct pass*, int row);

#endif
