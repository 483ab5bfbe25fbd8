/* Walks the indexes along the text and the tree, and turns what followed into candidates. */
#include "core/draft/retrieval.h"

#include <stdlib.h>
#include <string.h>

enum {
	INDEXES = 1 + POOL_GENERATIONS, /* the sequence's own, then the pool's */
	SUFFIXES = 4,                   /* of one node that are looked at */
	LENGTHS = 8,
	SHARES = 4,
	BINS = 2 * LENGTHS * SHARES,
	CAUGHT_UP = 64 /* tokens of the text that are matched anew after the pool has changed */
};

struct retrieval {
	struct suffix_index* own;
	const struct retrieval_pool* pool; /* or NULL */
	int64_t pool_version;
	/* By row of the tree: places of the text along it. Row 0 is the text, and moves as tokens join it.
	 * Without a pool its places are empty. */
	struct suffix_place place[MAX_ROWS][INDEXES];
	int32_t recent[CAUGHT_UP]; /* the text's last tokens, a ring */
};

static void retrieval_close(void* state) {
	struct retrieval* r = state;
	suffix_close(r->own);
	free(r);
}

static void* retrieval_open(const struct drafter_setup* setup) {
	struct retrieval* r = calloc(1, sizeof *r);
	if (!r || (r->own = suffix_open(setup->context)))
		return r;
	free(r);
	return NULL;
}

static void match_pool(struct retrieval* r, int32_t token) {
	for (int g = 0; r->pool && g < POOL_GENERATIONS; g++)
		r->place[0][1 + g] = suffix_step(r->pool->generation[g], r->place[0][1 + g], token);
}

static void match_pool_anew(struct retrieval* r) {
	const int n = suffix_size(r->own);
	for (int g = 0; g < POOL_GENERATIONS; g++)
		r->place[0][1 + g] = (struct suffix_place){0, 0};
	r->pool_version = r->pool ? r->pool->version : 0;
	for (int i = n > CAUGHT_UP ? n - CAUGHT_UP : 0; i < n; i++)
		match_pool(r, r->recent[i % CAUGHT_UP]);
}

static void keep_pool(struct retrieval* r) {
	if (r->pool && r->pool->version != r->pool_version)
		match_pool_anew(r);
}

void retrieval_use_pool(void* state, const struct retrieval_pool* pool) {
	struct retrieval* r = state;
	r->pool = pool;
	match_pool_anew(r);
}

static void retrieval_append(void* state, const int32_t* token, int n) {
	struct retrieval* r = state;
	keep_pool(r);
	for (int i = 0; i < n && suffix_append(r->own, token[i]); i++) {
		r->recent[(suffix_size(r->own) - 1) % CAUGHT_UP] = token[i];
		match_pool(r, token[i]);
	}
}

static void retrieval_begin(void* state, const struct drafter_text* text) {
	struct retrieval* r = state;
	suffix_clear(r->own);
	match_pool_anew(r);
	retrieval_append(r, text->prompt, text->n_prompt);
}

/* ---- evidence ------------------------------------------------------------------------------- */

static int length_class(int length) {
	static const int lowest[LENGTHS] = {1, 2, 3, 4, 5, 7, 10, 16};
	return evidence_class(lowest, LENGTHS, length);
}

/* The class of a follower: of several the rarer or the more frequent one, a single one, or a single one that
 * came again and again. */
static int share_class(int count, int total) {
	if (count == total)
		return count >= 2 ? 3 : 2;
	return 5 * count >= 3 * total ? 2 : 4 * count >= total ? 1 : 0;
}

/* Measured: shares of first candidates that were right in 8,378 tokens of greedy answers of SmolLM2-135M,
 * Qwen2.5-Coder 0.5B and 1.5B to chat prompts, where one follower was seen once; in the text itself and
 * in a pool of answers to other prompts. */
static float by_length(bool from_pool, int class) {
	static const float own[LENGTHS] = {0.31f, 0.51f, 0.70f, 0.74f, 0.78f, 0.83f, 0.93f, 0.96f};
	static const float pool[LENGTHS] = {0.15f, 0.29f, 0.35f, 0.45f, 0.55f, 0.68f, 0.75f, 0.8f};
	return (from_pool ? pool : own)[class];
}

static float retrieval_prior(int bin, int rank) {
	const float once = by_length(bin / SHARES >= LENGTHS, bin / SHARES % LENGTHS);
	switch (bin % SHARES) {
	case 0:
		return rank == 0 ? 0.3f * once : 0.2f * once;
	case 1:
		return 0.45f * once;
	case 2:
		return rank == 0 ? once : 0.6f * once;
	default:
		return rank == 0 ? 1 - 0.65f * (1 - once) : 0.6f * once;
	}
}

/* ---- candidates ----------------------------------------------------------------------------- */

static const struct suffix_index* get_index(const struct retrieval* r, int i) {
	return i == 0 ? r->own : r->pool ? r->pool->generation[i - 1] : NULL;
}

static void find_places(struct retrieval* r, const struct tree* tree, int row) {
	if (row == 0) {
		keep_pool(r);
		r->place[0][0] = suffix_repeated(r->own);
		return;
	}
	for (int i = 0; i < INDEXES; i++) {
		const struct suffix_place above = r->place[tree->parent[row]][i];
		r->place[row][i] = get_index(r, i) ? suffix_step(get_index(r, i), above, tree->token[row]) : above;
	}
}

/* Adds the followers of one suffix in one index to the candidates. */
static int add_followers(const struct suffix_index* index, struct suffix_place place, bool from_pool,
                         struct candidate* out, int n, int most) {
	struct suffix_follower follower[TREE_RANKS];
	int32_t total;
	const int found = suffix_followers(index, place, follower, most, &total);
	const int bin = ((from_pool ? LENGTHS : 0) + length_class(place.length)) * SHARES;
	for (int i = 0; i < found && n < most; i++)
		n = candidate_add(out, n, follower[i].token, bin + share_class(follower[i].count, total));
	return n;
}

/* Judges a follower that was seen once after this suffix: how often such followers come again. */
static float rate_place(const struct suffix_place* place, int index) {
	const int length = place[index].length;
	return length > 0 ? by_length(index > 0, length_class(length)) : 0;
}

static int find_best_place(const struct suffix_place* place) {
	int best = 0;
	for (int i = 1; i < INDEXES; i++)
		if (rate_place(place, i) > rate_place(place, best))
			best = i;
	return best;
}

static int retrieval_extend(void* state, const struct tree* tree, int row, struct candidate* out, int most) {
	struct retrieval* r = state;
	struct suffix_place place[INDEXES];
	int n = 0;
	find_places(r, tree, row);
	memcpy(place, r->place[row], sizeof place);
	for (int looked = 0; looked < SUFFIXES && n < most; looked++) {
		const int i = find_best_place(place);
		if (place[i].length == 0)
			break;
		n = add_followers(get_index(r, i), place[i], i > 0, out, n, most);
		place[i] = suffix_shorter(get_index(r, i), place[i]);
	}
	return n;
}

const struct drafter drafter_retrieval = {.bins = BINS,
                                          .prior = retrieval_prior,
                                          .open = retrieval_open,
                                          .close = retrieval_close,
                                          .begin = retrieval_begin,
                                          .append = retrieval_append,
                                          .extend = retrieval_extend};
