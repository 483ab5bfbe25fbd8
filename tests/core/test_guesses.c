/* Drafters that a method drafts with alone, against plain searches and targets that are known; and the probe
 * against the cases that it has to separate. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above */
#include <cmocka.h>

#include "core/methods/method_drafter.h"
#include "core/methods/probe.h"

enum { TEXT = 400, VOCAB = 50 };

/* The place after the first match of the last 3, 2 or 1 tokens, the longest first; or n. */
static int first_place(const int32_t* text, int n) {
	for (int size = 3; size > 0; size--)
		for (int end = size; size < n && end < n; end++) {
			int same = 0;
			while (same < size && text[end - 1 - same] == text[n - 1 - same])
				same++;
			if (same == size)
				return end;
		}
	return n;
}

static void prompt_lookup(void** state) {
	(void)state;
	const struct method_drafter_setup setup = {.context = TEXT, .vocab = VOCAB, .most = 10};
	const struct method_drafter* d = &ngram_drafter;
	void* ngram = d->open(&setup);
	int32_t text[TEXT];
	for (int alphabet = 2; alphabet <= VOCAB; alphabet += 16) {
		for (int i = 0; i < TEXT; i++)
			text[i] = rand() % alphabet;
		d->begin(ngram, &(struct drafter_text){.prompt = text});
		for (int n = 0, more; n < TEXT; n += more) {
			struct tree tree;
			more = 1 + rand() % (TEXT - n < 9 ? TEXT - n : 9);
			d->append(ngram, text + n, more);
			const int length = n + more, depth = rand() % 14;
			tree_start(&tree, text[length - 1]);
			d->grow(ngram, &tree, depth);
			const int from = first_place(text, length), most = depth < setup.most ? depth : setup.most;
			const int expected = length - from < most ? length - from : most;
			assert_int_equal(tree.n - 1, expected);
			for (int i = 1; i < tree.n; i++) {
				assert_int_equal(tree.token[i], text[from + i - 1]);
				assert_int_equal(tree.parent[i], i - 1);
			}
		}
	}
	d->close(ngram);
}

/* Rounds against a target whose next token depends on the last one alone; how many drafts it accepted. */
static int rounds(const struct method_drafter* d, int most, int period, int n_rounds) {
	const struct method_drafter_setup setup = {.context = TEXT, .vocab = VOCAB, .most = most};
	static struct result out[MAX_ROWS];
	void* guesser = d->open(&setup);
	int32_t last = 7;
	int accepted = 0;
	d->begin(guesser, &(struct drafter_text){.prompt = (const int32_t[]){3, 5, 7}, .n_prompt = 3});
	for (int r = 0; r < n_rounds; r++) {
		struct tree tree;
		struct verdict verdict;
		tree_start(&tree, last);
		d->grow(guesser, &tree, 20);
		for (int i = 0; i < tree.n; i++) {
			out[i].token = (tree.token[i] + 1) % period;
			assert_true(i == 0 || tree.parent[i] < i);
		}
		tree_verify(&tree, out, &verdict);
		d->see(guesser, &tree, &verdict, out);
		accepted += verdict.accepted;
		last = verdict.bonus;
	}
	d->close(guesser);
	return accepted;
}

/* Jacobi's window settles where the text does; lookahead's pool finds any text in which a token decides what
 * follows it. */
static void windows_settle(void** state) {
	(void)state;
	assert_true(rounds(&jacobi_drafter, 8, 1, 40) >= 38 * 8);
	assert_true(rounds(&lookahead_drafter, 2, 20, 80) > 80);
}

static void nothing_deeper(void** state) {
	(void)state;
	const struct method_drafter* const guessing[] = {&ngram_drafter, &jacobi_drafter, &lookahead_drafter};
	for (int i = 0; i < 3; i++)
		for (int depth = 0; depth < 8; depth++) {
			const struct method_drafter* d = guessing[i];
			const struct method_drafter_setup setup = {.context = TEXT, .vocab = VOCAB, .most = 25};
			void* guesser = d->open(&setup);
			struct tree tree;
			d->begin(guesser,
			         &(struct drafter_text){.prompt = (const int32_t[]){1, 2, 1, 2, 1}, .n_prompt = 5});
			tree_start(&tree, 1);
			d->grow(guesser, &tree, depth);
			for (int row = 0; row < tree.n; row++)
				assert_true(tree.depth[row] <= depth);
			d->close(guesser);
		}
}

static void a_probe_learns(void** state) {
	(void)state;
	struct probe p = {.dims = 0};
	float x[2];
	assert_true(probe_start(&p, 2, NULL, 0));
	for (int i = 0; i < 3 * PROBE_SAMPLES; i++) {
		x[0] = (float)rand() / (float)RAND_MAX - 0.5f;
		x[1] = (float)rand() / (float)RAND_MAX - 0.5f;
		probe_see(&p, x, x[0] > x[1]);
		if (probe_is_due(&p))
			probe_fit(&p);
	}
	assert_true(p.known);
	assert_true(probe_chance(&p, (const float[]){0.3f, -0.3f}) > 0.8f);
	assert_true(probe_chance(&p, (const float[]){-0.3f, 0.3f}) < 0.2f);
	probe_end(&p);
	p = (struct probe){.dims = 0};
	assert_true(probe_start(&p, 2, x, 0.25f)); /* what was read stays */
	for (int i = 0; i < 4 * PROBE_EVERY; i++)
		probe_see(&p, x, i % 2);
	assert_false(probe_is_due(&p));
	probe_end(&p);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(prompt_lookup), cmocka_unit_test(windows_settle),
	                                   cmocka_unit_test(nothing_deeper), cmocka_unit_test(a_probe_learns)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
