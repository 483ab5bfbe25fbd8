/* See json_merge.h. Where two keywords cannot be one, that is a problem with a name, never a wider schema. */
#include "core/grammar/json_merge.h"

#include <stdlib.h>
#include <string.h>

#include "core/files/json.h"

enum { MAX_WORK = 1 << 17, MAX_CHAIN = 64 };

const char* const schema_type_names[] = {"object",  "array",   "string", "number",
                                         "integer", "boolean", "null",   NULL};
enum { NUMBER = 3, INTEGER = 4 };

/* ---- looking ---------------------------------------------------------------------------------- */

const cJSON* schema_resolve(const cJSON* root, const char* reference) {
	if (reference[0] != '#')
		return NULL;
	const cJSON* at = root;
	for (const char* from = reference + 1; at && *from;) {
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
bool schema_describes(const char* keyword) {
	return !json_lists(
	    "$ref $dynamicRef $recursiveRef type enum const anyOf oneOf allOf not if then else "
	    "properties patternProperties additionalProperties unevaluatedProperties propertyNames "
	    "required minProperties maxProperties dependencies dependentRequired dependentSchemas "
	    "items prefixItems additionalItems unevaluatedItems contains minContains maxContains "
	    "minItems maxItems uniqueItems pattern format minLength maxLength minimum maximum "
	    "exclusiveMinimum exclusiveMaximum multipleOf nullable " SCHEMA_EXCEPT,
	    keyword);
}

bool schema_has_more_than(const cJSON* schema, const char* keyword) {
	const cJSON* field;
	cJSON_ArrayForEach (field, schema) {
		if (strcmp(field->string, keyword) != 0 && !schema_describes(field->string))
			return true;
	}
	return false;
}

/* ---- building --------------------------------------------------------------------------------- */

static cJSON* fail(struct schema_join* j, cJSON* schema, const char* problem) {
	if (!j->problem)
		j->problem = problem;
	cJSON_Delete(schema);
	return NULL;
}

static int values_in(const cJSON* value) {
	int n = 1;
	for (const cJSON* one = value ? value->child : NULL; one; one = one->next)
		n += values_in(one);
	return n;
}

/* Schemas grow as they are joined: what they hold is what it costs. */
static cJSON* counted(struct schema_join* j, cJSON* made) {
	j->work += values_in(made);
	return j->work <= MAX_WORK ? made : fail(j, made, "too many schemas that have to hold at once");
}

/* In the place of what is there; takes the value over. */
static bool put(cJSON* object, const char* name, cJSON* value) {
	cJSON_DeleteItemFromObjectCaseSensitive(object, name);
	if (value && cJSON_AddItemToObject(object, name, value))
		return true;
	cJSON_Delete(value);
	return false;
}

static bool copy_to(cJSON* object, const cJSON* value) {
	return put(object, value->string, cJSON_Duplicate(value, true));
}

/* {"allOf": [a, b]}: joined when it comes to it. */
static cJSON* later(const cJSON* a, const cJSON* b) {
	cJSON* both = cJSON_CreateObject();
	cJSON* list = both ? cJSON_AddArrayToObject(both, "allOf") : NULL;
	cJSON* copies[] = {cJSON_Duplicate(a, true), cJSON_Duplicate(b, true)};
	bool good = list != NULL;
	for (int i = 0; i < 2; i++)
		if (!good || !copies[i] || !cJSON_AddItemToArray(list, copies[i])) {
			cJSON_Delete(copies[i]);
			good = false;
		}
	if (good)
		return both;
	cJSON_Delete(both);
	return NULL;
}

/* ---- keyword by keyword ----------------------------------------------------------------------- */

static unsigned types_in(const cJSON* type) {
	unsigned types = 0;
	for (const cJSON* one = cJSON_IsArray(type) ? type->child : type; one;
	     one = cJSON_IsArray(type) ? one->next : NULL)
		for (unsigned i = 0; schema_type_names[i]; i++)
			if (cJSON_IsString(one) && strcmp(one->valuestring, schema_type_names[i]) == 0)
				types |= 1u << i;
	return types >> NUMBER & 1u ? types | 1u << INTEGER : types;
}

cJSON* schema_type_list(unsigned types) {
	cJSON* list = cJSON_CreateArray();
	if (types >> NUMBER & 1u)
		types &= ~(1u << INTEGER);
	for (unsigned i = 0; schema_type_names[i] && list; i++)
		if (types >> i & 1u)
			cJSON_AddItemToArray(list, cJSON_CreateString(schema_type_names[i]));
	return list;
}

static cJSON* common_values(const cJSON* a, const cJSON* b) {
	cJSON* list = cJSON_CreateArray();
	const cJSON *x, *y;
	cJSON_ArrayForEach (x, a) {
		bool found = false;
		cJSON_ArrayForEach (y, b)
			found |= cJSON_Compare(x, y, true);
		if (found && list)
			cJSON_AddItemToArray(list, cJSON_Duplicate(x, true));
	}
	return list;
}

/* Members that one of them alone names are the other's additional ones. */
static bool join_properties(cJSON* to, const cJSON* a, const cJSON* b) {
	cJSON* all = cJSON_CreateObject();
	const cJSON* from[] = {a, b};
	bool good = all != NULL;
	for (int i = 0; i < 2 && good; i++) {
		const cJSON *one, *others = json_field(from[1 - i], "additionalProperties");
		const cJSON* theirs = json_field(from[1 - i], "properties");
		cJSON_ArrayForEach (one, json_field(from[i], "properties")) {
			const cJSON* twin = cJSON_GetObjectItemCaseSensitive(theirs, one->string);
			twin = twin ? twin : cJSON_IsTrue(others) ? NULL : others;
			if (good && !cJSON_GetObjectItemCaseSensitive(all, one->string)) {
				cJSON* joined = twin ? later(one, twin) : cJSON_Duplicate(one, true);
				good = joined && put(all, one->string, joined);
			}
		}
	}
	return put(to, "properties", all) && good;
}

static bool join_required(cJSON* to, const cJSON* more) {
	cJSON* list = cJSON_Duplicate(json_field(to, "required"), true);
	const cJSON *one, *known;
	cJSON_ArrayForEach (one, more) {
		bool found = false;
		cJSON_ArrayForEach (known, list)
			found |= cJSON_Compare(known, one, true);
		if (!found && list)
			cJSON_AddItemToArray(list, cJSON_Duplicate(one, true));
	}
	return put(to, "required", list);
}

static const char cannot[] = "two schemas that have to hold at once cannot be joined";

/* The tighter of two bounds. */
static bool join_bound(cJSON* to, const cJSON* mine, const cJSON* more, bool upper) {
	const bool tighter =
	    upper ? more->valuedouble < mine->valuedouble : more->valuedouble > mine->valuedouble;
	return !tighter || copy_to(to, more);
}

static bool join_others(cJSON* to, const cJSON* mine, const cJSON* more) {
	if (cJSON_IsFalse(mine) || cJSON_IsTrue(more))
		return true;
	if (cJSON_IsFalse(more) || cJSON_IsTrue(mine))
		return copy_to(to, more);
	return put(to, more->string, later(mine, more));
}

/* A keyword that both have. False where they cannot be one, with the problem, or for want of memory. */
static bool join_keyword(struct schema_join* j, cJSON* to, const cJSON* mine, const cJSON* more) {
	const char* name = more->string;
	const cJSON* value;
	const bool numbers = cJSON_IsNumber(mine) && cJSON_IsNumber(more);
	if (cJSON_Compare(mine, more, true))
		return true;
	if (strcmp(name, "type") == 0)
		return put(to, name, schema_type_list(types_in(mine) & types_in(more)));
	if (strcmp(name, "enum") == 0)
		return put(to, name, common_values(mine, more));
	if (strcmp(name, "const") == 0) /* two of them */
		return put(to, "enum", cJSON_CreateArray());
	if (strcmp(name, "required") == 0)
		return join_required(to, more);
	if (strcmp(name, SCHEMA_EXCEPT) == 0) {
		cJSON_ArrayForEach (value, more)
			cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(to, name), cJSON_Duplicate(value, true));
		return true;
	}
	if (strcmp(name, "items") == 0 && !cJSON_IsArray(mine) && !cJSON_IsArray(more))
		return put(to, name, later(mine, more));
	if (strcmp(name, "additionalProperties") == 0)
		return join_others(to, mine, more);
	if (numbers && json_lists("minimum exclusiveMinimum minLength minItems minProperties", name))
		return join_bound(to, mine, more, false);
	if (numbers && json_lists("maximum exclusiveMaximum maxLength maxItems maxProperties", name))
		return join_bound(to, mine, more, true);
	if (strcmp(name, "uniqueItems") == 0 || strcmp(name, "nullable") == 0)
		return put(to, name, cJSON_CreateBool(strcmp(name, "uniqueItems") == 0));
	j->problem = cannot;
	return false;
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
static bool nest_combination(cJSON* to, const cJSON* more) {
	cJSON* list = cJSON_GetObjectItemCaseSensitive(to, "allOf");
	if (!list)
		list = cJSON_AddArrayToObject(to, "allOf");
	cJSON* one = cJSON_CreateObject();
	if (!list || !one || !copy_to(one, more) || !cJSON_AddItemToArray(list, one)) {
		cJSON_Delete(one);
		return false;
	}
	return true;
}

/* Both are flat objects. */
static cJSON* join_flat(struct schema_join* j, const cJSON* a, const cJSON* b) {
	cJSON* to = cJSON_Duplicate(a, true);
	const cJSON* more;
	if (!to)
		return NULL;
	/* the inner one's unevaluated members are those that it does not name itself */
	const bool inner = json_field(b, "unevaluatedProperties") && json_field(a, "properties");
	if (inner || reaches_across(a, b) || reaches_across(b, a))
		return fail(j, to, cannot);
	cJSON_ArrayForEach (more, b) {
		const cJSON* mine = cJSON_GetObjectItemCaseSensitive(to, more->string);
		if (schema_describes(more->string) || strcmp(more->string, "properties") == 0)
			continue;
		if (!mine                                           ? !copy_to(to, more)
		    : json_lists("anyOf oneOf allOf", more->string) ? !nest_combination(to, more)
		                                                    : !join_keyword(j, to, mine, more))
			return fail(j, to, NULL);
	}
	if ((json_field(a, "properties") || json_field(b, "properties")) && !join_properties(to, a, b))
		return fail(j, to, NULL);
	const cJSON* type = cJSON_GetObjectItemCaseSensitive(to, "type");
	const cJSON* values = cJSON_GetObjectItemCaseSensitive(to, "enum");
	const bool none = (cJSON_IsArray(type) && !type->child) || (cJSON_IsArray(values) && !values->child);
	if (!none)
		return counted(j, to);
	cJSON_Delete(to);
	return cJSON_CreateFalse();
}

/* ---- from outside ----------------------------------------------------------------------------- */

static cJSON* both_flat(struct schema_join* j, cJSON* a, cJSON* b) { /* takes both */
	cJSON* to = NULL;
	if (a && b) {
		if (cJSON_IsFalse(a) || cJSON_IsFalse(b))
			to = cJSON_CreateFalse();
		else if (cJSON_IsTrue(a) || cJSON_IsTrue(b))
			to = cJSON_Duplicate(cJSON_IsTrue(a) ? b : a, true);
		else
			to = join_flat(j, a, b);
	}
	cJSON_Delete(a);
	cJSON_Delete(b);
	return to;
}

static cJSON* flat_at(struct schema_join* j, const cJSON* schema, int depth) {
	const cJSON *reference = json_field(schema, "$ref"), *all = json_field(schema, "allOf"), *one;
	if (++j->work > MAX_WORK || depth > MAX_CHAIN)
		return fail(j, NULL, "too many schemas that have to hold at once");
	if (!cJSON_IsObject(schema))
		return cJSON_IsBool(schema) ? cJSON_Duplicate(schema, true)
		                            : fail(j, NULL, "a schema is neither an object nor a boolean");
	cJSON* to = schema_without(j, schema,
	                           "$ref allOf not if then else dependencies dependentRequired dependentSchemas");
	if (reference) {
		const cJSON* target =
		    cJSON_IsString(reference) ? schema_resolve(j->root, reference->valuestring) : NULL;
		if (!target)
			return fail(j, to, "\"$ref\" points to nothing in this schema");
		to = both_flat(j, to, flat_at(j, target, depth + 1));
	}
	if (all && !cJSON_IsArray(all))
		return fail(j, to, "\"allOf\" is not an array");
	cJSON_ArrayForEach (one, all)
		to = to ? both_flat(j, to, flat_at(j, one, depth + 1)) : NULL;
	cJSON* conditions = to && schema_has_conditions(schema) ? cJSON_CreateArray() : NULL;
	if (conditions && !schema_conditions(j, schema, conditions)) {
		cJSON_Delete(conditions);
		return fail(j, to, NULL);
	}
	cJSON_ArrayForEach (one, conditions)
		to = to ? both_flat(j, to, flat_at(j, one, depth + 1)) : NULL;
	cJSON_Delete(conditions);
	return to;
}

cJSON* schema_flat(struct schema_join* j, const cJSON* schema, const cJSON* other) {
	cJSON* one = flat_at(j, schema, 0);
	return one && other ? both_flat(j, one, flat_at(j, other, 0)) : one;
}

cJSON* schema_without(struct schema_join* j, const cJSON* schema, const char* keywords) {
	cJSON* to = cJSON_CreateObject();
	const cJSON* field;
	cJSON_ArrayForEach (field, schema) {
		if (to && !json_lists(keywords, field->string) && !schema_describes(field->string) &&
		    !copy_to(to, field))
			return fail(j, to, NULL);
	}
	return to ? counted(j, to) : NULL;
}
