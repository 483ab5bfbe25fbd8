/* The doors of the tokenizer: text to ids through the stages, ids to bytes. */
#include "core/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/tokenizer_parts.h"

/* U+2581, which sentencepiece writes for a space. */
static const char lower_block[] = "\xe2\x96\x81";

void token_list_free(struct token_list* list) {
	free(list->id);
	*list = (struct token_list){0};
}

bool token_list_append(struct token_list* list, int32_t id) {
	if (list->n == list->capacity) {
		if (list->capacity > INT32_MAX / 2)
			return false;
		int capacity = list->capacity ? list->capacity * 2 : 64;
		int32_t* grown = realloc(list->id, (size_t)capacity * sizeof *grown);
		if (!grown)
			return false;
		list->id = grown;
		list->capacity = capacity;
	}
	list->id[list->n++] = id;
	return true;
}

void encoder_emit(struct encoder* e, int32_t id) {
	if (!token_list_append(e->out, id))
		e->failed = true;
}

/* ---- encoding ----------------------------------------------------------------------------- */

static void append_escaped(struct buffer* out, const char* text, size_t size) {
	for (size_t at = 0; at < size;) {
		const char* space = memchr(text + at, ' ', size - at);
		size_t run = space ? (size_t)(space - text) - at : size - at;
		buffer_add(out, text + at, run);
		if (space)
			buffer_add(out, lower_block, 3);
		at += run + (space ? 1 : 0);
	}
}

static void append_squeezed(struct buffer* out, const char* text, size_t size) {
	bool any = false, space = false;
	for (size_t i = 0; i < size; i++) {
		if (text[i] == ' ') {
			space = true;
			continue;
		}
		if (space && any)
			buffer_add(out, lower_block, 3);
		buffer_add(out, text + i, 1);
		any = true;
		space = false;
	}
}

static void normalize(struct encoder* e, const char* text, size_t size, bool first) {
	const struct tokenizer* t = e->tokenizer;
	e->text.size = 0;
	if (size == 0)
		return;
	if (t->prefix == PREFIX_ALWAYS || (t->prefix == PREFIX_FIRST && first))
		buffer_add(&e->text, t->escape_space ? lower_block : " ", t->escape_space ? 3 : 1);
	if (t->squeeze_space)
		append_squeezed(&e->text, text, size);
	else if (t->escape_space)
		append_escaped(&e->text, text, size);
	else
		buffer_add(&e->text, text, size);
	e->failed |= e->text.failed;
}

static void encode_word(struct encoder* e, const char* word, size_t size) {
	if (size > 0 && !e->failed && !bpe_encode(e, word, size))
		e->failed = true;
}

/* Text between two added tokens. */
static void encode_segment(struct encoder* e, const char* text, size_t size, bool first) {
	normalize(e, text, size, first);
	size_t at = 0;
	struct added_match match;
	while (!e->failed &&
	       added_tokens_next(&e->tokenizer->normalized, e->text.data, e->text.size, at, e->plain, &match)) {
		encode_word(e, e->text.data + at, match.start - at);
		encoder_emit(e, match.token->id);
		at = match.end;
	}
	if (!e->failed)
		encode_word(e, e->text.data + at, e->text.size - at);
}

static void encode_text(struct encoder* e, const char* text, size_t size) {
	size_t at = 0;
	struct added_match match;
	while (!e->failed && added_tokens_next(&e->tokenizer->raw, text, size, at, e->plain, &match)) {
		if (match.start > at)
			encode_segment(e, text + at, match.start - at, at == 0);
		encoder_emit(e, match.token->id);
		at = match.end;
	}
	if (!e->failed && at < size)
		encode_segment(e, text + at, size - at, at == 0);
}

static bool append_all(struct token_list* out, const struct id_list* ids) {
	for (int i = 0; i < ids->n; i++)
		if (!token_list_append(out, ids->id[i]))
			return false;
	return true;
}

static bool encode_bytes(const char* text, size_t size, struct token_list* out) {
	for (size_t i = 0; i < size; i++)
		if (!token_list_append(out, (uint8_t)text[i]))
			return false;
	return true;
}

bool tokenizer_encode(const struct tokenizer* t, const char* text, size_t size, int flags,
                      struct token_list* out) {
	if (size > INT32_MAX / 4)
		return false;
	if ((flags & TOKENIZE_ADD_SPECIAL) && !append_all(out, &t->before))
		return false;
	if (t->kind == TOKENIZER_BYTES) {
		if (!encode_bytes(text, size, out))
			return false;
	} else {
		struct encoder e = {.tokenizer = t, .out = out, .plain = (flags & TOKENIZE_NO_SPECIAL) != 0};
		encode_text(&e, text, size);
		buffer_free(&e.text);
		free(e.symbol);
		free(e.heap);
		if (e.failed)
			return false;
	}
	return !(flags & TOKENIZE_ADD_SPECIAL) || append_all(out, &t->after);
}

/* ---- decoding ----------------------------------------------------------------------------- */

bool tokenizer_is_special(const struct tokenizer* t, int32_t id) {
	if (t->kind == TOKENIZER_BYTES || id < 0 || id >= t->vocabulary.n)
		return false;
	uint8_t type = t->vocabulary.piece[id].type;
	return type == PIECE_CONTROL || type == PIECE_UNKNOWN;
}

static size_t byte_piece(const struct tokenizer* t, int32_t id, char* out, size_t capacity) {
	char name[16];
	if (id < 0 || id >= t->size)
		return 0;
	if (id < 256)
		name[0] = (char)(uint8_t)id;
	size_t size = id < 256 ? 1 : (size_t)snprintf(name, sizeof name, "<%d>", (int)id);
	if (capacity > 0)
		memcpy(out, name, size < capacity ? size : capacity);
	return size;
}

size_t tokenizer_piece(const struct tokenizer* t, int32_t id, bool special, char* out, size_t capacity) {
	if (t->kind == TOKENIZER_BYTES)
		return byte_piece(t, id, out, capacity);
	if (id < 0 || id >= t->vocabulary.n || (!special && tokenizer_is_special(t, id)))
		return 0;
	const struct piece* p = &t->vocabulary.piece[id];
	size_t size = p->n_printed < capacity ? p->n_printed : capacity;
	if (size > 0)
		memcpy(out, t->vocabulary.store.data + p->printed, size);
	return p->n_printed;
}

size_t tokenizer_longest(const struct tokenizer* t) {
	return t->kind == TOKENIZER_BYTES ? 16 : t->vocabulary.longest_printed;
}

char* tokenizer_decode(const struct tokenizer* t, const int32_t* id, int n, bool special, bool at_start,
                       size_t* size) {
	size_t total = 0;
	for (int i = 0; i < n; i++) {
		size_t more = tokenizer_piece(t, id[i], special, NULL, 0);
		if (more > SIZE_MAX - 1 - total)
			return NULL;
		total += more;
	}
	char* text = malloc(total + 1);
	if (!text)
		return NULL;
	size_t at = 0;
	bool first = true;
	for (int i = 0; i < n; i++) {
		size_t more = tokenizer_piece(t, id[i], special, text + at, total - at);
		bool dummy = first && at_start && t->prefix != PREFIX_NEVER && more > 0 && text[at] == ' ';
		if (dummy)
			memmove(text + at, text + at + 1, --more);
		/* The dummy space stands before the first piece of text, after any special ones (BOS). */
		if (!tokenizer_is_special(t, id[i]))
			first = false;
		at += more;
	}
	text[at] = 0;
	*size = at;
	return text;
}

/* ---- questions ---------------------------------------------------------------------------- */

int tokenizer_size(const struct tokenizer* t) { return t->size; }
int32_t tokenizer_bos(const struct tokenizer* t) { return t->bos; }
int32_t tokenizer_eos(const struct tokenizer* t) { return t->eos; }
bool tokenizer_adds_bos(const struct tokenizer* t) {
	for (int i = 0; i < t->before.n; i++)
		if (t->before.id[i] == t->bos)
			return true;
	return false;
}

int32_t tokenizer_find(const struct tokenizer* t, const char* piece) {
	return t->kind == TOKENIZER_BYTES ? -1 : vocabulary_find(&t->vocabulary, piece, strlen(piece));
}

void tokenizer_digest(const struct tokenizer* t, void (*add)(void*, const void*, size_t), void* user) {
	if (t->kind == TOKENIZER_BYTES) {
		add(user, "bytes", 5);
		return;
	}
	for (int id = 0; id < t->vocabulary.n; id++) {
		const struct piece* p = &t->vocabulary.piece[id];
		add(user, vocabulary_text(&t->vocabulary, id), p->text_size);
		add(user, "", 1); /* so that pieces cannot run into each other */
	}
}
