/* Recurrent blocks and gated attention on the GPU: the reference's states within what F16 activations round,
 * the same bits however a row is computed, and what is committed, dropped, forgotten and drafted. Linked a
 * second time with the emulated device, so that it also runs where there is no GPU. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/draft_weights.h"
#ifdef SWIFTLET_EMULATED
#include "tests/kernels/cuda_emulation/emulated.h"
#endif
#include "tests/kernels/support_invariance.h"
#include "tests/must.h"

enum { VOCAB = 60, CONTEXT = 700 };

/* Gated DeltaNet in three of four blocks, gated attention in the third (Qwen 3.5). */
static struct model_shape delta_shape(void) {
	struct model_shape shape = random_shape(4, 64, 4, 2, 16, 96, VOCAB);
	shape.context = CONTEXT;
	shape.attention_gated = shape.norm_plus_one = true;
	shape.rope.dim = 4;
	shape.recurrence = (struct recurrence){
	    .key_heads = 2, .value_heads = 4, .key_dim = 12, .value_dim = 24, .kernel = 4, .log_rates = true};
	block_set_put(&shape.recurrent, 0);
	block_set_put(&shape.recurrent, 1);
	block_set_put(&shape.recurrent, 3);
	return shape;
}

/* GGUF's order of heads, a column that registers hold with room, values that are no whole number of units,
 * and a convolution of one token. */
static struct model_shape odd_shape(void) {
	struct model_shape shape = random_shape(2, 64, 2, 1, 32, 32, VOCAB);
	shape.context = CONTEXT;
	shape.recurrence = (struct recurrence){
	    .key_heads = 2, .value_heads = 32, .key_dim = 130, .value_dim = 3, .kernel = 1, .tiled = true};
	block_set_put(&shape.recurrent, 0);
	return shape;
}

/* Gated short convolutions (LFM2). */
static struct model_shape short_shape(void) {
	struct model_shape shape = random_shape(3, 64, 2, 1, 32, 96, VOCAB);
	shape.context = CONTEXT;
	shape.recurrence = (struct recurrence){.value_heads = 1, .value_dim = 64, .kernel = 3};
	block_set_put(&shape.recurrent, 0);
	block_set_put(&shape.recurrent, 2);
	return shape;
}

static struct backend* open_one(bool cuda, const struct weight_table* weights, int devices) {
	const struct backend_options options = {
	    .isa = "reference", .threads = 1, .context = CONTEXT, .devices = devices};
	return must_open(cuda ? cuda_open : cpu_open, weights, &options);
}

static int32_t token_at(int i) { return (i * 13 + i / 5) % VOCAB; }

/* ---- against the reference ------------------------------------------------------------------ */

/* Rows after the committed tokens: a tree where parent is not NULL; their states after each block. */
static void tap(struct backend* b, struct cache* c, int n, const int32_t* parent, int sub_layer, float* out) {
	int32_t token[MAX_ROWS];
	for (int i = 0; i < n; i++)
		token[i] = token_at(c->committed + 7 * i);
	const struct segment segment = {.cache = c, .base = c->committed, .n = n};
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = n,
	                          .n_segments = 1,
	                          .segment = &segment,
	                          .token = token,
	                          .parent = parent,
	                          .last = sub_layer + 1,
	                          .tap = sub_layer,
	                          .tap_out = out};
	must_run(b, &pass);
	b->discard(c);
}

/* Text in chunks of that many tokens, as prefill or as exact rows. */
static void append(struct backend* b, struct cache* c, enum pass_kind kind, int n, int chunk) {
	int32_t token[MAX_ROWS], path[MAX_ROWS];
	static const uint8_t want[MAX_ROWS];
	static struct result out[MAX_ROWS];
	for (const int end = c->committed + n; c->committed < end;) {
		const int count = least(chunk, end - c->committed);
		for (int i = 0; i < count; i++) {
			token[i] = token_at(c->committed + i);
			path[i] = i;
		}
		const struct segment segment = {.cache = c, .base = c->committed, .n = count};
		const struct pass pass = {.kind = kind,
		                          .n = count,
		                          .n_segments = 1,
		                          .segment = &segment,
		                          .token = token,
		                          .last = 2 * b->weights->shape.n_blocks,
		                          .tap = -1,
		                          .want = want,
		                          .out = out};
		must_run(b, &pass);
		if (kind == PASS_EXACT)
			b->commit(c, path, count);
	}
}

static double distance(const float* got, const float* expected, size_t n) {
	double error = 0, size = 0;
	for (size_t i = 0; i < n; i++) {
		const double e = (double)got[i] - (double)expected[i];
		error += e * e;
		size += (double)expected[i] * (double)expected[i];
	}
	return sqrt(error / size); /* not a number when one is */
}

/* A tree in which chains fork at several levels: states are kept, and taken again. */
static const int32_t bushy[] = {-1, 0, 0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 0, 12, 13, -1, 15, 16, 15, 18, 9, 10};
enum { BUSHY = sizeof bushy / sizeof *bushy };

static void compare(const struct random_model* m, struct backend* gpu, struct backend* cpu, struct cache* a,
                    struct cache* b, double bound) {
	const int dim = m->weights.shape.dim, sub_layers = 2 * m->weights.shape.n_blocks;
	float *got = malloc(BUSHY * (size_t)dim * sizeof *got),
	      *expected = malloc(BUSHY * (size_t)dim * sizeof *got);
	assert_int_equal(a->committed, b->committed);
	for (int s = 0; s < sub_layers; s++) {
		memset(got, 0xff, BUSHY * (size_t)dim * sizeof *got);
		tap(gpu, a, BUSHY, bushy, s, got);
		tap(cpu, b, BUSHY, bushy, s, expected);
		const double apart = distance(got, expected, BUSHY * (size_t)dim);
		if (!(apart < bound))
			fail_msg("after %d tokens, sub-layer %d: %g from the reference, bound %g", a->committed, s, apart,
			         bound);
	}
	free(got);
	free(expected);
}

/* After texts that were read by rows of every number, after a path of a tree, and after going back. */
static void agrees(const struct model_shape* shape, const enum dtype* types, int n_types, int with,
                   int devices, double bound) {
	struct random_model* m = random_model_make(shape, types, n_types, with, 31);
	struct backend *gpu = open_one(true, &m->weights, devices), *cpu = open_one(false, &m->weights, 0);
	struct backend* const both[] = {gpu, cpu};
	struct cache* const cache[] = {must_open_cache(gpu, CONTEXT, DTYPE_F16),
	                               must_open_cache(cpu, CONTEXT, DTYPE_F16)};
	compare(m, gpu, cpu, cache[0], cache[1], bound);
	for (int i = 0; i < 2; i++) {
		struct backend* b = both[i];
		struct cache* c = cache[i];
		c->prompt_length = 300;
		append(b, c, PASS_PREFILL, 2, 1);
	}
	compare(m, gpu, cpu, cache[0], cache[1], bound);
	for (int i = 0; i < 2; i++) {
		append(both[i], cache[i], PASS_EXACT, 3, 1);
		append(both[i], cache[i], PASS_EXACT, 70, 70);
	}
	compare(m, gpu, cpu, cache[0], cache[1], bound);
	for (int i = 0; i < 2; i++) {
		both[i]->truncate(cache[i], 10);
		assert_int_equal(cache[i]->committed, 0);
		append(both[i], cache[i], PASS_PREFILL, 300, PREFILL_CHUNK);
	}
	compare(m, gpu, cpu, cache[0], cache[1], bound);
	for (int i = 0; i < 2; i++) { /* the prompt's last whole chunk */
		both[i]->truncate(cache[i], 290);
		assert_int_equal(cache[i]->committed, PREFILL_CHUNK);
	}
	compare(m, gpu, cpu, cache[0], cache[1], bound);
	for (int i = 0; i < 2; i++) {
		both[i]->cache_close(cache[i]);
		both[i]->close(both[i]);
	}
	random_model_free(m);
}

static void delta_rule_agrees(void** state) {
	(void)state;
	const enum dtype half[] = {DTYPE_F16}, brain[] = {DTYPE_BF16};
	const struct model_shape shape = delta_shape();
	agrees(&shape, half, 1, WITH_HEAD_NORMS, 0, 6e-3);
	agrees(&shape, half, 1, WITH_HEAD_NORMS | WITH_BIASES, 1, 6e-3);
	agrees(&shape, brain, 1, 0, 0, 4e-2);
}

static void odd_sizes_agree(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16, DTYPE_Q8_0};
	const struct model_shape shape = odd_shape();
	agrees(&shape, types, 2, 0, 1, 2e-2);
}

static void short_convolutions_agree(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16};
	const struct model_shape shape = short_shape();
	agrees(&shape, types, 1, WITH_HEAD_NORMS, 0, 6e-3);
	agrees(&shape, types, 1, 0, 1, 6e-3);
}

/* ---- the same bits --------------------------------------------------------------------------- */

static struct backend* open_for_invariance(const struct weight_table* weights,
                                           const struct invariance_way* way, int threads,
                                           struct error* error) {
	(void)way;
	(void)threads;
	const struct backend_options options = {.context = INVARIANCE_CONTEXT};
	return cuda_open(weights, &options, error);
}

#ifdef SWIFTLET_EMULATED
/* rows_of_the_delta_rule has other numbers; the emulated device is slow */
static const int sizes[] = {9}, few_sizes[] = {9};
enum {
	TEXT = 40,
	ALONE = 4
}; /* committed tokens, all of which run again for each row; rows that run alone */
#else
enum { TEXT = 0, ALONE = 12 };
static const int sizes[] = {1, 2, 7, 8, 9, 16, 33, 64, 65, 130, 256}, few_sizes[] = {3, 20, 70};
#endif
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static void invariant(const struct model_shape* shape, const enum dtype* types, int n_types, int with,
                      const int* size, int n_sizes) {
	struct random_model* m = random_model_make(shape, types, n_types, with, 14);
	const struct invariance_way way = {
	    .open = open_for_invariance, .cache = DTYPE_F16, .size = size, .n_sizes = n_sizes, .text = TEXT};
	assert_true(invariance_holds(m, &way, 14));
	random_model_free(m);
}

static void delta_rule_is_invariant(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16, DTYPE_Q8_0};
	const struct model_shape shape = delta_shape();
	invariant(&shape, types, 2, WITH_HEAD_NORMS | WITH_BIASES, sizes, COUNT(sizes));
}

static void odd_sizes_are_invariant(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16};
	const struct model_shape shape = odd_shape();
	invariant(&shape, types, 1, 0, few_sizes, COUNT(few_sizes));
}

static void short_convolutions_are_invariant(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16};
	const struct model_shape shape = short_shape();
	invariant(&shape, types, 1, 0, few_sizes, COUNT(few_sizes));
}

/* ---- rows, alone and among others ----------------------------------------------------------------- */

struct fixture {
	struct random_model* model;
	struct backend* b;
	struct cache* c;
};

static void open_fixture(struct fixture* f, const struct model_shape* shape) {
	static const enum dtype type = DTYPE_F16;
	f->model = random_model_make(shape, &type, 1, WITH_HEAD_NORMS, 8);
	f->b = open_one(true, &f->model->weights, 1);
	f->c = must_open_cache(f->b, CONTEXT, DTYPE_F16);
}

static void close_fixture(struct fixture* f) {
	f->b->cache_close(f->c);
	f->b->close(f->b);
	random_model_free(f->model);
}

/* New pending rows, with logits (n, VOCAB). */
static void run_rows(struct fixture* f, int n, const int32_t* token, const int32_t* parent,
                     const struct mask* skip, const struct mask* quantized, float* logits) {
	uint8_t want[MAX_ROWS];
	static struct result out[MAX_ROWS];
	memset(want, WANT_LOGITS, sizeof want);
	for (int i = 0; i < n; i++)
		out[i].logits = logits + (size_t)i * VOCAB;
	const struct segment segment = {.cache = f->c, .base = f->c->committed, .n = n};
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = n,
	                          .n_segments = 1,
	                          .segment = &segment,
	                          .token = token,
	                          .parent = parent,
	                          .skip = skip,
	                          .quantized = quantized,
	                          .last = 2 * f->b->weights->shape.n_blocks,
	                          .head = true,
	                          .tap = -1,
	                          .want = want,
	                          .out = out};
	must_run(f->b, &pass);
}

/* Row i of a tree after its path, each row in a pass of its own. */
static void run_alone(struct fixture* f, const int32_t* token, const int32_t* parent, int i, float* logits) {
	int32_t up[MAX_ROWS];
	int depth = 0;
	for (int at = i; at >= 0; at = parent[at])
		up[depth++] = at;
	for (int k = depth - 1; k >= 0; k--) {
		const int32_t above = f->c->pending - 1;
		run_rows(f, 1, &token[up[k]], &above, NULL, NULL, logits);
	}
	f->b->discard(f->c);
}

/* Trees of 2 to 66 rows, chains among them and forks on forks; a slice has 64. */
static void bits_do_not_depend_on_rows(const struct model_shape* shape) {
	static const int size[] = {2, 33, 64, 66};
	static float together[MAX_ROWS * VOCAB], alone[VOCAB];
	struct random r = {4};
	struct fixture f;
	open_fixture(&f, shape);
	append(f.b, f.c, PASS_EXACT, 5, 5);
	for (size_t k = 0; k < sizeof size / sizeof *size; k++) {
		int32_t token[MAX_ROWS], parent[MAX_ROWS];
		const int n = size[k];
		for (int i = 0; i < n; i++) {
			token[i] = random_below(&r, VOCAB);
			parent[i] = i - 1 - random_below(&r, k == 2 ? 1 + i / 2 : 3);
			parent[i] = parent[i] < 0 ? -1 : parent[i];
		}
		run_rows(&f, n, token, parent, NULL, NULL, together);
		f.b->discard(f.c);
		for (int i = n - 1; i >= 0; i -= 1 + n / ALONE) {
			run_alone(&f, token, parent, i, alone);
			assert_memory_equal(together + (size_t)i * VOCAB, alone, sizeof alone);
		}
	}
	close_fixture(&f);
}

static void rows_of_the_delta_rule(void** state) {
	(void)state;
	const struct model_shape shape = delta_shape();
	bits_do_not_depend_on_rows(&shape);
}

static void rows_of_short_convolutions(void** state) {
	(void)state;
	const struct model_shape shape = short_shape();
	bits_do_not_depend_on_rows(&shape);
}

/* ---- commit ------------------------------------------------------------------------------------ */

/* Each path of a tree is committed, the one that the tip ends too; the next token is as after the same tokens
 * one by one. More pending rows than one pass gave are dropped with them. */
static void paths_are_committed(void** state) {
	(void)state;
	static float logits[MAX_ROWS * VOCAB], next[VOCAB], expected[VOCAB];
	const struct model_shape shape = delta_shape();
	const int32_t last = 9;
	struct fixture f;
	open_fixture(&f, &shape);
	int32_t token[BUSHY + 1], parent[BUSHY + 1];
	for (int i = 0; i < BUSHY; i++) {
		token[i] = token_at(3 * i + 1);
		parent[i] = bushy[i];
	}
	for (int leaf = 0; leaf < BUSHY; leaf += 3) {
		int32_t path[BUSHY], up[BUSHY];
		int depth = 0;
		for (int at = leaf; at >= 0; at = bushy[at])
			up[depth++] = at;
		for (int i = 0; i < depth; i++)
			path[i] = up[depth - 1 - i];
		f.b->truncate(f.c, 0);
		append(f.b, f.c, PASS_EXACT, 4, 1);
		for (int i = 0; i < depth; i++) {
			const int32_t first = 0, root = -1;
			run_rows(&f, 1, &token[path[i]], &root, NULL, NULL, logits);
			f.b->commit(f.c, &first, 1);
		}
		run_rows(&f, 1, &last, NULL, NULL, NULL, expected);
		for (int more = 0; more < 2; more++) {
			f.b->truncate(f.c, 0);
			append(f.b, f.c, PASS_EXACT, 4, 4);
			run_rows(&f, BUSHY, token, parent, NULL, NULL, logits);
			const int32_t above = leaf;
			if (more)
				run_rows(&f, 1, &last, &above, NULL, NULL, next);
			assert_true(!more || memcmp(next, expected, sizeof next) == 0);
			f.b->commit(f.c, path, depth);
			run_rows(&f, 1, &last, NULL, NULL, NULL, next);
			assert_memory_equal(next, expected, sizeof next);
		}
	}
	close_fixture(&f);
}

/* What was dropped leaves nothing behind: not when pending rows of the same numbers come again. */
static void discarded_rows_are_forgotten(void** state) {
	(void)state;
	static float first[4 * VOCAB], again[4 * VOCAB], other[4 * VOCAB];
	static const int32_t token[] = {3, 14, 15, 9}, others[] = {2, 7, 18, 28};
	const int32_t path[] = {0, 1};
	const struct model_shape shape = delta_shape();
	struct fixture f;
	open_fixture(&f, &shape);
	append(f.b, f.c, PASS_EXACT, 6, 3);
	run_rows(&f, 4, token, NULL, NULL, NULL, first);
	f.b->discard(f.c);
	run_rows(&f, 3, others, NULL, NULL, NULL, other);
	f.b->discard(f.c);
	for (int i = 0; i < 4; i++) {
		const int32_t above = i - 1;
		run_rows(&f, 1, &token[i], &above, NULL, NULL, again + i * VOCAB);
	}
	assert_memory_equal(first, again, sizeof first);
	f.b->commit(f.c, path, 0);
	run_rows(&f, 4, token, NULL, NULL, NULL, again);
	assert_memory_equal(first, again, sizeof first);
	close_fixture(&f);
}

/* ---- the draft loop ------------------------------------------------------------------------------ */

enum { STEPS = 9 };

static int best_of(const float* logits) {
	int best = 0;
	for (int v = 1; v < VOCAB; v++)
		best = logits[v] > logits[best] ? v : best;
	return best;
}

/* The loop's tokens are those of one row after another; then the whole chain is verified, and part of it is
 * kept, over and over. */
static void loops(struct fixture* f, const struct mask* skip, const struct mask* quantized) {
	struct draft_policy policy = {.max_steps = STEPS, .top = 1};
	struct result out[STEPS];
	float logits[(STEPS + 1) * VOCAB];
	struct error error = {""};
	for (int i = 0; i < DRAFT_BINS; i++)
		policy.accept[i] = 1;
	assert_non_null(f->b->draft);
	int32_t token = 5;
	for (int round = 0; round < 4; round++) {
		const struct segment chain = {.cache = f->c, .base = f->c->committed, .n = 1};
		memset(out, 0, sizeof out);
		assert_int_equal(f->b->draft(f->b, &chain, token, skip, quantized, false, NULL, &policy, out, &error),
		                 STEPS);
		f->b->discard(f->c);
		int32_t tree[STEPS + 1] = {token}, path[STEPS + 1];
		for (int i = 0; i < STEPS; i++) {
			const int32_t above = i - 1;
			run_rows(f, 1, &tree[i], &above, skip, quantized, logits);
			tree[i + 1] = best_of(logits);
			assert_int_equal(out[i].token, tree[i + 1]);
			path[i] = i;
		}
		f->b->discard(f->c);
		run_rows(f, STEPS + 1, tree, NULL, NULL, NULL, logits);
		for (int i = 0; i < STEPS && !skip && !quantized; i++) /* whatever a row alone leaves behind */
			assert_int_equal(out[i].token, best_of(logits + i * VOCAB));
		f->b->commit(f->c, path, 1 + 2 * round);
		token = best_of(logits + 2 * round * VOCAB);
	}
}

static void the_loop_steps_through_states(void** state) {
	(void)state;
	const struct model_shape shape = delta_shape(), shorter = short_shape();
	struct mask skip = {.word = {0}};
	struct fixture f;
	mask_set(&skip, 2, true);
	mask_set(&skip, 3, true);
	open_fixture(&f, &shape);
	loops(&f, NULL, NULL);
	loops(&f, &skip, NULL);
	close_fixture(&f);
	open_fixture(&f, &shorter);
	loops(&f, NULL, NULL);
	close_fixture(&f);
}

/* A pass with quantized draft weights has the bits of a model that holds them as its own; the loop has them
 * too. */
static void quantized_drafts(void** state) {
	(void)state;
	const struct model_shape shape = delta_shape();
	struct draft_weights quantized;
	struct block_weights block[4];
	struct error error = {""};
	const struct draft_weights_format format = {.bits = 8};
	const int32_t token[] = {3, 1, 4, 1}, parent[] = {-1, 0, 1, 0};
	float stored[4 * VOCAB], rough[4 * VOCAB], expected[4 * VOCAB];
	struct fixture f, own;
	open_fixture(&f, &shape);
	assert_true(draft_weights_plan(&quantized, &f.model->weights, format, &error));
	const size_t bytes = (quantized.bytes + DRAFT_WEIGHTS_ALIGNMENT - 1) / DRAFT_WEIGHTS_ALIGNMENT;
	void* data = aligned_alloc(DRAFT_WEIGHTS_ALIGNMENT, bytes * DRAFT_WEIGHTS_ALIGNMENT);
	draft_weights_place(&quantized, data);
	assert_true(draft_weights_make(&quantized, data, 1, NULL, NULL, &error));
	if (!f.b->use_draft_weights(f.b, &quantized, &error))
		fail_msg("%s", error.message);
	run_rows(&f, 4, token, parent, NULL, NULL, stored);
	f.b->discard(f.c);
	run_rows(&f, 4, token, parent, NULL, &quantized.sub_layers, rough);
	f.b->discard(f.c);
	assert_memory_not_equal(stored, rough, sizeof stored);
	struct weight_table table = f.model->weights;
	for (int i = 0; i < shape.n_blocks; i++) {
		assert_true(mask_has(&quantized.sub_layers, 2 * i));
		block[i] = quantized.block[i];
	}
	table.block = block;
	own = (struct fixture){.model = f.model, .b = open_one(true, &table, 1)};
	own.c = must_open_cache(own.b, CONTEXT, DTYPE_F16);
	run_rows(&own, 4, token, parent, NULL, NULL, expected);
	assert_memory_equal(rough, expected, sizeof expected);
	own.b->cache_close(own.c);
	own.b->close(own.b);
	loops(&f, NULL, &quantized.sub_layers);
	close_fixture(&f);
	free(data);
	draft_weights_close(&quantized);
}

/* ---- prefixes -------------------------------------------------------------------------------------- */

/* A cache finds what it has itself: all of it, or down to the last whole chunk of its prompt, or nothing. */
static void a_cache_finds_its_own_states(void** state) {
	(void)state;
	const struct model_shape shape = delta_shape();
	int32_t text[320];
	float expected[VOCAB], got[VOCAB];
	const int32_t last = 11;
	struct fixture f;
	open_fixture(&f, &shape);
	for (int i = 0; i < 320; i++)
		text[i] = token_at(i);
	struct cache* other = must_open_cache(f.b, CONTEXT, DTYPE_F16);
	f.c->prompt_length = other->prompt_length = 300;
	append(f.b, f.c, PASS_PREFILL, 300, PREFILL_CHUNK);
	run_rows(&f, 1, &last, NULL, NULL, NULL, expected);
	f.b->discard(f.c);
	assert_int_equal(f.b->adopt(other, text, 300), 0);
	assert_int_equal(f.b->adopt(f.c, text, 310), 300);
	run_rows(&f, 1, &last, NULL, NULL, NULL, got);
	assert_memory_equal(got, expected, sizeof got);
	f.b->discard(f.c);
	assert_int_equal(f.b->adopt(f.c, text, 299), PREFILL_CHUNK);
	append(f.b, f.c, PASS_EXACT, 44, 10);
	run_rows(&f, 1, &last, NULL, NULL, NULL, got);
	assert_memory_equal(got, expected, sizeof got);
	f.b->discard(f.c);
	text[200]++;
	assert_int_equal(f.b->adopt(f.c, text, 300), 0);
	append(f.b, f.c, PASS_EXACT, 300, 150);
	run_rows(&f, 1, &last, NULL, NULL, NULL, got);
	assert_memory_equal(got, expected, sizeof got);
	f.b->cache_close(other);
	close_fixture(&f);
}

/* ---- what is refused ----------------------------------------------------------------------------- */

static void expect_refusal(const struct model_shape* shape, int devices, const char* words) {
	static const enum dtype type = DTYPE_F16;
	struct random_model* m = random_model_make(shape, &type, 1, 0, 3);
	struct error error = {""};
	const struct backend_options options = {.context = CONTEXT, .devices = devices};
	assert_null(cuda_open(&m->weights, &options, &error));
	if (!strstr(error.message, words))
		fail_msg("\"%s\" has no \"%s\"", error.message, words);
	random_model_free(m);
}

static void refusals(void** state) {
	(void)state;
	struct model_shape shape = delta_shape();
	expect_refusal(&shape, 2, "several GPUs cannot share a model with recurrent blocks");
	shape.recurrence.state_space = true;
	expect_refusal(&shape, 0, "state-space blocks (Mamba-2)");
	shape = delta_shape();
	shape.recurrence.key_dim = 257;
	expect_refusal(&shape, 0, "keys of up to 256 elements");
	shape = delta_shape();
	shape.recurrence.value_dim = 20;
	expect_refusal(&shape, 0, "a multiple of 32 values; this model's have 12 and 80");
	shape = delta_shape();
	shape.recurrence.kernel = 17;
	expect_refusal(&shape, 0, "a convolution of 17");
	shape = delta_shape();
	shape.recurrent_out_scale = 0.5f;
	expect_refusal(&shape, 0, "does not scale residuals");
}

/* ---- launches -------------------------------------------------------------------------------------- */

#ifdef SWIFTLET_EMULATED
static void expect_launches(const struct model_shape* shape, unsigned long pass) {
	float logits[VOCAB];
	const int32_t token = 3, first = 0;
	struct fixture f;
	open_fixture(&f, shape);
	const unsigned long before = emulated_counts().launches;
	run_rows(&f, 1, &token, NULL, NULL, NULL, logits);
	assert_int_equal(emulated_counts().launches - before, pass);
	f.b->commit(f.c, &first, 1);
	run_rows(&f, 1, &token, NULL, NULL, NULL, logits);
	assert_int_equal(emulated_counts().launches - before, 2 * pass + 1);
	f.b->discard(f.c);
	close_fixture(&f);
}

/* As docs/gpu.md counts them: seven a block of the delta rule, six with gated attention, five a short
 * convolution and with attention, and seven more a pass; a commit is one. */
static void launches_are_counted(void** state) {
	(void)state;
	const struct model_shape shape = delta_shape(), shorter = short_shape();
	expect_launches(&shape, 3 * 7 + 6 + 7);
	expect_launches(&shorter, 3 * 5 + 7);
}
#endif

int main(void) {
	if (!gpu_is_here())
		return 77;
	const struct CMUnitTest tests[] = {cmocka_unit_test(delta_rule_agrees),
	                                   cmocka_unit_test(odd_sizes_agree),
	                                   cmocka_unit_test(short_convolutions_agree),
	                                   cmocka_unit_test(rows_of_the_delta_rule),
	                                   cmocka_unit_test(rows_of_short_convolutions),
	                                   cmocka_unit_test(paths_are_committed),
	                                   cmocka_unit_test(discarded_rows_are_forgotten),
	                                   cmocka_unit_test(the_loop_steps_through_states),
	                                   cmocka_unit_test(quantized_drafts),
	                                   cmocka_unit_test(a_cache_finds_its_own_states),
	                                   cmocka_unit_test(refusals),
#ifdef SWIFTLET_EMULATED
	                                   cmocka_unit_test(launches_are_counted),
#endif
	                                   cmocka_unit_test(delta_rule_is_invariant),
	                                   cmocka_unit_test(odd_sizes_are_invariant),
	                                   cmocka_unit_test(short_convolutions_are_invariant)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
