/* See letter_case.h. utf8proc knows the full folding. The simple one is the same where it gives one
 * character, and else the lower case, if there is one. */
#include "core/grammar/letter_case.h"

#include <stdlib.h>
#include <utf8proc.h>

#include "core/files/grow.h"

enum { LAST_CASED = 0x1e943 }; /* of Adlam; what comes after it has no case */

static uint32_t fold_case(uint32_t code) {
	utf8proc_int32_t to[8];
	int boundary = 0;
	if (code == 0x130) /* I with a dot: lower case is an i, which it is not equal to */
		return code;
	const utf8proc_ssize_t n =
	    utf8proc_decompose_char((utf8proc_int32_t)code, to, 8, UTF8PROC_CASEFOLD, &boundary);
	return n == 1 ? (uint32_t)to[0] : (uint32_t)utf8proc_tolower((utf8proc_int32_t)code);
}

static int compare_codes(const void* a, const void* b) {
	const struct letter_fold *x = a, *y = b;
	return x->fold != y->fold ? (x->fold > y->fold) - (x->fold < y->fold)
	                          : (x->code > y->code) - (x->code < y->code);
}

static bool add_fold(struct reader* r, uint32_t fold, uint32_t code) {
	if (!grow_by_one(&r->fold, (size_t)r->n_folds, sizeof *r->fold))
		return reader_fail(r, "out of memory"), false;
	r->fold[r->n_folds++] = (struct letter_fold){fold, code};
	return true;
}

/* Lists the characters that are not alone, sorted by their folding. A folding is its own. */
static bool list_folds(struct reader* r) {
	uint32_t last = LAST_CODE + 1;
	for (uint32_t code = 0; code <= LAST_CASED; code++) {
		const uint32_t fold = fold_case(code);
		if (fold != code && !add_fold(r, fold, code))
			return false;
	}
	for (int i = 0, n = r->n_folds; i < n; i++)
		if (!add_fold(r, r->fold[i].fold, r->fold[i].fold))
			return false;
	if (r->n_folds > 0)
		qsort(r->fold, (size_t)r->n_folds, sizeof *r->fold, compare_codes);
	int kept = 0;
	for (int i = 0; i < r->n_folds; i++) {
		const bool again = kept > 0 && r->fold[kept - 1].fold == r->fold[i].fold && r->fold[i].code == last;
		last = r->fold[i].code;
		if (!again)
			r->fold[kept++] = r->fold[i];
	}
	r->n_folds = kept;
	return true;
}

void letter_range(struct reader* r, uint32_t low, uint32_t high) {
	reader_range(r, low, high);
	if (!r->any_case || (r->n_folds == 0 && !list_folds(r)))
		return;
	for (int i = 0, past; i < r->n_folds; i = past) {
		bool some = false, all = true;
		for (past = i; past < r->n_folds && r->fold[past].fold == r->fold[i].fold; past++) {
			const bool within = r->fold[past].code >= low && r->fold[past].code <= high;
			some |= within;
			all &= within;
		}
		for (int j = i; j < past && some && !all && !r->failed; j++)
			reader_range(r, r->fold[j].code, r->fold[j].code);
	}
}
