/* The table of drafters, and what is done with all of a sequence's. */
#include "core/draft/drafter.h"

#include <string.h>

#define DRAFTER_LISTED(name) &drafter_##name,
const struct drafter* const drafters[DRAFTER_COUNT] = {DRAFTERS(DRAFTER_LISTED)};
#define DRAFTER_NAMED(name) #name,
const char* const drafter_name[DRAFTER_COUNT] = {DRAFTERS(DRAFTER_NAMED)};

bool drafter_set_open(struct drafter_set* set, unsigned which, const struct drafter_setup* setup) {
	bool good = true;
	for (int i = 0; i < DRAFTER_COUNT; i++) {
		set->state[i] = which >> i & 1u ? drafters[i]->open(setup) : NULL;
		good &= set->state[i] || !(which >> i & 1u);
	}
	return good;
}

void drafter_set_close(struct drafter_set* set) {
	for (int i = 0; i < DRAFTER_COUNT; i++)
		if (set->state[i])
			drafters[i]->close(set->state[i]);
	memset(set, 0, sizeof *set);
}

void drafter_set_append(struct drafter_set* set, const int32_t* token, int n) {
	for (int i = 0; i < DRAFTER_COUNT; i++)
		if (set->state[i] && drafters[i]->append)
			drafters[i]->append(set->state[i], token, n);
}

void drafter_set_begin(struct drafter_set* set, const struct drafter_text* text) {
	for (int i = 0; i < DRAFTER_COUNT; i++)
		if (set->state[i] && drafters[i]->begin)
			drafters[i]->begin(set->state[i], text);
}

uint8_t drafter_set_wants(const struct drafter_set* set) {
	uint8_t wants = 0;
	for (int i = 0; i < DRAFTER_COUNT; i++)
		if (set->state[i] && drafters[i]->wants)
			wants |= drafters[i]->wants(set->state[i]);
	return wants;
}

void drafter_set_see(struct drafter_set* set, const struct tree* tree, const struct verdict* verdict,
                     const struct result* out) {
	for (int i = 0; i < DRAFTER_COUNT; i++)
		if (set->state[i] && drafters[i]->see)
			drafters[i]->see(set->state[i], tree, verdict, out);
}

static int find_name(const char* name, size_t size) {
	for (int i = 0; i < DRAFTER_COUNT; i++)
		if (strlen(drafter_name[i]) == size && strncmp(drafter_name[i], name, size) == 0)
			return i;
	return -1;
}

static bool refuse_name(const char* name, size_t size, struct error* error) {
	char known[256] = "";
	for (int i = 0; i < DRAFTER_COUNT; i++) {
		strcat(known, drafter_name[i]);
		strcat(known, ", ");
	}
	return error_set(error, "drafters: no drafter \"%.*s\"; expected %sall or none", (int)size, name, known);
}

bool drafter_parse(const char* list, unsigned* which, struct error* error) {
	*which = strcmp(list, "all") == 0 ? (1u << DRAFTER_COUNT) - 1 : 0;
	if (*which || strcmp(list, "none") == 0)
		return true;
	for (const char* at = list;; at++) {
		const size_t size = strcspn(at, ",");
		const int found = find_name(at, size);
		if (found < 0)
			return refuse_name(at, size < 64 ? size : 64, error);
		*which |= 1u << found;
		at += size;
		if (!*at)
			return true;
	}
}
