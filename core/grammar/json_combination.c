/* References, and schemas of which several, any or one have to hold. */
#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "core/grammar/json_compiler.h"

/* ---- references ----------------------------------------------------------------------------- */

/* A rule for what is referred to, made once: schemas may refer to themselves. */
static int reference_rule(struct compiler* c, const cJSON* schema) {
	for (int i = 0; i < c->n_references; i++)
		if (c->reference[i].schema == schema)
			return c->reference[i].rule;
	if (!grow_by_one(&c->reference, (size_t)c->n_references, sizeof *c->reference))
		return (int)schema_refuse(c, "out of memory");
	const int rule = program_rule(c->grammar);
	c->reference[c->n_references++] = (struct reference){schema, rule};
	const int32_t start = schema_emit(c, schema, RETURNS);
	if (start == NOWHERE && !c->failed)
		schema_refuse(c, "what is referred to allows nothing");
	if (!c->failed && !c->grammar->failed)
		c->grammar->rule[rule] = start;
	return rule;
}

int32_t schema_emit_reference(struct compiler* c, const cJSON* schema, int32_t next) {
	const cJSON* target = schema_resolve(c->root, json_field(schema, "$ref"));
	if (!target)
		return schema_refuse(c, "\"$ref\" points to nothing in this schema");
	const int rule = reference_rule(c, target);
	return c->failed ? NOWHERE : emit_call(c->grammar, rule, next);
}

/* ---- joining -------------------------------------------------------------------------------- */

/* Keeps a schema that was made, as what refers to it goes on to. */
static const cJSON* keep(struct compiler* c, cJSON* made) {
	if (!made || !grow_by_one(&c->made, (size_t)c->n_made, sizeof *c->made))
		schema_refuse(c, "out of memory");
	if (!c->failed)
		return c->made[c->n_made++] = made;
	cJSON_Delete(made);
	return NULL;
}

const cJSON* schema_joined(struct compiler* c, const cJSON* schema, const cJSON* other) {
	cJSON* one = schema_flat(c, schema);
	return keep(c, other ? schema_both(c, one, schema_flat(c, other)) : one);
}

/* ---- anyOf, oneOf --------------------------------------------------------------------------- */

enum { ALL_TYPES = (1 << TYPE_COUNT) - 1 };

const cJSON* schema_followed(const struct compiler* c, const cJSON* schema) {
	for (int i = 0; i < MAX_SCHEMA_DEPTH && cJSON_IsObject(schema); i++) {
		const cJSON* reference = json_field(schema, "$ref");
		if (!cJSON_IsString(reference))
			break;
		schema = schema_resolve(c->root, reference);
	}
	return schema;
}

/* The types of values that may be valid under a schema, by what it says, not by what its other keywords are
 * about: those hold of any other type. A whole number is a number too. */
static unsigned declared_types(struct compiler* c, const cJSON* schema) {
	unsigned types = 0;
	schema = schema_followed(c, schema);
	if (json_field(schema, "type"))
		types = schema_types(c, schema);
	else
		for (const cJSON* one = NULL; (one = schema_value_after(schema, one));)
			types |= schema_type_of(one);
	if (types == 0)
		return ALL_TYPES;
	return types >> TYPE_NUMBER & 1u ? types | 1u << TYPE_INTEGER : types;
}

/* Whether both have a few values, and none in common. */
static bool values_differ(const struct compiler* c, const cJSON* a, const cJSON* b) {
	a = schema_followed(c, a);
	b = schema_followed(c, b);
	for (const cJSON* x = NULL; (x = schema_value_after(a, x));)
		for (const cJSON* y = NULL; (y = schema_value_after(b, y));)
			if (cJSON_Compare(x, y, true))
				return false;
	return schema_value_after(a, NULL) && schema_value_after(b, NULL);
}

/* Whether no value can be valid under both: other types or values, or a member that both require with others.
 */
static bool disjoint(struct compiler* c, const cJSON* a, const cJSON* b) {
	const unsigned both = declared_types(c, a) & declared_types(c, b);
	if (both == 0 || values_differ(c, a, b))
		return true;
	if (both != 1u << TYPE_OBJECT)
		return false;
	a = schema_followed(c, a);
	b = schema_followed(c, b);
	const cJSON *of_a = json_field(a, "properties"), *of_b = json_field(b, "properties"), *name;
	cJSON_ArrayForEach (name, json_field(a, "required"))
		if (cJSON_IsString(name) && schema_holds(json_field(b, "required"), name) &&
		    values_differ(c, cJSON_GetObjectItemCaseSensitive(of_a, name->valuestring),
		                  cJSON_GetObjectItemCaseSensitive(of_b, name->valuestring)))
			return true;
	return false;
}

/* Of those the ones that are emitted. */
static unsigned emitted_types(struct compiler* c, const cJSON* schema) {
	const unsigned declared = declared_types(c, schema);
	schema = schema_followed(c, schema);
	const unsigned implied = json_field(schema, "type") ? 0 : schema_types(c, schema);
	return implied && declared == ALL_TYPES ? implied : declared;
}

/* A member that the one requires and the other does not. */
static const char* required_alone(const struct compiler* c, const cJSON* one, const cJSON* other) {
	const cJSON *name, *known = json_field(schema_followed(c, other), "required");
	cJSON_ArrayForEach (name, json_field(schema_followed(c, one), "required"))
		if (cJSON_IsString(name) && !schema_holds(known, name))
			return name->valuestring;
	return NULL;
}

/* What alternative i has to keep besides so that none of the others holds: a narrower set of types, or
 * members left out that another requires. False: nothing would be left. */
static bool add_exclusions(struct compiler* c, const cJSON* const* list, int n, int i, cJSON* to) {
	unsigned types = emitted_types(c, list[i]);
	cJSON* properties = cJSON_AddObjectToObject(to, "properties");
	bool narrower = false;
	for (int j = 0; j < n && properties; j++) {
		if (j == i || disjoint(c, list[i], list[j]))
			continue;
		const unsigned theirs = declared_types(c, list[j]);
		const char* name = required_alone(c, list[j], list[i]);
		if (types == 1u << TYPE_OBJECT && name) {
			if (!cJSON_GetObjectItemCaseSensitive(properties, name))
				cJSON_AddFalseToObject(properties, name);
		} else {
			narrower |= (types & theirs) != 0;
			/* a number that is no integer is not in the language of what is left */
			types &= ~(theirs >> TYPE_INTEGER & 1u ? theirs | 1u << TYPE_NUMBER : theirs);
		}
	}
	if (properties && !properties->child)
		cJSON_DeleteItemFromObjectCaseSensitive(to, "properties");
	if (narrower)
		cJSON_AddItemToObject(to, "type", schema_type_list(types));
	return types != 0;
}

/* One alternative, with what stands beside the combination and what oneOf takes from it. */
static int32_t emit_alternative(struct compiler* c, const cJSON* const* list, int n, int i, bool one,
                                int32_t next) {
	const cJSON* schema = list[i];
	cJSON* exclusions = one && n > 1 ? cJSON_CreateObject() : NULL;
	int32_t at = NOWHERE;
	if (exclusions && !add_exclusions(c, list, n, i, exclusions))
		schema = NULL;
	else if (exclusions && exclusions->child)
		schema = schema_joined(c, schema, exclusions);
	if (schema && !c->failed)
		at = schema_emit(c, schema, next);
	cJSON_Delete(exclusions);
	return at;
}

int32_t schema_emit_combination(struct compiler* c, const cJSON* schema, const char* keyword, int32_t next) {
	const cJSON *alternatives = json_field(schema, keyword), *one, *rest = NULL; /* what stands beside it */
	if (schema_constrains_beyond(schema, keyword))
		rest = keep(c, schema_without(c, schema, keyword));
	const bool exactly_one = strcmp(keyword, "oneOf") == 0;
	const cJSON* list[MAX_SCHEMAS_EITHER];
	int n = 0;
	int32_t all = NOWHERE;
	if (!cJSON_IsArray(alternatives) || !alternatives->child ||
	    cJSON_GetArraySize(alternatives) > MAX_SCHEMAS_EITHER)
		return schema_refuse_keyword(c, keyword, "is not an array of 1 to 256 schemas");
	cJSON_ArrayForEach (one, alternatives) {
		list[n] = rest ? schema_joined(c, one, rest) : one;
		if (c->failed)
			return NOWHERE;
		n++;
	}
	for (int i = 0; i < n && !c->failed; i++)
		all = emit_split(c->grammar, emit_alternative(c, list, n, i, exactly_one, next), all);
	if (all == NOWHERE && exactly_one && n > 1 && !c->failed)
		return schema_refuse(
		    c, "\"oneOf\": a value that is valid under one of its schemas is valid under another");
	return all;
}
