/* The tokenizer of a Hugging Face folder: which of its files to read. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/text/tokenizer.h"

enum { MAX_FILE = 256 << 20 }; /* the largest published tokenizer.json is some 40 MB */

struct text {
	char* data; /* NUL-terminated; NULL when the file is not there */
	size_t size;
};

static bool read_open(FILE* file, const char* path, struct text* out, struct error* error) {
	struct stat status;
	if (fstat(fileno(file), &status) != 0 || !S_ISREG(status.st_mode))
		return error_set(error, "%s: not a regular file", path);
	if (status.st_size > MAX_FILE)
		return error_set(error, "%s: %lld bytes, expected at most %d", path, (long long)status.st_size,
		                 MAX_FILE);
	size_t size = (size_t)status.st_size;
	out->data = malloc(size + 1);
	if (!out->data)
		return error_set(error, "%s: no memory to read it", path);
	out->size = fread(out->data, 1, size, file);
	out->data[out->size] = 0;
	return out->size == size ? true : error_set(error, "%s: cannot be read whole", path);
}

/* A file that is not there leaves data NULL and is no error. */
static bool read_file(const char* folder, const char* name, struct text* out, struct error* error) {
	char path[4096];
	*out = (struct text){0};
	if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path)
		return error_set(error, "%s: the path is too long", folder);
	FILE* file = fopen(path, "rb");
	if (!file)
		return errno == ENOENT ? true : error_set(error, "%s: %s", path, strerror(errno));
	bool good = read_open(file, path, out, error);
	fclose(file);
	if (!good) {
		free(out->data);
		*out = (struct text){0};
	}
	return good;
}

/* The error names the folder before the file's own sentence. */
static void name_folder(const char* folder, struct error* error) {
	if (!error)
		return;
	struct error inner = *error;
	error_set(error, "%s/%s", folder, inner.message);
}

static struct tokenizer* open_merges(const char* folder, const char* config, struct error* error) {
	struct text vocab, merges = {0};
	struct tokenizer* t = NULL;
	if (!read_file(folder, "vocab.json", &vocab, error))
		return NULL;
	if (!vocab.data)
		error_set(
		    error,
		    "%s: no tokenizer, expected tokenizer.json, tokenizer.model, tekken.json or vocab.json with "
		    "merges.txt",
		    folder);
	else if (read_file(folder, "merges.txt", &merges, error) && !merges.data)
		error_set(error, "%s: vocab.json without its merges.txt", folder);
	else if (merges.data &&
	         !(t = tokenizer_from_merges(vocab.data, vocab.size, merges.data, merges.size, config, error)))
		name_folder(folder, error);
	free(vocab.data);
	free(merges.data);
	return t;
}

static struct tokenizer* from_model(const char* data, size_t size, const char* config, struct error* error) {
	return tokenizer_from_sentencepiece((const uint8_t*)data, size, config, error);
}

static struct tokenizer* open_any(const char* folder, const char* config, struct error* error) {
	static const struct {
		const char* name;
		struct tokenizer* (*from)(const char* data, size_t size, const char* config, struct error*);
	} known[] = {{"tokenizer.json", tokenizer_from_json},
	             {"tokenizer.model", from_model},
	             {"tekken.json", tokenizer_from_tekken}};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		struct text file;
		if (!read_file(folder, known[i].name, &file, error))
			return NULL;
		if (!file.data)
			continue;
		struct tokenizer* t = known[i].from(file.data, file.size, config, error);
		free(file.data);
		if (!t)
			name_folder(folder, error);
		return t;
	}
	return open_merges(folder, config, error);
}

struct tokenizer* tokenizer_open_folder(const char* folder, int vocab, struct error* error) {
	struct text config;
	if (!read_file(folder, "tokenizer_config.json", &config, error))
		return NULL;
	struct tokenizer* t = open_any(folder, config.data, error);
	free(config.data);
	if (t && vocab > 0 && tokenizer_size(t) > vocab) {
		error_set(error, "%s: the tokenizer has ids up to %d, but the model's vocabulary ends at %d", folder,
		          tokenizer_size(t) - 1, vocab - 1);
		tokenizer_free(t);
		return NULL;
	}
	return t;
}
