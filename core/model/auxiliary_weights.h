/* Auxiliary weights: small trained tensors beside a model, one safetensors file each (tools/train makes
 * them):
 *
 *   an adapter    kangaroo.norm_in.weight (dim), kangaroo.attention.{q,k,v,o}.weight as the model's own, and
 *                 kangaroo.norm_out.weight (dim); metadata exit_block: blocks that run before it
 *   heads         ppd.head.B.weight (dim, dim) for some numbers of blocks B, which a state after B blocks is
 *                 multiplied with under the model's final norm: the model's head reads that
 *   a probe       probe.weight (dim), probe.bias (1); metadata exit_block
 *
 * They are checked against the model when they are opened. */
#pragma once

#include "core/files/mapping.h"
#include "core/model/model.h"

/* Kangaroo's adapter as a model of its own, run by its own backend. Its block 1 holds the attention. Its
 * output is the target's head under the adapter's norm. Only sub-layer 2 runs, from given states. Block 0
 * exists because a pass can go on from given states only after the first sub-layer. */
struct adapter {
	struct weight_table weights;
	struct block_weights block[2];
	int exit_block;
	struct mapping file;
	size_t bytes; /* of the part alone */
};

/* The matrices are stored as floats: they are small and are read one row at a time. */
struct heads {
	const struct model_shape* shape;
	float* weight[MAX_BLOCKS + 1]; /* (dim, dim) by blocks run; NULL: none */
	float *norm, *norm_bias;       /* (dim) the model's final norm; no bias: NULL */
	float* normed;                 /* (dim) work space */
	size_t bytes;
};

struct probe_weights {
	int exit_block, dim;
	float* weight; /* (dim) */
	float bias;
};

/* Each returns false with the error set. Call close in any case. The model must outlive the adapter. */
bool adapter_open(struct adapter*, const char* path, const struct model*, struct error*);
void adapter_close(struct adapter*);
bool heads_open(struct heads*, const char* path, const struct model*, struct error*);
void heads_close(struct heads*);
/* out (dim) = weight[blocks] · norm(x), which the model's head reads in place of norm(x). One caller at a
 * time. */
void heads_apply(const struct heads*, int blocks, const float* x, float* out);
bool probe_open(struct probe_weights*, const char* path, const struct model*, struct error*);
void probe_close(struct probe_weights*);
