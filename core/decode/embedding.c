/* A text as a vector: the mean over its tokens of the last block's output after the final norm (mean pooling,
 * as in llama.cpp and vLLM). Rows are added in the text's order, so passes of any size give the same sum. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/decode/session_state.h"

bool session_open_tap(struct session* s) {
	const size_t dim = (size_t)s->engine->model->weights.shape.dim;
	if (!s->tap)
		s->tap = malloc(PREFILL_CHUNK * dim * sizeof *s->tap);
	return s->tap != NULL;
}

static bool open_embedding(struct embedding* e, const struct weight_table* w) {
	const size_t dim = (size_t)w->shape.dim;
	if (e->norm)
		return true;
	e->norm = malloc(dim * sizeof *e->norm);
	e->bias = calloc(dim, sizeof *e->bias);
	if (!e->norm || !e->bias) {
		embedding_close(e);
		return false;
	}
	dtype_to_float(w->output_norm.type, w->output_norm.data, e->norm, w->shape.dim);
	if (tensor_present(&w->output_norm_bias))
		dtype_to_float(w->output_norm_bias.type, w->output_norm_bias.data, e->bias, w->shape.dim);
	for (size_t j = 0; j < dim && w->shape.norm_plus_one; j++)
		e->norm[j] += 1;
	return true;
}

bool embedding_start(struct session* s, const struct swiftlet_request* r, struct error* error) {
	const struct weight_table* w = &s->engine->model->weights;
	s->embedding.out = r->embedding;
	s->embedding.n = 0;
	if (!r->embedding)
		return true;
	if (!w->output_norm.data)
		return error_set(error, "embeddings need a model whose norms are in memory");
	memset(r->embedding, 0, (size_t)w->shape.dim * sizeof *r->embedding);
	return (session_open_tap(s) && open_embedding(&s->embedding, w)) ||
	       error_set(error, "out of memory for an embedding");
}

/* x (dim), normed in place */
static void normalize_vector(const struct embedding* e, const struct model_shape* shape, float* x) {
	const int dim = shape->dim;
	double mean = 0, squares = 0;
	for (int j = 0; j < dim && shape->norm == NORM_LAYER; j++)
		mean += (double)x[j] / dim;
	for (int j = 0; j < dim; j++)
		squares += ((double)x[j] - mean) * ((double)x[j] - mean);
	const double scale = 1 / sqrt(squares / dim + (double)shape->norm_epsilon);
	for (int j = 0; j < dim; j++)
		x[j] = (float)(((double)x[j] - mean) * scale * (double)e->norm[j] + (double)e->bias[j]);
}

void embedding_add(struct session* s, int first, int n) {
	struct embedding* e = &s->embedding;
	const struct model_shape* shape = &s->engine->model->weights.shape;
	for (int i = 0; i < n; i++) {
		float* x = s->tap + (size_t)i * (size_t)shape->dim;
		if (first + i != e->n || e->n == s->n_prompt) /* added before the cache was released */
			continue;
		normalize_vector(e, shape, x);
		for (int j = 0; j < shape->dim; j++)
			e->out[j] += x[j];
		e->n++;
		for (int j = 0; j < shape->dim && e->n == s->n_prompt; j++)
			e->out[j] /= (float)s->n_prompt;
	}
}

void embedding_close(struct embedding* e) {
	free(e->norm);
	free(e->bias);
	*e = (struct embedding){0};
}
