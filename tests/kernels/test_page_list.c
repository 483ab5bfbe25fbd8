/* Drafts that read the pages of a list: of all pages, the bits of a draft that reads everything; of some,
 * nothing that lies in the others. And lists name what rows looked at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cpu/kernels.h"
#include "tests/kernels/support_random_model.h"
#include "tests/sanitized.h"

enum { CONTEXT = 900, VOCAB = 96, ROWS = 5 };

/* Heads of one size, of two sizes and blocks that read others' keys (Gemma 4), or latent keys (DeepSeek-V2).
 */
enum kind { USUAL, TWO_SIZES, LATENT, KINDS };

static struct random_model* make_model(enum kind kind, int n_blocks, int with, uint64_t seed) {
	static const enum dtype types[] = {DTYPE_F16};
	struct model_shape shape = random_shape(n_blocks, 64, 4, kind == LATENT ? 1 : 2, 32, 96, VOCAB);
	if (kind == TWO_SIZES) {
		shape.full_head_dim = shape.rope.dim = 64;
		shape.full_kv_heads = 4;
		shape.sliding_rope = (struct rope){.dim = 32, .theta = 100, .factor = 1, .attention_factor = 1};
		shape.sharing_from = n_blocks - 1;
	}
	if (kind == LATENT) {
		shape.rope.dim = 8;
		shape.latent = 24;
		shape.query_latent = 12;
		shape.nope_dim = 10;
		shape.value_dim = 14;
		shape.latent_epsilon = 1e-6f;
	}
	if (with & WITH_WINDOW)
		shape.sliding_window = 100;
	return random_model_make(&shape, types, 1, with, seed);
}

static struct backend* open_backend(const struct random_model* m, const char* isa, int threads) {
	struct error error;
	const struct backend_options options = {.threads = threads, .isa = isa, .context = CONTEXT};
	struct backend* b = cpu_open(&m->weights, &options, &error);
	if (!b)
		fail_msg("%s", error.message);
	return b;
}

static void commit_text(struct cache* c, const int32_t* token, int n, bool noted) {
	struct backend* b = c->backend;
	struct error error;
	int32_t path[100];
	for (int i = 0; i < 100; i++)
		path[i] = i;
	while (c->committed < n) {
		const int rows = least(100, n - c->committed);
		const struct segment segment = {.cache = c, .base = c->committed, .n = rows, .noted = noted};
		struct pass pass =
		    pass_over(&segment, token + c->committed, NULL, 2 * b->weights->shape.n_blocks, NULL, NULL);
		if (!b->run(b, &pass, &error))
			fail_msg("%s", error.message);
		b->commit(c, path, rows);
	}
}

/* Logits of a small tree behind the text, by what its attention reads. */
static void draft(struct cache* c, const struct page_list* pages, float* logits) {
	static const int32_t token[ROWS] = {3, 9, 27, 81, 5}, parent[ROWS] = {-1, 0, 0, 2, 1};
	struct backend* b = c->backend;
	struct result out[ROWS];
	uint8_t want[ROWS];
	struct error error;
	const struct segment segment = {.cache = c, .base = c->committed, .n = ROWS, .pages = pages};
	for (int i = 0; i < ROWS; i++) {
		want[i] = WANT_LOGITS;
		out[i].logits = logits + i * VOCAB;
	}
	struct pass pass = pass_over(&segment, token, parent, 2 * b->weights->shape.n_blocks, want, out);
	pass.head = true;
	if (!b->run(b, &pass, &error))
		fail_msg("%s", error.message);
	b->discard(c);
}

static struct cache* open_cache(struct backend* b, enum dtype type) {
	struct error error;
	struct cache* c = b->cache_open(b, CONTEXT, type, &error);
	if (!c)
		fail_msg("%s", error.message);
	return c;
}

static void random_text(int32_t* token, int n, uint64_t seed) {
	struct random random = {seed};
	for (int i = 0; i < n; i++)
		token[i] = random_below(&random, VOCAB);
}

static const char* const isas[] = {"reference", "auto", "avx2"};
static const enum dtype types[] = {DTYPE_F16, DTYPE_F32, DTYPE_Q8_0};

static bool runs_here(const char* isa) {
	struct error error;
	return cpu_kernels_choose(isa, &error) != NULL;
}

/* A list may name all pages, though list_pages makes none that does: the same positions, the same sums. One
 * page fewer, the first one, and it is another result. */
static void whole_lists(void** state) {
	(void)state;
	int32_t token[CONTEXT], page[8 * 16];
	float all[ROWS * VOCAB], listed[ROWS * VOCAB];
	/* sanitized, every fifth way: all kinds, instruction sets, types and windows are still among them */
	for (int round = 0; round < 18 * KINDS; round += SANITIZED ? 5 : 1) {
		if (!runs_here(isas[round % 3]))
			continue;
		struct random_model* m =
		    make_model((enum kind)(round / 18), 4, round % 2 ? WITH_WINDOW : 0, 7 + (uint64_t)round);
		struct backend* b = open_backend(m, isas[round % 3], 1 + round % 2);
		struct cache* c = open_cache(b, types[round / 3 % 3]);
		/* the reference is slow */
		const int n = round % 3 ? 300 + 47 * round % 500 : 260 + 47 * round % 100;
		random_text(token, n, 3 + (uint64_t)round);
		commit_text(c, token, n, false);
		/* the tail begins early or late; the table is shorter than the text by two pages at least */
		const int whole = n / LIST_POSITIONS - 1;
		struct page_list list = {.from = whole * LIST_POSITIONS, .n = whole - 2, .page = page};
		for (int i = 0; i < 4 * list.n; i++)
			page[i] = i % list.n + 1;
		draft(c, NULL, all);
		draft(c, &list, listed);
		assert_true(memcmp(all, listed, sizeof all) != 0);
		list.n = list.from = 0; /* nothing is listed, all is read behind */
		draft(c, &list, listed);
		assert_memory_equal(all, listed, sizeof all);
		b->cache_close(c);
		b->close(b);
		random_model_free(m);
	}
}

/* In a model of one block a position's keys and values are its token's: what is not listed may be anything.
 */
static void unlisted_pages(void** state) {
	(void)state;
	int32_t token[CONTEXT], other[CONTEXT];
	float first[ROWS * VOCAB], second[ROWS * VOCAB];
	for (int round = 0; round < 12; round++) {
		if (!runs_here(isas[round % 3]))
			continue;
		struct random_model* m = make_model(round % 2 ? LATENT : USUAL, 1, 0, 70 + (uint64_t)round);
		struct backend* b = open_backend(m, isas[round % 3], 1 + round % 2);
		const int n = 600 + 13 * round;
		struct cache *c = open_cache(b, types[round / 3 % 3]), *d = open_cache(b, types[round / 3 % 3]);
		random_text(token, n, 30 + (uint64_t)round);
		random_text(other, n, 90 + (uint64_t)round);
		static const int32_t page[] = {0, 2, 5};
		const struct page_list list = {.from = 7 * LIST_POSITIONS, .n = 3, .page = page};
		for (int i = 0; i < n; i++)
			if (i >= list.from || i / LIST_POSITIONS == 0 || i / LIST_POSITIONS == 2 ||
			    i / LIST_POSITIONS == 5)
				other[i] = token[i];
		commit_text(c, token, n, false);
		commit_text(d, other, n, false);
		draft(c, &list, first);
		draft(d, &list, second);
		assert_memory_equal(first, second, sizeof first);
		draft(c, NULL, first);
		draft(d, NULL, second);
		assert_true(memcmp(first, second, sizeof first) != 0);
		b->cache_close(c);
		b->cache_close(d);
		b->close(b);
		random_model_free(m);
	}
}

/* Lists hold page 0 and the budget's pages, ascending, before the last whole one; the same ones however many
 * threads and rows a pass had; none before anything was noted, and none when all of the text is forgotten. */
static void lists_of(enum kind kind) {
	int32_t token[CONTEXT], page[2][3 * 5];
	struct page_list list[2];
	struct random_model* m = make_model(kind, 3, 0, 5);
	for (int threads = 1; threads <= 2; threads++) {
		struct backend* b = open_backend(m, "auto", threads);
		struct cache* c = open_cache(b, DTYPE_F16);
		struct page_list* l = &list[threads - 1];
		random_text(token, 800, 1);
		commit_text(c, token, 700, false);
		assert_false(b->list_pages(c, 4, page[0], l));
		commit_text(c, token, 800, true);
		assert_false(b->list_pages(c, 11, page[0], l)); /* 800 tokens: 11 pages to choose from */
		assert_true(b->list_pages(c, 4, page[threads - 1], l));
		assert_int_equal(l->from, 11 * LIST_POSITIONS);
		assert_int_equal(l->n, 5);
		for (int i = 0; i < 3; i++) {
			assert_int_equal(l->page[i * 5], 0);
			for (int j = 1; j < 5; j++)
				assert_in_range(l->page[i * 5 + j], l->page[i * 5 + j - 1] + 1, 10);
		}
		if (threads == 2) {
			b->truncate(c, 0);
			commit_text(c, token, 700, false);
			assert_false(b->list_pages(c, 4, page[0], l));
		}
		b->cache_close(c);
		b->close(b);
	}
	assert_memory_equal(page[0], page[1], sizeof page[0]);
	random_model_free(m);
}

static void lists(void** state) {
	(void)state;
	for (int kind = 0; kind < KINDS; kind++)
		lists_of((enum kind)kind);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(whole_lists), cmocka_unit_test(unlisted_pages),
	                                   cmocka_unit_test(lists)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
