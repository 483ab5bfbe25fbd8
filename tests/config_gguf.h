/* The assistant of a file tests/core/golden/configs as llama.cpp's converter writes it to GGUF: what its
 * config says as metadata, and the tensors that config_folder.h makes under other names. Included once by a
 * test: it has definitions. */
#pragma once

#include "tests/config_folder.h"

enum { MOST_GGUF_TENSORS = 256, GGUF_ALIGNED = 32, U32 = 4, F32 = 6, BOOLEAN = 7, STRING = 8, LIST = 9 };

struct gguf_writer {
	FILE* out;
	int n;
	struct {
		char from[128], name[128];
		const cJSON* entry; /* NULL: rope_freqs */
	} tensor[MOST_GGUF_TENSORS];
};

static void put_number(struct gguf_writer* w, uint64_t value, size_t bytes) {
	fwrite(&value, bytes, 1, w->out);
}

static void put_text(struct gguf_writer* w, const char* text) {
	put_number(w, strlen(text), 8);
	fputs(text, w->out);
}

static void put_key(struct gguf_writer* w, const char* key, uint32_t type) {
	char name[128];
	snprintf(name, sizeof name,
	         strchr(key, '.') && strncmp(key, "general", 7) == 0 ? "%s" : "gemma4-assistant.%s", key);
	put_text(w, name);
	put_number(w, type, 4);
}

static void put_int(struct gguf_writer* w, const char* key, double value) {
	put_key(w, key, U32);
	put_number(w, (uint64_t)value, 4);
}

static void put_float(struct gguf_writer* w, const char* key, float value) {
	put_key(w, key, F32);
	fwrite(&value, sizeof value, 1, w->out);
}

/* ---- names ------------------------------------------------------------------------------------ */

static void add_name(struct gguf_writer* w, const char* from, const cJSON* entry) {
	static const char* const names[][2] = {
	    {"model.embed_tokens.weight", "token_embd.weight"},
	    {"model.norm.weight", "output_norm.weight"},
	    {"lm_head.weight", "output.weight"},
	    {"pre_projection.weight", "nextn.pre_projection.weight"},
	    {"post_projection.weight", "nextn.post_projection.weight"},
	    {"input_layernorm.weight", "attn_norm.weight"},
	    {"self_attn.q_proj.weight", "attn_q.weight"},
	    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
	    {"self_attn.o_proj.weight", "attn_output.weight"},
	    {"post_attention_layernorm.weight", "post_attention_norm.weight"},
	    {"pre_feedforward_layernorm.weight", "ffn_norm.weight"},
	    {"post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
	    {"mlp.gate_proj.weight", "ffn_gate.weight"},
	    {"mlp.up_proj.weight", "ffn_up.weight"},
	    {"mlp.down_proj.weight", "ffn_down.weight"},
	    {"layer_scalar", "layer_output_scale.weight"},
	};
	int block = -1, used = 0;
	assert_true(w->n < MOST_GGUF_TENSORS);
	const bool in_block = sscanf(from, "model.layers.%d.%n", &block, &used) == 1 && used > 0;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(from + used, names[i][0]) == 0) {
			snprintf(w->tensor[w->n].from, sizeof w->tensor->from, "%s", from);
			if (in_block)
				snprintf(w->tensor[w->n].name, sizeof w->tensor->name, "blk.%d.%s", block, names[i][1]);
			else
				snprintf(w->tensor[w->n].name, sizeof w->tensor->name, "%s", names[i][1]);
			w->tensor[w->n++].entry = entry;
			return;
		}
	fail_msg("%s has no name in GGUF", from);
}

static void add_names(struct gguf_writer* w, const char* name, const cJSON* of, const cJSON* entry) {
	const char* star = strchr(name, '*');
	if (!star)
		add_name(w, name, entry);
	for (int i = 0; star && i < (int)of->valuedouble; i++) {
		char one[256];
		snprintf(one, sizeof one, "%.*s%d%s", (int)(star - name), name, i, star + 1);
		add_names(w, one, of->next, entry);
	}
}

/* ---- metadata --------------------------------------------------------------------------------- */

enum { GGUF_KEYS = 20 };

static int pairs_of(const cJSON* text) { return (int)part(text, "global_head_dim")->valuedouble / 2; }

static void put_metadata(struct gguf_writer* w, const cJSON* config) {
	const cJSON *text = part(config, "text_config"), *kinds = json_field(text, "layer_types");
	static const char* const sizes[][2] = {{"num_hidden_layers", "block_count"},
	                                       {"num_hidden_layers", "nextn_predict_layers"},
	                                       {"num_hidden_layers", "attention.shared_kv_layers"},
	                                       {"hidden_size", "embedding_length"},
	                                       {"intermediate_size", "feed_forward_length"},
	                                       {"num_attention_heads", "attention.head_count"},
	                                       {"num_key_value_heads", "attention.head_count_kv"},
	                                       {"max_position_embeddings", "context_length"},
	                                       {"global_head_dim", "attention.key_length"},
	                                       {"global_head_dim", "attention.value_length"},
	                                       {"head_dim", "attention.key_length_swa"},
	                                       {"head_dim", "attention.value_length_swa"},
	                                       {"global_head_dim", "rope.dimension_count"},
	                                       {"head_dim", "rope.dimension_count_swa"},
	                                       {"sliding_window", "attention.sliding_window"}};
	const int blocks = (int)part(text, "num_hidden_layers")->valuedouble;
	put_key(w, "general.architecture", STRING);
	put_text(w, "gemma4-assistant");
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		put_int(w, sizes[i][1], part(text, sizes[i][0])->valuedouble);
	put_int(w, "embedding_length_out", part(config, "backbone_hidden_size")->valuedouble);
	put_float(w, "attention.layer_norm_rms_epsilon", 1e-6f);
	put_float(w, "rope.freq_base", 1e6f);
	put_key(w, "attention.sliding_window_pattern", LIST);
	put_number(w, BOOLEAN, 4);
	put_number(w, (uint64_t)blocks, 8);
	for (int b = 0; b < blocks; b++) {
		const char* kind = kinds ? cJSON_GetArrayItem(kinds, b)->valuestring : "";
		put_number(w, kinds ? strcmp(kind, "sliding_attention") == 0 : b % 6 != 5, 1);
	}
}

/* ---- tensors ---------------------------------------------------------------------------------- */

static uint64_t count_numbers(const cJSON* entry, const cJSON* text) {
	const cJSON* dim;
	uint64_t n = 1;
	if (!entry)
		return (uint64_t)pairs_of(text);
	cJSON_ArrayForEach (dim, part(entry, "shape"))
		n *= (uint64_t)dim->valuedouble;
	return n;
}

/* The innermost dimension comes first. */
static void put_infos(struct gguf_writer* w, const cJSON* text) {
	uint64_t at = 0;
	for (int i = 0; i < w->n; i++) {
		const cJSON* shape = w->tensor[i].entry ? part(w->tensor[i].entry, "shape") : NULL;
		const int dims = shape ? cJSON_GetArraySize(shape) : 1;
		const uint64_t n = count_numbers(w->tensor[i].entry, text);
		put_text(w, w->tensor[i].name);
		put_number(w, (uint64_t)dims, 4);
		for (int d = dims; d-- > 0;)
			put_number(w, shape ? (uint64_t)cJSON_GetArrayItem(shape, d)->valuedouble : n, 8);
		put_number(w, 0, 4); /* F32 */
		put_number(w, at, 8);
		at += (4 * n + GGUF_ALIGNED - 1) / GGUF_ALIGNED * GGUF_ALIGNED;
	}
}

/* Full blocks turn a quarter of a head's pairs. */
static void put_rope_factors(struct gguf_writer* w, int pairs) {
	for (int i = 0; i < pairs; i++) {
		const float factor = i < pairs / 4 ? 1.0f : 1e30f;
		fwrite(&factor, sizeof factor, 1, w->out);
	}
}

static void put_data(struct gguf_writer* w, const cJSON* text) {
	struct writer values = {.out = w->out};
	for (int i = 0; i < w->n; i++) {
		while (ftell(w->out) % GGUF_ALIGNED)
			fputc(0, w->out);
		if (w->tensor[i].entry)
			put_tensor(&values, w->tensor[i].from, w->tensor[i].entry);
		else
			put_rope_factors(w, pairs_of(text));
	}
}

static void write_gguf(const cJSON* one, const char* path) {
	static struct gguf_writer w;
	const cJSON *entry, *config = part(one, "config"), *text = part(config, "text_config");
	w = (struct gguf_writer){.out = fopen(path, "wb")};
	assert_non_null(w.out);
	cJSON_ArrayForEach (entry, part(one, "tensors"))
		add_names(&w, part(entry, "name")->valuestring, part(entry, "of")->child, entry);
	snprintf(w.tensor[w.n++].name, sizeof w.tensor->name, "rope_freqs.weight");
	fputs("GGUF", w.out);
	put_number(&w, 3, 4);
	put_number(&w, (uint64_t)w.n, 8);
	put_number(&w, GGUF_KEYS, 8);
	put_metadata(&w, config);
	put_infos(&w, text);
	put_data(&w, text);
	assert_int_equal(fclose(w.out), 0);
}
