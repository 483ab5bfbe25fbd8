/* Schemas joined: what is valid under several at once, as one schema. For allOf, for keywords beside a $ref
 * or a combination, and for what a oneOf has to leave out. Where two keywords cannot be one the compiler
 * fails: never is the schema wider. */
#include <stdlib.h>
#include <string.h>

#include "core/grammar/json_compiler.h"

static const char* const type_names[] = {"object", "array", "string", "number", "integer", "boolean", "null"};

/* ---- looking ---------------------------------------------------------------------------------- */

const cJSON* schema_resolve(const cJSON* root, const cJSON* reference) {
	if (!cJSON_IsString(reference) || reference->valuestring[0] != '#')
		return NULL;
	const cJSON* at = root;
	for (const char* from = reference->valuestring + 1; at && *from;) {
		char name[256];
		size_t n = 0;
		if (*from++ != '/')
			return NULL;
		for (; *from && *from != '/'; from++) {
			char letter = *from;
			if (letter == '~' && (from[1] == '0' || from[1] == '1'))
				letter = *++from == '0' ? '~' : '/';
			else if (letter == '%' && strncmp(from, "%24", 3) == 0) {
				letter = '$';
				from += 2;
			}
			if (n + 1 == sizeof name)
				return NULL;
			name[n++] = letter;
		}
		name[n] = 0;
		at = cJSON_IsArray(at) ? cJSON_GetArrayItem(at, atoi(name))
		                       : cJSON_GetObjectItemCaseSensitive(at, name);
	}
	return at;
}

/* The keywords that constrain; every other one is an annotation, as the specification has it. */
static bool describes(const char* keyword) {
	return !json_lists(
	    "$ref $dynamicRef $recursiveRef type enum const anyOf oneOf allOf not if then else "
	    "properties patternProperties additionalProperties unevaluatedProperties propertyNames "
	    "required minProperties maxProperties dependencies dependentRequired dependentSchemas "
	    "items prefixItems additionalItems unevaluatedItems contains minContains maxContains "
	    "minItems maxItems uniqueItems pattern format minLength maxLength contentEncoding "
	    "contentMediaType minimum maximum "
	    "exclusiveMinimum exclusiveMaximum multipleOf nullable " SCHEMA_EXCEPT " " SCHEMA_ALSO
	    " " SCHEMA_NEVER,
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

bool schema_says_more_than(const cJSON* schema, const char* keywords) {
	const cJSON* field;
	cJSON_ArrayForEach (field, schema) {
		if (!json_lists(keywords, field->string) && !describes(field->string))
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

static cJSON* fail(struct compiler* c, cJSON* schema, const char* problem) {
	schema_refuse(c, problem);
	cJSON_Delete(schema);
	return NULL;
}

void schema_put(struct compiler* c, cJSON* object, const char* name, cJSON* value) {
	cJSON_DeleteItemFromObjectCaseSensitive(object, name);
	if (!value || !cJSON_AddItemToObject(object, name, value))
		fail(c, value, "out of memory");
}

void schema_append(struct compiler* c, cJSON* list, cJSON* value) {
	if (!value || !cJSON_AddItemToArray(list, value))
		fail(c, value, "out of memory");
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
static cJSON* counted(struct compiler* c, cJSON* made) {
	c->joined += values_in(made);
	return c->joined <= MAX_JOINED ? made : fail(c, made, "too many schemas that have to hold at once");
}

static void copy_to(struct compiler* c, cJSON* object, const cJSON* value) {
	schema_put(c, object, value->string, cJSON_Duplicate(value, true));
}

/* {"allOf": [a, b]}: joined when it comes to it. */
static cJSON* later(struct compiler* c, const cJSON* a, const cJSON* b) {
	return schema_wrapped(c, "allOf", schema_pair(c, cJSON_Duplicate(a, true), cJSON_Duplicate(b, true)));
}

/* ---- keyword by keyword ----------------------------------------------------------------------- */

bool schema_holds(const cJSON* list, const cJSON* value) {
	const cJSON* one;
	cJSON_ArrayForEach (one, list) {
		if (cJSON_Compare(one, value, true))
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

/* Members that one of them alone names are the other's additional ones. */
static void join_properties(struct compiler* c, cJSON* to, const cJSON* a, const cJSON* b) {
	cJSON* all = cJSON_CreateObject();
	const cJSON* from[] = {a, b};
	for (int i = 0; i < 2; i++) {
		const cJSON *one, *others = json_field(from[1 - i], "additionalProperties");
		const cJSON* theirs = json_field(from[1 - i], "properties");
		cJSON_ArrayForEach (one, json_field(from[i], "properties")) {
			const cJSON* twin = cJSON_GetObjectItemCaseSensitive(theirs, one->string);
			twin = twin ? twin : cJSON_IsTrue(others) ? NULL : others;
			if (!cJSON_GetObjectItemCaseSensitive(all, one->string))
				schema_put(c, all, one->string, twin ? later(c, one, twin) : cJSON_Duplicate(one, true));
		}
	}
	schema_put(c, to, "properties", all);
}

static const char cannot[] = "two schemas that have to hold at once cannot be joined";

/* The tighter of two bounds. */
static void join_bound(struct compiler* c, cJSON* to, const cJSON* mine, const cJSON* more, bool upper) {
	if (upper ? more->valuedouble < mine->valuedouble : more->valuedouble > mine->valuedouble)
		copy_to(c, to, more);
}

static void join_others(struct compiler* c, cJSON* to, const cJSON* mine, const cJSON* more) {
	if (cJSON_IsFalse(mine) || cJSON_IsTrue(more))
		return;
	if (cJSON_IsFalse(more) || cJSON_IsTrue(mine))
		copy_to(c, to, more);
	else
		schema_put(c, to, more->string, later(c, mine, more));
}

/* A keyword that both have; `mine` lies in `to`. */
static void join_keyword(struct compiler* c, cJSON* to, cJSON* mine, const cJSON* more) {
	const char* name = more->string;
	const bool numbers = cJSON_IsNumber(mine) && cJSON_IsNumber(more);
	cJSON* values;
	if (cJSON_Compare(mine, more, true))
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
	else if (strcmp(name, "items") == 0 && !cJSON_IsArray(mine) && !cJSON_IsArray(more))
		schema_put(c, to, name, later(c, mine, more));
	else if (strcmp(name, "additionalProperties") == 0)
		join_others(c, to, mine, more);
	else if (numbers && json_lists("minLength minItems minProperties", name))
		join_bound(c, to, mine, more, false);
	else if (numbers && json_lists("maxLength maxItems maxProperties", name))
		join_bound(c, to, mine, more, true);
	else if (json_lists(SCHEMA_ALSO " " SCHEMA_NEVER, name))
		add_values(c, mine, more, mine, false);
	else if (schema_is_of_strings(name) || schema_is_of_numbers(name))
		add_to_list(c, to, SCHEMA_ALSO, schema_wrapped(c, name, cJSON_Duplicate(more, true)));
	else if (json_lists("uniqueItems nullable", name)) /* one of them is true, the other false */
		schema_put(c, to, name, cJSON_CreateBool(strcmp(name, "uniqueItems") == 0));
	else
		schema_refuse(c, cannot);
}

/* What only one side has and the other's keyword reaches into. */
static bool reaches_across(const cJSON* a, const cJSON* b) {
	const cJSON* others = json_field(b, "additionalProperties");
	return (json_field(a, "patternProperties") && others && !cJSON_IsTrue(others)) ||
	       ((json_field(a, "prefixItems") || cJSON_IsArray(json_field(a, "items"))) &&
	        (json_field(b, "items") || json_field(b, "prefixItems"))) ||
	       (json_field(a, "nullable") && json_field(b, "type"));
}

/* Combinations that both have hold one within the other. */
static void nest_combination(struct compiler* c, cJSON* to, const cJSON* more) {
	add_to_list(c, to, "allOf", schema_wrapped(c, more->string, cJSON_Duplicate(more, true)));
}

/* Both are flat objects. */
static cJSON* join_flat(struct compiler* c, const cJSON* a, const cJSON* b) {
	cJSON* to = cJSON_Duplicate(a, true);
	const cJSON* more;
	/* the inner one's unevaluated members are those that it does not name itself */
	const bool inner = json_field(b, "unevaluatedProperties") && json_field(a, "properties");
	if (inner || reaches_across(a, b) || reaches_across(b, a))
		return fail(c, to, cannot);
	cJSON_ArrayForEach (more, b) {
		cJSON* mine = cJSON_GetObjectItemCaseSensitive(to, more->string);
		if (describes(more->string) || strcmp(more->string, "properties") == 0)
			continue;
		if (!mine)
			copy_to(c, to, more);
		else if (json_lists("anyOf oneOf allOf", more->string))
			nest_combination(c, to, more);
		else
			join_keyword(c, to, mine, more);
	}
	if (json_field(a, "properties") || json_field(b, "properties"))
		join_properties(c, to, a, b);
	const cJSON* type = cJSON_GetObjectItemCaseSensitive(to, "type");
	const cJSON* values = cJSON_GetObjectItemCaseSensitive(to, "enum");
	if (!(cJSON_IsArray(type) && !type->child) && !(cJSON_IsArray(values) && !values->child))
		return counted(c, to);
	cJSON_Delete(to);
	return cJSON_CreateFalse();
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

static cJSON* flat_at(struct compiler* c, const cJSON* schema, int depth) {
	const cJSON *reference = json_field(schema, "$ref"), *all = json_field(schema, "allOf"), *one;
	if (c->failed)
		return NULL;
	if (++c->joined > MAX_JOINED || depth > MAX_CHAIN)
		return fail(c, NULL, "too many schemas that have to hold at once");
	if (cJSON_IsBool(schema))
		return cJSON_Duplicate(schema, true);
	if (!cJSON_IsObject(schema))
		return fail(c, NULL, "a schema is neither an object nor a boolean");
	cJSON* to = schema_without(c, schema, "$ref allOf then else " SCHEMA_CONDITIONS);
	if (reference) {
		const cJSON* target = schema_resolve(c->root, reference);
		if (!target)
			return fail(c, to, "\"$ref\" points to nothing in this schema");
		to = schema_both(c, to, flat_at(c, target, depth + 1));
	}
	if (all && !cJSON_IsArray(all))
		return fail(c, to, "\"allOf\" is not an array");
	cJSON_ArrayForEach (one, all)
		to = schema_both(c, to, flat_at(c, one, depth + 1));
	cJSON* conditions = schema_has(schema, SCHEMA_CONDITIONS) ? schema_conditions(c, schema) : NULL;
	cJSON_ArrayForEach (one, conditions)
		to = schema_both(c, to, flat_at(c, one, depth + 1));
	cJSON_Delete(conditions);
	return to;
}

cJSON* schema_flat(struct compiler* c, const cJSON* schema) { return flat_at(c, schema, 0); }

cJSON* schema_without(struct compiler* c, const cJSON* schema, const char* keywords) {
	cJSON* to = cJSON_CreateObject();
	const cJSON* field;
	cJSON_ArrayForEach (field, schema) {
		if (!json_lists(keywords, field->string) && !describes(field->string))
			copy_to(c, to, field);
	}
	return counted(c, to);
}
