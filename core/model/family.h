/* A family is data: the defaults of its configuration class, the fields it reads, the names of its tensors,
 * and the places of its norms, biases and windows. `special` names the family's own function for what a row
 * cannot express. */
#pragma once

#include "kernels/backend.h"

/* Rules for which blocks attend to no more than sliding_window positions. layer_types, where it is read,
 * overrides them. */
enum window_rule {
	WINDOW_UNUSED,    /* none: a field that older configs carry */
	WINDOW_ALL,       /* all, where sliding_window is a number; layer_types is not read */
	WINDOW_LISTED,    /* all, unless layer_types states otherwise */
	WINDOW_FROM,      /* those from max_window_layers on */
	WINDOW_OPTED,     /* those from max_window_layers on, where use_sliding_window is true */
	WINDOW_OPTED_ALL, /* all, where that is true; layer_types is not read */
	WINDOW_PERIOD,    /* all but every period-th */
	WINDOW_AFTER      /* all but the first of every period */
};

/* The norm that queries and keys get before they are rotated. */
enum head_norm { HEAD_NORM_NONE, HEAD_NORM_EACH, HEAD_NORM_ALL };

/* Behaviour of a family that no field of a row can express. */
enum special {
	SPECIAL_NONE,
	SPECIAL_GEMMA,       /* its "gelu" is the one by tanh */
	SPECIAL_GEMMA2,      /* caps, scores divided by a number of its own */
	SPECIAL_GEMMA3,      /* the same */
	SPECIAL_GRANITE,     /* multipliers */
	SPECIAL_HYPERCLOVAX, /* the same, of which the logits' multiplies */
	SPECIAL_GRANITE_SWA, /* multipliers, perhaps experts, and a RoPE base for each block */
	SPECIAL_GRANITE4, /* multipliers; Mamba-2 and experts beside a shared MLP where its file asks for them */
	SPECIAL_GRANITE_MOE,  /* multipliers and experts, perhaps beside a shared MLP */
	SPECIAL_SMOLLM3,      /* listed blocks have no positions */
	SPECIAL_STABLELM,     /* perhaps attention beside the MLP, and norms of each head */
	SPECIAL_EXAONE4,      /* blocks with full attention have no positions when other blocks have a window */
	SPECIAL_MINISTRAL3,   /* scores grow with the position */
	SPECIAL_MIXTRAL,      /* experts */
	SPECIAL_PHIMOE,       /* experts chosen one after another; RoPE's factors by length; a bias of the head */
	SPECIAL_QWEN3_MOE,    /* experts, in some blocks */
	SPECIAL_QWEN3_VL_MOE, /* the same, always with weights that sum to 1, in stacks with their inputs first */
	SPECIAL_MELLUM,       /* the same in listed blocks */
	SPECIAL_GPT_OSS,      /* experts of a clamped activation */
	SPECIAL_OLMOE,        /* experts in every block */
	SPECIAL_QWEN2_MOE,    /* experts, one of them shared */
	SPECIAL_GLM4_MOE,     /* experts chosen by sigmoids, shared ones */
	SPECIAL_ERNIE4_5_MOE, /* the same by softmax, in some blocks */
	SPECIAL_MINIMAX_M2,   /* experts chosen by sigmoids */
	SPECIAL_DOTS1,        /* the same, shared ones, with other defaults than GLM's */
	SPECIAL_HUNYUAN,      /* RoPE's base stretched by alpha */
	SPECIAL_HUNYUAN_MOE,  /* the same with experts in every block, one of them shared */
	SPECIAL_EXAONE_MOE,   /* EXAONE 4's positions, experts chosen by sigmoids, shared ones */
	SPECIAL_HY_V3,        /* experts chosen by sigmoids, shared ones, in listed blocks */
	SPECIAL_AFMOE,        /* EXAONE's with a gate of attention's output */
	SPECIAL_APERTUS,      /* an activation with parameters of its own in each block */
	SPECIAL_DEEPSEEK,     /* latent attention, experts with shared ones */
	SPECIAL_COHERE,       /* a scale of the logits, perhaps norms of each head */
	SPECIAL_COHERE2,      /* the scale; blocks with full attention have no positions */
	SPECIAL_GEMMA4,      /* heads of two sizes, shared keys, inputs by token and block, experts beside MLPs */
	SPECIAL_GEMMA3N,     /* several states of a row, shared keys, inputs by token and block, sparse gates */
	SPECIAL_QWEN3_5,     /* recurrent blocks beside gated attention */
	SPECIAL_QWEN3_5_MOE, /* the same with experts */
	SPECIAL_QWEN3_NEXT,  /* the same with experts in some blocks */
	SPECIAL_LLAMA4,      /* attention in chunks, blocks without positions, experts that weigh their inputs */
	SPECIAL_FALCON_H1,   /* attention beside Mamba-2, multipliers */
	SPECIAL_NEMOTRON_H,  /* layers of one sub-layer each: Mamba-2, attention, MLP or experts */
	SPECIAL_LFM2,        /* short convolutions beside attention */
	SPECIAL_LFM2_MOE     /* the same with experts chosen by sigmoids */
};

/* The place in a folder of the layer that predicts the token after the next one (MTP), if its layer runs
 * here. */
enum mtp_place {
	MTP_NONE,
	MTP_APART, /* mtp.layers.0, beside the model (Qwen 3.5) */
	MTP_BLOCK  /* the block after the last one (DeepSeek-V3, GLM 4.5) */
};

struct family {
	const char* name;         /* config.json's model_type */
	const char* architecture; /* GGUF's general.architecture; the first row with a name takes it; "": none */
	enum special special;

	/* Defaults when config.json gives none. 0: derived or required; window_period 0: the rule is not
	 * WINDOW_PERIOD. */
	int vocab, heads, kv_heads, head_dim, context, window, window_period;
	float epsilon, theta,
	    sliding_theta; /* theta 0: 10000; sliding_theta 0: sliding blocks have the others' RoPE */
	float rotary;      /* share of a head that is rotated; 0: all, whatever the file states */
	bool tied, qkv_bias, output_bias, mlp_bias;
	enum window_rule window_rule;
	int first_sliding; /* WINDOW_OPTED: the default of max_window_layers */

	int original_context; /* the context that RoPE scalings count from, whatever their parameters say */
	const char* rope;     /* rope_parameters as JSON; NULL: no scaling */

	/* Names of fields that differ from Llama's; NULL: the family has no such field (biases, period, theta),
	 * or Llama's. */
	const char *period_field, *sliding_theta_field, *epsilon_field, *activation_field, *qkv_bias_field,
	    *output_bias_field, *mlp_bias_field;

	/* Arithmetic. */
	enum norm_kind norm;
	bool norm_plus_one, scaled_embedding; /* Gemma */
	enum activation activation;           /* where config.json is silent */
	enum head_norm head_norm;
	bool interleaved;            /* RoPE rotates neighbours */
	bool interleaved_by_convert; /* in GGUF alone, whose converter permutes rows of queries and keys */
	bool fused_qkv, fused_gate_up;
	bool parallel;             /* attention and MLP read the same norm */
	bool norm_without_bias;    /* LayerNorm */
	bool ungated;              /* MLPs have no gate */
	bool norm_after_rope;      /* norms of queries and keys come after the rotation */
	bool short_convolution;    /* recurrent blocks are gated short convolutions */
	bool sinks, expert_biases; /* attention sinks; biases of the router and of the experts */
	enum mtp_place mtp;

	/* Names of norms in a folder, after "layers.%d."; NULL: the family has no such norm. */
	const char *attention_norm, *mlp_norm, *post_attention_norm, *post_mlp_norm;
	const char* gguf_mlp_norm; /* GGUF's name, if it is not ffn_norm */
	/* Names in a folder that differ from Llama's, such as self_attn.o_proj. */
	const char *wo, *q_norm, *k_norm, *w_gate, *w_up, *output_norm;
	const char* attention_gate; /* a map of attention's gates that is no part of the queries' */
	bool paired;                /* a layer of its files is two blocks: Mamba-2, and attention beside it */
	bool single_mixers;         /* a layer of its files is one sub-layer, which they call mixer */
	const char* state_space;    /* Mamba-2's part of a block: "mamba" or "mixer" */
	const char *gate_up, *down; /* names that differ from mlp.gate_up_proj and mlp.down_proj */
	/* Experts as a folder names them, after "layers.%d."; the experts' with another %d. Stacks of all
	 * experts, the first with gate and up together, that are not named mlp.experts.gate_up_proj and
	 * down_proj. */
	const char *router, *expert_gate, *expert_up, *expert_down;
	const char *stacked_gate_up, *stacked_down;
	/* shared_gate_proj NULL: shared_up has the gate's rows before its own. */
	const char *choice_bias, *shared_gate_proj, *shared_up, *shared_down, *shared_gate;
};

/* NULL when there is none of that name. */
const struct family* family_by_name(const char* name);
const struct family* family_by_architecture(const char* name, size_t size);
/* The family that a model of images and text nests as its text_config, or NULL. flat: its files may have the
 * text model's fields beside the others. */
const struct family* family_within(const char* name, bool* flat);
/* Why a family of this name, in config.json or GGUF, does not run; NULL: nothing is known of it. */
const char* family_refusal(const char* name, size_t size);
/* Lists the names for a message, as many as fit (size 32 at least). Returns `out`. */
const char* family_names(char* out, size_t size);
const char* family_architectures(char* out, size_t size);
