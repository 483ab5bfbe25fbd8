#include "core/model/repack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"

void* kept_new(struct kept* kept, size_t bytes) {
	if (!grow_by_one(&kept->memory, kept->n, sizeof *kept->memory))
		return NULL;
	void* made = malloc(bytes ? bytes : 1);
	if (made)
		kept->memory[kept->n++] = made;
	return made;
}

void kept_free(struct kept* kept) {
	for (size_t i = 0; i < kept->n; i++)
		free(kept->memory[i]);
	free(kept->memory);
	*kept = (struct kept){0};
}

bool refuse_tensor(const struct named_tensor* t, const char* expected, struct error* error) {
	return error_set(error, "%s: tensor %.120s is not %s", t->file, t->name, expected);
}

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

/* Norms of a few folders are doubles. */
static bool narrow_doubles(struct tensor_table* table, struct kept* kept, struct error* error) {
	for (size_t i = 0; i < table->n; i++) {
		struct named_tensor* t = &table->item[i];
		if (strcmp(t->type_name, "F64") != 0)
			continue;
		const size_t n = t->bytes / sizeof(double);
		float* out = kept_new(kept, n * sizeof *out);
		if (!out)
			return error_set(error, "%s: out of memory for tensor %.120s in F32", t->file, t->name);
		for (size_t k = 0; k < n; k++) {
			double x;
			memcpy(&x, t->data + k * sizeof x, sizeof x);
			out[k] = (float)x;
		}
		t->type = DTYPE_F32;
		t->supported = true;
		t->data = (const uint8_t*)out;
		t->bytes = n * sizeof *out;
	}
	return true;
}

bool repack_tensors(struct tensor_table* table, const struct packing* packing, struct kept* kept,
                    struct error* error) {
	struct tensor_table made = {0};
	bool good = (packing->method == PACKING_NONE    ? true
	             : packing->method == PACKING_NVFP4 ? repack_nvfp4(table, &made, kept, error)
	                                                : repack_groups(table, packing, &made, kept, error)) &&
	            (!packing->experts_inverted || repack_experts(table, packing, &made, kept, error));
	for (size_t i = 0; good && i < made.n; i++)
		good = repack_add(table, made.item[i].name, &made.item[i], error);
	tensor_table_free(&made);
	return good && tensor_table_seal(table, error) && repack_nf4(table, kept, error) &&
	       repack_int8(table, kept, error) && repack_fp8(table, &packing->fp8, kept, error) &&
	       narrow_doubles(table, kept, error);
}
