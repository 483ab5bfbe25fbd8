/* The public interface: every function of swiftlet.h. */
#include <stdio.h>
#include <stdlib.h>

#include "core/grammar/grammar.h"
#include "core/methods/standalone.h"
#include "core/text/tokenizer.h"
#include "optimizer/optimizer.h"
#include "optimizer/random_mask.h"

/* Copies an error's sentence to the caller. Returns false. */
static bool give_message(char* message, size_t size, const struct error* error) {
	snprintf(message, size, "%s", error->message);
	return false;
}

/* ---- options -------------------------------------------------------------------------------- */

swiftlet_options* swiftlet_options_new(void) {
	swiftlet_options* const options = malloc(sizeof *options);
	if (options)
		options_default(options);
	return options;
}

void swiftlet_options_free(swiftlet_options* options) { free(options); }

int swiftlet_options_set(swiftlet_options* options, const char* name, const char* value, char* message,
                         size_t size) {
	struct error error = {""};
	const struct option* const option = option_named(name, 0);
	if (!option)
		return 0;
	if (option_set(options, option, value, &error))
		return 1;
	give_message(message, size, &error);
	return -1;
}

bool swiftlet_options_get(const swiftlet_options* options, const char* name, char* text, size_t size) {
	const struct option* const option = option_named(name, 0);
	return option && option_get(options, option, text, size);
}

void swiftlet_options_set_clock(swiftlet_options* options, double (*clock)(void* user), void* user) {
	options->clock = clock;
	options->clock_user = user;
}

void swiftlet_options_set_progress(swiftlet_options* options, void (*progress)(void* user, double share),
                                   void* user) {
	options->draft_weights.progress = progress;
	options->draft_weights.progress_user = user;
}

/* ---- models and engines --------------------------------------------------------------------- */

struct model* swiftlet_model_open(const char* spec, const struct swiftlet_options* options, char* message,
                                  size_t size) {
	struct error error = {""};
	struct model* model = engine_model_open(spec, options, &error);
	if (!model)
		give_message(message, size, &error);
	return model;
}

void swiftlet_model_close(struct model* model) {
	if (model)
		model_close(model);
}

const char* swiftlet_model_name(const struct model* model) { return model->name; }
int swiftlet_model_dim(const struct model* model) { return model->weights.shape.dim; }

int32_t* swiftlet_tokenize(const struct model* model, const char* text, size_t size, int* n) {
	struct token_list list = {0};
	if (!tokenizer_encode(model->tokenizer, text, size, TOKENIZE_ADD_SPECIAL, &list)) {
		token_list_free(&list);
		return NULL;
	}
	*n = list.n;
	return list.id ? list.id : malloc(sizeof *list.id);
}

struct engine* swiftlet_engine_open(struct model* model, const struct swiftlet_options* options,
                                    char* message, size_t size) {
	struct error error = {""};
	struct engine* engine = engine_open(model, options, &error);
	if (!engine)
		give_message(message, size, &error);
	return engine;
}

void swiftlet_engine_close(struct engine* engine) { engine_close(engine); }
const char* swiftlet_engine_name(const struct engine* engine) { return engine->backend->name; }
const char* swiftlet_engine_note(struct engine* engine) { return engine_note(engine); }

/* ---- grammars ------------------------------------------------------------------------------- */

static swiftlet_grammar* checked_grammar(swiftlet_grammar* grammar, char* message, size_t size,
                                         const struct error* error) {
	if (!grammar)
		give_message(message, size, error);
	return grammar;
}

swiftlet_grammar* swiftlet_grammar_json_schema(const char* schema, size_t schema_size, char* message,
                                               size_t size) {
	struct error error = {""};
	return checked_grammar(schema ? grammar_from_json_schema(schema, schema_size, false, &error)
	                              : grammar_from_json_object(&error),
	                       message, size, &error);
}

swiftlet_grammar* swiftlet_grammar_regex(const char* expression, size_t expression_size, char* message,
                                         size_t size) {
	struct error error = {""};
	return checked_grammar(grammar_from_regex(expression, expression_size, &error), message, size, &error);
}

swiftlet_grammar* swiftlet_grammar_gbnf(const char* rules, size_t rules_size, char* message, size_t size) {
	struct error error = {""};
	return checked_grammar(grammar_from_gbnf(rules, rules_size, &error), message, size, &error);
}

void swiftlet_grammar_free(swiftlet_grammar* grammar) { grammar_free(grammar); }

/* ---- sessions ------------------------------------------------------------------------------- */

/* --method random: the seed draws the mask once. */
static struct mask drawn_mask(int blocks, int size, uint64_t seed) {
	struct mask mask;
	random_mask(&(struct gp_random){seed}, 2 * (blocks - 2), size, &mask);
	return mask;
}

static bool open_rounds(struct session* s, const struct swiftlet_options* options, struct error* error) {
	const struct engine* engine = session_engine(s);
	if (!method_open(s, error))
		return false;
	if (method_of(options)->mask == MASK_RANDOM) {
		const struct mask mask = drawn_mask(engine->model->weights.shape.n_blocks,
		                                    method_mask_size(options, engine), options->sampling.seed);
		session_set_mask(s, &mask);
	}
	return !options_plan(options) || optimizer_open(s, error);
}

struct session* swiftlet_session_open(struct engine* engine, const struct swiftlet_options* options,
                                      char* message, size_t size) {
	struct error error = {""};
	struct session* s = session_open(engine, options, &error);
	if (s && !open_rounds(s, options, &error)) {
		session_close(s);
		s = NULL;
	}
	if (!s)
		give_message(message, size, &error);
	return s;
}

void swiftlet_session_close(struct session* s) { session_close(s); }

void swiftlet_request_default(struct swiftlet_request* request, const struct swiftlet_options* options) {
	*request = (struct swiftlet_request){.max_tokens = 128,
	                                     .temperature = options->sampling.temperature,
	                                     .top_p = options->sampling.top_p,
	                                     .min_p = options->sampling.min_p,
	                                     .top_k = options->sampling.top_k,
	                                     .seed = options->sampling.seed};
}

bool swiftlet_session_start(struct session* s, const struct swiftlet_request* request, char* message,
                            size_t size) {
	struct error error = {""};
	return session_start(s, request, &error) || give_message(message, size, &error);
}

bool swiftlet_session_step(struct session* s, struct swiftlet_step* step, char* message, size_t size) {
	struct error error = {""};
	return session_step(s, step, &error) || give_message(message, size, &error);
}

void swiftlet_session_cancel(struct session* s) { session_cancel(s); }
void swiftlet_session_figures(const struct session* s, struct swiftlet_figures* f) { session_figures(s, f); }

bool swiftlet_session_generate(struct session* s, const struct swiftlet_request* request,
                               bool (*on_step)(void* user, const struct swiftlet_step*), void* user,
                               struct swiftlet_figures* figures, char* message, size_t size) {
	struct swiftlet_step step;
	if (!swiftlet_session_start(s, request, message, size))
		return false;
	do {
		if (!swiftlet_session_step(s, &step, message, size))
			return false;
		if (on_step && !on_step(user, &step))
			swiftlet_session_cancel(s);
	} while (step.stop == SWIFTLET_RUNNING);
	if (figures)
		swiftlet_session_figures(s, figures);
	return true;
}

static bool add_blocks(int blocks, struct mask* mask, const int* block, int n, int kind,
                       struct error* error) {
	for (int i = 0; i < n; i++) {
		if (block[i] < 1 || block[i] > blocks - 2)
			return error_set(
			    error,
			    "the mask skips the %s of block %d: expected 1 to %d (the model has %d blocks; the "
			    "first and the last are never skipped)",
			    kind ? "MLP" : "attention", block[i], blocks - 2, blocks);
		mask_set(mask, 2 * block[i] + kind, true);
	}
	return true;
}

bool swiftlet_session_set_mask(struct session* s, const int* attention, int n_attention, const int* mlp,
                               int n_mlp, char* message, size_t size) {
	struct error error = {""};
	struct mask mask = {.word = {0}};
	const int blocks = session_engine(s)->model->weights.shape.n_blocks;
	if (!add_blocks(blocks, &mask, attention, n_attention, 0, &error) ||
	    !add_blocks(blocks, &mask, mlp, n_mlp, 1, &error))
		return give_message(message, size, &error);
	session_set_mask(s, &mask);
	return true;
}

const char* swiftlet_stop_name(enum swiftlet_stop stop) {
	static const char* const names[] = {"running", "eos", "length", "stop", "cancelled"};
	return names[stop];
}

const char* swiftlet_source_name(int source) {
	return source >= 0 && source < DRAFTER_COUNT ? drafter_name[source] : NULL;
}
