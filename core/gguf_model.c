/* A GGUF file as a model. */
#include "core/model.h"

bool model_open_gguf(struct model* model, const char* path, const struct model_options* options,
                     struct error* error) {
	(void)model;
	(void)options;
	return error_set(error, "%s: GGUF files are not read by this version", path);
}

void model_close_gguf(struct model* model) { (void)model; }
