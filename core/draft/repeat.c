/* The `repeat` drafter: a token may come twice. Its evidence is how often in a row it has come already. */
#include <stdlib.h>

#include "core/draft/drafter.h"

enum { BINS = 4 };

struct repeat {
	int32_t last;
	int times; /* that it came in a row, less one */
};

static void* repeat_open(const struct drafter_setup* setup) {
	(void)setup;
	return calloc(1, sizeof(struct repeat));
}

static void repeat_append(void* state, const int32_t* token, int n) {
	struct repeat* r = state;
	for (int i = 0; i < n; i++) {
		r->times = token[i] == r->last ? r->times + 1 : 0;
		r->last = token[i];
	}
}

static int repeat_extend(void* state, const struct tree* tree, int row, struct candidate* out, int most) {
	const struct repeat* r = state;
	const int times = tree->token[row] == r->last ? r->times : 0;
	if (most < 1)
		return 0;
	out[0] = (struct candidate){.token = tree->token[row], .bin = (uint8_t)(times < BINS ? times : BINS - 1)};
	return 1;
}

static float repeat_prior(int bin, int rank) {
	(void)rank;
	return bin == 0 ? 0.01f : 0.5f;
}

const struct drafter drafter_repeat = {.bins = BINS,
                                       .prior = repeat_prior,
                                       .open = repeat_open,
                                       .close = free,
                                       .append = repeat_append,
                                       .extend = repeat_extend};
