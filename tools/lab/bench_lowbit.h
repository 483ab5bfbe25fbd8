/* Part d of `swiftlet bench swift`: a low-bit copy of the weights beside skipping, and both; see
 * bench_lowbit.c. */
#ifndef SWIFTLET_TOOLS_LAB_BENCH_LOWBIT_H
#define SWIFTLET_TOOLS_LAB_BENCH_LOWBIT_H

#include "tools/lab/bench.h"

enum { LOWBIT_WAYS = 3, MOST_SLICES = 64 };

struct lowbit_way {
	const char* name;
	bool skip, low;
	struct runner runner;
	double predicted; /* share of plain text; NaN: not counted */
	double ratio[MOST_SLICES];
	double speedup, lower, upper, mean_generated, alpha, c, expected;
	int skipped; /* sub-layers, at the end */
};

struct lowbit {
	const struct bench* bench;
	struct mask mask; /* what was planted */
	bool planted;
	struct lowbit_way way[LOWBIT_WAYS];
	struct runner plain;
	int bits;
	int64_t slices, compared, differing;
};

/* The engine has a copy of so many bits, or none: then skipping alone is measured. slices: at most
 * MOST_SLICES. */
bool lowbit_measure(struct lowbit*, const struct bench*, int bits, int64_t slices, struct error*);
void lowbit_json(const struct lowbit*, cJSON* out);
void lowbit_print(const struct lowbit*);

#endif
