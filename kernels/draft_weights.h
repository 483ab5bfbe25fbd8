/* Quantized draft weights of a model's matrices, for drafting.
 *
 * A pass may run sub-layers, and the head, with the draft weights instead of the stored weights
 * (pass.quantized, pass.quantized_head). The draft weights are made of GGUF's own block types, so the kernels
 * for stored weights run them. Such a pass is only a guess, which verification with the stored weights
 * checks.
 *
 * A plan decides from shapes and stored types which matrices get draft weights, of which type, and where they
 * lie. Filling follows the plan. The bytes depend on the weights and the request, and not on threads or
 * instruction sets.
 *
 * Matrices in 4 bits are stored by input channel (kernels/column_weights.h) on a CPU and on one GPU,
 * otherwise by rows. Stored weights stay as their file has them. */
#pragma once

#include "kernels/backend.h"
#include "kernels/column_weights.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DRAFT_WEIGHTS_ALIGNMENT = 64 };

/* This processor's functions for widening and rounding rows. All give the same bytes, some faster. */
struct quantizer {
	void (*widen)(enum dtype, const void* row, float* x, int64_t cols);
	void (*round)(enum dtype, void* out, const float* x, int64_t cols);
};

/* One matrix with draft weights. */
struct draft_weights_item {
	const struct tensor* stored;
	struct tensor* quantized; /* in the table below; data NULL before draft_weights_place */
	size_t offset, bytes;     /* offset a multiple of DRAFT_WEIGHTS_ALIGNMENT */
	int first_part;           /* of the parts that are made one by one */
};

/* The format that is asked for. */
struct draft_weights_format {
	int bits;         /* bits of the blocks' matrices, 4 or 8; the head's have 8 */
	bool columns;     /* the blocks' matrices are stored by input channel (column_weights.h), in 4 bits */
	bool coarse_head; /* drafts use the backend's coarse head (WANT_GUESS): the head gets no draft weights */
};

struct draft_weights {
	struct draft_weights_format format;
	bool optional; /* the user did not ask for them, so a backend may give their memory to caches */
	const struct quantizer* rounding;
	const struct weight_table* stored;
	/* (n_blocks) the stored table, with draft weights in place of the matrices that have them */
	struct block_weights* block;
	struct expert* expert;  /* (n_blocks, n_experts) likewise, in blocks with experts */
	struct tensor* output;  /* likewise, the head */
	struct mask sub_layers; /* those with draft weights, which save at least a quarter of their bytes */
	bool head;              /* so has the output head */
	enum dtype type;        /* type of most bytes of the blocks' draft weights */
	size_t bytes;           /* of the draft weights; 0: the weights are as small already */
	struct column_weights columns;   /* with format.columns; its memory comes first */
	struct draft_weights_item* item; /* (n_items) by offset */
	int n_items;
	int parts; /* pieces of some rows, made in any order */
};

/* Plans draft weights. `stored` must outlive the table. False with the error set when memory runs out, or
 * when the weights are not in memory (made on a device). Close in any case. */
bool draft_weights_plan(struct draft_weights*, const struct weight_table* stored, struct draft_weights_format,
                        struct error*);
void draft_weights_close(struct draft_weights*);
/* Gives the tensors their places in `data` (bytes), the caller's, 64-byte aligned. */
void draft_weights_place(struct draft_weights*, void* data);
/* Fills `data` (bytes) by the plan on so many threads (0: one for each CPU that the process may use).
 * progress may be NULL; it is called with the share done on the caller's thread. False with the error set
 * when threads cannot be made. */
bool draft_weights_make(const struct draft_weights*, void* data, int threads,
                        void (*progress)(void* user, double share), void* user, struct error*);

/* The same in slices between a request's passes. draft_weights_job_run works for about so many seconds, or
 * until all is made, and returns the share that is made. Allocates nothing. One thread at a time. */
struct draft_weights_job;
struct draft_weights_job* draft_weights_job_open(const struct draft_weights*, void* data, int threads,
                                                 struct error*);
void draft_weights_job_close(struct draft_weights_job*);
double draft_weights_job_run(struct draft_weights_job*, double seconds);
double draft_weights_job_share(const struct draft_weights_job*);

/* For people: how most of the weights are stored. */
const char* draft_weights_kind(const struct draft_weights*);
/* True when the sub-layer's draft weights are by input channel. */
bool draft_weights_by_channel(const struct draft_weights*, int sub_layer);

/* The sub-layers that a draft with this mask runs with draft weights; *head: whether the head has them. */
struct mask draft_weights_sub_layers(const struct draft_weights*, const struct mask*, bool* head);

/* Rounds a row of floats to a type for draft weights: q4_1, q4_k or q8_0. x (cols), out
 * (dtype_row_bytes). Scales are always finite, whatever x holds. */
void quantize_row(enum dtype type, void* out, const float* x, int64_t cols);

#ifdef __cplusplus
}
#endif
