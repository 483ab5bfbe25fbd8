/* Converts 8-bit weights with their scales: FP8 (E4M3), w = e4m3(q)·scale, with one scale for a block, a row
 * or the tensor; and integers as compressed-tensors stores them (int-quantized), w = (q - zero)·scale, with
 * one for the tensor, a row or a group of a row. They become DTYPE_F8_GROUP or DTYPE_Q8_GROUP where no zero
 * is given and groups do not cut blocks, else F32. */
#include "core/model/repack.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/dtype_blocks.h"

static_assert(sizeof(struct block_f8_group) == sizeof(struct block_q8_group), "one layout of both types");

struct scales {
	const struct named_tensor* of;
	bool integers;
	float* value; /* (n) */
	size_t n;
	size_t block_rows, block_cols,
	    stride;         /* the scale of row r and column c: element r / rows · stride + c / cols */
	const int8_t* zero; /* (n) or NULL */
};

/* It lies beside "….weight" under one of two names. */
static struct named_tensor* find_scale(const struct tensor_table* table, const struct named_tensor* t) {
	struct named_tensor* const found = repack_beside(table, t, 0, "_scale_inv");
	return found ? found : repack_beside(table, t, 0, "_scale");
}

static bool is_float(const struct named_tensor* t) {
	return t->supported && (t->type == DTYPE_F32 || t->type == DTYPE_BF16 || t->type == DTYPE_F16);
}

static bool shape_blocks(struct scales* s, const struct named_tensor* scale, const struct fp8_blocks* blocks,
                         struct error* error) {
	const size_t rows = (size_t)s->of->dim[0], cols = (size_t)s->of->dim[1];
	s->block_rows = (size_t)blocks->rows;
	s->block_cols = (size_t)blocks->cols;
	s->stride = (cols + s->block_cols - 1) / s->block_cols;
	const size_t down = (rows + s->block_rows - 1) / s->block_rows;
	return (scale->n_dims == 2 && (size_t)scale->dim[0] == down && (size_t)scale->dim[1] == s->stride) ||
	       error_set(
	           error,
	           "%s: tensor %.120s has %zu scales, expected (%zu, %zu) for blocks of %d rows and %d columns",
	           scale->file, scale->name, s->n, down, s->stride, blocks->rows, blocks->cols);
}

/* Of integers, the number of scales shows what shares one. */
static bool shape_scales(struct scales* s, const struct named_tensor* scale, const struct fp8_blocks* blocks,
                         struct error* error) {
	const size_t rows = (size_t)s->of->dim[0], cols = (size_t)s->of->dim[1];
	if (!s->integers && blocks->rows > 0 && blocks->cols > 0 && s->n > 1)
		return shape_blocks(s, scale, blocks, error);
	const size_t of_row = s->n > 1 && rows > 0 && s->n % rows == 0 ? s->n / rows : 1;
	const bool even = of_row <= cols && cols % of_row == 0;
	if (s->n != 1 && (s->n != rows * of_row || !even || (!s->integers && of_row != 1)))
		return error_set(error, "%s: tensor %.120s has %zu scales, expected 1 or one a row, %zu%s",
		                 scale->file, scale->name, s->n, rows,
		                 s->integers ? ", or as many for each row" : "");
	s->block_rows = s->n == 1 ? rows : 1;
	s->block_cols = cols / of_row;
	s->stride = of_row;
	return true;
}

static size_t scale_at(const struct scales* s, size_t row, size_t col) {
	return row / s->block_rows * s->stride + col / s->block_cols;
}

static void widen_elements(const struct scales* s, float* out) {
	const size_t cols = (size_t)s->of->dim[1];
	const uint8_t* const q = s->of->data;
	for (size_t i = 0; i < s->of->bytes; i++) {
		const size_t k = scale_at(s, i / cols, i % cols);
		out[i] = (s->integers ? (float)((int8_t)q[i] - (s->zero ? s->zero[k] : 0)) : e4m3_to_float(q[i])) *
		         s->value[k];
	}
}

static void lay_groups(const struct scales* s, struct block_f8_group* out) {
	const size_t blocks = (size_t)s->of->dim[1] / BLOCK_SMALL;
	for (size_t i = 0; i < (size_t)s->of->dim[0] * blocks; i++) {
		repack_put_scale(out[i].d, s->value[scale_at(s, i / blocks, i % blocks * BLOCK_SMALL)]);
		memcpy(out[i].q, s->of->data + i * BLOCK_SMALL, BLOCK_SMALL);
	}
}

static bool repack_matrix(const struct tensor_table* table, struct named_tensor* t, bool integers,
                          const struct fp8_blocks* blocks, struct kept* kept, struct error* error) {
	struct named_tensor* const found = find_scale(table, t);
	struct named_tensor* const zero = integers ? repack_beside(table, t, 0, "_zero_point") : NULL;
	if (t->n_dims != 2)
		return error_set(error, "%s: tensor %.120s is of type %s, but it is not a matrix", t->file, t->name,
		                 t->type_name);
	if (!found || !is_float(found))
		return error_set(error,
		                 "%s: tensor %.120s is of type %s, but its scale (…_scale or …_scale_inv) is %s",
		                 t->file, t->name, t->type_name, found ? "not a float" : "missing");
	struct scales s = {.of = t, .integers = integers, .n = found->bytes / dtype_block_bytes(found->type)};
	if (!shape_scales(&s, found, blocks, error))
		return false;
	if (zero && (strcmp(zero->type_name, "I8") != 0 || zero->bytes != s.n))
		return refuse_tensor(zero, "of type I8, with a zero for each scale", error);
	s.zero = zero ? (const int8_t*)zero->data : NULL;
	const bool groups = !zero && t->dim[1] % BLOCK_SMALL == 0 &&
	                    (s.block_cols % BLOCK_SMALL == 0 || s.block_cols == (size_t)t->dim[1]);
	const enum dtype type = !groups ? DTYPE_F32 : integers ? DTYPE_Q8_GROUP : DTYPE_F8_GROUP;
	const size_t bytes = (size_t)t->dim[0] * dtype_row_bytes(type, t->dim[1]);
	s.value = repack_scales(found, s.n, error);
	void* const out = s.value ? repack_memory(kept, t, bytes, error) : NULL;
	if (out && groups)
		lay_groups(&s, out);
	else if (out)
		widen_elements(&s, out);
	free(s.value);
	if (!out)
		return false;
	found->used = true;
	if (zero)
		zero->used = true;
	repack_replace(t, type, out, bytes);
	return true;
}

bool repack_scaled(struct tensor_table* table, const struct fp8_blocks* blocks, struct kept* kept,
                   struct error* error) {
	bool good = true;
	for (size_t i = 0; good && i < table->n; i++) {
		struct named_tensor* const t = &table->item[i];
		const bool integers = strcmp(t->type_name, "I8") == 0 && repack_ends(t->name, ".weight");
		if (integers || (strcmp(t->type_name, "F8_E4M3") == 0 && !t->used)) /* used: NVFP4's scales */
			good = repack_matrix(table, t, integers, blocks, kept, error);
	}
	return good;
}
