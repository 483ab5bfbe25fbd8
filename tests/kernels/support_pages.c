#include "tests/kernels/support_pages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/pages.h"
#include "tests/kernels/support_random_model.h"
#include "tests/must.h"

enum { VOCAB = 50, CONTEXT = 200, BLOCKS = 3, KV_HEADS = 2, HEAD_DIM = 32 };

struct fixture {
	struct random_model* model;
	struct backend* b;
	int32_t text[CONTEXT];
};

static void open_backend(struct fixture* f, const struct pages_way* way, enum rope_scaling scaling,
                         int pages) {
	static const enum dtype types[] = {DTYPE_F32};
	struct model_shape shape = random_shape(BLOCKS, 64, 4, KV_HEADS, HEAD_DIM, 64, VOCAB);
	struct error error;
	shape.rope.scaling = scaling;
	shape.rope.factor = scaling == ROPE_NONE ? 1 : 2;
	shape.rope.original_context = 4096;
	f->model = random_model_make(&shape, types, 1, 0, 1);
	const struct backend_options options = {.threads = 2,
	                                        .context = CONTEXT,
	                                        .devices = way->devices,
	                                        .cache_bytes = (size_t)pages * BLOCKS * 2 * KV_HEADS * HEAD_DIM *
	                                                       2 * PAGE_SLOTS}; /* in f16 */
	f->b = way->open(&f->model->weights, &options, &error);
	if (!f->b)
		fail_msg("%s", error.message);
	assert_true(f->b->prefill_is_exact);
	for (int i = 0; i < CONTEXT; i++)
		f->text[i] = (i * 11 + i / 7) % VOCAB;
}

static void close_backend(struct fixture* f) {
	f->b->close(f->b);
	random_model_free(f->model);
}

static struct cache* open_cache(struct fixture* f, enum dtype type) {
	return must_open_cache(f->b, CONTEXT, type);
}

/* A pass's rows, and what it is to give of its last one. */
struct rows {
	const int32_t *token, *parent; /* parent NULL: a chain */
	int n;
	const struct mask* skip;
	float* logits; /* (VOCAB) */
};

/* False when there is no memory. */
static bool run_rows(struct fixture* f, const struct segment* segment, int n_segments, struct rows rows) {
	static uint8_t want[MAX_ROWS];
	static struct result out[MAX_ROWS];
	struct error error;
	memset(want, WANT_NOTHING, sizeof want);
	want[rows.n - 1] = WANT_LOGITS;
	out[rows.n - 1].logits = rows.logits;
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = rows.n,
	                          .n_segments = n_segments,
	                          .segment = segment,
	                          .token = rows.token,
	                          .parent = rows.parent,
	                          .skip = rows.skip,
	                          .last = 2 * BLOCKS,
	                          .head = true,
	                          .tap = -1,
	                          .want = want,
	                          .out = out};
	return f->b->run(f->b, &pass, &error);
}

/* Runs tokens after the committed ones and commits them; the last row's logits. False when there is no
 * memory. */
static bool run_with(struct fixture* f, struct cache* c, const int32_t* token, int n, const struct mask* skip,
                     float logits[VOCAB]) {
	int32_t path[MAX_ROWS];
	for (int i = 0; i < n; i++)
		path[i] = i;
	const struct segment s = {.cache = c, .base = c->committed, .n = n};
	if (!run_rows(f, &s, 1, (struct rows){.token = token, .n = n, .skip = skip, .logits = logits}))
		return false;
	f->b->commit(c, path, n);
	return true;
}

static bool run(struct fixture* f, struct cache* c, const int32_t* token, int n, float logits[VOCAB]) {
	return run_with(f, c, token, n, NULL, logits);
}

/* A text and a prefix of it again, in a cache that looks nowhere else. */
static void same_as_computed_at_once(struct fixture* f, enum dtype type, int n, int again,
                                     const float logits[VOCAB]) {
	int32_t token[CONTEXT];
	float got[VOCAB];
	struct cache* c = open_cache(f, type);
	memcpy(token, f->text, (size_t)n * sizeof *token);
	memcpy(token + n, f->text, (size_t)again * sizeof *token);
	assert_true(run(f, c, token, n + again, got));
	assert_memory_equal(logits, got, sizeof got);
	f->b->cache_close(c);
}

void a_prefix_is_found_and_has_the_same_bits(void** state) {
	const struct pages_way* way = *state;
	for (int t = 0; t < way->n_types; t++) {
		struct fixture f;
		float alone[VOCAB], shared[VOCAB], again[VOCAB];
		open_backend(&f, way, ROPE_NONE, 0);
		struct cache *a = open_cache(&f, way->type[t]), *b = open_cache(&f, way->type[t]);
		assert_int_equal(f.b->adopt(b, f.text, 100), 0);
		assert_true(run(&f, a, f.text, 100, alone));
		assert_int_equal(f.b->adopt(b, f.text, 99), 96);
		assert_true(run(&f, b, f.text + 96, 4, shared));
		assert_memory_equal(alone, shared, sizeof alone);
		/* b goes on otherwise in the middle of a page that is a's too: a does not see it */
		assert_true(run(&f, a, f.text + 100, 20, alone));
		f.b->truncate(b, 70);
		assert_true(run(&f, b, f.text, 20, shared));
		same_as_computed_at_once(&f, way->type[t], 70, 20, shared);
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

void equal_texts_hold_one_memory(void** state) {
	const struct pages_way* way = *state;
	struct fixture f;
	float logits[VOCAB];
	open_backend(&f, way, ROPE_NONE, 16);
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

void what_is_not_the_models_text_is_not_found(void** state) {
	const struct pages_way* way = *state;
	struct fixture f;
	float logits[VOCAB];
	open_backend(&f, way, ROPE_DYNAMIC, 0); /* keys that depend on the prompt's length */
	struct cache *a = open_cache(&f, DTYPE_F16), *b = open_cache(&f, DTYPE_F16);
	assert_true(run(&f, a, f.text, 100, logits));
	assert_int_equal(f.b->adopt(b, f.text, 100), 0);
	assert_int_equal(f.b->adopt(a, f.text, 100), 100);
	f.b->cache_close(a);
	f.b->cache_close(b);
	close_backend(&f);
	struct mask skip = {.word = {0}}; /* what not all of the model ran */
	mask_set(&skip, 3, true);
	open_backend(&f, way, ROPE_NONE, 0);
	a = open_cache(&f, DTYPE_F16);
	b = open_cache(&f, DTYPE_F16);
	assert_true(run(&f, a, f.text, 40, logits) && run_with(&f, a, f.text + 40, 60, &skip, logits));
	assert_int_equal(f.b->adopt(b, f.text, 100), PAGE_SLOTS);
	f.b->cache_close(a);
	f.b->cache_close(b);
	close_backend(&f);
}

/* The same tokens of another tenant are other text: neither found nor held together, though they are alike.
 */
void tenants_find_their_own_alone(void** state) {
	const struct pages_way* way = *state;
	struct fixture f;
	float first[VOCAB], second[VOCAB];
	open_backend(&f, way, ROPE_NONE, 16);
	struct cache *a = open_cache(&f, DTYPE_F16), *b = open_cache(&f, DTYPE_F16),
	             *c = open_cache(&f, DTYPE_F16);
	a->tenant = 1;
	b->tenant = 2;
	c->tenant = 1;
	assert_true(run(&f, a, f.text, 100, first));
	assert_int_equal(f.b->adopt(b, f.text, 99), 0);
	assert_true(run(&f, b, f.text, 100, second));
	assert_memory_equal(first, second, sizeof first);
	assert_int_equal(f.b->room(a), (16 - 2 * 4) * PAGE_SLOTS);
	assert_int_equal(f.b->adopt(c, f.text, 99), 96);
	/* what a tenant left is not found when the cache becomes another's */
	f.b->truncate(c, 0);
	c->tenant = 3;
	assert_int_equal(f.b->adopt(c, f.text, 99), 0);
	c->tenant = 2;
	assert_int_equal(f.b->adopt(c, f.text, 99), 96);
	assert_true(run(&f, c, f.text + 96, 4, second));
	assert_memory_equal(first, second, sizeof first);
	f.b->cache_close(a);
	f.b->cache_close(b);
	f.b->cache_close(c);
	close_backend(&f);
}

void too_little_memory_is_refused(void** state) {
	const struct pages_way* way = *state;
	struct fixture f;
	struct error error;
	open_backend(&f, way, ROPE_NONE, 15); /* 200 tokens, 256 rows, and a copy: 16 */
	assert_null(f.b->cache_open(f.b, CONTEXT, DTYPE_F16, &error));
	assert_non_null(strstr(error.message, "cache of 200 tokens"));
	close_backend(&f);
	open_backend(&f, way, ROPE_NONE, 0);
	struct cache* c = open_cache(&f, DTYPE_F16);
	f.b->cache_close(c);
	assert_null(f.b->cache_open(f.b, CONTEXT, way->refused, &error));
	assert_non_null(strstr(error.message, dtype_name(way->refused)));
	close_backend(&f);
}

/* Rows 2i of a tree are the path that is kept, rows 2i + 1 the others: each row on the path has two children.
 */
enum { FORKS = 45 };
static void commit_every_second(struct fixture* f, struct cache* c, const int32_t* token) {
	int32_t tree[2 * FORKS], parent[2 * FORKS], path[FORKS];
	float logits[VOCAB];
	for (int i = 0; i < 2 * FORKS; i++) {
		tree[i] = i % 2 ? (token[i / 2] + 1) % VOCAB : token[i / 2];
		parent[i] = i / 2 * 2 - 2 < 0 ? -1 : i / 2 * 2 - 2;
		path[i / 2] = i / 2 * 2;
	}
	const struct segment s = {.cache = c, .base = c->committed, .n = 2 * FORKS};
	assert_true(
	    run_rows(f, &s, 1, (struct rows){.token = tree, .parent = parent, .n = 2 * FORKS, .logits = logits}));
	f->b->commit(c, path, FORKS);
}

void a_path_is_kept_over_borders(void** state) {
	const struct pages_way* way = *state;
	for (int t = 0; t < way->n_types; t++)
		for (int from = 27; from <= 32; from += 5) {
			struct fixture f;
			float plain[VOCAB], kept[VOCAB], found[VOCAB];
			open_backend(&f, way, ROPE_NONE, 0);
			struct cache *a = open_cache(&f, way->type[t]), *b = open_cache(&f, way->type[t]);
			assert_true(run(&f, a, f.text, from, plain));
			commit_every_second(&f, a, f.text + from);
			assert_int_equal(a->committed, from + FORKS);
			assert_true(run(&f, a, f.text + from + FORKS, 3, kept));
			/* whose pages hold what they say */
			const int shared = (from + FORKS) / PAGE_SLOTS * PAGE_SLOTS;
			assert_int_equal(f.b->adopt(b, f.text, from + FORKS), shared);
			assert_true(run(&f, b, f.text + shared, from + FORKS + 3 - shared, found));
			f.b->cache_close(b);
			b = open_cache(&f, way->type[t]);
			assert_true(run(&f, b, f.text, from + FORKS + 3, plain));
			assert_memory_equal(plain, kept, sizeof plain);
			assert_memory_equal(plain, found, sizeof plain);
			f.b->cache_close(a);
			f.b->cache_close(b);
			close_backend(&f);
		}
}

/* Two that share a prefix in one pass, the second with rows behind another text of its own. */
void those_who_share_go_on_together(void** state) {
	const struct pages_way* way = *state;
	struct fixture f;
	float alone[VOCAB], together[VOCAB];
	open_backend(&f, way, ROPE_NONE, 0);
	struct cache *a = open_cache(&f, DTYPE_F16), *b = open_cache(&f, DTYPE_F16);
	assert_true(run(&f, a, f.text, 70, alone));
	assert_int_equal(f.b->adopt(b, f.text, 70), 64);
	assert_true(run(&f, b, f.text + 90, 30, alone));
	int32_t token[40], parent[40];
	for (int i = 0; i < 40; i++) {
		token[i] = f.text[120 + i];
		parent[i] = i == 0 || i == 25 ? -1 : i < 25 ? i - 1 : i - 26;
	}
	const struct segment both[] = {{.cache = a, .base = 70, .n = 25}, {.cache = b, .base = 94, .n = 15}};
	assert_true(
	    run_rows(&f, both, 2, (struct rows){.token = token, .parent = parent, .n = 40, .logits = together}));
	f.b->discard(a);
	f.b->discard(b);
	assert_true(run(&f, b, token + 25, 15, alone));
	assert_memory_equal(alone, together, sizeof alone);
	f.b->cache_close(a);
	f.b->cache_close(b);
	close_backend(&f);
}
