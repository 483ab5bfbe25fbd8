/* For tests on whole models: greedy text of a model, and how much of it a mask predicts.
 *
 * Drives a backend directly, one row a pass, so that it computes plain decoding without any of the
 * code that is to reproduce it. Failures are cmocka failures. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/backend.h"
#include "tests/must.h"

struct text {
	struct backend* backend;
	struct cache* cache; /* holds prompt and tokens but the last */
	int n_prompt, n;
	int32_t* token;     /* (n_prompt + n) */
	float* probability; /* (n) the largest of the row that chose the token */
};

/* Runs n rows in a chain from `base`; the last row's (or, with `all`, every row's) result goes to out. */
static inline void text_pass(struct cache* cache, int base, const int32_t* token, int n,
                             const struct mask* skip, struct result* out, bool all) {
	uint8_t want[MAX_ROWS];
	const struct segment segment = {.cache = cache, .base = base, .n = n};
	for (int i = 0; i < n; i++) {
		want[i] = all || i == n - 1 ? WANT_TOKEN | WANT_TOP : WANT_NOTHING;
		out[i].top = 1;
	}
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = n,
	                          .n_segments = 1,
	                          .segment = &segment,
	                          .token = token,
	                          .skip = skip,
	                          .last = 2 * cache->backend->weights->shape.n_blocks,
	                          .head = true,
	                          .tap = -1,
	                          .want = want,
	                          .out = out};
	must_run(cache->backend, &pass);
}

/* Greedy text of n tokens after a prompt of at most MAX_ROWS. */
static inline struct text text_generate(struct backend* backend, const int32_t* prompt, int n_prompt, int n) {
	struct text t = {.backend = backend, .n_prompt = n_prompt, .n = n};
	struct result out[MAX_ROWS];
	int32_t path[MAX_ROWS];
	t.cache = must_open_cache(backend, n_prompt + n, DTYPE_F32);
	t.token = malloc(sizeof *t.token * (size_t)(n_prompt + n));
	t.probability = malloc(sizeof *t.probability * (size_t)n);
	assert_non_null(t.token);
	assert_non_null(t.probability);
	memcpy(t.token, prompt, sizeof *prompt * (size_t)n_prompt);
	t.cache->prompt_length = n_prompt;
	for (int i = 0; i < MAX_ROWS; i++)
		path[i] = i;
	for (int i = 0, rows = n_prompt; i < n; i++, rows = 1) {
		const int base = t.cache->committed;
		text_pass(t.cache, base, t.token + base, rows, NULL, out, false);
		backend->commit(t.cache, path, rows);
		t.token[n_prompt + i] = out[rows - 1].token;
		t.probability[i] = out[rows - 1].max_probability;
	}
	return t;
}

static inline void text_free(struct text* t) {
	t->backend->cache_close(t->cache);
	free(t->token);
	free(t->probability);
}

/* How many of `size` generated tokens the mask predicts, from the one after generated token `start` on:
 * SWIFT's matchness (Eq. 3), times size. A NULL mask is the full model. */
static inline int text_matches(const struct text* t, const struct mask* mask, int start, int size) {
	struct result out[MAX_ROWS];
	const int base = t->n_prompt + start;
	int matches = 0;
	text_pass(t->cache, base, t->token + base, size, mask, out, true);
	t->backend->discard(t->cache);
	for (int i = 0; i < size; i++)
		matches += out[i].token == t->token[base + i + 1];
	return matches;
}

/* Matchness over `windows` windows of 32 spread over the text. */
static inline double text_matchness(const struct text* t, const struct mask* mask, int windows) {
	enum { SIZE = 32 };
	int matches = 0;
	for (int w = 0; w < windows; w++)
		matches += text_matches(
		    t, mask, (int)((int64_t)(t->n - SIZE - 1) * w / (windows > 1 ? windows - 1 : 1)), SIZE);
	return (double)matches / (windows * SIZE);
}
