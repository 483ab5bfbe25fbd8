/* Reads auxiliary weights and checks their shapes. */
#include "core/model/auxiliary_weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/safetensors.h"

/* ---- a file of tensors ----------------------------------------------------------------------- */

struct auxiliary_file {
	struct mapping mapping;
	struct tensor_table table;
};

static void auxiliary_close(struct auxiliary_file* file) {
	tensor_table_free(&file->table);
	mapping_close(&file->mapping);
}

static bool auxiliary_open(struct auxiliary_file* file, const char* path, struct error* error) {
	*file = (struct auxiliary_file){0};
	return mapping_open(&file->mapping, path, error) &&
	       safetensors_read(&file->table, file->mapping.data, file->mapping.size, path, error) &&
	       tensor_table_seal(&file->table, error);
}

/* The kind of the file, recognized by a tensor that only this kind has. */
static bool auxiliary_holds(const struct auxiliary_file* file, const char* tensor, const char* path,
                            const char* what, const char* maker, struct error* error) {
	if (tensor_table_find(&file->table, tensor))
		return true;
	return error_set(error, "%s holds no %s: found %zu tensors, expected %s (%s makes one)", path, what,
	                 file->table.n, tensor, maker);
}

/* Blocks that run before the part. */
static bool auxiliary_exit_block(const struct auxiliary_file* file, const char* path,
                                 const struct model* model, int* exit_block, struct error* error) {
	char text[16] = "", *end = text;
	const int blocks = model->weights.shape.n_blocks;
	const bool found =
	    safetensors_metadata(file->mapping.data, file->mapping.size, "exit_block", text, sizeof text);
	const long value = strtol(text, &end, 10);
	if (!found || end == text || *end)
		return error_set(error, "%s: metadata exit_block is %s%s: expected a whole number of blocks", path,
		                 found ? "" : "missing", text);
	if (value < 1 || value >= blocks)
		return error_set(error, "%s: metadata exit_block is %ld: expected 1 to %d (the model has %d blocks)",
		                 path, value, blocks - 1, blocks);
	*exit_block = (int)value;
	return true;
}

/* ---- the adapter ----------------------------------------------------------------------------- */

static bool bind_adapter(struct adapter* a, struct auxiliary_file* file, const struct model* model,
                         struct error* error) {
	const struct model_shape* m = &model->weights.shape;
	const int64_t q = (int64_t)m->heads * m->head_dim, kv = (int64_t)m->kv_heads * m->head_dim;
	struct block_weights* w = &a->block[1];
	/* The adapter never runs this part, so it keeps the model's shape. */
	*w = model->weights.block[0];
	w->bq = w->bk = w->bv = w->bo = w->q_norm = w->k_norm = w->post_attention_norm = (struct tensor){0};
	w->attention_norm_bias = w->mlp_norm_bias = (struct tensor){0};
	w->w_beta = w->w_decay = w->convolution = w->decay_bias = w->decay_rate = w->state_norm =
	    w->convolution_bias = w->state_skip = (struct tensor){0};
	struct tensor_table* t = &file->table;
	if (!tensor_table_take(t, "kangaroo.norm_in.weight", 1, m->dim, &w->attention_norm, error) ||
	    !tensor_table_take(t, "kangaroo.attention.q.weight", q, m->dim, &w->wq, error) ||
	    !tensor_table_take(t, "kangaroo.attention.k.weight", kv, m->dim, &w->wk, error) ||
	    !tensor_table_take(t, "kangaroo.attention.v.weight", kv, m->dim, &w->wv, error) ||
	    !tensor_table_take(t, "kangaroo.attention.o.weight", m->dim, q, &w->wo, error) ||
	    !tensor_table_take(t, "kangaroo.norm_out.weight", 1, m->dim, &a->weights.output_norm, error))
		return false;
	a->block[0] = *w;
	return true;
}

bool adapter_open(struct adapter* a, const char* path, const struct model* model, struct error* error) {
	struct auxiliary_file file;
	*a = (struct adapter){0};
	const bool opened = auxiliary_open(&file, path, error) &&
	                    auxiliary_holds(&file, "kangaroo.norm_in.weight", path, "Kangaroo adapter",
	                                    "tools/train/kangaroo.py", error) &&
	                    auxiliary_exit_block(&file, path, model, &a->exit_block, error);
	a->weights = model->weights;
	a->weights.block = a->block;
	a->weights.output_norm_bias = (struct tensor){0};
	const struct model_shape* whole = &model->weights.shape;
	const bool good =
	    opened &&
	    ((!shape_needs_tokens(whole) && !whole->latent && !whole->parallel && !whole->full_head_dim &&
	      !whole->value_norm) ||
	     error_set(error,
	               "%s: adapters are not supported for %s, because its blocks have more than one input", path,
	               model->name)) &&
	    bind_adapter(a, &file, model, error);
	struct model_shape* shape = &a->weights.shape;
	shape->n_blocks = 2;
	shape->norm = NORM_RMS;
	shape->norm_plus_one = false;
	shape->residual_scale = 1;
	shape->attention_growth = 0;
	shape->norm_after_rope = false;
	shape->sliding_window = 0;
	shape->rope.interleaved = false;
	shape->sliding_rope = (struct rope){0};
	shape->sliding = shape->unrotated = shape->recurrent = (struct block_set){0};
	shape->recurrence = (struct recurrence){0};
	shape->attention_gated = false;
	a->bytes = file.mapping.size;
	a->file = file.mapping;
	file.mapping = (struct mapping){0};
	auxiliary_close(&file);
	return good;
}

void adapter_close(struct adapter* a) { mapping_close(&a->file); }

/* ---- heads ----------------------------------------------------------------------------------- */

static float* widen_tensor(const struct tensor* t) {
	float* x = malloc((size_t)t->rows * (size_t)t->cols * sizeof *x);
	for (int64_t i = 0; x && i < t->rows; i++)
		dtype_to_float(t->type, (const uint8_t*)t->data + (size_t)i * dtype_row_bytes(t->type, t->cols),
		               x + (size_t)i * (size_t)t->cols, t->cols);
	return x;
}

static bool take_head(struct heads* h, struct auxiliary_file* file, int block, const char* path,
                      struct error* error) {
	char name[64];
	struct tensor t;
	snprintf(name, sizeof name, "ppd.head.%d.weight", block);
	const int dim = h->shape->dim;
	if (!tensor_table_find(&file->table, name))
		return true;
	if (!tensor_table_take(&file->table, name, dim, dim, &t, error))
		return false;
	h->weight[block] = widen_tensor(&t);
	h->bytes += (size_t)t.rows * (size_t)t.cols * sizeof(float);
	return h->weight[block] || error_set(error, "out of memory for %s", path);
}

static bool none_ignored(const char* name) {
	(void)name;
	return false;
}

bool heads_open(struct heads* h, const char* path, const struct model* model, struct error* error) {
	struct auxiliary_file file;
	const struct weight_table* w = &model->weights;
	const int blocks = w->shape.n_blocks;
	*h = (struct heads){.shape = &w->shape};
	bool good = auxiliary_open(&file, path, error);
	for (int b = 1; good && b <= blocks; b++)
		good = take_head(h, &file, b, path, error);
	if (good && h->bytes == 0)
		good = error_set(error,
		                 "%s holds no heads: found %zu tensors, expected ppd.head.1.weight to "
		                 "ppd.head.%d.weight (tools/train/ppd.py makes them)",
		                 path, file.table.n, blocks);
	good = good && tensor_table_all_used(&file.table, none_ignored, error);
	auxiliary_close(&file);
	h->norm = good && w->output_norm.data ? widen_tensor(&w->output_norm) : NULL;
	h->norm_bias = good && tensor_present(&w->output_norm_bias) ? widen_tensor(&w->output_norm_bias) : NULL;
	h->normed = malloc((size_t)w->shape.dim * sizeof *h->normed);
	return good && ((h->norm && h->normed) || error_set(error, "out of memory for %s", path));
}

void heads_close(struct heads* h) {
	for (int b = 0; b <= MAX_BLOCKS; b++)
		free(h->weight[b]);
	free(h->norm);
	free(h->norm_bias);
	free(h->normed);
	*h = (struct heads){0};
}

/* The model's final norm, RMS or LayerNorm. */
static void final_norm(const struct heads* h, const float* x) {
	const struct model_shape* s = h->shape;
	double mean = 0, squares = 0;
	for (int j = 0; s->norm == NORM_LAYER && j < s->dim; j++)
		mean += (double)x[j] / s->dim;
	for (int j = 0; j < s->dim; j++)
		squares += ((double)x[j] - mean) * ((double)x[j] - mean);
	const float scale = (float)(1 / sqrt(squares / s->dim + (double)s->norm_epsilon));
	for (int j = 0; j < s->dim; j++)
		h->normed[j] = (x[j] - (float)mean) * scale * (h->norm[j] + (s->norm_plus_one ? 1.0f : 0.0f)) +
		               (h->norm_bias ? h->norm_bias[j] : 0.0f);
}

void heads_apply(const struct heads* h, int blocks, const float* x, float* out) {
	const int dim = h->shape->dim;
	final_norm(h, x);
	for (int i = 0; i < dim; i++) {
		const float* row = h->weight[blocks] + (size_t)i * (size_t)dim;
		float sum = 0;
		for (int j = 0; j < dim; j++)
			sum += row[j] * h->normed[j];
		out[i] = sum;
	}
}

/* ---- the probe ------------------------------------------------------------------------------- */

bool probe_open(struct probe_weights* p, const char* path, const struct model* model, struct error* error) {
	struct auxiliary_file file;
	struct tensor weight, bias;
	*p = (struct probe_weights){.dim = model->weights.shape.dim};
	bool good = auxiliary_open(&file, path, error) &&
	            auxiliary_holds(&file, "probe.weight", path, "probe", "tools/train/probe.py", error) &&
	            auxiliary_exit_block(&file, path, model, &p->exit_block, error) &&
	            tensor_table_take(&file.table, "probe.weight", 1, p->dim, &weight, error) &&
	            tensor_table_take(&file.table, "probe.bias", 1, 1, &bias, error);
	if (good) {
		p->weight = widen_tensor(&weight);
		dtype_to_float(bias.type, bias.data, &p->bias, 1);
		good = p->weight || error_set(error, "out of memory for %s", path);
	}
	auxiliary_close(&file);
	return good;
}

void probe_close(struct probe_weights* p) {
	free(p->weight);
	p->weight = NULL;
}
