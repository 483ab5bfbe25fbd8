/* Unigram segmentation: of all ways to cut a word into pieces, the one with the highest sum of scores.
 *
 * Kudo, "Subword Regularization" (2018), section 3.2, by Viterbi's algorithm: best[i] is the best sum
 * over the first i bytes. A character without a piece costs the lowest score less 10, as in
 * sentencepiece; a user-defined piece scores as if each of its bytes had the highest score, less 0.1. */
#include <math.h>
#include <stdlib.h>

#include "core/files/grow.h"
#include "core/files/utf8.h"
#include "core/text/tokenizer_parts.h"

struct lattice_node { /* what ends at a byte on the best way */
	double score;
	int32_t id;     /* -1: a character without a piece */
	uint32_t start; /* UINT32_MAX: not reached */
};

bool unigram_prepare(struct tokenizer* t, struct error* error) {
	const struct vocabulary* v = &t->vocabulary;
	double lowest = INFINITY, highest = -INFINITY;
	for (int id = 0; id < v->n; id++) {
		const struct piece* p = &v->piece[id];
		if (!piece_is_plain(p))
			continue;
		if (p->type == PIECE_NORMAL) {
			lowest = fmin(lowest, p->score);
			highest = fmax(highest, p->score);
		}
		struct added_token token = {.id = id};
		if (!added_tokens_add(&t->trie, vocabulary_text(v, id), p->text_size, token, error))
			return false;
	}
	lowest = isfinite(lowest) ? lowest : 0;
	highest = isfinite(highest) ? highest : 0;
	t->unknown_score = lowest - 10;
	for (int id = 0; id < v->n && t->single_precision; id++)
		if (v->piece[id].type == PIECE_USER_DEFINED)
			v->piece[id].score = (double)v->piece[id].text_size * highest - 0.1;
	return true;
}

static void reach_node(const struct tokenizer* t, struct lattice_node* node, double score, int32_t id,
                       size_t start) {
	if (t->single_precision)
		score = (double)(float)score;
	if (node->start == UINT32_MAX || score > node->score)
		*node = (struct lattice_node){.score = score, .id = id, .start = (uint32_t)start};
}

/* Relaxes every piece that begins at `at`. A character that is no piece is unknown. */
static void extend_path(const struct tokenizer* t, const char* word, size_t size, size_t at,
                        struct lattice_node* node) {
	size_t character = utf8_character(word + at, size - at, NULL);
	character = character > 0 ? character : 1;
	double score = node[at].score;
	bool covered = false;
	int32_t place = -1;
	for (size_t end = at; end < size;) {
		place = added_tokens_step(&t->trie, place, (uint8_t)word[end++]);
		if (place < 0)
			break;
		int32_t token = t->trie.node[place].token;
		if (token < 0)
			continue;
		int32_t id = t->trie.token[token].id;
		reach_node(t, &node[end], score + t->vocabulary.piece[id].score, id, at);
		covered |= end - at == character;
	}
	if (!covered)
		reach_node(t, &node[at + character], score + t->unknown_score, -1, at);
}

/* Reverses the best way: node[start].start becomes the end of the piece that begins there. */
static void reverse_path(struct lattice_node* node, size_t size) {
	size_t end = size;
	int32_t id = node[size].id;
	size_t start = node[size].start;
	while (end > 0) {
		int32_t earlier_id = node[start].id;
		size_t earlier = node[start].start;
		node[start].id = id;
		node[start].start = (uint32_t)end;
		id = earlier_id;
		end = start;
		start = earlier;
	}
}

void unigram_encode(struct encoder* e, const char* word, size_t size) {
	if (!grow_to(&e->lattice, &e->lattice_capacity, size + 1, sizeof *e->lattice)) {
		e->failed = true;
		return;
	}
	struct lattice_node* node = e->lattice;
	for (size_t i = 0; i <= size; i++)
		node[i].start = UINT32_MAX;
	node[0] = (struct lattice_node){.id = -1};
	for (size_t at = 0; at < size; at++)
		if (node[at].start != UINT32_MAX)
			extend_path(e->tokenizer, word, size, at, node);
	reverse_path(node, size);
	bool after_unknown = false;
	for (size_t at = 0; at < size && !e->failed; at = node[at].start) {
		if (node[at].id >= 0) {
			encoder_emit(e, node[at].id);
			after_unknown = false;
		} else {
			after_unknown = encoder_emit_unknown(e, word + at, node[at].start - at, after_unknown);
		}
	}
}
