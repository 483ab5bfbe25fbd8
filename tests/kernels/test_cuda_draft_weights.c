/* Quantized draft weights on the GPU: a pass with them gives the bits of a model that holds them as its own,
 * whatever is quantized and whatever is left out; a pass without them runs as if there were none. Linked a
 * second time with the emulated device, so that it also runs where there is no GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/draft_weights.h"
#include "tests/kernels/support_random_model.h"
#include "tests/must.h"

enum { CONTEXT = 64, VOCAB = 40, ROWS = 3, DRAFTED = 4, SUB_LAYERS = 4 };

static struct backend* open_cuda(const struct weight_table* w, struct cache** cache) {
	struct error error = {""};
	const struct backend_options options = {.context = CONTEXT};
	struct backend* b = cuda_open(w, &options, &error);
	*cache = b ? b->cache_open(b, CONTEXT, DTYPE_F16, &error) : NULL;
	if (!*cache)
		fail_msg("%s", error.message);
	return b;
}

struct variant {
	const struct mask *skip, *quantized;
	bool quantized_head;
};

struct outcome {
	float logits[ROWS * VOCAB];
	int32_t drafted[DRAFTED];
	int steps;
};

/* Logits of a chain after nothing, then what the draft loop makes of it. */
static void play(struct backend* b, struct cache* c, struct variant v, struct outcome* o) {
	static const int32_t token[ROWS] = {7, 31, 12};
	uint8_t want[ROWS];
	struct result out[ROWS], step[DRAFTED];
	struct error error = {""};
	struct draft_policy policy = {.max_steps = DRAFTED, .top = 2};
	memset(o, 0, sizeof *o);
	for (int i = 0; i < ROWS; i++) {
		want[i] = WANT_TOKEN | WANT_LOGITS;
		out[i].logits = o->logits + i * VOCAB;
	}
	for (int i = 0; i < DRAFT_BINS; i++)
		policy.accept[i] = 1;
	const struct segment segment = {.cache = c, .n = ROWS}, root = {.cache = c, .n = 1};
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = ROWS,
	                          .n_segments = 1,
	                          .segment = &segment,
	                          .token = token,
	                          .skip = v.skip,
	                          .quantized = v.quantized,
	                          .quantized_head = v.quantized_head,
	                          .last = SUB_LAYERS,
	                          .head = true,
	                          .tap = -1,
	                          .want = want,
	                          .out = out};
	if (!b->run(b, &pass, &error))
		fail_msg("%s", error.message);
	b->discard(c);
	o->steps = b->draft(b, &root, 9, v.skip, v.quantized, v.quantized_head, NULL, &policy, step, &error);
	b->discard(c);
	for (int i = 0; i < o->steps; i++)
		o->drafted[i] = step[i].token;
	assert_int_equal(o->steps, DRAFTED);
}

/* The stored weights with the draft weights of some sub-layers, as a model of its own. */
static struct weight_table mixed(const struct draft_weights* quantized, uint64_t which, bool head,
                                 struct block_weights* block) {
	struct weight_table w = *quantized->stored;
	for (int b = 0; b < w.shape.n_blocks; b++) {
		const struct block_weights* own = &quantized->block[b];
		block[b] = quantized->stored->block[b];
		if (which >> 2 * b & 1)
			block[b].wq = own->wq, block[b].wk = own->wk, block[b].wv = own->wv, block[b].wo = own->wo;
		if (which >> (2 * b + 1) & 1)
			block[b].w_gate = own->w_gate, block[b].w_up = own->w_up, block[b].w_down = own->w_down;
	}
	w.block = block;
	w.output = head ? *quantized->output : w.output;
	return w;
}

static void compare(struct random_model* m, int bits, bool carried) {
	struct draft_weights quantized;
	struct error error = {""};
	assert_true(
	    draft_weights_plan(&quantized, &m->weights, (struct draft_weights_format){.bits = bits}, &error));
	assert_true(quantized.bytes > 0);
	void* data =
	    aligned_alloc(DRAFT_WEIGHTS_ALIGNMENT, (quantized.bytes + DRAFT_WEIGHTS_ALIGNMENT - 1) /
	                                               DRAFT_WEIGHTS_ALIGNMENT * DRAFT_WEIGHTS_ALIGNMENT);
	struct cache *cache, *its_cache;
	struct backend* b = open_cuda(&m->weights, &cache);
	struct outcome *alone = malloc(sizeof *alone), *o = malloc(sizeof *o),
	               *expected = malloc(sizeof *expected);
	play(b, cache, (struct variant){0}, alone);
	/* its place first, its bytes when they are made */
	assert_true(b->use_draft_weights(b, &quantized, &error));
	draft_weights_place(&quantized, data);
	assert_true(draft_weights_make(&quantized, data, 1, NULL, NULL, &error));
	int pieces = 0;
	for (bool all = false; carried && !all; pieces++)
		assert_true(b->upload_draft_weights(b, quantized.bytes / 7, &all, &error));
	assert_true(!carried || pieces > 3);
	const struct mask first = {.word = {2}};
	static const struct {
		uint64_t quantized;
		bool head, skips;
	} cases[] = {{15, true, false}, {9, false, false}, {0, true, false}, {15, true, true}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct block_weights block[2];
		const struct mask mask = {.word = {cases[i].quantized}};
		const struct mask* skip = cases[i].skips ? &first : NULL;
		const struct weight_table own = mixed(&quantized, cases[i].quantized, cases[i].head, block);
		struct backend* its = open_cuda(&own, &its_cache);
		play(its, its_cache, (struct variant){.skip = skip}, expected);
		play(b, cache, (struct variant){skip, &mask, cases[i].head}, o);
		assert_memory_equal(o, expected, sizeof *o);
		play(b, cache, (struct variant){0}, o);
		assert_memory_equal(o, alone, sizeof *o);
		its->cache_close(its_cache);
		its->close(its);
	}
	b->cache_close(cache);
	b->close(b);
	free(alone);
	free(o);
	free(expected);
	free(data);
	draft_weights_close(&quantized);
}

static void a_quantized_pass_is_the_quantized_models(void** state) {
	(void)state;
	static const enum dtype half = DTYPE_F16, byte = DTYPE_Q8_0;
	const struct model_shape super = random_shape(2, 256, 4, 2, 64, 256, VOCAB);
	const struct model_shape narrow = random_shape(2, 96, 2, 1, 48, 160, VOCAB);
	struct random_model* m = random_model_make(&super, &half, 1, WITH_BIASES, 3);
	compare(m, 4, true);
	random_model_free(m);
	m = random_model_make(&narrow, &half, 1, WITH_POST_NORMS, 4); /* Q4_1 */
	compare(m, 4, false);
	compare(m, 8, true);
	random_model_free(m);
	m = random_model_make(&narrow, &byte, 1, WITH_HEAD_NORMS, 5); /* the head has no draft weights */
	compare(m, 4, true);
	random_model_free(m);
}

/* Activations in BF16: the draft weights' whole numbers are exact there too. */
static void brain_floats(void** state) {
	(void)state;
	static const enum dtype type = DTYPE_BF16;
	const struct model_shape shape = random_shape(2, 256, 4, 2, 64, 256, VOCAB);
	struct random_model* m = random_model_make(&shape, &type, 1, 0, 6);
	struct draft_weights quantized;
	struct error error = {""};
	struct cache* cache;
	struct outcome o, full;
	assert_true(
	    draft_weights_plan(&quantized, &m->weights, (struct draft_weights_format){.bits = 8}, &error));
	void* data =
	    aligned_alloc(DRAFT_WEIGHTS_ALIGNMENT, (quantized.bytes + DRAFT_WEIGHTS_ALIGNMENT - 1) /
	                                               DRAFT_WEIGHTS_ALIGNMENT * DRAFT_WEIGHTS_ALIGNMENT);
	draft_weights_place(&quantized, data);
	assert_true(draft_weights_make(&quantized, data, 1, NULL, NULL, &error));
	struct backend* b = open_cuda(&m->weights, &cache);
	assert_true(b->use_draft_weights(b, &quantized, &error));
	play(b, cache, (struct variant){0}, &full);
	play(b, cache, (struct variant){.quantized = &quantized.sub_layers, .quantized_head = true}, &o);
	double apart = 0, size = 0;
	for (int i = 0; i < ROWS * VOCAB; i++) {
		apart += ((double)o.logits[i] - full.logits[i]) * ((double)o.logits[i] - full.logits[i]);
		size += (double)full.logits[i] * full.logits[i];
	}
	assert_true(apart > 0 && apart < 4e-4 * size);
	b->cache_close(cache);
	b->close(b);
	free(data);
	draft_weights_close(&quantized);
	random_model_free(m);
}

static void refusals(void** state) {
	(void)state;
	static const enum dtype type = DTYPE_F16;
	const struct model_shape shape = random_shape(2, 256, 4, 2, 64, 256, VOCAB);
	struct random_model* m = random_model_make(&shape, &type, 1, 0, 7);
	struct draft_weights four;
	struct error error = {""};
	struct cache* cache;
	assert_true(draft_weights_plan(&four, &m->weights, (struct draft_weights_format){.bits = 4}, &error));
	struct backend* b = open_cuda(&m->weights, &cache);
#ifdef SWIFTLET_EMULATED
	setenv("EMULATED_FREE_MIB", "0", 1);
	assert_false(b->use_draft_weights(b, &four, &error));
	assert_non_null(strstr(error.message, "out of GPU memory for quantized draft weights"));
	unsetenv("EMULATED_FREE_MIB");
#endif
	assert_true(b->use_draft_weights(b, &four, &error));
	assert_false(b->use_draft_weights(b, &four, &error));
	b->cache_close(cache);
	b->close(b);
	draft_weights_close(&four);
	random_model_free(m);
}

int main(void) {
	if (!gpu_is_here())
		return 77;
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_quantized_pass_is_the_quantized_models),
	                                   cmocka_unit_test(brain_floats), cmocka_unit_test(refusals)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
