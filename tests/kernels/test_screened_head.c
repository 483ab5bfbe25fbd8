/* The screened head against the full one: the same token and the same bits of its logit, on heads and states
 * that are random, peaked, full of equal and of nearly equal rows, huge, tiny or lopsided; and the full head
 * where nothing can be screened. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cpu/cpu.h"
#include "kernels/dtype_blocks.h"
#include "kernels/synth_block.h"
#include "tests/kernels/support_random_model.h"
#include "tests/must.h"
#include "tests/sanitized.h"

enum { DIM = 256, VOCAB = 499, ROWS = 40, REPEATS = SANITIZED ? 1 : 5 };

static const enum dtype types[] = {DTYPE_F32, DTYPE_F16, DTYPE_BF16, DTYPE_Q8_0, DTYPE_Q6_K};
enum { N_TYPES = sizeof types / sizeof *types };

enum { RANDOM, PEAKED, EQUAL, NEARLY_EQUAL, VERY_LARGE, TINY, LOPSIDED, ZERO_STATE, N_KINDS };

/* ---- heads and states ---------------------------------------------------------------------------- */

static void fill_head(float* head, int kind, struct random* r) {
	for (int v = 0; v < VOCAB; v++)
		for (int k = 0; k < DIM; k++) {
			const float scale = kind == VERY_LARGE ? 3e3f : kind == TINY ? 3e-7f : 1;
			head[v * DIM + k] = random_normal(r) * scale;
		}
	for (int v = 1; v < VOCAB && (kind == EQUAL || kind == NEARLY_EQUAL); v++) {
		memcpy(head + v * DIM, head + v % 7 * DIM, DIM * sizeof *head);
		if (kind == NEARLY_EQUAL)
			head[v * DIM + random_below(r, DIM)] *= 1 + 0x1p-7f;
	}
}

static void fill_states(float* state, const float* head, int kind, struct random* r) {
	for (int i = 0; i < ROWS; i++) {
		const float* row = head + (size_t)random_below(r, VOCAB) * DIM;
		const float scale = kind == VERY_LARGE ? 1e15f : kind == TINY ? 1e-30f : 1;
		const float share = kind == RANDOM ? 0 : kind == PEAKED ? 0.7f : 0.2f;
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
	if (type == DTYPE_Q6_K)
		synth_q6_k(out, x);
}

/* ---- two backends on one head ---------------------------------------------------------------------- */

struct pair {
	unsigned char* bytes; /* the head's */
	struct backend *full, *screened;
	struct cache *full_cache, *screened_cache;
};

static struct backend* open_one(const struct weight_table* weights, const char* isa, bool screened) {
	const struct backend_options options = {
	    .threads = 2, .isa = isa, .context = 64, .screened_head = screened};
	return must_open(cpu_open, weights, &options);
}

static struct random_model* model; /* of every pair, one after another; each has its own head */

static struct pair open_pair(const char* isa, enum dtype type, const float* head) {
	struct error error;
	struct pair p;
	const size_t row = dtype_row_bytes(type, DIM);
	p.bytes = malloc(row * VOCAB);
	for (int v = 0; v < VOCAB; v++)
		encode(type, p.bytes + (size_t)v * row, head + (size_t)v * DIM);
	model->weights.output = (struct tensor){.type = type, .rows = VOCAB, .cols = DIM, .data = p.bytes};
	p.full = open_one(&model->weights, isa, false);
	p.screened = open_one(&model->weights, isa, true);
	p.full_cache = p.full->cache_open(p.full, 64, DTYPE_F32, &error);
	p.screened_cache = p.screened->cache_open(p.screened, 64, DTYPE_F32, &error);
	assert_non_null(p.full_cache);
	assert_non_null(p.screened_cache);
	return p;
}

static void close_pair(struct pair* p) {
	p->full->cache_close(p->full_cache);
	p->screened->cache_close(p->screened_cache);
	p->full->close(p->full);
	p->screened->close(p->screened);
	free(p->bytes);
}

/* Rows are tried whatever others cost before. */
static bool at_any_cost = true;

/* The head on n states alone. */
static bool run_bounded(struct backend* b, struct cache* cache, const float* state, int n, uint8_t want,
                        const uint64_t* const* allowed, const struct sampler* sampler, struct result* out) {
	struct error error;
	uint8_t wants[ROWS];
	const struct segment segment = {.cache = cache, .n = n, .allowed = allowed, .sampler = sampler};
	memset(wants, want, sizeof wants);
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = n,
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
	if (at_any_cost && !(want & WANT_GUESS))
		cpu_of(b)->screened.cost = 0;
	const bool done = b->run(b, &pass, &error);
	b->discard(cache);
	return done;
}

static bool run_head(struct backend* b, struct cache* cache, const float* state, int n, uint8_t want,
                     struct result* out) {
	return run_bounded(b, cache, state, n, want, NULL, NULL, out);
}

/* ---- drafts ---------------------------------------------------------------------------------------- */

/* Rows that choose among some tokens find the best token if it is among them; the others are not read.
 */
static void draft_among_some(const struct pair* p, const float* state, const char* name) {
	enum { WORDS = (VOCAB + 63) / 64, WANTS = WANT_TOKEN | WANT_TOP | WANT_GUESS, LISTED = 16 };
	static float all[ROWS][VOCAB];
	uint64_t bits[WORDS] = {0};
	const uint64_t* allowed[ROWS];
	struct result free_rows[ROWS], bounded[ROWS];
	const float* logits = cpu_of(p->screened)->logits;
	for (int i = 0; i < ROWS; i++) {
		free_rows[i].top = bounded[i].top = 8;
		allowed[i] = bits;
	}
	assert_true(run_head(p->screened, p->screened_cache, state, ROWS, WANTS, free_rows));
	memcpy(all, logits, sizeof all);
	for (int i = 0; i < ROWS; i++)
		bits[free_rows[i].token >> 6] |= (uint64_t)1 << (free_rows[i].token & 63);
	assert_true(run_bounded(p->screened, p->screened_cache, state, ROWS, WANTS, allowed, NULL, bounded));
	for (int i = 0; i < ROWS; i++) {
		if (bounded[i].token != free_rows[i].token)
			fail_msg("%s: row %d: %d among some, %d among all", name, i, bounded[i].token,
			         free_rows[i].token);
		for (int v = 0; v < VOCAB / LISTED * LISTED; v++) {
			const bool listed = bits[v / 64] >> v % 64 / LISTED * LISTED & 0xffff;
			assert_int_equal(logits[i * VOCAB + v] > -1e20f, listed);
		}
	}
	/* one that may choose among all reads all */
	allowed[3] = NULL;
	assert_true(run_bounded(p->screened, p->screened_cache, state, ROWS, WANTS, allowed, NULL, bounded));
	assert_memory_equal(logits, all, sizeof all);
}

/* Without a coarse copy the listed rows of the head itself are read: those tokens have the full head's
 * logits, the others next to none. */
static void draft_from_the_head(const struct pair* p, const float* state, const char* name) {
	enum { WORDS = (VOCAB + 63) / 64, WANTS = WANT_TOKEN | WANT_TOP | WANT_GUESS, LISTED = 16 };
	static float all[ROWS][VOCAB];
	uint64_t bits[WORDS] = {0};
	const uint64_t* allowed[ROWS];
	struct result full[ROWS], listed[ROWS];
	const float* logits = cpu_of(p->full)->logits;
	assert_true(p->full->bounds_guesses);
	for (int i = 0; i < ROWS; i++) {
		full[i].top = listed[i].top = 8;
		allowed[i] = bits;
	}
	assert_true(run_head(p->full, p->full_cache, state, ROWS, WANT_TOKEN, full));
	memcpy(all, logits, sizeof all);
	for (int i = 0; i < ROWS; i++)
		bits[full[i].token >> 6] |= (uint64_t)1 << (full[i].token & 63);
	bits[(VOCAB - 1) >> 6] |= (uint64_t)1 << ((VOCAB - 1) & 63); /* in a group that is not whole */
	assert_true(run_bounded(p->full, p->full_cache, state, ROWS, WANTS, allowed, NULL, listed));
	for (int i = 0; i < ROWS; i++) {
		if (listed[i].token != full[i].token)
			fail_msg("%s: row %d: %d among some, %d among all", name, i, listed[i].token, full[i].token);
		for (int v = 0; v < VOCAB; v++) {
			const bool there = bits[v / 64] >> v % 64 / LISTED * LISTED & 0xffff;
			const float expected = there ? all[i][v] : -1e30f;
			assert_memory_equal(&logits[i * VOCAB + v], &expected, sizeof expected);
		}
	}
}

/* ---- sampling -------------------------------------------------------------------------------------- */

/* The full head's tokens, at any temperature, whatever else the row is wanted for. */
static void same_samples(const struct pair* p, const float* state, const char* name, uint64_t seed) {
	static const float temperatures[] = {1e-6f, 0.1f, 0.7f, 1, 3, 1e6f};
	struct result full[ROWS], screened[ROWS];
	for (size_t t = 0; t < sizeof temperatures / sizeof *temperatures; t++) {
		const struct sampler sampler = {
		    .temperature = temperatures[t], .top_p = 1, .seed = seed, .sequence = t};
		const uint8_t want = t % 2 ? WANT_TOKEN : WANT_TOKEN | WANT_TOP | WANT_ROUGH;
		for (int i = 0; i < ROWS; i++)
			full[i].top = screened[i].top = 4;
		assert_true(run_bounded(p->full, p->full_cache, state, ROWS, WANT_TOKEN, NULL, &sampler, full));
		assert_true(run_bounded(p->screened, p->screened_cache, state, ROWS, want, NULL, &sampler, screened));
		for (int i = 0; i < ROWS; i++)
			if (full[i].token != screened[i].token)
				fail_msg("%s, temperature %g: row %d gives token %d, the full head %d", name,
				         (double)sampler.temperature, i, screened[i].token, full[i].token);
	}
}

/* ---- the comparison -------------------------------------------------------------------------------- */

static void same_results(const struct pair* p, const float* state, const char* name, bool peaked) {
	static float logits[ROWS][VOCAB];
	struct result full[ROWS], screened[ROWS], rough[ROWS], guess[ROWS], alone;
	for (int i = 0; i < ROWS; i++) {
		full[i].logits = logits[i];
		rough[i].top = guess[i].top = 8;
	}
	assert_true(run_head(p->full, p->full_cache, state, ROWS, WANT_TOKEN | WANT_LOGITS, full));
	assert_true(
	    run_head(p->screened, p->screened_cache, state, ROWS, WANT_TOKEN | WANT_TOP | WANT_ROUGH, rough));
	assert_true(
	    run_head(p->screened, p->screened_cache, state, ROWS, WANT_TOKEN | WANT_TOP | WANT_GUESS, guess));
	assert_true(run_head(p->screened, p->screened_cache, state, ROWS, WANT_TOKEN, screened));
	const float* mixed = cpu_of(p->screened)->logits;
	for (int i = 0; i < ROWS; i++, mixed += VOCAB) {
		const int32_t token = full[i].token;
		if (screened[i].token != token || rough[i].token != token || rough[i].top_token[0] != token ||
		    memcmp(&mixed[token], &logits[i][token], sizeof(float)) != 0)
			fail_msg("%s: row %d gives token %d (%.9g), the full head %d (%.9g)", name, i, screened[i].token,
			         (double)mixed[token], token, (double)logits[i][token]);
		if (peaked && guess[i].token != token)
			fail_msg("%s: row %d: a draft guesses %d for %d", name, i, guess[i].token, token);
		assert_in_range(guess[i].token, 0, VOCAB - 1);
		for (int v = 0; v < VOCAB; v++) /* who has as much has it exactly; nobody is over it */
			assert_true(mixed[v] < mixed[token] || mixed[v] == logits[i][v]);
	}
	const int some = 7;
	assert_true(run_head(p->screened, p->screened_cache, state + some * DIM, 1, WANT_TOKEN, &alone));
	assert_int_equal(alone.token, full[some].token);
}

static void compare(const char* isa, enum dtype type, int kind, uint64_t seed) {
	struct random r = {seed};
	float* head = malloc(sizeof(float) * VOCAB * DIM);
	float* state = malloc(sizeof(float) * ROWS * DIM);
	char name[80];
	snprintf(name, sizeof name, "%s, %s, kind %d", isa, dtype_name(type), kind);
	fill_head(head, kind, &r);
	struct pair p = open_pair(isa, type, head);
	assert_true(p.screened->screened_bytes > 0);
	assert_int_equal(p.full->screened_bytes, 0);
	for (int i = 0; i < (strcmp(isa, "reference") == 0 ? 1 : REPEATS); i++) {
		fill_states(state, head, kind, &r);
		same_results(&p, state, name, kind == PEAKED);
		same_samples(&p, state, name, seed + (uint64_t)i);
		if (kind == PEAKED)
			draft_among_some(&p, state, name);
		if (kind == RANDOM)
			draft_from_the_head(&p, state, name);
		/* where one token stands out few rows are computed beside the coarse copy, which is .69 of Q6_K */
		const double most = type == DTYPE_Q6_K ? 0.75 : 0.6;
		if (kind == PEAKED)
			assert_true(cpu_of(p.screened)->screened.cost < most && cpu_of(p.screened)->screened.cost > 0);
		cpu_of(p.screened)->screened.resting = 0; /* it is to be tried whatever it costs */
	}
	close_pair(&p);
	free(head);
	free(state);
}

static void the_same_tokens(void** unused) {
	(void)unused;
	const struct cpu_kernels* kernels[1 + MAX_ISAS] = {&cpu_reference};
	const int n = 1 + cpu_kernels_here(kernels + 1);
	for (int k = 0; k < n; k++)
		for (int t = 0; t < N_TYPES; t++)
			for (int kind = 0; kind < N_KINDS; kind++)
				if (!SANITIZED || (k + t + kind) % 2 == 0) /* else half of the combinations */
					compare(kernels[k]->name, types[t], kind, 1 + (uint64_t)(t * N_KINDS + kind));
}

/* ---- what is not screened ------------------------------------------------------------------------- */

static void weights_that_are_not_finite(void** unused) {
	(void)unused;
	const float bad[] = {NAN, INFINITY, -INFINITY};
	for (int i = 0; i < 3; i++) {
		struct random r = {9};
		float* head = malloc(sizeof(float) * VOCAB * DIM);
		fill_head(head, RANDOM, &r);
		head[100 * DIM + 33] = bad[i];
		struct pair p = open_pair("auto", DTYPE_F32, head);
		assert_int_equal(p.screened->screened_bytes, 0);
		close_pair(&p);
		free(head);
	}
}

static void states_that_are_not_finite(void** unused) {
	(void)unused;
	struct random r = {9};
	float* head = malloc(sizeof(float) * VOCAB * DIM);
	float state[ROWS * DIM];
	struct result out[ROWS];
	fill_head(head, RANDOM, &r);
	struct pair p = open_pair("auto", DTYPE_Q8_0, head);
	fill_states(state, head, RANDOM, &r);
	state[3 * DIM + 9] = NAN;
	assert_false(run_head(p.screened, p.screened_cache, state, ROWS, WANT_TOKEN, out));
	state[3 * DIM + 9] = INFINITY;
	assert_false(run_head(p.screened, p.screened_cache, state, ROWS, WANT_TOKEN, out));
	close_pair(&p);
	free(head);
}

/* Sums that may overflow, as the full head's do. */
static void too_large_to_screen(void** unused) {
	(void)unused;
	struct random r = {9};
	float* head = malloc(sizeof(float) * VOCAB * DIM);
	float state[ROWS * DIM];
	struct result out[ROWS];
	fill_head(head, RANDOM, &r);
	for (int k = 0; k < VOCAB * DIM; k++)
		head[k] *= 1e15f;
	struct pair p = open_pair("auto", DTYPE_F32, head);
	fill_states(state, head, RANDOM, &r);
	for (int k = 0; k < ROWS * DIM; k++)
		state[k] *= 1e24f;
	assert_false(run_head(p.full, p.full_cache, state, ROWS, WANT_TOKEN, out));
	assert_false(run_head(p.screened, p.screened_cache, state, ROWS, WANT_TOKEN, out));
	close_pair(&p);
	free(head);
}

/* If many rows survive, the screen rests, and the results are the same. */
static void rests_where_it_does_not_pay(void** unused) {
	(void)unused;
	struct random r = {9};
	float* head = malloc(sizeof(float) * VOCAB * DIM);
	float state[ROWS * DIM];
	fill_head(head, EQUAL, &r);
	struct pair p = open_pair("auto", DTYPE_F32, head);
	bool rested = false;
	at_any_cost = false;
	for (int i = 0; i < 100 && p.screened->screened_bytes > 0; i++) {
		fill_states(state, head, ZERO_STATE, &r);
		same_results(&p, state, "resting", false);
		rested |= cpu_of(p.screened)->screened.resting > 0;
	}
	at_any_cost = true;
	assert_int_equal(rested, p.screened->screened_bytes > 0);
	close_pair(&p);
	free(head);
}

/* Each of several rows has survivors of its own; what is refused for that is tried again some time. */
static void rows_pay_each_for_itself(void** unused) {
	(void)unused;
	struct random r = {9};
	float* head = malloc(sizeof(float) * VOCAB * DIM);
	fill_head(head, PEAKED, &r);
	struct pair p = open_pair("auto", DTYPE_F32, head);
	struct cpu_backend* b = cpu_of(p.screened);
	bool tried = false;
	b->screened.cost = 0.5; /* of which the coarse copy is 0.14 */
	assert_true(screened_pays(b, 1));
	assert_true(screened_pays(b, 2));
	assert_false(screened_pays(b, 3));
	for (int i = 0; i < 1000; i++)
		tried |= screened_pays(b, 3);
	assert_true(tried);
	close_pair(&p);
	free(head);
}

int main(void) {
	const struct model_shape shape = random_shape(1, DIM, 4, 2, 48, 64, VOCAB);
	const enum dtype plain = DTYPE_F32;
	model = random_model_make(&shape, &plain, 1, 0, 1);
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_same_tokens),
	                                   cmocka_unit_test(weights_that_are_not_finite),
	                                   cmocka_unit_test(states_that_are_not_finite),
	                                   cmocka_unit_test(too_large_to_screen),
	                                   cmocka_unit_test(rests_where_it_does_not_pay),
	                                   cmocka_unit_test(rows_pay_each_for_itself)};
	const int failed = cmocka_run_group_tests(tests, NULL, NULL);
	random_model_free(model);
	return failed;
}
