/* Converts weights of 8-bit integers as compressed-tensors stores them (int-quantized): w = (q - zero)·scale,
 * with one scale for the tensor, a row, or a group of a row. They become DTYPE_Q8_GROUP where no zero is
 * given and groups are whole blocks, else F32. */
#include <stdlib.h>
#include <string.h>

#include "core/model/repack.h"
#include "kernels/dtype_blocks.h"

struct scales {
	float* value; /* (n) */
	size_t n, cols,
	    group; /* the scale of element i: i / cols · (cols / group) + i % cols / group; n 1: the first */
	const int8_t* zero; /* (n) or NULL */
};

static size_t scale_at(const struct scales* s, size_t i) {
	return s->n == 1 ? 0 : i / s->cols * (s->cols / s->group) + i % s->cols / s->group;
}

/* The number of scales shows what shares one. */
static bool shape_scales(struct scales* s, const struct named_tensor* t, const struct named_tensor* scale,
                         struct error* error) {
	const size_t rows = (size_t)t->dim[0], cols = (size_t)t->dim[1];
	s->cols = s->group = cols;
	if (s->n > 1 && rows > 0 && s->n % rows == 0 && s->n / rows <= cols && cols % (s->n / rows) == 0)
		s->group = cols / (s->n / rows);
	else if (s->n != 1)
		return error_set(error,
		                 "%s: tensor %.120s has %zu scales, expected 1, or as many for each of %zu rows",
		                 scale->file, scale->name, s->n, rows);
	return true;
}

static bool read_scales(struct scales* s, const struct named_tensor* scale, const struct named_tensor* zero,
                        struct error* error) {
	s->value = repack_scales(scale, s->n, error);
	if (!s->value)
		return false;
	if (!zero)
		return true;
	if (strcmp(zero->type_name, "I8") != 0 || zero->bytes != s->n)
		return refuse_tensor(zero, "of type I8, with a zero for each scale", error);
	s->zero = (const int8_t*)zero->data;
	return true;
}

static void lay_blocks(const struct named_tensor* t, const struct scales* s, struct block_q8_group* out) {
	for (size_t i = 0; i < t->bytes; i += BLOCK_SMALL, out++) {
		repack_put_scale(out->d, s->value[scale_at(s, i)]);
		memcpy(out->q, t->data + i, BLOCK_SMALL);
	}
}

static void widen_matrix(const struct named_tensor* t, const struct scales* s, float* out) {
	for (size_t i = 0; i < t->bytes; i++) {
		const size_t k = scale_at(s, i);
		out[i] = (float)((int8_t)t->data[i] - (s->zero ? s->zero[k] : 0)) * s->value[k];
	}
}

static bool repack_matrix(const struct tensor_table* table, struct named_tensor* t, struct kept* kept,
                          struct error* error) {
	struct named_tensor* const scale = repack_beside(table, t, 0, "_scale");
	struct named_tensor* const zero = repack_beside(table, t, 0, "_zero_point");
	if (t->n_dims != 2 || !scale || !scale->supported ||
	    (scale->type != DTYPE_F32 && scale->type != DTYPE_F16 && scale->type != DTYPE_BF16))
		return refuse_tensor(t, "a matrix of type I8 with scales that are floats (…_scale) beside it", error);
	struct scales s = {.n = scale->bytes / dtype_block_bytes(scale->type)};
	if (!shape_scales(&s, t, scale, error))
		return false;
	const bool good = read_scales(&s, scale, zero, error);
	const bool blocks = !s.zero && s.cols % BLOCK_SMALL == 0 && s.group % BLOCK_SMALL == 0;
	const enum dtype type = blocks ? DTYPE_Q8_GROUP : DTYPE_F32;
	const size_t bytes = (size_t)t->dim[0] * dtype_row_bytes(type, t->dim[1]);
	void* const out = good ? repack_memory(kept, t, bytes, error) : NULL;
	if (out && blocks)
		lay_blocks(t, &s, out);
	else if (out)
		widen_matrix(t, &s, out);
	free(s.value);
	if (!out)
		return false;
	scale->used = true;
	if (zero)
		zero->used = true;
	repack_replace(t, type, out, bytes);
	return true;
}

bool repack_int8(struct tensor_table* table, struct kept* kept, struct error* error) {
	for (size_t i = 0; i < table->n; i++)
		if (strcmp(table->item[i].type_name, "I8") == 0 && repack_ends(table->item[i].name, ".weight") &&
		    !repack_matrix(table, &table->item[i], kept, error))
			return false;
	return true;
}
