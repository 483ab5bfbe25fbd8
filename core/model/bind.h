/* The memory that a model owns while it is open, and the binding of file tensors to the weight table by the
 * names of each format. */
#pragma once

#include "core/files/gguf.h"
#include "core/files/mapping.h"
#include "core/files/tensor_table.h"
#include "core/model/config.h"

/* Tensor names of a format; NULL where it has no such tensor. Names of a block's tensors follow `block`,
 * which holds one %d. Names of norms, and of tensors that may have a bias, are given without ".weight" or
 * ".bias". Names of experts' tensors hold one more %d. */
struct tensor_names {
	const char *embedding, *output_norm, *output, *output_bias;
	const char* block;
	const char* within; /* with what the names of the text model's tensors begin where the file holds other
	                       models too, or NULL */
	const char *attention_norm, *mlp_norm;
	const char *post_attention_norm, *post_mlp_norm; /* of the sub-layer's output */
	const char *wq, *wk, *wv, *wo, *fused_qkv;
	const char *q_norm, *k_norm;
	const char* attention_gate; /* NULL: the gates are in wq */
	/* A recurrent block's; the last three are full names but for the block */
	const char *recurrent_in, *recurrent_gate, *recurrent_beta, *recurrent_decay, *recurrent_out;
	const char *convolution, *state_norm, *decay_bias, *decay_rate, *state_skip;
	bool flat_convolution; /* (channels, kernel), not (channels, 1, kernel) */
	const char *w_gate, *w_up, *w_down, *fused_gate_up;
	const char *router, *expert_gate, *expert_up, *expert_down;
	const char *sinks, *router_bias, *choice_bias; /* in full but for the block */
	/* Of the expert that every row uses; the first NULL: the second has the gate's rows before its own… */
	const char *shared_gate_proj, *shared_up, *shared_down;
	const char* shared_gate; /* …and its weight's; NULL: there is none */
	const char *stacked_gate, *stacked_up,
	    *stacked_down; /* (experts, rows, cols) where the others are NULL */
	/* Gemma 4. Experts beside an MLP: gate and up in one stack, and what they have beside it; in full but for
	 * the block, norms without ".weight". */
	const char *stacked_gate_up, *stacked_down_beside; /* (experts, 2·rows, cols), (experts, rows, cols) */
	const char *router_norm, *expert_scale, *expert_norm, *post_dense_norm, *post_expert_norm;
	const char *input_embedding, *input_projection, *input_projection_norm; /* no block's */
	const char *input_gate, *input_out, *input_norm, *stream_scale;
	/* Gemma 3n. Of no block, with a %d for the number of a map, which counts from 0, or stacked in one
	 * tensor… */
	const char *altup_in, *altup_out;
	/* …and of a block; the first five in full but for the block. */
	const char *altup_router, *altup_predict, *altup_correct, *altup_scale;
	const char *altup_router_norm, *laurel_down, *laurel_up, *laurel_norm;
	/* Latent attention, in full but for the block and ".weight"; key_up and value_up NULL: both are in kv_up.
	 */
	const char *query_down, *query_up, *query_down_norm, *kv_down, *kv_down_norm, *kv_up, *key_up, *value_up;
	const char *xielu_positive, *xielu_negative, *xielu_beta, *xielu_epsilon; /* Apertus, in full */
	/* The MTP layer: prefixes of its parts and of its block's, which may have a %d for the number of blocks
	 * before it; NULL: there is none. mtp_embedding, in full: a table of its own, which is not supported. */
	const char *mtp, *mtp_block;
	const char *mtp_join, *mtp_token_norm, *mtp_state_norm, *mtp_norm, *mtp_embedding;
	/* Of a drafter that reads another model's keys, the last in full. */
	const char *outside_join, *outside_leave, *centroids, *token_order;
};

enum { MOST_FILES = 1024 };

/* model->owned, which model_close frees. */
struct opened {
	struct config config;
	struct gguf head;     /* of GGUF: the metadata of the first file of the set */
	struct mapping* file; /* (n_files) tensors' file names point into it; a made-up model's memory */
	int n_files;
	struct tensor_table tensors;
	struct kept kept;
	struct block_weights* block; /* (n_blocks + 1) the last one is the MTP layer's */
	struct expert* expert;       /* (n_blocks + 1, n_experts) where there are any */
};

/* Makes model->owned, empty. False with the error set. */
bool opened_new(struct model*, struct error*);
/* Makes absent tensors for this many blocks and an MTP layer, with this many experts (0 or more). False with
 * the error set. */
bool opened_blocks(struct opened*, int n_blocks, int n_experts, struct error*);
/* The shape of an MTP layer of a model of this shape. False when the model's kinds of blocks do not say what
 * its block is like. */
bool mtp_shape(const struct model_shape*, struct model_shape* out);
/* Fills the model's weight table, and that of its MTP layer, from the sealed tensor table, the counts over
 * all weights, and the warning when files contradict themselves. False with the error set, also when a tensor
 * is left over that is not `ignored`. */
bool bind_weights(struct model*, const struct tensor_names*, bool (*ignored)(const char* name),
                  struct error*);
/* Binds the parts that a drafter for another model has beside blocks and head (assistant.c). order: the
 * tensor with the tokens of its groups, or NULL. The groups' rows of the head are copied together. */
bool assistant_group(struct model*, struct named_tensor* order, int centroids, struct error*);
/* False with the error set where the shape of such a drafter does not fit the model, or target is NULL. */
bool assistant_check(const struct model*, const struct model* target, struct error*);
/* Gives it the embedding of that model, once its own tensors are bound. */
void assistant_join(struct model*, const struct model* target);
/* Gives the model the end tokens that were found, or else the tokenizer's. */
bool opened_ends(struct model*, const char* file, struct error*);
