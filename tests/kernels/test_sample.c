/* Plain sampling against exact enumeration, the noise against its distribution, and the choice of the
 * best against sorting. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/noise.h"
#include "kernels/sample.h"
#include "tests/kernels/support_random_model.h"
#include "tests/sanitized.h"

enum { DRAWS = SANITIZED ? 20000 : 200000, LARGE = 32000 };

/* ---- the same, by sorting, in doubles ----------------------------------------------------------- */

struct entry {
	int32_t token;
	double x; /* logit over temperature, less the largest */
	double p; /* 0 when filtered */
};

static int by_value(const void* a, const void* b) {
	const struct entry *x = a, *y = b;
	if (x->x != y->x)
		return x->x < y->x ? 1 : -1;
	return x->token < y->token ? -1 : 1;
}

/* entry (vocab): sorted, with the exact probabilities of the processed distribution. */
static void enumerate(struct entry* entry, const float* logits, int vocab, const struct sampler* s) {
	double largest = -1e30, total = 0;
	for (int v = 0; v < vocab; v++)
		largest = fmax(largest, (double)logits[v]);
	for (int v = 0; v < vocab; v++)
		entry[v] = (struct entry){.token = v, .x = ((double)logits[v] - largest) / (double)s->temperature};
	qsort(entry, (size_t)vocab, sizeof *entry, by_value);
	int kept = s->top_k > 0 && s->top_k < vocab ? s->top_k : vocab;
	for (int i = 0; i < kept; i++)
		total += exp(entry[i].x);
	if (s->top_p < 1) {
		double sum = 0;
		for (int i = 0; i < kept; i++) {
			sum += exp(entry[i].x);
			if (sum >= (double)s->top_p * total)
				kept = i + 1;
		}
	}
	while (kept > 1 && exp(entry[kept - 1].x) < (double)s->min_p)
		kept--;
	total = 0;
	for (int i = 0; i < kept; i++)
		total += exp(entry[i].x);
	for (int i = 0; i < vocab; i++)
		entry[i].p = i < kept ? exp(entry[i].x) / total : 0;
}

static void random_logits(float* logits, int vocab, float spread, struct random* r) {
	for (int v = 0; v < vocab; v++)
		logits[v] = spread * random_normal(r);
}

/* The value a chi-square of k degrees exceeds once in 10,000 (Wilson and Hilferty 1931). */
static double chi_square_limit(int k) {
	const double z = 3.719, c = 2.0 / (9.0 * k);
	return k * pow(1 - c + z * sqrt(c), 3);
}

/* ---- plain sampling ------------------------------------------------------------------------------- */

static void draw(const float* logits, int vocab, const struct sampler* s) {
	struct entry entry[32];
	float scratch[64];
	int count[32] = {0};
	enumerate(entry, logits, vocab, s);
	struct result out = {0};
	for (int i = 0; i < DRAWS; i++) {
		assert_true(result_from_logits(&out, WANT_TOKEN, logits, vocab, s, (uint64_t)i, scratch));
		count[out.token]++;
	}
	double chi = 0, rare = 0;
	int degrees = -1, rare_count = 0;
	for (int i = 0; i < vocab; i++) {
		const double expected = entry[i].p * DRAWS;
		const int seen = count[entry[i].token];
		if (entry[i].p == 0)
			assert_int_equal(seen, 0);
		else if (expected < 10) {
			rare += expected;
			rare_count += seen;
		} else {
			chi += (seen - expected) * (seen - expected) / expected;
			degrees++;
		}
	}
	if (rare >= 5) {
		chi += (rare_count - rare) * (rare_count - rare) / rare;
		degrees++;
	}
	if (degrees > 0 && chi > chi_square_limit(degrees))
		fail_msg(
		    "chi-square %.1f with %d degrees: vocabulary %d, temperature %g, top-k %d, top-p %g, min-p %g",
		    chi, degrees, vocab, (double)s->temperature, s->top_k, (double)s->top_p, (double)s->min_p);
}

static void every_filter(void** state) {
	(void)state;
	struct random r = {11};
	float logits[32];
	const char* full = getenv("SWIFTLET_FULL");
	const int rounds = full && full[0] == '1' ? 8 : 1;
	for (int filters = 0; filters < 8; filters++)
		for (int round = 0; round < rounds; round++) {
			const int i = (filters + round) % 2;
			const int vocab = i == 0 ? 8 + random_below(&r, 10) : 32 - random_below(&r, 10);
			const float temperature[] = {0.8f, 1.7f};
			const struct sampler s = {.temperature = temperature[i],
			                          .top_k = filters & 1 ? 2 + random_below(&r, 6) : 0,
			                          .top_p = filters & 2 ? 0.5f + 0.1f * (float)random_below(&r, 5) : 1,
			                          .min_p = filters & 4 ? 0.02f + 0.05f * (float)random_below(&r, 3) : 0,
			                          .seed = random_next(&r),
			                          .sequence = random_next(&r)};
			random_logits(logits, vocab, 1.5f, &r);
			draw(logits, vocab, &s);
		}
}

/* ---- ties, extremes --------------------------------------------------------------------------------- */

static void equal_logits(void** state) {
	(void)state;
	float logits[12], scratch[24];
	bool seen[12] = {false};
	for (int v = 0; v < 12; v++)
		logits[v] = v < 2 ? -3 : 1.5f;
	struct result out = {.top = 4};
	assert_true(result_from_logits(&out, WANT_TOKEN | WANT_TOP, logits, 12, NULL, 0, scratch));
	assert_int_equal(out.token, 2);
	for (int i = 0; i < 4; i++)
		assert_int_equal(out.top_token[i], 2 + i);
	const struct sampler by_count = {.temperature = 1, .top_k = 3, .top_p = 1},
	                     by_mass = {.temperature = 1, .top_p = 0.25f};
	const struct sampler* const samplers[] = {&by_count, &by_mass};
	for (int k = 0; k < 2; k++) {
		memset(seen, 0, sizeof seen);
		for (uint64_t i = 0; i < 500; i++) {
			assert_true(result_from_logits(&out, WANT_TOKEN, logits, 12, samplers[k], i, scratch));
			seen[out.token] = true;
		}
		for (int v = 0; v < 12; v++)
			assert_int_equal(seen[v], v >= 2 && v < 5); /* 3 of 10 reach a quarter of the mass */
	}
}

static void extremes(void** state) {
	(void)state;
	float scratch[16], logits[8] = {1e30f, -1e30f, 0, 5, 5, -3e38f, 3e38f, 3e38f};
	const struct sampler samplers[] = {{.temperature = 1e-6f, .top_p = 1},
	                                   {.temperature = 100, .top_p = 0},
	                                   {.temperature = 1, .top_p = 1, .min_p = 1},
	                                   {.temperature = 1, .top_k = 1, .top_p = 1},
	                                   {.temperature = 1, .top_k = 100, .top_p = 0.999f, .min_p = 0.5f}};
	struct result out = {.top = MAX_TOP};
	for (int k = 0; k < 5; k++)
		for (uint64_t i = 0; i < 100; i++) {
			assert_true(result_from_logits(&out, WANT_TOKEN, logits, 8, &samplers[k], i, scratch));
			assert_in_range(out.token, 6, 7);
		}
	assert_true(result_from_logits(&out, WANT_TOP, logits, 8, NULL, 0, scratch));
	assert_int_equal(out.top, 8);
	const float bad[] = {NAN, INFINITY, -INFINITY};
	for (int k = 0; k < 3; k++) {
		logits[k] = bad[k];
		assert_false(result_from_logits(&out, WANT_TOKEN, logits, 8, NULL, 0, scratch));
		logits[k] = 0;
	}
}

/* ---- large rows: the filters and the best against sorting ----------------------------------------- */

static void large_rows(void** state) {
	(void)state;
	struct random r = {5};
	float* logits = calloc(3 * LARGE, sizeof *logits);
	struct entry* entry = calloc(LARGE, sizeof *entry);
	for (int i = 0; i < 40; i++) {
		const struct sampler s = {.temperature = 0.7f + 0.1f * (float)(i % 5),
		                          .top_k = i & 1 ? 1 + random_below(&r, 2000) : 0,
		                          .top_p = i & 2 ? 0.9f : 1,
		                          .min_p = i & 4 ? 1e-3f : 0,
		                          .seed = 9,
		                          .sequence = 1};
		random_logits(logits, LARGE, 1 + (float)(i % 4), &r);
		for (int k = 0; k < 3000; k++) /* many equal ones */
			logits[random_below(&r, LARGE)] = 2;
		enumerate(entry, logits, LARGE, &s);
		struct result out = {.top = 5};
		assert_true(result_from_logits(&out, WANT_TOKEN | WANT_TOP | WANT_LOG_SUM_EXP, logits, LARGE, &s, 77,
		                               logits + LARGE));
		double best = -1e30;
		int32_t token = -1;
		for (int k = 0; k < LARGE; k++) {
			const double x = entry[k].x + (double)gumbel_noise(9, 1, 77, (uint32_t)entry[k].token);
			if (entry[k].p > 0 && (x > best || (x == best && entry[k].token < token))) {
				best = x;
				token = entry[k].token;
			}
		}
		assert_int_equal(out.token, token);
		assert_int_equal(out.top_token[0], token);
		double sum = 0, most = 0;
		for (int v = 0; v < LARGE; v++)
			sum += exp((double)logits[v]);
		for (int k = 0; k < out.top; k++)
			assert_true(fabs((double)out.top_probability[k] - exp((double)logits[out.top_token[k]]) / sum) <
			            1e-6);
		for (int v = 0; v < LARGE; v++)
			most = fmax(most, exp((double)logits[v]) / sum);
		assert_true(fabs((double)out.max_probability - most) < 1e-6);
		assert_true(fabs((double)out.log_sum_exp - log(sum)) < 1e-5);
	}
	free(logits);
	free(entry);
}

/* ---- the noise --------------------------------------------------------------------------------------- */

/* The published known answers of Random123. */
static void philox_known_answers(void** state) {
	(void)state;
	const struct {
		uint64_t seed, sequence;
		uint32_t position, quad, word[4];
	} known[] = {
	    {0, 0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
	    {UINT64_MAX, UINT64_MAX, UINT32_MAX, UINT32_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
	    {0x299f31d0a4093822,
	     0x0370734413198a2e,
	     0x85a308d3,
	     0x243f6a88,
	     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		const struct noise_words w =
		    noise_philox(known[i].seed, known[i].sequence, known[i].position, known[i].quad);
		assert_memory_equal(w.word, known[i].word, sizeof w.word);
	}
}

static int ascending(const void* a, const void* b) {
	const float x = *(const float*)a, y = *(const float*)b;
	return (x > y) - (x < y);
}

/* Kolmogorov and Smirnov's largest distance from exp(-exp(-x)); 1.95/sqrt(n) is passed once in 1,000. */
static void noise_distribution(void** state) {
	(void)state;
	enum { N = 400000 };
	float* x = malloc(N * sizeof *x);
	double mean = 0, squares = 0;
	for (int i = 0; i < N; i++) {
		x[i] = gumbel_noise(42, (uint64_t)i % 7, (uint64_t)i / 1000, (uint32_t)i % 1000);
		mean += (double)x[i] / N;
		squares += (double)x[i] * (double)x[i] / N;
	}
	assert_true(fabs(mean - 0.5772156649) < 0.01);
	assert_true(fabs(squares - mean * mean - 1.6449340668) < 0.03);
	qsort(x, N, sizeof *x, ascending);
	double distance = 0;
	for (int i = 0; i < N; i++) {
		const double c = exp(-exp(-(double)x[i]));
		distance = fmax(distance, fmax(fabs(c - (double)i / N), fabs(c - (double)(i + 1) / N)));
	}
	assert_true(distance < 1.95 / sqrt(N));
	free(x);
}

/* Exact values of the transform, both tails: the logarithms are right to a few units in the last place. */
static void noise_transform(void** state) {
	(void)state;
	struct random r = {3};
	for (int i = 0; i < 200000; i++) {
		uint32_t word = (uint32_t)random_next(&r);
		if (i < 4000)
			word = i & 1 ? (uint32_t)i : UINT32_MAX - (uint32_t)i;
		const double w = ((double)(word >> 1) + 0.5) / 2147483648.0;
		const double exact = -log(-log1p(-w));
		assert_true(isfinite(noise_gumbel(word)));
		assert_true(fabs((double)noise_gumbel(word) - exact) <= 4e-7 * fmax(1, fabs(exact)));
		const double x = -40.0 * w;
		assert_true(fabs((double)noise_exp((float)x) - exp((double)(float)x)) <= 2e-7 * exp(x));
	}
}

/* Neighbours in every argument look unrelated. */
static void noise_independence(void** state) {
	(void)state;
	enum { N = 100000 };
	double sum[4] = {0};
	for (int i = 0; i < N; i++) {
		const uint64_t p = (uint64_t)i / 100;
		const uint32_t v = (uint32_t)i % 100;
		const double x = (double)gumbel_noise(1, 2, p, v) - 0.5772156649;
		const float near[] = {gumbel_noise(1, 2, p, v + 1), gumbel_noise(1, 2, p + 1, v),
		                      gumbel_noise(1, 3, p, v), gumbel_noise(2, 2, p, v)};
		for (int k = 0; k < 4; k++)
			sum[k] += x * ((double)near[k] - 0.5772156649) / 1.6449340668;
	}
	for (int k = 0; k < 4; k++)
		assert_true(fabs(sum[k] / N) < 4 / sqrt(N));
}

/* A token that is not allowed counts as infinitely unlikely, with every filter and sampler. */
static void allowed_tokens(void** state) {
	(void)state;
	enum { VOCAB = 200 };
	struct random r = {23};
	float logits[VOCAB], unlikely[VOCAB], scratch[2 * VOCAB];
	for (int round = 0; round < 400; round++) {
		const struct sampler s = {.temperature = 0.5f + 0.01f * (float)(round % 100),
		                          .top_k = round % 3 ? 0 : 3 + round % 7,
		                          .top_p = round % 2 ? 1 : 0.8f,
		                          .min_p = round % 5 ? 0 : 0.05f,
		                          .seed = random_next(&r)};
		const struct sampler* sampler = round % 4 ? &s : NULL;
		uint64_t allowed[(VOCAB + 63) / 64] = {0};
		float max = -INFINITY, sum = 0;
		random_logits(logits, VOCAB, 3, &r);
		for (int v = 0; v < VOCAB; v++) {
			const bool good = v == round % VOCAB || random_below(&r, 1 + round % 20) == 0;
			allowed[v >> 6] |= (uint64_t)good << (v & 63);
			unlikely[v] = good ? logits[v] : -1e30f;
			max = fmaxf(max, logits[v]);
		}
		for (int v = 0; v < VOCAB; v++)
			sum += expf(logits[v] - max);
		struct result got = {.top = 1}, expected = {.top = 1};
		const uint8_t want = round % 7 ? WANT_TOKEN : WANT_TOKEN | WANT_TOP;
		result_from_softmax(&got, want, logits, VOCAB, max, sum, sampler, NULL, allowed, (uint64_t)round,
		                    scratch);
		assert_true(result_from_logits(&expected, want, unlikely, VOCAB, sampler, (uint64_t)round, scratch));
		assert_int_equal(got.token, expected.token);
		assert_true(allowed[got.token >> 6] >> (got.token & 63) & 1u);
	}
}

enum { FEW = 5, MOST_TEXT = 40 };

/* Whether the text with this token after it ends in n tokens that it has somewhere before. */
static bool would_repeat(const int32_t* text, int length, int n, int32_t token) {
	int32_t whole[MOST_TEXT + 1];
	memcpy(whole, text, (size_t)length * sizeof *whole);
	whole[length] = token;
	for (int i = 0; i + n <= length && n <= length + 1; i++)
		if (memcmp(whole + i, whole + length + 1 - n, (size_t)n * sizeof *whole) == 0)
			return true;
	return false;
}

/* The likeliest token that repeats no run of n tokens, or of all if none is left; some of the text is a row's
 * path. */
static void repeated_runs(void** state) {
	(void)state;
	struct random r = {31};
	int32_t zero[FEW] = {0};
	uint8_t none[FEW] = {0};
	float logits[FEW], scratch[2 * FEW];
	for (int round = 0; round < 4000; round++) {
		const int length = 1 + random_below(&r, MOST_TEXT), before = random_below(&r, length + 1);
		int32_t text[MOST_TEXT];
		for (int i = 0; i < length; i++)
			text[i] = random_below(&r, FEW);
		const struct penalties penalties = {.repetition = 1,
		                                    .in_prompt = none,
		                                    .generated = zero,
		                                    .no_repeat = 1 + random_below(&r, 5),
		                                    .text = text,
		                                    .n_text = before};
		const struct penalised_row row = {&penalties, text + before, length - before};
		random_logits(logits, FEW, 3, &r);
		int expected = -1, best = 0;
		for (int v = 0; v < FEW; v++) {
			best = logits[v] > logits[best] ? v : best;
			if (!would_repeat(text, length, penalties.no_repeat, v) &&
			    (expected < 0 || logits[v] > logits[expected]))
				expected = v;
		}
		struct result got = {.top = 1};
		result_from_softmax(&got, WANT_TOKEN, logits, FEW, logits[best], 1, NULL, &row, NULL, 0, scratch);
		assert_int_equal(got.token, expected < 0 ? best : expected);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(every_filter),
	                                   cmocka_unit_test(equal_logits),
	                                   cmocka_unit_test(extremes),
	                                   cmocka_unit_test(large_rows),
	                                   cmocka_unit_test(philox_known_answers),
	                                   cmocka_unit_test(noise_distribution),
	                                   cmocka_unit_test(noise_transform),
	                                   cmocka_unit_test(noise_independence),
	                                   cmocka_unit_test(allowed_tokens),
	                                   cmocka_unit_test(repeated_runs)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
