/* Pages that the GPU's caches share, on one device and on two: support_pages.h; what the draft loop makes of
 * them, and what a prefill that has bits of its own leaves there. Linked a second time with the emulated
 * device, so that it also runs where there is no GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/pages.h"
#include "tests/kernels/support_pages.h"
#include "tests/kernels/support_random_model.h"
#include "tests/must.h"

enum { VOCAB = 60, CONTEXT = 600, BLOCKS = 2 };

struct fixture {
	struct random_model* model;
	struct backend* b;
	int32_t text[CONTEXT];
};

static void open_backend(struct fixture* f, int devices) {
	static const enum dtype types[] = {DTYPE_F16};
	const struct model_shape shape = random_shape(BLOCKS, 32, 2, 1, 16, 32, VOCAB);
	const struct backend_options options = {.context = CONTEXT, .devices = devices};
	f->model = random_model_make(&shape, types, 1, 0, 4);
	f->b = must_open(cuda_open, &f->model->weights, &options);
	for (int i = 0; i < CONTEXT; i++)
		f->text[i] = (i * 13 + i / 5) % VOCAB;
}

static void close_backend(struct fixture* f) {
	f->b->close(f->b);
	random_model_free(f->model);
}

static struct cache* open_cache(struct fixture* f) { return must_open_cache(f->b, CONTEXT, DTYPE_F16); }

/* Rows after the committed tokens, committed, with the last one's logits, which may be NULL. */
static void run(struct fixture* f, struct cache* c, enum pass_kind kind, const int32_t* token, int n,
                float* logits) {
	static uint8_t want[MAX_ROWS];
	static struct result out[MAX_ROWS];
	int32_t path[MAX_ROWS];
	struct error error;
	memset(want, WANT_NOTHING, sizeof want);
	want[n - 1] = logits ? WANT_LOGITS : WANT_NOTHING;
	out[n - 1].logits = logits;
	for (int i = 0; i < n; i++)
		path[i] = i;
	const struct segment s = {.cache = c, .base = c->committed, .n = n};
	const struct pass pass = {.kind = kind,
	                          .n = n,
	                          .n_segments = 1,
	                          .segment = &s,
	                          .token = token,
	                          .last = 2 * BLOCKS,
	                          .head = true,
	                          .tap = -1,
	                          .want = want,
	                          .out = out};
	if (!f->b->run(f->b, &pass, &error))
		fail_msg("%s", error.message);
	if (kind == PASS_EXACT)
		f->b->commit(c, path, n);
}

/* ---- the draft loop ------------------------------------------------------------------------ */

enum { STEPS = 40 };

static void draft(struct fixture* f, struct cache* c, int32_t token, struct result out[STEPS]) {
	struct draft_policy policy = {.max_steps = STEPS, .top = 1};
	struct error error;
	for (int i = 0; i < DRAFT_BINS; i++)
		policy.accept[i] = 1;
	const struct segment chain = {.cache = c, .base = c->committed, .n = 1};
	memset(out, 0, STEPS * sizeof *out);
	assert_int_equal(f->b->draft(f->b, &chain, token, NULL, NULL, false, NULL, &policy, out, &error), STEPS);
	assert_int_equal(c->pending, STEPS);
	f->b->discard(c);
}

static void drafts_go_over_borders(void** state) {
	(void)state;
	struct fixture f;
	static struct result alone[STEPS], shared[STEPS];
	float logits[VOCAB], again[VOCAB];
	open_backend(&f, 1);
	struct cache* a = open_cache(&f);
	run(&f, a, PASS_EXACT, f.text, 60, NULL);
	draft(&f, a, f.text[60], alone);
	/* by steps of one row */
	int32_t token = f.text[60];
	for (int i = 0; i < STEPS; i++) {
		run(&f, a, PASS_EXACT, &token, 1, logits);
		int best = 0;
		for (int v = 1; v < VOCAB; v++)
			best = logits[v] > logits[best] ? v : best;
		assert_int_equal(alone[i].token, best);
		token = best;
	}
	f.b->cache_close(a);
	close_backend(&f);
	/* in the middle of a page that is another's too, which keeps what it had */
	open_backend(&f, 1);
	a = open_cache(&f);
	struct cache* b = open_cache(&f);
	run(&f, a, PASS_EXACT, f.text, 96, logits);
	assert_int_equal(f.b->adopt(b, f.text, 64), 64);
	f.b->truncate(b, 60);
	draft(&f, b, f.text[60], shared);
	assert_memory_equal(alone, shared, sizeof alone);
	f.b->truncate(a, 95);
	run(&f, a, PASS_EXACT, f.text + 95, 1, again);
	assert_memory_equal(logits, again, sizeof again);
	f.b->cache_close(a);
	f.b->cache_close(b);
	close_backend(&f);
}

/* ---- a prefill with bits of its own -------------------------------------------------------- */

enum { PROMPT = 560, TAIL = PROMPT - 2 * PREFILL_CHUNK };

static void prefill(struct fixture* f, struct cache* c, const int32_t* text, float logits[VOCAB]) {
	while (c->committed < 2 * PREFILL_CHUNK)
		run(f, c, PASS_PREFILL, text + c->committed, PREFILL_CHUNK, NULL);
	run(f, c, PASS_EXACT, text + c->committed, TAIL, logits);
}

static void whole_chunks_alone_are_found(void** state) {
	(void)state;
	struct fixture f;
	float alone[VOCAB], found[VOCAB];
	open_backend(&f, 0);
	if (f.b->prefill_is_exact) {
		close_backend(&f);
		skip(); /* cuBLAS is not installed */
	}
	struct cache *a = open_cache(&f), *b = open_cache(&f), *c = open_cache(&f);
	prefill(&f, a, f.text, alone);
	assert_int_equal(f.b->adopt(b, f.text, PROMPT - 1), 2 * PREFILL_CHUNK);
	prefill(&f, b, f.text, found);
	assert_memory_equal(alone, found, sizeof alone);
	/* what is left of a chunk is computed with all of it */
	assert_int_equal(f.b->adopt(c, f.text, 2 * PREFILL_CHUNK - 1), PREFILL_CHUNK);
	prefill(&f, c, f.text, found);
	assert_memory_equal(alone, found, sizeof alone);
	/* exact rows are kept by nobody: a longer prompt has a chunk there */
	f.text[PROMPT - 5]++;
	assert_int_equal(f.b->adopt(a, f.text, PROMPT), 2 * PREFILL_CHUNK);
	f.text[2 * PREFILL_CHUNK - 5]++;
	assert_int_equal(f.b->adopt(a, f.text, PROMPT), PREFILL_CHUNK);
	f.text[0]++;
	assert_int_equal(f.b->adopt(a, f.text, PROMPT), 0);
	for (int i = 0; i < PROMPT; i += 80)
		run(&f, a, PASS_EXACT, f.text + i, 80, NULL);
	f.b->truncate(b, 0);
	assert_int_equal(f.b->adopt(b, f.text, PROMPT), 0);
	assert_int_equal(f.b->adopt(a, f.text, PROMPT), 0);
	f.b->cache_close(a);
	f.b->cache_close(b);
	f.b->cache_close(c);
	close_backend(&f);
}

int main(void) {
	static const enum dtype type = DTYPE_F16;
	static struct pages_way way = {
	    .open = cuda_open, .devices = 1, .type = &type, .n_types = 1, .refused = DTYPE_Q8_0};
	int failed = 0;
	if (!gpu_is_here())
		return 77;
	const struct CMUnitTest tests[] = {PAGES_TESTS(&way), cmocka_unit_test(drafts_go_over_borders),
	                                   cmocka_unit_test(whole_chunks_alone_are_found)};
	failed += cmocka_run_group_tests(tests, NULL, NULL);
#ifdef SWIFTLET_EMULATED
	const struct CMUnitTest on_two[] = {
	    cmocka_unit_test_prestate(a_prefix_is_found_and_has_the_same_bits, &way),
	    cmocka_unit_test_prestate(tenants_find_their_own_alone, &way),
	    cmocka_unit_test_prestate(too_little_memory_is_refused, &way),
	    cmocka_unit_test_prestate(a_path_is_kept_over_borders, &way),
	    cmocka_unit_test_prestate(those_who_share_go_on_together, &way)};
	way.devices = 2;
	setenv("EMULATED_DEVICES", "2", 1);
	failed += cmocka_run_group_tests(on_two, NULL, NULL);
#endif
	return failed;
}
