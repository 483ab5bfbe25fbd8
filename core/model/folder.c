/* A Hugging Face folder: config.json says what the model is, the safetensors files hold its weights, and
 * the tokenizer's files lie beside them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/json.h"
#include "core/files/mapping.h"
#include "core/files/safetensors.h"
#include "core/model/bind.h"
#include "core/text/tokenizer.h"

enum { MAX_SHARDS = 1024 };

/* What the opener makes; model->owned. */
struct folder {
	struct config config;
	struct mapping* shard; /* (n_shards) tensors' file names point into it */
	int n_shards;
	struct tensor_table tensors;
	struct block_weights* blocks;
};

static const struct tensor_names names = {
    .embedding = "model.embed_tokens.weight",
    .output_norm = "model.norm.weight",
    .output = "lm_head.weight",
    .attention_norm = "model.layers.%d.input_layernorm.weight",
    .mlp_norm = "model.layers.%d.post_attention_layernorm.weight",
    .wq = "model.layers.%d.self_attn.q_proj.weight",
    .wk = "model.layers.%d.self_attn.k_proj.weight",
    .wv = "model.layers.%d.self_attn.v_proj.weight",
    .wo = "model.layers.%d.self_attn.o_proj.weight",
    .fused_qkv = "model.layers.%d.self_attn.qkv_proj.weight",
    .bq = "model.layers.%d.self_attn.q_proj.bias",
    .bk = "model.layers.%d.self_attn.k_proj.bias",
    .bv = "model.layers.%d.self_attn.v_proj.bias",
    .bo = "model.layers.%d.self_attn.o_proj.bias",
    .q_norm = "model.layers.%d.self_attn.q_norm.weight",
    .k_norm = "model.layers.%d.self_attn.k_norm.weight",
    .w_gate = "model.layers.%d.mlp.gate_proj.weight",
    .w_up = "model.layers.%d.mlp.up_proj.weight",
    .w_down = "model.layers.%d.mlp.down_proj.weight",
    .fused_gate_up = "model.layers.%d.mlp.gate_up_proj.weight",
    .b_gate = "model.layers.%d.mlp.gate_proj.bias",
    .b_up = "model.layers.%d.mlp.up_proj.bias",
    .b_down = "model.layers.%d.mlp.down_proj.bias",
};

/* Gemma 2 has four norms a block, and gives Llama's name of the second to another. */
static struct tensor_names names_of(enum family family) {
	struct tensor_names n = names;
	if (family == FAMILY_GEMMA2) {
		n.post_attention_norm = "model.layers.%d.post_attention_layernorm.weight";
		n.mlp_norm = "model.layers.%d.pre_feedforward_layernorm.weight";
		n.post_mlp_norm = "model.layers.%d.post_feedforward_layernorm.weight";
	}
	return n;
}

/* Buffers that old files carry and that are computed from the config. */
static bool is_buffer(const char* name) {
	static const char* const suffix[] = {".rotary_emb.inv_freq", ".self_attn.bias", ".self_attn.masked_bias"};
	for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++) {
		const size_t n = strlen(name), s = strlen(suffix[i]);
		if (n >= s && strcmp(name + n - s, suffix[i]) == 0)
			return true;
	}
	return false;
}

static bool join(char* out, size_t size, const char* folder, const char* file, struct error* error) {
	const int n = snprintf(out, size, "%s/%s", folder, file);
	return (n >= 0 && (size_t)n < size) || error_set(error, "%.200s…: the path is too long", folder);
}

/* ---- config ------------------------------------------------------------------------------- */

static bool read_text(const char* folder, const char* file,
                      bool (*parse)(struct config*, const char*, size_t, const char*, struct error*),
                      struct config* config, struct error* error) {
	char path[1024];
	struct mapping text;
	if (!join(path, sizeof path, folder, file, error) || !mapping_open(&text, path, error))
		return false;
	const bool good = parse(config, (const char*)text.data, text.size, path, error);
	mapping_close(&text);
	return good;
}

static bool read_config(struct config* config, const char* folder, struct error* error) {
	char path[1024];
	if (!join(path, sizeof path, folder, "config.json", error))
		return false;
	if (!file_exists(path))
		return error_set(
		    error,
		    "%s: neither config.json nor a GGUF file alone is in this folder; of several GGUF files, "
		    "give the one to run",
		    folder);
	if (!read_text(folder, "config.json", config_parse, config, error) ||
	    !join(path, sizeof path, folder, "generation_config.json", error))
		return false;
	return !file_exists(path) ||
	       read_text(folder, "generation_config.json", config_parse_generation, config, error);
}

/* ---- shards ------------------------------------------------------------------------------- */

static bool add_shard(struct folder* f, const char* folder, const char* file, struct error* error) {
	char path[1024];
	/* A name from the index stays within the folder. */
	if (strchr(file, '/') || file[0] == '\0')
		return error_set(error, "%s/model.safetensors.index.json: \"%.120s\" is not a file name", folder,
		                 file);
	if (f->n_shards == MAX_SHARDS)
		return error_set(error, "%s: more than %d weight files", folder, MAX_SHARDS);
	if (!join(path, sizeof path, folder, file, error))
		return false;
	struct mapping* shard = &f->shard[f->n_shards];
	if (!mapping_open(shard, path, error))
		return false;
	f->n_shards++;
	mapping_will_need(shard);
	return safetensors_read(&f->tensors, shard->data, shard->size, shard->path, error);
}

static bool has_shard(const struct folder* f, const char* file) {
	for (int i = 0; i < f->n_shards; i++)
		if (strcmp(strrchr(f->shard[i].path, '/') + 1, file) == 0)
			return true;
	return false;
}

/* Every name of the index is in the file it points to. */
static bool check_index(const struct folder* f, const cJSON* map, const char* index, struct error* error) {
	const cJSON* entry;
	cJSON_ArrayForEach (entry, map) {
		const struct named_tensor* t = tensor_table_find(&f->tensors, entry->string);
		if (!t || strcmp(strrchr(t->file, '/') + 1, entry->valuestring) != 0)
			return error_set(error, "%s: weight_map says that tensor %.120s is in %.120s, where it is not",
			                 index, entry->string, entry->valuestring);
	}
	return true;
}

static bool read_index(struct folder* f, const char* folder, const char* index, struct error* error) {
	cJSON* json = json_read(index, error);
	if (!json)
		return false;
	const cJSON* map = json_field(json, "weight_map");
	bool good = (cJSON_IsObject(map) && map->child) ||
	            error_set(error, "%s: weight_map is not a JSON object with entries", index);
	const cJSON* entry;
	if (good)
		cJSON_ArrayForEach (entry, map) {
			good = cJSON_IsString(entry)
			           ? has_shard(f, entry->valuestring) || add_shard(f, folder, entry->valuestring, error)
			           : error_set(error, "%s: weight_map.%.120s is not a string", index, entry->string);
			if (!good)
				break;
		}
	good = good && tensor_table_seal(&f->tensors, error) && check_index(f, map, index, error);
	cJSON_Delete(json);
	return good;
}

static bool no_weights(const char* folder, struct error* error) {
	static const char* const pickles[] = {"pytorch_model.bin", "pytorch_model.bin.index.json"};
	char path[1024];
	for (size_t i = 0; i < sizeof pickles / sizeof *pickles; i++)
		if (join(path, sizeof path, folder, pickles[i], error) && file_exists(path))
			return error_set(
			    error,
			    "%.120s holds its weights as %s, a Python pickle, which is not read; convert it once "
			    "with: python3 -c \"from transformers import AutoModelForCausalLM as M; "
			    "M.from_pretrained('%.120s').save_pretrained('%.120s')\"",
			    folder, pickles[i], folder, folder);
	return error_set(error, "%s: neither model.safetensors nor model.safetensors.index.json is there",
	                 folder);
}

static bool read_weights(struct folder* f, const char* folder, struct error* error) {
	char path[1024];
	f->shard = calloc(MAX_SHARDS, sizeof *f->shard);
	if (!f->shard)
		return error_set(error, "out of memory");
	if (!join(path, sizeof path, folder, "model.safetensors", error))
		return false;
	if (file_exists(path))
		return add_shard(f, folder, "model.safetensors", error) && tensor_table_seal(&f->tensors, error);
	if (!join(path, sizeof path, folder, "model.safetensors.index.json", error))
		return false;
	return file_exists(path) ? read_index(f, folder, path, error) : no_weights(folder, error);
}

/* ---- tokenizer ---------------------------------------------------------------------------- */

/* ---- the opener --------------------------------------------------------------------------- */

static bool fill(struct model* model, struct folder* f, const char* path, const struct model_options* options,
                 struct error* error) {
	if (!read_config(&f->config, path, error))
		return false;
	model->family = family_name(f->config.family);
	model->weights.shape = f->config.shape;
	if (!options->vocabulary_only) {
		const struct tensor_names own = names_of(f->config.family);
		if (!read_weights(f, path, error) ||
		    !bind_weights(&model->weights, &f->blocks, &f->config, &own, &f->tensors, error) ||
		    !tensor_table_all_used(&f->tensors, is_buffer, error))
			return false;
		model->dtype = bind_main_type(&f->tensors);
		model->parameters = bind_parameters(&f->tensors);
		for (int i = 0; i < f->n_shards; i++)
			model->weight_bytes += f->shard[i].size;
	}
	model->tokenizer = tokenizer_open_folder(path, f->config.shape.vocab, error);
	if (!model->tokenizer || !model_read_templates(model, path, error))
		return false;
	if (f->config.n_end_tokens == 0 && !config_add_end(&f->config, tokenizer_eos(model->tokenizer), path,
	                                                   "the tokenizer's end token", error))
		return false;
	memcpy(model->end_token, f->config.end_token, sizeof model->end_token);
	model->n_end_tokens = f->config.n_end_tokens;
	return true;
}

bool model_open_folder(struct model* model, const char* path, const struct model_options* options,
                       struct error* error) {
	struct folder* f = calloc(1, sizeof *f);
	if (!f)
		return error_set(error, "out of memory");
	model->owned = f;
	return fill(model, f, path, options, error);
}

void model_close_folder(struct model* model) {
	struct folder* f = model->owned;
	if (!f)
		return;
	tensor_table_free(&f->tensors);
	for (int i = 0; i < f->n_shards; i++)
		mapping_close(&f->shard[i]);
	free(f->shard);
	free(f->blocks);
	config_free(&f->config);
	free(f);
	model->owned = NULL;
}
