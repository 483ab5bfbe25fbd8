/* A probe: the chance that a draft step is right, by logistic regression on what it was drafted from
 * (AdaSPEED, section II.B). Read from a file, or learned on-line from what verification said of the newest
 * steps. */
#ifndef SWIFTLET_CORE_METHODS_PROBE_H
#define SWIFTLET_CORE_METHODS_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROBE_SAMPLES = 1024, PROBE_EVERY = 64 };

struct probe {
	int dims;
	float* weight; /* (dims) */
	float bias;
	bool known; /* else a step's chance is its probability */
	bool fixed; /* read from a file */
	float* x;   /* (PROBE_SAMPLES, dims) */
	uint8_t* y;
	int64_t seen;
	int since_fit;
};

/* weight (dims): what was read from a file; NULL: it is learned. False on no memory; close in any case. */
bool probe_start(struct probe*, int dims, const float* weight, float bias);
void probe_end(struct probe*);
float probe_chance(const struct probe*, const float* x);
void probe_see(struct probe*, const float* x, bool right);
/* Whether enough is new for a fit, and the fit. */
bool probe_is_due(const struct probe*);
void probe_fit(struct probe*);

#endif
