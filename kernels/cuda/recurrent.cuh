/* Recurrent blocks (struct recurrence) on the device: the states that a cache holds, and how rows go through
 * them.
 *
 * A value head's state is made of columns, one for each of its values, that know nothing of one another. Four
 * of them are a unit, which a warp takes through all of its sequence's rows, in registers. A cache has two
 * states of each unit. One is the committed tokens'. The other is the tip: the state behind the pending row
 * that ran last, so that a draft computes each row once, and a path that ends there is committed by swapping
 * the two. It keeps the inputs of the steps of all pending rows (column of the convolution, key, value, beta,
 * decay): a row with another parent, and a commit of another path, apply those steps again, which gives the
 * same bits. Only the device knows which of the two states is the tip and which row made it, so a draft loop
 * runs without the host. No call has to report that rows were dropped: a row's pending ancestors ran after
 * that, and the last of them became the tip.
 *
 * For each slice the host writes programs, one a sequence: in which order the unit takes the rows of a tree,
 * so that what only a chain goes on from is never stored. */
#pragma once

#include "kernels/backend.h"

struct cuda_backend;
struct cuda_cache;

enum {
	MOST_TAPS = 16,                /* of a convolution */
	MOST_KEY_DIM = 256,            /* elements of a column, which registers hold */
	UNIT_COLUMNS = 4,              /* a warp's */
	SAVED_STATES = SLICE_ROWS / 4, /* that the programs of a slice hold at once, at most: see states.cu */
	PROGRAM_INTS = 4 * PREFILL_CHUNK + 1
};

/* NULL where a block has none. */
struct recurrence_weights {
	float *convolution, *decay_bias, *decay_rate, *state_norm;
};

/* Where the memory that a cache has on the device holds what, in floats from its start:
 *   state (2, blocks, value_heads, value_dim, key_dim), kept_state the same once
 *   column (blocks, kernel - 1, channels) of the last committed tokens, the oldest first; kept_column
 * likewise pending (blocks, MAX_ROWS, row) a row's column, keys, values, beta and decay unit (blocks, units)
 * struct state_unit kept_: after the last whole chunk of the prompt. */
struct states_layout {
	int blocks, units; /* recurrent blocks, 0: there is none; units of a block */
	int channels, keys, values, query_at, key_at, value_at; /* recurrence_channels and so on, for kernels */
	size_t row;
	size_t state, kept_state, column, kept_column, pending, unit, floats;
};

struct state_unit {
	int side; /* which of its two states is the committed tokens' */
	int tip;  /* the other one is the state behind this pending row */
};

/* A program's number: a step and, times OPERATIONS, a row of the slice or a place. */
enum operation {
	STATE_LOAD,   /* the state that the row starts from, which no row of the slice gives */
	STATE_STEP,   /* the row's step */
	STATE_OUTPUT, /* the row's output alone: the state stays as it is */
	STATE_SAVE,   /* the state is kept in a place */
	STATE_TAKE,   /* and taken from there */
	OPERATIONS = 8
};

/* In the workspace, for the rows of a slice or a prefill chunk. */
struct recurrent_workspace {
	float* made;         /* (rows, …) what wq gives in recurrent blocks and gated attention */
	float* gate;         /* (rows, value_heads·value_dim) */
	float *beta, *decay; /* (rows, value_heads) before their activations */
	float* query;        /* (rows, key_heads·key_dim) of length 1 / sqrt(key_dim) */
	float* out;          /* (rows, value_heads·value_dim) */
	float* saved;        /* (SAVED_STATES, value_heads·value_dim·key_dim) */
};

/* recurrent.cu */
/* From what the products made of the rows to the input of the output map, in work.mixed. */
void launch_recurrence(const struct cuda_backend*, int rows, int block);
/* A path of pending rows becomes text. */
struct state_path {
	int n;
	int32_t row[MAX_ROWS];
};
void launch_commit_states(const struct cuda_backend*, float* states, const struct state_path&);
/* Copies the committed tokens' states to the kept ones, or back. */
void launch_keep_states(const struct cuda_backend*, float* states, bool back);

/* states.cu */
/* Numbers the blocks, and lays a cache's states out. False with the error set when the kernels do not take
 * the shape. */
bool states_plan(struct cuda_backend*, struct error*);
/* Floats of a row that `made` holds. */
size_t made_width(const struct model_shape*);
/* Bytes of a cache's states. */
size_t states_bytes(const struct cuda_backend*);
/* Takes the states, all zero. False with the error set; close them in any case. */
bool states_open(const struct cuda_backend*, struct cuda_cache*, struct error*);
void states_close(struct cuda_cache*);
/* Writes the programs for the slice's rows, whose segments the backend knows, at that byte of the staging
 * block; returns where they end. */
size_t describe_states(struct cuda_backend*, size_t at);
/* Call before the path's rows (n) are committed; path NULL: the first n pending ones. No row is pending then.
 */
void states_commit(struct cuda_cache*, const int32_t* path, int n);
/* Call after it: keeps the states if they may be needed again. */
void states_keep(struct cuda_cache*);
/* To the last position of at most `committed` tokens that the states can go back to. */
void cuda_truncate(struct cache*, int committed);
/* Only in models with recurrent blocks, whose states no other cache has. */
int cuda_adopt_own(struct cache*, const int32_t* token, int n);
