/* swiftlet inspect: shows what a model consists of, and with --check whether its files are sound. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "core/methods/method.h"
#include "core/model/model.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"
#include "tools/program/command.h"
#include "tools/program/draw_mask.h"
#include "tools/program/options.h"

/* ---- what it is ----------------------------------------------------------------------------- */

static const char* rope_name(enum rope_scaling scaling) {
	static const char* const name[] = {"none", "linear", "dynamic NTK", "llama3", "yarn", "longrope"};
	return name[scaling];
}

static void print_shape(const struct model* model) {
	const struct model_shape* const s = &model->weights.shape;
	printf("blocks       %d, which are %d layers of attention or MLP; drafts may skip %d of them\n",
	       s->n_blocks, 2 * s->n_blocks, s->n_blocks > 2 ? 2 * (s->n_blocks - 2) : 0);
	printf("width        %d, feed-forward %d, vocabulary %d%s\n", s->dim, s->ffn, s->vocab,
	       model->weights.output.data && model->weights.output.data == model->weights.embedding.data
	           ? ", output head tied to the embedding"
	           : "");
	if (s->n_experts > 0)
		printf("experts      %d of %d a token, feed-forward %d\n", s->experts_used, s->n_experts,
		       s->expert_ffn);
	printf("attention    %d query heads of %d over %d key/value heads", s->heads, s->head_dim, s->kv_heads);
	if (s->sliding_window > 0)
		printf(", sliding window %d", s->sliding_window);
	if (s->full_head_dim > 0)
		printf("; blocks that see everything have heads of %d over %d", s->full_head_dim, s->full_kv_heads);
	if (s->sharing_from > 0)
		printf("\n             the last %d blocks read the keys and values of earlier ones",
		       s->n_blocks - s->sharing_from);
	if (s->token_input > 0)
		printf("\n             each block takes %d elements of the token beside the stream", s->token_input);
	if (s->attention_gated)
		printf(", each head's output times the sigmoid of a gate");
	if (attention_blocks(s) < s->n_blocks) {
		const struct recurrence* r = &s->recurrence;
		printf(", in %d of the blocks", attention_blocks(s));
		if (r->key_dim == 0)
			printf("\nrecurrent    %d blocks (short convolution over %d tokens)",
			       s->n_blocks - attention_blocks(s), r->kernel);
		else
			printf(
			    "\nrecurrent    %d blocks (gated delta rule): %d value heads of %d over %d key heads of %d, "
			    "convolution over %d tokens",
			    s->n_blocks - attention_blocks(s), r->value_heads, r->value_dim, r->key_heads, r->key_dim,
			    r->kernel);
		printf("\n             drafts roll back exactly; prompts share no prefixes between sequences, "
		       "--prompt-cache and the search for masks are off");
	}
	printf("\ncontext      %d, RoPE base %g, scaling %s", s->context, (double)s->rope.theta,
	       rope_name(s->rope.scaling));
	if (s->rope.scaling != ROPE_NONE)
		printf(" by %g from %d", (double)s->rope.factor, s->rope.original_context);
	putchar('\n');
}

static void print_weights(const struct model* model) {
	const struct model_shape* const s = &model->weights.shape;
	const int context = s->context < 4096 ? s->context : 4096;
	const int bytes = model->dtype == DTYPE_F32 ? 4 : 2;
	double cache = (double)recurrent_bytes(s);
	for (int b = 0; b < s->n_blocks; b++)
		if (block_keys_of(s, b) == b && !block_set_has(&s->recurrent, b))
			cache += 2.0 * bytes * context * block_kv_heads(s, b) * block_head_dim(s, b);
	printf("weights      %.1f million, mostly %s, %.1f MiB\n", model->parameters / 1e6,
	       dtype_name(model->dtype), (double)model->weight_bytes / 1048576);
	printf("cache        %.1f MiB for %d tokens in %s (--context, --cache-type)\n", cache / 1048576, context,
	       bytes == 4 ? "f32" : "f16");
}

static void print_token(const struct tokenizer* tokenizer, const char* name, int32_t id) {
	char piece[64];
	if (id < 0) {
		printf(", no %s", name);
		return;
	}
	const size_t size = tokenizer_piece(tokenizer, id, true, piece, sizeof piece);
	printf(", %s %d \"%.*s\"", name, id, (int)(size < sizeof piece ? size : sizeof piece), piece);
}

static void print_text(const struct model* model) {
	struct error error = {{0}};
	printf("tokenizer    %d tokens", tokenizer_size(model->tokenizer));
	print_token(model->tokenizer, "BOS", tokenizer_bos(model->tokenizer));
	printf("%s", tokenizer_adds_bos(model->tokenizer) ? " (put before a prompt)" : "");
	for (int i = 0; i < model->n_end_tokens; i++)
		print_token(model->tokenizer, "end", model->end_token[i]);
	const bool good = chat_template_check(model->chat_template, &error);
	printf("\nchat         %s", good ? "its own template" : error.message);
	for (int i = 0; i < model->n_named_templates; i++)
		printf("%s%s", i ? ", " : "; also ", model->named_template[i].name);
	putchar('\n');
}

static void print_mtp(const struct model* model) {
	const struct weight_table* w = &model->mtp;
	if (w->shape.n_blocks > 0)
		printf("MTP layer    predicts the token after the next one from the model's last state (%s, %d to "
		       "%d); it "
		       "drafts on a CPU\n",
		       dtype_name(w->join.type), 2 * w->shape.dim, w->shape.dim);
	else if (model->mtp_note[0])
		printf("MTP layer    does not run: %s\n", model->mtp_note);
}

static void print_model(const struct model* model) {
	printf("model        %s\npath         %s\n", model->name, model->path);
	printf("family       %s\n", model->family ? model->family : "llama, made up");
	print_shape(model);
	print_weights(model);
	print_mtp(model);
	print_text(model);
	printf("fingerprint  %s\n", model->fingerprint);
	if (model->warning[0])
		printf("warning      %s\n", model->warning);
	for (int i = 0; i < model->n_planted; i++) {
		printf("planted%s    layers that were made nearly redundant\n", i == 0 ? "  " : " 2");
		draw_mask(stdout, &model->planted[i], model->weights.shape.n_blocks);
	}
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
	puts("check        every tensor is there, fits, and is finite");
	return STATUS_DONE;
}

/* ---- methods -------------------------------------------------------------------------------- */

/* Lists the methods that the model can use, and what the others lack. */
static void print_methods(struct model* model) {
	const struct engine engine = {.model = model};
	struct error error;
	fputs("methods     ", stdout);
	for (int i = 0, n = 0; i < SWIFTLET_METHODS; i++) {
		if (!method_has_auxiliary_weights(&methods[i], &engine, &error))
			continue;
		printf("%s %s",
		       n == 0       ? ""
		       : n % 8 == 0 ? ",\n            "
		                    : ",",
		       method_name((enum swiftlet_method)i));
		n++;
	}
	putchar('\n');
	for (int i = 0; i < SWIFTLET_METHODS; i++)
		if (!method_has_auxiliary_weights(&methods[i], &engine, &error))
			printf("             %s\n", error.message);
}

int command_inspect(int argc, char** argv) {
	const char* spec = NULL;
	bool checked = false;
	const struct command_option option[] = {
	    TEXT("model", 'm', "MODEL", "the model, if it is not the first word", &spec),
	    FLAG("check", "read every weight, too", &checked),
	};
	struct command_line line = {
	    .name = "inspect",
	    .usage = "MODEL [--check]",
	    .about = "Prints a model's shape, weights, tokenizer, chat template and fingerprint, and the methods "
	             "that\n"
	             "it has no parts for. --check reads every weight and names the part that is damaged.",
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
	print_model(model);
	print_methods(model);
	const int result = checked ? check_model(model) : STATUS_DONE;
	model_close(model);
	return output_written(result);
}
