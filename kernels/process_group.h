/* The messages between processes that share one model.
 *
 * A rank is such a process; rank 0 leads. Each computes a share of every matrix's output rows and gets the
 * others' from them: no sum is ever cut in two, so the bits are those of one process. This is tensor
 * parallelism by output rows alone. (Shoeybi et al. 2019, Megatron-LM, cut every second matrix by columns and
 * add up, which moves less data and changes bits.) If a rank dies, all others must end; the implementation
 * takes care of that. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Activations of which each rank has some columns: those of its share of `rows`, the matrix's output rows. */
struct shared_rows {
	float* out;    /* (n, rows) */
	size_t stride; /* floats from one to the next */
	int64_t rows;
};

struct process_group {
	int rank, ranks;
	/* Room for gathering that many floats at once, so that gathering allocates nothing. False: no memory. */
	bool (*reserve)(struct process_group*, size_t floats);
	/* Rank 0's bytes to all the others. */
	void (*broadcast)(struct process_group*, void* bytes, size_t size);
	/* Completes the n activations of each of `count` in every rank. */
	void (*gather)(struct process_group*, const struct shared_rows*, int count, int n);
	void (*close)(struct process_group*);
};

/* The first row of a rank's share of a matrix; share_first(rows, ranks, ranks) is its end. Shares are
 * whole groups of rows, as the kernels take them. */
static inline int64_t share_first(int64_t rows, int rank, int ranks) {
	enum { GROUP = 16 };
	return rank == ranks ? rows : rows / GROUP * rank / ranks * GROUP;
}
