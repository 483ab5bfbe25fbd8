/* Draft weights by input channel on the GPU: a product has a plain function's bits; passes agree
 * with the CPU's, whatever is left out and skipped; a row's bits do not depend on the rows beside it; the
 * draft loop gives what passes give. Linked a second time with the emulated device, so that it also runs
 * where there is no GPU. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cuda/columns.h"
#include "kernels/draft_weights.h"
#ifdef SWIFTLET_EMULATED
#include "tests/kernels/cuda_emulation/emulated.h"
#endif
#include "tests/kernels/support_random_model.h"
#include "tests/must.h"

enum { CONTEXT = 64, VOCAB = 40, MOST_ROWS = 19, DRAFTED = 4 };

/* ---- draft weights of a random model --------------------------------------------------------- */

struct made {
	struct random_model* model;
	struct draft_weights weights;
	void* data;
};

static struct made make(const struct model_shape* shape, enum dtype type, int with, uint64_t seed) {
	struct made made;
	struct error error = {""};
	const struct draft_weights_format format = {.bits = 4, .columns = true};
	made.model = random_model_make(shape, &type, 1, with, seed);
	assert_true(draft_weights_plan(&made.weights, &made.model->weights, format, &error));
	made.data = aligned_alloc(64, (made.weights.bytes + 127) / 64 * 64);
	draft_weights_place(&made.weights, made.data);
	assert_true(draft_weights_make(&made.weights, made.data, 1, NULL, NULL, &error));
	return made;
}

static void unmake(struct made* made) {
	draft_weights_close(&made->weights);
	free(made->data);
	random_model_free(made->model);
}

/* ---- a product ------------------------------------------------------------------------------- */

/* The sampled quantile that is left out, by the definition: of every so many neighbours of four */
static float plain_threshold(const struct column_map* map, const float* x, float share) {
	enum { MOST = 256 };
	int32_t sample[MOST], least = 0;
	int n = 0;
	const int fours = map->channels / 4, stride = (fours + MOST / 4 - 1) / (MOST / 4);
	float threshold;
	for (int i = 0; i < fours; i += stride)
		for (int j = 4 * i; j < 4 * i + 4; j++) {
			const float saliency = fabsf(x[j]) * column_norm(map->norm[j]);
			memcpy(&sample[n++], &saliency, sizeof saliency);
		}
	for (int bit = 30; bit >= 16 && share < 1; bit--) {
		int above = 0;
		for (int i = 0; i < n; i++)
			above += sample[i] >= (least | 1 << bit);
		least |= (float)above >= share * (float)n ? 1 << bit : 0;
	}
	least -= least > 0;
	memcpy(&threshold, &least, sizeof threshold);
	return threshold;
}

/* The nibble of output o of a channel, by the layout in kernels/columns.h; and its scale */
static int code_and_scale(const struct column_map* map, int channel, int64_t o, float* scale) {
	const int64_t line = o / COLUMN_OUTPUTS;
	int64_t t = 0;
	while (t + 1 < column_tiles(map->outputs) && column_tile(map->outputs, t + 1).line <= line)
		t++;
	const struct column_span tile = column_tile(map->outputs, t);
	const uint8_t* run = map->runs + column_tile_offset(map->outputs, map->channels, t) +
	                     (size_t)channel * column_run(tile.lines);
	const int64_t in_tile = line - tile.line;
	const int within = (int)(o % COLUMN_OUTPUTS), k = within / 32, l = within % 16 / 4, i = within % 4;
	*scale = column_scale(run[in_tile * COLUMN_SCALES + k]);
	const uint8_t byte =
	    run[column_run_scales(tile.lines) + (size_t)in_tile * COLUMN_LINE + (size_t)(16 * l + 4 * k + i)];
	return within % 32 < 16 ? byte & 15 : byte >> 4;
}

/* out (outputs): range by range of 256 channels, with one step each */
static void plain_product(const struct column_map* map, const float* x, float share, float* out) {
	enum { RANGE = 256 };
	const float threshold = plain_threshold(map, x, share);
	for (int64_t o = 0; o < map->outputs; o++)
		out[o] = 0;
	for (int first = 0; first < map->channels; first += RANGE) {
		int kept[RANGE], n = 0;
		float most = 0;
		for (int j = first; j < first + RANGE && j < map->channels; j++)
			if (fabsf(x[j]) * column_norm(map->norm[j]) > threshold) {
				const float size = fabsf(x[j]) * column_scale(map->peak[j]);
				kept[n++] = j;
				most = size > most ? size : most;
			}
		for (int64_t o = 0; o < map->outputs && n > 0; o++) {
			int32_t dot = 0;
			for (int i = 0; i < n; i++) {
				float scale;
				const int code = code_and_scale(map, kept[i], o, &scale);
				dot += (16 * code - 120) * (int)nearbyintf(x[kept[i]] * (127 / most) * scale);
			}
			out[o] += (float)dot * (most / 127 / 16);
		}
	}
}

/* Activations with a few large ones and some zeros, all of them halves */
static void random_row(struct random* random, float* x, int n) {
	for (int j = 0; j < n; j++) {
		const float y = random_normal(random) * (random_below(random, 20) ? 0.25f : 6);
		x[j] = random_below(random, 9) ? ldexpf(roundf(ldexpf(y, 5)), -5) : 0;
	}
}

static void check_product(const struct column_map* map, struct random* random, int left_out) {
	const size_t outputs = (size_t)map->outputs;
	struct error error = {""};
	float* x = malloc((size_t)map->channels * sizeof *x);
	float *got = malloc(outputs * sizeof *got), *expected = malloc(outputs * sizeof *expected);
	random_row(random, x, map->channels);
	if (left_out == 75) /* no channel of the first range is kept */
		memset(x, 0, (size_t)(map->channels < 256 ? map->channels / 2 : 256) * sizeof *x);
	plain_product(map, x, 1 - (float)left_out / 100, expected);
	memset(got, 0xff, outputs * sizeof *got);
	if (!cuda_column_product(map, x, left_out, got, &error))
		fail_msg("%s", error.message);
	for (size_t o = 0; o < outputs; o++)
		if (memcmp(&got[o], &expected[o], sizeof *got) != 0)
			fail_msg("%d channels, %zu outputs, %d %% left out: output %zu is %.9g and not %.9g",
			         map->channels, outputs, left_out, o, (double)got[o], (double)expected[o]);
	free(x);
	free(got);
	free(expected);
}

static void a_product_has_a_plain_functions_bits(void** state) {
	(void)state;
	static const int left_out[] = {0, 40, 57, 75, 99};
	struct random random = {11};
	/* gate and up: 47 lines in two tiles; down: twelve ranges of channels */
	const struct model_shape wide = random_shape(1, 320, 5, 1, 64, 3000, VOCAB);
	const struct model_shape narrow = random_shape(1, 64, 2, 1, 32, 96, VOCAB);
	const struct model_shape* shapes[] = {&wide, &narrow};
	for (int i = 0; i < 2; i++) {
		struct made made = make(shapes[i], DTYPE_F16, 0, (uint64_t)i + 1);
		for (int k = 0; k < COLUMN_KINDS; k++)
			for (size_t s = 0; s < sizeof left_out / sizeof *left_out; s++)
				check_product(&made.weights.columns.block[0].map[k].map, &random, left_out[s]);
		unmake(&made);
	}
}

static void a_row_of_zeros_gives_zeros(void** state) {
	(void)state;
	const struct model_shape shape = random_shape(1, 64, 2, 1, 32, 96, VOCAB);
	struct made made = make(&shape, DTYPE_F16, 0, 3);
	const struct column_map* map = &made.weights.columns.block[0].map[COLUMN_MLP].map;
	float x[64] = {0}, out[192];
	struct error error = {""};
	memset(out, 0xff, sizeof out);
	assert_true(cuda_column_product(map, x, 50, out, &error));
	for (int o = 0; o < 192; o++)
		assert_true(out[o] == 0);
	unmake(&made);
}

/* ---- passes ---------------------------------------------------------------------------------- */

struct variant {
	const struct mask *skip, *quantized;
	const struct levels* levels;
};

struct side {
	struct backend* b;
	struct cache* cache;
};

static struct side open_side(bool cuda, const struct made* made) {
	struct error error = {""};
	struct side side;
	const struct backend_options options = {.isa = "reference", .threads = 1, .context = CONTEXT};
	side.b = (cuda ? cuda_open : cpu_open)(&made->model->weights, &options, &error);
	if (!side.b)
		fail_msg("%s", error.message);
	assert_true(side.b->columns);
	side.cache = side.b->cache_open(side.b, CONTEXT, DTYPE_F16, &error);
	assert_true(side.cache && side.b->use_draft_weights(side.b, &made->weights, &error));
	return side;
}

static void close_side(struct side* side) {
	side->b->cache_close(side->cache);
	side->b->close(side->b);
}

/* Logits (n, VOCAB) and tokens of a chain after nothing */
static void run_chain(const struct side* side, const int32_t* token, int n, struct variant v, float* logits,
                      int32_t* best) {
	uint8_t want[MOST_ROWS];
	struct result out[MOST_ROWS];
	struct error error = {""};
	const struct segment segment = {.cache = side->cache, .n = n};
	for (int i = 0; i < n; i++) {
		want[i] = WANT_TOKEN | WANT_LOGITS;
		out[i].logits = logits + i * VOCAB;
	}
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = n,
	                          .n_segments = 1,
	                          .segment = &segment,
	                          .token = token,
	                          .skip = v.skip,
	                          .quantized = v.quantized,
	                          .levels = v.levels,
	                          .last = 2 * side->b->weights->shape.n_blocks,
	                          .head = true,
	                          .tap = -1,
	                          .want = want,
	                          .out = out};
	if (!side->b->run(side->b, &pass, &error))
		fail_msg("%s", error.message);
	side->b->discard(side->cache);
	for (int i = 0; i < n && best; i++)
		best[i] = out[i].token;
}

static double distance(const float* got, const float* expected, int n) {
	double apart = 0, size = 0;
	for (int i = 0; i < n; i++) {
		apart += ((double)got[i] - expected[i]) * ((double)got[i] - expected[i]);
		size += (double)expected[i] * expected[i];
	}
	return sqrt(apart / size);
}

/* Hidden states (n, dim) of such a chain after sub-layer s */
static void tap_chain(const struct side* side, const int32_t* token, int n, struct variant v, int s,
                      float* states) {
	uint8_t want[MOST_ROWS] = {WANT_NOTHING};
	struct error error = {""};
	const struct segment segment = {.cache = side->cache, .n = n};
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = n,
	                          .n_segments = 1,
	                          .segment = &segment,
	                          .token = token,
	                          .skip = v.skip,
	                          .quantized = v.quantized,
	                          .levels = v.levels,
	                          .last = s + 1,
	                          .tap = s,
	                          .tap_out = states,
	                          .want = want};
	if (!side->b->run(side->b, &pass, &error))
		fail_msg("%s", error.message);
	side->b->discard(side->cache);
}

/* In the first block. Channels share steps otherwise than on a CPU, and activations in F16 move thresholds:
 * such differences grow from sub-layer to sub-layer. */
static void states_agree(const struct side* gpu, const struct side* cpu, const int32_t* token,
                         struct variant v) {
	enum { DIM = 256 };
	float *const memory = malloc(3 * sizeof(float) * MOST_ROWS * DIM), *const got = memory;
	float *const expected = got + MOST_ROWS * DIM, *const plain = expected + MOST_ROWS * DIM;
	for (int s = 0; s < 2; s++) {
		if (v.skip && mask_has(v.skip, s))
			continue;
		tap_chain(gpu, token, MOST_ROWS, v, s, got);
		tap_chain(cpu, token, MOST_ROWS, v, s, expected);
		tap_chain(cpu, token, MOST_ROWS, (struct variant){0}, s, plain);
		const double apart = distance(got, expected, MOST_ROWS * DIM);
		const double from_plain = distance(plain, expected, MOST_ROWS * DIM);
		if (!(apart < 0.2) || !(from_plain > (s == 0 ? 5 : 3) * apart))
			fail_msg("after sub-layer %d %g from the CPU's, whose plain states are %g away", s, apart,
			         from_plain);
	}
	free(memory);
}

static void draft_equals_passes(const struct side* gpu, struct variant v) {
	struct draft_policy policy = {.max_steps = DRAFTED, .top = 2};
	struct result step[DRAFTED];
	struct error error = {""};
	float logits[DRAFTED * VOCAB];
	int32_t token[DRAFTED + 1] = {9}, best[DRAFTED];
	for (int i = 0; i < DRAFT_BINS; i++)
		policy.accept[i] = 1;
	const struct segment root = {.cache = gpu->cache, .n = 1};
	const int steps =
	    gpu->b->draft(gpu->b, &root, 9, v.skip, v.quantized, false, v.levels, &policy, step, &error);
	assert_int_equal(steps, DRAFTED);
	gpu->b->discard(gpu->cache);
	for (int i = 0; i < DRAFTED; i++)
		token[i + 1] = step[i].token;
	run_chain(gpu, token, DRAFTED, v, logits, best);
	assert_memory_equal(best, token + 1, sizeof best);
}

/* The rows of a chain alone, and together with as many as go into several launches */
static void rows_are_independent(const struct side* gpu, const int32_t* token, struct variant v,
                                 const float* expected) {
	static const int sizes[] = {1, 2, 8, 9};
	float logits[MOST_ROWS * VOCAB];
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		run_chain(gpu, token, sizes[i], v, logits, NULL);
		assert_memory_equal(logits, expected, (size_t)sizes[i] * VOCAB * sizeof *logits);
	}
}

static void check_passes(const struct model_shape* shape, enum dtype type, int with, uint64_t seed) {
	struct made made = make(shape, type, with, seed);
	struct side gpu = open_side(true, &made), cpu = open_side(false, &made);
	const struct mask all = made.weights.sub_layers, first = {.word = {2}}, some = {.word = {9}};
	const struct levels half = {{{50, 50, 50, 75}, {40, 30, 20, 10}, {50, 50, 60, 80}}};
	const struct variant variants[] = {
	    {.quantized = &all}, {NULL, &all, &half}, {&first, &all, &half}, {NULL, &some, &half}};
	float plain[MOST_ROWS * VOCAB], got[MOST_ROWS * VOCAB];
	int32_t token[MOST_ROWS];
	struct random random = {seed};
	for (int i = 0; i < MOST_ROWS; i++)
		token[i] = random_below(&random, VOCAB);
	run_chain(&gpu, token, MOST_ROWS, (struct variant){0}, plain, NULL);
	for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
		const struct variant v = variants[i];
		run_chain(&gpu, token, MOST_ROWS, v, got, NULL);
		states_agree(&gpu, &cpu, token, v);
		rows_are_independent(&gpu, token, v, got);
		if (v.quantized == &all)
			draft_equals_passes(&gpu, v);
		run_chain(&gpu, token, MOST_ROWS, (struct variant){0}, got, NULL);
		assert_memory_equal(got, plain, sizeof got);
	}
	close_side(&gpu);
	close_side(&cpu);
	unmake(&made);
}

static void passes_agree_with_the_cpus(void** state) {
	(void)state;
	/* so few channels are all sampled, on a CPU too */
	const struct model_shape plain = random_shape(2, 256, 4, 2, 64, 256, VOCAB);
	check_passes(&plain, DTYPE_F16, WITH_BIASES, 21);
	check_passes(&plain, DTYPE_F16, WITH_HEAD_NORMS | WITH_POST_NORMS, 22);
}

/* Weights go up in pieces, and passes before the last one wait for all of them. */
static void weights_go_up_in_pieces(void** state) {
	(void)state;
	const struct model_shape shape = random_shape(2, 256, 4, 2, 64, 320, VOCAB);
	struct made made = make(&shape, DTYPE_F16, 0, 23);
	struct side a = open_side(true, &made), b = open_side(true, &made);
	const struct variant v = {.quantized = &made.weights.sub_layers};
	const int32_t token[2] = {3, 8};
	float one[2 * VOCAB], other[2 * VOCAB];
	struct error error = {""};
	int pieces = 0;
	for (bool all = false; !all; pieces++)
		assert_true(a.b->upload_draft_weights(a.b, made.weights.bytes / 5, &all, &error));
	assert_true(pieces > 3);
	run_chain(&a, token, 2, v, one, NULL);
	run_chain(&b, token, 2, v, other, NULL);
	assert_memory_equal(one, other, sizeof one);
	close_side(&a);
	close_side(&b);
	unmake(&made);
}

#ifdef SWIFTLET_EMULATED
/* As docs/gpu.md counts them: six a block, and seven more a pass. */
static void launches_are_counted(void** state) {
	(void)state;
	const struct model_shape shape = random_shape(2, 256, 4, 2, 64, 320, VOCAB);
	struct made made = make(&shape, DTYPE_F16, 0, 24);
	struct side gpu = open_side(true, &made);
	const int32_t token = 3;
	float logits[VOCAB];
	const struct variant v = {.quantized = &made.weights.sub_layers};
	run_chain(&gpu, &token, 1, v, logits, NULL); /* the weights go up before it */
	const unsigned long before = emulated_counts().launches;
	run_chain(&gpu, &token, 1, v, logits, NULL);
	assert_int_equal(emulated_counts().launches - before, 2 * 6 + 7);
	close_side(&gpu);
	unmake(&made);
}
#endif

int main(void) {
	if (!gpu_is_here())
		return 77;
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_product_has_a_plain_functions_bits),
	                                   cmocka_unit_test(a_row_of_zeros_gives_zeros),
	                                   cmocka_unit_test(passes_agree_with_the_cpus),
#ifdef SWIFTLET_EMULATED
	                                   cmocka_unit_test(launches_are_counted),
#endif
	                                   cmocka_unit_test(weights_go_up_in_pieces)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
