/* Made-up models: the text that describes them, and the values of their weights. */
#include "tests/generated_text.h"

#include <math.h>
#include <stdio.h>

#include "core/model/model.h"
#include "core/model/synth.h"
#include "kernels/dtype_blocks.h"
#include "kernels/synth_value.h"

static struct model* open_model(const char* spec, bool on_device) {
	struct error error;
	const struct model_options options = {.synth_on_device = on_device};
	struct model* model = model_open(spec, &options, &error);
	if (!model)
		fail_msg("%s: %s", spec, error.message);
	return model;
}

/* ---- the text ----------------------------------------------------------------------------- */

static void test_errors_name_the_key(void** state) {
	(void)state;
	static const struct {
		const char *text, *expected;
	} bad[] = {
	    {"layers=2,dim=32,heads=2,ffn=64,vocab=64,experts=2,experts-used=3",
	     "experts-used=3, expected at most experts=2"},
	    {"layers=2,dim=32,heads=2,ffn=64,vocab=64,expert-ffn=3", "need experts="},
	    {"layers=2,dim=32,heads=2,ffn=64,vocab=64,taps=3", "need attention-every="},
	    {"layers=2,dim=32,heads=2,ffn=64,vocab=64,key-dim=8,value-dim=8", "need attention-every="},
	    {"layers=2,dim=32,heads=2,ffn=64,vocab=64,shared=0.5", "need window="},
	    {"layers=2,dim=32,heads=2,ffn=64,vocab=64,window=8,full-every=1", "full-every=1"},
	    {"layers=2,dim=32,heads=2,ffn=64,vocab=64,window=8,full-head-dim=15", "expected an even number"},
	    {"gemma-4-e4b,experts=2", "window=512 does not go with"},
	    {"gemma-4-e4b,mtp=1", "window=512 does not go with"},
	    {"gemma-4-e4b,token-input=100,dtype=q4_k", "token-input=100"},
	    {"gemma-4-e4b,full-head-dim=514,dtype=q4_k", "heads x full-head-dim=4112"},
	    {"", "no shape"},
	    {"llama-9", "llama-2-7b"},
	    {"layers=4", "dim= is missing"},
	    {"tinyllama-1.1b,plant", "\"plant\" has no value"},
	    {"tinyllama-1.1b,plant=1.5", "plant=1.5"},
	    {"tinyllama-1.1b,plant=nan", "plant=nan"},
	    {"tinyllama-1.1b,epsilon=-1", "epsilon=-1"},
	    {"tinyllama-1.1b,epsilon=1x", "epsilon=1x"},
	    {"tinyllama-1.1b,colour=red", "colour"},
	    {"tinyllama-1.1b,dtype=q2_k", "q4_0"},
	    {"tinyllama-1.1b,dtype=int3", "dtype=int3"},
	    {"tinyllama-1.1b,seed=-1", "seed=-1"},
	    {"tinyllama-1.1b,seed=99999999999999999999", "seed="},
	    {"tinyllama-1.1b,layers=100000", "layers=100000"},
	    {"tinyllama-1.1b,layers=99999999999999999999999", "layers="},
	    {"tinyllama-1.1b,vocab=0", "vocab=0"},
	    {"tinyllama-1.1b,heads=33", "kv-heads=4"},
	    {"tinyllama-1.1b,kv-heads=3", "kv-heads=3"},
	    {"tinyllama-1.1b,tasks=3", "tasks=3"},
	    {"tinyllama-1.1b,tasks=2,vocab=4000", "vocab=4000"},
	    {"tinyllama-1.1b,ffn=5600,dtype=q4_k", "ffn=5600"},
	    {"layers=2,dim=64,heads=4,ffn=96,vocab=256,plant=0.5", "layers=2"},
	    {"mixtral-8x7b,tasks=2", "experts=8"},
	    {"layers=4,dim=60,heads=4,ffn=96,vocab=256", "head-dim=15"},
	    {"layers=4,dim=62,heads=4,ffn=96,vocab=256", "heads=4"},
	    {"llama-2-70b,layers=256,dim=65536,ffn=1048576", "memory"},
	};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		char spec[256];
		struct error error = {""};
		snprintf(spec, sizeof spec, "synth:%s", bad[i].text);
		assert_null(model_open(spec, NULL, &error));
		if (!strstr(error.message, bad[i].expected))
			fail_msg("%s: \"%s\" does not say \"%s\"", spec, error.message, bad[i].expected);
	}
}

static void test_published_shape(void** state) {
	(void)state;
	struct model* m = open_model("synth:tinyllama-1.1b,plant=0.45,context=512", true);
	const struct model_shape* s = &m->weights.shape;
	assert_int_equal(s->n_blocks, 22);
	assert_int_equal(s->head_dim, 64);
	assert_int_equal(s->kv_heads, 4);
	assert_int_equal(s->context, 512);
	assert_true(fabs(m->parameters - 1.1e9) < 1e7);
	assert_null(m->weights.embedding.data);
	assert_int_equal(m->weights.embedding.synth.kind, SYNTH_EMBEDDING);
	assert_int_equal(m->n_end_tokens, 0);
	model_close(m);
}

static void test_experts(void** state) {
	(void)state;
	struct error error;
	struct model* m =
	    model_open("synth:qwen3-30b-a3b", &(struct model_options){.vocabulary_only = true}, &error);
	assert_non_null(m);
	assert_true(fabs(m->parameters - 30.5e9) < 1e8);
	model_close(m);
	m = open_model("synth:layers=2,dim=32,heads=2,ffn=64,vocab=64,experts=5,experts-used=3,expert-ffn=16",
	               false);
	const struct block_weights* b = &m->weights.block[1];
	assert_int_equal(b->router.rows, 5);
	assert_int_equal(b->expert[4].w_down.cols, 16);
	assert_non_null(b->expert[4].w_down.data);
	assert_false(tensor_present(&b->w_gate));
	model_close(m);
}

/* Gemma 4 E4B's own count of parameters is 7.46e9 for the text, with a head that is the embedding again. */
static void test_windows(void** state) {
	(void)state;
	struct error error;
	const struct model_options no_weights = {.vocabulary_only = true};
	struct model* m = model_open("synth:gemma-4-e4b", &no_weights, &error);
	assert_non_null(m);
	const struct model_shape* s = &m->weights.shape;
	assert_true(fabs(m->parameters - 262144.0 * 2560 - 7.46e9) < 1e7);
	for (int b = 0; b < 42; b++) {
		const struct block_weights* w = &m->weights.block[b];
		assert_int_equal(block_set_has(&s->sliding, b), b % 6 != 5);
		assert_int_equal(w->wq.rows, b % 6 == 5 ? 4096 : 2048);
		assert_int_equal(w->wk.rows, b >= 24 ? 0 : b % 6 == 5 ? 1024 : 512);
		assert_int_equal(block_keys_of(s, b), b < 24 ? b : b % 6 == 5 ? 23 : 22);
	}
	assert_int_equal(m->weights.input_embedding.cols, 42 * 256);
	model_close(m);
	for (int layers = 1; layers < 42; layers++) {
		char spec[64];
		snprintf(spec, sizeof spec, "synth:gemma-4-e4b,layers=%d", layers);
		m = model_open(spec, &no_weights, &error);
		assert_non_null(m);
		s = &m->weights.shape;
		assert_false(block_set_has(&s->sliding, layers - 1));
		for (int b = 0; b < layers; b++)
			assert_true(block_keys_of(s, b) >= 0);
		assert_int_equal(s->sharing_from > 0, layers > 6);
		model_close(m);
	}
}

/* ---- what is planted ---------------------------------------------------------------------- */

static void test_planted_sets(void** state) {
	(void)state;
	for (int layers = 3; layers <= 80; layers += 7) {
		struct synth_spec s = {.layers = layers, .plant = 0.45, .tasks = 2};
		const int n = (int)floor(0.45 * 2 * (layers - 2));
		for (s.seed = 0; s.seed < 20; s.seed++) {
			const struct mask m = synth_planted(&s, 0), again = synth_planted(&s, 0),
			                  other = synth_planted(&s, 1);
			int attention = 0, mlp = 0;
			for (int i = 0; i < 2 * MAX_BLOCKS; i++)
				if (mask_has(&m, i)) {
					assert_in_range(i, 2, 2 * layers - 3);
					*(i % 2 == 0 ? &attention : &mlp) += 1;
				}
			assert_int_equal(attention + mlp, n);
			assert_true(abs(attention - mlp) <= 1);
			assert_true(mask_equal(&m, &again));
			if (layers > 10)
				assert_false(mask_equal(&m, &other));
		}
	}
}

/* ---- values ------------------------------------------------------------------------------- */

/* The bytes in memory are what the inline functions say, in every type. */
static void test_memory_is_the_generator(void** state) {
	(void)state;
	static const char* const types[] = {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q4_k", "q6_k"};
	for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
		char spec[200];
		snprintf(spec, sizeof spec,
		         "synth:layers=5,dim=256,heads=4,ffn=1280,vocab=512,tasks=2,plant=1,dtype=%s", types[k]);
		struct model* m = open_model(spec, false);
		const struct tensor* list[] = {&m->weights.embedding,   &m->weights.output,
		                               &m->weights.block[1].wo, &m->weights.block[0].w_down,
		                               &m->weights.block[2].wq, &m->weights.block[1].mlp_norm,
		                               &m->weights.block[2].wo, &m->weights.block[3].w_down};
		for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
			const struct tensor* t = list[i];
			const size_t bytes = dtype_row_bytes(t->type, t->cols);
			float x[1280];
			uint8_t stored[1280 * 4];
			for (int64_t r = 0; r < t->rows; r++) {
				const struct synth_row row = synth_row_of(&t->synth, r, t->rows, t->cols);
				for (int64_t c = 0; c < t->cols; c++)
					x[c] = synth_element(&t->synth, &row, c);
				synth_encode(t->type, stored, x, t->cols);
				assert_memory_equal(stored, (const uint8_t*)t->data + (size_t)r * bytes, bytes);
			}
		}
		model_close(m);
	}
}

/* Encoders against the readers of kernels/dtype.c: no element is off by more than the type's step. */
static void test_encoders(void** state) {
	(void)state;
	static const struct {
		enum dtype type;
		double bound; /* of the block's largest element */
	} types[] = {{DTYPE_F32, 0},     {DTYPE_F16, 0x1p-11}, {DTYPE_BF16, 0x1p-8}, {DTYPE_Q8_0, 0.006},
	             {DTYPE_Q4_0, 0.14}, {DTYPE_Q4_1, 0.08},   {DTYPE_Q4_K, 0.12},   {DTYPE_Q6_K, 0.04}};
	for (size_t k = 0; k < sizeof types / sizeof *types; k++)
		for (uint64_t trial = 0; trial < 200; trial++) {
			enum { N = 256 };
			const struct synth_row_key key = synth_row_key(7, trial);
			float x[N], y[N];
			uint8_t stored[N * 4];
			float largest = 0;
			for (int i = 0; i < N; i++) {
				x[i] = trial == 0
				           ? 0.0f
				           : (float)synth_draw(key, (uint32_t)i) * ldexpf(1.0f, (int)(trial % 12) - 14);
				largest = fmaxf(largest, fabsf(x[i]));
			}
			synth_encode(types[k].type, stored, x, N);
			dtype_to_float(types[k].type, stored, y, N);
			for (int i = 0; i < N; i++)
				if (fabs((double)y[i] - (double)x[i]) >
				    types[k].bound * (double)largest + 1e-6 * (double)largest)
					fail_msg("%s, trial %d: %g became %g (largest %g)", dtype_name(types[k].type), (int)trial,
					         (double)x[i], (double)y[i], (double)largest);
		}
}

/* Every half can be reached from float and comes back: rounding is to nearest, ties to even. */
static void test_half_rounding(void** state) {
	(void)state;
	for (uint32_t h = 0; h < 0x7bff; h++) {
		float here, next;
		uint16_t a = (uint16_t)h, b = (uint16_t)(h + 1);
		dtype_to_float(DTYPE_F16, &a, &here, 1);
		dtype_to_float(DTYPE_F16, &b, &next, 1);
		const float middle = here + (next - here) / 2;
		assert_int_equal(half_from_float(here), h);
		assert_int_equal(half_from_float(-here), h | 0x8000u);
		assert_int_equal(half_from_float(middle), h + (h & 1u));
		assert_int_equal(half_from_float(nextafterf(middle, next)), h + 1);
		assert_int_equal(half_from_float(nextafterf(middle, here)), h);
	}
}

static void test_draws_look_normal(void** state) {
	(void)state;
	enum { ROWS = 512, COLS = 512 };
	double sum = 0, square = 0, fourth = 0, neighbour = 0, below = 0;
	int32_t last[COLS] = {0};
	for (int r = 0; r < ROWS; r++) {
		const struct synth_row_key key = synth_row_key(3, (uint64_t)r);
		double before = 0;
		for (int c = 0; c < COLS; c++) {
			const int32_t draw = synth_draw(key, (uint32_t)c);
			const double x = draw / SYNTH_DEVIATION;
			sum += x;
			square += x * x;
			fourth += x * x * x * x;
			neighbour += x * before;
			below += x * last[c] / SYNTH_DEVIATION;
			last[c] = draw;
			before = x;
		}
	}
	const double n = (double)ROWS * COLS, bound = 4 / sqrt(n);
	assert_true(fabs(sum / n) < bound);
	assert_true(fabs(square / n - 1) < 2 * bound);
	assert_true(fabs(fourth / n - 2.7) < 10 * bound); /* the sum of four uniform ones: 3 - 1.2/4 */
	assert_true(fabs(neighbour / n) < bound);
	assert_true(fabs(below / n) < bound);
}

/* One cycle through all clusters of a half, whatever their number. */
static void test_one_cycle(void** state) {
	(void)state;
	for (uint32_t clusters = 1; clusters < 700; clusters += clusters < 40 ? 1 : 61) {
		bool seen[700] = {false};
		int still = 0;
		for (uint32_t c = 0; c < clusters; c++) {
			const uint32_t p = synth_cluster_position(5, c, clusters);
			assert_true(p < clusters && !seen[p]);
			seen[p] = true;
			still += p == c;
		}
		assert_true(clusters < 10 || still < 10);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_errors_name_the_key),
	    cmocka_unit_test(test_published_shape),
	    cmocka_unit_test(test_experts),
	    cmocka_unit_test(test_windows),
	    cmocka_unit_test(test_planted_sets),
	    cmocka_unit_test(test_memory_is_the_generator),
	    cmocka_unit_test(test_encoders),
	    cmocka_unit_test(test_half_rounding),
	    cmocka_unit_test(test_draws_look_normal),
	    cmocka_unit_test(test_one_cycle),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
