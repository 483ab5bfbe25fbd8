/* Several GPUs that share a model give the bits of one, and say what is wrong with them in a sentence. Linked
 * a second time with four emulated devices, of which each can touch its own memory alone; NCCL is copies
 * there. Only devices can show what NCCL's own kernels do between ours in a graph, and how fast a real
 * failure shows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/draft_weights.h"
#include "tests/kernels/support_play.h"
#include "tests/must.h"

static struct backend* open_devices(const struct random_model* m, int devices, struct error* error) {
	const struct backend_options options = {.context = PLAY_CONTEXT, .devices = devices};
	return cuda_open(&m->weights, &options, error);
}

/* ---- the same bits ------------------------------------------------------------------------- */

static void play_on(const struct random_model* m, int devices, struct outcome* o) {
	struct error error;
	struct backend* b = open_devices(m, devices, &error);
	if (!b)
		fail_msg("%s", error.message);
	assert_true(b->prefill_is_exact);
	play(b, o);
	b->close(b);
}

static void same_bits(const struct model_shape* shape, const enum dtype* types, int n_types, int with,
                      int devices) {
	struct random_model* m = random_model_make(shape, types, n_types, with, 7);
	struct outcome *alone = calloc(1, sizeof *alone), *together = calloc(1, sizeof *together);
	play_on(m, 1, alone);
	assert_true(alone->rewound);
	assert_int_equal(alone->committed, 21);
	play_on(m, devices, together);
	assert_memory_equal(alone, together, sizeof *alone);
	free(alone);
	free(together);
	random_model_free(m);
}

static void two_in_halves(void** state) {
	(void)state;
	static const enum dtype types[] = {DTYPE_F16};
	const struct model_shape shape = random_shape(3, 64, 4, 2, 16, 96, PLAY_VOCAB);
	same_bits(&shape, types, 1, WITH_BIASES, 2);
}

static void two_in_stored_types(void** state) {
	(void)state;
	static const enum dtype types[] = {DTYPE_Q4_K, DTYPE_Q6_K, DTYPE_Q8_0};
	const struct model_shape shape = random_shape(3, 256, 4, 2, 64, 256, PLAY_VOCAB);
	same_bits(&shape, types, 3, 0, 2);
}

/* ---- quantized draft weights ------------------------------------------------------------------------ */

enum { DRAFT_ROWS = 3, DRAFT_WAYS = 4 };

struct draft_outcome {
	float logits[DRAFT_WAYS][DRAFT_ROWS * PLAY_VOCAB];
	int32_t step[DRAFT_WAYS]; /* of a row alone, which has a graph of its own */
};

static void run_draft_weights(struct backend* b, struct cache* c, const struct mask* skip,
                              const struct mask* quantized, bool quantized_head, float* logits,
                              int32_t* step) {
	static const int32_t token[DRAFT_ROWS] = {7, 31, 12};
	uint8_t want[DRAFT_ROWS];
	struct result out[DRAFT_ROWS];
	memset(want, WANT_TOKEN | WANT_LOGITS, sizeof want);
	for (int n = DRAFT_ROWS; n > 0; n -= DRAFT_ROWS - 1) {
		for (int i = 0; i < n; i++)
			out[i].logits = logits + (size_t)i * PLAY_VOCAB;
		const struct segment segment = {.cache = c, .n = n};
		const struct pass pass = {.kind = PASS_EXACT,
		                          .n = n,
		                          .n_segments = 1,
		                          .segment = &segment,
		                          .token = token,
		                          .skip = skip,
		                          .quantized = quantized,
		                          .quantized_head = quantized_head,
		                          .last = 2 * b->weights->shape.n_blocks,
		                          .head = true,
		                          .tap = -1,
		                          .want = want,
		                          .out = out};
		must_run(b, &pass);
		b->discard(c);
	}
	*step = out[0].token;
}

static void play_draft_weights(const struct random_model* m, const struct draft_weights* quantized,
                               int devices, bool carried, struct draft_outcome* o) {
	struct error error = {""};
	struct backend* b = open_devices(m, devices, &error);
	if (!b || !b->use_draft_weights(b, quantized, &error))
		fail_msg("%s", error.message);
	assert_true(devices == 1 || !b->draft); /* drafts there are passes */
	struct cache* c = b->cache_open(b, PLAY_CONTEXT, DTYPE_F16, &error);
	assert_non_null(c);
	int pieces = 0;
	for (bool all = false; carried && !all; pieces++)
		assert_true(b->upload_draft_weights(b, quantized->bytes / 7, &all, &error));
	assert_true(!carried || pieces > 3);
	const struct mask none = {.word = {0}}, first = {.word = {2}}, some = {.word = {6}};
	run_draft_weights(b, c, NULL, NULL, false, o->logits[0], &o->step[0]);
	run_draft_weights(b, c, NULL, &quantized->sub_layers, true, o->logits[1], &o->step[1]);
	run_draft_weights(b, c, &first, &some, false, o->logits[2], &o->step[2]);
	run_draft_weights(b, c, NULL, &none, true, o->logits[3], &o->step[3]);
	b->cache_close(c);
	b->close(b);
}

/* That one device's copy is right, test_cuda_draft_weights.c checks. */
static void same_draft_bits(const struct model_shape* shape, enum dtype type, int bits, int devices,
                            bool carried) {
	struct random_model* m = random_model_make(shape, &type, 1, WITH_BIASES, 9);
	struct draft_weights quantized;
	struct error error = {""};
	assert_true(
	    draft_weights_plan(&quantized, &m->weights, (struct draft_weights_format){.bits = bits}, &error) &&
	    quantized.bytes > 0);
	void* data =
	    aligned_alloc(DRAFT_WEIGHTS_ALIGNMENT, (quantized.bytes + DRAFT_WEIGHTS_ALIGNMENT - 1) /
	                                               DRAFT_WEIGHTS_ALIGNMENT * DRAFT_WEIGHTS_ALIGNMENT);
	draft_weights_place(&quantized, data);
	assert_true(draft_weights_make(&quantized, data, 1, NULL, NULL, &error));
	struct draft_outcome *alone = calloc(1, sizeof *alone), *together = calloc(1, sizeof *together);
	play_draft_weights(m, &quantized, 1, carried, alone);
	play_draft_weights(m, &quantized, devices, carried, together);
	assert_memory_equal(alone, together, sizeof *alone);
	assert_memory_not_equal(alone->logits[0], alone->logits[1], sizeof alone->logits[0]);
	free(alone);
	free(together);
	free(data);
	draft_weights_close(&quantized);
	random_model_free(m);
}

static void two_with_a_copy_in_four_bits(void** state) {
	(void)state;
	const struct model_shape shape = random_shape(2, 256, 4, 2, 64, 256, PLAY_VOCAB);
	same_draft_bits(&shape, DTYPE_F16, 4, 2, true);
}

#ifdef SWIFTLET_EMULATED
static void three_with_a_copy_in_eight(void** state) {
	(void)state;
	const struct model_shape shape = random_shape(2, 96, 4, 4, 32, 160, PLAY_VOCAB);
	same_draft_bits(&shape, DTYPE_BF16, 8, 3, false);
}

/* Memory that does not fit one device is given back on each, and can be asked for again. */
static void a_copy_without_room(void** state) {
	(void)state;
	static const enum dtype type = DTYPE_F16;
	const struct model_shape shape = random_shape(2, 256, 4, 2, 64, 256, PLAY_VOCAB);
	struct random_model* m = random_model_make(&shape, &type, 1, 0, 3);
	struct draft_weights quantized;
	struct error error = {""};
	assert_true(
	    draft_weights_plan(&quantized, &m->weights, (struct draft_weights_format){.bits = 4}, &error));
	struct backend* b = open_devices(m, 2, &error);
	assert_non_null(b);
	setenv("EMULATED_FREE_MIB", "0", 1);
	assert_false(b->use_draft_weights(b, &quantized, &error));
	assert_non_null(strstr(error.message, "out of GPU memory for quantized draft weights"));
	unsetenv("EMULATED_FREE_MIB");
	assert_true(b->use_draft_weights(b, &quantized, &error));
	b->close(b);
	draft_weights_close(&quantized);
	random_model_free(m);
}

static void four(void** state) {
	(void)state;
	static const enum dtype types[] = {DTYPE_F16, DTYPE_Q8_0};
	const struct model_shape shape = random_shape(2, 64, 8, 4, 16, 96, PLAY_VOCAB);
	same_bits(&shape, types, 2, WITH_HEAD_NORMS, 4);
}

static void three_with_unequal_shares(void** state) {
	(void)state;
	static const enum dtype types[] = {DTYPE_BF16};
	struct model_shape shape = random_shape(2, 64, 4, 4, 80, 96, PLAY_VOCAB);
	shape.norm_plus_one = true;
	shape.activation = ACTIVATION_GELU_TANH;
	shape.embedding_scale = 8;
	same_bits(&shape, types, 1, WITH_POST_NORMS | WITH_SOFTCAPS | WITH_WINDOW | WITH_BIASES | WITH_TIED_HEAD,
	          3);
}

static void however_blocks_are_launched(void** state) {
	(void)state;
	static const enum dtype types[] = {DTYPE_F16};
	const struct model_shape shape = random_shape(2, 64, 2, 2, 32, 64, PLAY_VOCAB);
	setenv("SWIFTLET_CUDA_LAUNCHES", "separate", 1);
	setenv("SWIFTLET_CUDA_PARTS", "2", 1);
	setenv("SWIFTLET_CUDA_GRAPHS", "on", 1);
	same_bits(&shape, types, 1, 0, 2);
	same_draft_bits(&shape, DTYPE_F16, 8, 2, true);
	unsetenv("SWIFTLET_CUDA_GRAPHS");
	unsetenv("SWIFTLET_CUDA_LAUNCHES");
	unsetenv("SWIFTLET_CUDA_PARTS");
}

/* ---- what is refused, and what fails ------------------------------------------------------- */

static struct random_model* small_model(void) {
	static const enum dtype types[] = {DTYPE_F16};
	const struct model_shape shape = random_shape(2, 64, 4, 2, 16, 64, PLAY_VOCAB);
	return random_model_make(&shape, types, 1, 0, 3);
}

static void expect_refusal(int devices, const char* message) {
	struct random_model* m = small_model();
	struct error error;
	assert_null(open_devices(m, devices, &error));
	assert_string_equal(error.message, message);
	random_model_free(m);
}

static void what_cannot_share_is_said(void** state) {
	(void)state;
	expect_refusal(5, "--devices 5: there are 4 CUDA devices, and at most 16 share a model");
	expect_refusal(
	    4, "--devices 4: each takes whole key/value heads and 16 rows of every matrix; this model, of 2 "
	       "such heads, can be shared by 2");
	setenv("EMULATED_DEVICES", "2", 1);
	setenv("EMULATED_ODD", "older", 1);
	expect_refusal(2,
	               "--devices 2: GPU 1 (emulated, compute capability 8.0, 1024 MiB) is not like GPU 0 "
	               "(emulated, 9.0, 1024 MiB): only equal ones share a model (CUDA_VISIBLE_DEVICES chooses "
	               "which)");
	setenv("EMULATED_ODD", "smaller", 1);
	expect_refusal(2,
	               "--devices 2: GPU 1 (emulated, compute capability 9.0, 512 MiB) is not like GPU 0 "
	               "(emulated, 9.0, 1024 MiB): only equal ones share a model (CUDA_VISIBLE_DEVICES chooses "
	               "which)");
	unsetenv("EMULATED_ODD");
	setenv("EMULATED_NO_NCCL", "1", 1);
	expect_refusal(2, "no NCCL");
	unsetenv("EMULATED_NO_NCCL");
	setenv("EMULATED_DEVICES", "4", 1);
}

/* One step; the sentence where it failed. */
static bool step(struct backend* b, struct cache* cache, struct error* error) {
	const struct segment segment = {.cache = cache, .n = 1};
	const int32_t token = 5;
	const uint8_t want = WANT_TOKEN;
	struct result out;
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = 1,
	                          .n_segments = 1,
	                          .segment = &segment,
	                          .token = &token,
	                          .last = 2 * b->weights->shape.n_blocks,
	                          .head = true,
	                          .tap = -1,
	                          .want = &want,
	                          .out = &out};
	const bool done = b->run(b, &pass, error);
	b->discard(cache);
	return done;
}

/* Steps until the device fails, in a gather some passes on. */
static void expect_failure(const char* way, const char* message) {
	struct random_model* m = small_model();
	struct error error;
	setenv("EMULATED_FAILS", way, 1);
	struct backend* b = open_devices(m, 2, &error);
	if (!b)
		fail_msg("%s", error.message);
	struct cache* cache = must_open_cache(b, PLAY_CONTEXT, DTYPE_F16);
	int steps = 0;
	while (steps < 100 && step(b, cache, &error))
		steps++;
	assert_in_range(steps, 1, 99);
	assert_string_equal(error.message, message);
	assert_false(step(b, cache, &error)); /* and for good */
	assert_string_equal(error.message, message);
	b->cache_close(cache);
	b->close(b);
	unsetenv("EMULATED_FAILS");
	random_model_free(m);
}

static void a_device_that_fails_is_named(void** state) {
	(void)state;
	expect_failure("1:100", "GPU 1 of the 2 that share the model failed: unspecified launch "
	                        "failure");
	expect_failure("0:95", "GPU 0 of the 2 that share the model failed: unspecified launch "
	                       "failure");
}

/* Takes the backend's patience, six seconds, whatever the machine is doing. */
static void so_is_one_that_gives_no_name(void** state) {
	(void)state;
	expect_failure("1:101:silently", "GPU 1 of the 2 that share the model failed: it does not answer");
}

/* 25 MiB of weights beside what passes need: each of two has room for its half alone. */
static void memory_is_shared_too(void** state) {
	(void)state;
	static const enum dtype types[] = {DTYPE_F16};
	const struct model_shape shape = random_shape(2, 512, 4, 2, 128, 4096, PLAY_VOCAB);
	struct random_model* m = random_model_make(&shape, types, 1, 0, 3);
	struct error error;
	setenv("EMULATED_FREE_MIB", "36", 1);
	assert_null(open_devices(m, 1, &error));
	assert_non_null(strstr(error.message, "the model does not fit the GPU"));
	struct backend* two = open_devices(m, 2, &error);
	if (!two)
		fail_msg("%s", error.message);
	assert_string_equal(two->name, "cuda (emulated) x 2");
	two->close(two);
	unsetenv("EMULATED_FREE_MIB");
	random_model_free(m);
}
#endif

int main(void) {
	struct error error;
#ifdef SWIFTLET_EMULATED
	setenv("EMULATED_DEVICES", "4", 1);
#else
	/* a model that any two devices could share, so that what is said is about them */
	static const enum dtype types[] = {DTYPE_F16};
	const struct model_shape shape = random_shape(2, 64, 4, 2, 16, 64, PLAY_VOCAB);
	struct random_model* m = random_model_make(&shape, types, 1, 0, 3);
	struct backend* b = open_devices(m, 2, &error);
	random_model_free(m);
	if (!b) {
		printf("skipped: %s\n", error.message);
		return 77;
	}
	b->close(b);
#endif
	if (!cuda_available(&error)) {
		printf("skipped: %s\n", error.message);
		return 77;
	}
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(two_in_halves),
	    cmocka_unit_test(two_in_stored_types),
	    cmocka_unit_test(two_with_a_copy_in_four_bits),
#ifdef SWIFTLET_EMULATED
	    cmocka_unit_test(three_with_a_copy_in_eight),
	    cmocka_unit_test(a_copy_without_room),
	    cmocka_unit_test(four),
	    cmocka_unit_test(three_with_unequal_shares),
	    cmocka_unit_test(however_blocks_are_launched),
	    cmocka_unit_test(what_cannot_share_is_said),
	    cmocka_unit_test(a_device_that_fails_is_named),
	    cmocka_unit_test(so_is_one_that_gives_no_name),
	    cmocka_unit_test(memory_is_shared_too),
#endif
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
