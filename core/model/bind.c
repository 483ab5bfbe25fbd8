/* Fills the weight table by tensor names. Formats and families differ only in the names. */
#include "core/model/bind.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text/tokenizer.h"
#include "kernels/dtype_blocks.h"

struct binding {
	const struct config* config;
	const struct tensor_names* names;
	struct tensor_table* table;
	struct kept* kept;
	struct error* error;
	int block, expert; /* NO_BLOCK: the names are no block's */
	bool in_mlp;       /* names are those of the block's MLP */
};

enum { NAME_SIZE = 160, NO_BLOCK = -1 };

/* The number in a block's names. */
static int layer_of(const struct binding* b) {
	const struct config* c = b->config;
	if (b->block != NO_BLOCK && c->family->paired)
		return b->block / 2;
	if (b->block == NO_BLOCK || !c->family->single_mixers)
		return b->block;
	return b->in_mlp ? c->mlp_layer[b->block] : c->mixer_layer[b->block];
}

/* Writes a full name. The format strings are our own: a block's has one %d, an expert's has another. */
static const char* in_full(const struct binding* b, const char* name, const char* suffix,
                           char out[NAME_SIZE]) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	const int used = b->block == NO_BLOCK ? 0 : snprintf(out, NAME_SIZE, b->names->block, layer_of(b));
	const int more = snprintf(out + used, (size_t)(NAME_SIZE - used), name, b->expert);
#pragma GCC diagnostic pop
	snprintf(out + used + more, (size_t)(NAME_SIZE - used - more), "%s", suffix);
	return out;
}

static bool take_tensor(const struct binding* b, const char* name, const char* suffix, int64_t rows,
                        int64_t cols, struct tensor* out) {
	char full[NAME_SIZE];
	return tensor_table_take(b->table, in_full(b, name, suffix, full), rows, cols, out, b->error);
}

static bool bind_matrix(const struct binding* b, const char* name, int64_t rows, int64_t cols,
                        struct tensor* out) {
	return take_tensor(b, name, ".weight", rows, cols, out);
}

static bool bind_vector(const struct binding* b, const char* name, const char* suffix, int64_t n,
                        struct tensor* out) {
	return take_tensor(b, name, suffix, 1, n, out);
}

/* Files may hold keys and values of blocks that do not read them (Gemma 4). */
static void excuse_keys(const struct binding* b) {
	const struct tensor_names* n = b->names;
	const char* const name[] = {n->wk, n->wv, n->k_norm};
	for (size_t i = 0; i < 2 * sizeof name / sizeof *name; i++) {
		char full[NAME_SIZE];
		struct named_tensor* t =
		    tensor_table_find(b->table, in_full(b, name[i / 2], i % 2 ? ".bias" : ".weight", full));
		if (t)
			t->used = true;
	}
}

static bool reads_own_values(const struct binding* b) {
	return !b->config->keys_as_values || block_set_has(&b->config->shape.sliding, b->block);
}

/* Queries with their gates, which a file holds apart: for each head the rows of both. */
static bool bind_gated_queries(const struct binding* b, int64_t q, struct tensor* out) {
	const struct model_shape* m = &b->config->shape;
	struct tensor of[2];
	if (!bind_matrix(b, b->names->wq, q, m->dim, &of[0]) ||
	    !bind_matrix(b, b->names->attention_gate, q, m->dim, &of[1]))
		return false;
	if (of[0].type != of[1].type)
		return error_set(b->error,
		                 "block %d's queries are of type %s and their gates of %s, expected one type",
		                 b->block, dtype_name(of[0].type), dtype_name(of[1].type));
	const size_t bytes = (size_t)m->head_dim * dtype_row_bytes(of[0].type, m->dim);
	unsigned char* data = kept_new(b->kept, 2 * (size_t)m->heads * bytes);
	if (!data)
		return error_set(b->error, "out of memory for the queries and gates of block %d", b->block);
	for (size_t h = 0; h < 2 * (size_t)m->heads; h++)
		memcpy(data + h * bytes, (const unsigned char*)of[h % 2].data + h / 2 * bytes, bytes);
	*out = (struct tensor){.type = of[0].type, .rows = 2 * q, .cols = m->dim, .data = data};
	return true;
}

static bool bind_qkv(const struct binding* b, struct block_weights* w, bool keys, int64_t q, int64_t kv) {
	const struct tensor_names* n = b->names;
	const int dim = b->config->shape.dim;
	struct tensor whole;
	if (!b->config->family->fused_qkv)
		return (n->attention_gate ? bind_gated_queries(b, q / 2, &w->wq)
		                          : bind_matrix(b, n->wq, q, dim, &w->wq)) &&
		       (!keys || bind_matrix(b, n->wk, kv, dim, &w->wk)) &&
		       (!keys || !reads_own_values(b) || bind_matrix(b, n->wv, kv, dim, &w->wv));
	if (!bind_matrix(b, n->fused_qkv, q + 2 * kv, dim, &whole))
		return false;
	w->wq = tensor_rows(&whole, 0, q);
	w->wk = tensor_rows(&whole, q, kv);
	w->wv = tensor_rows(&whole, q + kv, kv);
	return true;
}

/* ---- latent attention --------------------------------------------------------------------- */

/* A new matrix for rows that are copied out of another one. The model owns its memory. */
static void* new_matrix(const struct binding* b, enum dtype type, int64_t rows, int64_t cols,
                        struct tensor* out) {
	void* data = kept_new(b->kept, (size_t)rows * dtype_row_bytes(type, cols));
	*out = (struct tensor){.type = type, .rows = rows, .cols = cols, .data = data};
	if (!data)
		error_set(b->error, "out of memory for %s of block %d, taken apart", b->names->kv_up, b->block);
	return data;
}

/* kv_up (heads·(nope + value), latent) holds a head's key map over its value map. The first is turned round,
 * so that it maps a query, in the type that it has, or F16; the second is copied. */
static bool take_apart(const struct binding* b, const struct tensor* whole, struct block_weights* w) {
	const struct model_shape* m = &b->config->shape;
	const int64_t nope = m->nope_dim, value = m->value_dim, latent = m->latent;
	const enum dtype type = dtype_block(whole->type) == 1 ? whole->type : DTYPE_F16;
	const size_t row = dtype_row_bytes(whole->type, latent);
	float* x = malloc((size_t)latent * sizeof *x);
	void* absorb = new_matrix(b, type, m->heads * latent, nope, &w->absorb);
	unsigned char* values = new_matrix(b, whole->type, m->heads * value, latent, &w->wv);
	const bool good = x && absorb && values;
	for (int64_t h = 0; good && h < m->heads; h++) {
		const unsigned char* from = (const unsigned char*)whole->data + (size_t)(h * (nope + value)) * row;
		for (int64_t i = 0; i < nope; i++) {
			dtype_to_float(whole->type, from + (size_t)i * row, x, latent);
			for (int64_t j = 0; j < latent; j++)
				dtype_put(type, absorb, (h * latent + j) * nope + i, x[j]);
		}
		memcpy(values + (size_t)(h * value) * row, from + (size_t)nope * row, (size_t)value * row);
	}
	free(x);
	return good;
}

static bool bind_latent_queries(const struct binding* b, struct block_weights* w, int64_t queries) {
	const struct model_shape* m = &b->config->shape;
	const struct tensor_names* n = b->names;
	if (m->query_latent == 0)
		return bind_matrix(b, n->wq, queries, m->dim, &w->wq);
	return bind_matrix(b, n->query_down, m->query_latent, m->dim, &w->wq_a) &&
	       (!b->config->qkv_bias || bind_vector(b, n->query_down, ".bias", m->query_latent, &w->bq_a)) &&
	       bind_vector(b, n->query_down_norm, ".weight", m->query_latent, &w->q_a_norm) &&
	       bind_matrix(b, n->query_up, queries, m->query_latent, &w->wq);
}

static bool bind_latent_values(const struct binding* b, struct block_weights* w) {
	const struct model_shape* m = &b->config->shape;
	const struct tensor_names* n = b->names;
	char full[NAME_SIZE];
	struct tensor whole;
	if (!n->key_up)
		return bind_matrix(b, n->kv_up, (int64_t)m->heads * (m->nope_dim + m->value_dim), m->latent,
		                   &whole) &&
		       take_apart(b, &whole, w);
	return tensor_table_take_stack(b->table, in_full(b, n->key_up, ".weight", full), m->heads, m->latent,
	                               m->nope_dim, &w->absorb, b->error) &&
	       tensor_table_take_stack(b->table, in_full(b, n->value_up, ".weight", full), m->heads, m->value_dim,
	                               m->latent, &w->wv, b->error);
}

static bool bind_latent(const struct binding* b, struct block_weights* w) {
	const struct model_shape* m = &b->config->shape;
	const struct tensor_names* n = b->names;
	return bind_latent_queries(b, w, (int64_t)m->heads * (m->nope_dim + m->rope.dim)) &&
	       bind_matrix(b, n->kv_down, m->head_dim, m->dim, &w->wk) &&
	       (!b->config->qkv_bias || bind_vector(b, n->kv_down, ".bias", m->head_dim, &w->bk)) &&
	       bind_vector(b, n->kv_down_norm, ".weight", m->latent, &w->k_norm) && bind_latent_values(b, w) &&
	       bind_matrix(b, n->wo, m->dim, (int64_t)m->heads * m->value_dim, &w->wo) &&
	       (!b->config->output_bias || bind_vector(b, n->wo, ".bias", m->dim, &w->bo));
}

/* ---- recurrent blocks --- */

/* Stores the convolution's weights as one vector. */
static bool bind_convolution(const struct binding* b, struct tensor* out) {
	const struct recurrence* r = &b->config->shape.recurrence;
	const int64_t channels = recurrence_channels(r);
	char full[NAME_SIZE];
	const char* name = in_full(b, b->names->convolution, ".weight", full);
	if (!(b->names->flat_convolution
	          ? tensor_table_take(b->table, name, channels, r->kernel, out, b->error)
	          : tensor_table_take_stack(b->table, name, channels, 1, r->kernel, out, b->error)))
		return false;
	if (dtype_block(out->type) != 1)
		return error_set(b->error, "tensor %.120s is of type %s; floats are expected", name,
		                 dtype_name(out->type));
	out->cols *= out->rows;
	out->rows = 1;
	return true;
}

/* (rows, cols) or a vector of as many elements, taken as a vector. */
static bool flat_vector(const struct binding* b, const char* name, const char* suffix, int64_t rows,
                        int64_t cols, struct tensor* out) {
	char full[NAME_SIZE];
	const struct named_tensor* t = tensor_table_find(b->table, in_full(b, name, suffix, full));
	const bool flat = !t || t->n_dims < 2;
	if (!take_tensor(b, name, suffix, flat ? 1 : rows, flat ? rows * cols : cols, out))
		return false;
	if (!flat && dtype_block(out->type) != 1)
		return error_set(b->error, "tensor %.120s is of type %s; floats are expected", full,
		                 dtype_name(out->type));
	out->cols *= out->rows;
	out->rows = 1;
	return true;
}

/* Mamba-2's input map has the rows of the gate, the convolution's channels and the steps. */
static bool bind_state_space(const struct binding* b, struct block_weights* w) {
	const struct model_shape* m = &b->config->shape;
	const struct recurrence* r = &m->recurrence;
	const struct tensor_names* n = b->names;
	const int64_t values = recurrence_values(r), channels = recurrence_channels(r), heads = r->value_heads;
	struct tensor whole;
	if (!bind_matrix(b, n->recurrent_in, values + channels + heads, m->dim, &whole))
		return false;
	w->wk = tensor_rows(&whole, 0, values);
	w->wq = tensor_rows(&whole, values, channels);
	w->w_decay = tensor_rows(&whole, values + channels, heads);
	return bind_matrix(b, n->recurrent_out, m->dim, values, &w->wo) && bind_convolution(b, &w->convolution) &&
	       (!b->config->convolution_bias ||
	        bind_vector(b, n->convolution, ".bias", channels, &w->convolution_bias)) &&
	       (b->config->no_state_norm ||
	        flat_vector(b, n->state_norm, ".weight", r->key_heads, values / r->key_heads, &w->state_norm)) &&
	       bind_vector(b, n->decay_bias, "", heads, &w->decay_bias) &&
	       flat_vector(b, n->decay_rate, "", heads, 1, &w->decay_rate) &&
	       flat_vector(b, n->state_skip, "", heads, 1, &w->state_skip);
}

static bool bind_recurrent(const struct binding* b, struct block_weights* w) {
	const struct model_shape* m = &b->config->shape;
	const struct recurrence* r = &m->recurrence;
	const struct tensor_names* n = b->names;
	if (r->state_space)
		return bind_state_space(b, w);
	if (r->key_dim == 0) /* a short convolution */
		return bind_matrix(b, n->recurrent_in, 3 * (int64_t)m->dim, m->dim, &w->wq) &&
		       bind_matrix(b, n->recurrent_out, m->dim, m->dim, &w->wo) &&
		       bind_convolution(b, &w->convolution);
	return bind_matrix(b, n->recurrent_in, recurrence_channels(r), m->dim, &w->wq) &&
	       bind_matrix(b, n->recurrent_gate, recurrence_values(r), m->dim, &w->wk) &&
	       bind_matrix(b, n->recurrent_beta, r->value_heads, m->dim, &w->w_beta) &&
	       bind_matrix(b, n->recurrent_decay, r->value_heads, m->dim, &w->w_decay) &&
	       bind_matrix(b, n->recurrent_out, m->dim, recurrence_values(r), &w->wo) &&
	       bind_convolution(b, &w->convolution) &&
	       bind_vector(b, n->state_norm, ".weight", r->value_dim, &w->state_norm) &&
	       bind_vector(b, n->decay_bias, "", r->value_heads, &w->decay_bias) &&
	       bind_vector(b, n->decay_rate, "", r->value_heads, &w->decay_rate);
}

/* Norms of queries and keys that the file has no weights for: all are 1. */
static bool make_head_norms(const struct binding* b, struct block_weights* w) {
	const int n = b->config->shape.head_dim;
	float* ones = kept_new(b->kept, (size_t)n * sizeof *ones);
	if (!ones)
		return error_set(b->error, "out of memory for the norms of block %d", b->block);
	for (int i = 0; i < n; i++)
		ones[i] = 1;
	w->q_norm = w->k_norm = (struct tensor){.type = DTYPE_F32, .rows = 1, .cols = n, .data = ones};
	return true;
}

/* A norm with weights for each of `heads` heads, which files stack, or hold by the head's number. */
static bool bind_norms_by_head(const struct binding* b, const char* name, int heads, struct tensor* out) {
	const int head_dim = b->config->shape.head_dim;
	struct binding at = *b;
	if (!strchr(name, '%'))
		return flat_vector(b, name, ".weight", heads, head_dim, out);
	float* joined = kept_new(b->kept, (size_t)heads * (size_t)head_dim * sizeof *joined);
	if (!joined)
		return error_set(b->error, "out of memory for the norms of block %d", b->block);
	for (at.expert = 0; at.expert < heads; at.expert++) {
		struct tensor one;
		if (!bind_vector(&at, name, ".weight", head_dim, &one))
			return false;
		dtype_to_float(one.type, one.data, joined + (size_t)at.expert * (size_t)head_dim, head_dim);
	}
	*out = (struct tensor){.type = DTYPE_F32, .rows = 1, .cols = (int64_t)heads * head_dim, .data = joined};
	return true;
}

static bool bind_attention(const struct binding* b, struct block_weights* w) {
	const struct model_shape* m = &b->config->shape;
	const struct tensor_names* n = b->names;
	const int head_dim = block_head_dim(m, b->block);
	const int64_t q = (int64_t)m->heads * head_dim, kv = (int64_t)block_kv_heads(m, b->block) * head_dim;
	const bool keys = block_keys_of(m, b->block) == b->block;
	const enum head_norm norm = b->config->head_norms ? HEAD_NORM_EACH : b->config->family->head_norm;
	const bool all = norm == HEAD_NORM_ALL;
	const int64_t wide = m->attention_gated ? 2 * q : q;
	if (m->latent)
		return bind_latent(b, w);
	if (block_set_has(&m->recurrent, b->block))
		return bind_recurrent(b, w);
	if (!bind_qkv(b, w, keys, wide, kv))
		return false;
	if (!keys)
		excuse_keys(b);
	if (b->config->qkv_bias && (!bind_vector(b, n->wq, ".bias", wide, &w->bq) ||
	                            (keys && !bind_vector(b, n->wk, ".bias", kv, &w->bk)) ||
	                            (keys && reads_own_values(b) && !bind_vector(b, n->wv, ".bias", kv, &w->bv))))
		return false;
	if (m->norms_by_head && (!bind_norms_by_head(b, n->q_norm, m->heads, &w->q_norm) ||
	                         !bind_norms_by_head(b, n->k_norm, m->kv_heads, &w->k_norm)))
		return false;
	if (norm != HEAD_NORM_NONE &&
	    (!bind_vector(b, n->q_norm, ".weight", all ? q : head_dim, &w->q_norm) ||
	     (keys && !bind_vector(b, n->k_norm, ".weight", all ? kv : head_dim, &w->k_norm))))
		return false;
	if (b->config->plain_head_norms && !block_set_has(&m->unrotated, b->block) && !make_head_norms(b, w))
		return false;
	if (b->config->family->sinks && !bind_vector(b, n->sinks, "", m->heads, &w->sinks))
		return false;
	return bind_matrix(b, n->wo, m->dim, q, &w->wo) &&
	       (!b->config->output_bias || bind_vector(b, n->wo, ".bias", m->dim, &w->bo));
}

static bool bind_number(const struct binding* b, const char* name, float* out) {
	struct tensor t;
	if (!bind_vector(b, name, "", 1, &t))
		return false;
	dtype_to_float(t.type, t.data, out, 1);
	return true;
}

static float softplus(float x) { return x > 20 ? x : log1pf(expf(x)); }

/* A block's xIELU parameters are stored as they were trained. The multipliers are computed from them here. */
static bool bind_xielu(const struct binding* b, struct xielu* x) {
	const struct tensor_names* n = b->names;
	if (!n->xielu_positive) /* GGUF: metadata had them */
		*x = b->config->xielu[b->block];
	else if (!bind_number(b, n->xielu_positive, &x->positive) ||
	         !bind_number(b, n->xielu_negative, &x->negative) || !bind_number(b, n->xielu_beta, &x->beta) ||
	         !bind_number(b, n->xielu_epsilon, &x->epsilon))
		return false;
	x->positive = softplus(x->positive);
	x->negative = x->beta + softplus(x->negative);
	return true;
}

/* Down · f(up · x). */
static bool bind_ungated(const struct binding* b, struct block_weights* w) {
	const struct model_shape* m = &b->config->shape;
	const struct tensor_names* n = b->names;
	if (m->activation == ACTIVATION_XIELU && !bind_xielu(b, &w->xielu))
		return false;
	return bind_matrix(b, n->w_up, m->ffn, m->dim, &w->w_gate) &&
	       bind_matrix(b, n->w_down, m->dim, m->ffn, &w->w_down) &&
	       (!b->config->mlp_bias || (bind_vector(b, n->w_up, ".bias", m->ffn, &w->b_gate) &&
	                                 bind_vector(b, n->w_down, ".bias", m->dim, &w->b_down)));
}

static bool bind_mlp(const struct binding* b, struct block_weights* w) {
	const struct model_shape* m = &b->config->shape;
	const struct tensor_names* n = b->names;
	const int ffn = b->config->ffn[b->block] ? b->config->ffn[b->block] : m->ffn;
	if (b->config->family->ungated)
		return bind_ungated(b, w);
	if (b->config->family->fused_gate_up && n->fused_gate_up) {
		struct tensor whole;
		if (!bind_matrix(b, n->fused_gate_up, 2 * (int64_t)ffn, m->dim, &whole))
			return false;
		w->w_gate = tensor_rows(&whole, 0, ffn);
		w->w_up = tensor_rows(&whole, ffn, ffn);
	} else if (!bind_matrix(b, n->w_gate, ffn, m->dim, &w->w_gate) ||
	           !bind_matrix(b, n->w_up, ffn, m->dim, &w->w_up))
		return false;
	if (b->config->mlp_bias && (!bind_vector(b, n->w_gate, ".bias", ffn, &w->b_gate) ||
	                            !bind_vector(b, n->w_up, ".bias", ffn, &w->b_up) ||
	                            !bind_vector(b, n->w_down, ".bias", m->dim, &w->b_down)))
		return false;
	return bind_matrix(b, n->w_down, m->dim, ffn, &w->w_down);
}

/* ---- experts ------------------------------------------------------------------------------- */

static bool take_stack(const struct binding* b, const char* name, int64_t rows, int64_t cols,
                       struct tensor* out) {
	char full[NAME_SIZE];
	return tensor_table_take_stack(b->table, in_full(b, name, ".weight", full), b->config->shape.n_experts,
	                               rows, cols, out, b->error);
}

/* True when the block's experts are stored as two stacks, the first with gate and up together. */
static bool has_fused_experts(const struct binding* b) {
	char full[NAME_SIZE];
	const struct named_tensor* both =
	    b->names->stacked_gate_up
	        ? tensor_table_find(b->table, in_full(b, b->names->stacked_gate_up, "", full))
	        : NULL;
	return both && !both->used; /* else it was converted */
}

static bool bind_fused_experts(const struct binding* b, struct expert* expert) {
	const struct model_shape* m = &b->config->shape;
	const int64_t ffn = m->expert_ffn;
	struct tensor gate_up, down;
	char full[NAME_SIZE];
	if (!tensor_table_take_stack(b->table, in_full(b, b->names->stacked_gate_up, "", full), m->n_experts,
	                             2 * ffn, m->dim, &gate_up, b->error) ||
	    !tensor_table_take_stack(b->table, in_full(b, b->names->stacked_down_beside, "", full), m->n_experts,
	                             m->dim, ffn, &down, b->error))
		return false;
	for (int64_t e = 0; e < m->n_experts; e++)
		expert[e] = (struct expert){.w_gate = tensor_rows(&gate_up, 2 * e * ffn, ffn),
		                            .w_up = tensor_rows(&gate_up, (2 * e + 1) * ffn, ffn),
		                            .w_down = tensor_rows(&down, e * m->dim, m->dim)};
	return true;
}

static bool bind_stacked(const struct binding* b, struct expert* expert) {
	const struct model_shape* m = &b->config->shape;
	const bool gated = !b->config->family->ungated;
	struct tensor gate, up, down;
	if ((gated && !take_stack(b, b->names->stacked_gate, m->expert_ffn, m->dim, &gate)) ||
	    !take_stack(b, b->names->stacked_up, m->expert_ffn, m->dim, &up) ||
	    !take_stack(b, b->names->stacked_down, m->dim, m->expert_ffn, &down))
		return false;
	for (int64_t e = 0; e < m->n_experts; e++) {
		expert[e] =
		    (struct expert){.w_gate = tensor_rows(gated ? &gate : &up, e * m->expert_ffn, m->expert_ffn),
		                    .w_down = tensor_rows(&down, e * m->dim, m->dim)};
		if (gated)
			expert[e].w_up = tensor_rows(&up, e * m->expert_ffn, m->expert_ffn);
	}
	return true;
}

/* (experts, n) seen as one vector. */
static bool take_expert_bias(const struct binding* b, const char* name, int64_t n, struct tensor* out) {
	if (!take_tensor(b, name, ".bias", b->config->shape.n_experts, n, out))
		return false;
	out->cols *= out->rows;
	out->rows = 1;
	return true;
}

static bool bind_expert_biases(const struct binding* b, struct block_weights* w) {
	const struct model_shape* m = &b->config->shape;
	const struct tensor_names* n = b->names;
	return bind_vector(b, n->router_bias, "", m->n_experts, &w->router_bias) &&
	       take_expert_bias(b, n->stacked_gate, m->expert_ffn, &w->expert_gate_bias) &&
	       take_expert_bias(b, n->stacked_up, m->expert_ffn, &w->expert_up_bias) &&
	       take_expert_bias(b, n->stacked_down, m->dim, &w->expert_down_bias);
}

static bool bind_shared_gate_up(const struct binding* b, struct block_weights* w) {
	const struct model_shape* m = &b->config->shape;
	const struct tensor_names* n = b->names;
	struct tensor both;
	if (b->config->family->ungated)
		return bind_matrix(b, n->shared_up, m->shared_ffn, m->dim, &w->w_gate);
	if (n->shared_gate_proj)
		return bind_matrix(b, n->shared_gate_proj, m->shared_ffn, m->dim, &w->w_gate) &&
		       bind_matrix(b, n->shared_up, m->shared_ffn, m->dim, &w->w_up);
	if (!bind_matrix(b, n->shared_up, 2 * (int64_t)m->shared_ffn, m->dim, &both))
		return false;
	w->w_gate = tensor_rows(&both, 0, m->shared_ffn);
	w->w_up = tensor_rows(&both, m->shared_ffn, m->shared_ffn);
	return true;
}

static bool bind_shared(const struct binding* b, struct block_weights* w) {
	const struct model_shape* m = &b->config->shape;
	const struct tensor_names* n = b->names;
	return !m->shared_ffn ||
	       (bind_shared_gate_up(b, w) && bind_matrix(b, n->shared_down, m->dim, m->shared_ffn, &w->w_down) &&
	        (!n->shared_gate || bind_vector(b, n->shared_gate, ".weight", m->dim, &w->shared_gate)));
}

/* Binds Gemma 4's experts, which stand beside an MLP and have norms of their own. */
static bool bind_experts_beside(const struct binding* b, struct block_weights* w, struct expert* expert) {
	const struct model_shape* m = &b->config->shape;
	const struct tensor_names* n = b->names;
	w->expert = expert;
	return bind_mlp(b, w) && take_tensor(b, n->router, "", m->n_experts, m->dim, &w->router) &&
	       bind_vector(b, n->router_norm, "", m->dim, &w->router_norm) &&
	       bind_vector(b, n->expert_scale, "", m->n_experts, &w->expert_scale) &&
	       bind_vector(b, n->expert_norm, ".weight", m->dim, &w->expert_norm) &&
	       bind_vector(b, n->post_dense_norm, ".weight", m->dim, &w->post_dense_norm) &&
	       bind_vector(b, n->post_expert_norm, ".weight", m->dim, &w->post_expert_norm) &&
	       (has_fused_experts(b) ? bind_fused_experts(b, expert) : bind_stacked(b, expert));
}

static bool bind_experts(struct binding* b, struct block_weights* w, struct expert* expert) {
	const struct model_shape* m = &b->config->shape;
	const struct tensor_names* n = b->names;
	if (b->config->family->special == SPECIAL_GEMMA4)
		return bind_experts_beside(b, w, expert);
	w->expert = expert;
	if (!take_tensor(b, n->router, "", m->n_experts, m->dim, &w->router) ||
	    (b->config->family->expert_biases && !bind_expert_biases(b, w)) ||
	    (n->choice_bias && !b->config->no_choice_bias &&
	     !bind_vector(b, n->choice_bias, "", m->n_experts, &w->choice_bias)) ||
	    !bind_shared(b, w))
		return false;
	if (has_fused_experts(b))
		return bind_fused_experts(b, expert);
	const bool gated = !b->config->family->ungated;
	if (!n->expert_up)
		return bind_stacked(b, expert);
	for (b->expert = 0; b->expert < m->n_experts; b->expert++) {
		struct expert* e = &expert[b->expert];
		if ((gated && !take_tensor(b, n->expert_gate, "", m->expert_ffn, m->dim, &e->w_gate)) ||
		    !take_tensor(b, n->expert_up, "", m->expert_ffn, m->dim, gated ? &e->w_up : &e->w_gate) ||
		    !take_tensor(b, n->expert_down, "", m->dim, m->expert_ffn, &e->w_down))
			return false;
	}
	return true;
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* Leaves a norm absent that the family does not have. Falcon-H1's GGUFs name one without ".weight". */
static bool bind_norm(const struct binding* b, const char* name, struct tensor* weight, struct tensor* bias) {
	const int dim = b->config->shape.dim;
	char full[NAME_SIZE];
	const bool bare = name && tensor_table_find(b->table, in_full(b, name, "", full));
	return !name || (bind_vector(b, name, bare ? "" : ".weight", dim, weight) &&
	                 (!bias || b->config->shape.norm != NORM_LAYER || b->config->family->norm_without_bias ||
	                  bind_vector(b, name, ".bias", dim, bias)));
}

static bool bind_attention_norms(const struct binding* b, struct block_weights* w) {
	const struct tensor_names* n = b->names;
	if (block_set_has(&b->config->shape.beside_recurrence, b->block))
		return true;
	return bind_norm(b, n->attention_norm, &w->attention_norm, &w->attention_norm_bias) &&
	       bind_norm(b, n->post_attention_norm, &w->post_attention_norm, NULL);
}

static bool bind_mlp_norms(const struct binding* b, struct block_weights* w) {
	const struct tensor_names* n = b->names;
	if (b->config->shape.parallel)
		return true;
	return bind_norm(b, n->mlp_norm, &w->mlp_norm, &w->mlp_norm_bias) &&
	       bind_norm(b, n->post_mlp_norm, &w->post_mlp_norm, NULL);
}

/* A tied model uses its embedding as the head. If its files hold a head that differs from the embedding, that
 * is the head, as in transformers 5. If they hold the same numbers twice, the second is ignored. */
static bool bind_tied_head(const struct binding* b, struct model* model) {
	struct weight_table* w = &model->weights;
	struct named_tensor* head = tensor_table_find(b->table, b->names->output);
	w->output = w->embedding;
	if (!head)
		return true;
	struct named_tensor* embedding = tensor_table_find(b->table, b->names->embedding);
	if (head->type == embedding->type && head->bytes == embedding->bytes &&
	    memcmp(head->data, embedding->data, head->bytes) == 0) {
		head->used = true;
		return true;
	}
	snprintf(
	    model->warning, sizeof model->warning,
	    "%.300s: tie_word_embeddings is true, but %s is stored and is not the embedding: the stored head is "
	    "used",
	    head->file, b->names->output);
	return take_tensor(b, b->names->output, "", w->shape.vocab, w->shape.dim, &w->output);
}

static bool bind_ends(const struct binding* b, struct model* model) {
	struct weight_table* w = &model->weights;
	const struct model_shape* m = &w->shape;
	const struct tensor_names* n = b->names;
	const bool tied =
	    b->config->tied || (b->config->tied_if_absent && !tensor_table_find(b->table, n->output));
	return take_tensor(b, n->embedding, "", m->vocab, m->dim, &w->embedding) &&
	       bind_norm(b, n->output_norm, &w->output_norm, &w->output_norm_bias) &&
	       (tied ? bind_tied_head(b, model) : take_tensor(b, n->output, "", m->vocab, m->dim, &w->output)) &&
	       (!b->config->head_bias || bind_vector(b, n->output_bias, "", m->vocab, &w->output_bias));
}

/* The parts of a drafter that reads another model's keys. */
static bool bind_assistant(const struct binding* b, struct model* model) {
	struct weight_table* w = &model->weights;
	const struct model_shape* m = &w->shape;
	const struct tensor_names* n = b->names;
	const int centroids = b->config->centroids;
	if (!m->keys_outside)
		return true;
	return bind_matrix(b, n->outside_join, m->dim, 2 * (int64_t)m->state_dim, &w->join) &&
	       bind_matrix(b, n->outside_leave, m->state_dim, m->dim, &w->leave) &&
	       (centroids == 0 ||
	        (bind_matrix(b, n->centroids, centroids, m->dim, &w->centroids) &&
	         assistant_group(model, tensor_table_find(b->table, n->token_order), centroids, b->error)));
}

/* The parts of the per-token inputs (Gemma 4) that all blocks share… */
static bool bind_token_inputs(const struct binding* b, struct weight_table* w) {
	const struct model_shape* m = &b->config->shape;
	const struct tensor_names* n = b->names;
	const int64_t all = (int64_t)m->n_blocks * m->token_input;
	const int rows = b->config->input_vocab ? b->config->input_vocab : m->vocab;
	if (!m->token_input)
		return true;
	if (rows < m->vocab && m->altup == 0) /* Gemma 3n reads row 0 of the others */
		return error_set(b->error, "%s has %d rows, fewer than the vocabulary's %d", n->input_embedding, rows,
		                 m->vocab);
	if (!take_tensor(b, n->input_embedding, "", rows, all, &w->input_embedding))
		return false;
	w->input_embedding.rows = rows < m->vocab ? rows : m->vocab;
	return take_tensor(b, n->input_projection, "", all, m->dim, &w->input_projection) &&
	       bind_vector(b, n->input_projection_norm, ".weight", m->token_input, &w->input_projection_norm);
}

/* The maps of the embedding to a row's other states and back (Gemma 3n), one tensor each or all in one. */
static bool bind_altup_maps(const struct binding* b, const char* name, struct tensor out[MOST_ALTUP]) {
	const struct model_shape* m = &b->config->shape;
	struct tensor whole;
	struct binding at = *b;
	char full[NAME_SIZE];
	const bool stacked = strchr(name, '%') == NULL;
	if (stacked && !tensor_table_take_stack(b->table, in_full(b, name, "", full), m->altup - 1, m->dim,
	                                        m->dim, &whole, b->error))
		return false;
	for (int k = 1; k < m->altup; k++) {
		at.expert = k - 1;
		if (stacked)
			out[k] = tensor_rows(&whole, (int64_t)(k - 1) * m->dim, m->dim);
		else if (!take_tensor(&at, name, "", m->dim, m->dim, &out[k]))
			return false;
	}
	return true;
}

static bool bind_altup(const struct binding* b, struct weight_table* w) {
	return b->config->shape.altup == 0 || (bind_altup_maps(b, b->names->altup_in, w->altup_in) &&
	                                       bind_altup_maps(b, b->names->altup_out, w->altup_out));
}

/* A block's parts of them, and attention's second path, whose rank its tensor tells. */
static bool bind_block_altup(const struct binding* b, struct block_weights* w) {
	const struct model_shape* m = &b->config->shape;
	const struct tensor_names* n = b->names;
	const int64_t count = m->altup;
	char full[NAME_SIZE];
	struct tensor unused;
	if (m->altup == 0)
		return true;
	const struct named_tensor* down =
	    tensor_table_find(b->table, in_full(b, n->laurel_down, ".weight", full));
	const int64_t rank = down && down->n_dims == 2 && down->dim[0] <= LARGEST ? down->dim[0] : 1;
	w->sparse = b->config->sparse[b->block];
	w->sparsity = b->config->sparsity[b->block];
	return take_tensor(b, n->altup_router, "", count, m->dim, &w->altup_router) &&
	       bind_vector(b, n->altup_router_norm, ".weight", m->dim, &w->altup_router_norm) &&
	       flat_vector(b, n->altup_predict, "", count * count, count, &w->altup_predict) &&
	       flat_vector(b, n->altup_correct, "", count, count, &w->altup_correct) &&
	       bind_vector(b, n->altup_scale, "", m->dim,
	                   b->config->no_altup_scale ? &unused : &w->altup_scale) &&
	       bind_matrix(b, n->laurel_down, rank, m->dim, &w->laurel_down) &&
	       bind_matrix(b, n->laurel_up, m->dim, rank, &w->laurel_up) &&
	       bind_vector(b, n->laurel_norm, ".weight", m->dim, &w->laurel_norm);
}

/* …and the parts of one block, with the scale of its output, which GGUF may leave out. */
static bool bind_token_input(const struct binding* b, struct block_weights* w) {
	const struct model_shape* m = &b->config->shape;
	const struct tensor_names* n = b->names;
	char full[NAME_SIZE];
	if (b->config->family->special == SPECIAL_GEMMA4 &&
	    tensor_table_find(b->table, in_full(b, n->stream_scale, "", full)) &&
	    !bind_vector(b, n->stream_scale, "", 1, &w->stream_scale))
		return false;
	return !m->token_input || (bind_matrix(b, n->input_gate, m->token_input, m->dim, &w->input_gate) &&
	                           bind_matrix(b, n->input_out, m->dim, m->token_input, &w->input_out) &&
	                           bind_vector(b, n->input_norm, ".weight", m->dim, &w->input_norm));
}

static bool has_experts(const struct config* config, int block) {
	return config->shape.n_experts > 0 && !block_set_has(&config->dense, block);
}

static bool bind_blocks(struct binding* b, struct opened* o) {
	const struct model_shape* m = &b->config->shape;
	for (b->block = 0; b->block < m->n_blocks; b->block++) {
		struct block_weights* w = &o->block[b->block];
		b->in_mlp = false;
		if (!bind_attention_norms(b, w) || !bind_attention(b, w))
			return false;
		b->in_mlp = true;
		if (block_set_has(&m->without_mlp, b->block))
			continue;
		if (!bind_mlp_norms(b, w) ||
		    !(has_experts(b->config, b->block)
		          ? bind_experts(b, w, o->expert + (size_t)b->block * (size_t)m->n_experts)
		          : bind_mlp(b, w)) ||
		    !bind_token_input(b, w) || !bind_block_altup(b, w))
			return false;
	}
	return true;
}

/* ---- the MTP layer -------------------------------------------------------------------------- */

bool mtp_shape(const struct model_shape* whole, struct model_shape* out) {
	*out = *whole;
	out->n_blocks = 1;
	out->recurrence = (struct recurrence){0};
	out->recurrent = (struct block_set){0};
	return whole->sliding_window == 0 && !shape_needs_tokens(whole) && !whole->parallel &&
	       memcmp(&whole->unrotated, &out->recurrent, sizeof whole->unrotated) == 0;
}

/* Its block is like the model's blocks with attention and, where the model has experts, like those with
 * experts unless its router is missing. */
static bool bind_mtp_block(const struct binding* whole, const char* prefix, const struct model_shape* shape,
                           struct block_weights* w, struct expert* expert) {
	struct config config = *whole->config;
	struct tensor_names names = *whole->names;
	struct binding b = *whole;
	char full[NAME_SIZE];
	config.shape = *shape;
	config.dense = (struct block_set){0};
	config.ffn[0] = 0;
	names.block = prefix;
	b.config = &config;
	b.names = &names;
	b.block = 0;
	const bool experts =
	    shape->n_experts > 0 && tensor_table_find(b.table, in_full(&b, names.router, "", full));
	return bind_attention_norms(&b, w) && bind_mlp_norms(&b, w) && bind_attention(&b, w) &&
	       (experts ? bind_experts(&b, w, expert) : bind_mlp(&b, w));
}

static bool bind_mtp_parts(const struct binding* whole, const char* prefix, struct weight_table* w) {
	struct tensor_names names = *whole->names;
	struct binding b = *whole;
	const int dim = w->shape.dim;
	char full[NAME_SIZE];
	names.block = prefix;
	b.names = &names;
	b.block = 0;
	return bind_matrix(&b, names.mtp_join, dim, 2 * (int64_t)dim, &w->join) &&
	       bind_vector(&b, names.mtp_token_norm, ".weight", dim, &w->join_token_norm) &&
	       bind_vector(&b, names.mtp_state_norm, ".weight", dim, &w->join_state_norm) &&
	       (!tensor_table_find(b.table, in_full(&b, names.mtp_norm, ".weight", full)) ||
	        bind_vector(&b, names.mtp_norm, ".weight", dim, &w->output_norm));
}

/* Gives the model its MTP layer. One that does not run is no error: the model runs without it. The
 * first of several layers is used. */
static void bind_mtp(const struct binding* whole, struct opened* o, struct model* model) {
	const struct tensor_names* n = whole->names;
	const struct model_shape* m = &model->weights.shape;
	struct error error = {""};
	struct binding b = *whole;
	char prefix[NAME_SIZE], block[NAME_SIZE], full[NAME_SIZE];
	if (!n->mtp)
		return;
	struct tensor_names names = *n;
	b.names = &names;
	b.error = &error;
	b.block = m->n_blocks;
	names.block = n->mtp;
	in_full(&b, "", "", prefix);
	if (!tensor_table_find(b.table, in_full(&b, n->mtp_join, ".weight", full)))
		return;
	names.block = n->mtp_block;
	in_full(&b, "", "", block);
	names.block = n->block;
	struct weight_table* w = &model->mtp;
	*w = model->weights;
	w->block = &o->block[m->n_blocks];
	const bool runs = mtp_shape(m, &w->shape)
	                      ? !n->mtp_embedding || !tensor_table_find(b.table, n->mtp_embedding) ||
	                            error_set(&error, "it has an embedding of its own")
	                      : error_set(&error, "the model's blocks are of several kinds");
	if (runs && bind_mtp_parts(&b, prefix, w) &&
	    bind_mtp_block(&b, block, &w->shape, &o->block[m->n_blocks],
	                   o->expert + (size_t)m->n_blocks * (size_t)m->n_experts))
		return;
	*w = (struct weight_table){.shape.n_blocks = 0};
	snprintf(model->mtp_note, sizeof model->mtp_note, "%.250s", error.message);
}

/* Those of blocks that are not run. */
static void excuse_further(const struct binding* b) {
	char prefix[NAME_SIZE];
	struct binding at = *b;
	const int n_blocks = b->config->shape.n_blocks;
	for (int i = 0; i < b->config->further_blocks; i++) {
		at.block = n_blocks + i;
		const size_t n = strlen(in_full(&at, "", "", prefix));
		for (size_t k = 0; k < b->table->n; k++)
			if (strncmp(b->table->item[k].name, prefix, n) == 0)
				b->table->item[k].used = true;
	}
}

/* Those of the models of images and sound beside the text model. */
static void excuse_beside(const struct binding* b) {
	const char* const within = b->names->within;
	for (size_t k = 0; within && k < b->table->n; k++)
		if (strncmp(b->table->item[k].name, within, strlen(within)) != 0)
			b->table->item[k].used = true;
}

/* Finds the type of most weight bytes, and counts the elements of the tensors in use, each tensor once. */
static void sum_up(struct model* model, const struct tensor_table* table) {
	size_t bytes[DTYPE_COUNT] = {0};
	for (size_t i = 0; i < table->n; i++) {
		const struct named_tensor* t = &table->item[i];
		double elements = 1;
		for (int d = 0; d < t->n_dims; d++)
			elements *= (double)t->dim[d];
		model->parameters += t->used ? elements : 0;
		if (t->used && t->supported)
			bytes[t->type] += t->bytes;
	}
	for (int i = 0; i < DTYPE_COUNT; i++)
		if (bytes[i] > bytes[model->dtype])
			model->dtype = (enum dtype)i;
}

bool bind_weights(struct model* model, const struct tensor_names* names, bool (*ignored)(const char* name),
                  struct error* error) {
	struct opened* o = model->owned;
	struct binding b = {&o->config, names, &o->tensors, &o->kept, error, NO_BLOCK, 0, false};
	const struct model_shape* m = &o->config.shape;
	model->weights.shape = *m;
	if (!opened_blocks(o, m->n_blocks, m->n_experts, error))
		return false;
	model->weights.block = o->block;
	if (!bind_ends(&b, model) || !bind_assistant(&b, model) || !bind_token_inputs(&b, &model->weights) ||
	    !bind_altup(&b, &model->weights) || !bind_blocks(&b, o))
		return false;
	sum_up(model, &o->tensors);
	b.block = NO_BLOCK;
	bind_mtp(&b, o, model);
	excuse_further(&b);
	excuse_beside(&b);
	if (!tensor_table_all_used(&o->tensors, ignored, error))
		return false;
	for (int i = 0; i < o->n_files; i++)
		model->weight_bytes += o->file[i].size;
	return true;
}

/* ---- what is owned --------------------------------------------------------------------------- */

bool opened_new(struct model* model, struct error* error) {
	struct opened* o = model->owned = calloc(1, sizeof *o);
	if (o)
		o->file = calloc(MOST_FILES, sizeof *o->file);
	return (o && o->file) || error_set(error, "out of memory");
}

bool opened_blocks(struct opened* o, int n_blocks, int n_experts, struct error* error) {
	const size_t blocks = (size_t)n_blocks + 1;
	o->block = calloc(blocks, sizeof *o->block);
	o->expert = calloc(blocks * (size_t)(n_experts ? n_experts : 1), sizeof *o->expert);
	return (o->block && o->expert) || error_set(error, "out of memory for %d blocks", n_blocks);
}

bool opened_ends(struct model* model, const char* file, struct error* error) {
	struct config* c = &model->owned->config;
	if (c->n_end_tokens == 0 &&
	    !config_add_end(c, tokenizer_eos(model->tokenizer), file, "the tokenizer's end token", error))
		return false;
	memcpy(model->end_token, c->end_token, sizeof model->end_token);
	model->n_end_tokens = c->n_end_tokens;
	return true;
}

void model_free_owned(struct model* model) {
	struct opened* o = model->owned;
	if (!o)
		return;
	tensor_table_free(&o->tensors);
	gguf_free(&o->head);
	for (int i = 0; i < o->n_files; i++)
		mapping_close(&o->file[i]);
	free(o->file);
	free(o->block);
	free(o->expert);
	kept_free(&o->kept);
	config_free(&o->config);
	free(o);
	model->owned = NULL;
}
