/* Reads safetensors: the header is parsed and checked, the data stays in place. */
#include "core/files/safetensors.h"

#include <stdio.h>
#include <string.h>

#include "core/files/error_in.h"
#include "core/files/json.h"

/* The format's own library limits headers to 100 MB. */
enum { HEADER_LIMIT = 100000000 };

static const struct type {
	const char* name;
	int bytes;
} types[] = {{"F32", 4},  {"F16", 2},     {"BF16", 2},    {"F64", 8},    {"I64", 8}, {"U64", 8},
             {"I32", 4},  {"U32", 4},     {"I16", 2},     {"U16", 2},    {"I8", 1},  {"U8", 1},
             {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};

static const struct type* find_type(const char* name) {
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (strcmp(types[i].name, name) == 0)
			return &types[i];
	return NULL;
}

/* where: the tensor, for messages. */
static bool read_shape(struct named_tensor* t, const cJSON* shape, const char* where, size_t element,
                       size_t* bytes, struct error* error) {
	if (!cJSON_IsArray(shape) || cJSON_GetArraySize(shape) > TENSOR_DIMS)
		return error_in(error, where, "shape is not an array of at most %d sizes", TENSOR_DIMS);
	*bytes = element;
	const cJSON* size;
	cJSON_ArrayForEach (size, shape) {
		int64_t dim;
		if (!json_whole(size, 0, INT64_MAX, &dim))
			return error_in(error, where, "a size in shape is not a whole number");
		t->dim[t->n_dims++] = dim;
		if (__builtin_mul_overflow(*bytes, (size_t)dim, bytes))
			return error_in(error, where, "shape is larger than any file");
	}
	return true;
}

/* One entry of the header; `data` and `size` are the bytes after the header. */
static bool read_entry(struct tensor_table* table, const cJSON* entry, const uint8_t* data, size_t size,
                       const char* file, struct error* error) {
	const cJSON* dtype = json_field(entry, "dtype");
	const cJSON* offsets = json_field(entry, "data_offsets");
	struct named_tensor t = {.file = file};
	char where[sizeof error->message];
	snprintf(where, sizeof where, "%s: tensor %.120s", file, entry->string);
	if (!cJSON_IsString(dtype))
		return error_in(error, where, "dtype is missing or not a string");
	const struct type* type = find_type(dtype->valuestring);
	if (!type)
		return error_in(error, where, "dtype %.20s is not known", dtype->valuestring);
	t.supported = dtype_parse(type->name, &t.type);
	snprintf(t.type_name, sizeof t.type_name, "%s", type->name);
	size_t bytes = 0;
	if (!read_shape(&t, json_field(entry, "shape"), where, (size_t)type->bytes, &bytes, error))
		return false;
	int64_t begin, end;
	if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
	    !json_whole(cJSON_GetArrayItem(offsets, 0), 0, INT64_MAX, &begin) ||
	    !json_whole(cJSON_GetArrayItem(offsets, 1), 0, INT64_MAX, &end))
		return error_in(error, where, "data_offsets is not a pair of whole numbers");
	if (begin > end || (uint64_t)end > size)
		return error_in(error, where, "data_offsets [%lld, %lld] lie outside the %zu bytes of data",
		                (long long)begin, (long long)end, size);
	if ((uint64_t)(end - begin) != bytes)
		return error_in(error, where, "data_offsets span %lld bytes, but dtype and shape need %zu",
		                (long long)(end - begin), bytes);
	t.data = data + begin;
	t.bytes = bytes;
	return tensor_table_add(table, &t, entry->string, strlen(entry->string)) ||
	       error_set(error, "%s: out of memory", file);
}

/* Parses the header; its length goes to *length. NULL with the error set. */
static cJSON* read_header(const uint8_t* data, size_t size, const char* file, uint64_t* length,
                          struct error* error) {
	uint64_t header = 0;
	if (size < 8) {
		error_set(error, "%s: %zu bytes are too few for a safetensors file", file, size);
		return NULL;
	}
	for (int i = 7; i >= 0; i--)
		header = header << 8 | data[i];
	*length = header;
	if (header > size - 8 || header > HEADER_LIMIT) {
		error_set(error, "%s: the header's length is %llu, but the file has %zu bytes after it", file,
		          (unsigned long long)header, size - 8);
		return NULL;
	}
	return json_parse((const char*)data + 8, (size_t)header, file, error);
}

bool safetensors_metadata(const uint8_t* data, size_t size, const char* key, char* out, size_t out_size) {
	struct error ignored;
	uint64_t header;
	cJSON* json = read_header(data, size, "", &header, &ignored);
	const cJSON* value = json ? json_field(json_field(json, "__metadata__"), key) : NULL;
	const bool found = cJSON_IsString(value);
	if (found)
		snprintf(out, out_size, "%s", value->valuestring);
	cJSON_Delete(json);
	return found;
}

bool safetensors_read(struct tensor_table* table, const uint8_t* data, size_t size, const char* file,
                      struct error* error) {
	uint64_t header;
	cJSON* json = read_header(data, size, file, &header, error);
	if (!json)
		return false;
	bool good = cJSON_IsObject(json) || error_set(error, "%s: the header is not a JSON object", file);
	const size_t first = table->n;
	for (const cJSON* entry = json->child; entry && good; entry = entry->next)
		if (strcmp(entry->string, "__metadata__") != 0)
			good = cJSON_IsObject(entry)
			           ? read_entry(table, entry, data + 8 + header, size - 8 - (size_t)header, file, error)
			           : error_set(error, "%s: tensor %.120s is not a JSON object", file, entry->string);
	cJSON_Delete(json);
	return good && (table->n == first || tensors_apart(table->item + first, table->n - first, error));
}
