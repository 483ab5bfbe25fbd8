/* Distances of hidden states; distance.h says which. */
#include "optimizer/distance.h"

#include <math.h>
#include <stdlib.h>

bool distance_open(struct distance* d, const struct weight_table* weights, int rows) {
	const size_t dim = (size_t)weights->shape.dim;
	*d = (struct distance){.dim = weights->shape.dim, .capacity = rows};
	d->gain = malloc(dim * sizeof *d->gain);
	d->full = malloc((size_t)rows * dim * sizeof *d->full);
	d->draft = malloc((size_t)rows * dim * sizeof *d->draft);
	if (!d->gain || !d->full || !d->draft)
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
	free(d->draft);
	*d = (struct distance){0};
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
		sum += row_distance(d->gain, d->full + (size_t)first * (size_t)d->dim + row, d->draft + row, d->dim);
	}
	return sum;
}
