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
