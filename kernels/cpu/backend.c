/* Opens the CPU backend: kernels, threads, small vectors as floats, and all the workspace that passes need.
 * Weights stay where they are. */
#include "kernels/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Limits the logits held at once; at least one row. */
static const size_t logits_bytes = (size_t)16 << 20;
/* Limits the rows of a slice; at least SLICE_ROWS. */
static const size_t slice_bytes = (size_t)32 << 20;

static void cpu_close(struct backend* backend) {
	struct cpu_backend* b = cpu_of(backend);
	pool_close(b->usual);
	pool_close(b->resting);
	for (int i = 0; i < 3; i++)
		pages_close(&b->pages[i]);
	screened_close(&b->screened);
	free(b->interleaved);
	rope_close(&b->every.rope);
	rope_close(&b->sliding.rope);
	kept_states_close(&b->kept);
	recurrent_close(b);
	free(b->block);
	free(b->vectors);
	free(b->vectors_of);
	free(b->workspace);
	free(b->lists_memory);
	thin_close(b);
	free(b);
}

/* The same number of threads, so that the workspace serves both. */
static bool cpu_rest(struct backend* backend, bool resting) {
	struct cpu_backend* b = cpu_of(backend);
	if (resting && !b->resting)
		b->resting = pool_open(b->threads);
	if (resting && (!b->resting || pool_threads(b->resting) != b->threads))
		return false;
	b->pool = resting ? b->resting : b->usual;
	atomic_store(&b->abandoned, false);
	return true;
}

static void cpu_abandon(struct backend* backend) { atomic_store(&cpu_of(backend)->abandoned, true); }

static int cpu_threads(const struct backend* backend) { return cpu_of(backend)->threads; }

/* ---- what the model must be like --------------------------------------------------------------- */

/* Blocks that read other blocks' keys have one to read. */
static bool check_sharing(const struct model_shape* s, struct error* error) {
	if (s->keys_outside)
		return s->sharing_from == 0 && s->token_input == 0 && s->latent == 0 &&
		               attention_blocks(s) == s->n_blocks
		           ? true
		           : error_set(error, "blocks that read another model's keys have another input beside them");
	if (s->sharing_from < 0 || s->sharing_from > s->n_blocks || s->token_input < 0 ||
	    s->token_input > 1 << 16)
		return error_set(error, "the model shares keys from block %d of %d on, with token inputs of %d",
		                 s->sharing_from, s->n_blocks, s->token_input);
	for (int i = 0; i < s->n_blocks; i++)
		if (block_keys_of(s, i) < 0)
			return error_set(
			    error, "block %d has to read the keys of an earlier block of its kind, and there is none", i);
	return true;
}

static bool check_recurrence(const struct model_shape* s, struct error* error) {
	const struct recurrence* r = &s->recurrence;
	if (attention_blocks(s) == s->n_blocks && r->key_heads == 0 && r->value_heads == 0)
		return true;
	if (attention_blocks(s) == 0)
		return error_set(error, "all of the model's blocks are recurrent; at least one needs attention");
	if (r->key_dim == 0 && r->key_heads == 0 && r->value_heads == 1 && r->value_dim == s->dim &&
	    r->kernel >= 1 && r->kernel <= MOST_TAPS)
		return true; /* a short convolution */
	if (r->key_heads < 1 || r->value_heads < r->key_heads || r->value_heads % r->key_heads != 0 ||
	    r->key_dim < 1 || r->value_dim < 1 || r->kernel < 1 || r->kernel > MOST_TAPS)
		return error_set(error,
		                 "the recurrent blocks have %d key heads of %d, %d value heads of %d and a "
		                 "convolution of %d: whole value heads for each key head and 1 to %d are expected",
		                 r->key_heads, r->key_dim, r->value_heads, r->value_dim, r->kernel, MOST_TAPS);
	if ((int64_t)r->key_heads * r->key_dim > 1 << 20 || (int64_t)r->value_heads * r->value_dim > 1 << 20 ||
	    (int64_t)r->key_dim * r->value_dim > 1 << 20)
		return error_set(error, "the recurrent blocks' heads or their states are larger than 2^20");
	return true;
}

static bool check_altup(const struct model_shape* s, struct error* error) {
	if (s->altup < 0 || s->altup == 1 || s->altup > MOST_ALTUP)
		return error_set(error, "the model has %d AltUp states; 2 to %d, or 0 for one, are expected",
		                 s->altup, MOST_ALTUP);
	return s->altup == 0 || (s->token_input > 0 && !s->parallel && attention_blocks(s) == s->n_blocks) ||
	       error_set(error, "the model has %d AltUp states; then all blocks have attention and a token input",
	                 s->altup);
}

static bool check_shape(const struct weight_table* w, struct error* error) {
	const struct model_shape* s = &w->shape;
	if (s->n_blocks < 1 || s->n_blocks > MAX_BLOCKS)
		return error_set(error, "the model has %d blocks; 1 to %d are supported", s->n_blocks, MAX_BLOCKS);
	if (s->dim < 1 || s->heads < 1 || s->kv_heads < 1 || s->ffn < 1 || s->vocab < 1 || s->context < 1)
		return error_set(error, "the model's shape has a size that is not positive");
	if (s->heads % s->kv_heads != 0)
		return error_set(error, "the model has %d query heads, not a multiple of its %d key/value heads",
		                 s->heads, s->kv_heads);
	if (s->head_dim < 2 || s->head_dim % 2 != 0 || s->head_dim > 1024)
		return error_set(error, "the model's head size is %d; an even number up to 1024 is expected",
		                 s->head_dim);
	if (s->full_head_dim < 0 || s->full_head_dim % 2 != 0 || s->full_head_dim > 1024 ||
	    s->full_kv_heads < 0 || (s->full_kv_heads > 0 && s->heads % s->full_kv_heads != 0))
		return error_set(
		    error,
		    "the model's blocks that see everything have %d key/value heads of %d; %d query heads "
		    "and an even size up to 1024 are expected to go with them",
		    s->full_kv_heads, s->full_head_dim, s->heads);
	if (!check_sharing(s, error))
		return false;
	if (s->latent < 0 ||
	    (s->latent > 0 && (s->head_dim != s->latent + s->rope.dim || s->kv_heads != 1 || s->nope_dim < 1 ||
	                       s->value_dim < 1 || s->query_latent < 0 || s->full_head_dim || s->sharing_from)))
		return error_set(error,
		                 "the model's latent attention has heads of %d over %d key/value heads; expected %d "
		                 "latent and %d rotated elements over one",
		                 s->head_dim, s->kv_heads, s->latent, s->rope.dim);
	if ((int64_t)s->heads * (s->nope_dim + s->value_dim) > 1 << 24 || s->query_latent > 1 << 24)
		return error_set(error, "the model's latent attention has a size over 2^24");
	if (s->n_experts < 0 ||
	    (s->n_experts > 0 && (s->experts_used < 1 || s->experts_used > s->n_experts || s->expert_ffn < 1)))
		return error_set(error, "the model uses %d of %d experts; 1 to all of them are expected",
		                 s->experts_used, s->n_experts);
	const int groups = s->expert_groups;
	if (groups < 0 || (groups > 0 && (s->n_experts % groups || s->expert_groups_used < 1 ||
	                                  s->expert_groups_used > groups ||
	                                  s->n_experts / groups * s->expert_groups_used < s->experts_used)))
		return error_set(error, "the model chooses %d experts from %d of %d groups, of %d experts",
		                 s->experts_used, s->expert_groups_used, groups, s->n_experts);
	const int full_dim = s->full_head_dim ? s->full_head_dim : s->head_dim;
	if (s->sliding_rope.dim < 0 || s->sliding_rope.dim % 2 != 0 || s->sliding_rope.dim > s->head_dim ||
	    s->rope.dim < 0 || s->rope.dim % 2 != 0 || s->rope.dim > full_dim)
		return error_set(error,
		                 "the model rotates %d elements of a head of %d; an even number up to it is expected",
		                 s->rope.dim, full_dim);
	if (!check_recurrence(s, error) || !check_altup(s, error))
		return false;
	if (s->activation == ACTIVATION_XIELU && !s->ungated)
		return error_set(error, "the model's MLPs have a gate, with an activation that takes none");
	if ((int64_t)s->heads * larger_of(s->head_dim, full_dim) > 1 << 24 || s->dim > 1 << 24 ||
	    s->ffn > 1 << 24 || s->vocab > 1 << 24)
		return error_set(error, "the model's shape has a size over 2^24");
	return true;
}

/* The expected type and shape of a tensor; an optional one may be absent. */
struct expected {
	const struct tensor* tensor;
	const char* name;
	int64_t rows, cols;
	bool optional;
};

static bool check_tensor(const struct expected* e, const char* name, struct error* error) {
	const struct tensor* t = e->tensor;
	if (!tensor_present(t))
		return e->optional || error_set(error, "the weight table has no %s", name);
	if (t->rows != e->rows || t->cols != e->cols)
		return error_set(error, "%s is (%lld, %lld), (%lld, %lld) was expected", name, (long long)t->rows,
		                 (long long)t->cols, (long long)e->rows, (long long)e->cols);
	if (!t->data)
		return error_set(error, "%s has no data; the CPU backend does not make synthetic weights itself",
		                 name);
	if (dtype_row_bytes(t->type, t->cols) == 0)
		return error_set(error, "%s has rows of %lld elements, not whole blocks of %s", name,
		                 (long long)t->cols, dtype_name(t->type));
	return true;
}

/* whose: before each name. */
static bool check_all(const struct expected* e, size_t n, const char* whose, struct error* error) {
	char name[96];
	for (size_t k = 0; k < n; k++) {
		snprintf(name, sizeof name, "%s%s", whose, e[k].name);
		if (!check_tensor(&e[k], name, error))
			return false;
	}
	return true;
}

static bool has_gate(const struct model_shape* s) { return !s->ungated; }

static bool check_expert(const struct expert* e, const struct model_shape* s, int block, int i,
                         struct error* error) {
	const struct expected expected[] = {{&e->w_gate, "w_gate", s->expert_ffn, s->dim, false},
	                                    {&e->w_up, "w_up", s->expert_ffn, s->dim, !has_gate(s)},
	                                    {&e->w_down, "w_down", s->dim, s->expert_ffn, false}};
	char whose[64];
	snprintf(whose, sizeof whose, "block %d's expert %d's ", block, i);
	return check_all(expected, sizeof expected / sizeof *expected, whose, error);
}

static bool check_experts(const struct weight_table* w, int block, struct error* error) {
	const struct model_shape* s = &w->shape;
	const struct block_weights* b = &w->block[block];
	if (!tensor_present(&b->router))
		return true;
	if (s->activation == ACTIVATION_XIELU)
		return error_set(error, "block %d has experts with an activation that takes parameters", block);
	if (s->n_experts < 1 || !b->expert)
		return error_set(error, "block %d has a router, but the model has no experts", block);
	for (int i = 0; i < s->n_experts; i++)
		if (!check_expert(&b->expert[i], s, block, i, error))
			return false;
	return check_tensor(&(struct expected){&b->router, NULL, s->n_experts, s->dim, false}, "a router", error);
}

/* A norm of queries or keys has the weights of a head, or of all of them. */
static int64_t head_norm_cols(const struct model_shape* s, const struct tensor* norm, int head_dim,
                              int64_t all) {
	return s->norms_by_head || (tensor_present(norm) && norm->cols == all) ? all : head_dim;
}

/* A recurrent block's attention. */
static bool check_recurrent_block(const struct weight_table* w, int i, struct error* error) {
	const struct model_shape* s = &w->shape;
	const struct recurrence* r = &s->recurrence;
	const struct block_weights* b = &w->block[i];
	const int64_t channels = recurrence_channels(r), values = recurrence_values(r), d = s->dim;
	const bool is_short = r->key_dim == 0; /* a short convolution */
	const struct expected expected[] = {
	    {&b->wq, "input map", is_short ? 3 * channels : channels, d, false},
	    {&b->wo, "output map", d, values, false},
	    {&b->bo, "bo", 1, d, true},
	    {&b->convolution, "convolution", 1, channels * r->kernel, false},
	    {&b->wk, "gate map", values, d, is_short},
	    {&b->w_beta, "beta map", r->value_heads, d, is_short || r->state_space},
	    {&b->w_decay, "decay map", r->value_heads, d, is_short},
	    {&b->decay_bias, "decay bias", 1, r->value_heads, is_short},
	    {&b->decay_rate, "decay rates", 1, r->value_heads, is_short},
	    {&b->state_norm, "norm", 1, r->state_space ? values : r->value_dim, is_short || r->state_space},
	    {&b->convolution_bias, "convolution's bias", 1, channels, true},
	    {&b->state_skip, "skip rates", 1, r->value_heads, !r->state_space},
	};
	char whose[48];
	snprintf(whose, sizeof whose, "recurrent block %d's ", i);
	return check_all(expected, sizeof expected / sizeof *expected, whose, error);
}

/* What a block has beside others where rows have several states. */
static bool check_block_altup(const struct weight_table* w, int i, struct error* error) {
	const struct model_shape* s = &w->shape;
	const struct block_weights* b = &w->block[i];
	const int64_t n = s->altup, rank = b->laurel_down.rows, d = s->dim;
	const struct expected expected[] = {{&b->altup_router, "altup_router", n, d, false},
	                                    {&b->altup_router_norm, "altup_router_norm", 1, d, false},
	                                    {&b->altup_predict, "altup_predict", 1, n * n * n, false},
	                                    {&b->altup_correct, "altup_correct", 1, n * n, false},
	                                    {&b->altup_scale, "altup_scale", 1, d, true},
	                                    {&b->attention_norm, "attention_norm", 1, d, false},
	                                    {&b->laurel_down, "laurel_down", rank, d, false},
	                                    {&b->laurel_up, "laurel_up", d, rank, false},
	                                    {&b->laurel_norm, "laurel_norm", 1, d, false}};
	char whose[32];
	snprintf(whose, sizeof whose, "block %d's ", i);
	if (rank > 1 << 24)
		return error_set(error, "block %d's second path has a rank of %lld; at most 2^24 is supported", i,
		                 (long long)rank);
	return s->altup == 0 || check_all(expected, sizeof expected / sizeof *expected, whose, error);
}

static bool check_block(const struct weight_table* w, int i, struct error* error) {
	const struct model_shape* s = &w->shape;
	const struct block_weights* b = &w->block[i];
	const int head_dim = block_head_dim(s, i);
	const int64_t q = (int64_t)s->heads * head_dim, kv = (int64_t)block_kv_heads(s, i) * head_dim, d = s->dim;
	const bool experts = tensor_present(&b->router), beside = experts && tensor_present(&b->expert_norm);
	const bool keeps = block_keys_of(s, i) == i;
	const bool gated = has_gate(s), none = block_set_has(&s->without_mlp, i);
	/* The width of an MLP is that of its down matrix (Gemma 4 has two widths). */
	const int64_t wide = tensor_present(&b->w_down) ? b->w_down.cols : s->ffn;
	const int64_t ffn = none ? 0 : experts && !beside ? s->shared_ffn : wide;
	const int64_t input = s->token_input;
	const bool latent = s->latent > 0;
	const int64_t own = latent ? (int64_t)s->heads * (s->nope_dim + s->rope.dim) : q,
	              values = latent ? (int64_t)s->heads * s->value_dim : kv;
	const int64_t from = latent && s->query_latent ? s->query_latent : d, seen = latent ? s->latent : d;
	const bool recurrent = block_set_has(&s->recurrent, i);
	const int64_t queries = s->attention_gated ? 2 * q : own;
	const struct expected expected[] = {
	    {&b->attention_norm, "attention_norm", 1, d, true},
	    {&b->attention_norm_bias, "attention_norm_bias", 1, d, true},
	    {&b->bq, "bq", 1, s->attention_gated ? 2 * q : q, true},
	    {&b->bk, "bk", 1, kv, true},
	    {&b->bv, "bv", 1, kv, true},
	    {&b->q_norm, "q_norm", 1, head_norm_cols(s, &b->q_norm, head_dim, q), true},
	    {&b->k_norm, "k_norm", 1, latent ? seen : head_norm_cols(s, &b->k_norm, head_dim, kv), !latent},
	    {&b->wq_a, "wq_a", s->query_latent, d, s->query_latent == 0},
	    {&b->bq_a, "bq_a", 1, s->query_latent, true},
	    {&b->q_a_norm, "q_a_norm", 1, s->query_latent, s->query_latent == 0},
	    {&b->absorb, "absorb", (int64_t)s->heads * s->latent, s->nope_dim, !latent},
	    {&b->bo, "bo", 1, d, true},
	    {&b->post_attention_norm, "post_attention_norm", 1, d, true},
	    {&b->mlp_norm, "mlp_norm", 1, d, true},
	    {&b->mlp_norm_bias, "mlp_norm_bias", 1, d, true},
	    {&b->w_gate, "w_gate", ffn, d, ffn == 0},
	    {&b->w_up, "w_up", ffn, d, ffn == 0 || !gated},
	    {&b->w_down, "w_down", d, ffn, ffn == 0},
	    {&b->b_gate, "b_gate", 1, s->ffn, true},
	    {&b->b_up, "b_up", 1, s->ffn, true},
	    {&b->b_down, "b_down", 1, d, true},
	    {&b->post_mlp_norm, "post_mlp_norm", 1, d, true},
	    {&b->sinks, "sinks", 1, s->heads, true},
	    {&b->router_bias, "router_bias", 1, s->n_experts, true},
	    {&b->expert_gate_bias, "expert_gate_bias", 1, (int64_t)s->n_experts * s->expert_ffn, true},
	    {&b->expert_up_bias, "expert_up_bias", 1, (int64_t)s->n_experts * s->expert_ffn, true},
	    {&b->expert_down_bias, "expert_down_bias", 1, (int64_t)s->n_experts * d, true},
	    {&b->choice_bias, "choice_bias", 1, s->n_experts, true},
	    {&b->shared_gate, "shared_gate", 1, d, true},
	    {&b->router_norm, "router_norm", 1, d, !beside},
	    {&b->expert_norm, "expert_norm", 1, d, true},
	    {&b->post_dense_norm, "post_dense_norm", 1, d, !beside},
	    {&b->post_expert_norm, "post_expert_norm", 1, d, !beside},
	    {&b->expert_scale, "expert_scale", 1, s->n_experts, true},
	    {&b->input_gate, "input_gate", input, d, input == 0},
	    {&b->input_out, "input_out", d, input, input == 0},
	    {&b->input_norm, "input_norm", 1, d, input == 0},
	    {&b->stream_scale, "stream_scale", 1, 1, true},
	};
	if (!keeps && (tensor_present(&b->wk) || tensor_present(&b->wv)))
		return error_set(error, "block %d reads another block's keys and has keys of its own", i);
	if (!gated && tensor_present(&b->w_up))
		return error_set(error, "block %d has a gate that its activation does not take", i);
	if (ffn > 1 << 24)
		return error_set(error, "block %d's MLP has %lld inputs; at most 2^24 are supported", i,
		                 (long long)ffn);
	const struct expected maps[] = {{&b->wq, "wq", queries, from, false},
	                                {&b->wk, "wk", kv, d, !keeps},
	                                {&b->wv, "wv", values, seen, !keeps || s->value_norm},
	                                {&b->wo, "wo", d, latent ? values : q, false}};
	char whose[32];
	snprintf(whose, sizeof whose, "block %d's ", i);
	return check_all(expected, sizeof expected / sizeof *expected, whose, error) &&
	       (recurrent ? check_recurrent_block(w, i, error) : check_all(maps, 4, whose, error)) &&
	       check_block_altup(w, i, error) && check_experts(w, i, error);
}

static bool check_weights(const struct weight_table* w, struct error* error) {
	const struct model_shape* s = &w->shape;
	const int64_t inputs = (int64_t)s->n_blocks * s->token_input;
	const bool none = inputs == 0, joins = tensor_present(&w->join), outside = s->state_dim > 0;
	const int64_t groups = w->centroids.rows, width = state_width(s);
	const int64_t known = w->input_embedding.rows < s->vocab ? w->input_embedding.rows : s->vocab;
	const struct expected expected[] = {{&w->embedding, "the embedding", s->vocab, width, false},
	                                    {&w->input_embedding, "input_embedding", known, inputs, none},
	                                    {&w->input_projection, "input_projection", inputs, s->dim, none},
	                                    {&w->input_projection_norm, "its norm", 1, s->token_input, none},
	                                    {&w->output_norm, "output_norm", 1, s->dim, false},
	                                    {&w->output_norm_bias, "output_norm_bias", 1, s->dim, true},
	                                    {&w->join, "join", s->dim, 2 * width, !outside},
	                                    {&w->join_token_norm, "join_token_norm", 1, width, !joins || outside},
	                                    {&w->join_state_norm, "join_state_norm", 1, width, !joins || outside},
	                                    {&w->leave, "leave", width, s->dim, !outside},
	                                    {&w->centroids, "centroids", groups, s->dim, true},
	                                    {&w->output, "the output head", s->vocab, s->dim, false},
	                                    {&w->output_bias, "the output head's bias", 1, s->vocab, true}};
	if (!check_shape(w, error) || !check_all(expected, sizeof expected / sizeof *expected, "", error))
		return false;
	if (groups > 0 && (s->vocab % groups || s->centroids_used < 1 || s->centroids_used > groups ||
	                   !w->token_order || s->state_dim == 0))
		return error_set(error, "the head has %lld groups for %d tokens, of which a row reads %d",
		                 (long long)groups, s->vocab, s->centroids_used);
	for (int k = 1; k < s->altup; k++) {
		const struct expected maps[] = {{&w->altup_in[k], "altup_in", s->dim, s->dim, false},
		                                {&w->altup_out[k], "altup_out", s->dim, s->dim, false}};
		if (!check_all(maps, 2, "", error))
			return false;
	}
	if (joins && shape_needs_tokens(s))
		return error_set(error,
		                 "the table joins tokens and states, and its blocks read more than the stream");
	for (int i = 0; i < s->n_blocks; i++)
		if (!check_block(w, i, error))
			return false;
	return true;
}

/* ---- norms and biases as floats ------------------------------------------------------------- */

static size_t vector_floats(const struct tensor* t) { return t->rows == 1 ? (size_t)t->cols : 0; }

static const float* widen_vectors(float** next, const struct tensor* t) {
	if (!tensor_present(t))
		return NULL;
	float* out = *next;
	dtype_to_float(t->type, t->data, out, t->cols);
	*next += t->cols;
	return out;
}

static bool open_vectors(struct cpu_backend* b, struct error* error) {
	const struct weight_table* w = b->head.weights;
	const int n_blocks = w->shape.n_blocks;
	const size_t ones = (size_t)larger_of(w->shape.head_dim, w->shape.full_head_dim);
	size_t count = ones + vector_floats(&w->output_norm) + vector_floats(&w->output_norm_bias) +
	               vector_floats(&w->output_bias) + vector_floats(&w->input_projection_norm) +
	               vector_floats(&w->join_token_norm) + vector_floats(&w->join_state_norm);
	for (int i = 0; i < n_blocks; i++)
		for (int part = 0; part < BLOCK_PARTS; part++)
			count += vector_floats(block_tensor(&w->block[i], part));
	b->vectors = malloc(count * sizeof(float));
	b->block = calloc((size_t)n_blocks, sizeof *b->block);
	b->vectors_of = calloc((size_t)n_blocks + 1, sizeof *b->vectors_of);
	if (!b->vectors || !b->block || !b->vectors_of)
		return error_set(error, "out of memory for the model's norms and biases");
	float* next = b->vectors;
	b->output_norm = widen_vectors(&next, &w->output_norm);
	b->output_norm_bias = widen_vectors(&next, &w->output_norm_bias);
	b->output_bias = widen_vectors(&next, &w->output_bias);
	b->input_projection_norm = widen_vectors(&next, &w->input_projection_norm);
	b->join_token_norm = widen_vectors(&next, &w->join_token_norm);
	b->join_state_norm = widen_vectors(&next, &w->join_state_norm);
	b->ones = next;
	for (size_t i = 0; i < ones; i++)
		*next++ = 1;
	for (int i = 0; i < n_blocks; i++) {
		b->block[i] = w->block[i];
		b->vectors_of[i] = next;
		for (int part = 0; part < BLOCK_PARTS; part++) {
			struct tensor* t = block_tensor(&b->block[i], part);
			if (vector_floats(t) == 0)
				continue;
			t->data = widen_vectors(&next, t);
			t->type = DTYPE_F32;
		}
	}
	b->vectors_of[n_blocks] = next;
	return true;
}

/* ---- workspaces ------------------------------------------------------------------------------- */

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* For a map, a single row too. */
static size_t map_bytes(const struct tensor* t) {
	return tensor_present(t) ? reference_prepared_bytes(t->type, (int)t->cols) : 0;
}

/* Bytes of a prepared row for the widest input of any matrix of the model. */
static size_t prepared_row_bytes(const struct cpu_backend* b, const struct tensor* output,
                                 const struct block_weights* block) {
	const struct model_shape* s = &b->head.weights->shape;
	size_t most = larger(reference_prepared_bytes(output->type, (int)output->cols),
	                     reference_prepared_bytes(DTYPE_Q4_0, (int)output->cols));
	most = larger(most, map_bytes(&b->head.weights->input_projection));
	most = larger(most, map_bytes(&b->head.weights->join));
	most = larger(most, map_bytes(&b->head.weights->leave));
	most = larger(most, map_bytes(&b->head.weights->centroids));
	for (int k = 1; k < s->altup; k++)
		most = larger(most, larger(map_bytes(&b->head.weights->altup_in[k]),
		                           map_bytes(&b->head.weights->altup_out[k])));
	for (int i = 0; i < s->n_blocks; i++) {
		const struct block_weights* k = &block[i];
		const struct tensor* const maps[] = {
		    &k->wq,         &k->wk,        &k->wv,           &k->wo,          &k->wq_a,     &k->absorb,
		    &k->w_gate,     &k->w_up,      &k->w_down,       &k->router,      &k->w_beta,   &k->w_decay,
		    &k->input_gate, &k->input_out, &k->altup_router, &k->laurel_down, &k->laurel_up};
		for (size_t j = 0; j < sizeof maps / sizeof *maps; j++)
			most = larger(most, map_bytes(maps[j]));
		for (int e = 0; tensor_present(&k->router) && e < s->n_experts; e++) {
			most = larger(most, map_bytes(&k->expert[e].w_gate));
			most = larger(most, map_bytes(&k->expert[e].w_up));
			most = larger(most, map_bytes(&k->expert[e].w_down));
		}
	}
	return most;
}

/* Types of matrices on one input, at most: each needs the input prepared for it. */
static int prepared_kinds(const struct block_weights* block, const struct model_shape* s) {
	int most = 1;
	for (int i = 0; i < s->n_blocks; i++) {
		const struct block_weights* k = &block[i];
		const enum dtype q = k->wq.type, key = tensor_present(&k->wk) ? k->wk.type : q,
		                 v = tensor_present(&k->wv) ? k->wv.type : key;
		const int qkv = 1 + (key != q) + (v != q && v != key), gate = 1 + (k->w_up.type != k->w_gate.type);
		const int types = 1 + (tensor_present(&k->w_beta) && k->w_beta.type != k->w_decay.type);
		most = qkv > most ? qkv : gate > most ? gate : most;
		most = types > most ? types : most;
		for (int e = 0; most < 2 && tensor_present(&k->router) && e < s->n_experts; e++)
			most = 1 + (has_gate(s) && k->expert[e].w_up.type != k->expert[e].w_gate.type);
	}
	return most;
}

/* The next `count` rows of `width` elements of `size` bytes in the workspace; each array is 64-byte aligned.
 * Before the workspace exists, it only adds up the bytes. */
static void* take_workspace(const struct cpu_backend* b, size_t* used, size_t count, size_t width,
                            size_t size) {
	void* at = b->workspace ? (unsigned char*)b->workspace + *used : NULL;
	*used += (count * width * size + 63) / 64 * 64;
	return at;
}

/* The most floats that one row's MLP, expert or token input holds between its products. */
static size_t widest(const struct weight_table* w) {
	const struct model_shape* s = &w->shape;
	size_t most = larger(larger((size_t)s->ffn, (size_t)s->expert_ffn),
	                     larger((size_t)s->shared_ffn, (size_t)s->token_input));
	for (int i = 0; i < s->n_blocks; i++)
		most = larger(most, larger((size_t)w->block[i].w_gate.rows, (size_t)w->block[i].laurel_down.rows));
	return most;
}

static size_t most_keys(const struct model_shape* s) {
	const int head_dim = s->full_head_dim ? s->full_head_dim : s->head_dim;
	const int kv_heads = s->full_kv_heads ? s->full_kv_heads : s->kv_heads;
	return larger((size_t)s->kv_heads * (size_t)s->head_dim, (size_t)kv_heads * (size_t)head_dim);
}

static bool has_experts_beside(const struct weight_table* w) {
	for (int i = 0; i < w->shape.n_blocks; i++)
		if (tensor_present(&w->block[i].expert_norm))
			return true;
	return false;
}

static size_t lay_out(struct cpu_backend* b) {
	const struct model_shape* s = &b->head.weights->shape;
	const size_t rows = (size_t)b->slice_rows, dim = (size_t)s->dim;
	const size_t ffn = widest(b->head.weights);
	const int full_dim = larger_of(s->head_dim, s->full_head_dim);
	const size_t experts = (size_t)s->n_experts, chosen = (size_t)s->experts_used;
	const size_t q = (size_t)s->heads * (size_t)full_dim, kv = most_keys(s);
	const size_t threads = (size_t)b->threads, vocab = (size_t)s->vocab;
	const size_t inputs = (size_t)s->n_blocks * (size_t)s->token_input;
	const struct weight_table* w = b->head.weights;
	const size_t prepared = prepared_row_bytes(b, &w->output, b->block);
	size_t used = 0;
	struct angles* const angles[] = {&b->every, &b->sliding};
	for (int i = 0; i < 2; i++) {
		angles[i]->cosine = take_workspace(b, &used, rows, (size_t)angles[i]->rope.pairs, sizeof(float));
		angles[i]->sine = take_workspace(b, &used, rows, (size_t)angles[i]->rope.pairs, sizeof(float));
	}
	b->x = take_workspace(b, &used, rows, dim, sizeof(float));
	b->normed = take_workspace(b, &used, rows, dim, sizeof(float));
	b->y = take_workspace(b, &used, rows, dim, sizeof(float));
	b->q = take_workspace(b, &used, rows, q, sizeof(float));
	b->mixed = take_workspace(b, &used, rows, q, sizeof(float));
	b->k = take_workspace(b, &used, rows, kv, sizeof(float));
	b->v = take_workspace(b, &used, rows, kv, sizeof(float));
	b->wide = take_workspace(b, &used, rows, recurrent_width(s), sizeof(float));
	if (b->recurrent.blocks > 0) {
		const struct recurrence* r = &s->recurrence;
		const size_t values = (size_t)recurrence_values(r);
		b->recurrent.mixed = take_workspace(b, &used, rows, (size_t)recurrence_channels(r), sizeof(float));
		b->recurrent.gate = take_workspace(b, &used, rows, values, sizeof(float));
		b->recurrent.out = take_workspace(b, &used, rows, values, sizeof(float));
		b->recurrent.beta_decay = take_workspace(b, &used, rows, 2 * (size_t)r->value_heads, sizeof(float));
	}
	b->gate = take_workspace(b, &used, rows, ffn, sizeof(float));
	b->up = take_workspace(b, &used, rows, ffn, sizeof(float));
	const size_t input = larger(larger(dim, q), larger(ffn, (size_t)recurrence_values(&s->recurrence)));
	b->thinned = take_workspace(b, &used, rows, input, sizeof(float));
	const bool beside = s->parallel || has_experts_beside(w) || attention_beside(s);
	b->beside = take_workspace(b, &used, beside ? rows : 0, dim, sizeof(float));
	const size_t states = (size_t)s->altup;
	b->altup = take_workspace(b, &used, states * rows, dim, sizeof(float));
	b->routed = take_workspace(b, &used, rows, states, sizeof(float));
	b->laurel = take_workspace(b, &used, states ? rows : 0, dim, sizeof(float));
	if (!states)
		b->altup = NULL;
	const size_t width = (size_t)state_width(s);
	b->joined = take_workspace(b, &used, tensor_present(&w->join) ? rows : 0, 2 * width, sizeof(float));
	b->centroid = take_workspace(b, &used, 1, (size_t)w->centroids.rows, sizeof(float));
	b->near = take_workspace(b, &used, 1, (size_t)s->centroids_used, sizeof(int32_t));
	b->token_inputs = take_workspace(b, &used, rows, inputs, sizeof(float));
	const size_t own =
	    s->latent ? (size_t)s->heads * (size_t)larger_of(s->nope_dim + s->rope.dim, s->value_dim) : 0;
	b->expanded = take_workspace(b, &used, rows, own, sizeof(float));
	b->query_latent = take_workspace(b, &used, rows, (size_t)s->query_latent, sizeof(float));
	b->of_head = take_workspace(b, &used, rows, (size_t)larger_of(s->nope_dim, s->latent), sizeof(float));
	b->own_inputs = take_workspace(b, &used, 1, inputs, sizeof(float));
	b->probabilities = take_workspace(b, &used, rows, experts, sizeof(float));
	b->wanted = take_workspace(b, &used, rows, experts, sizeof(float));
	b->chosen_weight = take_workspace(b, &used, rows, chosen, sizeof(float));
	b->chosen = take_workspace(b, &used, rows, chosen, sizeof(int32_t));
	b->gathered = take_workspace(b, &used, experts ? rows : 0, dim, sizeof(float));
	b->given = take_workspace(b, &used, experts ? rows : 0, dim, sizeof(float));
	for (int i = 0; i < prepared_kinds(b->block, s); i++)
		b->prepared[i] = take_workspace(b, &used, rows, prepared, 1);
	b->looked = take_workspace(b, &used, (size_t)NOTED_ROWS * (size_t)most_kv_heads(s), (size_t)look_pages(b),
	                           sizeof(float));
	b->attended = take_workspace(b, &used, threads, attention_floats(b), sizeof(float));
	b->head_group = take_workspace(b, &used, 1, vocab / INTERLEAVED_ROWS + 1, sizeof(int32_t));
	b->logits = take_workspace(b, &used, (size_t)b->head_rows, vocab, sizeof(float));
	b->scratch = take_workspace(b, &used, threads * 2, vocab, sizeof(float));
	return used;
}

/* With more rows in a slice, a long prompt reads the weights fewer times. */
static int fitting_rows(struct cpu_backend* b) {
	b->slice_rows = 0;
	const size_t fixed = lay_out(b);
	b->slice_rows = SLICE_ROWS;
	const size_t more = slice_bytes / ((lay_out(b) - fixed) / SLICE_ROWS);
	return more >= MAX_ROWS ? MAX_ROWS : more <= SLICE_ROWS ? SLICE_ROWS : (int)more / 32 * 32;
}

/* The most floats that products on one input give, which is what processes combine at once. */
static size_t most_shared(const struct cpu_backend* b) {
	const struct model_shape* s = &b->head.weights->shape;
	const size_t qkv = (size_t)(s->attention_gated ? 2 : 1) * (size_t)s->heads *
	                       (size_t)larger_of(s->head_dim, s->full_head_dim) +
	                   2 * most_keys(s);
	const size_t recurrent = recurrent_width(s) + (size_t)recurrence_values(&s->recurrence);
	const size_t gated = 2 * widest(b->head.weights), inputs = (size_t)s->n_blocks * (size_t)s->token_input;
	const size_t width = larger(larger(larger(qkv, recurrent), gated),
	                            larger(larger((size_t)s->dim, (size_t)s->n_experts), inputs));
	const size_t own = (size_t)s->heads * (size_t)larger_of(s->nope_dim + s->rope.dim, s->value_dim);
	return larger((size_t)b->slice_rows * larger(larger(width, own), (size_t)s->query_latent),
	              (size_t)b->head_rows * (size_t)s->vocab);
}

static bool open_workspace(struct cpu_backend* b, struct error* error) {
	const size_t fit = logits_bytes / ((size_t)b->head.weights->shape.vocab * sizeof(float));
	b->head_rows = fit < 1 ? 1 : fit > SLICE_ROWS ? SLICE_ROWS : (int)fit;
	b->slice_rows = fitting_rows(b);
	const size_t bytes = lay_out(b);
	b->workspace = aligned_alloc(64, bytes);
	if (!b->workspace)
		return error_set(error, "out of memory for %zu MiB of workspace", bytes >> 20);
	lay_out(b);
	return !b->group || b->group->reserve(b->group, most_shared(b)) ||
	       error_set(error,
	                 "out of memory for the collective operations of the processes that share the model");
}

/* Draft weights have fewer bits than stored ones, so prepared inputs fit the workspace as it is. */
static bool cpu_use_draft_weights(struct backend* backend, const struct draft_weights* quantized,
                                  struct error* error) {
	struct cpu_backend* b = cpu_of(backend);
	const struct weight_table* w = backend->weights;
	if (prepared_row_bytes(b, quantized->output, quantized->block) >
	        prepared_row_bytes(b, &w->output, b->block) ||
	    prepared_kinds(quantized->block, &w->shape) > prepared_kinds(b->block, &w->shape))
		return error_set(
		    error, "the inputs of quantized draft weights need more room than those of the stored weights");
	if (quantized->format.columns &&
	    (!column_lists_open(b, &quantized->columns) || !thin_open(b, &quantized->columns)))
		return error_set(error, "out of memory for the channels that drafts keep");
	b->draft_weights = quantized;
	return true;
}

struct backend* cpu_open(const struct weight_table* weights, const struct backend_options* options,
                         struct error* error) {
	const struct cpu_kernels* kernels = cpu_kernels_choose(options->isa, error);
	if (!kernels || !check_weights(weights, error))
		return NULL;
	struct cpu_backend* b = calloc(1, sizeof *b);
	if (!b) {
		error_set(error, "out of memory for the backend");
		return NULL;
	}
	b->kernels = kernels;
	b->group = options->group;
	b->cache_bytes = options->cache_bytes;
	b->context = options->context > 0 ? options->context : weights->shape.context;
	b->head = (struct backend){
	    .weights = weights,
	    .prefill_is_exact = true,
	    .close = cpu_close,
	    .cache_open = cpu_cache_open,
	    .cache_close = cpu_cache_close,
	    .run = cpu_run,
	    .commit = cpu_commit,
	    .discard = cpu_discard,
	    .rewind = paged_rewind,
	    .truncate = cpu_truncate,
	    .adopt = paged_adopt,
	    .reserve = paged_reserve,
	    .room = paged_room,
	    .list_pages = options->group ? NULL : cpu_list_pages,
	    .page_bytes = paged_page_bytes,
	    .page_save = paged_save,
	    .page_restore = paged_restore,
	    .use_draft_weights = cpu_use_draft_weights,
	    .columns = true,
	    .thins = !options->group,
	    .bounds_guesses = !options->group,
	    .bandwidth = cpu_bandwidth,
	    .threads = cpu_threads,
	    .rest = cpu_rest,
	    .abandon = cpu_abandon,
	};
	snprintf(b->head.name, sizeof b->head.name, "cpu (%s)", kernels->name);
	b->pool = b->usual = pool_open(options->threads);
	b->threads = b->pool ? pool_threads(b->pool) : 0;
	bool done = b->pool || error_set(error, "the threads of the pool could not be made");
	done = done && rope_open(&b->every.rope, &weights->shape.rope, error) &&
	       rope_open(&b->sliding.rope, &weights->shape.sliding_rope, error) && open_vectors(b, error) &&
	       recurrent_open(b, error);
	if (!done || !open_workspace(b, error)) {
		cpu_close(&b->head);
		return NULL;
	}
	if (options->screened_head)
		screened_open(b);
	if (options->interleaves)
		interleave_weights(b);
	if (b->recurrent.blocks > 0) {
		b->kept.floats = recurrent_bytes(&weights->shape) / sizeof(float);
		b->head.adopt = cpu_adopt_states;
		b->head.next_kept = recurrent_next_kept;
		b->head.state_bytes = recurrent_state_bytes;
		b->head.state_save = recurrent_save;
		b->head.state_restore = recurrent_restore;
	}
	return &b->head;
}
