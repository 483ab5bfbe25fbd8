/* The skippable sub-layers of a mask as a bit vector: bit i is sub-layer i + 2, those of the first and the
 * last block are not in it. */
#ifndef SWIFTLET_OPTIMIZER_VECTOR_H
#define SWIFTLET_OPTIMIZER_VECTOR_H

#include "kernels/backend.h"

enum { MAX_DIMS = 2 * MAX_BLOCKS - 4, VECTOR_WORDS = MASK_WORDS };

struct vector {
	uint64_t word[VECTOR_WORDS];
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
	uint64_t differs = 0;
	for (int i = 0; i < VECTOR_WORDS; i++)
		differs |= a->word[i] ^ b->word[i];
	return differs == 0;
}
static inline int vector_count(const struct vector* v) {
	int n = 0;
	for (int i = 0; i < VECTOR_WORDS; i++)
		n += __builtin_popcountll(v->word[i]);
	return n;
}
/* False when the mask skips what may not be skipped in a model of dims / 2 + 2 blocks. */
static inline bool vector_of(const struct mask* mask, int dims, struct vector* out) {
	*out = (struct vector){{0}};
	for (int sub_layer = 0; sub_layer < 2 * MAX_BLOCKS; sub_layer++) {
		if (!mask_has(mask, sub_layer))
			continue;
		if (sub_layer < 2 || sub_layer >= dims + 2)
			return false;
		vector_set(out, sub_layer - 2, true);
	}
	return true;
}
static inline struct mask mask_of(const struct vector* v, int dims) {
	struct mask mask = {{0}};
	for (int i = 0; i < dims; i++)
		mask_set(&mask, i + 2, vector_has(v, i));
	return mask;
}

#endif
