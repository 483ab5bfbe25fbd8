/* The model's norm on rows: RMS, or LayerNorm, which is the same on rows whose mean is taken off. */
#include "kernels/cpu/cpu.h"

static void centre_row(float* out, const float* x, int n) {
	double sum = 0;
	for (int i = 0; i < n; i++)
		sum += (double)x[i];
	const float mean = (float)(sum / n);
	for (int i = 0; i < n; i++)
		out[i] = x[i] - mean;
}

void norm_rows(const struct cpu_backend* b, float* out, const float* x, const float* weight,
               const float* bias, int width, int n) {
	const struct model_shape* s = &b->head.weights->shape;
	const float plus = s->norm_plus_one ? 1.0f : 0.0f;
	for (int i = 0; i < n; i++) {
		const float* from = x + (size_t)i * (size_t)width;
		float* to = out + (size_t)i * (size_t)width;
		if (s->norm == NORM_LAYER) {
			centre_row(to, from, width);
			from = to;
		}
		b->kernels->rms_norm(to, from, weight, plus, s->norm_epsilon, width);
		for (int j = 0; bias && j < width; j++)
			to[j] += bias[j];
	}
}
