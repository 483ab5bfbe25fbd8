/* Names to weight table: the same for every format and family but for the names. */
#include "core/model/bind.h"

#include <stdio.h>
#include <stdlib.h>

struct binding {
	const struct config* config;
	const struct tensor_names* names;
	struct tensor_table* table;
	struct error* error;
	int block;
};

static bool take(const struct binding* b, const char* format, int64_t rows, int64_t cols,
                 struct tensor* out) {
	char name[96];
	/* Names come from our own tables: a block's name has its one %d, the others have none. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(name, sizeof name, format, b->block);
#pragma GCC diagnostic pop
	return tensor_table_take(b->table, name, rows, cols, out, b->error);
}

static bool bind_attention(const struct binding* b, struct block_weights* w) {
	const struct model_shape* m = &b->config->shape;
	const struct tensor_names* n = b->names;
	const int64_t q = (int64_t)m->heads * m->head_dim, kv = (int64_t)m->kv_heads * m->head_dim;
	if (b->config->fused) {
		struct tensor whole;
		if (!take(b, n->fused_qkv, q + 2 * kv, m->dim, &whole))
			return false;
		w->wq = tensor_rows(&whole, 0, q);
		w->wk = tensor_rows(&whole, q, kv);
		w->wv = tensor_rows(&whole, q + kv, kv);
	} else if (!take(b, n->wq, q, m->dim, &w->wq) || !take(b, n->wk, kv, m->dim, &w->wk) ||
	           !take(b, n->wv, kv, m->dim, &w->wv))
		return false;
	if (b->config->qkv_bias &&
	    (!take(b, n->bq, 1, q, &w->bq) || !take(b, n->bk, 1, kv, &w->bk) || !take(b, n->bv, 1, kv, &w->bv)))
		return false;
	if (b->config->qk_norm &&
	    (!take(b, n->q_norm, 1, m->head_dim, &w->q_norm) || !take(b, n->k_norm, 1, m->head_dim, &w->k_norm)))
		return false;
	return take(b, n->wo, m->dim, q, &w->wo) &&
	       (!b->config->output_bias || take(b, n->bo, 1, m->dim, &w->bo));
}

static bool bind_mlp(const struct binding* b, struct block_weights* w) {
	const struct model_shape* m = &b->config->shape;
	const struct tensor_names* n = b->names;
	if (b->config->fused) {
		struct tensor whole;
		if (!take(b, n->fused_gate_up, 2 * (int64_t)m->ffn, m->dim, &whole))
			return false;
		w->w_gate = tensor_rows(&whole, 0, m->ffn);
		w->w_up = tensor_rows(&whole, m->ffn, m->ffn);
	} else if (!take(b, n->w_gate, m->ffn, m->dim, &w->w_gate) || !take(b, n->w_up, m->ffn, m->dim, &w->w_up))
		return false;
	if (b->config->mlp_bias &&
	    (!take(b, n->b_gate, 1, m->ffn, &w->b_gate) || !take(b, n->b_up, 1, m->ffn, &w->b_up) ||
	     !take(b, n->b_down, 1, m->dim, &w->b_down)))
		return false;
	return take(b, n->w_down, m->dim, m->ffn, &w->w_down);
}

static bool bind_block(const struct binding* b, struct block_weights* w) {
	const struct tensor_names* n = b->names;
	const int dim = b->config->shape.dim;
	if (b->config->post_norms && (!take(b, n->post_attention_norm, 1, dim, &w->post_attention_norm) ||
	                              !take(b, n->post_mlp_norm, 1, dim, &w->post_mlp_norm)))
		return false;
	return take(b, n->attention_norm, 1, dim, &w->attention_norm) &&
	       take(b, n->mlp_norm, 1, dim, &w->mlp_norm) && bind_attention(b, w) && bind_mlp(b, w);
}

bool bind_weights(struct weight_table* weights, struct block_weights** blocks, const struct config* config,
                  const struct tensor_names* names, struct tensor_table* table, struct error* error) {
	struct binding b = {config, names, table, error, 0};
	const struct model_shape* m = &config->shape;
	weights->shape = *m;
	*blocks = calloc((size_t)m->n_blocks, sizeof **blocks);
	if (!*blocks)
		return error_set(error, "out of memory for %d blocks", m->n_blocks);
	weights->block = *blocks;
	if (!take(&b, names->embedding, m->vocab, m->dim, &weights->embedding) ||
	    !take(&b, names->output_norm, 1, m->dim, &weights->output_norm))
		return false;
	/* A tied model may carry its head all the same; it is then a copy that transformers does not read. */
	if (config->tied) {
		struct named_tensor* copy = tensor_table_find(table, names->output);
		if (copy)
			copy->used = true;
		weights->output = weights->embedding;
	} else if (!take(&b, names->output, m->vocab, m->dim, &weights->output))
		return false;
	for (b.block = 0; b.block < m->n_blocks; b.block++)
		if (!bind_block(&b, &(*blocks)[b.block]))
			return false;
	return true;
}

enum dtype bind_main_type(const struct tensor_table* table) {
	size_t bytes[DTYPE_COUNT] = {0};
	enum dtype most = DTYPE_F32;
	for (size_t i = 0; i < table->n; i++)
		if (table->item[i].used && table->item[i].supported)
			bytes[table->item[i].type] += table->item[i].bytes;
	for (int i = 0; i < DTYPE_COUNT; i++)
		if (bytes[i] > bytes[most])
			most = (enum dtype)i;
	return most;
}

double bind_parameters(const struct tensor_table* table) {
	double parameters = 0;
	for (size_t i = 0; i < table->n; i++)
		if (table->item[i].used) {
			double elements = 1;
			for (int d = 0; d < table->item[i].n_dims; d++)
				elements *= (double)table->item[i].dim[d];
			parameters += elements;
		}
	return parameters;
}
