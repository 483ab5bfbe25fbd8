/* Strings with a mark for each byte that a request brought.
 *
 * A string is immutable UTF-8 in the arena (a broken byte counts as a character). A part shares its bytes.
 * The template's own strings carry no marks; all others have one for each byte. */
#pragma once

#include "core/jinja/machine.h"

struct string {
	const char* data;
	const uint8_t* mark; /* (size) 1: foreign; NULL: no byte is */
	size_t size;
	bool markup; /* Jinja's Markup: `safe` or `escape` made it, and + escapes what it is joined to */
};

struct builder {
	struct machine* machine;
	char* data;
	uint8_t* mark; /* (capacity) or NULL while all bytes are the template's */
	size_t size, capacity;
};

static inline bool string_foreign_at(const struct string* s, size_t i) { return s->mark && s->mark[i]; }
/* Copies; the template's own. */
const struct string* string_new(struct machine*, const char* data, size_t size);
const struct string* string_of(struct machine*, const char* words);
const struct string* string_part(struct machine*, const struct string*, size_t start, size_t end);
const struct string* string_markup(struct machine*, const struct string*,
                                   bool markup); /* the same, marked so */
bool string_equal(struct machine*, const struct string*, const struct string*);
bool string_is(const struct string*, const char* text);
/* True when it is one of these words, which blanks separate. */
bool string_among(const struct string*, const char* words);
/* A string's part in a message, as "%.*s" takes it. */
#define EXCERPT(s) (int)((s)->size < 60 ? (s)->size : 60), (s)->data
int string_order(struct machine*, const struct string*, const struct string*); /* by character: -1, 0, 1 */

/* Bytes of the character at a place below size, and which it is (U+FFFD + 0x110000 | byte when broken). */
size_t string_character(const struct string*, size_t at, uint32_t* code);
int64_t string_length(struct machine*, const struct string*); /* characters */
/* The offset of character `index` (0 to length). */
size_t string_offset(struct machine*, const struct string*, int64_t index);
/* The first place of `what` at or after `from`, and its last before `end`; SIZE_MAX: none. */
size_t string_find(struct machine*, const struct string*, const struct string* what, size_t from, size_t end);
size_t string_find_last(struct machine*, const struct string*, const struct string* what, size_t from,
                        size_t end);
/* Python's str.isspace(); the end of a run of such characters, or of others (not `white`), at a place. */
bool code_is_space(uint32_t code);
size_t string_span(const struct string*, size_t at, bool white);
static inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
/* Without the characters of `set` (NULL: white space) at its ends. */
const struct string* string_strip(struct machine*, const struct string*, const struct string* set, bool left,
                                  bool right);

void builder_add(struct builder*, const char* data, size_t size, bool foreign);
void builder_words(struct builder*, const char* words);
void builder_part(struct builder*, const struct string*, size_t start, size_t end);
void builder_string(struct builder*, const struct string*);
void builder_code(struct builder*, uint32_t code, bool foreign);
const struct string* builder_end(struct builder*);
