/* Rewrites not, if and dependencies with allOf and anyOf only.
 *
 * A value is valid under "not S" if it fails one of S's keywords: it lacks a member, a member is not valid,
 * it has another type or another value. A way to fail that no schema expresses is left out, so less is
 * allowed. If no way is left, S is refused. */
#include <string.h>

#include "core/grammar/json_compiler.h"

static cJSON* copy_value(const cJSON* value) { return cJSON_Duplicate(value, true); }

/* {"type": type}, to which keywords are added. */
static cJSON* typed_schema(struct compiler* c, const char* type) {
	return schema_wrapped(c, "type", cJSON_CreateString(type));
}

/* An object in which the member is there. */
static cJSON* with_member(struct compiler* c, const char* name) {
	cJSON* to = typed_schema(c, "object");
	schema_put(c, to, "required", cJSON_CreateStringArray(&name, 1));
	return to;
}

/* If it is an object, its member, if it comes, is so. Which members are evaluated does not depend on it. */
static cJSON* member_is(struct compiler* c, const char* name, cJSON* schema) {
	cJSON *to = cJSON_CreateObject(), *list = cJSON_CreateArray();
	cJSON* group = schema_wrapped(c, "properties", schema_wrapped(c, name, schema));
	schema_put(c, group, SCHEMA_UNSEEN, cJSON_CreateTrue());
	schema_append(c, list, group);
	schema_put(c, to, SCHEMA_MEMBERS, list);
	return to;
}

/* An object without the member. */
static cJSON* without_member(struct compiler* c, const char* name) {
	cJSON* to = member_is(c, name, cJSON_CreateFalse());
	schema_put(c, to, "type", cJSON_CreateString("object"));
	return to;
}

/* The reason why it fails, reported when it is reached: a schema may contain itself. */
static cJSON* failing_schema(struct compiler* c, const cJSON* schema) {
	if (cJSON_IsBool(schema) || (cJSON_IsObject(schema) && !schema->child))
		return cJSON_CreateBool(cJSON_IsFalse(schema));
	return schema_wrapped(c, "not", copy_value(schema));
}

static cJSON* both_of(struct compiler* c, cJSON* a, cJSON* b) {
	return schema_wrapped(c, "allOf", schema_pair(c, a, b));
}

/* ---- not -------------------------------------------------------------------------------------- */

/* A bound that is missed: the other one, one further. way NULL: it cannot be. */
static cJSON* missed_bound(struct compiler* c, const cJSON* field, const char* type, const char* other,
                           int further) {
	const int n = schema_count(c, field) + further;
	cJSON* way = typed_schema(c, type);
	if (n >= 0)
		schema_put(c, way, other, cJSON_CreateNumber(n));
	else
		schema_put(c, way, "type", cJSON_CreateArray());
	return way;
}

static void add_failed_count(struct compiler* c, const cJSON* field, cJSON* ways) {
	static const char* const bound[][3] = {{"minLength", "string", "maxLength"},
	                                       {"maxLength", "string", "minLength"},
	                                       {"minItems", "array", "maxItems"},
	                                       {"maxItems", "array", "minItems"},
	                                       {"minProperties", "object", "maxProperties"},
	                                       {"maxProperties", "object", "minProperties"}};
	for (int i = 0; i < 6; i++)
		if (strcmp(field->string, bound[i][0]) == 0)
			schema_append(c, ways, missed_bound(c, field, bound[i][1], bound[i][2], i % 2 ? 1 : -1));
}

static void add_failed_types(struct compiler* c, const cJSON* schema, const cJSON* field, cJSON* ways) {
	unsigned types = schema_type_set(field);
	if (cJSON_IsTrue(json_field(schema, "nullable")))
		types |= 1u << TYPE_NULL;
	if ((types >> TYPE_INTEGER & 1u) && !(types >> TYPE_NUMBER & 1u)) {
		cJSON *way = typed_schema(c, "number"), *never = cJSON_CreateArray();
		schema_append(c, never, schema_wrapped(c, "multipleOf", cJSON_CreateNumber(1)));
		schema_put(c, way, SCHEMA_NEVER, never);
		schema_append(c, ways, way);
		types |= 1u << TYPE_NUMBER;
	}
	schema_append(c, ways, schema_wrapped(c, "type", schema_type_list(ALL_TYPES & ~types)));
}

/* Ways to fail the keywords of items and contains. False: no schema expresses them. */
static bool add_failed_items(struct compiler* c, const cJSON* schema, const cJSON* field, cJSON* ways) {
	const cJSON *items = json_field(schema, "items"), *one;
	const bool tuple = strcmp(field->string, "prefixItems") == 0 || cJSON_IsArray(field);
	if (strcmp(field->string, "contains") == 0) {
		const int least = schema_count_of(c, schema, "minContains", 1),
		          most = schema_count_of(c, schema, "maxContains", -1);
		for (int i = 0; i < 2; i++) {
			if (i == 0 ? least == 0 : most < 0)
				continue;
			cJSON* way = typed_schema(c, "array");
			schema_put(c, way, "contains", copy_value(field));
			schema_put(c, way, "minContains", cJSON_CreateNumber(i == 0 ? 0 : most + 1));
			if (i == 0)
				schema_put(c, way, "maxContains", cJSON_CreateNumber(least - 1));
			schema_append(c, ways, way);
		}
		return true;
	}
	if (tuple) {
		int n = 0;
		cJSON_ArrayForEach (one, field) {
			cJSON *way = typed_schema(c, "array"), *prefix = cJSON_CreateArray();
			for (int i = 0; i < n; i++)
				schema_append(c, prefix, cJSON_CreateTrue());
			schema_append(c, prefix, failing_schema(c, one));
			schema_put(c, way, "prefixItems", prefix);
			schema_put(c, way, "minItems", cJSON_CreateNumber(++n));
			schema_append(c, ways, way);
		}
		return true;
	}
	if (strcmp(field->string, "items") != 0 || json_field(schema, "prefixItems") || cJSON_IsArray(items))
		return false;
	cJSON* way = typed_schema(c, "array");
	schema_put(c, way, "contains", failing_schema(c, items));
	schema_append(c, ways, way);
	return true;
}

static void add_failed_dependencies(struct compiler* c, const cJSON* field, cJSON* ways) {
	const cJSON* on;
	cJSON_ArrayForEach (on, field) {
		cJSON* needed = cJSON_IsArray(on) ? schema_wrapped(c, "required", copy_value(on)) : copy_value(on);
		cJSON* other = failing_schema(c, needed);
		schema_append(c, ways, both_of(c, with_member(c, on->string), other));
		cJSON_Delete(needed);
	}
}

/* None of them holds, or, of exactly one, two do. */
static void add_failed_choice(struct compiler* c, const cJSON* field, cJSON* ways) {
	cJSON* none = cJSON_CreateArray();
	const cJSON *one, *other;
	cJSON_ArrayForEach (one, field)
		schema_append(c, none, failing_schema(c, one));
	schema_append(c, ways, schema_wrapped(c, "allOf", none));
	if (strcmp(field->string, "oneOf") == 0)
		cJSON_ArrayForEach (one, field)
			for (other = one->next; other; other = other->next)
				schema_append(c, ways, both_of(c, copy_value(one), copy_value(other)));
}

/* An object with a member whose name keeps a schema, and whose value keeps another. */
static void add_some_member(struct compiler* c, cJSON* ways, cJSON* names, cJSON* value) {
	cJSON *way = typed_schema(c, "object"), *list = cJSON_CreateArray();
	cJSON* some = schema_wrapped(c, "propertyNames", names);
	schema_put(c, some, "additionalProperties", value);
	schema_append(c, list, some);
	schema_put(c, way, SCHEMA_SOME, list);
	schema_append(c, ways, way);
}

static void add_failed_names(struct compiler* c, const cJSON* schema, const cJSON* field, cJSON* ways) {
	const cJSON* one;
	if (strcmp(field->string, "propertyNames") == 0)
		add_some_member(c, ways, failing_schema(c, field), cJSON_CreateTrue());
	else if (strcmp(field->string, "patternProperties") == 0) {
		cJSON_ArrayForEach (one, field)
			add_some_member(c, ways, schema_wrapped(c, "pattern", cJSON_CreateString(one->string)),
			                failing_schema(c, one));
	} else {
		cJSON *known = cJSON_CreateArray(), *named = cJSON_CreateArray();
		cJSON_ArrayForEach (one, json_field(schema, "properties"))
			schema_append(c, named, cJSON_CreateString(one->string));
		if (named && named->child)
			schema_append(c, known, schema_wrapped(c, "enum", named));
		else
			cJSON_Delete(named);
		cJSON_ArrayForEach (one, json_field(schema, "patternProperties"))
			schema_append(c, known, schema_wrapped(c, "pattern", cJSON_CreateString(one->string)));
		add_some_member(c, ways, schema_wrapped(c, "not", schema_wrapped(c, "anyOf", known)),
		                failing_schema(c, field));
	}
}

/* Adds the ways to fail a keyword. False: there are others, which no schema expresses. */
static bool add_failures(struct compiler* c, const cJSON* schema, const cJSON* field, cJSON* ways) {
	const char* name = field->string;
	const cJSON* one;
	if (strcmp(name, "required") == 0) {
		cJSON_ArrayForEach (one, field)
			schema_append(c, ways, cJSON_IsString(one) ? without_member(c, one->valuestring) : NULL);
	} else if (strcmp(name, "properties") == 0) {
		cJSON_ArrayForEach (one, field) {
			cJSON* other = failing_schema(c, one);
			if (cJSON_IsFalse(other)) {
				cJSON_Delete(other);
				continue;
			}
			cJSON* way = member_is(c, one->string, other);
			schema_put(c, way, "type", cJSON_CreateString("object"));
			schema_put(c, way, "required", cJSON_CreateStringArray((const char* const*)&one->string, 1));
			schema_append(c, ways, way);
		}
	} else if (strcmp(name, "const") == 0 || strcmp(name, "enum") == 0) {
		const bool several = strcmp(name, "enum") == 0 && cJSON_IsArray(field);
		cJSON* values = several ? copy_value(field) : cJSON_CreateArray();
		if (!several)
			schema_append(c, values, copy_value(field));
		schema_append(c, ways, schema_wrapped(c, SCHEMA_EXCEPT, values));
	} else if (strcmp(name, "type") == 0)
		add_failed_types(c, schema, field, ways);
	else if (json_lists("minLength maxLength minItems maxItems minProperties maxProperties", name))
		add_failed_count(c, field, ways);
	else if (strcmp(name, "contentMediaType") == 0)
		return false; /* of JSON less is written than there is */
	else if (schema_is_of_strings(name) || (schema_is_of_numbers(name) && !cJSON_IsBool(field))) {
		cJSON *way = typed_schema(c, schema_is_of_strings(name) ? "string" : "number"),
		      *never = cJSON_CreateArray();
		schema_append(c, never, schema_wrapped(c, name, copy_value(field)));
		schema_put(c, way, SCHEMA_NEVER, never);
		schema_append(c, ways, way);
	} else if (json_lists("items prefixItems contains", name))
		return add_failed_items(c, schema, field, ways);
	else if (json_lists("anyOf oneOf", name))
		add_failed_choice(c, field, ways);
	else if (strcmp(name, "allOf") == 0) {
		cJSON_ArrayForEach (one, field)
			schema_append(c, ways, failing_schema(c, one));
	} else if (strcmp(name, "$ref") == 0) {
		const cJSON* target = schema_resolve(c->root, field);
		if (!target)
			schema_refuse_reference(c, field);
		else if (c->negated == MAX_CHAIN)
			schema_refuse_keyword(c, "$ref", "leads to itself");
		else {
			c->negated++;
			schema_append(c, ways, schema_negated(c, target));
			c->negated--;
		}
	} else if (strcmp(name, "not") == 0)
		schema_append(c, ways, copy_value(field));
	else if (json_lists("dependencies dependentRequired dependentSchemas", name))
		add_failed_dependencies(c, field, ways);
	else if (strcmp(name, "if") == 0) {
		const cJSON *then = json_field(schema, "then"), *otherwise = json_field(schema, "else");
		if (then) {
			cJSON* other = failing_schema(c, then);
			schema_append(c, ways, both_of(c, copy_value(field), other));
		}
		if (otherwise) {
			cJSON* other = failing_schema(c, field);
			cJSON* neither = failing_schema(c, otherwise);
			schema_append(c, ways, both_of(c, other, neither));
		}
	} else if (json_lists("patternProperties additionalProperties propertyNames", name))
		add_failed_names(c, schema, field, ways);
	else if (json_lists("unevaluatedProperties additionalItems unevaluatedItems uniqueItems", name))
		return cJSON_IsTrue(field) && strcmp(name, "uniqueItems") != 0;
	return true;
}

cJSON* schema_negated(struct compiler* c, const cJSON* schema) {
	const cJSON* field;
	if (cJSON_IsBool(schema))
		return cJSON_CreateBool(cJSON_IsFalse(schema));
	if (c->failed || ++c->joined > MAX_JOINED) {
		schema_refuse(c, "too many schemas that have to hold at once");
		return NULL;
	}
	if (!cJSON_IsObject(schema)) {
		schema_refuse(c, "a schema is neither an object nor a boolean");
		return NULL;
	}
	cJSON* ways = cJSON_CreateArray();
	const char* lost = NULL;
	cJSON_ArrayForEach (field, schema) {
		if ((!cJSON_IsNull(field) || strcmp(field->string, "const") == 0) &&
		    !add_failures(c, schema, field, ways))
			lost = field->string;
	}
	c->lost |= lost != NULL;
	if (ways && ways->child) {
		cJSON* either = schema_wrapped(c, "anyOf", ways);
		return c->evaluates ? schema_wrapped(c, SCHEMA_QUIET, either) : either;
	}
	cJSON_Delete(ways);
	if (lost)
		schema_refuse_keyword(c, lost,
		                      "is not supported where it must not hold: in \"not\", \"if\" or \"oneOf\"");
	return cJSON_CreateFalse(); /* nothing can fail */
}

/* ---- if, dependencies --------------------------------------------------------------------------- */

/* Both hold, or the first does not and the third does; a NULL one requires nothing. */
static cJSON* either_schema(struct compiler* c, cJSON* condition, const cJSON* consequence, cJSON* failed,
                            const cJSON* otherwise) {
	if (consequence)
		condition = schema_wrapped(c, "allOf", schema_pair(c, condition, copy_value(consequence)));
	if (otherwise)
		failed = schema_wrapped(c, "allOf", schema_pair(c, failed, copy_value(otherwise)));
	return schema_wrapped(c, "anyOf", schema_pair(c, condition, failed));
}

static cJSON* rewrite_condition(struct compiler* c, const cJSON* schema) {
	const cJSON *condition = json_field(schema, "if"), *then = json_field(schema, "then"),
	            *otherwise = json_field(schema, "else");
	if (!then && !otherwise) /* it decides what is evaluated, at most */
		return c->evaluates
		           ? schema_wrapped(c, "anyOf", schema_pair(c, copy_value(condition), cJSON_CreateTrue()))
		           : cJSON_CreateTrue();
	return either_schema(c, copy_value(condition), then, schema_negated(c, condition), otherwise);
}

/* Required members are written first if nothing else decides the order. */
static cJSON* rewrite_dependency(struct compiler* c, const cJSON* on) {
	cJSON* needed = cJSON_IsArray(on) ? schema_wrapped(c, "required", copy_value(on)) : copy_value(on);
	cJSON* there = both_of(c, needed, with_member(c, on->string));
	cJSON* missing = member_is(c, on->string, cJSON_CreateFalse());
	return schema_wrapped(c, "anyOf", schema_pair(c, there, missing));
}

cJSON* schema_conditions(struct compiler* c, const cJSON* schema) {
	cJSON* list = cJSON_CreateArray();
	const cJSON *field, *one;
	if (json_field(schema, "not"))
		schema_append(c, list, schema_negated(c, json_field(schema, "not")));
	if (json_field(schema, "if"))
		schema_append(c, list, rewrite_condition(c, schema));
	cJSON_ArrayForEach (field, schema) {
		if (json_lists("dependencies dependentRequired dependentSchemas", field->string))
			cJSON_ArrayForEach (one, field)
				schema_append(c, list, rewrite_dependency(c, one));
	}
	return list;
}
