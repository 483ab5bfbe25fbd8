/* The named tensors of a model's files. */
#include "core/files/tensor_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"

bool tensor_table_add(struct tensor_table* table, const struct named_tensor* tensor, const char* name,
                      size_t name_size) {
	char* copy = grow_by_one(&table->item, table->n, sizeof *table->item) ? malloc(name_size + 1) : NULL;
	if (!copy)
		return false;
	if (name_size)
		memcpy(copy, name, name_size);
	copy[name_size] = '\0';
	table->item[table->n] = *tensor;
	table->item[table->n++].name = copy;
	return true;
}

static int by_name(const void* a, const void* b) {
	return strcmp(((const struct named_tensor*)a)->name, ((const struct named_tensor*)b)->name);
}

bool tensor_table_seal(struct tensor_table* table, struct error* error) {
	if (table->n)
		qsort(table->item, table->n, sizeof *table->item, by_name);
	for (size_t i = 1; i < table->n; i++)
		if (strcmp(table->item[i - 1].name, table->item[i].name) == 0)
			return error_set(error, "%s: tensor %.120s occurs twice", table->item[i].file,
			                 table->item[i].name);
	return true;
}

void tensor_table_free(struct tensor_table* table) {
	for (size_t i = 0; i < table->n; i++)
		free(table->item[i].name);
	free(table->item);
	*table = (struct tensor_table){0};
}

struct named_tensor* tensor_table_find(const struct tensor_table* table, const char* name) {
	const struct named_tensor key = {.name = (char*)(uintptr_t)name};
	return table->n ? bsearch(&key, table->item, table->n, sizeof key, by_name) : NULL;
}

bool tensor_table_find_ending(const struct tensor_table* table, const char* suffix) {
	const size_t n = strlen(suffix);
	for (size_t i = 0; i < table->n; i++) {
		const size_t length = strlen(table->item[i].name);
		if (length >= n && strcmp(table->item[i].name + length - n, suffix) == 0)
			return true;
	}
	return false;
}

static const char* show_shape(const int64_t* dim, int n, char out[96]) {
	const size_t size = 96;
	size_t used = (size_t)snprintf(out, size, "(");
	for (int i = 0; i < n && used < size; i++)
		used += (size_t)snprintf(out + used, size - used, i ? ", %lld" : "%lld", (long long)dim[i]);
	if (used < size)
		snprintf(out + used, size - used, ")");
	return out;
}

static bool list_types(struct error* error, const struct named_tensor* t) {
	char list[260] = "";
	for (int i = 0; i < DTYPE_Q4_GROUP; i++) { /* those after it are in no file */
		const size_t used = strlen(list);
		snprintf(list + used, sizeof list - used, i ? ", %s" : "%s", dtype_name((enum dtype)i));
	}
	return error_set(error, "%s: tensor %.120s is of type %s, which is not supported; supported are %s",
	                 t->file, t->name, t->type_name, list);
}

/* Finds the tensor with these n sizes. A tensor of a single row may also be a vector. */
static bool take_tensor(struct tensor_table* table, const char* name, const int64_t* dim, int n,
                        struct tensor* out, struct error* error) {
	struct named_tensor* found = tensor_table_find(table, name);
	char shape[96], expected[96];
	if (!found)
		return error_set(error, "%s: tensor %s is missing", table->n ? table->item[0].file : "the model",
		                 name);
	const bool vector = n == 2 && dim[0] == 1;
	const bool number = vector && dim[1] == 1 && found->n_dims == 0;
	const int skipped = number ? 2 : vector && found->n_dims == 1;
	if (found->n_dims != n - skipped ||
	    memcmp(found->dim, dim + skipped, (size_t)found->n_dims * sizeof *dim))
		return error_set(error, "%s: tensor %s has shape %s, expected %s", found->file, name,
		                 show_shape(found->dim, found->n_dims, shape),
		                 show_shape(dim + vector, n - vector, expected));
	if (!found->supported)
		return list_types(error, found);
	found->used = true;
	*out = (struct tensor){.type = found->type, .rows = dim[0], .cols = dim[n - 1], .data = found->data};
	return true;
}

bool tensor_table_take(struct tensor_table* table, const char* name, int64_t rows, int64_t cols,
                       struct tensor* out, struct error* error) {
	const int64_t dim[] = {rows, cols};
	return take_tensor(table, name, dim, 2, out, error);
}

bool tensor_table_take_stack(struct tensor_table* table, const char* name, int64_t count, int64_t rows,
                             int64_t cols, struct tensor* out, struct error* error) {
	const int64_t dim[] = {count, rows, cols};
	if (!take_tensor(table, name, dim, 3, out, error))
		return false;
	out->rows = count * rows;
	return true;
}

bool tensor_table_all_used(const struct tensor_table* table, bool (*ignored)(const char* name),
                           struct error* error) {
	for (size_t i = 0; i < table->n; i++)
		if (!table->item[i].used && !ignored(table->item[i].name))
			return error_set(error,
			                 "%s: tensor %.120s is not part of the model that the configuration describes",
			                 table->item[i].file, table->item[i].name);
	return true;
}

static int by_place(const void* a, const void* b) {
	const struct named_tensor *x = a, *y = b;
	if (x->data != y->data)
		return x->data < y->data ? -1 : 1;
	return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

bool tensors_apart(struct named_tensor* item, size_t n, struct error* error) {
	if (n)
		qsort(item, n, sizeof *item, by_place);
	for (size_t i = 1; i < n; i++)
		if (item[i - 1].data + item[i - 1].bytes > item[i].data)
			return error_set(error, "%s: tensors %.120s and %.120s overlap", item[i].file, item[i - 1].name,
			                 item[i].name);
	return true;
}

struct tensor tensor_rows(const struct tensor* whole, int64_t begin, int64_t rows) {
	struct tensor part = *whole;
	part.rows = rows;
	part.data = (const uint8_t*)whole->data + (size_t)begin * dtype_row_bytes(whole->type, whole->cols);
	return part;
}
