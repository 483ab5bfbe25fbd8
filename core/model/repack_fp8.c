/* Converts FP8 weights (E4M3) with their scales: w = e4m3(q)·scale, with one scale for a block, a row or the
 * tensor. */
#include "core/model/repack.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/dtype_blocks.h"

struct scale {
	struct named_tensor* tensor;
	float* value; /* (n) */
	size_t n;
	size_t block_rows, block_cols,
	    stride; /* the scale of row r and column c: element r / rows · stride + c / cols */
};

/* The scale lies beside "….weight" under one of two names. */
static struct named_tensor* find_scale(const struct tensor_table* table, const struct named_tensor* t) {
	static const char* const suffix[] = {"_scale_inv", "_scale"};
	struct named_tensor* const found = repack_beside(table, t, 0, suffix[0]);
	return found ? found : repack_beside(table, t, 0, suffix[1]);
}

static bool is_float(const struct named_tensor* t) {
	return t->supported && (t->type == DTYPE_F32 || t->type == DTYPE_BF16 || t->type == DTYPE_F16);
}

static bool shape_scale(struct scale* s, const struct named_tensor* t, const struct fp8_blocks* blocks,
                        struct error* error) {
	const struct named_tensor* scale = s->tensor;
	const size_t n = s->n, rows = (size_t)t->dim[0], cols = (size_t)t->dim[1];
	if (blocks->rows > 0 && blocks->cols > 0 && n > 1) {
		const size_t block_rows = (size_t)blocks->rows, block_cols = (size_t)blocks->cols;
		const size_t down = (rows + block_rows - 1) / block_rows,
		             across = (cols + block_cols - 1) / block_cols;
		if (scale->n_dims != 2 || (size_t)scale->dim[0] != down || (size_t)scale->dim[1] != across)
			return error_set(
			    error,
			    "%s: tensor %.120s has %zu scales, expected (%zu, %zu) for blocks of %d rows and %d "
			    "columns",
			    scale->file, scale->name, n, down, across, blocks->rows, blocks->cols);
		s->block_rows = block_rows;
		s->block_cols = block_cols;
		s->stride = across;
		return true;
	}
	if (n != 1 && n != rows)
		return error_set(error, "%s: tensor %.120s has %zu scales, expected 1 or one a row, %zu", scale->file,
		                 scale->name, n, rows);
	s->block_rows = n == 1 ? rows : 1;
	s->block_cols = cols;
	s->stride = 1;
	return true;
}

static float scale_of(const struct scale* s, size_t row, size_t col) {
	return s->value[row / s->block_rows * s->stride + col / s->block_cols];
}

static void widen_elements(const struct named_tensor* t, const struct scale* s, float* out) {
	const size_t cols = (size_t)t->dim[1];
	for (size_t i = 0; i < t->bytes; i++)
		out[i] = e4m3_to_float(t->data[i]) * scale_of(s, i / cols, i % cols);
}

static void lay_groups(const struct named_tensor* t, const struct scale* s, struct block_f8_group* out) {
	const size_t blocks = (size_t)t->dim[1] / BLOCK_SMALL;
	for (size_t i = 0; i < (size_t)t->dim[0] * blocks; i++) {
		repack_put_scale(out[i].d, scale_of(s, i / blocks, i % blocks * BLOCK_SMALL));
		memcpy(out[i].q, t->data + i * BLOCK_SMALL, BLOCK_SMALL);
	}
}

static bool repack_matrix(const struct tensor_table* table, struct named_tensor* t,
                          const struct fp8_blocks* blocks, struct kept* kept, struct error* error) {
	struct named_tensor* found = find_scale(table, t);
	if (t->n_dims != 2)
		return error_set(error, "%s: tensor %.120s is of type F8_E4M3, but it is not a matrix", t->file,
		                 t->name);
	if (!found || !is_float(found))
		return error_set(error,
		                 "%s: tensor %.120s is of type F8_E4M3, but its scale (…_scale or …_scale_inv) is %s",
		                 t->file, t->name, found ? "not a float" : "missing");
	struct scale s = {.tensor = found, .n = found->bytes / dtype_block_bytes(found->type)};
	if (!shape_scale(&s, t, blocks, error))
		return false;
	const bool groups = t->dim[1] % BLOCK_SMALL == 0 &&
	                    (s.block_cols % BLOCK_SMALL == 0 || s.block_cols == (size_t)t->dim[1]);
	const enum dtype type = groups ? DTYPE_F8_GROUP : DTYPE_F32;
	const size_t bytes = (size_t)t->dim[0] * dtype_row_bytes(type, t->dim[1]);
	s.value = repack_scales(found, s.n, error);
	void* const out = s.value ? repack_memory(kept, t, bytes, error) : NULL;
	if (out && groups)
		lay_groups(t, &s, out);
	else if (out)
		widen_elements(t, &s, out);
	free(s.value);
	if (!out)
		return false;
	found->used = true;
	repack_replace(t, type, out, bytes);
	return true;
}

bool repack_fp8(struct tensor_table* table, const struct fp8_blocks* blocks, struct kept* kept,
                struct error* error) {
	bool good = true;
	for (size_t i = 0; good && i < table->n; i++)
		if (strcmp(table->item[i].type_name, "F8_E4M3") == 0 && !table->item[i].used) /* NVFP4's scales */
			good = repack_matrix(table, &table->item[i], blocks, kept, error);
	return good;
}
