/* Converts weights of 8-bit integers as compressed-tensors stores them (int-quantized): w = (q - zero)·scale,
 * with one scale for the tensor, a row, or a group of a row. They become DTYPE_Q8_GROUP where no zero is
 * given and groups are whole blocks, else F32. */
#include <math.h>
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

static struct named_tensor* find_beside(const struct tensor_table* table, const struct named_tensor* t,
                                        const char* suffix) {
	char name[256];
	return tensor_table_find(table, repack_name(name, t->name, 0, suffix));
}

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
	dtype_to_float(scale->type, scale->data, s->value, (int64_t)s->n);
	for (size_t i = 0; i < s->n; i++) {
		if (!isfinite(s->value[i]))
			return error_set(error, "%s: tensor %.120s: scale %zu is not a finite number", scale->file,
			                 scale->name, i);
	}
	if (!zero)
		return true;
	if (strcmp(zero->type_name, "I8") != 0 || zero->bytes != s->n)
		return refuse_tensor(zero, "of type I8, with a zero for each scale", error);
	s->zero = (const int8_t*)zero->data;
	return true;
}

static void lay_blocks(const struct named_tensor* t, const struct scales* s, struct block_q8_group* out) {
	for (size_t i = 0; i < t->bytes; i += BLOCK_SMALL, out++) {
		const uint32_t bits = bits_from_float(s->value[scale_at(s, i)]);
		for (int j = 0; j < 4; j++)
			out->d[j] = (uint8_t)(bits >> 8 * j);
		memcpy(out->q, t->data + i, BLOCK_SMALL);
	}
}

static void widen(const struct named_tensor* t, const struct scales* s, float* out) {
	for (size_t i = 0; i < t->bytes; i++) {
		const size_t k = scale_at(s, i);
		out[i] = (float)((int8_t)t->data[i] - (s->zero ? s->zero[k] : 0)) * s->value[k];
	}
}

static bool repack_matrix(const struct tensor_table* table, struct named_tensor* t, struct kept* kept,
                          struct error* error) {
	struct named_tensor* const scale = find_beside(table, t, "_scale");
	struct named_tensor* const zero = find_beside(table, t, "_zero_point");
	if (t->n_dims != 2 || !scale || !scale->supported ||
	    (scale->type != DTYPE_F32 && scale->type != DTYPE_F16 && scale->type != DTYPE_BF16))
		return refuse_tensor(t, "a matrix of type I8 with scales that are floats (…_scale) beside it", error);
	struct scales s = {.n = scale->bytes / dtype_block_bytes(scale->type)};
	if (!shape_scales(&s, t, scale, error))
		return false;
	s.value = malloc(s.n * sizeof *s.value);
	bool good = s.value ? read_scales(&s, scale, zero, error)
	                    : error_set(error, "%s: out of memory for tensor %.120s", t->file, t->name);
	const bool blocks = !s.zero && s.cols % BLOCK_SMALL == 0 && s.group % BLOCK_SMALL == 0;
	const enum dtype type = blocks ? DTYPE_Q8_GROUP : DTYPE_F32;
	const size_t bytes = (size_t)t->dim[0] * dtype_row_bytes(type, t->dim[1]);
	void* const out = good ? kept_new(kept, bytes) : NULL;
	if (good && !out)
		good = error_set(error, "%s: out of memory for tensor %.120s", t->file, t->name);
	if (good && blocks)
		lay_blocks(t, &s, out);
	else if (good)
		widen(t, &s, out);
	free(s.value);
	if (!good)
		return false;
	scale->used = t->supported = true;
	if (zero)
		zero->used = true;
	t->type = type;
	t->data = out;
	t->bytes = bytes;
	return true;
}

bool repack_int8(struct tensor_table* table, struct kept* kept, struct error* error) {
	for (size_t i = 0; i < table->n; i++)
		if (strcmp(table->item[i].type_name, "I8") == 0 && repack_ends(table->item[i].name, ".weight") &&
		    !repack_matrix(table, &table->item[i], kept, error))
			return false;
	return true;
}
