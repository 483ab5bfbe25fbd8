/* The text of synthetic models, and the effect of leaving sub-layers out: the properties that make them worth
 * searching on. */
#include "tests/generated_text.h"

#include <math.h>
#include <stdio.h>

#include "core/model/model.h"
#include "core/model/synth.h"
#include "kernels/synth_value.h"
#include "tests/must.h"

#define SMALL "layers=24,dim=256,heads=4,kv-heads=2,ffn=688,vocab=4096"

static struct model* open_model(const char* spec) {
	struct error error;
	struct model* model = model_open(spec, NULL, &error);
	if (!model)
		fail_msg("%s: %s", spec, error.message);
	return model;
}

/* True when the last tokens repeat what stood `period` tokens before them, for any period. */
static bool is_periodic(const int32_t* token, int n) {
	enum { TAIL = 64 };
	for (int period = 1; period <= n - TAIL; period++)
		if (memcmp(token + n - TAIL, token + n - TAIL - period, TAIL * sizeof *token) == 0)
			return true;
	return false;
}

static int ascending(const void* a, const void* b) {
	const float x = *(const float*)a, y = *(const float*)b;
	return (x > y) - (x < y);
}

static struct mask uniform_mask(int blocks) {
	struct mask m = {.word = {0}};
	for (int b = 1; b < blocks - 1; b += 2) {
		mask_set(&m, 2 * b, true);
		mask_set(&m, 2 * b + 1, true);
	}
	return m;
}

/* The planted mask with one sub-layer of a kind exchanged for one that was not planted. */
static struct mask wrong_swap(const struct mask* planted, int blocks, int kind, uint64_t seed) {
	struct mask m = *planted;
	for (int out = 1; out >= 0; out--)
		for (uint64_t i = 0;; i++) {
			const int s = 2 * (1 + (int)(synth_mix(seed * 1000 + i) % (uint64_t)(blocks - 2))) + kind;
			if (mask_has(planted, s) == (out == 1)) {
				mask_set(&m, s, out == 0);
				break;
			}
		}
	return m;
}

static struct backend* open_backend(const struct model* model, int context) {
	const struct backend_options options = {.isa = "auto", .context = context};
	return must_open(cpu_open, &model->weights, &options);
}

enum { PROMPT = 16, N = 1000 };

/* A text of the model's own, and whether it loops and hesitates. */
static struct text write_text(struct backend* backend, bool* periodic, double* top) {
	int32_t prompt[PROMPT];
	for (int i = 0; i < PROMPT; i++)
		prompt[i] = (int32_t)(synth_mix((uint64_t)i) % (uint64_t)backend->weights->shape.vocab);
	struct text t = text_generate(backend, prompt, PROMPT, N);
	*periodic = is_periodic(t.token + PROMPT, N);
	qsort(t.probability, N, sizeof *t.probability, ascending);
	*top = (double)t.probability[N / 2];
	return t;
}

/* The design's assertions, on one model. */
static void check_properties(const char* spec, int windows, int swaps) {
	struct model* model = open_model(spec);
	struct backend* backend = open_backend(model, PROMPT + N);
	const int blocks = model->weights.shape.n_blocks;
	const struct mask uniform = uniform_mask(blocks);
	bool periodic;
	double top;
	struct text t = write_text(backend, &periodic, &top);
	const double planted = text_matchness(&t, &model->planted[0], windows);
	const double start = text_matchness(&t, &uniform, windows);
	double swapped[2] = {0, 0};
	for (int i = 0; i < swaps; i++) {
		const struct mask m = wrong_swap(&model->planted[0], blocks, i % 2, (uint64_t)i);
		swapped[i % 2] += text_matchness(&t, &m, windows) / (swaps / 2);
	}
	printf("%s: planted %.3f, uniform %.3f, one wrong attention %.3f, MLP %.3f, median top-1 %.3f%s\n", spec,
	       planted, start, swapped[0], swapped[1], top, periodic ? ", periodic" : "");
	assert_false(periodic);
	assert_true(top >= 0.8);
	assert_true(planted >= 0.97);
	assert_true(start >= 0.4 && start <= 0.6);
	assert_true(swapped[0] < planted - 0.04 && swapped[1] < planted - 0.04);
	text_free(&t);
	backend->close(backend);
	model_close(model);
}

static void test_properties(void** state) {
	(void)state;
	const char* full = getenv("SWIFTLET_FULL");
	check_properties("synth:" SMALL ",dtype=f32,plant=0.45,seed=1", 24, 4);
	if (!full || strcmp(full, "1") != 0)
		return;
	check_properties("synth:" SMALL ",dtype=f32,plant=0.45,seed=2", 30, 8);
	check_properties("synth:" SMALL ",dtype=q8_0,ffn=704,plant=0.45,seed=3", 30, 8);
	check_properties("synth:" SMALL ",layers=32,dtype=f16,plant=0.45", 30, 8);
	check_properties("synth:" SMALL ",layers=40,dtype=f16,plant=0.45", 30, 8);
	check_properties("synth:tinyllama-1.1b,dtype=f16,plant=0.45", 6, 4);
}

/* Each half keeps to itself and has its own planted set. */
static void test_two_tasks(void** state) {
	(void)state;
	enum { FEWER = 300 };
	struct model* model = open_model("synth:" SMALL ",dtype=f32,plant=0.45,tasks=2");
	struct backend* backend = open_backend(model, PROMPT + FEWER);
	assert_int_equal(model->n_planted, 2);
	for (int half = 0; half < 2; half++) {
		int32_t prompt[PROMPT];
		for (int i = 0; i < PROMPT; i++)
			prompt[i] = 128 * half + 7 * i;
		struct text t = text_generate(backend, prompt, PROMPT, FEWER);
		for (int i = 0; i < PROMPT + FEWER; i++)
			assert_int_equal(synth_token_half((uint32_t)t.token[i], 2), half);
		const double right = text_matchness(&t, &model->planted[half], 8);
		const double wrong = text_matchness(&t, &model->planted[1 - half], 8);
		printf("half %d: its own set %.3f, the other's %.3f\n", half, right, wrong);
		assert_true(right >= 0.96);
		assert_true(wrong <= 0.75);
		text_free(&t);
	}
	backend->close(backend);
	model_close(model);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_properties),
	    cmocka_unit_test(test_two_tasks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
