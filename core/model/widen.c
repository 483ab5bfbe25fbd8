#include "core/model/widen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One sign, four exponent and three mantissa bits; no infinities (Micikevicius et al. 2022, table 1). */
static float e4m3(uint8_t bits) {
	const int exponent = bits >> 3 & 15, mantissa = bits & 7;
	float x = exponent ? ldexpf((float)(8 + mantissa), exponent - 10) : ldexpf((float)mantissa, -9);
	if (exponent == 15 && mantissa == 7)
		x = NAN;
	return bits & 128 ? -x : x;
}

static size_t elements(const struct named_tensor* t) {
	size_t n = 1;
	for (int i = 0; i < t->n_dims; i++)
		n *= (size_t)t->dim[i];
	return n;
}

static float* keep(struct widened* w, size_t n) {
	float** grown = realloc(w->memory, (w->n + 1) * sizeof *grown);
	if (!grown)
		return NULL;
	w->memory = grown;
	float* made = malloc((n ? n : 1) * sizeof *made);
	if (made)
		w->memory[w->n++] = made;
	return made;
}

static void replace(struct named_tensor* t, const float* data, size_t n) {
	t->type = DTYPE_F32;
	t->supported = true;
	t->data = (const uint8_t*)data;
	t->bytes = n * sizeof *data;
}

static bool widen_f64(struct named_tensor* t, struct widened* w, struct error* error) {
	const size_t n = elements(t);
	float* out = keep(w, n);
	if (!out)
		return error_set(error, "%s: out of memory for tensor %.120s in F32", t->file, t->name);
	for (size_t i = 0; i < n; i++) {
		double x;
		memcpy(&x, t->data + i * sizeof x, sizeof x);
		out[i] = (float)x;
	}
	replace(t, out, n);
	return true;
}

/* ---- FP8 ------------------------------------------------------------------------------------- */

struct scale {
	const struct named_tensor* tensor;
	size_t block_rows, block_cols, stride; /* of row r and column c: element r / rows · stride + c / cols */
};

/* "….weight" has its scale beside it under one of two names. */
static struct named_tensor* find_scale(const struct tensor_table* table, const struct named_tensor* t) {
	static const char* const suffix[] = {"_scale_inv", "_scale"};
	char name[256];
	struct named_tensor* found = NULL;
	for (size_t i = 0; i < 2 && !found; i++) {
		snprintf(name, sizeof name, "%s%s", t->name, suffix[i]);
		found = tensor_table_find(table, name);
	}
	return found;
}

static bool is_float(const struct named_tensor* t) {
	return t->supported && (t->type == DTYPE_F32 || t->type == DTYPE_BF16 || t->type == DTYPE_F16);
}

static bool shape_scale(struct scale* s, const struct named_tensor* t, const struct fp8_blocks* blocks,
                        struct error* error) {
	const struct named_tensor* scale = s->tensor;
	const size_t n = elements(scale), rows = (size_t)t->dim[0], cols = (size_t)t->dim[1];
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

static bool finite_scales(const float* scale, size_t n, const struct named_tensor* t, struct error* error) {
	for (size_t i = 0; i < n; i++)
		if (!isfinite(scale[i]))
			return error_set(error, "%s: tensor %.120s: scale %zu is not a finite number", t->file, t->name,
			                 i);
	return true;
}

static bool widen_fp8(const struct tensor_table* table, struct named_tensor* t,
                      const struct fp8_blocks* blocks, struct widened* w, struct error* error) {
	struct named_tensor* found = find_scale(table, t);
	struct scale s = {.tensor = found};
	if (t->n_dims != 2)
		return error_set(error, "%s: tensor %.120s is of type F8_E4M3 and no matrix", t->file, t->name);
	if (!found || !is_float(found))
		return error_set(error,
		                 "%s: tensor %.120s is of type F8_E4M3, but its scale (…_scale or …_scale_inv) is %s",
		                 t->file, t->name, found ? "not a float" : "missing");
	if (!shape_scale(&s, t, blocks, error))
		return false;
	const size_t n = elements(t), n_scales = elements(found), cols = (size_t)t->dim[1];
	float *scale = malloc(n_scales * sizeof *scale), *out = keep(w, n);
	bool good = scale && out;
	if (!good)
		error_set(error, "%s: out of memory for tensor %.120s in F32", t->file, t->name);
	else {
		dtype_to_float(found->type, found->data, scale, (int64_t)n_scales);
		good = finite_scales(scale, n_scales, found, error);
	}
	for (size_t i = 0; good && i < n; i++)
		out[i] = e4m3(t->data[i]) * scale[i / cols / s.block_rows * s.stride + i % cols / s.block_cols];
	free(scale);
	if (good) {
		found->used = true;
		replace(t, out, n);
	}
	return good;
}

bool widen_tensors(struct tensor_table* table, const struct fp8_blocks* blocks, struct widened* w,
                   struct error* error) {
	bool good = true;
	for (size_t i = 0; good && i < table->n; i++) {
		struct named_tensor* t = &table->item[i];
		if (strcmp(t->type_name, "F64") == 0)
			good = widen_f64(t, w, error);
		else if (strcmp(t->type_name, "F8_E4M3") == 0)
			good = widen_fp8(table, t, blocks, w, error);
	}
	return good;
}

void widened_free(struct widened* w) {
	for (size_t i = 0; i < w->n; i++)
		free(w->memory[i]);
	free(w->memory);
}
