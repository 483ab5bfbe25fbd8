/* Arguments, tests and global functions; the tables by name. */
#include <inttypes.h>
#include <string.h>

#include "core/jinja/library.h"

/* ---- arguments ---------------------------------------------------------------------------- */

void arguments_take(struct machine* m, const struct routine* r, const struct arguments* a,
                    struct value* given) {
	int n = 0;
	for (; n < MOST_PARAMETERS && r->parameter[n]; n++)
		given[n] = n < a->place.n ? a->place.item[n] : (struct value){.kind = ABSENT};
	if (a->place.n > n)
		machine_fail(m, "%s takes at most %d argument%s, %d were given", r->name, n, n == 1 ? "" : "s",
		             a->place.n);
	for (int k = 0; k < a->named.n; k++) {
		const struct string* const name = a->named.entry[k].key.string;
		int i = 0;
		while (i < n && !string_is(name, r->parameter[i]))
			i++;
		if (i == n || given[i].kind != ABSENT)
			machine_fail(m, "%s: unexpected argument '%.*s'", r->name, EXCERPT(name));
		given[i] = a->named.entry[k].value;
	}
	for (int i = 0; i < r->required; i++)
		if (given[i].kind == ABSENT)
			machine_fail(m, "%s: the argument '%s' is missing", r->name, r->parameter[i]);
}

struct value routine_call(struct machine* m, const struct routine* r, struct value self,
                          const struct arguments* a) {
	struct call call = {.name = r->name, .how = r->how, .self = self, .all = a};
	machine_enter(m);
	if (r->required != AS_THEY_CAME)
		arguments_take(m, r, a, call.given);
	const struct value out = r->run(m, &call);
	machine_leave(m);
	return out;
}

struct arguments arguments_rest(const struct arguments* a, int skip) {
	struct arguments rest = *a;
	rest.place.item = rest.place.n > skip ? rest.place.item + skip : NULL;
	rest.place.n = rest.place.n > skip ? rest.place.n - skip : 0;
	return rest;
}

int64_t argument_integer(struct machine* m, struct value v, const char* what, int64_t otherwise) {
	if (v.kind == ABSENT)
		return otherwise;
	value_check_defined(m, v);
	if (!value_is_whole(v))
		machine_fail(m, "%s: '%s' object cannot be interpreted as an integer", what, value_type(v));
	return value_whole(v);
}

const struct string* argument_string(struct machine* m, struct value v, const char* what) {
	if (v.kind == ABSENT)
		return NULL;
	value_check_defined(m, v);
	if (v.kind != STRING)
		machine_fail(m, "%s: expected a string, found '%s'", what, value_type(v));
	return v.string;
}

const struct string* argument_indent(struct machine* m, struct value v, const char* what) {
	if (v.kind == STRING)
		return v.string;
	struct builder b = {.machine = m};
	for (int64_t n = argument_integer(m, v, what, 0); n > 0; n--)
		builder_words(&b, " ");
	return builder_end(&b);
}

/* ---- tests -------------------------------------------------------------------------------- */

/* Values with a length and an index: dicts and the undefined too. */
enum { INDEXED = OF(STRING) | OF(LIST) | OF(TUPLE) | OF(RANGE) | OF(DICT) | OF(UNDEFINED) };

/* how: the kinds that are meant */
static struct value is_of(struct machine* m, struct call* c) {
	(void)m;
	return value_boolean(c->how >> c->self.kind & 1);
}

/* how: which of the two */
static struct value is_truth(struct machine* m, struct call* c) {
	(void)m;
	return value_boolean(c->self.kind == BOOLEAN && c->self.boolean == c->how);
}
/* By its argument, or else by two; how: what is left over */
static struct value is_divisible(struct machine* m, struct call* c) {
	const struct value by = c->given[0].kind == ABSENT ? value_integer(2) : c->given[0];
	return value_boolean(value_equal(m, operator_binary(m, '%', c->self, by), value_integer(c->how)));
}

static struct value is_same(struct machine* m, struct call* c) {
	const struct value v = c->self, other = c->given[0];
	return value_boolean(v.kind == other.kind &&
	                     (v.kind >= STRING ? v.list == other.list : value_equal(m, v, other)));
}
/* how: the operator */
static struct value compare_values(struct machine* m, struct call* c) {
	return value_boolean(operator_compare(m, c->how, c->self, c->given[0]));
}

static const struct routine tests[] = {
    {"defined", TEST, is_of, ~OF(UNDEFINED), 0, {NULL}},
    {"undefined", TEST, is_of, OF(UNDEFINED), 0, {NULL}},
    {"none", TEST, is_of, OF(NONE), 0, {NULL}},
    {"boolean", TEST, is_of, OF(BOOLEAN), 0, {NULL}},
    {"true", TEST, is_truth, true, 0, {NULL}},
    {"false", TEST, is_truth, false, 0, {NULL}},
    {"integer", TEST, is_of, OF(INTEGER), 0, {NULL}},
    {"float", TEST, is_of, OF(FLOAT), 0, {NULL}},
    {"number", TEST, is_of, OF(BOOLEAN) | OF(INTEGER) | OF(FLOAT), 0, {NULL}},
    {"string", TEST, is_of, OF(STRING), 0, {NULL}},
    {"mapping", TEST, is_of, OF(DICT), 0, {NULL}},
    {"iterable", TEST, is_of, INDEXED | OF(VIEW) | OF(ITERATOR), 0, {NULL}},
    {"sequence", TEST, is_of, INDEXED, 0, {NULL}},
    {"callable", TEST, is_of, OF(FUNCTION) | OF(MACRO), 0, {NULL}},
    {"even", TEST, is_divisible, 0, 0, {NULL}},
    {"odd", TEST, is_divisible, 1, 0, {NULL}},
    {"divisibleby", TEST, is_divisible, 0, 1, {"num"}},
    {"in", TEST, compare_values, IN, 1, {"seq"}},
    {"sameas", TEST, is_same, 0, 1, {"other"}},
    {"eq equalto ==", TEST, compare_values, EQUAL, 1, {"other"}},
    {"ne !=", TEST, compare_values, NOT_EQUAL, 1, {"other"}},
    {"lt lessthan <", TEST, compare_values, '<', 1, {"other"}},
    {"le <=", TEST, compare_values, LESS_EQUAL, 1, {"other"}},
    {"gt greaterthan >", TEST, compare_values, '>', 1, {"other"}},
    {"ge >=", TEST, compare_values, GREATER_EQUAL, 1, {"other"}},
    {.name = NULL}};

/* ---- by name ------------------------------------------------------------------------------ */

const struct routine* library_find(int of, const struct string* name) {
	static const struct routine* const table[] = {tests, value_routines, text_routines, list_routines};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		for (const struct routine* r = table[i]; r->name; r++)
			if (r->of & of && string_among(name, r->name))
				return r;
	return NULL;
}

void library_fail(struct machine* m, int of, const struct string* name) {
	machine_fail(m, "the %s '%.*s' is not known here", of == FILTER ? "filter" : "test", EXCERPT(name));
}

/* ---- global functions --------------------------------------------------------------------- */

static struct value raise_exception(struct machine* m, struct call* c) {
	const struct string* const text = value_show(m, c->given[0]);
	machine_raise(m, text->data, text->size);
}

static struct value strftime_now(struct machine* m, struct call* c) {
	struct tm now;
	char text[512];
	const struct string* const f = argument_string(m, c->given[0], "strftime_now");
	char pattern[256];
	if (f->size >= sizeof pattern || !localtime_r(&m->now, &now))
		machine_fail(m, "strftime_now: a format of more than %zu bytes", sizeof pattern - 1);
	memcpy(pattern, f->data, f->size);
	pattern[f->size] = 0;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	const size_t n = strftime(text, sizeof text, pattern, &now);
#pragma GCC diagnostic pop
	struct builder b = {.machine = m};
	builder_add(&b, text, n, f->mark != NULL);
	return value_string(builder_end(&b));
}

enum { RANGE_MOST = 100000 }; /* the sandbox's */

static struct value make_range(struct machine* m, struct call* c) {
	int64_t part[3] = {0, 0, 1};
	const struct list* const given = &c->all->place;
	if (c->all->named.n || given->n < 1 || given->n > 3)
		machine_fail(m, "range takes from 1 to 3 arguments");
	for (int i = 0; i < given->n; i++)
		part[given->n == 1 ? 1 : i] = argument_integer(m, given->item[i], "range", 0);
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
static struct value make_dict(struct machine* m, struct call* c) {
	struct value out = value_dict(m);
	const struct list* const given = &c->all->place;
	if (given->n > 1)
		machine_fail(m, "dict expected at most 1 argument, got %d", given->n);
	if (given->n && given->item[0].kind == DICT) {
		dict_set_all(m, out.dict, given->item[0].dict);
	} else if (given->n) {
		const struct list* const pairs = value_items(m, given->item[0]);
		for (int i = 0; i < pairs->n; i++) {
			const struct list* const pair = value_items(m, pairs->item[i]);
			if (pair->n != 2)
				machine_fail(m, "dict: an element has %d values, expected 2", pair->n);
			dict_set(m, out.dict, pair->item[0], pair->item[1]);
		}
	}
	dict_set_all(m, out.dict, &c->all->named);
	return out;
}

static struct value make_namespace(struct machine* m, struct call* c) {
	struct value out = make_dict(m, c);
	out.kind = NAMESPACE;
	return out;
}

const struct routine global_functions[] = {{"raise_exception", 0, raise_exception, 0, 1, {"message"}},
                                           {"strftime_now", 0, strftime_now, 0, 1, {"format"}},
                                           {"range", 0, make_range, 0, AS_THEY_CAME, {NULL}},
                                           {"dict", 0, make_dict, 0, AS_THEY_CAME, {NULL}},
                                           {"namespace", 0, make_namespace, 0, AS_THEY_CAME, {NULL}},
                                           {.name = NULL}};
