/* Formats values: Python's % operator and str.format. Numbers take printf's flags, widths and precisions.
 * Texts of a width, other alignments and members of values are refused: no known chat template uses them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/jinja/library.h"

/* The position of the first stop, or the end. */
static size_t span_without(const struct string* s, size_t at, const char* stops) {
	while (at < s->size && !(s->data[at] && strchr(stops, s->data[at])))
		at++;
	return at;
}

/* A number as printf writes it: [+ and 0] [width] [.precision] type, with at most two digits each. */
static void write_number(struct builder* b, struct value v, const struct string* spec) {
	char given[12] = "", pattern[24], text[512];
	if (spec->size < sizeof given)
		memcpy(given, spec->data, spec->size);
	const size_t flags = strspn(given, "+0"), width = strspn(given + flags, "0123456789");
	const size_t point = given[flags + width] == '.';
	const size_t precision = point ? strspn(given + flags + width + 1, "0123456789") : 0;
	const char* const type = given + flags + width + point + precision;
	const bool real = *type && strchr("eEfFgG", *type) && value_is_number(v);
	const bool whole = *type && strchr("dxXo", *type) && !point && value_is_whole(v) &&
	                   (*type == 'd' || value_whole(v) >= 0);
	if (strlen(given) != spec->size || !(real || whole) || type[1] || width > 2 || precision > 2)
		machine_fail(b->machine, "the format '%.*s' of a value of type '%s' is not known here", EXCERPT(spec),
		             value_type(v));
	snprintf(pattern, sizeof pattern, "%%%.*s%s%s", (int)(type - given), given, real ? "" : "ll", type);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	if (real)
		snprintf(text, sizeof text, pattern, value_number(v));
	else
		snprintf(text, sizeof text, pattern, (long long)value_whole(v));
#pragma GCC diagnostic pop
	builder_words(b, text);
}

/* ---- % ------------------------------------------------------------------------------------ */

static void write_operand(struct builder* b, const struct string* spec, struct value v) {
	if (string_is(spec, "s")) {
		value_write(b, v);
		return;
	}
	if (v.kind == FLOAT && spec->data[spec->size - 1] == 'd')
		v = value_integer((int64_t)fmax(-9e18, fmin(9e18, v.number)));
	write_number(b, v, spec);
}

struct value format_percent(struct machine* m, const struct string* s, struct value operands) {
	struct builder b = {.machine = m};
	const struct list one = {.item = &operands, .n = 1};
	const struct list* const place = operands.kind == TUPLE ? operands.list : &one;
	int used = 0;
	for (size_t at = 0; at < s->size;) {
		const size_t percent = span_without(s, at, "%");
		builder_part(&b, s, at, percent);
		if (percent == s->size)
			break;
		at = percent + 1;
		while (at < s->size && s->data[at] && strchr("+-# 0123456789.", s->data[at]))
			at++;
		at += at < s->size;
		const struct string* const spec = string_part(m, s, percent + 1, at);
		if (string_is(spec, "%"))
			builder_words(&b, "%");
		else if (used < place->n && spec->size)
			write_operand(&b, spec, place->item[used++]);
		else
			machine_fail(m, spec->size ? "not enough arguments for format string" : "incomplete format");
	}
	if (used < place->n)
		machine_fail(m, "not all arguments converted during string formatting");
	return value_string(builder_end(&b));
}

/* ---- braces ------------------------------------------------------------------------------- */

struct fields {
	const struct arguments* arguments;
	int next;      /* the number of the next {} */
	bool numbered; /* some have a number of their own */
};

/* The value of a field: the next place without a name, the place of that number, or the argument of that
 * name. */
static struct value field_value(struct machine* m, const struct string* name, struct fields* f) {
	int place = 0;
	size_t digits = 0;
	while (digits < name->size && digits < 4 && is_digit(name->data[digits]))
		place = 10 * place + (name->data[digits++] - '0');
	if (digits < name->size) {
		const struct value* const named = dict_find_name(m, &f->arguments->named, name);
		if (!named)
			machine_fail(m, "format names '%.*s', which is not given or not known here", EXCERPT(name));
		return *named;
	}
	f->numbered = f->numbered || name->size > 0;
	place = name->size > 0 ? place : f->next++;
	if (f->numbered && f->next)
		machine_fail(m, "a format that numbers some of its fields and not others");
	if (place >= f->arguments->place.n)
		machine_fail(m, "Replacement index %d out of range for positional args tuple", place);
	return f->arguments->place.item[place];
}

struct value format_braces(struct machine* m, const struct string* s, const struct arguments* arguments) {
	struct builder b = {.machine = m};
	struct fields f = {.arguments = arguments};
	for (size_t at = 0; at < s->size;) {
		const size_t brace = span_without(s, at, "{}");
		builder_part(&b, s, at, brace);
		if (brace == s->size)
			break;
		at = brace + 1;
		if (at < s->size && s->data[at] == s->data[brace]) { /* doubled, it is itself */
			builder_part(&b, s, brace, at);
			at++;
			continue;
		}
		const size_t end = span_without(s, at, "{}");
		if (s->data[brace] == '}' || end == s->size || s->data[end] == '{')
			machine_fail(m, "a format with an unbalanced or a nested brace");
		const size_t colon = span_without(s, at, "}:");
		const struct value v = field_value(m, string_part(m, s, at, colon), &f);
		if (colon < end)
			write_number(&b, v, string_part(m, s, colon + 1, end));
		else
			value_write(&b, v);
		at = end + 1;
	}
	return value_string(builder_end(&b));
}
