/* Arguments, tests and global functions; the tables by name. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/jinja/library.h"

/* ---- arguments ---------------------------------------------------------------------------- */

void arguments_take(struct machine* m, const struct arguments* a, const char* of, const char* const* name,
                    int required, struct value* out) {
	int n = 0;
	for (; name[n]; n++)
		out[n] = n < a->n ? a->value[n] : (struct value){.kind = ABSENT};
	if (a->n > n)
		machine_fail(m, "%s takes at most %d argument%s, %d were given", of, n, n == 1 ? "" : "s", a->n);
	for (int k = 0; k < a->n_keywords; k++) {
		const struct keyword* const given = &a->keyword[k];
		int i = 0;
		while (i < n && !string_is(given->name, name[i]))
			i++;
		if (i == n || out[i].kind != ABSENT)
			machine_fail(m, "%s: unexpected argument '%.*s'", of,
			             (int)(given->name->size < 60 ? given->name->size : 60), given->name->data);
		out[i] = given->value;
	}
	for (int i = 0; i < required; i++)
		if (out[i].kind == ABSENT)
			machine_fail(m, "%s: the argument '%s' is missing", of, name[i]);
}

struct arguments arguments_rest(const struct arguments* a, int skip) {
	struct arguments rest = *a;
	rest.value = rest.n > skip ? rest.value + skip : NULL;
	rest.n = rest.n > skip ? rest.n - skip : 0;
	return rest;
}

int64_t argument_integer(struct machine* m, struct value v, const char* what, int64_t otherwise) {
	if (v.kind == ABSENT)
		return otherwise;
	if (v.kind == UNDEFINED)
		value_fail_undefined(m, v);
	if (v.kind != INTEGER && v.kind != BOOLEAN)
		machine_fail(m, "%s: '%s' object cannot be interpreted as an integer", what, value_type(v));
	return v.kind == INTEGER ? v.integer : v.boolean;
}

const struct string* argument_string(struct machine* m, struct value v, const char* what,
                                     const struct string* otherwise) {
	if (v.kind == ABSENT)
		return otherwise;
	if (v.kind == UNDEFINED)
		value_fail_undefined(m, v);
	if (v.kind != STRING)
		machine_fail(m, "%s: expected a string, found '%s'", what, value_type(v));
	return v.string;
}

/* ---- tests -------------------------------------------------------------------------------- */

static struct value operand(struct machine* m, const struct arguments* a, const char* of) {
	static const char* const name[] = {"other", NULL};
	struct value other;
	arguments_take(m, a, of, name, 1, &other);
	return other;
}

static bool is_defined(struct machine* m, struct value v, const struct arguments* a) {
	(void)m, (void)a;
	return v.kind != UNDEFINED;
}
static bool is_undefined(struct machine* m, struct value v, const struct arguments* a) {
	(void)m, (void)a;
	return v.kind == UNDEFINED;
}
static bool is_none(struct machine* m, struct value v, const struct arguments* a) {
	(void)m, (void)a;
	return v.kind == NONE;
}
static bool is_boolean(struct machine* m, struct value v, const struct arguments* a) {
	(void)m, (void)a;
	return v.kind == BOOLEAN;
}
static bool is_true(struct machine* m, struct value v, const struct arguments* a) {
	(void)m, (void)a;
	return v.kind == BOOLEAN && v.boolean;
}
static bool is_false(struct machine* m, struct value v, const struct arguments* a) {
	(void)m, (void)a;
	return v.kind == BOOLEAN && !v.boolean;
}
static bool is_integer(struct machine* m, struct value v, const struct arguments* a) {
	(void)m, (void)a;
	return v.kind == INTEGER;
}
static bool is_float(struct machine* m, struct value v, const struct arguments* a) {
	(void)m, (void)a;
	return v.kind == FLOAT;
}
static bool is_number(struct machine* m, struct value v, const struct arguments* a) {
	(void)m, (void)a;
	return value_is_number(v);
}
static bool is_string(struct machine* m, struct value v, const struct arguments* a) {
	(void)m, (void)a;
	return v.kind == STRING;
}
static bool is_mapping(struct machine* m, struct value v, const struct arguments* a) {
	(void)m, (void)a;
	return v.kind == DICT;
}
static bool is_iterable(struct machine* m, struct value v, const struct arguments* a) {
	(void)m, (void)a;
	return value_is_iterable(v);
}
/* What has a length and an index: dicts and the undefined too. */
static bool is_sequence(struct machine* m, struct value v, const struct arguments* a) {
	(void)m, (void)a;
	return v.kind == STRING || v.kind == LIST || v.kind == TUPLE || v.kind == RANGE || v.kind == DICT ||
	       v.kind == UNDEFINED;
}
static bool is_callable(struct machine* m, struct value v, const struct arguments* a) {
	(void)m, (void)a;
	return v.kind == FUNCTION || v.kind == METHOD || v.kind == MACRO || v.kind == LOOP;
}
static bool is_escaped(struct machine* m, struct value v, const struct arguments* a) {
	(void)m, (void)a;
	return v.kind == STRING && v.string->markup;
}

static bool leaves(struct machine* m, struct value v, struct value divisor, int64_t rest) {
	return value_equal(m, operator_binary(m, MODULO, v, divisor), value_integer(rest));
}
static bool is_even(struct machine* m, struct value v, const struct arguments* a) {
	(void)a;
	return leaves(m, v, value_integer(2), 0);
}
static bool is_odd(struct machine* m, struct value v, const struct arguments* a) {
	(void)a;
	return leaves(m, v, value_integer(2), 1);
}
static bool is_divisible(struct machine* m, struct value v, const struct arguments* a) {
	return leaves(m, v, operand(m, a, "divisibleby"), 0);
}

static bool is_in(struct machine* m, struct value v, const struct arguments* a) {
	return value_in(m, v, operand(m, a, "in"));
}
static bool is_same(struct machine* m, struct value v, const struct arguments* a) {
	const struct value other = operand(m, a, "sameas");
	if (v.kind != other.kind)
		return false;
	return v.kind >= STRING ? v.list == other.list : value_equal(m, v, other);
}
static bool is_equal(struct machine* m, struct value v, const struct arguments* a) {
	return operator_compare(m, EQUAL, v, operand(m, a, "eq"));
}
static bool is_unequal(struct machine* m, struct value v, const struct arguments* a) {
	return operator_compare(m, NOT_EQUAL, v, operand(m, a, "ne"));
}
static bool is_less(struct machine* m, struct value v, const struct arguments* a) {
	return operator_compare(m, LESS, v, operand(m, a, "lt"));
}
static bool is_less_equal(struct machine* m, struct value v, const struct arguments* a) {
	return operator_compare(m, LESS_EQUAL, v, operand(m, a, "le"));
}
static bool is_greater(struct machine* m, struct value v, const struct arguments* a) {
	return operator_compare(m, GREATER, v, operand(m, a, "gt"));
}
static bool is_greater_equal(struct machine* m, struct value v, const struct arguments* a) {
	return operator_compare(m, GREATER_EQUAL, v, operand(m, a, "ge"));
}

static bool in_case(struct machine* m, struct value v, const char* method) {
	static const struct arguments none = {0};
	const struct value text = value_string(value_show(m, v));
	return value_truth(library_method(STRING, string_of(m, method))->call(m, text, &none));
}
static bool is_upper(struct machine* m, struct value v, const struct arguments* a) {
	(void)a;
	return in_case(m, v, "isupper");
}
static bool is_lower(struct machine* m, struct value v, const struct arguments* a) {
	(void)a;
	return in_case(m, v, "islower");
}

static bool is_filter(struct machine* m, struct value v, const struct arguments* a) {
	(void)m, (void)a;
	return v.kind == STRING && library_filter(v.string);
}
static bool is_test(struct machine* m, struct value v, const struct arguments* a) {
	(void)m, (void)a;
	return v.kind == STRING && library_test(v.string);
}

static const struct test tests[] = {{"defined", is_defined, false},
                                    {"undefined", is_undefined, false},
                                    {"none", is_none, false},
                                    {"boolean", is_boolean, false},
                                    {"true", is_true, false},
                                    {"false", is_false, false},
                                    {"integer", is_integer, false},
                                    {"float", is_float, false},
                                    {"number", is_number, false},
                                    {"string", is_string, false},
                                    {"mapping", is_mapping, false},
                                    {"iterable", is_iterable, false},
                                    {"sequence", is_sequence, false},
                                    {"callable", is_callable, false},
                                    {"escaped", is_escaped, false},
                                    {"even", is_even, false},
                                    {"odd", is_odd, false},
                                    {"divisibleby", is_divisible, true},
                                    {"in", is_in, true},
                                    {"sameas", is_same, true},
                                    {"eq", is_equal, true},
                                    {"equalto", is_equal, true},
                                    {"==", is_equal, true},
                                    {"ne", is_unequal, true},
                                    {"!=", is_unequal, true},
                                    {"lt", is_less, true},
                                    {"lessthan", is_less, true},
                                    {"<", is_less, true},
                                    {"le", is_less_equal, true},
                                    {"<=", is_less_equal, true},
                                    {"gt", is_greater, true},
                                    {"greaterthan", is_greater, true},
                                    {">", is_greater, true},
                                    {"ge", is_greater_equal, true},
                                    {">=", is_greater_equal, true},
                                    {"upper", is_upper, false},
                                    {"lower", is_lower, false},
                                    {"filter", is_filter, false},
                                    {"test", is_test, false}};

const struct test* library_test(const struct string* name) {
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		if (string_is(name, tests[i].name))
			return &tests[i];
	return NULL;
}

bool test_call(struct machine* m, const struct test* test, struct value v, const struct arguments* a) {
	if (!test->operand && (a->n || a->n_keywords))
		machine_fail(m, "the test '%s' takes no argument", test->name);
	return test->call(m, v, a);
}

const struct filter* library_filter(const struct string* name) {
	const struct filter* const table[] = {text_filters, list_filters};
	for (int i = 0; i < 2; i++)
		for (const struct filter* f = table[i]; f->name; f++)
			if (string_is(name, f->name))
				return f;
	return NULL;
}

void library_fail(struct machine* m, const struct node* n) {
	m->line = n->line;
	machine_fail(m, "the %s '%.*s' is not known here", n->kind == NODE_FILTER ? "filter" : "test",
	             (int)(n->name->size < 60 ? n->name->size : 60), n->name->data);
}

struct value filter_call(struct machine* m, const struct filter* filter, struct value v,
                         const struct arguments* a) {
	machine_enter(m);
	const struct value out = filter->call(m, v, a);
	machine_leave(m);
	return out;
}

/* ---- global functions --------------------------------------------------------------------- */

static struct value raise_exception(struct machine* m, const struct arguments* a) {
	static const char* const name[] = {"message", NULL};
	struct value message;
	arguments_take(m, a, "raise_exception", name, 1, &message);
	const struct string* const text = value_show(m, message);
	machine_raise(m, text->data, text->size);
}

static struct value strftime_now(struct machine* m, const struct arguments* a) {
	static const char* const name[] = {"format", NULL};
	struct value format;
	struct tm now;
	char text[512];
	arguments_take(m, a, "strftime_now", name, 1, &format);
	const struct string* const f = argument_string(m, format, "strftime_now", NULL);
	char pattern[256];
	if (f->size >= sizeof pattern || !localtime_r(&m->now, &now))
		machine_fail(m, "strftime_now: a format of more than %zu bytes", sizeof pattern - 1);
	memcpy(pattern, f->data, f->size);
	pattern[f->size] = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	const size_t n = strftime(text, sizeof text, pattern, &now);
#pragma GCC diagnostic pop
	return value_string(string_new(m, text, n, f->foreign || f->mark));
}

enum { RANGE_MOST = 100000 }; /* the sandbox's */

static struct value range(struct machine* m, const struct arguments* a) {
	int64_t part[3] = {0, 0, 1};
	if (a->n_keywords || a->n < 1 || a->n > 3)
		machine_fail(m, "range takes from 1 to 3 arguments");
	for (int i = 0; i < a->n; i++)
		part[a->n == 1 ? 1 : i] = argument_integer(m, a->value[i], "range", 0);
	if (part[2] == 0)
		machine_fail(m, "range() arg 3 must not be zero");
	for (int i = 0; i < 3; i++)
		if (part[i] > INT32_MAX || part[i] < -INT32_MAX)
			machine_fail(m, "range: %" PRId64 " is too large", part[i]);
	struct value out = value_list(m, RANGE);
	for (int64_t i = part[0]; part[2] > 0 ? i < part[1] : i > part[1]; i += part[2]) {
		if (out.list->n == RANGE_MOST)
			machine_fail(m, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
			             RANGE_MOST);
		list_add(m, out.list, value_integer(i));
	}
	return out;
}

/* dict(mapping or pairs, name=value…). */
static struct value make_dict(struct machine* m, const struct arguments* a) {
	struct value out = value_dict(m);
	if (a->n > 1)
		machine_fail(m, "dict expected at most 1 argument, got %d", a->n);
	if (a->n && a->value[0].kind == DICT) {
		for (int i = 0; i < a->value[0].dict->n; i++)
			dict_set(m, out.dict, a->value[0].dict->entry[i].key, a->value[0].dict->entry[i].value);
	} else if (a->n) {
		const struct list* const pairs = value_items(m, a->value[0]);
		for (int i = 0; i < pairs->n; i++) {
			const struct list* const pair = value_items(m, pairs->item[i]);
			if (pair->n != 2)
				machine_fail(m, "dict: an element has %d values, expected 2", pair->n);
			dict_set(m, out.dict, pair->item[0], pair->item[1]);
		}
	}
	for (int i = 0; i < a->n_keywords; i++)
		dict_set(m, out.dict, value_string(a->keyword[i].text), a->keyword[i].value);
	return out;
}

static struct value make_namespace(struct machine* m, const struct arguments* a) {
	struct value out = make_dict(m, a);
	out.kind = NAMESPACE;
	return out;
}

const struct function global_functions[] = {{"raise_exception", raise_exception},
                                            {"strftime_now", strftime_now},
                                            {"range", range},
                                            {"dict", make_dict},
                                            {"namespace", make_namespace},
                                            {NULL, NULL}};
