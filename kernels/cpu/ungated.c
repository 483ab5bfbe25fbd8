/* Activations of MLPs that have no gate: x itself is changed. */
#include "kernels/cpu/cpu.h"

#include <math.h>

static float xielu(const struct xielu* p, float x) {
	if (x > 0)
		return p->positive * x * x + p->beta * x;
	return (expm1f(fminf(x, p->epsilon)) - x) * p->negative + p->beta * x;
}

void activate(enum activation activation, const struct xielu* parameters, float* x, int n) {
	for (int i = 0; i < n; i++)
		x[i] =
		    activation == ACTIVATION_XIELU ? xielu(parameters, x[i]) : reference_activation(activation, x[i]);
}
