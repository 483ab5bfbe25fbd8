/* What least squares needs of many rows, in memory that does not grow with them.
 *
 * A row is an input u (a constant 1 first) and an output y; kept are the weighted sums of u·uᵀ and u·yᵀ, and
 * apart from them the latest rows of every HELD_SHARE-th block, by which the ridge is chosen (solve.h). A row
 * that makes way there joins the sums, so that none is lost. Sums are in double precision, and a block of
 * rows is added at once. */
#ifndef SWIFTLET_CORE_BRIDGE_GRAM_H
#define SWIFTLET_CORE_BRIDGE_GRAM_H

#include <stdbool.h>
#include <stddef.h>

enum { GRAM_BLOCK = 64, HELD_SHARE = 8, HELD_BLOCKS = 8 };

/* A block of rows. */
struct gram_rows {
	double* u; /* (GRAM_BLOCK, inputs) */
	double* y; /* (GRAM_BLOCK, outputs) */
};

struct gram {
	int inputs; /* the constant included */
	int outputs;
	double* square; /* (inputs, inputs) the lower triangle; what follows lies behind it */
	double* cross;  /* (inputs, outputs) */
	struct gram_rows staged, held[HELD_BLOCKS];
	int n_staged; /* rows */
	long blocks;  /* whole ones so far; the k-th held one is held[k % HELD_BLOCKS] until another takes its
	                 place */
};

/* Bytes that one takes, whatever is added. */
size_t gram_bytes(int inputs, int outputs);
/* False on no memory; close in any case. */
bool gram_open(struct gram*, int inputs, int outputs);
void gram_close(struct gram*);
/* Adds the row (1, first, second) -> y, inputs = 1 + n_first + n_second. A row that holds what is not finite
 * is left out. Every GRAM_BLOCK-th call takes the time of a block's sums. */
void gram_add(struct gram*, const float* first, int n_first, const float* second, int n_second,
              const float* y, double weight);
/* Rows that count, held ones included; those of a block that is not whole do not yet. */
long gram_rows(const struct gram*);
/* Blocks that are held now. */
int gram_held(const struct gram*);
/* Adds a block to sums (square (inputs, inputs), cross (inputs, outputs)). */
void gram_sum(const struct gram*, const struct gram_rows*, double* square, double* cross);

#endif
