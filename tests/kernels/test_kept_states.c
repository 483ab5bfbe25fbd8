/* States of recurrent blocks that are kept behind pages: where, how many, and that a text which goes on from
 * one, in any cache, has the bits of a text that was computed at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/kept_states.h"
#include "tests/kernels/support_random_model.h"
#include "tests/must.h"

enum { VOCAB = 60, CONTEXT = 600, BLOCKS = 3, CACHES = 3 };

/* ---- models -------------------------------------------------------------------------------- */

/* Gated DeltaNet (Qwen 3.5), Mamba-2 (Granite 4), gated short convolutions (LFM2). */
static const struct recurrence recurrences[] = {
    {.key_heads = 2, .value_heads = 4, .key_dim = 12, .value_dim = 24, .kernel = 4, .log_rates = true},
    {.key_heads = 1,
     .value_heads = 3,
     .key_dim = 10,
     .value_dim = 20,
     .kernel = 4,
     .log_rates = true,
     .state_space = true,
     .gate_first = true},
    {.value_heads = 1, .value_dim = 48, .kernel = 3}};
enum { RECURRENCES = sizeof recurrences / sizeof *recurrences };

struct fixture {
	struct random_model* model;
	struct backend *b, *plain; /* the latter computes every text at once */
	struct cache *cache[CACHES], *alone;
};

static struct backend* open_backend(const struct random_model* model) {
	const struct backend_options options = {.threads = 2, .context = CONTEXT};
	return must_open(cpu_open, &model->weights, &options);
}

static void open_fixture(struct fixture* f, const struct recurrence* r) {
	static const enum dtype types[] = {DTYPE_F16, DTYPE_F32};
	struct model_shape shape = random_shape(BLOCKS, 48, 2, 1, 24, 64, VOCAB);
	shape.context = CONTEXT;
	shape.recurrence = *r;
	block_set_put(&shape.recurrent, 0);
	block_set_put(&shape.recurrent, 2);
	f->model = random_model_make(&shape, types, 2, 0, 5);
	f->b = open_backend(f->model);
	f->plain = open_backend(f->model);
	for (int i = 0; i < CACHES; i++)
		f->cache[i] = must_open_cache(f->b, CONTEXT, DTYPE_F16);
	f->alone = must_open_cache(f->plain, CONTEXT, DTYPE_F16);
}

static void close_fixture(struct fixture* f) {
	for (int i = 0; i < CACHES; i++)
		f->b->cache_close(f->cache[i]);
	f->plain->cache_close(f->alone);
	f->b->close(f->b);
	f->plain->close(f->plain);
	random_model_free(f->model);
}

static int token_at(int text, int i) { return (i * 11 + i / 7 + text * 13 + (text > 0) * i / 3) % VOCAB; }

static void make_text(int32_t* to, int text, int from, int n) {
	for (int i = from; i < n; i++)
		to[i] = token_at(text, i);
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* Runs n rows after the committed ones; they are pending unless it is a prefill. */
static void run_rows(struct cache* c, const int32_t* token, int n, enum pass_kind kind, float* logits) {
	static uint8_t want[MAX_ROWS];
	static struct result out[MAX_ROWS];
	memset(want, WANT_NOTHING, sizeof want);
	want[n - 1] = WANT_LOGITS;
	out[n - 1].logits = logits;
	const struct segment segment = {.cache = c, .base = c->committed, .n = n};
	struct pass pass = pass_over(&segment, token, NULL, 2 * BLOCKS, want, out);
	pass.kind = kind;
	pass.head = true;
	must_run(c->backend, &pass);
}

static void commit_rows(struct cache* c, int n) {
	int32_t path[MAX_ROWS];
	for (int i = 0; i < n; i++)
		path[i] = i;
	c->backend->commit(c, path, n);
}

/* Computes a prompt from where the cache is, in passes of at most so many rows, as sessions do. */
static void prefill(struct cache* c, const int32_t* token, int n, int most, float logits[VOCAB]) {
	c->prompt_length = n;
	while (c->committed < n) {
		const int stop = c->backend->next_kept(c), from = c->committed;
		assert_true(stop > from);
		int rows = least(least(most, n - from), stop - from);
		const bool chunk = rows == PREFILL_CHUNK && from % PREFILL_CHUNK == 0;
		run_rows(c, token + from, rows, chunk ? PASS_PREFILL : PASS_EXACT, logits);
		if (!chunk)
			commit_rows(c, rows);
	}
}

/* Adopts what there is of a prompt, computes the rest, and compares the last row with the plain cache's.
 * Returns how many tokens were adopted. */
static int go_on(struct fixture* f, struct cache* c, const int32_t* token, int n, int most) {
	float got[VOCAB], expected[VOCAB];
	const int adopted = c->backend->adopt(c, token, n - 1);
	assert_int_equal(adopted, c->committed);
	prefill(c, token, n, most, got);
	f->plain->truncate(f->alone, 0);
	for (int from = 0; from < n; from += 50) {
		const int rows = least(50, n - from);
		run_rows(f->alone, token + from, rows, PASS_EXACT, expected);
		commit_rows(f->alone, rows);
	}
	assert_memory_equal(got, expected, sizeof got);
	return adopted;
}

/* ---- where states are kept ------------------------------------------------------------------ */

static void states_are_kept_at_a_few_places(void** state) {
	(void)state;
	static const struct {
		int from, n, branch, stop;
	} cases[] = {{0, 50, 0, INT32_MAX}, /* too short */
	             {0, 64, 0, INT32_MAX}, /* the last token is computed in any case */
	             {0, 65, 0, 64},
	             {64, 65, 0, INT32_MAX},
	             {0, 200, 0, 192},
	             {100, 200, 0, 192},
	             {0, 300, 0, 256},
	             {256, 300, 0, 288},
	             {255, 300, 0, 256},
	             {0, 2000, 0, 256},
	             {256, 2000, 0, 512},
	             {512, 2000, 0, 1024},
	             {600, 2000, 0, 1024},
	             {1024, 2000, 0, 1984},
	             {1984, 2000, 0, INT32_MAX},
	             {0, 2000, 96, 96},
	             {96, 2000, 96, 256},
	             {512, 2000, 992, 992},
	             {0, 2000, 32, 256}, /* not worth it */
	             {0, 200, 1024, 192},
	             {0, 0, 0, INT32_MAX},
	             {0, INT32_MAX, 0, 256},
	             {1 << 30, INT32_MAX, 0, INT32_MAX / PAGE_SLOTS * PAGE_SLOTS}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (kept_states_stop(cases[i].from, cases[i].n, cases[i].branch) != cases[i].stop)
			fail_msg("case %zu: %d", i, kept_states_stop(cases[i].from, cases[i].n, cases[i].branch));
}

static void texts_go_on_from_them(void** state) {
	(void)state;
	for (int k = 0; k < RECURRENCES; k++) {
		struct fixture f;
		int32_t text[CONTEXT];
		open_fixture(&f, &recurrences[k]);
		struct cache *a = f.cache[0], *b = f.cache[1], *c = f.cache[2];
		make_text(text, 0, 0, 350);
		assert_int_equal(go_on(&f, a, text, 310, MAX_ROWS), 0);
		/* another cache: the prompt again, more of it, less of it */
		assert_int_equal(go_on(&f, b, text, 310, 100), 288);
		assert_int_equal(go_on(&f, c, text, 350, 7), 288);
		assert_int_equal(go_on(&f, c, text, 270, 100), 256);
		/* the own text: from the last token, else from a kept state */
		assert_int_equal(go_on(&f, a, text, 316, 100), 310);
		a->backend->truncate(a, 300);
		assert_int_equal(a->committed, 288);
		assert_int_equal(go_on(&f, a, text, 340, 100), 320); /* which c has left */
		assert_int_equal(go_on(&f, a, text, 345, 100), 340);
		/* texts that part from it where no state is kept: the first leaves one there */
		make_text(text, 1, 200, 350);
		assert_int_equal(go_on(&f, b, text, 340, MAX_ROWS), 0);
		make_text(text, 2, 200, 350);
		assert_int_equal(go_on(&f, b, text, 340, 90), 192);
		assert_int_equal(go_on(&f, c, text, 230, 90), 192);
		/* rows that nobody commits leave nothing */
		float ignored[VOCAB];
		run_rows(c, text + 230, 60, PASS_EXACT, ignored);
		c->backend->discard(c);
		assert_int_equal(go_on(&f, c, text, 250, 90), 230);
		/* another tenant has its own */
		f.b->truncate(c, 0);
		c->tenant = 1;
		assert_int_equal(go_on(&f, c, text, 340, 90), 0);
		close_fixture(&f);
	}
}

/* ---- any text ------------------------------------------------------------------------------- */

static void any_order_of_texts_gives_the_same_bits(void** state) {
	(void)state;
	enum { TEXTS = 60 };
	for (int k = 0; k < RECURRENCES; k++) {
		struct fixture f;
		struct random random = {.state = 40 + (uint64_t)k};
		static int32_t text[TEXTS][CONTEXT];
		int length[TEXTS], adopted = 0, total = 0;
		open_fixture(&f, &recurrences[k]);
		for (int t = 0; t < TEXTS; t++) {
			struct cache* c = f.cache[random_below(&random, CACHES)];
			/* begins as an earlier one, up to anywhere */
			const int like = t > 0 ? random_below(&random, t) : 0;
			const int same = t > 0 ? random_below(&random, length[like] + 1) : 0;
			const int n = least(CONTEXT - 20, same + 1 + random_below(&random, 200));
			memcpy(text[t], text[like], (size_t)same * sizeof **text);
			for (int i = same; i < CONTEXT; i++)
				text[t][i] = random_below(&random, VOCAB);
			adopted += go_on(&f, c, text[t], n, 1 + random_below(&random, MAX_ROWS));
			total += n;
			/* an answer, of which not all is committed */
			float ignored[VOCAB];
			const int rows = 1 + random_below(&random, 15);
			length[t] = n + random_below(&random, rows + 1);
			run_rows(c, text[t] + n, rows, PASS_EXACT, ignored);
			commit_rows(c, length[t] - n);
			if (random_below(&random, 5) == 0)
				f.b->truncate(c, random_below(&random, c->committed + 1));
		}
		assert_in_range(adopted, total / 10, total);
		close_fixture(&f);
	}
}

/* ---- how many -------------------------------------------------------------------------------- */

static void as_many_are_kept_as_stated(void** state) {
	(void)state;
	enum { TEXTS = 30, TOKENS = 70 };
	struct fixture f;
	int32_t text[TOKENS];
	int found = 0;
	open_fixture(&f, &recurrences[0]);
	for (int t = 0; t < TEXTS; t++) {
		make_text(text, t, 0, TOKENS);
		assert_int_equal(go_on(&f, f.cache[t % CACHES], text, TOKENS, 64), 0);
	}
	for (int t = TEXTS - 1; t >= 0; t--) { /* the last ones used are left */
		make_text(text, t, 0, TOKENS);
		const int adopted = f.b->adopt(f.cache[0], text, TOKENS - 1);
		assert_int_equal(adopted, t >= TEXTS - CACHES - KEPT_BESIDE ? 64 : 0);
		found += adopted > 0;
	}
	assert_int_equal(found, CACHES + KEPT_BESIDE);
	/* caches that close and open again bring no more */
	for (int i = 0; i < 20; i++) {
		f.b->cache_close(f.cache[1]);
		f.cache[1] = must_open_cache(f.b, CONTEXT, DTYPE_F16);
	}
	for (int t = 0; t < TEXTS; t++) {
		make_text(text, t, 0, TOKENS);
		go_on(&f, f.cache[1], text, TOKENS, 64);
	}
	found = 0;
	for (int t = TEXTS - 1; t >= 0; t--) {
		make_text(text, t, 0, TOKENS);
		found += f.b->adopt(f.cache[0], text, TOKENS - 1) > 0;
	}
	assert_int_equal(found, CACHES + KEPT_BESIDE);
	close_fixture(&f);
}

/* ---- as bytes -------------------------------------------------------------------------------- */

/* Pages and the state behind them, in the memory of another backend. */
static void they_are_restored_from_bytes(void** state) {
	(void)state;
	for (int k = 0; k < RECURRENCES; k++) {
		struct fixture f, g;
		int32_t text[CONTEXT];
		enum { KEPT = 6 }; /* pages */
		open_fixture(&f, &recurrences[k]);
		open_fixture(&g, &recurrences[k]);
		struct cache *a = f.cache[0], *b = g.cache[0];
		const size_t page = f.b->page_bytes(a), bytes = f.b->state_bytes(a);
		unsigned char* pages = malloc(KEPT * page + bytes);
		assert_non_null(pages);
		make_text(text, 0, 0, 300);
		go_on(&f, a, text, 200, 100);
		assert_false(f.b->state_save(a, KEPT - 1, NULL)); /* nobody has gone on from it */
		go_on(&f, f.cache[1], text, 200, 100);
		assert_true(f.b->state_save(a, KEPT - 1, NULL));
		assert_false(f.b->state_save(a, KEPT - 2, NULL));
		assert_false(f.b->state_save(a, KEPT, NULL));
		assert_true(f.b->state_save(a, KEPT - 1, pages + KEPT * page));
		for (int i = 0; i < KEPT; i++) {
			assert_true(f.b->page_save(a, i, pages + (size_t)i * page));
			assert_false(g.b->page_restore(b, text + i * PAGE_SLOTS, NULL));
			assert_true(g.b->page_restore(b, text + i * PAGE_SLOTS, pages + (size_t)i * page));
		}
		g.b->truncate(b, KEPT * PAGE_SLOTS - 1); /* pages alone do not suffice */
		assert_int_equal(b->committed, 0);
		assert_int_equal(g.b->adopt(b, text, 250), 0);
		for (int i = 0; i < KEPT; i++) /* but they are there */
			assert_true(g.b->page_restore(b, text + i * PAGE_SLOTS, NULL));
		g.b->state_restore(b, pages + KEPT * page);
		assert_int_equal(go_on(&g, b, text, 250, 100), KEPT * PAGE_SLOTS);
		assert_int_equal(go_on(&g, g.cache[1], text, 240, 100), 224);
		assert_int_equal(go_on(&g, g.cache[2], text, 220, 100), KEPT * PAGE_SLOTS);
		free(pages);
		close_fixture(&f);
		close_fixture(&g);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(states_are_kept_at_a_few_places), cmocka_unit_test(texts_go_on_from_them),
	    cmocka_unit_test(any_order_of_texts_gives_the_same_bits),
	    cmocka_unit_test(as_many_are_kept_as_stated), cmocka_unit_test(they_are_restored_from_bytes)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
