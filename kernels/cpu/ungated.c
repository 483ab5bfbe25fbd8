/* Activations of MLPs that have no gate: x itself is changed. */
#include "kernels/cpu/cpu.h"

#include <math.h>

static float xielu(const struct xielu* p, float x) {
	if (x > 0)
		return p->positive * x * x + p->beta * x;
	return (expm1f(fminf(x, p->epsilon)) - x) * p->negative + p->beta * x;
}

void activate(enum activation activation, const struct xielu* parameters, float* x, int n) {
	for (int i = 0; activation == ACTIVATION_RELU2 && i < n; i++) {
		const float positive = x[i] > 0 ? x[i] : 0;
		x[i] = positive * positive;
	}
	for (int i = 0; activation == ACTIVATION_XIELU && i < n; i++)
		x[i] = xielu(parameters, x[i]);
}
