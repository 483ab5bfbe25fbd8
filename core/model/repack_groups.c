/* Weights of GPTQ, AWQ and compressed-tensors: w = scale·(q - zero), scale and zero shared by a group of
 * inputs. Eight numbers of four bits make a word, or four of eight. GPTQ's words hold inputs of one output,
 * AWQ's eight outputs of one input in an order of its own; zeros are packed along the outputs by both.
 * compressed-tensors lies as weights do, outputs first: words hold inputs, zeros' words outputs; where there
 * are none, the middle number is the zero.
 *
 * A row becomes blocks of 32 with their scale and zero, or with their scale alone where numbers of 8 bits all
 * have the middle one as zero. Otherwise, and where groups do not end with blocks, as after GPTQ's reordering
 * (desc_act), it becomes F32, which loses nothing either and takes six times the bytes. */
#include "core/model/repack.h"

#include <math.h>
#include <string.h>

#include "kernels/dtype_blocks.h"

enum { TILE = 128 }; /* outputs at a time, because neighbours share cache lines of packed words */

struct packed_matrix {
	const struct packing* packing;
	/* zeros NULL: all are the middle; order NULL: groups one after another */
	struct named_tensor *words, *zeros, *scales, *order;
	int64_t inputs, outputs, groups;
};

static bool is_compressed(const struct packed_matrix* p) { return p->packing->method == PACKING_COMPRESSED; }

static int bits_of(const struct packed_matrix* p) { return p->packing->bits == 8 ? 8 : 4; }
static int in_word(const struct packed_matrix* p) { return 32 / bits_of(p); }
static unsigned middle_code(const struct packed_matrix* p) { return 1u << (bits_of(p) - 1); }

static uint32_t word_at(const struct named_tensor* t, int64_t i) { return load_u32(t->data + 4 * i); }

/* Number `at` of a word. */
static unsigned take_code(const struct packed_matrix* p, uint32_t word, int at) {
	return word >> bits_of(p) * at & (2 * middle_code(p) - 1);
}

/* The place of output n in its word. AWQ stores columns in the order 0 2 4 6 1 3 5 7. */
static int place_of(const struct packed_matrix* p, int64_t n) {
	static const int dealt[8] = {0, 4, 1, 5, 2, 6, 3, 7};
	return p->packing->method == PACKING_AWQ ? dealt[n % 8] : (int)(n % in_word(p));
}

static unsigned weight_at(const struct packed_matrix* p, int64_t input, int64_t output) {
	const int n = in_word(p);
	if (p->packing->method == PACKING_AWQ)
		return take_code(p, word_at(p->words, input * (p->outputs / n) + output / n), place_of(p, output));
	const int64_t word =
	    is_compressed(p) ? output * (p->inputs / n) + input / n : input / n * p->outputs + output;
	return take_code(p, word_at(p->words, word), (int)(input % n));
}

static unsigned zero_at(const struct packed_matrix* p, int64_t group, int64_t output) {
	const int n = in_word(p);
	if (is_compressed(p) && !p->zeros)
		return middle_code(p);
	if (is_compressed(p))
		return take_code(p, word_at(p->zeros, output / n * p->groups + group), (int)(output % n));
	const unsigned zero =
	    take_code(p, word_at(p->zeros, group * (p->outputs / n) + output / n), place_of(p, output));
	return p->packing->zeros_less_one ? (zero + 1) & (2 * middle_code(p) - 1) : zero;
}

static float scale_at(const struct packed_matrix* p, int64_t group, int64_t output) {
	float scale;
	const int64_t place = is_compressed(p) ? output * p->groups + group : group * p->outputs + output;
	const size_t at = (size_t)place * dtype_block_bytes(p->scales->type);
	dtype_to_float(p->scales->type, p->scales->data + at, &scale, 1);
	return scale;
}

static int64_t group_of_input(const struct packed_matrix* p, int64_t input) {
	if (p->order)
		return word_at(p->order, input);
	return p->packing->group ? input / p->packing->group : 0;
}

/* ---- what is there --------------------------------------------------------------------------- */

static bool is_words(const struct named_tensor* t, const char* name, const struct named_tensor* of,
                     int64_t rows, int64_t cols, struct error* error) {
	if (!t)
		return error_set(error, "%s: tensor %.120s is missing, and %.120s needs it", of->file, name,
		                 of->name);
	if (strcmp(t->type_name, "I32") != 0 || t->n_dims != 2 || t->dim[0] != rows || t->dim[1] != cols)
		return error_set(error, "%s: tensor %.120s is not I32 of shape (%lld, %lld)", t->file, name,
		                 (long long)rows, (long long)cols);
	return true;
}

static bool is_scales(const struct packed_matrix* p, const char* name, struct error* error) {
	const struct named_tensor* t = p->scales;
	if (!t)
		return error_set(error, "%s: tensor %.120s is missing", p->words->file, name);
	const int64_t rows = is_compressed(p) ? p->outputs : p->groups,
	              cols = is_compressed(p) ? p->groups : p->outputs;
	if (!t->supported || dtype_block(t->type) != 1 || t->n_dims != 2 || t->dim[0] != rows ||
	    t->dim[1] != cols)
		return error_set(error, "%s: tensor %.120s is not floats of shape (%lld, %lld)", t->file, name,
		                 (long long)rows, (long long)cols);
	for (int64_t g = 0; g < p->groups; g++)
		for (int64_t n = 0; n < p->outputs; n++)
			if (!isfinite(scale_at(p, g, n)))
				return error_set(error,
				                 "%s: tensor %.120s: the scale of group %lld, output %lld is not a "
				                 "finite number",
				                 t->file, name, (long long)g, (long long)n);
	return true;
}

static bool is_order(const struct packed_matrix* p, const char* name, struct error* error) {
	const struct named_tensor* t = p->order;
	if (strcmp(t->type_name, "I32") != 0 || t->n_dims != 1 || t->dim[0] != p->inputs)
		return error_set(error, "%s: tensor %.120s is not I32 of shape (%lld)", t->file, name,
		                 (long long)p->inputs);
	for (int64_t k = 0; k < p->inputs; k++)
		if (word_at(t, k) >= (uint64_t)p->groups)
			return error_set(error,
			                 "%s: tensor %.120s: input %lld belongs to group %u, but there are %lld groups",
			                 t->file, name, (long long)k, word_at(t, k), (long long)p->groups);
	return true;
}

static bool is_shape(const struct packed_matrix* p, struct named_tensor* shape, const char* name,
                     struct error* error) {
	int64_t size[2];
	if (!shape)
		return true;
	shape->used = true;
	if (strcmp(shape->type_name, "I64") != 0 || shape->bytes != sizeof size)
		return error_set(error, "%s: tensor %.120s does not hold two numbers of type I64", shape->file, name);
	memcpy(size, shape->data, sizeof size);
	return (size[0] == p->outputs && size[1] == p->inputs) ||
	       error_set(error,
	                 "%s: tensor %.120s gives the shape (%lld, %lld), but the packed words have room for "
	                 "(%lld, %lld)",
	                 shape->file, name, (long long)size[0], (long long)size[1], (long long)p->outputs,
	                 (long long)p->inputs);
}

static bool find_compressed(struct packed_matrix* p, const struct tensor_table* table, struct error* error) {
	const struct named_tensor* w = p->words;
	const size_t cut = strlen("weight_packed");
	char zeros[256], scales[256], order[256], shape[256];
	p->outputs = w->dim[0];
	p->inputs = w->dim[1] * in_word(p);
	const int64_t group = p->packing->group ? p->packing->group : p->inputs;
	p->groups = (p->inputs + group - 1) / group;
	p->zeros = tensor_table_find(table, repack_name(zeros, w->name, cut, "weight_zero_point"));
	p->scales = tensor_table_find(table, repack_name(scales, w->name, cut, "weight_scale"));
	p->order = tensor_table_find(table, repack_name(order, w->name, cut, "weight_g_idx"));
	return (!p->zeros ||
	        is_words(p->zeros, zeros, w, (p->outputs + in_word(p) - 1) / in_word(p), p->groups, error)) &&
	       is_scales(p, scales, error) && (!p->order || is_order(p, order, error)) &&
	       is_shape(p, tensor_table_find(table, repack_name(shape, w->name, cut, "weight_shape")), shape,
	                error);
}

static bool find_parts(struct packed_matrix* p, const struct tensor_table* table, struct error* error) {
	const bool awq = p->packing->method == PACKING_AWQ;
	const struct named_tensor* w = p->words;
	char zeros[256], scales[256], order[256];
	if (strcmp(w->type_name, "I32") != 0 || w->n_dims != 2 || w->dim[0] < 1 || w->dim[1] < 1 ||
	    w->dim[0] > 1 << 24 || w->dim[1] > 1 << 24)
		return error_set(error, "%s: tensor %.120s is not a matrix of I32", w->file, w->name);
	if (is_compressed(p))
		return find_compressed(p, table, error);
	p->inputs = w->dim[0] * (awq ? 1 : in_word(p));
	p->outputs = w->dim[1] * (awq ? 8 : 1);
	const int64_t group = p->packing->group ? p->packing->group : p->inputs;
	p->groups = (p->inputs + group - 1) / group;
	if (p->outputs % in_word(p))
		return error_set(error, "%s: tensor %.120s has %lld outputs, not a multiple of %d", w->file, w->name,
		                 (long long)p->outputs, in_word(p));
	p->zeros = tensor_table_find(table, repack_name(zeros, w->name, 7, "qzeros"));
	p->scales = tensor_table_find(table, repack_name(scales, w->name, 7, "scales"));
	p->order = awq ? NULL : tensor_table_find(table, repack_name(order, w->name, 7, "g_idx"));
	return is_words(p->zeros, zeros, w, p->groups, p->outputs / in_word(p), error) &&
	       is_scales(p, scales, error) && (!p->order || is_order(p, order, error));
}

/* True when each block of 32 inputs belongs to one group, and blocks can hold its zero. */
static bool fits_blocks(const struct packed_matrix* p) {
	if (p->inputs % BLOCK_SMALL)
		return false;
	for (int64_t g = 0; bits_of(p) == 8 && g < p->groups; g++)
		for (int64_t n = 0; n < p->outputs; n++)
			if (zero_at(p, g, n) != middle_code(p))
				return false;
	for (int64_t k = 0; k < p->inputs; k++)
		if (group_of_input(p, k) != group_of_input(p, k / BLOCK_SMALL * BLOCK_SMALL))
			return false;
	return true;
}

/* ---- conversion ------------------------------------------------------------------------------- */

static void put_block(const struct packed_matrix* p, int64_t output, int64_t first,
                      struct block_q4_group* out) {
	const int64_t group = group_of_input(p, first);
	repack_put_scale(out->d, scale_at(p, group, output));
	out->zero = (uint8_t)zero_at(p, group, output);
	for (int j = 0; j < 16; j++)
		out->q[j] = (uint8_t)(weight_at(p, first + j, output) | weight_at(p, first + 16 + j, output) << 4);
}

static void put_block8(const struct packed_matrix* p, int64_t output, int64_t first,
                       struct block_q8_group* out) {
	repack_put_scale(out->d, scale_at(p, group_of_input(p, first), output));
	for (int j = 0; j < BLOCK_SMALL; j++)
		out->q[j] = (int8_t)((int)weight_at(p, first + j, output) - (int)middle_code(p));
}

static void put_blocks(const struct packed_matrix* p, uint8_t* out) {
	const int64_t blocks = p->inputs / BLOCK_SMALL;
	for (int64_t n0 = 0; n0 < p->outputs; n0 += TILE)
		for (int64_t b = 0; b < blocks; b++)
			for (int64_t n = n0; n < n0 + TILE && n < p->outputs; n++) {
				if (bits_of(p) == 8)
					put_block8(p, n, b * BLOCK_SMALL, (struct block_q8_group*)out + n * blocks + b);
				else
					put_block(p, n, b * BLOCK_SMALL, (struct block_q4_group*)out + n * blocks + b);
			}
}

static void put_floats(const struct packed_matrix* p, float* out) {
	for (int64_t n = 0; n < p->outputs; n++)
		for (int64_t k = 0; k < p->inputs; k++) {
			const int64_t group = group_of_input(p, k);
			const int difference = (int)weight_at(p, k, n) - (int)zero_at(p, group, n);
			out[n * p->inputs + k] = scale_at(p, group, n) * (float)difference;
		}
}

static bool repack_matrix(struct tensor_table* to, const struct packed_matrix* p, struct kept* kept,
                          struct error* error) {
	char name[256];
	const bool blocks = fits_blocks(p);
	struct named_tensor made = {.file = p->words->file,
	                            .type_name = "packed",
	                            .supported = true,
	                            .type = !blocks           ? DTYPE_F32
	                                    : bits_of(p) == 8 ? DTYPE_Q8_GROUP
	                                                      : DTYPE_Q4_GROUP,
	                            .n_dims = 2,
	                            .dim = {p->outputs, p->inputs}};
	made.bytes = (size_t)p->outputs * dtype_row_bytes(made.type, p->inputs);
	void* const data = repack_memory(kept, p->words, made.bytes, error);
	if (!data)
		return false;
	if (blocks)
		put_blocks(p, data);
	else
		put_floats(p, data);
	made.data = data;
	const size_t cut = strlen(is_compressed(p) ? "weight_packed" : "qweight");
	return repack_add(to, repack_name(name, p->words->name, cut, "weight"), &made, error);
}

/* Old GPTQ folders give every layer a bias, which is zero when the model has none. */
static void excuse_bias(const struct tensor_table* table, const struct named_tensor* words) {
	struct named_tensor* bias = repack_beside(table, words, 7, "bias");
	size_t i = 0;
	while (bias && i < bias->bytes && bias->data[i] == 0)
		i++;
	if (bias && i == bias->bytes)
		bias->used = true;
}

bool repack_groups(const struct tensor_table* table, const struct packing* packing, struct tensor_table* made,
                   struct kept* kept, struct error* error) {
	for (size_t i = 0; i < table->n; i++) {
		if (!repack_ends(table->item[i].name,
		                 packing->method == PACKING_COMPRESSED ? ".weight_packed" : ".qweight"))
			continue;
		struct packed_matrix p = {.packing = packing, .words = &table->item[i]};
		if (!find_parts(&p, table, error))
			return false;
		p.words->used = p.scales->used = true;
		if (p.zeros)
			p.zeros->used = true;
		if (p.order)
			p.order->used = true;
		if (!is_compressed(&p))
			excuse_bias(table, p.words);
		if (!repack_matrix(made, &p, kept, error))
			return false;
	}
	return true;
}
