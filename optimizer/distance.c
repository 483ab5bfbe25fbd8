/* Distances of hidden states; distance.h says which. */
#include "optimizer/distance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool distance_open(struct distance* d, const struct weight_table* weights, int rows) {
	const size_t dim = (size_t)weights->shape.dim;
	*d = (struct distance){.dim = weights->shape.dim, .capacity = rows};
	d->gain = malloc(dim * sizeof *d->gain);
	d->full = malloc((size_t)rows * dim * sizeof *d->full);
	d->recent = malloc((size_t)rows * dim * sizeof *d->recent);
	d->pass = malloc(MAX_ROWS * dim * sizeof *d->pass);
	if (!d->gain || !d->full || !d->recent || !d->pass)
		return false;
	const struct tensor* norm = &weights->output_norm;
	for (size_t j = 0; j < dim; j++)
		d->gain[j] = 1;
	if (norm->data) {
		dtype_to_float(norm->type, norm->data, d->gain, weights->shape.dim);
		for (size_t j = 0; weights->shape.norm_plus_one && j < dim; j++)
			d->gain[j] += 1;
	}
	return true;
}

void distance_close(struct distance* d) {
	free(d->gain);
	free(d->full);
	free(d->recent);
	free(d->pass);
	*d = (struct distance){0};
}

void distance_forget(struct distance* d) { d->from = d->upto = d->known = 0; }

void distance_keep(struct distance* d, int position, int row) {
	const size_t dim = (size_t)d->dim;
	if (position != d->upto)
		d->from = position;
	d->upto = position + 1;
	if (d->upto - d->from > d->capacity)
		d->from = d->upto - d->capacity;
	memcpy(d->recent + (size_t)(position % d->capacity) * dim, d->pass + (size_t)row * dim,
	       dim * sizeof *d->pass);
}

void distance_window(struct distance* d, int base, int rows) {
	const size_t dim = (size_t)d->dim;
	d->known = base >= d->from && base + rows <= d->upto ? rows : 0;
	for (int i = 0; i < d->known; i++)
		memcpy(d->full + (size_t)i * dim, d->recent + (size_t)((base + i) % d->capacity) * dim,
		       dim * sizeof *d->full);
}

/* The sums run in order, so that a distance repeats. */
static double row_distance(const float* gain, const float* x, const float* y, int dim) {
	double xx = 0, yy = 0, xy = 0;
	for (int j = 0; j < dim; j++) {
		const double a = (double)gain[j] * x[j], b = (double)gain[j] * y[j];
		xx += a * a;
		yy += b * b;
		xy += a * b;
	}
	const double product = xx * yy, cosine = product == 0 ? 0 : xy / sqrt(product);
	return cosine > 1 ? 0 : 1 - cosine; /* NaN stays NaN */
}

double distance_sum(const struct distance* d, int first, int n) {
	double sum = 0;
	for (int i = 0; i < n; i++) {
		const size_t row = (size_t)i * (size_t)d->dim;
		sum += row_distance(d->gain, d->full + (size_t)first * (size_t)d->dim + row, d->pass + row, d->dim);
	}
	return sum;
}
