/* Splits a template's text into tokens, with Jinja's rules for white space around tags (trim_blocks and
 * lstrip_blocks on). */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/utf8.h"
#include "core/jinja/node.h"

/* ---- places ------------------------------------------------------------------------------- */

struct lexer lexer_start(struct machine* m, const char* source, size_t size) {
	char* const copy = machine_alloc(m, size);
	size_t n = 0;
	for (size_t i = 0; i < size; i++) {
		if (source[i] == '\r' && i + 1 < size && source[i + 1] == '\n')
			continue;
		copy[n++] = source[i] == '\r' ? '\n' : source[i];
	}
	if (n && copy[n - 1] == '\n')
		n--;
	return (struct lexer){.machine = m,
	                      .source = MACHINE_NEW(m, struct string, .data = copy, .size = n),
	                      .line = 1,
	                      .line_starting = true};
}

struct lexer lexer_start_json(struct machine* m, const char* text, size_t size) {
	return (struct lexer){.machine = m,
	                      .source = MACHINE_NEW(m, struct string, .data = text, .size = size),
	                      .line = 1,
	                      .inside = true,
	                      .in_print = true,
	                      .json = true};
}

/* 0 past the end. */
static char byte_at(const struct lexer* x, size_t at) {
	return at < x->source->size ? x->source->data[at] : 0;
}

static char peek_byte(const struct lexer* x, size_t ahead) { return byte_at(x, x->at + ahead); }

static bool stands_at(const struct lexer* x, size_t at, const char* words) {
	for (; *words; words++, at++)
		if (byte_at(x, at) != *words)
			return false;
	return true;
}

/* - or + of a tag, else 0. */
static char sign_at(const struct lexer* x, size_t at) {
	const char c = byte_at(x, at);
	return c == '-' || c == '+' ? c : 0;
}

static void advance_to(struct lexer* x, size_t to) {
	for (; x->at < to; x->at++)
		x->line += x->source->data[x->at] == '\n';
	x->machine->line = x->line;
}

/* The end of the text [start, end) without the white space before it. */
static size_t strip_right(const struct lexer* x, size_t start, size_t end) {
	const struct string* const text = string_part(x->machine, x->source, start, end);
	return start + string_strip(x->machine, text, NULL, false, true)->size;
}

/* The end of the text [start, end) before a tag with that sign. Without a sign, a block removes the white
 * space before it if its line has nothing else: lstrip_blocks. */
static size_t text_end(const struct lexer* x, size_t start, size_t end, char sign, bool block) {
	if (sign == '-')
		return strip_right(x, start, end);
	size_t line = end;
	while (line > start && x->source->data[line - 1] != '\n')
		line--;
	if (sign == '+' || !block || (line == start && !x->line_starting))
		return end;
	return strip_right(x, line, end) == line ? line : end;
}

/* The end of a tag's opening at `x->at` and its `sign`: -, + or none. */
static void close_tag(struct lexer* x, size_t past, char sign, bool trims) {
	if (sign == '-')
		past = string_span(x->source, past, true);
	else if (sign != '+' && trims && byte_at(x, past) == '\n')
		past++;
	advance_to(x, past);
	x->line_starting = past > 0 && x->source->data[past - 1] == '\n';
}

/* ---- between tags ------------------------------------------------------------------------- */

static struct token text_token(struct lexer* x, size_t start, size_t end, int line) {
	return (struct token){
	    .kind = TOKEN_TEXT, .line = line, .text = string_part(x->machine, x->source, start, end)};
}

static void skip_comment(struct lexer* x) {
	const struct string close = {.data = "#}", .size = 2};
	const size_t from = x->at + 2 + (sign_at(x, x->at + 2) != 0);
	const size_t end = string_find(x->machine, x->source, &close, from, x->source->size);
	if (end == SIZE_MAX)
		machine_fail(x->machine, "a comment without its end #}");
	close_tag(x, end + 2, end > from ? byte_at(x, end - 1) : 0, true);
}

/* The end of "{%- name -%}" at a place, or 0. *open and *close: its signs. */
static size_t past_tag(const struct lexer* x, size_t at, const char* name, char* open, char* close) {
	if (!stands_at(x, at, "{%"))
		return 0;
	*open = sign_at(x, at + 2);
	at = string_span(x->source, at + 2 + (*open != 0), true);
	if (!stands_at(x, at, name))
		return 0;
	at = string_span(x->source, at + strlen(name), true);
	*close = sign_at(x, at);
	at += *close != 0;
	return stands_at(x, at, "%}") ? at + 2 : 0;
}

/* The text of a raw block. The lexer stands after the opening tag, which ended with `close`. */
static struct token raw_token(struct lexer* x, size_t past, char close) {
	const int line = x->line;
	close_tag(x, past, close == '-' ? '-' : '+', false);
	for (size_t at = x->at; at < x->source->size; at++) {
		char sign = 0, end_sign = 0;
		past = past_tag(x, at, "endraw", &sign, &end_sign);
		if (!past)
			continue;
		const struct token token = text_token(x, x->at, text_end(x, x->at, at, sign, true), line);
		close_tag(x, past, end_sign, true);
		return token;
	}
	machine_fail(x->machine, "a raw block without its end");
}

/* The next place where "{{", "{%" or "{#" begins. */
static size_t next_tag(const struct lexer* x) {
	size_t at = x->at;
	while (at < x->source->size &&
	       !(byte_at(x, at) == '{' && byte_at(x, at + 1) && strchr("{%#", byte_at(x, at + 1))))
		at++;
	return at;
}

/* The text up to the next tag, or the tag; empty texts are skipped. */
static struct token next_outside(struct lexer* x) {
	while (x->at < x->source->size) {
		machine_charge(x->machine, 0);
		const size_t start = x->at, tag = next_tag(x);
		const int line = x->line;
		const char sign = sign_at(x, tag + 2), kind = byte_at(x, tag + 1);
		const size_t end = kind ? text_end(x, start, tag, sign, kind != '{') : tag;
		advance_to(x, tag);
		if (tag > start)
			x->line_starting = false; /* a tag stands before what comes next */
		if (end > start)
			return text_token(x, start, end, line);
		if (tag == x->source->size)
			break;
		char open = 0, close = 0;
		const size_t past = past_tag(x, tag, "raw", &open, &close);
		x->line_starting = false;
		if (past && close != '+')
			return raw_token(x, past, close);
		if (kind == '#') {
			skip_comment(x);
			continue;
		}
		x->inside = true;
		x->n_open = 0;
		x->in_print = kind == '{';
		advance_to(x, tag + 2 + (sign != 0));
		return (struct token){.kind = x->in_print ? TOKEN_PRINT : TOKEN_BLOCK, .line = x->line};
	}
	return (struct token){.kind = TOKEN_END, .line = x->line};
}

/* ---- within tags -------------------------------------------------------------------------- */

/* The tag's end, if it is at x->at. */
static bool tag_end(struct lexer* x, struct token* token) {
	char sign = sign_at(x, x->at);
	if (sign == '+' && x->in_print)
		sign = 0;
	const size_t skip = sign ? 1 : 0;
	if (x->n_open || !stands_at(x, x->at + skip, x->in_print ? "}}" : "%}"))
		return false;
	*token = (struct token){.kind = x->in_print ? TOKEN_PRINT_END : TOKEN_BLOCK_END, .line = x->line};
	close_tag(x, x->at + skip + 2, sign, !x->in_print);
	x->inside = false;
	return true;
}

static bool in_name(char c) {
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

/* Skips digits and the underscores between them. */
static size_t past_digits(const struct lexer* x, size_t from) {
	size_t i = from;
	while (is_digit(peek_byte(x, i)) ||
	       (peek_byte(x, i) == '_' && !x->json && i > from && is_digit(peek_byte(x, i + 1))))
		i++;
	return i;
}

static struct token number_token(struct lexer* x) {
	enum { MOST_DIGITS = 120 };
	char text[MOST_DIGITS + 1];
	struct token token = {.kind = TOKEN_NUMBER, .line = x->line};
	const bool after_dot = x->at > 0 && byte_at(x, x->at - 1) == '.';
	const size_t minus = peek_byte(x, 0) == '-'; /* in JSON alone */
	const size_t whole = past_digits(x, minus);
	size_t end = whole, n = 0;
	if (whole == minus)
		machine_fail(x->machine, "unexpected character '-'");
	if (!after_dot && peek_byte(x, end) == '.' && is_digit(peek_byte(x, end + 1)))
		end = past_digits(x, end + 1);
	const size_t sign = sign_at(x, x->at + end + 1) != 0;
	if (!after_dot && (peek_byte(x, end) == 'e' || peek_byte(x, end) == 'E') &&
	    is_digit(peek_byte(x, end + 1 + sign)))
		end = past_digits(x, end + 1 + sign);
	for (size_t i = 0; i < end; i++) {
		if (n == MOST_DIGITS)
			machine_fail(x->machine, "a number of more than %d digits", MOST_DIGITS);
		if (peek_byte(x, i) != '_')
			text[n++] = peek_byte(x, i);
	}
	text[n] = 0;
	const bool real = end > whole;
	if (!real && !x->json && text[0] == '0' && strspn(text, "0") < n)
		machine_fail(x->machine, "the number %s begins with 0", text);
	errno = 0;
	token.number = real ? value_float(strtod(text, NULL)) : value_integer(strtoll(text, NULL, 10));
	if (errno == ERANGE && !real)
		machine_fail(x->machine, "the whole number %s has more than 64 bits", text);
	advance_to(x, x->at + end);
	return token;
}

static uint32_t hex_digits(struct lexer* x, int n, size_t end) {
	uint32_t code = 0;
	for (; n > 0; n--, x->at++) {
		const int digit = x->at < end ? hexadecimal_digit(peek_byte(x, 0)) : -1;
		if (digit < 0)
			machine_fail(x->machine, "a string with a broken \\x, \\u or \\U escape");
		code = code << 4 | (uint32_t)digit;
	}
	return code;
}

/* \xhh, \uhhhh, \Uhhhhhhhh; in JSON two surrogates are one character, and one alone is U+FFFD. */
static void hex_escape(struct lexer* x, struct builder* b, int n, size_t end) {
	uint32_t code = hex_digits(x, n, end);
	const size_t past = x->at;
	if (x->json && code >= 0xD800 && code < 0xDC00 && past + 1 < end && stands_at(x, past, "\\u")) {
		x->at += 2;
		const uint32_t low = hex_digits(x, 4, end);
		if (low >= 0xDC00 && low < 0xE000)
			code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
		else
			x->at = past;
	}
	const bool surrogate = code >= 0xD800 && code < 0xE000;
	if (code > 0x10FFFF || (surrogate && !x->json))
		machine_fail(x->machine, "a string with an escape that is not a character");
	builder_code(b, surrogate ? 0xFFFD : code, false);
}

/* The escape after a backslash. Unknown ones keep their backslash, as in Python. */
static void read_escape(struct lexer* x, struct builder* b, size_t end) {
	static const char from[] = "\\\"bfnrt/'av", to[] = "\\\"\b\f\n\r\t/'\a\v";
	enum { IN_BOTH = 7, IN_JSON = 8 };
	const char c = peek_byte(x, 0);
	const char* const found = c ? strchr(from, c) : NULL;
	const ptrdiff_t place = found ? found - from : -1;
	if (found && (place < IN_BOTH || (place < IN_JSON) == x->json)) {
		builder_add(b, &to[place], 1, false);
		x->at++;
	} else if (c == 'u' || (!x->json && (c == 'x' || c == 'U'))) {
		x->at++;
		hex_escape(x, b, c == 'x' ? 2 : c == 'u' ? 4 : 8, end);
	} else if (c == 'N' || is_digit(c) || x->json) {
		machine_fail(x->machine, "a string with \\%c, which is not known here",
		             c > ' ' && c <= '~' ? c : '?');
	} else if (c == '\n') {
		x->line++;
		x->at++;
	} else {
		builder_words(b, "\\");
	}
}

static struct token string_token(struct lexer* x) {
	struct token token = {.kind = TOKEN_STRING, .line = x->line};
	const char quote = peek_byte(x, 0);
	size_t end = x->at + 1;
	while (end < x->source->size && byte_at(x, end) != quote)
		end += byte_at(x, end) == '\\' ? 2 : 1;
	if (end >= x->source->size)
		machine_fail(x->machine, "a string without its closing %c", quote);
	struct builder b = {.machine = x->machine};
	x->at++;
	while (x->at < end) {
		size_t plain = x->at;
		while (plain < end && byte_at(x, plain) != '\\')
			plain++;
		builder_part(&b, x->source, x->at, plain);
		advance_to(x, plain);
		if (x->at < end) {
			x->at++;
			read_escape(x, &b, end);
		}
	}
	x->at = end + 1;
	token.text = builder_end(&b);
	return token;
}

/* Counts brackets, within which nothing ends a tag. The parser checks that they match. */
static void balance_brackets(struct lexer* x, char c) {
	if (strchr("([{", c) && ++x->n_open > MACHINE_NESTING)
		machine_fail(x->machine, "brackets nested deeper than %d", MACHINE_NESTING);
	if (strchr(")]}", c) && --x->n_open < 0)
		machine_fail(x->machine, "unexpected '%c'", c);
}

/* The next n bytes. */
static struct token part_token(struct lexer* x, enum token_kind kind, size_t n) {
	const struct token token = {
	    .kind = kind, .line = x->line, .text = string_part(x->machine, x->source, x->at, x->at + n)};
	advance_to(x, x->at + n);
	return token;
}

static struct token operator_token(struct lexer* x) {
	static const char two[][3] = {"//", "**", "==", "!=", ">=", "<="};
	const char c = peek_byte(x, 0);
	for (size_t i = 0; i < sizeof two / sizeof *two; i++)
		if (stands_at(x, x->at, two[i]))
			return part_token(x, TOKEN_OPERATOR, 2);
	if (!c || !strchr("+-*/%~<>=.,:;|()[]{}", c))
		machine_fail(x->machine, "unexpected character '%c'", c >= ' ' && c <= '~' ? c : '?');
	balance_brackets(x, c);
	return part_token(x, TOKEN_OPERATOR, 1);
}

static struct token next_inside(struct lexer* x) {
	struct token token;
	advance_to(x, string_span(x->source, x->at, true));
	if (tag_end(x, &token))
		return token;
	if (x->at >= x->source->size && x->json)
		return (struct token){.kind = TOKEN_END, .line = x->line};
	if (x->at >= x->source->size)
		machine_fail(x->machine, "the template ends within a tag");
	const char c = peek_byte(x, 0);
	if (is_digit(c) || (x->json && c == '-'))
		return number_token(x);
	if (c == '"' || (c == '\'' && !x->json))
		return string_token(x);
	size_t n = 0;
	while (in_name(peek_byte(x, n)))
		n++;
	return n ? part_token(x, TOKEN_NAME, n) : operator_token(x);
}

struct token lexer_next(struct lexer* x) {
	machine_charge(x->machine, 0);
	return x->inside ? next_inside(x) : next_outside(x);
}
