#include "core/model/repack.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "kernels/dtype_blocks.h"

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

void* repack_memory(struct kept* kept, const struct named_tensor* t, size_t bytes, struct error* error) {
	void* const made = kept_new(kept, bytes);
	if (!made)
		error_set(error, "%s: out of memory to convert tensor %.120s", t->file, t->name);
	return made;
}

void repack_replace(struct named_tensor* t, enum dtype type, const void* data, size_t bytes) {
	t->supported = true;
	t->type = type;
	t->data = data;
	t->bytes = bytes;
}

struct named_tensor* repack_beside(const struct tensor_table* table, const struct named_tensor* t, size_t cut,
                                   const char* suffix) {
	char name[256];
	return tensor_table_find(table, repack_name(name, t->name, cut, suffix));
}

float* repack_scales(const struct named_tensor* t, size_t n, struct error* error) {
	float* const value = malloc(n * sizeof *value);
	size_t i = 0;
	if (!value) {
		error_set(error, "%s: out of memory for tensor %.120s", t->file, t->name);
		return NULL;
	}
	dtype_to_float(t->type, t->data, value, (int64_t)n);
	while (i < n && isfinite(value[i]))
		i++;
	if (i == n)
		return value;
	error_set(error, "%s: tensor %.120s: scale %zu is not a finite number", t->file, t->name, i);
	free(value);
	return NULL;
}

void repack_put_scale(uint8_t d[4], float scale) {
	const uint32_t bits = bits_from_float(scale);
	for (int i = 0; i < 4; i++)
		d[i] = (uint8_t)(bits >> 8 * i);
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
		float* out = repack_memory(kept, t, n * sizeof *out, error);
		if (!out)
			return false;
		for (size_t k = 0; k < n; k++) {
			double x;
			memcpy(&x, t->data + k * sizeof x, sizeof x);
			out[k] = (float)x;
		}
		repack_replace(t, DTYPE_F32, out, n * sizeof *out);
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
	       repack_scaled(table, &packing->fp8, kept, error) && narrow_doubles(table, kept, error);
}
