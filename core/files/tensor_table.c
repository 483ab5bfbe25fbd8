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

static const char* show_shape(const struct named_tensor* tensor, char* out, size_t size) {
	size_t used = (size_t)snprintf(out, size, "(");
	for (int i = 0; i < tensor->n_dims && used < size; i++)
		used += (size_t)snprintf(out + used, size - used, i ? ", %lld" : "%lld", (long long)tensor->dim[i]);
	if (used < size)
		snprintf(out + used, size - used, ")");
	return out;
}

static bool shape_is(const struct named_tensor* t, int64_t rows, int64_t cols) {
	if (t->n_dims == 1)
		return rows == 1 && t->dim[0] == cols;
	return t->n_dims == 2 && t->dim[0] == rows && t->dim[1] == cols;
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

static struct named_tensor* expect_there(struct tensor_table* table, const char* name, struct error* error) {
	struct named_tensor* found = tensor_table_find(table, name);
	if (!found)
		error_set(error, "%s: tensor %s is missing", table->n ? table->item[0].file : "the model", name);
	return found;
}

static bool give(struct named_tensor* found, int64_t rows, int64_t cols, struct tensor* out,
                 struct error* error) {
	if (!found->supported)
		return list_types(error, found);
	found->used = true;
	*out = (struct tensor){.type = found->type, .rows = rows, .cols = cols, .data = found->data};
	return true;
}

bool tensor_table_take(struct tensor_table* table, const char* name, int64_t rows, int64_t cols,
                       struct tensor* out, struct error* error) {
	struct named_tensor* found = expect_there(table, name, error);
	char shape[96];
	if (!found)
		return false;
	if (!shape_is(found, rows, cols)) {
		show_shape(found, shape, sizeof shape);
		if (rows == 1)
			return error_set(error, "%s: tensor %s has shape %s, expected (%lld)", found->file, name, shape,
			                 (long long)cols);
		return error_set(error, "%s: tensor %s has shape %s, expected (%lld, %lld)", found->file, name, shape,
		                 (long long)rows, (long long)cols);
	}
	return give(found, rows, cols, out, error);
}

bool tensor_table_take_stack(struct tensor_table* table, const char* name, int64_t count, int64_t rows,
                             int64_t cols, struct tensor* out, struct error* error) {
	struct named_tensor* found = expect_there(table, name, error);
	char shape[96];
	if (!found)
		return false;
	if (found->n_dims != 3 || found->dim[0] != count || found->dim[1] != rows || found->dim[2] != cols)
		return error_set(error, "%s: tensor %s has shape %s, expected (%lld, %lld, %lld)", found->file, name,
		                 show_shape(found, shape, sizeof shape), (long long)count, (long long)rows,
		                 (long long)cols);
	return give(found, count * rows, cols, out, error);
}

bool tensor_table_all_used(const struct tensor_table* table, bool (*ignored)(const char* name),
                           struct error* error) {
	for (size_t i = 0; i < table->n; i++)
		if (!table->item[i].used && !ignored(table->item[i].name))
			return error_set(error, "%s: tensor %.120s is not one that the configuration asks for",
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
