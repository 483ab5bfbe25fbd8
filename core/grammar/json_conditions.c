/* Schemas that have not to hold, or to hold if others do, said with allOf and anyOf alone.
 *
 * not S fails S by one of its keywords: by a member that is missing or other, another type, a value that an
 * enum of the other schemas leaves. What cannot be said so is a problem with a name. */
#include <string.h>

#include "core/files/json.h"
#include "core/grammar/json_merge.h"

enum { MAX_WORK = 1 << 17, MAX_NESTED = 16 };

/* Each takes what it is given over; NULL where that is NULL. */
static cJSON* wrapped(const char* keyword, cJSON* value) {
	cJSON* to = value ? cJSON_CreateObject() : NULL;
	if (to && cJSON_AddItemToObject(to, keyword, value))
		return to;
	cJSON_Delete(value);
	cJSON_Delete(to);
	return NULL;
}

static cJSON* list_of(cJSON* a, cJSON* b) {
	cJSON* list = a && b ? cJSON_CreateArray() : NULL;
	if (!list) {
		cJSON_Delete(a);
		cJSON_Delete(b);
		return NULL;
	}
	cJSON_AddItemToArray(list, a);
	cJSON_AddItemToArray(list, b);
	return list;
}

static cJSON* copied(const cJSON* value) { return cJSON_Duplicate(value, true); }

/* An object in which the member is there, or is not. */
static cJSON* with_member(const char* name) { return wrapped("required", cJSON_CreateStringArray(&name, 1)); }

static cJSON* without_member(const char* name) {
	cJSON* to = wrapped("properties", wrapped(name, cJSON_CreateFalse()));
	if (to)
		cJSON_AddStringToObject(to, "type", "object");
	return to;
}

/* ---- not -------------------------------------------------------------------------------------- */

static cJSON* negated(struct schema_join*, const cJSON* schema);

static void add(cJSON* list, cJSON* one, bool* good) {
	*good = *good && one && cJSON_AddItemToArray(list, one);
	if (!*good)
		cJSON_Delete(one);
}

/* Whether a string, or a list of them, has this one. */
static bool lists(const cJSON* of, const char* word) {
	const cJSON* one;
	bool found = cJSON_IsString(of) && strcmp(of->valuestring, word) == 0;
	cJSON_ArrayForEach (one, of)
		found |= cJSON_IsString(one) && strcmp(one->valuestring, word) == 0;
	return found;
}

/* Ways to fail a keyword. False: they cannot be said. */
static bool add_failures(struct schema_join* j, const cJSON* field, cJSON* ways) {
	const char* name = field->string;
	const cJSON* one;
	bool good = true;
	if (strcmp(name, "required") == 0) {
		cJSON_ArrayForEach (one, field)
			add(ways, cJSON_IsString(one) ? without_member(one->valuestring) : NULL, &good);
	} else if (strcmp(name, "properties") == 0) {
		cJSON_ArrayForEach (one, field) {
			cJSON* other = negated(j, one);
			cJSON* to = wrapped("properties", wrapped(one->string, other));
			if (to) {
				cJSON_AddItemToObject(to, "required",
				                      cJSON_CreateStringArray((const char* const*)&one->string, 1));
				cJSON_AddStringToObject(to, "type", "object");
			}
			add(ways, to, &good);
		}
	} else if (strcmp(name, "const") == 0 || strcmp(name, "enum") == 0) {
		const bool several = strcmp(name, "enum") == 0 && cJSON_IsArray(field);
		cJSON* values = several ? copied(field) : cJSON_CreateArray();
		if (!several && values)
			cJSON_AddItemToArray(values, copied(field));
		add(ways, wrapped(SCHEMA_EXCEPT, values), &good);
	} else if (strcmp(name, "type") == 0) {
		cJSON* types = cJSON_CreateArray();
		const bool numbers = lists(field, "number") || lists(field, "integer"); /* integers are numbers */
		for (int i = 0; schema_type_names[i] && types; i++) {
			const bool number =
			    strcmp(schema_type_names[i], "number") == 0 || strcmp(schema_type_names[i], "integer") == 0;
			if (number ? !numbers : !lists(field, schema_type_names[i]))
				cJSON_AddItemToArray(types, cJSON_CreateString(schema_type_names[i]));
		}
		add(ways, wrapped("type", types), &good);
	} else if (strcmp(name, "anyOf") == 0) {
		cJSON* all = cJSON_CreateArray();
		cJSON_ArrayForEach (one, field)
			add(all, negated(j, one), &good);
		add(ways, wrapped("allOf", all), &good);
	} else
		return false;
	return good;
}

static cJSON* negated(struct schema_join* j, const cJSON* schema) {
	const cJSON* field;
	if (++j->work > MAX_WORK || j->nested == MAX_NESTED) {
		j->problem = "too many schemas that have to hold at once";
		return NULL;
	}
	if (cJSON_IsBool(schema))
		return cJSON_CreateBool(cJSON_IsFalse(schema));
	j->nested++;
	cJSON *flat = schema_flat(j, schema, NULL), *ways = flat ? cJSON_CreateArray() : NULL;
	j->nested--;
	bool good = ways != NULL && cJSON_IsObject(flat);
	if (flat && cJSON_IsBool(flat)) {
		cJSON* other = cJSON_CreateBool(cJSON_IsFalse(flat));
		cJSON_Delete(flat);
		cJSON_Delete(ways);
		return other;
	}
	j->nested++;
	cJSON_ArrayForEach (field, flat) {
		if (good && !schema_describes(field->string) && !add_failures(j, field, ways)) {
			if (!j->problem)
				j->problem =
				    "\"not\", or an \"if\" that may fail, is supported for \"required\", \"properties\", "
				    "\"type\" and values of an \"enum\"";
			good = false;
		}
	}
	j->nested--;
	cJSON_Delete(flat);
	if (!good) {
		cJSON_Delete(ways);
		return NULL;
	}
	if (!ways->child) { /* nothing can fail */
		cJSON_Delete(ways);
		return cJSON_CreateFalse();
	}
	return wrapped("anyOf", ways);
}

/* ---- if, dependencies --------------------------------------------------------------------------- */

/* Both hold, or the first does not and the third does; what is NULL says nothing. */
static cJSON* either(cJSON* condition, cJSON* consequence, cJSON* failed, cJSON* otherwise) {
	cJSON* first = consequence ? wrapped("allOf", list_of(condition, consequence)) : condition;
	cJSON* second = otherwise ? wrapped("allOf", list_of(failed, otherwise)) : failed;
	return wrapped("anyOf", list_of(first, second));
}

static cJSON* conditional(struct schema_join* j, const cJSON* schema) {
	const cJSON *condition = json_field(schema, "if"), *then = json_field(schema, "then"),
	            *otherwise = json_field(schema, "else");
	if (!then && !otherwise)
		return cJSON_CreateTrue();
	cJSON* failed = negated(j, condition);
	return failed ? either(copied(condition), then ? copied(then) : NULL, failed,
	                       otherwise ? copied(otherwise) : NULL)
	              : NULL;
}

static cJSON* dependency(const cJSON* on) {
	cJSON* needed = cJSON_IsArray(on) ? wrapped("required", copied(on)) : copied(on);
	return either(with_member(on->string), needed, without_member(on->string), NULL);
}

bool schema_has_conditions(const cJSON* schema) {
	static const char* const keywords[] = {"not", "if", "dependencies", "dependentRequired",
	                                       "dependentSchemas"};
	for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
		if (json_field(schema, keywords[i]))
			return true;
	return false;
}

bool schema_conditions(struct schema_join* j, const cJSON* schema, cJSON* list) {
	static const char* const dependencies[] = {"dependencies", "dependentRequired", "dependentSchemas"};
	const cJSON* one;
	bool good = true;
	if (json_field(schema, "not"))
		add(list, negated(j, json_field(schema, "not")), &good);
	if (json_field(schema, "if"))
		add(list, conditional(j, schema), &good);
	for (size_t i = 0; i < sizeof dependencies / sizeof *dependencies; i++)
		cJSON_ArrayForEach (one, json_field(schema, dependencies[i]))
			add(list, dependency(one), &good);
	return good;
}
