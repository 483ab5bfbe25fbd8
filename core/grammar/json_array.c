/* Emits arrays: prefixItems, items, minItems and maxItems, contains, uniqueItems. */
#include <stdlib.h>
#include <string.h>

#include "core/grammar/json_compiler.h"

enum { MAX_KINDS = 4, MAX_ARRAY_STATES = 1 << 11 };

struct item_kind { /* what the array contains */
	const cJSON* schema;
	int least, most, cap;
};

struct array {
	struct compiler* c;
	const cJSON *group[MAX_GROUPS], *unevaluated;
	int n_groups, fixed, least, most;
	const cJSON* others; /* items beyond the fixed ones; NULL: any */
	struct item_kind kind[MAX_KINDS];
	int n_kinds;
};

static const cJSON* all_of(struct compiler* c, cJSON* list) {
	if (cJSON_GetArraySize(list) > 0)
		return schema_kept(c, schema_wrapped(c, "allOf", list));
	cJSON_Delete(list);
	return NULL;
}

/* The groups' schema for an item; NULL: anything. */
static const cJSON* item_at(struct array* a, int place) {
	cJSON* list = cJSON_CreateArray();
	bool evaluated = false;
	for (int i = 0; i < a->n_groups; i++) {
		const cJSON *items = json_field(a->group[i], "items"), *rest = schema_rest(a->group[i]);
		const cJSON* prefix = cJSON_IsArray(items) ? items : json_field(a->group[i], "prefixItems");
		const cJSON* of = place < schema_prefix(a->group[i]) ? cJSON_GetArrayItem(prefix, place) : rest;
		if (of && !cJSON_IsTrue(of))
			schema_append(a->c, list, cJSON_Duplicate(of, true));
		evaluated = evaluated || (of && !json_field(a->group[i], SCHEMA_UNSEEN));
	}
	if (a->unevaluated && !evaluated)
		schema_append(
		    a->c, list,
		    schema_other_items(a->c, a->unevaluated, json_field(a->unevaluated, "unevaluatedItems")));
	if (cJSON_GetArraySize(list) == 1) {
		cJSON* one = cJSON_DetachItemFromArray(list, 0);
		cJSON_Delete(list);
		return schema_kept(a->c, one);
	}
	return all_of(a->c, list);
}

static int32_t emit_item(struct compiler* c, const cJSON* schema, int32_t next) {
	return schema ? schema_emit(c, schema, next) : schema_emit_any(c, next);
}

static int item_rule(struct compiler* c, const cJSON* schema) {
	const int rule = program_rule(c->grammar);
	return schema_rule(c, rule, emit_item(c, schema, RETURNS));
}

/* ---- items that differ ------------------------------------------------------------------------ */

/* The item at a place of a list whose items differ. Those that it has to contain follow the fixed ones. */
static const cJSON* different_item(struct array* a, int place) {
	int from = a->fixed;
	for (int j = 0; j < a->n_kinds; from += a->kind[j++].least) {
		if (place < from || place >= from + a->kind[j].least)
			continue;
		cJSON* list = cJSON_CreateArray();
		if (a->others)
			schema_append(a->c, list, cJSON_Duplicate(a->others, true));
		schema_append(a->c, list, cJSON_Duplicate(a->kind[j].schema, true));
		return all_of(a->c, list);
	}
	return item_at(a, place);
}

/* The number of items that have a schema by their place; NOWHERE: it cannot be kept. */
static int count_placed(struct array* a) {
	int placed = a->fixed;
	for (int j = 0; j < a->n_kinds; j++) {
		if (a->kind[j].most >= 0 || a->kind[j].least > MAX_DIFFERENT - placed)
			return schema_refuse_keyword(a->c, "uniqueItems", "beside \"maxContains\" is not supported");
		placed += a->kind[j].least;
	}
	if (placed > a->fixed && a->least < placed)
		a->least = placed;
	if (a->most >= 0 && a->most < a->least && placed > a->fixed)
		return schema_refuse_keyword(a->c, "uniqueItems", "beside \"contains\" needs a larger \"maxItems\"");
	return placed;
}

/* A list whose items differ: the fixed ones, at least `least`, and after that as many as there is room for.
 * Texts are compared while they are written (states.c). The list never has more items than an item has
 * values, so that another one can always follow a comma. */
static int32_t emit_different(struct array* a, int32_t close, int32_t end) {
	struct compiler* c = a->c;
	struct grammar* g = c->grammar;
	const int placed = count_placed(a);
	if (placed < 0)
		return NOWHERE;
	const int values = cJSON_IsFalse(a->others) ? 0 : schema_count_values(c, a->others, MAX_DIFFERENT);
	const int fixed = a->most >= 0 && a->most < placed ? a->most : placed;
	int most = a->most >= 0 && a->most < MAX_DIFFERENT ? a->most : MAX_DIFFERENT;
	if (values < MAX_DIFFERENT && most > values)
		most = values > fixed ? values : fixed;
	if (a->least > most)
		return NOWHERE;
	for (int i = 1; i < fixed && !c->failed; i++)
		if (schema_count_values(c, different_item(a, i), i + 1) <= i)
			return schema_refuse_keyword(
			    c, "uniqueItems",
			    "is not supported where one place of the list has only a few possible values");
	close = emit_finish(g, close);
	end = emit_finish(g, end);
	const int before = a->least > fixed ? a->least : fixed, rule = program_rule(g);
	const bool more = most > fixed && schema_rule(c, rule, schema_emit_distinct(c, a->others, RETURNS)) != 0;
	const int32_t loop = emit_loop(g, end);
	const int32_t other = schema_emit_space(c, emit_call(g, rule, loop));
	if (more && before < most)
		loop_close(g, loop, emit_room(g, most, schema_emit_comma(c, other)));
	int32_t at = before > 0 ? loop : more ? emit_split(g, other, close) : close;
	for (int i = before - 1; i >= 0 && !c->failed; i--) {
		int32_t item = i < fixed ? schema_emit_distinct(c, different_item(a, i), at)
		               : more    ? emit_call(g, rule, at)
		                         : NOWHERE;
		if (item != NOWHERE)
			item = schema_emit_space(c, item);
		if (item != NOWHERE && i > 0)
			item = schema_emit_comma(c, item);
		at = emit_split(g, item, a->least > i ? NOWHERE : i > 0 ? end : close);
	}
	return c->failed ? NOWHERE : emit_distinct_list(g, at);
}

/* ---- items of kinds --------------------------------------------------------------------------- */

/* An item at a place that is of the kinds in the set, and, where a kind is bounded above, of no other such.
 */
static int kind_rule(struct array* a, const cJSON* item, unsigned set) {
	struct compiler* c = a->c;
	cJSON* list = cJSON_CreateArray();
	if (item)
		schema_append(c, list, cJSON_Duplicate(item, true));
	for (int j = 0; j < a->n_kinds && !c->failed; j++) {
		if (set >> j & 1u)
			schema_append(c, list, cJSON_Duplicate(a->kind[j].schema, true));
		else if (a->kind[j].most >= 0) {
			cJSON* other = schema_negated(c, a->kind[j].schema);
			schema_append(c, list, other);
		}
	}
	const cJSON* all = all_of(c, list);
	return c->failed ? 0 : item_rule(c, all);
}

/* Places are distinguished up to `last`, of each kind how many have come up to what its bounds need. */
static int32_t emit_kinds(struct array* a, int32_t end) {
	struct compiler* c = a->c;
	struct grammar* g = c->grammar;
	const int beyond = a->least > a->fixed ? a->least : a->fixed;
	const int last = a->most >= 0 ? a->most : beyond > 0 ? beyond : 1; /* the first has no comma before it */
	int counts = 1, step[MAX_KINDS];
	for (int j = 0; j < a->n_kinds; j++) {
		step[j] = counts;
		a->kind[j].cap = a->kind[j].most >= 0 ? a->kind[j].most : a->kind[j].least;
		if (a->kind[j].cap < MAX_ARRAY_STATES)
			counts *= a->kind[j].cap + 1;
		if (a->kind[j].cap >= MAX_ARRAY_STATES || counts > MAX_ARRAY_STATES)
			return schema_refuse_keyword(c, "contains", "with counts this large is not supported");
	}
	if ((int64_t)(last + 1) * counts > MAX_ARRAY_STATES)
		return schema_refuse_keyword(c, "contains", "in a list of so many items is not supported");
	const unsigned sets = 1u << a->n_kinds;
	int32_t* at = malloc((size_t)(last + 1) * (size_t)counts * sizeof *at); /* before an item, or the end */
	int* rule = malloc((size_t)(a->fixed + 1) * sets * sizeof *rule);
	g->failed |= !at || !rule;
	for (int place = 0; place <= a->fixed && !c->failed && !g->failed; place++) {
		const cJSON* item = place < a->fixed ? item_at(a, place) : a->others;
		for (unsigned set = 0; set < sets && !c->failed; set++)
			rule[(size_t)place * sets + set] = cJSON_IsFalse(item) ? 0 : kind_rule(a, item, set);
	}
	for (int i = 0; i < (last + 1) * counts && !g->failed && !c->failed; i++)
		at[i] = emit_loop(g, RETURNS);
	for (int place = last; place >= 0 && !g->failed && !c->failed; place--)
		for (int k = 0; k < counts && !g->failed; k++) {
			bool enough = place >= a->least;
			for (int j = 0; j < a->n_kinds; j++)
				enough = enough && k / step[j] % (a->kind[j].cap + 1) >= a->kind[j].least;
			int32_t body = enough ? end : NOWHERE;
			for (unsigned set = 0; set < sets && !(a->most >= 0 && place == a->most); set++) {
				int next = k;
				bool good = true;
				for (int j = 0; j < a->n_kinds; j++) {
					const int have = k / step[j] % (a->kind[j].cap + 1);
					if (!(set >> j & 1u))
						continue;
					good = good && (have < a->kind[j].cap || a->kind[j].most < 0);
					next += have < a->kind[j].cap ? step[j] : 0;
				}
				const int of = rule[(size_t)(place < a->fixed ? place : a->fixed) * sets + set];
				if (!good || of == 0)
					continue;
				const int32_t then = at[(place < last ? place + 1 : place) * counts + next];
				const int32_t item = schema_emit_space(c, emit_call(g, of, then));
				body = emit_split(g, place > 0 ? schema_emit_comma(c, item) : item, body);
			}
			const int32_t here = at[place * counts + k];
			if (!g->failed) { /* a way that leads nowhere is a loop on itself, which no text ends: it is
				                 pruned */
				g->at[here].next = g->at[here].other = body == NOWHERE ? here : body;
			}
		}
	const int32_t start = g->failed || c->failed ? NOWHERE : at[0];
	free(at);
	free(rule);
	return start;
}

/* ---- all -------------------------------------------------------------------------------------- */

static bool read_kinds(struct array* a, const cJSON* schema) {
	const cJSON* group[MAX_GROUPS];
	const int n = schema_groups(schema, SCHEMA_CONTAINS, "contains", group);
	for (int i = 0; i < n; i++) {
		const int least = schema_count_of(a->c, group[i], "minContains", 1),
		          most = schema_count_of(a->c, group[i], "maxContains", -1);
		if (!json_field(group[i], "contains") || (least == 0 && most < 0))
			continue;
		if (a->n_kinds == MAX_KINDS)
			return schema_refuse_keyword(a->c, "contains", "more than 4 times is not supported"), false;
		if (most >= 0 && most < least)
			return false;
		a->kind[a->n_kinds++] =
		    (struct item_kind){.schema = json_field(group[i], "contains"), .least = least, .most = most};
	}
	return !a->c->failed;
}

/* After "[": items of which each is by its place or by the rule of the others. */
static int32_t emit_plain(struct array* a, int32_t close, int32_t end) {
	struct compiler* c = a->c;
	const int rule = a->most == a->fixed || cJSON_IsFalse(a->others) ? 0 : item_rule(c, a->others);
	if (a->fixed == 0)
		return schema_emit_list(c, rule, a->least, a->most, close, end);
	const int fixed = a->most >= 0 && a->most < a->fixed ? a->most : a->fixed;
	if (fixed == 0)
		return close;
	int32_t at = fixed < a->fixed ? end
	                              : schema_emit_more(c, rule, a->least > fixed ? a->least - fixed : 0,
	                                                 a->most < 0 ? -1 : a->most - fixed, end);
	for (int i = fixed - 1; i >= 0 && !c->failed; i--) {
		int32_t item = at == NOWHERE ? NOWHERE : emit_item(c, item_at(a, i), at);
		if (item != NOWHERE)
			item = schema_emit_space(c, item);
		if (item != NOWHERE && i > 0)
			item = schema_emit_comma(c, item);
		at = emit_split(c->grammar, item, a->least > i ? NOWHERE : i > 0 ? end : close);
	}
	return at;
}

int32_t schema_emit_array(struct compiler* c, const cJSON* schema, int32_t next) {
	struct array a = {.c = c,
	                  .unevaluated = json_field(schema, "unevaluatedItems") ? schema : NULL,
	                  .least = schema_count_of(c, schema, "minItems", 0),
	                  .most = schema_count_of(c, schema, "maxItems", -1)};
	a.n_groups = schema_groups(schema, SCHEMA_ITEMS, "prefixItems items additionalItems", a.group);
	for (int i = 0; i < a.n_groups; i++)
		a.fixed = schema_prefix(a.group[i]) > a.fixed ? schema_prefix(a.group[i]) : a.fixed;
	if (a.least > MAX_ITEMS || a.fixed > MAX_ITEMS)
		return schema_refuse(c, "more than 4096 items are not supported");
	if (a.most > MAX_ITEMS) /* as many as are supported */
		a.most = MAX_ITEMS;
	if ((a.most >= 0 && a.most < a.least) || !read_kinds(&a, schema))
		return NOWHERE;
	a.others = item_at(&a, a.fixed);
	const int32_t close = schema_emit_literal(c, "]", next), end = schema_emit_space(c, close);
	int32_t at;
	if (c->failed)
		return NOWHERE;
	if (cJSON_IsTrue(json_field(schema, "uniqueItems")) && !(a.most >= 0 && a.most <= 1))
		at = emit_different(&a, close, end);
	else if (a.n_kinds > 0)
		at = emit_kinds(&a, end);
	else
		at = emit_plain(&a, close, end);
	return c->failed || at == NOWHERE ? NOWHERE : schema_emit_literal(c, "[", at);
}
