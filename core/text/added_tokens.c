#include "core/text/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "core/files/utf8.h"

void added_tokens_start(struct added_tokens* a) {
	memset(a, 0, sizeof *a);
	for (int i = 0; i < 256; i++)
		a->root[i] = -1;
}

void added_tokens_free(struct added_tokens* a) {
	free(a->token);
	free(a->node);
	added_tokens_start(a);
}

static int32_t new_node(struct added_tokens* a, uint8_t byte) {
	if (a->n_nodes == INT32_MAX / 2 || !grow_by_one(&a->node, (size_t)a->n_nodes, sizeof *a->node))
		return -1;
	a->node[a->n_nodes] = (struct added_node){.child = -1, .sibling = -1, .token = -1, .byte = byte};
	return a->n_nodes++;
}

int32_t added_tokens_step(const struct added_tokens* a, int32_t node, uint8_t byte) {
	if (node < 0)
		return a->root[byte];
	int32_t child = a->node[node].child;
	while (child >= 0 && a->node[child].byte != byte)
		child = a->node[child].sibling;
	return child;
}

static int32_t make_child(struct added_tokens* a, int32_t node, uint8_t byte) {
	int32_t child = added_tokens_step(a, node, byte);
	if (child >= 0)
		return child;
	child = new_node(a, byte);
	if (child < 0)
		return -1;
	if (node < 0) {
		a->root[byte] = child;
	} else {
		a->node[child].sibling = a->node[node].child;
		a->node[node].child = child;
	}
	return child;
}

bool added_tokens_add(struct added_tokens* a, const char* content, size_t size, struct added_token token,
                      struct error* error) {
	if (size == 0)
		return error_set(error, "added token %d has an empty content", token.id);
	int32_t node = -1;
	for (size_t i = 0; i < size; i++) {
		node = make_child(a, node, (uint8_t)content[i]);
		if (node < 0)
			return error_set(error, "out of memory for added tokens");
	}
	if (a->node[node].token >= 0)
		return true;
	if (!grow_by_one(&a->token, (size_t)a->n, sizeof *a->token))
		return error_set(error, "out of memory for added tokens");
	a->node[node].token = a->n;
	a->token[a->n++] = token;
	a->has_special |= token.special;
	return true;
}

static bool stands_alone(const char* text, size_t size, size_t start, size_t end) {
	uint32_t code;
	if (utf8_character_before(text, start, &code) && utf8_is_word(code))
		return false;
	return !(end < size && utf8_character(text + end, size - end, &code) && utf8_is_word(code));
}

static void strip_space(const char* text, size_t size, size_t from, struct added_match* match) {
	uint32_t code;
	size_t length;
	if (match->token->lstrip)
		while ((length = utf8_character_before(text + from, match->start - from, &code)) > 0 &&
		       utf8_is_white(code))
			match->start -= length;
	if (match->token->rstrip)
		while (match->end < size &&
		       (length = utf8_character(text + match->end, size - match->end, &code)) > 0 &&
		       utf8_is_white(code))
			match->end += length;
}

bool plain_ranges_touch(const struct plain_ranges* plain, size_t start, size_t end) {
	size_t low = 0, high = plain->n; /* the first range that ends behind start */
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (plain->range[middle].end > start)
			high = middle;
		else
			low = middle + 1;
	}
	return low < plain->n && plain->range[low].start < end;
}

/* Returns the end of the longest token that begins at `at`, or 0. */
static size_t longest_at(const struct added_tokens* a, const char* text, size_t size, size_t at,
                         const struct plain_ranges* plain, const struct added_token** found) {
	int32_t node = a->root[(uint8_t)text[at]];
	size_t end = 0;
	for (size_t i = at; node >= 0;) {
		int32_t index = a->node[node].token;
		i++;
		if (index >= 0 && !(a->token[index].special && plain_ranges_touch(plain, at, i))) {
			*found = &a->token[index];
			end = i;
		}
		if (i == size)
			break;
		node = added_tokens_step(a, node, (uint8_t)text[i]);
	}
	return end;
}

bool added_tokens_next(const struct added_tokens* a, const char* text, size_t size, size_t from,
                       const struct plain_ranges* plain, struct added_match* match) {
	if (a->n == 0)
		return false;
	for (size_t at = from; at < size; at++) {
		const struct added_token* found = NULL;
		size_t end = longest_at(a, text, size, at, plain, &found);
		if (end > 0 && !(found->single_word && !stands_alone(text, size, at, end))) {
			*match = (struct added_match){.start = at, .end = end, .token = found};
			strip_space(text, size, from, match);
			return true;
		}
	}
	return false;
}
