/* Opens a Hugging Face folder: config.json describes the model, the safetensors files hold its weights, and
 * the tokenizer's files lie beside them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/json.h"
#include "core/files/safetensors.h"
#include "core/model/bind.h"
#include "core/text/tokenizer.h"

/* Finds the text model's tensors. A model of images and text has other tensors beside them; a checkpoint of
 * the inner model alone lacks the prefix "model.". */
static const struct data_folder {
	const char *embedding, *output_norm, *output, *block;
	const char *input_embedding, *input_projection, *input_projection_norm;
	const char *altup_in, *altup_out;
	const char* within;
} places[] = {
#define PLACE(prefix, head, within)                                                                          \
	{                                                                                                        \
		prefix "embed_tokens.weight", prefix "norm", head "lm_head.weight", prefix "layers.%d.",             \
		    prefix "embed_tokens_per_layer.weight", prefix "per_layer_model_projection.weight",              \
		    prefix "per_layer_projection_norm", prefix "altup_projections.%d.weight",                        \
		    prefix "altup_unembed_projections.%d.weight", within                                             \
	}
    PLACE("model.", "", NULL),
    PLACE("", "", NULL),
    PLACE("language_model.model.", "language_model.", "language_model."),
    PLACE("model.language_model.", "", "model.language_model."),
    PLACE("model.text_model.", "", "model.text_model."),
#undef PLACE
#define STATE_PLACE(prefix)                                                                                  \
	prefix "embeddings.weight", prefix "norm", "lm_head.weight", prefix "layers.%d.", NULL, NULL, NULL,      \
	    NULL, NULL, NULL
    {STATE_PLACE("backbone.")},
    {STATE_PLACE("model.")},
#undef STATE_PLACE
};

enum { NORM_NAME = 64 };

/* The last norm, which has a name of its own in some families. */
static const char* output_norm_of(const struct family* f, const struct data_folder* at, char out[NORM_NAME]) {
	if (!f->output_norm)
		return at->output_norm;
	snprintf(out, NORM_NAME, "%.*s%s", (int)(strlen(at->output_norm) - strlen("norm")), at->output_norm,
	         f->output_norm);
	return out;
}

/* Names of a recurrent block's tensors, after "layers.%d."; the map's of the first as repack_heads makes
 * them. */
static const struct recurrent_names {
	const char *part, *in, *out, *convolution, *norm, *bias, *rate, *skip;
} recurrent_names[] = {
    {"linear_attn", "linear_attn.in_proj_qkv", "linear_attn.out_proj", "linear_attn.conv1d",
     "linear_attn.norm", "linear_attn.dt_bias", "linear_attn.A_log", NULL},
#define STATE_SPACE(part)                                                                                    \
	{                                                                                                        \
		part, part ".in_proj", part ".out_proj", part ".conv1d", part ".norm", part ".dt_bias",              \
		    part ".A_log", part ".D"                                                                         \
	}
    STATE_SPACE("mamba"),
    STATE_SPACE("mixer"),
#undef STATE_SPACE
};

/* other: memory for a name that lives as long as the names do */
static struct tensor_names names_of(const struct family* f, const struct tensor_table* table,
                                    char other[NORM_NAME]) {
	const bool is_short = f->short_convolution;
	const struct recurrent_names* recurrent = &recurrent_names[0];
	for (size_t i = 0; f->state_space && i < sizeof recurrent_names / sizeof *recurrent_names; i++)
		if (strcmp(recurrent_names[i].part, f->state_space) == 0)
			recurrent = &recurrent_names[i];
	const struct data_folder* at = &places[0];
	for (size_t i = sizeof places / sizeof *places; i-- > 0;)
		if (tensor_table_find(table, places[i].embedding))
			at = &places[i];
	return (struct tensor_names){
	    .embedding = at->embedding,
	    .output_norm = output_norm_of(f, at, other),
	    .output = at->output,
	    .output_bias = "lm_head.bias",
	    .block = at->block,
	    .within = at->within,
	    .attention_norm = f->attention_norm,
	    .mlp_norm = f->mlp_norm,
	    .post_attention_norm = f->post_attention_norm,
	    .post_mlp_norm = f->post_mlp_norm,
	    .wq = f->single_mixers ? "mixer.q_proj" : "self_attn.q_proj",
	    .wk = f->single_mixers ? "mixer.k_proj" : "self_attn.k_proj",
	    .wv = f->single_mixers ? "mixer.v_proj" : "self_attn.v_proj",
	    .wo = f->wo ? f->wo : "self_attn.o_proj",
	    .fused_qkv = "self_attn.qkv_proj",
	    .q_norm = f->q_norm ? f->q_norm : "self_attn.q_norm",
	    .k_norm = f->k_norm ? f->k_norm : "self_attn.k_norm",
	    .attention_gate = f->attention_gate,
	    .recurrent_in = is_short ? "conv.in_proj" : recurrent->in,
	    .recurrent_gate = "linear_attn.in_proj_z",
	    .recurrent_beta = "linear_attn.in_proj_b",
	    .recurrent_decay = "linear_attn.in_proj_a",
	    .recurrent_out = is_short ? "conv.out_proj" : recurrent->out,
	    .convolution = is_short ? "conv.conv" : recurrent->convolution,
	    .state_norm = recurrent->norm,
	    .decay_bias = recurrent->bias,
	    .decay_rate = recurrent->rate,
	    .state_skip = recurrent->skip,
	    .w_gate = f->w_gate ? f->w_gate : "mlp.gate_proj",
	    .w_up = f->w_up ? f->w_up : "mlp.up_proj",
	    .w_down = f->down ? f->down : "mlp.down_proj",
	    .fused_gate_up = f->gate_up ? f->gate_up : "mlp.gate_up_proj",
	    .router = f->router,
	    .expert_gate = f->expert_gate,
	    .expert_up = f->expert_up,
	    .expert_down = f->expert_down,
	    /* as repack_tensors names them */
	    .stacked_gate =
	        f->special == SPECIAL_LLAMA4 ? "feed_forward.experts.gate_proj" : "mlp.experts.gate_proj",
	    .stacked_up = f->special == SPECIAL_LLAMA4 ? "feed_forward.experts.up_proj" : "mlp.experts.up_proj",
	    .stacked_down =
	        f->special == SPECIAL_LLAMA4 ? "feed_forward.experts.down_proj" : "mlp.experts.down_proj",
	    .sinks = "self_attn.sinks",
	    .router_bias = "mlp.router.bias",
	    .choice_bias = f->choice_bias,
	    .shared_gate_proj = f->shared_gate_proj,
	    .shared_up = f->shared_up,
	    .shared_down = f->shared_down,
	    .shared_gate = f->shared_gate,
	    .stacked_gate_up = f->stacked_gate_up ? f->stacked_gate_up : "mlp.experts.gate_up_proj",
	    .stacked_down_beside = f->stacked_down ? f->stacked_down : "mlp.experts.down_proj",
	    .router_norm = "router.scale",
	    .expert_scale = "router.per_expert_scale",
	    .expert_norm = "pre_feedforward_layernorm_2",
	    .post_dense_norm = "post_feedforward_layernorm_1",
	    .post_expert_norm = "post_feedforward_layernorm_2",
	    .input_embedding = at->input_embedding,
	    .input_projection = at->input_projection,
	    .input_projection_norm = at->input_projection_norm,
	    .input_gate = "per_layer_input_gate",
	    .input_out = "per_layer_projection",
	    .input_norm = "post_per_layer_input_norm",
	    .stream_scale = "layer_scalar",
	    .altup_in = at->altup_in,
	    .altup_out = at->altup_out,
	    .altup_router = "altup.modality_router.weight",
	    .altup_router_norm = "altup.router_norm",
	    .altup_predict = "altup.prediction_coefs.weight",
	    .altup_correct = "altup.correction_coefs.weight",
	    .altup_scale = "altup.correct_output_scale",
	    .laurel_down = "laurel.linear_left",
	    .laurel_up = "laurel.linear_right",
	    .laurel_norm = "laurel.post_laurel_norm",
	    .query_down = "self_attn.q_a_proj",
	    .query_up = "self_attn.q_b_proj",
	    .query_down_norm = "self_attn.q_a_layernorm",
	    .kv_down = "self_attn.kv_a_proj_with_mqa",
	    .kv_down_norm = "self_attn.kv_a_layernorm",
	    .kv_up = "self_attn.kv_b_proj",
	    .mtp = f->mtp == MTP_APART   ? "mtp."
	           : f->mtp == MTP_BLOCK ? at->block
	                                 : NULL,
	    .mtp_block = f->mtp == MTP_APART ? "mtp.layers.0." : at->block,
	    .mtp_join = f->mtp == MTP_APART ? "fc" : "eh_proj",
	    .mtp_token_norm = f->mtp == MTP_APART ? "pre_fc_norm_embedding" : "enorm",
	    .mtp_state_norm = f->mtp == MTP_APART ? "pre_fc_norm_hidden" : "hnorm",
	    .mtp_norm = f->mtp == MTP_APART ? "norm" : "shared_head.norm",
	    .mtp_embedding = f->mtp == MTP_APART ? "mtp.embed_tokens.weight" : NULL,
	    .outside_join = "pre_projection",
	    .outside_leave = "post_projection",
	    .centroids = "masked_embedding.centroids",
	    .token_order = "masked_embedding.token_ordering",
	    .xielu_positive = "mlp.act_fn.alpha_p",
	    .xielu_negative = "mlp.act_fn.alpha_n",
	    .xielu_beta = "mlp.act_fn.beta",
	    .xielu_epsilon = "mlp.act_fn.eps",
	};
}

/* Tensors to ignore: buffers of old files that are computed from the config, scales of activations, keys and
 * values, which are not quantized by them here, the vision and sound parts, and what is left of layers that
 * predict later tokens. */
static bool is_idle(const char* name) {
	static const char* const prefix[] = {"vision_tower.", "multi_modal_projector.",
	                                     "visual.",       "vision_model.",
	                                     "connector.",    "image_newline",
	                                     "mtp.",          "audio_tower.",
	                                     "embed_vision.", "embed_audio."};
	const char* inner = strncmp(name, "model.", 6) == 0 ? name + 6 : name;
	for (size_t i = 0; i < sizeof prefix / sizeof *prefix; i++)
		if (strncmp(inner, prefix[i], strlen(prefix[i])) == 0)
			return true;
	static const char* const suffix[] = {".rotary_emb.inv_freq",
	                                     ".self_attn.bias",
	                                     ".self_attn.masked_bias",
	                                     ".input_scale",
	                                     ".input_global_scale",
	                                     ".activation_scale",
	                                     ".k_scale",
	                                     ".v_scale"};
	for (size_t i = 0; i < sizeof suffix / sizeof *suffix; i++)
		if (repack_ends(name, suffix[i]))
			return true;
	return false;
}

static bool join_path(char* out, size_t size, const char* folder, const char* file, struct error* error) {
	const int n = snprintf(out, size, "%s/%s", folder, file);
	return (n >= 0 && (size_t)n < size) || error_set(error, "%.200s…: the path is too long", folder);
}

/* ---- config ------------------------------------------------------------------------------- */

static bool read_text(const char* folder, const char* file,
                      bool (*parse)(struct config*, const char*, size_t, const char*, struct error*),
                      struct config* config, struct error* error) {
	char path[1024];
	struct mapping text;
	if (!join_path(path, sizeof path, folder, file, error) || !mapping_open(&text, path, error))
		return false;
	const bool good = parse(config, (const char*)text.data, text.size, path, error);
	mapping_close(&text);
	return good;
}

static bool read_config(struct config* config, const char* folder, struct error* error) {
	char path[1024];
	if (!join_path(path, sizeof path, folder, "config.json", error))
		return false;
	if (!file_exists(path))
		return error_set(error,
		                 "%s: this folder holds neither config.json nor exactly one GGUF file; give the path "
		                 "of the GGUF file to run",
		                 folder);
	if (!read_text(folder, "config.json", config_parse, config, error) ||
	    !join_path(path, sizeof path, folder, "generation_config.json", error))
		return false;
	return !file_exists(path) ||
	       read_text(folder, "generation_config.json", config_parse_generation, config, error);
}

/* ---- shards ------------------------------------------------------------------------------- */

static bool add_shard(struct opened* f, const char* folder, const char* file, struct error* error) {
	char path[1024];
	/* A name from the index must stay within the folder. */
	if (strchr(file, '/') || file[0] == '\0')
		return error_set(error, "%s/model.safetensors.index.json: \"%.120s\" is not a file name", folder,
		                 file);
	if (f->n_files == MOST_FILES)
		return error_set(error, "%s: more than %d weight files", folder, MOST_FILES);
	if (!join_path(path, sizeof path, folder, file, error))
		return false;
	struct mapping* shard = &f->file[f->n_files];
	if (!mapping_open(shard, path, error))
		return false;
	f->n_files++;
	mapping_will_need(shard);
	return safetensors_read(&f->tensors, shard->data, shard->size, shard->path, error);
}

static bool has_shard(const struct opened* f, const char* file) {
	for (int i = 0; i < f->n_files; i++)
		if (strcmp(strrchr(f->file[i].path, '/') + 1, file) == 0)
			return true;
	return false;
}

/* Checks that each name of the index is in the file that the index gives. */
static bool check_index(const struct opened* f, const cJSON* map, const char* index, struct error* error) {
	const cJSON* entry;
	cJSON_ArrayForEach (entry, map) {
		const struct named_tensor* t = tensor_table_find(&f->tensors, entry->string);
		if (!t || strcmp(strrchr(t->file, '/') + 1, entry->valuestring) != 0)
			return error_set(error,
			                 "%s: weight_map places tensor %.120s in %.120s, but that file does not hold it",
			                 index, entry->string, entry->valuestring);
	}
	return true;
}

static bool read_index(struct opened* f, const char* folder, const char* index, struct error* error) {
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
		if (join_path(path, sizeof path, folder, pickles[i], error) && file_exists(path))
			return error_set(
			    error,
			    "%.120s holds its weights as %s, a Python pickle, which is not supported; convert it once "
			    "with: python3 -c \"from transformers import AutoModelForCausalLM as M; "
			    "M.from_pretrained('%.120s').save_pretrained('%.120s')\"",
			    folder, pickles[i], folder, folder);
	return error_set(error, "%s: found neither model.safetensors nor model.safetensors.index.json", folder);
}

static bool read_weights(struct opened* f, const char* folder, struct error* error) {
	char path[1024];
	if (!join_path(path, sizeof path, folder, "model.safetensors", error))
		return false;
	if (file_exists(path))
		return add_shard(f, folder, "model.safetensors", error) && tensor_table_seal(&f->tensors, error);
	if (!join_path(path, sizeof path, folder, "model.safetensors.index.json", error))
		return false;
	return file_exists(path) ? read_index(f, folder, path, error) : no_weights(folder, error);
}

/* ---- the opener --------------------------------------------------------------------------- */

static void take_generation(struct model* model, const struct config* c) {
	model->repetition_penalty = c->repetition_penalty;
	model->suppressed = c->suppressed;
	model->n_suppressed = c->n_suppressed;
	model->no_repeat = c->no_repeat_ngram;
}

bool model_open_folder(struct model* model, const char* path, const struct model_options* options,
                       struct error* error) {
	struct opened* const f = model->owned;
	if (!read_config(&f->config, path, error))
		return false;
	model->family = f->config.family->name;
	model->weights.shape = f->config.shape;
	if (f->config.shape.keys_outside && !assistant_check(model, options->target, error))
		return false;
	if (!options->vocabulary_only) {
		if (!read_weights(f, path, error) ||
		    !repack_tensors(&f->tensors, &f->config.packing, &f->kept, error) ||
		    !repack_heads(&f->tensors, &f->config.shape.recurrence, &f->kept, error))
			return false;
		char norm[NORM_NAME];
		const struct tensor_names names = names_of(f->config.family, &f->tensors, norm);
		if (!bind_weights(model, &names, is_idle, error))
			return false;
	}
	take_generation(model, &f->config);
	if (model->weights.shape.keys_outside) { /* which needs no tokenizer */
		assistant_join(model, options->target);
		return true;
	}
	model->tokenizer = tokenizer_open_folder(path, f->config.shape.vocab, error);
	return model->tokenizer && model_read_templates(model, path, error) && opened_ends(model, path, error);
}
