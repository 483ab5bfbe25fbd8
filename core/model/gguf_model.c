/* Opens a GGUF file as a model. Its metadata replaces config.json, and its vocabulary lies beside its
 * weights. A set of split files is one model. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/error_in.h"
#include "core/model/bind.h"
#include "core/text/tokenizer.h"

static const char embedding_name[] = "token_embd.weight", output_name[] = "output.weight";

/* Hy3's converter writes the name without an ending. */
static const char* find_choice_bias(const struct family* f, const struct tensor_table* table) {
	static const char* const names[] = {"exp_probs_b.bias", "exp_probs_b"};
	for (size_t i = 0; i < 2 && (f->choice_bias || f->special == SPECIAL_DEEPSEEK); i++)
		if (tensor_table_find_ending(table, names[i]))
			return names[i];
	return NULL;
}

static struct tensor_names names_of(const struct family* f, const struct tensor_table* table) {
	/* Mixtral's first files hold each expert's tensors separately. */
	const bool single = tensor_table_find(table, "blk.0.ffn_gate.0.weight") != NULL;
	const bool is_short = f->short_convolution;
	return (struct tensor_names){
	    .embedding = embedding_name,
	    .output_norm = is_short ? "token_embd_norm" : "output_norm",
	    .output = output_name,
	    .output_bias = "output.bias",
	    .block = "blk.%d.",
	    .attention_norm = f->attention_norm ? "attn_norm" : NULL,
	    .mlp_norm = f->gguf_mlp_norm ? f->gguf_mlp_norm
	                : f->mlp_norm    ? "ffn_norm"
	                                 : NULL,
	    .post_attention_norm = f->post_attention_norm ? "post_attention_norm" : NULL,
	    .post_mlp_norm = f->post_mlp_norm ? "post_ffw_norm" : NULL,
	    .wq = "attn_q",
	    .wk = "attn_k",
	    .wv = "attn_v",
	    .wo = "attn_output",
	    .fused_qkv = "attn_qkv",
	    .attention_gate = f->attention_gate ? "attn_gate" : NULL,
	    .q_norm = "attn_q_norm",
	    .k_norm = "attn_k_norm",
	    .recurrent_in = is_short         ? "shortconv.in_proj"
	                    : f->state_space ? "ssm_in"
	                                     : "attn_qkv",
	    .recurrent_gate = "attn_gate",
	    .recurrent_beta = "ssm_beta",
	    .recurrent_decay = "ssm_alpha",
	    .recurrent_out = is_short ? "shortconv.out_proj" : "ssm_out",
	    .convolution = is_short ? "shortconv.conv" : "ssm_conv1d",
	    .flat_convolution = true,
	    .state_norm = "ssm_norm",
	    .decay_bias = "ssm_dt.bias",
	    .decay_rate = "ssm_a",
	    .state_skip = "ssm_d",
	    .w_gate = "ffn_gate",
	    .w_up = "ffn_up",
	    .w_down = "ffn_down",
	    .fused_gate_up = f->special == SPECIAL_GRANITE4 ? NULL : "ffn_up", /* the converter has split it */
	    .router = "ffn_gate_inp.weight",
	    .expert_gate = single ? "ffn_gate.%d.weight" : NULL,
	    .expert_up = single ? "ffn_up.%d.weight" : NULL,
	    .expert_down = single ? "ffn_down.%d.weight" : NULL,
	    .stacked_gate = "ffn_gate_exps",
	    .stacked_up = "ffn_up_exps",
	    .stacked_down = "ffn_down_exps",
	    .sinks = "attn_sinks.weight",
	    .router_bias = "ffn_gate_inp.bias",
	    .choice_bias = find_choice_bias(f, table),
	    .shared_gate_proj = f->special == SPECIAL_GRANITE_SWA ? NULL : "ffn_gate_shexp",
	    .shared_up = "ffn_up_shexp",
	    .shared_down = "ffn_down_shexp",
	    .shared_gate = f->shared_gate ? "ffn_gate_inp_shexp" : NULL,
	    .stacked_gate_up =
	        tensor_table_find_ending(table, "ffn_gate_up_exps.weight") ? "ffn_gate_up_exps.weight" : NULL,
	    .stacked_down_beside = "ffn_down_exps.weight",
	    .router_norm = "ffn_gate_inp.scale",
	    .expert_scale = "ffn_down_exps.scale",
	    .expert_norm = "pre_ffw_norm_2",
	    .post_dense_norm = "post_ffw_norm_1",
	    .post_expert_norm = "post_ffw_norm_2",
	    .input_embedding = "per_layer_token_embd.weight",
	    .input_projection = "per_layer_model_proj.weight",
	    .input_projection_norm = "per_layer_proj_norm",
	    .input_gate = "inp_gate",
	    .input_out = "proj",
	    .input_norm = "post_norm",
	    .stream_scale = "layer_output_scale.weight",
	    .altup_in = "altup_proj.weight",
	    .altup_out = "altup_unembd_proj.weight",
	    .altup_router = "altup_router.weight",
	    .altup_router_norm = "altup_router_norm",
	    .altup_predict = "altup_predict_coef.weight",
	    .altup_correct = "altup_correct_coef.weight",
	    .altup_scale = "altup_correct_scale.weight",
	    .laurel_down = "laurel_l",
	    .laurel_up = "laurel_r",
	    .laurel_norm = "laurel_post_norm",
	    .query_down = "attn_q_a",
	    .query_up = "attn_q_b",
	    .query_down_norm = "attn_q_a_norm",
	    .kv_down = "attn_kv_a_mqa",
	    .kv_down_norm = "attn_kv_a_norm",
	    .kv_up = "attn_kv_b",
	    .key_up = tensor_table_find(table, "blk.0.attn_k_b.weight") ? "attn_k_b" : NULL,
	    .value_up = "attn_v_b",
	    .mtp = f->mtp != MTP_NONE || f->special == SPECIAL_DEEPSEEK ? "blk.%d." : NULL,
	    .mtp_block = "blk.%d.",
	    .mtp_join = "nextn.eh_proj",
	    .mtp_token_norm = "nextn.enorm",
	    .mtp_state_norm = "nextn.hnorm",
	    .mtp_norm = "nextn.shared_head_norm",
	    .outside_join = "nextn.pre_projection",
	    .outside_leave = "nextn.post_projection",
	};
}

/* The place that is being read, so that keys can be given without their architecture prefix. */
struct gguf_source {
	const struct gguf* gguf;
	struct opened* opened;
	struct config* config;
	struct error* error;
};
#define fail(s, ...) error_in((s)->error, (s)->gguf->file, __VA_ARGS__)

static const char assistant_architecture[] = "gemma4-assistant";

static const char* key_of(const struct gguf_source* s, const char* key, char out[96]) {
	const struct config* c = s->config;
	snprintf(out, 96, "%s.%s", c->assistant ? assistant_architecture : c->family->architecture, key);
	return out;
}

static bool has_key(const struct gguf_source* s, const char* key) {
	char name[96];
	return gguf_find(s->gguf, key_of(s, key, name)) != NULL;
}

static bool read_int(const struct gguf_source* s, const char* key, int low, int high, int* out) {
	char name[96];
	int64_t wide = *out;
	if (!gguf_int(s->gguf, key_of(s, key, name), low, high, &wide, s->error))
		return false;
	*out = (int)wide;
	return true;
}

static bool required_int(const struct gguf_source* s, const char* key, int high, int* out) {
	char name[96];
	if (!has_key(s, key))
		return fail(s, "%s is missing", key_of(s, key, name));
	return read_int(s, key, 1, high, out);
}

static bool read_float(const struct gguf_source* s, const char* key, double low, double high, float* out) {
	char name[96];
	return gguf_float(s->gguf, key_of(s, key, name), low, high, out, s->error);
}

/* ---- what it is --------------------------------------------------------------------------- */

static bool read_architecture(const struct gguf_source* s) {
	const char* text = NULL;
	size_t size = 0;
	if (!gguf_string(s->gguf, "general.architecture", &text, &size, s->error))
		return false;
	if (!text)
		return fail(s, "general.architecture is missing");
	char list[300];
	const char* reason = family_refusal(text, size);
	s->config->assistant =
	    size == strlen(assistant_architecture) && memcmp(text, assistant_architecture, size) == 0;
	s->config->family =
	    s->config->assistant ? family_by_name("gemma4_text") : family_by_architecture(text, size);
	if (!s->config->family && reason)
		return fail(s, "general.architecture is \"%.*s\", which is not supported: %s", (int)size, text,
		            reason);
	return s->config->family ||
	       fail(s, "general.architecture is \"%.*s\", which is not supported; supported are %s",
	            (int)(size < 60 ? size : 60), text, family_architectures(list, sizeof list));
}

static bool is_granite(const struct family* f) {
	return f->special == SPECIAL_GRANITE || f->special == SPECIAL_GRANITE4 ||
	       f->special == SPECIAL_GRANITE_MOE || f->special == SPECIAL_GRANITE_SWA;
}

static bool is_cohere(const struct family* f) {
	return f->special == SPECIAL_COHERE || f->special == SPECIAL_COHERE2;
}

/* Keys that change the arithmetic in ways that the pass does not implement. Zero stands for none. */
static bool check_refused(const struct gguf_source* s) {
	static const char* const refused[] = {
	    "expert_shared_count", "attention.clamp_kqv", "attention.max_alibi_bias", "logit_scale",
	    "residual_scale",      "embedding_scale",     "attention.scale"};
	enum { GRANITES_OWN = 3 }; /* from here on */
	const int n = is_granite(s->config->family) ? GRANITES_OWN : 7;
	char name[96];
	bool causal = true;
	for (int i = s->config->family->shared_up ? 1 : 0; i < n; i++) {
		float value = 0;
		if (is_cohere(s->config->family) && strcmp(refused[i], "logit_scale") == 0)
			continue;
		if (!read_float(s, refused[i], -1e30, 1e30, &value))
			return false;
		if (value < 0 || value > 0)
			return fail(s, "%s is %g, which is not supported; only 0 is, or a file without the field",
			            key_of(s, refused[i], name), (double)value);
	}
	if (!gguf_bool(s->gguf, key_of(s, "attention.causal", name), &causal, s->error))
		return false;
	return causal || fail(s, "%s is false, which is not supported: only causal models run", name);
}

/* Reads a number, or a list with one number a block; out (MAX_BLOCKS). *listed: which it was. */
static bool read_by_block(const struct gguf_source* s, const char* key, int* out, bool* listed) {
	char name[96];
	const struct gguf_value* value = gguf_find(s->gguf, key_of(s, key, name));
	const int n_blocks = s->config->shape.n_blocks;
	int32_t* list = NULL;
	int n = 0;
	*listed = value && value->type == GGUF_ARRAY;
	if (!*listed)
		return true;
	if (!gguf_ints(s->gguf, name, &list, &n, s->error))
		return false;
	bool good =
	    n >= n_blocks || fail(s, "%s has %d elements, expected one for each of %d blocks", name, n, n_blocks);
	for (int b = 0; good && b < n_blocks; b++) {
		out[b] = list[b];
		good = (list[b] >= 1 && list[b] <= LARGEST) ||
		       fail(s, "%s has %d for block %d, expected 1 to %d", name, list[b], b, LARGEST);
	}
	free(list);
	return good;
}

/* Files whose layers hold one sub-layer each: which, is seen by their tensors. The widths of MLPs are listed
 * by layer, so they too are read from a tensor. */
static bool find_layers(const struct gguf_source* s) {
	static const struct {
		const char* suffix;
		char letter;
	} kinds[] = {{"ssm_in", 'M'}, {"attn_q", '*'}, {"ffn_gate_inp", 'E'}, {"ffn_up", '-'}};
	struct model_shape* m = &s->config->shape;
	char letters[MAX_BLOCKS], name[64];
	if (!s->config->family->single_mixers)
		return true;
	for (int i = 0; i < m->n_blocks; i++) {
		letters[i] = '\0';
		for (size_t k = 0; k < sizeof kinds / sizeof *kinds && !letters[i]; k++) {
			snprintf(name, sizeof name, "blk.%d.%s.weight", i, kinds[k].suffix);
			if (tensor_table_find(&s->opened->tensors, name))
				letters[i] = kinds[k].letter;
		}
		if (!letters[i])
			return fail(s, "blk.%d has none of the tensors ssm_in, attn_q, ffn_gate_inp and ffn_up", i);
		snprintf(name, sizeof name, "blk.%d.ffn_up.weight", i);
		const struct named_tensor* up = tensor_table_find(&s->opened->tensors, name);
		if (up && up->n_dims == 2 && up->dim[0] <= LARGEST)
			m->ffn = (int)up->dim[0];
	}
	return config_pair_layers(s->config, letters, m->n_blocks, s->gguf->file, s->error);
}

/* Gemma 4 has MLPs of two widths. The shape holds the first block's. */
static bool read_feed_forward(const struct gguf_source* s, const char* key) {
	struct config* c = s->config;
	bool listed = false;
	c->shape.ffn = 1;
	if (c->family->single_mixers)
		return true;
	if ((c->family->special == SPECIAL_GEMMA4 || c->family->special == SPECIAL_GEMMA3N) &&
	    !read_by_block(s, "feed_forward_length", c->ffn, &listed))
		return false;
	if (!listed)
		return required_int(s, key, LARGEST, &c->shape.ffn);
	c->shape.ffn = c->ffn[0];
	return true;
}

/* Reads a number, or one a block: 0 for blocks without keys and values, and one other value. */
static bool read_kv_heads(const struct gguf_source* s) {
	struct model_shape* m = &s->config->shape;
	char name[96];
	const struct gguf_value* value = gguf_find(s->gguf, key_of(s, "attention.head_count_kv", name));
	const enum special special = s->config->family->special;
	const bool is_short = s->config->family->short_convolution;
	const bool none_is_recurrent = is_short || s->config->family->state_space;
	const bool may_be_none = none_is_recurrent || special == SPECIAL_QWEN3_5 ||
	                         special == SPECIAL_QWEN3_5_MOE || special == SPECIAL_QWEN3_NEXT;
	int32_t* listed = NULL;
	int n = 0, heads = 0;
	if (!value || value->type != GGUF_ARRAY)
		return read_int(s, "attention.head_count_kv", 1, LARGEST, &m->kv_heads);
	if (special == SPECIAL_GEMMA4) /* which has two counts: read_gemma4 */
		return true;
	bool good = gguf_ints(s->gguf, name, &listed, &n, s->error) && n >= m->n_blocks;
	for (int b = 0; good && b < m->n_blocks; b++) {
		good = listed[b] == 0 || (listed[b] > 0 && listed[b] <= LARGEST && (!heads || listed[b] == heads));
		heads = listed[b] ? listed[b] : heads;
		if (listed[b] == 0 && none_is_recurrent)
			block_set_put(&m->recurrent, b);
		good = good && (listed[b] > 0 || may_be_none);
	}
	free(listed);
	m->kv_heads = heads > 0 ? heads : 1;
	return good || fail(s,
	                    "%s must be an array for %d blocks, with the same count for each block, or 0 for a "
	                    "block that has none",
	                    name, m->n_blocks);
}

static bool read_sizes(const struct gguf_source* s) {
	struct model_shape* m = &s->config->shape;
	/* A file may leave this width out when every block has experts. */
	const char* ffn =
	    has_key(s, "feed_forward_length") ? "feed_forward_length" : "expert_feed_forward_length";
	if (!required_int(s, "block_count", MAX_BLOCKS, &m->n_blocks) ||
	    !required_int(s, "embedding_length", LARGEST, &m->dim) || !read_feed_forward(s, ffn) ||
	    !required_int(s, "attention.head_count", LARGEST, &m->heads) ||
	    !required_int(s, "context_length", INT32_MAX / 2, &m->context))
		return false;
	/* Blocks that predict later tokens come last. The model itself does not run them. */
	int further = 0;
	if (!s->config->assistant && !read_int(s, "nextn_predict_layers", 0, m->n_blocks - 1, &further))
		return false;
	m->n_blocks -= further;
	s->config->further_blocks = further;
	if (s->config->family->paired && !config_pair_blocks(s->config, m->n_blocks, s->gguf->file, s->error))
		return false;
	m->kv_heads = m->heads;
	m->head_dim = m->dim / m->heads;
	if (!has_key(s, "attention.key_length") && m->dim % m->heads)
		return fail(s, "embedding_length %d is not a multiple of attention.head_count %d", m->dim, m->heads);
	int value_length = 0;
	m->norm_epsilon = 1e-5f;
	/* Nemotron-H's files give the RMS norm's epsilon under both names, or under LayerNorm's alone. */
	if (s->config->family->single_mixers &&
	    !read_float(s, "attention.layer_norm_epsilon", 0, 1, &m->norm_epsilon))
		return false;
	if (!read_kv_heads(s) || !find_layers(s) ||
	    !read_int(s, "attention.key_length", 1, LARGEST, &m->head_dim) ||
	    !read_int(s, "attention.value_length", 1, LARGEST, &value_length) ||
	    !read_float(s,
	                s->config->family->norm == NORM_LAYER && s->config->family->special != SPECIAL_PHIMOE
	                    ? "attention.layer_norm_epsilon"
	                    : "attention.layer_norm_rms_epsilon",
	                0, 1, &m->norm_epsilon))
		return false;
	if (value_length && value_length != m->head_dim && s->config->family->special != SPECIAL_DEEPSEEK)
		return fail(s,
		            "attention.value_length %d differs from attention.key_length %d, which is not supported",
		            value_length, m->head_dim);
	return true;
}

/* ---- RoPE --------------------------------------------------------------------------------- */

/* Copies a vector of factors (dim/2) out of the file, in which it may be unaligned. */
static bool read_factors(const struct gguf_source* s, const char* name, float* out) {
	struct tensor t;
	const int n = s->config->shape.rope.dim / 2;
	if (!tensor_table_take(&s->opened->tensors, name, 1, n, &t, s->error))
		return false;
	dtype_to_float(t.type, t.data, out, n);
	for (int i = 0; i < n; i++)
		if (!(out[i] > 1e-6f) || !(out[i] < 1e31f)) /* 1e30: a pair that is not turned (Gemma 4) */
			return fail(s, "tensor %s holds %g, expected positive factors", name, (double)out[i]);
	return true;
}

static bool read_factor_tensors(const struct gguf_source* s) {
	struct rope* r = &s->config->shape.rope;
	const struct tensor_table* table = &s->opened->tensors;
	const bool every = tensor_table_find(table, "rope_freqs.weight") != NULL;
	const bool by_length = tensor_table_find(table, "rope_factors_long.weight") != NULL;
	if (!every && !by_length)
		return true;
	const size_t n = (size_t)r->dim / 2;
	s->config->factors[0] = calloc(n ? n : 1, 2 * sizeof(float));
	if (!s->config->factors[0])
		return fail(s, "out of memory");
	r->short_factor = s->config->factors[0];
	if (every)
		return read_factors(s, "rope_freqs.weight", s->config->factors[0]);
	r->long_factor = s->config->factors[0] + n;
	r->scaling = ROPE_LONGROPE;
	return read_factors(s, "rope_factors_short.weight", s->config->factors[0]) &&
	       read_factors(s, "rope_factors_long.weight", s->config->factors[0] + n);
}

static bool scaling_kind(const struct gguf_source* s) {
	struct rope* r = &s->config->shape.rope;
	char name[96];
	const char* text = "none";
	size_t size = 4;
	if (!gguf_string(s->gguf, key_of(s, "rope.scaling.type", name), &text, &size, s->error))
		return false;
	static const struct {
		const char* name;
		enum rope_scaling scaling;
	} known[] = {
	    {"none", ROPE_NONE}, {"linear", ROPE_LINEAR}, {"yarn", ROPE_YARN}, {"longrope", ROPE_LONGROPE}};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strlen(known[i].name) == size && memcmp(known[i].name, text, size) == 0) {
			r->scaling = known[i].scaling;
			return true;
		}
	return fail(s,
	            "%s is \"%.*s\", which is not supported; supported are none, linear, yarn and "
	            "longrope",
	            name, (int)(size < 60 ? size : 60), text);
}

static bool read_scaling(const struct gguf_source* s) {
	struct rope* r = &s->config->shape.rope;
	float factor = 0, attention = 1;
	r->whole_turns = true;
	r->beta_fast = 32;
	r->beta_slow = 1;
	if (!scaling_kind(s) || !read_float(s, "rope.scale_linear", 0, 1e6, &factor) ||
	    !read_float(s, "rope.scaling.factor", 0, 1e6, &factor) ||
	    !read_float(s, "rope.scaling.attn_factor", 1e-6, 1e6, &attention) ||
	    !read_float(s, "rope.scaling.yarn_beta_fast", 1e-6, 1e6, &r->beta_fast) ||
	    !read_float(s, "rope.scaling.yarn_beta_slow", 1e-6, 1e6, &r->beta_slow) ||
	    !read_int(s, "rope.scaling.original_context_length", 1, INT32_MAX / 2, &r->original_context))
		return false;
	/* Old files have scale_linear without a type. */
	if (has_key(s, "rope.scale_linear") && !has_key(s, "rope.scaling.type") && factor > 0)
		r->scaling = ROPE_LINEAR;
	if (factor > 0)
		r->factor = factor;
	r->attention_factor = attention;
	if (!r->original_context && (r->scaling == ROPE_YARN || r->scaling == ROPE_LONGROPE))
		r->original_context = s->config->shape.context;
	float log_multiplier = 0; /* transformers' mscale_all_dim, where mscale is 1 */
	if (!read_float(s, "rope.scaling.yarn_log_multiplier", 0, 1e6, &log_multiplier))
		return false;
	struct model_shape* m = &s->config->shape;
	if (r->scaling == ROPE_YARN && m->latent && log_multiplier > 0) {
		/* The converter stores 0.1 · mscale_all_dim and requires mscale to be equal. Then only the scores
		 * grow, twice. */
		const float scale = (float)rope_yarn_scale(r->factor, 10 * log_multiplier);
		m->attention_scale *= scale * scale;
	} else if (r->scaling == ROPE_YARN)
		r->attention_factor =
		    attention * rope_yarn_attention(r->factor, log_multiplier > 0 ? 1 : 0, log_multiplier);
	return read_factor_tensors(s);
}

static int full_head_dim(const struct model_shape* m) {
	return m->full_head_dim ? m->full_head_dim : m->head_dim;
}

/* GLM's models of images and text give a position three parts, which are equal in text. The converter
 * permutes rows of their queries and keys, so that halves are rotated. */
static bool find_pairs(const struct gguf_source* s) {
	struct rope* r = &s->config->shape.rope;
	char name[96];
	int32_t* part = NULL;
	int n = 0;
	r->interleaved = s->config->family->interleaved || s->config->family->interleaved_by_convert;
	if (strcmp(s->config->family->architecture, "glm4") != 0)
		return true;
	if (!gguf_ints(s->gguf, key_of(s, "rope.dimension_sections", name), &part, &n, s->error))
		return false;
	if (n >= 2 && part[0] > 0 && part[1] > 0)
		r->interleaved = false;
	free(part);
	return true;
}

static bool read_rope(const struct gguf_source* s) {
	struct rope* r = &s->config->shape.rope;
	r->theta = 10000;
	r->factor = r->attention_factor = 1;
	r->dim = full_head_dim(&s->config->shape);
	return find_pairs(s) && read_float(s, "rope.freq_base", 1.001, 1e12, &r->theta) &&
	       read_int(s, "rope.dimension_count", 1, r->dim, &r->dim) && read_scaling(s);
}

/* ---- families ----------------------------------------------------------------------------- */

static bool read_gemma(const struct gguf_source* s, int deepest, float attention_cap, float logit_cap) {
	struct model_shape* m = &s->config->shape;
	m->activation = ACTIVATION_GELU_TANH;
	m->attention_softcap = attention_cap;
	m->logit_softcap = logit_cap;
	/* The file does not give the divisor of the scores. The deepest published model divides by the width that
	 * a head would have by default, and the others by the width that it has. */
	if (m->n_blocks == deepest)
		m->attention_scale = 1 / sqrtf((float)m->dim / (float)m->heads);
	return read_float(s, "attn_logit_softcapping", 0, 1e9, &m->attention_softcap) &&
	       read_float(s, "final_logit_softcapping", 0, 1e9, &m->logit_softcap);
}

/* key_length belongs to the blocks with full attention, key_length_swa to the others. Windows were read
 * before. */
static bool read_gemma4(const struct gguf_source* s) {
	struct model_shape* m = &s->config->shape;
	struct config* c = s->config;
	int kv_heads[MAX_BLOCKS], shared = 0;
	bool listed = false;
	char name[96];
	for (int b = 0; b < MAX_BLOCKS; b++)
		kv_heads[b] = m->kv_heads;
	m->full_head_dim = m->head_dim;
	m->attention_scale = 1;
	m->value_norm = true;
	m->activation = ACTIVATION_GELU_TANH;
	if (!read_int(s, "attention.key_length_swa", 1, LARGEST, &m->head_dim) ||
	    !read_by_block(s, "attention.head_count_kv", kv_heads, &listed) ||
	    !read_int(s, "attention.shared_kv_layers", 0, m->n_blocks - !c->assistant, &shared) ||
	    !read_int(s, "embedding_length_per_layer_input", 0, 1 << 16, &m->token_input) ||
	    !read_float(s, "final_logit_softcapping", 0, 1e9, &m->logit_softcap))
		return false;
	m->keys_outside = c->assistant;
	m->sharing_from = shared && !c->assistant ? m->n_blocks - shared : 0;
	m->router_scale = m->n_experts ? 1 / sqrtf((float)m->dim) : 0;
	for (int b = 0; b < m->n_blocks; b++) {
		int* kind = block_set_has(&m->sliding, b) ? &m->kv_heads : &m->full_kv_heads;
		*kind = kv_heads[b];
	}
	for (int b = 0; b < m->n_blocks; b++) {
		if (kv_heads[b] != block_kv_heads(m, b))
			return fail(s, "%s differs between blocks of the same kind, which is not supported",
			            key_of(s, "attention.head_count_kv", name));
		if (!c->assistant && block_keys_of(m, b) < 0)
			return fail(
			    s,
			    "%s is %d: block %d has to read the keys of an earlier block of its kind, and there is none",
			    key_of(s, "attention.shared_kv_layers", name), shared, b);
		snprintf(name, sizeof name, "blk.%d.attn_v.weight", b);
		c->keys_as_values |= block_keys_of(m, b) == b && !block_set_has(&m->sliding, b) &&
		                     !tensor_table_find(&s->opened->tensors, name);
	}
	if (!c->assistant)
		return true;
	config_be_assistant(c);
	return required_int(s, "embedding_length_out", LARGEST, &m->state_dim);
}

/* The multipliers of standard deviations by block; not finite for blocks whose gates are whole. */
static bool read_sparsity(const struct gguf_source* s) {
	struct config* c = s->config;
	char name[96];
	enum { FIRST = 10 };
	float* listed = NULL;
	int n = 0;
	if (!gguf_floats(s->gguf, key_of(s, "activation_sparsity_scale", name), &listed, &n, s->error))
		return false;
	const bool good =
	    n == 0 || n >= c->shape.n_blocks ||
	    fail(s, "%s has %d elements, expected one for each of %d blocks", name, n, c->shape.n_blocks);
	for (int b = 0; n == 0 && b < FIRST && b < c->shape.n_blocks; b++) {
		c->sparse[b] = true;
		c->sparsity[b] = 1.6448533535003662f; /* cuts off .95, as every reader does */
	}
	for (int b = 0; good && b < n && b < c->shape.n_blocks; b++) {
		c->sparse[b] = isfinite(listed[b]);
		c->sparsity[b] = c->sparse[b] ? listed[b] : 0;
	}
	free(listed);
	return good;
}

static bool read_gemma3n(const struct gguf_source* s) {
	struct model_shape* m = &s->config->shape;
	int shared = 0, active = 0;
	char name[96];
	m->attention_scale = 1;
	m->value_norm = true;
	m->activation = ACTIVATION_GELU_TANH;
	m->logit_softcap = 30; /* files leave it out */
	m->altup = 4;
	if (!read_int(s, "altup.num_inputs", 2, MOST_ALTUP, &m->altup) ||
	    !read_int(s, "altup.active_idx", 0, MOST_ALTUP, &active) ||
	    !read_int(s, "attention.shared_kv_layers", 0, m->n_blocks - 1, &shared) ||
	    !required_int(s, "embedding_length_per_layer_input", 1 << 16, &m->token_input) ||
	    !read_float(s, "final_logit_softcapping", 0, 1e9, &m->logit_softcap) || !read_sparsity(s))
		return false;
	if (active != 0)
		return fail(s, "%s is %d, which is not supported; supported is 0",
		            key_of(s, "altup.active_idx", name), active);
	m->sharing_from = shared ? m->n_blocks - shared : 0;
	for (int b = 0; b < m->n_blocks; b++)
		if (block_keys_of(m, b) < 0)
			return fail(
			    s,
			    "%s is %d: block %d has to read the keys of an earlier block of its kind, and there is none",
			    key_of(s, "attention.shared_kv_layers", name), shared, b);
	return true;
}

/* Latent attention. Most files give a head's sizes as key_length_mla and value_length_mla, beside the sizes
 * of what the cache keeps. The first files give them as key_length and value_length. */
static bool read_deepseek(const struct gguf_source* s) {
	struct model_shape* m = &s->config->shape;
	int key = m->head_dim;
	m->value_dim = key;
	m->rope.dim = 64;
	if (!required_int(s, "attention.kv_lora_rank", LARGEST, &m->latent) ||
	    !read_int(s, "attention.q_lora_rank", 1, LARGEST, &m->query_latent) ||
	    !read_int(s, "attention.value_length", 1, LARGEST, &m->value_dim) ||
	    !read_int(s, "attention.key_length_mla", 1, LARGEST, &key) ||
	    !read_int(s, "attention.value_length_mla", 1, LARGEST, &m->value_dim) ||
	    !read_int(s, "rope.dimension_count", 2, LARGEST, &m->rope.dim) ||
	    !read_float(s, "attention.temperature_scale", 0, 1e6, &m->attention_growth))
		return false;
	if (key <= m->rope.dim)
		return fail(s,
		            "a query head has %d elements, and RoPE rotates %d of them: expected more elements than "
		            "rotated ones",
		            key, m->rope.dim);
	m->nope_dim = key - m->rope.dim;
	m->head_dim = m->latent + m->rope.dim;
	m->kv_heads = 1;
	m->latent_epsilon = 1e-6f;
	m->attention_scale = 1 / sqrtf((float)key);
	m->groups_by_best = !m->experts_sigmoid;
	m->growth_context = 1;
	if (m->attention_growth != 0 &&
	    !read_int(s, "rope.scaling.original_context_length", 1, INT32_MAX / 2, &m->growth_context))
		return false;
	return (int64_t)m->heads * ((int64_t)m->latent + m->nope_dim + m->value_dim) <= LARGEST ||
	       fail(s, "attention.kv_lora_rank %d is too large for heads of %d and %d elements", m->latent, key,
	            m->value_dim);
}

static bool read_numbers(const struct gguf_source* s, const char* key, size_t offset) {
	float* list = NULL;
	int n = 0;
	if (!gguf_floats(s->gguf, key, &list, &n, s->error))
		return false;
	const int n_blocks = s->config->shape.n_blocks;
	for (int b = 0; b < n && b < n_blocks; b++)
		memcpy((char*)&s->config->xielu[b] + offset, &list[b], sizeof *list);
	free(list);
	return n >= n_blocks ||
	       fail(s, "%s has %d elements, expected one for each of %d blocks", key, n, n_blocks);
}

static bool read_apertus(const struct gguf_source* s) {
	s->config->shape.activation = ACTIVATION_XIELU;
	return read_numbers(s, "xielu.alpha_p", offsetof(struct xielu, positive)) &&
	       read_numbers(s, "xielu.alpha_n", offsetof(struct xielu, negative)) &&
	       read_numbers(s, "xielu.beta", offsetof(struct xielu, beta)) &&
	       read_numbers(s, "xielu.eps", offsetof(struct xielu, epsilon));
}

static bool read_granite(const struct gguf_source* s) {
	struct model_shape* m = &s->config->shape;
	float divisor = 1;
	if (!read_float(s, "embedding_scale", -1e6, 1e6, &m->embedding_scale) ||
	    !read_float(s, "residual_scale", -1e6, 1e6, &m->residual_scale) ||
	    !read_float(s, "attention.scale", 0, 1e6, &m->attention_scale) ||
	    !read_float(s, "logit_scale", 1e-6, 1e6, &divisor))
		return false;
	m->logit_scale = 1 / divisor;
	return true;
}

/* Reads which blocks are recurrent: a list, or all but every full_attention_interval-th. */
static bool read_recurrent_blocks(const struct gguf_source* s) {
	struct model_shape* m = &s->config->shape;
	int interval = 4, n = 0;
	int32_t* listed = NULL;
	char name[96];
	const struct gguf_value* list = gguf_find(s->gguf, key_of(s, "attention.recurrent_layers", name));
	if (list &&
	    (list->type != GGUF_ARRAY || !gguf_ints(s->gguf, name, &listed, &n, s->error) || n < m->n_blocks)) {
		free(listed);
		return fail(s, "%s must be an array of true and false, one for each of %d blocks", name, m->n_blocks);
	}
	const bool good = read_int(s, "full_attention_interval", 1, LARGEST, &interval);
	for (int b = 0; good && b < m->n_blocks; b++)
		if (list ? listed[b] != 0 : (b + 1) % interval != 0)
			block_set_put(&m->recurrent, b);
	free(listed);
	return good;
}

static bool read_recurrence(const struct gguf_source* s) {
	struct model_shape* m = &s->config->shape;
	struct recurrence* r = &m->recurrence;
	int width = 0;
	m->attention_gated = true;
	if (!required_int(s, "ssm.conv_kernel", LARGEST, &r->kernel) ||
	    !required_int(s, "ssm.state_size", LARGEST, &r->key_dim) ||
	    !required_int(s, "ssm.group_count", LARGEST, &r->key_heads) ||
	    !required_int(s, "ssm.time_step_rank", LARGEST, &r->value_heads) ||
	    !required_int(s, "ssm.inner_size", LARGEST, &width) || !read_recurrent_blocks(s))
		return false;
	if (width % r->value_heads)
		return fail(s, "ssm.inner_size %d is not a multiple of ssm.time_step_rank %d", width, r->value_heads);
	r->value_dim = width / r->value_heads;
	r->tiled = s->config->family->special != SPECIAL_QWEN3_NEXT;
	return true;
}

/* Mamba-2. Blocks without keys and values are recurrent. */
static bool read_state_space(const struct gguf_source* s) {
	struct model_shape* m = &s->config->shape;
	struct recurrence* r = &m->recurrence;
	int width = 0;
	if (attention_blocks(m) == m->n_blocks)
		return true;
	if (!required_int(s, "ssm.conv_kernel", LARGEST, &r->kernel) ||
	    !required_int(s, "ssm.state_size", LARGEST, &r->key_dim) ||
	    !required_int(s, "ssm.group_count", LARGEST, &r->key_heads) ||
	    !required_int(s, "ssm.time_step_rank", LARGEST, &r->value_heads) ||
	    !required_int(s, "ssm.inner_size", LARGEST, &width))
		return false;
	if (width % r->value_heads)
		return fail(s, "ssm.inner_size %d is not a multiple of ssm.time_step_rank %d", width, r->value_heads);
	r->value_dim = width / r->value_heads;
	r->state_space = r->gate_first = true;
	s->config->no_state_norm = !tensor_table_find_ending(&s->opened->tensors, ".ssm_norm.weight");
	s->config->convolution_bias = tensor_table_find_ending(&s->opened->tensors, ".ssm_conv1d.bias");
	return true;
}

/* Files say that chunks are there by leaving the window out. Models of 128 experts have no norms of queries
 * and keys. */
static bool read_llama4(const struct gguf_source* s) {
	enum { CHUNK = 8192, PERIOD = 4, WITHOUT_NORMS = 128 };
	struct model_shape* m = &s->config->shape;
	const bool chunks = !has_key(s, "attention.sliding_window") || m->sliding_window > 0;
	m->experts_weigh_input = true;
	m->sliding_window = chunks ? CHUNK : 0;
	m->sliding = (struct block_set){{0}};
	m->window_in_chunks = m->growth_unrotated = chunks;
	m->growth_context = CHUNK;
	m->attention_growth = chunks ? 0.1f : 0;
	s->config->plain_head_norms = m->n_experts != WITHOUT_NORMS;
	for (int b = 0; chunks && b < m->n_blocks; b++)
		block_set_put((b + 1) % PERIOD ? &m->sliding : &m->unrotated, b);
	return true;
}

static bool read_granite4(const struct gguf_source* s) {
	struct model_shape* m = &s->config->shape;
	char name[96];
	bool turned = false;
	if (!gguf_bool(s->gguf, key_of(s, "rope.scaling.finetuned", name), &turned, s->error))
		return false;
	for (int b = 0; b < m->n_blocks && !turned; b++)
		block_set_put(&m->unrotated, b);
	return read_granite(s) && read_state_space(s);
}

/* Blocks whose queries and keys are rotated are listed. Without the list all are. */
static bool read_turned(const struct gguf_source* s) {
	struct model_shape* m = &s->config->shape;
	char name[96];
	int32_t* turned = NULL;
	int n = 0;
	if (!gguf_ints(s->gguf, key_of(s, "attention.rope_pattern", name), &turned, &n, s->error))
		return false;
	for (int b = 0; b < n && b < m->n_blocks; b++)
		if (!turned[b])
			block_set_put(&m->unrotated, b);
	free(turned);
	return n == 0 || n >= m->n_blocks ||
	       fail(s, "%s has %d elements, expected one for each of %d blocks", name, n, m->n_blocks);
}

/* Defaults that files leave out and every reader knows. */
static bool read_special(const struct gguf_source* s) {
	struct model_shape* m = &s->config->shape;
	switch (s->config->family->special) {
	case SPECIAL_GEMMA2:
		return read_gemma(s, 46, 50, 30);
	case SPECIAL_GEMMA3:
		return read_gemma(s, 62, 0, 0);
	case SPECIAL_GRANITE:
	case SPECIAL_GRANITE_MOE:
		return read_granite(s);
	case SPECIAL_GRANITE4:
		return read_granite4(s);
	case SPECIAL_LLAMA4:
		return read_llama4(s);
	case SPECIAL_FALCON_H1: /* the converter has multiplied the weights */
		return read_state_space(s);
	case SPECIAL_NEMOTRON_H:
		for (int b = 0; b < m->n_blocks; b++)
			block_set_put(&m->unrotated, b);
		return read_state_space(s);
	case SPECIAL_SMOLLM3: /* every fourth block has no positions */
		for (int b = 3; b < m->n_blocks; b += 4)
			block_set_put(&m->unrotated, b);
		break;
	case SPECIAL_GEMMA:
		m->activation = ACTIVATION_GELU_TANH;
		break;
	case SPECIAL_EXAONE4:
	case SPECIAL_EXAONE_MOE:
		shape_rotate_sliding(m);
		break;
	case SPECIAL_AFMOE: /* all published models scale the embedding */
		shape_rotate_sliding(m);
		m->embedding_scale = sqrtf((float)m->dim);
		m->attention_gated = true;
		break;
	case SPECIAL_MINISTRAL3:
		m->growth_context = 1;
		return read_float(s, "attention.temperature_scale", 0, 1e6, &m->attention_growth) &&
		       read_int(s, "rope.scaling.original_context_length", 1, INT32_MAX / 2, &m->growth_context);
	case SPECIAL_GPT_OSS:
		m->activation = ACTIVATION_SWIGLU_CLAMPED;
		break;
	case SPECIAL_COHERE2:
		shape_rotate_sliding(m);
		return read_float(s, "logit_scale", -1e6, 1e6, &m->logit_scale);
	case SPECIAL_COHERE:
		return read_float(s, "logit_scale", -1e6, 1e6, &m->logit_scale);
	case SPECIAL_APERTUS:
		return read_apertus(s);
	case SPECIAL_GEMMA4:
		return read_gemma4(s);
	case SPECIAL_GEMMA3N:
		return read_gemma3n(s);
	case SPECIAL_DEEPSEEK:
		return read_deepseek(s);
	case SPECIAL_LFM2:
	case SPECIAL_LFM2_MOE:
		m->experts_epsilon = 1e-6f;
		m->recurrence = (struct recurrence){.value_heads = 1, .value_dim = m->dim};
		return required_int(s, "shortconv.l_cache", LARGEST, &m->recurrence.kernel);
	case SPECIAL_QWEN3_5:
	case SPECIAL_QWEN3_5_MOE:
	case SPECIAL_QWEN3_NEXT:
		return read_recurrence(s);
	case SPECIAL_PHIMOE: /* files leave the router's jitter out */
		m->experts_in_turn = true;
		m->experts_near = 0.02f;
		s->config->head_bias = tensor_table_find(&s->opened->tensors, "output.bias") != NULL;
		break;
	case SPECIAL_GRANITE_SWA:
		return read_granite(s) && read_turned(s);
	case SPECIAL_HYPERCLOVAX: /* has no architecture in GGUF here */
	case SPECIAL_MELLUM:
	case SPECIAL_HY_V3:
	case SPECIAL_HUNYUAN_MOE:
	case SPECIAL_STABLELM:
	case SPECIAL_NONE:
	case SPECIAL_DOTS1:
	case SPECIAL_HUNYUAN: /* the converter has stretched the base */
	case SPECIAL_MIXTRAL:
	case SPECIAL_QWEN3_MOE:
	case SPECIAL_QWEN3_VL_MOE:
	case SPECIAL_OLMOE:
	case SPECIAL_QWEN2_MOE:
	case SPECIAL_GLM4_MOE:
	case SPECIAL_ERNIE4_5_MOE:
	case SPECIAL_MINIMAX_M2:
		break;
	}
	return true;
}

static bool read_router(const struct gguf_source* s) {
	struct model_shape* m = &s->config->shape;
	const enum special special = s->config->family->special;
	enum { SOFTMAX = 1, SIGMOID = 2 };
	char name[96];
	int gating = special == SPECIAL_GLM4_MOE || special == SPECIAL_MINIMAX_M2 || special == SPECIAL_DOTS1 ||
	                     special == SPECIAL_LFM2_MOE || special == SPECIAL_NEMOTRON_H ||
	                     special == SPECIAL_LLAMA4 || special == SPECIAL_EXAONE_MOE ||
	                     special == SPECIAL_AFMOE || special == SPECIAL_HY_V3
	                 ? SIGMOID
	                 : SOFTMAX;
	if (!gguf_bool(s->gguf, key_of(s, "expert_weights_norm", name), &m->experts_normalised, s->error) ||
	    !read_int(s, "expert_gating_func", 0, 100, &gating) ||
	    !read_float(s, "expert_weights_scale", 0, 1e6, &m->experts_scale) ||
	    !read_int(s, "expert_group_count", 0, MOST_EXPERTS, &m->expert_groups) ||
	    !read_int(s, "expert_group_used_count", 0, MOST_EXPERTS, &m->expert_groups_used))
		return false;
	m->experts_sigmoid = gating == SIGMOID;
	if (m->expert_groups == 1)
		m->expert_groups = 0;
	return gating <= SIGMOID || special == SPECIAL_GPT_OSS ||
	       fail(s, "%s.expert_gating_func is %d; supported are 1 (softmax) and 2 (sigmoid)",
	            s->config->family->architecture, gating);
}

/* The width of the shared expert is read from its tensors, since files count it in several ways. Where no
 * tensor is the gate's, the first half of the rows is. */
static void find_shared(const struct gguf_source* s) {
	struct model_shape* m = &s->config->shape;
	char name[64];
	for (int b = 0; b < MAX_BLOCKS && m->shared_ffn == 0; b++) {
		snprintf(name, sizeof name, "blk.%d.ffn_up_shexp.weight", b);
		const struct named_tensor* t = tensor_table_find(&s->opened->tensors, name);
		if (t && t->n_dims == 2 && t->dim[0] <= LARGEST && s->config->family->shared_up)
			m->shared_ffn = (int)t->dim[0] / (s->config->family->special == SPECIAL_GRANITE_SWA ? 2 : 1);
	}
}

static bool read_experts(const struct gguf_source* s) {
	struct model_shape* m = &s->config->shape;
	const enum special special = s->config->family->special;
	m->expert_ffn = m->ffn;
	m->experts_normalised = special != SPECIAL_OLMOE && special != SPECIAL_QWEN2_MOE &&
	                        special != SPECIAL_DOTS1 && special != SPECIAL_DEEPSEEK &&
	                        special != SPECIAL_LLAMA4;
	if (!read_int(s, "expert_count", 0, MOST_EXPERTS, &m->n_experts))
		return false;
	if (m->n_experts == 0) {
		m->expert_ffn = 0;
		m->experts_normalised = false;
		return true;
	}
	/* Granite's windowed models share an architecture name. Only one of the two has experts. */
	if (special == SPECIAL_GRANITE_SWA)
		s->config->family = family_by_name("granitemoe_swa");
	find_shared(s);
	for (int b = 0; b < m->n_blocks && !s->config->family->single_mixers; b++) {
		char name[64];
		snprintf(name, sizeof name, "blk.%d.ffn_gate_inp.weight", b);
		if (!tensor_table_find(&s->opened->tensors, name))
			block_set_put(&s->config->dense, b);
	}
	return required_int(s, "expert_used_count", m->n_experts, &m->experts_used) &&
	       read_int(s, "expert_feed_forward_length", 1, LARGEST, &m->expert_ffn) && read_router(s);
}

/* One boolean a block, as llama.cpp's converter writes them for OLMo 3 and EXAONE 4. */
static bool read_listed_window(const struct gguf_source* s, const char* key) {
	struct model_shape* m = &s->config->shape;
	int32_t* listed;
	int n;
	if (!gguf_ints(s->gguf, key, &listed, &n, s->error))
		return false;
	for (int b = 0; b < n && b < m->n_blocks && m->sliding_window; b++)
		if (listed[b])
			block_set_put(&m->sliding, b);
	free(listed);
	return n >= m->n_blocks ||
	       fail(s, "%s has %d elements, expected one for each of %d blocks", key, n, m->n_blocks);
}

static bool apply_window_rule(const struct gguf_source* s) {
	struct model_shape* m = &s->config->shape;
	const struct family* f = s->config->family;
	char name[96];
	const struct gguf_value* pattern =
	    gguf_find(s->gguf, key_of(s, "attention.sliding_window_pattern", name));
	if (pattern && pattern->type == GGUF_ARRAY)
		return read_listed_window(s, name);
	int period = f->window_rule == WINDOW_PERIOD ? f->window_period : 0;
	if (!read_int(s, "attention.sliding_window_pattern", 0, LARGEST, &period))
		return false;
	for (int b = 0; m->sliding_window && b < m->n_blocks; b++)
		if (period == 0 || (b + 1) % period)
			block_set_put(&m->sliding, b);
	return true;
}

static bool read_window(const struct gguf_source* s) {
	struct model_shape* m = &s->config->shape;
	const struct family* f = s->config->family;
	if (!read_int(s, "attention.sliding_window", 0, INT32_MAX / 2, &m->sliding_window))
		return false;
	/* OLMo 2 and 3 share an architecture name. Only OLMo 3 has a window. */
	if (f->head_norm == HEAD_NORM_ALL && m->sliding_window)
		s->config->family = f = family_by_name("olmo3");
	if (f->special == SPECIAL_GEMMA2 && !m->sliding_window)
		m->sliding_window = 4096;
	if (f->window_rule == WINDOW_UNUSED || f->window_rule == WINDOW_OPTED ||
	    f->window_rule == WINDOW_OPTED_ALL)
		m->sliding_window = 0;
	return apply_window_rule(s);
}

/* Sliding blocks have a RoPE base of their own, without scaling. */
static bool read_sliding_rope(const struct gguf_source* s) {
	struct model_shape* m = &s->config->shape;
	const struct family* f = s->config->family;
	if (f->sliding_theta == 0 || !m->sliding_window)
		return true;
	struct rope* r = &m->sliding_rope;
	*r = (struct rope){.dim = f->special == SPECIAL_GEMMA4 ? m->head_dim : m->rope.dim,
	                   .interleaved = m->rope.interleaved,
	                   .theta = f->scaled_embedding ? f->sliding_theta : m->rope.theta, /* Gemma's own */
	                   .factor = 1,
	                   .attention_factor = 1};
	if (f->special == SPECIAL_GEMMA4 && !read_int(s, "rope.dimension_count_swa", 1, m->head_dim, &r->dim))
		return false;
	return read_float(s, "rope.freq_base_swa", 1.001, 1e12, &r->theta);
}

/* Optional parts are recognized by their tensors. */
static void read_parts(const struct gguf_source* s) {
	const struct tensor_table* table = &s->opened->tensors;
	s->config->tied = !tensor_table_find(table, output_name);
	const bool by_head =
	    s->config->family->special == SPECIAL_STABLELM || s->config->family->special == SPECIAL_COHERE;
	const bool norms = tensor_table_find(table, "blk.0.attn_q_norm.weight") != NULL;
	s->config->head_norms = norms && !by_head && s->config->family->head_norm == HEAD_NORM_NONE;
	s->config->shape.norms_by_head = norms && by_head;
	s->config->qkv_bias = tensor_table_find_ending(table, ".attn_q.bias");
	s->config->output_bias = tensor_table_find_ending(table, ".attn_output.bias");
	s->config->mlp_bias = tensor_table_find(table, "blk.0.ffn_up.bias") != NULL;
	s->config->shape.ungated = s->config->family->ungated;
	if (s->config->family->ungated)
		s->config->shape.activation = s->config->family->activation;
	s->config->shape.norm_after_rope = s->config->family->norm_after_rope;
	/* StableLM's files with parallel blocks have no second norm. */
	s->config->shape.parallel =
	    s->config->family->parallel || (s->config->family->special == SPECIAL_STABLELM &&
	                                    !tensor_table_find(table, "blk.0.ffn_norm.weight"));
}

/* ---- vocabulary --------------------------------------------------------------------------- */

struct gguf_pieces {
	struct gguf_vocabulary view;
	const char **piece, **merge;
	size_t *piece_size, *merge_size;
	float* score;
	int32_t* type;
	char model[32], pre[64];
};

static void free_vocabulary(struct gguf_pieces* v) {
	free(v->piece);
	free(v->merge);
	free(v->piece_size);
	free(v->merge_size);
	free(v->score);
	free(v->type);
}

/* NUL-terminated; empty where the file has none. */
static bool copy_name(const struct gguf_source* s, const char* key, char* out, size_t size) {
	const char* text = NULL;
	size_t n = 0;
	if (!gguf_string(s->gguf, key, &text, &n, s->error))
		return false;
	if (n >= size)
		return fail(s, "%s has %zu bytes, expected a short name", key, n);
	if (n)
		memcpy(out, text, n);
	out[n] = '\0';
	return true;
}

static bool same_length(const struct gguf_source* s, const char* key, int n, int expected) {
	return n == 0 || n == expected ||
	       fail(s, "%s has %d elements, but tokenizer.ggml.tokens has %d", key, n, expected);
}

/* A token's id, or -1 when the file has none. */
static bool read_token(const struct gguf_source* s, const char* key, int n, int32_t* out) {
	/* Some files write an absent token as 2^32 - 1. */
	int64_t id = -1;
	if (!gguf_int(s->gguf, key, -1, UINT32_MAX, &id, s->error))
		return false;
	if (id == UINT32_MAX)
		id = -1;
	if (id >= n)
		return fail(s, "%s is %lld, beyond the vocabulary of %d", key, (long long)id, n);
	*out = (int32_t)id;
	return true;
}

static bool read_switch(const struct gguf_source* s, const char* key, int* out) {
	bool on = false;
	if (!gguf_bool(s->gguf, key, &on, s->error))
		return false;
	*out = gguf_find(s->gguf, key) ? on : -1;
	return true;
}

static int find_piece(const struct gguf_pieces* v, const char* piece) {
	for (int i = 0; i < v->view.n; i++)
		if (v->piece_size[i] == strlen(piece) && memcmp(v->piece[i], piece, v->piece_size[i]) == 0)
			return i;
	return -1;
}

/* If a file has "<|tool_response>", its "</s>" is an ordinary piece, whatever its type is (as in
 * llama.cpp). */
static void make_plain(struct gguf_pieces* v) {
	enum { PLAIN = 1 };
	const int end = find_piece(v, "</s>");
	if (v->type && end >= 0 && find_piece(v, "<|tool_response>") >= 0)
		v->type[end] = PLAIN;
}

static bool read_pieces(const struct gguf_source* s, struct gguf_pieces* v) {
	const struct gguf* g = s->gguf;
	int n, n_scores, n_types, n_merges;
	if (!gguf_strings(g, "tokenizer.ggml.tokens", &v->piece, &v->piece_size, &n, s->error) ||
	    !gguf_floats(g, "tokenizer.ggml.scores", &v->score, &n_scores, s->error) ||
	    !gguf_ints(g, "tokenizer.ggml.token_type", &v->type, &n_types, s->error) ||
	    !gguf_strings(g, "tokenizer.ggml.merges", &v->merge, &v->merge_size, &n_merges, s->error))
		return false;
	if (n == 0)
		return error_set(s->error, "%s: tokenizer.ggml.tokens is missing or empty", g->file);
	v->view.n = n;
	v->view.n_merges = n_merges;
	if (!same_length(s, "tokenizer.ggml.scores", n_scores, n) ||
	    !same_length(s, "tokenizer.ggml.token_type", n_types, n))
		return false;
	make_plain(v);
	return true;
}

static bool read_vocabulary(const struct gguf_source* s, struct gguf_pieces* v) {
	if (!copy_name(s, "tokenizer.ggml.model", v->model, sizeof v->model) ||
	    !copy_name(s, "tokenizer.ggml.pre", v->pre, sizeof v->pre) || !read_pieces(s, v))
		return false;
	if (!gguf_find(s->gguf, "tokenizer.ggml.model"))
		return fail(s, "tokenizer.ggml.model is missing");
	struct gguf_vocabulary* w = &v->view;
	w->model = v->model;
	w->pre = gguf_find(s->gguf, "tokenizer.ggml.pre") ? v->pre : NULL;
	w->piece = v->piece;
	w->piece_size = v->piece_size;
	w->score = v->score;
	w->type = v->type;
	w->merge = v->merge;
	w->merge_size = v->merge_size;
	return read_token(s, "tokenizer.ggml.bos_token_id", w->n, &w->bos) &&
	       read_token(s, "tokenizer.ggml.eos_token_id", w->n, &w->eos) &&
	       read_token(s, "tokenizer.ggml.unknown_token_id", w->n, &w->unknown) &&
	       read_switch(s, "tokenizer.ggml.add_bos_token", &w->add_bos) &&
	       read_switch(s, "tokenizer.ggml.add_eos_token", &w->add_eos) &&
	       read_switch(s, "tokenizer.ggml.add_space_prefix", &w->add_space_prefix) &&
	       read_switch(s, "tokenizer.ggml.remove_extra_whitespaces", &w->remove_extra_whitespaces);
}

/* Pieces that end a text in every vocabulary that has them, as in llama.cpp. */
static const char end_pieces[] =
    "<|eot_id|> <|eom_id|> <|im_end|> <|end|> <end_of_turn> <|EOT|> <|endoftext|> <|return|> "
    "<|call|> <|flush|> <|calls|> <EOT> _<EOT> [EOT] [EOS] <|end_of_text|> <end_of_utterance> <eos> "
    "<turn|> <|tool_response> </s> <|file_sep|> <|fim_pad|> <fim-pad> <fim_pad> <PAD> [PAD] "
    "<|fim_repo|> <|repo_name|> <fim-repo> <REPO> <reponame>";

/* If one of these is present, another piece that usually ends a text does not. */
static bool is_overruled(const struct model* model, const char* piece) {
	if (strcmp(piece, "<|end|>") == 0)
		return (tokenizer_find(model->tokenizer, "<|return|>") >= 0 &&
		        tokenizer_find(model->tokenizer, "<|call|>") >= 0) ||
		       (tokenizer_find(model->tokenizer, "<|calls|>") >= 0 &&
		        tokenizer_find(model->tokenizer, "<|flush|>") >= 0);
	return strcmp(piece, "</s>") == 0 && tokenizer_find(model->tokenizer, "<|tool_response>") >= 0;
}

/* Collects all tokens that end a text: those that the metadata names, and those known by their text, which
 * many files hold without naming them. */
static bool read_ends(const struct gguf_source* s, struct model* model) {
	static const char* const keys[] = {"tokenizer.ggml.eos_token_id",     "tokenizer.ggml.eot_token_id",
	                                   "tokenizer.ggml.eom_token_id",     "tokenizer.ggml.fim_pad_token_id",
	                                   "tokenizer.ggml.fim_rep_token_id", "tokenizer.ggml.fim_sep_token_id"};
	const int n = tokenizer_size(model->tokenizer);
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		int32_t id = -1;
		if (!read_token(s, keys[i], n, &id) ||
		    !config_add_end(s->config, id, s->gguf->file, keys[i], s->error))
			return false;
	}
	for (const char* at = end_pieces; *at; at += strcspn(at, " "), at += *at == ' ') {
		char piece[32];
		snprintf(piece, sizeof piece, "%.*s", (int)strcspn(at, " "), at);
		if (!is_overruled(model, piece) && !config_add_end(s->config, tokenizer_find(model->tokenizer, piece),
		                                                   s->gguf->file, piece, s->error))
			return false;
	}
	return opened_ends(model, s->gguf->file, s->error);
}

static bool open_tokenizer(const struct gguf_source* s, struct model* model) {
	struct gguf_pieces v = {0};
	bool good = read_vocabulary(s, &v);
	if (good && s->config->shape.vocab == 0)
		s->config->shape.vocab = v.view.n;
	if (good && v.view.n > s->config->shape.vocab)
		good = fail(s, "tokenizer.ggml.tokens has %d pieces, but token_embd.weight has only %d rows",
		            v.view.n, s->config->shape.vocab);
	if (good) {
		struct error inner = {""};
		model->tokenizer = tokenizer_from_gguf(&v.view, &inner);
		good = model->tokenizer || error_set(s->error, "%.300s: %.200s", s->gguf->file, inner.message);
	}
	free_vocabulary(&v);
	return good && model_read_gguf_templates(model, s->gguf, s->error) && read_ends(s, model);
}

/* ---- files -------------------------------------------------------------------------------- */

static bool add_file(struct opened* f, struct gguf* g, const char* path, struct error* error) {
	struct mapping* file = &f->file[f->n_files];
	if (!mapping_open(file, path, error))
		return false;
	f->n_files++;
	return gguf_read(g, &f->tensors, file->data, file->size, file->path, error);
}

/* Returns where "-00001-of-00003.gguf" begins in the path, or NULL. */
static const char* split_suffix(const char* path, int64_t no, int64_t count) {
	char expected[64];
	snprintf(expected, sizeof expected, "-%05lld-of-%05lld.gguf", (long long)no + 1, (long long)count);
	const size_t n = strlen(path), s = strlen(expected);
	return n > s && strcmp(path + n - s, expected) == 0 ? path + n - s : NULL;
}

/* Opens another file of the set and checks that its place in the set is the one in its name. The first file
 * is the set's head. */
static bool add_split(struct opened* f, const char* path, int64_t no, int64_t count, struct error* error) {
	struct gguf other = {0}, *const g = no == 0 ? &f->head : &other;
	int64_t its_no = -1, its_count = -1;
	gguf_free(g);
	const bool good =
	    add_file(f, g, path, error) && gguf_int(g, "split.no", 0, MOST_FILES - 1, &its_no, error) &&
	    gguf_int(g, "split.count", 1, MOST_FILES, &its_count, error) &&
	    ((its_no == no && its_count == count) ||
	     error_set(error, "%s: the file's metadata calls it part %lld of %lld, expected part %lld of %lld",
	               path, (long long)its_no + 1, (long long)its_count, (long long)no + 1, (long long)count));
	gguf_free(&other);
	return good;
}

/* Opens the other files of a split set. Their names follow from the one that was given. */
static bool add_others(struct opened* f, const char* path, struct error* error) {
	int64_t no = 0, count = 1, tensors = -1;
	if (!gguf_int(&f->head, "split.no", 0, MOST_FILES - 1, &no, error) ||
	    !gguf_int(&f->head, "split.count", 0, MOST_FILES, &count, error) ||
	    !gguf_int(&f->head, "split.tensors.count", 0, INT32_MAX, &tensors, error))
		return false;
	if (count <= 1)
		return true;
	const char* suffix = split_suffix(path, no, count);
	if (!suffix)
		return error_set(error,
		                 "%s: this is part %lld of a set of %lld, but its name does not end in "
		                 "-%05lld-of-%05lld.gguf, so the other parts cannot be found",
		                 path, (long long)no + 1, (long long)count, (long long)no + 1, (long long)count);
	for (int64_t i = 0; i < count; i++) {
		char other[1024];
		const int n = snprintf(other, sizeof other, "%.*s-%05lld-of-%05lld.gguf", (int)(suffix - path), path,
		                       (long long)i + 1, (long long)count);
		if (n < 0 || (size_t)n >= sizeof other)
			return error_set(error, "%.200s…: the path is too long", path);
		if (i != no && !add_split(f, other, i, count, error))
			return false;
	}
	if (tensors >= 0 && (uint64_t)tensors != f->tensors.n)
		return error_set(error, "%s: split.tensors.count is %lld, but the set holds %zu tensors", path,
		                 (long long)tensors, f->tensors.n);
	return true;
}

/* The last are the groups of an assistant's head. Files do not say how many of them a row reads, so it reads
 * all, as in llama.cpp. */
static bool is_ignored(const char* name) {
	return strcmp(name, "rope_freqs.weight") == 0 || strncmp(name, "rope_factors_", 13) == 0 ||
	       strncmp(name, "masked_embd_", 12) == 0;
}

/* ---- the opener --------------------------------------------------------------------------- */

static bool fill_weights(const struct gguf_source* s, struct model* model) {
	struct opened* f = s->opened;
	struct model_shape* m = &s->config->shape;
	const struct named_tensor* embedding = tensor_table_find(&f->tensors, embedding_name);
	if (f->tensors.n == 0)
		return fail(s, "holds a vocabulary but no weights");
	if (!embedding || embedding->n_dims != 2 || embedding->dim[0] > LARGEST)
		return fail(s, "tensor %s is missing or not a matrix", embedding_name);
	m->vocab = (int)embedding->dim[0];
	if (!read_sizes(s))
		return false;
	config_scales(s->config);
	if (!read_window(s) || !read_experts(s) || !read_special(s) || !read_rope(s) || !read_sliding_rope(s))
		return false;
	read_parts(s);
	if (!config_check(s->config, s->gguf->file, s->error) ||
	    !repack_heads(&f->tensors, &m->recurrence, &f->kept, s->error))
		return false;
	const struct tensor_names names = names_of(s->config->family, &f->tensors);
	if (!bind_weights(model, &names, is_ignored, s->error))
		return false;
	for (int i = 0; i < f->n_files; i++)
		mapping_will_need(&f->file[i]);
	return true;
}

bool model_open_gguf(struct model* model, const char* path, const struct model_options* options,
                     struct error* error) {
	struct opened* const f = model->owned;
	struct gguf_source s = {.gguf = &f->head, .opened = f, .config = &f->config, .error = error};
	if (!add_file(f, &f->head, path, error) || !add_others(f, path, error) ||
	    !tensor_table_seal(&f->tensors, error))
		return false;
	/* A file with a vocabulary alone may have any architecture. */
	if (!options->vocabulary_only) {
		if (!repack_few_bits(&f->tensors, &f->kept, error) ||
		    !repack_nvfp4_blocks(&f->tensors, &f->kept, error) || !read_architecture(&s) ||
		    !check_refused(&s) || !fill_weights(&s, model))
			return false;
		model->family = f->config.family->name;
	}
	if (f->config.assistant) { /* which needs no tokenizer */
		if (!assistant_check(model, options->target, error))
			return false;
		assistant_join(model, options->target);
		return true;
	}
	if (!open_tokenizer(&s, model))
		return false;
	model->weights.shape.vocab = f->config.shape.vocab;
	return true;
}
