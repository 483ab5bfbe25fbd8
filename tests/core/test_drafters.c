/* The drafters that need no pass: retrieval against plain search in random and real text, what a pool
 * forgets, recycling, and a prediction that is edited. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above */
#include <cmocka.h>

#include "core/draft/retrieval.h"
#include "tests/core/support_rounds.h"

/* ---- retrieval -------------------------------------------------------------------------------- */

enum { MOST = 1500 };

/* Length of the longest suffix of what[0..n) that is followed by something in text[0..length), what then
 * followed most often (of equals, last), and how many different tokens did. */
static int search(const int32_t* text, int length, const int32_t* what, int n, int32_t* token,
                  int* different) {
	static int times[4096], last[4096];
	for (int suffix = n; suffix > 0; suffix--) {
		int found = 0;
		memset(times, 0, sizeof times);
		*different = 0;
		for (int at = 0; at + suffix < length; at++) {
			if (memcmp(text + at, what + n - suffix, (size_t)suffix * sizeof *what) != 0)
				continue;
			const int32_t next = text[at + suffix];
			*different += times[next]++ == 0;
			last[next] = at;
			if (!found || times[next] > times[*token] ||
			    (times[next] == times[*token] && last[next] > last[*token]))
				*token = next;
			found++;
		}
		if (found)
			return suffix;
	}
	return 0;
}

/* Along a path of a tree: the first candidate is what plain search finds. */
static void check_path(void* state, const int32_t* text, int n, int alphabet) {
	const struct drafter* retrieval = drafters[SOURCE_retrieval];
	int32_t whole[MOST + MAX_DRAFT];
	struct candidate list[TREE_RANKS];
	struct tree tree;
	memcpy(whole, text, (size_t)n * sizeof *text);
	tree_start(&tree, text[n - 1]);
	for (int row = 0; row < 6; row++) {
		int32_t token = 0;
		int different = 0;
		const int suffix = search(text, n, whole, n + row, &token, &different);
		const int found = retrieval->extend(state, &tree, row, list, TREE_RANKS);
		assert_true((suffix > 0) == (found > 0));
		if (found > 0)
			assert_int_equal(list[0].token, token);
		assert_true(found >= (different < TREE_RANKS ? different : TREE_RANKS));
		for (int i = 0; i < found; i++) {
			assert_in_range(list[i].bin, 0, retrieval->bins - 1);
			for (int j = 0; j < i; j++)
				assert_int_not_equal(list[i].token, list[j].token);
		}
		/* mostly along what was found, sometimes astray */
		whole[n + row] = found > 0 && rand() % 5 ? list[rand() % found].token : rand() % alphabet;
		assert_int_equal(tree_add(&tree, row, whole[n + row], SOURCE_retrieval, 0, 0.5f), row + 1);
	}
}

static void check_text(const int32_t* text, int n, int alphabet) {
	const struct drafter* retrieval = drafters[SOURCE_retrieval];
	void* state = retrieval->open(&(struct drafter_setup){.context = n, .vocab = alphabet});
	assert_non_null(state);
	for (int i = 0; i < n; i++) {
		retrieval->append(state, text + i, 1);
		if (i % 37 == 5)
			check_path(state, text, i + 1, alphabet);
	}
	retrieval->append(state, text, n); /* beyond the context: left out */
	check_path(state, text, n, alphabet);
	retrieval->begin(state, &(struct drafter_text){.prompt = text, .n_prompt = n / 2});
	check_path(state, text, n / 2, alphabet);
	retrieval->append(state, text + n / 2, n - n / 2);
	check_path(state, text, n, alphabet);
	retrieval->close(state);
}

static void test_random_text(void** state) {
	(void)state;
	static int32_t text[MOST];
	for (int trial = 0; trial < 12; trial++) {
		const int alphabet = 4 + trial * trial * 5;
		for (int i = 0; i < 600; i++)
			text[i] = i > 20 && rand() % 3 ? text[i - 1 - rand() % 20] : rand() % alphabet;
		check_text(text, 600, alphabet);
	}
}

static void test_real_text(void** state) {
	(void)state;
	static int32_t text[MOST];
	const char* source = getenv("SWIFTLET_SOURCE");
	char path[4096];
	snprintf(path, sizeof path, "%s/README.md", source ? source : ".");
	FILE* file = fopen(path, "rb");
	assert_non_null(file);
	int n = 0;
	for (int c; n < MOST && (c = getc(file)) != EOF;)
		text[n++] = c;
	fclose(file);
	assert_int_equal(n, MOST);
	check_text(text, n, 256);
}

/* ---- the pool --------------------------------------------------------------------------------- */

static int first_candidate(void* state, int32_t last) {
	struct candidate list[TREE_RANKS];
	struct tree tree;
	tree_start(&tree, last);
	return drafters[SOURCE_retrieval]->extend(state, &tree, 0, list, TREE_RANKS) > 0 ? list[0].token : -1;
}

static struct retrieval_pool* empty_pool(void* drafter, struct retrieval_pool* old) {
	struct retrieval_pool* pool = retrieval_pool_open(40);
	retrieval_use_pool(drafter, pool);
	retrieval_pool_close(old);
	return pool;
}

static void test_pool(void** state) {
	(void)state;
	const struct drafter* retrieval = drafters[SOURCE_retrieval];
	const int32_t earlier[] = {1, 2, 3, 4, 5, 6, 7, 8}, now[] = {90, 3, 4}, far[] = {21, 22, 23};
	struct retrieval_pool* pool = retrieval_pool_open(40);
	struct retrieval_pool* other = retrieval_pool_open(40);
	void* a = retrieval->open(&(struct drafter_setup){.context = 32, .vocab = 100});
	void* b = retrieval->open(&(struct drafter_setup){.context = 32, .vocab = 100});
	retrieval_use_pool(a, pool);
	retrieval_use_pool(b, other);
	retrieval_pool_add(pool, earlier, 8);
	retrieval->append(a, now, 3);
	retrieval->append(b, now, 3);
	assert_int_equal(first_candidate(a, 4), 5);
	assert_int_equal(first_candidate(b, 4), -1); /* never another's */
	retrieval->append(a, earlier + 4, 1);
	assert_int_equal(first_candidate(a, 5), 6);
	/* the pool grows while the sequence waits: its place is found again */
	retrieval_pool_add(pool, (const int32_t[]){50, 4, 5, 9, 50, 4, 5, 9}, 8);
	assert_int_equal(first_candidate(a, 5), 6); /* 3, 4, 5 is longer than 4, 5 */
	/* no suffix spans two texts */
	pool = empty_pool(a, pool);
	retrieval_pool_add(pool, far, 3);
	retrieval_pool_add(pool, far + 2, 1);
	retrieval->begin(a, &(struct drafter_text){.prompt = far + 2, .n_prompt = 1});
	assert_int_equal(first_candidate(a, 23), -1);
	/* whole generations go: the first text is forgotten, the last is not */
	pool = empty_pool(a, pool);
	retrieval->begin(a, &(struct drafter_text){.prompt = now, .n_prompt = 3});
	retrieval_pool_add(pool, earlier, 8);
	for (int32_t i = 0; i < 5; i++) {
		int32_t text[12];
		for (int32_t k = 0; k < 12; k++)
			text[k] = 30 + i * 12 + k;
		assert_int_equal(first_candidate(a, 4), i < 3 ? 5 : -1);
		retrieval_pool_add(pool, text, 12);
		retrieval->append(b, text, 1);
		retrieval_use_pool(b, pool);
		assert_int_equal(first_candidate(b, text[0]), text[1]);
		retrieval_use_pool(b, other);
		assert_int_equal(first_candidate(b, text[0]), -1);
	}
	/* of a text longer than a generation, the end */
	int32_t many[200];
	for (int32_t i = 0; i < 200; i++)
		many[i] = 1000 + i;
	retrieval_pool_add(pool, many, 200);
	retrieval->append(a, many + 190, 1);
	assert_int_equal(first_candidate(a, 1190), 1191);
	retrieval->append(a, many + 150, 1);
	assert_int_equal(first_candidate(a, 1150), -1);
	retrieval->close(a);
	retrieval->close(b);
	retrieval_pool_close(pool);
	retrieval_pool_close(other);
}

/* ---- recycling -------------------------------------------------------------------------------- */

static void test_recycling(void** state) {
	(void)state;
	const struct drafter* recycle = drafters[SOURCE_recycle];
	void* drafter = recycle->open(&(struct drafter_setup){.context = 8, .vocab = 10});
	static struct result out[MAX_ROWS];
	struct candidate list[TREE_RANKS];
	const struct verdict verdict = {0};
	struct tree tree;
	tree_start(&tree, 3);
	tree_add(&tree, 0, 4, SOURCE_recycle, 0, 0.5f);
	tree_add(&tree, 0, 11, SOURCE_recycle, 0, 0.5f); /* beyond the vocabulary: nothing is kept of it */
	assert_int_equal(recycle->extend(drafter, &tree, 0, list, TREE_RANKS), 0);
	out[0] = (struct result){.top = 2, .top_token = {7, 8}, .top_probability = {0.7f, 0.2f}};
	out[1] = (struct result){.top = 1, .top_token = {5}, .top_probability = {1}};
	out[2] = (struct result){.top = 1, .top_token = {5}, .top_probability = {1}};
	recycle->see(drafter, &tree, &verdict, out);
	assert_int_equal(recycle->extend(drafter, &tree, 0, list, TREE_RANKS), 2);
	assert_true(list[0].token == 7 && list[1].token == 8);
	assert_true(list[0].bin > list[1].bin);
	assert_int_equal(recycle->extend(drafter, &tree, 0, list, 1), 1);
	assert_int_equal(recycle->extend(drafter, &tree, 1, list, TREE_RANKS), 1); /* a rejected row's too */
	assert_true(list[0].token == 5 && list[0].bin == recycle->bins - 1);
	assert_int_equal(recycle->extend(drafter, &tree, 2, list, TREE_RANKS), 0);
	out[0] = (struct result){.top = 1, .top_token = {9}, .top_probability = {0.5f}};
	out[1].top = 0; /* not asked for */
	recycle->see(drafter, &tree, &verdict, out);
	assert_int_equal(recycle->extend(drafter, &tree, 0, list, TREE_RANKS), 1);
	assert_int_equal(list[0].token, 9); /* the latest */
	assert_int_equal(recycle->extend(drafter, &tree, 1, list, TREE_RANKS), 1);
	recycle->close(drafter);
}

/* ---- predictions ------------------------------------------------------------------------------ */

enum { FILE_TOKENS = 1600, EDITS = 20 };

/* The expected text with twenty places exchanged, inserted or left out. The most common tokens are common. */
static int edit(const int32_t* expected, int32_t* text) {
	int n = 0;
	for (int i = 0; i < FILE_TOKENS; i++) {
		const bool here = i % (FILE_TOKENS / EDITS) == 40;
		const int kind = i / (FILE_TOKENS / EDITS) % 4;
		if (here && kind == 1)
			for (int k = 0; k < 3; k++)
				text[n++] = rand() % 1000;
		if (here && kind == 2)
			i += 5;
		text[n++] = here && (kind == 0 || kind == 3) ? rand() % 1000 : expected[i];
	}
	return n;
}

static void test_edits(void** state) {
	(void)state;
	static struct rounds r;
	static int32_t expected[FILE_TOKENS], text[2 * FILE_TOKENS];
	for (int i = 0; i < FILE_TOKENS; i++)
		expected[i] = rand() % 2 ? rand() % 8 : rand() % 1000;
	text[0] = 999;
	const int n = 1 + edit(expected, text + 1);
	rounds_open(&r, "prediction", 2 * FILE_TOKENS, 1000, 0.05, 1);
	drafter_set_begin(&r.set,
	                  &(struct drafter_text){
	                      .prompt = text, .n_prompt = 1, .expected = expected, .n_expected = FILE_TOKENS});
	rounds_run(&r, text, 1, n); /* begins a sequence, which drops a prediction */
	assert_int_equal(r.passes, r.tokens);
	rounds_close(&r);

	rounds_open(&r, "prediction", 2 * FILE_TOKENS, 1000, 0.05, 1);
	r.expected = expected;
	r.n_expected = FILE_TOKENS;
	rounds_run(&r, text, 1, n);
	assert_true((double)r.tokens / (double)r.passes > 8);
	assert_true((double)r.tokens / r.cost > 4);
	rounds_close(&r);
}

/* A prediction that has nothing to do with the text costs next to nothing; one longer than the context is
 * cut. */
static void test_wrong_prediction(void** state) {
	(void)state;
	static struct rounds r;
	static int32_t expected[FILE_TOKENS], text[FILE_TOKENS];
	for (int i = 0; i < FILE_TOKENS; i++) {
		expected[i] = rand() % 500;
		text[i] = 500 + rand() % 500;
	}
	rounds_open(&r, "prediction", FILE_TOKENS, 1000, 0.2, 1);
	r.expected = expected;
	r.n_expected = FILE_TOKENS;
	r.honour_budget = true;
	rounds_run(&r, text, 1, FILE_TOKENS);
	assert_true((double)r.tokens / r.cost > 0.98);
	const struct drafter* prediction = drafters[SOURCE_prediction];
	void* drafter = prediction->open(&(struct drafter_setup){.context = 10, .vocab = 1000});
	struct candidate list[TREE_RANKS];
	struct tree tree;
	prediction->begin(drafter, &(struct drafter_text){.expected = expected, .n_expected = 50});
	prediction->append(drafter, expected, 9);
	tree_start(&tree, expected[8]);
	assert_int_equal(prediction->extend(drafter, &tree, 0, list, TREE_RANKS), 1);
	assert_int_equal(list[0].token, expected[9]);
	prediction->append(drafter, expected + 9, 1);
	assert_int_equal(prediction->extend(drafter, &tree, 0, list, TREE_RANKS), 0); /* ten were taken */
	prediction->append(drafter, expected + 10, 40);                               /* beyond its end */
	tree_start(&tree, expected[49]);
	prediction->extend(drafter, &tree, 0, list, TREE_RANKS);
	prediction->close(drafter);
	rounds_close(&r);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_random_text), cmocka_unit_test(test_real_text),
	    cmocka_unit_test(test_pool),        cmocka_unit_test(test_recycling),
	    cmocka_unit_test(test_edits),       cmocka_unit_test(test_wrong_prediction)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
