/* A low-bit copy of a model's matrices, for drafting.
 *
 * A pass may run sub-layers, and the head, with the copy instead of the stored weights (pass.low,
 * pass.low_head). The copy is made of GGUF's own block types, so that the kernels for stored weights run it.
 * What it computes is a guess: verification always runs the stored weights.
 *
 * Planning says which matrices get a copy, of which type and where it lies, from shapes and stored types
 * alone; making fills memory by that plan. The copy's bytes depend on the weights and what was asked for, not
 * on threads or instruction sets.
 *
 * For a CPU the rows of matrices in 4 bits are woven (struct tensor, kernels/woven.h): a draft step, which
 * has one row, then waits for memory and not for arithmetic. Stored weights stay as their file has them. */
#ifndef SWIFTLET_KERNELS_LOW_H
#define SWIFTLET_KERNELS_LOW_H

#include "kernels/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LOW_ALIGNMENT = 64 };

/* Who widens and rounds rows on this processor: the same bytes everywhere, sooner on some. */
struct low_rounding {
	void (*widen)(enum dtype, const void* row, float* x, int64_t cols);
	void (*round)(enum dtype, void* out, const float* x, int64_t cols);
	void (*weave)(enum dtype, void* out, const float* x, int64_t stride);
};

/* One matrix of the copy. */
struct low_item {
	const struct tensor* stored;
	struct tensor* copy;  /* in the table below; data NULL until low_place */
	size_t offset, bytes; /* offset a multiple of LOW_ALIGNMENT */
	int first_part;       /* of the parts that are made one by one */
};

/* What is asked of a copy. */
struct low_form {
	int bits;         /* of the blocks' matrices: 4 or 8; the head's copy has 8 */
	bool woven;       /* in 4 bits, matrices whose rows are a multiple of WOVEN are */
	bool coarse_head; /* drafts take the backend's (WANT_GUESS): no copy of the head is made */
};

struct low_table {
	struct low_form form;
	bool optional; /* nobody asked for it: a backend may give its memory to caches */
	const struct low_rounding* rounding;
	const struct weight_table* stored;
	/* (n_blocks) the stored table's, with the copies in the place of the matrices that have one */
	struct block_weights* block;
	struct expert* expert;  /* (n_blocks, n_experts) likewise, of the blocks that have some */
	struct tensor* output;  /* likewise, the head */
	struct mask sub_layers; /* those with a copy: it spares at least a quarter of their bytes */
	bool head;              /* so has the output head */
	enum dtype type;        /* of most bytes of the blocks' copies */
	size_t bytes;           /* of the copy; 0: the weights are as small already */
	struct low_item* item;  /* (n_items) by offset */
	int n_items;
	int parts; /* of some rows each, to be made in any order */
};

/* Plans a copy. `stored` must outlive the table. False with the error set on no memory, or where the weights
 * are not in memory (made on a device). Close in any case. */
bool low_plan(struct low_table*, const struct weight_table* stored, struct low_form, struct error*);
void low_close(struct low_table*);
/* Gives the tensors their place in `data` (bytes), 64-byte aligned, the caller's. */
void low_place(struct low_table*, const void* data);
/* Fills `data` (bytes) by the plan on so many threads (0: one for each CPU that the process may use).
 * progress, with the share done, may be NULL; it is called on the caller's thread. False with the error set
 * when no threads can be made. */
bool low_make(const struct low_table*, void* data, int threads, void (*progress)(void* user, double share),
              void* user, struct error*);

/* The same by slices, between which whoever wants the copy works: takes part for about so many seconds, or
 * until all is made, and gives back the share that is. Allocates nothing. From one thread at a time. */
struct low_making;
struct low_making* low_making_open(const struct low_table*, void* data, int threads, struct error*);
void low_making_close(struct low_making*);
double low_make_for(struct low_making*, double seconds);
double low_made(const struct low_making*);

/* The sub-layers that a draft with this mask runs with the copy; the head is beside them. */
struct mask low_sub_layers(const struct low_table*, const struct mask*, bool* head);

/* Rounds a row of floats to a type that copies have: q4_0, q4_1, q4_k or q8_0. x (cols), out
 * (dtype_row_bytes). Scales are always finite, whatever x holds. */
void low_round(enum dtype type, void* out, const float* x, int64_t cols);
/* Rounds a block each of WOVEN rows to q4_0 or q4_k, woven. x (WOVEN, stride), out (WOVEN blocks). */
void low_weave(enum dtype type, void* out, const float* x, int64_t stride);

#ifdef __cplusplus
}
#endif

#endif
