/* JSON to values and back, as Python's json module does it: whole numbers stay whole, members keep their
 * order. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/utf8.h"
#include "core/jinja/value.h"

/* ---- reading ------------------------------------------------------------------------------ */

struct reader {
	struct machine* machine;
	const char *at, *end, *start;
	const char* what;
	const char* trusted_member;
	const char* const* trusted_word;
	int nesting;
};

static struct value read_value(struct reader*, bool trusted);

static _Noreturn void fail_json(const struct reader* r, const char* wanted) {
	machine_fail(r->machine, "%s: byte %zu of the JSON: expected %s", r->what, (size_t)(r->at - r->start),
	             wanted);
}

static void skip_white(struct reader* r) {
	while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
		r->at++;
}

static bool take(struct reader* r, char c) {
	skip_white(r);
	if (r->at == r->end || *r->at != c)
		return false;
	r->at++;
	return true;
}

static unsigned read_hex(struct reader* r) {
	unsigned code = 0;
	for (int i = 0; i < 4; i++, r->at++) {
		const char c = r->at < r->end ? *r->at : 0;
		const int digit = hexadecimal_digit(c);
		if (digit < 0)
			fail_json(r, "four hexadecimal digits");
		code = code * 16 + (unsigned)digit;
	}
	return code;
}

static void read_escape(struct reader* r, struct builder* b) {
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	const char c = r->at < r->end ? *r->at++ : 0;
	const char* const found = c ? strchr(from, c) : NULL;
	if (found) {
		builder_add(b, &to[found - from], 1, false);
		return;
	}
	if (c != 'u')
		fail_json(r, "an escape");
	uint32_t code = read_hex(r);
	if (code >= 0xD800 && code < 0xDC00 && r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u') {
		const char* const back = r->at;
		r->at += 2;
		const uint32_t low = read_hex(r);
		if (low >= 0xDC00 && low < 0xE000)
			code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
		else
			r->at = back;
	}
	builder_code(b, code >= 0xD800 && code < 0xE000 ? 0xFFFD : code, false);
}

/* After the quote. */
static const struct string* read_string(struct reader* r) {
	struct builder b = {.machine = r->machine};
	for (;;) {
		const char* const from = r->at;
		while (r->at < r->end && *r->at != '"' && *r->at != '\\')
			r->at++;
		builder_add(&b, from, (size_t)(r->at - from), false);
		if (r->at == r->end)
			fail_json(r, "a quote");
		if (*r->at++ == '"')
			return builder_end(&b);
		read_escape(r, &b);
	}
}

static struct value read_number(struct reader* r) {
	char text[400];
	size_t n = 0;
	bool whole = true;
	for (; r->at < r->end && *r->at && strchr("+-.eE0123456789", *r->at) && n < sizeof text - 1; r->at++) {
		whole = whole && *r->at != '.' && *r->at != 'e' && *r->at != 'E';
		text[n++] = *r->at;
	}
	text[n] = 0;
	char* end = text;
	errno = 0;
	const int64_t integer = whole && n ? strtoll(text, &end, 10) : 0;
	if (whole && n && errno == ERANGE)
		machine_fail(r->machine, "%s: the whole number %.40s has more than 64 bits", r->what, text);
	const double number = whole ? 0 : strtod(text, &end);
	if (n == 0 || *end)
		fail_json(r, "a value");
	return whole ? value_integer(integer) : value_float(number);
}

static struct value read_list(struct reader* r) {
	struct value list = value_list(r->machine, LIST);
	if (take(r, ']'))
		return list;
	do
		list_add(r->machine, list.list, read_value(r, false));
	while (take(r, ','));
	if (!take(r, ']'))
		fail_json(r, "a comma or ]");
	return list;
}

static struct value read_object(struct reader* r) {
	struct value object = value_dict(r->machine);
	if (take(r, '}'))
		return object;
	do {
		if (!take(r, '"'))
			fail_json(r, "a member's name");
		struct string key = *read_string(r);
		const bool trusted = r->trusted_member && string_is(&key, r->trusted_member);
		key.foreign = true;
		if (!take(r, ':'))
			fail_json(r, "a colon");
		const struct value v = read_value(r, trusted);
		dict_set(r->machine, object.dict, value_string(machine_new(r->machine, &key, sizeof key)), v);
	} while (take(r, ','));
	if (!take(r, '}'))
		fail_json(r, "a comma or }");
	return object;
}

static struct value read_text(struct reader* r, bool trusted) {
	struct string s = *read_string(r);
	s.foreign = true;
	for (int i = 0; trusted && r->trusted_word[i]; i++)
		if (string_is(&s, r->trusted_word[i]))
			s.foreign = false;
	return value_string(machine_new(r->machine, &s, sizeof s));
}

static bool take_word(struct reader* r, const char* word) {
	const size_t size = strlen(word);
	if ((size_t)(r->end - r->at) < size || memcmp(r->at, word, size) != 0)
		return false;
	r->at += size;
	return true;
}

static struct value read_value(struct reader* r, bool trusted) {
	struct value v = value_none();
	if (++r->nesting > MACHINE_NESTING)
		machine_fail(r->machine, "%s: JSON nested deeper than %d", r->what, MACHINE_NESTING);
	machine_charge(r->machine, 0);
	if (take(r, '"'))
		v = read_text(r, trusted);
	else if (take(r, '['))
		v = read_list(r);
	else if (take(r, '{'))
		v = read_object(r);
	else if (take_word(r, "true"))
		v = value_boolean(true);
	else if (take_word(r, "false"))
		v = value_boolean(false);
	else if (!take_word(r, "null"))
		v = read_number(r);
	r->nesting--;
	return v;
}

struct value json_value(struct machine* m, const char* text, size_t size, const char* what,
                        const char* trusted_member, const char* const* trusted_word) {
	struct reader r = {.machine = m, .at = text, .end = text + size, .start = text, .what = what};
	r.trusted_member = trusted_member;
	r.trusted_word = trusted_word;
	const struct value v = read_value(&r, false);
	skip_white(&r);
	if (r.at != r.end)
		fail_json(&r, "its end");
	return v;
}

/* ---- writing ------------------------------------------------------------------------------ */

static void write_unit(struct builder* b, unsigned unit, bool foreign) {
	char text[8];
	snprintf(text, sizeof text, "\\u%04x", unit);
	builder_add(b, text, 6, foreign);
}

static void write_character(struct builder* b, uint32_t code, bool foreign) {
	static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
	const char* const found = code && code < 0x80 ? strchr(from, (int)code) : NULL;
	if (found) {
		const char text[2] = {'\\', to[found - from]};
		builder_add(b, text, 2, foreign);
	} else if (code >= 0x10000 && code <= 0x10FFFF) {
		write_unit(b, 0xD800 + ((code - 0x10000) >> 10), foreign);
		write_unit(b, 0xDC00 + ((code - 0x10000) & 0x3FF), foreign);
	} else {
		write_unit(b, code > 0x10FFFF ? 0xFFFD : code, foreign);
	}
}

static void write_string(struct builder* b, const struct string* s, bool ascii) {
	builder_words(b, "\"");
	uint32_t code;
	size_t kept = 0, at = 0;
	while (at < s->size) {
		const size_t length = string_character(s, at, &code);
		if (code < 0x20 || code == '"' || code == '\\' || (ascii && code > 0x7E)) {
			builder_part(b, s, kept, at);
			write_character(b, code, string_foreign_at(s, at));
			kept = at + length;
		}
		at += length;
	}
	builder_part(b, s, kept, at);
	builder_words(b, "\"");
}

static void new_line(struct builder* b, const struct json_style* style, int level) {
	if (!style->indent)
		return;
	builder_words(b, "\n");
	for (int i = 0; i < level; i++)
		builder_string(b, style->indent);
}

static void write_at(struct builder*, struct value, const struct json_style*, int level);

static void write_list(struct builder* b, const struct list* list, const struct json_style* style,
                       int level) {
	builder_words(b, "[");
	for (int i = 0; i < list->n; i++) {
		if (i)
			builder_string(b, style->comma);
		new_line(b, style, level + 1);
		write_at(b, list->item[i], style, level + 1);
	}
	if (list->n)
		new_line(b, style, level);
	builder_words(b, "]");
}

static void write_key(struct builder* b, struct value key, bool ascii) {
	if (key.kind == STRING) {
		write_string(b, key.string, ascii);
		return;
	}
	if (key.kind == TUPLE)
		machine_fail(b->machine, "keys must be str, int, float, bool or None, not tuple");
	static const struct json_style plain = {0};
	builder_words(b, "\"");
	write_at(b, key, &plain, 0);
	builder_words(b, "\"");
}

/* By insertion: members are few, and every move is a step. */
static const struct entry* sorted(struct machine* m, const struct dict* d) {
	struct entry* const entry = machine_alloc(m, (size_t)d->n * sizeof *entry);
	for (int i = 0; i < d->n; i++) {
		int at = i;
		for (; at > 0 && value_order(m, d->entry[i].key, entry[at - 1].key, "<") < 0; at--) {
			machine_charge(m, sizeof *entry);
			entry[at] = entry[at - 1];
		}
		entry[at] = d->entry[i];
	}
	return entry;
}

static void write_dict(struct builder* b, const struct dict* d, const struct json_style* style, int level) {
	const struct entry* const entry = style->sort ? sorted(b->machine, d) : d->entry;
	builder_words(b, "{");
	for (int i = 0; i < d->n; i++) {
		if (i)
			builder_string(b, style->comma);
		new_line(b, style, level + 1);
		write_key(b, entry[i].key, style->ascii);
		builder_string(b, style->colon);
		write_at(b, entry[i].value, style, level + 1);
	}
	if (d->n)
		new_line(b, style, level);
	builder_words(b, "}");
}

static void write_float(struct builder* b, double d) {
	char text[40];
	float_text(d, text);
	builder_words(b, isnan(d) ? "NaN" : isinf(d) ? (d < 0 ? "-Infinity" : "Infinity") : text);
}

static void write_at(struct builder* b, struct value v, const struct json_style* style, int level) {
	machine_enter(b->machine);
	switch (v.kind) {
	case NONE:
		builder_words(b, "null");
		break;
	case BOOLEAN:
		builder_words(b, v.boolean ? "true" : "false");
		break;
	case INTEGER:
		value_write_repr(b, v);
		break;
	case FLOAT:
		write_float(b, v.number);
		break;
	case STRING:
		write_string(b, v.string, style->ascii);
		break;
	case LIST:
	case TUPLE:
		write_list(b, v.list, style, level);
		break;
	case DICT:
		write_dict(b, v.dict, style, level);
		break;
	default:
		machine_fail(b->machine, "Object of type %s is not JSON serializable", value_type(v));
	}
	machine_leave(b->machine);
}

void value_write_json(struct builder* b, struct value v, const struct json_style* style) {
	write_at(b, v, style, 0);
}
