/* The second half of `swiftlet bench learn`: a model and a stream that are given. */
#ifndef SWIFTLET_TOOLS_LAB_BENCH_LEARN_H
#define SWIFTLET_TOOLS_LAB_BENCH_LEARN_H

#include "tools/lab/bench.h"

struct bench_stream {
	const char *model, *input, *store; /* store: NULL for none */
	struct swiftlet_options options;
	const double* slope; /* (slopes) a run each, from a cold start or from the store */
	int slopes;
	int64_t tokens; /* at least; 0: each prompt once */
	bool json;
};

/* The exit status. */
int bench_learn_stream(const struct bench_stream*);

#endif
