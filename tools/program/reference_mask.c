/* Local search for the best mask: see the header.
 *
 * A pass scores a window of each of a group's texts. Rows below the first sub-layer that a move
 * changes are the same for the mask at hand and for the one tried: their hidden states are kept, and a try
 * goes on from there. A try ends early when what is left could hardly make it better. */
#include "tools/program/reference_mask.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/synth_value.h"

/* A pass takes a window of every text of a group. Of each text the first window after START is searched on,
 * the second judged on. */
enum { ROWS = MAX_ROWS, WINDOW = 32, TEXTS = ROWS / WINDOW, GROUPS = 4, PROMPT = 16, START = 32 };
enum { LENGTH = START + 2 * WINDOW + 1 };

struct reference_texts {
	struct backend* backend;
	struct cache* cache[GROUPS * TEXTS];
	int32_t token[GROUPS * TEXTS][LENGTH];
	struct result out[ROWS];
	/* of the search that runs */
	struct mask mask;                            /* the best so far */
	bool hit[GROUPS][ROWS], tried[GROUPS][ROWS]; /* which tokens it predicts, and the mask tried */
	double matchness;
	float* state; /* (2L, GROUPS, ROWS, dim) before each sub-layer, under the mask */
	long scored;
};

int reference_context(void) { return LENGTH; }

static int sub_layers(const struct reference_texts* t) { return 2 * t->backend->weights->shape.n_blocks; }

/* ---- the texts ------------------------------------------------------------------------------ */

/* The token at a place of every text runs, and says the next one. */
static bool step(struct reference_texts* t, int at, struct error* error) {
	enum { N = GROUPS * TEXTS };
	struct segment segment[N];
	int32_t token[N];
	uint8_t want[N];
	for (int i = 0; i < N; i++) {
		segment[i] = (struct segment){.cache = t->cache[i], .base = at, .n = 1};
		token[i] = t->token[i][at];
		want[i] = WANT_TOKEN;
	}
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = N,
	                          .n_segments = N,
	                          .segment = segment,
	                          .token = token,
	                          .last = sub_layers(t),
	                          .head = true,
	                          .tap = -1,
	                          .want = want,
	                          .out = t->out};
	if (!t->backend->run(t->backend, &pass, error))
		return false;
	const int32_t path = 0;
	for (int i = 0; i < N; i++) {
		t->backend->commit(t->cache[i], &path, 1);
		if (at + 1 >= PROMPT)
			t->token[i][at + 1] = t->out[i].token;
	}
	return true;
}

struct reference_texts* reference_open(struct backend* backend, struct error* error) {
	const struct model_shape* s = &backend->weights->shape;
	struct reference_texts* t = calloc(1, sizeof *t);
	bool done = t || error_set(error, "out of memory for the texts of a reference mask");
	if (done) {
		t->backend = backend;
		t->state = malloc((size_t)sub_layers(t) * GROUPS * ROWS * (size_t)s->dim * sizeof(float));
		done = t->state || error_set(error, "out of memory for the hidden states of a reference mask");
	}
	for (int i = 0; done && i < GROUPS * TEXTS; i++) {
		t->cache[i] = backend->cache_open(backend, LENGTH, DTYPE_F32, error);
		done = t->cache[i] != NULL;
		for (int j = 0; j < PROMPT; j++)
			t->token[i][j] = (int32_t)(synth_mix((uint64_t)(PROMPT * i + j)) % (uint64_t)s->vocab);
	}
	for (int at = 0; done && at + 1 < LENGTH; at++)
		done = step(t, at, error);
	if (done)
		return t;
	reference_close(t);
	return NULL;
}

void reference_close(struct reference_texts* t) {
	if (!t)
		return;
	for (int i = 0; i < GROUPS * TEXTS; i++)
		if (t->cache[i])
			t->backend->cache_close(t->cache[i]);
	free(t->state);
	free(t);
}

/* ---- scoring -------------------------------------------------------------------------------- */

/* A window of a group's texts (the one to search on, or to judge on) from sub-layer `first` to `last` under a
 * mask, from tokens or from states; the states that come out at `last` to `tap_out`, or which tokens are
 * predicted to `hit`. */
static bool run(struct reference_texts* t, int group, bool judged, const struct mask* mask, int first,
                int last, const float* state, float* tap_out, bool* hit, struct error* error) {
	struct segment segment[TEXTS];
	int32_t token[ROWS], parent[ROWS];
	uint8_t want[ROWS];
	const int base = START + (judged ? WINDOW : 0), text = group * TEXTS;
	for (int i = 0; i < ROWS; i++) {
		token[i] = t->token[text + i / WINDOW][base + i % WINDOW];
		parent[i] = i % WINDOW - 1;
		want[i] = WANT_TOKEN;
	}
	for (int i = 0; i < TEXTS; i++)
		segment[i] = (struct segment){.cache = t->cache[text + i], .base = base, .n = WINDOW};
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = ROWS,
	                          .n_segments = TEXTS,
	                          .segment = segment,
	                          .token = token,
	                          .parent = parent,
	                          .skip = mask,
	                          .first = first,
	                          .last = last,
	                          .state = first > 0 ? state : NULL,
	                          .head = hit != NULL,
	                          .tap = tap_out ? last - 1 : -1,
	                          .tap_out = tap_out,
	                          .want = want,
	                          .out = t->out};
	if (!t->backend->run(t->backend, &pass, error))
		return false;
	for (int i = 0; i < TEXTS; i++)
		t->backend->discard(t->cache[text + i]);
	for (int i = 0; hit && i < ROWS; i++)
		hit[i] = t->out[i].token == t->token[text + i / WINDOW][base + i % WINDOW + 1];
	return true;
}

static int count(const bool* hit, int n) {
	int sum = 0;
	for (int i = 0; i < n; i++)
		sum += hit[i];
	return sum;
}

/* Matchness on one of the windows of all texts, told row by row; negative with the error set. */
static double score(struct reference_texts* t, const struct mask* mask, bool judged, bool hit[GROUPS][ROWS],
                    struct error* error) {
	for (int w = 0; w < GROUPS; w++)
		if (!run(t, w, judged, mask, 0, sub_layers(t), NULL, NULL, hit[w], error))
			return -1;
	t->scored++;
	return (double)count(hit[0], GROUPS * ROWS) / (GROUPS * ROWS);
}

/* ---- the mask at hand ----------------------------------------------------------------------- */

static float* state_at(const struct reference_texts* t, int sub_layer, int window) {
	const size_t dim = (size_t)t->backend->weights->shape.dim;
	return t->state + ((size_t)sub_layer * GROUPS + (size_t)window) * ROWS * dim;
}

/* The states under the mask before each sub-layer after `first`. */
static bool keep_states(struct reference_texts* t, int first, struct error* error) {
	for (int w = 0; w < GROUPS; w++)
		for (int s = first; s + 1 < sub_layers(t); s++)
			if (!run(t, w, false, &t->mask, s, s + 1, state_at(t, s, w), state_at(t, s + 1, w), NULL, error))
				return false;
	return true;
}

/* Whether a mask that is the one at hand below sub-layer `first` predicts more; if so it is taken. Groups
 * still to come are given what the mask at hand has there, and two standard errors of the difference so far.
 */
static bool try(struct reference_texts* t, const struct mask* mask, int first, bool* better,
                struct error* error) {
	const int have = count(t->hit[0], GROUPS * ROWS);
	double here = 0;
	t->scored++;
	*better = false;
	for (int w = 0, more = 0, different = 0; w < GROUPS; w++) {
		if (!run(t, w, false, mask, first, sub_layers(t), state_at(t, first, w), NULL, t->tried[w], error))
			return false;
		for (int i = 0; i < ROWS; i++) {
			more += t->tried[w][i] - t->hit[w][i];
			different += t->tried[w][i] != t->hit[w][i];
		}
		const double margin = w + 1 < GROUPS ? 2 * sqrt(different + 1.0) : 0;
		here = fmin(1, (have + more + margin) / (GROUPS * ROWS));
		if (here <= t->matchness)
			return true;
	}
	t->mask = *mask;
	memcpy(t->hit, t->tried, sizeof t->hit);
	t->matchness = here;
	*better = true;
	return keep_states(t, first, error);
}

/* ---- the search ----------------------------------------------------------------------------- */

struct candidate {
	int sub_layer;
	double matchness;
};

static int by_matchness(const void* a, const void* b) {
	const struct candidate *x = a, *y = b;
	return x->matchness != y->matchness ? (x->matchness < y->matchness) - (x->matchness > y->matchness)
	                                    : x->sub_layer - y->sub_layer;
}

/* Inner sub-layers (2L - 4), the least missed first, each by itself. */
static bool order_singles(struct reference_texts* t, struct candidate* order, struct error* error) {
	const int n = sub_layers(t) - 4;
	for (int i = 0; i < n; i++) {
		struct mask one = {.word = {0}};
		mask_set(&one, i + 2, true);
		order[i] = (struct candidate){i + 2, score(t, &one, false, t->tried, error)};
		if (order[i].matchness < 0)
			return false;
	}
	qsort(order, (size_t)n, sizeof *order, by_matchness);
	return true;
}

/* The first `size` of that order. */
static bool begin(struct reference_texts* t, int size, struct error* error) {
	struct candidate order[2 * MAX_BLOCKS];
	if (!order_singles(t, order, error))
		return false;
	t->mask = (struct mask){.word = {0}};
	for (int i = 0; i < size; i++)
		mask_set(&t->mask, order[i].sub_layer, true);
	t->matchness = score(t, &t->mask, false, t->hit, error);
	return t->matchness >= 0 && keep_states(t, 0, error);
}

/* One swap, where one of the two is in the mask. */
static bool swap(struct reference_texts* t, int a, int b, bool* better, struct error* error) {
	const bool in = mask_has(&t->mask, a), other = mask_has(&t->mask, b);
	*better = false;
	if (in == other)
		return true;
	struct mask mask = t->mask;
	mask_set(&mask, a, !in);
	mask_set(&mask, b, !other);
	return try(t, &mask, a, better, error);
}

/* All swaps in turn, round and round, until as many as there are have failed. */
static bool climb(struct reference_texts* t, struct error* error) {
	const int n = sub_layers(t) - 4;
	for (long failed = 0, i = 0; failed < (long)n * n; i++) {
		const int a = (int)(i % ((long)n * n)) / n, b = (int)(i % n);
		bool better = false;
		if (a < b && !swap(t, a + 2, b + 2, &better, error))
			return false;
		failed = better ? 0 : failed + 1;
	}
	return true;
}

bool reference_search(struct reference_texts* t, int size, struct reference* out, struct error* error) {
	t->scored = 0;
	if (sub_layers(t) < 6 || size > sub_layers(t) - 4)
		return error_set(error, "a reference mask of %d sub-layers in a model of %d", size, sub_layers(t));
	if (!begin(t, size, error) || !climb(t, error))
		return false;
	const double matchness = score(t, &t->mask, true, t->tried, error);
	*out = (struct reference){t->mask, matchness, t->scored};
	return matchness >= 0;
}
