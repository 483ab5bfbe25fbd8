/* config.json to the shape of a model, one family's habits beside the other's. */
#include "core/model/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/json.h"

enum { LARGEST = 1 << 24 }; /* of any size in a config: no product of two overflows 64 bits */

/* What transformers' configuration class takes where config.json is silent. 0: derived or required. */
static const struct habits {
	const char* name;
	int context, kv_heads, head_dim, sliding_window;
	float epsilon;
	bool tied, qkv_bias;
} habits[FAMILY_COUNT] = {
    [FAMILY_LLAMA] = {"llama", 2048, 0, 0, 0, 1e-6f, false, false},
    [FAMILY_MISTRAL] = {"mistral", 131072, 8, 0, 4096, 1e-6f, false, false},
    [FAMILY_QWEN2] = {"qwen2", 32768, 32, 0, 4096, 1e-6f, false, true},
    [FAMILY_QWEN3] = {"qwen3", 32768, 32, 128, 4096, 1e-6f, false, false},
    [FAMILY_PHI3] = {"phi3", 4096, 0, 0, 0, 1e-5f, false, false},
    [FAMILY_GEMMA2] = {"gemma2", 8192, 4, 256, 4096, 1e-6f, true, false},
};

const char* family_name(enum family family) { return habits[family].name; }

/* What is being read: passed along so that every message can name the file. */
struct source {
	const cJSON* json;
	const char* file;
	struct config* config;
	struct error* error;
};

static bool required(const struct source* s, const char* field, int high, int* out) {
	if (!json_field(s->json, field))
		return error_set(s->error, "%s: %s is missing", s->file, field);
	return json_int32(s->json, s->file, field, 1, high, out, s->error);
}

/* ---- what is not done --------------------------------------------------------------------- */

/* Fields that change the arithmetic in ways the pass does not know, with the one value it does: none, or
 * the number given. */
static const struct refused {
	const char* field;
	double neutral;
} refused[] = {
    {"quantization_config", 0},
    {"pruned_heads", 0},
    {"clip_qkv", 0},
    {"qk_layernorm", 0},
    {"use_qk_norm", 0},
    {"embedding_multiplier", 1},
    {"residual_multiplier", 1},
    {"attention_multiplier", 0},
    {"logits_scaling", 1},
    {"logit_scale", 1},
    {"num_experts", 0},
    {"num_local_experts", 0},
    {"is_encoder_decoder", 0},
    {"no_rope_layers", 0},
    {"use_parallel_residual", 0},
    {"alibi", 0},
    {"use_bidirectional_attention", 0},
    {"use_mrope", 0},
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
		if (!is_neutral(value, refused[i].neutral))
			return error_set(s->error, "%s: %s is %s, which this runtime does not do", s->file,
			                 refused[i].field, json_show(value, shown, sizeof shown));
	}
	return true;
}

/* ---- family ------------------------------------------------------------------------------- */

static bool read_family(const struct source* s) {
	const char* type = NULL;
	char list[96] = "";
	if (!json_string(s->json, s->file, "model_type", &type, s->error))
		return false;
	if (!type)
		return error_set(s->error, "%s: model_type is missing", s->file);
	for (int i = 0; i < FAMILY_COUNT; i++) {
		if (strcmp(type, habits[i].name) == 0) {
			s->config->family = (enum family)i;
			return true;
		}
		const size_t used = strlen(list);
		snprintf(list + used, sizeof list - used, i ? ", %s" : "%s", habits[i].name);
	}
	return error_set(s->error, "%s: model_type is \"%.60s\", which is not supported; supported are %s",
	                 s->file, type, list);
}

static bool read_activation(const struct source* s) {
	static const struct {
		const char* name;
		enum activation activation;
	} known[] = {{"silu", ACTIVATION_SILU},
	             {"swish", ACTIVATION_SILU},
	             {"gelu_pytorch_tanh", ACTIVATION_GELU_TANH},
	             {"gelu_new", ACTIVATION_GELU_TANH}};
	/* Gemma 2's own field; its hidden_act is a leftover that transformers does not read. */
	const bool gemma = s->config->family == FAMILY_GEMMA2;
	const char* field = gemma ? "hidden_activation" : "hidden_act";
	const char* name = gemma ? "gelu_pytorch_tanh" : "silu";
	if (!json_string(s->json, s->file, field, &name, s->error))
		return false;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strcmp(name, known[i].name) == 0) {
			s->config->shape.activation = known[i].activation;
			return true;
		}
	return error_set(s->error,
	                 "%s: %s is \"%.60s\", which is not supported; supported are silu and gelu_pytorch_tanh",
	                 s->file, field, name);
}

/* ---- sizes -------------------------------------------------------------------------------- */

static bool read_sizes(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	const struct habits* h = &habits[s->config->family];
	if (!required(s, "num_hidden_layers", MAX_BLOCKS, &m->n_blocks) ||
	    !required(s, "hidden_size", LARGEST, &m->dim) ||
	    !required(s, "num_attention_heads", LARGEST, &m->heads) ||
	    !required(s, "intermediate_size", LARGEST, &m->ffn) || !required(s, "vocab_size", LARGEST, &m->vocab))
		return false;
	m->kv_heads = h->kv_heads ? h->kv_heads : m->heads;
	m->head_dim = h->head_dim ? h->head_dim : m->dim / m->heads;
	m->context = h->context;
	m->norm_epsilon = h->epsilon;
	if (!h->head_dim && !json_field(s->json, "head_dim") && m->dim % m->heads)
		return error_set(s->error, "%s: hidden_size %d is not a multiple of num_attention_heads %d", s->file,
		                 m->dim, m->heads);
	return json_int32(s->json, s->file, "num_key_value_heads", 1, LARGEST, &m->kv_heads, s->error) &&
	       json_int32(s->json, s->file, "head_dim", 1, LARGEST, &m->head_dim, s->error) &&
	       json_int32(s->json, s->file, "max_position_embeddings", 1, INT32_MAX / 2, &m->context, s->error) &&
	       json_float(s->json, s->file, "rms_norm_eps", 0, 1, &m->norm_epsilon, s->error);
}

/* ---- attention that sees a window --------------------------------------------------------- */

/* Whether the file says that block b slides: its layer_types, or the family's own rule. */
static bool window_pattern(const struct source* s, int first_sliding) {
	struct model_shape* m = &s->config->shape;
	const cJSON* types = json_field(s->json, "layer_types");
	const cJSON* type = types ? types->child : NULL;
	const bool gemma = s->config->family == FAMILY_GEMMA2;
	if (types && (!cJSON_IsArray(types) || cJSON_GetArraySize(types) != m->n_blocks))
		return error_set(s->error, "%s: layer_types is not an array of %d names", s->file, m->n_blocks);
	int sliding = 0, alternating = 0;
	for (int b = 0; b < m->n_blocks; b++) {
		bool slides = gemma ? b % 2 == 0 : b >= first_sliding;
		if (type) {
			if (!cJSON_IsString(type) || (strcmp(type->valuestring, "sliding_attention") != 0 &&
			                              strcmp(type->valuestring, "full_attention") != 0))
				return error_set(s->error,
				                 "%s: layer_types[%d] is neither full_attention nor sliding_attention",
				                 s->file, b);
			slides = strcmp(type->valuestring, "sliding_attention") == 0;
			type = type->next;
		}
		sliding += slides;
		alternating += slides == (b % 2 == 0);
	}
	if (sliding == 0) {
		m->sliding_window = 0;
		return true;
	}
	if (!m->sliding_window)
		return error_set(s->error, "%s: layer_types has sliding_attention, but sliding_window is missing",
		                 s->file);
	if (sliding == m->n_blocks)
		return true;
	if (alternating != m->n_blocks)
		return error_set(
		    s->error,
		    "%s: %s mixes sliding and full attention in a way this runtime does not do; it does all, "
		    "none, or every other block from the first on",
		    s->file, types ? "layer_types" : "max_window_layers");
	m->sliding_period = 2;
	return true;
}

static bool read_window(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	const cJSON* window = cJSON_GetObjectItemCaseSensitive(s->json, "sliding_window");
	bool used = true;
	int first = 0;
	if (s->config->family == FAMILY_LLAMA) /* older Llama-like configs carry the field unused */
		return true;
	if (s->config->family == FAMILY_QWEN2 || s->config->family == FAMILY_QWEN3) {
		used = false;
		first = 28;
		if (!json_bool(s->json, s->file, "use_sliding_window", &used, s->error) ||
		    !json_int32(s->json, s->file, "max_window_layers", 0, LARGEST, &first, s->error))
			return false;
	}
	m->sliding_window = cJSON_IsNull(window) ? 0 : habits[s->config->family].sliding_window;
	if (!json_int32(s->json, s->file, "sliding_window", 1, INT32_MAX / 2, &m->sliding_window, s->error))
		return false;
	if (!used)
		m->sliding_window = 0;
	return !m->sliding_window || window_pattern(s, first);
}

/* ---- RoPE --------------------------------------------------------------------------------- */

float rope_yarn_attention(float factor, float mscale, float mscale_all_dim) {
	if (factor <= 1)
		return 1;
	const double log_factor = 0.1 * log((double)factor);
	if (mscale > 0 && mscale_all_dim > 0)
		return (float)(((double)mscale * log_factor + 1) / ((double)mscale_all_dim * log_factor + 1));
	return (float)(log_factor + 1);
}

float rope_long_attention(float factor, int original_context) {
	return factor <= 1 ? 1 : (float)sqrt(1 + log((double)factor) / log((double)original_context));
}

static bool read_factors(const struct source* s, const cJSON* scaling, const char* field, float* out) {
	const cJSON* list = json_field(scaling, field);
	const int n = s->config->shape.rope.dim / 2;
	if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != n)
		return error_set(s->error, "%s: rope_scaling.%s is not an array of %d numbers", s->file, field, n);
	const cJSON* value = list->child;
	for (int i = 0; i < n; i++, value = value->next) {
		if (!cJSON_IsNumber(value) || !(value->valuedouble > 1e-6) || !(value->valuedouble < 1e9))
			return error_set(s->error, "%s: rope_scaling.%s[%d] is not a positive number", s->file, field, i);
		out[i] = (float)value->valuedouble;
	}
	return true;
}

static bool read_longrope(const struct source* s, const cJSON* scaling, bool has_factor) {
	struct rope* r = &s->config->shape.rope;
	const int n = r->dim / 2;
	s->config->factors = calloc((size_t)(n ? n : 1), 2 * sizeof(float));
	if (!s->config->factors)
		return error_set(s->error, "%s: out of memory", s->file);
	r->short_factor = s->config->factors;
	r->long_factor = s->config->factors + n;
	if (!read_factors(s, scaling, "short_factor", s->config->factors) ||
	    !read_factors(s, scaling, "long_factor", s->config->factors + n))
		return false;
	if (!has_factor)
		r->factor = (float)((double)s->config->shape.context / r->original_context);
	r->attention_factor = rope_long_attention(r->factor, r->original_context);
	return true;
}

static bool read_llama3(const struct source* s, const cJSON* scaling) {
	struct rope* r = &s->config->shape.rope;
	r->low_frequency_factor = 1;
	r->high_frequency_factor = 4;
	if (!json_float(scaling, s->file, "low_freq_factor", 1e-6, 1e6, &r->low_frequency_factor, s->error) ||
	    !json_float(scaling, s->file, "high_freq_factor", 1e-6, 1e6, &r->high_frequency_factor, s->error))
		return false;
	if (r->high_frequency_factor <= r->low_frequency_factor)
		return error_set(s->error, "%s: rope_scaling.high_freq_factor %g is not above low_freq_factor %g",
		                 s->file, (double)r->high_frequency_factor, (double)r->low_frequency_factor);
	return true;
}

static bool read_yarn(const struct source* s, const cJSON* scaling, bool has_factor) {
	struct rope* r = &s->config->shape.rope;
	float mscale = 0, mscale_all_dim = 0;
	bool truncate = true;
	r->beta_fast = 32;
	r->beta_slow = 1;
	if (!json_float(scaling, s->file, "beta_fast", 1e-6, 1e6, &r->beta_fast, s->error) ||
	    !json_float(scaling, s->file, "beta_slow", 1e-6, 1e6, &r->beta_slow, s->error) ||
	    !json_float(scaling, s->file, "mscale", 0, 1e6, &mscale, s->error) ||
	    !json_float(scaling, s->file, "mscale_all_dim", 0, 1e6, &mscale_all_dim, s->error) ||
	    !json_bool(scaling, s->file, "truncate", &truncate, s->error))
		return false;
	if (!truncate)
		return error_set(s->error, "%s: rope_scaling.truncate is false, which this runtime does not do",
		                 s->file);
	if (!has_factor)
		r->factor = (float)((double)s->config->shape.context / r->original_context);
	r->attention_factor = rope_yarn_attention(r->factor, mscale, mscale_all_dim);
	return true;
}

static bool scaling_kind(const struct source* s, const cJSON* scaling) {
	static const struct {
		const char* name;
		enum rope_scaling scaling;
	} known[] = {{"default", ROPE_NONE},  {"linear", ROPE_LINEAR}, {"dynamic", ROPE_DYNAMIC},
	             {"llama3", ROPE_LLAMA3}, {"yarn", ROPE_YARN},     {"longrope", ROPE_LONGROPE},
	             {"su", ROPE_LONGROPE}};
	const char* name = NULL;
	struct rope* r = &s->config->shape.rope;
	if (!json_string(scaling, s->file, "type", &name, s->error) ||
	    !json_string(scaling, s->file, "rope_type", &name, s->error))
		return false;
	if (!name)
		name = "default";
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strcmp(name, known[i].name) == 0) {
			r->scaling = known[i].scaling;
			/* Phi-3's first files called LongRoPE "yarn". */
			if (s->config->family == FAMILY_PHI3 && r->scaling == ROPE_YARN)
				r->scaling = ROPE_LONGROPE;
			return true;
		}
	return error_set(
	    s->error,
	    "%s: rope_scaling.rope_type is \"%.60s\", which is not supported; supported are default, linear, "
	    "dynamic, llama3, yarn and longrope",
	    s->file, name);
}

static bool read_scaling(const struct source* s, const cJSON* scaling) {
	struct rope* r = &s->config->shape.rope;
	if (!cJSON_IsObject(scaling))
		return error_set(s->error, "%s: rope_scaling is not a JSON object", s->file);
	if (!scaling_kind(s, scaling))
		return false;
	const bool has_factor = json_field(scaling, "factor") != NULL;
	if (!json_float(scaling, s->file, "factor", 1e-3, 1e6, &r->factor, s->error))
		return false;
	r->original_context = s->config->shape.context;
	/* In transformers dynamic scaling counts from max_position_embeddings whatever else is written. */
	if (r->scaling != ROPE_DYNAMIC && (!json_int32(s->json, s->file, "original_max_position_embeddings", 1,
	                                               INT32_MAX / 2, &r->original_context, s->error) ||
	                                   !json_int32(scaling, s->file, "original_max_position_embeddings", 1,
	                                               INT32_MAX / 2, &r->original_context, s->error)))
		return false;
	bool good = true;
	switch (r->scaling) {
	case ROPE_NONE:
		r->factor = 1;
		r->original_context = 0;
		return true;
	case ROPE_LINEAR:
	case ROPE_DYNAMIC:
		if (!has_factor)
			return error_set(s->error, "%s: rope_scaling.factor is missing", s->file);
		return true;
	case ROPE_LLAMA3:
		if (!has_factor)
			return error_set(s->error, "%s: rope_scaling.factor is missing", s->file);
		return read_llama3(s, scaling);
	case ROPE_YARN:
		good = read_yarn(s, scaling, has_factor);
		break;
	case ROPE_LONGROPE:
		good = read_longrope(s, scaling, has_factor);
		break;
	}
	return good && json_float(scaling, s->file, "attention_factor", 0, 1e6, &r->attention_factor, s->error);
}

static bool read_rope(const struct source* s) {
	struct rope* r = &s->config->shape.rope;
	/* transformers 5 writes rope_parameters, theta included; before, rope_scaling beside rope_theta. */
	const cJSON* scaling = json_field(s->json, "rope_parameters");
	if (!scaling)
		scaling = json_field(s->json, "rope_scaling");
	float partial = 1;
	r->theta = 10000;
	r->factor = r->attention_factor = 1;
	if (!json_float(s->json, s->file, "rope_theta", 1.001, 1e12, &r->theta, s->error) ||
	    !json_float(scaling, s->file, "rope_theta", 1.001, 1e12, &r->theta, s->error) ||
	    !json_float(s->json, s->file, "partial_rotary_factor", 0.01, 1, &partial, s->error) ||
	    !json_float(scaling, s->file, "partial_rotary_factor", 0.01, 1, &partial, s->error))
		return false;
	if (partial < 1 && s->config->family != FAMILY_PHI3)
		return error_set(s->error, "%s: partial_rotary_factor is %g, which this runtime does for phi3 alone",
		                 s->file, (double)partial);
	r->dim = (int)((double)s->config->shape.head_dim * (double)partial);
	return !scaling || read_scaling(s, scaling);
}

/* ---- the rest ----------------------------------------------------------------------------- */

static bool read_gemma(const struct source* s) {
	struct model_shape* m = &s->config->shape;
	float scalar = 256;
	m->norm_plus_one = true;
	m->embedding_scale = sqrtf((float)m->dim);
	m->attention_softcap = 50;
	m->logit_softcap = 30;
	if (!json_float(s->json, s->file, "query_pre_attn_scalar", 1e-6, 1e9, &scalar, s->error) ||
	    !json_float(s->json, s->file, "attn_logit_softcapping", 0, 1e9, &m->attention_softcap, s->error) ||
	    !json_float(s->json, s->file, "final_logit_softcapping", 0, 1e9, &m->logit_softcap, s->error))
		return false;
	if (cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(s->json, "attn_logit_softcapping")))
		m->attention_softcap = 0;
	if (cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(s->json, "final_logit_softcapping")))
		m->logit_softcap = 0;
	m->attention_scale = 1 / sqrtf(scalar);
	s->config->post_norms = true;
	return true;
}

static bool read_parts(const struct source* s) {
	struct config* c = s->config;
	const struct habits* h = &habits[c->family];
	bool attention_bias = false;
	c->tied = h->tied;
	c->shape.embedding_scale = 1;
	c->shape.attention_scale = 1 / sqrtf((float)c->shape.head_dim);
	c->qk_norm = c->family == FAMILY_QWEN3;
	c->fused = c->family == FAMILY_PHI3;
	if (!json_bool(s->json, s->file, "tie_word_embeddings", &c->tied, s->error) ||
	    !json_bool(s->json, s->file, "attention_bias", &attention_bias, s->error) ||
	    !json_bool(s->json, s->file, "mlp_bias", &c->mlp_bias, s->error))
		return false;
	/* Only Llama's, Qwen3's and Gemma 2's classes read attention_bias, and only Llama's mlp_bias. */
	if (c->family == FAMILY_MISTRAL || c->family == FAMILY_QWEN2 || c->family == FAMILY_PHI3)
		attention_bias = false;
	c->mlp_bias = c->mlp_bias && c->family == FAMILY_LLAMA;
	c->qkv_bias = h->qkv_bias || attention_bias;
	c->output_bias = attention_bias;
	return c->family != FAMILY_GEMMA2 || read_gemma(s);
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

static bool read_ends(const struct source* s) {
	const cJSON* ends = json_field(s->json, "eos_token_id");
	const cJSON* one = cJSON_IsArray(ends) ? ends->child : ends;
	while (one) {
		int64_t token;
		if (!json_whole(one, -1, INT32_MAX, &token))
			return error_set(s->error, "%s: eos_token_id is neither a token nor a list of tokens", s->file);
		if (!config_add_end(s->config, token, s->file, "eos_token_id", s->error))
			return false;
		one = cJSON_IsArray(ends) ? one->next : NULL;
	}
	return true;
}

bool config_check(const struct config* c, const char* file, struct error* error) {
	const struct model_shape* m = &c->shape;
	if (m->heads % m->kv_heads)
		return error_set(error, "%s: %d attention heads are not a multiple of %d key/value heads", file,
		                 m->heads, m->kv_heads);
	if ((int64_t)m->heads * m->head_dim > LARGEST)
		return error_set(error, "%s: %d heads of %d are more than %d elements", file, m->heads, m->head_dim,
		                 LARGEST);
	if (m->rope.dim < 2 || m->rope.dim % 2 || m->rope.dim > m->head_dim)
		return error_set(error,
		                 "%s: RoPE turns %d of a head's %d elements, expected an even number from 2 on", file,
		                 m->rope.dim, m->head_dim);
	if (m->rope.scaling == ROPE_DYNAMIC && m->rope.dim == 2)
		return error_set(error, "%s: dynamic RoPE scaling needs heads of more than 2 elements", file);
	if (!(m->norm_epsilon >= 0) || !isfinite(m->rope.theta) || !(m->rope.theta > 1) ||
	    !isfinite(m->attention_scale) || !isfinite(m->rope.attention_factor))
		return error_set(error, "%s: the norm's epsilon, RoPE's base or a scale is not a usable number",
		                 file);
	return true;
}

bool config_parse(struct config* c, const char* text, size_t size, const char* file, struct error* error) {
	cJSON* json = json_parse(text, size, file, error);
	if (!json)
		return false;
	const struct source s = {json, file, c, error};
	const bool good = (cJSON_IsObject(json) || error_set(error, "%s: not a JSON object", file)) &&
	                  read_family(&s) && check_refused(&s) && read_sizes(&s) && read_activation(&s) &&
	                  read_window(&s) && read_parts(&s) && read_rope(&s) && read_ends(&s) &&
	                  config_check(c, file, error);
	cJSON_Delete(json);
	return good;
}

bool config_parse_generation(struct config* c, const char* text, size_t size, const char* file,
                             struct error* error) {
	cJSON* json = json_parse(text, size, file, error);
	if (!json)
		return false;
	const struct source s = {json, file, c, error};
	const bool good =
	    (cJSON_IsObject(json) || error_set(error, "%s: not a JSON object", file)) && read_ends(&s);
	cJSON_Delete(json);
	return good;
}

void config_free(struct config* c) {
	free(c->factors);
	c->factors = NULL;
}
