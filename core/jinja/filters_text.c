/* Filters of texts and numbers. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/jinja/library.h"

static struct value by_method(struct machine* m, struct value v, const char* name,
                              const struct arguments* a) {
	return text_method(m, value_show(m, v), name, a);
}
static const char* const no_names[] = {NULL};
static const struct arguments none;

/* ---- case and space ----------------------------------------------------------------------- */

static struct value filter_upper(struct machine* m, struct value v, const struct arguments* a) {
	return by_method(m, v, "upper", a);
}
static struct value filter_lower(struct machine* m, struct value v, const struct arguments* a) {
	return by_method(m, v, "lower", a);
}
static struct value filter_capitalize(struct machine* m, struct value v, const struct arguments* a) {
	return by_method(m, v, "capitalize", a);
}
static struct value filter_trim(struct machine* m, struct value v, const struct arguments* a) {
	return by_method(m, v, "strip", a);
}

/* Words begin after white space and -({[<; the rest of each goes lower. */
static struct value filter_title(struct machine* m, struct value v, const struct arguments* a) {
	arguments_take(m, a, "title", no_names, 0, NULL);
	const struct string* const s = value_show(m, v);
	struct builder b = {.machine = m};
	bool begins = true;
	uint32_t code;
	for (size_t at = 0, length; at < s->size; at += length) {
		length = string_character(s, at, &code);
		const struct string* const one = string_part(m, s, at, at + length);
		builder_string(&b, begins ? string_upper(m, one) : string_lower(m, one));
		begins = code_is_space(code) || (code && code < 0x80 && strchr("-({[<", (int)code));
	}
	return value_string(builder_end(&b));
}

static struct value filter_center(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"width", NULL};
	struct value width;
	arguments_take(m, a, "center", name, 0, &width);
	if (width.kind == ABSENT)
		width = value_integer(80);
	const struct arguments given = {.value = &width, .n = 1};
	return by_method(m, v, "center", &given);
}

static struct value filter_indent(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"width", "first", "blank", NULL};
	struct value given[3];
	arguments_take(m, a, "indent", name, 0, given);
	struct builder by = {.machine = m}, b = {.machine = m};
	if (given[0].kind == STRING)
		builder_string(&by, given[0].string);
	else
		for (int64_t n = argument_integer(m, given[0], "indent", 4); n > 0; n--)
			builder_words(&by, " ");
	const struct string *const step = builder_end(&by), *const text = argument_string(m, v, "indent", NULL);
	struct builder ended = {.machine = m};
	builder_string(&ended, text);
	builder_words(&ended, "\n"); /* so that a line break at the end is kept */
	const struct list* const lines =
	    by_method(m, value_string(builder_end(&ended)), "splitlines", &none).list;
	for (int i = 0; i < lines->n; i++) {
		const struct string* const line = lines->item[i].string;
		if (i)
			builder_words(&b, "\n");
		if (i ? line->size || value_truth(given[2]) : value_truth(given[1]))
			builder_string(&b, step);
		builder_string(&b, line);
	}
	return value_string(builder_end(&b));
}

static struct value filter_truncate(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"length", "killwords", "end", "leeway", NULL};
	struct value given[4];
	arguments_take(m, a, "truncate", name, 0, given);
	const struct string *s = argument_string(m, v, "truncate", NULL), *const end = argument_string(
	                                                                      m, given[2], "truncate",
	                                                                      string_of(m, "..."));
	const int64_t length = argument_integer(m, given[0], "truncate", 255), tail = string_length(m, end);
	if (length < tail)
		machine_fail(m, "truncate: expected a length of at least %d, found %d", (int)tail, (int)length);
	if (string_length(m, s) <= length + argument_integer(m, given[3], "truncate", 5))
		return v;
	s = string_part(m, s, 0, string_offset(m, s, length - tail));
	const struct string space = {.data = " ", .size = 1};
	const size_t cut = value_truth(given[1]) ? SIZE_MAX : string_find_last(m, s, &space, 0, s->size);
	struct builder b = {.machine = m};
	builder_part(&b, s, 0, cut == SIZE_MAX ? s->size : cut);
	builder_string(&b, end);
	return value_string(builder_end(&b));
}

static struct value filter_wordcount(struct machine* m, struct value v, const struct arguments* a) {
	arguments_take(m, a, "wordcount", no_names, 0, NULL);
	const struct string* const s = value_show(m, v);
	int64_t n = 0;
	bool before = false;
	uint32_t code;
	const struct method_of* const isalnum = library_method(STRING, string_of(m, "isalnum"));
	for (size_t at = 0, length; at < s->size; at += length) {
		length = string_character(s, at, &code);
		const struct value one = value_string(string_part(m, s, at, at + length));
		const bool word = code == '_' || value_truth(isalnum->call(m, one, &none, isalnum));
		n += word && !before;
		before = word;
	}
	return value_integer(n);
}

/* ---- replacing and quoting ---------------------------------------------------------------- */

static struct value filter_replace(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"old", "new", "count", NULL};
	struct value given[3];
	arguments_take(m, a, "replace", name, 2, given);
	given[0] = value_string(value_show(m, given[0]));
	given[1] = value_string(value_show(m, given[1]));
	const struct arguments shown = {.value = given, .n = given[2].kind == ABSENT ? 2 : 3};
	struct string plain = *value_show(m, v);
	plain.markup = false;
	return by_method(m, value_string(machine_new(m, &plain, sizeof plain)), "replace", &shown);
}

static struct value filter_escape(struct machine* m, struct value v, const struct arguments* a) {
	arguments_take(m, a, "escape", no_names, 0, NULL);
	return value_string(escape_markup(m, value_show(m, v)));
}

static struct value with_markup(struct machine* m, struct value v, bool markup) {
	struct string s = *value_show(m, v);
	s.markup = markup;
	return value_string(machine_new(m, &s, sizeof s));
}
static struct value filter_safe(struct machine* m, struct value v, const struct arguments* a) {
	arguments_take(m, a, "safe", no_names, 0, NULL);
	return with_markup(m, v, true);
}
static struct value filter_forceescape(struct machine* m, struct value v, const struct arguments* a) {
	arguments_take(m, a, "forceescape", no_names, 0, NULL);
	return filter_escape(m, with_markup(m, v, false), a);
}

static struct value filter_string(struct machine* m, struct value v, const struct arguments* a) {
	arguments_take(m, a, "string", no_names, 0, NULL);
	return value_string(value_show(m, v));
}

static struct value filter_format(struct machine* m, struct value v, const struct arguments* a) {
	struct value operands = value_list(m, TUPLE);
	if (a->n && a->n_keywords)
		machine_fail(m, "can't handle positional and keyword arguments at the same time");
	for (int i = 0; i < a->n; i++)
		list_add(m, operands.list, a->value[i]);
	if (a->n_keywords)
		operands = value_dict(m);
	for (int i = 0; i < a->n_keywords; i++)
		dict_set(m, operands.dict, value_string(a->keyword[i].text), a->keyword[i].value);
	return format_percent(m, value_show(m, v), operands);
}

static struct value filter_urlencode(struct machine* m, struct value v, const struct arguments* a) {
	arguments_take(m, a, "urlencode", no_names, 0, NULL);
	if (v.kind != STRING && !value_is_number(v))
		machine_fail(m, "urlencode of a value of type '%s' is not known here", value_type(v));
	const struct string* const s = value_show(m, v);
	struct builder b = {.machine = m};
	for (size_t i = 0; i < s->size; i++) {
		const uint8_t c = (uint8_t)s->data[i];
		const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		                   (c && strchr("_.-~/", c));
		char text[4] = {(char)c, 0};
		if (!plain)
			snprintf(text, sizeof text, "%%%02X", c);
		builder_add(&b, text, strlen(text), string_foreign_at(s, i));
	}
	return value_string(builder_end(&b));
}

static struct value filter_tojson(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"ensure_ascii", "indent", "separators", "sort_keys", NULL};
	struct value given[4];
	struct builder b = {.machine = m}, by = {.machine = m};
	arguments_take(m, a, "tojson", name, 0, given);
	struct json_style style = {.ascii = value_truth(given[0]), .sort = value_truth(given[3])};
	if (given[1].kind == STRING) {
		style.indent = given[1].string;
	} else if (given[1].kind != ABSENT && given[1].kind != NONE) {
		for (int64_t n = argument_integer(m, given[1], "tojson", 0); n > 0; n--)
			builder_words(&by, " ");
		style.indent = builder_end(&by);
	}
	style.comma = string_of(m, style.indent ? "," : ", ");
	style.colon = string_of(m, ": ");
	if (given[2].kind == TUPLE || given[2].kind == LIST) {
		if (given[2].list->n != 2)
			machine_fail(m, "tojson: separators holds %d values, expected 2", given[2].list->n);
		style.comma = argument_string(m, given[2].list->item[0], "tojson", NULL);
		style.colon = argument_string(m, given[2].list->item[1], "tojson", NULL);
	} else if (given[2].kind != ABSENT && given[2].kind != NONE) {
		machine_fail(m, "tojson: separators is of type '%s', expected a pair", value_type(given[2]));
	}
	value_write_json(&b, v, &style);
	return value_string(builder_end(&b));
}

/* ---- numbers ------------------------------------------------------------------------------ */

/* The text as a C string without white space around it and underscores between digits; false when too long.
 */
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

static bool read_integer(struct machine* m, struct value v, int base, int64_t* out) {
	char text[400];
	if (v.kind != STRING || !number_text(m, v.string, text, sizeof text))
		return false;
	const char* at = text + (text[0] == '-' || text[0] == '+');
	if (*at == '-' || *at == '+' || *at == ' ')
		return false;
	if (at[0] == '0' && (base == 16  ? (at[1] | 32) == 'x'
	                     : base == 8 ? (at[1] | 32) == 'o'
	                                 : base == 2 && (at[1] | 32) == 'b'))
		memmove(text + (at - text), at + 2, strlen(at + 2) + 1);
	char* end;
	errno = 0;
	*out = strtoll(text, &end, base);
	if (errno == ERANGE)
		machine_fail(m, "int: a whole number of more than 64 bits");
	return end != text && !*end && (base == 16 || !strpbrk(text, "xX"));
}

static struct value filter_int(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"default", "base", NULL};
	struct value given[2];
	int64_t whole;
	double number;
	arguments_take(m, a, "int", name, 0, given);
	if (v.kind == UNDEFINED)
		value_fail_undefined(m, v);
	if (v.kind == INTEGER || v.kind == BOOLEAN)
		return value_integer(v.kind == INTEGER ? v.integer : v.boolean);
	const int64_t base = argument_integer(m, given[1], "int", 10);
	if (base != 2 && base != 8 && base != 10 && base != 16)
		machine_fail(m, "int: the base %d is not known here", (int)base);
	if (read_integer(m, v, (int)base, &whole))
		return value_integer(whole);
	if (read_float(m, v, &number) && isfinite(number)) {
		if (fabs(number) >= 9.2e18)
			machine_fail(m, "int: a whole number of more than 64 bits");
		return value_integer((int64_t)number);
	}
	return given[0].kind == ABSENT ? value_integer(0) : given[0];
}

static struct value filter_float(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"default", NULL};
	struct value otherwise;
	double number;
	arguments_take(m, a, "float", name, 0, &otherwise);
	if (v.kind == UNDEFINED)
		value_fail_undefined(m, v);
	if (read_float(m, v, &number))
		return value_float(number);
	return otherwise.kind == ABSENT ? value_float(0) : otherwise;
}

static struct value filter_abs(struct machine* m, struct value v, const struct arguments* a) {
	arguments_take(m, a, "abs", no_names, 0, NULL);
	if (v.kind == FLOAT)
		return value_float(fabs(v.number));
	if (v.kind == UNDEFINED)
		value_fail_undefined(m, v);
	if (!value_is_number(v))
		machine_fail(m, "bad operand type for abs(): '%s'", value_type(v));
	const bool negative = v.kind == INTEGER && v.integer < 0;
	return operator_binary(m, negative ? MINUS : PLUS, value_integer(0), v);
}

/* Half to even of the decimal that the number is, as Python's round(). */
static double round_common(double d, int precision) {
	char text[400];
	if (!isfinite(d) || fabs(d) > 1e300)
		return d;
	if (precision < 0) {
		const double unit = pow(10, -precision);
		return nearbyint(d / unit) * unit;
	}
	snprintf(text, sizeof text, "%.*f", precision, d);
	return strtod(text, NULL);
}

static struct value filter_round(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"precision", "method", NULL};
	struct value given[2];
	arguments_take(m, a, "round", name, 0, given);
	const int64_t precision = argument_integer(m, given[0], "round", 0);
	const struct string* const method = argument_string(m, given[1], "round", string_of(m, "common"));
	if (v.kind == UNDEFINED)
		value_fail_undefined(m, v);
	if (!value_is_number(v) || precision < -30 || precision > 60)
		machine_fail(m, "round of a value of type '%s' to %d digits is not known here", value_type(v),
		             (int)precision);
	if (string_is(method, "common")) {
		if (v.kind != FLOAT && precision >= 0)
			return filter_int(m, v, &none);
		const double rounded = round_common(value_number(v), (int)precision);
		return v.kind == FLOAT ? value_float(rounded) : value_integer((int64_t)rounded);
	}
	const double unit = pow(10, (double)precision);
	if (string_is(method, "ceil"))
		return value_float(ceil(value_number(v) * unit) / unit);
	if (string_is(method, "floor"))
		return value_float(floor(value_number(v) * unit) / unit);
	machine_fail(m, "method must be common, ceil or floor");
}

/* ---- defaults ----------------------------------------------------------------------------- */

static struct value filter_default(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"default_value", "boolean", NULL};
	struct value given[2];
	arguments_take(m, a, "default", name, 0, given);
	if (v.kind == UNDEFINED || (value_truth(given[1]) && !value_truth(v)))
		return given[0].kind == ABSENT ? value_words(m, "") : given[0];
	return v;
}

static struct value filter_attr(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"name", NULL};
	struct value wanted;
	arguments_take(m, a, "attr", name, 1, &wanted);
	const struct string* const s = value_show(m, wanted);
	if (v.kind == DICT) /* members are no attributes */
		return library_method(DICT, s) ? value_attribute(m, v, string_intern(m, s->data, s->size))
		                               : value_undefined(s);
	return value_attribute(m, v, string_intern(m, s->data, s->size));
}

const struct filter text_filters[] = {{"upper", filter_upper},
                                      {"lower", filter_lower},
                                      {"capitalize", filter_capitalize},
                                      {"title", filter_title},
                                      {"trim", filter_trim},
                                      {"center", filter_center},
                                      {"indent", filter_indent},
                                      {"truncate", filter_truncate},
                                      {"wordcount", filter_wordcount},
                                      {"replace", filter_replace},
                                      {"escape", filter_escape},
                                      {"e", filter_escape},
                                      {"forceescape", filter_forceescape},
                                      {"safe", filter_safe},
                                      {"string", filter_string},
                                      {"format", filter_format},
                                      {"urlencode", filter_urlencode},
                                      {"tojson", filter_tojson},
                                      {"int", filter_int},
                                      {"float", filter_float},
                                      {"abs", filter_abs},
                                      {"round", filter_round},
                                      {"default", filter_default},
                                      {"d", filter_default},
                                      {"attr", filter_attr},
                                      {NULL, NULL}};
