/* Sums of span influence; spans.h defines it. */
#include "optimizer/spans.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double* sum_at(const struct spans* s, int i, int j) { return &s->sum[i * (2 * s->blocks + 1) + j]; }

bool spans_open(struct spans* s, int blocks) {
	const size_t points = 2 * (size_t)blocks + 1;
	*s = (struct spans){.blocks = blocks, .sum = calloc(points * points, sizeof *s->sum)};
	return s->sum != NULL;
}

void spans_forget(struct spans* s) {
	const size_t points = 2 * (size_t)s->blocks + 1;
	if (s->sum)
		memset(s->sum, 0, points * points * sizeof *s->sum);
	s->rows = 0;
}

void spans_close(struct spans* s) { free(s->sum); }

static double dot_product(const float* x, const float* y, int dim) {
	enum { LANES = 8 }; /* independent sums, which need not wait for one another */
	double lane[LANES] = {0}, sum = 0;
	int k = 0;
	for (; k + LANES <= dim; k += LANES)
		for (int l = 0; l < LANES; l++)
			lane[l] += (double)x[k + l] * y[k + l];
	for (; k < dim; k++)
		sum += (double)x[k] * y[k];
	for (int l = 0; l < LANES; l++)
		sum += lane[l];
	return sum;
}

static double measure_distance(double cosine) { return cosine > 1 ? 0 : 1 - cosine; } /* NaN stays NaN */

static void add_row(struct spans* s, float* const* state, size_t row, int dim) {
	double square[2 * MAX_BLOCKS + 1];
	for (int j = 0; j <= 2 * s->blocks; j++) {
		if (!state[j])
			continue;
		const float* const y = state[j] + row * (size_t)dim;
		square[j] = dot_product(y, y, dim);
		for (int i = 0; i < j; i++)
			if (state[i]) {
				const double product = square[i] * square[j];
				const double xy = dot_product(state[i] + row * (size_t)dim, y, dim);
				*sum_at(s, i, j) += product == 0 ? 0 : measure_distance(xy / sqrt(product));
			}
	}
}

void spans_add(struct spans* s, float* const* state, int n, int dim) {
	for (int i = 0; i < n; i++)
		add_row(s, state, (size_t)i, dim);
	s->rows += n;
}

double spans_influence(const struct spans* s, int first, int last) {
	return s->rows > 0 ? *sum_at(s, first, last) / s->rows : 0;
}
