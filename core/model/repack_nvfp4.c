/* NVFP4 weights: E2M1 elements, two a byte. 16 neighbours of a row share a scale in E4M3. Matrices become
 * BF16, which is what compressed-tensors makes of them.
 *
 * In folders all scales of a matrix share one in F32: compressed-tensors (nvfp4-pack-quantized) divides by
 * its weight_global_scale, modelopt multiplies by its weight_scale_2. The first element of a byte is in the
 * lower bits. In a GGUF file a block has four scales and then the elements of four groups; a byte's lower
 * bits hold an element of a group's first half and its upper bits one of the second. A tensor NAME.scale may
 * have a factor of the matrix, or one for each expert. */
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

static float e2m1_to_float(unsigned code) {
	static const float magnitude[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
	return code & 8 ? -magnitude[code & 7] : magnitude[code & 7];
}

/* Rows of BF16. False at a weight that is no number. */
static bool widen_matrix(const struct nvfp4* q, void* out) {
	float whole;
	memcpy(&whole, q->whole->data, sizeof whole);
	for (int64_t i = 0; i < q->rows * q->cols; i++) {
		const float scale = e4m3_to_float(q->scales->data[i / GROUP]);
		const unsigned code = (unsigned)q->codes->data[i / 2] >> 4 * (i % 2) & 15u;
		const float weight = e2m1_to_float(code) * (q->divides ? scale / whole : scale * whole);
		if (!isfinite(weight))
			return false;
		dtype_put(DTYPE_BF16, out, i, weight);
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
	void* const out = repack_memory(kept, q->codes, matrix.bytes, error);
	if (!out)
		return false;
	if (!widen_matrix(q, out))
		return refuse_tensor(q->scales, "made of finite numbers", error);
	matrix.data = out;
	q->codes->used = q->scales->used = q->whole->used = true;
	if (strcmp(name, q->codes->name) != 0)
		return repack_add(made, name, &matrix, error);
	repack_replace(q->codes, DTYPE_BF16, out, matrix.bytes);
	q->codes->dim[1] = q->cols;
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
		char name[256];
		if (!divides && (!repack_ends(t->name, plain) || strcmp(t->type_name, "U8") != 0))
			continue;
		struct nvfp4 q = {.codes = t, .divides = divides};
		q.scales = repack_beside(table, t, cut, ".weight_scale");
		q.whole = repack_beside(table, t, cut, divides ? ".weight_global_scale" : ".weight_scale_2");
		if (!repack_matrix(&q, made, repack_name(name, t->name, cut, plain), kept, error))
			return false;
	}
	return true;
}

/* ---- GGUF's blocks -------------------------------------------------------------------------- */

enum {
	BLOCK_GROUPS = 4,
	BLOCK_ELEMENTS = GROUP * BLOCK_GROUPS,
	BLOCK_BYTES = BLOCK_GROUPS * (1 + GROUP / 2)
};

/* GGUF's scales have no sign, and the code that would be no number is 0. */
static float block_scale(uint8_t code) {
	code &= 127;
	return code == 127 ? 0 : e4m3_to_float(code);
}

static void widen_block(const uint8_t* block, float whole, void* out, int64_t at) {
	for (int g = 0; g < BLOCK_GROUPS; g++) {
		const uint8_t* codes = block + BLOCK_GROUPS + g * GROUP / 2;
		const float scale = block_scale(block[g]);
		for (int j = 0; j < GROUP; j++) {
			const unsigned code = (unsigned)codes[j % (GROUP / 2)] >> 4 * (j / (GROUP / 2)) & 15u;
			dtype_put(DTYPE_BF16, out, at + g * GROUP + j, e2m1_to_float(code) * scale * whole);
		}
	}
}

/* The factors of the matrices in a tensor: their number, 0 where there are none, -1 with the error set. */
static int64_t find_factors(const struct tensor_table* table, const struct named_tensor* t,
                            struct named_tensor** out, struct error* error) {
	if (!repack_ends(t->name, ".weight"))
		return 0;
	*out = repack_beside(table, t, strlen(".weight"), ".scale");
	if (!*out)
		return 0;
	const int64_t matrices = t->n_dims == 3 ? t->dim[0] : 1, n = (*out)->dim[0];
	if (!(*out)->supported || (*out)->type != DTYPE_F32 || (*out)->n_dims != 1 || (n != 1 && n != matrices)) {
		refuse_tensor(*out, "one number in F32 for the matrix, or one for each expert", error);
		return -1;
	}
	return n;
}

static bool widen_blocks(struct tensor_table* table, struct named_tensor* t, struct kept* kept,
                         struct error* error) {
	struct named_tensor* factors = NULL;
	const int64_t n = find_factors(table, t, &factors, error);
	const int64_t blocks = (int64_t)(t->bytes / BLOCK_BYTES), matrices = t->n_dims == 3 ? t->dim[0] : 1;
	if (n < 0)
		return false;
	const size_t bytes = (size_t)blocks * BLOCK_ELEMENTS * 2;
	void* const out = repack_memory(kept, t, bytes, error);
	if (!out)
		return false;
	for (int64_t i = 0; i < blocks; i++) {
		float whole = 1;
		if (n > 0)
			memcpy(&whole, factors->data + sizeof whole * (size_t)(n == 1 ? 0 : i / (blocks / matrices)),
			       sizeof whole);
		if (!isfinite(whole))
			return refuse_tensor(factors, "made of finite numbers", error);
		widen_block(t->data + (size_t)i * BLOCK_BYTES, whole, out, i * BLOCK_ELEMENTS);
	}
	if (factors)
		factors->used = true;
	repack_replace(t, DTYPE_BF16, out, bytes);
	return true;
}

bool repack_nvfp4_blocks(struct tensor_table* table, struct kept* kept, struct error* error) {
	for (size_t i = 0; i < table->n; i++) {
		struct named_tensor* t = &table->item[i];
		if (repack_ends(t->name, ".input_scale")) /* for activations in 4 bits, which no pass has */
			t->used = true;
		if (strcmp(t->type_name, "NVFP4") == 0 && !widen_blocks(table, t, kept, error))
			return false;
	}
	return true;
}
