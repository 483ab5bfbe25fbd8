/* The table of families. Defaults are those of transformers' configuration classes. */
#include "core/model/family.h"

#include <stdio.h>
#include <string.h>

#include "core/files/json.h"

#define NORMS_BEFORE .attention_norm = "input_layernorm", .mlp_norm = "post_attention_layernorm"
#define NORMS_AFTER                                                                                          \
	.post_attention_norm = "post_attention_layernorm", .post_mlp_norm = "post_feedforward_layernorm"
#define NORMS_AROUND                                                                                         \
	.attention_norm = "input_layernorm", .post_attention_norm = "post_attention_layernorm",                  \
	.mlp_norm = "pre_feedforward_layernorm", .post_mlp_norm = "post_feedforward_layernorm"
#define BIASES .qkv_bias_field = "attention_bias", .output_bias_field = "attention_bias"

/* Fields that families share. */
#define EXPERT_MAPS                                                                                          \
	.expert_gate = "mlp.experts.%d.gate_proj.weight", .expert_up = "mlp.experts.%d.up_proj.weight",          \
	.expert_down = "mlp.experts.%d.down_proj.weight"
#define EXPERTS .router = "mlp.gate.weight", EXPERT_MAPS
#define SPARSE_EXPERTS                                                                                       \
	.router = "block_sparse_moe.gate.weight", .expert_gate = "block_sparse_moe.experts.%d.w1.weight",        \
	.expert_up = "block_sparse_moe.experts.%d.w3.weight",                                                    \
	.expert_down = "block_sparse_moe.experts.%d.w2.weight"
#define HUNYUAN_SHARED                                                                                       \
	.shared_gate_proj = "mlp.shared_mlp.gate_proj", .shared_up = "mlp.shared_mlp.up_proj",                   \
	.shared_down = "mlp.shared_mlp.down_proj"
#define EXPERTS_STACKED .router = "mlp.gate.weight"
#define SHARED_EXPERTS                                                                                       \
	.shared_gate_proj = "mlp.shared_experts.gate_proj", .shared_up = "mlp.shared_experts.up_proj",           \
	.shared_down = "mlp.shared_experts.down_proj"
#define MISTRALS .context = 131072, .kv_heads = 8, .interleaved_by_convert = true, NORMS_BEFORE
#define QWENS .context = 32768, .window = 4096, .first_sliding = 28, .epsilon = 1e-6f, NORMS_BEFORE
/* On text alone the three parts of a position are equal, so the rotation is the plain one. */
#define QWEN2_VLS                                                                                            \
	.context = 32768, .kv_heads = 8, .window = 4096, .window_rule = WINDOW_OPTED, .first_sliding = 80,       \
	.epsilon = 1e-5f, .theta = 1e6f, .qkv_bias = true, NORMS_BEFORE
/* hidden_act is a leftover, which transformers does not read */
#define GEMMAS                                                                                               \
	.kv_heads = 4, .head_dim = 256, .window = 4096, .window_rule = WINDOW_PERIOD, .epsilon = 1e-6f,          \
	.tied = true, BIASES, .activation_field = "hidden_activation", .norm_plus_one = true,                    \
	.scaled_embedding = true, .activation = ACTIVATION_GELU_TANH, NORMS_AROUND
#define GRANITES .context = 2048, .epsilon = 1e-6f, BIASES, .interleaved_by_convert = true, NORMS_BEFORE
#define GRANITE_EXPERTS                                                                                      \
	.router = "block_sparse_moe.router.layer.weight",                                                        \
	.stacked_gate_up = "block_sparse_moe.input_linear.weight",                                               \
	.stacked_down = "block_sparse_moe.output_linear.weight", .shared_up = "shared_mlp.input_linear",         \
	.shared_down = "shared_mlp.output_linear"
#define ERNIES                                                                                               \
	.context = 131072, .epsilon = 1e-5f, .theta = 5e5f, .tied = true, .qkv_bias_field = "use_bias",          \
	.output_bias_field = "use_bias", .mlp_bias_field = "use_bias", .interleaved = true, NORMS_BEFORE
#define DEEPSEEKS                                                                                            \
	.special = SPECIAL_DEEPSEEK, .output_bias_field = "attention_bias", .qkv_bias_field = "attention_bias",  \
	.interleaved = true, EXPERTS, SHARED_EXPERTS, NORMS_BEFORE
#define QWEN3_NEXTS                                                                                          \
	.heads = 16, .head_dim = 256, .context = 32768, .epsilon = 1e-6f, .rotary = 0.25f, BIASES,               \
	.norm_plus_one = true, .head_norm = HEAD_NORM_EACH, NORMS_BEFORE,                                        \
	.gguf_mlp_norm = "post_attention_norm", .mtp = MTP_APART
#define QWEN_SHARED                                                                                          \
	.shared_gate_proj = "mlp.shared_expert.gate_proj", .shared_up = "mlp.shared_expert.up_proj",             \
	.shared_down = "mlp.shared_expert.down_proj", .shared_gate = "mlp.shared_expert_gate"
#define FEED_FORWARDS                                                                                        \
	.w_gate = "feed_forward.gate_proj", .w_up = "feed_forward.up_proj", .down = "feed_forward.down_proj"
#define LFM2S                                                                                                \
	.vocab = 65536, .heads = 32, .context = 128000, .kv_heads = 8, .epsilon = 1e-5f,                         \
	.epsilon_field = "norm_eps", .theta = 1e6f, .tied = true, .head_norm = HEAD_NORM_EACH,                   \
	.short_convolution = true, .attention_norm = "operator_norm", .mlp_norm = "ffn_norm",                    \
	.wo = "self_attn.out_proj", .q_norm = "self_attn.q_layernorm", .k_norm = "self_attn.k_layernorm",        \
	.w_gate = "feed_forward.w1", .w_up = "feed_forward.w3", .down = "feed_forward.w2",                       \
	.output_norm = "embedding_norm"
#define COHERES                                                                                              \
	.epsilon = 1e-5f, .epsilon_field = "layer_norm_eps", .tied = true, BIASES, .norm = NORM_LAYER,           \
	.norm_without_bias = true, .parallel = true, .interleaved = true, .attention_norm = "input_layernorm"
#define GEMMA4S                                                                                              \
	.special = SPECIAL_GEMMA4, .vocab = 262144, .heads = 8, .kv_heads = 4, .head_dim = 256,                  \
	.window_rule = WINDOW_PERIOD, .window_period = 6, .epsilon = 1e-6f, .theta = 1e6f,                       \
	.sliding_theta = 1e4f, .tied = true, BIASES, .activation_field = "hidden_activation",                    \
	.scaled_embedding = true, .activation = ACTIVATION_GELU_TANH, .head_norm = HEAD_NORM_EACH, NORMS_AROUND
#define NEMOTRONS                                                                                            \
	.special = SPECIAL_NEMOTRON_H, .vocab = 131072, .heads = 32, .kv_heads = 8, .head_dim = 128,             \
	.context = 4096, .epsilon = 1e-5f, .epsilon_field = "layer_norm_epsilon", .mlp_bias_field = "mlp_bias",  \
	.activation_field = "mlp_hidden_act", .activation = ACTIVATION_RELU2, .ungated = true,                   \
	.single_mixers = true, .state_space = "mixer", .attention_norm = "norm", .mlp_norm = "norm",             \
	.gguf_mlp_norm = "attn_norm", .output_norm = "norm_f", .wo = "mixer.o_proj", .w_up = "mixer.up_proj",    \
	.down = "mixer.down_proj", .router = "mixer.gate.weight",                                                \
	.expert_up = "mixer.experts.%d.up_proj.weight", .expert_down = "mixer.experts.%d.down_proj.weight",      \
	.choice_bias = "mixer.gate.e_score_correction_bias", .shared_up = "mixer.shared_experts.up_proj",        \
	.shared_down = "mixer.shared_experts.down_proj"
#define OLMOS .context = 2048, .epsilon = 1e-5f, BIASES, .head_norm = HEAD_NORM_ALL, NORMS_AFTER

#define CLOSELY_LLAMA                                                                                        \
	.context = 131072, .kv_heads = 8, .head_dim = 128, .epsilon = 1e-5f, BIASES,                             \
	.mlp_bias_field = "mlp_bias", NORMS_BEFORE
#define GLM4_NORMS                                                                                           \
	.attention_norm = "input_layernorm", .post_attention_norm = "post_self_attn_layernorm",                  \
	.mlp_norm = "post_attention_layernorm", .post_mlp_norm = "post_mlp_layernorm"
#define GLM4_MOES                                                                                            \
	.special = SPECIAL_GLM4_MOE, .kv_heads = 8, .epsilon = 1e-5f, .qkv_bias_field = "attention_bias",        \
	EXPERTS, SHARED_EXPERTS, .choice_bias = "mlp.gate.e_score_correction_bias", NORMS_BEFORE

/* A row: the name in config.json, the architecture's in GGUF, and what differs from zero. */
#define FAMILY(name_, architecture_, ...)                                                                    \
	{ .name = name_, .architecture = architecture_, __VA_ARGS__ }

static const struct family families[] = {
    FAMILY("llama", "llama", .context = 2048, .epsilon = 1e-6f, BIASES, .mlp_bias_field = "mlp_bias",
           .interleaved_by_convert = true, NORMS_BEFORE),
    FAMILY("mistral", "mistral", .window = 4096, .window_rule = WINDOW_LISTED, .epsilon = 1e-6f, MISTRALS),
    FAMILY("ministral", "llama", .window = 4096, .window_rule = WINDOW_LISTED, .epsilon = 1e-6f, MISTRALS),
    FAMILY("ministral3", "mistral3", .special = SPECIAL_MINISTRAL3, .context = 262144, .kv_heads = 8,
           .head_dim = 128, .window_rule = WINDOW_ALL, .epsilon = 1e-5f,
           .rope = "{\"rope_type\": \"yarn\", \"rope_theta\": 1e6, \"factor\": 16, "
                   "\"original_max_position_embeddings\": 16384, \"mscale\": 1, \"mscale_all_dim\": 1, "
                   "\"llama_4_scaling_beta\": 0.1}",
           .interleaved_by_convert = true, NORMS_BEFORE),
    FAMILY("mixtral", "llama", .special = SPECIAL_MIXTRAL, .window_rule = WINDOW_ALL, .epsilon = 1e-5f,
           .theta = 1e6f, SPARSE_EXPERTS, MISTRALS),
    FAMILY("qwen2", "qwen2", .kv_heads = 32, .window_rule = WINDOW_OPTED, .qkv_bias = true, QWENS),
    FAMILY("qwen3", "qwen3", .kv_heads = 32, .head_dim = 128, .window_rule = WINDOW_OPTED, BIASES,
           .head_norm = HEAD_NORM_EACH, QWENS),
    FAMILY("qwen3_moe", "qwen3moe", .special = SPECIAL_QWEN3_MOE, .kv_heads = 4,
           .window_rule = WINDOW_OPTED_ALL, BIASES, .head_norm = HEAD_NORM_EACH, EXPERTS, QWENS),
    FAMILY("qwen2_moe", "qwen2moe", .special = SPECIAL_QWEN2_MOE, .kv_heads = 16, .window_rule = WINDOW_OPTED,
           .qkv_bias = true, .qkv_bias_field = "qkv_bias", EXPERTS, QWEN_SHARED, QWENS),
    FAMILY("qwen3_5_text", "qwen35", .special = SPECIAL_QWEN3_5, .vocab = 248320, .kv_heads = 4, QWEN3_NEXTS),
    FAMILY("qwen3_5_moe_text", "qwen35moe", .special = SPECIAL_QWEN3_5_MOE, .vocab = 248320, .kv_heads = 2,
           EXPERTS, QWEN_SHARED, QWEN3_NEXTS),
    FAMILY("qwen3_next", "qwen3next", .special = SPECIAL_QWEN3_NEXT, .vocab = 151936, .kv_heads = 2, EXPERTS,
           QWEN_SHARED, QWEN3_NEXTS),
    FAMILY("qwen2_vl_text", "qwen2vl", QWEN2_VLS),
    FAMILY("qwen2_5_vl_text", "qwen2vl", QWEN2_VLS),
    FAMILY("qwen3_vl_text", "qwen3vl", .context = 128000, .kv_heads = 32, .head_dim = 128, .epsilon = 1e-6f,
           .theta = 5e5f, BIASES, .head_norm = HEAD_NORM_EACH, NORMS_BEFORE),
    FAMILY("qwen3_vl_moe_text", "qwen3vlmoe", .special = SPECIAL_QWEN3_VL_MOE, .context = 128000,
           .kv_heads = 16, .epsilon = 1e-6f, .theta = 5e5f, BIASES, .head_norm = HEAD_NORM_EACH,
           EXPERTS_STACKED, NORMS_BEFORE),
    FAMILY("gpt_oss", "gpt-oss", .special = SPECIAL_GPT_OSS, .vocab = 201088, .heads = 64, .context = 131072,
           .kv_heads = 8, .head_dim = 64, .window = 128, .window_rule = WINDOW_PERIOD, .window_period = 2,
           .epsilon = 1e-5f, .theta = 1.5e5f,
           .rope = "{\"rope_type\": \"yarn\", \"factor\": 32, \"beta_fast\": 32, \"beta_slow\": 1, "
                   "\"truncate\": false, \"original_max_position_embeddings\": 4096}",
           .qkv_bias = true, .output_bias = true, BIASES, .sinks = true, .expert_biases = true, NORMS_BEFORE,
           .gguf_mlp_norm = "post_attention_norm", .router = "mlp.router.weight"),
    FAMILY("phi3", "phi3", .context = 4096, .original_context = 4096, .window_rule = WINDOW_ALL,
           .epsilon = 1e-5f, .rotary = 1, .fused_qkv = true, .fused_gate_up = true, NORMS_BEFORE),
    FAMILY("phimoe", "phimoe", .special = SPECIAL_PHIMOE, .vocab = 32064, .context = 131072, .kv_heads = 8,
           .window_rule = WINDOW_ALL, .epsilon = 1e-5f, .theta = 1e6f, BIASES, .norm = NORM_LAYER,
           SPARSE_EXPERTS, NORMS_BEFORE),
    FAMILY("gemma2", "gemma2", .special = SPECIAL_GEMMA2, .context = 8192, .window_period = 2, GEMMAS),
    FAMILY("gemma3_text", "gemma3", .special = SPECIAL_GEMMA3, .vocab = 262208, .heads = 8, .context = 131072,
           .window_period = 6, .period_field = "sliding_window_pattern", .theta = 1e6f, .sliding_theta = 1e4f,
           .sliding_theta_field = "rope_local_base_freq", .head_norm = HEAD_NORM_EACH, GEMMAS),
    FAMILY("granite", "granite", .special = SPECIAL_GRANITE, .mlp_bias_field = "mlp_bias", GRANITES),
    FAMILY("granitemoehybrid", "granitehybrid", .special = SPECIAL_GRANITE4, .fused_gate_up = true,
           .gate_up = "shared_mlp.input_linear", .down = "shared_mlp.output_linear", .state_space = "mamba",
           GRANITE_EXPERTS, GRANITES),
    FAMILY("granitemoe", "granitemoe", .special = SPECIAL_GRANITE_MOE, GRANITE_EXPERTS, GRANITES),
    FAMILY("granitemoeshared", "granitemoe", .special = SPECIAL_GRANITE_MOE, GRANITE_EXPERTS, GRANITES),
    FAMILY("smollm3", "smollm3", .special = SPECIAL_SMOLLM3, .context = 32768, .kv_heads = 4,
           .window_rule = WINDOW_OPTED, .epsilon = 1e-6f, .theta = 2e6f, .tied = true, BIASES,
           .mlp_bias_field = "mlp_bias", .interleaved_by_convert = true, NORMS_BEFORE),
    FAMILY("olmo2", "olmo2", OLMOS),
    FAMILY("olmo3", "olmo2", .window = 4096, .window_rule = WINDOW_PERIOD, .window_period = 4, .theta = 5e5f,
           .sliding_theta = 5e5f, OLMOS),
    FAMILY("exaone4", "exaone4", .special = SPECIAL_EXAONE4, .context = 2048, .kv_heads = 32, .window = 4096,
           .window_rule = WINDOW_PERIOD, .window_period = 4, .period_field = "sliding_window_pattern",
           .epsilon = 1e-5f, .head_norm = HEAD_NORM_EACH, NORMS_AFTER),
    FAMILY("glm4", "glm4", .context = 131072, .kv_heads = 2, .head_dim = 128, .epsilon = 1.5625e-7f,
           .rotary = 0.5f, .qkv_bias = true, .qkv_bias_field = "attention_bias", .interleaved = true,
           .fused_gate_up = true, GLM4_NORMS),
    FAMILY("glm4v_text", "glm4", .context = 32768, .kv_heads = 2, .epsilon = 1e-5f, .rotary = 1,
           .qkv_bias = true, .interleaved = true, .fused_gate_up = true, GLM4_NORMS),
    FAMILY("glm_ocr_text", "glm4", .context = 131072, .kv_heads = 8, .epsilon = 1e-5f, .rotary = 1,
           .interleaved = true, .fused_gate_up = true, GLM4_NORMS),
    FAMILY("seed_oss", "seed_oss", .context = 524288, .kv_heads = 8, .head_dim = 128, .epsilon = 1e-6f,
           .qkv_bias = true, .qkv_bias_field = "attention_bias", .output_bias_field = "attention_out_bias",
           .mlp_bias_field = "mlp_bias", NORMS_BEFORE, .gguf_mlp_norm = "post_attention_norm"),
    FAMILY("glm", "chatglm", .context = 131072, .kv_heads = 2, .head_dim = 128, .epsilon = 1.5625e-7f,
           .rotary = 0.5f, .qkv_bias = true, .qkv_bias_field = "attention_bias", .interleaved = true,
           .fused_gate_up = true, NORMS_BEFORE),
    FAMILY("glm4_moe", "glm4moe", .special = SPECIAL_GLM4_MOE, .context = 131072, .kv_heads = 8,
           .epsilon = 1e-5f, .rotary = 0.5f, .qkv_bias_field = "attention_bias", EXPERTS, SHARED_EXPERTS,
           .choice_bias = "mlp.gate.e_score_correction_bias", .mtp = MTP_BLOCK, NORMS_BEFORE,
           .gguf_mlp_norm = "post_attention_norm"),
    FAMILY("glm4v_moe_text", "glm4moe", .context = 65536, .rotary = 0.5f, .qkv_bias = true, GLM4_MOES),
    FAMILY("ernie4_5", "ernie4_5", .kv_heads = 2, .head_dim = 128, ERNIES),
    FAMILY("ernie4_5_moe", "ernie4_5-moe", .special = SPECIAL_ERNIE4_5_MOE, .kv_heads = 4, EXPERTS,
           SHARED_EXPERTS, .choice_bias = "mlp.moe_statics.e_score_correction_bias", ERNIES),
    FAMILY("minimax_m2", "minimax-m2", .special = SPECIAL_MINIMAX_M2, .context = 196608, .kv_heads = 8,
           .head_dim = 128, .epsilon = 1e-6f, .theta = 5e6f, .rotary = 1, .head_norm = HEAD_NORM_ALL,
           SPARSE_EXPERTS, .choice_bias = "block_sparse_moe.e_score_correction_bias", NORMS_BEFORE),
    FAMILY("olmoe", "olmoe", .special = SPECIAL_OLMOE, .context = 4096, .epsilon = 1e-5f, BIASES,
           .head_norm = HEAD_NORM_ALL, EXPERTS, NORMS_BEFORE),
    FAMILY("solar_open", "glm4moe", .special = SPECIAL_GLM4_MOE, .context = 131072, .kv_heads = 8,
           .head_dim = 128, .epsilon = 1e-5f, .theta = 1e6f, .qkv_bias_field = "attention_bias", EXPERTS,
           SHARED_EXPERTS, .choice_bias = "mlp.gate.e_score_correction_bias", NORMS_BEFORE),
    FAMILY("flex_olmo", "olmoe", .special = SPECIAL_OLMOE, .context = 4096, .epsilon = 1e-6f, .theta = 5e5f,
           BIASES, .head_norm = HEAD_NORM_ALL, EXPERTS, NORMS_AFTER),
    FAMILY("dots1", "dots1", .special = SPECIAL_DOTS1, .context = 2048, .kv_heads = 32, .window = 4096,
           .window_rule = WINDOW_FROM, .first_sliding = 62, .epsilon = 1e-6f, BIASES,
           .head_norm = HEAD_NORM_EACH, EXPERTS, SHARED_EXPERTS,
           .choice_bias = "mlp.gate.e_score_correction_bias", NORMS_BEFORE),
    FAMILY("deepseek_v2", "deepseek2", .context = 2048, .epsilon = 1e-6f, .mlp_bias_field = "mlp_bias",
           DEEPSEEKS),
    FAMILY("deepseek_v3", "deepseek2", .context = 4096, .epsilon = 1e-6f,
           .choice_bias = "mlp.gate.e_score_correction_bias", .mtp = MTP_BLOCK, DEEPSEEKS),
    FAMILY("glm4_moe_lite", "deepseek2", .context = 202752, .epsilon = 1e-5f,
           .choice_bias = "mlp.gate.e_score_correction_bias", .mtp = MTP_BLOCK, DEEPSEEKS),
    FAMILY("mistral4", "mistral4", .context = 1048576, .epsilon = 1e-6f,
           .rope = "{\"rope_type\": \"yarn\", \"rope_theta\": 10000, \"factor\": 128, \"beta_fast\": 32, "
                   "\"beta_slow\": 1, \"original_max_position_embeddings\": 8192, \"mscale\": 1, "
                   "\"mscale_all_dim\": 1, \"llama_4_scaling_beta\": 0.1}",
           DEEPSEEKS),
    FAMILY("cohere", "command-r", .special = SPECIAL_COHERE, .context = 8192, .theta = 5e5f, COHERES),
    FAMILY("cohere2", "cohere2", .special = SPECIAL_COHERE2, .context = 8192, .window = 4096,
           .window_rule = WINDOW_PERIOD, .window_period = 4, .period_field = "sliding_window_pattern",
           COHERES),
    FAMILY("hunyuan_v1_dense", "hunyuan-dense", .special = SPECIAL_HUNYUAN, .context = 2048, .epsilon = 1e-5f,
           BIASES, .head_norm = HEAD_NORM_EACH, .norm_after_rope = true,
           .q_norm = "self_attn.query_layernorm", .k_norm = "self_attn.key_layernorm", NORMS_BEFORE),
    FAMILY("arcee", "arcee", .context = 4096, .epsilon = 1e-5f, BIASES, .mlp_bias_field = "mlp_bias",
           .activation = ACTIVATION_RELU2, .ungated = true, .interleaved_by_convert = true, NORMS_BEFORE),
    FAMILY("apertus", "apertus", .special = SPECIAL_APERTUS, .context = 65536, .epsilon = 1e-5f,
           .theta = 1.2e7f,
           .rope =
               "{\"rope_type\": \"llama3\", \"rope_theta\": 1.2e7, \"factor\": 8, "
               "\"original_max_position_embeddings\": 8192, \"low_freq_factor\": 1, \"high_freq_factor\": 4}",
           BIASES, .activation = ACTIVATION_XIELU, .ungated = true, .head_norm = HEAD_NORM_EACH,
           .attention_norm = "attention_layernorm", .mlp_norm = "feedforward_layernorm"),
    FAMILY("gemma4_text", "gemma4", .context = 131072, .window = 512, .router = "router.proj.weight",
           .stacked_gate_up = "experts.gate_up_proj", .stacked_down = "experts.down_proj", GEMMA4S),
    FAMILY("gemma4_unified_text", "gemma4", .context = 262144, .window = 1024, GEMMA4S),
    FAMILY("gemma3n_text", "gemma3n", .special = SPECIAL_GEMMA3N, .vocab = 262400, .heads = 8, .kv_heads = 2,
           .head_dim = 256, .context = 32768, .window = 512, .window_rule = WINDOW_PERIOD, .window_period = 5,
           .epsilon = 1e-6f, .theta = 1e6f, .sliding_theta = 1e4f,
           .sliding_theta_field = "rope_local_base_freq", .tied = true, BIASES,
           .activation_field = "hidden_activation", .scaled_embedding = true,
           .activation = ACTIVATION_GELU_TANH, .head_norm = HEAD_NORM_EACH, NORMS_AROUND),
    FAMILY("llama4_text", "llama4", .special = SPECIAL_LLAMA4, .vocab = 202048, .heads = 40, .kv_heads = 8,
           .head_dim = 128, .context = 131072, .epsilon = 1e-5f, .theta = 5e5f, BIASES, .interleaved = true,
           .norm_after_rope = true, .router = "feed_forward.router.weight",
           .shared_gate_proj = "feed_forward.shared_expert.gate_proj",
           .shared_up = "feed_forward.shared_expert.up_proj",
           .shared_down = "feed_forward.shared_expert.down_proj", FEED_FORWARDS, NORMS_BEFORE),
    FAMILY("falcon_h1", "falcon-h1", .special = SPECIAL_FALCON_H1, .vocab = 128000, .heads = 32,
           .context = 8192, .kv_heads = 8, .epsilon = 1e-5f, BIASES, .mlp_bias_field = "mlp_bias",
           .paired = true, .state_space = "mamba", FEED_FORWARDS, .attention_norm = "input_layernorm",
           .mlp_norm = "pre_ff_layernorm", .output_norm = "final_layernorm"),
    FAMILY("nemotron_h", "nemotron_h", NEMOTRONS),
    FAMILY("nemotron_h_moe", "nemotron_h_moe", NEMOTRONS),
    FAMILY("lfm2", "lfm2", .special = SPECIAL_LFM2, LFM2S),
    FAMILY(
        "lfm2_moe", "lfm2moe", .special = SPECIAL_LFM2_MOE, .router = "feed_forward.gate.weight",
        .expert_gate = "feed_forward.experts.%d.w1.weight", .expert_up = "feed_forward.experts.%d.w3.weight",
        .expert_down = "feed_forward.experts.%d.w2.weight", .choice_bias = "feed_forward.expert_bias", LFM2S),
    FAMILY("stablelm", "stablelm", .special = SPECIAL_STABLELM, .context = 4096, .kv_heads = 32,
           .epsilon = 1e-5f, .epsilon_field = "layer_norm_eps", .rotary = 0.25f,
           .qkv_bias_field = "use_qkv_bias", .norm = NORM_LAYER, .q_norm = "self_attn.q_layernorm.norms.%d",
           .k_norm = "self_attn.k_layernorm.norms.%d", NORMS_BEFORE),
    FAMILY("iquestcoder", "llama", CLOSELY_LLAMA),
    FAMILY("internlm3", "llama", .context = 32768, .kv_heads = 2, .head_dim = 128, .epsilon = 1e-5f, BIASES,
           .mlp_bias_field = "mlp_bias", NORMS_BEFORE),
    FAMILY("cwm", "", .context = 131072, .kv_heads = 8, .head_dim = 128, .window = 8192,
           .window_rule = WINDOW_AFTER, .window_period = 4, .epsilon = 1e-5f, .theta = 1e6f,
           .rope =
               "{\"rope_type\": \"llama3\", \"rope_theta\": 1e6, \"factor\": 16, \"high_freq_factor\": 4, "
               "\"low_freq_factor\": 1, \"original_max_position_embeddings\": 8192}",
           .mlp_bias_field = "mlp_bias", NORMS_BEFORE),
    FAMILY("jais2", "jais2", .context = 8192, .epsilon = 1e-5f, .epsilon_field = "layer_norm_eps",
           .qkv_bias = true, .output_bias = true, .mlp_bias = true, BIASES, .mlp_bias_field = "mlp_bias",
           .norm = NORM_LAYER, .activation = ACTIVATION_RELU2, .ungated = true, NORMS_BEFORE),
    FAMILY("nemotron", "nemotron", .context = 4096, .epsilon = 1e-5f, .epsilon_field = "norm_eps",
           .rotary = 0.5f, BIASES, .mlp_bias_field = "mlp_bias", .norm = NORM_LAYER, .norm_plus_one = true,
           .activation = ACTIVATION_RELU2, .ungated = true, NORMS_BEFORE),
    FAMILY("starcoder2", "starcoder2", .context = 4096, .kv_heads = 2, .window_rule = WINDOW_ALL,
           .epsilon = 1e-5f, .epsilon_field = "norm_epsilon", .tied = true, .qkv_bias = true,
           .output_bias = true, .mlp_bias = true, .qkv_bias_field = "use_bias",
           .output_bias_field = "use_bias", .mlp_bias_field = "use_bias", .norm = NORM_LAYER,
           .activation = ACTIVATION_GELU_TANH, .ungated = true, .w_up = "mlp.c_fc", .down = "mlp.c_proj",
           NORMS_BEFORE),
    FAMILY("helium", "", .context = 4096, .kv_heads = 20, .head_dim = 128, .epsilon = 1e-8f, .theta = 1e5f,
           .qkv_bias_field = "attention_bias", .mlp_bias_field = "mlp_bias", .interleaved = true,
           NORMS_BEFORE),
    FAMILY("gemma", "gemma", .special = SPECIAL_GEMMA, .context = 8192, .kv_heads = 16, .head_dim = 256,
           .epsilon = 1e-6f, .tied = true, BIASES, .norm_plus_one = true, .scaled_embedding = true,
           .activation = ACTIVATION_GELU_TANH, NORMS_BEFORE),
    FAMILY("vaultgemma", "", .special = SPECIAL_GEMMA2, .context = 8192, .window_period = 2, .kv_heads = 4,
           .head_dim = 256, .window = 4096, .window_rule = WINDOW_PERIOD, .epsilon = 1e-6f, .tied = true,
           BIASES, .activation_field = "hidden_activation", .norm_plus_one = true, .scaled_embedding = true,
           .activation = ACTIVATION_GELU_TANH, .attention_norm = "input_layernorm",
           .mlp_norm = "pre_feedforward_layernorm"),
    FAMILY("hyperclovax", "", .special = SPECIAL_HYPERCLOVAX, .context = 2048, .epsilon = 1e-6f, BIASES,
           .mlp_bias_field = "mlp_bias", .post_attention_norm = "post_norm1", .post_mlp_norm = "post_norm2",
           NORMS_BEFORE),
    FAMILY("granite_swa", "granite_swa", .special = SPECIAL_GRANITE_SWA, .context = 8192, .kv_heads = 4,
           .window = 128, .window_rule = WINDOW_AFTER, .window_period = 4, .epsilon = 1e-5f, .tied = true,
           BIASES, .mlp_bias_field = "mlp_bias", .interleaved_by_convert = true, .sinks = true, NORMS_BEFORE),
    FAMILY("granitemoe_swa", "granite_swa", .special = SPECIAL_GRANITE_SWA, .context = 8192, .kv_heads = 4,
           .window = 128, .window_rule = WINDOW_AFTER, .window_period = 4, .epsilon = 1e-6f, BIASES,
           .interleaved_by_convert = true, .sinks = true, .router = "block_sparse_moe.router.weight",
           .stacked_gate_up = "block_sparse_moe.experts.gate_up_proj",
           .stacked_down = "block_sparse_moe.experts.down_proj", .shared_up = "shared_mlp.input_linear",
           .shared_down = "shared_mlp.output_linear", NORMS_BEFORE),
    FAMILY("hy_v3", "hy_v3", .special = SPECIAL_HY_V3, .context = 131072, .kv_heads = 8, .head_dim = 128,
           .epsilon = 1e-5f, .theta = 11158840, BIASES, .mlp_bias_field = "mlp_bias",
           .head_norm = HEAD_NORM_EACH, .router = "mlp.router.gate.weight", EXPERT_MAPS,
           .choice_bias = "mlp.expert_bias", HUNYUAN_SHARED, NORMS_BEFORE),
    FAMILY("youtu", "deepseek2", .context = 131072, .epsilon = 1e-6f, .tied = true, DEEPSEEKS),
    FAMILY("hunyuan_v1_moe", "hunyuan-moe", .special = SPECIAL_HUNYUAN_MOE, .context = 2048, .epsilon = 1e-5f,
           BIASES, .head_norm = HEAD_NORM_EACH, .norm_after_rope = true,
           .q_norm = "self_attn.query_layernorm", .k_norm = "self_attn.key_layernorm",
           .router = "mlp.gate.wg.weight", EXPERT_MAPS, HUNYUAN_SHARED, NORMS_BEFORE),
    FAMILY("mellum", "mellum", .special = SPECIAL_MELLUM, .context = 131072, .kv_heads = 4, .head_dim = 128,
           .window = 1024, .window_rule = WINDOW_LISTED, .epsilon = 1e-6f, .theta = 5e5f,
           .sliding_theta = 1e4f, BIASES, .head_norm = HEAD_NORM_EACH, EXPERTS, NORMS_BEFORE),
    FAMILY("exaone_moe", "exaone-moe", .special = SPECIAL_EXAONE_MOE, .context = 2048, .kv_heads = 32,
           .window = 4096, .window_rule = WINDOW_PERIOD, .window_period = 4,
           .period_field = "sliding_window_pattern", .epsilon = 1e-5f, .head_norm = HEAD_NORM_EACH, EXPERTS,
           SHARED_EXPERTS, .choice_bias = "mlp.e_score_correction_bias", NORMS_BEFORE),
    FAMILY("afmoe", "afmoe", .special = SPECIAL_AFMOE, .context = 16384, .head_dim = 128, .window = 1024,
           .window_rule = WINDOW_PERIOD, .window_period = 4, .period_field = "global_attn_every_n_layers",
           .epsilon = 1e-5f, .head_norm = HEAD_NORM_EACH, .attention_gate = "self_attn.gate_proj",
           .router = "mlp.router.gate.weight", EXPERT_MAPS, .choice_bias = "mlp.expert_bias", SHARED_EXPERTS,
           .attention_norm = "input_layernorm", .post_attention_norm = "post_attention_layernorm",
           .mlp_norm = "pre_mlp_layernorm", .post_mlp_norm = "post_mlp_layernorm"),
    /* Llama as Voxtral's class completes its text_config */
    FAMILY("voxtral_text", "llama", .context = 131072, .kv_heads = 8, .head_dim = 128, .epsilon = 1e-5f,
           .theta = 1e8f, BIASES, .mlp_bias_field = "mlp_bias", .interleaved_by_convert = true, NORMS_BEFORE),
};

enum { FAMILIES = (int)(sizeof families / sizeof *families) };

const struct family* family_by_name(const char* name) {
	for (int i = 0; i < FAMILIES; i++)
		if (strcmp(families[i].name, name) == 0)
			return &families[i];
	return NULL;
}

const struct family* family_by_architecture(const char* name, size_t size) {
	for (int i = 0; i < FAMILIES; i++)
		if (size > 0 && strlen(families[i].architecture) == size &&
		    memcmp(families[i].architecture, name, size) == 0)
			return &families[i];
	return NULL;
}

static const struct within {
	const char *outer, *inner; /* names with a space between; where its text_config does not say */
	bool flat;                 /* old files have the fields of text_config beside the others */
} within[] = {
    {"mistral3 idefics2", "mistral", false},
    {"gemma3", "gemma3_text", false},
    {"gemma4 gemma4_assistant", "gemma4_text", false},
    {"gemma4_unified gemma4_unified_assistant", "gemma4_unified_text", false},
    {"gemma3n", "gemma3n_text", false},
    {"qwen2_vl", "qwen2_vl_text", true},
    {"qwen2_5_vl", "qwen2_5_vl_text", true},
    {"qwen3_vl", "qwen3_vl_text", false},
    {"qwen3_vl_moe", "qwen3_vl_moe_text", false},
    {"qwen3_5 minicpmv4_6", "qwen3_5_text", false},
    {"qwen3_5_moe", "qwen3_5_moe_text", false},
    {"exaone4_5", "exaone4", false},
    {"glm4v glm46v", "glm4v_text", false},
    {"glm_ocr", "glm_ocr_text", false},
    {"glm4v_moe", "glm4v_moe_text", false},
    {"llama4", "llama4_text", false},
    {"llava llava_next llava_next_video vipllava video_llava idefics3 smolvlm deepseek_vl perception_lm",
     "llama", false},
    {"llava_onevision video_llama_3 internvl fast_vlm got_ocr2 ovis2 qwen2_audio", "qwen2", false},
    {"aya_vision cohere2_vision", "cohere2", false},
    {"lfm2_vl", "lfm2", false},
    {"lighton_ocr qwen3_asr", "qwen3", false},
    {"voxtral", "voxtral_text", false},
    {"kimi_k25", "deepseek_v3", false}};

const struct family* family_within(const char* name, bool* flat) {
	for (size_t i = 0; i < sizeof within / sizeof *within; i++)
		if (json_lists(within[i].outer, name)) {
			*flat = within[i].flat;
			return family_by_name(within[i].inner);
		}
	return NULL;
}

/* Families that people ask for and that need arithmetic which is not here. */
static const struct refusal {
	const char *names, *reason; /* names with a space between */
} refusals[] = {
    {"kimi_linear kimi-linear", "its linear attention has a decay for each element of a key"},
    {"laguna", "its blocks have different numbers of heads, and gates of softplus"},
    {"jamba", "its recurrent blocks are of Mamba's first kind"},
    {"recurrent_gemma", "its recurrent blocks are gated linear recurrent units (RG-LRU)"},
    {"minimax", "its linear attention has a decay for each head alone (lightning attention)"},
    {"deepseek_v32 glm_moe_dsa mistral_large4 minimax_m3_vl qwen4_exp axk2 dots3_note",
     "its attention chooses positions by scores of an indexer"},
    {"zamba2", "its blocks with attention share weights and read the embedding beside the stream"},
    {"deepseek_v4",
     "its attention compresses keys, chooses positions by an indexer, and its stream has several states"},
    {"glm5_next hy_v4", "its attention chooses positions by an indexer, and its stream has several states"},
    {"mimo_v2_flash", "its values have heads of another size than its keys"},
    {"step3p7", "its blocks have different numbers of heads"},
    {"longcat_flash", "its layers have attention twice, and some of its experts do nothing"},
    {"lfm3", "its attention has a gate for each head"},
    {"kolibri1", "its router adds a bias to scores, not to probabilities"},
    {"olmo_hybrid", "its gated DeltaNet has a beta of up to 2, and a convolution for each of q, k and v"},
    {"zaya", "its queries and keys come from convolutions, and its router is an MLP"},
    {"inkling_mm_model", "its keys, values and outputs pass short convolutions"},
    {"mamba mamba2 falcon_mamba rwkv rwkv6 rwkv7 xlstm", "none of its blocks has attention"}};

const char* family_refusal(const char* name, size_t size) {
	char word[64];
	snprintf(word, sizeof word, "%.*s", (int)(size < sizeof word ? size : sizeof word), name);
	for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
		if (json_lists(refusals[i].names, word))
			return refusals[i].reason;
	return NULL;
}

/* Adds a name, or the end of a list for which there is no room, and returns false. */
static bool append_family(char* out, size_t size, const char* name) {
	static const char end[] = " and others";
	const size_t used = strlen(out);
	const bool fits = used + strlen(name) + 2 + sizeof end <= size;
	snprintf(out + used, size - used, fits && used ? ", %s" : "%s", fits ? name : end);
	return fits;
}

const char* family_names(char* out, size_t size) {
	out[0] = '\0';
	for (int i = 0; i < FAMILIES; i++)
		if (!append_family(out, size, families[i].name))
			break;
	return out;
}

const char* family_architectures(char* out, size_t size) {
	out[0] = '\0';
	for (int i = 0; i < FAMILIES; i++) {
		const char* name = families[i].architecture;
		if (family_by_architecture(name, strlen(name)) == &families[i] && !append_family(out, size, name))
			break;
	}
	return out;
}
