/* Filters of lists and dicts. */
#include <string.h>

#include "core/jinja/library.h"

static const char* const no_names[] = {NULL};

/* ---- sorting ------------------------------------------------------------------------------ */

struct pair {
	struct value item, key;
};

/* Merges sorted [start, middle) and [middle, end) of from into to; of equals the first stays first. */
static void merge(struct machine* m, const struct pair* from, struct pair* to, int start, int middle, int end,
                  bool reverse) {
	for (int a = start, b = middle, out = start; out < end; out++) {
		bool second = a == middle;
		if (!second && b < end)
			second = reverse ? value_order(m, from[a].key, from[b].key, "<") == -1
			                 : value_order(m, from[b].key, from[a].key, "<") == -1;
		to[out] = second ? from[b++] : from[a++];
	}
}

/* A stable sort; `keys` go with `items`. */
static void sort_by(struct machine* m, struct value* items, struct value* keys, int n, bool reverse) {
	struct pair* from = machine_alloc(m, (size_t)n * sizeof *from);
	struct pair* to = machine_alloc(m, (size_t)n * sizeof *to);
	for (int i = 0; i < n; i++)
		from[i] = (struct pair){items[i], keys[i]};
	for (int64_t width = 1; width < n; width *= 2) {
		for (int64_t start = 0; start < n; start += 2 * width) {
			const int64_t middle = start + width < n ? start + width : n;
			const int64_t end = middle + width < n ? middle + width : n;
			machine_charge(m, (size_t)(end - start) * sizeof *from);
			merge(m, from, to, (int)start, (int)middle, (int)end, reverse);
		}
		struct pair* const other = from;
		from = to;
		to = other;
	}
	for (int i = 0; i < n; i++) {
		items[i] = from[i].item;
		keys[i] = from[i].key;
	}
}

/* Strings in lower case when case does not count. */
static struct value sort_key(struct machine* m, struct value v, bool case_sensitive) {
	return v.kind == STRING && !case_sensitive ? value_string(string_lower(m, v.string)) : v;
}

/* ---- parts -------------------------------------------------------------------------------- */

/* The attribute that `by` names, or the value itself. */
static struct value part(struct machine* m, struct value v, struct value by) {
	if (by.kind == ABSENT || by.kind == NONE)
		return v;
	return by.kind == STRING ? value_path(m, v, by.string) : value_index(m, v, by);
}

static struct list* copy_items(struct machine* m, struct value v) {
	const struct list* const items = value_items(m, v);
	struct list* const copy = value_list(m, LIST).list;
	for (int i = 0; i < items->n; i++)
		list_add(m, copy, items->item[i]);
	return copy;
}

static struct value as(enum kind kind, struct list* list) {
	return (struct value){.kind = kind, .list = list};
}

static struct value* keys_of(struct machine* m, const struct list* items, struct value by,
                             struct value sensitive) {
	struct value* const keys = machine_alloc(m, (size_t)items->n * sizeof *keys);
	for (int i = 0; i < items->n; i++)
		keys[i] = sort_key(m, part(m, items->item[i], by), value_truth(sensitive));
	return keys;
}

static struct value filter_length(struct machine* m, struct value v, const struct arguments* a) {
	arguments_take(m, a, "length", no_names, 0, NULL);
	const int64_t n = value_length(m, v);
	if (n < 0)
		machine_fail(m, "object of type '%s' has no len()", value_type(v));
	return value_integer(n);
}

static struct value filter_list(struct machine* m, struct value v, const struct arguments* a) {
	arguments_take(m, a, "list", no_names, 0, NULL);
	return as(LIST, copy_items(m, v));
}

static struct value filter_first(struct machine* m, struct value v, const struct arguments* a) {
	arguments_take(m, a, "first", no_names, 0, NULL);
	if (v.kind == ITERATOR && v.list->at < v.list->n)
		return v.list->item[v.list->at++];
	const struct list* const items = value_items(m, v);
	return items->n ? items->item[0] : value_undefined(NULL);
}

static struct value filter_last(struct machine* m, struct value v, const struct arguments* a) {
	arguments_take(m, a, "last", no_names, 0, NULL);
	if (v.kind == ITERATOR)
		machine_fail(m, "'generator' object is not reversible");
	const struct list* const items = value_items(m, v);
	return items->n ? items->item[items->n - 1] : value_undefined(NULL);
}

static struct value filter_reverse(struct machine* m, struct value v, const struct arguments* a) {
	arguments_take(m, a, "reverse", no_names, 0, NULL);
	const struct list* const items = value_items(m, v);
	struct value out = value_list(m, ITERATOR);
	struct builder text = {.machine = m};
	for (int i = items->n - 1; i >= 0; i--) {
		if (v.kind == STRING)
			builder_string(&text, items->item[i].string);
		else
			list_add(m, out.list, items->item[i]);
	}
	return v.kind == STRING ? value_string(builder_end(&text)) : out;
}

static struct value filter_sort(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"reverse", "case_sensitive", "attribute", NULL};
	struct value given[3];
	arguments_take(m, a, "sort", name, 0, given);
	struct list* const items = copy_items(m, v);
	sort_by(m, items->item, keys_of(m, items, given[2], given[1]), items->n,
	        argument_integer(m, given[0], "sort", 0) != 0);
	return as(LIST, items);
}

static struct value filter_unique(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"case_sensitive", "attribute", NULL};
	struct value given[2], out = value_list(m, ITERATOR), seen = value_dict(m);
	arguments_take(m, a, "unique", name, 0, given);
	const struct list* const items = value_items(m, v);
	const struct value* const keys = keys_of(m, items, given[1], given[0]);
	for (int i = 0; i < items->n; i++) {
		if (dict_find(m, seen.dict, keys[i]))
			continue;
		dict_set(m, seen.dict, keys[i], value_none());
		list_add(m, out.list, items->item[i]);
	}
	return out;
}

static struct value extreme(struct machine* m, struct value v, const struct arguments* a, const char* of,
                            int sign) {
	static const char* const name[] = {"case_sensitive", "attribute", NULL};
	struct value given[2];
	arguments_take(m, a, of, name, 0, given);
	const struct list* const items = value_items(m, v);
	const struct value* const keys = keys_of(m, items, given[1], given[0]);
	int best = 0;
	for (int i = 1; i < items->n; i++)
		if (value_order(m, keys[i], keys[best], sign < 0 ? "<" : ">") == sign)
			best = i;
	return items->n ? items->item[best] : value_undefined(NULL);
}
static struct value filter_min(struct machine* m, struct value v, const struct arguments* a) {
	return extreme(m, v, a, "min", -1);
}
static struct value filter_max(struct machine* m, struct value v, const struct arguments* a) {
	return extreme(m, v, a, "max", 1);
}

static struct value filter_sum(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"attribute", "start", NULL};
	struct value given[2];
	arguments_take(m, a, "sum", name, 0, given);
	struct value sum = given[1].kind == ABSENT ? value_integer(0) : given[1];
	if (sum.kind == STRING)
		machine_fail(m, "sum() can't sum strings [use ''.join(seq) instead]");
	const struct list* const items = value_items(m, v);
	for (int i = 0; i < items->n; i++)
		sum = operator_binary(m, PLUS, sum, part(m, items->item[i], given[0]));
	return sum;
}

static struct value filter_join(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"d", "attribute", NULL};
	struct value given[2];
	struct builder b = {.machine = m};
	arguments_take(m, a, "join", name, 0, given);
	const struct list* const items = value_items(m, v);
	for (int i = 0; i < items->n; i++) {
		if (i && given[0].kind != ABSENT)
			value_write(&b, given[0]);
		value_write(&b, part(m, items->item[i], given[1]));
	}
	return value_string(builder_end(&b));
}

static struct value filter_batch(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"linecount", "fill_with", NULL};
	struct value given[2], out = value_list(m, ITERATOR), row = value_list(m, LIST);
	arguments_take(m, a, "batch", name, 1, given);
	const int64_t n = argument_integer(m, given[0], "batch", 0);
	const struct list* const items = value_items(m, v);
	for (int i = 0; i < items->n; i++) {
		if (row.list->n == n) {
			list_add(m, out.list, row);
			row = value_list(m, LIST);
		}
		list_add(m, row.list, items->item[i]);
	}
	while (row.list->n && row.list->n < n && given[1].kind != ABSENT && given[1].kind != NONE)
		list_add(m, row.list, given[1]);
	if (row.list->n)
		list_add(m, out.list, row);
	return out;
}

/* ---- dicts -------------------------------------------------------------------------------- */

static struct value filter_items(struct machine* m, struct value v, const struct arguments* a) {
	struct value out = value_list(m, ITERATOR);
	arguments_take(m, a, "items", no_names, 0, NULL);
	if (v.kind == UNDEFINED)
		return out;
	if (v.kind != DICT)
		machine_fail(m, "Can only get item pairs from a mapping.");
	for (int i = 0; i < v.dict->n; i++)
		list_add(m, out.list, value_pair(m, v.dict->entry[i].key, v.dict->entry[i].value));
	return out;
}

static struct value filter_dictsort(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"case_sensitive", "by", "reverse", NULL};
	struct value given[3];
	arguments_take(m, a, "dictsort", name, 0, given);
	const struct string* const by = argument_string(m, given[1], "dictsort", string_of(m, "key"));
	if (!string_is(by, "key") && !string_is(by, "value"))
		machine_fail(m, "You can only sort by either \"key\" or \"value\"");
	if (v.kind == UNDEFINED)
		value_fail_undefined(m, v);
	if (v.kind != DICT)
		machine_fail(m, "'%s' object has no attribute 'items'", value_type(v));
	struct list* const pairs = filter_items(m, v, &(struct arguments){0}).list;
	struct value* const keys = keys_of(m, pairs, value_integer(string_is(by, "value")), given[0]);
	sort_by(m, pairs->item, keys, pairs->n, argument_integer(m, given[2], "dictsort", 0) != 0);
	return as(LIST, pairs);
}

/* ---- choosing and mapping ------------------------------------------------------------------ */

static struct value filter_map(struct machine* m, struct value v, const struct arguments* a) {
	static const char* const name[] = {"attribute", "default", NULL};
	struct value given[2], out = value_list(m, ITERATOR);
	if (!value_truth(v)) /* so None is an empty list here, and nothing is asked for */
		return out;
	const struct list* const items = value_items(m, v);
	if (a->n == 0) {
		arguments_take(m, a, "map", name, 1, given);
		for (int i = 0; i < items->n; i++) {
			const struct value one = part(m, items->item[i], given[0]);
			const bool otherwise = one.kind == UNDEFINED && given[1].kind != ABSENT && given[1].kind != NONE;
			list_add(m, out.list, otherwise ? given[1] : one);
		}
		return out;
	}
	const struct string* const by = argument_string(m, a->value[0], "map", NULL);
	const struct filter* const filter = library_filter(by);
	const struct arguments rest = arguments_rest(a, 1);
	if (!filter)
		machine_fail(m, "the filter '%.*s' is not known here", (int)(by->size < 60 ? by->size : 60),
		             by->data);
	for (int i = 0; i < items->n; i++)
		list_add(m, out.list, filter_call(m, filter, items->item[i], &rest));
	return out;
}

/* select and reject, and with an attribute first selectattr and rejectattr. */
static struct value choose(struct machine* m, struct value v, const struct arguments* a, const char* of,
                           bool attribute, bool wanted) {
	struct value out = value_list(m, ITERATOR);
	const int first = attribute ? 1 : 0;
	if (!value_truth(v))
		return out;
	if (a->n < first)
		machine_fail(m, "%s: the attribute is missing", of);
	const struct test* test = NULL;
	if (a->n > first) {
		const struct string* const name = argument_string(m, a->value[first], of, NULL);
		test = library_test(name);
		if (!test)
			machine_fail(m, "the test '%.*s' is not known here", (int)(name->size < 60 ? name->size : 60),
			             name->data);
	}
	const struct arguments rest = arguments_rest(a, first + 1);
	const struct list* const items = value_items(m, v);
	for (int i = 0; i < items->n; i++) {
		const struct value one = attribute ? part(m, items->item[i], a->value[0]) : items->item[i];
		machine_charge(m, 0);
		if ((test ? test_call(m, test, one, &rest) : value_truth(one)) == wanted)
			list_add(m, out.list, items->item[i]);
	}
	return out;
}
static struct value filter_select(struct machine* m, struct value v, const struct arguments* a) {
	return choose(m, v, a, "select", false, true);
}
static struct value filter_reject(struct machine* m, struct value v, const struct arguments* a) {
	return choose(m, v, a, "reject", false, false);
}
static struct value filter_selectattr(struct machine* m, struct value v, const struct arguments* a) {
	return choose(m, v, a, "selectattr", true, true);
}
static struct value filter_rejectattr(struct machine* m, struct value v, const struct arguments* a) {
	return choose(m, v, a, "rejectattr", true, false);
}

const struct filter list_filters[] = {{"length", filter_length},
                                      {"count", filter_length},
                                      {"list", filter_list},
                                      {"first", filter_first},
                                      {"last", filter_last},
                                      {"reverse", filter_reverse},
                                      {"sort", filter_sort},
                                      {"unique", filter_unique},
                                      {"min", filter_min},
                                      {"max", filter_max},
                                      {"sum", filter_sum},
                                      {"join", filter_join},
                                      {"batch", filter_batch},
                                      {"items", filter_items},
                                      {"dictsort", filter_dictsort},
                                      {"map", filter_map},
                                      {"select", filter_select},
                                      {"reject", filter_reject},
                                      {"selectattr", filter_selectattr},
                                      {"rejectattr", filter_rejectattr},
                                      {NULL, NULL}};
