/* Masks by content, and observations in order; record.h explains their use. */
#include "optimizer/record.h"

#include <stdlib.h>

bool record_open(struct record* r, int capacity) {
	r->capacity = capacity;
	r->entry = calloc((size_t)capacity, sizeof *r->entry);
	r->observation = calloc((size_t)capacity, sizeof *r->observation);
	return r->entry && r->observation;
}

void record_close(struct record* r) {
	free(r->entry);
	free(r->observation);
}

int record_find(const struct record* r, const struct vector* v) {
	int i = r->entries - 1;
	while (i >= 0 && !vector_equal(&r->entry[i].bits, v))
		i--;
	return i;
}

static void forget_entry(struct record* r, int* keep) {
	r->observations = r->entries = 0;
	if (*keep >= 0) {
		r->entry[0] = r->entry[*keep];
		r->entries = 1;
		*keep = 0;
	}
}

int record_entry(struct record* r, const struct vector* v, int* keep) {
	int found = record_find(r, v);
	if (found >= 0)
		return found;
	if (r->entries == r->capacity)
		forget_entry(r, keep);
	found = r->entries++;
	r->entry[found] = (struct entry){.bits = *v};
	return found;
}

int record_observe(struct record* r, const struct vector* v, const struct score* score, int* keep) {
	if (r->observations == r->capacity)
		forget_entry(r, keep);
	const int entry = record_entry(r, v, keep);
	r->observation[r->observations++] = (struct observation){entry, *score};
	return entry;
}
