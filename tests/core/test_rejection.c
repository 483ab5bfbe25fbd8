/* Rejection sampling against exact enumeration: the distribution of the tokens that come out of verified
 * trees is the target's, for chains and for trees drawn without replacement, with filters and without, from
 * drafts that are near and far. Pearson's chi-square over all texts of three tokens; seeds are fixed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/methods/rejection.h"
#include "kernels/sample.h"

enum { VOCAB = 5, DEPTH = 3, TEXTS = VOCAB * VOCAB * VOCAB };

/* Logits after a text of up to two tokens, of the target or the draft. */
static void logits_of(const int32_t* text, int n, bool draft, float distance, float* out) {
	uint32_t h = 2166136261u;
	for (int i = 0; i < n; i++)
		h = (h ^ (uint32_t)(text[i] + 1)) * 16777619u;
	for (int v = 0; v < VOCAB; v++) {
		const uint32_t target = (h ^ (uint32_t)(v + 17)) * 2654435761u;
		const uint32_t other = (h ^ (uint32_t)(v + 91)) * 2246822519u;
		out[v] = 2.5f * (float)(target >> 8) / 16777216.0f;
		if (draft)
			out[v] += distance * ((float)(other >> 8) / 16777216.0f - 0.5f);
	}
}

struct setting {
	const char* name;
	struct sampler sampler;
	float distance; /* of the draft */
	int children;   /* a node's; all levels */
	bool drawn;     /* else chosen: the draft's likeliest */
};

/* One verified tree of two levels, which gives one to three tokens; those that are missing are drawn plainly.
 */
struct draws {
	float target[1 + VOCAB + VOCAB * VOCAB][VOCAB], draft[1 + VOCAB + VOCAB * VOCAB][VOCAB];
	float p[VOCAB], q[VOCAB], scratch[2 * VOCAB];
};

static void path_of(const struct tree* tree, int row, int32_t* text, int* n) {
	*n = tree->depth[row];
	for (int i = *n - 1; i >= 0; i--, row = tree->parent[row])
		text[i] = tree->token[row];
}

/* Children of a row: in the order in which the draft's own noise draws them. */
static void add_children(struct draws* d, struct tree* tree, int row, const struct setting* set,
                         uint64_t seed) {
	int32_t text[DEPTH];
	int n;
	struct result r = {.top = set->children};
	struct sampler noise = set->sampler;
	noise.seed = ~seed;
	path_of(tree, row, text, &n);
	logits_of(text, n, true, set->distance, d->draft[row]);
	result_from_logits(&r, WANT_TOP | WANT_TOKEN, d->draft[row], VOCAB, set->drawn ? &noise : NULL,
	                   (uint64_t)n * 64 + (uint64_t)row, d->scratch);
	for (int i = 0; i < r.top; i++)
		tree_add(tree, row, r.top_token[i], 0, i, 0.5f);
}

static int one_text(struct draws* d, const struct setting* set, uint64_t seed, int* accepted) {
	struct tree tree;
	struct result out[MAX_ROWS];
	const float* q[MAX_ROWS] = {NULL};
	struct verdict verdict;
	tree_start(&tree, 0);
	for (int row = 0; row < tree.n && tree.depth[row] < 2; row++) {
		add_children(d, &tree, row, set, seed);
		q[row] = set->drawn ? d->draft[row] : NULL;
	}
	for (int row = 0; row < tree.n; row++) {
		int32_t text[DEPTH];
		int n;
		path_of(&tree, row, text, &n);
		logits_of(text, n, false, 0, d->target[row]);
		out[row].logits = d->target[row];
	}
	struct sampler sampler = set->sampler;
	sampler.seed = seed;
	const struct rejection rejection = {VOCAB, &sampler, d->p, d->q, d->scratch};
	tree_reject(&tree, out, q, 1, &rejection, &verdict);
	int32_t text[DEPTH];
	int n = 0;
	for (int i = 1; i <= verdict.accepted; i++)
		text[n++] = tree.token[verdict.path[i]];
	text[n++] = verdict.bonus;
	*accepted += verdict.accepted;
	while (n < DEPTH) {
		struct result r;
		float logits[VOCAB];
		logits_of(text, n, false, 0, logits);
		result_from_logits(&r, WANT_TOKEN, logits, VOCAB, &sampler, (uint64_t)(100 + n), d->scratch);
		text[n++] = r.token;
	}
	return (text[0] * VOCAB + text[1]) * VOCAB + text[2];
}

static void exact(const struct setting* set, double* chance) {
	float scratch[VOCAB], p[DEPTH][VOCAB], logits[VOCAB];
	for (int i = 0; i < TEXTS; i++) {
		const int32_t text[DEPTH] = {i / (VOCAB * VOCAB), i / VOCAB % VOCAB, i % VOCAB};
		chance[i] = 1;
		for (int n = 0; n < DEPTH; n++) {
			logits_of(text, n, false, 0, logits);
			sample_distribution(logits, VOCAB, &set->sampler, p[n], scratch);
			chance[i] *= (double)p[n][text[n]];
		}
	}
}

/* Upper tail of chi-square by Wilson and Hilferty's cube root. */
static double tail(double x, int degrees) {
	const double k = 2.0 / (9.0 * degrees), z = (cbrt(x / degrees) - 1 + k) / sqrt(k);
	return 0.5 * erfc(z / sqrt(2));
}

static void compare(const struct setting* set, int64_t draws) {
	static struct draws d;
	double chance[TEXTS], x = 0;
	int64_t seen[TEXTS] = {0};
	int degrees = -1, accepted = 0;
	exact(set, chance);
	for (int64_t i = 0; i < draws; i++)
		seen[one_text(&d, set, (uint64_t)i * 0x9e3779b97f4a7c15u + 7, &accepted)]++;
	for (int i = 0; i < TEXTS; i++) {
		const double expected = chance[i] * (double)draws;
		if (chance[i] <= 0) {
			assert_int_equal(seen[i], 0);
			continue;
		}
		degrees++;
		x += ((double)seen[i] - expected) * ((double)seen[i] - expected) / expected;
	}
	const double p = tail(x, degrees);
	print_message("%-28s %9lld draws: chi-square %.1f of %d, p = %.3f, %.2f accepted\n", set->name,
	              (long long)draws, x, degrees, p, (double)accepted / (double)draws);
	assert_true(accepted > 0);
	assert_true(p > 0.01);
}

static void rejection_is_lossless_in_distribution(void** state) {
	(void)state;
	const struct sampler plain = {.temperature = 1, .top_p = 1}, cut = {.temperature = 0.7f, .top_p = 0.9f};
	const struct setting setting[] = {
	    {"chain, near", plain, 0.5f, 1, true},
	    {"chain, far", plain, 4, 1, true},
	    {"tree of 3, near", plain, 0.5f, 3, true},
	    {"tree of 3, far", plain, 4, 3, true},
	    {"tree of all", plain, 2, VOCAB, true},
	    {"chain, filtered", cut, 1, 1, true},
	    {"tree of 2, filtered", cut, 1, 2, true},
	    {"chosen chain", plain, 1, 1, false},
	    {"chosen tree of 3, filtered", cut, 1, 3, false},
	};
	const char* full = getenv("SWIFTLET_FULL");
	const int64_t draws = full && strcmp(full, "1") == 0 ? 10000000 : 40000;
	for (size_t i = 0; i < sizeof setting / sizeof *setting; i++)
		compare(&setting[i], draws);
}

/* The test can fail: a draft's tokens taken as they are have another distribution. */
static void the_test_sees_a_biased_rule(void** state) {
	(void)state;
	const struct sampler plain = {.temperature = 1, .top_p = 1};
	const struct setting set = {"", plain, 4, 1, true};
	static struct draws d;
	double chance[TEXTS], x = 0;
	int64_t seen[TEXTS] = {0};
	const int draws = 40000;
	exact(&set, chance);
	for (int i = 0; i < draws; i++) {
		struct tree tree;
		tree_start(&tree, 0);
		add_children(&d, &tree, 0, &set, (uint64_t)i);
		seen[tree.token[1] * VOCAB * VOCAB]++; /* the draft's token taken as it is */
	}
	for (int t = 0; t < VOCAB; t++) {
		double expected = 0;
		for (int i = 0; i < VOCAB * VOCAB; i++)
			expected += chance[t * VOCAB * VOCAB + i] * draws;
		const double n = (double)seen[t * VOCAB * VOCAB];
		x += (n - expected) * (n - expected) / expected;
	}
	assert_true(tail(x, VOCAB - 1) < 1e-6);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(rejection_is_lossless_in_distribution),
	    cmocka_unit_test(the_test_sees_a_biased_rule),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
