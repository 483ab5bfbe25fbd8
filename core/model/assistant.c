/* A drafter with files of its own that reads the keys, values and states of the model that it drafts for:
 * what Google publishes beside Gemma 4 as "assistant". It takes that model's embedding; its own is its head.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/bind.h"

/* ---- the head by groups --------------------------------------------------------------------- */

static int64_t token_at(const struct named_tensor* order, size_t i) {
	int64_t wide;
	int32_t narrow;
	if (strcmp(order->type_name, "I64") == 0) {
		memcpy(&wide, order->data + i * sizeof wide, sizeof wide);
		return wide;
	}
	memcpy(&narrow, order->data + i * sizeof narrow, sizeof narrow);
	return narrow;
}

/* (vocab) each token once; NULL with the error set. */
static int32_t* read_order(struct kept* kept, const struct named_tensor* order, int vocab,
                           struct error* error) {
	int32_t* token = repack_memory(kept, order, (size_t)vocab * sizeof *token, error);
	bool* seen = token ? calloc((size_t)vocab, sizeof *seen) : NULL;
	if (token && !seen)
		error_set(error, "out of memory for the order of %d tokens", vocab);
	bool good = seen != NULL;
	for (size_t i = 0; good && i < (size_t)vocab; i++) {
		const int64_t one = token_at(order, i);
		good = (one >= 0 && one < vocab && !seen[one]) ||
		       refuse_tensor(order, "a list that has each token once", error);
		if (good)
			seen[token[i] = (int32_t)one] = true;
	}
	free(seen);
	return good ? token : NULL;
}

bool assistant_group(struct model* model, struct named_tensor* order, int centroids, struct error* error) {
	struct weight_table* w = &model->weights;
	struct kept* kept = &model->owned->kept;
	const int vocab = w->shape.vocab;
	const size_t row = dtype_row_bytes(w->output.type, w->output.cols);
	if (!order)
		return error_set(error, "the order of tokens in the %d groups of the head is missing", centroids);
	if ((strcmp(order->type_name, "I64") != 0 && strcmp(order->type_name, "I32") != 0) ||
	    order->bytes != (size_t)vocab * (order->type_name[1] == '6' ? 8 : 4))
		return refuse_tensor(order, "a list of all tokens in I64 or I32", error);
	int32_t* const token = read_order(kept, order, vocab, error);
	unsigned char* const rows = token ? repack_memory(kept, order, (size_t)vocab * row, error) : NULL;
	if (!rows)
		return false;
	for (size_t i = 0; i < (size_t)vocab; i++)
		memcpy(rows + i * row, (const unsigned char*)w->output.data + (size_t)token[i] * row, row);
	order->used = true;
	w->token_order = token;
	w->output.data = rows;
	return true;
}

/* ---- the model that it drafts for ------------------------------------------------------------- */

/* Each kind of block finds keys of its size. */
static bool check_keys(const struct model* model, const struct model* target, struct error* error) {
	const struct model_shape *m = &model->weights.shape, *t = &target->weights.shape;
	for (int b = 0; b < m->n_blocks; b++) {
		const bool sliding = block_set_has(&m->sliding, b);
		const int from = last_keys(t, sliding);
		if (from < 0)
			return error_set(error, "%s: its block %d reads keys of a block with%s window, and %s has none",
			                 model->name, b, sliding ? " a" : "out", target->name);
		if (block_head_dim(m, b) != block_head_dim(t, from) ||
		    block_kv_heads(m, b) != block_kv_heads(t, from))
			return error_set(error,
			                 "%s: its block %d reads %d key/value heads of %d, and block %d of %s has %d of "
			                 "%d: it drafts for another model",
			                 model->name, b, block_kv_heads(m, b), block_head_dim(m, b), from, target->name,
			                 block_kv_heads(t, from), block_head_dim(t, from));
	}
	return true;
}

bool assistant_check(const struct model* model, const struct model* target, struct error* error) {
	const struct model_shape* m = &model->weights.shape;
	if (!target)
		return error_set(error,
		                 "%s drafts for Gemma 4 from the keys and values of that model's cache, and is no "
		                 "model by itself: give it as --draft-model",
		                 model->name);
	const struct model_shape* t = &target->weights.shape;
	if (!target->family || strncmp(target->family, "gemma4", 6) != 0)
		return error_set(error, "%s drafts for Gemma 4, and %s is of the family %s", model->name,
		                 target->name, target->family ? target->family : "synth");
	if (m->state_dim != t->dim || m->vocab != t->vocab)
		return error_set(error,
		                 "%s drafts for a model with states of %d elements and %d tokens, and %s has %d and "
		                 "%d: it drafts for another model",
		                 model->name, m->state_dim, m->vocab, target->name, t->dim, t->vocab);
	return check_keys(model, target, error);
}

void assistant_join(struct model* model, const struct model* target) {
	model->weights.embedding = target->weights.embedding;
	model->weights.shape.embedding_scale = target->weights.shape.embedding_scale;
}
