/* Penalties and biases: plain decoding is the formula's choice token by token, and every way to draft gives
 * plain decoding's tokens, greedy and sampled: a row of a tree sees the text before it on its own path. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/decode/session_state.h"
#include "kernels/sample.h"
#include "tests/must_session.h"

enum { VOCAB = 512, CONTEXT = 512, PROMPT = 40, TOKENS = 90 };

struct bench {
	swiftlet_model* model;
	swiftlet_engine* engine;
	int32_t prompt[CONTEXT];
};

/* Every look at the clock takes a millisecond, so that costs, and with them the trees, are the same
 * anywhere. */
static double tick(void* user) { return *(double*)user += 1e-3; }

static struct swiftlet_options defaults(void) {
	static double now;
	struct swiftlet_options options;
	options_default(&options);
	options.clock = tick;
	options.clock_user = &now;
	options.engine.threads = 2;
	options.cache.context = CONTEXT;
	options.learning.search = false;
	return options;
}

static int open_bench(void** state) {
	static struct bench b;
	const struct swiftlet_options options = defaults();
	b.model = must_open_model("synth:layers=6,dim=64,heads=4,kv-heads=2,ffn=128,vocab=512,dtype=f16,seed=3",
	                          &options);
	b.engine = must_open_engine(b.model, &options);
	for (int i = 0; i < CONTEXT; i++)
		b.prompt[i] = (i * 37 + 11) % 23; /* few different ones, so that some repeat */
	*state = &b;
	return b.engine ? 0 : -1;
}

static int close_bench(void** state) {
	struct bench* b = *state;
	swiftlet_engine_close(b->engine);
	swiftlet_model_close(b->model);
	return 0;
}

static int generate(swiftlet_session* s, const struct swiftlet_request* request, int32_t* out) {
	char message[512] = "";
	struct swiftlet_step step;
	int n = 0;
	if (!swiftlet_session_start(s, request, message, sizeof message))
		fail_msg("%s", message);
	do {
		assert_true(swiftlet_session_step(s, &step, message, sizeof message));
		for (int i = 0; i < step.n; i++)
			out[n++] = step.token[i].id;
	} while (step.stop == SWIFTLET_RUNNING);
	return n;
}

static swiftlet_session* open_session(struct bench* b, const struct swiftlet_options* options) {
	return must_open_session(b->engine, options);
}

/* ---- the requests --------------------------------------------------------------------------- */

static const struct swiftlet_bias biases[] = {{3, -100}, {17, 12}, {300, -4}, {511, 10}};

enum { REQUESTS = 12 };

static struct swiftlet_request request_of(const struct bench* b, int i) {
	static const double table[REQUESTS / 2][3] = {{1.5, 0, 0},       {0, 0.7, 0}, {0, 0, 1.3},
	                                              {-0.5, -0.2, 0.8}, {0, 0, 0},   {1, 1, 1.2}};
	const double* p = table[i / 2];
	/* prompts of less than a chunk, a whole one, and one and a bit */
	static const int prompt[] = {PROMPT, 256, 300};
	return (struct swiftlet_request){.prompt = b->prompt,
	                                 .n_prompt = prompt[i % 3],
	                                 .max_tokens = TOKENS,
	                                 .temperature = i % 2 ? 1.1 : 0,
	                                 .top_p = i % 4 == 1 ? 0.95 : 1,
	                                 .top_k = i % 4 == 3 ? 50 : 0,
	                                 .seed = 5,
	                                 .presence_penalty = p[0],
	                                 .frequency_penalty = p[1],
	                                 .repetition_penalty = p[2],
	                                 .bias = biases,
	                                 .n_bias = i / 2 == 4   ? 4
	                                           : i / 2 == 5 ? 2
	                                                        : 0};
}

/* ---- the formula, from the text alone ------------------------------------------------------------ */

static void change(float* logits, const struct swiftlet_request* r, const int32_t* text, int n) {
	for (int v = 0; v < VOCAB; v++) {
		int times = 0, before = 0;
		for (int i = 0; i < n; i++) {
			before += text[i] == v;
			times += i >= r->n_prompt && text[i] == v;
		}
		const float repetition = r->repetition_penalty > 0 ? (float)r->repetition_penalty : 1;
		if (before)
			logits[v] = logits[v] > 0 ? logits[v] / repetition : logits[v] * repetition;
		if (times)
			logits[v] = logits[v] - (float)r->presence_penalty - (float)r->frequency_penalty * (float)times;
	}
	for (int i = 0; i < r->n_bias; i++)
		logits[r->bias[i].token] += r->bias[i].bias;
}

/* Decodes by one-row passes that give logits, and chooses from the changed ones. */
static void by_hand(struct bench* b, const struct swiftlet_request* r, int32_t* out) {
	struct error error;
	struct backend* backend = b->engine->backend;
	struct cache* cache = backend->cache_open(backend, CONTEXT, DTYPE_F16, &error);
	static float logits[VOCAB], scratch[2 * VOCAB];
	int32_t text[CONTEXT];
	const int32_t path[1] = {0};
	const uint8_t want[1] = {WANT_TOKEN | WANT_LOGITS};
	const struct sampler sampler = {
	    .temperature = (float)r->temperature, .top_k = r->top_k, .top_p = (float)r->top_p, .seed = r->seed};
	assert_non_null(cache);
	cache->prompt_length = r->n_prompt;
	memcpy(text, r->prompt, (size_t)r->n_prompt * sizeof *text);
	for (int n = 1; n < r->n_prompt + TOKENS; n++) {
		struct result row = {.logits = logits};
		const struct segment segment = {.cache = cache, .base = n - 1, .n = 1};
		const struct pass pass = {.kind = PASS_EXACT,
		                          .n = 1,
		                          .n_segments = 1,
		                          .segment = &segment,
		                          .token = text + n - 1,
		                          .last = 12,
		                          .head = true,
		                          .tap = -1,
		                          .want = want,
		                          .out = &row};
		assert_true(backend->run(backend, &pass, &error));
		backend->commit(cache, path, 1);
		if (n < r->n_prompt)
			continue;
		change(logits, r, text, n);
		assert_true(result_from_logits(&row, WANT_TOKEN, logits, VOCAB, r->temperature > 0 ? &sampler : NULL,
		                               (uint64_t)n, scratch));
		text[n] = out[n - r->n_prompt] = row.token;
	}
	backend->cache_close(cache);
}

static void plain_is_the_formula(void** state) {
	struct bench* b = *state;
	struct swiftlet_options options = defaults();
	options.drafting.method = SWIFTLET_VANILLA;
	swiftlet_session* s = open_session(b, &options);
	int differ = 0;
	for (int i = 0; i < REQUESTS; i++) {
		struct swiftlet_request r = request_of(b, i);
		int32_t expected[CONTEXT] = {0}, got[CONTEXT], without[CONTEXT];
		by_hand(b, &r, expected);
		const int n = generate(s, &r, got);
		assert_int_equal(n, TOKENS);
		assert_memory_equal(got, expected, (size_t)n * sizeof *got);
		r.presence_penalty = r.frequency_penalty = r.repetition_penalty = r.n_bias = 0;
		assert_int_equal(generate(s, &r, without), TOKENS);
		differ += memcmp(got, without, (size_t)n * sizeof *got) != 0;
	}
	assert_int_equal(differ, REQUESTS); /* each of them matters */
	swiftlet_session_close(s);
}

static void any_draft_is_plain(void** state) {
	struct bench* b = *state;
	struct swiftlet_options plain = defaults();
	plain.drafting.method = SWIFTLET_VANILLA;
	swiftlet_session* reference = open_session(b, &plain);
	static const int trees[] = {SWIFTLET_TREE_AUTO, SWIFTLET_TREE_PAPER};
	for (size_t t = 0; t < sizeof trees / sizeof *trees; t++) {
		struct swiftlet_options options = defaults();
		options.drafting.when = SWIFTLET_DRAFT_ALWAYS;
		options.drafting.threshold = 0;
		options.drafting.max_tree = trees[t];
		for (int k = 0; k < 4; k++)
			options.drafting.tree_top_k[k] = TREE_RANKS;
		swiftlet_session* s = open_session(b, &options);
		struct swiftlet_figures f;
		int64_t accepted = 0;
		for (int i = 0; i < REQUESTS; i++) {
			const struct swiftlet_request r = request_of(b, i);
			int32_t expected[CONTEXT], got[CONTEXT];
			const int n = generate(reference, &r, expected);
			assert_int_equal(generate(s, &r, got), n);
			assert_memory_equal(got, expected, (size_t)n * sizeof *got);
			swiftlet_session_figures(s, &f);
			accepted += f.accepted;
		}
		assert_true(accepted > REQUESTS * TOKENS / 8); /* the drafts see the penalties too */
		swiftlet_session_close(s);
	}
	swiftlet_session_close(reference);
}

static void biases_force_and_forbid(void** state) {
	struct bench* b = *state;
	const struct swiftlet_options options = defaults();
	swiftlet_session* s = open_session(b, &options);
	const struct swiftlet_bias always = {77, 100}, both[] = {{76, -100}, {77, 100}};
	struct swiftlet_request r = {.prompt = b->prompt, .n_prompt = PROMPT, .max_tokens = 20, .top_p = 1};
	int32_t got[CONTEXT];
	r.bias = &always;
	r.n_bias = 1;
	for (int i = 0, n = generate(s, &r, got); i < n; i++)
		assert_int_equal(got[i], 77);
	r.bias = both;
	r.n_bias = 2;
	r.frequency_penalty = 2; /* 100 is used up after some 50 of them */
	r.max_tokens = 120;
	int others = 0;
	for (int i = 0, n = generate(s, &r, got); i < n; i++) {
		assert_int_not_equal(got[i], 76);
		others += got[i] != 77;
	}
	assert_in_range(others, 1, 100);
	swiftlet_session_close(s);
}

/* Settings of the model's files count as the request's, unless it has its own. */
static void the_models_own(void** state) {
	struct bench* b = *state;
	static const int32_t suppressed[] = {300, 3};
	static const struct swiftlet_bias never[] = {{3, -100}, {300, -100}};
	const struct swiftlet_options options = defaults();
	swiftlet_session* s = open_session(b, &options);
	struct model* model = b->engine->model;
	for (int i = 0; i < 4; i++) {
		struct swiftlet_request r = request_of(b, 8 + i % 2), said = r;
		int32_t expected[CONTEXT], got[CONTEXT];
		said.repetition_penalty = i < 2 ? 1.3 : 1.1;
		r.repetition_penalty = i < 2 ? 0 : 1.1;
		said.bias = never;
		said.n_bias = 2;
		r.n_bias = 0;
		const int n = generate(s, &said, expected);
		model->repetition_penalty = 1.3f;
		model->suppressed = suppressed;
		model->n_suppressed = 2;
		assert_int_equal(generate(s, &r, got), n);
		model->repetition_penalty = 0;
		model->n_suppressed = 0;
		assert_memory_equal(got, expected, (size_t)n * sizeof *got);
	}
	swiftlet_session_close(s);
}

static void bad_ones_are_named(void** state) {
	struct bench* b = *state;
	const struct swiftlet_options options = defaults();
	swiftlet_session* s = open_session(b, &options);
	static const struct swiftlet_bias beyond = {VOCAB, 1}, big = {1, 101}, nan = {1, NAN},
	                                  unordered[] = {{5, 1}, {4, 1}}, twice[] = {{5, 1}, {5, 1}};
	const struct {
		double presence, frequency, repetition;
		const struct swiftlet_bias* bias;
		int n_bias;
		const char* name;
	} bad[] = {{3, 0, 0, NULL, 0, "presence_penalty"},    {0, NAN, 0, NULL, 0, "frequency_penalty"},
	           {0, 0, -1, NULL, 0, "repetition_penalty"}, {0, 0, INFINITY, NULL, 0, "repetition_penalty"},
	           {0, 0, 0, &beyond, 1, "logit_bias"},       {0, 0, 0, &big, 1, "logit_bias"},
	           {0, 0, 0, &nan, 1, "logit_bias"},          {0, 0, 0, unordered, 2, "logit_bias"},
	           {0, 0, 0, twice, 2, "logit_bias"},         {0, 0, 0, twice, -1, "logit_bias"}};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		char message[512] = "";
		struct swiftlet_request r = {.prompt = b->prompt, .n_prompt = 4, .max_tokens = 4, .top_p = 1};
		r.presence_penalty = bad[i].presence;
		r.frequency_penalty = bad[i].frequency;
		r.repetition_penalty = bad[i].repetition;
		r.bias = bad[i].bias;
		r.n_bias = bad[i].n_bias;
		assert_false(swiftlet_session_start(s, &r, message, sizeof message));
		assert_non_null(strstr(message, bad[i].name));
	}
	swiftlet_session_close(s);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(plain_is_the_formula),    cmocka_unit_test(any_draft_is_plain),
	    cmocka_unit_test(biases_force_and_forbid), cmocka_unit_test(the_models_own),
	    cmocka_unit_test(bad_ones_are_named),
	};
	return cmocka_run_group_tests(tests, open_bench, close_bench);
}
