#define PCRE2_CODE_UNIT_WIDTH 8
#include "core/text/expression.h"

#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/utf8.h"

struct expression {
	pcre2_code* code;
	bool compiled;        /* for this machine */
	const uint8_t* first; /* one bit for each byte that a match may begin with; NULL: unknown */
	bool trailing_space;  /* `\s+$` is matched by hand, because a matcher would try it at every space of a run
	                       */
	char* literal;        /* a pattern that stands for itself; then there is no code */
	size_t literal_size;
};

enum { MATCH_LIMIT = 5000000, MAX_PATTERN = 1 << 16 };

static bool compile_expression(struct expression* e, const char* pattern, size_t size,
                               const struct buffer* text, struct error* error) {
	int code = 0;
	PCRE2_SIZE offset = 0;
	if (text->failed)
		return error_set(error, "out of memory for an expression");
	e->code = pcre2_compile((PCRE2_SPTR)text->data, text->size,
	                        PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code, &offset,
	                        NULL);
	if (!e->code) {
		char why[128];
		pcre2_get_error_message(code, (PCRE2_UCHAR*)why, sizeof why);
		return expression_refuse(pattern, size, why, error);
	}
	if (pcre2_pattern_info(e->code, PCRE2_INFO_FIRSTBITMAP, &e->first) != 0)
		e->first = NULL;
	e->compiled =
	    pcre2_jit_compile(e->code, PCRE2_JIT_COMPLETE) == 0; /* without it, matching is interpreted */
	return true;
}

static bool take_literal(struct expression* e, const char* text, size_t size, struct error* error) {
	e->literal = strdup(text);
	e->literal_size = size;
	return e->literal || error_set(error, "out of memory for an expression");
}

struct expression* expression_compile(const char* pattern, bool regex, struct error* error) {
	const size_t size = strlen(pattern);
	if (size == 0 || size > MAX_PATTERN) {
		error_set(error, "an expression of %zu bytes, expected 1 to %d", size, MAX_PATTERN);
		return NULL;
	}
	struct expression* e = calloc(1, sizeof *e);
	if (!e) {
		error_set(error, "out of memory for an expression");
		return NULL;
	}
	e->trailing_space = regex && strcmp(pattern, "\\s+$") == 0;
	struct buffer text = {0};
	const bool good = regex ? expression_translate(pattern, size, &text, error) &&
	                              compile_expression(e, pattern, size, &text, error)
	                        : take_literal(e, pattern, size, error);
	buffer_free(&text);
	if (good)
		return e;
	expression_free(e);
	return NULL;
}

void expression_free(struct expression* e) {
	if (!e)
		return;
	pcre2_code_free(e->code);
	free(e->literal);
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

/* Matches \s+ up to the end of a line or of the text, scanning each run of white space once. The match ends
 * at the last line feed after the first character, or at the end of the text. */
static bool next_trailing_space(const char* text, size_t size, size_t from, size_t* start, size_t* end) {
	uint32_t code;
	for (size_t at = from, length; at < size; at += length) {
		*start = at;
		*end = 0;
		while (at < size && (length = utf8_character(text + at, size - at, &code)) > 0 &&
		       utf8_is_white(code)) {
			if (code == '\n' && at > *start)
				*end = at;
			at += length;
		}
		if (at == size && at > *start)
			*end = at;
		if (*end > 0)
			return true;
		length = at < size ? utf8_character(text + at, size - at, NULL) : 0;
	}
	return false;
}

/* Well-formed text matches only at the first bytes of characters. */
static bool next_literal(const struct expression* e, const char* text, size_t size, size_t from,
                         size_t* start, size_t* end) {
	for (const char* at; size - from >= e->literal_size; from = (size_t)(at - text) + 1) {
		at = memchr(text + from, e->literal[0], size - from - e->literal_size + 1);
		if (!at)
			return false;
		if (memcmp(at, e->literal, e->literal_size) == 0) {
			*start = (size_t)(at - text);
			*end = *start + e->literal_size;
			return true;
		}
	}
	return false;
}

bool expression_next(const struct expression* e, struct matcher* m, const char* text, size_t size,
                     size_t* start, size_t* end) {
	const size_t last = *end;
	size_t from = last == NOWHERE ? 0 : last;
	if (e->literal)
		return next_literal(e, text, size, from, start, end);
	if (e->trailing_space)
		return next_trailing_space(text, size, from, start, end);
	while (from <= size) {
		while (e->first && from < size && !(e->first[(uint8_t)text[from] / 8] >> (uint8_t)text[from] % 8 & 1))
			from++;
		if (from == size && e->first)
			return false;
		const int found =
		    e->compiled
		        ? pcre2_jit_match(e->code, (PCRE2_SPTR)text, size, from, 0, m->data, m->context)
		        : pcre2_match(e->code, (PCRE2_SPTR)text, size, from, PCRE2_NO_UTF_CHECK, m->data, m->context);
		if (found < 0)
			return false;
		const PCRE2_SIZE* place = pcre2_get_ovector_pointer(m->data);
		if (place[0] < from || place[1] < place[0]) /* \K within a look-around */
			return false;
		if (place[1] > place[0] || place[0] != last) {
			*start = place[0];
			*end = place[1];
			return true;
		}
		if (from >= size)
			return false;
		from += utf8_character(text + from, size - from, NULL);
	}
	return false;
}
