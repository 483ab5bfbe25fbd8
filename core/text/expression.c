#define PCRE2_CODE_UNIT_WIDTH 8
#include "core/text/expression.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/utf8.h"
#include "core/text/vocabulary.h"

struct expression {
	pcre2_code* code;
	bool trailing_space; /* `\s+$`, which a matcher would try at every space of a run: done by hand */
};

enum { MATCH_LIMIT = 5000000, MAX_PATTERN = 1 << 16 };

/* Unicode's White_Space, and Oniguruma's word characters, as the inside of a class. */
static const char white[] = "\\p{Z}\\t-\\r\\x{85}";
static const char word[] = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";

static void add_text(struct buffer* out, const char* text) { buffer_add(out, text, strlen(text)); }

static void add_set(struct buffer* out, const char* set, bool in_class, bool negated) {
	if (!in_class)
		add_text(out, negated ? "[^" : "[");
	add_text(out, set);
	if (!in_class)
		add_text(out, "]");
}

/* The escape at pattern[1]; returns the bytes taken, 0 when it is not supported. */
static size_t translate_escape(struct buffer* out, const char* pattern, size_t size, bool in_class) {
	const char letter = size < 2 ? 0 : pattern[1];
	const bool space = letter == 's' || letter == 'S', negated = letter == 'S' || letter == 'W';
	if (!letter || strchr("bB", letter) || (in_class && negated))
		return 0;
	if (space || letter == 'w' || letter == 'W')
		add_set(out, space ? white : word, in_class, negated);
	else
		buffer_add(out, pattern, 2);
	return 2;
}

/* An error about a pattern, which need not be terminated. */
static bool refuse(const char* pattern, size_t size, const char* why, struct error* error) {
	return error_set(error, "expression \"%.*s\": %s", (int)(size < 80 ? size : 80), pattern, why);
}

/* pattern[size] is 0. */
static bool translate(const char* pattern, size_t size, struct buffer* out, struct error* error) {
	bool in_class = false;
	for (size_t at = 0, taken; at < size; at += taken) {
		const char c = pattern[at];
		taken = 1;
		if (c == '\\') {
			taken = translate_escape(out, pattern + at, size - at, in_class);
			if (taken == 0)
				return refuse(pattern + at, size - at, "this escape is not supported here", error);
			continue;
		}
		if (in_class && c == '&' && pattern[at + 1] == '&')
			return refuse(pattern, size, "class intersections (&&) are not supported", error);
		if (in_class && c == '[')
			return refuse(pattern, size, "nested classes are not supported", error);
		if (c == '[') {
			taken += pattern[at + taken] == '^';
			taken += pattern[at + taken] == ']'; /* right after the opening one it is a member */
		}
		in_class = c == '[' || (in_class && c != ']');
		buffer_add(out, pattern + at, taken);
	}
	return true;
}

static bool compile(struct expression* e, const char* pattern, size_t size, const struct buffer* text,
                    uint32_t options, struct error* error) {
	int code = 0;
	PCRE2_SIZE offset = 0;
	if (text->failed)
		return error_set(error, "no memory for an expression");
	e->code = pcre2_compile((PCRE2_SPTR)text->data, text->size, PCRE2_UTF | options, &code, &offset, NULL);
	if (!e->code) {
		char why[128];
		pcre2_get_error_message(code, (PCRE2_UCHAR*)why, sizeof why);
		return refuse(pattern, size, why, error);
	}
	pcre2_jit_compile(e->code, PCRE2_JIT_COMPLETE); /* without it, matching is interpreted */
	return true;
}

struct expression* expression_compile(const char* pattern, bool regex, struct error* error) {
	const size_t size = strlen(pattern);
	if (size == 0 || size > MAX_PATTERN) {
		error_set(error, "an expression of %zu bytes, expected 1 to %d", size, MAX_PATTERN);
		return NULL;
	}
	struct expression* e = calloc(1, sizeof *e);
	if (!e) {
		error_set(error, "no memory for an expression");
		return NULL;
	}
	e->trailing_space = regex && strcmp(pattern, "\\s+$") == 0;
	struct buffer text = {0};
	if (!regex)
		buffer_add(&text, pattern, size);
	const bool good =
	    (!regex || translate(pattern, size, &text, error)) &&
	    compile(e, pattern, size, &text,
	            regex ? PCRE2_UCP | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C : PCRE2_LITERAL, error);
	buffer_free(&text);
	if (good)
		return e;
	expression_free(e);
	return NULL;
}

void expression_free(struct expression* e) {
	if (e)
		pcre2_code_free(e->code);
	free(e);
}

bool matcher_start(struct matcher* m) {
	m->data = pcre2_match_data_create(1, NULL);
	m->context = pcre2_match_context_create(NULL);
	m->stack = pcre2_jit_stack_create(32 << 10, 4 << 20, NULL);
	if (!m->data || !m->context || !m->stack) {
		matcher_end(m);
		return false;
	}
	pcre2_jit_stack_assign(m->context, NULL, m->stack);
	pcre2_set_match_limit(m->context, MATCH_LIMIT);
	return true;
}

void matcher_end(struct matcher* m) {
	pcre2_match_data_free(m->data);
	pcre2_match_context_free(m->context);
	pcre2_jit_stack_free(m->stack);
	*m = (struct matcher){0};
}

static bool next_trailing_space(const char* text, size_t size, size_t from, size_t* start, size_t* end) {
	size_t at = size, length;
	uint32_t code;
	while (at > from && (length = utf8_character_before(text, at, &code)) > 0 && utf8_is_white(code))
		at -= length;
	*start = at;
	*end = size;
	return at < size;
}

bool expression_next(const struct expression* e, struct matcher* m, const char* text, size_t size,
                     size_t from, size_t* start, size_t* end) {
	if (e->trailing_space)
		return next_trailing_space(text, size, from, start, end);
	while (from < size) {
		int found =
		    pcre2_match(e->code, (PCRE2_SPTR)text, size, from, PCRE2_NO_UTF_CHECK, m->data, m->context);
		if (found < 0)
			return false;
		const PCRE2_SIZE* place = pcre2_get_ovector_pointer(m->data);
		if (place[1] > place[0] && place[0] >= from) {
			*start = place[0];
			*end = place[1];
			return true;
		}
		/* An empty match: go on behind the next character. */
		from = place[0] > from ? place[0] : from;
		if (from >= size)
			return false;
		from += utf8_character(text + from, size - from, NULL);
	}
	return false;
}
