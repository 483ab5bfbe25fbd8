/* The pass: rows of tokens go through a span of sub-layers, slice by slice.
 *
 * A slice is at most slice_rows rows in the pass's own order, in which parents come first. So when a slice
 * runs, everything that its rows read has been written. Each sub-layer is read top to bottom below: norm,
 * products, the part between them, output product, residual add. */
#include "kernels/clock.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/matmul.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- rows ---------------------------------------------------------------------------------- */

static void open_row(struct slice_row* row, const struct segment* segment, int index) {
	struct cpu_cache* c = (struct cpu_cache*)segment->cache;
	const struct pending_row* p = &c->paged.row[index];
	assert(p->base == segment->base);
	row->cache = c;
	row->keys = segment->reads ? (const struct cpu_cache*)segment->reads : c;
	row->sampler = segment->sampler;
	row->penalties = segment->penalties;
	row->pages = segment->pages;
	row->index = index;
	row->position = p->base + p->depth;
	row->base = segment->reads ? segment->reads->committed : p->base;
	row->at = segment->reads ? row->base : row->position;
	row->later = segment->later;
	row->n_ancestors = segment->reads ? 0 : paged_ancestors(&c->paged, index, row->ancestor);
}

static void open_slice(struct cpu_backend* b, const struct pass* pass, struct paged_walk* walk, int r0,
                       int n) {
	for (int i = 0; i < n; i++) {
		struct slice_row* row = &b->row[i];
		int index;
		const struct segment* segment = paged_next(pass, walk, r0 + i, &index);
		open_row(row, segment, index);
		assert(row->cache->paged.row[index].at == pass->first);
		row->allowed = segment->allowed ? segment->allowed[walk->within - 1] : NULL;
	}
	looked_begin(b, pass, r0, n);
}

/* ---- sub-layers ---------------------------------------------------------------------------- */

static float* row_at(float* rows, int i, int width) { return rows + (size_t)i * (size_t)width; }

void add_bias(float* rows, const float* bias, int width, int n) {
	if (bias)
		for (int i = 0; i < n; i++)
			for (int j = 0; j < width; j++)
				row_at(rows, i, width)[j] += bias[j];
}

/* Adds the sub-layer's output y to the hidden states. */
static void add_output(struct cpu_backend* b, const float* bias, const float* post_norm, float out_scale,
                       int n) {
	const int dim = b->head.weights->shape.dim;
	add_bias(b->y, bias, dim, n);
	if (post_norm)
		norm_rows(b, b->y, b->y, post_norm, NULL, dim, n);
	const size_t count = (size_t)n * (size_t)dim;
	const float scale = b->head.weights->shape.residual_scale * (out_scale != 0 ? out_scale : 1);
	for (size_t i = 0; scale != 1.0f && i < count; i++)
		b->y[i] *= scale;
	for (int i = 0; i < n; i++)
		b->kernels->join(row_at(b->x, i, dim), row_at(b->y, i, dim), dim);
}

/* Norm of queries and keys, by head with the same weights (Qwen3) or each with its own (StableLM), or over
 * all heads (OLMo 2). */
static void norm_heads(const struct cpu_backend* b, float* heads, int count, int head_dim,
                       const struct tensor* norm) {
	if (tensor_present(norm) && b->head.weights->shape.norms_by_head) {
		for (int h = 0; h < count; h++)
			norm_rows(b, row_at(heads, h, head_dim), row_at(heads, h, head_dim), floats(norm) + h * head_dim,
			          NULL, head_dim, 1);
		return;
	}
	if (tensor_present(norm) && norm->cols == head_dim)
		norm_rows(b, heads, heads, floats(norm), NULL, head_dim, count);
	else if (tensor_present(norm))
		norm_rows(b, heads, heads, floats(norm), NULL, head_dim * count, 1);
}

static void rotate_heads(const struct cpu_backend* b, int block, float* heads, int count, int head_dim,
                         int i) {
	const struct model_shape* s = &b->head.weights->shape;
	const struct angles* a =
	    b->sliding.rope.pairs && block_set_has(&s->sliding, block) ? &b->sliding : &b->every;
	const int pairs = a->rope.pairs;
	if (block_set_has(&s->unrotated, block))
		return;
	for (int h = 0; h < count; h++)
		rope_rotate(row_at(heads, h, head_dim), row_at(a->cosine, i, pairs), row_at(a->sine, i, pairs), pairs,
		            s->rope.interleaved);
}

/* Norm and rotation of queries or keys, in the model's order. */
static void norm_and_rotate_heads(const struct cpu_backend* b, int block, float* heads, int count,
                                  const struct tensor* norm, int i) {
	const struct model_shape* s = &b->head.weights->shape;
	const int head_dim = block_head_dim(s, block);
	if (!s->norm_after_rope)
		norm_heads(b, heads, count, head_dim, norm);
	rotate_heads(b, block, heads, count, head_dim, i);
	if (s->norm_after_rope)
		norm_heads(b, heads, count, head_dim, norm);
}

struct row_store {
	struct cpu_backend* b;
	int block;
	bool queries, keys; /* whether there are some */
};

/* Rounds a row's keys and values into the cache. */
static void store_keys(const struct cpu_backend* b, int block, float* k, float* v, int i) {
	const struct model_shape* s = &b->head.weights->shape;
	const int kv_heads = block_kv_heads(s, block), head_dim = block_head_dim(s, block);
	struct cpu_cache* c = b->row[i].cache;
	if (s->value_norm)
		norm_rows(b, v, v, b->ones, NULL, head_dim, kv_heads);
	norm_and_rotate_heads(b, block, k, kv_heads, &b->block[block].k_norm, i);
	const int slot = c->paged.head.committed + b->row[i].index;
	for (int h = 0; h < kv_heads; h++) {
		unsigned char key[MAX_KEY_BYTES];
		unsigned char* value = slot_at(c, block, values_at(c, block, h), slot);
		b->kernels->store(c->paged.head.type, key, row_at(k, h, head_dim), head_dim);
		key_put(c->paged.head.type, page_at(c, keys_at(c, block, h), slot), slot % PAGE_SLOTS, key, head_dim);
		b->kernels->store(c->paged.head.type, value, row_at(v, h, head_dim), head_dim);
	}
}

/* Rotates one row's queries and keys, and rounds its keys and values into the cache. */
static void store_row(void* user, int i, int thread) {
	(void)thread;
	const struct row_store* job = user;
	const struct cpu_backend* b = job->b;
	const struct model_shape* s = &b->head.weights->shape;
	const int head_dim = block_head_dim(s, job->block), kv_width = block_kv_heads(s, job->block) * head_dim;
	if (job->queries)
		norm_and_rotate_heads(b, job->block, row_at(b->q, i, s->heads * head_dim), s->heads,
		                      &b->block[job->block].q_norm, i);
	if (job->keys)
		store_keys(b, job->block, row_at(b->k, i, kv_width), row_at(b->v, i, kv_width), i);
}

/* True for a recurrence with attention beside it, in the block after it. */
static bool leads_pair(const struct model_shape* s, int block) {
	return block + 1 < s->n_blocks && block_set_has(&s->beside_recurrence, block + 1);
}

/* A sub-layer's input: the hidden states, under its norm if it has one. */
static const float* sub_layer_input(const struct cpu_backend* b, const float* norm, const float* bias,
                                    int n) {
	if (!norm)
		return b->x;
	norm_rows(b, b->normed, b->x, norm, bias, b->head.weights->shape.dim, n);
	return b->normed;
}

/* That of attention or of a recurrence. What two blocks read is in `beside`. */
static const float* attention_input(const struct cpu_backend* b, int block, int n) {
	const struct model_shape* s = &b->head.weights->shape;
	const struct block_weights* vectors = &b->block[block];
	if (block_set_has(&s->beside_recurrence, block) || leads_pair(s, block))
		return b->beside;
	return sub_layer_input(b, floats(&vectors->attention_norm), floats(&vectors->attention_norm_bias), n);
}

/* The source of a sub-layer's weights. */
struct sub_layer_weights {
	const struct block_weights* w;       /* stored, or copied row by row */
	const struct block_columns* columns; /* NULL, or the draft weights that replace the stored ones */
	const struct levels* levels;         /* of draft weights by input channel, or stored_levels; NULL: all */
	int n_blocks;
};

/* out (n, …) = x (n, cols) · wᵀ for up to three matrices of a kind with one input. */
static void multiply_kind(struct cpu_backend* b, const struct sub_layer_weights* from, int block,
                          enum column_kind kind, const float* x, int64_t cols, int n,
                          const struct product* product, int count) {
	const float share = from->levels ? level_kept(from->levels, block, from->n_blocks, kind) : 1;
	if (!from->columns) {
		multiply(b, share < 1 ? thin_rows(b, block, kind, x, share, n) : x, cols, n, product, count);
		return;
	}
	multiply_columns(b, x, n, &from->columns->map[kind], share, product, count);
}

/* Splits a row of `wide`, which holds each head's query and then its gate. */
static void take_queries(const struct cpu_backend* b, int n) {
	const struct model_shape* s = &b->head.weights->shape;
	for (int i = 0; i < n * s->heads; i++)
		memcpy(row_at(b->q, i, s->head_dim), row_at(b->wide, i, 2 * s->head_dim),
		       (size_t)s->head_dim * sizeof(float));
}

static void gate_heads(void* user, int i, int thread) {
	(void)thread;
	const struct cpu_backend* b = user;
	const struct model_shape* s = &b->head.weights->shape;
	for (int h = i * s->heads; h < (i + 1) * s->heads; h++) {
		const float* gate = row_at(b->wide, h, 2 * s->head_dim) + s->head_dim;
		float* mixed = row_at(b->mixed, h, s->head_dim);
		for (int j = 0; j < s->head_dim; j++)
			mixed[j] /= 1 + expf(-gate[j]);
	}
}

/* Queries, keys and values of the rows; keys and values go to the cache. queries false: a draft skips the
 * sub-layer, but later blocks read its keys and values. */
static void project_rows(struct cpu_backend* b, const struct sub_layer_weights* from, int block, bool queries,
                         int n) {
	const struct block_weights *w = from->w, *vectors = &b->block[block];
	const struct model_shape* s = &b->head.weights->shape;
	const int head_dim = block_head_dim(s, block);
	const int q_width = s->heads * head_dim, kv_width = block_kv_heads(s, block) * head_dim;
	const bool keys = tensor_present(&w->wk);
	const int wide = s->attention_gated ? 2 * q_width : q_width;
	float* const first = s->attention_gated ? b->wide : b->q;
	const float* x = attention_input(b, block, n);
	if (s->latent) {
		latent_project(b, block, x, n);
		return;
	}
	struct product qkv[3];
	int count = 0;
	if (queries)
		qkv[count++] = (struct product){.out = first, .stride = (size_t)wide, .w = &w->wq};
	if (keys)
		qkv[count++] = (struct product){.out = b->k, .stride = (size_t)kv_width, .w = &w->wk};
	if (tensor_present(&w->wv))
		qkv[count++] = (struct product){.out = b->v, .stride = (size_t)kv_width, .w = &w->wv};
	multiply_kind(b, from, block, COLUMN_ATTENTION, x, s->dim, n, qkv, count);
	if (queries)
		add_bias(first, floats(&vectors->bq), wide, n);
	if (queries && s->attention_gated)
		take_queries(b, n);
	if (keys) {
		add_bias(b->k, floats(&vectors->bk), kv_width, n);
		add_bias(b->v, floats(&vectors->bv), kv_width, n);
	}
	if (keys && !tensor_present(&w->wv))
		memcpy(b->v, b->k, (size_t)n * (size_t)kv_width * sizeof *b->v);
	struct row_store job = {.b = b, .block = block, .queries = queries, .keys = keys};
	spread(b, n, (double)n * (q_width + 2 * kv_width) * 4, store_row, &job);
}

static void attention_sub_layer(struct cpu_backend* b, const struct sub_layer_weights* from, int block,
                                int n) {
	const struct block_weights *w = from->w, *vectors = &b->block[block];
	const struct model_shape* s = &b->head.weights->shape;
	project_rows(b, from, block, true, n);
	const double began = seconds_now();
	attend(b, block, n);
	b->attending += seconds_now() - began;
	if (s->attention_gated)
		spread(b, n, (double)n * s->heads * s->head_dim * 32, gate_heads, b);
	const struct product out = {.out = b->y, .stride = (size_t)s->dim, .w = &w->wo};
	const float* mixed = s->latent ? latent_values(b, block, n) : b->mixed;
	const int width = s->heads * (s->latent ? s->value_dim : block_head_dim(s, block));
	multiply_kind(b, from, block, COLUMN_ATTENTION_OUT, mixed, width, n, &out, 1);
	add_output(b, floats(&vectors->bo), floats(&vectors->post_attention_norm), s->attention_out_scale, n);
}

/* Replaces attention in recurrent blocks: kernels/cpu/recurrent.h. */
static void recurrent_sub_layer(struct cpu_backend* b, const struct sub_layer_weights* from, int block, int n,
                                bool prefill) {
	const struct block_weights* w = from->w;
	const struct model_shape* s = &b->head.weights->shape;
	const struct recurrence* r = &s->recurrence;
	const struct block_weights* vectors = &b->block[block];
	const struct recurrent_work* work = &b->recurrent;
	const size_t values = (size_t)recurrence_values(r), both = 2 * (size_t)r->value_heads;
	const float* x = attention_input(b, block, n);
	const bool shorter = r->key_dim == 0; /* a short convolution */
	const struct product in[] = {{.out = b->wide, .stride = (size_t)w->wq.rows, .w = &w->wq},
	                             {.out = work->gate, .stride = values, .w = &w->wk}};
	multiply_kind(b, from, block, COLUMN_ATTENTION, x, s->dim, n, in, shorter ? 1 : 2);
	const struct product beta_decay[] = {
	    {.out = work->beta_decay, .stride = both, .w = &w->w_beta},
	    {.out = work->beta_decay + r->value_heads, .stride = both, .w = &w->w_decay}};
	if (r->state_space)
		multiply(b, x, s->dim, n, &beta_decay[1], 1);
	else if (!shorter)
		multiply(b, x, s->dim, n, beta_decay, 2);
	recurrent_rows(b, block, n, prefill);
	const struct product out = {.out = b->y, .stride = (size_t)s->dim, .w = &w->wo};
	multiply_kind(b, from, block, COLUMN_ATTENTION_OUT, work->gate, (int64_t)values, n, &out, 1);
	add_output(b, floats(&vectors->bo), floats(&vectors->post_attention_norm), s->recurrent_out_scale, n);
}

/* An element takes as long as reading so many bytes of weights (.86 ns, AVX-512, Cascade Lake). */
enum { GATE_BYTES = 16 };

struct gate_job {
	struct cpu_backend* b;
	int width;
	const float *gate_bias, *up_bias;
};

/* Keeps of each row's gate only what exceeds its mean by `sparsity` standard deviations (Gemma 3n). */
static void sparsify_rows(float* rows, float sparsity, int width, int n) {
	for (int i = 0; i < n; i++) {
		float* row = row_at(rows, i, width);
		double sum = 0, squares = 0;
		for (int j = 0; j < width; j++)
			sum += (double)row[j];
		const double mean = sum / width;
		for (int j = 0; j < width; j++)
			squares += ((double)row[j] - mean) * ((double)row[j] - mean);
		const float cutoff = (float)mean + (float)sqrt(squares / width) * sparsity;
		for (int j = 0; j < width; j++)
			row[j] = fmaxf(row[j] - cutoff, 0);
	}
}

static void gate_row(void* user, int i, int thread) {
	(void)thread;
	const struct gate_job* job = user;
	float *gate = row_at(job->b->gate, i, job->width), *up = row_at(job->b->up, i, job->width);
	add_bias(gate, job->gate_bias, job->width, 1);
	const float scale = job->b->head.weights->shape.gate_scale;
	for (int j = 0; scale != 0 && j < job->width; j++)
		gate[j] *= scale;
	add_bias(up, job->up_bias, job->width, 1);
	job->b->kernels->gate(gate, up, job->b->head.weights->shape.activation, job->width);
}

void gate_rows(struct cpu_backend* b, int width, const float* gate_bias, const float* up_bias, int n) {
	struct gate_job job = {b, width, gate_bias, up_bias};
	spread(b, n, (double)n * width * GATE_BYTES, gate_row, &job);
}

struct activate_job {
	struct cpu_backend* b;
	const struct block_weights* vectors;
	int width;
};

static void activate_row(void* user, int i, int thread) {
	(void)thread;
	const struct activate_job* job = user;
	float* const row = row_at(job->b->gate, i, job->width);
	add_bias(row, floats(&job->vectors->b_gate), job->width, 1);
	activate(job->b->head.weights->shape.activation, &job->vectors->xielu, row, job->width);
}

/* Applies the activation of an MLP without a gate, and its bias. */
static void activate_rows(struct cpu_backend* b, int block, int width, int n) {
	struct activate_job job = {b, &b->block[block], width};
	spread(b, n, (double)n * width * GATE_BYTES, activate_row, &job);
}

static void run_mlp(struct cpu_backend* b, const struct sub_layer_weights* from, int block, const float* x,
                    int n) {
	const struct block_weights *w = from->w, *vectors = &b->block[block];
	const struct model_shape* s = &b->head.weights->shape;
	const int ffn = (int)vectors->w_gate.rows;
	const bool gated = tensor_present(&w->w_up);
	const struct product in[] = {{.out = b->gate, .stride = (size_t)ffn, .w = &w->w_gate},
	                             {.out = b->up, .stride = (size_t)ffn, .w = &w->w_up}};
	multiply_kind(b, from, block, COLUMN_MLP, x, s->dim, n, in, gated ? 2 : 1);
	if (w->sparse)
		sparsify_rows(b->gate, w->sparsity, ffn, n);
	if (gated)
		gate_rows(b, ffn, floats(&vectors->b_gate), floats(&vectors->b_up), n);
	else
		activate_rows(b, block, ffn, n);
	const struct product out = {.out = b->y, .stride = (size_t)s->dim, .w = &w->w_down};
	multiply_kind(b, from, block, COLUMN_DOWN, b->gate, ffn, n, &out, 1);
}

/* Gemma 4: y = norm(MLP) + norm(experts), each reading the stream under a norm of its own. */
static void run_mlp_and_experts(struct cpu_backend* b, const struct sub_layer_weights* from, int block,
                                const float* x, int n) {
	const struct block_weights *w = from->w, *vectors = &b->block[block];
	const int dim = b->head.weights->shape.dim;
	run_mlp(b, from, block, x, n);
	norm_rows(b, b->beside, b->y, floats(&vectors->post_dense_norm), NULL, dim, n);
	norm_rows(b, b->normed, b->x, floats(&vectors->router_norm), NULL, dim, n);
	choose_experts(b, w, vectors, b->normed, n);
	norm_rows(b, b->normed, b->x, floats(&vectors->expert_norm), NULL, dim, n);
	run_experts(b, w, vectors, b->normed, n);
	norm_rows(b, b->y, b->y, floats(&vectors->post_expert_norm), NULL, dim, n);
	for (size_t i = 0; i < (size_t)n * (size_t)dim; i++)
		b->y[i] += b->beside[i];
}

static void mlp_sub_layer(struct cpu_backend* b, const struct sub_layer_weights* from, int block, int n) {
	const struct block_weights *w = from->w, *vectors = &b->block[block];
	const float* x = b->head.weights->shape.parallel
	                     ? b->beside
	                     : sub_layer_input(b, floats(&vectors->mlp_norm), floats(&vectors->mlp_norm_bias), n);
	if (tensor_present(&w->expert_norm)) {
		run_mlp_and_experts(b, from, block, x, n);
	} else if (tensor_present(&w->router)) {
		choose_experts(b, w, vectors, x, n);
		run_experts(b, w, vectors, x, n);
	} else {
		run_mlp(b, from, block, x, n);
	}
	add_output(b, floats(&vectors->b_down), floats(&vectors->post_mlp_norm),
	           b->head.weights->shape.mlp_out_scale, n);
}

/* y = the input that the block takes of the rows' tokens. */
static void compute_token_input(struct cpu_backend* b, int block, int n) {
	const struct block_weights *w = &b->head.weights->block[block], *vectors = &b->block[block];
	const struct model_shape* s = &b->head.weights->shape;
	const int width = s->token_input, dim = s->dim;
	const struct product gate = {.out = b->gate, .stride = (size_t)width, .w = &w->input_gate};
	multiply(b, b->x, dim, n, &gate, 1);
	for (int i = 0; i < n; i++)
		b->kernels->gate(row_at(b->gate, i, width),
		                 row_at(b->token_inputs, i, s->n_blocks * width) + (size_t)block * (size_t)width,
		                 s->activation, width);
	const struct product out = {.out = b->y, .stride = (size_t)dim, .w = &w->input_out};
	multiply(b, b->gate, width, n, &out, 1);
	norm_rows(b, b->y, b->y, floats(&vectors->input_norm), NULL, dim, n);
}

/* The end of a block that computes one of several states. After the last block x is the state of all. */
static void end_altup_block(struct cpu_backend* b, int block, int n) {
	altup_share(b, block, n);
	compute_token_input(b, block, n);
	altup_add_others(b, n);
	if (block == b->head.weights->shape.n_blocks - 1)
		altup_end(b, n);
}

/* The step after a block's MLP, even a skipped one: it costs little, and later blocks expect it. */
static void end_block(struct cpu_backend* b, int block, int n) {
	const float* scale = floats(&b->block[block].stream_scale);
	const int dim = b->head.weights->shape.dim;
	if (b->head.weights->shape.altup) {
		end_altup_block(b, block, n);
		return;
	}
	if (b->head.weights->shape.token_input) {
		compute_token_input(b, block, n);
		for (int i = 0; i < n; i++)
			b->kernels->join(row_at(b->x, i, dim), row_at(b->y, i, dim), dim);
	}
	for (size_t i = 0; scale && i < (size_t)n * (size_t)b->head.weights->shape.dim; i++)
		b->x[i] *= *scale;
}

/* The common input of both sub-layers, when a block's sub-layers are parallel, or of a recurrence and the
 * attention beside it. */
static void begin_block(struct cpu_backend* b, int block, int n) {
	const struct block_weights* vectors = &b->block[block];
	if (b->head.weights->shape.altup)
		altup_begin_block(b, block, n);
	if (b->head.weights->shape.parallel || leads_pair(&b->head.weights->shape, block))
		norm_rows(b, b->beside, b->x, floats(&vectors->attention_norm), floats(&vectors->attention_norm_bias),
		          b->head.weights->shape.dim, n);
}

/* ---- the slice ----------------------------------------------------------------------------- */

/* A token's row of the embedding, scaled. */
static void load_embedding(const struct cpu_backend* b, int32_t token, float* x) {
	const struct weight_table* w = b->head.weights;
	const int dim = (int)w->embedding.cols;
	const size_t row_bytes = dtype_row_bytes(w->embedding.type, dim);
	assert(token >= 0 && token < w->shape.vocab);
	dtype_to_float(w->embedding.type, (const unsigned char*)w->embedding.data + (size_t)token * row_bytes, x,
	               dim);
	if (w->shape.embedding_scale != 1.0f)
		for (int j = 0; j < dim; j++)
			x[j] *= w->shape.embedding_scale;
}

/* x = join · [norm(embedding); norm(state)], where there are such norms. */
static void join_rows(struct cpu_backend* b, const struct pass* pass, int r0, int n) {
	const struct model_shape* s = &b->head.weights->shape;
	const int width = state_width(s);
	for (int i = 0; i < n; i++) {
		float *const joined = row_at(b->joined, i, 2 * width), *const state = joined + width;
		load_embedding(b, pass->token[r0 + i], joined);
		memcpy(state, pass->state + (size_t)(r0 + i) * (size_t)width, (size_t)width * sizeof *state);
		if (b->join_token_norm)
			norm_rows(b, joined, joined, b->join_token_norm, NULL, width, 1);
		if (b->join_state_norm)
			norm_rows(b, state, state, b->join_state_norm, NULL, width, 1);
	}
	const struct product product = {.out = b->x, .stride = (size_t)s->dim, .w = &b->head.weights->join};
	multiply(b, b->joined, 2 * (int64_t)width, n, &product, 1);
}

static void load_hidden(struct cpu_backend* b, const struct pass* pass, int r0, int n) {
	const int dim = b->head.weights->shape.dim;
	if (tensor_present(&b->head.weights->join)) {
		join_rows(b, pass, r0, n);
		return;
	}
	for (int i = 0; i < n; i++) {
		float* x = row_at(b->x, i, dim);
		if (pass->first > 0) {
			const float* from = pass->state ? pass->state + (size_t)(r0 + i) * (size_t)dim
			                                : row_at(b->row[i].cache->hidden, b->row[i].index, dim);
			memcpy(x, from, (size_t)dim * sizeof *x);
			if (b->row[i].cache->beside)
				memcpy(row_at(b->beside, i, dim), row_at(b->row[i].cache->beside, b->row[i].index, dim),
				       (size_t)dim * sizeof *x);
			if (b->altup)
				altup_load(b, i);
			continue;
		}
		load_embedding(b, pass->token[r0 + i], x);
	}
	if (b->altup && pass->first == 0)
		altup_begin(b, n);
}

/* The part of the token inputs that comes from the tokens' rows of the table; *row has the other part. */
static void join_token_input(const struct cpu_backend* b, int32_t token, float* row) {
	const struct weight_table* w = b->head.weights;
	const struct model_shape* s = &w->shape;
	const size_t bytes = dtype_row_bytes(w->input_embedding.type, w->input_embedding.cols);
	const int width = s->n_blocks * s->token_input;
	float* own = b->own_inputs;
	if (token >= w->input_embedding.rows)
		token = 0;
	for (int j = 0; j < width; j++)
		row[j] *= 1.0f / sqrtf((float)s->dim);
	norm_rows(b, row, row, b->input_projection_norm, NULL, s->token_input, s->n_blocks);
	dtype_to_float(w->input_embedding.type,
	               (const unsigned char*)w->input_embedding.data + (size_t)token * bytes, own, width);
	for (int j = 0; j < width; j++)
		row[j] = (row[j] + own[j] * sqrtf((float)s->token_input)) * sqrtf(0.5f);
}

/* Computes the token inputs of all blocks for the rows. */
static void load_token_inputs(struct cpu_backend* b, int n) {
	const struct model_shape* s = &b->head.weights->shape;
	const int width = s->n_blocks * s->token_input;
	for (int i = 0; i < n; i++)
		load_embedding(b, b->row[i].cache->paged.row[b->row[i].index].token, row_at(b->normed, i, s->dim));
	const struct product product = {
	    .out = b->token_inputs, .stride = (size_t)width, .w = &b->head.weights->input_projection};
	multiply(b, b->normed, s->dim, n, &product, 1);
	for (int i = 0; i < n; i++)
		join_token_input(b, b->row[i].cache->paged.row[b->row[i].index].token,
		                 row_at(b->token_inputs, i, width));
}

/* Keeps the rows' hidden states before sub-layer `at`. */
static void keep_hidden(struct cpu_backend* b, int at, int n) {
	const int dim = b->head.weights->shape.dim;
	for (int i = 0; i < n; i++) {
		struct cpu_cache* c = b->row[i].cache;
		memcpy(row_at(c->hidden, b->row[i].index, dim), row_at(b->x, i, dim), (size_t)dim * sizeof(float));
		if (c->beside)
			memcpy(row_at(c->beside, b->row[i].index, dim), row_at(b->beside, i, dim),
			       (size_t)dim * sizeof(float));
		c->paged.row[b->row[i].index].at = at;
	}
	if (b->altup)
		altup_keep(b, n);
}

static void tap_hidden(struct cpu_backend* b, const struct pass* pass, int r0, int n) {
	const int dim = b->head.weights->shape.dim;
	memcpy(row_at(pass->tap_out, r0, dim), b->x, (size_t)n * (size_t)dim * sizeof(float));
	if (pass->kind != PASS_PREFILL)
		keep_hidden(b, pass->tap + 1, n);
}

/* From here on these rows differ from the target's. */
static void note_skipped(struct cpu_backend* b, int sub_layer, int n) {
	for (int i = 0; i < n; i++) {
		struct pending_row* p = &b->row[i].cache->paged.row[b->row[i].index];
		if (p->skipped > sub_layer)
			p->skipped = sub_layer;
	}
}

/* ---- sub-layers in turn -------------------------------------------------------------------- */

/* Fetches a block's norms and biases while the block before it is computed: each of them is read by one
 * thread that would wait for memory. Those of experts are as large as weights, and not fetched. */
static void fetch_vectors(const struct cpu_backend* b, int block) {
	enum { MOST_FLOATS = 1 << 14, LINE_FLOATS = 16 };
	if (block >= b->head.weights->shape.n_blocks)
		return;
	const float *at = b->vectors_of[block], *end = b->vectors_of[block + 1];
	for (; end - at <= MOST_FLOATS && at < end; at += LINE_FLOATS)
		fetch_line(at, true);
}

/* Computes what later sub-layers need of a skipped one. */
static void skip_sub_layer(struct cpu_backend* b, int sub_layer, int n) {
	const struct weight_table* w = b->head.weights;
	const struct sub_layer_weights from = {.w = &w->block[sub_layer / 2], .n_blocks = w->shape.n_blocks};
	if (sub_layer % 2 == 1)
		end_block(b, sub_layer / 2, n);
	else if (block_is_shared(&w->shape, sub_layer / 2))
		project_rows(b, &from, sub_layer / 2, false, n);
	if (sub_layer % 2 == 0 && w->shape.altup)
		altup_add_laurel(b, n);
}

static void run_sub_layer(struct cpu_backend* b, const struct pass* pass,
                          const struct sub_layer_weights* from, int sub_layer, int r0, int n) {
	const int dim = b->head.weights->shape.dim;
	if (sub_layer % 2 == 0 && block_set_has(&b->head.weights->shape.recurrent, sub_layer / 2)) {
		recurrent_sub_layer(b, from, sub_layer / 2, n, pass->kind == PASS_PREFILL);
	} else if (sub_layer % 2 == 0) {
		attention_sub_layer(b, from, sub_layer / 2, n);
		if (b->altup)
			altup_add_laurel(b, n);
	} else if (!block_set_has(&b->head.weights->shape.without_mlp, sub_layer / 2)) {
		mlp_sub_layer(b, from, sub_layer / 2, n);
		end_block(b, sub_layer / 2, n);
	}
	if (pass->states && r0 == 0)
		memcpy(row_at(pass->states, sub_layer, dim), b->x, (size_t)dim * sizeof(float));
}

static void open_angles(const struct cpu_backend* b, const struct angles* a, int n) {
	const int pairs = a->rope.pairs;
	for (int i = 0; i < n; i++) {
		const int position = b->row[i].at, prompt = b->row[i].cache->paged.head.prompt_length;
		rope_row(&a->rope, position, prompt > position + 1 ? prompt : position + 1,
		         row_at(a->cosine, i, pairs), row_at(a->sine, i, pairs));
	}
}

/* out (n, state_width): what normed_out asks for. */
static void give_states(struct cpu_backend* b, float* out, int n) {
	const struct weight_table* w = b->head.weights;
	const int dim = w->shape.dim;
	const bool leaves = tensor_present(&w->leave);
	norm_rows(b, leaves ? b->normed : out, b->x, b->output_norm, b->output_norm_bias, dim, n);
	const struct product product = {.out = out, .stride = (size_t)state_width(&w->shape), .w = &w->leave};
	if (leaves)
		multiply(b, b->normed, dim, n, &product, 1);
}

static bool run_slice(struct cpu_backend* b, const struct pass* pass, int r0, int n, struct error* error) {
	load_hidden(b, pass, r0, n);
	if (b->recurrent.blocks > 0)
		recurrent_slice(b, n);
	open_angles(b, &b->every, n);
	if (b->sliding.rope.pairs)
		open_angles(b, &b->sliding, n);
	if (b->head.weights->shape.token_input && pass->last > pass->first)
		load_token_inputs(b, n);
	for (int s = pass->first; s < pass->last; s++) {
		const bool skip = pass->skip && mask_has(pass->skip, s),
		           quantized = pass->quantized && mask_has(pass->quantized, s);
		const bool by_channel = quantized && draft_weights_by_channel(b->draft_weights, s);
		const struct sub_layer_weights from = {.w = &(quantized ? b->draft_weights->block : b->block)[s / 2],
		                                       .columns = by_channel ? &b->draft_weights->columns.block[s / 2]
		                                                             : NULL,
		                                       .levels = by_channel  ? pass->levels
		                                                 : quantized ? NULL
		                                                             : pass->stored_levels,
		                                       .n_blocks = b->head.weights->shape.n_blocks};
		if (atomic_load_explicit(&b->abandoned, memory_order_relaxed))
			return error_set(error, "the pass was abandoned");
		if (skip || quantized || pass->stored_levels)
			note_skipped(b, s, n);
		if (s % 2 == 0)
			begin_block(b, s / 2, n);
		else
			fetch_vectors(b, s / 2 + 1);
		if (skip)
			skip_sub_layer(b, s, n);
		else
			run_sub_layer(b, pass, &from, s, r0, n);
		if (s == pass->tap)
			tap_hidden(b, pass, r0, n);
	}
	if (pass->tap < 0 && pass->kind != PASS_PREFILL)
		keep_hidden(b, pass->last, n);
	if (pass->normed_out)
		give_states(b, row_at(pass->normed_out, r0, state_width(&b->head.weights->shape)), n);
	return !pass->head || head_results(b, pass, r0, n, error);
}

/* ---- the pass ------------------------------------------------------------------------------ */

static void check_pass(const struct cpu_backend* b, const struct pass* pass) {
	const int sub_layers = 2 * b->head.weights->shape.n_blocks;
	int rows = 0;
	for (int i = 0; i < pass->n_segments; i++) {
		assert(pass->segment[i].n >= 0 && pass->segment[i].cache->backend == &b->head);
		assert(b->head.weights->shape.keys_outside
		           ? pass->segment[i].reads && pass->segment[i].reads->committed > 0
		           : !pass->segment[i].reads);
		rows += pass->segment[i].n;
	}
	assert(pass->n >= 1 && pass->n <= MAX_ROWS && rows == pass->n);
	assert(pass->first >= 0 && pass->first <= pass->last && pass->last <= sub_layers);
	assert(pass->tap < 0 || (pass->tap >= pass->first && pass->tap < pass->last && pass->tap_out));
	assert(!pass->states || (pass->tap < 0 && pass->kind != PASS_PREFILL));
	assert(!pass->head || (pass->want && pass->out));
	assert(pass->first % 2 == 0 || !b->head.weights->shape.parallel);
	/* given states have neither tokens nor the keys of earlier sub-layers */
	assert(!pass->state || pass->first == pass->last || !shape_needs_tokens(&b->head.weights->shape));
	assert(tensor_present(&b->head.weights->join) ? pass->state && pass->token && pass->first == 0
	                                              : !pass->state || pass->first > 0);
	assert(pass->kind != PASS_PREFILL || (pass->first == 0 && !pass->quantized && !pass->quantized_head));
	assert(!pass->stored_levels || (b->head.thins && b->sampled_norm));
	assert(b->draft_weights || (!pass->quantized && !pass->quantized_head));
	(void)sub_layers;
	(void)rows;
}

/* Call before the rows of a failed pass are dropped, or those of a prefill committed. */
static void end_recurrences(const struct pass* pass, bool done) {
	for (int i = 0; i < pass->n_segments && (!done || pass->kind == PASS_PREFILL); i++) {
		struct cpu_cache* c = (struct cpu_cache*)pass->segment[i].cache;
		if (done)
			recurrent_commit(c, NULL, pass->segment[i].n);
		recurrent_discard(c);
	}
}

bool cpu_run(struct backend* backend, const struct pass* pass, struct error* error) {
	struct cpu_backend* b = cpu_of(backend);
	check_pass(b, pass);
	if (!paged_begin(pass, error)) {
		end_recurrences(pass, false);
		return false;
	}
	pool_begin(b->pool);
	const double began = seconds_now();
	b->attending = 0;
	struct paged_walk walk = {0};
	bool done = true;
	for (int r0 = 0; r0 < pass->n && done; r0 += b->slice_rows) {
		const int n = pass->n - r0 < b->slice_rows ? pass->n - r0 : b->slice_rows;
		open_slice(b, pass, &walk, r0, n);
		done = run_slice(b, pass, r0, n, error);
	}
	pool_end(b->pool);
	b->head.attention_share = b->attending / fmax(seconds_now() - began, 1e-9);
	end_recurrences(pass, done);
	paged_end(pass, done);
	for (int i = 0; done && pass->kind == PASS_PREFILL && i < pass->n_segments; i++)
		recurrent_keep((struct cpu_cache*)pass->segment[i].cache);
	return done;
}
