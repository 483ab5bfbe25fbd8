/* The cache's counters, what rewind allows, and what happens when something is wrong. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/kernels/support_random_model.h"

enum { VOCAB = 50, CONTEXT = 64 };

struct fixture {
	struct random_model* model;
	struct backend* b;
	struct cache* c;
};

static int open_all(void** state) {
	static struct fixture f;
	static const enum dtype types[] = {DTYPE_F32};
	const struct model_shape shape = random_shape(3, 32, 2, 1, 16, 40, VOCAB);
	struct error error;
	const struct backend_options options = {.threads = 2, .context = CONTEXT};
	f.model = random_model_make(&shape, types, 1, 0, 1);
	f.b = cpu_open(&f.model->weights, &options, &error);
	f.c = f.b ? f.b->cache_open(f.b, CONTEXT, DTYPE_F16, &error) : NULL;
	*state = &f;
	return f.c ? 0 : -1;
}

static int close_all(void** state) {
	struct fixture* f = *state;
	f->b->cache_close(f->c);
	f->b->close(f->b);
	random_model_free(f->model);
	return 0;
}

/* A chain of n tokens after the committed ones. */
static bool chain(struct fixture* f, int n, int last, const struct mask* skip, int tap, struct result* out,
                  struct error* error) {
	static int32_t token[MAX_ROWS];
	static uint8_t want[MAX_ROWS];
	static float tapped[MAX_ROWS * 32];
	for (int i = 0; i < n; i++) {
		token[i] = (7 * i + 3) % VOCAB;
		want[i] = out ? WANT_TOKEN : WANT_NOTHING;
	}
	const struct segment s = {.cache = f->c, .base = f->c->committed, .n = n};
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = n,
	                          .n_segments = 1,
	                          .segment = &s,
	                          .token = token,
	                          .skip = skip,
	                          .last = last,
	                          .head = out != NULL,
	                          .tap = tap,
	                          .tap_out = tapped,
	                          .want = want,
	                          .out = out};
	return f->b->run(f->b, &pass, error);
}

static void counters(void** state) {
	struct fixture* f = *state;
	struct error error;
	assert_int_equal(f->c->capacity, CONTEXT);
	assert_int_equal(f->c->committed, 0);
	assert_true(chain(f, 5, 6, NULL, -1, NULL, &error));
	assert_int_equal(f->c->pending, 5);
	assert_true(chain(f, 3, 6, NULL, -1, NULL, &error));
	assert_int_equal(f->c->pending, 8);
	f->b->discard(f->c);
	assert_int_equal(f->c->pending, 0);
	assert_true(chain(f, 5, 6, NULL, -1, NULL, &error));
	const int32_t path[] = {0, 1, 2};
	f->b->commit(f->c, path, 3);
	assert_int_equal(f->c->committed, 3);
	assert_int_equal(f->c->pending, 0);
	assert_true(chain(f, 2, 6, NULL, -1, NULL, &error));
	f->b->truncate(f->c, 1);
	assert_int_equal(f->c->committed, 1);
	assert_int_equal(f->c->pending, 0);
	f->b->commit(f->c, path, 0);
	assert_int_equal(f->c->committed, 1);
	f->b->truncate(f->c, 0);
	/* as many pending rows as fit, beside a full cache */
	while (f->c->committed < CONTEXT) {
		assert_true(chain(f, 1, 6, NULL, -1, NULL, &error));
		f->b->commit(f->c, path, 1);
	}
	assert_true(chain(f, MAX_ROWS, 6, NULL, -1, NULL, &error));
	f->b->truncate(f->c, 0);
}

static void rewinding(void** state) {
	struct fixture* f = *state;
	struct error error;
	struct mask skip = {.word = {0}};
	assert_true(f->b->rewind(f->c, 2)); /* nothing pending: nothing to be held */
	assert_true(chain(f, 3, 2, NULL, -1, NULL, &error));
	assert_true(f->b->rewind(f->c, 2));
	assert_false(f->b->rewind(f->c, 1));
	assert_false(f->b->rewind(f->c, 3));
	assert_true(chain(f, 1, 3, NULL, -1, NULL, &error)); /* one of them stands elsewhere */
	assert_false(f->b->rewind(f->c, 2));
	f->b->discard(f->c);
	assert_true(chain(f, 3, 6, NULL, -1, NULL, &error)); /* ran beyond */
	assert_false(f->b->rewind(f->c, 4));
	f->b->discard(f->c);
	assert_true(chain(f, 3, 6, NULL, 3, NULL, &error)); /* ran beyond with a tap */
	assert_true(f->b->rewind(f->c, 4));
	f->b->discard(f->c);
	mask_set(&skip, 1, true);
	assert_true(chain(f, 3, 3, &skip, -1, NULL, &error)); /* skipped below */
	assert_false(f->b->rewind(f->c, 3));
	f->b->discard(f->c);
	mask_set(&skip, 1, false);
	mask_set(&skip, 4, true);
	assert_true(chain(f, 3, 6, &skip, 3, NULL, &error)); /* skipped above the tap */
	assert_true(f->b->rewind(f->c, 4));
	f->b->discard(f->c);
}

/* Segments of one cache, each from a base of its own: each row is what it is alone, to the bit, with two rows
 * pending before them and where memory for all has to be taken. */
static void segments_of_one_cache(void** state) {
	enum { ROWS = 70 };
	struct fixture* f = *state;
	struct error error;
	static struct segment segment[ROWS];
	static int32_t token[ROWS], parent[ROWS];
	static uint8_t want[ROWS];
	static struct result out[ROWS], alone;
	struct mask skip = {.word = {0}};
	const int32_t path[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
	mask_set(&skip, 2, true);
	assert_true(chain(f, 10, 6, NULL, -1, NULL, &error));
	f->b->commit(f->c, path, 10);
	assert_true(chain(f, 2, 6, NULL, -1, NULL, &error));
	for (int i = 0; i < ROWS; i++) {
		token[i] = (11 * i + 5) % VOCAB;
		parent[i] = -1;
		want[i] = WANT_TOKEN | WANT_TOP;
		out[i].top = 3;
		segment[i] = (struct segment){.cache = f->c, .base = i * 7 % 11, .n = 1};
	}
	struct pass pass = {.kind = PASS_EXACT,
	                    .n = ROWS,
	                    .n_segments = ROWS,
	                    .segment = segment,
	                    .token = token,
	                    .parent = parent,
	                    .skip = &skip,
	                    .last = 6,
	                    .head = true,
	                    .tap = -1,
	                    .want = want,
	                    .out = out};
	assert_true(f->b->run(f->b, &pass, &error));
	assert_int_equal(f->c->pending, 2 + ROWS);
	f->b->discard(f->c);
	for (int i = 0; i < ROWS; i++) {
		alone.top = 3;
		pass.n = pass.n_segments = 1;
		pass.segment = &segment[i];
		pass.token = &token[i];
		pass.out = &alone;
		assert_true(f->b->run(f->b, &pass, &error));
		f->b->discard(f->c);
		assert_int_equal(alone.token, out[i].token);
		assert_memory_equal(alone.top_token, out[i].top_token, 3 * sizeof *alone.top_token);
		assert_memory_equal(alone.top_probability, out[i].top_probability, 3 * sizeof *alone.top_probability);
	}
	f->b->truncate(f->c, 0);
}

/* A weight that is not a number: a clear message, no pending rows left, and the cache goes on. */
static void not_finite(void** state) {
	struct fixture* f = *state;
	struct error error = {""};
	struct result out[4];
	const int32_t path[] = {0, 1};
	float* weight = (float*)(uintptr_t)f->model->block[1].w_down.data;
	assert_true(chain(f, 2, 6, NULL, -1, out, &error));
	f->b->commit(f->c, path, 2);
	const float kept = weight[5];
	weight[5] = NAN;
	assert_false(chain(f, 3, 6, NULL, -1, out, &error));
	assert_non_null(strstr(error.message, "not finite"));
	assert_int_equal(f->c->pending, 0);
	assert_int_equal(f->c->committed, 2);
	weight[5] = kept;
	assert_true(chain(f, 3, 6, NULL, -1, out, &error));
	f->b->truncate(f->c, 0);
}

static void refused(void** state) {
	struct fixture* f = *state;
	struct error error = {""};
	const struct backend_options options = {.threads = 1, .context = CONTEXT};
	assert_null(f->b->cache_open(f->b, CONTEXT + 1, DTYPE_F16, &error));
	assert_null(f->b->cache_open(f->b, 0, DTYPE_F16, &error));
	assert_null(f->b->cache_open(f->b, 8, DTYPE_BF16, &error));
	assert_non_null(strstr(error.message, "bf16"));
	const struct backend_options unknown = {.isa = "sse9"};
	assert_null(cpu_open(&f->model->weights, &unknown, &error));
	assert_non_null(strstr(error.message, "sse9"));
	struct weight_table w = f->model->weights;
	w.shape.heads = 3;
	w.shape.kv_heads = 2;
	assert_null(cpu_open(&w, &options, &error));
	w = f->model->weights;
	w.shape.n_blocks = MAX_BLOCKS + 1;
	assert_null(cpu_open(&w, &options, &error));
	w = f->model->weights;
	w.shape.rope.dim = 18;
	assert_null(cpu_open(&w, &options, &error));
	w = f->model->weights;
	w.output.rows--;
	assert_null(cpu_open(&w, &options, &error));
	w = f->model->weights;
	w.embedding.data = NULL;
	assert_null(cpu_open(&w, &options, &error));
	struct tensor* up = &f->model->block[2].w_up;
	up->cols--;
	assert_null(cpu_open(&f->model->weights, &options, &error));
	assert_non_null(strstr(error.message, "block 2's w_up"));
	up->cols++;
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(counters), cmocka_unit_test(rewinding),
	                                   cmocka_unit_test(segments_of_one_cache), cmocka_unit_test(not_finite),
	                                   cmocka_unit_test(refused)};
	return cmocka_run_group_tests(tests, open_all, close_all);
}
