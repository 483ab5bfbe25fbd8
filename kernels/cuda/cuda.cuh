/* Shared by the CUDA backend's files: its tables on the device and the state of a slice.
 *
 * One small block of memory describes a slice of a pass: which rows, where their keys lie, which sub-layers
 * are left out. It is copied to the device, and every kernel reads it. So one captured graph for each bucket
 * of rows serves every pass, mask and cache, and a change of mask rebuilds nothing. */
#pragma once

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/backend.h"
#include "kernels/column_weights.h"
#include "kernels/cuda/nccl.h"
#include "kernels/cuda/recurrent.cuh"
#include "kernels/page_list.h"
#include "kernels/paged_cache.h"
#include "kernels/rope.h"

enum {
	BUCKETS = SLICE_ROWS / 8,
	ATTENTION_CHUNK = 256,
	RESULT_SEGMENT = 1024,
	MAX_DEVICES = MAX_PAGE_MEMORIES,
	CHUNK_PAGES = ATTENTION_CHUNK / LIST_POSITIONS,
	MOST_PINNED = 6 /* see workspace.cu */
};

/* ---- weights on the device ---------------------------------------------------------------- */

/* F16 and BF16 as stored; Q8_0, Q4_1, Q4_K and Q6_K with their bits as stored, in planes (planes.cuh). */
struct matrix {
	enum dtype type; /* DTYPE_F16, DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q4_1, DTYPE_Q4_K or DTYPE_Q6_K */
	int rows, cols;
	void *data, *high, *scale;
	__half* factor;
};

/* A matrix, and what a pass with quantized draft weights runs: where it has none, the stored one again. */
struct device_weights {
	struct matrix stored, quantized;
};

/* Up to four neighbouring lines of a map by input channel (kernels/columns.h, columns.cu) */
struct column_stripe {
	const uint8_t *codes, *scales; /* channel 0's of these lines */
	unsigned run;                  /* bytes from a channel to the next one */
	int line, lines;
};

/* A map by input channel, with the host's bytes; without channels where there is none. */
struct device_columns {
	int channels;
	int stripes;
	int depth, kind; /* of the slice's levels, its own */
	const uint8_t* peak;
	const uint16_t* norm;
	const struct column_stripe* stripe; /* (stripes) */
};

/* The last two are a recurrent block's. A block has not all of them: the others are NULL. */
enum block_matrix { WQ, WK, WV, WO, W_GATE, W_UP, W_DOWN, W_BETA, W_DECAY, BLOCK_MATRICES };

struct device_block {
	struct device_weights matrix[BLOCK_MATRICES];
	float *attention_norm, *mlp_norm, *post_attention_norm, *post_mlp_norm, *q_norm, *k_norm;
	float *bq, *bk, *bv, *bo, *b_gate, *b_up, *b_down;
	struct device_columns columns[COLUMN_KINDS]; /* its draft weights, if they are by input channel */
	struct recurrence_weights recurrence;
};

/* ---- a slice ------------------------------------------------------------------------------ */

struct device_row {
	int32_t token;
	int position;
	int slot;     /* where its key and value go; slot i is in page i / PAGE_SLOTS */
	int base;     /* positions below lie at slots of the same number */
	int ancestor; /* index of its ancestors' slots, positions base and on; -1: slot = position there too */
	int angle;    /* row of the angle table */
	int pending;  /* index among the cache's pending rows: its hidden state */
	int pages;    /* byte offset of the addresses of its cache's pages behind the slice */
	int list;     /* byte offset of the pages that a draft's row reads (n_blocks, listed); 0: it reads all */
	int listed, listed_from; /* as page_list.n and from */
	int noted;               /* its place among the slice's noted rows, or -1 */
	int want, top;
	int sampled;
	struct sampler sampler;
	float* hidden; /* (MAX_ROWS, dim) */
	float* mass;   /* its cache's, of a noted row */
	float* states; /* its cache's, where blocks are recurrent (recurrent.cuh) */
	int above;     /* its parent, if that is a row of the slice, or -1 */
};

/* The weights that a slice multiplies in the head's place. */
enum head_matrix { HEAD_STORED, HEAD_QUANTIZED, HEAD_COARSE };

struct device_slice {
	int n;
	int first; /* sub-layer the span begins with; over 0 the rows go on from kept hidden states */
	uint64_t skip[MASK_WORDS], quantized[MASK_WORDS];
	struct levels levels; /* of draft weights by input channel */
	enum head_matrix head;
	unsigned survivors; /* rows of a screened head that were computed, counted on the device */
	int ancestors;      /* byte offset of int32 slots behind this struct and the rows */
	int angles;         /* byte offset of (rows, pairs) cosines, then as many sines */
	int sliding_angles; /* likewise, of sliding blocks that are turned otherwise */
	int angle_rows;
	int programs;    /* byte offset of the starts of (runs + 1) programs, and of these: recurrent.cuh */
	int runs;        /* sequences */
	int chunks;      /* of ATTENTION_CHUNK positions that the farthest row sees, if no window bounds it */
	int read_chunks; /* likewise, of those that rows with a page list read */
	int noted;       /* rows whose attention mass is kept */
	/* a draft loop */
	int steps, max_steps;
	float chance, threshold, accept[DRAFT_BINS], min_reach[MAX_DRAFT + 1];
	struct device_row row[1]; /* (n) */
};

struct device_result {
	int32_t token, top;
	float log_sum_exp, max_probability;
	int32_t top_token[MAX_TOP];
	float top_probability[MAX_TOP];
	int finite;
	unsigned survivors; /* the slice's */
};

/* ---- the backend -------------------------------------------------------------------------- */

/* cuBLAS is found when the backend opens, not linked: it is ten times the size of everything else here. */
struct cublas_calls {
	cublasStatus_t (*create)(cublasHandle_t*);
	cublasStatus_t (*destroy)(cublasHandle_t);
	cublasStatus_t (*set_stream)(cublasHandle_t, cudaStream_t);
	cublasStatus_t (*set_workspace)(cublasHandle_t, void*, size_t);
	cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void*,
	                       const void*, cudaDataType_t, int, const void*, cudaDataType_t, int, const void*,
	                       void*, cudaDataType_t, int, cublasComputeType_t, cublasGemmAlgo_t);
	const char* (*describe)(cublasStatus_t);
};

/* With several devices all but q, k, v and attention's chunks are whole on each. */
struct workspace {
	float *x, *y;           /* (PREFILL_CHUNK, dim) */
	float *q, *k, *v;       /* (PREFILL_CHUNK, heads or kv_heads · head_dim) */
	void *normed, *mixed;   /* (PREFILL_CHUNK, …) in the activations' type */
	void* gated;            /* (PREFILL_CHUNK, ffn) likewise */
	float *wide, *wide_up;  /* (PREFILL_CHUNK, ffn) products of a prefill */
	float *partial, *scale; /* attention by chunk: (rows, heads, chunks, head_dim) and (…, 2) */
	float *logits, *score;  /* (SLICE_ROWS, vocab) */
	float* segment_sum;     /* (SLICE_ROWS, segments, 2): maximum, sum */
	/* Counts of blocks that have finished: of a head's products (3, heads), of a row's attention (SLICE_ROWS,
	 * kv_heads). Zero between launches: the last block resets them. */
	unsigned *head_done, *row_done;
	/* For a product whose columns several blocks share (matmul.cu): the warps' parts of its outputs (tiles,
	 * warps, …), and the count of finished blocks of each tile. */
	float* tile_sums;
	unsigned* tile_done;
	float* top_score; /* (SLICE_ROWS, segments, MAX_TOP) */
	int32_t* top_token;
	void* dequantized; /* one matrix in F16, for prefill on quantized weights */
	/* Noted rows' sums of weights by page: of a block that runs, relative to the chunk's largest (NOTED_ROWS,
	 * heads, look_pages); and of all blocks and a key head's queries (n_blocks, NOTED_ROWS, kv_heads,
	 * look_pages). NULL for several devices. */
	float *page_sums, *looked;
	struct recurrent_workspace recurrent;
	/* Several devices: what this one has computed of a gather, and what all have, (devices, …) */
	void *part, *gathered;
};

/* What products by input channel leave until their last blocks are done; empty where there are none. */
struct column_sums {
	float* product;  /* (rows, products): of a map (stripes, ranges of channels, a stripe's outputs) */
	unsigned* done;  /* (rows, stripes) as workspace.row_done */
	size_t products; /* of the largest map; stripes likewise */
	int stripes;
};

/* How a block is launched: LAUNCHES_SEPARATE: each step by itself, nine launches. LAUNCHES_FUSED: norms of
 * few rows go with the product that follows, rotation and the cache's new rows with the product before, and
 * the last block of a row's attention combines its chunks: five. LAUNCHES_EARLY: these, each started while
 * the one before it drains, with its first weights on their way (compute capability 9.0). All give the same
 * bits. */
enum launches { LAUNCHES_SEPARATE, LAUNCHES_FUSED, LAUNCHES_EARLY };

/* The start of each device's share of a row; the last is the row's end. */
struct shares {
	int first[MAX_DEVICES + 1];
};

/* The devices that share a model, and how they communicate. */
struct device_group {
	int devices;
	struct cuda_backend* device[MAX_DEVICES]; /* the first leads: its host memory holds slices and results */
	struct nccl_calls nccl;
	struct ncclComm* comm[MAX_DEVICES]; /* NULL where one device is alone, and once they have been given up */
	bool captures;          /* passes are graphs; several devices' are launched kernel by kernel */
	struct page_pool pages; /* of all caches: each device has its heads' part of every page */
	size_t cache_bytes;     /* the most that they may take; 0: what the caches may need */
	/* Whether launches are to take quantized draft weights as the slice specifies, or the stored weights
	 * alone. */
	bool with_quantized;
	/* The sub-layers that launches run with draft weights by input channel; NULL: none. */
	const struct mask* by_channel;
	int status;           /* of the first call of NCCL's that failed since it was last looked at */
	struct error failure; /* of a device that failed: every later pass reports it */
};

/* The screened head (screened_head.cu); without rows where there is none. */
struct device_screened {
	struct matrix coarse;         /* (vocab, dim) q4_1 */
	float* slack;                 /* (vocab) */
	struct screened_reach* reach; /* (SLICE_ROWS) */
	unsigned* done;               /* (SLICE_ROWS) as workspace.row_done */
	double cost;                  /* of late, in the stored head's bytes */
	int resting;                  /* passes that do without because of it */
};

struct cuda_backend {
	struct backend head;
	struct model_shape whole; /* the model's */
	struct model_shape
	    shape; /* this device's: the same but for heads, kv_heads and ffn, of which it has a share */
	int rank;  /* among the devices that share the model; 0 leads */
	struct device_group* group;
	int device, context, chunks, segments, multiprocessors;
	enum launches launches;
	int column_parts; /* of products with few rows; 0: by their shape (parts.h). The same bits */
	bool screens;     /* a screened head is asked for */
	bool bf16;        /* activations and half-precision weights are BF16, else F16 */
	cudaStream_t stream;
	struct cublas_calls calls;
	cublasHandle_t cublas; /* NULL where the library is not installed: prefill then runs as exact rows */
	struct rope_frequencies rope, sliding_rope; /* the latter without pairs where all blocks are alike */
	struct device_block* block;                 /* (n_blocks) on the host, pointers to the device */
	struct device_weights output;
	void* embedding; /* (vocab, dim) in the activations' type */
	float* output_norm;
	struct workspace work;
	struct device_slice *staging, *slice; /* (slice_bytes) pinned host memory; the same on the device */
	size_t slice_bytes;
	struct device_result *result, *host_result; /* (max(SLICE_ROWS, MAX_DRAFT)) */
	float* host_tap;    /* (PREFILL_CHUNK or 2L, dim) a tapped slice's states, or one row's, pinned */
	float* host_logits; /* (3, vocab) a row whose token penalties choose, and scratch; pinned */
	const struct segment* of_row[PREFILL_CHUNK]; /* the slice's rows', while a pass runs */
	const uint64_t* allowed[PREFILL_CHUNK];      /* likewise: what may follow each, or NULL */
	void* pinned[MOST_PINNED];                   /* all that cudaMallocHost gave */
	int n_pinned;
	float* host_mass; /* (look_pages, n_blocks) a cache's, pinned; NULL for several devices */
	/* Graphs of passes with only stored weights, and of those with quantized draft weights once there are
	 * some. A pass whose graph is NULL is launched kernel by kernel. */
	struct captured {
		cudaGraphExec_t pass[BUCKETS + 1], draft; /* several devices: the first is of one row */
		cudaGraph_t draft_source;                 /* owns the handle of the loop's condition */
	} captured[2];
	struct device_screened screened;
	struct column_sums sums;     /* of products by input channel */
	struct states_layout states; /* of a cache */
	int place[MAX_BLOCKS];       /* a block among the recurrent ones, or among those with attention */
	struct draft_weights_state* draft_weights; /* draft_weights.cu; NULL: no copy */
	void** allocation;                         /* everything cudaMalloc gave, freed at close */
	int n_allocations, allocation_capacity;
};

struct cuda_cache {
	struct paged_cache paged;
	float* hidden[MAX_DEVICES]; /* (MAX_ROWS, dim) of the pending rows, each device's copy */
	float* mass;   /* (look_pages, n_blocks) that noted rows have laid on each page, decayed; NULL for several
	                  devices */
	int noted;     /* such rows */
	float* states; /* of recurrent blocks: recurrent.cuh */
	int kept_at;   /* the tokens that the kept states are behind; 0: none */
};

/* False with the error set when a call failed; names the call. */
bool cuda_ok(cudaError_t status, const char* call, struct error* error);
bool cublas_ok(const struct cublas_calls*, cublasStatus_t status, const char* call, struct error* error);
/* False where the library of the toolkit's version is not installed. */
bool cublas_find(struct cublas_calls*);
#define CUDA_TRY(call, error)                                                                                \
	do {                                                                                                     \
		if (!cuda_ok((call), #call, (error)))                                                                \
			return false;                                                                                    \
	} while (0)
/* in a function with a backend b */
#define CUBLAS_TRY(call, error)                                                                              \
	do {                                                                                                     \
		if (!cublas_ok(&b->calls, (call), #call, (error)))                                                   \
			return false;                                                                                    \
	} while (0)

/* Device memory that the backend owns. NULL with the error set: how much was asked for and what is free. */
void* cuda_take(struct cuda_backend*, size_t bytes, const char* what, struct error*);
/* Gives back all of it but the first n takings. */
void cuda_give_back(struct cuda_backend*, int n);
/* An error that names what memory is wanted for, and how much there is. */
void describe_free_memory(size_t bytes, const char* what, struct error*);

/* memory.cu */
struct cache* cuda_cache_open(struct backend*, int capacity, enum dtype, struct error*);
void cuda_cache_close(struct cache*);
void cuda_commit(struct cache*, const int32_t* path, int n);
/* Bytes of a page for this device's heads. */
size_t cuda_page_bytes(const struct cuda_backend*);

/* workspace.cu */
/* Whether the weights, what passes work in, their graphs, a cache, and so many bytes more fit the device. */
bool weights_fit(struct cuda_backend*, size_t beside, struct error*);
bool workspace_open(struct cuda_backend*, struct error*);
/* Bytes that captured passes are thought to take; 0 where none are. */
size_t graphs_room(const struct cuda_backend*);

/* devices.cu */
/* Opens the devices' communicators, once each device is open; nothing for one. */
bool devices_join(struct device_group*, struct error*);
void devices_leave(struct device_group*);
/* True when there are so many devices, alike, and the model is large enough to share; several need NCCL. */
bool devices_check(const struct weight_table*, int first, int devices, struct nccl_calls*, struct error*);
/* The starts of the shares of a matrix's `rows` outputs (hidden states, logits, feed-forward width); and
 * those of an attention's `width` columns for each key/value head. */
struct shares shares_of_rows(int devices, int64_t rows);
struct shares shares_of_heads(int devices, int kv_heads, int width);
/* The room that work.part needs. */
size_t most_of_a_part(const struct cuda_backend*);
/* Gathers the devices' parts of the first `rows` rows on each device: the embedding in x, attention's output
 * in mixed, a sub-layer's output in y, or added to x, the feed-forward's activations in gated, the logits.
 * Does nothing for one device. */
enum gathered {
	GATHERED_EMBEDDING,
	GATHERED_MIXED,
	GATHERED_OUTPUT,
	GATHERED_ADDED,
	GATHERED_GATED,
	GATHERED_LOGITS
};
void launch_gather(const struct cuda_backend*, int rows, enum gathered, int sub_layer);
/* Waits until all launches are done. False with the error set when a device failed. Several devices are given
 * up then, which takes some seconds if one does not answer. */
bool devices_wait(const struct cuda_backend*, struct error*);
static inline bool devices_gone(const struct cuda_backend* b) { return b->group->failure.message[0] != 0; }
static inline bool is_alone(const struct cuda_backend* b) { return b->group->devices == 1; }
/* Graphs of launches as the group specifies. */
static inline struct cuda_backend::captured* captured_now(struct cuda_backend* b) {
	return &b->captured[b->group->with_quantized];
}
/* Does it on each device; launches go to the current one. */
template <class F> void each_device(const struct cuda_backend* b, F what) {
	for (int d = 0; d < b->group->devices; d++) {
		if (!is_alone(b))
			cudaSetDevice(b->group->device[d]->device);
		what(b->group->device[d]);
	}
}

/* upload.cu */
/* A device's rows of a matrix, or elements of a vector, by kind: a block's queries, its keys and values,
 * those of the model's width, the feed-forward's, and the head. */
struct own_rows {
	int64_t first, n;
};
struct matrix_shares {
	struct own_rows q, kv, dim, ffn, vocab;
};
struct matrix_shares shares_of(const struct cuda_backend*);
/* A matrix as the model has it, and which of its rows this device has. */
struct shared_matrix {
	const struct tensor* of;
	struct own_rows share;
	const char* name; /* for messages */
};
/* By enum block_matrix. */
void matrices_of(const struct cuda_backend*, const struct block_weights*,
                 struct shared_matrix matrix[BLOCK_MATRICES]);
/* Does it for each matrix of the model's blocks. */
template <class F> void each_matrix(const struct cuda_backend* b, F what) {
	for (int i = 0; i < b->shape.n_blocks; i++) {
		struct shared_matrix all[BLOCK_MATRICES];
		matrices_of(b, &b->head.weights->block[i], all);
		for (const struct shared_matrix& matrix : all)
			if (tensor_present(matrix.of))
				what(matrix);
	}
}
bool upload_weights(struct cuda_backend*, struct error*);
/* Bytes that it takes meanwhile beside the weights. */
size_t upload_room(const struct cuda_backend*);
/* Bytes that upload_weights will take. */
size_t weight_bytes(const struct cuda_backend*);
/* Whether the kernels take this type's bits as stored; else they become halves. */
bool kept_as_stored(enum dtype);
/* Device memory for a matrix as stored, in planes; nothing is in it yet. */
bool take_matrix(struct cuda_backend*, enum dtype type, int64_t rows, int64_t cols, struct matrix*,
                 const char* what, struct error*);
/* Fills n rows from `first` on of such a matrix with rows as stored, by way of device memory (n rows). */
bool arrange_rows(const struct matrix*, const void* rows, void* raw, int64_t first, int64_t n, struct error*);

/* draft_weights.cu */
bool cuda_use_draft_weights(struct backend*, const struct draft_weights*, struct error*);
bool cuda_upload_draft_weights(struct backend*, size_t bytes, bool* all, struct error*);
void draft_weights_state_close(struct cuda_backend*);
/* Whether a pass runs, unless it skips them, all sub-layers by input channel that there are: captured passes
 * with draft weights do. True where the draft weights are otherwise. */
bool runs_all_by_channel(const struct cuda_backend*, const struct mask* skip, const struct mask* quantized);
/* Frees draft weights that nobody asked for (draft_weights.optional). From then on all passes run the stored
 * weights. False if there are none. */
bool release_draft_weights(struct cuda_backend*);

/* ---- what goes along with a product ------------------------------------------------------- */

/* An RMS norm. */
struct norm {
	const float* weight; /* NULL: none */
	float plus, epsilon;
	int sub_layer; /* -1: the final norm */
};

/* Rotation of a block's queries and keys, and its new keys and values. */
struct head_rotation {
	float *q, *k, *v;
	const float* gated; /* (n, heads, 2, head_dim) queries and gates, that q comes from; NULL: it is there */
	const float *q_norm, *k_norm;
	int heads, kv_heads, head_dim, pairs, block, interleaved;
	int place;   /* of the block among those with keys */
	int sliding; /* by the sliding blocks' angles */
	float plus, epsilon;
	unsigned* done; /* as workspace.head_done; NULL: not with the product */
};

/* columns.cu */
/* What a product by input channel reads: the norm of states x, activations, or activation(x)·up. */
enum column_input_kind { COLUMN_INPUT_NORM, COLUMN_INPUT_ACTIVATIONS, COLUMN_INPUT_GATE };
struct column_input {
	enum column_input_kind kind;
	const float *x, *up;     /* (n, channels) */
	const void* activations; /* (n, channels) in the activations' type */
	struct norm norm;
	enum activation activation;
};
/* Its outputs go to the parts in turn, or are added there. */
struct column_outputs {
	float* out[3]; /* (n, rows) each */
	const float* bias[3];
	int64_t rows[3];
	int parts;
	bool adds;
};
/* The rows' products with a block's map, each with the channels that it keeps by the slice's levels. */
void launch_columns(const struct cuda_backend*, int rows, int sub_layer, enum column_kind,
                    const struct column_input&, const struct column_outputs&);
/* Takes memory for the weights, with their bytes in the order of the host's, and for products with them.
 * Returns where the weights go, or NULL with the error set. */
uint8_t* columns_open(struct cuda_backend*, const struct column_weights*, struct error*);

/* matmul.cu: y (n, rows) from activations x (n, cols) in the activations' type. */
enum product_end { PRODUCT_STORE, PRODUCT_ADD, PRODUCT_GATE };
enum { MOST_PRODUCTS = 4 };
struct device_product {
	struct matrix w[MOST_PRODUCTS], quantized[MOST_PRODUCTS];
	bool has_quantized;               /* some passes run `quantized`, as the slice specifies */
	float* out[MOST_PRODUCTS];        /* STORE: (n, rows) each; ADD: out[0] += */
	const float* bias[MOST_PRODUCTS]; /* NULL for most */
	int parts;
	enum product_end end; /* GATE: activation(w[0]·x)·(w[1]·x) into gated */
	void* gated;
	enum activation activation;
	struct norm norm;              /* of what the product reads, which are hidden states then */
	struct head_rotation rotation; /* parts are a block's queries, keys and values */
};
void launch_product(const struct cuda_backend*, const struct device_product*, const void* x, int bucket,
                    int sub_layer);
/* Whether the norm before a product goes with it, and the rotation with a block's. */
bool norm_goes_along(const struct cuda_backend*, const struct device_product*, int bucket);
bool rope_is_fused(const struct cuda_backend*);
/* Room for products that several blocks share out: floats of workspace.tile_sums, and its counts. */
size_t tile_sums_of(const struct cuda_backend*);
size_t tiles_of(const struct cuda_backend*);
/* The same for a prefill chunk, by cuBLAS; bias NULL for most. */
bool prefill_product(struct cuda_backend*, const struct device_weights*, const float* bias, const void* x,
                     int n, float* out, struct error*);

/* rows.cu */
void launch_embed(const struct cuda_backend*, int rows);
void launch_norm(const struct cuda_backend*, int rows, const float* weight, int sub_layer);
void launch_round(const struct cuda_backend*, int rows); /* the states as they are */
void launch_apply_rope(const struct cuda_backend*, int rows, int block);
struct norm norm_of(const struct cuda_backend*, const float* weight, int sub_layer);
struct head_rotation head_rotation_of(const struct cuda_backend*, int block);
void launch_post_norm(const struct cuda_backend*, int rows, const float* weight, int sub_layer);
void launch_add(const struct cuda_backend*, int rows);  /* a prefill's y to x */
void launch_gate(const struct cuda_backend*, int rows); /* a prefill's wide and wide_up to gated */
void launch_keep(const struct cuda_backend*, int rows);
/* The last sub-layer before `end` that was run; launch_norm does those before its own. */

/* attention.cu */
void launch_attention(const struct cuda_backend*, int rows, int block, int first_row);

/* looked.cu */
/* Pages that a sequence may have, in whole chunks. */
static inline int look_pages(const struct cuda_backend* b) { return b->chunks * CHUNK_PAGES; }
static inline size_t mass_bytes(const struct cuda_backend* b) {
	return (size_t)look_pages(b) * (size_t)b->shape.n_blocks * sizeof(float);
}
/* Marks a slice's row, with `behind` rows after it in its segment, if its attention mass is kept. */
void note_row(const struct cuda_backend*, const struct segment*, int behind, struct device_row*);
/* The attention mass of the slice's noted rows joins their caches', in stream order. */
void launch_looked(const struct cuda_backend*, const struct pass*);
/* Puts a page list at that byte of the staging block, for a row; returns its bytes. */
size_t put_page_list(const struct cuda_backend*, const struct page_list*, size_t at, struct device_row*);
bool cuda_list_pages(struct cache*, int budget, int32_t* page, struct page_list*);

/* results.cu */
void launch_results(const struct cuda_backend*, int rows, struct device_result* out);

/* draft.cu */
/* Captures the loop for launches as the group's with_quantized specifies. */
bool draft_capture(struct cuda_backend*, struct error*);
int cuda_draft(struct backend*, const struct segment*, int32_t token, const struct mask* skip,
               const struct mask* quantized, bool quantized_head, const struct levels*,
               const struct draft_policy*, struct result*, struct error*);

/* screened_head.cu */
/* Bytes that it takes where it is wanted; 0: it cannot be, or saves nothing. */
size_t screened_room(const struct cuda_backend*);
/* Makes it of the head on the device. If weights are not finite, or too large, there is none. */
bool screened_open(struct cuda_backend*, struct error*);
/* The weights that the slice's rows read as output head: `quantized_head` as a pass asks for it. */
enum head_matrix head_for(struct cuda_backend*, const struct device_slice*, bool quantized_head);
/* After the coarse product of the normed states: what may be the largest logit becomes exact. */
void launch_screened(const struct cuda_backend*, int bucket);
/* So many rows were computed as stored, in a slice. */
void screened_weigh(struct cuda_backend*, unsigned survivors);

/* capture.cu */
/* Captures the passes, and the draft loop, for launches of the kind with_quantized, if they are captured;
 * otherwise only loads their kernels. The host launches what the device or its driver cannot capture, and
 * logs that. */
bool capture_passes(struct cuda_backend*, struct error*);
void captured_close(struct cuda_backend::captured*);

/* pass.cu */
/* Begins the staging block of a slice of n rows; the caller fills in what is not nothing. */
struct device_slice* describe_slice(struct cuda_backend*, int n, const struct mask* skip,
                                    const struct mask* quantized, const struct levels*);
/* A row of the segment's, without ancestors but the tokens before it. */
struct device_row describe_row(const struct segment*);
/* The device's choice for a row. */
void give_result(const struct device_result*, uint8_t want, struct result*);
/* Takes memory for the angles of so many rows from `at` of the staging block on; returns its end. And fills
 * one row's, in a text whose prompt has this length. */
size_t reserve_angles(const struct cuda_backend*, size_t at, int rows);
void put_angles(const struct cuda_backend*, int row, int position, int prompt_length);
/* Lists where a cache's pages lie on the device, at that byte of its staging block; returns the bytes of the
 * list. */
size_t list_pages(const struct cuda_backend*, const struct paged_cache*, size_t at);
/* The slice's chunks reach as far as the row sees at this position. */
void reach_chunks(struct device_slice*, const struct device_row*, int position);
/* The start of a part of the staging block, at `at` or behind it. */
static inline size_t align_place(size_t at) { return (at + 15) / 16 * 16; }
bool cuda_run(struct backend*, const struct pass*, struct error*);
/* All sub-layers for up to `rows` rows, the head and the results, as launches on the devices' streams. */
void launch_whole(const struct cuda_backend*, int rows);

#ifdef __CUDACC__
/* A launch in stream order. With LAUNCHES_EARLY it may begin before the previous one has ended, so every
 * kernel launched by it begins with wait_for_inputs. */
template <class... P, class... A>
void launch(const struct cuda_backend* b, dim3 grid, unsigned threads, size_t shared, void (*kernel)(P...),
            A... arguments) {
	cudaLaunchAttribute early = {};
	early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
	early.val.programmaticStreamSerializationAllowed = 1;
	cudaLaunchConfig_t config = {};
	config.gridDim = grid;
	config.blockDim = dim3(threads);
	config.dynamicSmemBytes = shared;
	config.stream = b->stream;
	config.attrs = &early;
	config.numAttrs = b->launches == LAUNCHES_EARLY;
	cudaLaunchKernelEx(&config, kernel, arguments...);
}

/* what(x), where x is one of the activations' type, for what is compiled for either. */
template <class F> void by_activation(const struct cuda_backend* b, F what) {
	if (b->bf16)
		what(__nv_bfloat16());
	else
		what(__half());
}

/* ---- on the device ------------------------------------------------------------------------ */

__device__ __forceinline__ bool leaves_out(const struct device_slice* s, int sub_layer) {
	return sub_layer >= 0 && ((s->skip[sub_layer >> 6] >> (sub_layer & 63)) & 1u);
}

__device__ __forceinline__ bool runs_quantized(const struct device_slice* s, int sub_layer) {
	return (s->quantized[sub_layer >> 6] >> (sub_layer & 63)) & 1u;
}

/* The address of a slot's keys or values: of this head of a block's keys, or values, as numbered in a page, 2
 * · kv_heads a block. */
__device__ __forceinline__ __half* at_slot(const struct device_slice* s, const struct device_row& row,
                                           int slot, int head, int head_dim) {
	__half* const* page = (__half* const*)((const char*)s + row.pages);
	return page[slot / PAGE_SLOTS] + ((size_t)head * PAGE_SLOTS + slot % PAGE_SLOTS) * head_dim;
}

/* Sum over a block in a fixed order: lanes by halving, then the warps' sums one after another, which stay in
 * shared. */
__device__ __forceinline__ float block_sum(float x, float* shared) {
	for (int step = 16; step > 0; step /= 2)
		x += __shfl_xor_sync(0xffffffffu, x, step);
	const int warps = (int)(blockDim.x + 31) / 32;
	__syncthreads();
	if (threadIdx.x % 32 == 0)
		shared[threadIdx.x / 32] = x;
	__syncthreads();
	float sum = 0;
	for (int i = 0; i < warps; i++)
		sum += shared[i];
	return sum;
}

__device__ __forceinline__ float block_max(float x, float* shared) {
	for (int step = 16; step > 0; step /= 2)
		x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
	const int warps = (int)(blockDim.x + 31) / 32;
	__syncthreads();
	if (threadIdx.x % 32 == 0)
		shared[threadIdx.x / 32] = x;
	__syncthreads();
	float most = shared[0];
	for (int i = 1; i < warps; i++)
		most = fmaxf(most, shared[i]);
	return most;
}

/* A score and its id; larger first, then the lower id. */
struct scored_token {
	float score;
	int32_t token;
};

__device__ __forceinline__ struct scored_token better(struct scored_token a, struct scored_token b) {
	return a.score > b.score || (a.score == b.score && a.token < b.token) ? a : b;
}

__device__ inline struct scored_token block_best(struct scored_token mine, struct scored_token* shared) {
	for (int step = 16; step > 0; step /= 2) {
		struct scored_token other;
		other.score = __shfl_xor_sync(0xffffffffu, mine.score, step);
		other.token = __shfl_xor_sync(0xffffffffu, mine.token, step);
		mine = better(mine, other);
	}
	__syncthreads();
	if (threadIdx.x % 32 == 0)
		shared[threadIdx.x / 32] = mine;
	__syncthreads();
	struct scored_token best = shared[0];
	for (unsigned i = 1; i < blockDim.x / 32; i++)
		best = better(best, shared[i]);
	return best;
}

/* True for the last of `blocks` blocks to arrive, which may read what the others wrote, past the first-level
 * cache; the count is then 0 again. */
__device__ inline bool is_last_block(unsigned* done, int blocks) {
	__shared__ bool last;
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0) {
		last = atomicAdd(done, 1u) == (unsigned)blocks - 1;
		if (last)
			*done = 0;
	}
	__syncthreads();
	__threadfence();
	return last;
}

template <class T> __device__ __forceinline__ T to_activation(float x);
template <> __device__ __forceinline__ __half to_activation<__half>(float x) { return __float2half_rn(x); }
template <> __device__ __forceinline__ __nv_bfloat16 to_activation<__nv_bfloat16>(float x) {
	return __float2bfloat16_rn(x);
}
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
#endif
