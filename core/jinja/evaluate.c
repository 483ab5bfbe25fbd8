/* Expressions to values. */
#include <string.h>

#include "core/jinja/library.h"

/* ---- parts of values ---------------------------------------------------------------------- */

static struct value make_missing(struct value of, const struct string* name) {
	return (struct value){.kind = UNDEFINED, .of = (uint8_t)of.kind, .string = name};
}

static struct value loop_attribute(struct value v, const struct string* name) {
	const struct loop* const l = v.loop;
	const struct {
		const char* name;
		struct value value;
	} known[] = {{"index", value_integer(l->at + 1)},
	             {"index0", value_integer(l->at)},
	             {"revindex", value_integer(l->n - l->at)},
	             {"revindex0", value_integer(l->n - l->at - 1)},
	             {"first", value_boolean(l->at == 0)},
	             {"last", value_boolean(l->at == l->n - 1)},
	             {"length", value_integer(l->n)},
	             {"depth", value_integer(1)}, /* no loop is called by itself here */
	             {"depth0", value_integer(0)},
	             {"previtem", l->at > 0 ? l->item[l->at - 1] : value_undefined(name)},
	             {"nextitem", l->at + 1 < l->n ? l->item[l->at + 1] : value_undefined(name)}};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (string_is(name, known[i].name))
			return known[i].value;
	return make_missing(v, name);
}

/* A bound method, or undefined if the kind has none of that name. */
static struct value method_attribute(struct machine* m, struct value v, const struct string* name) {
	const struct routine* const what = library_find(OF(v.kind), name);
	if (what && what->run)
		return value_function(m, v, what);
	struct value found = make_missing(v, name);
	found.unsafe = what != NULL;
	return found;
}

/* Finds a.name as Jinja does: methods first, then items; else undefined. */
static struct value value_attribute(struct machine* m, struct value v, const struct string* name) {
	value_check_defined(m, v);
	const struct value found = method_attribute(m, v, name);
	if (found.kind == FUNCTION || found.unsafe)
		return found;
	if (v.kind == LOOP)
		return loop_attribute(v, name);
	if (v.kind == MACRO && string_is(name, "name"))
		return value_string(v.macro->node->name);
	const struct value* const item =
	    v.kind == NAMESPACE || v.kind == DICT ? dict_find_name(m, v.dict, name) : NULL;
	return item ? *item : found;
}

int64_t clamp_index(int64_t index, int64_t length) {
	if (index < 0)
		index = index < -length ? 0 : index + length;
	return index > length ? length : index;
}

static struct value index_sequence(struct machine* m, struct value v, int64_t index) {
	const bool text = v.kind == STRING;
	const int64_t n = text ? string_length(m, v.string) : v.list->n;
	if (index < -n || index >= n)
		return make_missing(v, NULL);
	index = index < 0 ? index + n : index;
	if (!text)
		return v.list->item[index];
	uint32_t code;
	const size_t at = string_offset(m, v.string, index);
	return value_string(string_part(m, v.string, at, at + string_character(v.string, at, &code)));
}

struct value value_index(struct machine* m, struct value v, struct value index) {
	value_check_defined(m, v);
	if (v.kind == DICT && value_is_key(index)) {
		const struct value* const found = dict_find(m, v.dict, index);
		if (found)
			return *found;
	}
	if ((v.kind == STRING || v.kind == LIST || v.kind == TUPLE || v.kind == RANGE) && value_is_whole(index))
		return index_sequence(m, v, value_whole(index));
	if (index.kind == STRING)
		return value_attribute(m, v, index.string);
	if (index.kind == UNDEFINED && index.unsafe)
		value_check_defined(m, index);
	return make_missing(v, NULL);
}

struct value value_path(struct machine* m, struct value v, const struct string* path,
                        struct value otherwise) {
	const struct string dot = {.data = ".", .size = 1};
	for (size_t at = 0;;) {
		const size_t found = string_find(m, path, &dot, at, path->size);
		const size_t end = found == SIZE_MAX ? path->size : found;
		int64_t number = 0;
		bool digits = end > at && end - at < 10;
		for (size_t i = at; i < end && digits; i++) {
			digits = is_digit(path->data[i]);
			number = number * 10 + (path->data[i] - '0');
		}
		v = value_index(m, v, digits ? value_integer(number) : value_string(string_part(m, path, at, end)));
		if (v.kind == UNDEFINED && otherwise.kind != ABSENT && otherwise.kind != NONE)
			v = otherwise;
		if (found == SIZE_MAX)
			return v;
		at = end + 1;
	}
}

/* ---- slices ------------------------------------------------------------------------------- */

struct slice {
	int64_t start, step, n;
};

/* A bound of a slice, or its default; from `least` to `most`. */
static int64_t clamp_bound(struct machine* m, struct value v, int64_t otherwise, int64_t length,
                           int64_t least, int64_t most) {
	if (v.kind == NONE)
		return otherwise;
	int64_t i = argument_integer(m, v, "a slice", 0);
	if (i < 0)
		i = i < -length ? least : i + length;
	return i < least ? least : i > most ? most : i;
}

/* Python's slice.indices. */
static struct slice slice_of(struct machine* m, struct scope* s, const struct node* n, int64_t length) {
	const struct node* const part[] = {n->b, n->c, n->d};
	struct value v[3];
	for (int i = 0; i < 3; i++)
		v[i] = part[i] ? evaluate(m, s, part[i]) : value_none();
	int64_t step = v[2].kind == NONE ? 1 : argument_integer(m, v[2], "a slice", 1);
	if (step == 0)
		machine_fail(m, "slice step cannot be zero");
	if (step > INT32_MAX || step < -INT32_MAX)
		step = step > 0 ? INT32_MAX : -INT32_MAX;
	const int64_t least = step > 0 ? 0 : -1, most = step > 0 ? length : length - 1;
	const int64_t from = clamp_bound(m, v[0], step > 0 ? 0 : length - 1, length, least, most);
	const int64_t to = clamp_bound(m, v[1], step > 0 ? length : -1, length, least, most);
	int64_t count = step > 0 ? (to - from + step - 1) / step : (from - to - step - 1) / -step;
	if ((step > 0 && to <= from) || (step < 0 && to >= from))
		count = 0;
	return (struct slice){from, step, count};
}

static struct value slice_string(struct machine* m, const struct string* text, struct slice slice) {
	if (slice.step == 1) {
		const size_t start = string_offset(m, text, slice.start);
		return value_string(string_part(m, text, start, string_offset(m, text, slice.start + slice.n)));
	}
	const struct list* const characters = value_items(m, value_string(text));
	struct builder b = {.machine = m};
	for (int64_t i = 0; i < slice.n; i++)
		builder_string(&b, characters->item[slice.start + i * slice.step].string);
	return value_string(builder_end(&b));
}

static struct value evaluate_slice(struct machine* m, struct scope* s, const struct node* n) {
	const struct value v = evaluate(m, s, n->a);
	value_check_defined(m, v);
	if (v.kind != STRING && v.kind != LIST && v.kind != TUPLE && v.kind != RANGE)
		return make_missing(v, NULL);
	const struct slice slice = slice_of(m, s, n, value_length(m, v));
	if (v.kind == STRING)
		return slice_string(m, v.string, slice);
	struct value out = value_list(m, v.kind);
	if (slice.step == 1) { /* what is never changed can be shared */
		out.list->item = v.list->item ? v.list->item + slice.start : NULL;
		out.list->n = out.list->capacity = (int)slice.n;
		return out;
	}
	for (int64_t i = 0; i < slice.n; i++)
		list_add(m, out.list, v.list->item[slice.start + i * slice.step]);
	return out;
}

/* ---- calls -------------------------------------------------------------------------------- */

static void spread_dict(struct machine* m, struct arguments* a, struct value v) {
	if (v.kind != DICT)
		machine_fail(m, "argument after ** must be a mapping, not %s", value_type(v));
	for (int i = 0; i < v.dict->n; i++) {
		if (v.dict->entry[i].key.kind != STRING)
			machine_fail(m, "keywords must be strings");
		dict_add(m, &a->named, v.dict->entry[i].key, v.dict->entry[i].value);
	}
}

static struct arguments evaluate_arguments(struct machine* m, struct scope* s, const struct node* call) {
	struct arguments a = {0};
	for (int i = 0; i < call->n; i++) {
		const struct node* const item = call->item[i];
		if (item->kind == NODE_KEYWORD)
			dict_add(m, &a.named, value_string(item->name), evaluate(m, s, item->a));
		else if (item->kind == NODE_SPREAD)
			list_add_all(m, &a.place, value_items(m, evaluate(m, s, item->a)));
		else if (item->kind == NODE_SPREAD_DICT)
			spread_dict(m, &a, evaluate(m, s, item->a));
		else
			list_add(m, &a.place, evaluate(m, s, item));
	}
	return a;
}

static struct value call_value(struct machine* m, struct value callee, const struct arguments* a) {
	switch (callee.kind) {
	case FUNCTION:
		return routine_call(m, callee.function->what, callee.function->self, a);
	case MACRO:
		return call_macro(m, callee.macro, a);
	default:
		value_check_defined(m, callee);
		machine_fail(m, "'%s' object is not callable", value_type(callee));
	}
}

/* Evaluates a filter, or a test, whose value is its answer. An unknown one fails only when it is reached. */
static struct value evaluate_filter(struct machine* m, struct scope* s, const struct node* n,
                                    struct value v) {
	const struct routine* const filter = n->table;
	const struct arguments a = evaluate_arguments(m, s, n);
	m->line = n->line;
	if (!filter)
		library_fail(m, n->kind == NODE_FILTER ? FILTER : TEST, n->name);
	return routine_call(m, filter, v, &a);
}

/* ---- expressions -------------------------------------------------------------------------- */

static struct value evaluate_items(struct machine* m, struct scope* s, const struct node* n, enum kind kind) {
	struct value list = value_list(m, kind);
	for (int i = 0; i < n->n; i++)
		list_add(m, list.list, evaluate(m, s, n->item[i]));
	return list;
}

static struct value evaluate_dict(struct machine* m, struct scope* s, const struct node* n) {
	struct value dict = value_dict(m);
	for (int i = 0; i < n->n; i += 2) {
		const struct value key = evaluate(m, s, n->item[i]);
		dict_set(m, dict.dict, key, evaluate(m, s, n->item[i + 1]));
	}
	return dict;
}

static struct value evaluate_compare(struct machine* m, struct scope* s, const struct node* n) {
	struct value left = evaluate(m, s, n->a);
	for (int i = 0; i < n->n; i++) {
		const struct value right = evaluate(m, s, n->item[i]->a);
		if (!operator_compare(m, n->item[i]->sign, left, right))
			return value_boolean(false);
		left = right;
	}
	return value_boolean(true);
}

static struct value evaluate_name(struct machine* m, struct scope* s, const struct node* n) {
	const struct value* const found = scope_find(m, s, n->name);
	if (!found && n->flag)
		machine_fail(m, "the name '%.*s' is not known here", EXCERPT(n->name));
	return found ? *found : value_undefined(n->name);
}

static struct value evaluate_choice(struct machine* m, struct scope* s, const struct node* n) {
	if (value_truth(evaluate(m, s, n->b)))
		return evaluate(m, s, n->a);
	return n->c ? evaluate(m, s, n->c) : value_undefined(NULL);
}

static struct value evaluate_call(struct machine* m, struct scope* s, const struct node* n) {
	const struct value callee = evaluate(m, s, n->a);
	const struct arguments a = evaluate_arguments(m, s, n);
	m->line = n->line;
	return call_value(m, callee, &a);
}

static struct value evaluate_here(struct machine* m, struct scope* s, const struct node* n) {
	struct value v;
	switch (n->kind) {
	case NODE_LITERAL:
		return n->value;
	case NODE_NAME:
		return evaluate_name(m, s, n);
	case NODE_TUPLE:
		return evaluate_items(m, s, n, TUPLE);
	case NODE_LIST:
		return evaluate_items(m, s, n, LIST);
	case NODE_DICT:
		return evaluate_dict(m, s, n);
	case NODE_ATTRIBUTE:
		v = evaluate(m, s, n->a);
		m->line = n->line;
		return value_attribute(m, v, n->name);
	case NODE_ITEM:
		v = evaluate(m, s, n->a);
		return value_index(m, v, evaluate(m, s, n->b));
	case NODE_SLICE:
		return evaluate_slice(m, s, n);
	case NODE_CALL:
		return evaluate_call(m, s, n);
	case NODE_FILTER:
		return evaluate_filter(m, s, n, evaluate(m, s, n->a));
	case NODE_TEST:
		return value_boolean(value_truth(evaluate_filter(m, s, n, evaluate(m, s, n->a))) != n->flag);
	case NODE_NOT:
		return value_boolean(!value_truth(evaluate(m, s, n->a)));
	case NODE_COMPARE:
		return evaluate_compare(m, s, n);
	case NODE_BINARY:
		v = evaluate(m, s, n->a);
		if (n->sign == AND || n->sign == OR)
			return value_truth(v) == (n->sign == AND) ? evaluate(m, s, n->b) : v;
		return operator_binary(m, n->sign, v, evaluate(m, s, n->b));
	case NODE_CHOOSE:
		return evaluate_choice(m, s, n);
	case NODE_MACRO:
		return (struct value){.kind = MACRO, .macro = MACHINE_NEW(m, struct macro, .node = n, .scope = s)};
	default: /* NODE_WRITTEN */
		return body_text(m, scope_within(m, s), n->a);
	}
}

struct value evaluate(struct machine* m, struct scope* s, const struct node* n) {
	machine_enter(m);
	const struct value v = evaluate_here(m, s, n);
	machine_leave(m);
	return v;
}
