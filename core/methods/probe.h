/* A probe: the probability that a draft step is right, by logistic regression on the hidden state that it was
 * drafted from (AdaSPEED, section II.B). It is read from a file, or learned from the verification of the
 * newest steps. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROBE_SAMPLES = 1024, PROBE_EVERY = 64 };

struct probe {
	int dims;
	float* weight; /* (dims) */
	float bias;
	bool known; /* otherwise a step's own probability is used */
	bool fixed; /* read from a file */
	float* x;   /* (PROBE_SAMPLES, dims) */
	uint8_t* y;
	int64_t seen;
	int since_fit;
};

/* weight (dims): read from a file; NULL: it is learned. False on no memory; close in any case. */
bool probe_start(struct probe*, int dims, const float* weight, float bias);
void probe_end(struct probe*);
float probe_chance(const struct probe*, const float* x);
void probe_see(struct probe*, const float* x, bool right);
/* True when there are enough new samples for a fit; and the fit. */
bool probe_is_due(const struct probe*);
void probe_fit(struct probe*);
