/* The screened head on the GPU against the whole one: the same token and, on the emulated device, the same
 * bits of its logit, on heads and states that are random, peaked, full of equal and of nearly equal rows,
 * large, tiny or lopsided; each row as it is alone; and the whole head where nothing can be screened, or
 * more is asked of a row. Linked a second time with the emulated device. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/draft_weights.h"
#include "kernels/dtype_blocks.h"
#include "tests/kernels/support_random_model.h"
#include "tests/must.h"
#ifdef SWIFTLET_EMULATED
#include "tests/kernels/cuda_emulation/emulated.h"
#endif

enum { DIM = 96, VOCAB = 1099, ROWS = 10, TOP = 8, CONTEXT = 64, STEPS = 6 };

enum { RANDOM, PEAKED, EQUAL, NEARLY_EQUAL, LARGE, TINY, LOPSIDED, ZERO_STATE, N_KINDS };

/* ---- heads and states ---------------------------------------------------------------------------- */

static void fill_head(float* head, int kind, bool wide, struct random* r) {
	const float scale = kind == LARGE ? (wide ? 3e3f : 3e2f) : kind == TINY ? (wide ? 3e-7f : 3e-4f) : 1;
	for (int i = 0; i < VOCAB * DIM; i++)
		head[i] = random_normal(r) * scale;
	for (int v = 1; v < VOCAB && (kind == EQUAL || kind == NEARLY_EQUAL); v++) {
		memcpy(head + v * DIM, head + v % 7 * DIM, DIM * sizeof *head);
		if (kind == NEARLY_EQUAL)
			head[v * DIM + random_below(r, DIM)] *= 1 + 0x1p-7f;
	}
}

/* wide: of types that hold what halves do not */
static void fill_states(float* state, const float* head, int kind, bool wide, struct random* r) {
	const float scale = kind == LARGE ? (wide ? 1e15f : 10) : kind == TINY ? (wide ? 1e-30f : 1e-3f) : 1;
	const float share = kind == RANDOM ? 0 : kind == PEAKED ? 0.7f : 0.2f;
	for (int i = 0; i < ROWS; i++) {
		const float* row = head + (size_t)random_below(r, VOCAB) * DIM;
		for (int k = 0; k < DIM; k++)
			state[i * DIM + k] =
			    kind == ZERO_STATE ? 0 : scale * (share * row[k] + (1 - share) * random_normal(r));
		if (kind == LOPSIDED)
			state[i * DIM + 5] = 1e4f;
	}
}

static void encode(enum dtype type, void* out, const float* x) {
	for (int k = 0; k < DIM && type == DTYPE_F16; k++)
		((uint16_t*)out)[k] = half_from_float(x[k]);
	for (int k = 0; k < DIM && type == DTYPE_BF16; k++)
		((uint16_t*)out)[k] = bf16_from_float(x[k]);
	if (type == DTYPE_F32)
		memcpy(out, x, DIM * sizeof *x);
	if (type == DTYPE_Q8_0)
		quantize_row(type, out, x, DIM);
}

/* ---- two backends on one head ---------------------------------------------------------------------- */

struct pair {
	struct random_model* model;
	unsigned char* bytes; /* the head's */
	struct backend *full, *screened;
	struct cache *full_cache, *screened_cache;
};

static struct backend* open_one(const struct weight_table* weights, bool screened, int devices) {
	const struct backend_options options = {
	    .context = CONTEXT, .screened_head = screened, .devices = devices};
	return must_open(cuda_open, weights, &options);
}

static struct pair open_pair(enum dtype type, const float* head) {
	struct error error;
	const struct model_shape shape = random_shape(1, DIM, 2, 1, 48, 64, VOCAB);
	const enum dtype plain = type == DTYPE_BF16 ? DTYPE_BF16 : DTYPE_F16;
	struct pair p = {.model = random_model_make(&shape, &plain, 1, 0, 1)};
	const size_t row = dtype_row_bytes(type, DIM);
	p.bytes = malloc(row * VOCAB);
	for (int v = 0; v < VOCAB; v++)
		encode(type, p.bytes + (size_t)v * row, head + (size_t)v * DIM);
	p.model->weights.output = (struct tensor){.type = type, .rows = VOCAB, .cols = DIM, .data = p.bytes};
	p.full = open_one(&p.model->weights, false, 0);
	p.screened = open_one(&p.model->weights, true, 0);
	p.full_cache = p.full->cache_open(p.full, CONTEXT, DTYPE_F16, &error);
	p.screened_cache = p.screened->cache_open(p.screened, CONTEXT, DTYPE_F16, &error);
	assert_non_null(p.full_cache);
	assert_non_null(p.screened_cache);
	return p;
}

static void close_pair(struct pair* p) {
	p->full->cache_close(p->full_cache);
	p->screened->cache_close(p->screened_cache);
	p->full->close(p->full);
	p->screened->close(p->screened);
	random_model_free(p->model);
	free(p->bytes);
}

/* The head on n states alone. */
static bool run_segment(struct backend* b, struct segment segment, const float* state, uint8_t want,
                        struct result* out) {
	struct error error;
	uint8_t wants[ROWS];
	memset(wants, want, sizeof wants);
	for (int i = 0; i < segment.n; i++)
		out[i].top = TOP;
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = segment.n,
	                          .n_segments = 1,
	                          .segment = &segment,
	                          .state = state,
	                          .first = 2,
	                          .last = 2,
	                          .head = true,
	                          .bare_head = true,
	                          .tap = -1,
	                          .want = wants,
	                          .out = out};
	const bool done = b->run(b, &pass, &error);
	b->discard(segment.cache);
	if (!done)
		assert_non_null(strstr(error.message, "not finite numbers"));
	return done;
}

static bool run_head(struct backend* b, struct cache* cache, const float* state, int n, uint8_t want,
                     struct result* out) {
	return run_segment(b, (struct segment){.cache = cache, .n = n}, state, want, out);
}

/* ---- the comparison -------------------------------------------------------------------------------- */

/* The best logit and all that are as large are the whole head's; nobody's is larger. */
static void same_logits(const struct pair* p, const struct result* full, const char* name) {
#ifdef SWIFTLET_EMULATED
	static float whole[ROWS * VOCAB], mixed[ROWS * VOCAB];
	emulated_logits(p->full, ROWS, whole);
	emulated_logits(p->screened, ROWS, mixed);
	for (int i = 0; i < ROWS; i++) {
		const float *w = whole + i * VOCAB, *m = mixed + i * VOCAB;
		const int32_t token = full[i].token;
		if (memcmp(&w[token], &m[token], sizeof(float)) != 0)
			fail_msg("%s: row %d: logit %.9g, of the whole head %.9g", name, i, (double)m[token],
			         (double)w[token]);
		for (int v = 0; v < VOCAB; v++)
			assert_true(m[v] < m[token] || m[v] == w[v]);
	}
#else
	(void)p, (void)full, (void)name;
#endif
}

static void same_results(const struct pair* p, const float* state, int kind, const char* name) {
	static const uint8_t wants[] = {WANT_TOKEN | WANT_TOP | WANT_ROUGH, WANT_TOKEN | WANT_TOP | WANT_GUESS,
	                                WANT_TOKEN};
	struct result full[ROWS], screened[ROWS], alone = {0};
	assert_true(run_head(p->full, p->full_cache, state, ROWS, WANT_TOKEN | WANT_TOP, full));
	for (int k = 0; k < 3; k++) {
		assert_true(run_head(p->screened, p->screened_cache, state, ROWS, wants[k], screened));
		same_logits(p, full, name);
		for (int i = 0; i < ROWS; i++)
			if (screened[i].token != full[i].token)
				fail_msg("%s: row %d gives token %d, the whole head %d", name, i, screened[i].token,
				         full[i].token);
	}
	assert_true(run_head(p->screened, p->screened_cache, state, ROWS, wants[0], screened));
	for (int i = 0; i < ROWS; i++) { /* what nearly wins is computed, so that its order is the head's */
		const int n = kind == EQUAL || kind == NEARLY_EQUAL ? TOP : 1;
		assert_memory_equal(screened[i].top_token, full[i].top_token, (size_t)n * sizeof(int32_t));
	}
	const int some = 7;
	assert_true(run_head(p->screened, p->screened_cache, state + some * DIM, 1, wants[0], &alone));
	assert_memory_equal(alone.top_token, screened[some].top_token, sizeof alone.top_token);
	assert_memory_equal(alone.top_probability, screened[some].top_probability, sizeof alone.top_probability);
}

static void compare(enum dtype type, int kind, uint64_t seed) {
	struct random r = {seed};
	float* head = malloc(sizeof(float) * VOCAB * DIM);
	float state[ROWS * DIM];
	char name[80];
	const bool wide = type == DTYPE_BF16;
	snprintf(name, sizeof name, "%s, kind %d", dtype_name(type), kind);
	fill_head(head, kind, wide, &r);
	struct pair p = open_pair(type, head);
	assert_true(p.screened->screened_bytes > 0);
	assert_int_equal(p.full->screened_bytes, 0);
	fill_states(state, head, kind, wide, &r);
	same_results(&p, state, kind, name);
	close_pair(&p);
	free(head);
}

static void the_same_tokens(void** unused) {
	(void)unused;
	static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_Q8_0}; /* the first becomes halves */
	for (int t = 0; t < 3; t++)
		for (int kind = 0; kind < N_KINDS; kind++)
			compare(types[t], kind, 1 + (uint64_t)(t * N_KINDS + kind));
}

/* ---- what is read ---------------------------------------------------------------------------------- */

#ifdef SWIFTLET_EMULATED
static unsigned long weights_read(struct backend* b, struct cache* cache, const float* state, int n) {
	struct result out[ROWS];
	const unsigned long before = emulated_counts().weights;
	assert_true(run_head(b, cache, state, n, WANT_TOKEN, out));
	return emulated_counts().weights - before;
}
#endif

/* If one token stands out, half of a head in halves is not read; if many may win, the screen is soon left. */
static void few_rows_are_read(void** unused) {
	(void)unused;
#ifdef SWIFTLET_EMULATED
	struct random r = {9};
	float* head = malloc(sizeof(float) * VOCAB * DIM);
	float state[ROWS * DIM];
	fill_head(head, PEAKED, false, &r);
	struct pair p = open_pair(DTYPE_F16, head);
	fill_states(state, head, PEAKED, false, &r);
	const unsigned long whole = weights_read(p.full, p.full_cache, state, 1);
	assert_true(weights_read(p.screened, p.screened_cache, state, 1) < 0.6 * (double)whole);
	fill_states(state, head, ZERO_STATE, false, &r);
	assert_true(weights_read(p.screened, p.screened_cache, state, 1) > whole);
	for (int i = 0; i < 30; i++)
		weights_read(p.screened, p.screened_cache, state, 1);
	assert_int_equal(weights_read(p.screened, p.screened_cache, state, 1), whole);
	close_pair(&p);
	free(head);
#endif
}

/* ---- more than the best ---------------------------------------------------------------------------- */

static void same_as_whole(const struct pair* p, struct segment s, const float* state, uint8_t want) {
	struct result full[ROWS] = {{0}}, screened[ROWS] = {{0}};
	s.cache = p->full_cache;
	assert_true(run_segment(p->full, s, state, want, full));
	s.cache = p->screened_cache;
	assert_true(run_segment(p->screened, s, state, want, screened));
	assert_memory_equal(full, screened, sizeof full);
}

/* Probabilities, a sampler, penalties, a bound: the whole head's bits. */
static void who_asks_for_more_gets_it(void** unused) {
	(void)unused;
	static const struct sampler sampler = {.temperature = 0.9f, .top_p = 0.95f, .seed = 4};
	static uint8_t in_prompt[VOCAB];
	static int32_t generated[VOCAB];
	const struct penalties penalties = {.repetition = 1.3f, .in_prompt = in_prompt, .generated = generated};
	uint64_t bits[(VOCAB + 63) / 64] = {0, 0xff00ff, 0, 0, 1};
	const uint64_t* allowed[ROWS];
	struct random r = {5};
	float* head = malloc(sizeof(float) * VOCAB * DIM);
	float state[ROWS * DIM];
	for (int i = 0; i < ROWS; i++)
		allowed[i] = bits;
	fill_head(head, RANDOM, false, &r);
	struct pair p = open_pair(DTYPE_F16, head);
	fill_states(state, head, RANDOM, false, &r);
	const struct segment s = {.n = ROWS};
	struct segment more = s;
	same_as_whole(&p, s, state, WANT_TOKEN | WANT_TOP);
	same_as_whole(&p, s, state, WANT_TOKEN | WANT_LOG_SUM_EXP);
	more.sampler = &sampler;
	same_as_whole(&p, more, state, WANT_TOKEN);
	more = s;
	more.penalties = &penalties;
	same_as_whole(&p, more, state, WANT_TOKEN);
	more = s;
	more.allowed = allowed;
	same_as_whole(&p, more, state, WANT_TOKEN);
	/* but a guess is bounded by nothing */
	struct result bounded[ROWS], unbounded[ROWS];
	more.cache = p.screened_cache;
	assert_true(run_segment(p.screened, more, state, WANT_TOKEN | WANT_GUESS, bounded));
	assert_true(run_head(p.full, p.full_cache, state, ROWS, WANT_TOKEN, unbounded));
	for (int i = 0; i < ROWS; i++)
		assert_int_equal(bounded[i].token, unbounded[i].token);
	close_pair(&p);
	free(head);
}

/* ---- whole passes, drafts ------------------------------------------------------------------------------ */

/* Greedy text and a draft behind it; whose tokens, and by step. loops: by the device. */
static void decode(struct backend* b, bool quantized, bool loops, const struct sampler* sampler,
                   int32_t* out) {
	static const struct mask none;
	struct error error = {""};
	struct cache* c = b->cache_open(b, CONTEXT, DTYPE_F16, &error);
	const struct segment chain = {.cache = c, .n = 1, .sampler = sampler};
	struct draft_policy policy = {.max_steps = STEPS, .top = 2};
	struct result drafted[STEPS] = {{0}};
	for (int i = 0; i < DRAFT_BINS; i++)
		policy.accept[i] = 1;
	if (loops && b->draft)
		assert_int_equal(b->draft(b, &chain, 5, NULL, NULL, quantized, NULL, &policy, drafted, &error),
		                 STEPS);
	for (int32_t i = 0, token = 5; i < STEPS && !(loops && b->draft); token = drafted[i++].token) {
		const int32_t parent = i - 1;
		const uint8_t want = WANT_TOKEN | WANT_TOP | WANT_GUESS;
		struct pass pass = pass_over(&chain, &token, &parent, 2, &want, &drafted[i]);
		drafted[i].top = 2;
		pass.skip = &none;
		pass.head = true;
		pass.quantized_head = quantized;
		if (!b->run(b, &pass, &error))
			fail_msg("%s", error.message);
	}
	for (int i = 0; i < STEPS; i++)
		memcpy(out + 3 * i, (int32_t[]){drafted[i].token, drafted[i].top_token[1], 0}, sizeof(int32_t[3]));
	for (int i = 0; i < STEPS; i++)
		memcpy(out + 3 * i + 2, &drafted[i].top_probability[1], sizeof(float));
	b->cache_close(c);
}

/* The draft loop is its passes, bit for bit; greedy, its tokens are the whole head's. A copy's head comes
 * before it. */
static void drafts(void** unused) {
	(void)unused;
	const struct sampler sampler = {.temperature = 0.8f, .top_p = 1, .seed = 11};
	int32_t whole[3 * STEPS], looped[3 * STEPS], stepped[3 * STEPS];
	struct random r = {6};
	struct error error;
	struct draft_weights quantized;
	float* head = malloc(sizeof(float) * VOCAB * DIM);
	fill_head(head, RANDOM, false, &r);
	struct pair p = open_pair(DTYPE_F16, head);
	for (int sampled = 0; sampled < 2; sampled++) {
		const struct sampler* with = sampled ? &sampler : NULL;
		decode(p.full, false, true, with, whole);
		decode(p.screened, false, true, with, looped);
		decode(p.screened, false, false, with, stepped);
		assert_memory_equal(looped, stepped, sizeof looped);
		for (int i = 0; i < STEPS && !sampled; i++)
			assert_int_equal(looped[3 * i], whole[3 * i]);
	}
	assert_true(
	    draft_weights_plan(&quantized, &p.model->weights, (struct draft_weights_format){.bits = 8}, &error));
	assert_true(quantized.head);
	void* data =
	    aligned_alloc(DRAFT_WEIGHTS_ALIGNMENT, (quantized.bytes + DRAFT_WEIGHTS_ALIGNMENT - 1) /
	                                               DRAFT_WEIGHTS_ALIGNMENT * DRAFT_WEIGHTS_ALIGNMENT);
	draft_weights_place(&quantized, data);
	assert_true(draft_weights_make(&quantized, data, 1, NULL, NULL, &error));
	assert_true(p.full->use_draft_weights(p.full, &quantized, &error));
	assert_true(p.screened->use_draft_weights(p.screened, &quantized, &error));
	decode(p.full, true, true, NULL, whole);
	decode(p.screened, true, true, NULL, looped);
	assert_memory_equal(looped, whole, sizeof looped);
	decode(p.screened, false, true, NULL, looped); /* and without it, as before */
	decode(p.screened, false, false, NULL, stepped);
	assert_memory_equal(looped, stepped, sizeof looped);
	close_pair(&p);
	draft_weights_close(&quantized);
	free(data);
	free(head);
}

/* ---- what is not screened ------------------------------------------------------------------------- */

static void what_is_not_finite(void** unused) {
	(void)unused;
	const float bad[] = {NAN, INFINITY, -INFINITY};
	struct result out[ROWS];
	float state[ROWS * DIM];
	float* head = malloc(sizeof(float) * VOCAB * DIM);
	for (int i = 0; i < 3; i++) {
		struct random r = {9};
		fill_head(head, RANDOM, false, &r);
		struct pair p = open_pair(DTYPE_F32, head);
		fill_states(state, head, RANDOM, false, &r);
		state[3 * DIM + 9] = bad[i];
		assert_false(run_head(p.screened, p.screened_cache, state, ROWS, WANT_TOKEN, out));
		close_pair(&p);
		head[100 * DIM + 33] = bad[i];
		p = open_pair(DTYPE_F32, head);
		assert_int_equal(p.screened->screened_bytes, 0);
		close_pair(&p);
	}
	free(head);
}

static size_t screened_of(enum dtype type, int with, int devices) {
	const struct model_shape shape = random_shape(1, 256, 4, 2, 64, 256, 300);
	struct random_model* m = random_model_make(&shape, &type, 1, with, 1);
	struct backend* b = open_one(&m->weights, true, devices);
	const size_t bytes = b->screened_bytes;
	b->close(b);
	random_model_free(m);
	return bytes;
}

static void where_there_is_none(void** unused) {
	(void)unused;
	assert_true(screened_of(DTYPE_F16, 0, 0) > 0);
	assert_true(screened_of(DTYPE_F16, 0, 1) > 0);
	assert_int_equal(screened_of(DTYPE_F16, WITH_SOFTCAPS, 0), 0);
	assert_int_equal(screened_of(DTYPE_Q6_K, 0, 0), 0); /* hardly larger than the copy */
	unsetenv("SWIFTLET_CUDA_HEAD");
	assert_int_equal(screened_of(DTYPE_F16, 0, 0), 0); /* what it saves, launches take */
	setenv("SWIFTLET_CUDA_HEAD", "screened", 1);
#ifdef SWIFTLET_EMULATED
	assert_int_equal(screened_of(DTYPE_F16, 0, 2), 0);
#endif
}

/* If the model fits and its copy does not, it runs without the copy. */
static void it_gives_way_to_the_model(void** unused) {
	(void)unused;
#ifdef SWIFTLET_EMULATED
	enum { LARGE_VOCAB = 12000 };
	static const enum dtype type = DTYPE_F16;
	const struct model_shape shape = random_shape(1, 256, 4, 2, 64, 256, LARGE_VOCAB);
	struct random_model* m = random_model_make(&shape, &type, 1, 0, 1);
	const struct backend_options options = {.context = CONTEXT, .screened_head = true};
	bool opened[2] = {false, false}; /* without and with */
	for (int mib = 20; mib < 200 && !opened[true]; mib++) {
		struct error error;
		char text[16];
		snprintf(text, sizeof text, "%d", mib);
		setenv("EMULATED_MEMORY_MIB", text, 1);
		struct backend* b = cuda_open(&m->weights, &options, &error);
		if (!b)
			continue;
		opened[b->screened_bytes > 0] = true;
		b->close(b);
	}
	unsetenv("EMULATED_MEMORY_MIB");
	assert_true(opened[false] && opened[true]);
	random_model_free(m);
#endif
}

int main(void) {
	setenv("EMULATED_DEVICES", "2", 1);
	setenv("SWIFTLET_CUDA_HEAD", "screened", 1);
	if (!gpu_is_here())
		return 77;
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_same_tokens),
	                                   cmocka_unit_test(few_rows_are_read),
	                                   cmocka_unit_test(drafts),
	                                   cmocka_unit_test(who_asks_for_more_gets_it),
	                                   cmocka_unit_test(what_is_not_finite),
	                                   cmocka_unit_test(where_there_is_none),
	                                   cmocka_unit_test(it_gives_way_to_the_model)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
