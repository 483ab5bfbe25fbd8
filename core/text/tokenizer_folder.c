/* Chooses which of a Hugging Face folder's files describes the tokenizer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/files/mapping.h"
#include "core/text/tokenizer_parts.h"

enum { MAX_FILE = 256 << 20 }; /* the largest published tokenizer.json has about 40 MB */

/* A missing file leaves data NULL and is no error. */
static bool read_file(const char* folder, const char* name, struct mapping* out, struct error* error) {
	char path[4096];
	*out = (struct mapping){0};
	if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path)
		return error_set(error, "%s: the path is too long", folder);
	if (access(path, F_OK) != 0 && errno == ENOENT)
		return true;
	if (!mapping_open(out, path, error))
		return false;
	if (out->size <= MAX_FILE)
		return true;
	error_set(error, "%s: %zu bytes, expected at most %d", path, out->size, MAX_FILE);
	mapping_close(out);
	return false;
}

static struct tokenizer* open_any(const char* folder, const char* config, struct error* error) {
	static const struct {
		const char* name;
		tokenizer_from* from;
	} known[] = {{"tokenizer.json", tokenizer_from_json},
	             {"tokenizer.model", tokenizer_from_sentencepiece},
	             {"tekken.json", tokenizer_from_tekken}};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		struct mapping file;
		if (!read_file(folder, known[i].name, &file, error))
			return NULL;
		if (!file.data)
			continue;
		struct tokenizer* t = known[i].from(file.data, file.size, config, error);
		mapping_close(&file);
		if (!t)
			tokenizer_fail_in(folder, error);
		return t;
	}
	error_set(error, "%s: no tokenizer, expected tokenizer.json, tokenizer.model or tekken.json", folder);
	return NULL;
}

struct tokenizer* tokenizer_open_folder(const char* folder, int vocab, struct error* error) {
	struct mapping config;
	if (!read_file(folder, "tokenizer_config.json", &config, error))
		return NULL;
	char* const text = config.data ? strndup((const char*)config.data, config.size) : NULL;
	struct tokenizer* t = NULL;
	if (config.data && !text)
		error_set(error, "%s: out of memory to read tokenizer_config.json", folder);
	else
		t = open_any(folder, text, error);
	mapping_close(&config);
	free(text);
	if (t && vocab > 0 && tokenizer_size(t) > vocab) {
		error_set(error, "%s: the tokenizer has ids up to %d, but the model's vocabulary ends at %d", folder,
		          tokenizer_size(t) - 1, vocab - 1);
		tokenizer_free(t);
		return NULL;
	}
	return t;
}
