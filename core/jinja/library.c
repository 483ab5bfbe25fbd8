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

static struct value operand(struct machine* m, const struct arguments* a, const struct test* self) {
	static const char* const name[] = {"other", NULL};
	struct value other;
	arguments_take(m, a, self->name, name, 1, &other);
	return other;
}

/* how: the kinds that are meant */
static bool is_of(struct machine* m, struct value v, const struct arguments* a, const struct test* self) {
	(void)m, (void)a;
	return self->how >> v.kind & 1;
}
#define OF(kind) (1 << (kind))

/* how: which of the two */
static bool is_truth(struct machine* m, struct value v, const struct arguments* a, const struct test* self) {
	(void)m, (void)a;
	return v.kind == BOOLEAN && v.boolean == self->how;
}
static bool is_iterable(struct machine* m, struct value v, const struct arguments* a,
                        const struct test* self) {
	(void)m, (void)a, (void)self;
	return value_is_iterable(v);
}
static bool is_escaped(struct machine* m, struct value v, const struct arguments* a,
                       const struct test* self) {
	(void)m, (void)a, (void)self;
	return v.kind == STRING && v.string->markup;
}

static bool leaves(struct machine* m, struct value v, struct value divisor, int64_t rest) {
	return value_equal(m, operator_binary(m, MODULO, v, divisor), value_integer(rest));
}
/* how: what is left over */
static bool is_by_two(struct machine* m, struct value v, const struct arguments* a, const struct test* self) {
	(void)a;
	return leaves(m, v, value_integer(2), self->how);
}
static bool is_divisible(struct machine* m, struct value v, const struct arguments* a,
                         const struct test* self) {
	return leaves(m, v, operand(m, a, self), 0);
}

static bool is_in(struct machine* m, struct value v, const struct arguments* a, const struct test* self) {
	return value_in(m, v, operand(m, a, self));
}
static bool is_same(struct machine* m, struct value v, const struct arguments* a, const struct test* self) {
	const struct value other = operand(m, a, self);
	if (v.kind != other.kind)
		return false;
	return v.kind >= STRING ? v.list == other.list : value_equal(m, v, other);
}
/* how: the operator */
static bool compares(struct machine* m, struct value v, const struct arguments* a, const struct test* self) {
	return operator_compare(m, (enum operator)self->how, v, operand(m, a, self));
}

/* how: whether upper */
static bool is_in_case(struct machine* m, struct value v, const struct arguments* a,
                       const struct test* self) {
	static const struct arguments none = {0};
	(void)a;
	return value_truth(text_method(m, value_show(m, v), self->how ? "isupper" : "islower", &none));
}

static bool is_filter(struct machine* m, struct value v, const struct arguments* a, const struct test* self) {
	(void)m, (void)a, (void)self;
	return v.kind == STRING && library_filter(v.string);
}
static bool is_test(struct machine* m, struct value v, const struct arguments* a, const struct test* self) {
	(void)m, (void)a, (void)self;
	return v.kind == STRING && library_test(v.string);
}

static const struct test tests[] = {
    {"defined", is_of, ~OF(UNDEFINED), false},
    {"undefined", is_of, OF(UNDEFINED), false},
    {"none", is_of, OF(NONE), false},
    {"boolean", is_of, OF(BOOLEAN), false},
    {"true", is_truth, true, false},
    {"false", is_truth, false, false},
    {"integer", is_of, OF(INTEGER), false},
    {"float", is_of, OF(FLOAT), false},
    {"number", is_of, OF(BOOLEAN) | OF(INTEGER) | OF(FLOAT), false},
    {"string", is_of, OF(STRING), false},
    {"mapping", is_of, OF(DICT), false},
    {"iterable", is_iterable, 0, false},
    /* what has a length and an index: dicts and the undefined too */
    {"sequence", is_of, OF(STRING) | OF(LIST) | OF(TUPLE) | OF(RANGE) | OF(DICT) | OF(UNDEFINED), false},
    {"callable", is_of, OF(FUNCTION) | OF(METHOD) | OF(MACRO) | OF(LOOP), false},
    {"escaped", is_escaped, 0, false},
    {"even", is_by_two, 0, false},
    {"odd", is_by_two, 1, false},
    {"divisibleby", is_divisible, 0, true},
    {"in", is_in, 0, true},
    {"sameas", is_same, 0, true},
    {"eq", compares, EQUAL, true},
    {"equalto", compares, EQUAL, true},
    {"==", compares, EQUAL, true},
    {"ne", compares, NOT_EQUAL, true},
    {"!=", compares, NOT_EQUAL, true},
    {"lt", compares, LESS, true},
    {"lessthan", compares, LESS, true},
    {"<", compares, LESS, true},
    {"le", compares, LESS_EQUAL, true},
    {"<=", compares, LESS_EQUAL, true},
    {"gt", compares, GREATER, true},
    {"greaterthan", compares, GREATER, true},
    {">", compares, GREATER, true},
    {"ge", compares, GREATER_EQUAL, true},
    {">=", compares, GREATER_EQUAL, true},
    {"upper", is_in_case, true, false},
    {"lower", is_in_case, false, false},
    {"filter", is_filter, 0, false},
    {"test", is_test, 0, false},
};

const struct test* library_test(const struct string* name) {
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		if (string_is(name, tests[i].name))
			return &tests[i];
	return NULL;
}

bool test_call(struct machine* m, const struct test* test, struct value v, const struct arguments* a) {
	if (!test->operand && (a->n || a->n_keywords))
		machine_fail(m, "the test '%s' takes no argument", test->name);
	return test->call(m, v, a, test);
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
