/* The CUDA kernels against the CPU's reference, through the backend's door.
 *
 * Every sub-layer is tapped: its output must agree with the reference's within what F16 (or BF16)
 * activations round, for every type of weights, every number of tiles and odd sizes. Results that are made of
 * logits is compared exactly, from the device's own logits. Linked a second time with the emulated device, so
 * that it also runs where there is no GPU. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cuda/parts.h"
#include "kernels/sample.h"
#include "kernels/synth_block.h"
#include "kernels/synth_value.h"
#include "tests/kernels/support_random_model.h"
#include "tests/must.h"

enum { CONTEXT = 400 };

static struct backend* open_one(bool cuda, const struct weight_table* weights) {
	const struct backend_options options = {.isa = "reference", .threads = 1, .context = CONTEXT};
	return must_open(cuda ? cuda_open : cpu_open, weights, &options);
}

static void* poisoned(size_t bytes) {
	void* p = malloc(bytes);
	memset(p, 0xff, bytes);
	return p;
}

/* ---- sub-layers ---------------------------------------------------------------------------- */

static double distance(const float* got, const float* expected, size_t n) {
	double error = 0, size = 0;
	for (size_t i = 0; i < n; i++) {
		const double e = (double)got[i] - (double)expected[i];
		error += e * e;
		size += (double)expected[i] * (double)expected[i];
	}
	return sqrt(error / size); /* not a number when one is */
}

struct rows {
	int n;
	int32_t token[MAX_ROWS], parent[MAX_ROWS];
	uint8_t want[MAX_ROWS];
	struct result out[MAX_ROWS];
};

static struct pass pass_of(struct rows* r, const struct segment* segment, int sub_layers) {
	return (struct pass){.kind = PASS_EXACT,
	                     .n = r->n,
	                     .n_segments = 1,
	                     .segment = segment,
	                     .token = r->token,
	                     .parent = r->parent,
	                     .last = sub_layers,
	                     .tap = -1,
	                     .want = r->want,
	                     .out = r->out};
}

/* Hidden states after sub-layer s, (n, dim), freed by the caller. */
static float* tapped(struct backend* b, struct cache* c, struct rows* r, int base, int s) {
	const size_t size = (size_t)r->n * (size_t)b->weights->shape.dim;
	float* out = poisoned(size * sizeof *out);
	const struct segment segment = {.cache = c, .base = base, .n = r->n};
	struct pass pass = pass_of(r, &segment, s + 1);
	pass.tap = s;
	pass.tap_out = out;
	must_run(b, &pass);
	b->discard(c);
	return out;
}

static void fill(struct backend* b, struct cache* c, const int32_t* text, int n) {
	for (int at = 0; at < n; at += MAX_ROWS) {
		const int count = n - at < MAX_ROWS ? n - at : MAX_ROWS;
		const struct segment segment = {.cache = c, .base = at, .n = count};
		const struct pass pass = {.kind = PASS_EXACT,
		                          .n = count,
		                          .n_segments = 1,
		                          .segment = &segment,
		                          .token = text + at,
		                          .last = 2 * b->weights->shape.n_blocks,
		                          .tap = -1};
		int32_t path[MAX_ROWS];
		for (int i = 0; i < count; i++)
			path[i] = i;
		must_run(b, &pass);
		b->commit(c, path, count);
	}
}

static void random_rows(struct rows* r, struct random* random, int n, int vocab) {
	r->n = n;
	for (int i = 0; i < n; i++) {
		r->token[i] = random_below(random, vocab);
		r->parent[i] = i ? i - 1 - random_below(random, i < 4 ? i : 4) : -1;
		r->want[i] = WANT_NOTHING;
	}
}

static void compare_models(const struct weight_table* device, const struct weight_table* host, int committed,
                           const int* sizes, int n_sizes, double bound) {
	struct random random = {(uint64_t)committed + 1};
	struct backend *gpu = open_one(true, device), *cpu = open_one(false, host);
	struct cache *a = must_open_cache(gpu, CONTEXT, DTYPE_F16), *b = must_open_cache(cpu, CONTEXT, DTYPE_F16);
	const struct model_shape* s = &host->shape;
	int32_t text[CONTEXT];
	for (int i = 0; i < committed; i++)
		text[i] = random_below(&random, s->vocab);
	a->prompt_length = b->prompt_length = committed;
	fill(gpu, a, text, committed);
	fill(cpu, b, text, committed);
	struct rows* r = calloc(1, sizeof *r);
	for (int k = 0; k < n_sizes; k++) {
		random_rows(r, &random, sizes[k], s->vocab);
		for (int layer = 0; layer < 2 * s->n_blocks; layer++) {
			const size_t n = (size_t)r->n * (size_t)s->dim;
			float *got = tapped(gpu, a, r, committed, layer), *expected = tapped(cpu, b, r, committed, layer);
			const double apart = distance(got, expected, n);
			if (!(apart < bound))
				fail_msg("%d rows after %d tokens, sub-layer %d: %g from the reference, bound %g", r->n,
				         committed, layer, apart, bound);
			free(got);
			free(expected);
		}
	}
	free(r);
	gpu->cache_close(a);
	cpu->cache_close(b);
	gpu->close(gpu);
	cpu->close(cpu);
}

/* Either side of every number of tiles. */
#ifdef SWIFTLET_EMULATED
static const int sizes[] = {1, 9, 30, 65};
#else
static const int sizes[] = {1, 2, 7, 8, 9, 16, 17, 31, 32, 33, 63, 64, 65, 130, 256};
#endif
static const int few_sizes[] = {2, 19, 40};
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static void compare(const struct model_shape* shape, const enum dtype* types, int n_types, int with,
                    int committed, const int* size, int n_sizes, double bound) {
	struct random_model* m = random_model_make(shape, types, n_types, with, 11);
	compare_models(&m->weights, &m->weights, committed, size, n_sizes, bound);
	random_model_free(m);
}

static void halves(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16};
	const struct model_shape shape = random_shape(2, 128, 4, 2, 64, 352, 300);
	compare(&shape, types, 1, 0, 17, sizes, COUNT(sizes), 2e-3);
}

/* Positions either side of attention's chunks. */
static void long_context(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16};
	const struct model_shape shape = random_shape(1, 64, 2, 1, 32, 32, 50);
	compare(&shape, types, 1, WITH_BIASES, 255, few_sizes, COUNT(few_sizes), 2e-3);
	compare(&shape, types, 1, 0, 256, few_sizes, 2, 2e-3);
}

static void wide_group(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16};
	const struct model_shape shape = random_shape(1, 96, 18, 1, 80, 160, 33);
	compare(&shape, types, 1, WITH_HEAD_NORMS, 40, few_sizes, 2, 2e-3);
}

static void bytes(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_Q8_0};
	const struct model_shape shape = random_shape(2, 128, 2, 2, 64, 192, 77);
	compare(&shape, types, 1, 0, 9, sizes, COUNT(sizes), 2e-2);
}

/* The same weights as floats: what quantized ones that keep their bits on the device must come to, but for
 * the activations' rounding. */
static struct tensor wide(const struct tensor* t) {
	struct tensor out = *t;
	float* x = malloc((size_t)(t->rows * t->cols) * sizeof *x);
	for (int64_t i = 0; i < t->rows; i++)
		dtype_to_float(t->type, (const unsigned char*)t->data + (size_t)i * dtype_row_bytes(t->type, t->cols),
		               x + i * t->cols, t->cols);
	out.type = DTYPE_F32;
	out.data = x;
	return out;
}

static void compare_with_wide(const struct model_shape* shape, const enum dtype* types, int n_types) {
	struct random_model* m = random_model_make(shape, types, n_types, 0, 12);
	struct weight_table floats = m->weights;
	struct block_weights block = m->block[0];
	struct tensor* const matrix[] = {&block.wq,     &block.wk,         &block.wv,
	                                 &block.wo,     &block.w_up,       &block.w_gate,
	                                 &block.w_down, &floats.embedding, &floats.output};
	enum { MATRICES = sizeof matrix / sizeof *matrix };
	assert_int_equal(shape->n_blocks, 1);
	for (int i = 0; i < MATRICES; i++)
		*matrix[i] = wide(matrix[i]);
	floats.block = &block;
	compare_models(&m->weights, &floats, 9, few_sizes, COUNT(few_sizes), 2e-3);
	for (int i = 0; i < MATRICES; i++)
		free((void*)(uintptr_t)matrix[i]->data);
	random_model_free(m);
}

static void few_bits(void** state) {
	(void)state;
	static const enum dtype k[] = {DTYPE_Q4_K, DTYPE_Q6_K, DTYPE_Q8_0};
	const struct model_shape super = random_shape(1, 256, 4, 2, 64, 512, 40);
	compare_with_wide(&super, k, 3);
	static const enum dtype small[] = {DTYPE_Q4_1, DTYPE_Q8_0};
	const struct model_shape odd = random_shape(1, 96, 2, 1, 48, 160, 40); /* rows end within a unit */
	compare_with_wide(&odd, small, 2);
}

static void other_types(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_Q4_0, DTYPE_F32, DTYPE_Q8_0, DTYPE_Q5_0, DTYPE_F16};
	const struct model_shape shape = random_shape(1, 96, 2, 1, 48, 64, 40);
	compare(&shape, types, 5, 0, 9, few_sizes, COUNT(few_sizes), 2e-2);
}

static void gemma_like(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_BF16};
	struct model_shape shape = random_shape(3, 64, 4, 2, 80, 96, 257);
	shape.norm_plus_one = true;
	shape.activation = ACTIVATION_GELU_TANH;
	shape.embedding_scale = 8;
	compare(&shape, types, 1, WITH_POST_NORMS | WITH_SOFTCAPS | WITH_WINDOW | WITH_BIASES, 21, few_sizes,
	        COUNT(few_sizes), 2e-2);
}

/* Sliding blocks are turned by angles of their own, in part of a head. */
static void gemma_3_like(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16, DTYPE_Q8_0};
	struct model_shape shape = random_shape(4, 64, 4, 1, 32, 96, 257);
	shape.sliding_rope = (struct rope){.dim = 16, .theta = 100, .factor = 1, .attention_factor = 1};
	compare(&shape, types, 2, WITH_POST_NORMS | WITH_WINDOW | WITH_HEAD_NORMS, 40, few_sizes,
	        COUNT(few_sizes), 2e-2);
}

/* ---- results ------------------------------------------------------------------------------- */

static void check_result(const struct result* got, const float* logits, int vocab, uint8_t want, int top,
                         const struct sampler* sampler, const struct penalised_row* penalised,
                         const uint64_t* allowed, int position, float* scratch) {
	struct result expected = {.top = top};
	assert_true(result_from_logits(&expected, (uint8_t)(want | WANT_LOG_SUM_EXP), logits, vocab, sampler,
	                               (uint64_t)position + 1, scratch));
	if (penalised || allowed) {
		float max = logits[0];
		for (int v = 1; v < vocab; v++)
			max = fmaxf(max, logits[v]);
		const float sum = expf(expected.log_sum_exp - max);
		expected.top = top;
		result_from_softmax(&expected, want, logits, vocab, max, sum, sampler, penalised, allowed,
		                    (uint64_t)position + 1, scratch);
	}
	assert_int_equal(got->token, expected.token);
	if (want & WANT_LOG_SUM_EXP)
		assert_true(fabsf(got->log_sum_exp - expected.log_sum_exp) < 1e-4f);
	if (!(want & WANT_TOP))
		return;
	assert_int_equal(got->top, expected.top);
	assert_memory_equal(got->top_token, expected.top_token, (size_t)got->top * sizeof(int32_t));
	assert_true(fabsf(got->max_probability - expected.max_probability) < 1e-5f);
	for (int i = 0; i < got->top; i++)
		assert_true(fabsf(got->top_probability[i] - expected.top_probability[i]) < 1e-5f);
}

/* The history of a request whose prompt held the even tokens and that generated the first third once. */
struct request {
	struct penalties penalties;
	uint8_t* in_prompt;
	int32_t *generated, bias_token[2];
	float bias[2];
};
static void make_request(struct request* q, int vocab) {
	q->in_prompt = calloc((size_t)vocab, 1);
	q->generated = calloc((size_t)vocab, sizeof *q->generated);
	for (int v = 0; v < vocab; v++) {
		q->in_prompt[v] = v % 2 == 0;
		q->generated[v] = v < vocab / 3;
	}
	q->bias_token[1] = vocab - 1;
	q->bias[0] = -3;
	q->bias[1] = 0.25f;
	q->penalties = (struct penalties){.repetition = 1.3f,
	                                  .frequency = 0.5f,
	                                  .presence = 0.75f,
	                                  .in_prompt = q->in_prompt,
	                                  .generated = q->generated,
	                                  .bias_token = q->bias_token,
	                                  .bias = q->bias,
	                                  .n_bias = vocab > 1 ? 2 : 1};
}

static void try_results(int vocab, const struct sampler* sampler, bool with_penalties, bool with_allowed) {
	const enum dtype types[] = {DTYPE_F16};
	const struct model_shape shape = random_shape(1, 64, 1, 1, 32, 32, vocab);
	struct random_model* m = random_model_make(&shape, types, 1, 0, (uint64_t)vocab);
	struct backend* b = open_one(true, &m->weights);
	struct cache* c = must_open_cache(b, CONTEXT, DTYPE_F16);
	struct random random = {5};
	struct rows* r = calloc(1, sizeof *r);
	int top[MAX_ROWS];
	random_rows(r, &random, 12, vocab);
	for (int i = 0; i < r->n; i++) {
		r->want[i] = (uint8_t)(WANT_TOKEN | WANT_LOGITS | (random_below(&random, 2) ? WANT_TOP : 0) |
		                       (random_below(&random, 2) ? WANT_LOG_SUM_EXP : 0));
		top[i] = r->out[i].top = 1 + random_below(&random, MAX_TOP);
		r->out[i].logits = poisoned((size_t)vocab * sizeof(float));
	}
	struct request request = {.in_prompt = NULL};
	make_request(&request, vocab);
	/* every third row may go on as it likes, the others with odd tokens or the last alone */
	const size_t words = ((size_t)vocab + 63) / 64;
	uint64_t* odd = malloc(words * sizeof *odd);
	memset(odd, 0xaa, words * sizeof *odd);
	odd[(vocab - 1) >> 6] |= (uint64_t)1 << ((vocab - 1) & 63);
	const uint64_t* allowed[MAX_ROWS];
	for (int i = 0; i < r->n; i++)
		allowed[i] = i % 3 ? odd : NULL;
	const struct segment segment = {.cache = c,
	                                .n = r->n,
	                                .sampler = sampler,
	                                .penalties = with_penalties ? &request.penalties : NULL,
	                                .allowed = with_allowed ? allowed : NULL};
	struct pass pass = pass_of(r, &segment, 2);
	pass.head = true;
	must_run(b, &pass);
	float* scratch = malloc(2 * (size_t)vocab * sizeof *scratch);
	for (int i = 0; i < r->n; i++) {
		int32_t path[MAX_ROWS];
		int depth = 0;
		for (int at = r->parent[i]; at >= 0; at = r->parent[at])
			depth++;
		for (int at = i, d = depth; at >= 0; at = r->parent[at])
			path[d--] = r->token[at];
		const struct penalised_row penalised = {&request.penalties, path, depth + 1};
		check_result(&r->out[i], r->out[i].logits, vocab, r->want[i], top[i], sampler,
		             with_penalties ? &penalised : NULL, with_allowed ? allowed[i] : NULL, depth, scratch);
		if (with_allowed && allowed[i])
			assert_true(r->out[i].token % 2 == 1 || r->out[i].token == vocab - 1);
		free(r->out[i].logits);
	}
	free(odd);
	free(request.in_prompt);
	free(request.generated);
	free(scratch);
	free(r);
	b->cache_close(c);
	b->close(b);
	random_model_free(m);
}

static void results(void** state) {
	(void)state;
	const int vocab[] = {1, 2, 19, 300, 1023, 1025, 2600};
	const struct sampler samplers[] = {
	    {.temperature = 1, .top_p = 1, .seed = 3, .sequence = 9},
	    {.temperature = 0.7f, .top_p = 0.9f, .seed = 4},
	    {.temperature = 1.3f, .top_k = 7, .top_p = 1, .seed = 5},
	    {.temperature = 2, .top_k = 40, .top_p = 0.8f, .min_p = 0.05f, .seed = 6},
	    {.temperature = 0.2f, .top_p = 1, .min_p = 0.1f, .seed = 7, .sequence = 1},
	};
	for (size_t i = 0; i < sizeof vocab / sizeof *vocab; i++) {
		try_results(vocab[i], NULL, false, false);
		try_results(vocab[i], NULL, true, i % 2);
		try_results(vocab[i], NULL, false, true);
		for (size_t j = i % 2; j < sizeof samplers / sizeof *samplers; j += 2)
			try_results(vocab[i], &samplers[j], i % 3 == j % 3, i % 2 == j % 2);
	}
}

/* Each row of two sequences, over two slices, may go on with a token of its own alone; and so may the last of
 * a prefill chunk, whose rows have come to the head together. */
static void what_is_allowed_is_each_rows_own(void** state) {
	(void)state;
	enum { VOCAB = 300, FIRST = 40, SECOND = 50, WORDS = (VOCAB + 63) / 64 };
	static const enum dtype types[] = {DTYPE_F16};
	const struct model_shape shape = random_shape(1, 64, 1, 1, 32, 32, VOCAB);
	struct random_model* m = random_model_make(&shape, types, 1, 0, 6);
	struct backend* b = open_one(true, &m->weights);
	struct cache *c = must_open_cache(b, CONTEXT, DTYPE_F16), *d = must_open_cache(b, CONTEXT, DTYPE_F16);
	struct rows* r = calloc(1, sizeof *r);
	struct random random = {3};
	static uint64_t bits[FIRST + SECOND][WORDS];
	const uint64_t* allowed[FIRST + SECOND];
	int32_t only[FIRST + SECOND];
	r->n = FIRST + SECOND;
	for (int i = 0; i < r->n; i++) {
		r->token[i] = random_below(&random, VOCAB);
		r->parent[i] = (i < FIRST ? i : i - FIRST) - 1;
		r->want[i] = WANT_TOKEN;
		only[i] = random_below(&random, VOCAB);
		memset(bits[i], 0, sizeof bits[i]);
		bits[i][only[i] / 64] = (uint64_t)1 << only[i] % 64;
		allowed[i] = bits[i];
	}
	const struct segment two[] = {{.cache = c, .n = FIRST, .allowed = allowed},
	                              {.cache = d, .n = SECOND, .allowed = allowed + FIRST}};
	struct pass pass = pass_of(r, two, 2);
	pass.n_segments = 2;
	pass.head = true;
	must_run(b, &pass);
	for (int i = 0; i < r->n; i++)
		assert_int_equal(r->out[i].token, only[i]);
	b->discard(c);
	b->discard(d);
	static int32_t text[PREFILL_CHUNK];
	static uint8_t want[PREFILL_CHUNK];
	static struct result out[PREFILL_CHUNK];
	static const uint64_t* last[PREFILL_CHUNK];
	want[PREFILL_CHUNK - 1] = WANT_TOKEN;
	last[PREFILL_CHUNK - 1] = bits[7];
	const struct segment chunk = {.cache = c, .n = PREFILL_CHUNK, .allowed = last};
	const struct pass prefill = {.kind = PASS_PREFILL,
	                             .n = PREFILL_CHUNK,
	                             .n_segments = 1,
	                             .segment = &chunk,
	                             .token = text,
	                             .last = 2,
	                             .head = true,
	                             .tap = -1,
	                             .want = want,
	                             .out = out};
	must_run(b, &prefill);
	assert_int_equal(out[PREFILL_CHUNK - 1].token, only[7]);
	free(r);
	b->cache_close(c);
	b->cache_close(d);
	b->close(b);
	random_model_free(m);
}

/* ---- the draft loop ------------------------------------------------------------------------ */

/* The same loop by one-row passes. */
static int draft_by_hand(struct backend* b, struct cache* c, int32_t token, const struct mask* skip,
                         const struct sampler* sampler, const struct draft_policy* policy,
                         struct result* out) {
	float chance = 1;
	const uint8_t want = WANT_TOKEN | WANT_TOP | WANT_LOG_SUM_EXP;
	for (int d = 0;; d++) {
		const int32_t parent = d - 1;
		const struct segment segment = {.cache = c, .base = c->committed, .n = 1, .sampler = sampler};
		const struct pass pass = {.n = 1,
		                          .kind = PASS_EXACT,
		                          .n_segments = 1,
		                          .segment = &segment,
		                          .token = &token,
		                          .parent = &parent,
		                          .skip = skip,
		                          .last = 2 * b->weights->shape.n_blocks,
		                          .head = true,
		                          .tap = -1,
		                          .want = &want,
		                          .out = &out[d]};
		out[d].top = policy->top;
		must_run(b, &pass);
		token = out[d].token;
		const float p = out[d].max_probability;
		const int bin = (int)(p * DRAFT_BINS) < DRAFT_BINS ? (int)(p * DRAFT_BINS) : DRAFT_BINS - 1;
		chance *= policy->accept[bin];
		if (d + 1 >= policy->max_steps || p < policy->threshold || chance < policy->min_reach[d + 1])
			return d + 1;
	}
}

static void try_draft_loop(const struct model_shape* shape, int with) {
	const enum dtype types[] = {DTYPE_F16};
	struct random_model* m = random_model_make(shape, types, 1, with, 21);
	struct backend* b = open_one(true, &m->weights);
	struct cache* c = must_open_cache(b, CONTEXT, DTYPE_F16);
	struct random random = {8};
	int32_t text[30];
	for (int i = 0; i < 30; i++)
		text[i] = random_below(&random, 90);
	fill(b, c, text, 30);
	static struct result got[MAX_DRAFT], expected[MAX_DRAFT];
	bool many = false, few = false;
	for (int trial = 0; trial < 8; trial++) {
		struct mask skip = {.word = {0}};
		mask_set(&skip, random_below(&random, 4), trial % 2);
		const struct sampler sampler = {.temperature = 0.9f, .top_p = 1, .seed = (uint64_t)trial};
		const struct sampler* sampled = trial % 4 == 3 ? &sampler : NULL;
		struct draft_policy policy = {.max_steps = 1 + random_below(&random, 12), .top = 1 + trial};
		policy.threshold = trial % 3 == 2 ? 0.3f : 0;
		for (int i = 0; i < DRAFT_BINS; i++)
			policy.accept[i] = trial == 5 ? 0.5f + 0.03f * (float)i : 1;
		for (int i = 0; i <= MAX_DRAFT; i++)
			policy.min_reach[i] = trial == 5 ? 0.2f : 0;
		const struct segment segment = {.cache = c, .base = 30, .n = 1, .sampler = sampled};
		struct error error = {""};
		memset(got, 0xff, sizeof got);
		const int steps = b->draft(b, &segment, text[trial], &skip, NULL, false, NULL, &policy, got, &error);
		assert_int_equal(c->pending, steps);
		b->discard(c);
		assert_int_equal(draft_by_hand(b, c, text[trial], &skip, sampled, &policy, expected), steps);
		b->discard(c);
		for (int d = 0; d < steps; d++) {
			const size_t top = (size_t)expected[d].top;
			assert_int_equal(got[d].token, expected[d].token);
			assert_int_equal(got[d].top, expected[d].top);
			assert_memory_equal(got[d].top_token, expected[d].top_token, top * sizeof(int32_t));
			assert_memory_equal(got[d].top_probability, expected[d].top_probability, top * sizeof(float));
			assert_memory_equal(&got[d].max_probability, &expected[d].max_probability, sizeof(float));
		}
		many = many || steps > 3;
		few = few || steps < policy.max_steps;
	}
	assert_true(many && few);
	b->cache_close(c);
	b->close(b);
	random_model_free(m);
}

static void draft_loop(void** state) {
	(void)state;
	struct model_shape shape = random_shape(2, 64, 2, 1, 32, 96, 90);
	try_draft_loop(&shape, 0);
	shape.sliding_rope = (struct rope){.dim = 16, .theta = 100, .factor = 1, .attention_factor = 1};
	try_draft_loop(&shape, WITH_WINDOW);
}

/* ---- prefill ------------------------------------------------------------------------------- */

static void prefill_once(struct backend* b, struct cache* c, const int32_t* text, float* logits) {
	static struct result out[PREFILL_CHUNK];
	static uint8_t want[PREFILL_CHUNK];
	want[PREFILL_CHUNK - 1] = WANT_TOKEN | WANT_LOGITS;
	out[PREFILL_CHUNK - 1].logits = logits;
	b->truncate(c, 0);
	const struct segment segment = {.cache = c, .n = PREFILL_CHUNK};
	const struct pass pass = {.kind = PASS_PREFILL,
	                          .n = PREFILL_CHUNK,
	                          .n_segments = 1,
	                          .segment = &segment,
	                          .token = text,
	                          .last = 2 * b->weights->shape.n_blocks,
	                          .head = true,
	                          .tap = -1,
	                          .want = want,
	                          .out = out};
	must_run(b, &pass);
	assert_int_equal(c->committed, PREFILL_CHUNK);
	assert_int_equal(c->pending, 0);
}

/* A chunk by the library's products: near the exact rows, and the same bits every time. */
static void try_prefill(const enum dtype type, int with, double bound) {
	const enum dtype types[] = {type};
	const struct model_shape shape = random_shape(2, 64, 2, 1, 32, 128, 70);
	struct random_model* m = random_model_make(&shape, types, 1, with, 31);
	struct backend *b = open_one(true, &m->weights), *reference = open_one(false, &m->weights);
	struct cache *c = must_open_cache(b, CONTEXT, DTYPE_F16),
	             *d = must_open_cache(reference, CONTEXT, DTYPE_F16);
	struct random random = {9};
	int32_t text[PREFILL_CHUNK];
	for (int i = 0; i < PREFILL_CHUNK; i++)
		text[i] = random_below(&random, 70);
	float first[70], again[70], expected[70];
	prefill_once(reference, d, text, expected);
	prefill_once(b, c, text, first);
	prefill_once(b, c, text, again);
	assert_memory_equal(first, again, sizeof first);
	const double apart = distance(first, expected, 70);
	if (!(apart < bound))
		fail_msg("a chunk of %s: %g from the reference", dtype_name(type), apart);
	/* what the chunk left in the cache */
	struct rows* r = calloc(1, sizeof *r);
	random_rows(r, &random, 3, 70);
	float *x = tapped(b, c, r, PREFILL_CHUNK, 3), *y = tapped(reference, d, r, PREFILL_CHUNK, 3);
	assert_true(distance(x, y, 3 * 64) < bound);
	free(x);
	free(y);
	free(r);
	b->cache_close(c);
	reference->cache_close(d);
	b->close(b);
	reference->close(reference);
	random_model_free(m);
}

static void prefill(void** state) {
	(void)state;
	try_prefill(DTYPE_F16, WITH_BIASES | WITH_POST_NORMS, 5e-3);
	try_prefill(DTYPE_BF16, WITH_BIASES, 3e-2);
	try_prefill(DTYPE_Q8_0, 0, 3e-2);
}

/* ---- made on the device -------------------------------------------------------------------- */

/* The same matrix made here, as a file would hold it. */
static struct tensor filled(const struct tensor* t) {
	struct tensor out = *t;
	const int block = dtype_block(t->type);
	unsigned char* data = malloc(dtype_row_bytes(t->type, t->cols) * (size_t)t->rows);
	for (int64_t i = 0; i < t->rows; i++) {
		const struct synth_row row = synth_row_of(&t->synth, i, t->rows, t->cols);
		unsigned char* to = data + dtype_row_bytes(t->type, t->cols) * (size_t)i;
		for (int64_t j = 0; j < t->cols; j += block, to += dtype_block_bytes(t->type)) {
			float x[256];
			for (int k = 0; k < block; k++)
				x[k] = synth_element(&t->synth, &row, j + k);
			const uint16_t half = half_from_float(x[0]);
			if (t->type == DTYPE_F32)
				memcpy(to, x, 4);
			else if (t->type == DTYPE_F16)
				memcpy(to, &half, 2);
			else
				synth_block(t->type, to, x);
		}
	}
	out.data = data;
	return out;
}

static void try_synth(enum dtype type) {
	const enum dtype types[] = {type};
	const int dim = dtype_block(type) > 64 ? dtype_block(type) : 64;
	const struct model_shape shape = random_shape(1, dim, 2, 1, dim / 2, dim, 64);
	struct random_model* m = random_model_make(&shape, types, 1, 0, 41);
	struct weight_table made = m->weights, here = m->weights;
	struct block_weights made_block = m->block[0], here_block = m->block[0];
	struct tensor* const a[] = {&made.embedding,  &made.output,       &made_block.wq,
	                            &made_block.wk,   &made_block.wv,     &made_block.wo,
	                            &made_block.w_up, &made_block.w_gate, &made_block.w_down};
	struct tensor* const b[] = {&here.embedding,  &here.output,       &here_block.wq,
	                            &here_block.wk,   &here_block.wv,     &here_block.wo,
	                            &here_block.w_up, &here_block.w_gate, &here_block.w_down};
	made.block = &made_block;
	here.block = &here_block;
	for (size_t i = 0; i < sizeof a / sizeof *a; i++) {
		a[i]->data = NULL;
		a[i]->synth = (struct synth_tensor){.kind = SYNTH_NORMAL,
		                                    .seed = 100 + i,
		                                    .shared = 7,
		                                    .common = i % 2 ? -1 : 0, /* every other shares a part */
		                                    .scale = 0.1f / 147,
		                                    .scale_second = 0.1f / 147,
		                                    .halves = 1,
		                                    .own = 1};
		struct tensor drawn = *a[i];
		drawn.type = i == 0 ? DTYPE_F16 : type; /* embeddings are made in halves */
		const struct tensor stored = filled(&drawn);
		*b[i] = wide(&stored);
		free((void*)(uintptr_t)stored.data);
	}
	compare_models(&made, &here, 5, few_sizes, 1, 2e-3);
	for (size_t i = 0; i < sizeof b / sizeof *b; i++)
		free((void*)(uintptr_t)b[i]->data);
	random_model_free(m);
}

static void made_on_the_device(void** state) {
	(void)state;
	try_synth(DTYPE_F16);
	try_synth(DTYPE_Q8_0);
	try_synth(DTYPE_Q4_1);
	try_synth(DTYPE_Q4_K);
	try_synth(DTYPE_Q6_K);
}

/* ---- what it does not do ------------------------------------------------------------------- */

static void expect_refused(const struct model_shape* shape, int with, const char* part) {
	const enum dtype types[] = {DTYPE_F16};
	struct random_model* m = random_model_make(shape, types, 1, with, 52);
	struct error error = {""};
	const struct backend_options options = {.context = CONTEXT};
	assert_null(cuda_open(&m->weights, &options, &error));
	if (!strstr(error.message, part) || !strstr(error.message, "--backend cpu does"))
		fail_msg("\"%s\", expected \"%s\" and what does", error.message, part);
	random_model_free(m);
}

static void families_it_cannot_run(void** state) {
	(void)state;
	const struct model_shape plain = random_shape(2, 64, 2, 2, 32, 64, 64);
	struct model_shape shape = plain;
	shape.n_experts = 4, shape.experts_used = 2, shape.expert_ffn = 64;
	expect_refused(&shape, 0, "mixture of experts");
	expect_refused(&plain, WITH_SINKS, "attention sinks");
	expect_refused(&plain, WITHOUT_NORMS_BEFORE | WITH_POST_NORMS, "without a norm before them");
	expect_refused(&plain, WITH_NORM_OVER_HEADS, "norm over all heads");
	shape = plain;
	shape.norm = NORM_LAYER;
	expect_refused(&shape, 0, "LayerNorm");
	shape = plain;
	block_set_put(&shape.unrotated, 1);
	expect_refused(&shape, 0, "blocks without RoPE");
	shape = plain;
	shape.residual_scale = 0.5f;
	expect_refused(&shape, 0, "scale residuals");
	shape = plain;
	shape.attention_growth = 0.1f;
	shape.growth_context = 16;
	expect_refused(&shape, 0, "long attention");
}

/* ---- ways to launch -------------------------------------------------------------------------- */

/* Tiles whose norm goes along, and not; products in parts, and not. */
static const int trees[] = {1, 11, 20};

/* Hidden states and logits of each tree, and a draft loop's tokens, after committed tokens. */
struct launched {
	struct {
		float tapped[20 * 128], logits[20 * 300];
	} tree[COUNT(trees)];
	int32_t drafted[12];
};

/* NULL: what it chooses itself. */
struct way {
	const char *launches, *parts;
};

static struct backend* open_way(const struct way* way, const struct weight_table* weights) {
	if (way->launches)
		setenv("SWIFTLET_CUDA_LAUNCHES", way->launches, 1);
	if (way->parts)
		setenv("SWIFTLET_CUDA_PARTS", way->parts, 1);
	struct backend* b = open_one(true, weights);
	unsetenv("SWIFTLET_CUDA_LAUNCHES");
	unsetenv("SWIFTLET_CUDA_PARTS");
	return b;
}

static void play_tree(struct backend* b, struct cache* c, struct random* random, int k,
                      struct launched* out) {
	const int vocab = b->weights->shape.vocab, sub_layers = 2 * b->weights->shape.n_blocks;
	struct rows* r = calloc(1, sizeof *r);
	random_rows(r, random, trees[k], vocab);
	for (int i = 0; i < r->n; i++) {
		r->want[i] = WANT_TOKEN | WANT_LOGITS;
		r->out[i].logits = out->tree[k].logits + (size_t)i * (size_t)vocab;
	}
	const struct segment segment = {.cache = c, .base = c->committed, .n = r->n};
	struct pass pass = pass_of(r, &segment, sub_layers);
	pass.head = true;
	pass.tap = sub_layers - 1;
	pass.tap_out = out->tree[k].tapped;
	must_run(b, &pass);
	b->discard(c);
	free(r);
}

static void play_way(const struct way* way, const struct weight_table* weights, struct launched* out) {
	enum { FILLED = 260 };
	struct random random = {7};
	struct error error = {""};
	struct backend* b = open_way(way, weights);
	struct cache* c = must_open_cache(b, CONTEXT, DTYPE_F16);
	int32_t text[FILLED];
	for (int i = 0; i < FILLED; i++)
		text[i] = random_below(&random, weights->shape.vocab);
	c->prompt_length = FILLED;
	fill(b, c, text, FILLED); /* over one chunk of attention */
	for (int k = 0; k < COUNT(trees); k++)
		play_tree(b, c, &random, k, out);
	struct draft_policy policy = {.max_steps = 12, .top = 2};
	for (int i = 0; i < DRAFT_BINS; i++)
		policy.accept[i] = 1;
	struct result drafted[12] = {{0}};
	const struct segment chain = {.cache = c, .base = FILLED, .n = 1};
	assert_int_equal(b->draft(b, &chain, text[3], NULL, NULL, false, NULL, &policy, drafted, &error), 12);
	for (int i = 0; i < 12; i++)
		out->drafted[i] = drafted[i].token;
	b->cache_close(c);
	b->close(b);
}

static void try_ways(const struct model_shape* shape, enum dtype type, int with) {
	static const struct way ways[] = {
	    {"separate", "1"}, {"fused", NULL}, {NULL, NULL}, {NULL, "2"}, {"separate", "4"}};
	struct random_model* m = random_model_make(shape, &type, 1, with, 21);
	struct launched *separate = calloc(1, sizeof *separate), *other = calloc(1, sizeof *other);
	play_way(&ways[0], &m->weights, separate);
	for (int k = 1; k < COUNT(ways); k++) {
		play_way(&ways[k], &m->weights, other);
		assert_memory_equal(separate, other, sizeof *other);
	}
	free(separate);
	free(other);
	random_model_free(m);
}

static void launches_give_the_same_bits(void** state) {
	(void)state;
	const struct model_shape llama = random_shape(2, 128, 4, 2, 32, 192, 300);
	try_ways(&llama, DTYPE_F16, WITH_BIASES);
	try_ways(&llama, DTYPE_Q8_0, WITH_HEAD_NORMS);
	try_ways(&llama, DTYPE_Q4_1, 0);
	/* a head of few rows, and not of whole tiles */
	struct model_shape gemma = random_shape(2, 64, 4, 2, 80, 96, 57);
	gemma.norm_plus_one = true;
	try_ways(&gemma, DTYPE_BF16, WITH_POST_NORMS | WITH_SOFTCAPS | WITH_WINDOW);
}

static void parts_even_out_waves(void** state) {
	(void)state;
	const double mb = 1e6;
	assert_int_equal(parts_by_shape(256, 33.6 * mb, 132), 1); /* 7B's output in F16: 0.97 busy as it is */
	assert_int_equal(parts_by_shape(320, 52.4 * mb, 132), 2); /* 13B's */
	assert_int_equal(parts_by_shape(320, 14.7 * mb, 132), 1); /* in 4 bits it takes less than the combining */
	assert_int_equal(parts_by_shape(160, 70.8 * mb, 132), 4); /* half of 13B's down */
	assert_int_equal(parts_by_shape(256, 117.4 * mb, 132), 1); /* 8B's down */
}

static void an_unknown_way_is_named(void** state) {
	(void)state;
	const enum dtype type = DTYPE_F16;
	const struct model_shape shape = random_shape(1, 64, 2, 1, 32, 96, 50);
	struct random_model* m = random_model_make(&shape, &type, 1, 0, 1);
	struct error error = {""};
	const struct backend_options options = {.context = CONTEXT};
	setenv("SWIFTLET_CUDA_LAUNCHES", "faster", 1);
	assert_null(cuda_open(&m->weights, &options, &error));
	unsetenv("SWIFTLET_CUDA_LAUNCHES");
	assert_non_null(strstr(error.message, "faster"));
	setenv("SWIFTLET_CUDA_PARTS", "3", 1);
	assert_null(cuda_open(&m->weights, &options, &error));
	unsetenv("SWIFTLET_CUDA_PARTS");
	assert_string_equal(error.message, "SWIFTLET_CUDA_PARTS=3: shape, 1, 2 or 4 was expected");
	random_model_free(m);
}

#ifdef SWIFTLET_EMULATED
static void too_small_a_device(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16};
	const struct model_shape shape = random_shape(1, 1024, 8, 8, 128, 1024, 64);
	struct random_model* m = random_model_make(&shape, types, 1, 0, 51);
	struct error error = {""};
	const struct backend_options options = {.context = CONTEXT};
	setenv("EMULATED_FREE_MIB", "3", 1);
	assert_null(cuda_open(&m->weights, &options, &error));
	assert_non_null(strstr(error.message, "its weights take 14 MiB there, passes "));
	assert_non_null(strstr(error.message, "; 3 MiB of 1024 MiB are free"));
	unsetenv("EMULATED_FREE_MIB");
	struct backend* b = must_open(cuda_open, &m->weights, &options);
	setenv("EMULATED_FREE_MIB", "1", 1);
	assert_null(b->cache_open(b, CONTEXT, DTYPE_F16, &error));
	assert_non_null(strstr(error.message, "out of GPU memory for a context of 400 tokens"));
	assert_null(b->cache_open(b, CONTEXT + 1, DTYPE_F16, &error));
	unsetenv("EMULATED_FREE_MIB");
	b->close(b);
	struct weight_table narrow = m->weights;
	narrow.shape.ffn = 1000;
	assert_null(cuda_open(&narrow, &options, &error));
	assert_non_null(strstr(error.message, "feed-forward width"));
	random_model_free(m);
}
#endif

int main(void) {
	if (!gpu_is_here())
		return 77;
	const struct CMUnitTest tests[] = {cmocka_unit_test(halves),
	                                   cmocka_unit_test(long_context),
	                                   cmocka_unit_test(wide_group),
	                                   cmocka_unit_test(bytes),
	                                   cmocka_unit_test(few_bits),
	                                   cmocka_unit_test(other_types),
	                                   cmocka_unit_test(gemma_like),
	                                   cmocka_unit_test(gemma_3_like),
	                                   cmocka_unit_test(results),
	                                   cmocka_unit_test(what_is_allowed_is_each_rows_own),
	                                   cmocka_unit_test(draft_loop),
	                                   cmocka_unit_test(prefill),
	                                   cmocka_unit_test(families_it_cannot_run),
	                                   cmocka_unit_test(launches_give_the_same_bits),
	                                   cmocka_unit_test(parts_even_out_waves),
	                                   cmocka_unit_test(an_unknown_way_is_named),
#ifdef SWIFTLET_EMULATED
	                                   cmocka_unit_test(too_small_a_device),
#endif
	                                   cmocka_unit_test(made_on_the_device)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
