/* Reads config.json into a model's shape: first the fields that families share, then each family's own. */
#include "core/model/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/error_in.h"
#include "core/files/json.h"

/* The place that is being read. It is passed along so that every message can name the file. */
struct source {
	const cJSON* json;
	const cJSON* outer; /* what json is the text_config of, or NULL */
	const char* file;
	struct config* config;
	struct error* error;
};
#define fail(s, ...) error_in((s)->error, (s)->file, __VA_ARGS__)

/* Each keeps *out when the field is absent. */
static bool read_int(const struct source* s, const char* field, int low, int high, int* out) {
	return json_int32(s->json, s->file, field, low, high, out, s->error);
}
static bool read_float(const struct source* s, const char* field, double low, double high, float* out) {
	return json_float(s->json, s->file, field, low, high, out, s->error);
}
/* True when the field is present and null. For many fields null means something else than absence. */
static bool is_null(const struct source* s, const char* field) {
	return cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(s->json, field));
}
/* field NULL: the family has none. */
static bool read_bool(const struct source* s, const char* field, bool* out) {
	return !field || json_bool(s->json, s->file, field, out, s->error);
}
static bool read_string(const struct source* s, const char* field, const char** out) {
	return json_string(s->json, s->file, field, out, s->error);
}
/* The same file, one object further in. */
static struct source source_within(const struct source* s, const cJSON* object) {
	struct source inner = *s;
	inner.json = object;
	return inner;
}

static bool read_required(const struct source* s, const char* field, int high, int* out) {
	if (!json_field(s->json, field))
		return fail(s, "%s is missing", field);
	return read_int(s, field, 1, high, out);
}

/* ---- what is not done --------------------------------------------------------------------- */

#define BY(special) ((uint64_t)1 << SPECIAL_##special)
#define BY_EXPERTS                                                                                           \
	(BY(MIXTRAL) | BY(QWEN3_MOE) | BY(GPT_OSS) | BY(OLMOE) | BY(QWEN2_MOE) | BY(GLM4_MOE) |                  \
	 BY(ERNIE4_5_MOE) | BY(MINIMAX_M2) | BY(QWEN3_5_MOE) | BY(QWEN3_NEXT) | BY(DOTS1) | BY(GEMMA4) |         \
	 BY(DEEPSEEK) | BY(LFM2_MOE) | BY(GRANITE4) | BY(GRANITE_MOE) | BY(NEMOTRON_H) | BY(PHIMOE) |            \
	 BY(LLAMA4) | BY(QWEN3_VL_MOE) | BY(MELLUM) | BY(HUNYUAN_MOE) | BY(EXAONE_MOE) | BY(AFMOE) | BY(HY_V3) | \
	 BY(GRANITE_SWA))
#define BY_GRANITE (BY(GRANITE) | BY(GRANITE4) | BY(GRANITE_MOE) | BY(GRANITE_SWA) | BY(HYPERCLOVAX))
/* Fields that change the arithmetic in ways that the pass does not implement. Each has the one value that is
 * accepted: none, or the number given. The families named read the field in their own function. */
static const struct refused {
	const char* field;
	double neutral;
	uint64_t read_by;
} refused[] = {
    {"pruned_heads", 0, 0},
    {"clip_qkv", 0, 0},
    {"qk_layernorm", 0, BY(STABLELM)},
    {"use_qk_norm", 0, BY(GLM4_MOE) | BY(MINIMAX_M2) | BY(LLAMA4) | BY(COHERE)},
    {"embedding_multiplier", 1, BY_GRANITE | BY(FALCON_H1)},
    {"residual_multiplier", 1, BY_GRANITE},
    {"attention_multiplier", 0, BY_GRANITE},
    {"logits_scaling", 1, BY_GRANITE},
    {"n_shared_experts", 0, BY(GLM4_MOE) | BY(DOTS1) | BY(DEEPSEEK) | BY(NEMOTRON_H)},
    {"logit_scale", 1, BY(COHERE) | BY(COHERE2)},
    {"num_experts", 0, BY_EXPERTS},
    {"num_local_experts", 0, BY_EXPERTS},
    {"is_encoder_decoder", 0, 0},
    {"no_rope_layers", 0, BY(SMOLLM3) | BY(LLAMA4)},
    {"use_parallel_residual", 0, BY(STABLELM)},
    {"alibi", 0, 0},
    {"use_bidirectional_attention", 0, BY(GEMMA4)},
    {"use_mrope", 0, 0},
};

static bool is_neutral(const cJSON* value, double neutral) {
	if (!value || cJSON_IsFalse(value))
		return true;
	if (cJSON_IsNumber(value))
		return value->valuedouble == neutral;
	return (cJSON_IsArray(value) || cJSON_IsObject(value)) && !value->child;
}

static bool check_refused(const struct source* s) {
	char shown[80];
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		const cJSON* value = json_field(s->json, refused[i].field);
		if (!is_neutral(value, refused[i].neutral) && !(refused[i].read_by >> s->config->family->special & 1))
			return fail(s, "%s is %s, which is not supported; only %g is, or a config without the field",
			            refused[i].field, json_show(value, shown, sizeof shown), refused[i].neutral);
	}
	return true;
}

/* ---- family ------------------------------------------------------------------------------- */

/* A model of images and text nests its text model's fields in text_config, which s->json becomes. */
static bool read_family(struct source* s) {
	const char* type = NULL;
	char list[300];
	if (!read_string(s, "model_type", &type))
		return false;
	if (!type)
		return fail(s, "model_type is missing");
	bool flat = false;
	s->config->family = family_within(type, &flat);
	if (s->config->family) {
		if (flat && !json_field(s->json, "text_config"))
			return true;
		s->config->assistant = strstr(type, "_assistant") != NULL;
		s->outer = s->json;
		s->json = json_field(s->outer, "text_config");
		if (!cJSON_IsObject(s->json))
			return fail(s, "text_config is missing, and a %.60s needs it", type);
		type = NULL;
		if (!read_string(s, "model_type", &type))
			return false;
		if (!type)
			return true;
		if (strcmp(type, "exaone4_5_text") == 0) /* as it was called first */
			type = "exaone4";
		if (strcmp(type, "llama") == 0 && strcmp(s->config->family->name, "voxtral_text") == 0)
			return true;
	}
	if (strcmp(type, "kimi_k2") == 0) /* Kimi K2, which transformers has as DeepSeek-V3 */
		type = "deepseek_v3";
	s->config->family = family_by_name(type);
	const char* reason = family_refusal(type, strlen(type));
	if (!s->config->family && reason)
		return fail(s, "model_type is \"%.60s\", which is not supported: %s", type, reason);
	return s->config->family || fail(s, "model_type is \"%.60s\", which is not supported; supported are %s",
	                                 type, family_names(list, sizeof list));
}

static bool read_activation(const struct source* s) {
	static const struct {
		const char* name;
		enum activation activation;
	} known[] = {{"silu", ACTIVATION_SILU},
	             {"swish", ACTIVATION_SILU},
	             {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
	             {"gelu_new", ACTIVATION_GELU_TANH},
	             {"gelu_fast", ACTIVATION_GELU_TANH}, /* these are the same formula */
	             {"gelu_accurate", ACTIVATION_GELU_TANH},
	             {"gelu_python_tanh", ACTIVATION_GELU_TANH},
	             {"gelu", ACTIVATION_GELU},
	             {"gelu_python", ACTIVATION_GELU},
	             {"quick_gelu", ACTIVATION_QUICK_GELU},
	             {"relu", ACTIVATION_RELU},
	             {"relu2", ACTIVATION_RELU2},
	             {"xielu", ACTIVATION_XIELU}};
	const struct family* family = s->config->family;
	const char* field = family->activation_field ? family->activation_field : "hidden_act";
	const char* name = NULL;
	s->config->shape.activation = family->activation;
	s->config->shape.ungated = family->ungated;
	/* The classes of LFM2 and gpt-oss do not read the field. */
	if (family->short_convolution || family->special == SPECIAL_GPT_OSS)
		return true;
	if (!read_string(s, field, &name))
		return false;
	if (!name)
		return true;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strcmp(name, known[i].name) == 0 &&
		    (known[i].activation == ACTIVATION_XIELU) == (family->activation == ACTIVATION_XIELU)) {
			s->config->shape.activation = known[i].activation;
			return true;
		}
	return fail(s, "%s is \"%.60s\", which is not supported; supported %s", field, name,
	            family->activation == ACTIVATION_XIELU
	                ? "is xielu"
	                : "are silu, gelu, gelu_pytorch_tanh, quick_gelu, relu and relu2");
}

/* ---- quantized weights -------------------------------------------------------------------- */

static bool not_read(const struct source* s, const char* method, const char* what, const char* value) {
	return fail(s,
	            "quantization_config.quant_method is \"%.40s\"%s%.40s, which is not supported; supported are "
	            "gptq with 4 and 8 bits, awq with 4, bitsandbytes with 4, mxfp4, fp8, modelopt's FP8 and "
	            "NVFP4, compressed-tensors' float-quantized, int-quantized, pack-quantized and "
	            "nvfp4-pack-quantized, and GGUF's types",

	            method ? method : "", what, value);
}

/* GPTQ and AWQ: the bits, the group size, and how zeros and words are packed. */
static bool read_groups(const struct source* s, const char* method) {
	struct packing* p = &s->config->packing;
	const bool awq = strcmp(method, "awq") == 0;
	int bits = 4, group = 128;
	const char *version = "gemm", *format = "gptq";
	char text[32];
	if (!read_int(s, "bits", 1, 64, &bits) || !read_int(s, "w_bit", 1, 64, &bits) ||
	    !read_int(s, "group_size", -1, LARGEST, &group) ||
	    !read_int(s, "q_group_size", -1, LARGEST, &group) || !read_string(s, "version", &version) ||
	    !read_string(s, "checkpoint_format", &format))
		return false;
	snprintf(text, sizeof text, "%d", bits);
	if (bits != 4 && (awq || bits != 8))
		return not_read(s, method, " with bits ", text);
	if (awq && strcmp(version, "gemm") != 0 && strcmp(version, "GEMM") != 0)
		return not_read(s, method, ", version ", version);
	if (!awq && strcmp(format, "gptq") != 0 && strcmp(format, "gptq_v2") != 0)
		return not_read(s, method, ", checkpoint_format ", format);
	p->method = awq ? PACKING_AWQ : PACKING_GPTQ;
	p->bits = bits;
	p->group = group > 0 ? group : 0;
	p->zeros_less_one = !awq && strcmp(format, "gptq") == 0;
	return true;
}

/* A pair of sizes, absent or null: none. */
static bool read_blocks(const struct source* s, const char* field) {
	const cJSON* size = json_field(s->json, field);
	int64_t rows, cols;
	if (!size)
		return true;
	if (!cJSON_IsArray(size) || cJSON_GetArraySize(size) != 2 ||
	    !json_whole(cJSON_GetArrayItem(size, 0), 1, LARGEST, &rows) ||
	    !json_whole(cJSON_GetArrayItem(size, 1), 1, LARGEST, &cols))
		return fail(s, "quantization_config.%s is not a pair of sizes", field);
	s->config->packing.fp8 = (struct fp8_blocks){(int)rows, (int)cols};
	return true;
}

/* compressed-tensors: reads the first group's scheme for weights. Published models have one group. */
static bool read_compressed(const struct source* s, const char* method, const char* format) {
	struct packing* p = &s->config->packing;
	const cJSON* groups = json_field(s->json, "config_groups");
	const struct source in = source_within(s, json_field(groups ? groups->child : NULL, "weights"));
	const bool packed = format && strcmp(format, "pack-quantized") == 0;
	const bool nvfp4 = format && strcmp(format, "nvfp4-pack-quantized") == 0;
	int bits = packed ? 4 : 8, group = 0;
	char text[32];
	if (nvfp4) {
		p->method = PACKING_NVFP4;
		return true;
	}
	if (!packed &&
	    !(format && (strcmp(format, "float-quantized") == 0 || strcmp(format, "int-quantized") == 0)))
		return not_read(s, method, format ? ", format " : "", format ? format : "");
	if (!read_int(&in, "num_bits", 1, 64, &bits) || !read_int(&in, "group_size", -1, LARGEST, &group) ||
	    !read_blocks(&in, "block_structure"))
		return false;
	snprintf(text, sizeof text, "%d", bits);
	if (bits != 8 && (!packed || bits != 4))
		return not_read(s, method, " with num_bits ", text);
	if (packed) {
		p->method = PACKING_COMPRESSED;
		p->bits = bits;
		p->group = group > 0 ? group : 0;
	}
	return true;
}

/* Refuses a value that is not supported, and names the supported ones. */
static bool read_quantization(const struct source* s) {
	const cJSON* q = json_field(s->outer && json_field(s->outer, "quantization_config") ? s->outer : s->json,
	                            "quantization_config");
	const char *method = NULL, *format = NULL;
	const enum special special = s->config->family->special;
	s->config->packing.gates_first = special == SPECIAL_LLAMA4 || special == SPECIAL_QWEN3_VL_MOE;
	s->config->packing.experts_inverted = special == SPECIAL_GPT_OSS || s->config->packing.gates_first;
	const struct source in = source_within(s, q);
	if (json_field(json_field(s->outer ? s->outer : s->json, "quantization"), "bits"))
		return fail(s, "the folder is quantized by MLX, which is not supported; convert it once with: "
		               "mlx_lm.convert --dequantize --hf-path FOLDER --mlx-path NEW_FOLDER");
	if (!q)
		return true;
	if (!read_string(&in, "quant_method", &method) || !read_string(&in, "format", &format))
		return false;
	if (method && (strcmp(method, "gptq") == 0 || strcmp(method, "awq") == 0))
		return read_groups(&in, method);
	if (method && strcmp(method, "bitsandbytes") == 0) {
		bool four = false;
		return read_bool(&in, "load_in_4bit", &four) &&
		       (four || not_read(s, method, " with load_in_4bit ", "false"));
	}
	if (method && strcmp(method, "mxfp4") == 0 && s->config->family->special == SPECIAL_GPT_OSS)
		return true;
	if (method && strcmp(method, "compressed-tensors") == 0)
		return read_compressed(&in, method, format);
	if (method && strcmp(method, "modelopt") == 0) {
		const char* algorithm = "";
		if (!read_string(&in, "quant_algo", &algorithm))
			return false;
		if (strcmp(algorithm, "NVFP4") == 0)
			s->config->packing.method = PACKING_NVFP4;
		return strcmp(algorithm, "FP8") == 0 || s->config->packing.method == PACKING_NVFP4 ||
		       not_read(s, method, ", quant_algo ", algorithm);
	}
	if (!method || strcmp(method, "fp8") != 0)
		return not_read(s, method, format ? ", format " : "", format ? format : "");
	return read_blocks(&in, "weight_block_size");
}

/* ---- sizes -------------------------------------------------------------------------------- */

/* Requires the field unless the family has a default. */
static bool read_size(const struct source* s, const char* field, int by_default, int* out) {
	*out = by_default;
	return by_default ? read_int(s, field, 1, LARGEST, out) : read_required(s, field, LARGEST, out);
}

/* True when some block may go without experts. In other families files may leave out the size of a plain
 * MLP. */
static bool has_dense(const struct source* s) {
	return strcmp(s->config->family->name, "solar_open") != 0 &&
	       s->config->family->special != SPECIAL_QWEN3_5_MOE;
}

bool config_pair_layers(struct config* c, const char* letters, int n, const char* file, struct error* error) {
	struct model_shape* m = &c->shape;
	int blocks = 0;
	m->recurrent = m->without_mlp = c->dense = (struct block_set){{0}};
	for (int i = 0; i < n; i++) {
		if (letters[i] == 'M' || letters[i] == '*') {
			if (blocks == MAX_BLOCKS)
				return error_set(error, "%s: more than %d layers are not MLPs", file, MAX_BLOCKS);
			if (letters[i] == 'M')
				block_set_put(&m->recurrent, blocks);
			block_set_put(&m->without_mlp, blocks);
			c->mixer_layer[blocks++] = (int16_t)i;
			continue;
		}
		if (blocks == 0 || !block_set_has(&m->without_mlp, blocks - 1))
			return error_set(error,
			                 "%s: layer %d is an MLP without a layer of attention or Mamba before it, which "
			                 "is not supported",
			                 file, i);
		m->without_mlp.word[(blocks - 1) >> 6] &= ~((uint64_t)1 << ((blocks - 1) & 63));
		if (letters[i] == '-')
			block_set_put(&c->dense, blocks - 1);
		c->mlp_layer[blocks - 1] = (int16_t)i;
	}
	m->n_blocks = blocks;
	return true;
}

bool config_pair_blocks(struct config* c, int n, const char* file, struct error* error) {
	struct model_shape* m = &c->shape;
	if (2 * n > MAX_BLOCKS)
		return error_set(error, "%s: %d layers of two blocks each are too many, expected at most %d", file, n,
		                 MAX_BLOCKS / 2);
	for (int b = 0; b < 2 * n; b += 2) {
		block_set_put(&m->recurrent, b);
		block_set_put(&m->without_mlp, b);
		block_set_put(&m->beside_recurrence, b + 1);
	}
	m->n_blocks = 2 * n;
	return true;
}

enum { MOST_LAYERS = 2 * MAX_BLOCKS };

/* The older form: a letter a layer. Returns how many, or 0 with the error set. */
static int read_pattern(const struct source* s, char letters[MOST_LAYERS]) {
	const char* pattern = "ME*-"; /* the class's */
	if (!read_string(s, "hybrid_override_pattern", &pattern))
		return 0;
	const size_t n = strlen(pattern);
	if (n == 0 || n > MOST_LAYERS || strspn(pattern, "M*-E") < n)
		return fail(s, "hybrid_override_pattern is not 1 to %d letters of M, *, - and E", MOST_LAYERS);
	memcpy(letters, pattern, n);
	return (int)n;
}

/* A letter a layer, as config_pair_layers takes them. */
static int read_layers(const struct source* s, char letters[MOST_LAYERS]) {
	static const struct {
		const char* name;
		char letter;
	} kinds[] = {{"linear_attention", 'M'}, {"mamba", 'M'}, {"full_attention", '*'},
	             {"attention", '*'},        {"mlp", '-'},   {"moe", 'E'}};
	const cJSON *types = json_field(s->json, "layers_block_type"), *one;
	int n = 0;
	if (!types)
		types = json_field(s->json, "layer_types");
	if (!types)
		return read_pattern(s, letters);
	if (!cJSON_IsArray(types) || cJSON_GetArraySize(types) > MOST_LAYERS || !types->child)
		return fail(s, "layers_block_type is not an array of 1 to %d names", MOST_LAYERS);
	cJSON_ArrayForEach (one, types) {
		letters[n] = '\0';
		for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
			if (cJSON_IsString(one) && strcmp(one->valuestring, kinds[k].name) == 0)
				letters[n] = kinds[k].letter;
		if (!letters[n])
			return fail(s, "layers_block_type[%d] is none of linear_attention, full_attention, mlp and moe",
			            n);
		n++;
	}
	return n;
}

static bool read_block_count(const struct source* s) {
	char letters[MOST_LAYERS];
	if (!s->config->family->single_mixers)
		return read_required(s, "num_hidden_layers", MAX_BLOCKS, &s->config->shape.n_blocks) &&
		       (!s->config->family->paired ||
		        config_pair_blocks(s->config, s->config->shape.n_blocks, s->file, s->error));
	const int n = read_layers(s, letters);
	return n > 0 && config_pair_layers(s->config, letters, n, s->file, s->error);
}

/* A width for all blocks, or in Gemma 3n one for each. The shape has the first one's. */
static bool read_widths(const struct source* s) {
	struct config* c = s->config;
	const cJSON *list = json_field(s->json, "intermediate_size"), *one;
	int b = 0;
	if (c->family->special != SPECIAL_GEMMA3N || !cJSON_IsArray(list))
		return read_required(s, "intermediate_size", LARGEST, &c->shape.ffn);
	if (cJSON_GetArraySize(list) != c->shape.n_blocks)
		return fail(s, "intermediate_size is neither a number nor an array of %d", c->shape.n_blocks);
	cJSON_ArrayForEach (one, list) {
		int64_t width;
		if (!json_whole(one, 1, LARGEST, &width))
			return fail(s, "intermediate_size[%d] is not a number from 1 to %d", b, LARGEST);
		c->ffn[b++] = (int)width;
	}
	c->shape.ffn = c->ffn[0];
	return true;
}

static bool read_sizes(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	const struct family* f = s->config->family;
	if (!read_block_count(s) || !read_required(s, "hidden_size", LARGEST, &m->dim) ||
	    !read_size(s, "num_attention_heads", f->heads, &m->heads) ||
	    !(has_dense(s) ? read_widths(s) : read_required(s, "moe_intermediate_size", LARGEST, &m->ffn)) ||
	    !read_size(s, "vocab_size", f->vocab, &m->vocab))
		return false;
	const int head_dim = is_null(s, "head_dim") ? 0 : f->head_dim;
	m->kv_heads = f->kv_heads && !is_null(s, "num_key_value_heads") ? f->kv_heads : m->heads;
	m->head_dim = head_dim ? head_dim : m->dim / m->heads;
	m->context = f->context;
	m->norm_plus_one = f->norm_plus_one;
	m->norm_epsilon = f->epsilon;
	m->norm_after_rope = f->norm_after_rope;
	m->parallel = f->parallel;
	if (!head_dim && f->special != SPECIAL_DEEPSEEK && !json_field(s->json, "head_dim") && m->dim % m->heads)
		return fail(s, "hidden_size %d is not a multiple of num_attention_heads %d", m->dim, m->heads);
	return read_int(s, "num_key_value_heads", 1, LARGEST, &m->kv_heads) &&
	       read_int(s, "head_dim", 1, LARGEST, &m->head_dim) &&
	       read_int(s, "max_position_embeddings", 1, INT32_MAX / 2, &m->context) &&
	       read_float(s, f->epsilon_field ? f->epsilon_field : "rms_norm_eps", 0, 1, &m->norm_epsilon);
}

/* ---- attention that sees a window --------------------------------------------------------- */

/* A field that names the type of each block, such as layer_types. Blocks of type `in` enter the set; the
 * others have to be of type `out`. An absent field changes nothing. */
static bool read_types(const struct source* s, const char* field, const char* out, const char* in,
                       struct block_set* set) {
	const int n = s->config->shape.n_blocks;
	const cJSON* types = json_field(s->json, field);
	if (!types)
		return true;
	if (!cJSON_IsArray(types) || cJSON_GetArraySize(types) != n)
		return fail(s, "%s is not an array of %d names", field, n);
	const cJSON* type = types->child;
	for (int b = 0; b < n; b++, type = type->next) {
		const char* name = cJSON_IsString(type) ? type->valuestring : "";
		if (strcmp(name, in) == 0)
			block_set_put(set, b);
		else if (strcmp(name, out) != 0)
			return fail(s, "%s[%d] is neither %s nor %s", field, b, out, in);
	}
	return true;
}

/* The same for blocks with attention or Mamba, whose types have older names too. */
static bool read_mixers(const struct source* s, const char* field, struct block_set* recurrent) {
	const int n = s->config->shape.n_blocks;
	const cJSON *types = json_field(s->json, field), *one;
	int b = 0;
	if (!cJSON_IsArray(types) || cJSON_GetArraySize(types) != n)
		return fail(s, "%s is not an array of %d names", field, n);
	cJSON_ArrayForEach (one, types) {
		const char* name = cJSON_IsString(one) ? one->valuestring : "";
		if (strcmp(name, "mamba") == 0 || strcmp(name, "linear_attention") == 0)
			block_set_put(recurrent, b);
		else if (strcmp(name, "attention") != 0 && strcmp(name, "full_attention") != 0)
			return fail(s, "%s[%d] is neither full_attention nor linear_attention", field, b);
		b++;
	}
	return true;
}

/* A field that lists blocks by their numbers. */
static bool read_listed(const struct source* s, const char* field, struct block_set* set) {
	const int n = s->config->shape.n_blocks;
	const cJSON* one;
	cJSON_ArrayForEach (one, json_field(s->json, field)) {
		int64_t block;
		if (!json_whole(one, 0, n - 1, &block))
			return fail(s, "%s must list numbers of blocks, and the model has %d blocks", field, n);
		block_set_put(set, (int)block);
	}
	return true;
}

/* The rule where blocks are not listed. */
static bool apply_rule(const struct source* s, int first_sliding) {
	struct model_shape* m = &s->config->shape;
	const struct family* f = s->config->family;
	int period = f->window_period;
	const cJSON* letters = f->period_field ? json_field(s->json, f->period_field) : NULL;
	if (cJSON_IsString(letters)) /* EXAONE 4 may write "LLLG" */
		period = (int)strlen(letters->valuestring);
	else if (f->period_field && !read_int(s, f->period_field, 0, LARGEST, &period))
		return false;
	for (int b = 0; b < m->n_blocks; b++)
		if (f->window_rule == WINDOW_PERIOD  ? period && (b + 1) % period
		    : f->window_rule == WINDOW_AFTER ? b % period
		                                     : b >= first_sliding)
			block_set_put(&m->sliding, b);
	return true;
}

static bool slides_anywhere(const struct model_shape* m) {
	for (int b = 0; b < m->n_blocks; b++)
		if (block_set_has(&m->sliding, b))
			return true;
	return false;
}

/* Keeps sliding_window even when no block slides; drop_idle_window clears it later. */
static bool read_window(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	const struct family* f = s->config->family;
	const enum window_rule rule = f->window_rule;
	const bool opted = rule == WINDOW_OPTED || rule == WINDOW_OPTED_ALL;
	const bool listed = rule != WINDOW_ALL && rule != WINDOW_OPTED_ALL;
	const bool types = listed && json_field(s->json, "layer_types");
	bool used = !opted;
	int first = 0;
	if (rule == WINDOW_UNUSED)
		return true;
	if (opted && !read_bool(s, "use_sliding_window", &used))
		return false;
	if (rule == WINDOW_OPTED || rule == WINDOW_FROM) {
		first = f->first_sliding;
		if (!read_int(s, "max_window_layers", 0, LARGEST, &first))
			return false;
	}
	m->sliding_window = is_null(s, "sliding_window") ? 0 : f->window;
	if (!read_int(s, "sliding_window", 1, INT32_MAX / 2, &m->sliding_window))
		return false;
	/* SmolLM3's class reads use_sliding_window only where layer_types does not say which blocks slide. */
	if (!used && !(types && f->special == SPECIAL_SMOLLM3))
		m->sliding_window = 0;
	if (types ? !read_types(s, "layer_types", "full_attention", "sliding_attention", &m->sliding)
	          : m->sliding_window && !apply_rule(s, first))
		return false;
	return !used || !slides_anywhere(m) || m->sliding_window ||
	       fail(s, "layer_types has sliding_attention, but sliding_window is missing");
}

static bool drop_idle_window(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	if (!slides_anywhere(m))
		m->sliding_window = 0;
	if (!m->sliding_window)
		m->sliding = (struct block_set){{0}};
	return true;
}

/* ---- RoPE --------------------------------------------------------------------------------- */

double rope_yarn_scale(float factor, float mscale) {
	return factor <= 1 ? 1 : (double)mscale * (0.1 * log((double)factor)) + 1;
}

float rope_yarn_attention(float factor, float mscale, float mscale_all_dim) {
	if (factor <= 1)
		return 1;
	if (mscale > 0 && mscale_all_dim > 0)
		return (float)(rope_yarn_scale(factor, mscale) / rope_yarn_scale(factor, mscale_all_dim));
	return (float)rope_yarn_scale(factor, 1);
}

/* The factor on cos and sin of LongRoPE: sqrt(1 + ln(factor) / ln(original context)) (Ding et al. 2024,
 * section 3.3). */
static float rope_long_attention(float factor, int original_context) {
	return factor <= 1 ? 1 : (float)sqrt(1 + log((double)factor) / log((double)original_context));
}

static bool read_factors(const struct source* s, const char* field, int n, float* out) {
	const cJSON* list = json_field(s->json, field);
	if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != n)
		return fail(s, "rope_scaling.%s is not an array of %d numbers", field, n);
	const cJSON* value = list->child;
	for (int i = 0; i < n; i++, value = value->next) {
		if (!cJSON_IsNumber(value) || !(value->valuedouble > 1e-6) || !(value->valuedouble < 1e9))
			return fail(s, "rope_scaling.%s[%d] is not a positive number", field, i);
		out[i] = (float)value->valuedouble;
	}
	return true;
}

/* Allocates two factors for each of n pairs. */
static float* open_factors(const struct source* s, int n) {
	float** const place =
	    &s->config->factors[s->config->factors[0] != NULL]; /* of the sliding blocks' RoPE */
	*place = calloc((size_t)(n ? n : 1), 2 * sizeof(float));
	if (!*place)
		fail(s, "out of memory");
	return *place;
}

/* Phi-MoE's factors on cos and sin, within the original context and beyond. */
static bool read_factors_by_length(const struct source* s, struct rope* r) {
	static const char within[] = "short_mscale", beyond[] = "long_mscale";
	if (!json_field(s->json, within) || !json_field(s->json, beyond))
		return fail(s, "rope_scaling.%s or rope_scaling.%s is missing", within, beyond);
	return read_float(s, within, 1e-6, 1e6, &r->attention_factor) &&
	       read_float(s, beyond, 1e-6, 1e6, &r->beyond_factor);
}

static bool read_longrope(const struct source* s, struct rope* r) {
	const int n = r->dim / 2;
	float* const factor = open_factors(s, n);
	if (!factor)
		return false;
	r->short_factor = factor;
	r->long_factor = factor + n;
	if (!read_factors(s, "short_factor", n, factor) || !read_factors(s, "long_factor", n, factor + n))
		return false;
	r->attention_factor = rope_long_attention(r->factor, r->original_context);
	return true;
}

static bool read_llama3(const struct source* s, struct rope* r) {
	r->low_frequency_factor = 1;
	r->high_frequency_factor = 4;
	if (!read_float(s, "low_freq_factor", 1e-6, 1e6, &r->low_frequency_factor) ||
	    !read_float(s, "high_freq_factor", 1e-6, 1e6, &r->high_frequency_factor))
		return false;
	if (r->high_frequency_factor <= r->low_frequency_factor)
		return fail(s, "rope_scaling.high_freq_factor %g is not above low_freq_factor %g",
		            (double)r->high_frequency_factor, (double)r->low_frequency_factor);
	return true;
}

static bool read_yarn(const struct source* s, bool by_kind, struct rope* r) {
	float mscale = 0, mscale_all_dim = 0;
	bool whole_turns = true;
	r->whole_turns = true;
	r->beta_fast = 32;
	r->beta_slow = 1;
	if (!read_float(s, "beta_fast", 1e-6, 1e6, &r->beta_fast) ||
	    !read_float(s, "beta_slow", 1e-6, 1e6, &r->beta_slow) || !read_float(s, "mscale", 0, 1e6, &mscale) ||
	    !read_float(s, "mscale_all_dim", 0, 1e6, &mscale_all_dim) || !read_bool(s, "truncate", &whole_turns))
		return false;
	/* transformers looks for `truncate` beside parameters by kind of block, never inside one kind's. */
	if (!by_kind)
		r->whole_turns = whole_turns;
	r->attention_factor = rope_yarn_attention(r->factor, mscale, mscale_all_dim);
	return true;
}

static bool scaling_kind(const struct source* s, struct rope* r) {
	static const struct {
		const char* name;
		enum rope_scaling scaling;
	} known[] = {{"default", ROPE_NONE},  {"linear", ROPE_LINEAR}, {"dynamic", ROPE_DYNAMIC},
	             {"llama3", ROPE_LLAMA3}, {"yarn", ROPE_YARN},     {"longrope", ROPE_LONGROPE},
	             {"su", ROPE_LONGROPE},   {"mrope", ROPE_NONE},    {"proportional", ROPE_LINEAR}};
	const char* name = NULL;
	if (!read_string(s, "type", &name) || !read_string(s, "rope_type", &name))
		return false;
	if (!name)
		name = "default";
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strcmp(name, known[i].name) == 0 &&
		    (s->config->family->special == SPECIAL_GEMMA4 || strcmp(name, "proportional") != 0) &&
		    (s->config->family->special != SPECIAL_PHIMOE || known[i].scaling == ROPE_NONE ||
		     known[i].scaling == ROPE_LONGROPE)) {
			r->scaling = known[i].scaling;
			/* Phi-3's first files call LongRoPE "yarn". */
			if (strcmp(s->config->family->name, "phi3") == 0 && r->scaling == ROPE_YARN)
				r->scaling = ROPE_LONGROPE;
			return true;
		}
	return fail(
	    s, "rope_scaling.rope_type is \"%.60s\", which is not supported; supported are default%s longrope",
	    name, s->config->family->special == SPECIAL_PHIMOE ? " and" : ", linear, dynamic, llama3, yarn and");
}

/* Reads the context that a scaling counts from. With one RoPE for all blocks, the field beside the parameters
 * comes first. With RoPE by kind of block, only the field inside counts. Dynamic scaling uses neither (as in
 * transformers). */
static bool read_original_context(const struct source* s, const struct source* in, bool by_kind,
                                  struct rope* r) {
	static const char field[] = "original_max_position_embeddings";
	r->original_context = s->config->shape.context;
	if (r->scaling != ROPE_LLAMA3 && r->scaling != ROPE_YARN && r->scaling != ROPE_LONGROPE)
		return true;
	if (!read_int(in, field, 1, INT32_MAX / 2, &r->original_context))
		return false;
	if (!by_kind && s->config->family->original_context)
		r->original_context = s->config->family->original_context;
	return by_kind || s->config->family->special == SPECIAL_PHIMOE ||
	       read_int(s, field, 1, INT32_MAX / 2, &r->original_context);
}

/* Gemma 4 rotates the first share of a head's pairs, at the frequencies that they have when all pairs
 * rotate. */
static bool read_proportional(const struct source* s, struct rope* r) {
	enum { NEVER = 30 };
	float share = 1;
	if (!read_float(s, "partial_rotary_factor", 0, 1, &share))
		return false;
	const int pairs = r->dim / 2, turned = (int)((double)share * r->dim / 2 + 1e-4);
	float* const factor = open_factors(s, pairs);
	if (!factor)
		return false;
	for (int i = 0; i < pairs; i++)
		factor[i] = i < turned ? 1.0f : powf(10, NEVER);
	r->short_factor = factor;
	return true;
}

/* A file with "dynamic" and an alpha stretches the base once for all lengths. */
static bool read_alpha(const struct source* s, struct rope* r, bool* done) {
	float alpha = 0;
	*done = false;
	if ((s->config->family->special != SPECIAL_HUNYUAN &&
	     s->config->family->special != SPECIAL_HUNYUAN_MOE) ||
	    r->scaling != ROPE_DYNAMIC)
		return true;
	if (!read_float(s, "alpha", 0, 1e9, &alpha))
		return false;
	*done = alpha > 0 && r->dim > 2;
	if (*done) {
		r->theta = (float)((double)r->theta * pow((double)alpha, (double)r->dim / (r->dim - 2)));
		r->scaling = ROPE_NONE;
	}
	return true;
}

static bool read_scaling(const struct source* s, const cJSON* scaling, bool by_kind, struct rope* r) {
	const struct source in = source_within(s, scaling);
	const cJSON* kind = json_field(scaling, json_field(scaling, "rope_type") ? "rope_type" : "type");
	bool done;
	if (!scaling_kind(&in, r) || !read_alpha(&in, r, &done))
		return false;
	if (done)
		return true;
	if (cJSON_IsString(kind) && strcmp(kind->valuestring, "proportional") == 0)
		return read_float(&in, "factor", 1e-3, 1e6, &r->factor) && read_proportional(&in, r);
	const bool has_factor = json_field(scaling, "factor") != NULL;
	if (!read_float(&in, "factor", 1e-3, 1e6, &r->factor) || !read_original_context(s, &in, by_kind, r))
		return false;
	const bool by_length = r->scaling == ROPE_YARN || r->scaling == ROPE_LONGROPE;
	if (r->scaling == ROPE_NONE) {
		r->factor = 1;
		r->original_context = 0;
		return true;
	}
	if (!has_factor && !by_length)
		return fail(s, "rope_scaling.factor is missing");
	if (!has_factor)
		r->factor = (float)((double)s->config->shape.context / r->original_context);
	if (r->scaling == ROPE_LLAMA3)
		return read_llama3(&in, r);
	if (s->config->family->special == SPECIAL_PHIMOE)
		return read_longrope(&in, r) && read_factors_by_length(&in, r);
	return !by_length || ((r->scaling == ROPE_YARN ? read_yarn(&in, by_kind, r) : read_longrope(&in, r)) &&
	                      read_float(&in, "attention_factor", 0, 1e6, &r->attention_factor));
}

/* Reads the RoPE of one kind of block from its parameters, which may be absent. */
static bool read_one_rope(const struct source* s, const cJSON* parameters, int head_dim, float theta,
                          bool by_kind, struct rope* r) {
	const struct source in = source_within(s, parameters);
	const struct family* f = s->config->family;
	float rotary = f->rotary > 0 ? f->rotary : 1;
	int rotary_dim = 0;
	if (f->special == SPECIAL_MINIMAX_M2 && !read_int(s, "rotary_dim", 1, head_dim, &rotary_dim))
		return false;
	if (rotary_dim)
		rotary = (float)rotary_dim / (float)head_dim;
	r->theta = theta;
	r->factor = r->attention_factor = 1;
	r->interleaved = f->interleaved;
	/* Gemma 4 gives the share by kind of rotation. Latent attention rotates its own part of a head. */
	const bool partial = f->special != SPECIAL_GEMMA4 && f->special != SPECIAL_DEEPSEEK;
	if (!read_float(&in, "rope_theta", 1.001, 1e12, &r->theta) ||
	    (partial && (!read_float(s, "partial_rotary_factor", 0.01, 1, &rotary) ||
	                 !read_float(&in, "partial_rotary_factor", 0.01, 1, &rotary))))
		return false;
	if (rotary < 1 && f->rotary == 0)
		return fail(s,
		            "partial_rotary_factor is %g, which is not supported for %s; it is for phi3, glm4, "
		            "stablelm and qwen3_5",
		            (double)rotary, f->name);
	r->dim = (int)((double)head_dim * (double)rotary + 1e-4); /* the share is rounded to a float */
	return !parameters || read_scaling(s, parameters, by_kind, r);
}

/* Returns an object with the fields of both; those of `over` win. What is not an object has none. The caller
 * frees it. */
static cJSON* merge_objects(const cJSON* under, const cJSON* over) {
	cJSON* all = cJSON_IsObject(over) ? cJSON_Duplicate(over, true) : cJSON_CreateObject();
	const cJSON *fields = cJSON_IsObject(under) ? under : NULL, *one;
	cJSON_ArrayForEach (one, fields)
		if (!cJSON_GetObjectItemCaseSensitive(all, one->string))
			cJSON_AddItemToObject(all, one->string, cJSON_Duplicate(one, true));
	return all;
}

/* Each kind of block has its own RoPE. rope_parameters holds them by name, and nothing else in it is read.
 * rope_scaling, the older form, applies to the blocks with full attention. */
static bool read_ropes_by_kind(const struct source* s, const cJSON* parameters, const cJSON* scaling,
                               float theta) {
	struct model_shape* m = &s->config->shape;
	const struct family* f = s->config->family;
	static const char* const kinds[] = {"full_attention", "sliding_attention"};
	for (int i = 0; i < 2; i++) {
		const cJSON* const one = json_field(parameters, kinds[i]);
		if (one && !cJSON_IsObject(one) && !cJSON_IsNull(one))
			return fail(s, "rope_parameters.%s is not an object", kinds[i]);
	}
	float sliding_theta = f->sliding_theta;
	if (f->sliding_theta_field && !read_float(s, f->sliding_theta_field, 1.001, 1e12, &sliding_theta))
		return false;
	cJSON* full = merge_objects(json_field(parameters, "full_attention"), scaling);
	/* Without rope_parameters the class has a rope_type already, which an old file's `type` does not
	 * change. */
	if (!parameters && !cJSON_HasObjectItem(full, "rope_type"))
		cJSON_AddStringToObject(full, "rope_type", "default");
	const bool good =
	    read_one_rope(s, full, m->full_head_dim ? m->full_head_dim : m->head_dim, theta, true, &m->rope) &&
	    (!slides_anywhere(m) || read_one_rope(s, json_field(parameters, "sliding_attention"), m->head_dim,
	                                          sliding_theta, true, &m->sliding_rope));
	cJSON_Delete(full);
	return good;
}

/* Gemma 4's class has defaults by kind of block when the file has no rope_parameters. */
static bool read_gemma4_ropes(const struct source* s, const cJSON* parameters) {
	const float theta = parameters ? 10000.0f : s->config->family->theta;
	cJSON* by_default = parameters ? NULL
	                               : cJSON_Parse("{\"full_attention\": {\"rope_type\": \"proportional\", "
	                                             "\"partial_rotary_factor\": 0.25}}");
	const bool good = read_ropes_by_kind(s, parameters ? parameters : by_default, NULL, theta);
	cJSON_Delete(by_default);
	return good;
}

static bool read_growth(const struct source* s, const cJSON* parameters) {
	struct model_shape* m = &s->config->shape;
	const struct source in = source_within(s, parameters);
	if (s->config->family->special != SPECIAL_MINISTRAL3 && strcmp(s->config->family->name, "mistral4") != 0)
		return true;
	m->growth_context = 1;
	if (!read_float(&in, "llama_4_scaling_beta", 0, 1e6, &m->attention_growth) ||
	    !read_int(&in, "original_max_position_embeddings", 1, INT32_MAX / 2, &m->growth_context))
		return false;
	if (m->rope.original_context && m->rope.scaling != ROPE_DYNAMIC && m->rope.scaling != ROPE_LINEAR)
		m->growth_context = m->rope.original_context;
	return true;
}

/* Applies YaRN's mscale_all_dim to the scores twice, as DeepSeek-V2's code does, and reads rope_interleave,
 * which states which pairs rotate together. */
static bool read_latent_rope(const struct source* s, const cJSON* parameters) {
	struct model_shape* m = &s->config->shape;
	const struct source in = source_within(s, parameters);
	float all = 0;
	if (!m->latent)
		return true;
	if (!read_float(&in, "mscale_all_dim", 0, 1e6, &all) ||
	    (strcmp(s->config->family->name, "deepseek_v2") != 0 &&
	     !read_bool(s, "rope_interleave", &m->rope.interleaved)))
		return false;
	if (m->rope.scaling != ROPE_NONE && all > 0) {
		const float scale = (float)rope_yarn_scale(m->rope.factor, all);
		m->attention_scale *= scale * scale;
	}
	return true;
}

static bool read_only_rope(const struct source* s, const cJSON* parameters, float theta) {
	if (json_field(parameters, "full_attention") || json_field(parameters, "sliding_attention"))
		return fail(s, "rope_parameters differ between kinds of blocks, which is not supported for %s",
		            s->config->family->name);
	struct model_shape* m = &s->config->shape;
	const int head_dim = m->latent ? m->rope.dim : m->head_dim;
	return read_one_rope(s, parameters, head_dim, theta, false, &m->rope) && read_growth(s, parameters) &&
	       read_latent_rope(s, parameters);
}

/* Granite's rotations differ by kind of block in their bases alone, which read_granite_swa has found. */
static bool read_listed_ropes(const struct source* s, const cJSON* parameters, float theta) {
	struct model_shape* m = &s->config->shape;
	struct config* c = s->config;
	if (!read_only_rope(s, parameters, theta))
		return false;
	if (c->theta > 0)
		m->rope.theta = c->theta;
	if (c->sliding_theta == 0 || c->sliding_theta == m->rope.theta)
		return true;
	if (!read_one_rope(s, parameters, m->head_dim, theta, false, &m->sliding_rope))
		return false;
	m->sliding_rope.theta = c->sliding_theta;
	return true;
}

/* Classes that came when rotations already differed by kind of block take rope_scaling for another name of
 * rope_parameters. */
static bool take_other_name(const struct source* s, const cJSON** parameters, const cJSON** scaling) {
	const enum special special = s->config->family->special;
	if (!*scaling || (special != SPECIAL_GEMMA4 && special != SPECIAL_MELLUM))
		return true;
	*parameters = *scaling;
	*scaling = NULL;
	return json_field(*parameters, "full_attention") || json_field(*parameters, "sliding_attention") ||
	       fail(s, "rope_scaling holds neither full_attention nor sliding_attention");
}

/* transformers 5 writes rope_parameters with theta inside. Older versions write rope_scaling beside
 * rope_theta. When a file has both, rope_scaling replaces rope_parameters, theta included. */
static bool read_rope(const struct source* s) {
	const struct family* f = s->config->family;
	const cJSON *parameters = json_field(s->json, "rope_parameters"),
	            *scaling = json_field(s->json, "rope_scaling");
	float theta = f->theta > 0 ? f->theta : 10000;
	if ((parameters && !cJSON_IsObject(parameters)) || (scaling && !cJSON_IsObject(scaling)))
		return fail(s, "rope_scaling is not a JSON object");
	if (!read_float(s, "rope_theta", 1.001, 1e12, &theta))
		return false;
	if (scaling && !scaling->child)
		scaling = NULL;
	if (!take_other_name(s, &parameters, &scaling))
		return false;
	if (f->special == SPECIAL_GEMMA4)
		return read_gemma4_ropes(s, parameters);
	if (f->sliding_theta > 0)
		return read_ropes_by_kind(s, parameters, scaling, theta);
	if (s->config->sliding_theta > 0 || s->config->theta > 0)
		return read_listed_ropes(s, scaling ? scaling : parameters, theta);
	cJSON* by_default = f->rope && !parameters && !scaling ? cJSON_Parse(f->rope) : NULL;
	const bool good = read_only_rope(s, scaling ? scaling : by_default ? by_default : parameters, theta);
	cJSON_Delete(by_default);
	return good;
}

/* ---- the rest ----------------------------------------------------------------------------- */

static bool read_cap(const struct source* s, const char* field, float by_default, float* out) {
	*out = is_null(s, field) ? 0 : by_default;
	return read_float(s, field, 0, 1e9, out);
}

/* Sets caps when the file gives none. attention_cap 0: Gemma 3 has no cap, whatever its file states. */
static bool read_gemma(const struct source* s, float attention_cap, float logit_cap) {
	struct model_shape* m = &s->config->shape;
	float scalar = 256;
	if (!read_float(s, "query_pre_attn_scalar", 1e-6, 1e9, &scalar) ||
	    (attention_cap > 0 && !read_cap(s, "attn_logit_softcapping", attention_cap, &m->attention_softcap)) ||
	    !read_cap(s, "final_logit_softcapping", logit_cap, &m->logit_softcap))
		return false;
	m->attention_scale = 1 / sqrtf(scalar);
	return true;
}

/* Sets a family's defaults. */
static void set_experts(struct model_shape* m, int n, int used, int ffn) {
	m->n_experts = n;
	m->experts_used = used;
	m->expert_ffn = ffn;
}

static bool read_granite(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	float divisor = 1;
	m->attention_scale = 1;
	if (!read_float(s, "embedding_multiplier", -1e6, 1e6, &m->embedding_scale) ||
	    !read_float(s, "residual_multiplier", -1e6, 1e6, &m->residual_scale) ||
	    !read_float(s, "attention_multiplier", 0, 1e6, &m->attention_scale) ||
	    !read_float(s, "logits_scaling", 1e-6, 1e6, &divisor))
		return false;
	m->logit_scale = 1 / divisor;
	return true;
}

/* attention_multiplier is a head's usual scale where it is absent, and logits_scaling no divisor. */
static bool read_hyperclovax(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	const float usual = m->attention_scale;
	bool norms = true;
	if (!read_granite(s) || !read_bool(s, "use_post_norm", &norms))
		return false;
	if (!json_field(s->json, "attention_multiplier"))
		m->attention_scale = usual;
	m->logit_scale = 1;
	return read_float(s, "logits_scaling", 1e-6, 1e6, &m->logit_scale) &&
	       (norms || fail(s, "use_post_norm is false, which is not supported; supported is true"));
}

/* Granite's experts; the MLP that may be beside them counts as a shared one. */
static bool read_granite_experts(const struct source* s, int shared) {
	struct model_shape* m = &s->config->shape;
	int n = 8;
	if (!read_int(s, "num_local_experts", 0, MOST_EXPERTS, &n) ||
	    !read_int(s, "shared_intermediate_size", 0, LARGEST, &shared))
		return false;
	if (n == 0) {
		m->ffn = shared;
		return shared > 0 || fail(s, "num_local_experts and shared_intermediate_size are both 0");
	}
	set_experts(m, n, 2, m->ffn);
	m->experts_normalised = true;
	m->shared_ffn = shared;
	return read_int(s, "num_experts_per_tok", 1, n, &m->experts_used);
}

/* layer_rope_theta has a base for each block, 0 for one without positions. Those of a kind of block have to
 * be the same. read_granite_swa_ropes takes them from here. */
static bool read_granite_swa(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	const cJSON *list = json_field(s->json, "layer_rope_theta"), *one;
	float* const of[] = {&s->config->theta, &s->config->sliding_theta};
	int b = 0;
	if (list && (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != m->n_blocks))
		return fail(s, "layer_rope_theta is not an array of %d numbers", m->n_blocks);
	cJSON_ArrayForEach (one, list) {
		float* const theta = of[m->sliding_window && block_set_has(&m->sliding, b)];
		if (!cJSON_IsNumber(one) || (one->valuedouble != 0 && !(one->valuedouble > 1)) ||
		    one->valuedouble > 1e12)
			return fail(s, "layer_rope_theta[%d] is neither 0 nor a number above 1", b);
		if (one->valuedouble == 0)
			block_set_put(&m->unrotated, b);
		else if (*theta == 0)
			*theta = (float)one->valuedouble;
		else if (*theta != (float)one->valuedouble)
			return fail(
			    s,
			    "layer_rope_theta[%d] differs from that of other blocks of its kind, which is not supported",
			    b);
		b++;
	}
	return read_granite(s) &&
	       (strcmp(s->config->family->name, "granite_swa") == 0 || read_granite_experts(s, 0));
}

static bool read_granite_moe(const struct source* s) {
	const bool shared = strcmp(s->config->family->name, "granitemoeshared") == 0;
	if (!read_granite_experts(s, 0) || !read_granite(s))
		return false;
	if (s->config->shape.n_experts == 0)
		return fail(s, "num_local_experts is 0, expected 1 to %d", MOST_EXPERTS);
	if (!shared)
		s->config->shape.shared_ffn = 0;
	return true;
}

/* Fields of Mamba-2 blocks, which families name differently. */
struct space_fields {
	const char *heads, *groups, *state, *head_dim, *kernel, *convolution_bias;
};

/* Reads them over the class's defaults, which are in the shape. */
static bool read_state_space(const struct source* s, const struct space_fields* f) {
	struct recurrence* r = &s->config->shape.recurrence;
	const cJSON *head_dim = json_field(s->json, f->head_dim), *limit = json_field(s->json, "time_step_limit");
	bool bias = false;
	s->config->convolution_bias = true;
	r->state_space = r->gate_first = r->log_rates = true;
	const bool derived = cJSON_IsString(head_dim) && strcmp(head_dim->valuestring, "auto") == 0;
	if (!read_int(s, f->heads, 1, LARGEST, &r->value_heads) ||
	    !read_int(s, f->groups, 1, LARGEST, &r->key_heads) ||
	    !read_int(s, f->state, 1, LARGEST, &r->key_dim) ||
	    (!derived && !read_int(s, f->head_dim, 1, LARGEST, &r->value_dim)) ||
	    !read_int(s, f->kernel, 1, LARGEST, &r->kernel) ||
	    !read_bool(s, f->convolution_bias, &s->config->convolution_bias) ||
	    !read_bool(s, "mamba_proj_bias", &bias))
		return false;
	if (bias)
		return fail(s, "mamba_proj_bias is true, which is not supported; supported is false");
	if (cJSON_IsArray(limit) && cJSON_IsNumber(limit->child) && limit->child->valuedouble > 0)
		return fail(s, "time_step_limit begins at %g, which is not supported; supported is 0",
		            limit->child->valuedouble);
	if (cJSON_IsArray(limit) && cJSON_GetArraySize(limit) == 2 && cJSON_IsNumber(limit->child->next))
		return fail(s, "time_step_limit ends at %g, which is not supported; supported is infinity",
		            limit->child->next->valuedouble);
	return true;
}

/* Granite 4: blocks with attention or Mamba-2, each with a shared MLP, perhaps beside experts. */
static bool read_granite4(const struct source* s) {
	static const struct space_fields fields = {"mamba_n_heads", "mamba_n_groups", "mamba_d_state",
	                                           "mamba_d_head",  "mamba_d_conv",   "mamba_conv_bias"};
	struct model_shape* m = &s->config->shape;
	struct recurrence* r = &m->recurrence;
	const char *positions = NULL,
	           *listed = json_field(s->json, "layer_types") ? "layer_types" : "layers_block_type";
	int expand = 2, heads = 128;
	if (!json_field(s->json, listed))
		return fail(s, "layer_types is missing");
	if (!read_mixers(s, listed, &m->recurrent) || !read_string(s, "position_embedding_type", &positions) ||
	    !read_granite_experts(s, 1024) || !read_int(s, "mamba_expand", 1, 1 << 10, &expand) ||
	    !read_int(s, fields.heads, 1, LARGEST, &heads))
		return false;
	for (int b = 0; b < m->n_blocks && (!positions || strcmp(positions, "rope") != 0); b++)
		block_set_put(&m->unrotated, b);
	if (attention_blocks(m) == m->n_blocks)
		return read_granite(s);
	const int64_t width = (int64_t)expand * m->dim;
	*r = (struct recurrence){.key_heads = 1, .key_dim = 256, .kernel = 4, .value_heads = heads};
	r->value_dim = (int)(width / heads <= LARGEST ? width / heads : LARGEST);
	if (!read_state_space(s, &fields) || !read_granite(s))
		return false;
	return (int64_t)heads * r->value_dim == width ||
	       fail(
	           s,
	           "mamba_n_heads %d with heads of %d elements differs from mamba_expand %d times hidden_size %d",
	           heads, r->value_dim, expand, m->dim);
}

/* Falcon-H1: Mamba-2 and attention side by side in each layer, and factors of nearly every part. */
static bool read_multipliers(const struct source* s, const char* field, int n, float* out) {
	const cJSON* list = json_field(s->json, field);
	const cJSON* one = list ? list->child : NULL;
	for (int i = 0; i < n; i++, one = one ? one->next : NULL) {
		out[i] = 1;
		if (!list)
			continue;
		if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != n || !cJSON_IsNumber(one) ||
		    !(fabs(one->valuedouble) >= 1e-6) || !(fabs(one->valuedouble) <= 1e6))
			return fail(s, "%s is not an array of %d numbers, none of them 0", field, n);
		out[i] = (float)one->valuedouble;
	}
	return true;
}

static bool read_falcon_scales(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	struct recurrence* r = &m->recurrence;
	float key = 1, attention_in = 1, attention_out = 1, space_in = 1, space_out = 1, mlp[2];
	if (!read_float(s, "embedding_multiplier", -1e6, 1e6, &m->embedding_scale) ||
	    !read_float(s, "lm_head_multiplier", -1e6, 1e6, &m->logit_scale) ||
	    !read_float(s, "key_multiplier", -1e6, 1e6, &key) ||
	    !read_float(s, "attention_in_multiplier", 1e-6, 1e6, &attention_in) ||
	    !read_float(s, "attention_out_multiplier", 1e-6, 1e6, &attention_out) ||
	    !read_float(s, "ssm_in_multiplier", 1e-6, 1e6, &space_in) ||
	    !read_float(s, "ssm_out_multiplier", 1e-6, 1e6, &space_out) ||
	    !read_multipliers(s, "mlp_multipliers", 2, mlp) ||
	    !read_multipliers(s, "ssm_multipliers", SPACE_PARTS, r->input_scale))
		return false;
	if (s->config->qkv_bias && attention_in != 1.0f)
		return fail(s,
		            "attention_in_multiplier is %g and attention_bias true, which is not supported together",
		            (double)attention_in);
	for (int i = 0; i < SPACE_PARTS; i++)
		r->input_scale[i] *= space_in;
	/* Queries, keys and values are linear in attention's input. */
	m->attention_scale *= key * attention_in * attention_in;
	m->attention_out_scale = attention_out * attention_in;
	m->recurrent_out_scale = space_out;
	m->gate_scale = mlp[0];
	m->mlp_out_scale = mlp[1];
	return true;
}

static bool read_falcon_h1(const struct source* s) {
	static const struct space_fields fields = {"mamba_n_heads", "mamba_n_groups", "mamba_d_state",
	                                           "mamba_d_head",  "mamba_d_conv",   "mamba_conv_bias"};
	struct model_shape* m = &s->config->shape;
	struct recurrence* r = &m->recurrence;
	int expand = 2, heads = 128, width = is_null(s, "mamba_d_ssm") ? 0 : 1024;
	bool norm = false, norm_first = true, bias = false;
	if (!read_int(s, "mamba_expand", 1, 1 << 10, &expand) ||
	    !read_int(s, "mamba_d_ssm", 1, LARGEST, &width) || !read_int(s, fields.heads, 1, LARGEST, &heads) ||
	    !read_bool(s, "mamba_rms_norm", &norm) || !read_bool(s, "mamba_norm_before_gate", &norm_first) ||
	    !read_bool(s, "projectors_bias", &bias))
		return false;
	const int64_t values = width ? width : (int64_t)expand * m->dim;
	*r = (struct recurrence){.key_heads = 1, .key_dim = 256, .kernel = 4, .value_heads = heads};
	r->value_dim = (int)(values / heads <= LARGEST ? values / heads : LARGEST);
	if (!read_state_space(s, &fields) || !read_falcon_scales(s))
		return false;
	r->gate_first = !norm_first;
	s->config->no_state_norm = !norm;
	if (bias)
		return fail(s, "projectors_bias is true, which is not supported; supported is false");
	return (int64_t)heads * r->value_dim == values ||
	       fail(s, "mamba_n_heads %d with heads of %d elements differs from mamba_d_ssm %lld", heads,
	            r->value_dim, (long long)values);
}

/* no_rope_layers holds 1 for a block with positions. Without the list, every no_rope_layer_interval-th block
 * has none. */
static bool read_unrotated(const struct source* s, const cJSON* list) {
	struct model_shape* m = &s->config->shape;
	int interval = 4;
	if (!read_int(s, "no_rope_layer_interval", 1, LARGEST, &interval))
		return false;
	if (list && (!cJSON_IsArray(list) || cJSON_GetArraySize(list) < m->n_blocks))
		return fail(s, "no_rope_layers is not an array of %d numbers", m->n_blocks);
	const cJSON* one = list ? list->child : NULL;
	for (int b = 0; b < m->n_blocks; b++, one = one ? one->next : NULL) {
		int64_t turned = (b + 1) % interval != 0;
		if (one && !json_whole(one, 0, 1, &turned))
			return fail(s, "no_rope_layers[%d] is neither 0 nor 1", b);
		if (!turned)
			block_set_put(&m->unrotated, b);
	}
	return true;
}

/* With use_parallel_residual attention and MLP read the same norm, and there is no other. */
static bool read_stablelm(const struct source* s) {
	return read_bool(s, "use_parallel_residual", &s->config->shape.parallel) &&
	       read_bool(s, "qk_layernorm", &s->config->shape.norms_by_head);
}

static bool read_smollm3(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	const cJSON* list = json_field(s->json, "no_rope_layers");
	if (cJSON_IsArray(list) && cJSON_GetArraySize(list) > m->n_blocks)
		return fail(s, "no_rope_layers is not an array of %d numbers", m->n_blocks);
	if (!read_unrotated(s, list))
		return false;
	if (m->sliding_window && !json_field(s->json, "layer_types"))
		m->sliding = m->unrotated;
	return true;
}

void shape_rotate_sliding(struct model_shape* m) {
	for (int b = 0; m->sliding_window && b < m->n_blocks; b++)
		if (!block_set_has(&m->sliding, b))
			block_set_put(&m->unrotated, b);
}

static bool read_exaone4(const struct source* s) {
	shape_rotate_sliding(&s->config->shape);
	return true;
}

static bool read_cohere(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	m->logit_scale = 0.0625f;
	return read_bool(s, "use_qk_norm", &m->norms_by_head) &&
	       read_float(s, "logit_scale", -1e6, 1e6, &m->logit_scale);
}

static bool read_cohere2(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	m->logit_scale = 0.0625f;
	for (int b = 0; b < m->n_blocks; b++)
		if (!block_set_has(&m->sliding, b))
			block_set_put(&m->unrotated, b);
	return read_float(s, "logit_scale", -1e6, 1e6, &m->logit_scale);
}

static bool read_expert_counts(const struct source* s, const char* other_name) {
	struct model_shape* m = &s->config->shape;
	if (!read_int(s, "num_local_experts", 1, MOST_EXPERTS, &m->n_experts) ||
	    !read_int(s, other_name, 1, MOST_EXPERTS, &m->n_experts) ||
	    !read_int(s, "num_experts_per_tok", 1, MOST_EXPERTS, &m->experts_used))
		return false;
	return m->experts_used <= m->n_experts ||
	       fail(s, "num_experts_per_tok is %d, expected at most the %d experts", m->experts_used,
	            m->n_experts);
}

static bool read_mixtral(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	set_experts(m, 8, 2, m->ffn);
	m->experts_normalised = true;
	return read_expert_counts(s, "num_experts");
}

/* Blocks with positions attend in chunks. moe_layers, or every interleave_moe_layer_step-th block, have
 * experts. */
static bool read_llama4_blocks(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	const cJSON* list = json_field(s->json, "no_rope_layers");
	struct block_set experts = {{0}};
	int step = 1;
	m->sliding_window = is_null(s, "attention_chunk_size") ? 0 : 8192;
	m->window_in_chunks = m->sliding_window > 0;
	if (!read_unrotated(s, cJSON_IsArray(list) && !list->child ? NULL : list) ||
	    !read_int(s, "attention_chunk_size", 1, INT32_MAX / 2, &m->sliding_window) ||
	    !read_types(s, "layer_types", "full_attention", "chunked_attention", &m->sliding) ||
	    !read_listed(s, "moe_layers", &experts) ||
	    !read_int(s, "interleave_moe_layer_step", 1, LARGEST, &step))
		return false;
	const bool by_rule = !json_field(s->json, "layer_types"), listed = json_field(s->json, "moe_layers");
	for (int b = 0; b < m->n_blocks; b++) {
		if (by_rule && m->sliding_window && !block_set_has(&m->unrotated, b))
			block_set_put(&m->sliding, b);
		if (listed ? !block_set_has(&experts, b) : (b + 1) % step)
			block_set_put(&s->config->dense, b);
	}
	return m->sliding_window || !slides_anywhere(m) ||
	       fail(s, "layer_types has chunked_attention, but attention_chunk_size is missing");
}

static bool read_llama4(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	const cJSON* tuning = json_field(s->json, "attn_temperature_tuning");
	bool norms = true;
	set_experts(m, 16, 1, m->ffn);
	m->shared_ffn = m->ffn;
	m->ffn = 16384;
	m->experts_sigmoid = m->experts_weigh_input = true;
	m->growth_context = 8192;
	m->attention_growth = 0.1f;
	if (!read_int(s, "intermediate_size_mlp", 1, LARGEST, &m->ffn) || !read_expert_counts(s, "num_experts") ||
	    !read_bool(s, "use_qk_norm", &norms) || !read_int(s, "floor_scale", 1, LARGEST, &m->growth_context) ||
	    !read_float(s, "attn_scale", 0, 1e6, &m->attention_growth) || !read_llama4_blocks(s))
		return false;
	s->config->plain_head_norms = norms;
	m->growth_unrotated = true;
	/* The first files have a number here. */
	if (cJSON_IsFalse(tuning) || (cJSON_IsNumber(tuning) && tuning->valuedouble == 0))
		m->attention_growth = 0;
	return true;
}

/* The class uses two experts, whatever num_experts_per_tok is. */
static bool read_phimoe(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	float jitter = 0.01f;
	set_experts(m, 16, 2, m->ffn);
	m->experts_in_turn = true;
	if (!read_int(s, "num_local_experts", 2, MOST_EXPERTS, &m->n_experts) ||
	    !read_float(s, "router_jitter_noise", 0, 1e6, &jitter) ||
	    !read_bool(s, "lm_head_bias", &s->config->head_bias))
		return false;
	m->experts_near = 2 * jitter;
	return true;
}

/* Every decoder_sparse_step-th block has experts, unless mlp_only_layers lists it. The arguments are the
 * defaults. */
static bool read_some_experts(const struct source* s, int n, int used, int ffn) {
	struct model_shape* m = &s->config->shape;
	int step = 1;
	set_experts(m, n, used, ffn);
	if (!read_expert_counts(s, "num_experts") ||
	    !read_int(s, "moe_intermediate_size", 1, LARGEST, &m->expert_ffn) ||
	    !read_bool(s, "norm_topk_prob", &m->experts_normalised) ||
	    !read_int(s, "decoder_sparse_step", 1, LARGEST, &step))
		return false;
	for (int b = 0; b < m->n_blocks; b++)
		if ((b + 1) % step)
			block_set_put(&s->config->dense, b);
	return read_listed(s, "mlp_only_layers", &s->config->dense);
}

static bool read_qwen3_moe(const struct source* s) { return read_some_experts(s, 128, 8, 768); }

static bool read_mellum(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	set_experts(m, 64, 8, 896);
	m->experts_normalised = true;
	if (!json_field(s->json, "layer_types"))
		m->sliding = (struct block_set){{0}};
	return read_expert_counts(s, "num_experts") &&
	       read_int(s, "moe_intermediate_size", 1, LARGEST, &m->expert_ffn) &&
	       read_bool(s, "norm_topk_prob", &m->experts_normalised) &&
	       read_types(s, "mlp_layer_types", "sparse", "dense", &s->config->dense);
}

static bool read_qwen3_vl_moe(const struct source* s) {
	if (!read_some_experts(s, 60, 4, 1408))
		return false;
	s->config->packing.inputs = s->config->shape.dim;
	s->config->shape.experts_normalised = true; /* whatever norm_topk_prob is */
	return true;
}

/* Treats shared experts as one expert of their joint width. */
static bool read_shared(const struct source* s, const char* count, int by_default) {
	struct model_shape* m = &s->config->shape;
	int n = by_default;
	if (!read_int(s, count, 0, MOST_EXPERTS, &n))
		return false;
	if ((int64_t)n * m->expert_ffn > LARGEST)
		return fail(s, "%s is %d, which is too large beside a feed-forward of %d", count, n, m->expert_ffn);
	m->shared_ffn = n * m->expert_ffn;
	return true;
}

static bool read_qwen2_moe(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	int most = 28;
	m->shared_ffn = 5632;
	if (!read_some_experts(s, 60, 4, 1408) ||
	    !read_int(s, "shared_expert_intermediate_size", 1, LARGEST, &m->shared_ffn) ||
	    !read_int(s, "max_window_layers", 0, LARGEST, &most))
		return false;
	/* Its class sets the window to 0 then, and the mask hides all positions. */
	if (m->sliding_window == 0 && slides_anywhere(m))
		return fail(s,
		            "layer_types has sliding_attention, but use_sliding_window is not true or sliding_window "
		            "is missing");
	/* Qwen2-MoE's own rule: every second of the first blocks slides. */
	for (int b = 0; m->sliding_window && !json_field(s->json, "layer_types") && b < m->n_blocks; b++) {
		if (b == 0)
			m->sliding = (struct block_set){{0}};
		if (b % 2 == 0 && b < most)
			block_set_put(&m->sliding, b);
	}
	return true;
}

/* Reads layer_types. Without it every full_attention_interval-th block has attention. */
static bool read_recurrent_types(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	int interval = 4;
	if (!read_int(s, "full_attention_interval", 1, LARGEST, &interval))
		return false;
	for (int b = 0; !json_field(s->json, "layer_types") && b < m->n_blocks; b++)
		if ((b + 1) % interval != 0)
			block_set_put(&m->recurrent, b);
	return read_types(s, "layer_types", "full_attention", "linear_attention", &m->recurrent);
}

static bool read_qwen3_5(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	struct recurrence* r = &m->recurrence;
	*r = (struct recurrence){
	    .key_heads = 16, .value_heads = 32, .key_dim = 128, .value_dim = 128, .kernel = 4, .log_rates = true};
	m->attention_gated = true;
	return read_int(s, "linear_num_key_heads", 1, LARGEST, &r->key_heads) &&
	       read_int(s, "linear_num_value_heads", 1, LARGEST, &r->value_heads) &&
	       read_int(s, "linear_key_head_dim", 1, LARGEST, &r->key_dim) &&
	       read_int(s, "linear_value_head_dim", 1, LARGEST, &r->value_dim) &&
	       read_int(s, "linear_conv_kernel_dim", 1, LARGEST, &r->kernel) && read_recurrent_types(s);
}

static bool read_qwen3_5_moe(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	set_experts(m, 256, 8, 512);
	m->shared_ffn = 512;
	m->experts_normalised = true;
	return read_expert_counts(s, "num_experts") &&
	       read_int(s, "moe_intermediate_size", 1, LARGEST, &m->expert_ffn) &&
	       read_int(s, "shared_expert_intermediate_size", 1, LARGEST, &m->shared_ffn) && read_qwen3_5(s);
}

static bool read_qwen3_next(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	m->shared_ffn = 512;
	m->experts_normalised = true;
	return read_some_experts(s, 512, 10, 512) &&
	       read_int(s, "shared_expert_intermediate_size", 1, LARGEST, &m->shared_ffn) && read_qwen3_5(s);
}

/* Computes the width as transformers does. */
static bool read_lfm2_ffn(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	bool adjust = true;
	float factor = 1;
	int multiple = 256;
	if (!read_int(s, "block_ff_dim", 1, LARGEST, &m->ffn) ||
	    !read_bool(s, "block_auto_adjust_ff_dim", &adjust) ||
	    !read_float(s, "block_ffn_dim_multiplier", 1e-3, 1e3, &factor) ||
	    !read_int(s, "block_multiple_of", 1, LARGEST, &multiple))
		return false;
	if (!adjust)
		return true;
	int64_t ffn = 2 * (int64_t)m->ffn / 3;
	if (!is_null(s, "block_ffn_dim_multiplier")) {
		ffn = (int64_t)((double)factor * (double)ffn);
		ffn = (ffn + multiple - 1) / multiple * multiple;
	}
	m->ffn = (int)ffn;
	return (ffn > 0 && ffn <= LARGEST) ||
	       fail(s, "the feed-forward comes to %lld elements, expected 1 to %d", (long long)ffn, LARGEST);
}

/* Reads layer_types, or full_attn_idxs, which lists the blocks with attention. Without both, all blocks have
 * it. */
static bool read_lfm2_blocks(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	struct block_set attention = {{0}};
	if (json_field(s->json, "layer_types") || !json_field(s->json, "full_attn_idxs"))
		return read_types(s, "layer_types", "full_attention", "conv", &m->recurrent);
	if (!read_listed(s, "full_attn_idxs", &attention))
		return false;
	for (int b = 0; b < m->n_blocks; b++)
		if (!block_set_has(&attention, b))
			block_set_put(&m->recurrent, b);
	return true;
}

static bool read_lfm2(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	struct recurrence* r = &m->recurrence;
	bool bias = false;
	*r = (struct recurrence){.value_heads = 1, .value_dim = m->dim, .kernel = 3};
	if (!read_bool(s, "conv_bias", &bias) || !read_bool(s, "tie_embedding", &s->config->tied) ||
	    !read_int(s, "conv_L_cache", 1, LARGEST, &r->kernel) || !read_lfm2_blocks(s) || !read_lfm2_ffn(s))
		return false;
	return !bias || fail(s, "conv_bias is true, which is not supported; supported is false");
}

static bool read_lfm2_moe(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	struct recurrence* r = &m->recurrence;
	bool bias = false, choice_bias = true;
	int dense = 2;
	*r = (struct recurrence){.value_heads = 1, .value_dim = m->dim, .kernel = 3};
	set_experts(m, 32, 4, 1792);
	m->experts_sigmoid = m->experts_normalised = true;
	m->experts_scale = 1;
	m->experts_epsilon = 1e-6f;
	if (!json_field(s->json, "layer_types"))
		return fail(s, "layer_types is missing");
	if (!read_bool(s, "conv_bias", &bias) || !read_bool(s, "tie_embedding", &s->config->tied) ||
	    !read_int(s, "conv_L_cache", 1, LARGEST, &r->kernel) || !read_lfm2_blocks(s) ||
	    !read_expert_counts(s, "num_experts") ||
	    !read_int(s, "moe_intermediate_size", 1, LARGEST, &m->expert_ffn) ||
	    !read_int(s, "num_dense_layers", 0, MAX_BLOCKS, &dense) ||
	    !read_bool(s, "norm_topk_prob", &m->experts_normalised) ||
	    !read_float(s, "routed_scaling_factor", 1e-6, 1e6, &m->experts_scale) ||
	    !read_bool(s, "use_expert_bias", &choice_bias))
		return false;
	s->config->no_choice_bias = !choice_bias;
	for (int b = 0; b < dense && b < m->n_blocks; b++)
		block_set_put(&s->config->dense, b);
	return !bias || fail(s, "conv_bias is true, which is not supported; supported is false");
}

static bool read_olmoe(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	set_experts(m, 64, 8, m->ffn);
	return read_expert_counts(s, "num_experts") && read_bool(s, "norm_topk_prob", &m->experts_normalised);
}

static bool read_minimax_m2(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	const char* kind = "per_layer";
	bool norms = true;
	set_experts(m, 256, 8, m->ffn);
	m->experts_normalised = m->experts_sigmoid = true;
	if (!read_bool(s, "use_qk_norm", &norms) || !read_string(s, "qk_norm_type", &kind))
		return false;
	if (!norms || strcmp(kind, "per_layer") != 0)
		return fail(s, "use_qk_norm is %s and qk_norm_type \"%.40s\"; supported are true and per_layer",
		            norms ? "true" : "false", kind);
	return read_expert_counts(s, "num_experts");
}

/* Routers that weigh by sigmoids and may choose groups first. `dense` first blocks have no experts. */
static bool read_grouped_experts(const struct source* s, int dense, int shared) {
	struct model_shape* m = &s->config->shape;
	m->experts_sigmoid = true;
	m->experts_scale = 1;
	m->expert_groups = m->expert_groups_used = 1;
	if (!read_int(s, "moe_intermediate_size", 1, LARGEST, &m->expert_ffn) ||
	    !read_bool(s, "norm_topk_prob", &m->experts_normalised) ||
	    !read_float(s, "routed_scaling_factor", 1e-6, 1e6, &m->experts_scale) ||
	    !read_int(s, "n_group", 1, MOST_EXPERTS, &m->expert_groups) ||
	    !read_int(s, "topk_group", 1, MOST_EXPERTS, &m->expert_groups_used) ||
	    !read_int(s, "first_k_dense_replace", 0, MAX_BLOCKS, &dense) ||
	    !read_shared(s, "n_shared_experts", shared))
		return false;
	for (int b = 0; b < dense && b < m->n_blocks; b++)
		block_set_put(&s->config->dense, b);
	return true;
}

/* transformers 5 writes the field under a name of its own. */
static bool read_further_blocks(const struct source* s) {
	int* const n = &s->config->further_blocks;
	return read_int(s, "num_mtp_layers", 0, MAX_BLOCKS, n) &&
	       read_int(s, "num_nextn_predict_layers", 0, MAX_BLOCKS, n);
}

static bool read_glm4_moe(const struct source* s) {
	struct config* c = s->config;
	const int dense = has_dense(s) ? 1 : 0;
	set_experts(&c->shape, 128, 8, 1408);
	c->shape.experts_normalised = true;
	c->further_blocks = dense;
	return read_expert_counts(s, "n_routed_experts") && read_grouped_experts(s, dense, 1) &&
	       read_bool(s, "use_qk_norm", &c->head_norms) && read_further_blocks(s);
}

/* A number, or a list of one for each block, which have to be the same. */
static bool read_same(const struct source* s, const char* field, int* out) {
	const cJSON *value = json_field(s->json, field), *one;
	if (!cJSON_IsArray(value))
		return read_int(s, field, 1, MOST_EXPERTS, out);
	cJSON_ArrayForEach (one, value) {
		int64_t n;
		if (!json_whole(one, 1, MOST_EXPERTS, &n) || n != (int64_t)value->child->valuedouble)
			return fail(s, "%s must list the same number for all blocks, from 1 to %d", field, MOST_EXPERTS);
		*out = (int)n;
	}
	return true;
}

/* The class has one shared expert as wide as the others, whatever num_shared_expert is. */
static bool read_hunyuan_moe(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	set_experts(m, 1, 1, m->ffn);
	m->shared_ffn = m->ffn;
	m->experts_normalised = true;
	if (!read_same(s, "num_experts", &m->n_experts) || !read_same(s, "moe_topk", &m->experts_used))
		return false;
	return m->experts_used <= m->n_experts ||
	       fail(s, "moe_topk is %d, expected at most the %d experts", m->experts_used, m->n_experts);
}

static bool read_exaone_moe(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	const cJSON* letters = json_field(s->json, "sliding_window_pattern");
	const bool listed = json_field(s->json, "mlp_layer_types");
	set_experts(m, 64, 8, 1024);
	m->experts_normalised = true;
	if (cJSON_IsString(letters) && !json_field(s->json, "layer_types"))
		return fail(s, "sliding_window_pattern is \"%.40s\" without layer_types, which is not supported",
		            letters->valuestring);
	shape_rotate_sliding(m);
	if (!read_expert_counts(s, "num_experts") || !read_grouped_experts(s, 1, 1) ||
	    !read_shared(s, "num_shared_experts", 1))
		return false;
	if (!json_field(s->json, "routed_scaling_factor"))
		m->experts_scale = 2.5f;
	if (listed)
		s->config->dense = (struct block_set){{0}};
	return read_types(s, "mlp_layer_types", "sparse", "dense", &s->config->dense);
}

static bool read_hy_v3(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	set_experts(m, 192, 8, 1536);
	m->experts_normalised = m->experts_sigmoid = true;
	m->experts_scale = 2.826f;
	if (s->config->mlp_bias)
		return fail(s, "mlp_bias is true beside experts, which is not supported; leave it out");
	if (!json_field(s->json, "mlp_layer_types"))
		block_set_put(&s->config->dense, 0);
	return read_expert_counts(s, "num_experts") &&
	       read_int(s, "moe_intermediate_size", 1, LARGEST, &m->expert_ffn) &&
	       read_float(s, "router_scaling_factor", 1e-6, 1e6, &m->experts_scale) &&
	       read_shared(s, "num_shared_experts", 1) && read_further_blocks(s) &&
	       read_types(s, "mlp_layer_types", "sparse", "dense", &s->config->dense);
}

static bool read_afmoe(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	bool scaled = false, bias = false;
	int dense = 1;
	set_experts(m, 64, 6, 1408);
	m->experts_normalised = m->experts_sigmoid = m->attention_gated = true;
	m->experts_scale = 1;
	for (int b = 0; b < m->n_blocks; b++)
		if (!block_set_has(&m->sliding, b))
			block_set_put(&m->unrotated, b);
	if (!read_expert_counts(s, "num_experts") || !read_bool(s, "mup_enabled", &scaled) ||
	    !read_bool(s, "attention_bias", &bias) ||
	    !read_int(s, "moe_intermediate_size", 1, LARGEST, &m->expert_ffn) ||
	    !read_float(s, "route_scale", 1e-6, 1e6, &m->experts_scale) ||
	    !read_int(s, "num_dense_layers", 0, MAX_BLOCKS, &dense) || !read_shared(s, "num_shared_experts", 2))
		return false;
	if (scaled)
		m->embedding_scale = sqrtf((float)m->dim);
	for (int b = 0; b < dense && b < m->n_blocks; b++)
		block_set_put(&s->config->dense, b);
	return !bias || fail(s, "attention_bias is true, which is not supported; supported is false");
}

static bool read_dots1(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	m->expert_ffn = 1408;
	return read_required(s, "n_routed_experts", MOST_EXPERTS, &m->n_experts) &&
	       read_required(s, "num_experts_per_tok", MOST_EXPERTS, &m->experts_used) &&
	       read_grouped_experts(s, 0, 0);
}

/* Nemotron-H: nothing is rotated, and experts have no gate. */
static bool read_nemotron_h(const struct source* s) {
	const bool older = json_field(s->json, "mamba_n_groups") != NULL; /* and the other older names */
	const struct space_fields fields = {.heads = "mamba_num_heads",
	                                    .groups = older ? "mamba_n_groups" : "n_groups",
	                                    .state = "ssm_state_size",
	                                    .head_dim = "mamba_head_dim",
	                                    .kernel = older ? "mamba_d_conv" : "conv_kernel",
	                                    .convolution_bias = older ? "mamba_conv_bias" : "use_conv_bias"};
	struct model_shape* m = &s->config->shape;
	bool bias = false, experts = false;
	m->recurrence =
	    (struct recurrence){.key_heads = 8, .value_heads = 128, .key_dim = 128, .value_dim = 64, .kernel = 4};
	for (int b = 0; b < m->n_blocks; b++) {
		block_set_put(&m->unrotated, b);
		experts |= !block_set_has(&m->without_mlp, b) && !block_set_has(&s->config->dense, b);
	}
	if (!read_state_space(s, &fields) || !read_bool(s, "use_bias", &bias))
		return false;
	if (bias)
		return fail(s, "use_bias is true, which is not supported; supported is false");
	if (!experts)
		return true;
	if (s->config->mlp_bias)
		return fail(s, "mlp_bias is true beside experts, which is not supported; leave it out");
	if (json_field(s->json, "moe_latent_size"))
		return fail(s, "moe_latent_size is given, which is not supported");
	set_experts(m, 8, 2, 7688);
	m->experts_normalised = true;
	if (!read_expert_counts(s, "n_routed_experts") || !read_grouped_experts(s, 0, 0))
		return false;
	m->shared_ffn = 7688;
	return read_int(s, "moe_shared_expert_intermediate_size", 1, LARGEST, &m->shared_ffn);
}

/* ---- latent attention ---------------------------------------------------------------------- */

/* Defaults of each configuration class. */
static const struct latent_defaults {
	const char* name;
	int latent, query_latent, nope, rope, value;
	int experts, used, expert_ffn, shared, groups, groups_used, dense, further;
	float scale;
	bool normalised, sigmoid,
	    first_dense,      /* the first block has no experts where mlp_layer_types is silent */
	    head_dim_rotates; /* head_dim is another name of qk_rope_head_dim */
} latent_defaults[] = {
    {"deepseek_v2", 512, 1536, 128, 64, 128, 64, 0, 1407, 2, 0, 0, 0, 0, 1, false, false, false, false},
    {"deepseek_v3", 512, 1536, 128, 64, 128, 256, 8, 2048, 1, 8, 4, 3, 1, 2.5f, true, true, false, false},
    {"glm4_moe_lite", 512, 768, 192, 64, 256, 64, 4, 1536, 1, 1, 1, 0, 0, 1.8f, true, true, true, true},
    {"youtu", 512, 1536, 128, 64, 128, 0, 0, 0, 0, 0, 0, 0, 0, 1, false, false, false, false},
    {"mistral4", 256, 1024, 64, 64, 128, 128, 4, 2048, 1, 1, 1, 0, 0, 1, true, false, false, false},
};

static const struct latent_defaults* latent_of(const char* name) {
	for (size_t i = 0; i < sizeof latent_defaults / sizeof *latent_defaults; i++)
		if (strcmp(latent_defaults[i].name, name) == 0)
			return &latent_defaults[i];
	return NULL;
}

/* Reads the sizes of latent attention. It also sets rope.dim, which does not follow from a head's other
 * sizes. */
static bool read_latent_sizes(const struct source* s, const struct latent_defaults* d) {
	struct model_shape* m = &s->config->shape;
	m->latent = d->latent;
	m->query_latent = is_null(s, "q_lora_rank") ? 0 : d->query_latent;
	m->nope_dim = d->nope;
	m->value_dim = d->value;
	m->rope.dim = d->rope;
	m->latent_epsilon = 1e-6f;
	if (!read_int(s, "kv_lora_rank", 1, LARGEST, &m->latent) ||
	    !read_int(s, "q_lora_rank", 1, LARGEST, &m->query_latent) ||
	    !read_int(s, "qk_nope_head_dim", 1, LARGEST, &m->nope_dim) ||
	    !read_int(s, "qk_rope_head_dim", 2, LARGEST, &m->rope.dim) ||
	    (d->head_dim_rotates && !read_int(s, "head_dim", 2, LARGEST, &m->rope.dim)) ||
	    !read_int(s, "v_head_dim", 1, LARGEST, &m->value_dim))
		return false;
	m->head_dim = m->latent + m->rope.dim;
	m->kv_heads = 1;
	m->attention_scale = 1 / sqrtf((float)(m->nope_dim + m->rope.dim));
	return (int64_t)m->heads * (m->latent + m->nope_dim + m->value_dim) <= LARGEST ||
	       fail(s, "kv_lora_rank %d, qk_nope_head_dim %d and v_head_dim %d are too large for %d heads",
	            m->latent, m->nope_dim, m->value_dim, m->heads);
}

static bool read_mlp_types(const struct source* s, const struct latent_defaults* d) {
	if (!d->first_dense)
		return true;
	if (!json_field(s->json, "mlp_layer_types"))
		block_set_put(&s->config->dense, 0);
	return read_types(s, "mlp_layer_types", "sparse", "dense", &s->config->dense);
}

static bool read_latent_experts(const struct source* s, const struct latent_defaults* d) {
	struct model_shape* m = &s->config->shape;
	const char* choice = "greedy";
	int dense = d->dense;
	set_experts(m, d->experts, d->used, d->expert_ffn);
	m->experts_normalised = d->normalised;
	m->experts_sigmoid = d->sigmoid;
	m->experts_scale = d->scale;
	m->expert_groups = d->groups;
	m->expert_groups_used = d->groups_used;
	s->config->further_blocks = d->further;
	if (!read_expert_counts(s, "n_routed_experts") ||
	    !read_int(s, "moe_intermediate_size", 1, LARGEST, &m->expert_ffn) ||
	    !read_float(s, "routed_scaling_factor", 1e-6, 1e6, &m->experts_scale) ||
	    !read_int(s, "n_group", 1, MOST_EXPERTS, &m->expert_groups) ||
	    !read_int(s, "topk_group", 1, MOST_EXPERTS, &m->expert_groups_used) ||
	    !read_string(s, "topk_method", &choice) ||
	    (!d->first_dense && !read_int(s, "first_k_dense_replace", 0, MAX_BLOCKS, &dense)) ||
	    !read_further_blocks(s) || !read_shared(s, "n_shared_experts", d->shared) || !read_mlp_types(s, d))
		return false;
	/* DeepSeek-V2 reads topk_method, and not norm_topk_prob. Its groups count by their best expert. */
	m->groups_by_best = strcmp(d->name, "deepseek_v2") == 0;
	if (!m->groups_by_best && !read_bool(s, "norm_topk_prob", &m->experts_normalised))
		return false;
	if (m->groups_by_best && strcmp(choice, "group_limited_greedy") != 0)
		m->expert_groups = 0;
	if (m->groups_by_best && strcmp(choice, "greedy") != 0 && strcmp(choice, "group_limited_greedy") != 0)
		return fail(s,
		            "topk_method is \"%.40s\", which is not supported; supported are greedy and "
		            "group_limited_greedy",
		            choice);
	for (int b = 0; b < dense && b < m->n_blocks; b++)
		block_set_put(&s->config->dense, b);
	return true;
}

static bool read_deepseek(const struct source* s) {
	const struct latent_defaults* d = latent_of(s->config->family->name);
	if (s->config->mlp_bias)
		return fail(s, "mlp_bias is true beside experts, which is not supported; leave it out");
	return read_latent_sizes(s, d) && (d->experts == 0 || read_latent_experts(s, d));
}

/* ---- Gemma 4 ------------------------------------------------------------------------------ */

/* transformers 5 writes fields that differ by block as per_layer_config, which replaces global_head_dim and
 * num_global_key_value_heads. */
static bool read_own_sizes(const struct source* s, const cJSON* own) {
	struct model_shape* m = &s->config->shape;
	for (int b = 0; b < m->n_blocks; b++) {
		char name[16];
		snprintf(name, sizeof name, "%d", b);
		const struct source in = source_within(s, json_field(own, name));
		int head_dim = m->head_dim, kv_heads = m->kv_heads;
		if (!read_int(&in, "head_dim", 1, LARGEST, &head_dim) ||
		    !read_int(&in, "num_key_value_heads", 1, LARGEST, &kv_heads))
			return false;
		const bool slides = block_set_has(&m->sliding, b);
		if (!slides && m->full_head_dim == 0) {
			m->full_head_dim = head_dim;
			m->full_kv_heads = kv_heads;
		}
		if (head_dim != (slides ? m->head_dim : m->full_head_dim) ||
		    kv_heads != (slides ? m->kv_heads : m->full_kv_heads))
			return fail(s,
			            "per_layer_config gives block %d other heads than other blocks of its kind have, "
			            "which is not supported",
			            b);
	}
	return true;
}

static bool read_full_heads(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	const cJSON* own = json_field(s->json, "per_layer_config");
	if (own)
		return read_own_sizes(s, own);
	m->full_head_dim = 512;
	m->full_kv_heads = m->kv_heads;
	return read_int(s, "global_head_dim", 1, LARGEST, &m->full_head_dim) &&
	       (!s->config->keys_as_values ||
	        read_int(s, "num_global_key_value_heads", 1, LARGEST, &m->full_kv_heads));
}

static bool read_experts_beside(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	bool experts = false;
	if (!read_bool(s, "enable_moe_block", &experts))
		return false;
	if (!experts)
		return true;
	m->experts_normalised = true;
	m->router_scale = 1 / sqrtf((float)m->dim);
	return read_required(s, "num_experts", MOST_EXPERTS, &m->n_experts) &&
	       read_required(s, "top_k_experts", m->n_experts, &m->experts_used) &&
	       read_required(s, "moe_intermediate_size", LARGEST, &m->expert_ffn);
}

/* The last blocks read the keys of earlier ones, and may have MLPs of twice the width. */
static bool read_shared_keys(const struct source* s, int by_default) {
	struct model_shape* m = &s->config->shape;
	int shared = by_default;
	bool wide = false;
	if (!read_int(s, "num_kv_shared_layers", 0, m->n_blocks - 1, &shared) ||
	    !read_bool(s, "use_double_wide_mlp", &wide))
		return false;
	if (shared == 0)
		return true;
	if (shared >= m->n_blocks)
		return fail(s, "num_kv_shared_layers is %d, which is all of %d blocks", shared, m->n_blocks);
	m->sharing_from = m->n_blocks - shared;
	for (int b = 0; b < m->n_blocks; b++) {
		if (block_keys_of(m, b) < 0)
			return fail(s,
			            "num_kv_shared_layers is %d: block %d has to read the keys of an earlier block of "
			            "its kind, and there is none",
			            shared, b);
		if (wide && b >= m->sharing_from)
			s->config->ffn[b] = 2 * m->ffn;
	}
	return true;
}

/* ---- Gemma 3n ----------------------------------------------------------------------------- */

/* The x below which a normal variable lies with the probability p: Newton's method on its distribution. */
static double normal_quantile(double p) {
	double x = 0;
	for (int i = 0; i < 60; i++) {
		const double density = exp(-x * x / 2) / sqrt(2 * 3.14159265358979323846);
		const double step = (erfc(-x / sqrt(2)) / 2 - p) / fmax(density, 1e-9);
		x -= fmin(fmax(step, -1), 1);
	}
	return x;
}

/* The share of each block's gate that is cut off. By default .95 in the first 10 of more than 10 blocks. */
static bool read_sparsity(const struct source* s) {
	enum { FIRST = 10 };
	static const char field[] = "activation_sparsity_pattern";
	struct config* c = s->config;
	const cJSON *list = json_field(s->json, field), *one = list ? list->child : NULL;
	const int n = c->shape.n_blocks;
	if (list && (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != n))
		return fail(s, "%s is not an array of %d numbers", field, n);
	for (int b = 0; b < n; b++, one = one ? one->next : NULL) {
		const double share = one                      ? (cJSON_IsNumber(one) ? one->valuedouble : -1)
		                     : n > FIRST && b < FIRST ? 0.95
		                                              : 0;
		if (!(share >= 0) || !(share < 1))
			return fail(s, "%s[%d] is not a number from 0 to below 1", field, b);
		c->sparse[b] = share > 0;
		c->sparsity[b] = share > 0 ? (float)normal_quantile((double)(float)share) : 0;
	}
	return true;
}

static bool read_gemma3n(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	bool scaled = true;
	int active = 0;
	m->attention_scale = 1;
	m->value_norm = true;
	m->token_input = 256;
	m->altup = 4;
	s->config->input_vocab = 262144;
	if (!read_int(s, "altup_active_idx", 0, MOST_ALTUP, &active) ||
	    !read_int(s, "altup_num_inputs", 2, MOST_ALTUP, &m->altup) ||
	    !read_bool(s, "altup_correct_scale", &scaled) ||
	    !read_int(s, "hidden_size_per_layer_input", 1, 1 << 16, &m->token_input) ||
	    !read_int(s, "vocab_size_per_layer_input", 1, LARGEST, &s->config->input_vocab))
		return false;
	if (active != 0)
		return fail(s, "altup_active_idx is %d, which is not supported; supported is 0", active);
	s->config->no_altup_scale = !scaled;
	return read_shared_keys(s, 15) && read_sparsity(s) &&
	       read_cap(s, "final_logit_softcapping", 30, &m->logit_softcap);
}

/* transformers' mask lets an assistant see so many keys and one more, counted from the one before its
 * position, which has none. */
void config_be_assistant(struct config* c) {
	struct model_shape* m = &c->shape;
	m->keys_outside = true;
	m->token_input = 0;
	m->logit_softcap = 0;
	m->sliding_window += m->sliding_window > 0 ? 2 : 0;
}

/* An assistant has blocks like the model that it drafts for, but no keys, inputs or experts. */
static bool read_assistant(const struct source* s) {
	const struct source outer = source_within(s, s->outer);
	struct model_shape* m = &s->config->shape;
	int shared = 0, inputs = m->token_input;
	bool wide = false, experts = false, grouped = false;
	if (!read_int(s, "num_kv_shared_layers", 0, m->n_blocks, &shared) ||
	    !read_int(s, "hidden_size_per_layer_input", 0, 1 << 16, &inputs) ||
	    !read_bool(s, "use_double_wide_mlp", &wide) || !read_bool(s, "enable_moe_block", &experts))
		return false;
	if (inputs || wide || experts || (shared > 0 && shared < m->n_blocks))
		return fail(s,
		            "num_kv_shared_layers is %d, hidden_size_per_layer_input %d, use_double_wide_mlp %d and "
		            "enable_moe_block %d; an assistant of %d blocks has %d and three times 0",
		            shared, inputs, wide, experts, m->n_blocks, m->n_blocks);
	config_be_assistant(s->config);
	m->state_dim = 1536;
	if (!read_int(&outer, "backbone_hidden_size", 1, LARGEST, &m->state_dim) ||
	    !read_bool(&outer, "use_ordered_embeddings", &grouped))
		return false;
	if (!grouped)
		return true;
	s->config->centroids = 2048;
	m->centroids_used = 32;
	if (!read_int(&outer, "num_centroids", 1, m->vocab, &s->config->centroids) ||
	    !read_int(&outer, "centroid_intermediate_top_k", 1, LARGEST, &m->centroids_used))
		return false;
	return (m->vocab % s->config->centroids == 0 && m->centroids_used <= s->config->centroids) ||
	       fail(s,
	            "num_centroids is %d, of which a token reads %d; expected a divisor of the vocabulary's %d",
	            s->config->centroids, m->centroids_used, m->vocab);
}

static bool read_gemma4(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	struct config* c = s->config;
	const char* both_ways = NULL;
	const int last = m->n_blocks - 1;
	m->sliding.word[last >> 6] &= ~((uint64_t)1 << (last & 63)); /* the last block sees everything always */
	m->attention_scale = 1;
	m->value_norm = true;
	/* The unified models have no such inputs. */
	m->token_input =
	    strcmp(s->config->family->name, "gemma4_text") != 0 || is_null(s, "hidden_size_per_layer_input")
	        ? 0
	        : 256;
	c->input_vocab = 262144;
	if (!read_string(s, "use_bidirectional_attention", &both_ways))
		return false;
	if (both_ways && strcmp(both_ways, "vision") != 0)
		return fail(s,
		            "use_bidirectional_attention is \"%.40s\", which is not supported; only \"vision\" is, "
		            "which concerns images alone, or a config without the field",
		            both_ways);
	if (!read_bool(s, "attention_k_eq_v", &c->keys_as_values) || !read_full_heads(s))
		return false;
	if (c->assistant)
		return read_assistant(s);
	return read_int(s, "hidden_size_per_layer_input", 0, 1 << 16, &m->token_input) &&
	       read_int(s, "vocab_size_per_layer_input", 1, LARGEST, &c->input_vocab) && read_shared_keys(s, 0) &&
	       read_experts_beside(s) && read_cap(s, "final_logit_softcapping", 0, &m->logit_softcap);
}

/* ------------------------------------------------------------------------------------------- */

static bool read_ernie4_5_moe(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	int first = 1, last = -1, interval = 1;
	set_experts(m, 64, 6, 1536);
	m->experts_normalised = true;
	if (!read_int(s, "moe_k", 1, MOST_EXPERTS, &m->experts_used) ||
	    !read_expert_counts(s, "moe_num_experts") ||
	    !read_int(s, "moe_intermediate_size", 1, LARGEST, &m->expert_ffn) ||
	    !read_int(s, "moe_layer_start_index", 0, MAX_BLOCKS, &first) ||
	    !read_int(s, "moe_layer_end_index", -1, MAX_BLOCKS, &last) ||
	    !read_int(s, "moe_layer_interval", 1, MAX_BLOCKS, &interval) ||
	    !read_shared(s, "moe_num_shared_experts", 2))
		return false;
	if (s->config->mlp_bias)
		return fail(s, "use_bias is true beside experts, which is not supported; leave it out");
	for (int b = 0; b < m->n_blocks; b++)
		if ((b + 1) % interval || b < first || (last >= 0 && b > last))
			block_set_put(&s->config->dense, b);
	return true;
}

static bool read_gpt_oss(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	float limit = 7, alpha = 1.702f;
	m->activation = ACTIVATION_SWIGLU_CLAMPED;
	set_experts(m, 128, 4, m->ffn);
	m->experts_normalised = true;
	if (!read_float(s, "swiglu_limit", 0, 1e6, &limit) || !read_float(s, "swiglu_alpha", 0, 1e6, &alpha))
		return false;
	if (limit < 7 || limit > 7 || fabsf(alpha - 1.702f) > 1e-6f)
		return fail(s, "swiglu_limit is %g and swiglu_alpha %g; supported are 7 and 1.702", (double)limit,
		            (double)alpha);
	return read_expert_counts(s, "num_experts");
}

/* Old files say "gelu" and mean the one by tanh. */
static bool read_gemma1(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	if (m->activation == ACTIVATION_GELU)
		m->activation = ACTIVATION_GELU_TANH;
	return true;
}

static bool read_gemma2(const struct source* s) { return read_gemma(s, 50, 30); }
static bool read_gemma3(const struct source* s) { return read_gemma(s, 0, 0); }

static bool read_special(const struct source* s) {
	static bool (*const read[])(const struct source*) = {[SPECIAL_GEMMA] = read_gemma1,
	                                                     [SPECIAL_GEMMA2] = read_gemma2,
	                                                     [SPECIAL_HYPERCLOVAX] = read_hyperclovax,
	                                                     [SPECIAL_GRANITE_SWA] = read_granite_swa,
	                                                     [SPECIAL_MELLUM] = read_mellum,
	                                                     [SPECIAL_HUNYUAN_MOE] = read_hunyuan_moe,
	                                                     [SPECIAL_EXAONE_MOE] = read_exaone_moe,
	                                                     [SPECIAL_HY_V3] = read_hy_v3,
	                                                     [SPECIAL_AFMOE] = read_afmoe,
	                                                     [SPECIAL_GEMMA3] = read_gemma3,
	                                                     [SPECIAL_GRANITE] = read_granite,
	                                                     [SPECIAL_GRANITE4] = read_granite4,
	                                                     [SPECIAL_GRANITE_MOE] = read_granite_moe,
	                                                     [SPECIAL_SMOLLM3] = read_smollm3,
	                                                     [SPECIAL_STABLELM] = read_stablelm,
	                                                     [SPECIAL_EXAONE4] = read_exaone4,
	                                                     [SPECIAL_MIXTRAL] = read_mixtral,
	                                                     [SPECIAL_PHIMOE] = read_phimoe,
	                                                     [SPECIAL_LLAMA4] = read_llama4,
	                                                     [SPECIAL_FALCON_H1] = read_falcon_h1,
	                                                     [SPECIAL_OLMOE] = read_olmoe,
	                                                     [SPECIAL_QWEN2_MOE] = read_qwen2_moe,
	                                                     [SPECIAL_GLM4_MOE] = read_glm4_moe,
	                                                     [SPECIAL_ERNIE4_5_MOE] = read_ernie4_5_moe,
	                                                     [SPECIAL_MINIMAX_M2] = read_minimax_m2,
	                                                     [SPECIAL_QWEN3_MOE] = read_qwen3_moe,
	                                                     [SPECIAL_QWEN3_VL_MOE] = read_qwen3_vl_moe,
	                                                     [SPECIAL_QWEN3_5] = read_qwen3_5,
	                                                     [SPECIAL_QWEN3_5_MOE] = read_qwen3_5_moe,
	                                                     [SPECIAL_QWEN3_NEXT] = read_qwen3_next,
	                                                     [SPECIAL_NEMOTRON_H] = read_nemotron_h,
	                                                     [SPECIAL_LFM2] = read_lfm2,
	                                                     [SPECIAL_LFM2_MOE] = read_lfm2_moe,
	                                                     [SPECIAL_GPT_OSS] = read_gpt_oss,
	                                                     [SPECIAL_DOTS1] = read_dots1,
	                                                     [SPECIAL_DEEPSEEK] = read_deepseek,
	                                                     [SPECIAL_COHERE] = read_cohere,
	                                                     [SPECIAL_COHERE2] = read_cohere2,
	                                                     [SPECIAL_GEMMA3N] = read_gemma3n,
	                                                     [SPECIAL_GEMMA4] = read_gemma4};
	const enum special special = s->config->family->special;
	return (size_t)special >= sizeof read / sizeof *read || !read[special] || read[special](s);
}

void config_scales(struct config* c) {
	struct model_shape* m = &c->shape;
	m->norm = c->family->norm;
	m->embedding_scale = c->family->scaled_embedding ? sqrtf((float)m->dim) : 1;
	m->residual_scale = m->logit_scale = 1;
	m->attention_scale = 1 / sqrtf((float)m->head_dim);
}

static bool read_parts(const struct source* s) {
	struct config* c = s->config;
	const struct family* f = c->family;
	c->tied = f->tied;
	c->tied_if_absent = s->outer && !json_field(s->outer, "tie_word_embeddings");
	c->qkv_bias = f->qkv_bias;
	c->output_bias = f->output_bias;
	c->mlp_bias = f->mlp_bias;
	config_scales(c);
	return read_bool(s, "tie_word_embeddings", &c->tied) &&
	       (!s->outer || json_bool(s->outer, s->file, "tie_word_embeddings", &c->tied, s->error)) &&
	       read_bool(s, f->qkv_bias_field, &c->qkv_bias) &&
	       read_bool(s, f->output_bias_field, &c->output_bias) &&
	       read_bool(s, f->mlp_bias_field, &c->mlp_bias) && read_special(s);
}

bool config_add_end(struct config* c, int64_t token, const char* file, const char* field,
                    struct error* error) {
	if (token < 0)
		return true;
	if (token >= c->shape.vocab)
		return error_set(error, "%s: %s %lld lies beyond the vocabulary of %d", file, field, (long long)token,
		                 c->shape.vocab);
	for (int i = 0; i < c->n_end_tokens; i++)
		if (c->end_token[i] == token)
			return true;
	if (c->n_end_tokens == MAX_END_TOKENS)
		return error_set(error, "%s: %s has more than %d end tokens", file, field, MAX_END_TOKENS);
	c->end_token[c->n_end_tokens++] = (int32_t)token;
	return true;
}

static bool read_ends(struct source* s) {
	const cJSON* ends = json_field(s->outer ? s->outer : s->json, "eos_token_id");
	if (!ends)
		ends = json_field(s->json, "eos_token_id");
	const cJSON* one = cJSON_IsArray(ends) ? ends->child : ends;
	while (one) {
		int64_t token;
		if (!json_whole(one, -1, INT32_MAX, &token))
			return fail(s, "eos_token_id is neither a token nor a list of tokens");
		if (!config_add_end(s->config, token, s->file, "eos_token_id", s->error))
			return false;
		one = cJSON_IsArray(ends) ? one->next : NULL;
	}
	return true;
}

/* The convolution of recurrent blocks has SiLU here; their classes take the MLP's activation for it, or one
 * of its own. */
static bool check_convolution(const struct source* s) {
	const struct family* f = s->config->family;
	const char *field = f->single_mixers ? "mamba_hidden_act" : "hidden_act", *name = "silu";
	if (f->short_convolution || attention_blocks(&s->config->shape) == s->config->shape.n_blocks)
		return true;
	return read_string(s, field, &name) &&
	       (strcmp(name, "silu") == 0 || strcmp(name, "swish") == 0 ||
	        fail(s, "%s is \"%.60s\", which is not supported beside recurrent blocks; supported is silu",
	             field, name));
}

/* Limits the sizes of a recurrence to those that the arithmetic supports. */
static bool check_recurrence(const struct model_shape* m, const char* file, struct error* error) {
	const struct recurrence* r = &m->recurrence;
	if (attention_blocks(m) == m->n_blocks && r->key_heads == 0 && r->value_heads == 0)
		return true; /* Memory is laid out by these sizes even when no block uses them, so they are checked
		                then too. */
	if (attention_blocks(m) == 0)
		return error_set(error, "%s: all %d blocks are recurrent; at least one needs attention", file,
		                 m->n_blocks);
	const bool is_short = r->key_dim == 0 && r->key_heads == 0; /* a short convolution (LFM2) */
	if (!is_short && (r->key_heads < 1 || r->value_heads < 1 || r->value_heads % r->key_heads))
		return error_set(error,
		                 "%s: %d value heads are not a multiple of %d key heads of the recurrent blocks",
		                 file, r->value_heads, r->key_heads);
	if ((!is_short && r->key_dim < 1) || r->value_dim < 1 || r->kernel < 1 || r->kernel > 16 ||
	    (int64_t)r->key_heads * r->key_dim > 1 << 20 || (int64_t)r->value_heads * r->value_dim > 1 << 20 ||
	    (int64_t)r->key_dim * r->value_dim > 1 << 20)
		return error_set(error,
		                 "%s: the recurrent blocks have key heads of %d, value heads of %d and a convolution "
		                 "of %d; expected heads of at most 2^20 elements and a convolution of at most 16",
		                 file, r->key_dim, r->value_dim, r->kernel);
	return true;
}

static bool check_rotation(const struct rope* rope, int head_dim, const char* file, struct error* error) {
	if (rope->dim < 2 || rope->dim % 2 || rope->dim > head_dim)
		return error_set(error,
		                 "%s: RoPE rotates %d of a head's %d elements, expected an even number from 2 on",
		                 file, rope->dim, head_dim);
	return true;
}

bool config_check(const struct config* c, const char* file, struct error* error) {
	const struct model_shape* m = &c->shape;
	if (!check_recurrence(m, file, error))
		return false;
	if (m->heads % m->kv_heads)
		return error_set(error, "%s: %d attention heads are not a multiple of %d key/value heads", file,
		                 m->heads, m->kv_heads);
	const int head_dim = m->full_head_dim ? m->full_head_dim : m->head_dim;
	if (m->full_kv_heads && m->heads % m->full_kv_heads)
		return error_set(error, "%s: %d attention heads are not a multiple of %d key/value heads", file,
		                 m->heads, m->full_kv_heads);
	if ((int64_t)m->heads * m->head_dim > LARGEST || (int64_t)m->heads * head_dim > LARGEST)
		return error_set(error, "%s: %d heads of %d are more than %d elements", file, m->heads, head_dim,
		                 LARGEST);
	if ((int64_t)m->n_blocks * m->token_input > LARGEST)
		return error_set(error, "%s: inputs of %d for each of %d blocks are more than %d elements", file,
		                 m->token_input, m->n_blocks, LARGEST);
	if (!check_rotation(&m->rope, head_dim, file, error))
		return false;
	const bool two_ropes = m->sliding_rope.dim > 0; /* else sliding blocks are rotated as the others */
	if (two_ropes && !check_rotation(&m->sliding_rope, m->head_dim, file, error))
		return false;
	if (m->rope.scaling == ROPE_DYNAMIC && m->rope.dim == 2)
		return error_set(error, "%s: dynamic RoPE scaling needs heads of more than 2 elements", file);
	if (m->n_experts && (m->experts_used < 1 || m->experts_used > m->n_experts || m->expert_ffn < 1))
		return error_set(error,
		                 "%s: a token uses %d of %d experts, whose feed-forward has %d elements; expected at "
		                 "least 1 of each, and no more experts used than there are",
		                 file, m->experts_used, m->n_experts, m->expert_ffn);
	const int groups = m->expert_groups, used = m->expert_groups_used;
	if (groups > 1 && (m->n_experts % groups || used < 1 || used > groups ||
	                   m->n_experts / groups * used < m->experts_used))
		return error_set(error,
		                 "%s: %d of %d experts cannot come from %d of %d groups; expected groups of equal "
		                 "size, with enough experts in the chosen ones",
		                 file, m->experts_used, m->n_experts, used, groups);
	if (!(m->norm_epsilon >= 0) || !isfinite(m->rope.theta) || !(m->rope.theta > 1) ||
	    !isfinite(m->attention_scale) || !isfinite(m->rope.attention_factor) ||
	    !isfinite(m->sliding_rope.theta) || !isfinite(m->sliding_rope.attention_factor))
		return error_set(error, "%s: the norm's epsilon, RoPE's base or a scale is not a usable number",
		                 file);
	return true;
}

/* A copy in which Python's Infinity, which JSON does not have, is null outside of strings. NULL: no memory.
 */
static char* without_infinities(const char* text, size_t size) {
	static const char infinity[] = "Infinity";
	const size_t n = sizeof infinity - 1;
	char* copy = malloc(size + 1);
	bool in_string = false;
	if (!copy)
		return NULL;
	memcpy(copy, text, size);
	copy[size] = '\0';
	for (size_t i = 0; i < size; i++)
		if (in_string && copy[i] == '\\')
			i++;
		else if (copy[i] == '"')
			in_string = !in_string;
		else if (!in_string && size - i >= n && memcmp(copy + i, infinity, n) == 0)
			memcpy(copy + i, "null    ", n);
	return copy;
}

static bool parse_object(struct config* c, const char* text, size_t size, const char* file,
                         bool (*read)(struct source*), struct error* error) {
	char* copy = without_infinities(text, size);
	if (!copy)
		return error_set(error, "%s: out of memory", file);
	cJSON* json = json_parse(copy, size, file, error);
	free(copy);
	struct source s = {json, NULL, file, c, error};
	const bool good =
	    json && (cJSON_IsObject(json) || error_set(error, "%s: not a JSON object", file)) && read(&s);
	cJSON_Delete(json);
	return good;
}

static bool read_config(struct source* s) {
	return read_family(s) && check_refused(s) && read_quantization(s) && read_sizes(s) &&
	       read_activation(s) && read_window(s) && read_parts(s) && check_convolution(s) &&
	       drop_idle_window(s) && read_rope(s) && read_ends(s) && config_check(s->config, s->file, s->error);
}

bool config_parse(struct config* c, const char* text, size_t size, const char* file, struct error* error) {
	return parse_object(c, text, size, file, read_config, error);
}

/* Reads the defaults for requests that set no sampling options. */
static bool read_suppressed(const struct source* s) {
	const cJSON *list = json_field(s->json, "suppress_tokens"), *one;
	struct config* c = s->config;
	if (!list)
		return true;
	if (!cJSON_IsArray(list))
		return fail(s, "suppress_tokens is not a list of tokens");
	c->suppressed = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *c->suppressed);
	if (!c->suppressed)
		return fail(s, "out of memory");
	cJSON_ArrayForEach (one, list) {
		int64_t token;
		if (!json_whole(one, 0, c->shape.vocab - 1, &token))
			return fail(s, "suppress_tokens must list ids below the vocabulary's size of %d", c->shape.vocab);
		c->suppressed[c->n_suppressed++] = (int32_t)token;
	}
	return true;
}

/* The end tokens of generation_config.json replace those of config.json. */
static bool read_generation(struct source* s) {
	struct config* c = s->config;
	if (json_field(s->json, "eos_token_id"))
		c->n_end_tokens = 0;
	return read_ends(s) && read_float(s, "repetition_penalty", 0.01, 10, &c->repetition_penalty) &&
	       read_int(s, "no_repeat_ngram_size", 0, LARGEST, &c->no_repeat_ngram) && read_suppressed(s);
}

bool config_parse_generation(struct config* c, const char* text, size_t size, const char* file,
                             struct error* error) {
	return parse_object(c, text, size, file, read_generation, error);
}

void config_free(struct config* c) {
	free(c->factors[0]);
	free(c->factors[1]);
	free(c->suppressed);
	c->factors[0] = c->factors[1] = NULL;
	c->suppressed = NULL;
}
