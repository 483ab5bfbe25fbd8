/* A made-up model of the layer-set search's world: some sub-layers can be skipped for nothing, the others
 * cost matchness, and a window of tokens measures that with noise. */
#pragma once

#include "optimizer/search.h"

struct planted {
	int blocks, dims;
	uint64_t seed;
	double top;                  /* matchness of the planted mask, near enough */
	double cost[2 * MAX_BLOCKS]; /* (dims) in the exponent, by skippable sub-layer */
	struct mask mask;            /* the planted one: floor(0.45 dims) sub-layers */
};

/* The start mask scores about 0.45, one wrong swap 0.03 to 0.05 less than the planted mask. */
void planted_make(struct planted*, int blocks, uint64_t seed);
double planted_truth(const struct planted*, const struct mask*);
/* The published start: blocks 1, 3, 5… up to L - 2, both sub-layers. */
struct mask planted_start(int blocks);
/* Matches among `size` tokens of the window, which are easy or hard for all masks alike in part. The same
 * mask and window score the same. */
int planted_score(const struct planted*, const struct mask*, int64_t window, int size);
