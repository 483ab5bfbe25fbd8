/* Values into a text by a format: Python's % operator and str.format. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/jinja/library.h"

/* [[fill]align][sign][#][0][width][,][.precision][type] */
struct spec {
	uint32_t fill;
	bool fill_foreign;
	char align; /* < > ^ = or 0 */
	char sign;  /* + or space or 0 */
	bool comma;
	int width, precision; /* precision -1: none */
	char type;
};
enum { WIDEST = 1 << 16 };

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static int read_count(struct machine* m, const struct string* s, size_t* at, size_t end) {
	int n = 0;
	for (; *at < end && is_digit(s->data[*at]); ++*at) {
		n = n * 10 + (s->data[*at] - '0');
		if (n > WIDEST)
			machine_fail(m, "a format wider than %d", WIDEST);
	}
	return n;
}

/* ---- one value ---------------------------------------------------------------------------- */

static void pad(struct builder* b, const struct string* text, const struct spec* spec, char align) {
	int64_t room = spec->width - string_length(b->machine, text);
	room = room > 0 ? room : 0;
	const size_t sign = align == '=' && text->size && (text->data[0] == '-' || text->data[0] == '+');
	const int64_t left = align == '<' ? 0 : align == '^' ? room / 2 : room;
	builder_part(b, text, 0, sign);
	for (int64_t i = 0; i < left; i++)
		builder_code(b, spec->fill, spec->fill_foreign);
	builder_part(b, text, sign, text->size);
	for (int64_t i = left; i < room; i++)
		builder_code(b, spec->fill, spec->fill_foreign);
}

/* Digits with commas between the thousands of the whole part. */
static void group(char* text, size_t capacity) {
	char out[400];
	size_t digits = 0, from = text[0] == '-' || text[0] == '+' || text[0] == ' ', n = 0;
	while (is_digit(text[from + digits]))
		digits++;
	for (size_t i = 0; text[i] && n + 2 < sizeof out; i++) {
		const bool inside = i > from && i < from + digits;
		if (inside && (from + digits - i) % 3 == 0)
			out[n++] = ',';
		out[n++] = text[i];
	}
	out[n] = 0;
	snprintf(text, capacity, "%s", out);
}

static void write_integer(struct machine* m, int64_t v, const struct spec* spec, char* out, size_t size) {
	const uint64_t plain = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	const char* const sign = v < 0 ? "-" : spec->sign == '+' ? "+" : spec->sign == ' ' ? " " : "";
	if (spec->type == 'x')
		snprintf(out, size, "%s%" PRIx64, sign, plain);
	else if (spec->type == 'X')
		snprintf(out, size, "%s%" PRIX64, sign, plain);
	else if (spec->type == 'o')
		snprintf(out, size, "%s%" PRIo64, sign, plain);
	else if (spec->type == 0 || strchr("diun", spec->type))
		snprintf(out, size, "%s%" PRIu64, sign, plain);
	else
		machine_fail(m, "the format type '%c' is not known here", spec->type);
}

static void write_double(struct machine* m, double v, const struct spec* spec, char* out, size_t size) {
	const char type = spec->type == '%' ? 'f' : spec->type;
	const int precision = spec->precision < 0 ? 6 : spec->precision;
	char pattern[16];
	if (precision > 100 || (type && !strchr("eEfFgGn", type)) || fabs(v) > 1e200)
		machine_fail(m, "the format of a number is not known here");
	if (spec->type == 0 && spec->precision < 0) {
		float_text(v, out);
		return;
	}
	snprintf(pattern, sizeof pattern, "%%%s.*%c", spec->sign == '+' ? "+" : "",
	         type == 'n' || !type ? 'g' : type);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	const int n = snprintf(out, size, pattern, precision, spec->type == '%' ? v * 100 : v);
#pragma GCC diagnostic pop
	if (spec->type == '%')
		snprintf(out + n, size - (size_t)n, "%%");
}

static void write_value(struct builder* b, struct value v, struct spec spec) {
	struct machine* const m = b->machine;
	char text[400];
	if (v.kind == STRING) {
		const struct string* s = v.string;
		if (spec.type && spec.type != 's')
			machine_fail(m, "Unknown format code '%c' for object of type 'str'", spec.type);
		if (spec.precision >= 0)
			s = string_part(m, s, 0, string_offset(m, s, spec.precision));
		pad(b, s, &spec, spec.align ? spec.align : '<');
		return;
	}
	const bool number = value_is_number(v);
	const bool plain = !spec.type && spec.precision < 0 && !spec.comma && !spec.sign;
	if (!number || (v.kind == BOOLEAN && plain)) {
		if (!plain || spec.width)
			machine_fail(m, "unsupported format string passed to %s.__format__", value_type(v));
		value_write(b, v);
		return;
	}
	if (v.kind == FLOAT || (spec.type && strchr("eEfFgG%", spec.type)) || spec.precision >= 0)
		write_double(m, value_number(v), &spec, text, sizeof text);
	else
		write_integer(m, v.kind == BOOLEAN ? v.boolean : v.integer, &spec, text, sizeof text);
	if (spec.comma)
		group(text, sizeof text);
	pad(b, string_of(m, text), &spec, spec.align ? spec.align : '>');
}

/* ---- % ------------------------------------------------------------------------------------ */

struct operands {
	struct value all; /* what stands right of % */
	int used;
};

static struct value next_operand(struct machine* m, struct operands* o) {
	const int n = o->all.kind == TUPLE ? o->all.list->n : 1;
	if (o->used >= n)
		machine_fail(m, "not enough arguments for format string");
	o->used++;
	return o->all.kind == TUPLE ? o->all.list->item[o->used - 1] : o->all;
}

/* (name) after the %: the operand of that name. */
static struct value named_operand(struct machine* m, const struct string* s, size_t* at, struct operands* o) {
	const struct string close = {.data = ")", .size = 1};
	const size_t end = string_find(m, s, &close, *at, s->size);
	if (end == SIZE_MAX || o->all.kind != DICT)
		machine_fail(m, "format requires a mapping");
	const struct value* const v = dict_find_name(m, o->all.dict, string_part(m, s, *at + 1, end));
	if (!v)
		machine_fail(m, "a format names what the mapping does not have");
	*at = end + 1;
	o->used = 1;
	return *v;
}

static void write_percent(struct builder* b, const struct string* s, size_t* at, struct operands* o) {
	struct machine* const m = b->machine;
	struct spec spec = {.fill = ' ', .precision = -1};
	struct value v = {.kind = ABSENT};
	if (*at < s->size && s->data[*at] == '(')
		v = named_operand(m, s, at, o);
	for (; *at < s->size && strchr("-+ 0#", s->data[*at]) && s->data[*at]; ++*at) {
		const char flag = s->data[*at];
		spec.align = flag == '-' ? '<' : flag == '0' && !spec.align ? '=' : spec.align;
		spec.sign = flag == '+' || (flag == ' ' && !spec.sign) ? flag : spec.sign;
	}
	spec.fill = spec.align == '=' ? '0' : ' ';
	spec.align = spec.align ? spec.align : '>';
	spec.width = read_count(m, s, at, s->size);
	if (*at < s->size && s->data[*at] == '.') {
		++*at;
		spec.precision = read_count(m, s, at, s->size);
	}
	const char type = *at < s->size ? s->data[(*at)++] : 0;
	if (type == '%') {
		builder_words(b, "%");
		return;
	}
	if (v.kind == ABSENT)
		v = next_operand(m, o);
	if (type == 's' || type == 'r') {
		struct builder text = {.machine = m};
		(type == 's' ? value_write : value_write_repr)(&text, v);
		v = value_string(builder_end(&text));
		spec.type = 's';
	} else if (type && strchr("diuxXoeEfFgG", type) && value_is_number(v)) {
		spec.type = type;
		if (strchr("diu", type) && v.kind == FLOAT)
			v = value_integer((int64_t)fmax(-9e18, fmin(9e18, v.number)));
	} else {
		machine_fail(m, "the format %%%c of a value of type '%s' is not known here", type > ' ' ? type : '?',
		             value_type(v));
	}
	write_value(b, v, spec);
}

struct value format_percent(struct machine* m, const struct string* s, struct value operands) {
	struct builder b = {.machine = m};
	struct operands o = {.all = operands};
	size_t kept = 0;
	for (size_t at = 0; at < s->size;) {
		if (s->data[at] != '%') {
			at++;
			continue;
		}
		builder_part(&b, s, kept, at++);
		write_percent(&b, s, &at, &o);
		kept = at;
	}
	builder_part(&b, s, kept, s->size);
	if (operands.kind != DICT && o.used < (operands.kind == TUPLE ? operands.list->n : 1))
		machine_fail(m, "not all arguments converted during string formatting");
	return value_string(builder_end(&b));
}

/* ---- braces ------------------------------------------------------------------------------- */

static struct spec read_spec(struct machine* m, const struct string* s, size_t at, size_t end) {
	struct spec spec = {.fill = ' ', .precision = -1};
	uint32_t code = 0;
	const size_t first = at < end ? string_character(s, at, &code) : 0;
	if (first && at + first < end && strchr("<>^=", s->data[at + first])) {
		spec.fill = code;
		spec.fill_foreign = string_foreign_at(s, at);
		spec.align = s->data[at + first];
		at += first + 1;
	} else if (at < end && strchr("<>^=", s->data[at])) {
		spec.align = s->data[at++];
	}
	if (at < end && strchr("+- ", s->data[at]))
		spec.sign = s->data[at++];
	if (at < end && s->data[at] == '0') {
		spec.fill = spec.align ? spec.fill : '0';
		spec.align = spec.align ? spec.align : '=';
		at++;
	}
	spec.width = read_count(m, s, &at, end);
	if (at < end && s->data[at] == ',') {
		spec.comma = true;
		at++;
	}
	if (at < end && s->data[at] == '.') {
		at++;
		spec.precision = read_count(m, s, &at, end);
	}
	if (at < end)
		spec.type = s->data[at++];
	if (at != end)
		machine_fail(m, "Invalid format specifier");
	return spec;
}

struct fields {
	const struct arguments* arguments;
	int next;      /* the number of the next {} */
	bool numbered; /* some have a number of their own */
};

/* The first part of a field's name: a place, a name, or nothing. */
static struct value field_root(struct machine* m, const struct string* s, size_t at, size_t end,
                               struct fields* f) {
	if (at == end || is_digit(s->data[at])) {
		f->numbered = f->numbered || at != end;
		const int i = at == end ? f->next++ : read_count(m, s, &at, end);
		if (f->numbered && f->next)
			machine_fail(m, "a format that numbers some of its fields and not others");
		if (i >= f->arguments->n)
			machine_fail(m, "Replacement index %d out of range for positional args tuple", i);
		return f->arguments->value[i];
	}
	const struct string* const name = string_part(m, s, at, end);
	for (int i = 0; i < f->arguments->n_keywords; i++)
		if (string_equal(m, f->arguments->keyword[i].name, name))
			return f->arguments->keyword[i].value;
	machine_fail(m, "format names '%.*s', which is not given", EXCERPT(name));
}

static size_t span_without(const struct string* s, size_t at, size_t end, const char* stops) {
	while (at < end && !(s->data[at] && strchr(stops, s->data[at])))
		at++;
	return at;
}

static struct value field_value(struct machine* m, const struct string* s, size_t at, size_t end,
                                struct fields* f) {
	size_t stop = span_without(s, at, end, ".[");
	struct value v = field_root(m, s, at, stop, f);
	while (stop < end) {
		const bool index = s->data[stop] == '[';
		at = stop + 1;
		stop = span_without(s, at, end, index ? "]" : ".[");
		const struct string* const name = string_part(m, s, at, stop);
		v = index ? value_path(m, v, name) : value_attribute(m, v, name);
		stop += index && stop < end;
	}
	return v;
}

static void write_field(struct builder* b, const struct string* s, size_t at, size_t end, struct fields* f) {
	struct machine* const m = b->machine;
	const size_t name = span_without(s, at, end, "!:");
	struct value v = field_value(m, s, at, name, f);
	at = name;
	if (at + 1 < end && s->data[at] == '!') {
		struct builder text = {.machine = m};
		(s->data[at + 1] == 's' ? value_write : value_write_repr)(&text, v);
		v = value_string(builder_end(&text));
		at += 2;
	}
	if (at < end && s->data[at] == ':')
		at++;
	write_value(b, v, read_spec(m, s, at, end));
}

struct value format_braces(struct machine* m, const struct string* s, const struct arguments* arguments) {
	struct builder b = {.machine = m};
	struct fields f = {.arguments = arguments};
	for (size_t at = 0; at < s->size;) {
		const size_t brace = span_without(s, at, s->size, "{}");
		builder_part(&b, s, at, brace);
		if (brace == s->size)
			break;
		at = brace + 1;
		if (at < s->size && s->data[at] == s->data[brace]) { /* doubled, it is itself */
			builder_part(&b, s, brace, at);
			at++;
			continue;
		}
		const size_t end = span_without(s, at, s->size, "{}");
		if (s->data[brace] == '}' || end == s->size || s->data[end] == '{')
			machine_fail(m, "a format with an unbalanced or a nested brace");
		write_field(&b, s, at, end, &f);
		at = end + 1;
	}
	return value_string(builder_end(&b));
}
