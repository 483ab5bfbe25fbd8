/* A model's description in its config.json or GGUF metadata: shape, family, which optional tensors
 * there are, which tokens end a text. What it asks for and the pass does not do is an error. */
#ifndef SWIFTLET_CORE_MODEL_CONFIG_H
#define SWIFTLET_CORE_MODEL_CONFIG_H

#include "core/model/family.h"
#include "core/model/model.h"
#include "core/model/repack.h"

enum { LARGEST = 1 << 24, MOST_EXPERTS = 4096 }; /* no product of two sizes overflows 64 bits */

struct config {
	const struct family* family;
	struct model_shape shape; /* rope factors point into `factors` */
	bool tied;                /* the output head is the embedding */
	bool qkv_bias, output_bias, mlp_bias;
	bool head_norms;                /* queries and keys have norms, though the family need not */
	struct block_set dense;         /* of a model with experts: blocks with one MLP all the same */
	int further_blocks;             /* after the others, that predict tokens further on; they are not run */
	int ffn[MAX_BLOCKS];            /* of the blocks' MLPs, where they are not all shape.ffn wide; else 0 */
	bool keys_as_values;            /* blocks that see everything have no value weights */
	int input_vocab;                /* rows of the embedding for the blocks' inputs; 0: shape.vocab */
	struct xielu xielu[MAX_BLOCKS]; /* of GGUF's metadata, as trained */
	struct packing packing;
	int32_t end_token[MAX_END_TOKENS];
	int n_end_tokens;
	float repetition_penalty; /* of generations that say nothing else; 0: the file is silent */
	int no_repeat_ngram;      /* likewise */
	int32_t* suppressed;      /* (n_suppressed) owned: tokens that are never generated */
	int n_suppressed;
	float* factors; /* owned: RoPE's per-frequency factors, short then long; NULL for most */
};

/* Fills a zeroed config from config.json's text; `file` names it in messages. False with the error
 * set; config_free in both cases. */
bool config_parse(struct config*, const char* text, size_t size, const char* file, struct error*);
/* Takes from generation_config.json's text its end tokens, in the place of those before, and what generations
 * do that say nothing else. */
bool config_parse_generation(struct config*, const char* text, size_t size, const char* file, struct error*);
void config_free(struct config*);

/* Adds an end token unless it is already there or negative. False with the error set when there are more
 * than MAX_END_TOKENS or when it lies beyond the vocabulary. */
bool config_add_end(struct config*, int64_t token, const char* file, const char* field, struct error*);
/* Checks that the numbers fit each other and the backend's limits, whatever file they come from. */
bool config_check(const struct config*, const char* file, struct error*);

/* The norm and the scales of a family, its sizes known, where its file says nothing. */
void config_scales(struct config*);
/* Of blocks some of which see a window, those that see everything have no positions. */
void shape_rotate_sliding(struct model_shape*);
/* The factor on cos and sin of YaRN (Peng et al. 2023, section 3.4) for a scaling factor. */
float rope_yarn_attention(float factor, float mscale, float mscale_all_dim);

#endif
