/* Schemas that have not to hold, or to hold if others do, said with allOf and anyOf alone.
 *
 * not S fails S by one of its keywords: by a member that is missing or other, another type, a value that an
 * enum of the other schemas leaves. What cannot be said so is refused. */
#include <string.h>

#include "core/grammar/json_compiler.h"

static cJSON* copied(const cJSON* value) { return cJSON_Duplicate(value, true); }

/* An object in which the member is there, or is not. */
static cJSON* with_member(struct compiler* c, const char* name) {
	return schema_wrapped(c, "required", cJSON_CreateStringArray(&name, 1));
}

static cJSON* without_member(struct compiler* c, const char* name) {
	cJSON* to = schema_wrapped(c, "properties", schema_wrapped(c, name, cJSON_CreateFalse()));
	schema_put(c, to, "type", cJSON_CreateString("object"));
	return to;
}

/* ---- not -------------------------------------------------------------------------------------- */

static cJSON* negated(struct compiler*, const cJSON* schema);

/* An object whose member is there, and is not as the schema has it. */
static cJSON* with_other_member(struct compiler* c, const cJSON* member) {
	cJSON* to = with_member(c, member->string);
	schema_put(c, to, "properties", schema_wrapped(c, member->string, negated(c, member)));
	schema_put(c, to, "type", cJSON_CreateString("object"));
	return to;
}

/* Ways to fail a keyword. */
static void add_failures(struct compiler* c, const cJSON* field, cJSON* ways) {
	const char* name = field->string;
	const cJSON* one;
	if (strcmp(name, "required") == 0) {
		cJSON_ArrayForEach (one, field)
			schema_append(c, ways, cJSON_IsString(one) ? without_member(c, one->valuestring) : NULL);
	} else if (strcmp(name, "properties") == 0) {
		cJSON_ArrayForEach (one, field)
			schema_append(c, ways, with_other_member(c, one));
	} else if (strcmp(name, "const") == 0 || strcmp(name, "enum") == 0) {
		const bool several = strcmp(name, "enum") == 0 && cJSON_IsArray(field);
		cJSON* values = several ? copied(field) : cJSON_CreateArray();
		if (!several)
			schema_append(c, values, copied(field));
		schema_append(c, ways, schema_wrapped(c, SCHEMA_EXCEPT, values));
	} else if (strcmp(name, "type") == 0) {
		unsigned types = schema_type_set(field);
		if (types >> TYPE_INTEGER & 1u) /* integers are numbers */
			types |= 1u << TYPE_NUMBER;
		types = ((1u << TYPE_COUNT) - 1) & ~types;
		schema_append(c, ways, schema_wrapped(c, "type", schema_type_list(types)));
	} else if (strcmp(name, "anyOf") == 0) {
		cJSON* all = cJSON_CreateArray();
		cJSON_ArrayForEach (one, field)
			schema_append(c, all, negated(c, one));
		schema_append(c, ways, schema_wrapped(c, "allOf", all));
	} else
		schema_refuse(c,
		              "\"not\", or an \"if\" that may fail, is supported for \"required\", \"properties\", "
		              "\"type\" and values of an \"enum\"");
}

static cJSON* negated(struct compiler* c, const cJSON* schema) {
	const cJSON* field;
	if (c->failed || ++c->joined > MAX_JOINED || c->conditions == MAX_CONDITIONS) {
		schema_refuse(c, "too many schemas that have to hold at once");
		return NULL;
	}
	c->conditions++;
	cJSON *flat = schema_flat(c, schema), *ways = cJSON_CreateArray(), *other = NULL;
	cJSON_ArrayForEach (field, flat)
		add_failures(c, field, ways);
	c->conditions--;
	if (cJSON_IsBool(flat))
		other = cJSON_CreateBool(cJSON_IsFalse(flat));
	else if (ways && !ways->child) /* nothing can fail */
		other = cJSON_CreateFalse();
	cJSON_Delete(flat);
	if (!other)
		return schema_wrapped(c, "anyOf", ways);
	cJSON_Delete(ways);
	return other;
}

/* ---- if, dependencies --------------------------------------------------------------------------- */

/* Both hold, or the first does not and the third does; what is NULL says nothing. */
static cJSON* either(struct compiler* c, cJSON* condition, const cJSON* consequence, cJSON* failed,
                     const cJSON* otherwise) {
	if (consequence)
		condition = schema_wrapped(c, "allOf", schema_pair(c, condition, copied(consequence)));
	if (otherwise)
		failed = schema_wrapped(c, "allOf", schema_pair(c, failed, copied(otherwise)));
	return schema_wrapped(c, "anyOf", schema_pair(c, condition, failed));
}

static cJSON* conditional(struct compiler* c, const cJSON* schema) {
	const cJSON *condition = json_field(schema, "if"), *then = json_field(schema, "then"),
	            *otherwise = json_field(schema, "else");
	if (!then && !otherwise)
		return cJSON_CreateTrue();
	return either(c, copied(condition), then, negated(c, condition), otherwise);
}

static cJSON* dependency(struct compiler* c, const cJSON* on) {
	cJSON* needed = cJSON_IsArray(on) ? schema_wrapped(c, "required", copied(on)) : copied(on);
	cJSON* either_way = either(c, with_member(c, on->string), needed, without_member(c, on->string), NULL);
	cJSON_Delete(needed);
	return either_way;
}

cJSON* schema_conditions(struct compiler* c, const cJSON* schema) {
	cJSON* list = cJSON_CreateArray();
	const cJSON *field, *one;
	if (json_field(schema, "not"))
		schema_append(c, list, negated(c, json_field(schema, "not")));
	if (json_field(schema, "if"))
		schema_append(c, list, conditional(c, schema));
	cJSON_ArrayForEach (field, schema) {
		if (json_lists("dependencies dependentRequired dependentSchemas", field->string))
			cJSON_ArrayForEach (one, field)
				schema_append(c, list, dependency(c, one));
	}
	return list;
}
