#include "core/jinja/marked.h"

#include <string.h>

#include "core/files/utf8.h"

enum { BROKEN = 0x110000 }; /* a byte outside of any character, as a code of its own */

/* ---- strings ------------------------------------------------------------------------------ */

const struct string* string_new(struct machine* m, const char* data, size_t size) {
	char* const copy = machine_alloc(m, size);
	if (size)
		memcpy(copy, data, size);
	return MACHINE_NEW(m, struct string, .data = copy, .size = size);
}

const struct string* string_of(struct machine* m, const char* words) {
	return string_new(m, words, strlen(words));
}

const struct string* string_part(struct machine* m, const struct string* s, size_t start, size_t end) {
	if (start == 0 && end == s->size)
		return s;
	struct string part = *s;
	part.data += start;
	part.mark = s->mark ? s->mark + start : NULL;
	part.size = end > start ? end - start : 0;
	return machine_new(m, &part, sizeof part);
}

const struct string* string_markup(struct machine* m, const struct string* s, bool markup) {
	if (s->markup == markup)
		return s;
	struct string copy = *s;
	copy.markup = markup;
	return machine_new(m, &copy, sizeof copy);
}

bool string_equal(struct machine* m, const struct string* a, const struct string* b) {
	if (a == b)
		return true;
	if (a->size != b->size)
		return false;
	machine_charge(m, a->size);
	return a->size == 0 || memcmp(a->data, b->data, a->size) == 0;
}

bool string_is(const struct string* s, const char* words) {
	size_t n = 0;
	while (n < s->size && words[n] && s->data[n] == words[n])
		n++;
	return n == s->size && !words[n];
}

bool string_among(const struct string* s, const char* words) {
	for (size_t n; *words; words += n + (words[n] == ' ')) {
		n = strcspn(words, " ");
		if (s->size == n && memcmp(s->data, words, n) == 0)
			return true;
	}
	return false;
}

int string_order(struct machine* m, const struct string* a, const struct string* b) {
	const size_t least = a->size < b->size ? a->size : b->size;
	machine_charge(m, least);
	const int order = least ? memcmp(a->data, b->data, least) : 0;
	if (order != 0)
		return order < 0 ? -1 : 1;
	return a->size < b->size ? -1 : a->size > b->size;
}

/* ---- characters --------------------------------------------------------------------------- */

size_t string_character(const struct string* s, size_t at, uint32_t* code) {
	const size_t length = utf8_character(s->data + at, s->size - at, code);
	if (length)
		return length;
	*code = BROKEN + (uint8_t)s->data[at];
	return 1;
}

int64_t string_length(struct machine* m, const struct string* s) {
	machine_charge(m, s->size);
	int64_t n = 0;
	uint32_t code;
	for (size_t at = 0; at < s->size; n++)
		at += string_character(s, at, &code);
	return n;
}

size_t string_offset(struct machine* m, const struct string* s, int64_t index) {
	size_t at = 0;
	uint32_t code;
	for (int64_t i = 0; i < index && at < s->size; i++)
		at += string_character(s, at, &code);
	machine_charge(m, at);
	return at;
}

size_t string_find(struct machine* m, const struct string* s, const struct string* what, size_t from,
                   size_t end) {
	if (from > end || what->size > end - from)
		return SIZE_MAX;
	if (what->size == 0)
		return from;
	const char* const found = memmem(s->data + from, end - from, what->data, what->size);
	machine_charge(m, found ? (size_t)(found - s->data) - from : end - from);
	return found ? (size_t)(found - s->data) : SIZE_MAX;
}

size_t string_find_last(struct machine* m, const struct string* s, const struct string* what, size_t from,
                        size_t end) {
	if (from > end || what->size > end - from)
		return SIZE_MAX;
	for (size_t at = end - what->size;; at--) {
		machine_charge(m, what->size);
		if (what->size == 0 || memcmp(s->data + at, what->data, what->size) == 0)
			return at;
		if (at == from)
			return SIZE_MAX;
	}
}

bool code_is_space(uint32_t code) {
	return code < BROKEN && (utf8_is_white(code) || (code >= 0x1C && code <= 0x1F));
}

size_t string_span(const struct string* s, size_t at, bool white) {
	uint32_t code;
	while (at < s->size) {
		const size_t length = string_character(s, at, &code);
		if (code_is_space(code) != white)
			break;
		at += length;
	}
	return at;
}

static bool is_among(const struct string* set, uint32_t code) {
	if (!set)
		return code_is_space(code);
	uint32_t one;
	for (size_t at = 0; at < set->size;) {
		at += string_character(set, at, &one);
		if (one == code)
			return true;
	}
	return false;
}

const struct string* string_strip(struct machine* m, const struct string* s, const struct string* set,
                                  bool left, bool right) {
	size_t start = 0, end = s->size;
	uint32_t code;
	while (left && start < end) {
		const size_t length = string_character(s, start, &code);
		if (!is_among(set, code))
			break;
		start += length;
		machine_charge(m, set ? set->size : 0);
	}
	while (right && end > start) {
		const size_t length = utf8_character_before(s->data + start, end - start, &code);
		if (!is_among(set, length ? code : BROKEN + (uint32_t)(uint8_t)s->data[end - 1]))
			break;
		end -= length ? length : 1;
		machine_charge(m, set ? set->size : 0);
	}
	return string_part(m, s, start, end);
}

/* ---- building ----------------------------------------------------------------------------- */

static void reserve_bytes(struct builder* b, size_t more) {
	if (more > MACHINE_TEXT || b->size > MACHINE_TEXT - more)
		machine_fail(b->machine, "the template writes more than %d MiB", MACHINE_TEXT >> 20);
	if (b->size + more <= b->capacity)
		return;
	size_t capacity = b->capacity ? 2 * b->capacity : 64;
	while (capacity < b->size + more)
		capacity *= 2;
	char* const data = machine_alloc(b->machine, capacity);
	if (b->size)
		memcpy(data, b->data, b->size);
	if (b->mark) {
		uint8_t* const mark = machine_alloc(b->machine, capacity);
		memcpy(mark, b->mark, b->size);
		b->mark = mark;
	}
	b->data = data;
	b->capacity = capacity;
}

void builder_add(struct builder* b, const char* data, size_t size, bool foreign) {
	if (size == 0)
		return;
	reserve_bytes(b, size);
	machine_charge(b->machine, size);
	if (foreign && !b->mark) { /* from here on each byte has a mark */
		b->mark = machine_alloc(b->machine, b->capacity);
		memset(b->mark, 0, b->size);
	}
	memcpy(b->data + b->size, data, size);
	if (b->mark)
		memset(b->mark + b->size, foreign, size);
	b->size += size;
}

void builder_words(struct builder* b, const char* words) { builder_add(b, words, strlen(words), false); }

void builder_part(struct builder* b, const struct string* s, size_t start, size_t end) {
	if (start >= end)
		return;
	builder_add(b, s->data + start, end - start, s->mark != NULL);
	if (s->mark)
		memcpy(b->mark + b->size - (end - start), s->mark + start, end - start);
}

void builder_string(struct builder* b, const struct string* s) { builder_part(b, s, 0, s->size); }

void builder_code(struct builder* b, uint32_t code, bool foreign) {
	char text[4];
	if (code >= BROKEN) {
		text[0] = (char)(code - BROKEN);
		builder_add(b, text, 1, foreign);
		return;
	}
	builder_add(b, text, utf8_put(code, text), foreign);
}

const struct string* builder_end(struct builder* b) {
	return MACHINE_NEW(b->machine, struct string, .data = b->data ? b->data : "", .mark = b->mark,
	                   .size = b->size);
}
