/* Formats values: Python's % operator and str.format. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/jinja/library.h"

/* [[fill]align][sign][0][width][.precision][type] */
struct spec {
	uint32_t fill;
	bool fill_foreign;
	char align;           /* < > ^ = or 0 */
	char sign;            /* + or space or 0 */
	int width, precision; /* precision -1: none */
	char type;
};
enum { WIDEST = 1 << 16 };

static int read_count(struct machine* m, const struct string* s, size_t* at, size_t end) {
	int n = 0;
	for (; *at < end && is_digit(s->data[*at]); ++*at) {
		n = n * 10 + (s->data[*at] - '0');
		if (n > WIDEST)
			machine_fail(m, "a format is wider than %d characters", WIDEST);
	}
	return n;
}

/* The position of the first stop, or the end. */
static size_t span_without(const struct string* s, size_t at, size_t end, const char* stops) {
	while (at < end && !(s->data[at] && strchr(stops, s->data[at])))
		at++;
	return at;
}

static void read_sizes(struct machine* m, const struct string* s, size_t* at, size_t end, struct spec* spec) {
	spec->width = read_count(m, s, at, end);
	if (*at < end && s->data[*at] == '.') {
		++*at;
		spec->precision = read_count(m, s, at, end);
	}
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

static void write_number(struct builder* b, struct value v, const struct spec* spec) {
	const char type = spec->type;
	const bool real = v.kind == FLOAT || (type && strchr("eEfFgG", type)) || spec->precision >= 0;
	const double d = value_number(v);
	const bool negative = signbit(d) && !isnan(d);
	const int precision = spec->precision < 0 ? 6 : spec->precision;
	char text[400];
	size_t n = 0;
	if (real ? precision > 100 || fabs(d) > 1e200 || (type && !strchr("eEfFgG", type))
	         : type && !strchr("diuxXo", type))
		machine_fail(b->machine, "the format '%c' of this %s is not known here", type ? type : '.',
		             value_type(v));
	if (negative || spec->sign)
		text[n++] = negative ? '-' : spec->sign;
	if (real && !type && spec->precision < 0) {
		float_text(fabs(d), text + n);
	} else {
		const int64_t whole = real ? 0 : value_whole(v);
		const unsigned long long plain = whole < 0 ? 0 - (uint64_t)whole : (uint64_t)whole;
		const char real_pattern[] = {'%', '.', '*', type ? type : 'g', 0};
		const char whole_pattern[] = {'%', 'l', 'l', type && strchr("xXo", type) ? type : 'u', 0};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		if (real)
			snprintf(text + n, sizeof text - n, real_pattern, precision, fabs(d));
		else
			snprintf(text + n, sizeof text - n, whole_pattern, plain);
#pragma GCC diagnostic pop
	}
	pad(b, string_of(b->machine, text), spec, spec->align ? spec->align : '>');
}

static void write_value(struct builder* b, struct value v, struct spec spec) {
	struct machine* const m = b->machine;
	if (v.kind == STRING) {
		const struct string* s = v.string;
		if (spec.type && spec.type != 's')
			machine_fail(m, "Unknown format code '%c' for object of type 'str'", spec.type);
		if (spec.precision >= 0)
			s = string_part(m, s, 0, string_offset(m, s, spec.precision));
		pad(b, s, &spec, spec.align ? spec.align : '<');
		return;
	}
	const bool plain = !spec.type && spec.precision < 0 && !spec.sign;
	if (value_is_number(v) && !(v.kind == BOOLEAN && plain)) {
		write_number(b, v, &spec);
		return;
	}
	if (!plain || spec.width)
		machine_fail(m, "unsupported format string passed to %s.__format__", value_type(v));
	value_write(b, v);
}

/* ---- % ------------------------------------------------------------------------------------ */

/* The operand right of %. */
struct operands {
	struct list place;
	const struct dict* named; /* NULL when it is no dict */
	int used;
};

static struct value next_operand(struct machine* m, struct operands* o) {
	if (o->used >= o->place.n)
		machine_fail(m, "not enough arguments for format string");
	return o->place.item[o->used++];
}

/* (name) after the %: that operand. */
static struct value named_operand(struct machine* m, const struct string* s, size_t* at, struct operands* o) {
	const struct string close = {.data = ")", .size = 1};
	const size_t end = string_find(m, s, &close, *at, s->size);
	if (end == SIZE_MAX || !o->named)
		machine_fail(m, "format requires a mapping");
	const struct value* const v = dict_find_name(m, o->named, string_part(m, s, *at + 1, end));
	if (!v)
		machine_fail(m, "the format names a key that the mapping lacks");
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
	read_sizes(m, s, at, s->size, &spec);
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
	struct operands o = {.place = {.item = &operands, .n = 1}};
	if (operands.kind == TUPLE)
		o.place = *operands.list;
	if (operands.kind == DICT)
		o.named = operands.dict;
	for (size_t at = 0; at < s->size;) {
		const size_t percent = span_without(s, at, s->size, "%");
		builder_part(&b, s, at, percent);
		at = percent + 1;
		if (percent < s->size)
			write_percent(&b, s, &at, &o);
	}
	if (!o.named && o.used < o.place.n)
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
	if (at < end && strchr("+- ", s->data[at])) {
		spec.sign = s->data[at] == '-' ? 0 : s->data[at];
		at++;
	}
	if (at < end && s->data[at] == '0') {
		spec.fill = spec.align ? spec.fill : '0';
		spec.align = spec.align ? spec.align : '=';
		at++;
	}
	read_sizes(m, s, &at, end, &spec);
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

/* The beginning of a field: a place, a name, or nothing, which means the next place. */
static struct value first_value(struct machine* m, const struct string* s, size_t at, size_t end,
                                struct fields* f) {
	if (at == end || is_digit(s->data[at])) {
		f->numbered = f->numbered || at != end;
		const int i = at == end ? f->next++ : read_count(m, s, &at, end);
		if (f->numbered && f->next)
			machine_fail(m, "the format numbers some of its fields and not others");
		if (i >= f->arguments->place.n)
			machine_fail(m, "Replacement index %d out of range for positional args tuple", i);
		return f->arguments->place.item[i];
	}
	const struct string* const name = string_part(m, s, at, end);
	const struct value* const named = dict_find_name(m, &f->arguments->named, name);
	if (!named)
		machine_fail(m, "format names '%.*s', which is not given", EXCERPT(name));
	return *named;
}

/* Then its members: .name, and [key], which is a place if it is a number. */
static struct value field_value(struct machine* m, const struct string* s, size_t at, size_t end,
                                struct fields* f) {
	const size_t first = span_without(s, at, end, ".[");
	if (first == at && first < end)
		machine_fail(m, "a format names members of nothing");
	struct value v = first_value(m, s, at, first, f);
	for (at = first; at < end;) {
		const bool index = s->data[at++] == '[';
		const size_t past = span_without(s, at, end, index ? "]" : ".[");
		if (past == at || (index && past == end))
			machine_fail(m, index && past == end ? "Missing ']' in format string"
			                                     : "Empty attribute in format string");
		const struct string* const name = string_part(m, s, at, past);
		size_t digit = at;
		bool number = index;
		for (size_t i = at; i < past; i++)
			number = number && is_digit(s->data[i]);
		v = value_index(m, v, number ? value_integer(read_count(m, s, &digit, past)) : value_string(name));
		at = index ? past + 1 : past;
		if (index && at < end && s->data[at] != '.' && s->data[at] != '[')
			machine_fail(m, "Only '.' or '[' may follow ']' in format field specifier");
	}
	return v;
}

static void write_field(struct builder* b, const struct string* s, size_t at, size_t end, struct fields* f) {
	const size_t name = span_without(s, at, end, ":");
	const struct value v = field_value(b->machine, s, at, name, f);
	write_value(b, v, read_spec(b->machine, s, name < end ? name + 1 : end, end));
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
