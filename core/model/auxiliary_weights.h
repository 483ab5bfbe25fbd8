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
#ifndef SWIFTLET_CORE_MODEL_AUXILIARY_WEIGHTS_H
#define SWIFTLET_CORE_MODEL_AUXILIARY_WEIGHTS_H

#include "core/files/mapping.h"
#include "core/model/model.h"

/* Kangaroo's adapter as a model of its own, which a backend of its own runs: its block 1 has the attention,
 * its output is the target's head under the adapter's norm. Only sub-layer 2 is ever run, from given states.
 * (A pass goes on from given states only after the first sub-layer; block 0 is never run.) */
struct adapter {
	struct weight_table weights;
	struct block_weights block[2];
	int exit_block;
	struct mapping file;
	size_t bytes; /* of the part alone */
};

/* Matrices as floats: they are small, and used a row at a time. */
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

/* Each false with the error set; close in any case. The model must outlive the adapter. */
bool adapter_open(struct adapter*, const char* path, const struct model*, struct error*);
void adapter_close(struct adapter*);
bool heads_open(struct heads*, const char* path, const struct model*, struct error*);
void heads_close(struct heads*);
/* out (dim) = weight[blocks] · norm(x): what the model's head reads in place of norm(x). One caller at a
 * time. */
void heads_apply(const struct heads*, int blocks, const float* x, float* out);
bool probe_open(struct probe_weights*, const char* path, const struct model*, struct error*);
void probe_close(struct probe_weights*);

#endif
