/* Masks at random; random_mask.h says which. */
#include "optimizer/random_mask.h"

void random_mask(struct gp_random* random, int dims, int size, struct vector* out) {
	int order[MAX_DIMS];
	for (int i = 0; i < dims; i++)
		order[i] = i;
	*out = (struct vector){{0}};
	for (int i = 0; i < size; i++) {
		const int j = i + gp_below(random, dims - i);
		const int taken = order[j];
		order[j] = order[i];
		order[i] = taken;
		vector_set(out, taken, true);
	}
}

void random_swap(struct gp_random* random, int dims, struct vector* v) {
	const int count = vector_count(v, dims);
	if (count == 0 || count == dims)
		return;
	int drop = gp_below(random, count), take = gp_below(random, dims - count);
	for (int i = 0; i < dims; i++) {
		const bool had = vector_has(v, i);
		if (had && drop-- == 0)
			vector_set(v, i, false);
		else if (!had && take-- == 0)
			vector_set(v, i, true);
	}
}
