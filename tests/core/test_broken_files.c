/* Minimal broken files, each with the message it must give: safetensors, config.json, GGUF, folders. They are
 * made here from a good file and one change, in a folder of their own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/files/gguf.h"
#include "core/files/safetensors.h"
#include "core/model/config.h"
#include "core/model/model.h"

/* The message must hold every part, and name the file. */
static void expect(bool good, const struct error* error, const char* part) {
	if (good)
		fail_msg("accepted, expected a message with \"%s\"", part);
	if (!strstr(error->message, part))
		fail_msg("the message is \"%s\", expected \"%s\" in it", error->message, part);
	if (!strstr(error->message, "broken"))
		fail_msg("the message \"%s\" does not name the file", error->message);
}

/* ---- safetensors -------------------------------------------------------------------------- */

static size_t put_header(uint8_t* out, uint64_t length, const char* header, size_t data) {
	for (int i = 0; i < 8; i++)
		out[i] = (uint8_t)(length >> 8 * i);
	const size_t n = strlen(header);
	memcpy(out + 8, header, n);
	memset(out + 8 + n, 1, data);
	return 8 + n + data;
}

static void refuse_safetensors(const char* header, uint64_t length, size_t data, const char* part) {
	static uint8_t file[4096];
	struct tensor_table table = {0};
	struct error error = {""};
	const size_t size = put_header(file, length ? length : strlen(header), header, data);
	uint8_t* exact = malloc(size); /* so that a sanitizer sees a step too far */
	assert_non_null(exact);
	memcpy(exact, file, size);
	const bool good = safetensors_read(&table, exact, size, "broken.safetensors", &error) &&
	                  tensor_table_seal(&table, &error);
	expect(good, &error, part);
	tensor_table_free(&table);
	free(exact);
}

static void safetensors(void** state) {
	(void)state;
	static const struct {
		const char* header;
		uint64_t length; /* 0: as it is */
		size_t data;
		const char* part;
	} broken[] = {
	    {"{}", 1000, 0, "header's length is 1000, but the file has 2 bytes after it"},
	    {"{}", UINT64_MAX, 0, "header's length is 18446744073709551615"},
	    {"{}", UINT64_MAX - 7, 0, "header's length"},
	    {"{\"a\"", 0, 0, "not JSON"},
	    {"[]", 0, 0, "not a JSON object"},
	    {"{} x", 0, 0, "more text follows the JSON value, at byte 3"},
	    {"{\"a\": 5}", 0, 0, "tensor a is not a JSON object"},
	    {"{\"a\": {\"shape\": [1], \"data_offsets\": [0, 4]}}", 0, 4, "tensor a: dtype is missing"},
	    {"{\"a\": {\"dtype\": \"F31\", \"shape\": [1], \"data_offsets\": [0, 4]}}", 0, 4,
	     "dtype F31 is not known"},
	    {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1, 1, 1, 1, 1, 1, 1, 1, 1], \"data_offsets\": [0, 4]}}", 0,
	     4, "shape is not an array of at most 8"},
	    {"{\"a\": {\"dtype\": \"F32\", \"shape\": [-1], \"data_offsets\": [0, 4]}}", 0, 4,
	     "a size in shape is not a whole number"},
	    {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1.5], \"data_offsets\": [0, 4]}}", 0, 4,
	     "a size in shape is not a whole number"},
	    {"{\"a\": {\"dtype\": \"F32\", \"shape\": [4294967296, 4294967296], \"data_offsets\": [0, 4]}}", 0, 4,
	     "larger than any file"},
	    {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1]}}", 0, 4, "data_offsets is not a pair"},
	    {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4, 8]}}", 0, 8,
	     "data_offsets is not a pair"},
	    {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 0]}}", 0, 4,
	     "lie outside the 4 bytes of data"},
	    {"{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}}", 0, 4,
	     "lie outside the 4 bytes of data"},
	    {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [9007199254740993, "
	     "9007199254740997]}}",
	     0, 4, "data_offsets"},
	    {"{\"a\": {\"dtype\": \"F16\", \"shape\": [1], \"data_offsets\": [0, 4]}}", 0, 4,
	     "span 4 bytes, but dtype and shape need 2"},
	    {"{\"a\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [0, 8]}, "
	     "\"b\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 8]}}",
	     0, 8, "tensors a and b overlap"},
	    {"{\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}, "
	     "\"a\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 8]}}",
	     0, 8, "tensor a occurs twice"},
	};
	for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
		refuse_safetensors(broken[i].header, broken[i].length, broken[i].data, broken[i].part);
	struct error error = {""};
	struct tensor_table table = {0};
	expect(safetensors_read(&table, (const uint8_t*)"\1\0\0", 3, "broken.safetensors", &error), &error,
	       "3 bytes are too few");
}

/* JSON that nests a million deep ends in a message, not in a stack that overflows. */
static void deep_nesting(void** state) {
	(void)state;
	const size_t n = 1000000;
	char* text = malloc(n);
	assert_non_null(text);
	memset(text, '[', n);
	struct error error = {""};
	struct config config = {0};
	expect(config_parse(&config, text, n, "broken/config.json", &error), &error, "nested deeper than");
	config_free(&config);
	free(text);
}

/* ---- config.json -------------------------------------------------------------------------- */

/* A config with one more field, which wins over a good one of that name by coming first. */
static void refuse_config(const char* field, const char* part) {
	static const char* const good[] = {"\"model_type\": \"llama\"",  "\"num_hidden_layers\": 4",
	                                   "\"hidden_size\": 64",        "\"num_attention_heads\": 4",
	                                   "\"num_key_value_heads\": 2", "\"intermediate_size\": 96",
	                                   "\"vocab_size\": 100",        "\"max_position_embeddings\": 64"};
	char text[2048];
	size_t n = (size_t)snprintf(text, sizeof text, "{%s", field);
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		const size_t name = (size_t)(strchr(good[i] + 1, '"') - good[i]) + 1;
		if (strncmp(field, good[i], name) != 0)
			n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n > 1 ? ", " : "", good[i]);
	}
	snprintf(text + n, sizeof text - n, "}");
	struct error error = {""};
	struct config config = {0};
	const bool accepted = config_parse(&config, text, strlen(text), "broken/config.json", &error);
	config_free(&config);
	if (part)
		expect(accepted, &error, part);
	else if (!accepted)
		fail_msg("%s: %s", field, error.message);
}

/* Of the four blocks that refuse_config gives, three with Mamba-2. */
#define MAMBA                                                                                                \
	"\"model_type\": \"granitemoehybrid\", \"num_local_experts\": 0, \"mamba_n_heads\": 4, "                 \
	"\"layer_types\": "                                                                                      \
	"[\"mamba\", \"attention\", \"linear_attention\", \"mamba\"]"

#define NEMOTRON "\"model_type\": \"nemotron_h\", \"hybrid_override_pattern\": "

#define PHIMOE                                                                                               \
	"\"model_type\": \"phimoe\", \"rope_scaling\": {\"original_max_position_embeddings\": 64, "              \
	"\"short_factor\": [1, 1, 1, 1, 1, 1, 1, 1], \"long_factor\": [1, 1, 1, 1, 1, 1, 1, 1], "
#define GRANITE_SWA "\"model_type\": \"granite_swa\", \"layer_rope_theta\": "
#define LLAMA4 "\"model_type\": \"llama4_text\", "
#define GEMMA3N "\"model_type\": \"gemma3n_text\", \"num_kv_shared_layers\": 0, "
#define FALCON "\"model_type\": \"falcon_h1\", \"mamba_d_ssm\": 64, \"mamba_n_heads\": 4, "

static void config(void** state) {
	(void)state;
	static const char* const broken[][2] = {
	    {"\"tie_word_embeddings\": true", NULL},
	    {"\"model_type\": \"bloom\"",
	     "model_type is \"bloom\", which is not supported; supported are llama, mistral"},
	    {"\"model_type\": \"bloom\"", " and others"},
	    {"\"model_type\": \"gemma4_assistant\"", "text_config is missing, and a gemma4_assistant needs it"},
	    {"\"model_type\": \"jamba\"",
	     "model_type is \"jamba\", which is not supported: its recurrent blocks are of Mamba's first kind"},
	    {"\"model_type\": \"qwen2_moe\", \"layer_types\": [\"full_attention\", \"sliding_attention\", "
	     "\"full_attention\", \"full_attention\"]",
	     "layer_types has sliding_attention, but use_sliding_window is not true"},
	    {"\"quantization_config\": {\"quant_method\": \"awq\", \"bits\": 8}",
	     "awq\" with bits 8, which is not supported"},
	    {GEMMA3N "\"altup_active_idx\": 1", "altup_active_idx is 1, which is not supported; supported is 0"},
	    {GEMMA3N "\"altup_num_inputs\": 9", "altup_num_inputs is 9"},
	    {GEMMA3N "\"activation_sparsity_pattern\": [0.5, 0, 1, 0]",
	     "activation_sparsity_pattern[2] is not a number from 0 to below 1"},
	    {GEMMA3N "\"activation_sparsity_pattern\": [0.5]",
	     "activation_sparsity_pattern is not an array of 4 numbers"},
	    {"\"model_type\": \"gemma3n_text\"", "num_kv_shared_layers is 15, which is all of 4 blocks"},
	    {GEMMA3N "\"intermediate_size\": [8, 8]", "intermediate_size is neither a number nor an array of 4"},
	    {GEMMA3N "\"intermediate_size\": [8, 8, 0, 8]", "intermediate_size[2] is not a number from 1 to"},
	    {"\"model_type\": \"qwen3_5_text\", \"hidden_act\": \"gelu\"",
	     "hidden_act is \"gelu\", which is not supported beside recurrent blocks; supported is silu"},
	    {FALCON "\"hidden_act\": \"gelu_pytorch_tanh\"",
	     "hidden_act is \"gelu_pytorch_tanh\", which is not supported beside recurrent blocks"},
	    {"\"model_type\": null", "model_type is missing"},
	    {"\"model_type\": 3", "model_type is 3, expected a string"},
	    {"\"num_hidden_layers\": null", "num_hidden_layers is missing"},
	    {"\"num_hidden_layers\": 0", "num_hidden_layers is 0, expected a whole number from 1 to 256"},
	    {"\"num_hidden_layers\": 257", "num_hidden_layers is 257"},
	    {"\"num_hidden_layers\": 2.5", "num_hidden_layers is 2.5"},
	    {"\"num_hidden_layers\": \"4\"", "num_hidden_layers is \"4\""},
	    {"\"hidden_size\": 1e300", "hidden_size is 1"},
	    {"\"hidden_size\": 63", "hidden_size 63 is not a multiple of num_attention_heads 4"},
	    {"\"num_key_value_heads\": 3", "4 attention heads are not a multiple of 3 key/value heads"},
	    {"\"head_dim\": 15", "RoPE rotates 15 of a head's 15 elements"},
	    {"\"vocab_size\": -1", "vocab_size is -1"},
	    {"\"rms_norm_eps\": \"x\"", "rms_norm_eps is \"x\", expected a number"},
	    {"\"hidden_act\": \"mish\"", "hidden_act is \"mish\", which is not supported"},
	    {"\"hidden_act\": \"xielu\"", "hidden_act is \"xielu\", which is not supported"},
	    {"\"attention_bias\": 1", "attention_bias is 1, expected true or false"},
	    {"\"quantization_config\": {\"bits\": 4}",
	     "quantization_config.quant_method is \"\", which is not supported"},
	    {"\"quantization_config\": {\"quant_method\": \"awq\"}", NULL},
	    {"\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4, \"group_size\": -1}", NULL},
	    {"\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 3}",
	     "quant_method is \"gptq\" with bits 3, which is not supported; supported are gptq with 4 and 8 "
	     "bits, awq with 4"},
	    {"\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 8}", NULL},
	    {"\"quantization_config\": {\"quant_method\": \"awq\", \"version\": \"gemv\"}",
	     "quant_method is \"awq\", version gemv, which is not supported"},
	    {"\"quantization_config\": {\"quant_method\": \"gptq\", \"checkpoint_format\": \"marlin\"}",
	     "quant_method is \"gptq\", checkpoint_format marlin, which is not supported"},
	    {"\"quantization_config\": {\"quant_method\": \"gptq\", \"group_size\": \"x\"}",
	     "group_size is \"x\""},
	    {"\"quantization_config\": {\"quant_method\": \"mxfp4\"}",
	     "quant_method is \"mxfp4\", which is not supported"},
	    {"\"quantization_config\": {\"quant_method\": \"bitsandbytes\"}",
	     "quant_method is \"bitsandbytes\" with load_in_4bit false, which is not supported"},
	    {"\"quantization_config\": {\"quant_method\": \"hqq\"}",
	     "quant_method is \"hqq\", which is not supported"},
	    {"\"model_type\": \"gpt_oss\", \"quantization_config\": {\"quant_method\": \"mxfp4\"}", NULL},
	    {"\"model_type\": \"gpt_oss\", \"swiglu_limit\": 10", "swiglu_limit is 10 and swiglu_alpha 1.702"},
	    {"\"model_type\": \"gpt_oss\", \"num_local_experts\": 3",
	     "num_experts_per_tok is 4, expected at most the 3 experts"},
	    {"\"model_type\": \"granitemoehybrid\", \"num_local_experts\": 0, \"layer_types\": [\"attention\", "
	     "\"sliding\", \"mamba\", \"attention\"]",
	     "layer_types[1] is neither full_attention nor linear_attention"},
	    {"\"model_type\": \"granitemoehybrid\", \"num_local_experts\": 0, \"mamba_n_heads\": 4, "
	     "\"layer_types\": "
	     "[\"mamba\", \"mamba\", \"mamba\", \"mamba\"]",
	     "all 4 blocks are recurrent"},
	    {"\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"format\": "
	     "\"marlin-24\"}",
	     "quant_method is \"compressed-tensors\", format marlin-24, which is not supported"},
	    {"\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"format\": "
	     "\"int-quantized\", "
	     "\"config_groups\": {\"group_0\": {\"weights\": {\"num_bits\": 4}}}}",
	     "quant_method is \"compressed-tensors\" with num_bits 4, which is not supported"},
	    {"\"quantization_config\": {\"quant_method\": \"modelopt\", \"quant_algo\": \"W4A8_AWQ\"}",
	     "quant_method is \"modelopt\", quant_algo W4A8_AWQ, which is not supported"},
	    {"\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"format\": "
	     "\"pack-quantized\", "
	     "\"config_groups\": {\"group_0\": {\"weights\": {\"num_bits\": 6}}}}",
	     "quant_method is \"compressed-tensors\" with num_bits 6, which is not supported"},
	    {"\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"format\": "
	     "\"float-quantized\", "
	     "\"config_groups\": {\"group_0\": {\"weights\": {\"block_structure\": 128}}}}",
	     "block_structure is not a pair of sizes"},
	    {"\"quantization\": {\"group_size\": 64, \"bits\": 4}",
	     "the folder is quantized by MLX, which is not supported; convert it once with: mlx_lm.convert"},
	    {"\"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": [128]}",
	     "weight_block_size is not a pair of sizes"},
	    {"\"num_local_experts\": 8",
	     "num_local_experts is 8, which is not supported; only 0 is, or a config without the field"},
	    {"\"model_type\": \"mixtral\", \"num_experts_per_tok\": 9",
	     "num_experts_per_tok is 9, expected at most the 8 experts"},
	    {"\"model_type\": \"mixtral\", \"num_local_experts\": 99999", "num_local_experts is 99999"},
	    {"\"model_type\": \"qwen3_moe\", \"mlp_only_layers\": [4]",
	     "mlp_only_layers must list numbers of blocks, and the model has 4"},
	    {"\"model_type\": \"gemma4_text\", \"enable_moe_block\": \"yes\"",
	     "enable_moe_block is \"yes\", expected true or false"},
	    {"\"model_type\": \"gemma3_text\", \"rope_parameters\": {\"full_attention\": {\"rope_type\": "
	     "\"longrope\", \"short_factor\": [1, 1, 1, 1], \"long_factor\": [1, 1, 1, 1]}, "
	     "\"sliding_attention\": {\"rope_type\": \"longrope\", \"short_factor\": [1, 1]}}",
	     "short_factor is not an array of"},
	    /* no block uses the sizes, but memory is laid out by them */
	    {"\"model_type\": \"qwen3_5_text\", \"full_attention_interval\": 1, \"linear_num_key_heads\": "
	     "16777216, \"linear_num_value_heads\": 16777216",
	     "expected heads of at most 2^20 elements and a convolution of at most 16"},
	    {"\"model_type\": \"smollm3\", \"no_rope_layers\": [1, 0]",
	     "no_rope_layers is not an array of 4 numbers"},
	    {"\"model_type\": \"smollm3\", \"no_rope_layers\": [1, 0, 2, 1]",
	     "no_rope_layers[2] is neither 0 nor 1"},
	    {"\"model_type\": \"mistral3\"", "text_config is missing, and a mistral3 needs it"},
	    {"\"model_type\": \"granite\", \"logits_scaling\": 0", "logits_scaling is 0"},
	    {"\"logits_scaling\": 2",
	     "logits_scaling is 2, which is not supported; only 1 is, or a config without the field"},
	    {"\"partial_rotary_factor\": 0.5", "partial_rotary_factor is 0.5"},
	    {"\"rope_theta\": -1", "rope_theta is -1"},
	    {"\"rope_scaling\": 7", "rope_scaling is not a JSON object"},
	    {"\"rope_scaling\": {\"type\": \"ntk\", \"factor\": 2}",
	     "rope_type is \"ntk\", which is not supported"},
	    {"\"rope_scaling\": {\"type\": \"linear\"}", "rope_scaling.factor is missing"},
	    {"\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, "
	     "\"high_freq_factor\": 1}",
	     "high_freq_factor 1 is not above low_freq_factor 4"},
	    {"\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 4, \"truncate\": 3}",
	     "truncate is 3, expected true or false"},
	    {"\"rope_scaling\": {\"rope_type\": \"longrope\", \"short_factor\": [1], \"long_factor\": [1]}",
	     "rope_scaling.short_factor is not an array of 8 numbers"},
	    {"\"rope_scaling\": {\"rope_type\": \"longrope\", \"short_factor\": [1,1,1,1,1,1,1,0], "
	     "\"long_factor\": [1]}",
	     "rope_scaling.short_factor[7] is not a positive number"},
	    {"\"eos_token_id\": 100", "eos_token_id 100 lies beyond the vocabulary of 100"},
	    {"\"eos_token_id\": [1, \"2\"]", "eos_token_id is neither a token nor a list of tokens"},
	    {"\"eos_token_id\": "
	     "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,"
	     "33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48]",
	     "has more than 48 end tokens"},
	    {"\"model_type\": \"qwen2\", \"use_sliding_window\": true, \"layer_types\": [\"full_attention\"]",
	     "layer_types is not an array of 4 names"},
	    {"\"model_type\": \"gemma2\", \"layer_types\": [\"a\", \"b\", \"c\", \"d\"]",
	     "layer_types[0] is neither"},
	    {"\"model_type\": \"mistral\", \"sliding_window\": -4", "sliding_window is -4"},
	    {MAMBA ", \"time_step_limit\": [0.0, Infinity]", NULL},
	    {MAMBA ", \"time_step_limit\": [0.0, 0.1]", "time_step_limit ends at 0.1"},
	    {MAMBA ", \"time_step_limit\": [0.001, Infinity]", "time_step_limit begins at 0.001"},
	    {MAMBA ", \"mamba_proj_bias\": true", "mamba_proj_bias is true"},
	    {MAMBA ", \"mamba_d_head\": 20",
	     "mamba_n_heads 4 with heads of 20 elements differs from mamba_expand 2 times hidden_size 64"},
	    {NEMOTRON "\"M*E-\"", "layer 3 is an MLP without a layer of attention or Mamba before it"},
	    {NEMOTRON "\"-M*\"", "layer 0 is an MLP without a layer"},
	    {NEMOTRON "\"M*x\"", "hybrid_override_pattern is not 1 to 512 letters"},
	    {NEMOTRON "\"M*E\", \"moe_latent_size\": 8", "moe_latent_size is given"},
	    {NEMOTRON "\"M*E\", \"use_bias\": true", "use_bias is true"},
	    {NEMOTRON "\"M-*E\"", NULL},
	    {"\"model_type\": \"nemotron_h\", \"layers_block_type\": [\"mamba\", 3]",
	     "layers_block_type[1] is none of"},
	    {PHIMOE "\"type\": \"longrope\"}",
	     "rope_scaling.short_mscale or rope_scaling.long_mscale is missing"},
	    {PHIMOE "\"type\": \"yarn\"}", "supported are default and longrope"},
	    {PHIMOE "\"type\": \"longrope\", \"short_mscale\": 0, \"long_mscale\": 1}", "short_mscale is 0"},
	    {"\"model_type\": \"phimoe\", \"num_local_experts\": 1", "num_local_experts is 1"},
	    {LLAMA4 "\"no_rope_layers\": [1]", "no_rope_layers is not an array of"},
	    {LLAMA4 "\"moe_layers\": [99]", "moe_layers must list numbers of blocks"},
	    {LLAMA4 "\"attention_chunk_size\": 0", "attention_chunk_size is 0"},
	    {LLAMA4 "\"num_experts_per_tok\": 17", "num_experts_per_tok is 17, expected at most the 16 experts"},
	    {FALCON "\"ssm_multipliers\": [1, 2]",
	     "ssm_multipliers is not an array of 5 numbers, none of them 0"},
	    {FALCON "\"mlp_multipliers\": [1, 0]",
	     "mlp_multipliers is not an array of 2 numbers, none of them 0"},
	    {FALCON "\"projectors_bias\": true", "projectors_bias is true"},
	    {FALCON "\"num_hidden_layers\": 129", "129 layers of two blocks each are too many"},
	    {FALCON "\"mamba_d_head\": 20",
	     "mamba_n_heads 4 with heads of 20 elements differs from mamba_d_ssm 64"},
	    {FALCON "\"attention_bias\": true, \"attention_in_multiplier\": 2", "not supported together"},
	    {GRANITE_SWA "[0, 5]", "layer_rope_theta is not an array of 4 numbers"},
	    {GRANITE_SWA "[0, 5, 0.5, 5]", "layer_rope_theta[2] is neither 0 nor a number above 1"},
	    {GRANITE_SWA "[7, 5, \"x\", 5]", "layer_rope_theta[2] is neither 0 nor a number above 1"},
	    {GRANITE_SWA "[7, 5, 6, 5]", "layer_rope_theta[2] differs from that of other blocks of its kind"},
	    {"\"model_type\": \"hunyuan_v1_moe\", \"num_experts\": 4, \"moe_topk\": [1, 2, 1, 1]",
	     "moe_topk must list the same number for all blocks"},
	    {"\"model_type\": \"hunyuan_v1_moe\", \"moe_topk\": 3", "moe_topk is 3, expected at most the 1"},
	    {"\"model_type\": \"deepseek_v2\", \"mlp_bias\": true", "mlp_bias is true beside experts"},
	    {"\"model_type\": \"hy_v3\", \"mlp_bias\": true", "mlp_bias is true beside experts"},
	    {"\"model_type\": \"lfm3\"", "which is not supported: its attention has a gate for each head"},
	    {"\"model_type\": \"hyperclovax\", \"use_post_norm\": false", "use_post_norm is false"},
	    {"\"model_type\": \"afmoe\", \"attention_bias\": true", "attention_bias is true"},
	    {"\"model_type\": \"exaone_moe\", \"sliding_window_pattern\": \"LLG\"",
	     "sliding_window_pattern is \"LLG\" without layer_types"},
	    {"\"model_type\": \"glm4_moe\", \"n_routed_experts\": 6, \"num_experts_per_tok\": 3, \"n_group\": 3",
	     "3 of 6 experts cannot come from 1 of 3 groups"},
	    {MAMBA ", \"mamba_n_groups\": 3", "4 value heads are not a multiple of 3 key heads"},
	};
	for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
		refuse_config(broken[i][0], broken[i][1]);
	struct error error = {""};
	struct config c = {0};
	expect(config_parse(&c, "[1]", 3, "broken/config.json", &error), &error, "not a JSON object");
}

/* ---- GGUF --------------------------------------------------------------------------------- */

struct bytes {
	uint8_t data[4096];
	size_t n;
};

static void put(struct bytes* b, uint64_t value, size_t size) {
	for (size_t i = 0; i < size; i++)
		b->data[b->n++] = (uint8_t)(i < 8 ? value >> 8 * i & 0xff : 0);
}

static void put_text(struct bytes* b, const char* text) {
	put(b, strlen(text), 8);
	memcpy(b->data + b->n, text, strlen(text));
	b->n += strlen(text);
}

static void put_head(struct bytes* b, uint32_t version, uint64_t tensors, uint64_t values) {
	memcpy(b->data, "GGUF", 4);
	b->n = 4;
	put(b, version, 4);
	put(b, tensors, 8);
	put(b, values, 8);
}

static void put_u32(struct bytes* b, const char* key, uint32_t value) {
	put_text(b, key);
	put(b, GGUF_U32, 4);
	put(b, value, 4);
}

static void put_tensor(struct bytes* b, const char* name, uint64_t rows, uint64_t cols, uint32_t type,
                       uint64_t offset) {
	put_text(b, name);
	put(b, 2, 4);
	put(b, cols, 8);
	put(b, rows, 8);
	put(b, type, 4);
	put(b, offset, 8);
}

static void put_data(struct bytes* b, size_t size) {
	b->n = (b->n + 31) / 32 * 32;
	memset(b->data + b->n, 0, size);
	b->n += size;
}

static void refuse_gguf(const struct bytes* b, const char* part) {
	struct error error = {""};
	struct gguf g;
	struct tensor_table table = {0};
	uint8_t* exact = malloc(b->n);
	assert_non_null(exact);
	memcpy(exact, b->data, b->n);
	const bool good =
	    gguf_read(&g, &table, exact, b->n, "broken.gguf", &error) && tensor_table_seal(&table, &error);
	gguf_free(&g);
	tensor_table_free(&table);
	free(exact);
	expect(good, &error, part);
}

static void gguf_heads(void** state) {
	(void)state;
	struct bytes b = {.n = 0};
	memcpy(b.data, "GGML", b.n = 4);
	refuse_gguf(&b, "does not begin with GGUF");
	put_head(&b, 1, 0, 0);
	refuse_gguf(&b, "GGUF version 1, which is not supported");
	put_head(&b, 4, 0, 0);
	refuse_gguf(&b, "GGUF version 4, expected 2 or 3");
	put_head(&b, 0x03000000, 0, 0);
	refuse_gguf(&b, "big-endian");
	put_head(&b, 3, 0, 0);
	b.n = 10;
	refuse_gguf(&b, "the file ends within the header, at byte 8 of 10");
	put_head(&b, 3, UINT64_MAX, 0);
	refuse_gguf(&b, "the header counts 18446744073709551615 tensors");
	put_head(&b, 3, 0, UINT64_MAX - 3);
	refuse_gguf(&b, "the header counts 18446744073709551612 metadata values");
}

static void gguf_values(void** state) {
	(void)state;
	struct bytes b;
	put_head(&b, 3, 0, 1);
	put(&b, UINT64_MAX - 8, 8);
	put(&b, 0, 16);
	refuse_gguf(&b, "the length of a key is 18446744073709551607");
	put_head(&b, 3, 0, 1);
	put_text(&b, "");
	put(&b, GGUF_U32, 4);
	put(&b, 0, 8);
	refuse_gguf(&b, "has an empty key");
	put_head(&b, 3, 0, 1);
	put_text(&b, "k");
	put(&b, 13, 4);
	put(&b, 0, 8);
	refuse_gguf(&b, "k has value type 13, expected 0 to 12");
	put_head(&b, 3, 0, 1);
	put_text(&b, "k");
	put(&b, GGUF_STRING, 4);
	put(&b, 100, 8);
	refuse_gguf(&b, "the length of k is 100, but the file has 0 bytes left");
	put_head(&b, 3, 0, 1);
	put_text(&b, "k");
	put(&b, GGUF_ARRAY, 4);
	put(&b, GGUF_U64, 4);
	put(&b, UINT64_MAX / 4, 8);
	refuse_gguf(&b, "k has 4611686018427387903 elements");
	put_head(&b, 3, 0, 1);
	put_text(&b, "k");
	for (int i = 0; i < 7; i++) {
		put(&b, GGUF_ARRAY, 4);
		if (i)
			put(&b, 1, 8);
	}
	put(&b, 0, 64);
	refuse_gguf(&b, "nests arrays deeper than 4");
	put_head(&b, 3, 0, 2);
	put_u32(&b, "twice", 1);
	put_u32(&b, "twice", 1);
	refuse_gguf(&b, "key twice occurs twice");
	put_head(&b, 3, 0, 1);
	put_u32(&b, "general.alignment", 48);
	refuse_gguf(&b, "general.alignment is 48, expected a power of two");
	put_head(&b, 3, 0, 1);
	put_u32(&b, "general.alignment", 0);
	refuse_gguf(&b, "general.alignment is 0");
}

static void gguf_tensors(void** state) {
	(void)state;
	struct bytes b;
	put_head(&b, 3, 1, 0);
	put_tensor(&b, "", 1, 1, 0, 0);
	put_data(&b, 4);
	refuse_gguf(&b, "a tensor's name is empty");
	put_head(&b, 3, 1, 0);
	put_text(&b, "t");
	put(&b, 9, 4);
	put(&b, 0, 64);
	refuse_gguf(&b, "tensor t has 9 dimensions, expected 1 to 4");
	put_head(&b, 3, 1, 0);
	put_tensor(&b, "t", 0, 4, 0, 0);
	put_data(&b, 4);
	refuse_gguf(&b, "tensor t has a size of 0");
	put_head(&b, 3, 1, 0);
	put_tensor(&b, "t", 1ull << 62, 1ull << 40, 0, 0);
	put_data(&b, 4);
	refuse_gguf(&b, "tensor t is larger than any file");
	put_head(&b, 3, 1, 0);
	put_tensor(&b, "t", 1, 48, 8, 0);
	put_data(&b, 64);
	refuse_gguf(&b, "tensor t has rows of 48 elements, expected whole blocks of 32 for Q8_0");
	put_head(&b, 3, 1, 0);
	put_tensor(&b, "t", 4, 4, 0, 0);
	put_data(&b, 60);
	refuse_gguf(
	    &b, "tensor t takes 64 bytes from byte 0 of the data, but the data has 60: the file is cut short");
	put_head(&b, 3, 1, 0);
	put_tensor(&b, "t", 4, 4, 0, UINT64_MAX - 31);
	put_data(&b, 64);
	refuse_gguf(&b, "past the end of the file: it is cut short");
	put_head(&b, 3, 1, 0);
	put_tensor(&b, "t", 1, 4, 0, 8);
	put_data(&b, 64);
	refuse_gguf(&b, "not a multiple of the alignment 32");
	put_head(&b, 3, 2, 0);
	put_tensor(&b, "t", 4, 4, 0, 0);
	put_tensor(&b, "u", 4, 4, 0, 32);
	put_data(&b, 128);
	refuse_gguf(&b, "tensors t and u overlap");
	put_head(&b, 3, 2, 0);
	put_tensor(&b, "t", 4, 4, 0, 0);
	put_tensor(&b, "t", 4, 4, 0, 64);
	put_data(&b, 128);
	refuse_gguf(&b, "tensor t occurs twice");
}

/* ---- what only a whole model shows -------------------------------------------------------- */

static char folder[] = "/tmp/swiftlet-broken-XXXXXX";

static int make_folder(void** state) {
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static void remove_all(void) {
	char command[128];
	snprintf(command, sizeof command, "rm -rf %s/*", folder);
	assert_int_equal(system(command), 0);
}

static int remove_folder(void** state) {
	(void)state;
	remove_all();
	return rmdir(folder);
}

static void write_file(const char* name, const void* data, size_t size) {
	char path[256];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	FILE* file = fopen(path, "we");
	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, size, file), size);
	assert_int_equal(fclose(file), 0);
}

static void refuse_model(const char* name, const char* part) {
	char spec[512];
	struct error error = {""};
	snprintf(spec, sizeof spec, "%s%s%s", folder, *name ? "/" : "", name);
	struct model* model = model_open(spec, NULL, &error);
	expect(model != NULL, &error, part);
}

static void write_text(const char* name, const char* text) { write_file(name, text, strlen(text)); }

static const char tiny_config[] = "{\"model_type\": \"llama\", \"num_hidden_layers\": 1, \"hidden_size\": 4, "
                                  "\"num_attention_heads\": 1, \"intermediate_size\": 4, \"vocab_size\": 4, "
                                  "\"tie_word_embeddings\": true}";

/* Tensors of the tiny model, the one named left out or, with a shape, given another. */
static void write_weights(const char* name, const char* without, const char* shape, const char* extra) {
	static const struct {
		const char *name, *shape;
		int bytes;
	} part[] = {{"model.embed_tokens.weight", "[4, 4]", 64},
	            {"model.norm.weight", "[4]", 16},
	            {"model.layers.0.input_layernorm.weight", "[4]", 16},
	            {"model.layers.0.post_attention_layernorm.weight", "[4]", 16},
	            {"model.layers.0.self_attn.q_proj.weight", "[4, 4]", 64},
	            {"model.layers.0.self_attn.k_proj.weight", "[4, 4]", 64},
	            {"model.layers.0.self_attn.v_proj.weight", "[4, 4]", 64},
	            {"model.layers.0.self_attn.o_proj.weight", "[4, 4]", 64},
	            {"model.layers.0.mlp.gate_proj.weight", "[4, 4]", 64},
	            {"model.layers.0.mlp.up_proj.weight", "[4, 4]", 64},
	            {"model.layers.0.mlp.down_proj.weight", "[4, 4]", 64},
	            {"extra", "[4]", 16}};
	static uint8_t file[8192];
	char header[4096];
	size_t n = (size_t)snprintf(header, sizeof header, "{\"__metadata__\": {}");
	int at = 0;
	for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
		const bool chosen = without && strcmp(part[i].name, without) == 0;
		const bool is_extra = strcmp(part[i].name, "extra") == 0;
		if ((chosen && !shape) || (is_extra && !extra))
			continue;
		n += (size_t)snprintf(header + n, sizeof header - n,
		                      ", \"%s\": {\"dtype\": \"F32\", \"shape\": %s, \"data_offsets\": [%d, %d]}",
		                      is_extra ? extra : part[i].name, chosen ? shape : part[i].shape, at,
		                      at + part[i].bytes);
		at += part[i].bytes;
	}
	snprintf(header + n, sizeof header - n, "}");
	write_file(name, file, put_header(file, strlen(header), header, (size_t)at));
}

static void folders(void** state) {
	(void)state;
	refuse_model("", "this folder holds neither config.json nor exactly one GGUF file");
	write_text("config.json", tiny_config);
	refuse_model("", "neither model.safetensors nor model.safetensors.index.json");
	write_text("pytorch_model.bin", "\x80\x02");
	refuse_model("", "convert it once with: python3 -c");
	refuse_model("pytorch_model.bin", "not a model");
	write_text("model.safetensors.index.json", "{\"weight_map\": {\"a\": \"../x.safetensors\"}}");
	refuse_model("", "\"../x.safetensors\" is not a file name");
	write_text("model.safetensors.index.json", "{\"weight_map\": {\"a\": \"x.safetensors\"}}");
	refuse_model("", "x.safetensors: No such file or directory");
	write_weights("x.safetensors", NULL, NULL, NULL);
	refuse_model("", "weight_map places tensor a in x.safetensors, but that file does not hold it");
	write_text("model.safetensors.index.json", "{\"weight_map\": {}}");
	refuse_model("", "weight_map is not a JSON object with entries");
	write_text("model.safetensors", "");
	refuse_model("", "the file is empty");
	write_weights("model.safetensors", "model.layers.0.self_attn.k_proj.weight", NULL, NULL);
	refuse_model("", "tensor model.layers.0.self_attn.k_proj.weight is missing");
	write_weights("model.safetensors", "model.layers.0.self_attn.k_proj.weight", "[2, 8]", NULL);
	refuse_model("", "k_proj.weight has shape (2, 8), expected (4, 4)");
	write_weights("model.safetensors", "model.norm.weight", "[2, 2]", NULL);
	refuse_model("", "model.norm.weight has shape (2, 2), expected (4)");
	write_weights("model.safetensors", NULL, NULL, "model.layers.1.input_layernorm.weight");
	refuse_model(
	    "",
	    "model.layers.1.input_layernorm.weight is not part of the model that the configuration describes");
	/* A buffer that old files carry is no surplus: the next thing wrong is the tokenizer. */
	write_weights("model.safetensors", NULL, NULL, "model.layers.0.self_attn.rotary_emb.inv_freq");
	refuse_model("", "tokenizer");
	write_text("generation_config.json", "{\"eos_token_id\": 9}");
	refuse_model("", "generation_config.json: eos_token_id 9 lies beyond the vocabulary of 4");
	write_text("generation_config.json", "{\"suppress_tokens\": [1, 4]}");
	refuse_model("",
	             "generation_config.json: suppress_tokens must list ids below the vocabulary's size of 4");
	write_text("generation_config.json", "{\"repetition_penalty\": -1}");
	refuse_model("", "generation_config.json: repetition_penalty is -1");
	write_text("generation_config.json", "{");
	refuse_model("", "generation_config.json: not JSON");
	refuse_model("model.safetensors", "a safetensors file alone");
	refuse_model("absent", "No such file or directory");
	remove_all();
}

/* A GGUF file with a vocabulary of one and metadata that names what is not done. */
static void gguf_models(void** state) {
	(void)state;
	struct bytes b;
	put_head(&b, 3, 0, 0);
	write_file("broken.gguf", b.data, b.n);
	refuse_model("broken.gguf", "general.architecture is missing");
	put_head(&b, 3, 0, 1);
	put_text(&b, "general.architecture");
	put(&b, GGUF_STRING, 4);
	put_text(&b, "bert");
	write_file("broken.gguf", b.data, b.n);
	refuse_model("broken.gguf",
	             "general.architecture is \"bert\", which is not supported; supported are llama");
	put_head(&b, 3, 0, 2);
	put_text(&b, "general.architecture");
	put(&b, GGUF_STRING, 4);
	put_text(&b, "llama");
	put_u32(&b, "llama.expert_shared_count", 1);
	write_file("broken.gguf", b.data, b.n);
	refuse_model(
	    "broken.gguf",
	    "llama.expert_shared_count is 1, which is not supported; only 0 is, or a file without the field");
	put_head(&b, 3, 0, 3);
	put_text(&b, "general.architecture");
	put(&b, GGUF_STRING, 4);
	put_text(&b, "llama");
	put_u32(&b, "split.no", 0);
	put_u32(&b, "split.count", 3);
	write_file("broken.gguf", b.data, b.n);
	refuse_model("broken.gguf", "this is part 1 of a set of 3, but its name does not end in");
	write_file("broken-00001-of-00003.gguf", b.data, b.n);
	refuse_model("broken-00001-of-00003.gguf", "broken-00002-of-00003.gguf: No such file or directory");
	write_file("broken-00002-of-00003.gguf", b.data, b.n);
	refuse_model("broken-00001-of-00003.gguf", "calls it part 1 of 3, expected part 2 of 3");
	put_head(&b, 3, 1, 1);
	put_text(&b, "general.architecture");
	put(&b, GGUF_STRING, 4);
	put_text(&b, "llama");
	put_tensor(&b, "token_embd.weight", 4, 4, 0, 0);
	put_data(&b, 64);
	write_file("broken.gguf", b.data, b.n);
	refuse_model("broken.gguf", "llama.block_count is missing");
	remove_all();
}

/* A type that is known but not computed from is named, with the list of those that are. */
static void gguf_types(void** state) {
	(void)state;
	struct bytes b;
	put_head(&b, 3, 1, 0);
	put_tensor(&b, "t", 1, 256, 9, 0);
	put_data(&b, 128);
	struct gguf g;
	struct tensor_table table = {0};
	struct tensor out;
	struct error error = {""};
	assert_true(gguf_read(&g, &table, b.data, b.n, "broken.gguf", &error));
	expect(tensor_table_take(&table, "t", 1, 256, &out, &error), &error,
	       "type Q8_1, which is not supported; supported are f32, f16, bf16, q8_0");
	gguf_free(&g);
	tensor_table_free(&table);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(safetensors), cmocka_unit_test(deep_nesting), cmocka_unit_test(config),
	    cmocka_unit_test(gguf_heads),  cmocka_unit_test(gguf_values),  cmocka_unit_test(gguf_tensors),
	    cmocka_unit_test(gguf_types),  cmocka_unit_test(folders),      cmocka_unit_test(gguf_models),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
