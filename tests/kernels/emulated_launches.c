/* How the CUDA backend's kernels are launched, counted on the emulated device: adds to one address, waits of
 * the host, blocks; and activations that halves cannot hold. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cuda/parts.h"
#include "tests/kernels/cuda_emulation/emulated.h"
#include "tests/kernels/support_random_model.h"
#include "tests/must.h"

static struct backend* open_backend(bool cuda, const struct weight_table* w, int context) {
	const struct backend_options options = {.isa = "reference", .threads = 1, .context = context};
	return must_open(cuda ? cuda_open : cpu_open, w, &options);
}

/* Rows after the committed tokens, and what was counted meanwhile. */
static struct emulated_counts run_rows(struct backend* b, struct cache* c, enum pass_kind kind, int n,
                                       int tap, float* tap_out, const struct sampler* sampler,
                                       struct result* out) {
	static uint8_t want[PREFILL_CHUNK];
	static struct result results[PREFILL_CHUNK];
	int32_t token[PREFILL_CHUNK];
	struct error error = {""};
	memset(want, WANT_NOTHING, sizeof want);
	want[n - 1] = out ? WANT_TOKEN | WANT_LOGITS : WANT_NOTHING;
	for (int i = 0; i < n; i++)
		token[i] = (i * 11 + 2) % b->weights->shape.vocab;
	if (out)
		results[n - 1] = *out;
	const struct segment segment = {.cache = c, .base = c->committed, .n = n, .sampler = sampler};
	const struct pass pass = {.kind = kind,
	                          .n = n,
	                          .n_segments = 1,
	                          .segment = &segment,
	                          .token = token,
	                          .last = 2 * b->weights->shape.n_blocks,
	                          .head = true,
	                          .tap = tap,
	                          .tap_out = tap_out,
	                          .want = want,
	                          .out = results};
	const struct emulated_counts before = emulated_counts();
	if (!b->run(b, &pass, &error))
		fail_msg("%s", error.message);
	const struct emulated_counts now = emulated_counts();
	if (kind == PASS_EXACT)
		b->discard(c);
	if (out)
		*out = results[n - 1];
	return (struct emulated_counts){now.launches - before.launches, now.blocks - before.blocks,
	                                now.waits - before.waits, now.most_adds, now.weights - before.weights};
}

/* ---- sampling ------------------------------------------------------------------------------- */

/* Sums of filters are added up by threads and warps first: a row's tokens do not queue for one address. */
static void filters_do_not_queue(void** state) {
	(void)state;
	static const enum dtype type = DTYPE_F16;
	enum { VOCAB = 8192 };
	const struct model_shape shape = random_shape(1, 32, 1, 1, 32, 32, VOCAB);
	struct random_model* m = random_model_make(&shape, &type, 1, 0, 3);
	struct backend* b = open_backend(true, &m->weights, 64);
	struct cache* c = must_open_cache(b, 64, DTYPE_F16);
	const struct sampler sampler = {.temperature = 1, .top_k = 4000, .top_p = 0.9f, .seed = 1};
	static float logits[VOCAB];
	struct result out = {.logits = logits};
	const unsigned long before = emulated_counts().most_adds;
	const unsigned long most = run_rows(b, c, PASS_EXACT, 1, -1, NULL, &sampler, &out).most_adds;
	assert_true(before == 0 && most > 0);
	/* a bin gets at most one add of a warp for every 32 tokens, a level and filter */
	if (most > 6 * VOCAB / 32)
		fail_msg("%lu adds to one address, of %d tokens", most, VOCAB);
	b->cache_close(c);
	b->close(b);
	random_model_free(m);
}

/* ---- taps ----------------------------------------------------------------------------------- */

/* Tapped states come along with the results: nobody waits for them in the middle of a pass. */
static void taps_wait_for_nothing(void** state) {
	(void)state;
	static const enum dtype type = DTYPE_F16;
	enum { ROWS = 70, DIM = 64 }; /* of two slices */
	const struct model_shape shape = random_shape(3, DIM, 2, 1, 32, 96, 50);
	struct random_model* m = random_model_make(&shape, &type, 1, 0, 4);
	struct backend *b = open_backend(true, &m->weights, 400), *cpu = open_backend(false, &m->weights, 400);
	struct cache *c = must_open_cache(b, 400, DTYPE_F16), *d = must_open_cache(cpu, 400, DTYPE_F16);
	static float tapped[PREFILL_CHUNK * DIM], expected[PREFILL_CHUNK * DIM];
	static const int taps[] = {0, 3, 5};
	const unsigned long untapped = run_rows(b, c, PASS_EXACT, ROWS, -1, NULL, NULL, NULL).waits;
	for (int i = 0; i < 3; i++) {
		memset(tapped, 0xff, sizeof tapped);
		assert_int_equal(run_rows(b, c, PASS_EXACT, ROWS, taps[i], tapped, NULL, NULL).waits, untapped);
		run_rows(cpu, d, PASS_EXACT, ROWS, taps[i], expected, NULL, NULL);
		for (int j = 0; j < ROWS * DIM; j++)
			assert_true(fabsf(tapped[j] - expected[j]) < 0.05f);
	}
	const unsigned long chunk = run_rows(b, c, PASS_PREFILL, PREFILL_CHUNK, -1, NULL, NULL, NULL).waits;
	b->truncate(c, 0);
	memset(tapped, 0xff, sizeof tapped);
	assert_int_equal(run_rows(b, c, PASS_PREFILL, PREFILL_CHUNK, 3, tapped, NULL, NULL).waits, chunk);
	run_rows(cpu, d, PASS_PREFILL, PREFILL_CHUNK, 3, expected, NULL, NULL);
	for (int j = 0; j < PREFILL_CHUNK * DIM; j++)
		assert_true(fabsf(tapped[j] - expected[j]) < 0.05f);
	b->cache_close(c);
	cpu->cache_close(d);
	b->close(b);
	cpu->close(cpu);
	random_model_free(m);
}

/* ---- the device's size ---------------------------------------------------------------------- */

static unsigned long blocks_of_a_pass(const struct weight_table* w, int context, int multiprocessors) {
	char text[16];
	snprintf(text, sizeof text, "%d", multiprocessors);
	setenv("EMULATED_MULTIPROCESSORS", text, 1);
	struct backend* b = open_backend(true, w, context);
	struct cache* c = must_open_cache(b, 300, DTYPE_F16);
	const unsigned long blocks = run_rows(b, c, PASS_EXACT, 3, -1, NULL, NULL, NULL).blocks;
	b->cache_close(c);
	b->close(b);
	unsetenv("EMULATED_MULTIPROCESSORS");
	return blocks;
}

/* Attention's grid is as large as the device, whatever context it may come to. */
static void the_grid_does_not_grow_with_the_context(void** state) {
	(void)state;
	static const enum dtype type = DTYPE_F16;
	const struct model_shape shape = random_shape(2, 32, 2, 1, 16, 32, 50);
	struct random_model* m = random_model_make(&shape, &type, 1, 0, 4);
	const unsigned long small = blocks_of_a_pass(&m->weights, 1000, 3);
	assert_int_equal(blocks_of_a_pass(&m->weights, 60000, 3), small);
	/* 8 rows, one key/value head: 40 chunks of rows where a larger device has room for them, two blocks */
	assert_int_equal(blocks_of_a_pass(&m->weights, 1000, 4), small + 2 * 8);
	random_model_free(m);
}

/* The launches of a plain step as tools/cuda_predictions.py counts them: five launches a block, two more
 * where weights have few bits, two where sub-layers end with norms, and seven beside the blocks; two of a
 * screened head. */
static void a_step_has_as_many_launches_as_predicted(void** state) {
	(void)state;
	static const struct {
		enum dtype type;
		int with, a_block;
		bool screened;
	} way[] = {{DTYPE_F16, 0, 5, false},
	           {DTYPE_Q8_0, WITH_BIASES, 5, false},
	           {DTYPE_Q4_1, 0, 7, false},
	           {DTYPE_BF16, WITH_POST_NORMS, 7, false},
	           {DTYPE_F16, 0, 5, true}};
	setenv("SWIFTLET_CUDA_HEAD", "screened", 1);
	for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
		enum { BLOCKS = 3 };
		const struct model_shape shape = random_shape(BLOCKS, 64, 2, 1, 32, 96, 50);
		struct random_model* m = random_model_make(&shape, &way[i].type, 1, way[i].with, 4);
		const struct backend_options options = {.context = 400, .screened_head = way[i].screened};
		struct backend* b = must_open(cuda_open, &m->weights, &options);
		struct cache* c = must_open_cache(b, 400, DTYPE_F16);
		assert_int_equal(run_rows(b, c, PASS_EXACT, 1, -1, NULL, NULL, NULL).launches,
		                 (unsigned long)(BLOCKS * way[i].a_block + 7 + 2 * way[i].screened));
		b->cache_close(c);
		b->close(b);
		random_model_free(m);
	}
	unsetenv("SWIFTLET_CUDA_HEAD");
}

/* 320 tiles are three waves on 132 multiprocessors, two whole ones on 160. */
static void parts_are_the_devices(void** state) {
	(void)state;
	assert_int_equal(parts_by_shape(320, 52.4e6, 132), 2);
	assert_int_equal(parts_by_shape(320, 52.4e6, 160), 1);
	assert_int_equal(parts_by_shape(256, 33.6e6, 132), 1);
	assert_int_equal(parts_by_shape(256, 117.4e6, 108), 2); /* 8B's down on an A100 */
}

/* ---- what halves cannot hold ---------------------------------------------------------------- */

/* A gate that comes to a few hundred thousand, as Gemma's may, and the norm after it. */
static void a_quantized_gemmas_gate_does_not_overflow(void** state) {
	(void)state;
	static const enum dtype types[] = {DTYPE_Q8_0, DTYPE_Q4_0, DTYPE_F16};
	enum { VOCAB = 50, DIM = 64 };
	struct model_shape shape = random_shape(2, DIM, 2, 1, 32, 96, VOCAB);
	shape.activation = ACTIVATION_GELU_TANH;
	struct random_model* m = random_model_make(&shape, types, 3, WITH_POST_NORMS, 4);
	for (int i = 0; i < shape.n_blocks; i++) {
		float* weight = (float*)(uintptr_t)m->block[i].mlp_norm.data;
		for (int j = 0; j < DIM; j++)
			weight[j] *= 400;
	}
	struct backend *b = open_backend(true, &m->weights, 400), *cpu = open_backend(false, &m->weights, 400);
	struct cache *c = must_open_cache(b, 400, DTYPE_F16), *d = must_open_cache(cpu, 400, DTYPE_F16);
	static float got[VOCAB], expected[VOCAB];
	static const struct {
		enum pass_kind kind;
		int n;
	} pass[] = {{PASS_EXACT, 1}, {PASS_EXACT, 20}, {PASS_PREFILL, PREFILL_CHUNK}};
	for (int k = 0; k < 3; k++) {
		struct result a = {.logits = got}, e = {.logits = expected};
		double apart = 0, size = 0;
		run_rows(b, c, pass[k].kind, pass[k].n, -1, NULL, NULL, &a);
		run_rows(cpu, d, pass[k].kind, pass[k].n, -1, NULL, NULL, &e);
		for (int v = 0; v < VOCAB; v++) {
			apart += ((double)got[v] - expected[v]) * ((double)got[v] - expected[v]);
			size += (double)expected[v] * expected[v];
		}
		if (!(apart < 4e-3 * size))
			fail_msg("%d rows: %g of their size from the reference", pass[k].n, sqrt(apart / size));
	}
	b->cache_close(c);
	cpu->cache_close(d);
	b->close(b);
	cpu->close(cpu);
	random_model_free(m);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(filters_do_not_queue),
	                                   cmocka_unit_test(taps_wait_for_nothing),
	                                   cmocka_unit_test(the_grid_does_not_grow_with_the_context),
	                                   cmocka_unit_test(a_step_has_as_many_launches_as_predicted),
	                                   cmocka_unit_test(parts_are_the_devices),
	                                   cmocka_unit_test(a_quantized_gemmas_gate_does_not_overflow)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
