/* The kernels, on counts of differing bits and on real distances, with their slopes. */
#include <math.h>

#include "gp/internal.h"

int kernel_power(enum gp_kernel kernel) { return kernel == GP_MATERN52 ? 2 : 1; }

double kernel_at(enum gp_kernel kernel, double amplitude, double s, double* slope) {
	const double square = amplitude * amplitude;
	if (kernel == GP_HAMMING) {
		const double k = square * exp(-s);
		*slope = -k;
		return k;
	}
	/* s = r²; dk/ds = -5/6 (1 + √5 r) exp(-√5 r). */
	const double x = sqrt(5 * (s > 0 ? s : 0)), decay = square * exp(-x);
	*slope = -5.0 / 6 * (1 + x) * decay;
	return (1 + x + x * x / 3) * decay;
}

void table_fill(const struct gp* g, const struct gp_hyper* h, struct table* t) {
	const int power = kernel_power(g->option.kernel);
	for (int i = 0; i < GP_MAX_GROUPS; i++)
		t->weight[i] = i < g->groups ? pow(h->length[i], -power) : 0;
	for (int a = 0; a <= g->group_dims[0]; a++)
		for (int b = 0; b <= g->group_dims[1]; b++) {
			const int cell = a * g->stride + b;
			const double s = t->weight[0] * a + t->weight[1] * b;
			t->value[cell] = kernel_at(g->option.kernel, h->amplitude, s, &t->slope[cell]);
		}
}

int cell_of(const struct gp* g, const uint64_t* a, const uint64_t* b) {
	int first = 0, second = 0;
	for (int w = 0; w < g->words; w++) {
		const uint64_t differs = a[w] ^ b[w];
		first += __builtin_popcountll(differs & g->group_mask[0][w]);
		second += __builtin_popcountll(differs & g->group_mask[1][w]);
	}
	return first * g->stride + second;
}
