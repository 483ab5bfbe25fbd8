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

static struct tokenizer* open_tekken(const char* folder, const char* config, struct error* error) {
	struct text text;
	if (!read_file(folder, "tekken.json", &text, error))
		return NULL;
	if (!text.data)
		return open_merges(folder, config, error);
	struct tokenizer* t = tokenizer_from_tekken(text.data, text.size, config, error);
	free(text.data);
	if (!t)
		name_folder(folder, error);
	return t;
}

static struct tokenizer* open_any(const char* folder, const char* config, struct error* error) {
	struct text file;
	struct tokenizer* t = NULL;
	if (!read_file(folder, "tokenizer.json", &file, error))
		return NULL;
	if (file.data) {
		t = tokenizer_from_json(file.data, file.size, config, error);
	} else {
		if (!read_file(folder, "tokenizer.model", &file, error))
			return NULL;
		if (!file.data)
			return open_tekken(folder, config, error);
		t = tokenizer_from_sentencepiece((const uint8_t*)file.data, file.size, config, error);
	}
	free(file.data);
	if (!t)
		name_folder(folder, error);
	return t;
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
