/* Checks JSON against RFC 8259: one recursive descent over bytes, which allocates nothing. */
#include "streams/json_text.h"

#include <string.h>

#include "core/files/utf8.h"

bool utf8_valid(const char* text, size_t size) {
	for (size_t at = 0; at < size;) {
		const size_t step = utf8_character(text + at, size - at, NULL);
		if (step == 0)
			return false;
		at += step;
	}
	return true;
}

/* ---- the grammar -------------------------------------------------------------------------- */

struct json_cursor {
	const char* text;
	size_t size, at;
	int depth;
	const char* wrong; /* the problem at `at`, once there is one */
};

static bool report_error(struct json_cursor* c, const char* what) {
	if (!c->wrong)
		c->wrong = what;
	return false;
}

static int peek_byte(const struct json_cursor* c) {
	return c->at < c->size ? (unsigned char)c->text[c->at] : -1;
}

static void skip_space(struct json_cursor* c) {
	while (c->at < c->size && strchr(" \t\r\n", c->text[c->at]) && c->text[c->at])
		c->at++;
}

static bool skip_digits(struct json_cursor* c) {
	if (peek_byte(c) < '0' || peek_byte(c) > '9')
		return report_error(c, "a digit was expected");
	while (peek_byte(c) >= '0' && peek_byte(c) <= '9')
		c->at++;
	return true;
}

static bool skip_number(struct json_cursor* c) {
	if (peek_byte(c) == '-')
		c->at++;
	if (peek_byte(c) == '0')
		c->at++;
	else if (!skip_digits(c))
		return false;
	if (peek_byte(c) == '.') {
		c->at++;
		if (!skip_digits(c))
			return false;
	}
	if (peek_byte(c) == 'e' || peek_byte(c) == 'E') {
		c->at++;
		if (peek_byte(c) == '+' || peek_byte(c) == '-')
			c->at++;
		return skip_digits(c);
	}
	return true;
}

/* Four hexadecimal digits at the cursor, or -1. */
static int read_hex4(struct json_cursor* c) {
	int value = 0;
	for (int i = 0; i < 4; i++) {
		const int digit = c->at < c->size ? hexadecimal_digit(c->text[c->at]) : -1;
		if (digit < 0)
			return -1;
		value = value * 16 + digit;
		c->at++;
	}
	return value;
}

static bool skip_unicode_escape(struct json_cursor* c) {
	const int first = read_hex4(c);
	if (first < 0)
		return report_error(c, "\\u needs four hexadecimal digits");
	if (first == 0)
		return report_error(c, "\\u0000 is not supported in a text");
	if (first >= 0xdc00 && first <= 0xdfff)
		return report_error(c, "a low surrogate stands alone");
	if (first < 0xd800 || first > 0xdbff)
		return true;
	if (c->size - c->at >= 2 && memcmp(c->text + c->at, "\\u", 2) == 0) {
		c->at += 2;
		const int second = read_hex4(c);
		if (second >= 0xdc00 && second <= 0xdfff)
			return true;
	}
	return report_error(c, "a high surrogate stands alone");
}

static bool skip_string(struct json_cursor* c) {
	c->at++;
	for (;;) {
		const int b = peek_byte(c);
		if (b < 0)
			return report_error(c, "the string does not end");
		if (b < 0x20)
			return report_error(c, "a control character inside a string");
		if (b == '"') {
			c->at++;
			return true;
		}
		if (b == '\\') {
			c->at++;
			const int e = peek_byte(c);
			if (e <= 0 || !strchr("\"\\/bfnrtu", e)) /* strchr would also find the NUL at a string's end */
				return report_error(c, "an unknown escape");
			c->at++;
			if (e == 'u' && !skip_unicode_escape(c))
				return false;
			continue;
		}
		const size_t step = utf8_character(c->text + c->at, c->size - c->at, NULL);
		if (step == 0)
			return report_error(c, "not UTF-8");
		c->at += step;
	}
}

static bool skip_word(struct json_cursor* c, const char* word) {
	const size_t n = strlen(word);
	if (c->size - c->at < n || memcmp(c->text + c->at, word, n) != 0)
		return report_error(c, "a JSON value was expected");
	c->at += n;
	return true;
}

static bool skip_value(struct json_cursor* c);

static bool skip_name(struct json_cursor* c) {
	return peek_byte(c) == '"' ? skip_string(c) : report_error(c, "a member's name in quotes was expected");
}

static bool skip_colon(struct json_cursor* c) {
	skip_space(c);
	if (peek_byte(c) != ':')
		return report_error(c, "':' was expected");
	c->at++;
	skip_space(c);
	return true;
}

static bool skip_container(struct json_cursor* c, char close) {
	if (++c->depth > JSON_DEPTH)
		return report_error(c, "nested too deep (at most 64 levels)");
	c->at++;
	skip_space(c);
	for (bool more = peek_byte(c) != close; more;) {
		if (close == '}' && (!skip_name(c) || !skip_colon(c)))
			return false;
		if (!skip_value(c))
			return false;
		skip_space(c);
		more = peek_byte(c) == ',';
		if (!more && peek_byte(c) != close)
			return report_error(c, close == '}' ? "',' or '}' was expected" : "',' or ']' was expected");
		if (more) {
			c->at++;
			skip_space(c);
		}
	}
	c->at++;
	c->depth--;
	return true;
}

static bool skip_value(struct json_cursor* c) {
	switch (peek_byte(c)) {
	case '{':
		return skip_container(c, '}');
	case '[':
		return skip_container(c, ']');
	case '"':
		return skip_string(c);
	case 't':
		return skip_word(c, "true");
	case 'f':
		return skip_word(c, "false");
	case 'n':
		return skip_word(c, "null");
	case -1:
		return report_error(c, "a JSON value was expected, but the text ends");
	default:
		if (peek_byte(c) != '-' && (peek_byte(c) < '0' || peek_byte(c) > '9'))
			return report_error(c, "a JSON value was expected");
		return skip_number(c);
	}
}

bool json_check(const char* text, size_t size, struct error* error) {
	struct json_cursor c = {.text = text, .size = size};
	skip_space(&c);
	bool good = skip_value(&c);
	skip_space(&c);
	if (good && c.at < c.size)
		good = report_error(&c, "more text follows the JSON value");
	return good || error_set(error, "not JSON, at byte %zu: %s", c.at + 1, c.wrong);
}

bool json_next(const char* text, size_t size, struct json_item* item) {
	struct json_cursor c = {.text = text, .size = size};
	skip_space(&c);
	const int open = peek_byte(&c);
	if (open != '{' && open != '[')
		return false;
	c.at = item->value ? (size_t)(item->value - text) + item->value_size : c.at + 1;
	skip_space(&c);
	if (item->value) {
		if (peek_byte(&c) != ',')
			return false;
		c.at++;
		skip_space(&c);
	}
	*item = (struct json_item){0};
	if (open == '{') {
		const size_t start = c.at;
		if (!skip_name(&c))
			return false;
		item->name = text + start + 1;
		item->name_size = c.at - start - 2;
		if (!skip_colon(&c))
			return false;
	}
	const size_t start = c.at;
	if (!skip_value(&c))
		return false;
	item->value = text + start;
	item->value_size = c.at - start;
	return true;
}

bool json_named(const struct json_item* item, const char* name) {
	return item->name && item->name_size == strlen(name) && memcmp(item->name, name, item->name_size) == 0;
}

const char* json_member(const char* text, size_t size, const char* name, size_t* value_size) {
	struct json_item item = {0};
	while (json_next(text, size, &item))
		if (json_named(&item, name)) {
			*value_size = item.value_size;
			return item.value;
		}
	return NULL;
}
