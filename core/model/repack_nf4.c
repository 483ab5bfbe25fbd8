/* bitsandbytes' 4-bit weights, NF4 (Dettmers et al. 2023, QLoRA, section 3) and FP4: two elements a byte, the
 * first in the upper bits, each a place in a table of 16 numbers, times a scale that some neighbours share.
 * Scales may be bytes themselves, places in a table of 256 numbers, with a scale and an offset of their own
 * (double quantization). Matrices become floats of the type that bitsandbytes computes in, rounded as it
 * does. */
#include "core/model/repack.h"

#include <math.h>
#include <string.h>

#include "core/files/json.h"
#include "core/model/config.h"
#include "kernels/dtype_blocks.h"

static const char* const states[] = {".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4"};

/* The fields of the state's JSON text, and the tensors beside it. */
struct nf4 {
	struct named_tensor *weight, *state, *absmax, *map, *nested_absmax, *nested_map;
	int64_t rows, cols;
	int block, nested_block;
	float offset;
	enum dtype type;
};

static bool read_type(const cJSON* json, struct nf4* q, struct error* error) {
	static const struct {
		const char* name;
		enum dtype type;
	} known[] = {{"float32", DTYPE_F32}, {"float16", DTYPE_F16}, {"bfloat16", DTYPE_BF16}};
	const char* name = NULL;
	if (!json_string(json, q->state->name, "dtype", &name, error))
		return false;
	for (size_t i = 0; name && i < sizeof known / sizeof *known; i++)
		if (strcmp(name, known[i].name) == 0) {
			q->type = known[i].type;
			return true;
		}
	return refuse_tensor(q->state, "of dtype float32, float16 or bfloat16", error);
}

static bool read_state(struct nf4* q, struct error* error) {
	const char* file = q->state->name;
	cJSON* json = json_parse((const char*)q->state->data, q->state->bytes, file, error);
	const cJSON* shape = json_field(json, "shape");
	q->nested_block = 256;
	const bool good = json && read_type(json, q, error) &&
	                  json_int32(json, file, "blocksize", 1, 1 << 20, &q->block, error) &&
	                  json_int32(json, file, "nested_blocksize", 1, 1 << 20, &q->nested_block, error) &&
	                  json_float(json, file, "nested_offset", -1e6, 1e6, &q->offset, error) &&
	                  ((q->block > 0 && cJSON_GetArraySize(shape) == 2 &&
	                    json_whole(cJSON_GetArrayItem(shape, 0), 1, LARGEST, &q->rows) &&
	                    json_whole(cJSON_GetArrayItem(shape, 1), 1, LARGEST, &q->cols)) ||
	                   refuse_tensor(q->state, "a state with blocksize and the shape of a matrix", error));
	cJSON_Delete(json);
	return good;
}

static bool has_floats(const struct named_tensor* t, int64_t n) {
	return t && t->supported && t->type == DTYPE_F32 && t->bytes == (size_t)n * sizeof(float);
}

static bool has_bytes(const struct named_tensor* t, int64_t n) {
	return t && strcmp(t->type_name, "U8") == 0 && t->bytes == (size_t)n;
}

static float float_at(const struct named_tensor* t, int64_t i) {
	float x;
	memcpy(&x, t->data + (size_t)i * sizeof x, sizeof x);
	return x;
}

static bool check_parts(const struct nf4* q, struct error* error) {
	const int64_t n = q->rows * q->cols, blocks = (n + q->block - 1) / q->block;
	if (!has_bytes(q->weight, (n + 1) / 2))
		return refuse_tensor(q->weight, "U8 with two elements of the state's shape a byte", error);
	if (!has_floats(q->map, 16))
		return refuse_tensor(q->map ? q->map : q->state, "beside a quant_map of 16 floats", error);
	if (has_floats(q->absmax, blocks))
		return true;
	const int64_t nested = (blocks + q->nested_block - 1) / q->nested_block;
	if (!has_bytes(q->absmax, blocks) || !has_floats(q->nested_absmax, nested) ||
	    !has_floats(q->nested_map, 256))
		return refuse_tensor(
		    q->absmax ? q->absmax : q->state,
		    "beside absmax, a scale for each block, with nested_absmax and nested_quant_map where it is U8",
		    error);
	return true;
}

static float scale_of(const struct nf4* q, int64_t block) {
	if (strcmp(q->absmax->type_name, "U8") != 0)
		return float_at(q->absmax, block);
	return float_at(q->nested_map, q->absmax->data[block]) *
	           float_at(q->nested_absmax, block / q->nested_block) +
	       q->offset;
}

/* False at a weight that is no number. */
static bool widen_matrix(const struct nf4* q, void* out) {
	const int64_t n = q->rows * q->cols;
	float scale = 0;
	for (int64_t i = 0; i < n; i++) {
		const int byte = q->weight->data[i / 2];
		if (i % q->block == 0)
			scale = scale_of(q, i / q->block);
		const float x = float_at(q->map, i % 2 ? byte & 15 : byte >> 4) * scale;
		if (!isfinite(x))
			return false;
		dtype_put(q->type, out, i, x);
	}
	return true;
}

static bool repack_matrix(const struct tensor_table* table, struct named_tensor* state, size_t cut,
                          struct kept* kept, struct error* error) {
	struct nf4 q = {.state = state,
	                .weight = repack_beside(table, state, cut, ""),
	                .absmax = repack_beside(table, state, cut, ".absmax"),
	                .map = repack_beside(table, state, cut, ".quant_map"),
	                .nested_absmax = repack_beside(table, state, cut, ".nested_absmax"),
	                .nested_map = repack_beside(table, state, cut, ".nested_quant_map")};
	if (!q.weight)
		return refuse_tensor(state, "beside the weight that it describes", error);
	if (!read_state(&q, error) || !check_parts(&q, error))
		return false;
	const size_t bytes = (size_t)q.rows * dtype_row_bytes(q.type, q.cols);
	void* const out = repack_memory(kept, q.weight, bytes, error);
	if (!out)
		return false;
	if (!widen_matrix(&q, out))
		return refuse_tensor(q.absmax, "made of finite numbers", error);
	struct named_tensor* const part[] = {state, q.absmax, q.map, q.nested_absmax, q.nested_map};
	for (size_t i = 0; i < sizeof part / sizeof *part; i++)
		if (part[i])
			part[i]->used = true;
	memcpy(q.weight->type_name, "widened", sizeof "widened");
	repack_replace(q.weight, q.type, out, bytes);
	q.weight->n_dims = 2;
	q.weight->dim[0] = q.rows;
	q.weight->dim[1] = q.cols;
	return true;
}

bool repack_nf4(struct tensor_table* table, struct kept* kept, struct error* error) {
	for (size_t i = 0; i < table->n; i++)
		for (size_t k = 0; k < sizeof states / sizeof *states; k++)
			if (repack_ends(table->item[i].name, states[k]) &&
			    !repack_matrix(table, &table->item[i], strlen(states[k]), kept, error))
				return false;
	return true;
}
