/* What made-up models write, and what leaving sub-layers out does to it: the properties that make them worth
 * searching on. */
#include "tests/generated_text.h"

#include <math.h>
#include <stdio.h>

#include "core/model/model.h"
#include "core/model/synth.h"
#include "kernels/synth_value.h"

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
	struct error error;
	const struct backend_options options = {.isa = "auto", .max_caches = 1, .context = context};
	struct backend* backend = cpu_open(&model->weights, &options, &error);
	if (!backend)
		fail_msg("%s", error.message);
	return backend;
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

/* Influence of the rows of a window, averaged, by sub-layer. */
static void measure_influence(const struct text* t, double* influence) {
	enum { ROWS = 64 };
	const int sub_layers = 2 * t->backend->weights->shape.n_blocks;
	float* measured = calloc((size_t)sub_layers * ROWS, sizeof *measured);
	const struct segment segment = {.cache = t->cache, .base = t->n_prompt, .n = ROWS};
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = ROWS,
	                          .n_segments = 1,
	                          .segment = &segment,
	                          .token = t->token + t->n_prompt,
	                          .last = sub_layers,
	                          .tap = -1,
	                          .influence = measured};
	struct error error;
	assert_true(t->backend->run(t->backend, &pass, &error));
	t->backend->discard(t->cache);
	for (int s = 0; s < sub_layers; s++) {
		influence[s] = 0;
		for (int i = 0; i < ROWS; i++)
			influence[s] += (double)measured[s * ROWS + i] / ROWS;
	}
	free(measured);
}

/* How far the mask moves the states that a window's rows end with, squared. */
static double moved(const struct text* t, const struct mask* mask) {
	enum { ROWS = 64 };
	const size_t n = (size_t)ROWS * (size_t)t->backend->weights->shape.dim;
	float* states = calloc(2 * n, sizeof *states);
	double sum = 0;
	text_matches_states(t, NULL, 100, ROWS, states);
	text_matches_states(t, mask, 100, ROWS, states + n);
	for (size_t i = 0; i < n; i++)
		sum += ((double)states[i] - (double)states[n + i]) * ((double)states[i] - (double)states[n + i]);
	free(states);
	return sum;
}

/* Both of two neighbours skipped, over the sum of one and the other, averaged over those of a group that go
 * on in one direction (0) and over those of which one takes back (1). */
static void measure_pairs(const struct text* t, const struct synth_landscape* l, double ratio[2]) {
	int pairs[2] = {0};
	ratio[0] = ratio[1] = 0;
	for (int s = 4; s < 2 * t->backend->weights->shape.n_blocks - 2; s++) {
		if (l->first[s] != l->first[s - 2])
			continue;
		struct mask one = {.word = {0}}, other = {.word = {0}};
		mask_set(&one, s, true);
		mask_set(&other, s - 2, true);
		const double apart = moved(t, &one) + moved(t, &other);
		const bool back = (l->common[s] < 0) != (l->common[s - 2] < 0);
		mask_set(&one, s - 2, true);
		ratio[back] += moved(t, &one) / apart;
		pairs[back]++;
	}
	for (int k = 0; k < 2; k++)
		ratio[k] /= pairs[k];
}

/* Matchness with a share of the inner sub-layers skipped, the least influential. */
static double least_influential(const struct text* t, const double* influence, double ratio, int windows) {
	const int inner = 2 * (t->backend->weights->shape.n_blocks - 2);
	struct mask m = {.word = {0}};
	while (mask_count(&m) < (int)(ratio * inner)) {
		int least = -1;
		for (int s = 2; s < inner + 2; s++)
			if (!mask_has(&m, s) && (least < 0 || influence[s] < influence[least]))
				least = s;
		mask_set(&m, least, true);
	}
	return text_matchness(t, &m, windows);
}

/* Least and most matchness with one inner sub-layer skipped, and the thirds' means. */
static void skip_singly(const struct text* t, int windows, double range[2], double third[3]) {
	const int inner = t->backend->weights->shape.n_blocks - 2;
	int n[3] = {0};
	range[0] = 1;
	range[1] = third[0] = third[1] = third[2] = 0;
	for (int s = 2; s < 2 * inner + 2; s++) {
		struct mask one = {.word = {0}};
		mask_set(&one, s, true);
		const double m = text_matchness(t, &one, windows);
		const int at = 3 * (s / 2 - 1) / inner;
		range[0] = fmin(range[0], m);
		range[1] = fmax(range[1], m);
		third[at] += m;
		n[at]++;
	}
	for (int k = 0; k < 3; k++)
		third[k] /= n[k];
}

/* Masks of a share of the inner sub-layers drawn at random. */
static double random_masks(const struct text* t, double ratio, int windows, int masks) {
	const int inner = 2 * (t->backend->weights->shape.n_blocks - 2);
	double sum = 0;
	for (int k = 0; k < masks; k++) {
		struct mask m = {.word = {0}};
		for (uint64_t i = 0; mask_count(&m) < (int)(ratio * inner); i++)
			mask_set(&m, 2 + (int)(synth_mix(synth_mix((uint64_t)k) + i) % (uint64_t)inner), true);
		sum += text_matchness(t, &m, windows) / masks;
	}
	return sum;
}

static void check_graded(const char* shape, uint64_t seed, int windows) {
	char spec[200];
	snprintf(spec, sizeof spec, "synth:%s,landscape=graded,seed=%d", shape, (int)seed);
	struct model* model = open_model(spec);
	struct backend* backend = open_backend(model, PROMPT + N);
	const int blocks = model->weights.shape.n_blocks;
	static struct synth_landscape l;
	double top, influence[2 * MAX_BLOCKS], part[3] = {0}, single[2], third[3], pair[2];
	bool periodic;
	struct text t = write_text(backend, &periodic, &top);
	synth_landscape(&l, blocks, seed);
	measure_influence(&t, influence);
	for (int s = 2; s < 2 * blocks - 2; s++)
		part[3 * (s / 2 - 1) / (blocks - 2)] += influence[s];
	skip_singly(&t, windows, single, third);
	measure_pairs(&t, &l, pair);
	const double uniform = random_masks(&t, 0.45, windows, 6), most = random_masks(&t, 0.9, windows, 6);
	double by_influence[4];
	static const double ratio[4] = {0.2, 0.45, 0.7, 0.9};
	for (int i = 0; i < 4; i++)
		by_influence[i] = least_influential(&t, influence, ratio[i], windows);
	printf("%s: least influential 0.2 %.3f, 0.45 %.3f, 0.7 %.3f, 0.9 %.3f, random 0.45 %.3f, 0.9 %.3f, "
	       "singles %.3f to %.3f, by thirds %.3f %.3f %.3f, influence %.3f %.3f %.3f, "
	       "pairs %.2f and %.2f, median top-1 %.3f%s\n",
	       spec, by_influence[0], by_influence[1], by_influence[2], by_influence[3], uniform, most, single[0],
	       single[1], third[0], third[1], third[2], part[0], part[1], part[2], pair[0], pair[1], top,
	       periodic ? ", periodic" : "");
	assert_false(periodic);
	assert_true(top >= 0.75);
	assert_true(uniform >= 0.3 && uniform <= 0.6);
	assert_true(by_influence[1] >= uniform + 0.1 && by_influence[1] <= 0.85);
	assert_true(by_influence[3] <= 0.4 && most <= 0.3);
	assert_true(single[0] < 0.9 && single[1] >= 0.9 && single[1] < 1);
	assert_true(third[0] < third[1]);
	assert_true(part[0] > part[1] && part[2] > part[1]);
	assert_true(pair[0] > 1.15 && pair[1] < 0.85);
	text_free(&t);
	backend->close(backend);
	model_close(model);
}

static void test_graded(void** state) {
	(void)state;
	const char* full = getenv("SWIFTLET_FULL");
	check_graded("layers=24,dim=64,heads=2,ffn=176,vocab=1024,dtype=f32", 1, 30);
	if (!full || strcmp(full, "1") != 0)
		return;
	check_graded("layers=32,dim=64,heads=2,ffn=176,vocab=1024,dtype=f32", 2, 30);
	check_graded("layers=40,dim=128,heads=4,ffn=352,vocab=512,dtype=f16", 3, 30);
	check_graded(SMALL ",dtype=q8_0,ffn=704", 4, 30);
	check_graded("tinyllama-1.1b,dtype=f16", 1, 4);
	check_graded("tinyllama-1.1b,dtype=q4_k", 1, 4);
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
	    cmocka_unit_test(test_graded),
	    cmocka_unit_test(test_two_tasks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
