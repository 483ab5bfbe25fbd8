/* Filters of single values: what they print as, numbers, defaults. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/jinja/library.h"

/* ---- quoting ------------------------------------------------------------------------------ */

static struct value filter_escape(struct machine* m, struct call* c) {
	return value_string(escape_markup(m, value_show(m, c->self)));
}

static struct value filter_safe(struct machine* m, struct call* c) {
	return value_string(string_markup(m, value_show(m, c->self), true));
}

static struct value filter_string(struct machine* m, struct call* c) {
	return value_string(value_show(m, c->self));
}

static struct value filter_format(struct machine* m, struct call* c) {
	struct value operands = value_list(m, TUPLE);
	if (c->all->named.n)
		machine_fail(m, "format: arguments by name are not known here");
	list_add_all(m, operands.list, &c->all->place);
	return format_percent(m, value_show(m, c->self), operands);
}

static struct value filter_tojson(struct machine* m, struct call* c) {
	struct builder b = {.machine = m};
	struct style style = {.json = true, .ascii = value_truth(c->given[0]), .sort = value_truth(c->given[3])};
	const struct value indent = argument_or_none(c->given[1]), separators = argument_or_none(c->given[2]);
	if (indent.kind != ABSENT)
		style.indent = argument_indent(m, indent, "tojson");
	style.comma = string_of(m, style.indent ? "," : ", ");
	style.colon = string_of(m, ": ");
	if (separators.kind == TUPLE || separators.kind == LIST) {
		if (separators.list->n != 2)
			machine_fail(m, "tojson: separators holds %d values, expected 2", separators.list->n);
		style.comma = argument_string(m, separators.list->item[0], "tojson");
		style.colon = argument_string(m, separators.list->item[1], "tojson");
	} else if (separators.kind != ABSENT) {
		machine_fail(m, "tojson: separators is of type '%s', expected a pair", value_type(separators));
	}
	value_write_json(&b, c->self, &style);
	return value_string(builder_end(&b));
}

/* ---- numbers ------------------------------------------------------------------------------ */

/* The text as a C string without surrounding white space and without underscores between digits; false when
 * too long. */
static bool number_text(struct machine* m, const struct string* s, char* out, size_t size) {
	s = string_strip(m, s, NULL, true, true);
	size_t n = 0;
	for (size_t i = 0; i < s->size; i++) {
		const bool joint = s->data[i] == '_' && i > 0 && i + 1 < s->size && s->data[i - 1] != '_';
		if (joint)
			continue;
		if (n + 1 >= size || !s->data[i])
			return false;
		out[n++] = s->data[i];
	}
	out[n] = 0;
	return n > 0;
}

static bool read_float(struct machine* m, struct value v, double* out) {
	char text[400];
	if (value_is_number(v)) {
		*out = value_number(v);
		return true;
	}
	if (v.kind != STRING || !number_text(m, v.string, text, sizeof text) || strpbrk(text, "xXpP("))
		return false;
	char* end;
	*out = strtod(text, &end);
	return !*end;
}

static bool read_integer(struct machine* m, struct value v, int64_t* out) {
	char text[400], *end = text;
	if (v.kind != STRING || !number_text(m, v.string, text, sizeof text))
		return false;
	errno = 0;
	*out = strtoll(text, &end, 10);
	if (errno == ERANGE)
		machine_fail(m, "int: a whole number of more than 64 bits");
	return end != text && !*end;
}

static struct value filter_int(struct machine* m, struct call* c) {
	int64_t whole;
	double number;
	value_check_defined(m, c->self);
	if (value_is_whole(c->self))
		return value_integer(value_whole(c->self));
	if (read_integer(m, c->self, &whole))
		return value_integer(whole);
	if (read_float(m, c->self, &number) && isfinite(number)) {
		if (fabs(number) >= 9.2e18)
			machine_fail(m, "int: a whole number of more than 64 bits");
		return value_integer((int64_t)number);
	}
	return c->given[0].kind == ABSENT ? value_integer(0) : c->given[0];
}

static struct value filter_float(struct machine* m, struct call* c) {
	double number;
	value_check_defined(m, c->self);
	if (read_float(m, c->self, &number))
		return value_float(number);
	return c->given[0].kind == ABSENT ? value_float(0) : c->given[0];
}

static struct value filter_abs(struct machine* m, struct call* c) {
	if (c->self.kind == FLOAT)
		return value_float(fabs(c->self.number));
	value_check_defined(m, c->self);
	if (!value_is_number(c->self))
		machine_fail(m, "bad operand type for abs(): '%s'", value_type(c->self));
	const bool negative = c->self.kind == INTEGER && c->self.integer < 0;
	return operator_binary(m, negative ? '-' : '+', value_integer(0), c->self);
}

/* Rounds the decimal value to nearest, ties to even, as Python's round(); or up or down. */
static struct value filter_round(struct machine* m, struct call* c) {
	const struct string* const method = argument_string(m, argument_or_none(c->given[1]), "round");
	const bool up = method && string_is(method, "ceil"), down = method && string_is(method, "floor");
	const int64_t precision = argument_integer(m, c->given[0], "round", 0);
	char text[400];
	value_check_defined(m, c->self);
	if (!value_is_number(c->self) || precision < 0 || precision > 60)
		machine_fail(m, "round of a value of type '%s' to %d digits is not supported", value_type(c->self),
		             (int)precision);
	if (method && !up && !down && !string_is(method, "common"))
		machine_fail(m, "method must be common, ceil or floor");
	if (c->self.kind != FLOAT && !up && !down)
		return filter_int(m, c);
	const double number = c->self.kind == FLOAT ? c->self.number : (double)c->self.integer;
	if (!isfinite(number) || fabs(number) > 1e300)
		return value_float(number);
	if (up || down) {
		const double unit = pow(10, (double)precision);
		return value_float((up ? ceil(number * unit) : floor(number * unit)) / unit);
	}
	snprintf(text, sizeof text, "%.*f", (int)precision, c->self.number);
	return value_float(strtod(text, NULL));
}

/* ---- defaults ----------------------------------------------------------------------------- */

static struct value filter_default(struct machine* m, struct call* c) {
	if (c->self.kind == UNDEFINED || (value_truth(c->given[1]) && !value_truth(c->self)))
		return c->given[0].kind == ABSENT ? value_string(string_of(m, "")) : c->given[0];
	return c->self;
}

const struct routine value_routines[] = {
    {"escape e", FILTER, filter_escape, 0, 0, {NULL}},
    {"safe", FILTER, filter_safe, 0, 0, {NULL}},
    {"string", FILTER, filter_string, 0, 0, {NULL}},
    {"format", FILTER, filter_format, 0, AS_THEY_CAME, {NULL}},
    {"tojson", FILTER, filter_tojson, 0, 0, {"ensure_ascii", "indent", "separators", "sort_keys"}},
    {"int", FILTER, filter_int, 0, 0, {"default"}},
    {"float", FILTER, filter_float, 0, 0, {"default"}},
    {"abs", FILTER, filter_abs, 0, 0, {NULL}},
    {"round", FILTER, filter_round, 0, 0, {"precision", "method"}},
    {"default d", FILTER, filter_default, 0, 0, {"default_value", "boolean"}},
    {.name = NULL}};
