/* Quantized draft weights: what is planned, how far rounding is from the weights, that their bytes do not
 * depend on threads, and that a pass which runs it is bit for bit the pass of a model whose weights it is. */
#include "kernels/draft_weights.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cpu/matmul.h"
#include "tests/kernels/support_random_model.h"
#include "tests/sanitized.h"

enum { VOCAB = 96, CONTEXT = 200, COLS = 1024, TURNS = SANITIZED ? 40 : 200 };

/* ---- rounding ------------------------------------------------------------------------------- */

/* Squared error of a group of n divided evenly over its range (least to most, or, symmetric, the reach of the
 * farthest element to either side) into so many levels, in doubles and with nothing rounded but the weights.
 */
static double plain_error(const float* x, int n, int levels, bool symmetric) {
	double quantized = (double)x[0], high = (double)x[0], error = 0;
	for (int i = 1; i < n; i++) {
		quantized = fmin(quantized, (double)x[i]);
		high = fmax(high, (double)x[i]);
	}
	const double reach = fmax(-quantized, high);
	const double step = symmetric ? reach / (levels / 2) : (high - quantized) / (levels - 1);
	for (int i = 0; i < n; i++) {
		const double from = symmetric ? 0 : quantized;
		const double y = step > 0 ? from + step * nearbyint(((double)x[i] - from) / step) : from;
		error += ((double)x[i] - y) * ((double)x[i] - y);
	}
	return error;
}

static double squared(const float* x, const float* y, int n) {
	double sum = 0;
	for (int i = 0; i < n; i++)
		sum += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
	return sum;
}

/* kind 0: normal; 1: long tails; 2: away from zero; 3: a group in five constant */
static void fill(float* x, int kind, struct random* r) {
	for (int i = 0; i < COLS; i++) {
		const float z = 0.02f * random_normal(r);
		x[i] = kind == 0 ? z : kind == 1 ? 2000 * z * z * z : kind == 2 ? 0.3f + z : z;
		if (kind == 3 && i / 32 % 5 == 0)
			x[i] = i / 32 % 2 ? -0.01f : 0.02f;
	}
}

static void rounding_is_no_worse_than_plain(void** state) {
	(void)state;
	/* share of the plain error, per group and over all; q8_0's rounding is plain (q8_0_is_rounded_plainly) */
	static const struct {
		enum dtype type;
		int group, levels;
		bool symmetric;
		double each, all;
	} cases[] = {
	    {DTYPE_Q4_1, 32, 16, false, 1.02, 0.89},
	    {DTYPE_Q4_K, 32, 16, false, 2.0, 0.915},
	    {DTYPE_Q8_0, 32, 255, true, 1.1, 1.005},
	};
	struct random r = {11};
	float x[COLS], y[COLS];
	unsigned char block[COLS * 2];
	for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
		for (int kind = 0; kind < 4; kind++) {
			double ours = 0, plain = 0;
			for (int turn = 0; turn < 20; turn++) {
				fill(x, kind, &r);
				quantize_row(cases[c].type, block, x, COLS);
				dtype_to_float(cases[c].type, block, y, COLS);
				for (int g = 0; g < COLS; g += cases[c].group) {
					const double a = squared(x + g, y + g, cases[c].group);
					const double b = plain_error(x + g, cases[c].group, cases[c].levels, cases[c].symmetric);
					ours += a;
					plain += b;
					/* super-blocks share a scale: only like groups are held to it one by one */
					if (kind == 0 && a > cases[c].each * b)
						fail_msg("%s: a group's error is %g, plainly rounded %g", dtype_name(cases[c].type),
						         a, b);
				}
			}
			/* a minimum above zero is not q4_k's to store */
			if ((kind != 2 || cases[c].type != DTYPE_Q4_K) && ours > cases[c].all * plain)
				fail_msg("%s, kind %d: the error is %g, plainly rounded %g", dtype_name(cases[c].type), kind,
				         ours, plain);
		}
	}
}

/* Draft weights are numbers for any weights, so drafts are at worst wrong. */
/* The scale is the half float nearest to the farthest element's 127th part, and no element is farther from
 * its level than half a scale. */
static void q8_0_is_rounded_plainly(void** state) {
	(void)state;
	struct random r = {11};
	float x[COLS];
	struct block_q8_0 block[COLS / 32];
	for (int turn = 0; turn < TURNS; turn++) {
		fill(x, turn % 4, &r);
		quantize_row(DTYPE_Q8_0, block, x, COLS);
		for (int i = 0; i < COLS; i++) {
			const struct block_q8_0* b = &block[i / 32];
			const double d = (double)half_to_float((uint16_t)(b->d[0] | b->d[1] << 8));
			double reach = 0;
			for (int k = i / 32 * 32; k < i / 32 * 32 + 32; k++)
				reach = fmax(reach, fabs((double)x[k]));
			assert_true(fabs(d - reach / 127) <=
			            reach / 127 / 2048 * 1.001 + 3e-8); /* 2^-25: of the least halves */
			assert_true(fabs((double)x[i] - d * b->q[i % 32]) <= d / 2 * 1.001);
		}
	}
}

static void scales_are_finite(void** state) {
	(void)state;
	static const enum dtype types[] = {DTYPE_Q4_1, DTYPE_Q4_K, DTYPE_Q8_0};
	static const float odd[] = {INFINITY, -INFINITY, NAN, 3e38f, -3e38f, 1e-40f, 0, 1};
	struct random r = {5};
	float x[COLS], y[COLS];
	unsigned char block[COLS * 2];
	for (int turn = 0; turn < 2 * TURNS; turn++)
		for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
			const int few = random_below(&r, 9);
			for (int i = 0; i < COLS; i++)
				x[i] = random_below(&r, 8) < few ? odd[random_below(&r, 8)] : random_normal(&r);
			quantize_row(types[t], block, x, COLS);
			dtype_to_float(types[t], block, y, COLS);
			for (int i = 0; i < COLS; i++)
				if (!isfinite(y[i]))
					fail_msg("%s: %g became %g", dtype_name(types[t]), (double)x[i], (double)y[i]);
		}
	memset(x, 0, sizeof x);
	for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
		quantize_row(types[t], block, x, COLS);
		dtype_to_float(types[t], block, y, COLS);
		for (int i = 0; i < COLS; i++)
			assert_true(y[i] == 0);
	}
}

/* Odd numbers in one turn of two */
static void fill_oddly(float* x, int turn, struct random* r) {
	static const float odd[] = {INFINITY, -INFINITY, NAN, 3e38f, -3e38f, 1e-40f, 0, 1};
	fill(x, turn % 4, r);
	const int strange = turn / 4 % 2 ? random_below(r, COLS) : 0;
	for (int i = 0; i < strange; i++)
		x[random_below(r, COLS)] = odd[random_below(r, 8)];
}

/* With AVX2 and without, odd numbers and all; rows of any length. */
static void bytes_are_the_same_on_any_processor(void** state) {
	(void)state;
	static const enum dtype types[] = {DTYPE_Q4_1, DTYPE_Q4_K, DTYPE_Q8_0};
	struct random r = {17};
	float x[COLS];
	unsigned char block[COLS * 2], fast[COLS * 2];
	if (!avx2_supported())
		skip();
	for (int turn = 0; turn < 4 * TURNS; turn++)
		for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
			const int blocks = COLS / dtype_block(types[t]);
			const int cols = dtype_block(types[t]) * (blocks - random_below(&r, blocks));
			fill_oddly(x, turn, &r);
			quantize_row(types[t], block, x, cols);
#if defined(__x86_64__)
			avx2_quantize_row(types[t], fast, x, cols);
#endif
			assert_memory_equal(fast, block, dtype_row_bytes(types[t], cols));
		}
}

/* ---- the plan ------------------------------------------------------------------------------- */

static void plan(struct draft_weights* quantized, const struct random_model* m, int bits) {
	struct error error = {""};
	if (!draft_weights_plan(quantized, &m->weights, (struct draft_weights_format){.bits = bits}, &error))
		fail_msg("%s", error.message);
}

static struct random_model* model_of(enum dtype type, int dim, int ffn, int with) {
	const struct model_shape shape = random_shape(3, dim, 4, 2, 32, ffn, VOCAB);
	return random_model_make(&shape, &type, 1, with, 3);
}

static void types_follow_the_columns(void** state) {
	(void)state;
	/* wq and the like have dim columns, w_down ffn, wo 128 */
	static const struct {
		int dim, ffn, bits;
		enum dtype in, down, out;
	} cases[] = {
	    {256, 512, 4, DTYPE_Q4_K, DTYPE_Q4_K, DTYPE_Q4_1},
	    {256, 512, 8, DTYPE_Q8_0, DTYPE_Q8_0, DTYPE_Q8_0},
	    {96, 320, 4, DTYPE_Q4_1, DTYPE_Q4_1, DTYPE_Q4_1},
	    {96, 200, 4, DTYPE_Q4_1, DTYPE_F16, DTYPE_Q4_1},
	};
	for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
		struct random_model* m = model_of(DTYPE_F16, cases[c].dim, cases[c].ffn, 0);
		struct draft_weights quantized;
		plan(&quantized, m, cases[c].bits);
		for (int b = 0; b < 3; b++) {
			assert_int_equal(quantized.block[b].wq.type, cases[c].in);
			assert_int_equal(quantized.block[b].w_up.type, cases[c].in);
			assert_int_equal(quantized.block[b].w_down.type, cases[c].down);
			assert_int_equal(quantized.block[b].wo.type, cases[c].out);
			/* what has no draft weights stays where it was, and so do the vectors */
			assert_ptr_equal(quantized.block[b].w_down.data,
			                 cases[c].down == DTYPE_F16 ? m->block[b].w_down.data : NULL);
			assert_ptr_equal(quantized.block[b].mlp_norm.data, m->block[b].mlp_norm.data);
		}
		assert_int_equal(mask_count(&quantized.sub_layers), 6);
		assert_true(quantized.head);
		assert_int_equal(quantized.output->type, DTYPE_Q8_0);
		size_t end = 0;
		for (int i = 0; i < quantized.n_items; i++) {
			const struct draft_weights_item* item = &quantized.item[i];
			assert_int_equal(item->offset % DRAFT_WEIGHTS_ALIGNMENT, 0);
			assert_true(item->offset >= end);
			end = item->offset + item->bytes;
			assert_int_equal(item->bytes, (size_t)item->quantized->rows *
			                                  dtype_row_bytes(item->quantized->type, item->quantized->cols));
		}
		assert_true(end <= quantized.bytes && quantized.bytes < end + DRAFT_WEIGHTS_ALIGNMENT);
		draft_weights_close(&quantized);
		random_model_free(m);
	}
}

/* No draft weights where they would save less than a quarter. */
static void small_weights_are_left(void** state) {
	(void)state;
	static const struct {
		enum dtype type;
		int bits, sub_layers;
		bool head; /* its draft weights have 8 bits */
	} cases[] = {
	    {DTYPE_Q8_0, 4, 6, false}, {DTYPE_Q8_0, 8, 0, false}, {DTYPE_Q6_K, 4, 6, false},
	    {DTYPE_Q5_K, 4, 0, false}, {DTYPE_Q4_K, 4, 0, false}, {DTYPE_F32, 8, 6, true},
	    {DTYPE_F16, 4, 6, true},
	};
	for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
		const struct model_shape shape = random_shape(3, 256, 8, 2, 32, 512, VOCAB);
		struct random_model* m = random_model_make(&shape, &cases[c].type, 1, 0, 3);
		struct draft_weights quantized;
		plan(&quantized, m, cases[c].bits);
		assert_int_equal(mask_count(&quantized.sub_layers), cases[c].sub_layers);
		assert_int_equal(quantized.head, cases[c].head);
		assert_int_equal(quantized.bytes > 0, cases[c].sub_layers > 0);
		draft_weights_close(&quantized);
		random_model_free(m);
	}
}

static struct random_model* model_with_experts(void) {
	const enum dtype type = DTYPE_F16;
	struct model_shape shape = random_shape(3, 256, 4, 2, 32, 512, VOCAB);
	shape.n_experts = 5;
	shape.experts_used = 2;
	shape.expert_ffn = 256;
	return random_model_make(&shape, &type, 1, 0, 3);
}

/* A backend that has a head for drafts gets none beside it. */
static void no_head_beside_a_coarse_one(void** state) {
	(void)state;
	struct random_model* m = model_of(DTYPE_F16, 256, 520, 0);
	struct draft_weights quantized;
	struct error error = {""};
	assert_true(draft_weights_plan(&quantized, &m->weights,
	                               (struct draft_weights_format){.bits = 4, .coarse_head = true}, &error));
	assert_false(quantized.head);
	assert_ptr_equal(quantized.output->data, m->weights.output.data);
	draft_weights_close(&quantized);
	random_model_free(m);
}

static void experts_are_rounded(void** state) {
	(void)state;
	struct random_model* m = model_with_experts();
	struct draft_weights quantized;
	plan(&quantized, m, 4);
	int seen = 0;
	assert_int_equal(mask_count(&quantized.sub_layers), 6);
	for (int b = 0; b < 3; b++) {
		if (!tensor_present(&m->block[b].router))
			continue;
		assert_ptr_equal(quantized.block[b].router.data, m->block[b].router.data);
		for (int e = 0; e < 5; e++, seen++) {
			assert_int_equal(quantized.block[b].expert[e].w_gate.type, DTYPE_Q4_K);
			assert_int_equal(quantized.block[b].expert[e].w_down.type, DTYPE_Q4_K);
			assert_int_equal(m->block[b].expert[e].w_gate.type, DTYPE_F16);
		}
	}
	assert_in_range(seen, 5, 10);
	draft_weights_close(&quantized);
	random_model_free(m);
}

static void weights_elsewhere_are_refused(void** state) {
	(void)state;
	struct error error = {""};
	struct draft_weights quantized;
	struct random_model* m = model_of(DTYPE_F16, 256, 512, 0);
	m->weights.output.data = NULL;
	assert_false(
	    draft_weights_plan(&quantized, &m->weights, (struct draft_weights_format){.bits = 4}, &error));
	assert_non_null(strstr(error.message, "device"));
	draft_weights_close(&quantized);
	random_model_free(m);
}

/* ---- making --------------------------------------------------------------------------------- */

static void* make(struct draft_weights* quantized, int threads, int before) {
	struct error error = {""};
	void* data = aligned_alloc(DRAFT_WEIGHTS_ALIGNMENT, quantized->bytes);
	memset(data, before, quantized->bytes);
	if (!draft_weights_make(quantized, data, threads, NULL, NULL, &error))
		fail_msg("%s", error.message);
	draft_weights_place(quantized, data);
	return data;
}

static void threads_do_not_matter(void** state) {
	(void)state;
	struct random_model* m = model_of(DTYPE_BF16, 96, 200, 0); /* matrices that end between lines */
	struct draft_weights quantized;
	plan(&quantized, m, 4);
	void* one = make(&quantized, 1, 0xaa);
	for (int threads = 2; threads < 8; threads += 2) {
		void* several = make(&quantized, threads, 0x55);
		assert_memory_equal(one, several, quantized.bytes);
		free(several);
	}
	/* nor do slices, the shortest ones */
	struct error error = {""};
	unsigned char* sliced = calloc(1, quantized.bytes);
	struct draft_weights_job* making = draft_weights_job_open(&quantized, sliced, 2, &error);
	assert_non_null(making);
	for (double before = 0, made = draft_weights_job_share(making); made < 1; before = made) {
		assert_true(made == draft_weights_job_share(making) && made >= before);
		made = draft_weights_job_run(making, 0);
		assert_true(made > before && made <= 1);
	}
	assert_true(draft_weights_job_run(making, 1) == 1);
	assert_memory_equal(one, sliced, quantized.bytes);
	draft_weights_job_close(making);
	free(sliced);
	free(one);
	draft_weights_close(&quantized);
	random_model_free(m);
}

/* ---- the pass ------------------------------------------------------------------------------- */

struct subject {
	struct backend* b;
	struct cache* c;
};

static struct subject open_subject(const struct weight_table* w, const char* isa) {
	struct error error = {""};
	const struct backend_options options = {.threads = 2, .context = CONTEXT, .isa = isa};
	struct subject s = {.b = cpu_open(w, &options, &error)};
	s.c = s.b ? s.b->cache_open(s.b, CONTEXT, DTYPE_F16, &error) : NULL;
	if (!s.c)
		fail_msg("%s", error.message);
	return s;
}

static void close_subject(struct subject* s) {
	s->b->cache_close(s->c);
	s->b->close(s->b);
}

struct way {
	const struct mask *skip, *quantized;
	bool quantized_head;
	int base, last, tap; /* last 0: all */
};

/* n rows, a chain from base; logits (n, VOCAB). */
static void rows(const struct subject* s, int n, const struct way* way, float* logits) {
	static struct result out[MAX_ROWS];
	static float tapped[MAX_ROWS * 256];
	int32_t token[MAX_ROWS], parent[MAX_ROWS];
	uint8_t want[MAX_ROWS];
	struct error error = {""};
	for (int i = 0; i < n; i++) {
		token[i] = (int32_t)((7 * i + 3 + way->base) % VOCAB);
		parent[i] = i - 1;
		want[i] = WANT_LOGITS | WANT_TOKEN;
		out[i].logits = logits + (size_t)i * VOCAB;
	}
	const struct segment segment = {.cache = s->c, .base = way->base, .n = n};
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = n,
	                          .n_segments = 1,
	                          .segment = &segment,
	                          .token = token,
	                          .parent = parent,
	                          .skip = way->skip,
	                          .quantized = way->quantized,
	                          .quantized_head = way->quantized_head,
	                          .last = way->last ? way->last : 2 * s->b->weights->shape.n_blocks,
	                          .head = !way->last,
	                          .tap = way->tap ? way->tap : -1,
	                          .tap_out = tapped,
	                          .want = want,
	                          .out = out};
	if (!s->b->run(s->b, &pass, &error))
		fail_msg("%s", error.message);
}

static void commit_rows(const struct subject* s, int n, float* logits) {
	int32_t path[MAX_ROWS];
	const struct way full = {.base = s->c->committed};
	for (int i = 0; i < n; i++)
		path[i] = i;
	rows(s, n, &full, logits);
	s->b->commit(s->c, path, n);
}

/* The stored weights with the draft weights of some sub-layers, as a model of its own. */
static struct weight_table mixed(const struct draft_weights* quantized, const struct mask* which, bool head,
                                 struct block_weights* block) {
	struct weight_table w = *quantized->stored;
	for (int b = 0; b < w.shape.n_blocks; b++) {
		const struct block_weights* own = &quantized->block[b];
		block[b] = quantized->stored->block[b];
		if (mask_has(which, 2 * b))
			block[b].wq = own->wq, block[b].wk = own->wk, block[b].wv = own->wv, block[b].wo = own->wo;
		if (mask_has(which, 2 * b + 1))
			block[b].w_gate = own->w_gate, block[b].w_up = own->w_up, block[b].w_down = own->w_down,
			block[b].expert = own->expert;
	}
	w.block = block;
	w.output = head ? *quantized->output : w.output;
	return w;
}

static void compare(struct random_model* m, int bits, const char* isa, uint64_t which, bool head,
                    const struct mask* skip) {
	enum { COMMITTED = 20 };
	struct draft_weights quantized;
	struct block_weights block[3];
	struct mask mask = {.word = {which}};
	struct error error = {""};
	float* a = malloc(sizeof(float) * MAX_ROWS * VOCAB);
	float* b = malloc(sizeof(float) * MAX_ROWS * VOCAB);
	plan(&quantized, m, bits);
	void* data = make(&quantized, 2, 0);
	const struct weight_table own = mixed(&quantized, &mask, head, block);
	struct subject with = open_subject(&m->weights, isa), its = open_subject(&own, isa);
	assert_true(with.b->use_draft_weights(with.b, &quantized, &error));
	static const int counts[] = {1, 5, 68, 131}; /* a pass is cut in slices of 64 */
	for (int i = 0; i < (SANITIZED ? 3 : 4); i++) {
		const int n = counts[i];
		/* nothing committed: keys and values of the stored weights are not the draft weights' */
		const struct way draft = {.skip = skip, .quantized = &mask, .quantized_head = head},
		                 full = {.skip = skip};
		rows(&with, n, &draft, a);
		rows(&its, n, &full, b);
		assert_memory_equal(a, b, sizeof(float) * VOCAB * (size_t)n);
		with.b->discard(with.c);
		its.b->discard(its.c);
	}
	/* and drafts leave no trace: windows into committed text, then the text goes on as without draft weights
	 */
	struct subject alone = open_subject(&m->weights, isa);
	commit_rows(&with, COMMITTED, a);
	commit_rows(&alone, COMMITTED, b);
	assert_memory_equal(a, b, sizeof(float) * VOCAB * COMMITTED);
	const struct way window = {
	    .skip = skip, .quantized = &mask, .quantized_head = head, .base = COMMITTED / 2};
	rows(&with, 8, &window, a);
	with.b->discard(with.c);
	commit_rows(&with, COMMITTED, a);
	commit_rows(&alone, COMMITTED, b);
	assert_memory_equal(a, b, sizeof(float) * VOCAB * COMMITTED);
	close_subject(&alone);
	close_subject(&with);
	close_subject(&its);
	free(data);
	draft_weights_close(&quantized);
	free(a);
	free(b);
}

static void a_quantized_pass_is_the_quantized_models(void** state) {
	(void)state;
	static const char* const isa[] = {"reference", "avx2", "avx-vnni", "avx512", "neon", "dotprod", "i8mm"};
	const struct mask skip = {.word = {0x24}};
	struct random_model* m = model_of(DTYPE_F16, 256, 512, WITH_BIASES | WITH_TIED_HEAD);
	struct random_model* odd = model_of(DTYPE_BF16, 96, 200, WITH_POST_NORMS | WITH_HEAD_NORMS);
	struct random_model* experts = model_with_experts();
	for (size_t i = 0; i < sizeof isa / sizeof *isa; i++) {
		struct error error;
		const struct backend_options options = {.threads = 1, .context = CONTEXT, .isa = isa[i]};
		struct backend* here = cpu_open(&m->weights, &options, &error);
		if (!here)
			continue; /* not on this processor */
		here->close(here);
		if (!SANITIZED || i % 2 == 0) { /* else each on half of the instruction sets */
			compare(m, 4, isa[i], 0x3f, true, NULL);
			compare(m, 8, isa[i], 0x2a, true, NULL);
			compare(m, 4, isa[i], 0, true, NULL);
			compare(experts, 4, isa[i], 0x15, true, NULL);
			compare(experts, 4, isa[i], 0x2e, false, &skip);
		}
		if (!SANITIZED || i % 2 == 1) {
			compare(m, 4, isa[i], 0x3f, true, &skip); /* skipped wins over quantized */
			compare(m, 4, isa[i], 0x15, false, NULL);
			compare(odd, 4, isa[i], 0x39, true, NULL); /* w_down has no draft weights */
			compare(experts, 4, isa[i], 0x3f, true, NULL);
		}
	}
	random_model_free(m);
	random_model_free(experts);
	random_model_free(odd);
}

/* Rows that ran quantized are not the target's: no pass may go on from them. */
static void rewinding(void** state) {
	(void)state;
	struct random_model* m = model_of(DTYPE_F16, 256, 512, 0);
	struct draft_weights quantized;
	struct error error = {""};
	const struct mask first = {.word = {1}}, fifth = {.word = {0x10}}, all = {.word = {0x3f}};
	float* logits = malloc(sizeof(float) * MAX_ROWS * VOCAB);
	plan(&quantized, m, 4);
	void* data = make(&quantized, 1, 0);
	struct subject s = open_subject(&m->weights, "auto");
	assert_true(s.b->use_draft_weights(s.b, &quantized, &error));
	const struct way below = {.quantized = &first, .last = 4}, above = {.quantized = &fifth, .tap = 3};
	const struct way both = {.quantized = &all, .last = 4}, none = {.last = 4};
	rows(&s, 3, &below, logits);
	assert_false(s.b->rewind(s.c, 4));
	s.b->discard(s.c);
	rows(&s, 3, &both, logits);
	assert_false(s.b->rewind(s.c, 4));
	s.b->discard(s.c);
	rows(&s, 3, &none, logits);
	assert_true(s.b->rewind(s.c, 4));
	s.b->discard(s.c);
	rows(&s, 3, &above, logits); /* quantized after the tap only */
	assert_true(s.b->rewind(s.c, 4));
	assert_false(s.b->rewind(s.c, 5));
	s.b->discard(s.c);
	close_subject(&s);
	free(data);
	draft_weights_close(&quantized);
	free(logits);
	random_model_free(m);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rounding_is_no_worse_than_plain),
	    cmocka_unit_test(q8_0_is_rounded_plainly),
	    cmocka_unit_test(scales_are_finite),
	    cmocka_unit_test(bytes_are_the_same_on_any_processor),
	    cmocka_unit_test(types_follow_the_columns),
	    cmocka_unit_test(small_weights_are_left),
	    cmocka_unit_test(no_head_beside_a_coarse_one),
	    cmocka_unit_test(experts_are_rounded),
	    cmocka_unit_test(weights_elsewhere_are_refused),
	    cmocka_unit_test(threads_do_not_matter),
	    cmocka_unit_test(a_quantized_pass_is_the_quantized_models),
	    cmocka_unit_test(rewinding),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
