/* Filters and methods of lists and dicts, and methods of loops. */
#include <string.h>

#include "core/jinja/library.h"

/* ---- auxiliary weights -------------------------------------------------------------------------------- */

static const struct value nothing = {.kind = ABSENT};

/* The attribute named `by`, or the value itself; otherwise: in place of what is undefined, or ABSENT. */
static struct value part_or(struct machine* m, struct value v, struct value by, struct value otherwise) {
	if (by.kind == ABSENT || by.kind == NONE)
		return v;
	if (by.kind == STRING)
		return value_path(m, v, by.string, otherwise);
	const struct value one = value_index(m, v, by);
	return one.kind == UNDEFINED && otherwise.kind != ABSENT && otherwise.kind != NONE ? otherwise : one;
}
static struct value find_part(struct machine* m, struct value v, struct value by) {
	return part_or(m, v, by, nothing);
}

/* The items with their sort keys: strings become lower case when case does not count. */
static struct entry* with_keys(struct machine* m, const struct list* items, struct value by,
                               struct value sensitive, struct value otherwise) {
	struct entry* const entry = machine_alloc(m, (size_t)items->n * sizeof *entry);
	for (int i = 0; i < items->n; i++) {
		struct value key = part_or(m, items->item[i], by, otherwise);
		if (key.kind == STRING && !value_truth(sensitive))
			key = value_string(string_lower(m, key.string));
		entry[i] = (struct entry){key, items->item[i]};
	}
	return entry;
}

static struct value sort_items(struct machine* m, const struct list* items, struct value by,
                               struct value sensitive, int64_t reverse) {
	struct value out = value_list(m, LIST);
	struct entry* const entry = with_keys(m, items, by, sensitive, nothing);
	value_sort(m, entry, items->n, reverse != 0);
	for (int i = 0; i < items->n; i++)
		list_add(m, out.list, entry[i].value);
	return out;
}

static struct value filter_length(struct machine* m, struct call* c) {
	const int64_t n = value_length(m, c->self);
	if (n < 0)
		machine_fail(m, "object of type '%s' has no len()", value_type(c->self));
	return value_integer(n);
}

static struct value filter_list(struct machine* m, struct call* c) {
	struct value out = value_list(m, LIST);
	list_add_all(m, out.list, value_items(m, c->self));
	return out;
}

static struct value filter_first(struct machine* m, struct call* c) {
	if (c->self.kind == ITERATOR && c->self.list->at < c->self.list->n)
		return c->self.list->item[c->self.list->at++];
	const struct list* const items = value_items(m, c->self);
	return items->n ? items->item[0] : value_undefined(NULL);
}

static struct value filter_last(struct machine* m, struct call* c) {
	if (c->self.kind == ITERATOR)
		machine_fail(m, "'generator' object is not reversible");
	const struct list* const items = value_items(m, c->self);
	return items->n ? items->item[items->n - 1] : value_undefined(NULL);
}

static struct value filter_reverse(struct machine* m, struct call* c) {
	const struct list* const items = value_items(m, c->self);
	struct value out = value_list(m, ITERATOR);
	struct builder text = {.machine = m};
	for (int i = items->n - 1; i >= 0; i--) {
		if (c->self.kind == STRING)
			builder_string(&text, items->item[i].string);
		else
			list_add(m, out.list, items->item[i]);
	}
	return c->self.kind == STRING ? value_string(builder_end(&text)) : out;
}

static struct value filter_sort(struct machine* m, struct call* c) {
	const struct list* const items = value_items(m, c->self);
	const int64_t reverse = argument_integer(m, c->given[0], "sort", 0);
	return sort_items(m, items, c->given[2], c->given[1], reverse);
}

static struct value filter_unique(struct machine* m, struct call* c) {
	struct value out = value_list(m, ITERATOR), seen = value_dict(m);
	const struct list* const items = value_items(m, c->self);
	const struct entry* const entry = with_keys(m, items, c->given[1], c->given[0], nothing);
	for (int i = 0; i < items->n; i++) {
		if (dict_find(m, seen.dict, entry[i].key))
			continue;
		dict_add(m, seen.dict, entry[i].key, value_none());
		list_add(m, out.list, entry[i].value);
	}
	return out;
}

/* how: -1 the least, 1 the most */
static struct value filter_extreme(struct machine* m, struct call* c) {
	const struct list* const items = value_items(m, c->self);
	const struct entry* const entry = with_keys(m, items, c->given[1], c->given[0], nothing);
	int best = 0;
	for (int i = 1; i < items->n; i++)
		if (value_order(m, entry[i].key, entry[best].key, c->how < 0 ? "<" : ">") == c->how)
			best = i;
	return items->n ? items->item[best] : value_undefined(NULL);
}

static struct value filter_sum(struct machine* m, struct call* c) {
	struct value sum = c->given[1].kind == ABSENT ? value_integer(0) : c->given[1];
	if (sum.kind == STRING)
		machine_fail(m, "sum() can't sum strings [use ''.join(seq) instead]");
	const struct list* const items = value_items(m, c->self);
	for (int i = 0; i < items->n; i++)
		sum = operator_binary(m, '+', sum, find_part(m, items->item[i], c->given[0]));
	return sum;
}

/* Pairs of an attribute's value and the items that have it, ordered by it. */
static struct value filter_groupby(struct machine* m, struct call* c) {
	const struct list* const items = value_items(m, c->self);
	struct value out = value_list(m, LIST), group = value_undefined(NULL);
	struct entry* const entry = with_keys(m, items, c->given[0], c->given[2], c->given[1]);
	value_sort(m, entry, items->n, false);
	for (int i = 0; i < items->n; i++) {
		if (i == 0 || !value_equal(m, entry[i].key, entry[i - 1].key)) {
			struct value pair = value_list(m, TUPLE);
			group = value_list(m, LIST);
			list_add(m, pair.list, part_or(m, entry[i].value, c->given[0], c->given[1]));
			list_add(m, pair.list, group);
			list_add(m, out.list, pair);
		}
		list_add(m, group.list, entry[i].value);
	}
	return out;
}

/* Lists of so many items; the last is filled up. */
static struct value filter_batch(struct machine* m, struct call* c) {
	const struct list* const items = value_items(m, c->self);
	const int64_t size = argument_integer(m, c->given[0], "batch", 0);
	struct value out = value_list(m, ITERATOR), one = value_undefined(NULL);
	if (size < 1)
		machine_fail(m, "batch: the size is less than 1");
	for (int i = 0; i < items->n; i++) {
		if (i % size == 0) {
			one = value_list(m, LIST);
			list_add(m, out.list, one);
		}
		list_add(m, one.list, items->item[i]);
	}
	if (c->given[1].kind != ABSENT && c->given[1].kind != NONE)
		for (int64_t i = items->n; i % size; i++) {
			machine_charge(m, 0);
			list_add(m, one.list, c->given[1]);
		}
	return out;
}

/* So many lists, of which the first are the longer ones; the others are filled up to their length. */
static struct value filter_slice(struct machine* m, struct call* c) {
	const struct list* const items = value_items(m, c->self);
	const int64_t n = argument_integer(m, c->given[0], "slice", 0);
	struct value out = value_list(m, ITERATOR);
	if (n < 1)
		machine_fail(m, "slice: the number of slices is less than 1");
	const int64_t shortest = items->n / n, longer = items->n % n;
	int at = 0;
	for (int64_t i = 0; i < n; i++) {
		struct value one = value_list(m, LIST);
		machine_charge(m, 0);
		for (int64_t k = 0; k < shortest + (i < longer); k++)
			list_add(m, one.list, items->item[at++]);
		if (i >= longer && c->given[1].kind != ABSENT && c->given[1].kind != NONE)
			list_add(m, one.list, c->given[1]);
		list_add(m, out.list, one);
	}
	return out;
}

static struct value filter_join(struct machine* m, struct call* c) {
	struct builder b = {.machine = m};
	const struct list* const items = value_items(m, c->self);
	for (int i = 0; i < items->n; i++) {
		if (i && c->given[0].kind != ABSENT)
			value_write(&b, c->given[0]);
		value_write(&b, find_part(m, items->item[i], c->given[1]));
	}
	return value_string(builder_end(&b));
}

/* ---- dicts -------------------------------------------------------------------------------- */

enum { KEYS, VALUES, PAIRS };

static void add_entries(struct machine* m, struct list* list, const struct dict* dict, int part) {
	for (int i = 0; i < dict->n; i++) {
		const struct entry e = dict->entry[i];
		struct value pair = value_list(m, TUPLE);
		list_add(m, pair.list, e.key);
		list_add(m, pair.list, e.value);
		list_add(m, list, part == KEYS ? e.key : part == VALUES ? e.value : pair);
	}
}

static struct value filter_items(struct machine* m, struct call* c) {
	struct value out = value_list(m, ITERATOR);
	if (c->self.kind == UNDEFINED)
		return out;
	if (c->self.kind != DICT)
		machine_fail(m, "Can only get item pairs from a mapping.");
	add_entries(m, out.list, c->self.dict, PAIRS);
	return out;
}

static struct value filter_dictsort(struct machine* m, struct call* c) {
	const struct string* const by = argument_string(m, c->given[1], "dictsort");
	const bool by_value = by && string_is(by, "value");
	if (by && !by_value && !string_is(by, "key"))
		machine_fail(m, "You can only sort by either \"key\" or \"value\"");
	value_check_defined(m, c->self);
	if (c->self.kind != DICT)
		machine_fail(m, "'%s' object has no attribute 'items'", value_type(c->self));
	const int64_t reverse = argument_integer(m, c->given[2], "dictsort", 0);
	return sort_items(m, filter_items(m, c).list, value_integer(by_value), c->given[0], reverse);
}

/* ---- choosing and mapping ------------------------------------------------------------------ */

static struct value filter_map(struct machine* m, struct call* c) {
	static const struct routine by_attribute = {"map", FILTER, NULL, 0, 1, {"attribute", "default"}};
	struct value out = value_list(m, ITERATOR);
	const struct value *const attribute = &c->given[0], *const otherwise = &c->given[1];
	if (!value_truth(c->self)) /* None is an empty list here, and the filter's arguments are not read */
		return out;
	const struct list* const items = value_items(m, c->self);
	if (c->all->place.n == 0) {
		arguments_take(m, &by_attribute, c->all, c->given);
		for (int i = 0; i < items->n; i++)
			list_add(m, out.list, part_or(m, items->item[i], *attribute, *otherwise));
		return out;
	}
	const struct string* const by = argument_string(m, c->all->place.item[0], "map");
	const struct routine* const filter = library_find(FILTER, by);
	const struct arguments rest = arguments_rest(c->all, 1);
	if (!filter)
		library_fail(m, FILTER, by);
	for (int i = 0; i < items->n; i++)
		list_add(m, out.list, routine_call(m, filter, items->item[i], &rest));
	return out;
}

/* how: keeps items that pass the test, or the others; a first argument may name an attribute */
enum { PASSING = 1, OF_ATTRIBUTE = 2 };

static struct value filter_select(struct machine* m, struct call* c) {
	const struct list* const given = &c->all->place;
	struct value out = value_list(m, ITERATOR);
	const bool attribute = c->how & OF_ATTRIBUTE, wanted = c->how & PASSING;
	const int first = attribute ? 1 : 0;
	if (!value_truth(c->self))
		return out;
	if (given->n < first)
		machine_fail(m, "%s: the attribute is missing", c->name);
	const struct routine* test = NULL;
	if (given->n > first) {
		const struct string* const name = argument_string(m, given->item[first], c->name);
		test = library_find(TEST, name);
		if (!test)
			library_fail(m, TEST, name);
	}
	const struct arguments rest = arguments_rest(c->all, first + 1);
	const struct list* const items = value_items(m, c->self);
	for (int i = 0; i < items->n; i++) {
		const struct value one = attribute ? find_part(m, items->item[i], given->item[0]) : items->item[i];
		machine_charge(m, 0);
		if (value_truth(test ? routine_call(m, test, one, &rest) : one) == wanted)
			list_add(m, out.list, items->item[i]);
	}
	return out;
}

/* ---- methods ------------------------------------------------------------------------------ */

static struct value dict_get(struct machine* m, struct call* c) {
	const struct value* const found = dict_find(m, c->self.dict, c->given[0]);
	return found ? *found : c->given[1].kind == ABSENT ? value_none() : c->given[1];
}

static struct value dict_view(struct machine* m, struct call* c) {
	static const char* const name[] = {"dict_keys", "dict_values", "dict_items"};
	struct value view = value_list(m, VIEW);
	view.list->name = name[c->how];
	add_entries(m, view.list, c->self.dict, c->how);
	return view;
}

/* Nothing is changed in place, so a copy is the value itself. */
static struct value return_same(struct machine* m, struct call* c) {
	(void)m;
	return c->self;
}

static struct value list_index(struct machine* m, struct call* c) {
	for (int i = 0; i < c->self.list->n; i++)
		if (value_equal(m, c->self.list->item[i], c->given[0]))
			return value_integer(i);
	machine_fail(m, "a value is not in list");
}

static struct value list_count(struct machine* m, struct call* c) {
	int64_t n = 0;
	for (int i = 0; i < c->self.list->n; i++)
		n += value_equal(m, c->self.list->item[i], c->given[0]);
	return value_integer(n);
}

static struct value loop_cycle(struct machine* m, struct call* c) {
	const struct list* const given = &c->all->place;
	if (given->n == 0)
		machine_fail(m, "no items for cycling given");
	return given->item[c->self.loop->at % given->n];
}

/* ---- tables ------------------------------------------------------------------------------- */

const struct routine list_routines[] = {
    {"length count", FILTER, filter_length, 0, 0, {NULL}},
    {"list", FILTER, filter_list, 0, 0, {NULL}},
    {"first", FILTER, filter_first, 0, 0, {NULL}},
    {"last", FILTER, filter_last, 0, 0, {NULL}},
    {"reverse", FILTER, filter_reverse, 0, 0, {NULL}},
    {"sort", FILTER, filter_sort, 0, 0, {"reverse", "case_sensitive", "attribute"}},
    {"unique", FILTER, filter_unique, 0, 0, {"case_sensitive", "attribute"}},
    {"min", FILTER, filter_extreme, -1, 0, {"case_sensitive", "attribute"}},
    {"max", FILTER, filter_extreme, 1, 0, {"case_sensitive", "attribute"}},
    {"sum", FILTER, filter_sum, 0, 0, {"attribute", "start"}},
    {"groupby", FILTER, filter_groupby, 0, 1, {"attribute", "default", "case_sensitive"}},
    {"batch", FILTER, filter_batch, 0, 1, {"linecount", "fill_with"}},
    {"slice", FILTER, filter_slice, 0, 1, {"slices", "fill_with"}},
    {"join", FILTER, filter_join, 0, 0, {"d", "attribute"}},
    {"items", FILTER, filter_items, 0, 0, {NULL}},
    {"dictsort", FILTER, filter_dictsort, 0, 0, {"case_sensitive", "by", "reverse"}},
    {"map", FILTER, filter_map, 0, AS_THEY_CAME, {NULL}},
    {"select", FILTER, filter_select, PASSING, AS_THEY_CAME, {NULL}},
    {"reject", FILTER, filter_select, 0, AS_THEY_CAME, {NULL}},
    {"selectattr", FILTER, filter_select, PASSING | OF_ATTRIBUTE, AS_THEY_CAME, {NULL}},
    {"rejectattr", FILTER, filter_select, OF_ATTRIBUTE, AS_THEY_CAME, {NULL}},
    {"get", OF(DICT), dict_get, 0, 1, {"key", "default"}},
    {"keys", OF(DICT), dict_view, KEYS, 0, {NULL}},
    {"values", OF(DICT), dict_view, VALUES, 0, {NULL}},
    {"items", OF(DICT), dict_view, PAIRS, 0, {NULL}},
    {"index", OF(LIST) | OF(TUPLE) | OF(RANGE), list_index, 0, 1, {"value"}},
    {"count", OF(LIST) | OF(TUPLE) | OF(RANGE), list_count, 0, 1, {"value"}},
    {"copy", OF(LIST) | OF(DICT), return_same, 0, 0, {NULL}},
    {"cycle", OF(LOOP), loop_cycle, 0, AS_THEY_CAME, {NULL}},
    {"append clear pop reverse insert sort extend remove", OF(LIST), NULL, 0, 0, {NULL}},
    {"clear pop popitem setdefault update", OF(DICT), NULL, 0, 0, {NULL}},
    {.name = NULL}};
