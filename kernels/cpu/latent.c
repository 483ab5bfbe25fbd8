/* Multi-head latent attention (Liu et al. 2024, DeepSeek-V2, section 2.1), its key map absorbed into the
 * queries and its value map applied to what is mixed: for a head, q·(K c) = (Kᵀ q)·c and the sum of w·(V c)
 * is V times the sum of w·c. So attention itself sees one key/value head, whose values are its keys' first
 * elements. */
#include "kernels/cpu/cpu.h"

#include <string.h>

static float* row_at(float* rows, int i, int width) { return rows + (size_t)i * (size_t)width; }

/* Rows [first, first + count) of a map. */
static struct tensor rows_of(const struct tensor* whole, int64_t first, int64_t count) {
	struct tensor part = *whole;
	part.rows = count;
	part.data = (const unsigned char*)whole->data + (size_t)first * dtype_row_bytes(whole->type, whole->cols);
	return part;
}

static void norm_latent(const struct cpu_backend* b, float* x, const struct tensor* weight) {
	b->kernels->rms_norm(x, x, floats(weight), 0, b->head.weights->shape.latent_epsilon, (int)weight->cols);
}

static void project_queries(struct cpu_backend* b, int block, const float* x, int n) {
	const struct block_weights *w = &b->head.weights->block[block], *vectors = &b->block[block];
	const struct model_shape* s = &b->head.weights->shape;
	const int rank = s->query_latent, width = s->heads * (s->nope_dim + s->rope.dim);
	const struct product in = {.out = b->query_latent, .stride = (size_t)rank, .w = &w->wq_a};
	const struct product out = {.out = b->expanded, .stride = (size_t)width, .w = &w->wq};
	if (rank == 0) {
		multiply(b, x, s->dim, n, &out, 1);
		return;
	}
	multiply(b, x, s->dim, n, &in, 1);
	add_bias(b->query_latent, floats(&vectors->bq_a), rank, n);
	for (int i = 0; i < n; i++)
		norm_latent(b, row_at(b->query_latent, i, rank), &vectors->q_a_norm);
	multiply(b, b->query_latent, rank, n, &out, 1);
}

/* Each head's query becomes one over the latent elements; its turned part follows. */
static void absorb_keys(struct cpu_backend* b, int block, int n) {
	const struct model_shape* s = &b->head.weights->shape;
	const int own = s->nope_dim + s->rope.dim, all = s->heads * own, q_width = s->heads * s->head_dim;
	for (int h = 0; h < s->heads; h++) {
		const struct tensor map =
		    rows_of(&b->head.weights->block[block].absorb, (int64_t)h * s->latent, s->latent);
		const struct product product = {
		    .out = b->q + (size_t)h * (size_t)s->head_dim, .stride = (size_t)q_width, .w = &map};
		for (int i = 0; i < n; i++)
			memcpy(row_at(b->of_head, i, s->nope_dim), row_at(b->expanded, i, all) + (size_t)h * (size_t)own,
			       (size_t)s->nope_dim * sizeof *b->q);
		multiply(b, b->of_head, s->nope_dim, n, &product, 1);
		for (int i = 0; i < n; i++)
			memcpy(row_at(b->q, i, q_width) + h * s->head_dim + s->latent,
			       row_at(b->expanded, i, all) + h * own + s->nope_dim, (size_t)s->rope.dim * sizeof *b->q);
	}
}

struct rotation_job {
	struct cpu_backend* b;
	int block;
};

static void rotate_row(void* user, int i, int thread) {
	(void)thread;
	const struct rotation_job* job = user;
	const struct cpu_backend* b = job->b;
	const struct model_shape* s = &b->head.weights->shape;
	const int pairs = b->every.rope.pairs;
	const float *cosine = row_at(b->every.cosine, i, pairs), *sine = row_at(b->every.sine, i, pairs);
	struct cpu_cache* c = b->row[i].cache;
	float* k = row_at(b->k, i, s->head_dim);
	for (int h = 0; h < s->heads; h++)
		rope_rotate(row_at(b->q, i, s->heads * s->head_dim) + h * s->head_dim + s->latent, cosine, sine,
		            pairs, s->rope.interleaved);
	norm_latent(b, k, &b->block[job->block].k_norm);
	rope_rotate(k + s->latent, cosine, sine, pairs, s->rope.interleaved);
	unsigned char* slot =
	    slot_at(c, job->block, keys_at(c, job->block, 0), c->paged.head.committed + b->row[i].index);
	b->kernels->store(c->paged.head.type, slot, k, s->head_dim);
}

void latent_project(struct cpu_backend* b, int block, const float* x, int n) {
	const struct model_shape* s = &b->head.weights->shape;
	const struct product keys = {
	    .out = b->k, .stride = (size_t)s->head_dim, .w = &b->head.weights->block[block].wk};
	multiply(b, x, s->dim, n, &keys, 1);
	add_bias(b->k, floats(&b->block[block].bk), s->head_dim, n);
	project_queries(b, block, x, n);
	absorb_keys(b, block, n);
	struct rotation_job job = {b, block};
	spread(b, n, (double)n * s->heads * s->head_dim * 4, rotate_row, &job);
}

const float* latent_values(struct cpu_backend* b, int block, int n) {
	const struct model_shape* s = &b->head.weights->shape;
	const int width = s->heads * s->value_dim;
	for (int h = 0; h < s->heads; h++) {
		const struct tensor map =
		    rows_of(&b->head.weights->block[block].wv, (int64_t)h * s->value_dim, s->value_dim);
		const struct product product = {
		    .out = b->expanded + (size_t)h * (size_t)s->value_dim, .stride = (size_t)width, .w = &map};
		for (int i = 0; i < n; i++)
			memcpy(row_at(b->of_head, i, s->latent),
			       row_at(b->mixed, i, s->heads * s->head_dim) + h * s->head_dim,
			       (size_t)s->latent * sizeof *b->mixed);
		multiply(b, b->of_head, s->latent, n, &product, 1);
	}
	return b->expanded;
}
