#include "core/jinja/value.h"

#include <math.h>
#include <string.h>

/* ---- making ------------------------------------------------------------------------------- */

struct value value_list(struct machine* m, enum kind kind) {
	return (struct value){.kind = kind, .list = MACHINE_NEW(m, struct list, .item = NULL)};
}

void list_add(struct machine* m, struct list* list, struct value v) {
	list->item = machine_grow(m, list->item, &list->capacity, list->n + 1, sizeof *list->item);
	list->item[list->n++] = v;
}

void list_add_all(struct machine* m, struct list* list, const struct list* more) {
	for (int i = 0; i < more->n; i++)
		list_add(m, list, more->item[i]);
}

struct value value_dict(struct machine* m) {
	return (struct value){.kind = DICT, .dict = MACHINE_NEW(m, struct dict, .entry = NULL)};
}

struct value value_function(struct machine* m, struct value self, const struct routine* what) {
	return (struct value){.kind = FUNCTION,
	                      .function = MACHINE_NEW(m, struct function, .self = self, .what = what)};
}

/* ---- kinds -------------------------------------------------------------------------------- */

static const char* kind_name(int kind) {
	static const char* const name[] = {
	    "nothing", "Undefined", "NoneType",  "bool", "int",       "float",       "str",      "list", "tuple",
	    "range",   "dict_view", "generator", "dict", "Namespace", "LoopContext", "function", "Macro"};
	return name[kind];
}

const char* value_type(struct value v) {
	if (v.kind == VIEW)
		return v.list->name;
	return v.kind == STRING && v.string->markup ? "Markup" : kind_name((int)v.kind);
}

bool value_is_whole(struct value v) { return v.kind == BOOLEAN || v.kind == INTEGER; }

int64_t value_whole(struct value v) { return v.kind == BOOLEAN ? v.boolean : v.integer; }

bool value_is_number(struct value v) { return value_is_whole(v) || v.kind == FLOAT; }

double value_number(struct value v) { return v.kind == FLOAT ? v.number : (double)value_whole(v); }

/* Copies values that are read more than once. */
static bool is_list(struct value v) { return v.kind >= LIST && v.kind <= VIEW; }

bool value_truth(struct value v) {
	const double number = value_is_number(v) ? value_number(v) : 0;
	if (value_is_number(v))
		return number < 0 || number > 0 || isnan(number);
	if (v.kind == STRING)
		return v.string->size > 0;
	if (is_list(v) || v.kind == DICT)
		return (v.kind == DICT ? v.dict->n : v.list->n) > 0;
	return v.kind > NONE;
}

void value_check_defined(struct machine* m, struct value v) {
	if (v.kind != UNDEFINED)
		return;
	const struct string* const name = v.string;
	const int size = name ? (int)(name->size < 80 ? name->size : 80) : 0;
	if (v.unsafe)
		machine_fail(m, "access to attribute '%.*s' of '%s' object is unsafe", size, name->data,
		             kind_name(v.of));
	if (!name)
		machine_fail(m, "a value is undefined");
	if (v.of == ABSENT)
		machine_fail(m, "'%.*s' is undefined", size, name->data);
	machine_fail(m, "'%s object' has no attribute '%.*s'", kind_name(v.of), size, name->data);
}

/* ---- equality and order ------------------------------------------------------------------- */

/* Compares numbers of any two kinds: -1, 0, 1, or 2 if one is no number. */
static int number_order(struct value a, struct value b) {
	if (a.kind != FLOAT && b.kind != FLOAT)
		return value_whole(a) < value_whole(b) ? -1 : value_whole(a) > value_whole(b);
	const double x = value_number(a), y = value_number(b);
	return x < y ? -1 : x > y ? 1 : isnan(x) || isnan(y) ? 2 : 0;
}

static bool equal_lists(struct machine* m, const struct list* a, const struct list* b) {
	if (a->n != b->n)
		return false;
	for (int i = 0; i < a->n; i++)
		if (!value_equal(m, a->item[i], b->item[i]))
			return false;
	return true;
}

static bool equal_dicts(struct machine* m, const struct dict* a, const struct dict* b) {
	if (a->n != b->n)
		return false;
	for (int i = 0; i < a->n; i++) {
		const struct value* const other = dict_find(m, b, a->entry[i].key);
		if (!other || !value_equal(m, a->entry[i].value, *other))
			return false;
	}
	return true;
}

bool value_equal(struct machine* m, struct value a, struct value b) {
	if (value_is_number(a) && value_is_number(b))
		return number_order(a, b) == 0;
	if (a.kind != b.kind)
		return false;
	bool equal = true;
	machine_enter(m);
	if (a.kind == STRING)
		equal = string_equal(m, a.string, b.string);
	else if (a.kind >= LIST && a.kind <= RANGE)
		equal = equal_lists(m, a.list, b.list);
	else if (a.kind == DICT)
		equal = equal_dicts(m, a.dict, b.dict);
	else if (a.kind > STRING)
		equal = a.list == b.list; /* the same one, whatever it is */
	machine_leave(m);
	return equal;
}

int value_order(struct machine* m, struct value a, struct value b, const char* sign) {
	if (value_is_number(a) && value_is_number(b))
		return number_order(a, b);
	if (a.kind == STRING && b.kind == STRING)
		return string_order(m, a.string, b.string);
	value_check_defined(m, a);
	value_check_defined(m, b);
	if (a.kind != b.kind || (a.kind != LIST && a.kind != TUPLE))
		machine_fail(m, "'%s' not supported between instances of '%s' and '%s'", sign, value_type(a),
		             value_type(b));
	machine_enter(m);
	int order = a.list->n < b.list->n ? -1 : a.list->n > b.list->n;
	for (int i = 0; i < a.list->n && i < b.list->n; i++)
		if (!value_equal(m, a.list->item[i], b.list->item[i])) {
			order = value_order(m, a.list->item[i], b.list->item[i], sign);
			break;
		}
	machine_leave(m);
	return order;
}

/* Sorts by insertion: lists are short, and every move counts as work. */
void value_sort(struct machine* m, struct entry* entry, int n, bool reverse) {
	for (int i = 1; i < n; i++) {
		const struct entry moved = entry[i];
		int at = i;
		for (; at > 0; at--) {
			const struct value before = entry[at - 1].key;
			if (value_order(m, reverse ? before : moved.key, reverse ? moved.key : before, "<") != -1)
				break;
			machine_charge(m, 0);
			entry[at] = entry[at - 1];
		}
		entry[at] = moved;
	}
}

/* ---- dicts -------------------------------------------------------------------------------- */

bool value_is_key(struct value v) {
	if (v.kind == TUPLE) {
		for (int i = 0; i < v.list->n; i++) /* tuples within tuples are no keys here */
			if (v.list->item[i].kind == TUPLE || !value_is_key(v.list->item[i]))
				return false;
		return true;
	}
	return v.kind == NONE || v.kind == STRING || value_is_number(v);
}

static bool same_key(struct machine* m, struct value a, struct value b) {
	if (a.kind == STRING && b.kind == STRING)
		return a.string->size == b.string->size &&
		       memcmp(a.string->data, b.string->data, a.string->size) == 0;
	return a.kind != STRING && b.kind != STRING && value_equal(m, a, b);
}

/* Searches one by one: dicts are small, and each key counts as work. */
struct value* dict_find(struct machine* m, const struct dict* d, struct value key) {
	if (!value_is_key(key))
		machine_fail(m, "unhashable type: '%s'", value_type(key));
	machine_charge(m, (size_t)d->n * (4 + (key.kind == STRING ? key.string->size / 4 : 0)));
	for (int i = 0; i < d->n; i++)
		if (same_key(m, d->entry[i].key, key))
			return &d->entry[i].value;
	return NULL;
}

struct value* dict_find_name(struct machine* m, const struct dict* d, const struct string* name) {
	return dict_find(m, d, value_string(name));
}

void dict_add(struct machine* m, struct dict* d, struct value key, struct value v) {
	d->entry = machine_grow(m, d->entry, &d->capacity, d->n + 1, sizeof *d->entry);
	d->entry[d->n++] = (struct entry){key, v};
}

void dict_set(struct machine* m, struct dict* d, struct value key, struct value v) {
	struct value* const found = dict_find(m, d, key);
	if (found)
		*found = v;
	else
		dict_add(m, d, key, v);
}

void dict_set_all(struct machine* m, struct dict* d, const struct dict* more) {
	for (int i = 0; i < more->n; i++)
		dict_set(m, d, more->entry[i].key, more->entry[i].value);
}

/* ---- containers --------------------------------------------------------------------------- */

static bool is_iterable(struct value v) {
	return v.kind == UNDEFINED || v.kind == STRING || v.kind == DICT ||
	       (v.kind >= LIST && v.kind <= ITERATOR);
}

static const struct list* list_characters(struct machine* m, const struct string* s) {
	struct list* const list = value_list(m, LIST).list;
	uint32_t code;
	for (size_t at = 0; at < s->size;) {
		const size_t length = string_character(s, at, &code);
		list_add(m, list, value_string(string_part(m, s, at, at + length)));
		at += length;
	}
	return list;
}

const struct list* value_items(struct machine* m, struct value v) {
	static const struct list empty = {0};
	if (is_list(v))
		return v.list;
	switch (v.kind) {
	case ITERATOR: {
		struct list rest = *v.list;
		rest.item = rest.item ? rest.item + rest.at : NULL;
		rest.n -= rest.at;
		v.list->at = v.list->n;
		return machine_new(m, &rest, sizeof rest);
	}
	case STRING:
		return list_characters(m, v.string);
	case DICT: {
		struct list* const keys = value_list(m, LIST).list;
		for (int i = 0; i < v.dict->n; i++)
			list_add(m, keys, v.dict->entry[i].key);
		return keys;
	}
	case UNDEFINED:
		if (v.unsafe)
			value_check_defined(m, v);
		return &empty;
	default:
		machine_fail(m, "'%s' object is not iterable", value_type(v));
	}
}

int64_t value_length(struct machine* m, struct value v) {
	if (v.kind == STRING)
		return string_length(m, v.string);
	return is_list(v) ? v.list->n : v.kind == DICT ? v.dict->n : v.kind == UNDEFINED ? 0 : -1;
}

bool value_in(struct machine* m, struct value v, struct value container) {
	if (container.kind == DICT)
		return dict_find(m, container.dict, v) != NULL;
	if (container.kind == STRING) {
		if (v.kind != STRING)
			machine_fail(m, "'in <string>' requires string as left operand, not %s", value_type(v));
		return string_find(m, container.string, v.string, 0, container.string->size) != SIZE_MAX;
	}
	if (!is_iterable(container))
		machine_fail(m, "argument of type '%s' is not iterable", value_type(container));
	const struct list* const items = value_items(m, container);
	for (int i = 0; i < items->n; i++)
		if (value_equal(m, items->item[i], v))
			return true;
	return false;
}
