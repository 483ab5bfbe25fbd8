/* Alternating updates (Gemma 3n): a row has several states. Blocks compute the first one, which is b->x while
 * they run; the others take their share of what a block added. kernels/backend.h has the formulas.
 *
 * b->altup holds state k of a slice's rows at k · slice_rows rows, so that a map takes a state of all rows
 * at once. Everything else is done row by row. */
#include "kernels/cpu/cpu.h"

#include <math.h>
#include <string.h>

static float* stream_at(const struct cpu_backend* b, int k) {
	return b->altup + (size_t)k * (size_t)b->slice_rows * (size_t)b->head.weights->shape.dim;
}

static float* row_at(float* rows, int i, int width) { return rows + (size_t)i * (size_t)width; }

static float mean_square(const float* x, int n) {
	float sum = 0;
	for (int i = 0; i < n; i++)
		sum += x[i] * x[i];
	return sum / (float)n;
}

/* Gives the row the magnitude of another one. */
static void match_magnitude(float* row, const float* like, int n) {
	const float wanted = sqrtf(mean_square(like, n)), has = sqrtf(fmaxf(mean_square(row, n), 1e-5f));
	for (int i = 0; i < n; i++)
		row[i] = row[i] * wanted / has;
}

static void map_state(struct cpu_backend* b, const float* from, const struct tensor* map, float* to, int n) {
	const int dim = b->head.weights->shape.dim;
	const struct product product = {.out = to, .stride = (size_t)dim, .w = map};
	multiply(b, from, dim, n, &product, 1);
}

void altup_begin(struct cpu_backend* b, int n) {
	const struct model_shape* s = &b->head.weights->shape;
	memcpy(stream_at(b, 0), b->x, (size_t)n * (size_t)s->dim * sizeof(float));
	for (int k = 1; k < s->altup; k++) {
		map_state(b, b->x, &b->head.weights->altup_in[k], stream_at(b, k), n);
		for (int i = 0; i < n; i++)
			match_magnitude(row_at(stream_at(b, k), i, s->dim), row_at(b->x, i, s->dim), s->dim);
	}
}

void altup_end(struct cpu_backend* b, int n) {
	const struct model_shape* s = &b->head.weights->shape;
	memcpy(b->x, stream_at(b, 0), (size_t)n * (size_t)s->dim * sizeof(float));
	for (int k = 1; k < s->altup; k++) {
		map_state(b, stream_at(b, k), &b->head.weights->altup_out[k], b->y, n);
		for (int i = 0; i < n; i++) {
			match_magnitude(row_at(b->y, i, s->dim), row_at(stream_at(b, 0), i, s->dim), s->dim);
			b->kernels->join(row_at(b->x, i, s->dim), row_at(b->y, i, s->dim), s->dim);
		}
	}
	for (size_t i = 0; i < (size_t)n * (size_t)s->dim; i++)
		b->x[i] /= (float)s->altup;
}

/* b->routed (n, altup) = tanh(router · (norm(x) / dim)) */
static void route_streams(struct cpu_backend* b, const struct block_weights* vectors, const float* x, int n) {
	const struct model_shape* s = &b->head.weights->shape;
	const float scale = 1.0f / (float)s->dim;
	norm_rows(b, b->normed, x, floats(&vectors->altup_router_norm), NULL, s->dim, n);
	for (size_t i = 0; i < (size_t)n * (size_t)s->dim; i++)
		b->normed[i] *= scale;
	const struct product product = {
	    .out = b->routed, .stride = (size_t)s->altup, .w = &vectors->altup_router};
	multiply(b, b->normed, s->dim, n, &product, 1);
	for (int i = 0; i < n * s->altup; i++)
		b->routed[i] = tanhf(b->routed[i]);
}

/* out (rows) = map (rows, cols) · x, for maps of a few numbers. */
static void apply_small(const float* map, int rows, int cols, const float* x, float* out) {
	for (int r = 0; r < rows; r++) {
		out[r] = 0;
		for (int c = 0; c < cols; c++)
			out[r] += map[r * cols + c] * x[c];
	}
}

struct altup_job {
	struct cpu_backend* b;
	const struct block_weights* vectors;
};

static void mix_row(void* user, int i, int thread) {
	(void)thread;
	const struct altup_job* job = user;
	const struct model_shape* s = &job->b->head.weights->shape;
	const int count = s->altup;
	float mix[MOST_ALTUP * MOST_ALTUP], old[MOST_ALTUP], *row[MOST_ALTUP];
	apply_small(floats(&job->vectors->altup_predict), count * count, count, row_at(job->b->routed, i, count),
	            mix);
	for (int k = 0; k < count; k++)
		row[k] = row_at(stream_at(job->b, k), i, s->dim);
	for (int j = 0; j < s->dim; j++) {
		for (int k = 0; k < count; k++)
			old[k] = row[k][j];
		for (int k = 0; k < count; k++) {
			float sum = 0;
			for (int m = 0; m < count; m++)
				sum += old[m] * mix[k * count + m];
			row[k][j] = sum + old[k];
		}
	}
	memcpy(row_at(job->b->x, i, s->dim), row[0], (size_t)s->dim * sizeof(float));
}

/* residual = normed + norm(up · down · normed), of the block's normed input */
static void compute_laurel(struct cpu_backend* b, const struct block_weights* vectors, int n) {
	const int dim = b->head.weights->shape.dim;
	const struct product down = {
	    .out = b->gate, .stride = (size_t)vectors->laurel_down.rows, .w = &vectors->laurel_down};
	const struct product up = {.out = b->laurel, .stride = (size_t)dim, .w = &vectors->laurel_up};
	norm_rows(b, b->normed, b->x, floats(&vectors->attention_norm), NULL, dim, n);
	multiply(b, b->normed, dim, n, &down, 1);
	multiply(b, b->gate, vectors->laurel_down.rows, n, &up, 1);
	norm_rows(b, b->laurel, b->laurel, floats(&vectors->laurel_norm), NULL, dim, n);
	for (int i = 0; i < n; i++)
		b->kernels->join(row_at(b->laurel, i, dim), row_at(b->normed, i, dim), dim);
}

void altup_begin_block(struct cpu_backend* b, int block, int n) {
	const struct model_shape* s = &b->head.weights->shape;
	const struct block_weights* vectors = &b->block[block];
	struct altup_job job = {b, vectors};
	route_streams(b, vectors, stream_at(b, 0), n);
	spread(b, n, (double)n * s->dim * s->altup * s->altup * 4, mix_row, &job);
	compute_laurel(b, vectors, n);
}

void altup_add_laurel(struct cpu_backend* b, int n) {
	const size_t count = (size_t)n * (size_t)b->head.weights->shape.dim;
	for (size_t i = 0; i < count; i++)
		b->x[i] = (b->x[i] + b->laurel[i]) / sqrtf(2.0f);
}

static void share_row(void* user, int i, int thread) {
	(void)thread;
	const struct altup_job* job = user;
	const struct model_shape* s = &job->b->head.weights->shape;
	const float* scale = floats(&job->vectors->altup_scale);
	float share[MOST_ALTUP], *x = row_at(job->b->x, i, s->dim),
	                         *first = row_at(stream_at(job->b, 0), i, s->dim);
	apply_small(floats(&job->vectors->altup_correct), s->altup, s->altup, row_at(job->b->routed, i, s->altup),
	            share);
	for (int j = 0; j < s->dim; j++)
		x[j] -= first[j];
	for (int k = 0; k < s->altup; k++) {
		float* row = row_at(stream_at(job->b, k), i, s->dim);
		for (int j = 0; j < s->dim; j++)
			row[j] += x[j] * (share[k] + 1.0f);
	}
	for (int j = 0; j < s->dim; j++)
		x[j] = scale ? first[j] * scale[j] : first[j];
}

void altup_share(struct cpu_backend* b, int block, int n) {
	const struct model_shape* s = &b->head.weights->shape;
	struct altup_job job = {b, &b->block[block]};
	route_streams(b, job.vectors, b->x, n);
	spread(b, n, (double)n * s->dim * s->altup * 8, share_row, &job);
}

void altup_add_others(struct cpu_backend* b, int n) {
	const struct model_shape* s = &b->head.weights->shape;
	for (int k = 1; k < s->altup; k++)
		for (int i = 0; i < n; i++)
			b->kernels->join(row_at(stream_at(b, k), i, s->dim), row_at(b->y, i, s->dim), s->dim);
	memcpy(b->x, stream_at(b, 0), (size_t)n * (size_t)s->dim * sizeof(float));
}

/* ---- states of pending rows ----------------------------------------------------------------- */

void altup_keep(struct cpu_backend* b, int n) {
	const struct model_shape* s = &b->head.weights->shape;
	for (int i = 0; i < n; i++)
		for (int k = 0; k < s->altup; k++)
			memcpy(row_at(b->row[i].cache->altup, b->row[i].index * s->altup + k, s->dim),
			       row_at(stream_at(b, k), i, s->dim), (size_t)s->dim * sizeof(float));
}

void altup_load(struct cpu_backend* b, int i) {
	const struct model_shape* s = &b->head.weights->shape;
	for (int k = 0; k < s->altup; k++)
		memcpy(row_at(stream_at(b, k), i, s->dim),
		       row_at(b->row[i].cache->altup, b->row[i].index * s->altup + k, s->dim),
		       (size_t)s->dim * sizeof(float));
}
