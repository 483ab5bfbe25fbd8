/* A draft's states as a bit vector, as the search's models see it: a bit says what is not as in the full
 * model at its full weights.
 *
 * Bit i < dims: sub-layer i + 2 is skipped; those of the first and the last block never are. Bit dims: what
 * is not skipped runs with the quantized draft weights, as far as it has some; which sub-layers rounding
 * hurts is not worth finding out (docs/lessons.md). */
#ifndef SWIFTLET_OPTIMIZER_VECTOR_H
#define SWIFTLET_OPTIMIZER_VECTOR_H

#include <string.h>

#include "kernels/backend.h"

enum { MAX_DIMS = 2 * MAX_BLOCKS - 4, MAX_BITS = MAX_DIMS + 1, VECTOR_WORDS = (MAX_BITS + 63) / 64 };

struct vector {
	uint64_t word[VECTOR_WORDS];
};

/* The sub-layers that have quantized draft weights, and whether the head has; none: there are no draft
 * weights. */
struct quantized_set {
	struct mask sub_layers;
	bool head;
};

static inline bool vector_has(const struct vector* v, int i) { return v->word[i >> 6] >> (i & 63) & 1u; }
static inline void vector_set(struct vector* v, int i, bool on) {
	const uint64_t bit = (uint64_t)1 << (i & 63);
	if (on)
		v->word[i >> 6] |= bit;
	else
		v->word[i >> 6] &= ~bit;
}
static inline bool vector_equal(const struct vector* a, const struct vector* b) {
	return memcmp(a, b, sizeof *a) == 0;
}
/* What it skips, alone. */
static inline struct vector vector_skips(const struct vector* v, int dims) {
	struct vector skips = *v;
	vector_set(&skips, dims, false);
	return skips;
}
/* Sub-layers that it skips. */
static inline int vector_count(const struct vector* v, int dims) {
	const struct vector skips = vector_skips(v, dims);
	int n = 0;
	for (int i = 0; i < VECTOR_WORDS; i++)
		n += __builtin_popcountll(skips.word[i]);
	return n;
}
static inline bool quantized_any(const struct quantized_set* c) {
	return c->head || mask_count(&c->sub_layers) > 0;
}

/* The vector of a mask as it runs with these draft weights: the last bit is set where any sub-layer is
 * quantized. False when it skips what may not be skipped in a model of dims / 2 + 2 blocks. */
static inline bool vector_of(const struct mask* mask, const struct quantized_set* available, int dims,
                             struct vector* out) {
	bool quantized = available->head && !mask->stored_head;
	*out = (struct vector){{0}};
	for (int s = 0; s < 2 * MAX_BLOCKS; s++) {
		if (mask_has(mask, s) && (s < 2 || s >= dims + 2))
			return false;
		if (mask_has(mask, s))
			vector_set(out, s - 2, true);
		else if (s < dims + 4 && mask_has(&available->sub_layers, s) && !mask_stores(mask, s))
			quantized = true;
	}
	vector_set(out, dims, quantized);
	return true;
}
/* The mask that runs so with these draft weights. */
static inline struct mask mask_of(const struct vector* v, const struct quantized_set* available, int dims) {
	const bool quantized = vector_has(v, dims);
	struct mask mask = {.word = {0}};
	for (int s = 0; s < dims + 4; s++) {
		const bool may_skip = s >= 2 && s < dims + 2;
		if (may_skip && vector_has(v, s - 2))
			mask_set(&mask, s, true);
		else if (mask_has(&available->sub_layers, s) && !quantized)
			mask_store(&mask, s);
	}
	mask.stored_head = available->head && !quantized;
	return mask;
}

#endif
