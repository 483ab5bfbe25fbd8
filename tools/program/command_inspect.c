/* swiftlet inspect: shows what a model consists of, and with --check whether its files are sound. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "core/methods/method.h"
#include "core/model/model.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"
#include "kernels/attention_cost.h"
#include "streams/mask_file.h"
#include "tools/program/command.h"
#include "tools/program/draw_mask.h"
#include "tools/program/options.h"
#include "tools/program/tables.h"

/* ---- what it is ----------------------------------------------------------------------------- */

static void add_number(cJSON* out, const char* name, double value) {
	cJSON_AddNumberToObject(out, name, value);
}

/* Adds a number that most models do not have. */
static void add_positive(cJSON* out, const char* name, double value) {
	if (value > 0)
		add_number(out, name, value);
}

static void describe_shape(const struct model* model, cJSON* out) {
	const struct model_shape* const s = &model->weights.shape;
	add_number(out, "blocks", s->n_blocks);
	add_number(out, "skippable_layers", s->n_blocks > 2 ? 2 * (s->n_blocks - 2) : 0);
	add_number(out, "width", s->dim);
	add_number(out, "feed_forward", s->ffn);
	add_number(out, "vocabulary", s->vocab);
	cJSON_AddBoolToObject(out, "tied_output_head",
	                      model->weights.output.data &&
	                          model->weights.output.data == model->weights.embedding.data);
	add_positive(out, "token_input", s->token_input);
	add_number(out, "context", s->context);
}

static void describe_attention(const struct model_shape* s, cJSON* out) {
	cJSON* const a = cJSON_AddObjectToObject(out, "attention");
	add_number(a, "blocks", attention_blocks(s));
	add_number(a, "query_heads", s->heads);
	add_number(a, "key_value_heads", s->kv_heads);
	add_number(a, "head_size", s->head_dim);
	add_positive(a, s->window_in_chunks ? "chunk" : "sliding_window", s->sliding_window);
	add_positive(a, "head_size_without_window", s->full_head_dim);
	add_positive(a, "key_value_heads_without_window", s->full_head_dim > 0 ? s->full_kv_heads : 0);
	add_positive(a, "blocks_that_share_earlier_keys",
	             s->sharing_from > 0 ? s->n_blocks - s->sharing_from : 0);
	if (s->attention_gated)
		cJSON_AddTrueToObject(a, "gated_heads");
	if (attention_beside(s))
		cJSON_AddTrueToObject(a, "beside_the_recurrence_of_the_block_before");
}

static void describe_experts(const struct model_shape* s, cJSON* out) {
	if (s->n_experts == 0)
		return;
	cJSON* const e = cJSON_AddObjectToObject(out, "experts");
	add_number(e, "experts", s->n_experts);
	add_number(e, "used_by_a_token", s->experts_used);
	add_number(e, "feed_forward", s->expert_ffn);
}

static void describe_recurrence(const struct model_shape* s, cJSON* out) {
	const struct recurrence* const r = &s->recurrence;
	if (attention_blocks(s) == s->n_blocks)
		return;
	cJSON* const to = cJSON_AddObjectToObject(out, "recurrent");
	add_number(to, "blocks", s->n_blocks - attention_blocks(s));
	cJSON_AddStringToObject(to, "kind",
	                        r->state_space    ? "state space (Mamba-2)"
	                        : r->key_dim == 0 ? "short convolution"
	                                          : "gated delta rule");
	add_number(to, "convolution_tokens", r->kernel);
	if (r->key_dim > 0) {
		add_number(to, "value_heads", r->value_heads);
		add_number(to, "value_size", r->value_dim);
		add_number(to, "key_heads", r->key_heads);
		add_number(to, "key_size", r->key_dim);
	}
	cJSON_AddStringToObject(
	    to, "limits",
	    "drafts roll back exactly; prefixes are reused from the places at which states are "
	    "kept; the search for masks is off");
	add_number(to, "state_bytes", (double)recurrent_bytes(s));
}

static void describe_rope(const struct rope* rope, cJSON* out) {
	static const char* const name[] = {"none", "linear", "dynamic NTK", "llama3", "yarn", "longrope"};
	cJSON* const r = cJSON_AddObjectToObject(out, "rope");
	add_number(r, "base", (double)rope->theta);
	cJSON_AddStringToObject(r, "scaling", name[rope->scaling]);
	if (rope->scaling != ROPE_NONE) {
		add_number(r, "factor", (double)rope->factor);
		add_number(r, "original_context", rope->original_context);
	}
}

static void describe_memory(const struct model* model, cJSON* out) {
	const struct model_shape* const s = &model->weights.shape;
	const enum dtype type = model->dtype == DTYPE_F32 ? DTYPE_F32 : DTYPE_F16;
	cJSON* const m = cJSON_AddObjectToObject(out, "memory");
	add_number(m, "parameters", model->parameters);
	cJSON_AddStringToObject(m, "most_weights", dtype_name(model->dtype));
	add_number(m, "weight_bytes", (double)model->weight_bytes);
	add_number(m, "cache_tokens", s->context);
	cJSON_AddStringToObject(m, "cache_type", dtype_name(type));
	add_number(m, "cache_bytes", cache_size(s, type, s->context));
}

static void describe_mtp(const struct model* model, cJSON* out) {
	const struct weight_table* w = &model->mtp;
	char text[200] = "";
	if (w->shape.n_blocks > 0)
		snprintf(text, sizeof text,
		         "predicts the token after the next one from the model's last state (%s, %d to %d); "
		         "it drafts on a CPU",
		         dtype_name(w->join.type), 2 * w->shape.dim, w->shape.dim);
	else if (model->mtp_note[0])
		snprintf(text, sizeof text, "does not run: %.180s", model->mtp_note);
	if (text[0])
		cJSON_AddStringToObject(out, "MTP_layer", text);
}

static void add_token(const struct tokenizer* tokenizer, cJSON* list, const char* use, int32_t id) {
	char piece[64];
	if (id < 0)
		return;
	const size_t size = tokenizer_piece(tokenizer, id, true, piece, sizeof piece - 1);
	piece[size < sizeof piece ? size : sizeof piece - 1] = 0;
	cJSON* const token = cJSON_CreateObject();
	cJSON_AddStringToObject(token, "use", use);
	add_number(token, "id", id);
	cJSON_AddStringToObject(token, "text", piece);
	cJSON_AddItemToArray(list, token);
}

static void describe_text(const struct model* model, cJSON* out) {
	const struct tokenizer* const t = model->tokenizer;
	struct error error = {{0}};
	const bool good = chat_template_check(model->chat_template, &error);
	cJSON_AddStringToObject(out, "chat_template", good ? "its own" : error.message);
	cJSON* const named = model->n_named_templates ? cJSON_AddArrayToObject(out, "named_templates") : NULL;
	for (int i = 0; i < model->n_named_templates; i++)
		cJSON_AddItemToArray(named, cJSON_CreateString(model->named_template[i].name));
	add_number(out, "tokens", tokenizer_size(t));
	cJSON* const list = cJSON_AddArrayToObject(out, "special_tokens");
	add_token(t, list, tokenizer_adds_bos(t) ? "begins every prompt" : "begins a text", tokenizer_bos(t));
	for (int i = 0; i < model->n_end_tokens; i++)
		add_token(t, list, "ends a text", model->end_token[i]);
}

/* The methods that the model can use, and what the others lack. */
static void describe_methods(struct model* model, cJSON* out) {
	const struct engine engine = {.model = model};
	struct error error;
	cJSON *const usable = cJSON_AddArrayToObject(out, "methods"), *const others = cJSON_CreateArray();
	for (int i = 0; i < SWIFTLET_METHODS; i++)
		if (method_has_auxiliary_weights(&methods[i], &engine, &error)) {
			cJSON_AddItemToArray(usable, cJSON_CreateString(method_name((enum swiftlet_method)i)));
		} else {
			cJSON* const one = cJSON_CreateObject();
			cJSON_AddStringToObject(one, "method", method_name((enum swiftlet_method)i));
			cJSON_AddStringToObject(one, "lacks", error.message);
			cJSON_AddItemToArray(others, one);
		}
	cJSON_AddItemToObject(out, "other_methods", others);
}

/* Layers of a synthetic model that were made nearly redundant. */
static void describe_planted(const struct model* model, cJSON* out) {
	cJSON* const list = model->n_planted ? cJSON_AddArrayToObject(out, "planted") : NULL;
	for (int i = 0; i < model->n_planted; i++) {
		cJSON* const mask = cJSON_CreateObject();
		for (int kind = 0; kind < 2; kind++) {
			int block[MAX_BLOCKS];
			const int n = mask_blocks(&model->planted[i], kind, block);
			cJSON_AddItemToObject(mask, kind ? "mlp" : "attention", cJSON_CreateIntArray(block, n));
		}
		cJSON_AddItemToArray(list, mask);
	}
}

static cJSON* describe_model(struct model* model) {
	cJSON* const out = cJSON_CreateObject();
	cJSON_AddStringToObject(out, "model", model->name);
	cJSON_AddStringToObject(out, "path", model->path);
	cJSON_AddStringToObject(out, "family", model->family ? model->family : "llama, made up");
	cJSON_AddStringToObject(out, "fingerprint", model->fingerprint);
	if (model->warning[0])
		cJSON_AddStringToObject(out, "warning", model->warning);
	describe_shape(model, out);
	describe_mtp(model, out);
	describe_text(model, out);
	describe_memory(model, out);
	describe_attention(&model->weights.shape, out);
	describe_experts(&model->weights.shape, out);
	describe_recurrence(&model->weights.shape, out);
	describe_rope(&model->weights.shape.rope, out);
	describe_methods(model, out);
	describe_planted(model, out);
	return out;
}

/* ---- whether it is sound -------------------------------------------------------------------- */

struct check {
	float* row; /* scratch */
	size_t capacity;
	struct error error;
};

/* Checks that every element is finite. block: -1 for tensors outside of blocks. */
static bool check_tensor(struct check* c, const struct tensor* t, const char* name, int block) {
	const size_t stride = dtype_row_bytes(t->type, t->cols);
	char of[40] = "";
	if (!t->data)
		return true;
	if (!grow_to(&c->row, &c->capacity, (size_t)t->cols, sizeof *c->row))
		return error_set(&c->error, "out of memory");
	if (block >= 0)
		snprintf(of, sizeof of, " of block %d", block);
	for (int64_t r = 0; r < t->rows; r++) {
		dtype_to_float(t->type, (const char*)t->data + (size_t)r * stride, c->row, t->cols);
		for (int64_t i = 0; i < t->cols; i++)
			if (!isfinite(c->row[i]))
				return error_set(&c->error, "%s%s: element (%lld, %lld) is not finite", name, of,
				                 (long long)r, (long long)i);
	}
	return true;
}

static bool check_block(struct check* c, const struct block_weights* b, int n_experts, int index) {
	for (int i = 0; i < BLOCK_PARTS; i++)
		if (!check_tensor(c, block_tensor(b, i), block_tensor_name(i), index))
			return false;
	for (int e = 0; tensor_present(&b->router) && e < n_experts; e++)
		if (!check_tensor(c, &b->expert[e].w_gate, "an expert's gate weights", index) ||
		    !check_tensor(c, &b->expert[e].w_up, "an expert's up weights", index) ||
		    !check_tensor(c, &b->expert[e].w_down, "an expert's down weights", index))
			return false;
	return true;
}

static bool check_weights(struct check* c, const struct weight_table* w) {
	bool good = check_tensor(c, &w->embedding, "embedding", -1) &&
	            check_tensor(c, &w->output_norm, "output norm", -1) &&
	            check_tensor(c, &w->output_norm_bias, "output norm bias", -1) &&
	            check_tensor(c, &w->output, "output head", -1) &&
	            check_tensor(c, &w->output_bias, "bias of the output head", -1) &&
	            check_tensor(c, &w->input_embedding, "embedding of the blocks' inputs", -1) &&
	            check_tensor(c, &w->input_projection, "projection of the blocks' inputs", -1) &&
	            check_tensor(c, &w->input_projection_norm, "norm of the blocks' inputs", -1);
	good = good && check_tensor(c, &w->join, "projection of the MTP layer", -1) &&
	       check_tensor(c, &w->join_token_norm, "token norm of the MTP layer", -1) &&
	       check_tensor(c, &w->join_state_norm, "state norm of the MTP layer", -1);
	for (int b = 0; b < w->shape.n_blocks && good; b++)
		good = check_block(c, &w->block[b], w->shape.n_experts, b);
	return good;
}

static int check_model(const struct model* model) {
	struct check c = {.row = NULL};
	const bool good = check_weights(&c, &model->weights) &&
	                  (model->mtp.shape.n_blocks == 0 || check_weights(&c, &model->mtp));
	free(c.row);
	if (!good)
		return complain(STATUS_FAILED, "%s: %s", model->path, c.error.message);
	for (int i = 0; i < model->n_end_tokens; i++)
		if (model->end_token[i] < 0 || model->end_token[i] >= model->weights.shape.vocab)
			return complain(STATUS_FAILED, "%s: end token %d lies beyond the vocabulary of %d", model->path,
			                model->end_token[i], model->weights.shape.vocab);
	return STATUS_DONE;
}

int command_inspect(int argc, char** argv) {
	const char* spec = NULL;
	bool checked = false, json = false;
	const struct command_option option[] = {
	    TEXT("model", 'm', "MODEL", "the model, if it is not the first word", &spec),
	    FLAG("check", "read every weight, too", &checked),
	    FLAG("json", "print one JSON object instead of tables", &json),
	};
	struct command_line line = {
	    .name = "inspect",
	    .usage = "MODEL [--check] [--json]",
	    .about = "Prints a model's shape, memory, tokenizer, chat template and fingerprint, and the methods "
	             "that it\n"
	             "can use. --check reads every weight and names the damaged tensor.",
	    .examples = "  swiftlet inspect model.gguf --check\n"
	                "  swiftlet inspect Qwen/Qwen2.5-1.5B-Instruct\n"
	                "  swiftlet inspect synth:tinyllama-1.1b,dtype=f16,plant=0.45",
	    OPTIONS(option),
	    .max_words = 1,
	};
	const int status = options_parse(&line, argc, argv);
	if (status != OPTIONS_GO_ON)
		return status;
	if (!spec && line.n_words == 0)
		return complain(STATUS_USAGE, "inspect: which MODEL? (swiftlet inspect --help)");
	spec = options_model(&line, spec);
	if (!spec)
		return STATUS_USAGE;
	struct error error = {{0}};
	struct model* const model = model_open(spec, NULL, &error);
	if (!model)
		return complain(STATUS_FAILED, "%s", error.message);
	int result = checked ? check_model(model) : STATUS_DONE;
	cJSON* const figures = describe_model(model);
	if (checked)
		cJSON_AddBoolToObject(figures, "sound", result == STATUS_DONE);
	const int printed = report_print(figures, json);
	result = result == STATUS_DONE ? printed : result;
	for (int i = 0; i < model->n_planted && !json; i++)
		draw_mask(stdout, &model->planted[i], model->weights.shape.n_blocks);
	model_close(model);
	return result == STATUS_DONE ? output_written(result) : result;
}
