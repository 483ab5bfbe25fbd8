/* Opening models and engines for the public interface. */
#include "optimizer/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/text/tokenizer.h"

double options_clock(const struct swiftlet_options* options) {
	if (options->clock)
		return options->clock(options->clock_user);
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int options_context(const struct swiftlet_options* options, const struct model* model) {
	enum { DEFAULT_CONTEXT = 4096 };
	if (options->context > 0)
		return options->context;
	const int context = model->weights.shape.context;
	return context > 0 && context < DEFAULT_CONTEXT ? context : DEFAULT_CONTEXT;
}

bool give_message(char* message, size_t size, const struct error* error) {
	if (message && size > 0)
		snprintf(message, size, "%s", error->message);
	return false;
}

/* The GPU when it was asked for, or when nothing was and there is one. */
static bool wants_cuda(const struct swiftlet_options* options) {
	struct error ignored;
	if (!options || strcmp(options->backend, "cpu") == 0)
		return false;
	return strcmp(options->backend, "cuda") == 0 || cuda_available(&ignored);
}

struct model* swiftlet_model_open(const char* spec, const struct swiftlet_options* options, char* message,
                                  size_t size) {
	struct error error = {""};
	/* said before minutes of loading */
	if (options && strcmp(options->backend, "cuda") == 0 && !cuda_available(&error)) {
		give_message(message, size, &error);
		return NULL;
	}
	const struct model_options how = {.synth_on_device = wants_cuda(options)};
	struct model* model = model_open(spec, &how, &error);
	if (!model)
		give_message(message, size, &error);
	return model;
}

void swiftlet_model_close(struct model* model) {
	if (model)
		model_close(model);
}

const char* swiftlet_model_name(const struct model* model) { return model->name; }

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
	struct engine* engine = calloc(1, sizeof *engine);
	if (!engine) {
		error_set(&error, "out of memory for an engine");
		give_message(message, size, &error);
		return NULL;
	}
	const struct backend_options how = {
	    .threads = options->threads, .isa = options->isa, .context = options_context(options, model)};
	engine->model = model;
	if (wants_cuda(options))
		engine->backend = cuda_open(&model->weights, &how, &error);
	else
		engine->backend = cpu_open(&model->weights, &how, &error);
	if (!engine->backend) {
		give_message(message, size, &error);
		free(engine);
		return NULL;
	}
	cost_open(&engine->cost, &model->weights);
	return engine;
}

void swiftlet_engine_close(struct engine* engine) {
	if (engine) {
		engine->backend->close(engine->backend);
		free(engine);
	}
}

const char* swiftlet_engine_name(const struct engine* engine) { return engine->backend->name; }
