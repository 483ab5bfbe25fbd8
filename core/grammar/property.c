/* Asks PCRE2 about all characters: one expression finds the runs that have a property, in texts of 128
 * characters of one length each. */
#include "core/grammar/property.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "core/files/unicode_category.h"
#include "core/files/utf8.h"

enum { MOST_NAME = 64, PAGE = 128 };

/* The property in PCRE2's spelling. False: it has a key that is none of ECMA-262's. */
static bool spell_name(const char* name, char* to, size_t size) {
	static const char* const key[][2] = {
	    {"General_Category=", ""},      {"gc=", ""},     {"Script=", "sc:"}, {"sc=", "sc:"},
	    {"Script_Extensions=", "scx:"}, {"scx=", "scx:"}};
	const char* before = "";
	for (size_t i = 0; i < sizeof key / sizeof *key; i++)
		if (strncmp(name, key[i][0], strlen(key[i][0])) == 0) {
			name += strlen(key[i][0]);
			before = key[i][1];
			break;
		}
	const char* const category = *before ? NULL : unicode_category_code(name);
	name = category ? category : name;
	snprintf(to, size, "%s%s", before, name);
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_&";
	return *name && !name[strspn(name, letters)];
}

struct code_run {
	struct reader* to;
	uint32_t low, past; /* the characters found so far that follow one another */
};

static void add_range(struct code_run* run, uint32_t low, uint32_t past) {
	if (low != run->past && run->past > run->low)
		reader_range(run->to, run->low, run->past - 1);
	if (low != run->past)
		run->low = low;
	run->past = past;
}

static void add_page(struct code_run* run, const pcre2_code* code, pcre2_match_data* match, uint32_t base) {
	char text[4 * PAGE];
	size_t size = 0;
	for (uint32_t i = 0; i < PAGE; i++)
		size += utf8_put(base + i, text + size);
	const size_t width = size / PAGE; /* all have the same, as pages begin where widths change */
	const PCRE2_SIZE* found = pcre2_get_ovector_pointer(match);
	for (size_t at = 0;
	     at < size && pcre2_match(code, (PCRE2_SPTR)text, size, at, PCRE2_NO_UTF_CHECK, match, NULL) > 0;
	     at = found[1])
		add_range(run, base + (uint32_t)(found[0] / width), base + (uint32_t)(found[1] / width));
}

/* Keeps a copy of the ranges from `from` on. */
static bool keep_range(struct reader* r, const char* name, bool negated, int from) {
	struct known_property kept = {.negated = negated, .any_case = r->any_case, .n = r->n_ranges - from};
	snprintf(kept.name, sizeof kept.name, "%s", name);
	kept.range = r->failed ? NULL : malloc(((size_t)kept.n + 1) * sizeof *kept.range);
	if (!kept.range || !grow_by_one(&r->property, (size_t)r->n_properties, sizeof *r->property)) {
		free(kept.range);
		return false;
	}
	if (kept.n > 0)
		memcpy(kept.range, r->range + from, (size_t)kept.n * sizeof *kept.range);
	r->property[r->n_properties++] = kept;
	return true;
}

/* True where the property has been asked for before: its ranges are added again. */
static bool add_known(struct reader* r, const char* name, bool negated) {
	for (int i = 0; i < r->n_properties; i++) {
		const struct known_property* p = &r->property[i];
		if (strcmp(p->name, name) != 0 || p->negated != negated || p->any_case != r->any_case)
			continue;
		for (int j = 0; j < p->n; j++)
			reader_range(r, p->range[j].low, p->range[j].high);
		return true;
	}
	return false;
}

static bool find_ranges(struct reader*, const char* name, bool negated);

bool property_ranges(struct reader* r, const char* name, bool negated) {
	const int from = r->n_ranges;
	if (add_known(r, name, negated))
		return true;
	if (r->n_properties == READER_PROPERTIES) {
		reader_fail(r, "more than 32 properties of characters are not supported");
		return true;
	}
	return find_ranges(r, name, negated) && (r->failed || keep_range(r, name, negated, from));
}

static bool find_ranges(struct reader* r, const char* name, bool negated) {
	char spelt[MOST_NAME], expression[MOST_NAME + 16];
	int why;
	PCRE2_SIZE where;
	if (!spell_name(name, spelt, sizeof spelt))
		return false;
	const int n = snprintf(expression, sizeof expression, "\\%c{%s}+", negated ? 'P' : 'p', spelt);
	const uint32_t options = PCRE2_UTF | PCRE2_NO_START_OPTIMIZE | (r->any_case ? PCRE2_CASELESS : 0);
	pcre2_code* code = pcre2_compile((PCRE2_SPTR)expression, (PCRE2_SIZE)n, options, &why, &where, NULL);
	pcre2_match_data* match = code ? pcre2_match_data_create_from_pattern(code, NULL) : NULL;
	struct code_run run = {.to = r};
	for (uint32_t base = 0; match && base <= LAST_CODE; base += PAGE)
		if (base < 0xd800 || base > 0xdfff) /* no text has surrogates */
			add_page(&run, code, match, base);
	add_range(&run, LAST_CODE + 2, LAST_CODE + 2);
	pcre2_match_data_free(match);
	pcre2_code_free(code);
	return match != NULL;
}
