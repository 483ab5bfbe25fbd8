/* The only door to the arithmetic: weights, cache, pass, result.
 *
 * A backend owns the whole pass. The rooms above hand it a weight table once, make caches, and then run
 * passes; prefill, plain decoding, a draft step, tree verification and the optimizer's parallel evaluation
 * are the same call with other arguments. Nothing here knows about files, text or the meaning of masks. This
 * header includes no header of another room. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/synth.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors ------------------------------------------------------------------------------- */

/* One sentence for the caller to print: what was wrong, where, and what was expected. */
struct error {
	char message[512];
};

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
/* Writes the sentence (cut to fit). Returns false, so that `return error_set(e, ...)` reads well. */
bool error_set(struct error* error, const char* format, ...);

/* ---- tensors ------------------------------------------------------------------------------ */

/* Element types as stored. The quantized ones are GGUF's blocks, byte for byte, but for the last two: groups
 * of 32 that AWQ, GPTQ and FP8 folders are repacked into, with all their bits. */
enum dtype {
	DTYPE_F32,
	DTYPE_F16,
	DTYPE_BF16,
	DTYPE_Q8_0,
	DTYPE_Q4_0,
	DTYPE_Q4_1,
	DTYPE_Q5_0,
	DTYPE_Q5_1,
	DTYPE_Q2_K,
	DTYPE_Q3_K,
	DTYPE_Q4_K,
	DTYPE_Q5_K,
	DTYPE_Q6_K,
	DTYPE_IQ4_NL,
	DTYPE_IQ4_XS,
	DTYPE_MXFP4, /* from here on multiplied as floats: kernels/dtype_table.h */
	DTYPE_IQ1_S,
	DTYPE_IQ1_M,
	DTYPE_IQ2_XXS,
	DTYPE_IQ2_XS,
	DTYPE_IQ2_S,
	DTYPE_IQ3_XXS,
	DTYPE_IQ3_S,
	DTYPE_TQ1_0,
	DTYPE_TQ2_0,
	DTYPE_Q4_GROUP,
	DTYPE_F8_GROUP,
	DTYPE_Q8_GROUP,
	DTYPE_COUNT
};

const char* dtype_name(enum dtype type);             /* "f16", "q4_k", … lower case */
bool dtype_parse(const char* name, enum dtype* out); /* any case */
int dtype_block(enum dtype type);                    /* elements a block: 1, 32 or 256 */
size_t dtype_block_bytes(enum dtype type);           /* bytes a block */
/* Bytes of one row of `cols` elements; 0 when cols is not a whole number of blocks. */
size_t dtype_row_bytes(enum dtype type, int64_t cols);
/* Widens one row; for embeddings, norms and tests. x (cols) */
void dtype_to_float(enum dtype type, const void* row, float* x, int64_t cols);
/* Stores x as element `at` of a row in F32, F16 or BF16, rounded to nearest. */
void dtype_put(enum dtype type, void* row, int64_t at, float x);

/* A matrix of `rows` contiguous rows of `cols` elements; a vector has rows = 1. `data` points into
 * a mapped file or is owned by the model, never by the backend, and need not be aligned. A tensor
 * with rows = 0 is absent. When data is NULL, `synth` defines how a backend makes the elements.
 *
 * The rows of an interleaved one, which is quantized, lie in groups of INTERLEAVED_ROWS side by side: of each
 * block the first 4 bytes of all INTERLEAVED_ROWS rows, then their second ones, and so on
 * (kernels/interleaved.h). Coarse heads and a backend's own copies of weights are interleaved, never what a
 * model stores. The data of an interleaved tensor is 64-byte aligned, and its rows are a multiple of
 * INTERLEAVED_ROWS. */
enum { INTERLEAVED_ROWS = 16 };

struct tensor {
	enum dtype type;
	bool interleaved;
	int64_t rows, cols;
	const void* data;
	struct synth_tensor synth;
};

static inline bool tensor_present(const struct tensor* t) { return t->rows > 0; }
/* As stored; 0 of an absent one. */
static inline size_t tensor_bytes(const struct tensor* t) {
	return (size_t)t->rows * dtype_row_bytes(t->type, t->cols);
}

/* ---- the model ---------------------------------------------------------------------------- */

enum activation {
	ACTIVATION_SILU,
	ACTIVATION_GELU_TANH,
	ACTIVATION_SWIGLU_CLAMPED, /* min(g, 7)·sigmoid(1.702·g)·(clamp(u, ±7) + 1) (gpt-oss) */
	ACTIVATION_RELU2,          /* max(x, 0)² (So et al. 2021, Primer; Arcee) */
	ACTIVATION_XIELU,          /* struct xielu (Apertus) */
	ACTIVATION_GELU,           /* x·Φ(x), exact (Hendrycks and Gimpel 2016) */
	ACTIVATION_QUICK_GELU,     /* x·sigmoid(1.702·x), the same paper */
	ACTIVATION_RELU
};

/* x > 0: positive·x² + beta·x; else negative·(exp(min(x, epsilon)) - 1 - x) + beta·x (Huang and Schlag 2024,
 * xIELU), of a block. */
struct xielu {
	float positive, negative, beta, epsilon;
};

enum rope_scaling {
	ROPE_NONE,
	ROPE_LINEAR,  /* positions divided by factor */
	ROPE_DYNAMIC, /* NTK-aware base, grows with the length */
	ROPE_LLAMA3,  /* frequency bands, Llama 3.1 */
	ROPE_YARN,    /* YaRN, with its attention factor */
	ROPE_LONGROPE /* Phi-3: per-frequency factors, short or long by the length */
};

struct rope {
	enum rope_scaling scaling;
	bool whole_turns;     /* yarn: the ramp's ends are rounded to whole dimensions, as most do */
	bool interleaved;     /* pairs (2i, 2i+1) as GGUF's llama stores them; else (i, i + dim/2) */
	int dim;              /* rotated leading elements of a head, even, <= head_dim */
	float theta;          /* base */
	float factor;         /* scaling factor, 1 when none */
	int original_context; /* original_max_position_embeddings, 0 when unused */
	float low_frequency_factor, high_frequency_factor; /* llama3 */
	float beta_fast, beta_slow;                        /* yarn */
	float attention_factor; /* multiplies cos and sin (yarn, longrope); 1 when none */
	float beyond_factor;    /* longrope: the same of texts beyond original_context; 0: no other (Phi-MoE) */
	const float* short_factor; /* (dim/2) longrope, or GGUF's rope_freqs for every length; else NULL */
	const float* long_factor;  /* (dim/2) longrope, else NULL */
};

enum { MASK_WORDS = 8, MAX_BLOCKS = MASK_WORDS * 32 };

struct block_set {
	uint64_t word[MAX_BLOCKS / 64];
};

static inline bool block_set_has(const struct block_set* set, int block) {
	return (set->word[block >> 6] >> (block & 63)) & 1u;
}
static inline void block_set_put(struct block_set* set, int block) {
	set->word[block >> 6] |= (uint64_t)1 << (block & 63);
}

enum { MOST_ALTUP = 8 };

enum norm_kind {
	NORM_RMS,  /* x / sqrt(mean(x²) + epsilon) · w */
	NORM_LAYER /* the same of x - mean(x), plus a bias (Ba et al. 2016) */
};

/* A block without keys and values: what it remembers of all tokens before is a state of one size. The gated
 * delta rule (Yang et al. 2024, "Gated Delta Networks", equation 10): queries, keys and values come from a
 * causal convolution by channel with SiLU, queries and keys are made of length 1, and for each value head a
 * state S (key_dim, value_dim), zero before the first token, becomes decay·S + k ⊗ beta·(v - (decay·S)ᵀk);
 * its output is Sᵀq / sqrt(key_dim), under an RMS norm times SiLU of a gate. beta is a sigmoid, decay
 * e^(rate·softplus(a + bias)) with a rate below 0.
 *
 * Or Mamba-2's state space (Dao and Gu 2024, "Transformers are SSMs", section 2.1), which state_space marks:
 * the convolution gives values, keys (B) and queries (C), which keep their lengths; with t = softplus(dt +
 * bias), a head's state becomes e^(rate·t)·S + k ⊗ t·v, and its output is Sᵀq + skip·v. That times SiLU of
 * the gate has an RMS norm over the values of a key head (or, without gate_first, the norm comes before the
 * gate). A key head serves neighbouring value heads.
 *
 * Or a gated short convolution (LFM2), which key_dim 0 marks: wq gives b, c and x, each (value_dim), and the
 * output is c times a causal convolution by channel of b·x. There is one value head, as wide as the model. */
enum space_part { SPACE_GATE, SPACE_VALUES, SPACE_KEYS, SPACE_QUERIES, SPACE_STEPS, SPACE_PARTS };
struct recurrence {
	int key_heads, value_heads; /* value_heads is a multiple of key_heads; 0: no block is recurrent */
	int key_dim, value_dim;     /* of a head */
	int kernel;                 /* tokens that the convolution sees, the row's own included */
	bool tiled;     /* value head h reads key head h mod key_heads (GGUF); else neighbours share one */
	bool log_rates; /* rates are stored as log(-rate) (Hugging Face) */
	bool state_space, gate_first;
	/* A state space's input map gives gate, values, keys, queries and steps times these; all 0: times 1
	 * (Falcon-H1). */
	float input_scale[SPACE_PARTS];
};

static inline float recurrence_scale(const struct recurrence* r, enum space_part part) {
	return r->input_scale[SPACE_GATE] != 0 ? r->input_scale[part] : 1;
}
static inline int recurrence_keys(const struct recurrence* r) { return r->key_heads * r->key_dim; }
static inline int recurrence_values(const struct recurrence* r) { return r->value_heads * r->value_dim; }
/* Channels of the convolution: queries, keys, values; in a state space values, keys, queries. */
static inline int recurrence_channels(const struct recurrence* r) {
	return 2 * recurrence_keys(r) + recurrence_values(r);
}
/* The first channel of each. */
static inline int recurrence_query_at(const struct recurrence* r) {
	return r->state_space ? recurrence_values(r) + recurrence_keys(r) : 0;
}
static inline int recurrence_key_at(const struct recurrence* r) {
	return r->state_space ? recurrence_values(r) : recurrence_keys(r);
}
static inline int recurrence_value_at(const struct recurrence* r) {
	return r->state_space ? 0 : 2 * recurrence_keys(r);
}

struct model_shape {
	int n_blocks, dim, heads, kv_heads, head_dim, ffn, vocab, context;
	enum norm_kind norm;
	float norm_epsilon;
	bool norm_plus_one; /* weights are stored as w - 1 (Gemma in Hugging Face files) */
	enum activation activation;
	bool ungated; /* MLPs are down · f(up · x), with up in w_gate's place and w_up absent (Arcee) */
	struct rope rope;
	struct rope sliding_rope; /* of the sliding blocks, if its dim is not 0 (Gemma 3, OLMo 3) */
	float embedding_scale;    /* multiplies the token embedding; 1 for most, sqrt(dim) for Gemma */
	float residual_scale;     /* multiplies a sub-layer's output; 1 for most (Granite) */
	/* The same by kind of sub-layer, beside residual_scale, and a factor of an MLP's gate before its
	 * activation; 0: 1 (Falcon-H1). */
	float attention_out_scale, recurrent_out_scale, mlp_out_scale, gate_scale;
	float logit_scale;     /* multiplies the logits; 1 for most (Granite) */
	float attention_scale; /* multiplies q·k; 1/sqrt(head_dim) for most */
	/* Ministral 3: q·k grows by 1 + growth · ln(1 + ⌊position / growth_context⌋); 0 = none */
	float attention_growth;
	int growth_context;
	bool growth_unrotated; /* in blocks without positions alone, and by position + 1 (Llama 4) */
	float attention_softcap, logit_softcap; /* c·tanh(x/c), 0 = none (Gemma 2) */
	int sliding_window;       /* positions that a row of a sliding block sees, itself included; 0 = all */
	struct block_set sliding; /* blocks that use the window */
	/* Their rows see the positions from the last multiple of sliding_window on instead (Llama 4). */
	bool window_in_chunks;
	struct block_set unrotated; /* blocks without positions: queries and keys are not rotated (NoPE) */
	/* Mixture of experts; 0 for models with one MLP a block. */
	int n_experts, experts_used, expert_ffn;
	bool experts_normalised; /* scales the chosen experts' weights to a sum of 1 */
	/* GLM 4.5: an expert's probability is the sigmoid of its score, not a softmax over all. Weights are then
	 * multiplied by experts_scale (0: by 1). Experts are in expert_groups groups of neighbours, and come from
	 * the expert_groups_used whose two best experts together are best (0: from all). */
	bool experts_sigmoid;
	float experts_scale;
	/* Llama 4: experts are chosen by score, and the probability multiplies an expert's input, not its output.
	 */
	bool experts_weigh_input;
	float experts_epsilon; /* added to the sum that weights are divided by (LFM2) */
	int expert_groups, expert_groups_used;
	/* SparseMixer (Liu et al. 2024, "GRIN: GRadient-INformed MoE", section 3): experts are chosen one after
	 * another. The best one left has as weight its share of a softmax over those left whose score s lies
	 * within (best - s) / max(|s|, best) <= experts_near (Phi-MoE). */
	bool experts_in_turn;
	float experts_near;
	int shared_ffn;       /* width of an expert that every row uses; 0: none */
	float router_scale;   /* multiplies the router's scores; 0: by 1 (Gemma 4) */
	bool norm_after_rope; /* norms of queries and keys come after the rotation (Hunyuan) */
	/* q_norm and k_norm hold weights for each head, and each head is normed alone (StableLM, Command R+). */
	bool norms_by_head;
	bool value_norm; /* a head's values have a norm without a weight (Gemma 4) */
	/* Heads of the blocks with full attention, if their size and number differ; 0: they do not (Gemma
	 * 4). */
	int full_head_dim, full_kv_heads;
	/* Blocks from this one on have no keys and values of their own. They read those of the last earlier block
	 * of their kind, sliding or not. 0: every block has its own (Gemma 4). */
	int sharing_from;
	/* A drafter for another model: no block has keys and values of its own. Each reads those of the last
	 * block of its kind that keeps some in a cache of that model (segment.reads). Its rows begin with a token
	 * and a state of that model, which have state_dim elements each; 0: as many as the stream (Gemma 4's
	 * assistants). */
	bool keys_outside;
	int state_dim;
	int centroids_used; /* of weight_table.centroids by each row of the head */
	/* Elements that each block reads of the token itself, beside the stream; 0: none (Gemma 4). */
	int token_input;
	/* Alternating updates (Baykal et al. 2023, "Alternating Updates for Efficient Transformers", section 3):
	 * a row has so many states, of which a block computes the first. Before the block each becomes itself and
	 * a mix of all; after it each gets its share of what the block added. A block's attention has a second,
	 * low-rank path from its input to its output (Menghani et al. 2024, "LAuReL"). 0: one state, and no such
	 * path (Gemma 3n). */
	int altup;
	/* Multi-head latent attention (Liu et al. 2024, DeepSeek-V2, section 2.1). A position keeps `latent`
	 * elements and rope.dim rotated ones, which are the keys of all heads; the former are also the values. So
	 * head_dim is latent + rope.dim, and kv_heads is 1. A head's query has nope_dim elements beside the
	 * rotated ones; its output has value_dim. Queries are made through query_latent elements, or directly
	 * from the stream (0). latent 0: ordinary attention. */
	int latent, query_latent, nope_dim, value_dim;
	float latent_epsilon; /* of the norms of both */
	/* A block's MLP reads the same input as its attention, and both are added to the stream (Cohere). No span
	 * of sub-layers begins or ends between them. */
	bool parallel;
	bool groups_by_best; /* a group's value is its best expert, not its two best together (DeepSeek-V2) */
	struct recurrence recurrence;
	struct block_set recurrent; /* blocks with this recurrence; at least one block has attention */
	/* Blocks whose attention reads what the recurrence of the block before read, under that one's norm: both
	 * stand side by side (Falcon-H1). */
	struct block_set beside_recurrence;
	struct block_set without_mlp; /* blocks whose second sub-layer is empty (Nemotron-H) */
	/* Qwen3-Next: wq is twice as wide: for each head a query and then a gate, whose sigmoid multiplies the
	 * head's output. */
	bool attention_gated;
};

/* The shape of block b's heads. */
static inline int block_head_dim(const struct model_shape* s, int b) {
	return s->full_head_dim && !block_set_has(&s->sliding, b) ? s->full_head_dim : s->head_dim;
}
static inline int block_kv_heads(const struct model_shape* s, int b) {
	return s->full_kv_heads && !block_set_has(&s->sliding, b) ? s->full_kv_heads : s->kv_heads;
}
/* The last block of a kind, sliding or not, that keeps keys and values; -1: none. */
static inline int last_keys(const struct model_shape* s, bool sliding) {
	for (int k = (s->sharing_from ? s->sharing_from : s->n_blocks) - 1; k >= 0; k--)
		if (block_set_has(&s->sliding, k) == sliding)
			return k;
	return -1;
}
/* The block whose keys and values block b reads: its own, or an earlier one's; -1: none of this model's. */
static inline int block_keys_of(const struct model_shape* s, int b) {
	if (s->keys_outside)
		return -1;
	return !s->sharing_from || b < s->sharing_from ? b : last_keys(s, block_set_has(&s->sliding, b));
}
/* Elements of a state that a row begins with, and of its token's embedding. */
static inline int state_width(const struct model_shape* s) { return s->state_dim ? s->state_dim : s->dim; }
/* True when the model has attention beside a recurrence. */
static inline bool attention_beside(const struct model_shape* s) {
	uint64_t any = 0;
	for (size_t i = 0; i < sizeof s->beside_recurrence.word / sizeof *s->beside_recurrence.word; i++)
		any |= s->beside_recurrence.word[i];
	return any != 0;
}
/* True when blocks read more than the stream. Then no pass can continue from given states. */
static inline bool shape_needs_tokens(const struct model_shape* s) {
	return s->token_input > 0 || s->sharing_from > 0 || s->altup > 0 || attention_beside(s);
}
/* True when later blocks read block b's keys and values. */
static inline bool block_is_shared(const struct model_shape* s, int b) {
	for (int k = s->sharing_from; s->sharing_from && k < s->n_blocks; k++)
		if (b < s->sharing_from && block_keys_of(s, k) == b)
			return true;
	return false;
}
/* Blocks that keep keys and values. */
static inline int attention_blocks(const struct model_shape* s) {
	int n = 0;
	for (int b = 0; b < s->n_blocks; b++)
		n += !block_set_has(&s->recurrent, b);
	return n;
}
/* Bytes of floats that a sequence's recurrent blocks keep, whatever its length. */
static inline size_t recurrent_bytes(const struct model_shape* s) {
	const struct recurrence* r = &s->recurrence;
	const size_t blocks = (size_t)(s->n_blocks - attention_blocks(s));
	const size_t state = (size_t)recurrence_values(r) * (size_t)r->key_dim;
	const size_t columns = (size_t)(r->kernel > 0 ? r->kernel - 1 : 0) * (size_t)recurrence_channels(r);
	return blocks * (state + columns) * sizeof(float);
}

struct expert {
	struct tensor w_gate, w_up; /* (expert_ffn, dim); w_up absent with an activation that has no gate */
	struct tensor w_down;       /* (dim, expert_ffn) */
};

struct block_weights {
	struct tensor attention_norm; /* (1, dim) absent if attention reads the stream as it is (OLMo 2) */
	/* (heads·head_dim, dim), (kv_heads·head_dim, dim) twice. wv absent: values are the keys before norm and
	 * rotation; wk absent too: the keys are another block's (Gemma 4). */
	struct tensor wq, wk, wv;
	struct tensor bq, bk, bv;          /* (1, …) absent for most */
	struct tensor q_norm, k_norm;      /* (1, head_dim), or over all heads at once (1, heads·head_dim)… */
	struct tensor wo;                  /* (dim, heads·head_dim) */
	struct tensor bo;                  /* (1, dim) absent for most */
	struct tensor post_attention_norm; /* (1, dim) Gemma 2: on the sub-layer's output */
	struct tensor mlp_norm;            /* (1, dim) absent as attention_norm */
	struct tensor attention_norm_bias, mlp_norm_bias; /* (1, dim) with NORM_LAYER */
	struct tensor w_gate, w_up;         /* (ffn, dim); beside experts the shared one's (shared_ffn, dim) */
	struct tensor w_down;               /* (dim, ffn), (dim, shared_ffn) */
	struct tensor b_gate, b_up, b_down; /* (1, …) absent for most (mlp_bias) */
	struct tensor post_mlp_norm;        /* (1, dim) Gemma 2 */
	struct tensor router;               /* (n_experts, dim) absent for most */
	const struct expert* expert;        /* (n_experts) where there is a router */
	struct tensor sinks;       /* (1, heads) gpt-oss: one more score in each head's softmax, without a key */
	struct tensor router_bias; /* (1, n_experts) gpt-oss */
	struct tensor expert_gate_bias, expert_up_bias; /* (1, n_experts·expert_ffn) gpt-oss */
	struct tensor expert_down_bias;                 /* (1, n_experts·dim) gpt-oss */
	struct tensor
	    choice_bias; /* (1, n_experts) GLM 4.5: added to probabilities for the choice of experts only */
	struct tensor shared_gate; /* (1, dim) Qwen2-MoE: the weight of the shared expert is the sigmoid of
	                              shared_gate · x */
	/* Gemma 4's experts stand beside an MLP and have norms of their own: for the router's input, their input,
	 * the MLP's output and their output; all (1, dim), absent in other families. */
	struct tensor router_norm, expert_norm, post_dense_norm, post_expert_norm;
	struct tensor expert_scale; /* (1, n_experts) multiplies the weights of the experts that were chosen
	                               (Gemma 4's router) */
	/* Latent attention: wq (heads·(nope_dim + rope.dim), query_latent or dim), wk (latent + rope.dim, dim)
	 * with k_norm (1, latent), wv (heads·value_dim, latent), wo (dim, heads·value_dim), and: */
	struct tensor wq_a, bq_a, q_a_norm; /* (query_latent, dim), (1, query_latent) twice */
	struct tensor absorb; /* (heads·latent, nope_dim): maps the query of a head onto the latent elements that
	                         a cache keeps */
	/* The token's input to a block (Gemma 4's per-layer embeddings), added after its MLP: x += norm(input_out
	 * · (activation(input_gate · x) · token's part)). */
	struct tensor input_gate, input_out; /* (token_input, dim), (dim, token_input) */
	struct tensor input_norm;            /* (1, dim) */
	struct tensor stream_scale;          /* (1, 1) multiplies the stream after the block (Gemma 4) */
	/* With AltUp: r = tanh(altup_router · (norm(state) / dim)); each state k becomes itself + Σ_m mix[k,
	 * m] · state m, with mix = altup_predict · r, and after the block it gets 1 + (altup_correct · r)_k times
	 * what was added. Gemma 3n's token input reads the first state times altup_scale and is added to the
	 * others. */
	struct tensor altup_router, altup_router_norm; /* (altup, dim), (1, dim) */
	struct tensor altup_predict, altup_correct;    /* (1, altup³), (1, altup²) */
	struct tensor altup_scale;                     /* (1, dim) or absent */
	/* And attention's second path: x + norm(laurel_up · laurel_down · x). Both outputs are divided by
	 * sqrt(2). */
	struct tensor laurel_down, laurel_up, laurel_norm; /* (rank, dim), (dim, rank), (1, dim) */
	/* Of the gate's elements only what exceeds their mean by so many standard deviations is kept (Gemma 3n).
	 */
	bool sparse;
	float sparsity;
	struct xielu xielu; /* where the activation is that */
	/* In a recurrent block wq makes the convolution's channels (channels, dim), wk the gates (value_heads ·
	 * value_dim, dim), wo the output; wv and attention's other tensors are absent. A short convolution has wq
	 * (3 · value_dim, dim), wo and the convolution's weights. A state space has no w_beta; w_decay gives dt.
	 */
	struct tensor w_beta, w_decay; /* (value_heads, dim) */
	struct tensor convolution; /* (1, channels·kernel), a channel's weights side by side, the row's last */
	struct tensor decay_bias, decay_rate; /* (1, value_heads) */
	struct tensor state_norm;             /* (1, value_dim); of a state space (1, values) or absent */
	struct tensor convolution_bias;       /* (1, channels) absent but in a state space, where it may be */
	struct tensor state_skip;             /* (1, value_heads) of a state space */
};

/* Every tensor of a block but its experts, with a name for messages: block_tensor(b, part) for part in
 * [0, BLOCK_PARTS). */
enum { BLOCK_PARTS = 59 };
struct tensor* block_tensor(const struct block_weights* block, int part);
const char* block_tensor_name(int part);

/* Everything that a backend needs. The model owns it, and it must outlive the backend. A fused projection in
 * a file (Phi-3) is given as views of rows. wk is permuted or not as `rope.interleaved` states. */
struct weight_table {
	struct model_shape shape;
	struct tensor embedding;        /* (vocab, dim), or (vocab, state_dim) */
	struct tensor output_norm;      /* (1, dim) */
	struct tensor output_norm_bias; /* (1, dim) with NORM_LAYER */
	struct tensor output;           /* (vocab, dim); the embedding again when tied */
	struct tensor output_bias;      /* (1, vocab) absent for most (Phi-MoE) */
	/* With token_input: a token's part for all blocks is (norm(input_projection · embedding / sqrt(dim)) +
	 * sqrt(token_input) · input_embedding[token]) / sqrt(2), the norm over each block's part. */
	struct tensor input_embedding;  /* (at most vocab, n_blocks·token_input); further tokens read row 0 */
	struct tensor input_projection; /* (n_blocks·token_input, dim) */
	struct tensor input_projection_norm; /* (1, token_input) */
	/* With AltUp: maps of the embedding to each state but the first, and back of the last states to one,
	 * which is the mean; (dim, dim) */
	struct tensor altup_in[MOST_ALTUP], altup_out[MOST_ALTUP];
	/* A layer that predicts the token after the next one (multi-token prediction, DeepSeek-AI 2024,
	 * DeepSeek-V3, section 2.2): a row begins as join · [norm(embedding); norm(state)], with a token and a
	 * state that the caller gives. Absent in all other tables. */
	struct tensor join;                             /* (dim, 2·state_width) */
	struct tensor join_token_norm, join_state_norm; /* (1, dim), or absent: the two as they are */
	struct tensor leave; /* (state_dim, dim) makes a row's state of what the head reads; absent: that is it */
	/* A head by groups: the rows of `output` are those of tokens token_order[0], token_order[1], …, as many
	 * to each centroid. A row reads those of the centroids_used centroids with the largest products alone;
	 * all other tokens get the least of its logits less 1. Absent in most tables. */
	struct tensor centroids;           /* (a divisor of vocab, dim) */
	const int32_t* token_order;        /* (vocab) each token once */
	const struct block_weights* block; /* (n_blocks) */
};

/* ---- levels ------------------------------------------------------------------------------- */

/* The linear maps of a block, by the input whose channels may be left out (kernels/columns.h). */
enum column_kind { COLUMN_ATTENTION, COLUMN_ATTENTION_OUT, COLUMN_MLP, COLUMN_DOWN, COLUMN_KINDS };

/* The channels that a draft leaves out: for each kind of map the per cent of input channels that matter
 * least to the present row, in the first, middle and last third of the blocks. All zeros: the maps are
 * whole. */
enum { LEVEL_DEPTHS = 3, LEVEL_MOST = 99 };
struct levels {
	uint8_t left_out[LEVEL_DEPTHS][COLUMN_KINDS]; /* per cent, at most LEVEL_MOST */
};

static inline int level_depth(int block, int n_blocks) { return block * LEVEL_DEPTHS / n_blocks; }
/* The share of channels that a map of a block keeps, in (0, 1]. */
static inline float level_kept(const struct levels* levels, int block, int n_blocks, enum column_kind kind) {
	return 1 - (float)levels->left_out[level_depth(block, n_blocks)][kind] / 100;
}
static inline bool levels_equal(const struct levels* a, const struct levels* b) {
	for (int i = 0; i < LEVEL_DEPTHS * COLUMN_KINDS; i++)
		if (a->left_out[i / COLUMN_KINDS][i % COLUMN_KINDS] !=
		    b->left_out[i / COLUMN_KINDS][i % COLUMN_KINDS])
			return false;
	return true;
}

/* ---- masks -------------------------------------------------------------------------------- */

/* The sub-layers that a draft skips: bit 2b of `word` is block b's attention, bit 2b+1 its MLP. The others
 * run with the quantized draft weights if there are any, so a mask works with and without them. */
struct mask {
	uint64_t word[MASK_WORDS];
	/* The channels that its sub-layers leave out when they run with draft weights by input channel; without
	 * has_levels the engine's levels. */
	struct levels levels;
	bool has_levels;
};

static inline bool mask_has(const struct mask* m, int sub_layer) {
	return (m->word[sub_layer >> 6] >> (sub_layer & 63)) & 1u;
}
static inline void mask_set(struct mask* m, int sub_layer, bool skip) {
	const uint64_t bit = (uint64_t)1 << (sub_layer & 63);
	if (skip)
		m->word[sub_layer >> 6] |= bit;
	else
		m->word[sub_layer >> 6] &= ~bit;
}
/* Sub-layers skipped. */
static inline int mask_count(const struct mask* m) {
	int n = 0;
	for (int i = 0; i < MASK_WORDS; i++)
		n += __builtin_popcountll(m->word[i]);
	return n;
}
static inline bool mask_equal(const struct mask* a, const struct mask* b) {
	return memcmp(a->word, b->word, sizeof a->word) == 0 && a->has_levels == b->has_levels &&
	       (!a->has_levels || levels_equal(&a->levels, &b->levels));
}

/* ---- the cache ---------------------------------------------------------------------------- */

static inline int least(int a, int b) { return a < b ? a : b; }
/* NaN unless b is over 0. */
static inline double quotient(double a, double b) { return b > 0 ? a / b : (double)NAN; }

enum { MAX_ROWS = 256, SLICE_ROWS = 64, PREFILL_CHUNK = 256, MAX_TOP = 20 };

/* One sequence's KV cache. Committed tokens come first; rows appended since are pending and
 * form a tree. Read the counters freely; change them only through the backend. */
struct cache {
	struct backend* backend;
	int capacity; /* committed tokens it can hold; MAX_ROWS pending rows fit beside them */
	int committed;
	int pending;
	int prompt_length; /* set by the caller before prefill; length-dependent RoPE uses
	                      max(prompt_length, position + 1) */
	/* Set by the caller while nothing is committed: prefixes are shared among caches of one tenant alone.
	 */
	int tenant;
	enum dtype type; /* F16, F32, or where the backend has it Q8_0 */
	size_t bytes;    /* of `capacity` tokens, if none are shared */
};

/* ---- page lists ---------------------------------------------------------------------------- */

/* The part of a long text that a draft's attention reads, in pages of LIST_POSITIONS positions: of each block
 * that sees the whole text the pages of a list, and all that lies behind them. The heads of a block share its
 * pages. Made by backend.list_pages of what the rows of noted segments looked at. */
enum { LIST_POSITIONS = 64, MAX_LISTED = 64 };
struct page_list {
	int from;            /* all positions from here on are read as well; a multiple of LIST_POSITIONS */
	int n;               /* pages of each block, at most MAX_LISTED + 1 */
	const int32_t* page; /* (n_blocks, n) by block ascending; page p is [p, p + 1)·LIST_POSITIONS < from */
};

/* ---- the pass ----------------------------------------------------------------------------- */

enum pass_kind { PASS_PREFILL, PASS_EXACT };

/* The results wanted for a row; bits of pass.want. */
enum {
	WANT_NOTHING = 0,
	WANT_TOKEN = 1,       /* token: argmax, or the coupled sample when the segment has a sampler */
	WANT_TOP = 2,         /* top_token[], top_probability[] */
	WANT_LOG_SUM_EXP = 4, /* log_sum_exp */
	WANT_LOGITS = 8,      /* logits, into the caller's buffer */
	/* With WANT_TOP: it is for drafters. All but the first token may be guessed, and the probabilities, from
	 * a coarse copy of the head where there is one. */
	WANT_ROUGH = 16,
	WANT_GUESS = 32 /* in a draft's row everything may be guessed, its token too */
};

/* Coupled sampling, design section 4, promise 2: the token at position i is
 * argmax_v log p_i(v) + G(seed, sequence, i, v); see kernels/sample.h. */
struct sampler {
	float temperature; /* > 0; a greedy segment has no sampler */
	int top_k;         /* 0 = off */
	float top_p;       /* 1 = off */
	float min_p;       /* 0 = off */
	uint64_t seed, sequence;
};

/* A request's changes to a row's logits before its token is chosen, greedily or not: for a token that the
 * text holds, x becomes x / repetition where it is positive, else x · repetition (Keskar et al. 2019, CTRL,
 * equation 2); for one generated n times, n · frequency and presence are subtracted (OpenAI's); then the
 * biases are added. A row's text is the committed tokens before it, its ancestors and itself, so that every
 * row of a tree sees the text that plain decoding would have. Probabilities in results stay the raw ones. */
struct penalties {
	float repetition;          /* 1 = off */
	float frequency, presence; /* 0 = off */
	int prompt;                /* tokens of the prompt: positions from there on are generated */
	const uint8_t* in_prompt;  /* (vocab) not 0: the prompt holds it */
	const int32_t* generated;  /* (vocab) times among the generated tokens before the segment's base */
	const int32_t* bias_token; /* (n_bias) each at most once */
	const float* bias;         /* (n_bias) */
	int n_bias;
	/* > 0: a token that would end a run of so many tokens which the row's text holds already is not chosen
	 * (transformers' no_repeat_ngram_size), unless none would be left. text (n_text): that before the path.
	 */
	int no_repeat;
	const int32_t* text;
	int n_text;
};

struct result {
	int32_t token;
	float log_sum_exp; /* of the raw logits */
	int top;           /* in: entries wanted, 1..MAX_TOP; out: entries given (<= vocab) */
	/* Best first: by logit, or by processed log p + noise when there is a sampler (entries the filter
	 * excludes are left out). The probability is always the unprocessed softmax's. Ties: lowest id. */
	int32_t top_token[MAX_TOP];
	float top_probability[MAX_TOP];
	float max_probability; /* with WANT_TOP: the largest unprocessed probability of the row */
	float* logits;         /* (vocab) the caller's, used with WANT_LOGITS */
};

/* For a token among a row's best ones; 0 for others. */
static inline double result_probability(const struct result* row, int32_t token) {
	for (int i = 0; i < row->top; i++)
		if (row->top_token[i] == token)
			return (double)row->top_probability[i];
	return 0;
}

/* One sequence's rows in a pass, or some of them: several segments of an exact pass may be of one cache, each
 * with a base of its own, whose rows do not see one another. */
struct segment {
	struct cache* cache;
	/* Committed tokens these rows see; a row's position is base + its depth. Recurrent blocks have the state
	 * behind all committed tokens alone: where base is less, rows go on from that, which is good for
	 * estimates and never for text. */
	int base;
	int n; /* rows */
	/* Added to a row's position where the sampler draws noise: the cache holds a text that begins so many
	 * tokens later than the request's. */
	int later;
	const struct sampler* sampler;     /* NULL: greedy */
	const struct penalties* penalties; /* NULL: none */
	/* (n) by row: bits (vocab, in whole words) of the tokens that may follow it, at least one; the others are
	 * chosen under no circumstances, but in rows of WANT_GUESS. NULL, of all or of one: no bound. */
	const uint64_t* const* allowed;
	/* The pages that attention reads for a draft's rows, in a backend with list_pages; NULL: all. One cache's
	 * segments of a pass have one list. Its pages lie under `base`. */
	const struct page_list* pages;
	/* How much the last rows looked at each page is kept, for list_pages: rows of the full model alone. */
	bool noted;
	/* Of a table with keys_outside, else NULL: the cache, of a backend of this kind, whose committed tokens
	 * its rows see, at least one, all as the position behind these. `cache` has their tree alone. */
	const struct cache* reads;
};

struct pass {
	enum pass_kind kind; /* prefill (library GEMM allowed) or exact (never) */
	int n;               /* rows, all segments together; at most MAX_ROWS */
	int n_segments;
	const struct segment* segment; /* (n_segments) in row order */
	const int32_t* token;          /* (n) ignored where first > 0 */
	/* (n) index among the segment's pending rows (this pass's rows follow those already there), or -1:
	 * the row follows token base - 1. A parent comes before its children. NULL: a chain, the first
	 * row's parent -1. Prefill rows form a chain and are committed by the pass itself. */
	const int32_t* parent;
	const int32_t* row; /* (n) where first > 0: the segment's pending rows that go on */
	/* (n, state_width) where first > 0, in place of row: hidden states to go on from. The rows are new
	 * pending ones, with keys and values from `first` on alone: the caller discards them. Not where
	 * shape_needs_tokens. Where the table has `join`, all rows have such a state beside their token, and
	 * first is 0. Caches never share rows that began with a state. */
	const float* state;
	const struct mask* skip; /* sub-layers left out; NULL runs the full model */
	/* Sub-layers that run with their quantized draft weights unless they are skipped, and whether the head
	 * does; NULL and false: as stored. Only after use_draft_weights, only those that have draft weights, and
	 * never in a prefill. */
	const struct mask* quantized;
	bool quantized_head;
	/* The channels left out in those sub-layers, if draft weights are stored by input channel; NULL: none. */
	const struct levels* levels;
	/* The channels left out in sub-layers that run as stored: those that matter least. That shows what
	 * drafts at these levels would say before draft weights are made, and saves nothing. Only in a backend
	 * that `thins`, after use_draft_weights with weights by input channel; NULL: none. */
	const struct levels* stored_levels;
	int first, last; /* span of sub-layers to run, [first, last); 0, 2L for all */
	bool head;       /* final norm and output head after `last` */
	bool bare_head;  /* the head without the final norm: the states are what it reads */
	int tap;         /* sub-layer whose output is copied to tap_out, or -1 */
	float* tap_out;  /* (n, dim) when tap >= 0 */
	/* (n, state_width) the rows' states after `last` under the final norm, as the head reads them, or what
	 * `leave` makes of these. NULL: not wanted. */
	float* normed_out;
	const uint8_t* want; /* (n) WANT_ bits per row */
	struct result* out;  /* (n) caller-owned */
	/* (2L, dim) the first row's states after each sub-layer that is run, in exact passes without a tap; a
	 * pass that others join may leave them as they are. NULL: not wanted. */
	float* states;
};

/* An exact pass of one segment's rows through all sub-layers below `last`, the full model's, without the head
 * (`head`) and with nothing tapped. The arrays stay the caller's. parent NULL: a chain. */
struct pass pass_over(const struct segment*, const int32_t* token, const int32_t* parent, int last,
                      const uint8_t* want, struct result* out);

/* Whether a pass's rows are new pending ones, rather than some that go on. */
static inline bool pass_appends(const struct pass* pass) { return pass->first == 0 || pass->state; }

/* The hidden state a pending row stops at is kept: at `last`, or after `tap` when a tap is set. A
 * pass with first > 0 goes on from there; rewind(s) needs it to be at s. */

/* ---- drafting on the device --------------------------------------------------------------- */

enum { DRAFT_BINS = 16, MAX_DRAFT = 64 };

/* When to stop drafting, as tables, so that a device can decide without asking the host. A step's
 * top-1 probability p falls in bin min(DRAFT_BINS - 1, (int)(p·DRAFT_BINS)); the path's chance is the
 * product of accept[bin] so far. The step is kept, and is the last, when p < threshold, or when the
 * path's chance after depth d (1-based) is under min_reach[d], or at max_steps. */
struct draft_policy {
	int max_steps;
	float threshold;
	float accept[DRAFT_BINS];
	float min_reach[MAX_DRAFT + 1];
	int top; /* alternatives wanted a step, chain token counted */
};

/* ---- the backend -------------------------------------------------------------------------- */

struct draft_weights; /* quantized draft weights: kernels/draft_weights.h */
struct process_group; /* between the processes that share a model: kernels/process_group.h */
struct leading;       /* kernels/ranks.c */

struct backend_options {
	int threads;     /* CPU; 0: one for each CPU that the process may use */
	const char* isa; /* CPU: "auto", or a name that cpu/dispatch.c has */
	int device;      /* GPU ordinal, the first of several */
	/* GPUs that share the model, each with a share of every matrix's rows and of the heads; the same bits for
	 * any number from 1 on. 0: one, whose prefill may use a library's products, with bits of their own. */
	int devices;
	int context;        /* longest context a cache will have: workspaces are sized once */
	size_t cache_bytes; /* the most that all caches of a type may take, where they share memory; 0: what each
	                       may come to need */
	/* Rows of which no more than the largest logit is asked read the head as a coarse copy, and exactly what
	 * may be that one, where the backend has such a copy: the same tokens, the same bits. */
	bool screened_head;
	bool interleaves; /* CPU: copies the blocks' quantized weights into the order of products where it has one
	                   */
	struct process_group* group; /* CPU: this process has a share of every matrix's rows; NULL: all of them */
};

struct backend {
	char name[64]; /* "cpu (avx512)", "cuda (NVIDIA H200)" */
	const struct weight_table* weights;
	struct leading* leading; /* of other processes (kernels/ranks.h); NULL: none */
	/* Whether a prefill chunk leaves the same bits as the same rows run exactly. */
	bool prefill_is_exact;
	/* Bytes of the exact screened head's coarse copy, which passes read in the head's place; 0: none. */
	size_t screened_bytes;
	bool bounds_guesses;    /* rows of WANT_GUESS read no more of it than what they are allowed */
	double attention_share; /* of the last pass's seconds, spent on the cache's keys and values; 0: unknown */
	void (*close)(struct backend*);
	/* capacity in tokens. NULL with the error set when memory does not suffice. */
	struct cache* (*cache_open)(struct backend*, int capacity, enum dtype type, struct error*);
	void (*cache_close)(struct cache*);
	/* Runs the pass. False with the error set on non-finite logits or a device failure; the caches'
	 * pending rows are then discarded. Arguments out of range are a bug of the caller's (asserted).
	 * One caller at a time. Allocates nothing, takes no lock. */
	bool (*run)(struct backend*, const struct pass*, struct error*);
	/* Keeps one root-to-leaf path of pending rows, in order from the root, and drops the rest. */
	void (*commit)(struct cache*, const int32_t* path, int n);
	void (*discard)(struct cache*);
	/* Keeps every pending row's keys, values and hidden state below sub-layer s. False when a pending
	 * row's hidden state is not held at s (it ran beyond without a tap at s - 1, or below s something
	 * was skipped or ran low). */
	bool (*rewind)(struct cache*, int sub_layer);
	/* Forgets committed tokens from `committed` on, and all pending rows. A model with recurrent blocks has
	 * the states of few positions: the last, some ends of pages of the prompt (on a GPU the end of its last
	 * whole chunk), and 0. It forgets down to the nearest of those. */
	void (*truncate)(struct cache*, int committed);
	/* Optional, all three or none (NULL: each cache has memory of its own, whatever the others hold). */
	/* Makes the cache hold a prefix of these tokens and nothing else, as far as it does already, or
	 * another KV cache of its backend in whole pages; pages are shared, not copied. Returns how many
	 * tokens it holds then. It finds only others' rows that the full model ran, and none if the
	 * rotation depends on the prompt's length. If prefill_is_exact is false, only rows of prefill chunks of
	 * PREFILL_CHUNK rows are kept and found, in such chunks counted from 0. Nothing may be pending. */
	int (*adopt)(struct cache*, const int32_t* token, int n);
	/* Optional (NULL: nowhere): the next position behind the committed tokens at which a pass over the prompt
	 * should end, since the state of the recurrent blocks is kept there; INT32_MAX: none. adopt finds other
	 * caches' rows down to such a position. */
	int (*next_kept)(const struct cache*);
	/* Makes sure that so many more pending rows have memory. False when all is in use: a pass with them would
	 * fail; memory comes back as other caches are truncated. */
	bool (*reserve)(struct cache*, int rows);
	/* Tokens that caches of this type can still take. */
	int (*room)(const struct cache*);
	/* Optional (NULL: attention reads all that a row sees). Lists the first page of the committed text and
	 * the `budget` pages (1..MAX_LISTED) that noted rows looked at most, by block; the last whole
	 * LIST_POSITIONS positions and what follows them are not listed, but read. page (n_blocks, budget + 1) is
	 * the caller's and becomes the list's. False where that would be all of the text, or no row was noted. */
	bool (*list_pages)(struct cache*, int budget, int32_t* page, struct page_list*);
	/* Optional, all three or none (NULL: they do not lie in one piece in the host's memory): pages of
	 * committed tokens as bytes, to be kept elsewhere. page_save copies the page of that number to page_bytes
	 * bytes; false where others may not find it. page_restore goes on a cache that holds whole pages and
	 * nothing pending with one more, its tokens and what page_save gave for them after the same ones; from
	 * NULL: the page is to be found in memory. False: it is not, or there is no room, and all is as before.
	 */
	size_t (*page_bytes)(const struct cache*);
	bool (*page_save)(const struct cache*, int page, void* to);
	bool (*page_restore)(struct cache*, const int32_t* token, const void* from);
	/* Optional, all three or none (NULL: pages alone hold all that a prefix needs): the state of recurrent
	 * blocks behind a page's last token, of state_bytes bytes. state_save copies it unless `to` is NULL;
	 * false where none is kept, or no text has gone on from it yet. Pages that are restored have no state:
	 * after the last one state_restore gives the committed tokens theirs, or truncate forgets them. */
	size_t (*state_bytes)(const struct cache*);
	bool (*state_save)(const struct cache*, int page, void* to);
	void (*state_restore)(struct cache*, const void* from);
	/* Optional (NULL on the CPU): the whole draft loop, with skip, quantized, quantized_head and levels as in
	 * a pass, and the segment's page list. Draft weights by input channel run all sub-layers that have them.
	 * The first row holds `token` after the committed tokens; out[d] is the result of step d. Returns the
	 * steps taken (>= 1), or 0 with the error set. Pending rows are left for the caller to discard. */
	int (*draft)(struct backend*, const struct segment*, int32_t token, const struct mask* skip,
	             const struct mask* quantized, bool quantized_head, const struct levels*,
	             const struct draft_policy*, struct result* out, struct error*);
	/* Optional (NULL: it cannot): passes may run with these draft weights (kernels/draft_weights.h) once they
	 * are placed and filled; they must outlive the backend. False with the error set: all is as before. */
	bool (*use_draft_weights)(struct backend*, const struct draft_weights*, struct error*);
	bool columns; /* the draft weights of blocks that it runs are by input channel (kernels/columns.h) */
	bool thins;   /* passes take stored_levels */
	/* Their memory went to caches: passes that ask for draft weights run the stored weights. */
	bool draft_weights_released;
	/* Optional (NULL: there is nothing to upload): takes so many bytes of the draft weights, once they are
	 * filled, to where passes run; *all: whether all are there. The first pass with them takes the rest.
	 */
	bool (*upload_draft_weights)(struct backend*, size_t bytes, bool* all, struct error*);
	/* Bytes per second: a read of a large buffer on a CPU, a copy on a GPU. */
	double (*bandwidth)(struct backend*);
	int (*threads)(const struct backend*); /* 1 on a GPU */
	/* Optional, both or none: from rest(true) to rest(false) passes run on threads other than usual, which
	 * the first such call makes and which have its thread's priority. False where they cannot be made. */
	bool (*rest)(struct backend*, bool resting);
	/* From any thread: the pass that runs meanwhile fails soon, within a sub-layer, as do others until the
	 * next call of rest. */
	void (*abandon)(struct backend*);
};

/* NULL with the error set. */
struct backend* cpu_open(const struct weight_table*, const struct backend_options*, struct error*);
struct backend* cuda_open(const struct weight_table*, const struct backend_options*, struct error*);
/* True when cuda_open can be tried; else the error gives the reason in a sentence (not compiled in, no
 * device, …). */
bool cuda_available(struct error*);

#ifdef __cplusplus
}
#endif
