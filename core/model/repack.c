#include "core/model/repack.h"

#include <stdio.h>
#include <string.h>

const char* repack_name(char out[256], const char* name, size_t cut, const char* suffix) {
	snprintf(out, 256, "%.*s%s", (int)(strlen(name) - cut), name, suffix);
	return out;
}

bool repack_ends(const char* name, const char* suffix) {
	const size_t n = strlen(name), s = strlen(suffix);
	return n >= s && strcmp(name + n - s, suffix) == 0;
}

bool repack_add(struct tensor_table* table, const char* name, const struct named_tensor* tensor,
                struct error* error) {
	return tensor_table_add(table, tensor, name, strlen(name)) ||
	       error_set(error, "%s: out of memory for tensor %.120s", tensor->file, name);
}

bool repack_tensors(struct tensor_table* table, const struct packing* packing, struct kept* kept,
                    struct error* error) {
	return (packing->method == PACKING_NONE || repack_groups(table, packing, kept, error)) &&
	       (!packing->experts_inverted || repack_experts(table, kept, error)) &&
	       tensor_table_seal(table, error);
}
