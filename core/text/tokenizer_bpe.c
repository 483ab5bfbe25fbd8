/* Byte-pair merging in n log n: neighbours that may merge wait in a heap, the best merges first, and at
 * equal order the leftmost.
 *
 * A pair is looked up by its joint text and ordered by the piece's score, or in the list of merges and
 * ordered by rank. */
#include "core/text/tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "core/files/utf8.h"

static bool before(const struct candidate* a, const struct candidate* b) {
	return a->order != b->order ? a->order < b->order : a->left < b->left;
}

static void heap_push(struct encoder* e, struct candidate c) {
	if (!grow_to(&e->heap, &e->heap_capacity, e->n_heap + 1, sizeof *e->heap)) {
		e->failed = true;
		return;
	}
	size_t at = e->n_heap++;
	while (at > 0 && before(&c, &e->heap[(at - 1) / 2])) {
		e->heap[at] = e->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	e->heap[at] = c;
}

static struct candidate heap_pop(struct encoder* e) {
	struct candidate top = e->heap[0];
	struct candidate last = e->heap[--e->n_heap];
	size_t at = 0;
	for (;;) {
		size_t child = 2 * at + 1;
		if (child >= e->n_heap)
			break;
		if (child + 1 < e->n_heap && before(&e->heap[child + 1], &e->heap[child]))
			child++;
		if (!before(&e->heap[child], &last))
			break;
		e->heap[at] = e->heap[child];
		at = child;
	}
	if (e->n_heap > 0)
		e->heap[at] = last;
	return top;
}

/* One symbol a character; a malformed byte stands alone. */
static void split_characters(struct encoder* e, const char* word, size_t size) {
	const struct vocabulary* v = &e->tokenizer->vocabulary;
	e->n_symbols = 0;
	for (size_t at = 0; at < size;) {
		size_t length = utf8_character(word + at, size - at, NULL);
		if (length == 0)
			length = 1;
		int32_t index = (int32_t)e->n_symbols++;
		e->symbol[index] = (struct symbol){.start = (uint32_t)at,
		                                   .size = (uint32_t)length,
		                                   .id = vocabulary_find_plain(v, word + at, length),
		                                   .previous = index - 1,
		                                   .next = index + 1};
		at += length;
	}
	e->symbol[e->n_symbols - 1].next = -1;
}

/* A float as an integer that grows as the score falls. */
static uint32_t order_of_score(float score) {
	uint32_t bits;
	const float plain = score + 0.0f; /* -0 and 0 are equal scores */
	memcpy(&bits, &plain, sizeof bits);
	return bits & 0x80000000u ? bits : ~(bits | 0x80000000u);
}

/* Puts the pair (left, its right neighbour) into the heap when it may merge. */
static void consider(struct encoder* e, const char* word, int32_t left) {
	if (left < 0 || e->symbol[left].next < 0)
		return;
	const struct tokenizer* t = e->tokenizer;
	const struct symbol* a = &e->symbol[left];
	const struct symbol* b = &e->symbol[a->next];
	const bool pieces = a->id >= 0 && b->id >= 0;
	struct candidate c = {.left = (uint32_t)left, .size = a->size + b->size, .id = -1};
	if (t->kind == TOKENIZER_RANKED) {
		const struct merge* merge = pieces ? merges_find(&t->merges, a->id, b->id) : NULL;
		c.id = merge ? merge->id : -1;
		c.order = merge ? merge->rank : 0;
	} else if (pieces || !t->merges_pieces) {
		c.id = vocabulary_find_plain(&t->vocabulary, word + a->start, c.size);
		c.order = c.id < 0 ? 0 : order_of_score((float)t->vocabulary.piece[c.id].score);
	}
	if (c.id >= 0)
		heap_push(e, c);
}

static void merge_all(struct encoder* e, const char* word) {
	e->n_heap = 0;
	for (size_t i = 0; i + 1 < e->n_symbols; i++)
		consider(e, word, (int32_t)i);
	while (e->n_heap > 0 && !e->failed) {
		struct candidate c = heap_pop(e);
		struct symbol* a = &e->symbol[c.left];
		/* Symbols only grow, so an equal joint size means an equal pair. */
		if (a->size == 0 || a->next < 0 || a->size + e->symbol[a->next].size != c.size)
			continue;
		struct symbol* b = &e->symbol[a->next];
		a->size = c.size;
		a->id = c.id;
		a->next = b->next;
		b->size = 0;
		if (a->next >= 0)
			e->symbol[a->next].previous = (int32_t)c.left;
		consider(e, word, a->previous);
		consider(e, word, (int32_t)c.left);
	}
}

void bpe_encode(struct encoder* e, const char* word, size_t size) {
	const struct tokenizer* t = e->tokenizer;
	int32_t whole = t->ignore_merges ? vocabulary_find_plain(&t->vocabulary, word, size) : -1;
	bool after_unknown = false;
	if (whole >= 0) {
		encoder_emit(e, whole);
		return;
	}
	if (size > INT32_MAX / 2 || !grow_to(&e->symbol, &e->symbol_capacity, size, sizeof *e->symbol)) {
		e->failed = true;
		return;
	}
	split_characters(e, word, size);
	merge_all(e, word);
	for (int32_t i = 0; i >= 0 && !e->failed; i = e->symbol[i].next) {
		const struct symbol* s = &e->symbol[i];
		if (s->id >= 0)
			encoder_emit(e, s->id);
		after_unknown = s->id < 0 && encoder_emit_unknown(e, word + s->start, s->size, after_unknown);
	}
}
