#include "tests/kernels/support_page_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kernels/support_random_model.h"
#include "tests/must.h"

struct cache* list_cache(struct backend* b, enum dtype type) {
	return must_open_cache(b, LIST_CONTEXT, type);
}

void list_text(int32_t* token, int n, uint64_t seed) {
	struct random random = {seed};
	for (int i = 0; i < n; i++)
		token[i] = random_below(&random, LIST_VOCAB);
}

void list_commit(struct cache* c, const int32_t* token, int n, int rows, bool noted) {
	struct backend* b = c->backend;
	int32_t path[MAX_ROWS];
	for (int i = 0; i < MAX_ROWS; i++)
		path[i] = i;
	while (c->committed < n) {
		const int count = least(rows, n - c->committed);
		const struct segment segment = {.cache = c, .base = c->committed, .n = count, .noted = noted};
		struct pass pass =
		    pass_over(&segment, token + c->committed, NULL, 2 * b->weights->shape.n_blocks, NULL, NULL);
		must_run(b, &pass);
		b->commit(c, path, count);
	}
}

void list_draft(struct cache* c, const struct page_list* pages, float* logits) {
	static const int32_t token[LIST_ROWS] = {3, 9, 27, 81, 5}, parent[LIST_ROWS] = {-1, 0, 0, 2, 1};
	struct backend* b = c->backend;
	struct result out[LIST_ROWS];
	uint8_t want[LIST_ROWS];
	const struct segment segment = {.cache = c, .base = c->committed, .n = LIST_ROWS, .pages = pages};
	for (int i = 0; i < LIST_ROWS; i++) {
		want[i] = WANT_LOGITS;
		out[i].logits = logits + i * LIST_VOCAB;
	}
	struct pass pass = pass_over(&segment, token, parent, 2 * b->weights->shape.n_blocks, want, out);
	pass.head = true;
	must_run(b, &pass);
	b->discard(c);
}

void check_whole_list(struct backend* b, enum dtype type, int n, uint64_t seed) {
	int32_t token[LIST_CONTEXT], page[8 * 16];
	float all[LIST_ROWS * LIST_VOCAB], listed[LIST_ROWS * LIST_VOCAB];
	const int blocks = b->weights->shape.n_blocks;
	struct cache* c = list_cache(b, type);
	list_text(token, n, seed);
	list_commit(c, token, n, 100, false);
	/* the table is shorter than the text by two pages at least */
	const int whole = n / LIST_POSITIONS - 1;
	struct page_list list = {.from = whole * LIST_POSITIONS, .n = whole - 2, .page = page};
	assert_true(blocks * list.n <= 8 * 16);
	for (int i = 0; i < blocks * list.n; i++)
		page[i] = i % list.n + 1;
	list_draft(c, NULL, all);
	list_draft(c, &list, listed);
	assert_true(memcmp(all, listed, sizeof all) != 0);
	list.n = list.from = 0; /* nothing is listed, all is read behind */
	list_draft(c, &list, listed);
	assert_memory_equal(all, listed, sizeof all);
	b->cache_close(c);
}

void check_unlisted_pages(struct backend* b, enum dtype type, int n, uint64_t seed) {
	static const int32_t page[] = {0, 2, 5};
	const struct page_list list = {.from = 7 * LIST_POSITIONS, .n = 3, .page = page};
	int32_t token[LIST_CONTEXT], other[LIST_CONTEXT];
	float first[LIST_ROWS * LIST_VOCAB], second[LIST_ROWS * LIST_VOCAB];
	struct cache *c = list_cache(b, type), *d = list_cache(b, type);
	list_text(token, n, seed);
	list_text(other, n, seed + 60);
	for (int i = 0; i < n; i++)
		if (i >= list.from || i / LIST_POSITIONS == 0 || i / LIST_POSITIONS == 2 || i / LIST_POSITIONS == 5)
			other[i] = token[i];
	list_commit(c, token, n, 100, false);
	list_commit(d, other, n, 100, false);
	list_draft(c, &list, first);
	list_draft(d, &list, second);
	assert_memory_equal(first, second, sizeof first);
	list_draft(c, NULL, first);
	list_draft(d, NULL, second);
	assert_true(memcmp(first, second, sizeof first) != 0);
	b->cache_close(c);
	b->cache_close(d);
}

void check_lists(struct backend* b, int rows, int32_t* page) {
	int32_t token[LIST_CONTEXT], none[3 * 5];
	struct page_list list;
	struct cache* c = list_cache(b, DTYPE_F16);
	list_text(token, 800, 1);
	list_commit(c, token, 700, 100, false);
	assert_false(b->list_pages(c, 4, none, &list));
	list_commit(c, token, 764, 64, true); /* its last rows alone are noted */
	list_commit(c, token, 800, rows, true);
	assert_false(b->list_pages(c, 11, none, &list)); /* 800 tokens: 11 pages to choose from */
	assert_true(b->list_pages(c, 4, page, &list));
	assert_int_equal(list.from, 11 * LIST_POSITIONS);
	assert_int_equal(list.n, 5);
	assert_ptr_equal(list.page, page);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(page[i * 5], 0);
		for (int j = 1; j < 5; j++)
			assert_in_range(page[i * 5 + j], page[i * 5 + j - 1] + 1, 10);
	}
	b->truncate(c, 0);
	list_commit(c, token, 700, 100, false);
	assert_false(b->list_pages(c, 4, none, &list));
	b->cache_close(c);
}
