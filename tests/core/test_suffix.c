/* The suffix automaton against plain search in the texts, its bounds under texts made to fill it, and that
 * nothing is allocated after it is opened. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above */
#include <cmocka.h>

#include "core/draft/suffix.h"

enum { MOST_TEXT = 400, MOST_FOLLOWERS = 64 };

/* Texts one after another, ended by -1 where broken. */
struct plain {
	int32_t token[4 * MOST_TEXT];
	int n, start; /* start: of the text at hand */
};

/* Whether what[0..length) stands at `at`, within one text. */
static bool stands_at(const struct plain* p, int at, const int32_t* what, int length) {
	return at + length <= p->n && memcmp(p->token + at, what, (size_t)length * sizeof *what) == 0;
}

static int occurrences(const struct plain* p, const int32_t* what, int length) {
	int n = 0;
	for (int at = 0; at + length <= p->n; at++)
		n += stands_at(p, at, what, length);
	return n;
}

/* The longest suffix of what[0..n) that occurs at least `times`. */
static int longest_suffix(const struct plain* p, const int32_t* what, int n, int times) {
	for (int length = n; length > 0; length--)
		if (occurrences(p, what + n - length, length) >= times)
			return length;
	return 0;
}

static int times_followed(const struct plain* p, const int32_t* what, int length, int32_t by) {
	int n = 0;
	for (int at = 0; at + length < p->n; at++)
		n += p->token[at + length] == by && stands_at(p, at, what, length);
	return n;
}

static void check_followers(const struct suffix_index* s, const struct plain* p, struct suffix_place place,
                            const int32_t* what, int alphabet) {
	struct suffix_follower f[MOST_FOLLOWERS];
	int32_t total;
	const int n = suffix_followers(s, place, f, MOST_FOLLOWERS, &total);
	int all = 0, different = 0;
	for (int t = 0; t < alphabet; t++) {
		const int times = times_followed(p, what, place.length, t);
		all += times;
		different += times > 0;
	}
	assert_int_equal(different, n);
	assert_int_equal(all, total);
	for (int i = 0; i < n; i++) {
		assert_int_equal(f[i].count, times_followed(p, what, place.length, f[i].token));
		assert_true(i == 0 || f[i].count < f[i - 1].count ||
		            (f[i].count == f[i - 1].count && f[i].last < f[i - 1].last));
	}
}

static int32_t draw(int alphabet, const struct plain* p) {
	/* now and then a piece of what was there, so that long suffixes repeat */
	if (p->n > 8 && rand() % 4)
		return p->token[p->n - 1 - rand() % 7] < 0 ? 0 : p->token[p->n - 1 - rand() % 7] % alphabet;
	return rand() % alphabet;
}

static void check_repeated(const struct suffix_index* s, const struct plain* p, int alphabet) {
	const struct suffix_place place = suffix_repeated(s);
	const int32_t* end = p->token + p->n;
	assert_int_equal(place.length, longest_suffix(p, p->token + p->start, p->n - p->start, 2));
	if (place.length > 0)
		check_followers(s, p, place, end - place.length, alphabet);
	for (struct suffix_place up = place; up.length > 0;) {
		const struct suffix_place shorter = suffix_shorter(s, up);
		assert_true(shorter.length < up.length);
		if (shorter.length > 0)
			assert_true(occurrences(p, end - shorter.length, shorter.length) >
			            occurrences(p, end - up.length, up.length));
		up = shorter;
	}
}

static void test_against_search(void** state) {
	(void)state;
	static struct plain p;
	for (int trial = 0; trial < 60; trial++) {
		const int alphabet = 1 + rand() % 6, length = trial % 2 ? 60 : 120;
		struct suffix_index* s = suffix_open(4 * length);
		p.n = p.start = 0;
		for (int i = 0; i < length; i++) {
			/* a text of equal tokens nests deeper than is counted */
			const int32_t token = alphabet == 1 && p.n - p.start >= SUFFIX_COUNTED ? -1 : draw(alphabet, &p);
			if (token < 0 || rand() % 50 == 0) {
				suffix_break(s);
				p.token[p.n++] = -1 - i; /* stands nowhere else */
				p.start = p.n;
				continue;
			}
			assert_true(suffix_append(s, token));
			p.token[p.n++] = token;
			check_repeated(s, &p, alphabet);
		}
		suffix_close(s);
	}
}

/* Walking along another text finds the longest suffix of it at every token. */
static void test_steps(void** state) {
	(void)state;
	static struct plain p;
	for (int trial = 0; trial < 60; trial++) {
		const int alphabet = 2 + rand() % 5;
		struct suffix_index* s = suffix_open(MOST_TEXT);
		int32_t other[80];
		p.n = p.start = 0;
		for (int i = 0; i < 150; i++) {
			p.token[p.n] = draw(alphabet, &p);
			assert_true(suffix_append(s, p.token[p.n++]));
		}
		struct suffix_place place = {0, 0};
		for (int i = 0; i < 80; i++) {
			other[i] = rand() % 3 ? p.token[(trial * 7 + i) % p.n] : rand() % (alphabet + 1);
			place = suffix_step(s, place, other[i]);
			assert_int_equal(place.length, longest_suffix(&p, other, i + 1, 1));
		}
		suffix_close(s);
	}
}

/* Equal tokens, no two equal, de Bruijn-like, Fibonacci words: to the last token of the capacity, then
 * refused. */
static void test_full(void** state) {
	(void)state;
	enum { N = 3000 };
	struct suffix_index* s = suffix_open(N);
	int32_t a = 1, b = 1;
	for (int kind = 0; kind < 6; kind++) {
		suffix_clear(s);
		assert_int_equal(suffix_size(s), 0);
		assert_int_equal(suffix_repeated(s).length, 0);
		for (int i = 0; i < N; i++) {
			const int32_t token = kind == 0   ? 7
			                      : kind == 1 ? i
			                      : kind == 2 ? rand() % 2
			                      : kind == 3 ? (i % (a + b) < a)
			                      : kind == 4 ? (i < N / 2 ? 1 : 2)
			                                  : (i & -i);
			if (kind == 3 && i % (a + b) == 0) {
				const int32_t next = a + b;
				a = b;
				b = next > 900 ? 1 : next;
			}
			if (kind == 5 && i % 37 == 0)
				suffix_break(s);
			assert_true(suffix_append(s, token));
		}
		assert_false(suffix_append(s, 1));
		assert_int_equal(suffix_size(s), N);
		if (kind == 0)
			assert_int_equal(suffix_repeated(s).length, N - 1);
	}
	suffix_close(s);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_search), cmocka_unit_test(test_steps),
	                                   cmocka_unit_test(test_full)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
