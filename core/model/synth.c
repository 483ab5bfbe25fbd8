/* Made-up models: a Llama of any shape whose greedy text neither loops nor hesitates, and in which a
 * known set of sub-layers can be skipped.
 *
 * Tokens form clusters of 16 on one long random cycle. With u_c a random vector a cluster, a token's
 * embedding is 6(0.8·u_c + 0.6·noise) and its head row 60·u_prev(c)/d + 6·noise/sqrt(d): the embedding
 * alone decides which cluster comes next (a logit of about 40 above the others'), and within the cluster
 * the head's noise meets everything that the residual stream holds, so that there the layers decide.
 *
 * The layers' weights are plain random draws, scaled so that
 * - scores q·k/sqrt(head_dim) have standard deviation SCORE_DEVIATION: attention looks at a few earlier
 *   tokens, whose choice depends on the context; this is what keeps the text from looping;
 * - each sub-layer that is not planted adds the same variance to a coordinate of the residual stream,
 *   LAYER_VARIANCE all together beside the embedding's 36. Half of them gone turns the stream by an
 *   angle at which about half of the choices within a cluster change; one gone changes a tenth;
 * - a planted one adds epsilon times as much: all of them gone change one choice in fifty to a hundred.
 * The two constants were chosen on shapes of 22 to 40 blocks and 256 to 1024 dimensions; the numbers
 * that follow from them depend little on the shape. tests/core/test_synth.c asserts them. */
#include "core/model/synth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/model/bind.h"
#include "core/text/tokenizer.h"
#include "kernels/synth_value.h"

static const double LAYER_VARIANCE = 32, SCORE_DEVIATION = 2.5;
/* Mean square of attention's output where the values' is 1 (the sum of squared weights at that score
 * deviation), and of silu(g)·u for standard normal g, u. */
static const double ATTENTION_SQUARE = 0.2, GATED_SQUARE = 0.355;

/* ---- what is planted ---------------------------------------------------------------------- */

/* The number of sub-layers that the spec plants in one half. */
static int planted_count(const struct synth_spec* s) {
	/* the formula by which the search sizes a proposal */
	return s->layers < 3 ? 0 : (int)floor(s->plant * 2 * (s->layers - 2));
}

/* Adds n sub-layers of one kind (0 attention, 1 MLP) of inner blocks, drawn without replacement. */
static void plant_layers(struct mask* mask, int layers, int kind, int n, uint64_t seed) {
	int block[MAX_BLOCKS];
	const int inner = layers - 2;
	for (int i = 0; i < inner; i++)
		block[i] = i + 1;
	for (int i = 0; i < n; i++) {
		const int j = i + (int)(synth_mix(seed + (uint64_t)i) % (uint64_t)(inner - i));
		const int taken = block[j];
		block[j] = block[i];
		block[i] = taken;
		mask_set(mask, 2 * taken + kind, true);
	}
}

struct mask synth_planted(const struct synth_spec* s, int half) {
	struct mask mask = {.word = {0}};
	const int n = planted_count(s);
	const uint64_t seed = synth_mix(s->seed * 4 + (uint64_t)half);
	if (n > 0) {
		plant_layers(&mask, s->layers, 0, n / 2, synth_mix(seed));
		plant_layers(&mask, s->layers, 1, n - n / 2, synth_mix(seed + 1));
	}
	return mask;
}

/* ---- the recipe of each tensor ------------------------------------------------------------ */

struct recipe {
	const struct synth_spec* spec;
	const struct mask* planted; /* (tasks) */
	double sub_layer;           /* standard deviation that a sub-layer adds to a coordinate */
	uint64_t next;              /* number of the next tensor */
};

static struct tensor make_constant(int64_t cols) {
	return (struct tensor){.type = DTYPE_F32,
	                       .rows = 1,
	                       .cols = cols,
	                       .synth = {.kind = SYNTH_CONSTANT, .scale = 1, .scale_second = 1, .halves = 1}};
}

/* Independent normal elements of one standard deviation. */
static struct tensor make_normal(struct recipe* r, int64_t rows, int64_t cols, double deviation) {
	const float scale = (float)(deviation / SYNTH_DEVIATION);
	return (struct tensor){.type = r->spec->dtype,
	                       .rows = rows,
	                       .cols = cols,
	                       .synth = {.kind = SYNTH_NORMAL,
	                                 .seed = synth_mix(synth_mix(r->spec->seed) + ++r->next),
	                                 .scale = scale,
	                                 .scale_second = scale,
	                                 .halves = r->spec->tasks,
	                                 .own = 1}};
}

/* The matrix at the end of a sub-layer. Its inputs have the given mean square. Its outputs get the standard
 * deviation `sub_layer`, or epsilon times that. With two halves a row reads half of the inputs. */
static struct tensor make_closing(struct recipe* r, int64_t rows, int64_t cols, double square,
                                  int sub_layer) {
	const struct synth_spec* s = r->spec;
	const double inputs = (double)cols / s->tasks;
	struct tensor t = make_normal(r, rows, cols, r->sub_layer / sqrt(inputs * square));
	const float second = t.synth.scale;
	if (mask_has(&r->planted[0], sub_layer))
		t.synth.scale *= (float)s->epsilon;
	t.synth.scale_second =
	    mask_has(&r->planted[s->tasks - 1], sub_layer) ? second * (float)s->epsilon : second;
	return t;
}

/* Embedding or head: common·u + own·z, in units of `deviation`. */
static struct tensor make_tokens(struct recipe* r, enum synth_kind kind, int common, int own,
                                 double deviation) {
	const struct synth_spec* s = r->spec;
	struct tensor t = make_normal(r, s->vocab, s->dim, deviation);
	t.synth.kind = kind;
	t.synth.shared = synth_mix(s->seed ^ 0x636c7573746572u);
	t.synth.common = common;
	t.synth.own = own;
	t.synth.clusters = (s->vocab / s->tasks + SYNTH_CLUSTER - 1) / SYNTH_CLUSTER;
	return t;
}

/* The outputs of the chosen experts are averaged, which lowers their deviation. This factor makes up for it,
 * as if all weights were equal. */
static void fill_experts(struct block_weights* b, struct expert* expert, struct recipe* r, int block) {
	const struct synth_spec* s = r->spec;
	const double unit = 1 / sqrt(s->dim), square = GATED_SQUARE / s->experts_used;
	b->router = make_normal(r, s->experts, s->dim, unit);
	b->expert = expert;
	for (int e = 0; e < s->experts; e++)
		expert[e] = (struct expert){.w_gate = make_normal(r, s->expert_ffn, s->dim, unit),
		                            .w_up = make_normal(r, s->expert_ffn, s->dim, unit),
		                            .w_down = make_closing(r, s->dim, s->expert_ffn, square, 2 * block + 1)};
}

static bool is_recurrent(const struct synth_spec* s, int block) {
	return s->attention_every > 1 && (block + 1) % s->attention_every != 0;
}

/* The last map of a recurrent sub-layer reads gated values of this mean square, so that its output is as
 * large as attention's. */
static void fill_recurrent(struct block_weights* b, struct recipe* r, int block) {
	const struct synth_spec* s = r->spec;
	const int64_t dim = s->dim, values = (int64_t)s->value_heads * s->value_dim;
	const int64_t channels = 2 * (int64_t)s->key_heads * s->key_dim + values;
	const double unit = 1 / sqrt(s->dim);
	b->wq = make_normal(r, channels, dim, unit);
	b->wk = make_normal(r, values, dim, unit);
	b->w_beta = make_normal(r, s->value_heads, dim, unit);
	b->w_decay = make_normal(r, s->value_heads, dim, unit);
	b->wo = make_closing(r, dim, values, GATED_SQUARE, 2 * block);
	b->convolution = make_normal(r, 1, channels * s->taps, 1 / sqrt(s->taps));
	b->convolution.type = DTYPE_F32;
	b->decay_bias = make_constant(s->value_heads);
	b->decay_rate = make_constant(s->value_heads);
	b->decay_rate.synth.scale = b->decay_rate.synth.scale_second =
	    -2; /* log: a state lives for some tokens */
	b->state_norm = make_constant(s->value_dim);
}

static bool is_sliding(const struct synth_spec* s, int block) {
	return s->window && (block + 1) % s->full_every != 0 && block != s->layers - 1;
}

static struct tensor constant_of(int64_t cols, double value) {
	struct tensor t = make_constant(cols);
	t.synth.scale = t.synth.scale_second = (float)value;
	return t;
}

/* What a block with a window has besides: norms of queries, keys and outputs, and the token's input. The
 * norms decide how large scores and outputs are, whatever the matrices before them. */
static void fill_gemma(struct block_weights* b, struct recipe* r, int block) {
	const struct synth_spec* s = r->spec;
	const int head_dim = is_sliding(s, block) ? s->head_dim : s->full_head_dim;
	const double score = sqrt(SCORE_DEVIATION / sqrt(head_dim));
	double added[2];
	for (int kind = 0; kind < 2; kind++)
		added[kind] = r->sub_layer * (mask_has(r->planted, 2 * block + kind) ? s->epsilon : 1);
	b->q_norm = constant_of(head_dim, score);
	if (tensor_present(&b->wk))
		b->k_norm = constant_of(head_dim, score);
	b->post_attention_norm = constant_of(s->dim, added[0]);
	b->post_mlp_norm = constant_of(s->dim, added[1]);
	b->stream_scale = make_constant(1);
	if (s->token_input == 0)
		return;
	b->input_gate = make_normal(r, s->token_input, s->dim, 1 / sqrt(s->dim));
	b->input_out = make_normal(r, s->dim, s->token_input, 1 / sqrt(s->token_input));
	b->input_norm = constant_of(s->dim, r->sub_layer);
}

/* Heads of a block that sees the whole text may be larger, and the last blocks have no keys of their own. */
static void fill_attention(struct block_weights* b, struct recipe* r, int block) {
	const struct synth_spec* s = r->spec;
	const int head_dim = s->window && !is_sliding(s, block) ? s->full_head_dim : s->head_dim;
	const int64_t dim = s->dim, queries = (int64_t)s->heads * head_dim;
	const int64_t keys = (int64_t)s->kv_heads * head_dim;
	const double unit = 1 / sqrt(s->dim), score = sqrt(SCORE_DEVIATION) * unit;
	b->wq = make_normal(r, s->attention_every > 1 ? 2 * queries : queries, dim, score);
	if (block < s->layers - synth_shared_blocks(s)) {
		b->wk = make_normal(r, keys, dim, score);
		b->wv = make_normal(r, keys, dim, unit);
	}
	b->wo = make_closing(r, dim, queries, ATTENTION_SQUARE, 2 * block);
}

static void fill_block(struct block_weights* b, struct expert* expert, struct recipe* r, int block) {
	const struct synth_spec* s = r->spec;
	const int64_t dim = s->dim, ffn = s->ffn;
	const double unit = 1 / sqrt(s->dim);
	*b = (struct block_weights){.attention_norm = make_constant(dim), .mlp_norm = make_constant(dim)};
	if (is_recurrent(s, block))
		fill_recurrent(b, r, block);
	else
		fill_attention(b, r, block);
	if (s->experts > 0) {
		fill_experts(b, expert, r, block);
		return;
	}
	b->w_gate = make_normal(r, ffn, dim, unit);
	b->w_up = make_normal(r, ffn, dim, unit);
	b->w_down = make_closing(r, dim, ffn, GATED_SQUARE, 2 * block + 1);
	if (s->window)
		fill_gemma(b, r, block);
}

/* Gemma 4's shape, and the parts of the token's input that all blocks share. Of a head that sees the whole
 * text a quarter rotates, at the frequencies that it has when all of it rotates. False: out of memory. */
static bool fill_windows(struct weight_table* w, struct opened* owned, struct recipe* r) {
	enum { ROTATED = 4 };
	const struct synth_spec* s = r->spec;
	struct model_shape* m = &w->shape;
	const int64_t inputs = (int64_t)s->layers * s->token_input;
	const int pairs = s->full_head_dim / 2, shared = synth_shared_blocks(s);
	float* factor = kept_new(&owned->kept, (size_t)pairs * sizeof *factor);
	if (!factor)
		return false;
	for (int i = 0; i < pairs; i++)
		factor[i] = i < pairs / ROTATED ? 1 : 1e30f;
	m->norm_epsilon = 1e-6f;
	m->activation = ACTIVATION_GELU_TANH;
	m->attention_scale = 1;
	m->logit_softcap = 30;
	m->value_norm = true;
	m->sliding_window = s->window;
	m->full_head_dim = s->full_head_dim;
	m->sharing_from = shared ? s->layers - shared : 0;
	m->token_input = s->token_input;
	m->sliding_rope = m->rope;
	m->sliding_rope.theta = 1e4f;
	m->rope.dim = s->full_head_dim;
	m->rope.short_factor = factor;
	for (int b = 0; b < s->layers; b++)
		if (is_sliding(s, b))
			block_set_put(&m->sliding, b);
	if (s->token_input == 0)
		return true;
	w->input_embedding = make_normal(r, s->vocab, inputs, 1 / sqrt(s->token_input));
	w->input_projection = make_normal(r, inputs, s->dim, 1 / sqrt(s->dim));
	w->input_projection_norm = make_constant(s->token_input);
	return true;
}

/* Makes the table without data. A half's stream is zero outside its half, so its norm scales the rest by
 * sqrt(tasks). The shared part of the head accounts for that. False: out of memory. */
static bool fill_table(struct weight_table* w, struct opened* owned, const struct synth_spec* s,
                       const struct mask* planted) {
	enum { FINE = 4096 };
	const int adding = (s->token_input ? 3 : 2) * s->layers - planted_count(s);
	struct recipe r = {.spec = s, .planted = planted, .sub_layer = sqrt(LAYER_VARIANCE / adding)};
	w->shape = (struct model_shape){
	    .n_blocks = s->layers,
	    .dim = s->dim,
	    .heads = s->heads,
	    .kv_heads = s->kv_heads,
	    .head_dim = s->head_dim,
	    .ffn = s->ffn,
	    .vocab = s->vocab,
	    .context = s->context,
	    .norm_epsilon = 1e-5f,
	    .activation = ACTIVATION_SILU,
	    .rope = {.scaling = ROPE_NONE,
	             .dim = s->head_dim,
	             .theta = (float)s->theta,
	             .factor = 1,
	             .attention_factor = 1},
	    .embedding_scale = 1,
	    .residual_scale = 1,
	    .logit_scale = 1,
	    .attention_scale = (float)(1 / sqrt(s->head_dim)),
	    .n_experts = s->experts,
	    .experts_used = s->experts_used,
	    .expert_ffn = s->expert_ffn,
	    .experts_normalised = s->experts > 0,
	};
	for (int b = 0; b < s->layers; b++)
		if (is_recurrent(s, b))
			block_set_put(&w->shape.recurrent, b);
	if (s->attention_every > 1) {
		w->shape.attention_gated = true;
		w->shape.recurrence = (struct recurrence){.key_heads = s->key_heads,
		                                          .value_heads = s->value_heads,
		                                          .key_dim = s->key_dim,
		                                          .value_dim = s->value_dim,
		                                          .kernel = s->taps,
		                                          .log_rates = true};
	}
	/* 6(0.8 u + 0.6 z) = 1.2(4 u + 3 z) */
	w->embedding = make_tokens(&r, SYNTH_EMBEDDING, 4, 3, 1.2);
	/* 60 sqrt(tasks)/d u + 6/sqrt(d) z = 6/sqrt(d) (10 sqrt(tasks/d) u + z), in steps of 1/FINE */
	const double sure = 10 * sqrt((double)s->tasks / s->dim);
	w->output = make_tokens(&r, SYNTH_HEAD, (int)lround(sure * FINE), FINE, 6 / sqrt(s->dim) / FINE);
	w->output_norm = make_constant(s->dim);
	for (int b = 0; b < s->layers; b++)
		fill_block(&owned->block[b], owned->expert + (size_t)b * (size_t)s->experts, &r, b);
	w->block = owned->block;
	return !s->window || fill_windows(w, owned, &r);
}

/* ---- in memory ---------------------------------------------------------------------------- */

enum { OTHER_TENSORS = 6 };

/* Lists every tensor of the table; list (OTHER_TENSORS + (BLOCK_PARTS + 3 · experts) · n_blocks). Returns how
 * many. */
static int list_tensors(struct tensor** list, struct weight_table* w, const struct opened* owned) {
	int n = 0;
	list[n++] = &w->embedding;
	list[n++] = &w->output;
	list[n++] = &w->output_norm;
	if (w->shape.token_input) {
		list[n++] = &w->input_embedding;
		list[n++] = &w->input_projection;
		list[n++] = &w->input_projection_norm;
	}
	for (int i = 0; i < w->shape.n_blocks; i++) {
		struct block_weights* b = &owned->block[i];
		for (int part = 0; part < BLOCK_PARTS; part++)
			if (tensor_present(block_tensor(b, part)))
				list[n++] = block_tensor(b, part);
		struct expert* expert = owned->expert + (size_t)i * (size_t)w->shape.n_experts;
		for (int e = 0; e < w->shape.n_experts; e++) {
			list[n++] = &expert[e].w_gate;
			list[n++] = &expert[e].w_up;
			list[n++] = &expert[e].w_down;
		}
	}
	return n;
}

/* Tensors begin at multiples of 64 bytes. Sizes cannot overflow: rows and cols are at most 2^20 each, and
 * there are fewer than 2^18 tensors. */
static size_t stored_bytes(const struct tensor* t) { return (tensor_bytes(t) + 63) / 64 * 64; }

static bool map_memory(struct mapping* memory, size_t bytes, const char* text, struct error* error) {
	const double here = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
	if ((double)bytes > here)
		return error_set(error, "synth:%.200s: its weights take %.1f GiB, this machine's memory is %.1f GiB",
		                 text, (double)bytes / 0x1p30, here / 0x1p30);
	void* data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (data == MAP_FAILED)
		return error_set(error, "synth:%.200s: out of memory for weights of %.1f GiB", text,
		                 (double)bytes / 0x1p30);
	madvise(data, bytes,
	        MADV_HUGEPAGE); /* Only a hint: huge pages cause fewer faults and fewer TLB faults. */
	*memory = (struct mapping){.data = data, .size = bytes};
	return true;
}

static bool make_weights(struct opened* owned, struct tensor* const* list, int n, const char* text,
                         struct error* error) {
	size_t bytes = 0, at = 0;
	for (int i = 0; i < n; i++)
		bytes += stored_bytes(list[i]);
	struct mapping* const memory = &owned->file[0];
	if (!map_memory(memory, bytes, text, error))
		return false;
	owned->n_files = 1;
	for (int i = 0; i < n; i++) {
		list[i]->data = memory->data + at;
		at += stored_bytes(list[i]);
	}
	const bool made = synth_fill(list, n, error);
	mprotect((void*)(uintptr_t)memory->data, bytes, PROT_READ);
	return made;
}

/* ---- the MTP layer -------------------------------------------------------------------------- */

/* The embedding alone decides which cluster comes next, so the layer reads it and not the state: `join` gives
 * the normed embedding the size that it had before. Its block is the last one with attention. If the model
 * has only that block, the layer predicts the same tokens. */
static bool fill_mtp(struct model* model, const struct synth_spec* s, struct error* error) {
	struct opened* const owned = model->owned;
	struct weight_table* w = &model->mtp;
	const size_t dim = (size_t)s->dim, row_bytes = dtype_row_bytes(s->dtype, 2 * s->dim);
	int last = s->layers - 1;
	while (is_recurrent(s, last))
		last--;
	unsigned char* data = kept_new(&owned->kept, dim * row_bytes);
	float* row = calloc(2 * dim, sizeof *row);
	for (size_t i = 0; data && row && i < dim; i++) {
		row[i] = 6; /* the embedding's deviation */
		synth_encode(s->dtype, data + i * row_bytes, row, 2 * s->dim);
		row[i] = 0;
	}
	const bool made = data && row;
	free(row);
	if (!made)
		return error_set(error, "synth: out of memory for an MTP layer");
	*w = model->weights;
	mtp_shape(&model->weights.shape, &w->shape);
	w->block = &owned->block[last];
	w->join = (struct tensor){.type = s->dtype, .rows = s->dim, .cols = 2 * s->dim, .data = data};
	w->join_token_norm = w->join_state_norm = w->output_norm;
	return true;
}

/* ---- the model ---------------------------------------------------------------------------- */

static bool fill_model(struct model* model, struct tensor** list, const struct synth_spec* s,
                       const char* text, const struct model_options* options, struct error* error) {
	struct opened* const owned = model->owned;
	if (planted_count(s) > 0)
		model->n_planted = s->tasks;
	for (int half = 0; half < s->tasks; half++)
		model->planted[half] = synth_planted(s, half);
	if (!fill_table(&model->weights, owned, s, model->planted))
		return error_set(error, "synth: out of memory for the rotation of heads");
	model->dtype = s->dtype;
	const int n = list_tensors(list, &model->weights, owned);
	for (int i = 0; i < n; i++) {
		model->weight_bytes += tensor_bytes(list[i]);
		model->parameters += (double)list[i]->rows * (double)list[i]->cols;
	}
	model->tokenizer = tokenizer_bytes(s->vocab);
	if (!model->tokenizer)
		return error_set(error, "synth: out of memory for a tokenizer");
	/* No GPU runs experts, so their weights are always made here. */
	const bool elsewhere = options->synth_on_device && s->experts == 0;
	return elsewhere || options->vocabulary_only ||
	       (make_weights(owned, list, n, text, error) && (!s->mtp || fill_mtp(model, s, error)));
}

bool model_open_synth(struct model* model, const char* text, const struct model_options* options,
                      struct error* error) {
	struct synth_spec spec;
	if (!synth_spec_parse(&spec, text, error))
		return false;
	if (!opened_blocks(model->owned, spec.layers, spec.experts, error))
		return false;
	const size_t blocks = (size_t)spec.layers, experts = (size_t)spec.experts;
	struct tensor** list = calloc(OTHER_TENSORS + (BLOCK_PARTS + 3 * experts) * blocks, sizeof *list);
	const bool good = list ? fill_model(model, list, &spec, text, options, error)
	                       : error_set(error, "synth: out of memory for the table of weights");
	free(list);
	return good;
}
