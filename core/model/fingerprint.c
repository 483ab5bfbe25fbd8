/* A model's fingerprint: what a mask was learned for must be told from every other model. SHA-256 over
 * the shape, the tokenizer's pieces and samples of each tensor; weights are not read as a whole, so that
 * opening a large file stays quick. */
#include <string.h>

#include "core/model/model.h"
#include "core/model/sha256.h"
#include "core/text/tokenizer.h"

enum { SAMPLES = 16, SAMPLE_BYTES = 64 };

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

static void add_shape(struct sha256* hash, const struct model_shape* m) {
	const struct rope* r = &m->rope;
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
	                         m->sliding_period,
	                         (double)r->scaling,
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
	for (size_t i = 0; i < sizeof values / sizeof *values; i++)
		add_number(hash, values[i]);
	add_factors(hash, r->short_factor, r->dim / 2);
	add_factors(hash, r->long_factor, r->dim / 2);
}

static void add_tensor(struct sha256* hash, const struct tensor* t) {
	add_number(hash, (double)t->type);
	add_number(hash, (double)t->rows);
	add_number(hash, (double)t->cols);
	if (!tensor_present(t))
		return;
	/* A made-up tensor is what its recipe says, in memory or not. */
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
	const size_t bytes = (size_t)t->rows * dtype_row_bytes(t->type, t->cols);
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

void model_fingerprint(struct model* model) {
	const struct weight_table* w = &model->weights;
	struct sha256 hash;
	sha256_start(&hash);
	add_shape(&hash, &w->shape);
	if (model->tokenizer)
		tokenizer_digest(model->tokenizer, add_piece, &hash);
	add_tensor(&hash, &w->embedding);
	add_tensor(&hash, &w->output_norm);
	add_tensor(&hash, &w->output);
	add_tensor(&hash, &w->output_bias);
	for (int b = 0; w->block && b < w->shape.n_blocks; b++) {
		const struct block_weights* k = &w->block[b];
		const struct tensor* all[] = {&k->attention_norm,
		                              &k->wq,
		                              &k->wk,
		                              &k->wv,
		                              &k->bq,
		                              &k->bk,
		                              &k->bv,
		                              &k->q_norm,
		                              &k->k_norm,
		                              &k->wo,
		                              &k->bo,
		                              &k->post_attention_norm,
		                              &k->mlp_norm,
		                              &k->w_gate,
		                              &k->w_up,
		                              &k->w_down,
		                              &k->b_gate,
		                              &k->b_up,
		                              &k->b_down,
		                              &k->post_mlp_norm};
		for (size_t i = 0; i < sizeof all / sizeof *all; i++)
			add_tensor(&hash, all[i]);
	}
	sha256_end(&hash, model->fingerprint);
}
