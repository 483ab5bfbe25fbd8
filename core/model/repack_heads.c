/* Converts recurrent blocks' maps whose rows are sorted by key head: it brings the rows of each part
 * together. It moves whole rows, so any type works. */
#include "core/model/repack.h"

#include <string.h>

/* The parts of a key head's rows in order, and the tensors that they go to. The last two parts may share one
 * tensor. */
static const struct kind {
	const char* suffix;
	bool beta_decay;
	const char *first, *second;
} kinds[] = {
    {"linear_attn.in_proj_qkvz.weight", false, "linear_attn.in_proj_qkv.weight",
     "linear_attn.in_proj_z.weight"},
    {"linear_attn.in_proj_ba.weight", true, "linear_attn.in_proj_b.weight", "linear_attn.in_proj_a.weight"},
    {".ssm_in.weight", false, ".attn_qkv.weight", ".attn_gate.weight"},
    {".ssm_ba.weight", true, ".ssm_beta.weight", ".ssm_alpha.weight"},
};

struct head_rows {
	const uint8_t* from;
	uint8_t* to;
	size_t bytes;    /* of a row */
	int heads;       /* key heads */
	int64_t of_head; /* rows of one, all parts */
};

/* Copies rows [at, at + n) of every key head, one head after another. */
static void bring_together(struct head_rows* r, int64_t at, int64_t n) {
	for (int64_t h = 0; h < r->heads; h++, r->to += (size_t)n * r->bytes)
		memcpy(r->to, r->from + (size_t)(h * r->of_head + at) * r->bytes, (size_t)n * r->bytes);
}

static bool add_part(struct tensor_table* made, const struct named_tensor* t, const struct kind* k,
                     const char* suffix, int64_t rows, const uint8_t* data, struct error* error) {
	char name[256];
	struct named_tensor part = *t;
	part.dim[0] = rows;
	part.data = data;
	part.bytes = (size_t)rows * dtype_row_bytes(t->type, t->dim[1]);
	part.used = false;
	return repack_add(made, repack_name(name, t->name, strlen(k->suffix), suffix), &part, error);
}

static bool repack_one(struct tensor_table* made, struct named_tensor* t, const struct kind* k,
                       const struct recurrence* r, struct kept* kept, struct error* error) {
	const int64_t values = r->value_heads / r->key_heads * (k->beta_decay ? 1 : r->value_dim);
	const int64_t of_head = 2 * values + (k->beta_decay ? 0 : 2 * r->key_dim), rows = r->key_heads * of_head;
	const int64_t first = rows - r->key_heads * values;
	if (!t->supported || t->n_dims != 2 || t->dim[0] != rows || dtype_row_bytes(t->type, t->dim[1]) == 0)
		return error_set(error,
		                 "%s: tensor %.120s is not a matrix of %lld rows, %lld for each of %d key heads",
		                 t->file, t->name, (long long)rows, (long long)of_head, r->key_heads);
	uint8_t* const data = repack_memory(kept, t, t->bytes, error);
	if (!data)
		return false;
	struct head_rows move = {t->data, data, dtype_row_bytes(t->type, t->dim[1]), r->key_heads, of_head};
	int64_t at = 0;
	for (int i = 0; i < 2 && !k->beta_decay; i++, at += r->key_dim)
		bring_together(&move, at, r->key_dim);
	bring_together(&move, at, values);
	bring_together(&move, at + values, values);
	t->used = true;
	return add_part(made, t, k, k->first, first, data, error) &&
	       add_part(made, t, k, k->second, rows - first, data + (size_t)first * move.bytes, error);
}

bool repack_heads(struct tensor_table* table, const struct recurrence* r, struct kept* kept,
                  struct error* error) {
	struct tensor_table made = {0};
	bool good = true;
	for (size_t i = 0; good && r->key_heads > 0 && !r->state_space && i < table->n; i++)
		for (size_t k = 0; good && k < sizeof kinds / sizeof *kinds; k++)
			if (repack_ends(table->item[i].name, kinds[k].suffix))
				good = repack_one(&made, &table->item[i], &kinds[k], r, kept, error);
	for (size_t i = 0; good && i < made.n; i++)
		good = repack_add(table, made.item[i].name, &made.item[i], error);
	const bool any = made.n > 0;
	tensor_table_free(&made);
	return good && (!any || tensor_table_seal(table, error));
}
