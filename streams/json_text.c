/* JSON by the letter of RFC 8259: one recursive descent over bytes that makes nothing. */
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

struct cursor {
	const char* text;
	size_t size, at;
	int depth;
	const char* wrong; /* what is wrong at `at`, once something is */
};

static bool wrong(struct cursor* c, const char* what) {
	if (!c->wrong)
		c->wrong = what;
	return false;
}

static int peek(const struct cursor* c) { return c->at < c->size ? (unsigned char)c->text[c->at] : -1; }

static void skip_space(struct cursor* c) {
	while (c->at < c->size && strchr(" \t\r\n", c->text[c->at]) && c->text[c->at])
		c->at++;
}

static bool skip_digits(struct cursor* c) {
	if (peek(c) < '0' || peek(c) > '9')
		return wrong(c, "a digit was expected");
	while (peek(c) >= '0' && peek(c) <= '9')
		c->at++;
	return true;
}

static bool skip_number(struct cursor* c) {
	if (peek(c) == '-')
		c->at++;
	if (peek(c) == '0')
		c->at++;
	else if (!skip_digits(c))
		return false;
	if (peek(c) == '.') {
		c->at++;
		if (!skip_digits(c))
			return false;
	}
	if (peek(c) == 'e' || peek(c) == 'E') {
		c->at++;
		if (peek(c) == '+' || peek(c) == '-')
			c->at++;
		return skip_digits(c);
	}
	return true;
}

/* Four hexadecimal digits at the cursor, or -1. */
static int hex4(struct cursor* c) {
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

static bool skip_unicode_escape(struct cursor* c) {
	const int first = hex4(c);
	if (first < 0)
		return wrong(c, "\\u needs four hexadecimal digits");
	if (first == 0)
		return wrong(c, "\\u0000 is not supported in a text");
	if (first >= 0xdc00 && first <= 0xdfff)
		return wrong(c, "a low surrogate stands alone");
	if (first < 0xd800 || first > 0xdbff)
		return true;
	if (c->size - c->at >= 2 && memcmp(c->text + c->at, "\\u", 2) == 0) {
		c->at += 2;
		const int second = hex4(c);
		if (second >= 0xdc00 && second <= 0xdfff)
			return true;
	}
	return wrong(c, "a high surrogate stands alone");
}

static bool skip_string(struct cursor* c) {
	c->at++;
	for (;;) {
		const int b = peek(c);
		if (b < 0)
			return wrong(c, "the string does not end");
		if (b < 0x20)
			return wrong(c, "a control character inside a string");
		if (b == '"') {
			c->at++;
			return true;
		}
		if (b == '\\') {
			c->at++;
			const int e = peek(c);
			if (e <= 0 || !strchr("\"\\/bfnrtu", e)) /* strchr finds the NUL at a string's end too */
				return wrong(c, "an unknown escape");
			c->at++;
			if (e == 'u' && !skip_unicode_escape(c))
				return false;
			continue;
		}
		const size_t step = utf8_character(c->text + c->at, c->size - c->at, NULL);
		if (step == 0)
			return wrong(c, "not UTF-8");
		c->at += step;
	}
}

static bool skip_word(struct cursor* c, const char* word) {
	const size_t n = strlen(word);
	if (c->size - c->at < n || memcmp(c->text + c->at, word, n) != 0)
		return wrong(c, "a JSON value was expected");
	c->at += n;
	return true;
}

static bool skip_value(struct cursor* c);

static bool skip_name(struct cursor* c) {
	return peek(c) == '"' ? skip_string(c) : wrong(c, "a member's name in quotes was expected");
}

static bool skip_colon(struct cursor* c) {
	skip_space(c);
	if (peek(c) != ':')
		return wrong(c, "':' was expected");
	c->at++;
	skip_space(c);
	return true;
}

static bool skip_container(struct cursor* c, char close) {
	if (++c->depth > JSON_DEPTH)
		return wrong(c, "nested too deep (at most 64 levels)");
	c->at++;
	skip_space(c);
	for (bool more = peek(c) != close; more;) {
		if (close == '}' && (!skip_name(c) || !skip_colon(c)))
			return false;
		if (!skip_value(c))
			return false;
		skip_space(c);
		more = peek(c) == ',';
		if (!more && peek(c) != close)
			return wrong(c, close == '}' ? "',' or '}' was expected" : "',' or ']' was expected");
		if (more) {
			c->at++;
			skip_space(c);
		}
	}
	c->at++;
	c->depth--;
	return true;
}

static bool skip_value(struct cursor* c) {
	switch (peek(c)) {
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
		return wrong(c, "a JSON value was expected, the text ends");
	default:
		if (peek(c) != '-' && (peek(c) < '0' || peek(c) > '9'))
			return wrong(c, "a JSON value was expected");
		return skip_number(c);
	}
}

bool json_check(const char* text, size_t size, struct error* error) {
	struct cursor c = {.text = text, .size = size};
	skip_space(&c);
	bool good = skip_value(&c);
	skip_space(&c);
	if (good && c.at < c.size)
		good = wrong(&c, "something follows the JSON value");
	return good || error_set(error, "not JSON, at byte %zu: %s", c.at + 1, c.wrong);
}

bool json_next(const char* text, size_t size, struct json_item* item) {
	struct cursor c = {.text = text, .size = size};
	skip_space(&c);
	const int open = peek(&c);
	if (open != '{' && open != '[')
		return false;
	c.at = item->value ? (size_t)(item->value - text) + item->value_size : c.at + 1;
	skip_space(&c);
	if (item->value) {
		if (peek(&c) != ',')
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
