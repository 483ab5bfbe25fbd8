/* NVFP4 weights: two E2M1 elements a byte, the first in the lower bits. 16 neighbours of a row share a scale
 * in E4M3, all scales of a matrix one in F32: compressed-tensors (nvfp4-pack-quantized) divides by its
 * weight_global_scale, modelopt multiplies by its weight_scale_2. Matrices become BF16, which is what
 * compressed-tensors makes of them. */
#include <math.h>
#include <string.h>

#include "core/model/repack.h"
#include "kernels/dtype_blocks.h"

enum { GROUP = 16 };

struct nvfp4 {
	struct named_tensor *codes, *scales, *whole;
	bool divides; /* by the scale of the whole */
	int64_t rows, cols;
};

static bool check_parts(const struct nvfp4* q, struct error* error) {
	const struct named_tensor *c = q->codes, *s = q->scales, *w = q->whole;
	if (strcmp(c->type_name, "U8") != 0 || c->n_dims != 2 || c->dim[0] < 1 || c->dim[1] < 1 ||
	    c->dim[0] > 1 << 24 || c->dim[1] > 1 << 23 || c->dim[1] % (GROUP / 2))
		return refuse_tensor(c, "a matrix of U8, whose rows hold whole groups of 16 elements", error);
	if (!s || strcmp(s->type_name, "F8_E4M3") != 0 || s->n_dims != 2 || s->dim[0] != c->dim[0] ||
	    s->dim[1] != c->dim[1] / (GROUP / 2))
		return refuse_tensor(s ? s : c, "beside a weight_scale of F8_E4M3 for each 16 elements of a row",
		                     error);
	if (!w || !w->supported || w->type != DTYPE_F32 || w->bytes != sizeof(float))
		return refuse_tensor(w ? w : c, "beside one scale for the matrix, in F32", error);
	return true;
}

/* Rows of BF16. False at a weight that is no number. */
static bool widen(const struct nvfp4* q, void* out) {
	static const float e2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
	float whole;
	memcpy(&whole, q->whole->data, sizeof whole);
	for (int64_t i = 0; i < q->rows * q->cols; i++) {
		const float scale = e4m3_to_float(q->scales->data[i / GROUP]);
		const int code = q->codes->data[i / 2] >> 4 * (i % 2) & 15;
		const float magnitude = e2m1[code & 7] * (q->divides ? scale / whole : scale * whole);
		if (!isfinite(magnitude))
			return false;
		dtype_put(DTYPE_BF16, out, i, code & 8 ? -magnitude : magnitude);
	}
	return true;
}

static bool repack_matrix(struct nvfp4* q, struct tensor_table* made, const char* name, struct kept* kept,
                          struct error* error) {
	if (!check_parts(q, error))
		return false;
	q->rows = q->codes->dim[0];
	q->cols = 2 * q->codes->dim[1];
	struct named_tensor matrix = {.file = q->codes->file,
	                              .type_name = "widened",
	                              .supported = true,
	                              .type = DTYPE_BF16,
	                              .n_dims = 2,
	                              .dim = {q->rows, q->cols},
	                              .bytes = (size_t)q->rows * dtype_row_bytes(DTYPE_BF16, q->cols)};
	void* out = kept_new(kept, matrix.bytes);
	if (!out)
		return error_set(error, "%s: out of memory to widen tensor %.120s", matrix.file, q->codes->name);
	if (!widen(q, out))
		return refuse_tensor(q->scales, "made of finite numbers", error);
	matrix.data = out;
	q->codes->used = q->scales->used = q->whole->used = true;
	if (strcmp(name, q->codes->name) != 0)
		return repack_add(made, name, &matrix, error);
	q->codes->type = DTYPE_BF16; /* in the place of the codes */
	q->codes->supported = true;
	q->codes->dim[1] = q->cols;
	q->codes->data = out;
	q->codes->bytes = matrix.bytes;
	memcpy(q->codes->type_name, matrix.type_name, sizeof matrix.type_name);
	q->codes->used = false;
	return true;
}

bool repack_nvfp4(const struct tensor_table* table, struct tensor_table* made, struct kept* kept,
                  struct error* error) {
	static const char packed[] = ".weight_packed", plain[] = ".weight";
	for (size_t i = 0; i < table->n; i++) {
		struct named_tensor* t = &table->item[i];
		const bool divides = repack_ends(t->name, packed);
		const size_t cut = divides ? strlen(packed) : strlen(plain);
		char name[256], scales[256], whole[256];
		if (!divides && (!repack_ends(t->name, plain) || strcmp(t->type_name, "U8") != 0))
			continue;
		struct nvfp4 q = {.codes = t, .divides = divides};
		q.scales = tensor_table_find(table, repack_name(scales, t->name, cut, ".weight_scale"));
		q.whole = tensor_table_find(
		    table, repack_name(whole, t->name, cut, divides ? ".weight_global_scale" : ".weight_scale_2"));
		if (!repack_matrix(&q, made, repack_name(name, t->name, cut, plain), kept, error))
			return false;
	}
	return true;
}
