/* Masks by content and observations in order; record.h says what for. */
#include "optimizer/record.h"

#include <stdlib.h>
#include <string.h>

bool record_open(struct record* r, int capacity) {
	r->capacity = capacity;
	r->entry = calloc((size_t)capacity, sizeof *r->entry);
	r->observation = calloc((size_t)capacity, sizeof *r->observation);
	r->moved = calloc((size_t)capacity, sizeof *r->moved);
	return r->entry && r->observation && r->moved;
}

void record_close(struct record* r) {
	free(r->entry);
	free(r->observation);
	free(r->moved);
}

int record_find(const struct record* r, const struct vector* v) {
	int i = r->entries - 1;
	while (i >= 0 && !vector_equal(&r->entry[i].bits, v))
		i--;
	return i;
}

static void forget_half(struct record* r, int* keep) {
	const int drop = r->observations - r->observations / 2;
	r->observations -= drop;
	memmove(r->observation, r->observation + drop, (size_t)r->observations * sizeof *r->observation);
	memset(r->moved, 0, (size_t)r->entries * sizeof *r->moved);
	for (int i = 0; i < r->observations; i++)
		r->moved[r->observation[i].entry] = 1;
	if (*keep >= 0)
		r->moved[*keep] = 1;
	int left = 0;
	for (int i = 0; i < r->entries; i++) {
		if (!r->moved[i])
			continue;
		r->entry[left] = r->entry[i];
		r->moved[i] = left++;
	}
	r->entries = left;
	for (int i = 0; i < r->observations; i++)
		r->observation[i].entry = r->moved[r->observation[i].entry];
	if (*keep >= 0)
		*keep = r->moved[*keep];
}

int record_entry(struct record* r, const struct vector* v, int* keep) {
	int found = record_find(r, v);
	if (found >= 0)
		return found;
	if (r->entries == r->capacity)
		forget_half(r, keep);
	found = r->entries++;
	r->entry[found] = (struct entry){.bits = *v};
	return found;
}

int record_observe(struct record* r, int entry, const struct score* score, int* keep) {
	const struct vector bits = r->entry[entry].bits;
	if (r->observations == r->capacity) {
		forget_half(r, keep);
		entry = record_entry(r, &bits, keep);
	}
	r->observation[r->observations++] = (struct observation){entry, *score};
	return entry;
}
