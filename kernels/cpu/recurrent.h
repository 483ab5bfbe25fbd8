/* Recurrent blocks (struct recurrence) on the CPU: the states that a cache holds, and how rows go through
 * them.
 *
 * A cache has two states a block. One is that of the committed tokens. The other is the tip: the state behind
 * the pending row that ran last. So a draft that grows row by row computes each row once, and committing a
 * path that ends at the tip only swaps the two states. For all other pending rows it keeps the inputs of
 * their step (columns of the convolution, key, value, beta, decay): a row with another parent, and a commit
 * of another path, apply those steps again, which gives the same bits. Rows of a pass go through a head one
 * after another, each from its parent's state. */
#pragma once

#include "kernels/backend.h"

struct cpu_backend;
struct cpu_cache;

enum { MOST_TAPS = 16 }; /* of a convolution */

/* The content of a cache. */
struct recurrent_states {
	float* state; /* (2, recurrent blocks, value_heads, key_dim, value_dim) */
	float*
	    column; /* (recurrent blocks, kernel - 1, channels) of the last committed tokens, the oldest first */
	float*
	    pending; /* (recurrent blocks, MAX_ROWS, …) of pending rows; memory is used as far as there are any */
	uint8_t side[MAX_BLOCKS]; /* which of the two states belongs to the committed tokens */
	int16_t tip[MAX_BLOCKS];  /* the pending row whose state the other one is, or -1 */
	int branch;               /* of the prompt (struct known_text) */
};

/* The part of a backend that all caches share. */
struct recurrent_work {
	int blocks;         /* recurrent ones; 0: the rest is empty */
	float* convolution; /* (blocks, kernel, channels) */
	float* rate;        /* (blocks, value_heads) below 0 */
	float* ones;        /* (the larger of channels and value_heads·value_dim) */
	float* head_state;  /* (threads, 1 + MAX_ROWS, key_dim, value_dim) memory is used as far as rows fork */
	/* For the slice's rows */
	float* mixed;            /* (slice_rows, channels) behind it: queries and keys of length 1, values */
	float* gate;             /* (slice_rows, value_heads·value_dim), at last the input of the output map */
	float* out;              /* (slice_rows, value_heads·value_dim) */
	float* beta_decay;       /* (slice_rows, 2, value_heads) beta, decay */
	int16_t above[MAX_ROWS]; /* the parent's place in the slice, or -1 */
	int16_t saved[MAX_ROWS]; /* where in head_state its state is kept for a later child, or -1 */
	int16_t end[MAX_ROWS];   /* of its run: rows of a sequence on end */
	int16_t run[MAX_ROWS];   /* (runs) first rows */
	int runs;
};

/* Makes what does not depend on the slice; the workspace holds the rest. False with the error set. */
bool recurrent_open(struct cpu_backend*, struct error*);
void recurrent_close(struct cpu_backend*);
/* Floats of a row of what the maps of a recurrent block give (the backend's `wide`). */
size_t recurrent_width(const struct model_shape*);

/* Zeroes the states. False on no memory; call recurrent_close_cache in both cases. */
bool recurrent_open_cache(struct cpu_cache*);
void recurrent_close_cache(struct cpu_cache*);

/* Looks through the slice's rows, which are open, for forks. */
void recurrent_slice(struct cpu_backend*, int n);
/* Columns, gates, beta and decay (before their activations) of the slice's n rows become the input of
 * the output map, in `gate`, and the cache has the rows' steps. A prefill's rows are committed as they are:
 * of them no more is kept than the next slice wants. */
void recurrent_rows(struct cpu_backend*, int block, int n, bool prefill);

/* Call before the path's rows (n) are committed. path NULL: the first n pending rows. */
void recurrent_commit(struct cpu_cache*, const int32_t* path, int n);
/* Call after it: keeps the state if it may be needed again (kernels/kept_states.h). */
void recurrent_keep(struct cpu_cache*);
/* backend.next_kept */
int recurrent_next_kept(const struct cache*);
/* No row is pending. */
void recurrent_discard(struct cpu_cache*);
/* Rewinds the states to the last position of at most `committed` tokens that they can go back to. */
int recurrent_go_back(struct cpu_cache*, int committed);
/* The cache holds other named pages now: takes the state that is kept behind the last one, or that of no
 * tokens. Nothing is pending. */
void recurrent_take_kept(struct cpu_cache*);
/* backend.state_bytes, state_save and state_restore */
size_t recurrent_state_bytes(const struct cache*);
bool recurrent_save(const struct cache*, int page, void* to);
void recurrent_restore(struct cache*, const void* from);
