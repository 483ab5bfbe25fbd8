/* Least squares from sums: against Gaussian elimination over the rows themselves, and what a fit has to find.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/bridge/solve.h"

enum { FIRST = 3, SECOND = 4, INPUTS = 1 + FIRST + SECOND, OUTPUTS = 5, ROWS = 41 * GRAM_BLOCK };

static uint64_t state = 7;
static double uniform(void) { /* in [-1, 1), xorshift64* (Vigna 2016) */
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return (double)(state * 0x2545F4914F6CDD1Du >> 11) * 0x1p-52 - 1;
}

struct rows {
	float first[ROWS][FIRST], second[ROWS][SECOND], y[ROWS][OUTPUTS];
	double weight[ROWS];
	double map[OUTPUTS][INPUTS];
};
static struct rows rows;

static double input(int row, int j) {
	return j == 0 ? 1 : j <= FIRST ? (double)rows.first[row][j - 1] : (double)rows.second[row][j - 1 - FIRST];
}

static void make_rows(double noise) {
	for (int k = 0; k < OUTPUTS; k++)
		for (int j = 0; j < INPUTS; j++)
			rows.map[k][j] = uniform();
	for (int i = 0; i < ROWS; i++) {
		for (int j = 0; j < FIRST; j++)
			rows.first[i][j] = (float)(100 * uniform() + 30);
		for (int j = 0; j < SECOND; j++)
			rows.second[i][j] = (float)(0.01 * uniform());
		rows.weight[i] = 1.5 + uniform();
		for (int k = 0; k < OUTPUTS; k++) {
			double y = noise * uniform();
			for (int j = 0; j < INPUTS; j++)
				y += rows.map[k][j] * input(i, j);
			rows.y[i][k] = (float)y;
		}
	}
}

static void add_rows(struct gram* g, int n) {
	for (int i = 0; i < n; i++)
		gram_add(g, rows.first[i], FIRST, rows.second[i], g->inputs - 1 - FIRST, rows.y[i], rows.weight[i]);
}

static void finds_the_map(void** unused) {
	struct gram g;
	struct ridge_fit fit;
	float weight[OUTPUTS][INPUTS - 1], bias[OUTPUTS];
	(void)unused;
	make_rows(0);
	assert_true(gram_open(&g, INPUTS, OUTPUTS));
	add_rows(&g, ROWS);
	assert_int_equal(gram_rows(&g), ROWS);
	assert_true(ridge_solve(&g, &weight[0][0], bias, &fit));
	assert_true(fit.error < 1e-6);
	for (int k = 0; k < OUTPUTS; k++) {
		double told = (double)bias[k], meant = rows.map[k][0];
		for (int j = 1; j < INPUTS; j++) {
			told += (double)weight[k][j - 1] * input(9, j);
			meant += rows.map[k][j] * input(9, j);
		}
		assert_true(fabs(told - meant) < 1e-2);
	}
	gram_close(&g);
}

/* a·x = b by elimination with pivots; x in b. */
static void eliminate(int n, double a[INPUTS][INPUTS], double b[INPUTS]) {
	for (int i = 0; i < n; i++) {
		int best = i;
		for (int r = i + 1; r < n; r++)
			best = fabs(a[r][i]) > fabs(a[best][i]) ? r : best;
		for (int j = 0; j < n; j++) {
			const double swap = a[i][j];
			a[i][j] = a[best][j];
			a[best][j] = swap;
		}
		const double swap = b[i];
		b[i] = b[best];
		b[best] = swap;
		for (int r = 0; r < n; r++) {
			const double share = r == i ? 0 : a[r][i] / a[i][i];
			for (int j = i; j < n; j++)
				a[r][j] -= share * a[i][j];
			b[r] -= share * b[i];
		}
	}
	for (int i = 0; i < n; i++)
		b[i] /= a[i][i];
}

/* The penalised normal equations of one output, over all rows at once. */
static void oracle(int n, int inputs, int output, double lambda, double x[INPUTS]) {
	double a[INPUTS][INPUTS] = {{0}}, mean[INPUTS] = {0}, all = 0;
	memset(x, 0, INPUTS * sizeof *x);
	for (int i = 0; i < n; i++) {
		all += rows.weight[i];
		for (int j = 0; j < inputs; j++) {
			mean[j] += rows.weight[i] * input(i, j);
			x[j] += rows.weight[i] * input(i, j) * (double)rows.y[i][output];
			for (int l = 0; l < inputs; l++)
				a[j][l] += rows.weight[i] * input(i, j) * input(i, l);
		}
	}
	for (int j = 1; j < inputs; j++) {
		double spread = 0;
		for (int i = 0; i < n; i++)
			spread += rows.weight[i] * pow(input(i, j) - mean[j] / all, 2);
		a[j][j] += lambda * spread;
	}
	eliminate(inputs, a, x);
}

static void equals_elimination(void** unused) {
	(void)unused;
	make_rows(40);
	for (int blocks = 8; blocks <= 40; blocks += 16)
		for (int inputs = 1 + FIRST; inputs <= INPUTS; inputs += SECOND) {
			struct gram g;
			struct ridge_fit fit;
			float weight[OUTPUTS * (INPUTS - 1)], bias[OUTPUTS];
			assert_true(gram_open(&g, inputs, OUTPUTS));
			add_rows(&g, blocks * GRAM_BLOCK + 5); /* the last five are of no whole block */
			assert_true(ridge_solve(&g, weight, bias, &fit));
			for (int k = 0; k < OUTPUTS; k++) {
				double x[INPUTS];
				oracle(blocks * GRAM_BLOCK, inputs, k, fit.lambda, x);
				assert_true(fabs((double)bias[k] - x[0]) < 1e-4 * (1 + fabs(x[0])));
				for (int j = 1; j < inputs; j++)
					assert_true(fabs((double)weight[k * (inputs - 1) + j - 1] - x[j]) <
					            1e-4 * (1 + fabs(x[j])));
			}
			gram_close(&g);
		}
}

/* The ridge is strong where rows are few and all is noise, and what it leaves is no worse than nothing. */
static void shrinks_noise(void** unused) {
	struct gram g;
	struct ridge_fit fit;
	float weight[OUTPUTS * (INPUTS - 1)], bias[OUTPUTS];
	(void)unused;
	make_rows(0);
	for (int i = 0; i < ROWS; i++)
		for (int k = 0; k < OUTPUTS; k++)
			rows.y[i][k] = (float)uniform();
	assert_true(gram_open(&g, INPUTS, OUTPUTS));
	add_rows(&g, 8 * GRAM_BLOCK);
	assert_true(ridge_solve(&g, weight, bias, &fit));
	assert_true(fit.lambda >= 0.3 && fit.error < 1.1 && fit.error > 0.9);
	gram_close(&g);
}

static void leaves_out_what_is_not_finite(void** unused) {
	struct gram g;
	struct ridge_fit fit;
	float weight[OUTPUTS * (INPUTS - 1)], bias[OUTPUTS], broken[OUTPUTS] = {NAN, INFINITY};
	(void)unused;
	make_rows(1);
	assert_true(gram_open(&g, INPUTS, OUTPUTS));
	assert_false(ridge_solve(&g, weight, bias, &fit)); /* nothing is there */
	for (int i = 0; i < 12 * GRAM_BLOCK; i++) {
		gram_add(&g, rows.first[i], FIRST, rows.second[i], SECOND, broken, 1);
		gram_add(&g, rows.first[i], FIRST, rows.second[i], SECOND, rows.y[i], INFINITY);
		gram_add(&g, rows.first[i], FIRST, rows.second[i], SECOND, rows.y[i], 1);
	}
	assert_int_equal(gram_rows(&g), 12 * GRAM_BLOCK);
	assert_true(ridge_solve(&g, weight, bias, &fit));
	for (int i = 0; i < OUTPUTS * (INPUTS - 1); i++)
		assert_true(isfinite(weight[i]));
	gram_close(&g);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(finds_the_map),
	    cmocka_unit_test(equals_elimination),
	    cmocka_unit_test(shrinks_noise),
	    cmocka_unit_test(leaves_out_what_is_not_finite),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
