/* Converts weights that a folder stores in another layout, while the folder is opened. GPTQ, AWQ and
 * compressed-tensors weights of 4 or 8 bits become groups of 32 (DTYPE_Q4_GROUP, DTYPE_Q8_GROUP). FP8 (E4M3)
 * with scales becomes DTYPE_F8_GROUP, or F32 where groups do not end with its blocks. gpt-oss' and Llama 4's
 * experts become separate matrices, in MXFP4 or in their float type. bitsandbytes' NF4 and NVFP4 become
 * floats, and 8-bit integers keep their scales in floats (DTYPE_Q8_GROUP), or become floats. All of these
 * keep every bit; only F64, which becomes F32, loses some. */
#pragma once

#include "core/files/tensor_table.h"

enum packing_method {
	PACKING_NONE,
	PACKING_GPTQ,       /* Frantar et al. 2022, as AutoGPTQ stores it */
	PACKING_AWQ,        /* Lin et al. 2023, as AutoAWQ's "gemm" stores it */
	PACKING_COMPRESSED, /* compressed-tensors' pack-quantized */
	PACKING_NVFP4       /* compressed-tensors' nvfp4-pack-quantized, or modelopt's NVFP4 */
};

/* How FP8 weights are scaled: by blocks of this many rows and columns. 0: by row or as a whole, as the
 * scale's shape shows. */
struct fp8_blocks {
	int rows, cols;
};

/* How the weights are packed, from config.json (quantization_config). */
struct packing {
	enum packing_method method;
	int bits;              /* of the numbers in a word: 8, or else 4 */
	int group;             /* inputs that share a scale and a zero; 0: all */
	bool zeros_less_one;   /* GPTQ's first format stores zeros less 1 */
	bool experts_inverted; /* stacks have their inputs first; gpt-oss: rows of gate and up in turn… */
	bool gates_first;      /* …Llama 4: all rows of gate, then up's */
	int inputs; /* how many gate and up have, where stacks may have them last, too (Qwen3-VL-MoE); else 0 */
	struct fp8_blocks fp8;
};

/* Memory of tensors that were made anew. */
struct kept {
	void** memory; /* (n) */
	size_t n;
};

/* Uninitialised bytes that live until kept_free, or NULL when memory runs out. */
void* kept_new(struct kept*, size_t bytes);
void kept_free(struct kept*);

/* Adds the new tensors to the sealed table, or puts them in place of the old ones, and seals it again. Marks
 * the tensors that they are made of as used. False with the error set when a part is missing, has another
 * shape or type, or when a scale is not finite. */
bool repack_tensors(struct tensor_table*, const struct packing*, struct kept*, struct error*);

/* The parts of the above. `made` receives the new tensors. */
bool repack_groups(const struct tensor_table*, const struct packing*, struct tensor_table* made, struct kept*,
                   struct error*);
bool repack_nvfp4(const struct tensor_table*, struct tensor_table* made, struct kept*, struct error*);
bool repack_experts(const struct tensor_table*, const struct packing*, struct tensor_table* made,
                    struct kept*, struct error*);
/* GGUF's Q1_0 (±d, 128 to a scale) and Q2_0 (-d, 0, d, 2·d, 64 to a scale) become Q4_0, in place of the old
 * tensors. */
bool repack_few_bits(struct tensor_table*, struct kept*, struct error*);
/* GGUF's NVFP4 becomes BF16, in place of the old tensors. */
bool repack_nvfp4_blocks(struct tensor_table*, struct kept*, struct error*);
/* bitsandbytes' 4-bit weights become floats, in place of the old tensors. */
bool repack_nf4(struct tensor_table*, struct kept*, struct error*);
/* Qwen3-Next stores rows by key head: (query, key, values, gates) in one map and (betas, decays) in another.
 * They become the maps that Qwen 3.5 has, under the names of its folders or of GGUF. */
bool repack_heads(struct tensor_table*, const struct recurrence*, struct kept*, struct error*);
/* FP8 and compressed-tensors' 8-bit integers become DTYPE_F8_GROUP, DTYPE_Q8_GROUP or F32, in place of the
 * old tensors. */
bool repack_scaled(struct tensor_table*, const struct fp8_blocks*, struct kept*, struct error*);

/* Memory for what becomes of the tensor; NULL with the error set. */
void* repack_memory(struct kept*, const struct named_tensor*, size_t bytes, struct error*);
/* Gives the tensor another type, and data in that. */
void repack_replace(struct named_tensor*, enum dtype, const void* data, size_t bytes);
/* The tensor whose name differs from this one's in its end; NULL: there is none. */
struct named_tensor* repack_beside(const struct tensor_table*, const struct named_tensor*, size_t cut,
                                   const char* suffix);
/* (n) a tensor's numbers, malloc'd; NULL with the error set, also where one is not finite. */
float* repack_scales(const struct named_tensor*, size_t n, struct error*);
/* Stores a block's scale in its bytes. */
void repack_put_scale(uint8_t d[4], float scale);

/* Returns `name` with its last `cut` bytes replaced. */
const char* repack_name(char out[256], const char* name, size_t cut, const char* suffix);
bool repack_ends(const char* name, const char* suffix);
/* Sets the error "FILE: tensor NAME is not …". Returns false. */
bool refuse_tensor(const struct named_tensor*, const char* expected, struct error*);
/* tensor_table_add, with the error set. */
bool repack_add(struct tensor_table*, const char* name, const struct named_tensor*, struct error*);
