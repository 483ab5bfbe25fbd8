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

/* Features of Gemma 4's blocks that others lack. */
static void change_block(struct random_model* m, struct block_weights* b, int block, const enum dtype* types,
                         int with, struct random* r) {
	const struct model_shape* s = &m->weights.shape;
	const float scale = 1.5f / sqrtf((float)s->dim);
	if (block_keys_of(s, block) != block)
		b->wk = b->wv = b->bk = b->bv = b->k_norm = (struct tensor){0};
	if ((with & WITH_KEYS_AS_VALUES) && !block_set_has(&s->sliding, block))
		b->wv = b->bv = (struct tensor){0};
	if (with & WITH_STREAM_SCALE)
		b->stream_scale = vector(m, 1, 1, r);
	if (s->ungated) {
		b->w_up = b->b_up = (struct tensor){0};
		b->xielu = (struct xielu){0.8f, 0.7f, 0.5f, -1e-6f};
	}
	if (block_set_has(&s->without_mlp, block))
		b->mlp_norm = b->w_gate = b->w_up = b->w_down = (struct tensor){0};
	if (s->token_input > 0) {
		b->input_gate = make(m, types[0], s->token_input, s->dim, 0, scale, r);
		b->input_out = make(m, types[0], s->dim, s->token_input, 0, scale, r);
		b->input_norm = vector(m, s->dim, 1, r);
	}
}

/* What blocks of rows with several states have (Gemma 3n). */
static void make_altup(struct random_model* m, struct block_weights* b, const enum dtype* types, int block,
                       struct random* r) {
	enum { RANK = 7 };
	const struct model_shape* s = &m->weights.shape;
	const int64_t n = s->altup, d = s->dim;
	b->altup_router = make(m, types[0], n, d, 0, 2, r);
	b->altup_router_norm = vector(m, d, 1, r);
	b->altup_predict = vector(m, n * n * n, 0, r);
	b->altup_correct = vector(m, n * n, 0, r);
	if (block != 1)
		b->altup_scale = vector(m, d, 1, r);
	b->laurel_down = make(m, types[0], RANK, d, 0, 0.2f, r);
	b->laurel_up = make(m, types[0], d, RANK, 0, 0.2f, r);
	b->laurel_norm = vector(m, d, 1, r);
	b->sparse = block % 2 == 0;
	b->sparsity = 0.4f;
}

/* In the place of ordinary attention's. */
static void make_latent(struct random_model* m, struct block_weights* b, const enum dtype* types, int n_types,
                        struct random* r) {
	const struct model_shape* s = &m->weights.shape;
	const int64_t own = (int64_t)s->heads * (s->nope_dim + s->rope.dim), d = s->dim,
	              values = (int64_t)s->heads * s->value_dim;
	const int64_t from = s->query_latent ? s->query_latent : d;
	const float scale = 1.5f / sqrtf((float)d), inner = 1.0f / sqrtf((float)s->latent);
	if (s->query_latent) {
		b->wq_a = make(m, types[0], s->query_latent, d, 0, scale, r);
		b->q_a_norm = vector(m, s->query_latent, 1, r);
		b->bq_a = vector(m, s->query_latent, 0, r);
	}
	b->wq = make(m, types[0], own, from, 0, 1.5f / sqrtf((float)from), r);
	b->wk = make(m, types[n_types - 1], s->head_dim, d, 0, scale, r);
	b->bk = vector(m, s->head_dim, 0, r);
	b->k_norm = vector(m, s->latent, 1, r);
	b->absorb = make(m, types[0], (int64_t)s->heads * s->latent, s->nope_dim, 0, inner, r);
	b->wv = make(m, types[n_types - 1], values, s->latent, 0, inner, r);
	b->wo = make(m, types[0], d, values, 0, scale, r);
}

static void make_block(struct random_model* m, struct block_weights* b, int block, const enum dtype* types,
                       int n_types, int with, struct random* r) {
	const struct model_shape* s = &m->weights.shape;
	const int head_dim = block_head_dim(s, block);
	const int64_t q = (int64_t)s->heads * head_dim, kv = (int64_t)block_kv_heads(s, block) * head_dim,
	              d = s->dim;
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
		b->q_norm = vector(m, head_dim, one, r);
		b->k_norm = vector(m, head_dim, one, r);
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
	change_block(m, b, block, types, with, r);
	if (s->latent)
		make_latent(m, b, types, n_types, r);
}

/* In attention's place. */
static void make_recurrent(struct random_model* m, struct block_weights* b, const enum dtype* types,
                           int n_types, struct random* r) {
	const struct model_shape* s = &m->weights.shape;
	const struct recurrence* c = &s->recurrence;
	const int64_t channels = recurrence_channels(c), values = recurrence_values(c), d = s->dim;
	const float scale = 1.5f / sqrtf((float)d);
	const bool shorter = c->key_dim == 0; /* a short convolution */
	b->wq = make(m, types[0], shorter ? 3 * channels : channels, d, 0, scale, r);
	b->wk = shorter ? (struct tensor){0} : make(m, types[n_types - 1], values, d, 0, scale, r);
	b->wo = make(m, types[0], d, values, 0, scale, r);
	b->wv = b->bq = b->bk = b->bv = b->q_norm = b->k_norm = (struct tensor){0};
	if (shorter) {
		b->convolution = make(m, DTYPE_F32, 1, channels * c->kernel, 0, 0.6f, r);
		return;
	}
	if (!c->state_space)
		b->w_beta = make(m, types[0], c->value_heads, d, 0, scale, r);
	b->w_decay = make(m, types[n_types - 1], c->value_heads, d, 0, scale, r);
	b->convolution = make(m, DTYPE_F32, 1, channels * c->kernel, 0, 0.6f, r);
	b->decay_bias = vector(m, c->value_heads, 0, r);
	b->decay_rate = vector(m, c->value_heads, c->log_rates ? -1 : -0.5f, r);
	b->state_norm = vector(m, c->state_space ? values : c->value_dim, 1, r);
	if (c->state_space) {
		b->convolution_bias = vector(m, channels, 0, r);
		b->state_skip = vector(m, c->value_heads, 1, r);
	}
}

/* In the single MLP's place. */
static void make_experts(struct random_model* m, struct block_weights* b, struct expert* expert,
                         const enum dtype* types, int n_types, int with, struct random* r) {
	const struct model_shape* s = &m->weights.shape;
	const float scale = 1.5f / sqrtf((float)s->dim);
	if (with & WITH_MLP_BESIDE) {
		struct tensor* norm[] = {&b->router_norm, &b->expert_norm, &b->post_dense_norm, &b->post_expert_norm};
		for (int i = 0; i < 4; i++)
			*norm[i] = vector(m, s->dim, 1, r);
		b->expert_scale = vector(m, s->n_experts, 1, r);
	} else {
		b->w_gate = b->w_up = b->w_down = (struct tensor){0};
		b->b_gate = b->b_up = (struct tensor){0};
	}
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
	const bool gated = !s->ungated;
	if (!gated)
		b->w_up = (struct tensor){0};
	for (int e = 0; e < s->n_experts; e++) {
		expert[e].w_gate = make(m, types[0], s->expert_ffn, s->dim, 0, scale, r);
		if (gated)
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
		s->sliding_window = s->sliding_window > 0 ? s->sliding_window : 9;
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
	if (s->norm == NORM_LAYER && (with & WITH_BIASES))
		m->weights.output_bias = vector(m, s->vocab, 0, &r);
	if (s->token_input > 0) {
		const int64_t inputs = (int64_t)s->n_blocks * s->token_input;
		m->weights.input_embedding = make(m, types[0], s->vocab, inputs, 0, 1, &r);
		m->weights.input_projection = make(m, types[0], inputs, s->dim, 0, 0.2f, &r);
		m->weights.input_projection_norm = vector(m, s->token_input, 1, &r);
	}
	for (int k = 1; k < s->altup; k++) {
		m->weights.altup_in[k] = make(m, types[0], s->dim, s->dim, 0, 0.2f, &r);
		m->weights.altup_out[k] = make(m, types[0], s->dim, s->dim, 0, 0.2f, &r);
	}
	m->expert = calloc((size_t)(s->n_blocks * s->n_experts + 1), sizeof *m->expert);
	for (int i = 0; i < s->n_blocks; i++) {
		make_block(m, &m->block[i], i, types, n_types, with, &r);
		if (s->altup > 0)
			make_altup(m, &m->block[i], types, i, &r);
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
