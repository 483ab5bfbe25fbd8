/* Ids to text as it is made: only whole characters come out; malformed bytes become U+FFFD. */
#include <string.h>

#include "core/files/utf8.h"
#include "core/text/tokenizer.h"

static const char replacement[] = "\xef\xbf\xbd";

void text_stream_start(struct text_stream* s, const struct tokenizer* tokenizer) {
	memset(s, 0, sizeof *s);
	s->tokenizer = tokenizer;
}

struct writer {
	char* out;
	size_t size, capacity;
};

static void put(struct writer* w, const char* bytes, size_t size) {
	if (size > w->capacity - w->size)
		return;
	memcpy(w->out + w->size, bytes, size);
	w->size += size;
}

/* Takes one byte; what is held is always the beginning of a well-formed character. */
static void take(struct text_stream* s, char byte, struct writer* w) {
	char held[sizeof s->held];
	for (;;) {
		memcpy(held, s->held, sizeof held);
		size_t n = (size_t)s->n_held;
		held[n++] = byte;
		if (utf8_character(held, n, NULL) == n) {
			put(w, held, n);
			s->n_held = 0;
			return;
		}
		if (utf8_is_beginning(held, n)) {
			s->held[s->n_held++] = (uint8_t)byte;
			return;
		}
		put(w, replacement, 3);
		if (s->n_held == 0)
			return;
		s->n_held = 0; /* the held bytes are lost; this one begins anew */
	}
}

size_t text_stream_add(struct text_stream* s, int32_t id, char* out, size_t capacity) {
	/* The piece is laid at the end of `out` and read from there: writing can overtake reading only for
	 * malformed bytes, which need room. */
	size_t size = tokenizer_piece(s->tokenizer, id, false, NULL, 0);
	if (size == 0 || size > capacity)
		return 0;
	char* piece = out + capacity - size;
	tokenizer_piece(s->tokenizer, id, false, piece, size);
	struct writer w = {.out = out, .capacity = capacity};
	for (size_t i = 0; i < size; i++) {
		char byte = piece[i];
		w.capacity = capacity - size + i + 1;
		take(s, byte, &w);
	}
	return w.size;
}

size_t text_stream_end(struct text_stream* s, char* out, size_t capacity) {
	if (s->n_held == 0)
		return 0;
	s->n_held = 0;
	struct writer w = {.out = out, .capacity = capacity};
	put(&w, replacement, 3);
	return w.size;
}
