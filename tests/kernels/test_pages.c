/* Pages that caches share: found by content, the same bits, copied where a sequence goes on in one's middle,
 * kept while there is room, given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cpu/cpu.h"
#include "tests/kernels/support_random_model.h"

enum { VOCAB = 50, CONTEXT = 200 };

struct fixture {
	struct random_model* model;
	struct backend* b;
	int32_t text[CONTEXT];
};

static void open_backend(struct fixture* f, enum rope_scaling scaling, int pages) {
	static const enum dtype types[] = {DTYPE_F32};
	struct model_shape shape = random_shape(3, 64, 2, 1, 32, 40, VOCAB);
	struct error error;
	shape.rope.scaling = scaling;
	shape.rope.factor = scaling == ROPE_NONE ? 1 : 2;
	shape.rope.original_context = 4096;
	f->model = random_model_make(&shape, types, 1, 0, 1);
	/* 3 blocks, keys and values of one head of 32 elements in f16, 32 tokens */
	const struct backend_options options = {
	    .threads = 2, .context = CONTEXT, .cache_bytes = (size_t)pages * 3 * 2 * 32 * 2 * PAGE_SLOTS};
	f->b = cpu_open(&f->model->weights, &options, &error);
	assert_non_null(f->b);
	for (int i = 0; i < CONTEXT; i++)
		f->text[i] = (i * 11 + i / 7) % VOCAB;
}

static void close_backend(struct fixture* f) {
	f->b->close(f->b);
	random_model_free(f->model);
}

static struct cache* open_cache(struct fixture* f, enum dtype type) {
	struct error error;
	struct cache* c = f->b->cache_open(f->b, CONTEXT, type, &error);
	if (!c)
		fail_msg("%s", error.message);
	return c;
}

/* Runs tokens after the committed ones and commits them; the last row's logits. False when there is no
 * memory. */
static bool run(struct fixture* f, struct cache* c, const int32_t* token, int n, float logits[VOCAB]) {
	static uint8_t want[MAX_ROWS];
	static struct result out[MAX_ROWS];
	int32_t path[MAX_ROWS];
	struct error error;
	for (int i = 0; i < n; i++) {
		want[i] = i == n - 1 ? WANT_LOGITS : WANT_NOTHING;
		path[i] = i;
	}
	out[n - 1].logits = logits;
	const struct segment s = {.cache = c, .base = c->committed, .n = n};
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = n,
	                          .n_segments = 1,
	                          .segment = &s,
	                          .token = token,
	                          .last = 6,
	                          .head = true,
	                          .tap = -1,
	                          .want = want,
	                          .out = out};
	if (!f->b->run(f->b, &pass, &error))
		return false;
	f->b->commit(c, path, n);
	return true;
}

static void a_beginning_is_found_and_has_the_same_bits(void** state) {
	(void)state;
	static const enum dtype types[] = {DTYPE_F16, DTYPE_F32, DTYPE_Q8_0};
	for (int t = 0; t < 3; t++) {
		struct fixture f;
		float alone[VOCAB], shared[VOCAB], again[VOCAB];
		open_backend(&f, ROPE_NONE, 0);
		struct cache *a = open_cache(&f, types[t]), *b = open_cache(&f, types[t]);
		assert_int_equal(f.b->adopt(b, f.text, 100), 0);
		assert_true(run(&f, a, f.text, 100, alone));
		assert_int_equal(f.b->adopt(b, f.text, 99), 96);
		assert_true(run(&f, b, f.text + 96, 4, shared));
		assert_memory_equal(alone, shared, sizeof alone);
		/* b goes on otherwise in the middle of a page that is a's too: a does not see it */
		assert_true(run(&f, a, f.text + 100, 20, alone));
		f.b->truncate(b, 70);
		assert_true(run(&f, b, f.text, 20, shared));
		assert_int_equal(f.b->adopt(a, f.text, 110), 110);
		assert_true(run(&f, a, f.text + 110, 10, again));
		assert_memory_equal(alone, again, sizeof alone);
		/* what is committed differs from some token on */
		f.text[80]++;
		assert_int_equal(f.b->adopt(a, f.text, 110), 80);
		f.b->cache_close(a);
		f.b->cache_close(b);
		close_backend(&f);
	}
}

static void equal_texts_hold_one_memory(void** state) {
	(void)state;
	struct fixture f;
	float logits[VOCAB];
	open_backend(&f, ROPE_NONE, 16);
	struct cache *a = open_cache(&f, DTYPE_F16), *b = open_cache(&f, DTYPE_F16),
	             *c = open_cache(&f, DTYPE_F16);
	assert_int_equal(f.b->room(a), 16 * PAGE_SLOTS);
	assert_true(run(&f, a, f.text, 160, logits));
	assert_int_equal(f.b->room(a), 11 * PAGE_SLOTS);
	assert_true(run(&f, b, f.text, 160, logits)); /* computed twice, held once */
	assert_int_equal(f.b->room(a), 11 * PAGE_SLOTS);
	f.b->truncate(a, 0);
	f.b->truncate(b, 0);
	assert_int_equal(f.b->room(a), 16 * PAGE_SLOTS);
	assert_int_equal(f.b->adopt(c, f.text, 199), 160); /* nobody's, and found */
	/* memory that is needed elsewhere is taken: from nobody's pages, the ends of texts first */
	f.b->truncate(c, 0);
	f.text[0]++;
	assert_true(run(&f, a, f.text, 190, logits));
	f.text[1]++;
	assert_true(run(&f, b, f.text, 190, logits));
	assert_int_equal(f.b->room(a), 4 * PAGE_SLOTS);
	f.text[0]--;
	f.text[1]--;
	assert_int_equal(f.b->adopt(c, f.text, 199), 4 * PAGE_SLOTS);
	assert_int_equal(f.b->room(a), 0);
	/* and then there is none */
	assert_false(f.b->reserve(c, 1));
	assert_false(run(&f, c, f.text, 1, logits));
	assert_int_equal(c->committed, 4 * PAGE_SLOTS);
	f.b->truncate(b, 0);
	assert_true(f.b->reserve(c, 40));
	assert_true(run(&f, c, f.text + 128, 40, logits));
	f.b->cache_close(a);
	f.b->cache_close(b);
	f.b->cache_close(c);
	close_backend(&f);
}

static void what_is_not_the_models_text_is_not_found(void** state) {
	(void)state;
	struct fixture f;
	float logits[VOCAB];
	open_backend(&f, ROPE_DYNAMIC, 0); /* keys that depend on the prompt's length */
	struct cache *a = open_cache(&f, DTYPE_F16), *b = open_cache(&f, DTYPE_F16);
	assert_true(run(&f, a, f.text, 100, logits));
	assert_int_equal(f.b->adopt(b, f.text, 100), 0);
	assert_int_equal(f.b->adopt(a, f.text, 100), 100);
	f.b->cache_close(a);
	f.b->cache_close(b);
	close_backend(&f);
}

static void too_little_memory_is_refused(void** state) {
	(void)state;
	struct fixture f;
	struct error error;
	open_backend(&f, ROPE_NONE, 15); /* 200 tokens, 256 rows, and a copy: 16 */
	assert_null(f.b->cache_open(f.b, CONTEXT, DTYPE_F16, &error));
	assert_non_null(strstr(error.message, "cache of 200 tokens"));
	close_backend(&f);
	open_backend(&f, ROPE_NONE, 0);
	struct cache* c = open_cache(&f, DTYPE_F16);
	f.b->cache_close(c);
	assert_null(f.b->cache_open(f.b, CONTEXT, DTYPE_Q4_0, &error));
	assert_non_null(strstr(error.message, "q4_0"));
	close_backend(&f);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_beginning_is_found_and_has_the_same_bits),
	    cmocka_unit_test(equal_texts_hold_one_memory),
	    cmocka_unit_test(what_is_not_the_models_text_is_not_found),
	    cmocka_unit_test(too_little_memory_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
