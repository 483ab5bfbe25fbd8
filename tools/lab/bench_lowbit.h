/* Part d of `swiftlet bench swift`: a low-bit copy of the weights beside skipping, and both; see
 * bench_lowbit.c. */
#ifndef SWIFTLET_TOOLS_LAB_BENCH_LOWBIT_H
#define SWIFTLET_TOOLS_LAB_BENCH_LOWBIT_H

#include "tools/lab/contest.h"

enum { LOWBIT_WAYS = 3 };

struct lowbit_way {
	bool skip, low;
	double predicted; /* share of plain text; NaN: not counted */
	int skipped;      /* sub-layers, at the end */
};

struct lowbit {
	const struct bench* bench;
	struct mask mask; /* what was planted */
	bool planted;
	struct lowbit_way how[LOWBIT_WAYS];
	struct way way[LOWBIT_WAYS + 1]; /* and plain decoding */
	int bits;
	int64_t slices, compared, differing;
};

/* The engine has a copy of so many bits, or none: then skipping alone is measured. slices: at most
 * MOST_SLICES. */
bool lowbit_measure(struct lowbit*, const struct bench*, int bits, int64_t slices, struct error*);
void lowbit_json(const struct lowbit*, cJSON* out);
void lowbit_print(const struct lowbit*);

#endif
