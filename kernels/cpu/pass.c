/* The pass: rows of tokens go through a span of sub-layers, slice by slice.
 *
 * A slice is at most slice_rows rows in the pass's own order, in which parents come first; so when a
 * slice runs, everything its rows look at has been written. Each sub-layer is read top to bottom below:
 * norm, products, what is between them, output product, residual add. */
#include "kernels/clock.h"
#include "kernels/cpu/cpu.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- time ---------------------------------------------------------------------------------- */

void mark(struct cpu_backend* b, enum pass_part part) {
	if (!b->head.part_seconds)
		return;
	const double now = seconds_now();
	b->head.part_seconds[part] += now - b->marked;
	b->marked = now;
}

/* ---- rows ---------------------------------------------------------------------------------- */

static void open_row(struct slice_row* row, const struct segment* segment, int index) {
	struct cpu_cache* c = (struct cpu_cache*)segment->cache;
	const struct pending_row* p = &c->paged.row[index];
	assert(p->base == segment->base);
	row->cache = c;
	row->sampler = segment->sampler;
	row->penalties = segment->penalties;
	row->pages = segment->pages;
	row->index = index;
	row->base = p->base;
	row->position = p->base + p->depth;
	row->n_ancestors = paged_ancestors(&c->paged, index, row->ancestor);
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

static float* nth(float* rows, int i, int width) { return rows + (size_t)i * (size_t)width; }

void add_bias(float* rows, const float* bias, int width, int n) {
	if (bias)
		for (int i = 0; i < n; i++)
			for (int j = 0; j < width; j++)
				nth(rows, i, width)[j] += bias[j];
}

/* The sub-layer's output y joins the hidden states. */
static void add_output(struct cpu_backend* b, const float* bias, const float* post_norm, int n) {
	const int dim = b->head.weights->shape.dim;
	add_bias(b->y, bias, dim, n);
	if (post_norm)
		norm_rows(b, b->y, b->y, post_norm, NULL, dim, n);
	const size_t count = (size_t)n * (size_t)dim;
	const float scale = b->head.weights->shape.residual_scale;
	for (size_t i = 0; scale != 1.0f && i < count; i++)
		b->y[i] *= scale;
	for (int i = 0; i < n; i++)
		b->influence[i] = b->kernels->join(nth(b->x, i, dim), nth(b->y, i, dim), dim);
	mark(b, PART_JOIN);
}

/* Norm per head (Qwen3) or over all of them (OLMo 2), then the rotation; queries and keys alike. */
static void apply_rope(const struct cpu_backend* b, int block, float* heads, int count,
                       const struct tensor* norm, int i) {
	const struct model_shape* s = &b->head.weights->shape;
	const struct angles* a =
	    b->sliding.rope.pairs && block_set_has(&s->sliding, block) ? &b->sliding : &b->every;
	const int pairs = a->rope.pairs;
	if (tensor_present(norm) && norm->cols == s->head_dim)
		norm_rows(b, heads, heads, floats(norm), NULL, s->head_dim, count);
	else if (tensor_present(norm))
		norm_rows(b, heads, heads, floats(norm), NULL, s->head_dim * count, 1);
	if (block_set_has(&s->unrotated, block))
		return;
	for (int h = 0; h < count; h++)
		rope_rotate(nth(heads, h, s->head_dim), nth(a->cosine, i, pairs), nth(a->sine, i, pairs), pairs,
		            s->rope.interleaved);
}

struct store_job {
	struct cpu_backend* b;
	int block;
};

/* One row's queries are turned, its keys turned and, with its values, rounded into the cache. */
static void store_row(void* user, int i, int thread) {
	(void)thread;
	const struct store_job* job = user;
	const struct cpu_backend* b = job->b;
	const struct model_shape* s = &b->head.weights->shape;
	const struct block_weights* vectors = &b->block[job->block];
	const struct slice_row* row = &b->row[i];
	struct cpu_cache* c = row->cache;
	float *q = nth(b->q, i, s->heads * s->head_dim), *k = nth(b->k, i, s->kv_heads * s->head_dim);
	float* v = nth(b->v, i, s->kv_heads * s->head_dim);
	apply_rope(b, job->block, q, s->heads, &vectors->q_norm, i);
	apply_rope(b, job->block, k, s->kv_heads, &vectors->k_norm, i);
	const int slot = c->paged.head.committed + row->index;
	for (int h = 0; h < s->kv_heads; h++) {
		unsigned char key[MAX_KEY_BYTES];
		unsigned char* value = slot_at(c, values_at(c, job->block, h), slot);
		b->kernels->store(c->paged.head.type, key, nth(k, h, s->head_dim), s->head_dim);
		key_put(c->paged.head.type, page_at(c, keys_at(c, job->block, h), slot), slot % PAGE_SLOTS, key,
		        s->head_dim);
		b->kernels->store(c->paged.head.type, value, nth(v, h, s->head_dim), s->head_dim);
	}
}

/* What a sub-layer reads: the hidden states, under its norm where it has one. */
static const float* sub_layer_input(const struct cpu_backend* b, const float* norm, const float* bias,
                                    int n) {
	if (!norm)
		return b->x;
	norm_rows(b, b->normed, b->x, norm, bias, b->head.weights->shape.dim, n);
	return b->normed;
}

/* Where a sub-layer's weights come from. */
struct source {
	const struct block_weights* w;       /* stored, or copied row by row */
	const struct block_columns* columns; /* NULL, or what drafts read in their place */
	const struct levels* levels;         /* NULL: all channels */
	int n_blocks;
};

/* out (n, …) = x (n, cols) · wᵀ of up to three matrices of a kind, which have one input. */
static void multiply_kind(struct cpu_backend* b, const struct source* from, int block, enum column_kind kind,
                          const float* x, int64_t cols, int n, const struct product* product, int count) {
	if (!from->columns) {
		multiply(b, x, cols, n, product, count);
		return;
	}
	const float share = from->levels ? level_kept(from->levels, block, from->n_blocks, kind) : 1;
	multiply_columns(b, x, n, &from->columns->map[kind], share, product, count);
}

/* Of each head of a row of `wide` first its query, then its gate. */
static void take_queries(const struct cpu_backend* b, int n) {
	const struct model_shape* s = &b->head.weights->shape;
	for (int i = 0; i < n * s->heads; i++)
		memcpy(nth(b->q, i, s->head_dim), nth(b->wide, i, 2 * s->head_dim),
		       (size_t)s->head_dim * sizeof(float));
}

static void gate_heads(void* user, int i, int thread) {
	(void)thread;
	const struct cpu_backend* b = user;
	const struct model_shape* s = &b->head.weights->shape;
	for (int h = i * s->heads; h < (i + 1) * s->heads; h++) {
		const float* gate = nth(b->wide, h, 2 * s->head_dim) + s->head_dim;
		float* mixed = nth(b->mixed, h, s->head_dim);
		for (int j = 0; j < s->head_dim; j++)
			mixed[j] /= 1 + expf(-gate[j]);
	}
}

static void attention_sub_layer(struct cpu_backend* b, const struct source* from, int block, int n) {
	const struct block_weights* w = from->w;
	const struct model_shape* s = &b->head.weights->shape;
	const struct block_weights* vectors = &b->block[block];
	const int q_width = s->heads * s->head_dim, kv_width = s->kv_heads * s->head_dim;
	const int wide = s->attention_gated ? 2 * q_width : q_width;
	float* const queries = s->attention_gated ? b->wide : b->q;
	const float* x =
	    sub_layer_input(b, floats(&vectors->attention_norm), floats(&vectors->attention_norm_bias), n);
	mark(b, PART_NORM);
	const struct product qkv[] = {{.out = queries, .stride = (size_t)wide, .w = &w->wq},
	                              {.out = b->k, .stride = (size_t)kv_width, .w = &w->wk},
	                              {.out = b->v, .stride = (size_t)kv_width, .w = &w->wv}};
	multiply_kind(b, from, block, COLUMN_ATTENTION, x, s->dim, n, qkv, 3);
	mark(b, PART_QKV);
	add_bias(queries, floats(&vectors->bq), wide, n);
	add_bias(b->k, floats(&vectors->bk), kv_width, n);
	add_bias(b->v, floats(&vectors->bv), kv_width, n);
	if (s->attention_gated)
		take_queries(b, n);
	struct store_job job = {.b = b, .block = block};
	spread(b, n, (double)n * (q_width + 2 * kv_width) * 4, store_row, &job);
	mark(b, PART_KV_CACHE);
	attend(b, block, n);
	if (s->attention_gated)
		spread(b, n, (double)n * q_width * 32, gate_heads, b);
	mark(b, PART_ATTENTION);
	const struct product out = {.out = b->y, .stride = (size_t)s->dim, .w = &w->wo};
	multiply_kind(b, from, block, COLUMN_ATTENTION_OUT, b->mixed, q_width, n, &out, 1);
	mark(b, PART_ATTENTION_OUT);
	add_output(b, floats(&vectors->bo), floats(&vectors->post_attention_norm), n);
}

/* In attention's place: kernels/cpu/recurrent.h. */
static void recurrent_sub_layer(struct cpu_backend* b, const struct source* from, int block, int n,
                                bool prefill) {
	const struct block_weights* w = from->w;
	const struct model_shape* s = &b->head.weights->shape;
	const struct recurrence* r = &s->recurrence;
	const struct block_weights* vectors = &b->block[block];
	const struct recurrent_work* work = &b->recurrent;
	const size_t values = (size_t)recurrence_values(r), both = 2 * (size_t)r->value_heads;
	const float* x =
	    sub_layer_input(b, floats(&vectors->attention_norm), floats(&vectors->attention_norm_bias), n);
	mark(b, PART_NORM);
	const bool shorter = r->key_dim == 0; /* a short convolution */
	const struct product in[] = {{.out = b->wide, .stride = (size_t)w->wq.rows, .w = &w->wq},
	                             {.out = work->gate, .stride = values, .w = &w->wk}};
	multiply_kind(b, from, block, COLUMN_ATTENTION, x, s->dim, n, in, shorter ? 1 : 2);
	const struct product chances[] = {
	    {.out = work->chance, .stride = both, .w = &w->w_beta},
	    {.out = work->chance + r->value_heads, .stride = both, .w = &w->w_decay}};
	if (!shorter)
		multiply(b, x, s->dim, n, chances, 2);
	mark(b, PART_QKV);
	recurrent_rows(b, block, n, prefill);
	mark(b, PART_ATTENTION);
	const struct product out = {.out = b->y, .stride = (size_t)s->dim, .w = &w->wo};
	multiply_kind(b, from, block, COLUMN_ATTENTION_OUT, work->gate, (int64_t)values, n, &out, 1);
	mark(b, PART_ATTENTION_OUT);
	add_output(b, floats(&vectors->bo), floats(&vectors->post_attention_norm), n);
}

struct gate_job {
	struct cpu_backend* b;
	int width;
	const float *gate_bias, *up_bias;
};

static void gate_row(void* user, int i, int thread) {
	(void)thread;
	const struct gate_job* job = user;
	float *gate = nth(job->b->gate, i, job->width), *up = nth(job->b->up, i, job->width);
	add_bias(gate, job->gate_bias, job->width, 1);
	add_bias(up, job->up_bias, job->width, 1);
	job->b->kernels->gate(gate, up, job->b->head.weights->shape.activation, job->width);
}

void gate_rows(struct cpu_backend* b, int width, const float* gate_bias, const float* up_bias, int n) {
	struct gate_job job = {b, width, gate_bias, up_bias};
	spread(b, n, (double)n * width * 8, gate_row, &job);
}

static void run_mlp(struct cpu_backend* b, const struct source* from, int block, const float* x, int n) {
	const struct block_weights* w = from->w;
	const struct model_shape* s = &b->head.weights->shape;
	const struct product in[] = {{.out = b->gate, .stride = (size_t)s->ffn, .w = &w->w_gate},
	                             {.out = b->up, .stride = (size_t)s->ffn, .w = &w->w_up}};
	multiply_kind(b, from, block, COLUMN_MLP, x, s->dim, n, in, 2);
	mark(b, PART_GATE_UP);
	gate_rows(b, s->ffn, floats(&b->block[block].b_gate), floats(&b->block[block].b_up), n);
	mark(b, PART_ACTIVATION);
	const struct product out = {.out = b->y, .stride = (size_t)s->dim, .w = &w->w_down};
	multiply_kind(b, from, block, COLUMN_DOWN, b->gate, s->ffn, n, &out, 1);
	mark(b, PART_DOWN);
}

static void mlp_sub_layer(struct cpu_backend* b, const struct source* from, int block, int n) {
	const struct block_weights* w = from->w;
	const struct block_weights* vectors = &b->block[block];
	const float* x = sub_layer_input(b, floats(&vectors->mlp_norm), floats(&vectors->mlp_norm_bias), n);
	mark(b, PART_NORM);
	if (tensor_present(&w->router)) {
		run_experts(b, w, vectors, x, n);
		mark(b, PART_EXPERTS);
	} else {
		run_mlp(b, from, block, x, n);
	}
	add_output(b, floats(&vectors->b_down), floats(&vectors->post_mlp_norm), n);
}

/* ---- the slice ----------------------------------------------------------------------------- */

static void load_hidden(struct cpu_backend* b, const struct pass* pass, int r0, int n) {
	const struct weight_table* w = b->head.weights;
	const int dim = w->shape.dim;
	const size_t row_bytes = dtype_row_bytes(w->embedding.type, dim);
	for (int i = 0; i < n; i++) {
		float* x = nth(b->x, i, dim);
		if (pass->first > 0) {
			const float* from = pass->state ? pass->state + (size_t)(r0 + i) * (size_t)dim
			                                : nth(b->row[i].cache->hidden, b->row[i].index, dim);
			memcpy(x, from, (size_t)dim * sizeof *x);
			continue;
		}
		const int32_t token = pass->token[r0 + i];
		assert(token >= 0 && token < w->shape.vocab);
		dtype_to_float(w->embedding.type, (const unsigned char*)w->embedding.data + (size_t)token * row_bytes,
		               x, dim);
		if (w->shape.embedding_scale != 1.0f)
			for (int j = 0; j < dim; j++)
				x[j] *= w->shape.embedding_scale;
	}
}

/* Keeps the rows' hidden states, which stand before sub-layer `at` now. */
static void keep_hidden(struct cpu_backend* b, int at, int n) {
	const int dim = b->head.weights->shape.dim;
	for (int i = 0; i < n; i++) {
		struct cpu_cache* c = b->row[i].cache;
		memcpy(nth(c->hidden, b->row[i].index, dim), nth(b->x, i, dim), (size_t)dim * sizeof(float));
		c->paged.row[b->row[i].index].at = at;
	}
}

static void tap_hidden(struct cpu_backend* b, const struct pass* pass, int r0, int n) {
	const int dim = b->head.weights->shape.dim;
	memcpy(nth(pass->tap_out, r0, dim), b->x, (size_t)n * (size_t)dim * sizeof(float));
	if (pass->kind != PASS_PREFILL)
		keep_hidden(b, pass->tap + 1, n);
}

/* Rows left here are not the target's any more. */
static void note_skipped(struct cpu_backend* b, int sub_layer, int n) {
	for (int i = 0; i < n; i++) {
		struct pending_row* p = &b->row[i].cache->paged.row[b->row[i].index];
		if (p->skipped > sub_layer)
			p->skipped = sub_layer;
	}
}

/* ---- sub-layers in turn -------------------------------------------------------------------- */

static void run_sub_layer(struct cpu_backend* b, const struct pass* pass, const struct source* from,
                          int sub_layer, int r0, int n) {
	const int dim = b->head.weights->shape.dim;
	if (sub_layer % 2 == 0 && block_set_has(&b->head.weights->shape.recurrent, sub_layer / 2))
		recurrent_sub_layer(b, from, sub_layer / 2, n, pass->kind == PASS_PREFILL);
	else if (sub_layer % 2 == 0)
		attention_sub_layer(b, from, sub_layer / 2, n);
	else
		mlp_sub_layer(b, from, sub_layer / 2, n);
	if (pass->influence)
		memcpy(nth(pass->influence, sub_layer, pass->n) + r0, b->influence, (size_t)n * sizeof(float));
	if (pass->states && r0 == 0)
		memcpy(nth(pass->states, sub_layer, dim), b->x, (size_t)dim * sizeof(float));
}

static void open_angles(const struct cpu_backend* b, const struct angles* a, int n) {
	const int pairs = a->rope.pairs;
	for (int i = 0; i < n; i++) {
		const int position = b->row[i].position, prompt = b->row[i].cache->paged.head.prompt_length;
		rope_row(&a->rope, position, prompt > position + 1 ? prompt : position + 1, nth(a->cosine, i, pairs),
		         nth(a->sine, i, pairs));
	}
}

static bool run_slice(struct cpu_backend* b, const struct pass* pass, int r0, int n, struct error* error) {
	load_hidden(b, pass, r0, n);
	if (b->recurrent.blocks > 0)
		recurrent_slice(b, n);
	open_angles(b, &b->every, n);
	if (b->sliding.rope.pairs)
		open_angles(b, &b->sliding, n);
	mark(b, PART_INPUT);
	for (int s = pass->first; s < pass->last; s++) {
		const bool skip = pass->skip && mask_has(pass->skip, s),
		           quantized = pass->quantized && mask_has(pass->quantized, s);
		const bool by_channel = quantized && draft_weights_by_channel(b->draft_weights, s);
		const struct source from = {
		    .w = &(quantized ? b->draft_weights->block : b->head.weights->block)[s / 2],
		    .columns = by_channel ? &b->draft_weights->columns.block[s / 2] : NULL,
		    .levels = pass->levels,
		    .n_blocks = b->head.weights->shape.n_blocks};
		if (atomic_load_explicit(&b->abandoned, memory_order_relaxed))
			return error_set(error, "the pass was abandoned");
		if (skip || quantized)
			note_skipped(b, s, n);
		if (!skip)
			run_sub_layer(b, pass, &from, s, r0, n);
		if (s == pass->tap)
			tap_hidden(b, pass, r0, n);
	}
	if (pass->tap < 0 && pass->kind != PASS_PREFILL)
		keep_hidden(b, pass->last, n);
	return !pass->head || head_results(b, pass, r0, n, error);
}

/* ---- the pass ------------------------------------------------------------------------------ */

static void check_pass(const struct cpu_backend* b, const struct pass* pass) {
	const int sub_layers = 2 * b->head.weights->shape.n_blocks;
	int rows = 0;
	for (int i = 0; i < pass->n_segments; i++) {
		assert(pass->segment[i].n >= 0 && pass->segment[i].cache->backend == &b->head);
		rows += pass->segment[i].n;
	}
	assert(pass->n >= 1 && pass->n <= MAX_ROWS && rows == pass->n);
	assert(pass->first >= 0 && pass->first <= pass->last && pass->last <= sub_layers);
	assert(pass->tap < 0 || (pass->tap >= pass->first && pass->tap < pass->last && pass->tap_out));
	assert(!pass->states || (pass->tap < 0 && pass->kind != PASS_PREFILL));
	assert(!pass->head || (pass->want && pass->out));
	assert(pass->kind != PASS_PREFILL || (pass->first == 0 && !pass->quantized && !pass->quantized_head));
	assert(b->draft_weights || (!pass->quantized && !pass->quantized_head));
	(void)sub_layers;
	(void)rows;
}

/* Before the rows of a pass that failed are dropped, and those of a prefill committed. */
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
	b->marked = b->head.part_seconds ? seconds_now() : 0;
	struct paged_walk walk = {0};
	bool done = true;
	for (int r0 = 0; r0 < pass->n && done; r0 += b->slice_rows) {
		const int n = pass->n - r0 < b->slice_rows ? pass->n - r0 : b->slice_rows;
		open_slice(b, pass, &walk, r0, n);
		done = run_slice(b, pass, r0, n, error);
	}
	pool_end(b->pool);
	end_recurrences(pass, done);
	paged_end(pass, done);
	for (int i = 0; done && pass->kind == PASS_PREFILL && i < pass->n_segments; i++)
		recurrent_keep((struct cpu_cache*)pass->segment[i].cache);
	return done;
}
