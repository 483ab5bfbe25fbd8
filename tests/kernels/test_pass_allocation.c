/* The decode path allocates nothing: every call of malloc and its kin is counted while a session's worth
 * of passes, commits, discards, rewinds and truncations runs, on one thread and on several. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/draft_weights.h"
#include "tests/count_allocations.h"
#include "tests/kernels/support_random_model.h"
#include "tests/must.h"

#if !ALLOCATIONS_COUNTED
int main(void) { return allocations_not_counted(); }
#else

enum { VOCAB = 300, CONTEXT = 300 };

/* One of everything a session does. */
static void session(struct backend* b, struct cache* c, struct result* out, float* logits, float* tapped) {
	struct random r = {4};
	int32_t token[MAX_ROWS], parent[MAX_ROWS], path[MAX_ROWS];
	uint8_t want[MAX_ROWS];
	const int sub_layers = 2 * b->weights->shape.n_blocks;
	const struct sampler sampler = {.temperature = 0.7f, .top_k = 40, .top_p = 0.9f, .min_p = 0.01f};
	struct mask mask = {.word = {0x5}};
	for (int i = 0; i < MAX_ROWS; i++) {
		token[i] = random_below(&r, VOCAB);
		parent[i] = i - 1 - (i > 4 ? random_below(&r, 3) : 0);
		want[i] = WANT_TOKEN | WANT_TOP | WANT_LOG_SUM_EXP | WANT_LOGITS;
		out[i] = (struct result){.top = 10, .logits = logits};
		path[i] = i;
	}
	struct segment s = {.cache = c, .base = c->committed, .n = 130};
	struct pass pass = {.kind = PASS_PREFILL,
	                    .n = 130,
	                    .n_segments = 1,
	                    .segment = &s,
	                    .token = token,
	                    .last = sub_layers,
	                    .tap = -1,
	                    .want = want,
	                    .out = out};
	must_run(b, &pass);
	s.base = c->committed;
	pass.kind = PASS_EXACT;
	pass.parent = parent;
	pass.head = true;
	for (int n = 1; n <= 100; n += 33) {
		pass.n = s.n = n;
		s.sampler = n & 1 ? &sampler : NULL;
		pass.skip = n > 50 ? &mask : NULL;
		pass.quantized = n < 50 ? &mask : NULL;
		pass.quantized_head = n < 50;
		must_run(b, &pass);
		b->discard(c);
	}
	pass.skip = pass.quantized = NULL;
	pass.quantized_head = false;
	s.sampler = NULL;
	memset(want, WANT_TOKEN, sizeof want); /* the screened head's */
	must_run(b, &pass);
	b->discard(c);
	pass.tap = 2;
	pass.tap_out = tapped;
	must_run(b, &pass);
	assert_true(b->rewind(c, 3));
	b->commit(c, path, 4);
	pass.n = s.n = 4;
	s.base = c->committed;
	pass.first = 3;
	pass.tap = -1;
	pass.state = tapped;
	must_run(b, &pass);
	b->discard(c);
	b->truncate(c, 0);
}

static void nothing_allocated(void** state) {
	(void)state;
	assert_true(allocations_are_seen());
	const enum dtype types[] = {DTYPE_F16, DTYPE_F32, DTYPE_Q8_0};
	const struct model_shape shape = random_shape(3, 128, 4, 2, 32, 256, VOCAB);
	struct random_model* m = random_model_make(&shape, types, 3, WITH_BIASES, 1);
	struct result* out = calloc(MAX_ROWS, sizeof *out);
	float* logits = calloc(VOCAB, sizeof *logits);
	float* tapped = calloc((size_t)MAX_ROWS * 128, sizeof *tapped);
	struct error error;
	struct draft_weights quantized;
	assert_true(
	    draft_weights_plan(&quantized, &m->weights, (struct draft_weights_format){.bits = 4}, &error));
	void* copy = aligned_alloc(DRAFT_WEIGHTS_ALIGNMENT, quantized.bytes);
	assert_true(draft_weights_make(&quantized, copy, 1, NULL, NULL, &error));
	draft_weights_place(&quantized, copy);
	for (int threads = 1; threads <= 3; threads++) {
		const struct backend_options options = {
		    .threads = threads, .context = CONTEXT, .screened_head = true, .interleaves = true};
		struct backend* b = must_open(cpu_open, &m->weights, &options);
		struct cache* c = must_open_cache(b, CONTEXT, DTYPE_F16);
		assert_true(b->use_draft_weights(b, &quantized, &error));
		if (strncmp(b->name, "cpu (avx", 8) == 0)
			assert_true(b->screened_bytes > 0);
		const int before = atomic_load(&allocations);
		for (int i = 0; i < 5; i++)
			session(b, c, out, logits, tapped);
		assert_int_equal(atomic_load(&allocations) - before, 0);
		b->cache_close(c);
		b->close(b);
	}
	draft_weights_close(&quantized);
	free(copy);
	free(out);
	free(logits);
	free(tapped);
	random_model_free(m);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_allocated)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
