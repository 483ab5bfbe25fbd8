/* Chooses the part of the vocabulary that drafts read. */
#include "core/draft/shortlist.h"

#include <stdlib.h>
#include <string.h>

/* About so many tokens are remembered. */
static const double MEMORY = 512;

/* A round of n draft steps, each right with chance a, costs n c + v and gives (1 - a^(n+1)) / (1 - a) tokens.
 * Near n = 3, a = .88 and n c = v, saving a share s of c gains s / 2 of the speed, and one draft less that is
 * right loses 1.8. Where the next token is on no list, the whole head drafts it in three of four cases
 * (docs/lessons.md). */
static const double A_MISS_OVER_A_SHARE = 2.6;

static void forget_rows(struct shortlist* list) {
	memset(list->likely, 0xff, sizeof list->likely);
	list->row = list->fresh = 0;
}

bool shortlist_open(struct shortlist* list, int vocab) {
	*list = (struct shortlist){.vocab = vocab, .words = (vocab + 63) / 64};
	list->text = calloc((size_t)list->words, sizeof *list->text);
	list->bits = calloc((size_t)list->words, sizeof *list->bits);
	/* the share of tokens in the second sixteenth, the second eighth, the second fourth and the second half
	 * that were listed by nothing else, in answers of SmolLM2-135M and Qwen2.5-Coder-0.5B */
	list->seen = 64;
	static const double often[SHORTLIST_SIZES] = {0, 0.016, 0.01, 0.008, 0.008};
	for (int i = 0; i < SHORTLIST_SIZES; i++)
		list->new_in[i] = often[i] * list->seen;
	forget_rows(list);
	return list->text && list->bits;
}

void shortlist_close(struct shortlist* list) {
	free(list->text);
	free(list->bits);
	*list = (struct shortlist){0};
}

void shortlist_begin(struct shortlist* list) {
	memset(list->text, 0, (size_t)list->words * sizeof *list->text);
	forget_rows(list);
}

void shortlist_see(struct shortlist* list, const int32_t* token, int n) {
	int32_t* row = list->likely[list->row];
	for (int i = 0; i < SHORTLIST_LIKELY; i++)
		row[i] = i < n && token[i] < list->vocab ? token[i] : -1;
	list->row = (list->row + 1) % SHORTLIST_ROWS;
	list->fresh += list->fresh < SHORTLIST_ROWS;
}

/* True when a row before the last round held the token as likely. */
static bool was_likely(const struct shortlist* list, int32_t token) {
	for (int back = list->fresh + 1; back <= SHORTLIST_ROWS; back++) {
		const int32_t* row = list->likely[(list->row + SHORTLIST_ROWS - back) % SHORTLIST_ROWS];
		for (int i = 0; i < SHORTLIST_LIKELY; i++)
			if (row[i] == token)
				return true;
	}
	return false;
}

static int count_first(const struct shortlist* list, int size) {
	return list->vocab >> (SHORTLIST_SIZES - 1 - size);
}

static void count_token(struct shortlist* list, int32_t token, bool known) {
	int size = 0;
	while (token >= count_first(list, size) && size < SHORTLIST_SIZES - 1)
		size++;
	const double keep = 1 - 1 / MEMORY;
	for (int i = 0; i < SHORTLIST_SIZES; i++)
		list->new_in[i] *= keep;
	list->seen = list->seen * keep + 1;
	if (!known)
		list->new_in[size] += 1;
}

void shortlist_take(struct shortlist* list, const int32_t* token, int n, bool counted) {
	for (int i = 0; i < n; i++) {
		if (token[i] < 0 || token[i] >= list->vocab)
			continue;
		const uint64_t bit = (uint64_t)1 << (token[i] & 63);
		const int word = token[i] >> 6;
		if (counted)
			count_token(list, token[i], list->text[word] & bit || was_likely(list, token[i]));
		list->text[word] |= bit;
	}
	list->fresh = 0;
}

static int choose_size(const struct shortlist* list, double head_share) {
	double missed = 0, most = 0;
	int best = SHORTLIST_SIZES - 1;
	for (int size = best - 1; size >= 0; size--) {
		missed += list->new_in[size + 1] / list->seen;
		const double saved = head_share * (1 - (double)count_first(list, size) / list->vocab);
		if (saved - A_MISS_OVER_A_SHARE * missed > most) {
			most = saved - A_MISS_OVER_A_SHARE * missed;
			best = size;
		}
	}
	return best;
}

const uint64_t* shortlist_bits(struct shortlist* list, double head_share) {
	const int size = choose_size(list, head_share);
	if (size == SHORTLIST_SIZES - 1)
		return NULL;
	const int first = count_first(list, size), whole = first / 64;
	memset(list->bits, 0xff, (size_t)whole * sizeof *list->bits);
	memcpy(list->bits + whole, list->text + whole, (size_t)(list->words - whole) * sizeof *list->bits);
	list->bits[whole] |= ((uint64_t)1 << first % 64) - 1;
	const int32_t* likely = list->likely[0];
	for (int i = 0; i < SHORTLIST_ROWS * SHORTLIST_LIKELY; i++)
		if (likely[i] >= 0)
			list->bits[likely[i] >> 6] |= (uint64_t)1 << (likely[i] & 63);
	return list->bits;
}
