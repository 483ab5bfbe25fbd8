/* A model's matrices by input channel (columns.h): the list of maps, their places in memory, and the code
 * that fills them.
 *
 * A block has four maps: queries, keys and values as one, attention's output, gate and up as one, and down.
 * The bytes depend on the weights alone, not on threads or instruction sets. */
#pragma once

#include "kernels/columns.h"

/* A map and the matrices that form it, whose outputs follow one another. */
struct block_map {
	struct column_map map;          /* channels is 0 where there is none */
	const struct tensor* matrix[3]; /* (n_matrices) stored */
	int n_matrices;
	const struct column_map* next; /* the map that a step multiplies after this one, or NULL */
	size_t offset;                 /* offset of its runs in the weights' memory; peak and norm follow */
	int first_part;
};

struct block_columns {
	struct block_map map[COLUMN_KINDS];
};

/* This processor's functions for rounding and widening, which all give the same bytes. */
struct column_rounding {
	void (*widen)(enum dtype, const void* row, float* x, int64_t cols);
	column_round_function* round;
};

struct column_weights {
	struct block_columns* block; /* (n_blocks) */
	struct column_rounding rounding;
	int n_blocks;
	const void* data; /* (bytes) the place that was given; NULL before */
	size_t bytes;     /* of all of them, a multiple of COLUMN_LINE */
	int parts;        /* pieces of some channels of one map, made in any order */
};

/* Plans all blocks' maps. `stored` must outlive it. Sub-layers with experts have no map. False with
 * the error set when memory runs out. Close in any case. */
bool column_weights_plan(struct column_weights*, const struct weight_table* stored, struct error*);
void column_weights_close(struct column_weights*);
/* Gives the maps their places in `data` (bytes), the caller's, aligned to COLUMN_LINE. */
void column_weights_place(struct column_weights*, void* data);
/* Fills one part. Threads may make different parts at the same time. */
void column_weights_make(const struct column_weights*, int part);

static inline bool block_map_present(const struct block_map* map) { return map->map.channels > 0; }
/* Bytes of a map's norms, which lie behind its runs; its peaks follow. */
static inline size_t column_norm_bytes(int channels) {
	return ((size_t)channels * sizeof(uint16_t) + COLUMN_LINE - 1) / COLUMN_LINE * COLUMN_LINE;
}
/* Bytes that a step reads of a whole map. */
size_t block_map_bytes(const struct block_map*);
