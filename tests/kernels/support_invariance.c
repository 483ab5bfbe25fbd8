/* Everything that must not change a row's bits, tried on one backend. See the header. */
#include "tests/kernels/support_invariance.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/must.h"

enum { TEXT = 120 };

/* ---- one-row decoding ------------------------------------------------------------------------ */

struct alone {
	struct backend* backend;
	struct cache* cache;
	struct {
		int32_t token;
		const struct mask* skip;
	} held[TEXT + MAX_ROWS + 1]; /* what stands at a position */
};

static int sub_layers(const struct backend* b) { return 2 * b->weights->shape.n_blocks; }

/* One token, alone, then committed. */
static void step(struct alone* a, int32_t token, const struct mask* skip, const struct sampler* sampler,
                 struct result* out) {
	const struct segment segment = {
	    .cache = a->cache, .base = a->cache->committed, .n = 1, .sampler = sampler};
	const uint8_t want = WANT_TOKEN | WANT_TOP | WANT_LOG_SUM_EXP | WANT_LOGITS;
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = 1,
	                          .n_segments = 1,
	                          .segment = &segment,
	                          .token = &token,
	                          .skip = skip,
	                          .last = sub_layers(a->backend),
	                          .head = out != NULL,
	                          .tap = -1,
	                          .want = &want,
	                          .out = out};
	must_run(a->backend, &pass);
	const int32_t path = 0;
	a->held[a->cache->committed].token = token;
	a->held[a->cache->committed].skip = skip;
	a->backend->commit(a->cache, &path, 1);
}

/* Recurrent blocks have few positions' states: from the nearest on the rows run again. */
static void go_back(struct alone* a, int position) {
	a->backend->truncate(a->cache, position);
	while (a->cache->committed < position) {
		const int at = a->cache->committed;
		step(a, a->held[at].token, a->held[at].skip, NULL, NULL);
	}
}

static void stand_at(struct alone* a, const int32_t* text, int base) {
	if (a->cache->committed > base)
		go_back(a, base);
	while (a->cache->committed < base)
		step(a, text[a->cache->committed], NULL, NULL, NULL);
}

/* ---- rows and what is expected of them --------------------------------------------------------- */

struct tree {
	int n, sub_layers;
	int32_t token[MAX_ROWS], parent[MAX_ROWS];
	uint8_t want[MAX_ROWS];
	int top[MAX_ROWS]; /* entries asked for */
	struct result expected[MAX_ROWS], got[MAX_ROWS];
	float* logits; /* (2, n, vocab) expected, got */
};

static struct tree* tree_make(struct random* r, int n, const struct model_shape* shape) {
	const int vocab = shape->vocab;
	struct tree* t = calloc(1, sizeof *t);
	t->n = n;
	t->sub_layers = 2 * shape->n_blocks;
	t->logits = calloc((size_t)2 * (size_t)n * (size_t)vocab, sizeof(float));
	for (int i = 0; i < n; i++) {
		t->token[i] = random_below(r, vocab);
		/* mostly bushy, now and then a chain; roots too */
		const int back = random_below(r, 4) ? 1 + random_below(r, 5) : 1;
		t->parent[i] = i < back || random_below(r, 12) == 0 ? -1 : i - back;
		t->want[i] =
		    random_below(r, 5) ? WANT_TOKEN | WANT_TOP | WANT_LOG_SUM_EXP | WANT_LOGITS : WANT_NOTHING;
		t->expected[i].logits = t->logits + (size_t)i * (size_t)vocab;
		t->got[i].logits = t->logits + (size_t)(n + i) * (size_t)vocab;
		t->top[i] = 1 + random_below(r, MAX_TOP);
		t->expected[i].top = t->got[i].top = t->top[i];
	}
	return t;
}

static void tree_free(struct tree* t) {
	free(t->logits);
	free(t);
}

/* Row i at the given depth, then those that follow it. */
static void visit(struct tree* t, struct alone* a, int i, int position, const struct mask* skip,
                  const struct sampler* sampler) {
	go_back(a, position);
	step(a, t->token[i], skip, sampler, t->want[i] == WANT_NOTHING ? NULL : &t->expected[i]);
	for (int j = i + 1; j < t->n; j++)
		if (t->parent[j] == i)
			visit(t, a, j, position + 1, skip, sampler);
}

static void expect_alone(struct tree* t, struct alone* a, const int32_t* text, int base,
                         const struct mask* skip, const struct sampler* sampler) {
	stand_at(a, text, base);
	for (int i = 0; i < t->n; i++)
		t->expected[i].top = t->top[i];
	for (int i = 0; i < t->n; i++)
		if (t->parent[i] < 0)
			visit(t, a, i, base, skip, sampler);
	go_back(a, base);
}

static void compare(struct tree* t, int vocab, const char* what) {
	for (int i = 0; i < t->n; i++) {
		if (t->want[i] == WANT_NOTHING)
			continue;
		const struct result *e = &t->expected[i], *g = &t->got[i];
		if (memcmp(e->logits, g->logits, (size_t)vocab * sizeof(float)) != 0)
			fail_msg("%s: the logits of row %d of %d differ from one-row decoding", what, i, t->n);
		if (e->token != g->token || e->top != g->top ||
		    memcmp(&e->log_sum_exp, &g->log_sum_exp, sizeof(float)) != 0 ||
		    memcmp(e->top_token, g->top_token, (size_t)e->top * sizeof(int32_t)) != 0 ||
		    memcmp(e->top_probability, g->top_probability, (size_t)e->top * sizeof(float)) != 0)
			fail_msg("%s: the result of row %d of %d differs from one-row decoding", what, i, t->n);
	}
	memset(t->logits + (size_t)t->n * (size_t)vocab, 0xff, (size_t)t->n * (size_t)vocab * sizeof(float));
	for (int i = 0; i < t->n; i++) {
		float* logits = t->got[i].logits;
		const int top = t->top[i];
		memset(&t->got[i], 0xff, sizeof t->got[i]);
		t->got[i].logits = logits;
		t->got[i].top = top;
	}
}

/* ---- the other ways ------------------------------------------------------------------------------ */

struct bench {
	const struct random_model* model;
	struct backend* backend;
	struct cache* cache;
	struct alone alone;
	int32_t text[TEXT];
	struct random random;
	int committed; /* how many of text the cache holds */
	int most;      /* of text that is committed */
};

static struct pass pass_of(struct bench* b, struct tree* t, const struct segment* segment,
                           const struct mask* skip) {
	return (struct pass){.kind = PASS_EXACT,
	                     .n = t->n,
	                     .n_segments = 1,
	                     .segment = segment,
	                     .token = t->token,
	                     .parent = t->parent,
	                     .skip = skip,
	                     .last = sub_layers(b->backend),
	                     .head = true,
	                     .tap = -1,
	                     .want = t->want,
	                     .out = t->got};
}

static void whole(struct bench* b, struct tree* t, int base, const struct mask* skip,
                  const struct sampler* sampler) {
	const struct segment segment = {.cache = b->cache, .base = base, .n = t->n, .sampler = sampler};
	const struct pass pass = pass_of(b, t, &segment, skip);
	must_run(b->backend, &pass);
	b->backend->discard(b->cache);
	compare(t, b->model->weights.shape.vocab, "one pass");
}

static void in_pieces(struct bench* b, struct tree* t, int base, const struct mask* skip,
                      const struct sampler* sampler) {
	for (int done = 0, n; done < t->n; done += n) {
		n = 1 + random_below(&b->random, t->n - done);
		const struct segment segment = {.cache = b->cache, .base = base, .n = n, .sampler = sampler};
		struct pass pass = pass_of(b, t, &segment, skip);
		pass.n = n;
		pass.token += done;
		pass.parent += done;
		pass.want += done;
		pass.out += done;
		must_run(b->backend, &pass);
	}
	b->backend->discard(b->cache);
	compare(t, b->model->weights.shape.vocab, "pieces");
}

/* A place where a pass may end and another go on: not within a block whose sub-layers are parallel. */
static int cut_before(const struct bench* b, int sub_layer) {
	return !b->model->weights.shape.parallel || sub_layer % 2 == 0 ? sub_layer
	       : sub_layer > 1                                         ? sub_layer - 1
	                                                               : 2;
}

/* Below sub-layer s first, the rest later, for the rows that are wanted and those they stand on. */
static void in_spans(struct bench* b, struct tree* t, int base, const struct sampler* sampler) {
	const int s = cut_before(b, 1 + random_below(&b->random, sub_layers(b->backend) - 1));
	const struct segment segment = {.cache = b->cache, .base = base, .n = t->n, .sampler = sampler};
	struct pass below = pass_of(b, t, &segment, NULL);
	below.last = s;
	below.head = random_below(&b->random, 2); /* an early exit's logits: no one asks for them here */
	must_run(b->backend, &below);
	for (int i = 0; i < t->n; i++)
		t->got[i].top = t->top[i];
	assert_true(b->backend->rewind(b->cache, s));
	assert_false(b->backend->rewind(b->cache, s + 1));
	int32_t row[MAX_ROWS];
	for (int i = 0; i < t->n; i++)
		row[i] = i;
	struct pass above = pass_of(b, t, &segment, NULL);
	above.first = s;
	above.row = row;
	above.token = NULL;
	must_run(b->backend, &above);
	compare(t, b->model->weights.shape.vocab, "spans");
	b->backend->discard(b->cache);
}

/* Results and the states they come from in one pass, as matchness wants them; the states without a head. */
static void tapped_at_the_end(struct bench* b, struct tree* t, int base, const struct mask* skip,
                              const struct sampler* sampler) {
	const size_t floats = (size_t)t->n * (size_t)b->model->weights.shape.dim;
	float *tapped = calloc(floats, sizeof *tapped), *again = calloc(floats, sizeof *again);
	const struct segment segment = {.cache = b->cache, .base = base, .n = t->n, .sampler = sampler};
	struct pass pass = pass_of(b, t, &segment, skip);
	pass.tap = pass.last - 1;
	pass.tap_out = tapped;
	must_run(b->backend, &pass);
	b->backend->discard(b->cache);
	compare(t, b->model->weights.shape.vocab, "tap at the end");
	pass.tap_out = again;
	pass.head = false;
	must_run(b->backend, &pass);
	b->backend->discard(b->cache);
	assert_memory_equal(tapped, again, floats * sizeof *tapped);
	free(tapped);
	free(again);
}

/* The whole model with a tap, back to the tap, and on from there again, with part of the rows. */
static void with_tap(struct bench* b, struct tree* t, int base, const struct sampler* sampler) {
	const int dim = b->model->weights.shape.dim;
	const int tap = cut_before(b, 1 + random_below(&b->random, sub_layers(b->backend) - 1)) - 1;
	float* tapped = calloc((size_t)t->n * (size_t)dim, sizeof *tapped);
	const struct segment segment = {.cache = b->cache, .base = base, .n = t->n, .sampler = sampler};
	struct pass pass = pass_of(b, t, &segment, NULL);
	pass.tap = tap;
	pass.tap_out = tapped;
	must_run(b->backend, &pass);
	compare(t, b->model->weights.shape.vocab, "tap");
	assert_true(b->backend->rewind(b->cache, tap + 1));
	float* again = calloc((size_t)t->n * (size_t)dim, sizeof *again);
	int32_t row[MAX_ROWS];
	for (int i = 0; i < t->n; i++)
		row[i] = i;
	pass.first = tap + 1;
	pass.row = row;
	pass.tap = -1;
	must_run(b->backend, &pass);
	compare(t, b->model->weights.shape.vocab, "after the tap");
	b->backend->discard(b->cache);
	pass.first = 0;
	pass.tap = tap;
	pass.tap_out = again;
	pass.last = tap + 1;
	pass.head = false;
	must_run(b->backend, &pass);
	assert_memory_equal(tapped, again, (size_t)t->n * (size_t)dim * sizeof *tapped);
	b->backend->discard(b->cache);
	free(tapped);
	free(again);
}

/* The rows up to sub-layer s, then new rows from their states: the same as one pass. They hold nothing below
 * s, so that there is no way back. */
static void from_states(struct bench* b, struct tree* t, int base, const struct sampler* sampler) {
	const int s = cut_before(b, 1 + random_below(&b->random, t->sub_layers - 1));
	if (shape_needs_tokens(&b->model->weights.shape))
		return;
	float* state = calloc((size_t)t->n * (size_t)b->model->weights.shape.dim, sizeof *state);
	const struct segment segment = {.cache = b->cache, .base = base, .n = t->n, .sampler = sampler};
	struct pass pass = pass_of(b, t, &segment, NULL);
	pass.last = s;
	pass.head = false;
	pass.tap = s - 1;
	pass.tap_out = state;
	must_run(b->backend, &pass);
	b->backend->discard(b->cache);
	pass.first = s;
	pass.last = t->sub_layers;
	pass.state = state;
	pass.token = NULL;
	pass.head = true;
	pass.tap = -1;
	must_run(b->backend, &pass);
	assert_int_equal(b->cache->pending, t->n);
	assert_false(b->backend->rewind(b->cache, t->sub_layers));
	b->backend->discard(b->cache);
	compare(t, b->model->weights.shape.vocab, "states");
	free(state);
}

/* The rows' states after sub-layer s alone, or before any where s is -1. */
static void states_after(struct bench* b, struct pass pass, const struct mask* skip, int s, float* out) {
	struct mask mask = skip ? *skip : (struct mask){.word = {0}};
	if (s < 0)
		mask_set(&mask, 0, true);
	pass.skip = &mask;
	pass.tap = s < 0 ? 0 : s;
	pass.last = pass.tap + 1;
	pass.tap_out = out;
	pass.head = false;
	must_run(b->backend, &pass);
	b->backend->discard(b->cache);
}

/* The first row's states after each sub-layer are what taps give, and asking for them changes nothing. */
static void states_of_the_first(struct bench* b, struct tree* t, int base, const struct sampler* sampler) {
	const size_t dim = (size_t)b->model->weights.shape.dim;
	float* states = calloc(((size_t)t->sub_layers + (size_t)t->n) * dim, sizeof *states);
	float* tapped = states + (size_t)t->sub_layers * dim;
	const struct segment segment = {.cache = b->cache, .base = base, .n = t->n, .sampler = sampler};
	struct pass pass = pass_of(b, t, &segment, NULL);
	pass.states = states;
	must_run(b->backend, &pass);
	b->backend->discard(b->cache);
	compare(t, b->model->weights.shape.vocab, "states of the first row");
	pass.states = NULL;
	for (int s = 0; s < t->sub_layers; s++) {
		states_after(b, pass, NULL, s, tapped);
		assert_memory_equal(states + (size_t)s * dim, tapped, dim * sizeof *states);
	}
	free(states);
}

/* Rows of another sequence before and behind. */
static void batched(struct bench* b, struct tree* t, int base, const struct sampler* sampler) {
	if (t->n > MAX_ROWS - 60)
		return;
	struct cache* other = must_open_cache(b->backend, INVARIANCE_CONTEXT, b->cache->type);
	struct segment segment[3] = {
	    {.cache = other, .n = 37}, {.cache = b->cache, .base = base, .n = t->n}, {.n = 20}};
	struct cache* third = must_open_cache(b->backend, INVARIANCE_CONTEXT, b->cache->type);
	segment[1].sampler = sampler;
	segment[2].cache = third;
	int32_t token[MAX_ROWS], parent[MAX_ROWS];
	uint8_t want[MAX_ROWS] = {0};
	static struct result out[MAX_ROWS];
	for (int i = 0; i < MAX_ROWS; i++) {
		token[i] = random_below(&b->random, b->model->weights.shape.vocab);
		parent[i] = i < 37 ? i - 1 : i - 37 - t->n - 1;
	}
	memcpy(token + 37, t->token, (size_t)t->n * sizeof *token);
	memcpy(parent + 37, t->parent, (size_t)t->n * sizeof *parent);
	memcpy(want + 37, t->want, (size_t)t->n);
	memcpy(out + 37, t->got, (size_t)t->n * sizeof *out);
	struct pass pass = pass_of(b, t, segment, NULL);
	pass.n = 57 + t->n;
	pass.n_segments = 3;
	pass.token = token;
	pass.parent = parent;
	pass.want = want;
	pass.out = out;
	must_run(b->backend, &pass);
	memcpy(t->got, out + 37, (size_t)t->n * sizeof *out);
	compare(t, b->model->weights.shape.vocab, "three sequences");
	b->backend->discard(b->cache);
	b->backend->cache_close(other);
	b->backend->cache_close(third);
}

/* A random leaf's path is committed; the next token is as if it had been decoded alone. */
static void committed_path(struct bench* b, struct tree* t, int base) {
	const struct segment segment = {.cache = b->cache, .base = base, .n = t->n};
	struct pass pass = pass_of(b, t, &segment, NULL);
	pass.head = false;
	must_run(b->backend, &pass);
	int32_t path[MAX_ROWS], up[MAX_ROWS];
	int depth = 0;
	for (int at = random_below(&b->random, t->n); at >= 0; at = t->parent[at])
		up[depth++] = at;
	stand_at(&b->alone, b->text, base);
	for (int i = 0; i < depth; i++) {
		path[i] = up[depth - 1 - i];
		step(&b->alone, t->token[path[i]], NULL, NULL, NULL);
	}
	b->backend->commit(b->cache, path, depth);
	assert_int_equal(b->cache->committed, base + depth);
	assert_int_equal(b->cache->pending, 0);
	struct tree* next = tree_make(&b->random, 1, &b->model->weights.shape);
	next->want[0] = WANT_LOGITS | WANT_TOP | WANT_LOG_SUM_EXP | WANT_TOKEN;
	step(&b->alone, next->token[0], NULL, NULL, &next->expected[0]);
	whole(b, next, base + depth, NULL, NULL);
	tree_free(next);
	b->backend->truncate(b->cache, base);
	go_back(&b->alone, base);
}

/* The text is prefilled in random chunks rather than decoded; where a chunk may round otherwise, it goes
 * through exact passes of many rows. */
static void fill(struct bench* b, int committed) {
	const bool exact = !b->backend->prefill_is_exact;
	static const uint8_t want[MAX_ROWS];
	b->backend->truncate(b->cache, 0);
	while (b->cache->committed < committed) {
		const int left = committed - b->cache->committed;
		const int n = random_below(&b->random, 3) ? 1 + random_below(&b->random, left) : left;
		const struct segment segment = {.cache = b->cache, .base = b->cache->committed, .n = n};
		const struct pass pass = {.kind = exact ? PASS_EXACT : PASS_PREFILL,
		                          .n = n,
		                          .n_segments = 1,
		                          .segment = &segment,
		                          .token = b->text + b->cache->committed,
		                          .last = sub_layers(b->backend),
		                          .want = want,
		                          .tap = -1};
		must_run(b->backend, &pass);
		int32_t path[MAX_ROWS];
		for (int i = 0; i < n; i++)
			path[i] = i;
		if (exact)
			b->backend->commit(b->cache, path, n);
		assert_int_equal(b->cache->committed, segment.base + n);
	}
}

static struct mask random_mask(struct random* r, int n) {
	struct mask m = {.word = {0}};
	for (int i = 0; i < n; i++)
		mask_set(&m, i, random_below(r, 5) < 2);
	return m;
}

/* Rows of one tree, every way. */
static void one_tree(struct bench* b, int n) {
	struct tree* t = tree_make(&b->random, n, &b->model->weights.shape);
	const int committed = 1 + random_below(&b->random, b->most);
	/* Recurrent blocks have no state below the committed tokens. */
	const bool recurrent = b->model->weights.shape.recurrence.value_heads > 0;
	const int base =
	    recurrent || random_below(&b->random, 2) ? committed : random_below(&b->random, committed + 1);
	const struct mask mask = random_mask(&b->random, sub_layers(b->backend));
	const struct sampler sampler = {.temperature = 0.8f,
	                                .top_k = random_below(&b->random, 30),
	                                .top_p = 0.95f,
	                                .min_p = 0.01f,
	                                .seed = 7,
	                                .sequence = 3};
	const struct sampler* sampled = random_below(&b->random, 2) ? &sampler : NULL;
	fill(b, committed);
	expect_alone(t, &b->alone, b->text, base, NULL, sampled);
	whole(b, t, base, NULL, sampled);
	in_pieces(b, t, base, NULL, sampled);
	in_spans(b, t, base, sampled);
	with_tap(b, t, base, sampled);
	from_states(b, t, base, sampled);
	states_of_the_first(b, t, base, sampled);
	tapped_at_the_end(b, t, base, NULL, sampled);
	batched(b, t, base, sampled);
	expect_alone(t, &b->alone, b->text, base, &mask, sampled);
	whole(b, t, base, &mask, sampled);
	tapped_at_the_end(b, t, base, &mask, sampled);
	in_pieces(b, t, base, &mask, sampled);
	b->backend->truncate(b->cache, base);
	committed_path(b, t, base);
	tree_free(t);
}

/* ---- all of it -------------------------------------------------------------------------------- */

bool invariance_holds(const struct random_model* m, const struct invariance_way* way, uint64_t seed) {
	struct error error = {""};
	const int vocab = m->weights.shape.vocab;
	struct backend* one = way->open(&m->weights, way, 1, &error);
	if (!one) {
		print_message("%s\n", error.message);
		return false;
	}
	struct bench b = {.model = m, .random = {seed}, .most = way->text ? way->text : TEXT};
	b.alone = (struct alone){.backend = one, .cache = must_open_cache(one, INVARIANCE_CONTEXT, way->cache)};
	for (int k = 0; k < TEXT; k++)
		b.text[k] = random_below(&b.random, vocab);
	b.alone.cache->prompt_length = 40;
	for (int k = 0; k < way->n_sizes; k++) {
		b.backend = way->open(&m->weights, way, 1 + k % 3, &error);
		if (!b.backend)
			fail_msg("%s", error.message);
		b.cache = must_open_cache(b.backend, INVARIANCE_CONTEXT, way->cache);
		b.cache->prompt_length = 40;
		one_tree(&b, way->size[k]);
		b.backend->cache_close(b.cache);
		b.backend->close(b.backend);
	}
	one->cache_close(b.alone.cache);
	one->close(one);
	return true;
}
