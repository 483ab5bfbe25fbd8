/* Which tokens drafts choose among. */
#include "core/draft/shortlist.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { VOCAB = 1003 };

static bool has(const uint64_t* bits, int token) { return bits[token >> 6] >> (token & 63) & 1u; }

/* Those of the first `size` tokens that are listed, and of the others. */
static void count(const uint64_t* bits, int size, int* first, int* others) {
	*first = *others = 0;
	for (int t = 0; t < VOCAB; t++)
		*(t < size ? first : others) += has(bits, t);
}

static void holds_the_text_and_the_first_tokens(void** unused) {
	(void)unused;
	struct shortlist list;
	assert_true(shortlist_open(&list, VOCAB));
	const int32_t text[] = {5, 700, 1002, 640, 700};
	shortlist_begin(&list);
	shortlist_take(&list, text, 5, false);
	int first, others;
	const uint64_t* bits = shortlist_bits(&list, 0.5);
	assert_non_null(bits);
	/* as answers are at first: an eighth is worth it where the head is half of a step */
	count(bits, VOCAB / 8, &first, &others);
	assert_int_equal(first, VOCAB / 8);
	assert_int_equal(others, 3);
	assert_true(has(bits, 640) && has(bits, 700) && has(bits, 1002));
	/* tokens join a list that is in use */
	const int32_t more = 999;
	shortlist_take(&list, &more, 1, false);
	assert_true(has(shortlist_bits(&list, 0.5), 999));
	/* and leave it with their text */
	shortlist_begin(&list);
	bits = shortlist_bits(&list, 0.5);
	count(bits, VOCAB / 8, &first, &others);
	assert_int_equal(first, VOCAB / 8);
	assert_int_equal(others, 0);
	assert_null(shortlist_bits(&list, 0)); /* nothing to save */
	shortlist_close(&list);
}

static void misses_make_it_longer(void** unused) {
	(void)unused;
	struct shortlist list;
	assert_true(shortlist_open(&list, VOCAB));
	shortlist_begin(&list);
	/* a text of new tokens from the last half: whatever is left out lacks them */
	for (int32_t t = VOCAB / 2 + 1; t < VOCAB; t++)
		shortlist_take(&list, &t, 1, true);
	assert_null(shortlist_bits(&list, 0.9));
	/* the same tokens again are the text's own */
	for (int turn = 0; turn < 8; turn++)
		for (int32_t t = VOCAB / 2 + 1; t < VOCAB; t++)
			shortlist_take(&list, &t, 1, true);
	int first, others;
	const uint64_t* bits = shortlist_bits(&list, 0.9);
	assert_non_null(bits);
	count(bits, VOCAB / 16, &first, &others);
	assert_int_equal(first, VOCAB / 16);
	assert_int_equal(others, VOCAB - VOCAB / 2 - 1);
	shortlist_close(&list);
}

/* New tokens from the second eighth speak against an eighth alone. */
static void each_size_has_its_own_misses(void** unused) {
	(void)unused;
	struct shortlist list;
	assert_true(shortlist_open(&list, VOCAB));
	for (int turn = 0; turn < 20; turn++) {
		shortlist_begin(&list);
		for (int32_t t = VOCAB / 8; t < VOCAB / 4; t++)
			shortlist_take(&list, &t, 1, true);
	}
	int first, others;
	shortlist_begin(&list);
	const uint64_t* bits = shortlist_bits(&list, 0.3);
	assert_non_null(bits);
	count(bits, VOCAB / 4, &first, &others);
	assert_int_equal(first, VOCAB / 4);
	assert_int_equal(others, 0);
	shortlist_close(&list);
}

/* A row's likely tokens are listed until as many rows have followed, and what is listed is no miss. */
static void lists_what_was_likely(void** unused) {
	(void)unused;
	struct shortlist list;
	assert_true(shortlist_open(&list, VOCAB));
	shortlist_begin(&list);
	const int32_t likely[] = {800, 900, VOCAB, 901, 902, 903, 904, 905, 1000};
	shortlist_see(&list, likely, 9);
	const uint64_t* bits = shortlist_bits(&list, 0.5);
	assert_non_null(bits);
	assert_true(has(bits, 800) && has(bits, 905));
	assert_false(has(bits, 1000)); /* the ninth */
	const int32_t common[] = {1, 2};
	for (int row = 1; row < SHORTLIST_ROWS; row++)
		shortlist_see(&list, common, 2);
	assert_true(has(shortlist_bits(&list, 0.5), 800));
	shortlist_see(&list, common, 2);
	assert_false(has(shortlist_bits(&list, 0.5), 800));
	shortlist_see(&list, likely, 8);
	shortlist_begin(&list);
	assert_false(has(shortlist_bits(&list, 0.5), 800)); /* another text */
	shortlist_close(&list);
}

/* The tokens of the last half that come were likely, in an earlier round or in their own. */
static int size_after(bool earlier) {
	struct shortlist list;
	assert_true(shortlist_open(&list, VOCAB));
	for (int turn = 0; turn < 10; turn++) {
		shortlist_begin(&list);
		for (int32_t t = VOCAB / 2 + 1; t < VOCAB - 1; t++) {
			const int32_t likely = earlier ? t + 1 : t;
			shortlist_see(&list, &likely, 1);
			shortlist_take(&list, &t, 1, true);
		}
	}
	int first = VOCAB, others;
	const uint64_t* bits = shortlist_bits(&list, 0.9);
	if (bits)
		count(bits, VOCAB / 2, &first, &others);
	shortlist_close(&list);
	return first;
}

static void likely_tokens_count_from_the_next_round_on(void** unused) {
	(void)unused;
	assert_int_equal(size_after(true), VOCAB / 16);
	assert_int_equal(size_after(false), VOCAB);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(holds_the_text_and_the_first_tokens), cmocka_unit_test(misses_make_it_longer),
	    cmocka_unit_test(each_size_has_its_own_misses), cmocka_unit_test(lists_what_was_likely),
	    cmocka_unit_test(likely_tokens_count_from_the_next_round_on)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
