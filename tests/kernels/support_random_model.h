/* Small models with random weights, and a pass that is easy to call. */
#pragma once

#include "kernels/backend.h"

/* splitmix64 (Steele et al. 2014) */
struct random {
	uint64_t state;
};
uint64_t random_next(struct random*);
int random_below(struct random*, int n);
float random_normal(struct random*);

/* Which of the optional parts a model has. */
enum {
	WITH_BIASES = 1,
	WITH_HEAD_NORMS = 2,
	WITH_POST_NORMS = 4,
	WITH_TIED_HEAD = 16,
	WITH_SOFTCAPS = 32,
	WITH_WINDOW = 64,           /* of the shape's sliding_window, or 9, in every second block */
	WITH_NORM_OVER_HEADS = 128, /* of queries and keys, all heads at once */
	WITHOUT_NORMS_BEFORE = 256,
	WITH_SINKS = 512,           /* and biases of the router and the experts */
	WITH_CHOICE = 1024,         /* a bias of the experts' choice, and a gate of the shared expert */
	WITH_KEYS_AS_VALUES = 2048, /* of blocks that see everything */
	WITH_MLP_BESIDE = 4096,     /* experts have an MLP beside them and norms of their own (Gemma 4) */
	WITH_STREAM_SCALE = 8192
};

struct random_model {
	struct weight_table weights;
	struct block_weights* block;
	struct expert* expert; /* (n_blocks, n_experts); every second block has experts where the shape does */
	void* memory[64 * 48];
	int n_memory;
};

/* A shape to start from: fill in what should differ, then make it. */
struct model_shape random_shape(int n_blocks, int dim, int heads, int kv_heads, int head_dim, int ffn,
                                int vocab);
/* types: of the matrices, taken in turn. */
struct random_model* random_model_make(const struct model_shape*, const enum dtype* types, int n_types,
                                       int with, uint64_t seed);
void random_model_free(struct random_model*);
