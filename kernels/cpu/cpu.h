/* The CPU backend's own structures, shared by its files: backend.c opens it, cache.c keeps the sequences,
 * pass.c runs the rows, attention.c and multiply.c spread the heavy parts over the pool, and head.c turns
 * hidden states into results. */
#pragma once

#include "kernels/backend.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/key_layout.h"
#include "kernels/cpu/screened_head.h"
#include <stdatomic.h>

#include "kernels/column_weights.h"
#include "kernels/cpu/pool.h"
#include "kernels/cpu/recurrent.h"
#include "kernels/draft_weights.h"
#include "kernels/kept_states.h"
#include "kernels/page_list.h"
#include "kernels/paged_cache.h"
#include "kernels/process_group.h"
#include "kernels/rope.h"

/* RoPE for a kind of block, and the angles of the slice's rows. */
struct angles {
	struct rope_frequencies rope;
	float *cosine, *sine; /* (slice_rows, rope.pairs) */
};

/* The layout of a block's keys and values in a page, from `at` on: keys of each head as
 * kernels/cpu/key_layout.h states, then values (kv_heads, PAGE_SLOTS, head_dim); of latent attention keys
 * alone, which lie as values do.
 */
struct block_place {
	size_t at, slot_bytes, head_bytes, half; /* of one slot of a head, a page's slots, all heads' keys */
};

struct cpu_cache {
	struct paged_cache paged;
	struct block_place place[MAX_BLOCKS]; /* of a block that keeps none those of the one that it reads */
	float* hidden;                        /* (MAX_ROWS, dim) of the pending rows */
	float* beside;                /* (MAX_ROWS, dim) what attention beside a recurrence reads, or NULL */
	float* altup;                 /* (MAX_ROWS, altup, dim) of the pending rows, or NULL */
	float* mass;                  /* (n_blocks, look_pages) that noted rows have laid on each page, decayed */
	int noted;                    /* such rows */
	const unsigned char** listed; /* (paged.most_pages) the pages that a draft's attention reads in a block */
	struct recurrent_states recurrent;
	bool wants_kept; /* it is among those that kept states are made for */
};

/* A row of the slice that is running. */
struct slice_row {
	struct cpu_cache* cache;
	const struct cpu_cache* keys; /* whose keys it sees: its own, or another model's */
	const struct sampler* sampler;
	const struct penalties* penalties;
	const uint64_t* allowed;       /* bits (vocab) of tokens that may follow; NULL: all */
	const struct page_list* pages; /* what attention reads; NULL: all */
	float* looked;                 /* (most_kv_heads, look_pages) its attention mass; NULL: not wanted */
	int index;                     /* among the cache's pending rows */
	int base, position, later;     /* base: of the keys; the last is the segment's */
	int at;                        /* where attention has it: its position, but with others' keys */
	int seen; /* positions that it sees in the block that runs, of those that drafts read */
	int n_ancestors;
	int32_t ancestor[MAX_ROWS]; /* slots, root first, its own last */
};

enum { MAX_PRODUCTS = 3, MAX_KEY_BYTES = 1024 * sizeof(float) };

/* The lists of a row's two halves of channels, in cache lines of their own */
struct row_lists {
	_Alignas(64) struct column_list half[2];
	uint64_t made[2], limited; /* for which product the halves and the threshold are */
	float threshold;
};

struct cpu_backend {
	struct backend head;
	const struct cpu_kernels* kernels;
	struct pool* pool;            /* one of the two: who works now */
	struct pool *usual, *resting; /* resting: NULL until it is wanted */
	atomic_bool abandoned;        /* the pass at hand */
	int threads, context;
	double attending;             /* seconds of the pass at hand in attention */
	struct process_group* group;  /* with processes that have the other shares of the rows, or NULL */
	struct angles every, sliding; /* sliding.rope.pairs is 0 where sliding blocks are as the others */

	struct page_pool pages[3]; /* of caches in f32, f16 and q8_0 */
	size_t cache_bytes;        /* the most that caches of each type may take; 0: what they can need */

	const struct draft_weights* draft_weights; /* the quantized draft weights that passes may use, or NULL */

	void* lists_memory;       /* what the lists point into; NULL until there is a copy by channel */
	float* second_halves;     /* (slice_rows, …) in lists_memory: multiply_columns.c */
	struct row_lists* list;   /* in lists_memory: of a slice's rows, or one a thread */
	uint64_t column_products; /* so far; a thread's own lists hold the number of their product */

	uint16_t* sampled_norm; /* (n_blocks, COLUMN_KINDS, norm_room) of stored channels: thin.c; or NULL */
	bool* norm_known;       /* (n_blocks, COLUMN_KINDS) */
	size_t norm_room;

	void* interleaved; /* the copy that `block` points into, or NULL */

	struct screened_head screened; /* its memory is NULL where there is none */

	int place[MAX_BLOCKS]; /* of a recurrent block among those */
	struct recurrent_work recurrent;
	struct kept_states kept; /* of caches of all types */

	struct block_weights* block; /* (n_blocks) the model's: vectors as floats, matrices perhaps interleaved */
	const float *output_norm, *output_norm_bias, *output_bias, *input_projection_norm;
	const float *join_token_norm, *join_state_norm; /* NULL where the table has none */
	const float* ones; /* (the largest head's size) the weight of norms that have none */
	float* vectors;    /* what those point into: blocks in ascending order, the last one's end behind them */
	const float** vectors_of; /* (n_blocks + 1) each block's first one */

	int slice_rows; /* rows of a slice at most, SLICE_ROWS to MAX_ROWS: what the workspace below is cut for */
	struct slice_row row[MAX_ROWS];
	int bundle[MAX_ROWS + 1]; /* the slice's rows by sequence: each bundle's first, and their end */
	float* x;                 /* (slice_rows, dim) hidden states */
	float* normed;            /* (slice_rows, dim) */
	float *q, *mixed;         /* (slice_rows, heads·head_dim) */
	float* wide;              /* (slice_rows, recurrent_width) what a wider wq gives */
	float *k, *v;             /* (slice_rows, kv_heads·head_dim) */
	float* y;                 /* (slice_rows, dim) a sub-layer's output */
	float *gate, *up;         /* (slice_rows, the widest of any MLP, expert, token_input and residual) */
	float* thinned;      /* (slice_rows, the widest input of a map) without what stored_levels leave out */
	float* beside;       /* (slice_rows, dim) of an MLP beside experts */
	float* altup;        /* (altup, slice_rows, dim) */
	float* routed;       /* (slice_rows, altup) */
	float* laurel;       /* (slice_rows, dim) of attention's second path (LAuReL) */
	float* joined;       /* (slice_rows, 2·state_width) where the table has `join` */
	float* token_inputs; /* (slice_rows, n_blocks·token_input) */
	float *expanded, *query_latent; /* latent attention: (slice_rows, heads·(nope_dim + rope.dim), or
	                                   heads·value_dim), (slice_rows, query_latent) */
	float* of_head;                 /* (slice_rows, the larger of nope_dim and latent) */
	float* own_inputs;              /* (n_blocks·token_input) a token's row of the table */
	float* probabilities;           /* (slice_rows, n_experts) the router's output */
	float* wanted;                  /* (slice_rows, n_experts) the probabilities that choices are made by */
	float* chosen_weight;           /* (slice_rows, experts_used) */
	int32_t* chosen;                /* (slice_rows, experts_used) ascending */
	float *gathered, *given;        /* (slice_rows, dim) an expert's rows, in and out */
	unsigned char* prepared[MAX_PRODUCTS]; /* (slice_rows) activation rows as kernels need them */
	float* attended;                       /* (threads, attention_floats) */
	float* looked;       /* (NOTED_ROWS, most_kv_heads, look_pages) of a block's noted rows */
	int head_rows;       /* rows of logits held at once */
	int32_t* head_group; /* (vocab / 16 + 1) groups of the head's rows that are multiplied */
	float* centroid;     /* (centroids) a row's products with them */
	int32_t* near;       /* (centroids_used) the largest, ascending */
	float* logits;       /* (head_rows, vocab) */
	float* scratch;      /* (threads, 2·vocab) */
	void* workspace;     /* what those point into */
};

/* A vector of cpu_backend.block; NULL if the model has none. */
static inline const float* floats(const struct tensor* vector) { return vector->data; }

static inline struct cpu_backend* cpu_of(const struct backend* b) {
	return (struct cpu_backend*)(uintptr_t)b;
}

/* Pages of LIST_POSITIONS positions that a sequence may have. */
static inline int look_pages(const struct cpu_backend* b) {
	return (b->context + MAX_ROWS) / LIST_POSITIONS + 1;
}

/* Rows of a sequence that one part of attention takes at most: so many queries share one reading of the cache
 * and what is widened of it, and their scores of a chunk fit a core's first cache. */
enum { MOST_ATTENTION_ROWS = 32 };
static inline int attention_rows(int group) {
	return group < MOST_ATTENTION_ROWS ? MOST_ATTENTION_ROWS / group : 1;
}
static inline int larger_of(int a, int b) { return a > b ? a : b; }
/* The most queries of a part, in any kind of block; and key/value heads. */
static inline int attention_queries(const struct model_shape* s) {
	const int group = s->heads / s->kv_heads, full = s->full_kv_heads ? s->heads / s->full_kv_heads : group;
	return larger_of(attention_rows(group) * group, attention_rows(full) * full);
}
static inline int most_kv_heads(const struct model_shape* s) {
	return larger_of(s->kv_heads, s->full_kv_heads);
}

/* ---- cache.c ---- */
struct cache* cpu_cache_open(struct backend*, int capacity, enum dtype type, struct error*);
void cpu_cache_close(struct cache*);
void cpu_commit(struct cache*, const int32_t* path, int n);
void cpu_discard(struct cache*);
void cpu_truncate(struct cache*, int committed);
/* Only in models with recurrent blocks. */
int cpu_adopt_states(struct cache*, const int32_t* token, int n);
/* The offset in a page of block b's keys, or values, for key/value head h. */
static inline size_t keys_at(const struct cpu_cache* c, int b, int h) {
	return c->place[b].at + (size_t)h * c->place[b].head_bytes;
}
static inline size_t values_at(const struct cpu_cache* c, int b, int h) {
	return keys_at(c, b, h) + c->place[b].half;
}
/* The start of these keys in the page of a slot; the place of that slot's values, or keys that are values.
 */
static inline unsigned char* page_at(const struct cpu_cache* c, size_t head, int slot) {
	return c->paged.bytes[slot / PAGE_SLOTS] + head;
}
static inline unsigned char* slot_at(const struct cpu_cache* c, int b, size_t head, int slot) {
	return page_at(c, head, slot) + (size_t)(slot % PAGE_SLOTS) * c->place[b].slot_bytes;
}

/* ---- pass.c ---- */
bool cpu_run(struct backend*, const struct pass*, struct error*);

/* rows (n, width) += bias, which may be NULL. */
void add_bias(float* rows, const float* bias, int width, int n);
/* gate (n, width) = activation(gate + its bias)·(up + its bias) of the workspace, spread over the pool. */
void gate_rows(struct cpu_backend*, int width, const float* gate_bias, const float* up_bias, int n);

/* ---- multiply.c ---- */
struct product { /* out (n, w->rows) = x · wᵀ, rows of out `stride` floats apart */
	float* out;
	size_t stride;
	const struct tensor* w;
};
/* Up to MAX_PRODUCTS matrices on the same input x (n, cols), spread over the pool together, and over the
 * processes that share the model. */
void multiply(struct cpu_backend*, const float* x, int64_t cols, int n, const struct product*, int count);
/* One product's outputs for some groups of INTERLEAVED_ROWS rows (n_groups, ascending), in one
 * process. */
void multiply_groups(struct cpu_backend*, const float* x, int64_t cols, int n, const struct product*,
                     const int32_t* group, int n_groups);
/* Runs work(user, i, thread) for i in [0, n): here when `cost` (bytes or operations) is small, else over the
 * pool. */
void spread(struct cpu_backend*, int n, double cost, void (*work)(void*, int, int), void* user);

/* ---- interleaved_weights.c ---- */
/* Copies the blocks' quantized weights into interleaved groups, and lets b->block name the copies; without
 * memory for it they stay as they are. */
void interleave_weights(struct cpu_backend*);

/* ---- thin.c ---- */

/* Makes room for norms of the maps' channels. False on no memory. */
bool thin_open(struct cpu_backend*, const struct column_weights*);
void thin_close(struct cpu_backend*);
/* The rows x (n, channels of the block's map of a kind) without the channels that matter least, as draft
 * weights by input channel leave them out; valid until the next call. x itself where there is no such map. */
const float* thin_rows(struct cpu_backend*, int block, enum column_kind, const float* x, float share, int n);

/* ---- multiply_columns.c ---- */
/* Allocates the lists of kept channels. False on no memory. */
bool column_lists_open(struct cpu_backend*, const struct column_weights*);
/* The products of x (n, channels) with a map, of which each row keeps about this share of its channels;
 * product (count) are the map's matrices in its order, whose `w` say only how many outputs they have. */
void multiply_columns(struct cpu_backend*, const float* x, int n, const struct block_map*, float share,
                      const struct product*, int count);

/* ---- listed_head.c ---- */
/* Logits of the n rows, under the final norm in `normed`, for the tokens that rows are allowed and their
 * neighbours alone; all others get one that is next to none. False, and nothing is done, where some row is
 * allowed all. */
bool listed_logits(struct cpu_backend*, const int* row, int n, const struct product*);

/* ---- grouped_head.c ---- */
/* Logits of n rows, under the final norm in `normed`, where the table has centroids. */
void grouped_logits(struct cpu_backend*, int n);

/* ---- norm.c ---- */
/* out (n, width) = the model's norm of x (n, width), which may be the same array; bias NULL for none. */
void norm_rows(const struct cpu_backend*, float* out, const float* x, const float* weight, const float* bias,
               int width, int n);

/* ---- experts.c ---- */
/* Each row's choice of experts by its router, which reads x (n, dim). */
void choose_experts(struct cpu_backend*, const struct block_weights*, const struct block_weights* vectors,
                    const float* x, int n);
/* y (slice's rows, dim) = the block's experts on `x` (n, dim), each row by those that were chosen for it. */
void run_experts(struct cpu_backend*, const struct block_weights*, const struct block_weights* vectors,
                 const float* x, int n);

/* ---- looked.c ---- */
/* Memory for what a cache's rows looked at. False on no memory. */
bool looked_open(struct cpu_cache*, const struct cpu_backend*);
void looked_close(struct cpu_cache*);
/* Marks which of the slice's n rows, the pass's [r0, r0 + n), are noted. */
void looked_begin(struct cpu_backend*, const struct pass*, int r0, int n);
/* The attention mass of the slice's noted rows in a block joins their caches'. */
void looked_add(struct cpu_backend*, int block, int n);
/* Fills the table of pages that a row's attention reads in a block, which its cache holds for
 * attention_row.page; `base` becomes how many committed positions lie in them. */
void looked_pages(const struct slice_row*, int block, int* base);
bool cpu_list_pages(struct cache*, int budget, int32_t* page, struct page_list*);

/* ---- latent.c ---- */
/* The slice's queries q (n, heads·head_dim) over the latent elements, and its keys in the cache. */
void latent_project(struct cpu_backend*, int block, const float* x, int n);
/* The output of the heads (n, heads·head_dim), as attention's output map reads it: (n, heads·value_dim). */
const float* latent_values(struct cpu_backend*, int block, int n);

/* ---- altup.c ---- */
/* The states of the slice's n rows, whose embeddings are x; and x as the head reads it, from all of them. */
void altup_begin(struct cpu_backend*, int n);
void altup_end(struct cpu_backend*, int n);
/* Before a block: mixes the states, gives x the first, and computes what attention's second path adds. */
void altup_begin_block(struct cpu_backend*, int block, int n);
/* After attention, which may have been skipped. */
void altup_add_laurel(struct cpu_backend*, int n);
/* After a block: shares out what it added; x becomes what the token's input reads. */
void altup_share(struct cpu_backend*, int block, int n);
/* Adds y, the token's input, to all states but the first, which x becomes. */
void altup_add_others(struct cpu_backend*, int n);
/* To and from the cache of pending rows: all of the slice's, and row i. */
void altup_keep(struct cpu_backend*, int n);
void altup_load(struct cpu_backend*, int i);

/* ---- ungated.c ---- */
/* For activations without a gate: x (n) = activation(x). */
void activate(enum activation, const struct xielu*, float* x, int n);

/* ---- attention.c ---- */
/* Floats that a part of attention needs. */
size_t attention_floats(const struct cpu_backend*);
/* mixed (n, heads·head_dim) = attention of the slice's queries q over their caches, block b. */
void attend(struct cpu_backend*, int b, int n);

/* ---- head.c ---- */
/* Final norm, output head and results for the slice's rows [r0, r0 + n) of the pass. */
bool head_results(struct cpu_backend*, const struct pass*, int r0, int n, struct error*);

/* ---- bandwidth.c ---- */
double cpu_bandwidth(struct backend*);
