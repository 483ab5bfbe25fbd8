/* Sums by blocks of rows. */
#include "core/bridge/gram.h"

#include <gsl/gsl_blas.h>
#include <math.h>
#include <stdlib.h>

/* Doubles of a block of rows. */
static size_t block_size(int inputs, int outputs) {
	return (size_t)GRAM_BLOCK * ((size_t)inputs + (size_t)outputs);
}

static size_t doubles(int inputs, int outputs) {
	return (size_t)inputs * ((size_t)inputs + (size_t)outputs) +
	       (HELD_BLOCKS + 1) * block_size(inputs, outputs);
}

size_t gram_bytes(int inputs, int outputs) { return doubles(inputs, outputs) * sizeof(double); }

static struct gram_rows place(double** at, int inputs, int outputs) {
	const struct gram_rows rows = {*at, *at + (size_t)GRAM_BLOCK * (size_t)inputs};
	*at += block_size(inputs, outputs);
	return rows;
}

bool gram_open(struct gram* g, int inputs, int outputs) {
	*g = (struct gram){.inputs = inputs, .outputs = outputs};
	g->square = calloc(doubles(inputs, outputs), sizeof *g->square);
	if (!g->square)
		return false;
	g->cross = g->square + (size_t)inputs * (size_t)inputs;
	double* at = g->cross + (size_t)inputs * (size_t)outputs;
	g->staged = place(&at, inputs, outputs);
	for (int i = 0; i < HELD_BLOCKS; i++)
		g->held[i] = place(&at, inputs, outputs);
	return true;
}

void gram_close(struct gram* g) { free(g->square); }

long gram_rows(const struct gram* g) { return g->blocks * GRAM_BLOCK; }

int gram_held(const struct gram* g) {
	const long held = g->blocks / HELD_SHARE;
	return held < HELD_BLOCKS ? (int)held : HELD_BLOCKS;
}

void gram_sum(const struct gram* g, const struct gram_rows* rows, double* square, double* cross) {
	const size_t p = (size_t)g->inputs, d = (size_t)g->outputs;
	gsl_matrix_view u = gsl_matrix_view_array(rows->u, GRAM_BLOCK, p);
	gsl_matrix_view y = gsl_matrix_view_array(rows->y, GRAM_BLOCK, d);
	gsl_matrix_view s = gsl_matrix_view_array(square, p, p), c = gsl_matrix_view_array(cross, p, d);
	gsl_blas_dsyrk(CblasLower, CblasTrans, 1, &u.matrix, 1, &s.matrix);
	gsl_blas_dgemm(CblasTrans, CblasNoTrans, 1, &u.matrix, &y.matrix, 1, &c.matrix);
}

/* A whole block joins the sums, or those held, whose oldest then joins the sums. */
static void end_block(struct gram* g) {
	const long block = g->blocks++, before = block / HELD_SHARE; /* of those held, or that were */
	g->n_staged = 0;
	if (block % HELD_SHARE != HELD_SHARE - 1) {
		gram_sum(g, &g->staged, g->square, g->cross);
		return;
	}
	struct gram_rows* const held = &g->held[before % HELD_BLOCKS];
	const struct gram_rows free_now = *held;
	if (before >= HELD_BLOCKS)
		gram_sum(g, held, g->square, g->cross);
	*held = g->staged;
	g->staged = free_now;
}

/* False where a value is not finite. */
static bool widen(double* to, const float* from, int n, double scale) {
	bool finite = true;
	for (int i = 0; i < n; i++) {
		to[i] = scale * (double)from[i];
		finite = finite && isfinite(to[i]);
	}
	return finite;
}

void gram_add(struct gram* g, const float* first, int n_first, const float* second, int n_second,
              const float* y, double weight) {
	double* const u = g->staged.u + (size_t)g->n_staged * (size_t)g->inputs;
	double* const out = g->staged.y + (size_t)g->n_staged * (size_t)g->outputs;
	const double scale = sqrt(weight);
	u[0] = scale;
	if (!widen(u + 1, first, n_first, scale) || !widen(u + 1 + n_first, second, n_second, scale) ||
	    !widen(out, y, g->outputs, scale))
		return;
	if (++g->n_staged == GRAM_BLOCK)
		end_block(g);
}
