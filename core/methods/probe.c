/* Keeps samples in a ring and refits the probe now and then. */
#include "core/methods/probe.h"

#include <stdlib.h>
#include <string.h>

#include "core/methods/logistic.h"

bool probe_start(struct probe* p, int dims, const float* weight, float bias) {
	p->dims = dims;
	p->weight = calloc((size_t)dims, sizeof *p->weight);
	p->x = malloc((size_t)dims * PROBE_SAMPLES * sizeof *p->x);
	p->y = malloc(PROBE_SAMPLES);
	if (!p->weight || !p->x || !p->y)
		return false;
	if (weight) {
		memcpy(p->weight, weight, (size_t)dims * sizeof *p->weight);
		p->bias = bias;
		p->known = p->fixed = true;
	}
	return true;
}

void probe_end(struct probe* p) {
	free(p->weight);
	free(p->x);
	free(p->y);
}

float probe_chance(const struct probe* p, const float* x) {
	return (float)logistic_chance(p->weight, p->bias, x, p->dims);
}

void probe_see(struct probe* p, const float* x, bool right) {
	const size_t at = (size_t)(p->seen++ % PROBE_SAMPLES);
	memcpy(p->x + at * (size_t)p->dims, x, (size_t)p->dims * sizeof *p->x);
	p->y[at] = right;
	p->since_fit++;
}

bool probe_is_due(const struct probe* p) {
	return !p->fixed && p->since_fit >= PROBE_EVERY * (p->seen > 8 * PROBE_EVERY ? 4 : 1);
}

void probe_fit(struct probe* p) {
	const int n = p->seen < PROBE_SAMPLES ? (int)p->seen : PROBE_SAMPLES;
	p->since_fit = 0;
	p->known |= logistic_fit(p->x, p->y, n, p->dims, 0.01, 30, p->weight, &p->bias);
}
