/* A model's description from its config.json or GGUF metadata: its shape, its family, which optional tensors
 * it has, and which tokens end a text. A field that asks for something the pass does not implement is an
 * error. */
#pragma once

#include "core/model/family.h"
#include "core/model/model.h"
#include "core/model/repack.h"

enum { LARGEST = 1 << 24, MOST_EXPERTS = 4096 }; /* no product of two sizes overflows 64 bits */

struct config {
	const struct family* family;
	struct model_shape shape; /* rope factors point into `factors` */
	bool tied;                /* the output head is the embedding */
	bool tied_if_absent;      /* the config does not say: the head is tied if the files hold none */
	bool qkv_bias, output_bias, mlp_bias;
	bool head_bias;             /* the output head has one */
	float theta, sliding_theta; /* of RoPE where blocks list theirs; else 0 (Granite SWA) */
	bool plain_head_norms;      /* of rotated blocks, without weights */
	bool head_norms;            /* queries and keys have norms even if the family does not require them */
	struct block_set dense;     /* in a model with experts: the blocks that have one MLP */
	/* With single_mixers: which of the file's layers are a block's attention or recurrence, and its MLP. */
	int16_t mixer_layer[MAX_BLOCKS], mlp_layer[MAX_BLOCKS];
	bool convolution_bias;   /* of Mamba-2's blocks */
	bool no_state_norm;      /* Mamba-2's blocks have no norm */
	bool no_choice_bias;     /* the router has none, unlike others of its family */
	int further_blocks;      /* blocks after the others that predict later tokens; they do not run */
	int ffn[MAX_BLOCKS];     /* width of each block's MLP when they differ; else 0 */
	bool keys_as_values;     /* blocks with full attention have no value weights */
	bool assistant;          /* a drafter that reads another model's cache */
	int centroids;           /* of its head by groups; 0: the head is whole */
	int input_vocab;         /* rows of the embedding for the blocks' inputs; 0: shape.vocab */
	bool sparse[MAX_BLOCKS]; /* blocks whose gates are cut off, by so many standard deviations */
	float sparsity[MAX_BLOCKS];
	bool no_altup_scale;            /* the first state's scale is stored and not used (Gemma 3n) */
	struct xielu xielu[MAX_BLOCKS]; /* of GGUF's metadata, as trained */
	struct packing packing;
	int32_t end_token[MAX_END_TOKENS];
	int n_end_tokens;
	float repetition_penalty; /* for requests that set none; 0: the file sets none */
	int no_repeat_ngram;      /* likewise */
	int32_t* suppressed;      /* (n_suppressed) owned: tokens that are never generated */
	int n_suppressed;
	float* factors[2]; /* owned: a RoPE's per-frequency factors, short then long, and a second one's; NULL for
	                      most */
};

/* Fills a zeroed config from config.json's text. Messages name `file`. False with the error set; call
 * config_free in both cases. */
bool config_parse(struct config*, const char* text, size_t size, const char* file, struct error*);
/* Reads generation_config.json's text: end tokens, which replace the earlier ones, and defaults for
 * requests. */
bool config_parse_generation(struct config*, const char* text, size_t size, const char* file, struct error*);
void config_free(struct config*);

/* Adds an end token unless it is present or negative. False with the error set when there are more than
 * MAX_END_TOKENS, or when it lies beyond the vocabulary. */
bool config_add_end(struct config*, int64_t token, const char* file, const char* field, struct error*);
/* Checks that the numbers fit each other and the backend's limits. Both kinds of files need it. */
bool config_check(const struct config*, const char* file, struct error*);

/* Makes blocks of layers that hold one sub-layer each, by a letter a layer: 'M' recurrent, '*' attention, '-'
 * an MLP, 'E' experts. An MLP joins the layer before it. Sets n_blocks, recurrent, without_mlp and dense.
 * False with the error set when an MLP follows no other layer, or there are too many. */
bool config_pair_layers(struct config*, const char* letters, int n, const char* file, struct error* error);
/* Makes two blocks of each of n layers: Mamba-2, and attention beside it with the MLP. False with the error
 * set when there are too many. */
bool config_pair_blocks(struct config*, int n, const char* file, struct error* error);
/* Sets the family's norm and scales once its sizes are known. The file may change them afterwards. */
void config_scales(struct config*);
/* Makes the shape of a Gemma 4 that of an assistant, but for the width of the other model's states. */
void config_be_assistant(struct config*);
/* Takes positions from the blocks with full attention, in a model in which other blocks have a window. */
void shape_rotate_sliding(struct model_shape*);
/* YaRN's scale of attention for a scaling factor and a multiplier m: 0.1 · m · ln(factor) + 1. */
double rope_yarn_scale(float factor, float mscale);
/* The factor on cos and sin of YaRN (Peng et al. 2023, section 3.4) for a scaling factor. */
float rope_yarn_attention(float factor, float mscale, float mscale_all_dim);
