/* Prints values as Python's str(), repr() and json.dumps do. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

#include "core/files/utf8.h"
#include "core/jinja/value.h"

/* The fewest digits that read back as the same number, in Python's form. */
static int float_text(double d, char out[40]) {
	if (!isfinite(d))
		return snprintf(out, 40, "%s", isnan(d) ? "nan" : d < 0 ? "-inf" : "inf");
	char digits[40];
	for (int precision = 0; precision < 17; precision++) {
		snprintf(digits, sizeof digits, "%.*e", precision, d);
		const double back = strtod(digits, NULL);
		if (!(back < d) && !(back > d))
			break;
	}
	const char* const mark = strchr(digits, 'e');
	const int exponent = atoi(mark + 1);
	const int n = (int)(mark - digits) - (digits[0] == '-') - (strchr(digits, '.') ? 1 : 0);
	if (exponent < -4 || exponent >= 16)
		return snprintf(out, 40, "%.*se%c%02d", (int)(mark - digits), digits, exponent < 0 ? '-' : '+',
		                abs(exponent));
	const int decimals = n - 1 - exponent;
	return snprintf(out, 40, "%.*f", decimals < 1 ? 1 : decimals, d);
}

/* Characters that repr() writes as they are. */
static bool is_printable(uint32_t code) {
	static const uint32_t hidden = UTF8_CATEGORY(CC) | UTF8_CATEGORY(CF) | UTF8_CATEGORY(CS) |
	                               UTF8_CATEGORY(CO) | UTF8_CATEGORY(CN) | UTF8_CATEGORY(ZL) |
	                               UTF8_CATEGORY(ZP) | UTF8_CATEGORY(ZS);
	return code == ' ' || utf8_category(code) & ~hidden;
}

/* JSON has a letter for \f and \b, too, and writes all others as UTF-16. */
static void write_escape(struct builder* b, uint32_t code, bool json, bool foreign) {
	static const char from[] = "\"'\\\n\r\t\f\b", to[] = "\"'\\nrtfb";
	const char* const found = code && code < 0x80 ? strchr(from, (int)code) : NULL;
	char text[16];
	if (found && (json || (code != '\f' && code != '\b')))
		snprintf(text, sizeof text, "\\%c", to[found - from]);
	else if (json && code >= 0x10000 && code <= 0x10FFFF)
		snprintf(text, sizeof text, "\\u%04x\\u%04x", (unsigned)(0xD800 + ((code - 0x10000) >> 10)),
		         (unsigned)(0xDC00 + ((code - 0x10000) & 0x3FF)));
	else if (json)
		snprintf(text, sizeof text, "\\u%04x", (unsigned)(code > 0x10FFFF ? 0xFFFD : code));
	else
		snprintf(text, sizeof text,
		         code < 0x100     ? "\\x%02x"
		         : code < 0x10000 ? "\\u%04x"
		                          : "\\U%08x",
		         (unsigned)(code > 0x10FFFF ? code & 0xFF : code));
	builder_add(b, text, strlen(text), foreign);
}

static void write_quoted(struct builder* b, const struct string* s, const struct style* style) {
	const bool doubled = s->size && memchr(s->data, '\'', s->size) && !memchr(s->data, '"', s->size);
	const char quote = style->json || doubled ? '"' : '\'';
	builder_add(b, &quote, 1, false);
	uint32_t code;
	size_t written = 0;
	for (size_t at = 0, length; at < s->size; at += length) {
		length = string_character(s, at, &code);
		const bool plain = style->json ? code >= 0x20 && (!style->ascii || code <= 0x7E) : is_printable(code);
		if (plain && code != '\\' && code != (uint32_t)quote)
			continue;
		builder_part(b, s, written, at);
		write_escape(b, code, style->json, string_foreign_at(s, at));
		written = at + length;
	}
	builder_part(b, s, written, s->size);
	builder_add(b, &quote, 1, false);
}

/* ---- values ------------------------------------------------------------------------------- */

static void write_at(struct builder*, struct value, const struct style*, int level);

static void new_line(struct builder* b, const struct style* style, int level) {
	if (!style->indent)
		return;
	builder_words(b, "\n");
	for (int i = 0; i < level; i++)
		builder_string(b, style->indent);
}

/* JSON's keys are strings: other keys are written as one. */
static void write_key(struct builder* b, struct value key, const struct style* style) {
	const bool quoted = style->json && key.kind != STRING;
	if (quoted && key.kind == TUPLE)
		machine_fail(b->machine, "keys must be str, int, float, bool or None, not tuple");
	builder_words(b, quoted ? "\"" : "");
	write_at(b, key, style, 0);
	builder_words(b, quoted ? "\"" : "");
}

/* The items of a list, or of a dict if there is one. */
static void write_items(struct builder* b, const struct list* list, const struct dict* dict,
                        const struct style* style, int level, const char* open, const char* close) {
	const int n = dict ? dict->n : list->n;
	builder_words(b, open);
	for (int i = 0; i < n; i++) {
		if (i)
			builder_string(b, style->comma);
		new_line(b, style, level + 1);
		if (dict) {
			write_key(b, dict->entry[i].key, style);
			builder_string(b, style->colon);
		}
		write_at(b, dict ? dict->entry[i].value : list->item[i], style, level + 1);
	}
	if (n)
		new_line(b, style, level);
	builder_words(b, close);
}

static void write_dict(struct builder* b, const struct dict* d, const struct style* style, int level) {
	struct dict sorted = *d;
	if (style->sort && d->n) {
		sorted.entry = machine_new(b->machine, d->entry, (size_t)d->n * sizeof *d->entry);
		value_sort(b->machine, sorted.entry, d->n, false);
	}
	write_items(b, NULL, &sorted, style, level, "{", "}");
}

static void write_range(struct builder* b, const struct list* list) {
	char text[80];
	const int64_t first = list->n ? list->item[0].integer : 0;
	const int64_t step = list->n > 1 ? list->item[1].integer - first : 1;
	const int n = snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64, first, first + step * list->n);
	snprintf(text + n, sizeof text - (size_t)n, step == 1 ? ")" : ", %" PRId64 ")", step);
	builder_words(b, text);
}

static void write_number(struct builder* b, struct value v, bool json) {
	char text[40];
	if (json && v.kind == FLOAT && !isfinite(v.number))
		snprintf(text, sizeof text, "%s", isnan(v.number) ? "NaN" : v.number < 0 ? "-Infinity" : "Infinity");
	else if (v.kind == FLOAT)
		float_text(v.number, text);
	else
		snprintf(text, sizeof text, "%" PRId64, v.integer);
	builder_words(b, text);
}

static void write_at(struct builder* b, struct value v, const struct style* style, int level) {
	const bool json = style->json, tuple = v.kind == TUPLE && !json;
	machine_enter(b->machine);
	if (v.kind == NONE)
		builder_words(b, json ? "null" : "None");
	else if (v.kind == BOOLEAN)
		builder_words(b, json ? (v.boolean ? "true" : "false") : v.boolean ? "True" : "False");
	else if (value_is_number(v))
		write_number(b, v, json);
	else if (v.kind == STRING) {
		const bool markup = v.string->markup && !json;
		builder_words(b, markup ? "Markup(" : "");
		write_quoted(b, v.string, style);
		builder_words(b, markup ? ")" : "");
	} else if (v.kind == LIST || v.kind == TUPLE)
		write_items(b, v.list, NULL, style, level, tuple ? "(" : "[",
		            !tuple           ? "]"
		            : v.list->n == 1 ? ",)"
		                             : ")");
	else if (v.kind == DICT)
		write_dict(b, v.dict, style, level);
	else if (json)
		machine_fail(b->machine, "Object of type %s is not JSON serializable", value_type(v));
	else if (v.kind == UNDEFINED)
		builder_words(b, "Undefined");
	else if (v.kind == RANGE)
		write_range(b, v.list);
	else if (v.kind == VIEW) {
		builder_words(b, v.list->name);
		write_items(b, v.list, NULL, style, level, "([", "])");
	} else if (v.kind == NAMESPACE) {
		builder_words(b, "<Namespace ");
		write_dict(b, v.dict, style, level);
		builder_words(b, ">");
	} else
		machine_fail(b->machine, "a value of type '%s' has no text", value_type(v));
	machine_leave(b->machine);
}

void value_write_json(struct builder* b, struct value v, const struct style* style) {
	write_at(b, v, style, 0);
}

static void value_write_repr(struct builder* b, struct value v) {
	static const struct string comma = {.data = ", ", .size = 2}, colon = {.data = ": ", .size = 2};
	static const struct style plain = {.comma = &comma, .colon = &colon};
	write_at(b, v, &plain, 0);
}

void value_write(struct builder* b, struct value v) {
	if (v.kind == STRING)
		builder_string(b, v.string);
	else if (v.kind != UNDEFINED)
		value_write_repr(b, v);
}

const struct string* value_show(struct machine* m, struct value v) {
	if (v.kind == STRING)
		return v.string;
	struct builder b = {.machine = m};
	value_write(&b, v);
	return builder_end(&b);
}
