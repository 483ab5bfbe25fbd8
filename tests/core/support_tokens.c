#include "support_tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/gguf.h"

static struct file_bytes read_under(const char* variable, const char* path) {
	struct file_bytes out = {0};
	char whole[4096];
	const char* root = getenv(variable);
	if (!root || (size_t)snprintf(whole, sizeof whole, "%s/%s", root, path) >= sizeof whole)
		return out;
	FILE* file = fopen(whole, "rb");
	if (!file)
		return out;
	size_t capacity = 0;
	for (size_t n = 1; n > 0;) {
		if (out.size + 65536 > capacity) {
			capacity = capacity * 2 + (1 << 17);
			out.data = realloc(out.data, capacity + 1);
		}
		n = fread(out.data + out.size, 1, 65536, file);
		out.size += n;
	}
	fclose(file);
	out.data[out.size] = 0;
	return out;
}

struct file_bytes read_source(const char* path) {
	return read_under("SWIFTLET_SOURCE", path);
}
struct file_bytes read_shared(const char* path) {
	return read_under("SWIFTLET_SHARED", path);
}

static uint64_t read_u64(const uint8_t* at) {
	uint64_t value;
	memcpy(&value, at, sizeof value);
	return value;
}

/* The strings of an array value. */
static int read_strings(const struct gguf* g, const char* key, const char*** text, size_t** size) {
	const struct gguf_value* value = gguf_find(g, key);
	if (!value)
		return 0;
	*text = malloc(value->n * sizeof **text);
	*size = malloc(value->n * sizeof **size);
	const uint8_t* at = value->data;
	for (uint64_t i = 0; i < value->n; i++) {
		(*size)[i] = (size_t)read_u64(at);
		(*text)[i] = (const char*)at + 8;
		at += 8 + (*size)[i];
	}
	return (int)value->n;
}

static int32_t read_id(const struct gguf* g, const char* key) {
	int64_t id = -1;
	struct error ignored;
	gguf_int(g, key, 0, INT32_MAX, &id, &ignored);
	return (int32_t)id;
}

static void* copy_array(const struct gguf* g, const char* key, size_t element) {
	const struct gguf_value* value = gguf_find(g, key);
	if (!value)
		return NULL;
	void* out = malloc(value->n * element);
	memcpy(out, value->data, value->n * element);
	return out;
}

struct tokenizer* open_vocabulary(const char* name, const char* pre, struct error* error) {
	char path[256];
	snprintf(path, sizeof path, "tests/core/vocab/%s.gguf", name);
	struct file_bytes file = read_source(path);
	struct gguf g = {0};
	struct tensor_table tensors = {0};
	struct tokenizer* t = NULL;
	if (file.data && gguf_read(&g, &tensors, (const uint8_t*)file.data, file.size, path, error)) {
		const char **piece = NULL, **merge = NULL;
		size_t *piece_size = NULL, *merge_size = NULL;
		const char* model = NULL;
		size_t model_size = 0;
		char model_name[32];
		gguf_string(&g, "tokenizer.ggml.model", &model, &model_size, error);
		snprintf(model_name, sizeof model_name, "%.*s", (int)model_size, model ? model : "");
		float* score = copy_array(&g, "tokenizer.ggml.scores", sizeof *score);
		int32_t* type = copy_array(&g, "tokenizer.ggml.token_type", sizeof *type);
		struct gguf_vocabulary v = {.model = model_name,
		                            .pre = pre ? pre : name,
		                            .score = score,
		                            .type = type,
		                            .bos = read_id(&g, "tokenizer.ggml.bos_token_id"),
		                            .eos = read_id(&g, "tokenizer.ggml.eos_token_id"),
		                            .unknown = read_id(&g, "tokenizer.ggml.unknown_token_id"),
		                            .add_bos = -1,
		                            .add_eos = -1,
		                            .add_space_prefix = -1,
		                            .remove_extra_whitespaces = -1};
		v.n = read_strings(&g, "tokenizer.ggml.tokens", &piece, &piece_size);
		v.n_merges = read_strings(&g, "tokenizer.ggml.merges", &merge, &merge_size);
		v.piece = piece;
		v.piece_size = piece_size;
		v.merge = merge;
		v.merge_size = merge_size;
		t = tokenizer_from_gguf(&v, error);
		free(piece);
		free(piece_size);
		free(merge);
		free(merge_size);
		free(score);
		free(type);
	}
	gguf_free(&g);
	tensor_table_free(&tensors);
	free(file.data);
	return t;
}

uint64_t hash_ids(const struct token_list* list) {
	uint64_t h = 0xcbf29ce484222325u;
	for (int i = 0; i < list->n; i++)
		for (int byte = 0; byte < 4; byte++)
			h = (h ^ ((uint32_t)list->id[i] >> (8 * byte) & 0xFFu)) * 0x100000001b3u;
	return h;
}
