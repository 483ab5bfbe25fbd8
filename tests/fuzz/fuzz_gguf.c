/* Any bytes as a GGUF file: the reader alone, on memory whose ends are guarded, then as a model. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/files/gguf.h"
#include "core/model/model.h"
#include "tests/fuzz/mutate_gguf.h"

static volatile unsigned sum;

static void look_up(const struct gguf* g) {
	struct error error;
	for (size_t i = 0; i < g->n; i++) {
		char key[64];
		int64_t whole = 0;
		float real;
		bool flag;
		const char* text = NULL;
		const char** pieces;
		size_t size = 0, *sizes;
		float* reals;
		int32_t* wholes;
		int n;
		if (g->value[i].key_size >= sizeof key)
			continue;
		snprintf(key, sizeof key, "%.*s", (int)g->value[i].key_size, g->value[i].key);
		gguf_int(g, key, INT64_MIN, INT64_MAX, &whole, &error);
		gguf_float(g, key, -1e30, 1e30, &real, &error);
		gguf_bool(g, key, &flag, &error);
		if (gguf_string(g, key, &text, &size, &error))
			for (size_t b = 0; text && b < size; b++)
				sum += (unsigned char)text[b];
		if (gguf_strings(g, key, &pieces, &sizes, &n, &error))
			for (int k = 0; k < n; k++)
				sum += sizes[k] ? (unsigned char)pieces[k][sizes[k] - 1] : 0u;
		free(pieces);
		free(sizes);
		gguf_floats(g, key, &reals, &n, &error);
		free(reals);
		gguf_ints(g, key, &wholes, &n, &error);
		free(wholes);
	}
}

static bool read_alone(const uint8_t* data, size_t size) {
	struct error error = {""};
	struct gguf g;
	struct tensor_table table = {0};
	const bool good = gguf_read(&g, &table, data, size, "fuzz", &error) && tensor_table_seal(&table, &error);
	if (good) {
		look_up(&g);
		for (size_t i = 0; i < table.n; i++)
			for (size_t b = 0; b < table.item[i].bytes; b++)
				sum += table.item[i].data[b];
	} else if (!error.message[0])
		abort();
	gguf_free(&g);
	tensor_table_free(&table);
	return good;
}

static void open_model(const uint8_t* data, size_t size, bool vocabulary_only) {
	const int file = memfd_create("fuzz", MFD_CLOEXEC);
	char path[64];
	if (file < 0 || write(file, data, size) != (ssize_t)size) {
		if (file >= 0)
			close(file);
		return;
	}
	struct error error = {""};
	const struct model_options options = {.vocabulary_only = vocabulary_only};
	snprintf(path, sizeof path, "/proc/self/fd/%d", file);
	struct model* model = model_open(path, &options, &error);
	if (!model && !error.message[0])
		abort();
	model_close(model);
	close(file);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	/* A file that the reader refuses is refused as a model too, so no file needs to be written for it. */
	if (read_alone(data, size)) {
		open_model(data, size, true);
		open_model(data, size, false);
	}
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
	return mutate_gguf(data, size, most, seed);
}
