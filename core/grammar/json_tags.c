/* Emits arguments as texts between tags.
 *
 * Where members are written as Python has them, each value is JSON. Else a string is written as it is,
 * without quotes and escapes, and so cannot contain the mark that ends a value. A value of another type is
 * JSON. Where a value may be a string or something else, a text that is JSON of one of the other types, or
 * begins like a string of JSON, is not written as it is: it would be read as JSON.
 */
#include "core/grammar/json_tags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/grammar/json_compiler.h"

enum { MAX_TYPES_DEPTH = 16, MAX_TYPES_SCHEMAS = 256, LONGEST_TAG_NAME = 128, MAX_EXPRESSION = 512 };

/* ---- types -------------------------------------------------------------------------------------- */

static unsigned type_named(const char* name) {
	static const struct {
		const char* name;
		unsigned type;
	} types[] = {{"string", TAG_STRING},   {"integer", TAG_NUMBER}, {"number", TAG_NUMBER},
	             {"boolean", TAG_BOOLEAN}, {"null", TAG_NULL},      {"array", TAG_LIST},
	             {"object", TAG_OBJECT}};
	for (size_t i = 0; name && i < sizeof types / sizeof *types; i++)
		if (strcmp(types[i].name, name) == 0)
			return types[i].type;
	return TAG_ANY;
}

unsigned json_tag_type(const cJSON* value) {
	return cJSON_IsString(value)   ? TAG_STRING
	       : cJSON_IsNumber(value) ? TAG_NUMBER
	       : cJSON_IsBool(value)   ? TAG_BOOLEAN
	       : cJSON_IsNull(value)   ? TAG_NULL
	       : cJSON_IsArray(value)  ? TAG_LIST
	                               : TAG_OBJECT;
}

/* Lists of references to a schema within itself have more ways through than time allows. */
struct types_search {
	const cJSON* root;
	int left; /* schemas that may still be looked at; beyond them any type is taken */
};

static unsigned types_at(struct types_search*, const cJSON* schema, int depth);

/* Of alternatives all of their types; of schemas that hold at once the fewest. */
static unsigned types_of_list(struct types_search* search, const cJSON* list, bool all, int depth) {
	unsigned types = all ? TAG_ANY : 0;
	const cJSON* one;
	cJSON_ArrayForEach (one, list) {
		const unsigned of = types_at(search, one, depth + 1);
		types = all ? types & of : types | of;
	}
	return types ? types : TAG_ANY;
}

static unsigned types_of_values(const cJSON* values) {
	unsigned types = 0;
	const cJSON* one;
	cJSON_ArrayForEach (one, values)
		types |= json_tag_type(one);
	return types;
}

static unsigned types_at(struct types_search* search, const cJSON* schema, int depth) {
	static const char* const lists[] = {"anyOf", "oneOf", "allOf"};
	const cJSON *const type = json_field(schema, "type"), *const values = json_field(schema, "enum"),
	                   *const constant = cJSON_GetObjectItemCaseSensitive(schema, "const"), *item;
	unsigned types = cJSON_IsString(type) ? type_named(type->valuestring) : 0;
	if (depth == MAX_TYPES_DEPTH || search->left-- <= 0)
		return TAG_ANY;
	if (cJSON_IsArray(type))
		cJSON_ArrayForEach (item, type)
			types |= type_named(cJSON_GetStringValue(item));
	if (types)
		return cJSON_IsTrue(json_field(schema, "nullable")) ? types | TAG_NULL : types;
	types = cJSON_IsArray(values) ? types_of_values(values) : constant ? json_tag_type(constant) : 0;
	for (size_t i = 0; i < sizeof lists / sizeof *lists && !types; i++)
		if (cJSON_IsArray(json_field(schema, lists[i])))
			types = types_of_list(search, json_field(schema, lists[i]), i == 2, depth);
	const cJSON* const target = types ? NULL : schema_resolve(search->root, json_field(schema, "$ref"));
	return types ? types : target ? types_at(search, target, depth + 1) : TAG_ANY;
}

unsigned json_tag_types(const cJSON* root, const cJSON* schema) {
	struct types_search search = {root, MAX_TYPES_SCHEMAS};
	return types_at(&search, schema, 0);
}

const cJSON* json_tag_resolve(const cJSON* root, const cJSON* reference) {
	return schema_resolve(root, reference);
}

/* ---- values ------------------------------------------------------------------------------------- */

struct tagged {
	struct compiler* c;
	const struct grammar_tags* tags;
	int any_text; /* the rule of any text; 0: not made yet */
};

static struct language* of_expression(struct compiler* c, const char* expression, bool whole) {
	struct language* l =
	    c->failed ? NULL : language_of_pattern(expression, strlen(expression), whole, c->error);
	c->failed |= !l;
	return l;
}

/* The texts without the mark and without control characters. */
static struct language* plain_texts(const struct tagged* t) {
	static const char controls[] = "[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f]";
	char expression[MAX_EXPRESSION];
	size_t n = (size_t)snprintf(expression, sizeof expression, "%s|", controls);
	for (const char* c = t->tags->mark; *c && n + 3 < sizeof expression; c++) {
		if (strchr("\\^$.*+?()[]{}|/", *c))
			expression[n++] = '\\';
		expression[n++] = *c;
	}
	expression[n] = '\0';
	return schema_product(t->c, language_all(), of_expression(t->c, expression, false), ONLY_FIRST);
}

/* The same without those that are read as JSON where these types are expected too. */
static struct language* unlike_json(const struct tagged* t, unsigned types) {
	char expression[MAX_EXPRESSION];
	snprintf(expression, sizeof expression, "\\s*(\"[\\s\\S]*%s%s%s%s%s)",
	         types & TAG_LIST ? "|\\[[\\s\\S]*" : "", types & TAG_OBJECT ? "|\\{[\\s\\S]*" : "",
	         types & TAG_BOOLEAN ? "|([Tt]rue|[Ff]alse)\\s*" : "", types & TAG_NULL ? "|(null|None)\\s*" : "",
	         types & TAG_NUMBER ? "|-?[0-9]+(\\.[0-9]+)?([eE][+\\-]?[0-9]+)?\\s*" : "");
	return schema_product(t->c, plain_texts(t), of_expression(t->c, expression, true), ONLY_FIRST);
}

/* The schema's values of one type. */
static int32_t emit_of_type(const struct tagged* t, const cJSON* schema, unsigned type, int32_t next) {
	static const char* const names[GRAMMAR_TYPES] = {"string", "number", "boolean",
	                                                 "null",   "array",  "object"};
	int i = 0;
	while (type >> i != 1)
		i++;
	cJSON* const both = schema_pair(t->c, cJSON_Duplicate(schema, true),
	                                schema_wrapped(t->c, "type", cJSON_CreateString(names[i])));
	return schema_emit(t->c, schema_kept(t->c, schema_wrapped(t->c, "allOf", both)), next);
}

/* What stands before values of all the types; NULL: that differs. */
static const char* before_all(const struct tagged* t, unsigned types) {
	const char* before = NULL;
	for (int i = 0; i < GRAMMAR_TYPES; i++) {
		const char* const of = t->tags->before_value[i];
		if (types >> i & 1u && before && strcmp(before, of) != 0)
			return NULL;
		before = types >> i & 1u ? of : before;
	}
	return before;
}

/* The schema's strings. Most schemas allow any, which are made once. */
static int32_t emit_text_value(struct tagged* t, const cJSON* schema, int32_t next) {
	const char* const type = cJSON_GetStringValue(json_field(schema, "type"));
	if (!type || schema_constrains_beyond(schema, "type"))
		return schema_emit_bare(t->c, schema, plain_texts(t), next);
	if (!t->any_text) {
		const int rule = program_rule(t->c->grammar);
		t->any_text = schema_rule(t->c, rule, schema_emit_bare(t->c, schema, plain_texts(t), RETURNS));
	}
	return t->any_text ? emit_call(t->c->grammar, t->any_text, next) : NOWHERE;
}

static int32_t put_text(const struct tagged* t, const char* text, int32_t next) {
	return emit_text(t->c->grammar, text, strlen(text), next);
}

/* Of values that are written alike, whatever their type. */
static int32_t emit_alike(struct tagged* t, const cJSON* schema, unsigned types, int32_t next) {
	if (types == TAG_STRING)
		return emit_text_value(t, schema, next);
	const int32_t text =
	    types & TAG_STRING ? schema_emit_bare(t->c, schema, unlike_json(t, types), next) : NOWHERE;
	return emit_split(t->c->grammar, schema_emit(t->c, schema, next), text);
}

static int32_t emit_value(struct tagged* t, const cJSON* schema, unsigned types, int32_t next) {
	const char* const before = before_all(t, types);
	int32_t all = NOWHERE;
	if (t->tags->between)
		return put_text(t, before, schema_emit(t->c, schema, next));
	if (before)
		return put_text(t, before, emit_alike(t, schema, types, next));
	for (int i = 0; i < GRAMMAR_TYPES && !t->c->failed; i++) {
		const unsigned type = 1u << i & types;
		const int32_t at = !type                ? NOWHERE
		                   : type == TAG_STRING ? emit_text_value(t, schema, next)
		                                        : emit_of_type(t, schema, type, next);
		all = emit_split(t->c->grammar, put_text(t, t->tags->before_value[i], at), all);
	}
	return all;
}

/* ---- members ------------------------------------------------------------------------------------ */

/* Names that can stand within a tag. */
static bool is_tag_name(const char* name) {
	const size_t n = strlen(name);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)name[i] <= ' ' || strchr("<>\"'&=", name[i]))
			return false;
	return n > 0 && n <= LONGEST_TAG_NAME;
}

/* Names that Python has. */
static bool is_python_name(const char* name) {
	static const char letters[] = "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	return strspn(name, letters) == strlen(name) && !(*name >= '0' && *name <= '9');
}

/* Whether the schema is a list of members, and nothing but one. */
static bool is_plain(const cJSON* schema, const struct grammar_tags* tags) {
	const cJSON *const properties = json_field(schema, "properties"), *one;
	const char* const type = cJSON_GetStringValue(json_field(schema, "type"));
	const cJSON* const others = json_field(schema, "additionalProperties");
	const bool named = cJSON_IsObject(properties) && properties->child;
	if (!named && (tags->end_name || tags->between) && !cJSON_IsFalse(others))
		return false; /* a name that is not known could not be repeated, or might not be Python's */
	if (!cJSON_IsObject(schema) ||
	    schema_constrains_beyond(schema, "type properties required additionalProperties") ||
	    (json_field(schema, "type") && (!type || strcmp(type, "object") != 0)) ||
	    (properties && !cJSON_IsObject(properties)) || (!named && others && !cJSON_IsBool(others)))
		return false;
	cJSON_ArrayForEach (one, properties) {
		if (!is_tag_name(one->string) || (tags->between && !is_python_name(one->string)))
			return false;
	}
	cJSON_ArrayForEach (one, json_field(schema, "required")) {
		if (!cJSON_IsString(one) || !cJSON_GetObjectItemCaseSensitive(properties, one->valuestring))
			return false;
	}
	return true;
}

static bool is_required(const cJSON* schema, const char* name) {
	const cJSON* one;
	cJSON_ArrayForEach (one, json_field(schema, "required")) {
		if (strcmp(one->valuestring, name) == 0)
			return true;
	}
	return false;
}

/* Any members: the schema names none. */
static int32_t emit_any_members(struct tagged* t, int32_t next) {
	static const char name[] = "[A-Za-z_][A-Za-z0-9_.\\-]{0,63}";
	struct compiler* const c = t->c;
	const int32_t loop = emit_loop(c->grammar, next);
	const cJSON* const any = schema_kept(c, cJSON_CreateObject());
	const int32_t value = emit_value(t, any, TAG_ANY, put_text(t, t->tags->end, loop));
	const int32_t named =
	    pattern_emit(c->grammar, name, strlen(name), true, emit_characters, value, c->error);
	loop_close(c->grammar, loop, put_text(t, t->tags->before_name, named));
	return loop;
}

/* From the last member on: the members that may follow where there is none yet, and after another. */
static int32_t emit_members(struct tagged* t, const cJSON* schema, const unsigned* types, int32_t next) {
	const char* const between = t->tags->between;
	int32_t after = next;
	const cJSON* const properties = json_field(schema, "properties");
	const cJSON* one = properties ? properties->child : NULL;
	int i = cJSON_GetArraySize(properties);
	if (i == 0)
		return cJSON_IsFalse(json_field(schema, "additionalProperties")) ? next : emit_any_members(t, next);
	for (one = one->prev; i-- > 0; one = one->prev) {
		const int32_t ended =
		    t->tags->end_name ? put_text(t, one->string, put_text(t, t->tags->end_name, after)) : after;
		const int32_t value = emit_value(t, one, types[i], put_text(t, t->tags->end, ended));
		const int32_t member = put_text(t, t->tags->before_name, put_text(t, one->string, value));
		const bool required = is_required(schema, one->string);
		next = required ? member : emit_split(t->c->grammar, member, next);
		if (!between)
			after = next;
		else
			after = required ? put_text(t, between, member)
			                 : emit_split(t->c->grammar, put_text(t, between, member), after);
	}
	return next;
}

int32_t json_tags_emit(struct grammar* grammar, cJSON* schema, bool literal, const struct grammar_tags* tags,
                       int32_t next, struct error* error) {
	struct compiler c = {.grammar = grammar, .root = schema, .literal = literal, .error = error};
	struct tagged t = {.c = &c, .tags = tags};
	if (!is_plain(schema, tags)) {
		error_set(error, "the schema is not a plain list of members");
		return NOWHERE;
	}
	const cJSON *const properties = json_field(schema, "properties"), *one;
	unsigned* const types = calloc((size_t)cJSON_GetArraySize(properties) + 1, sizeof *types);
	int n = 0;
	cJSON_ArrayForEach (one, properties) {
		if (types) /* as they are before references are rewritten */
			types[n++] = json_tag_types(schema, one);
	}
	schema_point(&c, schema);
	const int32_t start = types ? emit_members(&t, schema, types, next) : schema_refuse(&c, "out of memory");
	free(types);
	schema_close(&c);
	if (start == NOWHERE && !c.failed)
		error_set(error, "the schema allows no text at all");
	return c.failed ? NOWHERE : start;
}
