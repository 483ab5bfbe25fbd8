/* A model's fingerprint, by which a mask recognizes the model that it was learned for. It is SHA-256 over the
 * shape, the tokenizer's pieces and samples of each tensor. It does not read all weights, so that a large
 * file opens quickly. */
#include <string.h>

#include "core/model/model.h"
#include "core/model/sha256.h"
#include "core/text/tokenizer.h"

enum { SAMPLES = 16, SAMPLE_BYTES = 64, FIRST_PARTS = 20 /* of a block, absent ones too */ };

static void add_number(struct sha256* hash, double value) {
	uint64_t bits;
	uint8_t bytes[8];
	memcpy(&bits, &value, sizeof bits);
	for (int i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(bits >> 8 * i);
	sha256_add(hash, bytes, sizeof bytes);
}

static void add_factors(struct sha256* hash, const float* factor, int n) {
	add_number(hash, factor ? n : 0);
	for (int i = 0; factor && i < n; i++)
		add_number(hash, (double)factor[i]);
}

static void add_numbers(struct sha256* hash, const double* values, size_t n) {
	for (size_t i = 0; i < n; i++)
		add_number(hash, values[i]);
}

static void add_rope(struct sha256* hash, const struct rope* r) {
	const double values[] = {(double)r->scaling,
	                         r->interleaved,
	                         r->dim,
	                         (double)r->theta,
	                         (double)r->factor,
	                         r->original_context,
	                         (double)r->low_frequency_factor,
	                         (double)r->high_frequency_factor,
	                         (double)r->beta_fast,
	                         (double)r->beta_slow,
	                         (double)r->attention_factor};
	add_numbers(hash, values, sizeof values / sizeof *values);
	if (r->beyond_factor > 0)
		add_number(hash, (double)r->beyond_factor);
	add_factors(hash, r->short_factor, r->dim / 2);
	add_factors(hash, r->long_factor, r->dim / 2);
}

/* The windows that the first families could have: none, all blocks, or every other one (2). -1: another
 * rule. */
static int window_period(const struct model_shape* m) {
	int sliding = 0, alternating = 0;
	for (int b = 0; b < m->n_blocks; b++) {
		const bool slides = block_set_has(&m->sliding, b);
		sliding += slides;
		alternating += slides == (b % 2 == 0);
	}
	return sliding == 0 || sliding == m->n_blocks ? 0 : alternating == m->n_blocks ? 2 : -1;
}

/* Adds the fields of later families. A model without them keeps the fingerprint that it had, and with it the
 * masks that were stored for it. */
static void add_later_parts(struct sha256* hash, const struct model_shape* m) {
	const struct block_set none = {{0}};
	const double values[] = {(double)m->norm,        (double)m->residual_scale,
	                         (double)m->logit_scale, (double)m->attention_growth,
	                         m->growth_context,      m->n_experts,
	                         m->experts_used,        m->expert_ffn,
	                         m->experts_normalised,  m->rope.scaling == ROPE_YARN && !m->rope.whole_turns};
	const double usual[sizeof values / sizeof *values] = {0, 1, 1};
	if (memcmp(values, usual, sizeof values) != 0)
		add_numbers(hash, values, sizeof values / sizeof *values);
	const double sizes[] = {m->full_head_dim,   m->full_kv_heads, m->sharing_from,   m->token_input,
	                        m->norm_after_rope, m->value_norm,    m->latent,         m->query_latent,
	                        m->nope_dim,        m->value_dim,     m->groups_by_best, m->parallel};
	const double none_of_them[sizeof sizes / sizeof *sizes] = {0};
	if (memcmp(sizes, none_of_them, sizeof sizes) != 0)
		add_numbers(hash, sizes, sizeof sizes / sizeof *sizes);
	if (m->recurrence.value_heads > 0) {
		const struct recurrence* r = &m->recurrence;
		const double numbers[] = {r->key_heads, r->value_heads, r->key_dim,   r->value_dim,
		                          r->kernel,    r->tiled,       r->log_rates, m->attention_gated};
		add_numbers(hash, numbers, sizeof numbers / sizeof *numbers);
		sha256_add(hash, &m->recurrent, sizeof m->recurrent);
		if (r->state_space)
			add_number(hash, 1 + r->gate_first);
		for (int i = 0; i < SPACE_PARTS && r->input_scale[0] != 0; i++)
			add_number(hash, (double)r->input_scale[i]);
	}
	if (m->altup > 0)
		add_number(hash, m->altup);
	if (m->norms_by_head)
		add_number(hash, m->norms_by_head);
	if (m->ungated != (m->activation == ACTIVATION_RELU2 || m->activation == ACTIVATION_XIELU))
		add_number(hash, 1 + m->ungated);
	if (attention_beside(m))
		sha256_add(hash, &m->beside_recurrence, sizeof m->beside_recurrence);
	const double scales[] = {(double)m->attention_out_scale, (double)m->recurrent_out_scale,
	                         (double)m->mlp_out_scale, (double)m->gate_scale};
	if (memcmp(scales, none_of_them, sizeof scales) != 0)
		add_numbers(hash, scales, sizeof scales / sizeof *scales);
	if (memcmp(&m->without_mlp, &none, sizeof none) != 0)
		sha256_add(hash, &m->without_mlp, sizeof m->without_mlp);
	if (m->experts_in_turn)
		add_number(hash, 1 + (double)m->experts_near);
	if (m->growth_unrotated || m->window_in_chunks || m->experts_weigh_input)
		add_number(hash, m->growth_unrotated + 2 * m->window_in_chunks + 4 * m->experts_weigh_input);
	if (m->experts_epsilon != 0)
		add_number(hash, (double)m->experts_epsilon);
	if (memcmp(&m->unrotated, &none, sizeof none) != 0)
		sha256_add(hash, &m->unrotated, sizeof m->unrotated);
	if (window_period(m) < 0)
		sha256_add(hash, &m->sliding, sizeof m->sliding);
	if (m->sliding_rope.dim > 0)
		add_rope(hash, &m->sliding_rope);
}

static void add_shape(struct sha256* hash, const struct model_shape* m) {
	const double values[] = {m->n_blocks,
	                         m->dim,
	                         m->heads,
	                         m->kv_heads,
	                         m->head_dim,
	                         m->ffn,
	                         m->vocab,
	                         m->context,
	                         (double)m->norm_epsilon,
	                         m->norm_plus_one,
	                         (double)m->activation,
	                         (double)m->embedding_scale,
	                         (double)m->attention_scale,
	                         (double)m->attention_softcap,
	                         (double)m->logit_softcap,
	                         m->sliding_window,
	                         window_period(m)};
	add_numbers(hash, values, sizeof values / sizeof *values);
	add_rope(hash, &m->rope);
	add_later_parts(hash, m);
}

static void add_tensor(struct sha256* hash, const struct tensor* t) {
	add_number(hash, (double)t->type);
	add_number(hash, (double)t->rows);
	add_number(hash, (double)t->cols);
	if (!tensor_present(t))
		return;
	/* A synthetic tensor is described by its recipe, whether or not it is in memory. */
	if (t->synth.kind != SYNTH_NONE) {
		add_number(hash, (double)t->synth.kind);
		sha256_add(hash, &t->synth.seed, sizeof t->synth.seed);
		sha256_add(hash, &t->synth.shared, sizeof t->synth.shared);
		add_number(hash, (double)t->synth.scale);
		add_number(hash, (double)t->synth.scale_second);
		add_number(hash, t->synth.halves);
		add_number(hash, t->synth.common);
		add_number(hash, t->synth.own);
		return;
	}
	const size_t bytes = tensor_bytes(t);
	const size_t part = bytes / SAMPLES;
	if (bytes <= SAMPLES * SAMPLE_BYTES) {
		sha256_add(hash, t->data, bytes);
		return;
	}
	for (size_t i = 0; i < SAMPLES; i++)
		sha256_add(hash, (const uint8_t*)t->data + i * part, SAMPLE_BYTES);
}

static void add_piece(void* hash, const void* bytes, size_t size) {
	add_number(hash, (double)size);
	sha256_add(hash, bytes, size);
}

static void digest_pieces(const struct model* model, char hex[65]) {
	struct sha256 hash;
	sha256_start(&hash);
	tokenizer_digest(model->tokenizer, add_piece, &hash);
	sha256_end(&hash, hex);
}

bool model_same_vocabulary(const struct model* model, const struct model* other) {
	char one[65], two[65];
	if (!model->tokenizer || !other->tokenizer)
		return false;
	digest_pieces(model, one);
	digest_pieces(other, two);
	return strcmp(one, two) == 0;
}

void model_fingerprint(struct model* model) {
	const struct weight_table* w = &model->weights;
	struct sha256 hash;
	sha256_start(&hash);
	add_shape(&hash, &w->shape);
	if (model->tokenizer)
		tokenizer_digest(model->tokenizer, add_piece, &hash);
	add_tensor(&hash, &w->embedding);
	add_tensor(&hash, &w->output_norm);
	if (tensor_present(&w->output_norm_bias))
		add_tensor(&hash, &w->output_norm_bias);
	add_tensor(&hash, &w->output);
	add_tensor(&hash, &w->output_bias);
	if (w->shape.token_input > 0) {
		add_tensor(&hash, &w->input_embedding);
		add_tensor(&hash, &w->input_projection);
		add_tensor(&hash, &w->input_projection_norm);
	}
	for (int k = 1; k < w->shape.altup; k++) {
		add_tensor(&hash, &w->altup_in[k]);
		add_tensor(&hash, &w->altup_out[k]);
	}
	for (int b = 0; w->block && b < w->shape.n_blocks; b++) {
		const struct block_weights* k = &w->block[b];
		for (int i = 0; i < BLOCK_PARTS; i++)
			if (i < FIRST_PARTS || tensor_present(block_tensor(k, i)))
				add_tensor(&hash, block_tensor(k, i));
		const double xielu[] = {(double)k->xielu.positive, (double)k->xielu.negative, (double)k->xielu.beta,
		                        (double)k->xielu.epsilon};
		if (w->shape.activation == ACTIVATION_XIELU)
			add_numbers(&hash, xielu, 4);
		if (k->sparse)
			add_number(&hash, (double)k->sparsity);
		for (int e = 0; tensor_present(&k->router) && e < w->shape.n_experts; e++) {
			add_tensor(&hash, &k->expert[e].w_gate);
			add_tensor(&hash, &k->expert[e].w_up);
			add_tensor(&hash, &k->expert[e].w_down);
		}
	}
	sha256_end(&hash, model->fingerprint);
}
