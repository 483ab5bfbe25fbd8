/* Runs the rows of several sequences in one pass.
 *
 * Passes over the same weights (the same sub-layers, stored or quantized) can be joined, so that the weights
 * are read once for all rows. A row's result does not depend on the others. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kernels/backend.h"

/* The arrays belong to this struct. Results go to the joined passes' own arrays. */
struct merged_pass {
	struct pass pass;
	struct segment segment[MAX_ROWS];
	int32_t token[MAX_ROWS], parent[MAX_ROWS];
	uint8_t want[MAX_ROWS];
	struct result out[MAX_ROWS];
	int dim;
	float* state;  /* (MAX_ROWS, dim) the rows' states at the tap, if a pass asks for them */
	float* normed; /* (MAX_ROWS, dim) and as the head reads them */
	float* given;  /* (MAX_ROWS, dim) the states that rows of an MTP layer read */
};
/* False on no memory. Takes 12·MAX_ROWS·dim bytes. */
bool merge_open(struct merged_pass*, int dim);
void merge_close(struct merged_pass*);
/* True when the pass may share at all: it is exact, of one sequence, and begins at the first sub-layer. */
bool merge_may(const struct pass*);
/* Begins with one that may. */
void merge_begin(struct merged_pass*, const struct pass*);
/* True when another may join: it runs the same weights, taps where the others do, and fits. */
bool merge_fits(const struct merged_pass*, const struct pass*);
void merge_add(struct merged_pass*, const struct pass*);
/* Copies the results of the part that begins at `row` to its own pass. Returns the row after the part. */
int merge_take(const struct merged_pass*, const struct pass*, int row);
