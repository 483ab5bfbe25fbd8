/* BPE's list of merges. */
#include <stdlib.h>
#include <string.h>

#include "core/text/tokenizer_parts.h"

enum {
	MAX_MERGES = 1 << 25,
	SLOTS_A_WORD = 16 /* so four bits of `seen` a slot */
};

static uint64_t hash_pair(int32_t left, int32_t right) {
	uint64_t key = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
	key = (key ^ key >> 32) * 0xd6e8feb86659fd93u;
	return key ^ key >> 32;
}

static uint64_t* seen_word(const struct merges* m, uint64_t hash) {
	return &m->seen[(size_t)(hash >> 24) & (m->n_slots / SLOTS_A_WORD - 1)];
}
static uint64_t seen_bit(uint64_t hash) { return UINT64_C(1) << (hash >> 58); }

static size_t place_of(const struct merges* m, int32_t left, int32_t right, uint64_t hash) {
	size_t at = (size_t)hash & (m->n_slots - 1);
	while (m->slot[at].left >= 0 && (m->slot[at].left != left || m->slot[at].right != right))
		at = (at + 1) & (m->n_slots - 1);
	return at;
}

const struct merge* merges_find(const struct merges* m, int32_t left, int32_t right) {
	if (m->n_slots == 0)
		return NULL;
	const uint64_t hash = hash_pair(left, right);
	if (!(*seen_word(m, hash) & seen_bit(hash)))
		return NULL;
	const struct merge* found = &m->slot[place_of(m, left, right, hash)];
	return found->left >= 0 ? found : NULL;
}

bool tokenizer_start_merges(struct tokenizer* t, size_t n, struct error* error) {
	if (n > MAX_MERGES)
		return error_set(error, "%zu merges, expected at most %d", n, MAX_MERGES);
	size_t slots = 16;
	while (slots < n * 2)
		slots *= 2;
	t->merges.slot = malloc(slots * sizeof *t->merges.slot);
	t->merges.seen = calloc(slots / SLOTS_A_WORD, sizeof *t->merges.seen);
	if (!t->merges.slot || !t->merges.seen)
		return error_set(error, "out of memory for %zu merges", n);
	t->merges.n_slots = slots;
	for (size_t i = 0; i < slots; i++)
		t->merges.slot[i].left = -1;
	return true;
}

static int shown_size(size_t size) { return (int)(size < 60 ? size : 60); }

bool tokenizer_add_merge(struct tokenizer* t, const char* left, size_t left_size, const char* right,
                         size_t right_size, struct error* error) {
	const struct vocabulary* v = &t->vocabulary;
	size_t rank = t->merges.n++;
	int32_t a = vocabulary_find(v, left, left_size), b = vocabulary_find(v, right, right_size);
	if (a < 0 || b < 0)
		return error_set(error, "merge %zu: \"%.*s\" is not a piece of the vocabulary", rank,
		                 shown_size(a < 0 ? left_size : right_size), a < 0 ? left : right);
	char joint[2 * MAX_PIECE];
	memcpy(joint, left, left_size);
	memcpy(joint + left_size, right, right_size);
	const int32_t id = vocabulary_find(v, joint, left_size + right_size);
	if (id < 0)
		return error_set(
		    error, "merge %zu: \"%.*s\" and \"%.*s\" join to text that is not a piece of the vocabulary",
		    rank, shown_size(left_size), left, shown_size(right_size), right);
	const uint64_t hash = hash_pair(a, b);
	struct merge* slot = &t->merges.slot[place_of(&t->merges, a, b, hash)];
	if (slot->left < 0 && !piece_is_special(&v->piece[id]))
		*slot = (struct merge){.left = a, .right = b, .id = id, .rank = (uint32_t)rank};
	*seen_word(&t->merges, hash) |= seen_bit(hash);
	return true;
}

bool tokenizer_add_merge_line(struct tokenizer* t, const char* line, size_t size, struct error* error) {
	/* Begins at the second byte, because a careless file may have pieces that begin with a space. */
	const char* space = size > 1 ? memchr(line + 1, ' ', size - 1) : NULL;
	if (!space || space + 1 == line + size)
		return error_set(error, "merge %zu: \"%.*s\", expected two pieces with a space between", t->merges.n,
		                 shown_size(size), line);
	size_t left = (size_t)(space - line);
	return tokenizer_add_merge(t, line, left, space + 1, size - left - 1, error);
}
