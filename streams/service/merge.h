/* When the rows of several sequences should share a pass: measured, not assumed.
 *
 * Reading the weights once for the rows of two sequences saves the second reading; on a machine where
 * arithmetic bounds the pass it saves nothing. Seconds of full passes are remembered by their number of
 * rows; a shared pass pays when its expected time is under that of the separate ones. What is not known
 * is tried, and what lost is tried again now and then. A row's result is the same in any company. */
#ifndef SWIFTLET_STREAMS_SERVICE_MERGE_H
#define SWIFTLET_STREAMS_SERVICE_MERGE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/backend.h"

enum { MERGE_BUCKETS = 24, MERGE_AGAIN = 64 };

struct merge_costs {
	double alone[MERGE_BUCKETS], shared[MERGE_BUCKETS]; /* seconds by rows, 0 unknown */
	int64_t asked, merged, separate;                    /* decisions */
};

/* A pass of `rows` rows of one sequence, or of several, took so long. */
void merge_see(struct merge_costs*, int rows, bool shared, double seconds);
/* Whether n (>= 2) pending passes of rows[i] rows each should be one. */
bool merge_pays(struct merge_costs*, const int* rows, int n);

/* Several full-model exact passes as one. The arrays belong to this struct; results go to the passes' own. */
struct merged_pass {
	struct pass pass;
	struct segment segment[MAX_ROWS];
	int32_t token[MAX_ROWS], parent[MAX_ROWS];
	uint8_t want[MAX_ROWS];
	struct result out[MAX_ROWS];
	int dim;
	float* state; /* (MAX_ROWS, dim) what the rows end with, where a pass asks for it */
};
/* False on no memory. Takes 4·MAX_ROWS·dim bytes. */
bool merge_open(struct merged_pass*, int dim);
void merge_close(struct merged_pass*);
/* True when the pass may share: exact, all sub-layers, no tap but after the last, no influence, and its rows
 * still fit beside `rows`. */
bool merge_fits(const struct pass*, int rows);
void merge_begin(struct merged_pass*, int sub_layers);
void merge_add(struct merged_pass*, const struct pass*);
/* Copies the results of the part that began at `row` to its own pass. Returns the row after it. */
int merge_take(const struct merged_pass*, const struct pass*, int row);

#endif
