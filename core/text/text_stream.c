/* Turns ids into text as they are generated. Only whole characters come out; malformed bytes become
 * U+FFFD. */
#include <string.h>

#include "core/files/utf8.h"
#include "core/text/tokenizer_parts.h"

static const char replacement[] = "\xef\xbf\xbd";

void text_stream_start(struct text_stream* s, const struct tokenizer* tokenizer) {
	*s = (struct text_stream){.tokenizer = tokenizer};
}

struct writer {
	char* out;
	size_t size, capacity;
};

static void put_byte(struct writer* w, const char* bytes, size_t size) {
	if (size > w->capacity - w->size)
		return;
	memcpy(w->out + w->size, bytes, size);
	w->size += size;
}

/* Takes one byte. The held bytes are always the beginning of a well-formed character. */
static void take_byte(struct text_stream* s, char byte, struct writer* w) {
	char held[sizeof s->held];
	for (;;) {
		memcpy(held, s->held, sizeof held);
		size_t n = (size_t)s->n_held;
		held[n++] = byte;
		if (utf8_character(held, n, NULL) == n) {
			put_byte(w, held, n);
			s->n_held = 0;
			return;
		}
		if (utf8_is_beginning(held, n)) {
			s->held[s->n_held++] = (uint8_t)byte;
			return;
		}
		put_byte(w, replacement, 3);
		if (s->n_held == 0)
			return;
		s->n_held = 0; /* the held bytes are malformed; this byte begins a new character */
	}
}

size_t text_stream_add(struct text_stream* s, int32_t id, char* out, size_t capacity) {
	size_t size;
	const char* printed = tokenizer_printed(s->tokenizer, id, false, &size);
	struct writer w = {.out = out, .capacity = capacity};
	for (size_t i = 0; i < size && size <= capacity; i++)
		take_byte(s, printed[i], &w);
	return w.size;
}

size_t text_stream_end(struct text_stream* s, char* out, size_t capacity) {
	if (s->n_held == 0)
		return 0;
	s->n_held = 0;
	struct writer w = {.out = out, .capacity = capacity};
	put_byte(&w, replacement, 3);
	return w.size;
}
