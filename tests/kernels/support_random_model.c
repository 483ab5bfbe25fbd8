#include "tests/kernels/support_random_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/dtype_blocks.h"

uint64_t random_next(struct random* r) {
	uint64_t z = (r->state += 0x9e3779b97f4a7c15u);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

int random_below(struct random* r, int n) { return (int)(random_next(r) % (uint64_t)n); }

float random_normal(struct random* r) {
	const double u = ((double)(random_next(r) >> 11) + 0.5) / 9007199254740992.0;
	const double v = (double)(random_next(r) >> 11) / 9007199254740992.0;
	return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

struct model_shape random_shape(int n_blocks, int dim, int heads, int kv_heads, int head_dim, int ffn,
                                int vocab) {
	return (struct model_shape){
	    .n_blocks = n_blocks,
	    .dim = dim,
	    .heads = heads,
	    .kv_heads = kv_heads,
	    .head_dim = head_dim,
	    .ffn = ffn,
	    .vocab = vocab,
	    .context = 512,
	    .norm_epsilon = 1e-5f,
	    .rope = {.dim = head_dim, .theta = 10000, .factor = 1, .attention_factor = 1},
	    .embedding_scale = 1,
	    .residual_scale = 1,
	    .logit_scale = 1,
	    .attention_scale = 1.0f / sqrtf((float)head_dim),
	};
}

/* Scale and minimum that leave about as many elements above zero as below, none of them large. */
static void centre_block(enum dtype type, unsigned char* block, float scale) {
	const float d = scale * (type == DTYPE_Q4_1 ? 0.1f : type == DTYPE_Q4_K ? 0.002f : 0.0005f);
	const uint16_t half = half_from_float(d),
	               minimum = half_from_float(type == DTYPE_Q4_1 ? -7.5f * d : 7.5f * d);
	memcpy(block + (type == DTYPE_Q6_K ? 208 : 0), &half, sizeof half);
	if (type != DTYPE_Q6_K)
		memcpy(block + 2, &minimum, sizeof minimum);
}

/* Any bytes are a quantized block, but its scale must be a small number. */
static void fill_blocks(enum dtype type, unsigned char* data, size_t blocks, float scale, struct random* r) {
	const size_t size = dtype_block_bytes(type);
	for (size_t i = 0; i < blocks; i++) {
		for (size_t j = 0; j < size; j++)
			data[i * size + j] = (unsigned char)random_next(r);
		const uint16_t d = half_from_float(scale * 0.01f);
		if (type == DTYPE_MXFP4)
			data[i * size] = (unsigned char)(119 + data[i * size] % 4);
		else
			memcpy(data + i * size, &d, sizeof d);
		if (type == DTYPE_Q4_1 || type == DTYPE_Q4_K || type == DTYPE_Q6_K)
			centre_block(type, data + i * size, scale);
	}
}

static struct tensor make(struct random_model* m, enum dtype type, int64_t rows, int64_t cols, float mean,
                          float scale, struct random* r) {
	if (cols % dtype_block(type) != 0)
		type = DTYPE_F16;
	const size_t row_bytes = dtype_row_bytes(type, cols);
	unsigned char* data = malloc(row_bytes * (size_t)rows);
	m->memory[m->n_memory++] = data;
	for (int64_t i = 0; i < rows * cols && dtype_block(type) == 1; i++) {
		const float x = mean + scale * random_normal(r);
		const uint16_t half = type == DTYPE_F16 ? half_from_float(x) : bf16_from_float(x);
		if (type == DTYPE_F32)
			memcpy(data + 4 * i, &x, 4);
		else
			memcpy(data + 2 * i, &half, 2);
	}
	if (dtype_block(type) > 1)
		fill_blocks(type, data, row_bytes * (size_t)rows / dtype_block_bytes(type), scale, r);
	return (struct tensor){.type = type, .rows = rows, .cols = cols, .data = data};
}

static struct tensor vector(struct random_model* m, int64_t n, float mean, struct random* r) {
	return make(m, DTYPE_F32, 1, n, mean, 0.2f, r);
}

static void make_block(struct random_model* m, struct block_weights* b, const enum dtype* types, int n_types,
                       int with, struct random* r) {
	const struct model_shape* s = &m->weights.shape;
	const int64_t q = (int64_t)s->heads * s->head_dim, kv = (int64_t)s->kv_heads * s->head_dim, d = s->dim;
	const float one = s->norm_plus_one ? 0 : 1, scale = 1.5f / sqrtf((float)d);
	struct tensor* matrix[] = {&b->wq, &b->wk, &b->wv, &b->wo, &b->w_gate, &b->w_up, &b->w_down};
	const int64_t rows[] = {q, kv, kv, d, s->ffn, s->ffn, d}, cols[] = {d, d, d, q, d, d, s->ffn};
	const bool gated = s->attention_gated;
	for (int i = 0; i < 7; i++)
		*matrix[i] = make(m, types[i % n_types], gated && i == 0 ? 2 * q : rows[i], cols[i], 0, scale, r);
	if (!(with & WITHOUT_NORMS_BEFORE)) {
		b->attention_norm = vector(m, d, one, r);
		b->mlp_norm = vector(m, d, one, r);
	}
	if (s->norm == NORM_LAYER) {
		b->attention_norm_bias = vector(m, d, 0, r);
		b->mlp_norm_bias = vector(m, d, 0, r);
	}
	if (with & WITH_BIASES) {
		struct tensor* bias[] = {&b->bq, &b->bk, &b->bv, &b->bo, &b->b_gate, &b->b_up, &b->b_down};
		for (int i = 0; i < 7; i++)
			*bias[i] = vector(m, gated && i == 0 ? 2 * q : rows[i], 0, r);
	}
	if (with & WITH_HEAD_NORMS) {
		b->q_norm = vector(m, s->head_dim, one, r);
		b->k_norm = vector(m, s->head_dim, one, r);
	}
	if (with & WITH_NORM_OVER_HEADS) {
		b->q_norm = vector(m, q, one, r);
		b->k_norm = vector(m, kv, one, r);
	}
	if (with & WITH_SINKS)
		b->sinks = vector(m, s->heads, 1, r);
	if (with & WITH_POST_NORMS) {
		b->post_attention_norm = vector(m, d, one, r);
		b->post_mlp_norm = vector(m, d, one, r);
	}
}

/* In attention's place. */
static void make_recurrent(struct random_model* m, struct block_weights* b, const enum dtype* types,
                           int n_types, struct random* r) {
	const struct model_shape* s = &m->weights.shape;
	const struct recurrence* c = &s->recurrence;
	const int64_t channels = recurrence_channels(c), values = recurrence_values(c), d = s->dim;
	const float scale = 1.5f / sqrtf((float)d);
	b->wq = make(m, types[0], channels, d, 0, scale, r);
	b->wk = make(m, types[n_types - 1], values, d, 0, scale, r);
	b->wo = make(m, types[0], d, values, 0, scale, r);
	b->wv = b->bq = b->bk = b->bv = b->q_norm = b->k_norm = (struct tensor){0};
	b->w_beta = make(m, types[0], c->value_heads, d, 0, scale, r);
	b->w_decay = make(m, types[n_types - 1], c->value_heads, d, 0, scale, r);
	b->convolution = make(m, DTYPE_F32, 1, channels * c->kernel, 0, 0.6f, r);
	b->decay_bias = vector(m, c->value_heads, 0, r);
	b->decay_rate = vector(m, c->value_heads, c->log_rates ? -1 : -0.5f, r);
	b->state_norm = vector(m, c->value_dim, 1, r);
}

/* In the single MLP's place. */
static void make_experts(struct random_model* m, struct block_weights* b, struct expert* expert,
                         const enum dtype* types, int n_types, int with, struct random* r) {
	const struct model_shape* s = &m->weights.shape;
	const float scale = 1.5f / sqrtf((float)s->dim);
	b->w_gate = b->w_up = b->w_down = (struct tensor){0};
	b->b_gate = b->b_up = (struct tensor){0};
	b->router = make(m, DTYPE_F32, s->n_experts, s->dim, 0, scale, r);
	b->expert = expert;
	if (with & WITH_SINKS) {
		b->router_bias = vector(m, s->n_experts, 0, r);
		b->expert_gate_bias = vector(m, (int64_t)s->n_experts * s->expert_ffn, 0, r);
		b->expert_up_bias = vector(m, (int64_t)s->n_experts * s->expert_ffn, 0, r);
		b->expert_down_bias = vector(m, (int64_t)s->n_experts * s->dim, 0, r);
	}
	if (with & WITH_CHOICE) {
		b->choice_bias = vector(m, s->n_experts, 0, r);
		b->shared_gate = vector(m, s->dim, 0, r);
	}
	if (s->shared_ffn > 0) {
		b->w_gate = make(m, types[0], s->shared_ffn, s->dim, 0, scale, r);
		b->w_up = make(m, types[n_types - 1], s->shared_ffn, s->dim, 0, scale, r);
		b->w_down = make(m, types[0], s->dim, s->shared_ffn, 0, scale, r);
	}
	for (int e = 0; e < s->n_experts; e++) {
		expert[e].w_gate = make(m, types[0], s->expert_ffn, s->dim, 0, scale, r);
		expert[e].w_up = make(m, types[n_types - 1], s->expert_ffn, s->dim, 0, scale, r);
		expert[e].w_down = make(m, types[e % n_types], s->dim, s->expert_ffn, 0, scale, r);
	}
}

struct random_model* random_model_make(const struct model_shape* shape, const enum dtype* types, int n_types,
                                       int with, uint64_t seed) {
	struct random r = {seed};
	struct random_model* m = calloc(1, sizeof *m);
	struct model_shape* s = &m->weights.shape;
	*s = *shape;
	if (with & WITH_SOFTCAPS) {
		s->attention_softcap = 3;
		s->logit_softcap = 4;
	}
	if (with & WITH_WINDOW) {
		s->sliding_window = 9;
		for (int i = 0; i < s->n_blocks; i += 2)
			block_set_put(&s->sliding, i);
	}
	m->block = calloc((size_t)s->n_blocks, sizeof *m->block);
	m->weights.block = m->block;
	m->weights.embedding = make(m, types[0], s->vocab, s->dim, 0, 1, &r);
	m->weights.output_norm = vector(m, s->dim, s->norm_plus_one ? 0 : 1, &r);
	m->weights.output = with & WITH_TIED_HEAD ? m->weights.embedding
	                                          : make(m, types[n_types - 1], s->vocab, s->dim, 0, 0.4f, &r);
	if (s->norm == NORM_LAYER)
		m->weights.output_norm_bias = vector(m, s->dim, 0, &r);
	m->expert = calloc((size_t)(s->n_blocks * s->n_experts + 1), sizeof *m->expert);
	for (int i = 0; i < s->n_blocks; i++) {
		make_block(m, &m->block[i], types, n_types, with, &r);
		if (block_set_has(&s->recurrent, i))
			make_recurrent(m, &m->block[i], types, n_types, &r);
		if (s->n_experts > 0 && i % 2 == 0)
			make_experts(m, &m->block[i], m->expert + i * s->n_experts, types, n_types, with, &r);
	}
	return m;
}

void random_model_free(struct random_model* m) {
	for (int i = 0; i < m->n_memory; i++)
		free(m->memory[i]);
	free(m->block);
	free(m->expert);
	free(m);
}
