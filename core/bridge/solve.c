/* Cholesky factors of normal equations, one for each ridge that is tried. */
#include "core/bridge/solve.h"

#include <gsl/gsl_blas.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* From where a ridge is nothing beside any variance to where it shrinks all but the strongest directions. */
static const double ridges[] = {1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 0.3, 1};
enum { RIDGES = sizeof ridges / sizeof *ridges };

struct solver {
	const struct gram* sums;
	size_t p, d;
	double *square, *cross;  /* (p, p), (p, d) of the rows that count */
	double *factor, *weight; /* (p, p), (p, d) */
	double* told;            /* (GRAM_BLOCK, d) */
	double* scale;           /* (p) */
};

static size_t doubles(size_t p, size_t d) { return 2 * p * (p + d) + GRAM_BLOCK * d + p; }

/* weight = (square + ridge)⁻¹ · cross. Inputs are scaled to a unit diagonal, which the factor's digits want.
 */
static bool fit(struct solver* s, double lambda) {
	const size_t p = s->p, d = s->d;
	gsl_matrix_view a = gsl_matrix_view_array(s->factor, p, p), w = gsl_matrix_view_array(s->weight, p, d);
	for (size_t i = 0; i < p; i++) {
		const double mean = s->square[i * p], diagonal = s->square[i * p + i];
		const double spread = fmax(diagonal - mean * mean / s->square[0], 1e-9 * diagonal);
		s->scale[i] = sqrt(diagonal + (i > 0 ? lambda * spread : 0) + 1e-300);
		for (size_t j = 0; j < i; j++)
			s->factor[i * p + j] = s->square[i * p + j] / (s->scale[i] * s->scale[j]);
		s->factor[i * p + i] = 1;
		for (size_t k = 0; k < d; k++)
			s->weight[i * d + k] = s->cross[i * d + k] / s->scale[i];
	}
	gsl_error_handler_t* const before = gsl_set_error_handler_off();
	const bool good = gsl_linalg_cholesky_decomp1(&a.matrix) == GSL_SUCCESS;
	gsl_set_error_handler(before);
	if (good) {
		gsl_blas_dtrsm(CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, 1, &a.matrix, &w.matrix);
		gsl_blas_dtrsm(CblasLeft, CblasLower, CblasTrans, CblasNonUnit, 1, &a.matrix, &w.matrix);
	}
	for (size_t i = 0; i < p; i++)
		for (size_t k = 0; k < d; k++)
			s->weight[i * d + k] /= s->scale[i];
	return good;
}

/* Squared error on the rows held out, over their outputs' squares. */
static double held_error(const struct solver* s) {
	const struct gram* g = s->sums;
	double error = 0, all = 0;
	for (int i = 0; i < gram_held(g); i++) {
		gsl_matrix_view u = gsl_matrix_view_array(g->held[i].u, GRAM_BLOCK, s->p);
		gsl_matrix_view w = gsl_matrix_view_array(s->weight, s->p, s->d);
		gsl_matrix_view told = gsl_matrix_view_array(s->told, GRAM_BLOCK, s->d);
		gsl_blas_dgemm(CblasNoTrans, CblasNoTrans, 1, &u.matrix, &w.matrix, 0, &told.matrix);
		for (size_t j = 0; j < GRAM_BLOCK * s->d; j++) {
			const double y = g->held[i].y[j];
			error += (y - s->told[j]) * (y - s->told[j]);
			all += y * y;
		}
	}
	return all > 0 ? error / all : 0;
}

static bool solve(struct solver* s, struct ridge_fit* best) {
	*best = (struct ridge_fit){.lambda = -1, .error = INFINITY};
	memcpy(s->square, s->sums->square, s->p * s->p * sizeof *s->square);
	memcpy(s->cross, s->sums->cross, s->p * s->d * sizeof *s->cross);
	for (int i = 0; i < RIDGES; i++) {
		const double error = fit(s, ridges[i]) ? held_error(s) : INFINITY;
		if (error < best->error)
			*best = (struct ridge_fit){ridges[i], error};
	}
	if (best->lambda < 0)
		return false;
	for (int i = 0; i < gram_held(s->sums); i++)
		gram_sum(s->sums, &s->sums->held[i], s->square, s->cross);
	return fit(s, best->lambda);
}

bool ridge_solve(const struct gram* sums, float* weight, float* bias, struct ridge_fit* fitted) {
	struct solver s = {.sums = sums, .p = (size_t)sums->inputs, .d = (size_t)sums->outputs};
	if (gram_held(sums) == 0)
		return false;
	double* const memory = malloc(doubles(s.p, s.d) * sizeof *memory);
	if (!memory)
		return false;
	s.square = memory;
	s.factor = s.square + s.p * s.p;
	s.cross = s.factor + s.p * s.p;
	s.weight = s.cross + s.p * s.d;
	s.told = s.weight + s.p * s.d;
	s.scale = s.told + GRAM_BLOCK * s.d;
	const bool good = solve(&s, fitted);
	for (size_t k = 0; good && k < s.d; k++) {
		bias[k] = (float)s.weight[k];
		for (size_t j = 1; j < s.p; j++)
			weight[k * (s.p - 1) + j - 1] = (float)s.weight[j * s.d + k];
	}
	free(memory);
	return good;
}
