/* Joins schemas into one under which a value is valid if it is valid under all of them. This serves allOf,
 * keywords beside a $ref or a combination, and the values that a oneOf leaves out. If two keywords cannot be
 * joined, the compiler fails; the joined schema is never wider. */
#include <stdlib.h>
#include <string.h>

#include "core/grammar/json_compiler.h"

static const char* const type_names[] = {"object", "array", "string", "number", "integer", "boolean", "null"};

/* ---- looking ---------------------------------------------------------------------------------- */

/* The keywords that constrain. All others are annotations, as in the specification. */
static bool is_annotation(const char* keyword) {
	return !json_lists(
	    "$ref $dynamicRef $recursiveRef type enum const anyOf oneOf allOf not if then else "
	    "properties patternProperties additionalProperties unevaluatedProperties propertyNames "
	    "required minProperties maxProperties dependencies dependentRequired dependentSchemas "
	    "items prefixItems additionalItems unevaluatedItems contains minContains maxContains "
	    "minItems maxItems uniqueItems pattern format minLength maxLength contentEncoding "
	    "contentMediaType minimum maximum "
	    "exclusiveMinimum exclusiveMaximum multipleOf nullable " SCHEMA_EXCEPT " " SCHEMA_ALSO
	    " " SCHEMA_NEVER " " SCHEMA_QUIET " " SCHEMA_MEMBERS " " SCHEMA_ITEMS " " SCHEMA_CONTAINS
	    " " SCHEMA_SOME,
	    keyword);
}

bool schema_has(const cJSON* schema, const char* keywords) {
	const cJSON* field;
	cJSON_ArrayForEach (field, schema) {
		if (json_lists(keywords, field->string) && !cJSON_IsNull(field))
			return true;
	}
	return false;
}

bool schema_constrains_beyond(const cJSON* schema, const char* keywords) {
	const cJSON* field;
	cJSON_ArrayForEach (field, schema) {
		if (!json_lists(keywords, field->string) && !is_annotation(field->string))
			return true;
	}
	return false;
}

unsigned schema_type_set(const cJSON* type) {
	unsigned types = 0;
	for (const cJSON* one = cJSON_IsArray(type) ? type->child : type; one;
	     one = cJSON_IsArray(type) ? one->next : NULL)
		for (unsigned i = 0; i < TYPE_COUNT; i++)
			if (cJSON_IsString(one) && strcmp(one->valuestring, type_names[i]) == 0)
				types |= 1u << i;
	return types >> TYPE_NUMBER & 1u ? types | 1u << TYPE_INTEGER : types;
}

/* ---- making ----------------------------------------------------------------------------------- */

static cJSON* fail_merge(struct compiler* c, cJSON* schema, const char* problem) {
	schema_refuse(c, problem);
	cJSON_Delete(schema);
	return NULL;
}

void schema_put(struct compiler* c, cJSON* object, const char* name, cJSON* value) {
	cJSON_DeleteItemFromObjectCaseSensitive(object, name);
	if (!value || !cJSON_AddItemToObject(object, name, value))
		fail_merge(c, value, "out of memory");
}

void schema_append(struct compiler* c, cJSON* list, cJSON* value) {
	if (!value || !cJSON_AddItemToArray(list, value))
		fail_merge(c, value, "out of memory");
}

cJSON* schema_wrapped(struct compiler* c, const char* keyword, cJSON* value) {
	cJSON* to = cJSON_CreateObject();
	schema_put(c, to, keyword, value);
	return to;
}

cJSON* schema_pair(struct compiler* c, cJSON* a, cJSON* b) {
	cJSON* list = cJSON_CreateArray();
	schema_append(c, list, a);
	schema_append(c, list, b);
	return list;
}

cJSON* schema_type_list(unsigned types) {
	cJSON* list = cJSON_CreateArray();
	if (types >> TYPE_NUMBER & 1u)
		types &= ~(1u << TYPE_INTEGER);
	for (unsigned i = 0; i < TYPE_COUNT && list; i++)
		if (types >> i & 1u)
			cJSON_AddItemToArray(list, cJSON_CreateString(type_names[i]));
	return list;
}

static int values_in(const cJSON* value) {
	int n = 1;
	for (const cJSON* one = value ? value->child : NULL; one; one = one->next)
		n += values_in(one);
	return n;
}

/* Schemas grow as they are joined: what they hold is what it costs. */
static cJSON* count_schema(struct compiler* c, cJSON* made) {
	c->joined += values_in(made);
	return c->joined <= MAX_JOINED ? made : fail_merge(c, made, "too many schemas that have to hold at once");
}

static void copy_to(struct compiler* c, cJSON* object, const cJSON* value) {
	schema_put(c, object, value->string, cJSON_Duplicate(value, true));
}

/* {"allOf": [a, b]}: joined when it comes to it. */
static cJSON* merge_later(struct compiler* c, const cJSON* a, const cJSON* b) {
	return schema_wrapped(c, "allOf", schema_pair(c, cJSON_Duplicate(a, true), cJSON_Duplicate(b, true)));
}

/* ---- keyword by keyword ----------------------------------------------------------------------- */

bool schema_holds(const cJSON* list, const cJSON* value) {
	const cJSON* one;
	cJSON_ArrayForEach (one, list) {
		if (json_same(one, value))
			return true;
	}
	return false;
}

/* To `list` those values of `from` that `other` holds, or does not hold. */
static void add_values(struct compiler* c, cJSON* list, const cJSON* from, const cJSON* other, bool held) {
	const cJSON* one;
	cJSON_ArrayForEach (one, from) {
		if (schema_holds(other, one) == held)
			schema_append(c, list, cJSON_Duplicate(one, true));
	}
}

static void add_to_list(struct compiler* c, cJSON* to, const char* keyword, cJSON* value) {
	if (!cJSON_GetObjectItemCaseSensitive(to, keyword))
		schema_put(c, to, keyword, cJSON_CreateArray());
	schema_append(c, cJSON_GetObjectItemCaseSensitive(to, keyword), value);
}

static const char cannot[] = "two schemas that have to hold at once cannot be joined";

/* The tighter of two bounds. */
static void join_bound(struct compiler* c, cJSON* to, const cJSON* mine, const cJSON* more, bool upper) {
	if (upper ? more->valuedouble < mine->valuedouble : more->valuedouble > mine->valuedouble)
		copy_to(c, to, more);
}

/* A keyword that both have; `mine` lies in `to`. */
static void join_keyword(struct compiler* c, cJSON* to, cJSON* mine, const cJSON* more) {
	const char* name = more->string;
	const bool numbers = cJSON_IsNumber(mine) && cJSON_IsNumber(more);
	cJSON* values;
	if (json_same(mine, more))
		return;
	if (strcmp(name, "type") == 0)
		schema_put(c, to, name, schema_type_list(schema_type_set(mine) & schema_type_set(more)));
	else if (strcmp(name, "enum") == 0) {
		values = cJSON_CreateArray();
		add_values(c, values, mine, more, true);
		schema_put(c, to, name, values);
	} else if (strcmp(name, "const") == 0) /* two of them */
		schema_put(c, to, "enum", cJSON_CreateArray());
	else if (json_lists("required " SCHEMA_EXCEPT, name))
		add_values(c, mine, more, mine, false);
	else if (json_lists("propertyNames unevaluatedProperties unevaluatedItems", name))
		schema_put(c, to, name, merge_later(c, mine, more));
	else if (numbers && json_lists("minLength minItems minProperties", name))
		join_bound(c, to, mine, more, false);
	else if (numbers && json_lists("maxLength maxItems maxProperties", name))
		join_bound(c, to, mine, more, true);
	else if (json_lists(SCHEMA_ALSO " " SCHEMA_NEVER " " SCHEMA_MEMBERS " " SCHEMA_ITEMS " " SCHEMA_CONTAINS
	                                " " SCHEMA_SOME,
	                    name))
		add_values(c, mine, more, mine, false);
	else if (schema_is_of_strings(name) || schema_is_of_numbers(name))
		add_to_list(c, to, SCHEMA_ALSO, schema_wrapped(c, name, cJSON_Duplicate(more, true)));
	else if (json_lists("uniqueItems nullable", name)) /* one of them is true, the other false */
		schema_put(c, to, name, cJSON_CreateBool(strcmp(name, "uniqueItems") == 0));
	else
		schema_refuse(c, cannot);
}

/* Combinations that both have hold one within the other. */
static void nest_combination(struct compiler* c, cJSON* to, const cJSON* more) {
	add_to_list(c, to, "allOf", schema_wrapped(c, more->string, cJSON_Duplicate(more, true)));
}

/* Keywords that belong together: what one of them means depends on the others beside it. They are kept apart
 * from those of the other schema. */
static const char* const together[][2] = {
    {SCHEMA_MEMBERS, "properties patternProperties additionalProperties"},
    {SCHEMA_ITEMS, "prefixItems items additionalItems"},
    {SCHEMA_CONTAINS, "contains minContains maxContains"}};

static void join_together(struct compiler* c, cJSON* to, const cJSON* from, const char* list,
                          const char* keywords) {
	const cJSON* field;
	const bool apart = schema_has(to, keywords);
	cJSON* group = cJSON_CreateObject();
	cJSON_ArrayForEach (field, from) {
		if (json_lists(keywords, field->string) && !cJSON_IsNull(field))
			copy_to(c, apart ? group : to, field);
	}
	if (group && group->child)
		add_to_list(c, to, list, group);
	else
		cJSON_Delete(group);
}

static bool is_together(const char* keyword) {
	return json_lists(together[0][1], keyword) || json_lists(together[1][1], keyword) ||
	       json_lists(together[2][1], keyword);
}

/* Both are flat objects. */
static cJSON* join_flat(struct compiler* c, const cJSON* a, const cJSON* b) {
	cJSON* to = cJSON_Duplicate(a, true);
	const cJSON* more;
	if ((json_field(a, "nullable") && json_field(b, "type")) ||
	    (json_field(b, "nullable") && json_field(a, "type")))
		return fail_merge(c, to, cannot);
	cJSON_ArrayForEach (more, b) {
		cJSON* mine = cJSON_GetObjectItemCaseSensitive(to, more->string);
		if (is_annotation(more->string) || is_together(more->string))
			continue;
		if (!mine)
			copy_to(c, to, more);
		else if (json_lists("anyOf oneOf allOf", more->string))
			nest_combination(c, to, more);
		else
			join_keyword(c, to, mine, more);
	}
	for (int i = 0; i < 3; i++)
		join_together(c, to, b, together[i][0], together[i][1]);
	const cJSON* type = cJSON_GetObjectItemCaseSensitive(to, "type");
	const cJSON* values = cJSON_GetObjectItemCaseSensitive(to, "enum");
	if (!(cJSON_IsArray(type) && !type->child) && !(cJSON_IsArray(values) && !values->child))
		return count_schema(c, to);
	cJSON_Delete(to);
	return cJSON_CreateFalse();
}

/* ---- what is not evaluated -------------------------------------------------------------------- */

int schema_groups(const cJSON* schema, const char* list, const char* keywords, const cJSON** group) {
	const cJSON* one;
	int n = 0;
	if (schema_has(schema, keywords))
		group[n++] = schema;
	cJSON_ArrayForEach (one, json_field(schema, list))
		if (n < MAX_GROUPS)
			group[n++] = one;
	return n;
}

/* Prepares a schema to be joined with others. Its unevaluatedProperties covers only members that it does not
 * evaluate itself, so it becomes additionalProperties of a group of its own. */
static void settle_members(struct compiler* c, cJSON* to) {
	const cJSON *group[MAX_GROUPS], *field;
	const int n = schema_groups(to, SCHEMA_MEMBERS, together[0][1], group);
	cJSON *unevaluated = cJSON_DetachItemFromObjectCaseSensitive(to, "unevaluatedProperties"),
	      *named = cJSON_CreateObject(), *patterns = cJSON_CreateObject(), *resolved = cJSON_CreateObject();
	bool all = n == MAX_GROUPS;
	for (int i = 0; i < n; i++) {
		if (json_field(group[i], SCHEMA_UNSEEN))
			continue;
		all = all || json_field(group[i], "additionalProperties");
		cJSON_ArrayForEach (field, json_field(group[i], "properties"))
			schema_put(c, named, field->string, cJSON_CreateTrue());
		cJSON_ArrayForEach (field, json_field(group[i], "patternProperties"))
			schema_put(c, patterns, field->string, cJSON_CreateTrue());
	}
	schema_put(c, resolved, "properties", named);
	schema_put(c, resolved, "patternProperties", patterns);
	schema_put(c, resolved, "additionalProperties", unevaluated);
	if (n == MAX_GROUPS)
		schema_refuse(c, cannot);
	if (all)
		cJSON_Delete(resolved);
	else
		add_to_list(c, to, SCHEMA_MEMBERS, resolved);
}

cJSON* schema_other_items(struct compiler* c, const cJSON* schema, const cJSON* unevaluated) {
	const cJSON* group[MAX_GROUPS];
	const int n = schema_groups(schema, SCHEMA_CONTAINS, together[2][1], group);
	cJSON* either = cJSON_CreateArray();
	for (int i = 0; i < n; i++)
		if (json_field(group[i], "contains") && !json_field(group[i], SCHEMA_UNSEEN))
			schema_append(c, either, cJSON_Duplicate(json_field(group[i], "contains"), true));
	schema_append(c, either, cJSON_Duplicate(unevaluated, true));
	return schema_wrapped(c, "anyOf", either);
}

int schema_prefix(const cJSON* group) {
	const cJSON *prefix = json_field(group, "prefixItems"), *items = json_field(group, "items");
	return cJSON_GetArraySize(cJSON_IsArray(items) ? items : prefix);
}

const cJSON* schema_rest(const cJSON* group) {
	const cJSON* items = json_field(group, "items");
	return cJSON_IsArray(items) ? json_field(group, "additionalItems") : items;
}

static void settle_items(struct compiler* c, cJSON* to) {
	const cJSON* group[MAX_GROUPS];
	const int n = schema_groups(to, SCHEMA_ITEMS, together[1][1], group);
	cJSON *unevaluated = cJSON_DetachItemFromObjectCaseSensitive(to, "unevaluatedItems"),
	      *resolved = cJSON_CreateObject(), *prefix = cJSON_CreateArray();
	bool all = false;
	for (int i = 0; i < n; i++) {
		if (json_field(group[i], SCHEMA_UNSEEN))
			continue;
		all = all || schema_rest(group[i]);
		while (cJSON_GetArraySize(prefix) < schema_prefix(group[i]) && !c->failed)
			schema_append(c, prefix, cJSON_CreateTrue());
	}
	schema_put(c, resolved, "prefixItems", prefix);
	schema_put(c, resolved, "items", schema_other_items(c, to, unevaluated));
	cJSON_Delete(unevaluated);
	if (all)
		cJSON_Delete(resolved);
	else
		add_to_list(c, to, SCHEMA_ITEMS, resolved);
}

/* Moves keywords that belong together into a group, and marks that no group of the schema evaluates
 * anything. */
static void hush_groups(struct compiler* c, cJSON* to, const char* list, const char* keywords) {
	cJSON *field, *next, *group = cJSON_CreateObject();
	for (field = to->child; field; field = next) {
		next = field->next;
		if (json_lists(keywords, field->string))
			schema_put(c, group, field->string, cJSON_DetachItemViaPointer(to, field));
	}
	if (group && group->child)
		add_to_list(c, to, list, group);
	else
		cJSON_Delete(group);
	cJSON_ArrayForEach (group, cJSON_GetObjectItemCaseSensitive(to, list))
		schema_put(c, group, SCHEMA_UNSEEN, cJSON_CreateTrue());
}

/* The flat schema as one that does not constrain what is evaluated. Takes it over. */
static cJSON* without_evaluated(struct compiler* c, cJSON* to) {
	static const char* const lists[] = {"anyOf", "oneOf", "allOf"};
	if (!cJSON_IsObject(to) || c->failed)
		return to;
	for (int i = 0; i < 3; i++)
		hush_groups(c, to, together[i][0], together[i][1]);
	for (int i = 0; i < 3; i++) {
		cJSON *list = cJSON_GetObjectItemCaseSensitive(to, lists[i]), *quiet = cJSON_CreateArray();
		while (cJSON_IsArray(list) && list->child)
			schema_append(c, quiet,
			              schema_wrapped(c, SCHEMA_QUIET, cJSON_DetachItemViaPointer(list, list->child)));
		if (cJSON_IsArray(list))
			schema_put(c, to, lists[i], quiet);
		else
			cJSON_Delete(quiet);
	}
	return to;
}

static cJSON* flat_at(struct compiler*, const cJSON* schema, bool within, int depth);

/* A oneOf as an anyOf of alternatives of which each specifies that no other holds. */
static void spell_out_choice(struct compiler* c, cJSON* to) {
	cJSON *choice = cJSON_DetachItemFromObjectCaseSensitive(to, "oneOf"), *list = cJSON_CreateArray();
	const cJSON *one, *other;
	cJSON_ArrayForEach (one, choice) {
		cJSON* all = cJSON_CreateArray();
		schema_append(c, all, cJSON_Duplicate(one, true));
		cJSON_ArrayForEach (other, choice)
			if (other != one && !c->failed)
				schema_append(c, all, schema_negated(c, other));
		schema_append(c, list, count_schema(c, schema_wrapped(c, "allOf", all)));
	}
	cJSON_Delete(choice);
	if (json_field(to, "anyOf"))
		add_to_list(c, to, "allOf", schema_wrapped(c, "anyOf", list));
	else
		schema_put(c, to, "anyOf", list);
}

/* Each alternative by itself: what it evaluates is no other's. */
static cJSON* settle_alternatives(struct compiler* c, cJSON* to, int depth) {
	cJSON *alternatives = cJSON_DetachItemFromObjectCaseSensitive(to, "anyOf"), *list = cJSON_CreateArray();
	const cJSON* one;
	cJSON_ArrayForEach (one, alternatives) {
		cJSON* joined = schema_both(c, cJSON_Duplicate(to, true), flat_at(c, one, true, depth + 1));
		if (joined && !c->failed) {
			schema_append(c, list, flat_at(c, joined, true, depth + 1));
			cJSON_Delete(joined);
		}
	}
	cJSON_Delete(alternatives);
	cJSON_Delete(to);
	return schema_wrapped(c, "anyOf", list);
}

static cJSON* resolve_references(struct compiler* c, cJSON* to, int depth) {
	if (c->failed || !cJSON_IsObject(to) || !schema_has(to, "unevaluatedProperties unevaluatedItems"))
		return to;
	if (json_field(to, "oneOf"))
		spell_out_choice(c, to);
	if (json_field(to, "anyOf"))
		return settle_alternatives(c, to, depth);
	if (json_field(to, "unevaluatedProperties"))
		settle_members(c, to);
	if (json_field(to, "unevaluatedItems"))
		settle_items(c, to);
	return to;
}

/* ---- from outside ----------------------------------------------------------------------------- */

cJSON* schema_both(struct compiler* c, cJSON* a, cJSON* b) {
	cJSON* to = NULL;
	if (!a || !b || c->failed)
		schema_refuse(c, "out of memory");
	else if (cJSON_IsFalse(a) || cJSON_IsFalse(b))
		to = cJSON_CreateFalse();
	else if (cJSON_IsTrue(a) || cJSON_IsTrue(b))
		to = cJSON_Duplicate(cJSON_IsTrue(a) ? b : a, true);
	else
		to = join_flat(c, a, b);
	cJSON_Delete(a);
	cJSON_Delete(b);
	return to;
}

/* within: it is to be joined with others. */
static cJSON* flat_at(struct compiler* c, const cJSON* schema, bool within, int depth) {
	const cJSON *reference = json_field(schema, "$ref"), *all = json_field(schema, "allOf"), *one;
	if (c->failed)
		return NULL;
	if (++c->joined > MAX_JOINED || depth > MAX_CHAIN)
		return fail_merge(c, NULL, "too many schemas that have to hold at once");
	if (cJSON_IsBool(schema))
		return cJSON_Duplicate(schema, true);
	if (!cJSON_IsObject(schema))
		return fail_merge(c, NULL, "a schema is neither an object nor a boolean");
	cJSON* to = schema_without(c, schema, "$ref allOf then else " SCHEMA_CONDITIONS " " SCHEMA_QUIET);
	if (reference) {
		const cJSON* target = schema_resolve(c->root, reference);
		if (!target) {
			schema_refuse_reference(c, reference);
			cJSON_Delete(to);
			return NULL;
		}
		to = schema_both(c, to, flat_at(c, target, true, depth + 1));
	}
	if (all && !cJSON_IsArray(all))
		return fail_merge(c, to, "\"allOf\" is not an array");
	cJSON_ArrayForEach (one, all)
		to = schema_both(c, to, flat_at(c, one, true, depth + 1));
	if (json_field(schema, SCHEMA_QUIET))
		to = schema_both(c, to,
		                 without_evaluated(c, flat_at(c, json_field(schema, SCHEMA_QUIET), true, depth + 1)));
	cJSON* conditions = schema_has(schema, SCHEMA_CONDITIONS) ? schema_conditions(c, schema) : NULL;
	cJSON_ArrayForEach (one, conditions)
		to = schema_both(c, to, flat_at(c, one, true, depth + 1));
	cJSON_Delete(conditions);
	return within ? resolve_references(c, to, depth) : to;
}

cJSON* schema_flat(struct compiler* c, const cJSON* schema, bool within) {
	return flat_at(c, schema, within, 0);
}

cJSON* schema_without(struct compiler* c, const cJSON* schema, const char* keywords) {
	cJSON* to = cJSON_CreateObject();
	const cJSON* field;
	cJSON_ArrayForEach (field, schema) {
		if (!json_lists(keywords, field->string) && !is_annotation(field->string))
			copy_to(c, to, field);
	}
	return count_schema(c, to);
}
