/* Products of every instruction set and type, between marks that plugin.c counts from and to; before each a
 * line's beginning: instruction set, type, activation rows, weights times rows. */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cpu/kernels.h"

enum { ROWS = 16, COLS = 2048 };

static void measure_product(const struct cpu_kernels* k, enum dtype type, int n) {
	const size_t bytes = dtype_row_bytes(type, COLS) * ROWS, row = reference_prepared_bytes(type, COLS);
	uint8_t* weights = calloc(bytes, 1);
	uint8_t* x = aligned_alloc(64, row * (size_t)n);
	float *out = malloc(sizeof *out * ROWS * (size_t)n), values[COLS];
	const struct tensor w = {.type = type, .rows = ROWS, .cols = COLS, .data = weights};
	for (int i = 0; i < COLS; i++)
		values[i] = (float)(i % 7) - 3;
	for (int i = 0; i < n; i++)
		k->prepare(type, x + (size_t)i * row, values, COLS);
	printf("%s %s %d %d ", k->name, dtype_name(type), n, ROWS * COLS * n);
	fflush(stdout);
	__asm__ volatile("hint #120" ::: "memory");
	k->matmul(out, ROWS, &w, 0, ROWS, x, n);
	__asm__ volatile("hint #120" ::: "memory");
	free(weights);
	free(x);
	free(out);
}

int main(void) {
	static const enum dtype types[] = {DTYPE_Q4_0, DTYPE_Q4_1,   DTYPE_Q5_0, DTYPE_Q5_1,
	                                   DTYPE_Q8_0, DTYPE_IQ4_NL, DTYPE_Q4_K, DTYPE_Q5_K,
	                                   DTYPE_Q6_K, DTYPE_F16,    DTYPE_BF16, DTYPE_F32};
	static const int rows[] = {1, 2, 4, 8, 64};
	const struct cpu_kernels* kernels[MAX_ISAS];
	const int n = cpu_kernels_here(kernels);
	for (int k = n - 1; k >= 0; k--)
		for (size_t t = 0; t < sizeof types / sizeof *types; t++)
			for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
				measure_product(kernels[k], types[t], rows[r]);
}
