/* Finds the model that MODEL of the command line means: first by the content of files, then by name. */
#include "core/model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/model/bind.h"
#include "core/model/places.h"
#include "core/text/tokenizer.h"

/* ---- opening ------------------------------------------------------------------------------ */

static bool open_file(struct model* model, const struct model_options* options, struct error* error) {
	static const char pickle[] = "a PyTorch pickle, which is not supported; convert its model once with "
	                             "transformers' save_pretrained, which writes safetensors";
	static const struct {
		size_t at, n;
		const char *bytes, *what;
	} known[] = {{0, 1, "\x80", pickle},
	             {0, 4, "PK\3\4", pickle},
	             {6, 3, "\0\0{", "a safetensors file alone; give the folder that also holds its config.json"},
	             {0, 4, "FUGG", "a GGUF file with its bytes in big-endian order, which is not supported"}};
	struct mapping file;
	if (!mapping_open(&file, model->path, error))
		return false;
	const char* what = "not a model; expected a GGUF file, or the folder of a Hugging Face model";
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (file.size >= known[i].at + 4 && memcmp(file.data + known[i].at, known[i].bytes, known[i].n) == 0)
			what = known[i].what;
	const bool gguf = file.size >= 4 && memcmp(file.data, "GGUF", 4) == 0;
	mapping_close(&file);
	return gguf ? model_open_gguf(model, model->path, options, error)
	            : error_set(error, "%.200s: %s", model->path, what);
}

static bool set_path(struct model* model, const char* path, struct error* error) {
	const size_t n = strlen(path);
	if (n >= sizeof model->path)
		return error_set(error, "%.200s…: the path is too long", path);
	memcpy(model->path, path, n + 1);
	return true;
}

/* Fills name, path and the matching opener. */
static bool open_spec(struct model* model, const char* spec, const struct model_options* options,
                      struct error* error) {
	char* const path = model->path;
	snprintf(model->name, sizeof model->name, "%s", spec);
	if (!opened_new(model, error))
		return false;
	if (strncmp(spec, "synth:", 6) == 0)
		return set_path(model, spec, error) && model_open_synth(model, spec + 6, options, error);
	struct stat status;
	const bool here = stat(spec, &status) == 0;
	if (strcmp(spec, "builtin") == 0) {
		if (!find_builtin(path, error))
			return false;
	} else if (here) {
		if (!set_path(model, spec, error))
			return false;
		for (size_t end = strlen(path); end > 1 && path[end - 1] == '/';)
			path[--end] = '\0';
		const char* slash = strrchr(path, '/');
		snprintf(model->name, sizeof model->name, "%s", slash && slash[1] ? slash + 1 : path);
	} else if (!find_by_name(path, spec, error))
		return false;
	return is_folder(path) && !only_gguf(path) ? model_open_folder(model, path, options, error)
	                                           : open_file(model, options, error);
}

struct model* model_open(const char* spec, const struct model_options* options, struct error* error) {
	const struct model_options none = {0};
	struct model* model = calloc(1, sizeof *model);
	if (!model) {
		error_set(error, "out of memory");
		return NULL;
	}
	if (spec && *spec ? open_spec(model, spec, options ? options : &none, error)
	                  : error_set(error, "the model's name is empty")) {
		model_fingerprint(model);
		return model;
	}
	model_close(model);
	return NULL;
}

void model_close(struct model* model) {
	if (!model)
		return;
	model_free_owned(model);
	tokenizer_free(model->tokenizer);
	model_free_templates(model);
	free(model);
}

bool model_is_end(const struct model* model, int32_t token) {
	for (int i = 0; i < model->n_end_tokens; i++)
		if (model->end_token[i] == token)
			return true;
	return false;
}
