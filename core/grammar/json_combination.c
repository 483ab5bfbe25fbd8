/* Emits references, allOf, anyOf and oneOf. */
#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "core/grammar/json_compiler.h"

/* ---- references ----------------------------------------------------------------------------- */

/* Joins $ref and allOf with the schema's other keywords and with the schema around it, which may be NULL. The
 * result lives as long as the compiler; NULL: failed. */
static const cJSON* join_schema(struct compiler*, const cJSON* schema, const cJSON* around);

/* A rule for what is referred to or joined, made once: schemas may contain themselves. */
static int reference_rule(struct compiler* c, const cJSON* schema, bool joins) {
	for (int i = 0; i < c->rules.n_references; i++)
		if (c->rules.reference[i].joins == joins &&
		    (c->rules.reference[i].schema == schema ||
		     (joins && json_same(c->rules.reference[i].schema, schema))))
			return c->rules.reference[i].rule;
	if (!grow_by_one(&c->rules.reference, (size_t)c->rules.n_references, sizeof *c->rules.reference))
		return (int)schema_refuse(c, "out of memory");
	const int rule = program_rule(c->grammar);
	c->rules.reference[c->rules.n_references++] = (struct reference){schema, rule, joins};
	const int at = c->rules.n_references - 1;
	const cJSON* of = joins ? join_schema(c, schema, NULL) : schema;
	const int32_t start = of ? schema_emit(c, of, RETURNS) : NOWHERE;
	if (!c->failed && !c->grammar->failed)
		c->grammar->rule[rule] = start;
	if (start == NOWHERE) /* nothing is valid; what has called it meanwhile leads to no end */
		c->rules.reference[at].rule = NOWHERE;
	return c->rules.reference[at].rule;
}

int32_t schema_emit_reference(struct compiler* c, const cJSON* schema, bool joins, int32_t next) {
	const cJSON* target = joins ? schema : schema_resolve(c->root, json_field(schema, "$ref"));
	if (!target)
		return schema_refuse_reference(c, json_field(schema, "$ref"));
	const int rule = reference_rule(c, target, joins);
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

static const cJSON* join_schema(struct compiler* c, const cJSON* schema, const cJSON* around) {
	cJSON* one = schema_flat(c, schema, around != NULL);
	/* what surrounds it comes first: so do its members */
	return schema_kept(c, around ? schema_both(c, schema_flat(c, around, false), one) : one);
}

/* ---- anyOf, oneOf --------------------------------------------------------------------------- */

/* How deep schemas within schemas are looked at, how many have to hold at once, and what all looks may cost.
 */
enum { MAX_LOOKED = 8, MAX_PARTS = 32, MOST_LOOKS = 1 << 20 };

/* Schemas of which all have to hold: one itself, what its $ref leads to, those of its allOf, and groups of
 * keywords of members. */
struct schema_parts {
	const cJSON* of[MAX_PARTS]; /* (n) */
	int n;
};

static void add_parts(struct compiler* c, const cJSON* schema, struct schema_parts* parts) {
	const cJSON *one, *reference = json_field(schema, "$ref");
	if (!schema || parts->n == MAX_PARTS)
		return;
	parts->of[parts->n++] = schema;
	if (reference)
		add_parts(c, schema_resolve(c->root, reference), parts);
	cJSON_ArrayForEach (one, json_field(schema, "allOf"))
		add_parts(c, one, parts);
	cJSON_ArrayForEach (one, json_field(schema, SCHEMA_MEMBERS))
		add_parts(c, one, parts);
}

static unsigned with_integers(unsigned types) {
	return types >> TYPE_NUMBER & 1u ? types | 1u << TYPE_INTEGER : types;
}

/* The types of values that may be valid under a schema by its own `type`, not by what its other keywords are
 * about: those hold of any other type. A whole number is a number too. */
static unsigned declared_types(struct compiler* c, const struct schema_parts* parts, int depth) {
	unsigned types = ALL_TYPES;
	for (int i = 0; i < parts->n && depth < MAX_LOOKED && ++c->looks < MOST_LOOKS; i++) {
		const cJSON *of = parts->of[i], *one;
		unsigned listed = 0;
		if (cJSON_IsFalse(of))
			return 0;
		if (json_field(of, "type"))
			types &= with_integers(schema_types(c, of));
		for (one = NULL; (one = schema_value_after(of, one));)
			listed |= schema_type_of(one);
		types &= listed ? with_integers(listed) : ALL_TYPES;
		for (int k = 0; k < 2; k++) {
			unsigned any = 0;
			cJSON_ArrayForEach (one, json_field(of, k ? "oneOf" : "anyOf")) {
				struct schema_parts within = {.n = 0};
				add_parts(c, one, &within);
				any |= declared_types(c, &within, depth + 1);
			}
			types &= any ? any : ALL_TYPES;
		}
	}
	return types;
}

/* Whether both have a few values, and none in common. */
static bool values_differ(struct compiler* c, const cJSON* a, const cJSON* b) {
	for (const cJSON* x = NULL; (x = schema_value_after(a, x));)
		for (const cJSON* y = NULL; (y = schema_value_after(b, y));)
			if (++c->looks > MOST_LOOKS || json_same(x, y))
				return false;
	return schema_value_after(a, NULL) && schema_value_after(b, NULL);
}

/* Whether both constrain strings by patterns and values, and have no string in common. */
static bool strings_differ(struct compiler* c, const cJSON* a, const cJSON* b) {
	if (!json_field(a, "pattern") && !json_field(b, "pattern"))
		return false; /* lists of values have been compared before */
	const struct error before = *c->error;
	c->looks += MAX_SCHEMA_DEPTH;
	struct language *x = schema_names(c, a, 0), *y = schema_names(c, b, 0);
	struct language* both = c->failed ? NULL : language_product(x, y, BOTH);
	const bool differ = both && both->n == 0;
	if (c->failed) /* it is refused where it is needed, if it is */
		*c->error = before;
	c->failed = false;
	language_free(x);
	language_free(y);
	language_free(both);
	return differ;
}

static bool requires_member(const struct schema_parts* parts, const char* name) {
	const cJSON* one;
	for (int i = 0; i < parts->n; i++)
		cJSON_ArrayForEach (one, json_field(parts->of[i], "required")) {
			if (cJSON_IsString(one) && strcmp(one->valuestring, name) == 0)
				return true;
		}
	return false;
}

static bool exclude_each_other(struct compiler*, const cJSON* a, const cJSON* b, int depth);

/* Whether objects have a member that one schema requires, and whose values under both differ. */
static bool members_differ(struct compiler* c, const struct schema_parts* a, const struct schema_parts* b,
                           int depth) {
	const cJSON* mine;
	for (int i = 0; i < a->n; i++)
		for (int j = 0; j < b->n && ++c->looks < MOST_LOOKS; j++)
			cJSON_ArrayForEach (mine, json_field(a->of[i], "properties")) {
				const cJSON* theirs =
				    cJSON_GetObjectItemCaseSensitive(json_field(b->of[j], "properties"), mine->string);
				if (theirs && (requires_member(a, mine->string) || requires_member(b, mine->string)) &&
				    exclude_each_other(c, mine, theirs, depth + 1))
					return true;
			}
	return false;
}

/* Whether `a` requires a member that `b` does not allow. */
static bool is_closed_to(const struct schema_parts* a, const cJSON* b) {
	const cJSON* one;
	if (!cJSON_IsFalse(json_field(b, "additionalProperties")) || json_field(b, "patternProperties"))
		return false;
	for (int i = 0; i < a->n; i++)
		cJSON_ArrayForEach (one, json_field(a->of[i], "required")) {
			if (cJSON_IsString(one) &&
			    !cJSON_GetObjectItemCaseSensitive(json_field(b, "properties"), one->valuestring))
				return true;
		}
	return false;
}

/* Whether every alternative of a list has no value in common with the other schema. */
static bool all_disjoint(struct compiler* c, const cJSON* list, const cJSON* other, int depth) {
	const cJSON* one;
	cJSON_ArrayForEach (one, list) {
		if (!exclude_each_other(c, one, other, depth + 1))
			return false;
	}
	return cJSON_IsArray(list) && list->child;
}

static bool alternatives_differ(struct compiler* c, const struct schema_parts* a, const cJSON* b, int depth) {
	for (int i = 0; i < a->n; i++)
		if (all_disjoint(c, json_field(a->of[i], "anyOf"), b, depth) ||
		    all_disjoint(c, json_field(a->of[i], "oneOf"), b, depth))
			return true;
	return false;
}

/* Whether it is plain that no value can be valid under both: other types or values, or a member that one
 * requires and the other does not allow so. */
static bool exclude_each_other(struct compiler* c, const cJSON* a, const cJSON* b, int depth) {
	struct schema_parts x = {.n = 0}, y = {.n = 0};
	if (depth == MAX_LOOKED || c->failed || ++c->looks > MOST_LOOKS)
		return false;
	add_parts(c, a, &x);
	add_parts(c, b, &y);
	const unsigned both = declared_types(c, &x, depth) & declared_types(c, &y, depth);
	if (both == 0)
		return true;
	for (int i = 0; i < x.n; i++)
		for (int j = 0; j < y.n; j++)
			if (values_differ(c, x.of[i], y.of[j]) ||
			    (both == 1u << TYPE_STRING && strings_differ(c, x.of[i], y.of[j])) ||
			    (both == 1u << TYPE_OBJECT && (is_closed_to(&x, y.of[j]) || is_closed_to(&y, x.of[i]))))
				return true;
	return (both == 1u << TYPE_OBJECT && members_differ(c, &x, &y, depth)) ||
	       alternatives_differ(c, &x, b, depth) || alternatives_differ(c, &y, a, depth);
}

/* Alternative i, and none of the others. */
static const cJSON* only_alternative(struct compiler* c, const cJSON* const* list, const cJSON* const* raw,
                                     int n, int i) {
	cJSON* others = cJSON_CreateArray();
	for (int j = 0; j < n && !c->failed; j++)
		if (j != i && !exclude_each_other(c, list[i], list[j], 0)) {
			cJSON* other = schema_negated(c, raw[j]);
			schema_append(c, others, other);
		}
	if (cJSON_GetArraySize(others) == 0) {
		cJSON_Delete(others);
		return list[i];
	}
	cJSON* none = schema_wrapped(c, "allOf", others);
	const cJSON* joined = c->failed ? NULL : join_schema(c, list[i], none);
	cJSON_Delete(none);
	return joined;
}

int32_t schema_emit_combination(struct compiler* c, const cJSON* schema, const char* keyword, int32_t next) {
	const cJSON *alternatives = json_field(schema, keyword), *one, *rest = NULL; /* what stands beside it */
	if (schema_constrains_beyond(schema, keyword))
		rest = schema_kept(c, schema_without(c, schema, keyword));
	static const cJSON nothing = {.type = cJSON_False};
	const bool exactly_one = strcmp(keyword, "oneOf") == 0;
	const cJSON *list[MAX_SCHEMAS_EITHER], *raw[MAX_SCHEMAS_EITHER];
	int n = 0;
	int32_t all = NOWHERE;
	if (!cJSON_IsArray(alternatives) || !alternatives->child ||
	    cJSON_GetArraySize(alternatives) > MAX_SCHEMAS_EITHER)
		return schema_refuse_keyword(c, keyword, "is not an array of 1 to 256 schemas");
	cJSON_ArrayForEach (one, alternatives) {
		raw[n] = one;
		/* alternatives that cannot hold beside the rest are not joined, so few of many conditions are left */
		list[n] = !rest ? one : exclude_each_other(c, one, rest, 0) ? &nothing : join_schema(c, one, rest);
		if (c->failed)
			return NOWHERE;
		n++;
	}
	for (int i = 0; i < n && !c->failed; i++) {
		const cJSON* of = exactly_one ? only_alternative(c, list, raw, n, i) : list[i];
		if (of && !c->failed)
			all = emit_split(c->grammar, schema_emit(c, of, next), all);
	}
	/* if no way to fail was lost, nothing is valid here, and an optional member is left out */
	if (all == NOWHERE && exactly_one && n > 1 && !c->failed && c->lost)
		return schema_refuse(c, "\"oneOf\": no value is valid under exactly one of its schemas");
	return all;
}
