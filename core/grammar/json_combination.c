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
	const int at = c->n_references - 1;
	const int32_t start = schema_emit(c, schema, RETURNS);
	if (!c->failed && !c->grammar->failed)
		c->grammar->rule[rule] = start;
	if (start == NOWHERE) /* nothing is valid; what has called it meanwhile leads to no end */
		c->reference[at].rule = NOWHERE;
	return c->reference[at].rule;
}

int32_t schema_emit_reference(struct compiler* c, const cJSON* schema, int32_t next) {
	const cJSON* target = schema_resolve(c->root, json_field(schema, "$ref"));
	if (!target)
		return schema_refuse_reference(c, json_field(schema, "$ref"));
	const int rule = reference_rule(c, target);
	return c->failed || rule < 0 ? NOWHERE : emit_call(c->grammar, rule, next);
}

/* ---- joining -------------------------------------------------------------------------------- */

/* Keeps a schema that was made, as what refers to it goes on to. */
const cJSON* schema_kept(struct compiler* c, cJSON* made) {
	if (!made || !grow_by_one(&c->made, (size_t)c->n_made, sizeof *c->made))
		schema_refuse(c, "out of memory");
	if (!c->failed)
		return c->made[c->n_made++] = made;
	cJSON_Delete(made);
	return NULL;
}

const cJSON* schema_joined(struct compiler* c, const cJSON* schema, const cJSON* around) {
	cJSON* one = schema_flat(c, schema, around != NULL);
	/* what surrounds it comes first: so do its members */
	return schema_kept(c, around ? schema_both(c, schema_flat(c, around, false), one) : one);
}

/* ---- anyOf, oneOf --------------------------------------------------------------------------- */

const cJSON* schema_followed(const struct compiler* c, const cJSON* schema) {
	for (int i = 0; i < MAX_SCHEMA_DEPTH && cJSON_IsObject(schema); i++) {
		const cJSON* reference = json_field(schema, "$ref");
		if (!cJSON_IsString(reference))
			break;
		schema = schema_resolve(c->root, reference);
	}
	return schema;
}

/* The types of values that may be valid under a schema, by its own `type`, not by what its other keywords are
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

/* Alternative i, and none of the others. */
static const cJSON* alone(struct compiler* c, const cJSON* const* list, const cJSON* const* raw, int n,
                          int i) {
	cJSON* others = cJSON_CreateArray();
	for (int j = 0; j < n && !c->failed; j++)
		if (j != i && !disjoint(c, list[i], list[j])) {
			cJSON* other = schema_negated(c, raw[j]);
			schema_append(c, others, other);
		}
	if (cJSON_GetArraySize(others) == 0) {
		cJSON_Delete(others);
		return list[i];
	}
	cJSON* none = schema_wrapped(c, "allOf", others);
	const cJSON* joined = c->failed ? NULL : schema_joined(c, list[i], none);
	cJSON_Delete(none);
	return joined;
}

int32_t schema_emit_combination(struct compiler* c, const cJSON* schema, const char* keyword, int32_t next) {
	const cJSON *alternatives = json_field(schema, keyword), *one, *rest = NULL; /* what stands beside it */
	if (schema_constrains_beyond(schema, keyword))
		rest = schema_kept(c, schema_without(c, schema, keyword));
	const bool exactly_one = strcmp(keyword, "oneOf") == 0;
	const cJSON *list[MAX_SCHEMAS_EITHER], *raw[MAX_SCHEMAS_EITHER];
	int n = 0;
	int32_t all = NOWHERE;
	if (!cJSON_IsArray(alternatives) || !alternatives->child ||
	    cJSON_GetArraySize(alternatives) > MAX_SCHEMAS_EITHER)
		return schema_refuse_keyword(c, keyword, "is not an array of 1 to 256 schemas");
	cJSON_ArrayForEach (one, alternatives) {
		raw[n] = one;
		list[n] = rest ? schema_joined(c, one, rest) : one;
		if (c->failed)
			return NOWHERE;
		n++;
	}
	for (int i = 0; i < n && !c->failed; i++) {
		const cJSON* of = exactly_one ? alone(c, list, raw, n, i) : list[i];
		if (of && !c->failed)
			all = emit_split(c->grammar, schema_emit(c, of, next), all);
	}
	if (all == NOWHERE && exactly_one && n > 1 && !c->failed)
		return schema_refuse(c, "\"oneOf\": no value is valid under exactly one of its schemas");
	return all;
}
