/* A row's logits are the same bits however it is computed: support_invariance.h, on every instruction set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/kernels/support_invariance.h"
#include "tests/sanitized.h"

static const char* const isas[] = {"reference", "avx2", "avx-vnni", "avx512", "neon", "dotprod", "i8mm"};

static struct backend* open_cpu(const struct weight_table* weights, const struct invariance_way* way,
                                int threads, struct error* error) {
	const struct backend_options options = {
	    .isa = way->isa, .threads = threads, .context = INVARIANCE_CONTEXT, .interleaves = true};
	return cpu_open(weights, &options, error);
}

/* Rows of 1, a slice and its neighbours, the paper's largest tree, the most a pass takes. */
static void try_model(const struct model_shape* shape, const enum dtype* types, int n_types, int with,
                      uint64_t seed, enum dtype cache_type, const int* sizes, int n_sizes) {
	struct random_model* m = random_model_make(shape, types, n_types, with, seed);
	for (size_t i = 0; i < sizeof isas / sizeof *isas; i++) {
		if (SANITIZED && (i ^ seed) % 2) /* else each model on half of the instruction sets */
			continue;
		const struct invariance_way way = {
		    .open = open_cpu, .isa = isas[i], .cache = cache_type, .size = sizes, .n_sizes = n_sizes};
		invariance_holds(m, &way, seed + i);
	}
	random_model_free(m);
}

static const int all_sizes[] = {1, 2, 5, 17, 64, 65, 83, 130, 256};
static const int some_sizes[] = {1, 5, 65, 130};
static const int few_sizes[] = {3, SANITIZED ? 20 : 70}; /* sanitized, llama_f32 alone is cut in slices */
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

/* How rows are cut in slices is the same for every model: llama_f32 and llama_f16 try all of it. */
static void try_sizes(const struct model_shape* shape, const enum dtype* types, int n_types, int with,
                      uint64_t seed, enum dtype cache_type) {
	try_model(shape, types, n_types, with, seed, cache_type, SANITIZED ? few_sizes : some_sizes,
	          SANITIZED ? COUNT(few_sizes) : COUNT(some_sizes));
}

static void llama_f32(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F32};
	const struct model_shape shape = random_shape(3, 48, 4, 2, 16, 80, 97);
	static const int two_sizes[] = {17, 256};
	try_model(&shape, types, 1, 0, 1, DTYPE_F32, SANITIZED ? two_sizes : all_sizes,
	          SANITIZED ? COUNT(two_sizes) : COUNT(all_sizes));
}

static void llama_f16(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16, DTYPE_BF16, DTYPE_F32};
	struct model_shape shape = random_shape(3, 40, 6, 1, 10, 54, 130);
	shape.rope.scaling = ROPE_DYNAMIC;
	shape.rope.factor = 2;
	shape.rope.original_context = 32;
	try_model(&shape, types, 3, WITH_BIASES | WITH_TIED_HEAD, 2, DTYPE_F16, SANITIZED ? few_sizes : all_sizes,
	          SANITIZED ? COUNT(few_sizes) : COUNT(all_sizes));
}

static void quantized(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_F16};
	struct model_shape shape = random_shape(2, 64, 2, 2, 32, 96, 64);
	shape.rope.interleaved = true;
	try_model(&shape, types, 3, WITH_HEAD_NORMS, 3, DTYPE_F16, few_sizes, COUNT(few_sizes));
}

static void gemma_like(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_BF16};
	struct model_shape shape = random_shape(4, 36, 4, 2, 18, 60, 77);
	shape.norm_plus_one = true;
	shape.activation = ACTIVATION_GELU_TANH;
	shape.embedding_scale = 6;
	try_sizes(&shape, types, 1, WITH_POST_NORMS | WITH_SOFTCAPS | WITH_WINDOW | WITH_TIED_HEAD, 4, DTYPE_F16);
}

static void phi_like(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F32, DTYPE_F16};
	const float small[] = {1, 1.1f, 1.2f, 1.3f, 1.4f, 1.5f}, large[] = {1, 2, 3, 4, 5, 6};
	struct model_shape shape = random_shape(2, 64, 2, 1, 24, 64, 51);
	shape.rope = (struct rope){.scaling = ROPE_LONGROPE,
	                           .dim = 12,
	                           .theta = 10000,
	                           .factor = 1,
	                           .original_context = 50,
	                           .attention_factor = 1.2f,
	                           .short_factor = small,
	                           .long_factor = large};
	try_model(&shape, types, 2, 0, 5, DTYPE_F32, few_sizes, COUNT(few_sizes));
}

/* Norms after the sub-layers alone and over all heads at once; a window with a RoPE of its own; a block
 * without positions (OLMo 3, EXAONE 4). */
static void olmo_like(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_BF16};
	struct model_shape shape = random_shape(4, 48, 4, 2, 16, 60, 77);
	shape.sliding_rope = (struct rope){.dim = 16, .theta = 100, .factor = 1, .attention_factor = 1};
	block_set_put(&shape.unrotated, 3);
	try_sizes(&shape, types, 1, WITH_POST_NORMS | WITH_WINDOW | WITH_NORM_OVER_HEADS | WITHOUT_NORMS_BEFORE,
	          8, DTYPE_F16);
}

/* LayerNorm, multipliers, attention that grows (StableLM, Granite, Ministral 3). */
static void scaled(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F32, DTYPE_F16};
	struct model_shape shape = random_shape(3, 40, 4, 2, 10, 54, 130);
	shape.norm = NORM_LAYER;
	shape.rope.dim = 4;
	shape.residual_scale = 0.6f;
	shape.logit_scale = 0.3f;
	shape.attention_growth = 0.3f;
	shape.growth_context = 16;
	try_sizes(&shape, types, 2, WITH_BIASES, 9, DTYPE_F32);
}

/* Every row has its own experts, so that rows of a pass share some and not others. */
static void experts(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16, DTYPE_Q8_0, DTYPE_Q4_0};
	struct model_shape shape = random_shape(3, 64, 2, 1, 32, 96, 77);
	shape.n_experts = 7;
	shape.experts_used = 3;
	shape.expert_ffn = 128;
	shape.experts_normalised = true;
	try_sizes(&shape, types, 3, 0, 10, DTYPE_F16);
}

/* Sinks, biased experts in MXFP4, every second block with a window. */
static void gpt_oss_like(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_MXFP4, DTYPE_BF16};
	struct model_shape shape = random_shape(4, 64, 4, 2, 16, 96, 77);
	shape.n_experts = 5;
	shape.experts_used = 2;
	shape.expert_ffn = 96;
	shape.experts_normalised = true;
	shape.activation = ACTIVATION_SWIGLU_CLAMPED;
	try_sizes(&shape, types, 2, WITH_SINKS | WITH_WINDOW | WITH_BIASES, 11, DTYPE_F16);
}

/* Experts chosen by sigmoids from the best groups, and one that every row goes through (GLM 4.5). */
static void glm_like(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16, DTYPE_Q8_0};
	struct model_shape shape = random_shape(3, 64, 2, 1, 32, 96, 77);
	shape.n_experts = 8;
	shape.experts_used = 3;
	shape.expert_ffn = 32;
	shape.shared_ffn = 160;
	shape.experts_normalised = true;
	shape.experts_sigmoid = true;
	shape.experts_scale = 1.5f;
	shape.expert_groups = 4;
	shape.expert_groups_used = 2;
	try_sizes(&shape, types, 2, WITH_CHOICE, 12, DTYPE_F16);
	shape.expert_groups = 0;
	shape.experts_sigmoid = false;
	try_sizes(&shape, types, 2, 0, 13, DTYPE_F16);
}

/* Heads of two sizes, values that are keys, blocks that read other blocks' keys, inputs by token and block,
 * experts beside MLPs (Gemma 4). */
static void gemma4_like(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_BF16, DTYPE_F32};
	struct model_shape shape = random_shape(8, 48, 4, 2, 8, 60, 77);
	shape.rope.dim = 16;
	shape.sliding_rope = (struct rope){.dim = 8, .theta = 100, .factor = 1, .attention_factor = 1};
	shape.full_head_dim = 16;
	shape.full_kv_heads = 1;
	shape.sharing_from = 5;
	shape.token_input = 6;
	shape.value_norm = true;
	shape.activation = ACTIVATION_GELU_TANH;
	const int with = WITH_HEAD_NORMS | WITH_POST_NORMS | WITH_WINDOW | WITH_STREAM_SCALE | WITH_TIED_HEAD;
	try_sizes(&shape, types, 2, with, 14, DTYPE_F16);
	shape.sharing_from = shape.token_input = 0;
	shape.n_blocks = 4;
	shape.n_experts = 6;
	shape.experts_used = 2;
	shape.expert_ffn = 24;
	shape.experts_normalised = true;
	shape.router_scale = 0.2f;
	try_model(&shape, types, 2, with | WITH_KEYS_AS_VALUES | WITH_MLP_BESIDE, 15, DTYPE_F16, few_sizes,
	          COUNT(few_sizes));
}

/* Keys and values of all heads in a few elements (DeepSeek-V2). */
static void latent_like(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_BF16, DTYPE_F32};
	struct model_shape shape = random_shape(3, 48, 4, 1, 26, 60, 77);
	shape.rope.dim = 6;
	shape.rope.interleaved = true;
	shape.latent = 20;
	shape.query_latent = 12;
	shape.nope_dim = 10;
	shape.value_dim = 14;
	shape.latent_epsilon = 1e-6f;
	shape.n_experts = 8;
	shape.experts_used = 2;
	shape.expert_ffn = 24;
	shape.shared_ffn = 24;
	shape.expert_groups = 4;
	shape.expert_groups_used = 2;
	shape.groups_by_best = true;
	try_sizes(&shape, types, 2, 0, 18, DTYPE_F16);
	shape.query_latent = 0;
	shape.n_experts = 0;
	try_model(&shape, types, 2, 0, 19, DTYPE_F32, few_sizes, COUNT(few_sizes));
}

/* Attention and MLP that read the same norm, which has no bias (Cohere). */
static void cohere_like(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16, DTYPE_F32};
	struct model_shape shape = random_shape(4, 40, 4, 2, 10, 54, 130);
	shape.norm = NORM_LAYER;
	shape.parallel = true;
	shape.logit_scale = 0.3f;
	shape.rope.interleaved = true;
	block_set_put(&shape.unrotated, 1);
	try_sizes(&shape, types, 2, WITH_BIASES | WITH_WINDOW, 20, DTYPE_F16);
	shape.norms_by_head = true; /* Command R+, StableLM */
	try_model(&shape, types, 2, WITH_NORM_OVER_HEADS, 26, DTYPE_F16, few_sizes, COUNT(few_sizes));
}

/* MLPs without a gate, norms after the rotation (Arcee, Apertus, Hunyuan). */
static void ungated(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F32, DTYPE_F16};
	struct model_shape shape = random_shape(3, 40, 4, 2, 10, 54, 130);
	shape.activation = ACTIVATION_RELU2;
	shape.ungated = true;
	shape.norm_after_rope = true;
	try_model(&shape, types, 2, WITH_BIASES | WITH_HEAD_NORMS, 16, DTYPE_F32, few_sizes, COUNT(few_sizes));
	shape.activation = ACTIVATION_XIELU;
	try_model(&shape, types, 2, 0, 17, DTYPE_F16, few_sizes, COUNT(few_sizes));
	shape.activation = ACTIVATION_GELU;
	try_model(&shape, types, 2, 0, 23, DTYPE_F16, few_sizes, COUNT(few_sizes));
}

/* Rows of several states, of which blocks compute one, beside keys that blocks share, inputs by token and
 * block and sparse gates (Gemma 3n). The table of token inputs is shorter than the vocabulary. */
static void gemma3n_like(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16, DTYPE_F32};
	struct model_shape shape = random_shape(6, 48, 4, 2, 8, 60, 77);
	shape.sliding_rope = (struct rope){.dim = 8, .theta = 100, .factor = 1, .attention_factor = 1};
	shape.sharing_from = 3;
	shape.token_input = 6;
	shape.altup = 4;
	shape.value_norm = true;
	shape.activation = ACTIVATION_GELU_TANH;
	const int with = WITH_HEAD_NORMS | WITH_POST_NORMS | WITH_WINDOW | WITH_SOFTCAPS;
	try_sizes(&shape, types, 2, with, 24, DTYPE_F16);
	shape.altup = 2;
	shape.activation = ACTIVATION_GELU;
	try_model(&shape, types, 2, with, 25, DTYPE_F32, few_sizes, COUNT(few_sizes));
}

/* Recurrent blocks, of which trees fork the states, beside gated attention (Qwen 3.5, Qwen3-Next). */
static void recurrent(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16, DTYPE_Q8_0, DTYPE_F32};
	struct model_shape shape = random_shape(4, 64, 4, 2, 16, 96, 77);
	shape.attention_gated = shape.norm_plus_one = true;
	shape.rope.dim = 4;
	shape.recurrence = (struct recurrence){
	    .key_heads = 2, .value_heads = 4, .key_dim = 12, .value_dim = 20, .kernel = 4, .log_rates = true};
	block_set_put(&shape.recurrent, 0);
	block_set_put(&shape.recurrent, 1);
	block_set_put(&shape.recurrent, 3);
	try_sizes(&shape, types, 3, WITH_HEAD_NORMS | WITH_BIASES, 14, DTYPE_F16);
	shape.recurrence = (struct recurrence){
	    .key_heads = 1, .value_heads = 3, .key_dim = 17, .value_dim = 66, .kernel = 1, .tiled = true};
	shape.attention_gated = false;
	try_model(&shape, types, 1, 0, 15, DTYPE_F32, few_sizes, COUNT(few_sizes));
}

/* Gated attention without recurrent blocks, beside experts and norms on both sides (Trinity). */
static void gated(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16, DTYPE_F32};
	struct model_shape shape = random_shape(4, 40, 6, 2, 10, 54, 130);
	shape.attention_gated = true;
	shape.n_experts = 5;
	shape.experts_used = 2;
	shape.expert_ffn = 22;
	shape.shared_ffn = 30;
	shape.experts_sigmoid = shape.experts_normalised = true;
	block_set_put(&shape.unrotated, 1);
	try_model(&shape, types, 2, WITH_HEAD_NORMS | WITH_POST_NORMS | WITH_WINDOW, 27, DTYPE_F16, few_sizes,
	          COUNT(few_sizes));
}

/* Mamba-2's blocks, with the norm behind the gate and before it (Granite 4, Falcon H1). */
static void state_space(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16, DTYPE_Q8_0, DTYPE_F32};
	struct model_shape shape = random_shape(4, 64, 4, 2, 16, 96, 77);
	shape.recurrence = (struct recurrence){.key_heads = 2,
	                                       .value_heads = 6,
	                                       .key_dim = 12,
	                                       .value_dim = 20,
	                                       .kernel = 4,
	                                       .log_rates = true,
	                                       .state_space = true,
	                                       .gate_first = true};
	block_set_put(&shape.recurrent, 0);
	block_set_put(&shape.recurrent, 1);
	block_set_put(&shape.recurrent, 3);
	try_sizes(&shape, types, 3, 0, 21, DTYPE_F16);
	shape.recurrence = (struct recurrence){
	    .key_heads = 1, .value_heads = 3, .key_dim = 17, .value_dim = 66, .kernel = 2, .state_space = true};
	try_model(&shape, types, 1, 0, 22, DTYPE_F32, few_sizes, COUNT(few_sizes));
}

/* Blocks without an MLP, experts without a gate, one of them shared (Nemotron-H). */
static void nemotron_like(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16, DTYPE_Q8_0};
	struct model_shape shape = random_shape(5, 64, 4, 2, 16, 96, 77);
	shape.activation = ACTIVATION_RELU2;
	shape.ungated = true;
	shape.recurrence = (struct recurrence){.key_heads = 1,
	                                       .value_heads = 4,
	                                       .key_dim = 16,
	                                       .value_dim = 12,
	                                       .kernel = 3,
	                                       .state_space = true,
	                                       .gate_first = true};
	block_set_put(&shape.recurrent, 0);
	block_set_put(&shape.recurrent, 1);
	block_set_put(&shape.without_mlp, 1);
	block_set_put(&shape.without_mlp, 3);
	shape.n_experts = 6;
	shape.experts_used = 2;
	shape.expert_ffn = 32;
	shape.shared_ffn = 64;
	shape.experts_normalised = shape.experts_sigmoid = true;
	try_model(&shape, types, 2, WITH_CHOICE, 23, DTYPE_F16, few_sizes, COUNT(few_sizes));
}

/* Experts chosen one after another, RoPE's factors by length, a bias of the head (Phi-MoE). */
static void phimoe_like(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16, DTYPE_Q8_0};
	const float factors[] = {1, 1.1f, 1.2f, 1.3f, 1.4f, 1.5f, 1.6f, 1.7f};
	struct model_shape shape = random_shape(3, 64, 4, 2, 16, 96, 77);
	shape.norm = NORM_LAYER;
	shape.rope.scaling = ROPE_LONGROPE;
	shape.rope.original_context = 40;
	shape.rope.attention_factor = 1.2f;
	shape.rope.beyond_factor = 1.4f;
	shape.rope.short_factor = shape.rope.long_factor = factors;
	shape.n_experts = 7;
	shape.experts_used = 3;
	shape.expert_ffn = 32;
	shape.experts_in_turn = true;
	shape.experts_near = 0.5f;
	try_model(&shape, types, 2, WITH_BIASES, 24, DTYPE_F16, few_sizes, COUNT(few_sizes));
}

/* Attention in chunks, which grows in blocks without positions, and experts that weigh their inputs (Llama
 * 4). */
static void llama4_like(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16, DTYPE_F32};
	struct model_shape shape = random_shape(4, 48, 4, 2, 12, 60, 77);
	shape.rope.interleaved = shape.norm_after_rope = true;
	shape.window_in_chunks = shape.growth_unrotated = true;
	shape.attention_growth = 0.3f;
	shape.growth_context = 7;
	block_set_put(&shape.unrotated, 1);
	block_set_put(&shape.unrotated, 3);
	shape.n_experts = 6;
	shape.experts_used = 2;
	shape.expert_ffn = shape.shared_ffn = 24;
	shape.experts_sigmoid = shape.experts_weigh_input = true;
	try_sizes(&shape, types, 2, WITH_WINDOW | WITH_HEAD_NORMS, 25, DTYPE_F16);
}

/* Attention beside Mamba-2 in pairs of blocks, and factors of every part (Falcon-H1). */
static void falcon_like(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16, DTYPE_Q8_0, DTYPE_F32};
	struct model_shape shape = random_shape(6, 64, 4, 2, 16, 96, 77);
	shape.recurrence = (struct recurrence){.key_heads = 2,
	                                       .value_heads = 4,
	                                       .key_dim = 12,
	                                       .value_dim = 20,
	                                       .kernel = 3,
	                                       .log_rates = true,
	                                       .state_space = true,
	                                       .input_scale = {0.7f, 1.3f, 0.5f, 1.6f, 1.2f}};
	shape.attention_out_scale = 0.8f;
	shape.recurrent_out_scale = 0.6f;
	shape.mlp_out_scale = 1.7f;
	shape.gate_scale = 0.6f;
	for (int b = 0; b < shape.n_blocks; b += 2) {
		block_set_put(&shape.recurrent, b);
		block_set_put(&shape.without_mlp, b);
		block_set_put(&shape.beside_recurrence, b + 1);
	}
	try_sizes(&shape, types, 3, 0, 26, DTYPE_F16);
}

/* Matrices large enough to be cut in parts for the pool. */
static void large_matrices(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16};
	const struct model_shape shape = random_shape(2, 256, 4, 4, 64, 700, 300);
	try_model(&shape, types, 1, 0, 6, DTYPE_F16, few_sizes, COUNT(few_sizes));
}

/* So many logits that a slice's rows do not fit the workspace at once. */
static void large_vocabulary(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16};
	const struct model_shape shape = random_shape(1, 16, 1, 1, 16, 16, 70000);
	const int sizes[] = {66};
	try_model(&shape, types, 1, WITH_TIED_HEAD, 7, DTYPE_F16, sizes, 1);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(llama_f32),
	                                   cmocka_unit_test(llama_f16),
	                                   cmocka_unit_test(quantized),
	                                   cmocka_unit_test(gemma_like),
	                                   cmocka_unit_test(phi_like),
	                                   cmocka_unit_test(large_matrices),
	                                   cmocka_unit_test(large_vocabulary),
	                                   cmocka_unit_test(olmo_like),
	                                   cmocka_unit_test(scaled),
	                                   cmocka_unit_test(experts),
	                                   cmocka_unit_test(gpt_oss_like),
	                                   cmocka_unit_test(glm_like),
	                                   cmocka_unit_test(gemma4_like),
	                                   cmocka_unit_test(ungated),
	                                   cmocka_unit_test(latent_like),
	                                   cmocka_unit_test(gemma3n_like),
	                                   cmocka_unit_test(cohere_like),
	                                   cmocka_unit_test(recurrent),
	                                   cmocka_unit_test(gated),
	                                   cmocka_unit_test(state_space),
	                                   cmocka_unit_test(nemotron_like),
	                                   cmocka_unit_test(phimoe_like),
	                                   cmocka_unit_test(llama4_like),
	                                   cmocka_unit_test(falcon_like)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
