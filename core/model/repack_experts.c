/* Converts gpt-oss' and Llama 4's experts. A folder stores all experts of a block in stacks. Gate and up
 * share one, with alternating rows, or (Llama 4) gate's first. Floats have the inputs first (experts, inputs,
 * outputs). MXFP4 has the outputs first, as blocks of sixteen bytes (two elements a byte, the lower first)
 * beside their exponents. Here each projection becomes a stack (experts, outputs, inputs) of its own. */
#include "core/model/repack.h"

#include <string.h>

#include "kernels/dtype_blocks.h"

struct stack {
	struct named_tensor *data, *exponents; /* exponents of MXFP4, or NULL */
	int64_t experts, outputs, inputs;
};

static bool sizes_fit(const struct named_tensor* t) {
	int64_t all = 1;
	for (int i = 0; i < t->n_dims; i++)
		if (t->dim[i] < 1 || t->dim[i] > 1 << 24 || __builtin_mul_overflow(all, t->dim[i], &all))
			return false;
	return all < (int64_t)1 << 48;
}

/* ---- one row converted ------------------------------------------------------------------------ */

static void put_mxfp4(const struct stack* s, int64_t row, uint8_t* out) {
	const int64_t blocks = s->inputs / BLOCK_SMALL;
	for (int64_t b = 0; b < blocks; b++) {
		const uint8_t* from = s->data->data + (row * blocks + b) * 16;
		struct block_mxfp4* to = (struct block_mxfp4*)out + b;
		to->exponent = s->exponents->data[row * blocks + b];
		for (int j = 0; j < 16; j++) {
			const int low = from[j / 2] >> 4 * (j % 2) & 15, high = from[8 + j / 2] >> 4 * (j % 2) & 15;
			to->q[j] = (uint8_t)(low | high << 4);
		}
	}
}

static void put_floats(const struct stack* s, int64_t expert, int64_t output, uint8_t* out) {
	const size_t size = dtype_block_bytes(s->data->type);
	const uint8_t* from = s->data->data + (size_t)(expert * s->inputs * s->outputs + output) * size;
	for (int64_t k = 0; k < s->inputs; k++)
		memcpy(out + (size_t)k * size, from + (size_t)(k * s->outputs) * size, size);
}

/* Makes a tensor of `count` outputs, every step-th from `first` on. */
static bool lay_out_experts(struct tensor_table* to, const struct stack* s, int64_t first, int64_t step,
                            int64_t count, size_t cut, const char* suffix, struct kept* kept,
                            struct error* error) {
	char name[256];
	struct named_tensor made = {.file = s->data->file,
	                            .supported = true,
	                            .type = s->exponents ? DTYPE_MXFP4 : s->data->type,
	                            .n_dims = s->inputs == 1 ? 2 : 3, /* biases are vectors */
	                            .dim = {s->experts, count, s->inputs}};
	const size_t row = dtype_row_bytes(made.type, s->inputs);
	memcpy(made.type_name, "converted", sizeof "converted");
	made.bytes = (size_t)(s->experts * made.dim[1]) * row;
	uint8_t* out = repack_memory(kept, s->data, made.bytes, error);
	if (!out)
		return false;
	made.data = out;
	for (int64_t e = 0; e < s->experts; e++)
		for (int64_t n = first, i = 0; i < count; i++, n += step, out += row)
			if (s->exponents)
				put_mxfp4(s, e * s->outputs + n, out);
			else
				put_floats(s, e, n, out);
	return repack_add(to, repack_name(name, s->data->name, cut, suffix), &made, error);
}

/* ---- what is there ---------------------------------------------------------------------------- */

static bool open_mxfp4(struct stack* s, const struct tensor_table* table, struct error* error) {
	struct named_tensor* t = s->data;
	char name[256];
	struct named_tensor* scales = tensor_table_find(table, repack_name(name, t->name, 6, "scales"));
	if (strcmp(t->type_name, "U8") != 0 || t->n_dims != 4 || t->dim[3] != 16 || !sizes_fit(t))
		return refuse_tensor(t, "U8 of shape (experts, outputs, blocks, 16)", error);
	if (!scales)
		return error_set(error, "%s: tensor %.120s is missing", t->file, name);
	if (strcmp(scales->type_name, "U8") != 0 || scales->n_dims != 3 || scales->dim[0] != t->dim[0] ||
	    scales->dim[1] != t->dim[1] || scales->dim[2] != t->dim[2])
		return refuse_tensor(scales, "U8 with one exponent for each block", error);
	scales->used = true;
	*s = (struct stack){t, scales, t->dim[0], t->dim[1], t->dim[2] * BLOCK_SMALL};
	return true;
}

static bool open_floats(struct stack* s, struct error* error) {
	struct named_tensor* t = s->data;
	if (!t->supported || dtype_block(t->type) != 1 || t->n_dims != 3 || !sizes_fit(t))
		return refuse_tensor(t, "floats of shape (experts, inputs, outputs)", error);
	*s = (struct stack){t, NULL, t->dim[0], t->dim[2], t->dim[1]};
	return true;
}

/* Biases are stacks with one input. */
static bool open_bias(struct stack* s, struct error* error) {
	struct named_tensor* t = s->data;
	if (!t->supported || dtype_block(t->type) != 1 || t->n_dims != 2 || !sizes_fit(t))
		return refuse_tensor(t, "floats of shape (experts, outputs)", error);
	*s = (struct stack){t, NULL, t->dim[0], t->dim[1], 1};
	return true;
}

/* The ends of the old names, and the new ones. */
static const struct kind {
	const char* suffix;
	enum { FLOATS, BIAS, BLOCKS } form;
	const char *first, *second; /* which of alternating rows; NULL: all rows go to the first */
} kinds[] = {
    {".experts.gate_up_proj", FLOATS, ".experts.gate_proj.weight", ".experts.up_proj.weight"},
    {".experts.gate_up_proj_blocks", BLOCKS, ".experts.gate_proj.weight", ".experts.up_proj.weight"},
    {".experts.gate_up_proj_bias", BIAS, ".experts.gate_proj.bias", ".experts.up_proj.bias"},
    {".experts.down_proj", FLOATS, ".experts.down_proj.weight", NULL},
    {".experts.down_proj_blocks", BLOCKS, ".experts.down_proj.weight", NULL},
    {".experts.down_proj_bias", BIAS, ".experts.down_proj.bias", NULL},
};

static bool repack_stack(const struct tensor_table* table, struct named_tensor* t, const struct kind* k,
                         bool gates_first, struct tensor_table* made, struct kept* kept,
                         struct error* error) {
	struct stack s = {.data = t};
	const size_t cut = strlen(k->suffix);
	if (!(k->form == BLOCKS ? open_mxfp4(&s, table, error)
	      : k->form == BIAS ? open_bias(&s, error)
	                        : open_floats(&s, error)))
		return false;
	if (k->second && s.outputs % 2)
		return refuse_tensor(t, "of an even number of rows, gate's and up's", error);
	t->used = true;
	const int64_t count = k->second ? s.outputs / 2 : s.outputs;
	const int64_t step = k->second && !gates_first ? 2 : 1;
	return lay_out_experts(made, &s, 0, step, count, cut, k->first, kept, error) &&
	       (!k->second ||
	        lay_out_experts(made, &s, gates_first ? count : 1, step, count, cut, k->second, kept, error));
}

/* True for a stack whose inputs are last already. Sizes show it, since a map's inputs and outputs differ. */
static bool has_inputs_last(const struct named_tensor* t, const struct kind* k, int inputs) {
	return inputs > 0 && k->form == FLOATS && t->n_dims == 3 && t->dim[k->second ? 1 : 2] != inputs;
}

bool repack_experts(const struct tensor_table* table, const struct packing* packing,
                    struct tensor_table* made, struct kept* kept, struct error* error) {
	for (size_t i = 0; i < table->n; i++)
		for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
			struct named_tensor* t = &table->item[i];
			if (repack_ends(t->name, kinds[k].suffix) && !has_inputs_last(t, &kinds[k], packing->inputs) &&
			    !repack_stack(table, t, &kinds[k], packing->gates_first, made, kept, error))
				return false;
		}
	return true;
}
