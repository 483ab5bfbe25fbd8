/* A template's text to tokens, with Jinja's rules of white space around tags (trim_blocks and lstrip_blocks
 * on). */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/utf8.h"
#include "core/jinja/node.h"

/* ---- places ------------------------------------------------------------------------------- */

void lexer_start(struct lexer* x, struct machine* m, const char* source, size_t size) {
	char* const copy = machine_alloc(m, size);
	size_t n = 0;
	for (size_t i = 0; i < size; i++) {
		if (source[i] == '\r' && i + 1 < size && source[i + 1] == '\n')
			continue;
		copy[n++] = source[i] == '\r' ? '\n' : source[i];
	}
	if (n && copy[n - 1] == '\n')
		n--;
	*x = (struct lexer){.machine = m, .source = copy, .size = n, .line = 1, .line_starting = true};
}

static char peek(const struct lexer* x, size_t ahead) {
	return x->at + ahead < x->size ? x->source[x->at + ahead] : 0;
}

static void advance(struct lexer* x, size_t to) {
	for (; x->at < to; x->at++)
		x->line += x->source[x->at] == '\n';
	x->machine->line = x->line;
}

/* Bytes of white space at a place. */
static size_t white(const struct lexer* x, size_t at) {
	const size_t start = at;
	uint32_t code;
	for (size_t length; at < x->size; at += length) {
		length = utf8_character(x->source + at, x->size - at, &code);
		if (length == 0 || !code_is_space(code))
			break;
	}
	return at - start;
}

/* The end of the text [start, end) without the white space before it. */
static size_t strip_right(const struct lexer* x, size_t start, size_t end) {
	struct string text = {.data = x->source + start, .size = end - start};
	return start + string_strip(x->machine, &text, NULL, false, true)->size;
}

/* The same of the last line alone, where it is all white: lstrip_blocks. */
static size_t strip_line(const struct lexer* x, size_t start, size_t end) {
	size_t line = end;
	while (line > start && x->source[line - 1] != '\n')
		line--;
	if (line == start && !x->line_starting)
		return end;
	return strip_right(x, line, end) == line ? line : end;
}

/* Past the end of a tag that began at `x->at` with `sign`: -, + or none. */
static void close_tag(struct lexer* x, size_t past, char sign, bool trims) {
	if (sign == '-')
		past += white(x, past);
	else if (sign != '+' && trims && past < x->size && x->source[past] == '\n')
		past++;
	advance(x, past);
	x->line_starting = past > 0 && x->source[past - 1] == '\n';
}

/* ---- between tags ------------------------------------------------------------------------- */

static struct token text_token(struct lexer* x, size_t start, size_t end, int line) {
	struct string text = {.data = x->source + start, .size = end - start};
	return (struct token){
	    .kind = TOKEN_TEXT, .line = line, .text = machine_new(x->machine, &text, sizeof text)};
}

static void skip_comment(struct lexer* x) {
	const size_t from = x->at + 2 + (peek(x, 2) == '-' || peek(x, 2) == '+');
	const char* const end = from <= x->size ? memmem(x->source + from, x->size - from, "#}", 2) : NULL;
	if (!end)
		machine_fail(x->machine, "a comment without its end #}");
	const size_t at = (size_t)(end - x->source);
	close_tag(x, at + 2, at > from ? end[-1] : 0, true);
}

/* Bytes of "{%- name -%}" at a place, 0 where there is none. *open and *close: its signs. */
static size_t tag_size(const struct lexer* x, size_t at, const char* name, char* open, char* close) {
	const char* const s = x->source;
	size_t i = at + 2;
	if (i > x->size || s[at] != '{' || s[at + 1] != '%')
		return 0;
	*open = i < x->size && (s[i] == '-' || s[i] == '+') ? s[i++] : 0;
	i += white(x, i);
	const size_t length = strlen(name);
	if (x->size - i < length || memcmp(s + i, name, length) != 0)
		return 0;
	i += length;
	i += white(x, i);
	*close = i < x->size && (s[i] == '-' || s[i] == '+') ? s[i++] : 0;
	return x->size - i >= 2 && s[i] == '%' && s[i + 1] == '}' ? i + 2 - at : 0;
}

/* The text of a raw block whose opening tag stands at x->at. */
static struct token raw_token(struct lexer* x, size_t tag, char close) {
	const int line = x->line;
	close_tag(x, x->at + tag, close == '-' ? '-' : '+', false);
	for (size_t at = x->at; at + 1 < x->size; at++) {
		char sign = 0, end_sign = 0;
		const size_t size = tag_size(x, at, "endraw", &sign, &end_sign);
		if (!size)
			continue;
		const size_t end = sign == '-'   ? strip_right(x, x->at, at)
		                   : sign == '+' ? at
		                                 : strip_line(x, x->at, at);
		const struct token token = text_token(x, x->at, end, line);
		close_tag(x, at + size, end_sign, true);
		return token;
	}
	machine_fail(x->machine, "a raw block without its end");
}

/* The next place where "{{", "{%" or "{#" begins. */
static size_t next_tag(const struct lexer* x) {
	for (size_t at = x->at; at + 1 < x->size; at++) {
		const char* const brace = memchr(x->source + at, '{', x->size - 1 - at);
		if (!brace)
			break;
		if (brace[1] == '{' || brace[1] == '%' || brace[1] == '#')
			return (size_t)(brace - x->source);
		at = (size_t)(brace - x->source);
	}
	return x->size;
}

/* Text up to the next tag, or what the tag is; an empty text is passed over. */
static struct token next_outside(struct lexer* x) {
	for (;;) {
		machine_charge(x->machine, 0);
		if (x->at >= x->size)
			return (struct token){.kind = TOKEN_END, .line = x->line};
		const size_t start = x->at, tag = next_tag(x);
		const int line = x->line;
		size_t end = tag;
		if (tag < x->size) {
			const char sign = tag + 2 < x->size ? x->source[tag + 2] : 0;
			if (sign == '-')
				end = strip_right(x, start, tag);
			else if (sign != '+' && x->source[tag + 1] != '{')
				end = strip_line(x, start, tag);
		}
		advance(x, tag);
		if (tag > start)
			x->line_starting = false; /* a tag stands before what comes next */
		if (end > start)
			return text_token(x, start, end, line);
		if (tag == x->size)
			continue;
		char open = 0, close = 0;
		const size_t raw = tag_size(x, tag, "raw", &open, &close);
		x->line_starting = false;
		if (raw && close != '+')
			return raw_token(x, raw, close);
		if (x->source[tag + 1] == '#') {
			skip_comment(x);
			continue;
		}
		x->inside = true;
		x->n_open = 0;
		x->in_print = x->source[tag + 1] == '{';
		advance(x, tag + 2 + (peek(x, 2) == '-' || peek(x, 2) == '+'));
		return (struct token){.kind = x->in_print ? TOKEN_PRINT : TOKEN_BLOCK, .line = x->line};
	}
}

/* ---- within tags -------------------------------------------------------------------------- */

/* The tag's end at x->at, when it is there. */
static bool tag_end(struct lexer* x, struct token* token) {
	const char c = peek(x, 0);
	const char sign = c == '-' || (c == '+' && !x->in_print) ? c : 0;
	const size_t skip = sign ? 1 : 0;
	if (x->n_open || peek(x, skip) != (x->in_print ? '}' : '%') || peek(x, skip + 1) != '}')
		return false;
	*token = (struct token){.kind = x->in_print ? TOKEN_PRINT_END : TOKEN_BLOCK_END, .line = x->line};
	close_tag(x, x->at + skip + 2, sign, !x->in_print);
	x->inside = false;
	return true;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool in_name(char c) {
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

/* Digits and the underscores between them go to text; returns bytes read. */
static size_t digits(const struct lexer* x, size_t from, char* text, size_t* n, size_t capacity) {
	size_t i = from;
	for (; is_digit(peek(x, i)) || (peek(x, i) == '_' && !x->json && i > from && is_digit(peek(x, i + 1)));
	     i++) {
		if (peek(x, i) == '_')
			continue;
		if (*n + 1 >= capacity)
			machine_fail(x->machine, "a number of more than %zu digits", capacity);
		text[(*n)++] = peek(x, i);
	}
	return i - from;
}

static struct token number_token(struct lexer* x) {
	char text[128];
	size_t n = 0;
	struct token token = {.kind = TOKEN_NUMBER, .line = x->line};
	bool real = false;
	const bool after_dot = x->at > 0 && x->source[x->at - 1] == '.';
	const size_t minus = peek(x, 0) == '-'; /* in JSON alone */
	text[0] = '-';
	n = minus;
	size_t i = minus + digits(x, minus, text, &n, sizeof text - 8);
	if (n == minus)
		machine_fail(x->machine, "unexpected character '-'");
	if (!after_dot && peek(x, i) == '.' && is_digit(peek(x, i + 1))) {
		real = true;
		text[n++] = '.';
		i += 1 + digits(x, i + 1, text, &n, sizeof text - 8);
	}
	const size_t sign = peek(x, i + 1) == '-' || peek(x, i + 1) == '+';
	if (!after_dot && (peek(x, i) == 'e' || peek(x, i) == 'E') && is_digit(peek(x, i + 1 + sign))) {
		real = true;
		text[n++] = 'e';
		if (sign)
			text[n++] = peek(x, i + 1);
		i += 1 + sign + digits(x, i + 1 + sign, text, &n, sizeof text - 1);
	}
	text[n] = 0;
	if (!real && !x->json && text[0] == '0' && strspn(text, "0") < n)
		machine_fail(x->machine, "the number %s begins with 0", text);
	errno = 0;
	token.number = real ? value_float(strtod(text, NULL)) : value_integer(strtoll(text, NULL, 10));
	if (errno == ERANGE && !real)
		machine_fail(x->machine, "the whole number %s has more than 64 bits", text);
	advance(x, x->at + i);
	return token;
}

static uint32_t hex_digits(struct lexer* x, int n, size_t end) {
	uint32_t code = 0;
	for (; n > 0; n--, x->at++) {
		const int digit = x->at < end ? hexadecimal_digit(x->source[x->at]) : -1;
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
	if (x->json && code >= 0xD800 && code < 0xDC00 && past + 1 < end && x->source[past] == '\\' &&
	    x->source[past + 1] == 'u') {
		x->at += 2;
		const uint32_t low = hex_digits(x, 4, end);
		if (low >= 0xDC00 && low < 0xE000)
			code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
		else
			x->at = past;
	}
	const bool surrogate = code >= 0xD800 && code < 0xE000;
	if (code > 0x10FFFF || (surrogate && !x->json))
		machine_fail(x->machine, "a string with an escape that is no character");
	builder_code(b, surrogate ? 0xFFFD : code, false);
}

/* The escape whose backslash is passed; what Python does not know keeps its backslash. */
static void read_escape(struct lexer* x, struct builder* b, size_t end) {
	static const char from[] = "\\\"bfnrt/'av", to[] = "\\\"\b\f\n\r\t/'\a\v";
	enum { IN_BOTH = 7, IN_JSON = 8 };
	const char c = x->source[x->at];
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
	const char quote = peek(x, 0);
	size_t end = x->at + 1;
	while (end < x->size && x->source[end] != quote)
		end += x->source[end] == '\\' ? 2 : 1;
	if (end >= x->size)
		machine_fail(x->machine, "a string without its closing %c", quote);
	struct builder b = {.machine = x->machine};
	x->at++;
	while (x->at < end) {
		size_t plain = x->at;
		while (plain < end && x->source[plain] != '\\')
			plain++;
		builder_add(&b, x->source + x->at, plain - x->at, false);
		advance(x, plain);
		if (x->at < end) {
			x->at++;
			read_escape(x, &b, end);
		}
	}
	x->at = end + 1;
	token.text = builder_end(&b);
	return token;
}

/* Counts brackets, within which nothing ends a tag; that they pair is the parser's matter. */
static void balance(struct lexer* x, char c) {
	if (strchr("([{", c) && ++x->n_open > MACHINE_NESTING)
		machine_fail(x->machine, "brackets nested deeper than %d", MACHINE_NESTING);
	if (strchr(")]}", c) && --x->n_open < 0)
		machine_fail(x->machine, "unexpected '%c'", c);
}

static struct token operator_token(struct lexer* x) {
	static const struct {
		char text[3];
		enum operator operator;
	} pairs[] = {{"//", FLOOR_DIVIDE}, {"**", POWER},         {"==", EQUAL},
	             {"!=", NOT_EQUAL},    {">=", GREATER_EQUAL}, {"<=", LESS_EQUAL}};
	const char c = peek(x, 0);
	struct token token = {.kind = TOKEN_OPERATOR, .line = x->line};
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
		if (c == pairs[i].text[0] && peek(x, 1) == pairs[i].text[1]) {
			token.operator= pairs[i].operator;
			advance(x, x->at + 2);
			return token;
		}
	if (!c || !strchr("+-*/%~<>=.,:;|()[]{}", c))
		machine_fail(x->machine, "unexpected character '%c'", c >= ' ' && c <= '~' ? c : '?');
	balance(x, c);
	token.operator=(enum operator) c;
	advance(x, x->at + 1);
	return token;
}

static struct token next_inside(struct lexer* x) {
	struct token token;
	advance(x, x->at + white(x, x->at));
	if (tag_end(x, &token))
		return token;
	if (x->at >= x->size && x->json)
		return (struct token){.kind = TOKEN_END, .line = x->line};
	if (x->at >= x->size)
		machine_fail(x->machine, "the template ends within a tag");
	const char c = peek(x, 0);
	if (is_digit(c) || (x->json && c == '-'))
		return number_token(x);
	if (c == '"' || (c == '\'' && !x->json))
		return string_token(x);
	if (!in_name(c))
		return operator_token(x);
	size_t n = 0;
	while (in_name(peek(x, n)))
		n++;
	token = (struct token){.kind = TOKEN_NAME, .line = x->line};
	token.text = string_new(x->machine, x->source + x->at, n);
	advance(x, x->at + n);
	return token;
}

struct token lexer_next(struct lexer* x) {
	machine_charge(x->machine, 0);
	return x->inside ? next_inside(x) : next_outside(x);
}
