/* JSON Schema (draft 7 and 2020-12, OpenAI's subset and more) into a program.
 *
 * What is generated is always valid: the language may be narrower than the schema's (members in the schema's
 * order, none that it does not name, little white space), never wider. Keywords that only describe are passed
 * over; one that constrains and cannot be kept is an error that names it and where it stands. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/json.h"
#include "core/grammar/json_range.h"
#include "core/grammar/pattern.h"

enum {
	MAX_PROPERTIES = 1024,
	MAX_SCHEMA_DEPTH = 64,
	MAX_SCHEMAS = 1 << 14,
	MAX_ITEMS = 4096,
	PATH_SIZE = 160,
	MAX_SCHEMAS_EITHER = 256,
	MAX_SCHEMA_BYTES = 128 << 10
};

/* Rules that many places call. */
enum shared {
	SHARED_SPACE,
	SHARED_STRING,
	SHARED_NUMBER,
	SHARED_INTEGER,
	SHARED_VALUE,
	SHARED_OBJECT,
	SHARED_COUNT
};

struct reference {
	const cJSON* schema;
	int rule;
};

struct compiler {
	struct grammar* grammar;
	const cJSON* root;
	struct error* error;
	bool failed;
	int depth, schemas;
	int shared[SHARED_COUNT]; /* a rule, or -1 */
	struct reference* reference;
	int n_references, reference_capacity;
	char path[PATH_SIZE]; /* of the schema at hand, for messages */
	size_t path_size;
};

static int32_t emit_schema(struct compiler*, const cJSON* schema, int32_t next);

static int32_t refuse(struct compiler* c, const char* what) {
	if (!c->failed)
		error_set(c->error, "the schema at #%s: %s", c->path, what);
	c->failed = true;
	return NOWHERE;
}

static int32_t refuse_keyword(struct compiler* c, const char* keyword, const char* why) {
	char what[200];
	snprintf(what, sizeof what, "\"%.60s\" %s", keyword, why);
	return refuse(c, what);
}

/* ---- shared rules --------------------------------------------------------------------------- */

static int32_t emit_expression(struct compiler* c, const char* expression, enum pattern_text text,
                               int32_t next) {
	const int32_t at = pattern_emit(c->grammar, expression, strlen(expression), true, text, next, c->error);
	c->failed |= at == NOWHERE;
	return at;
}

static int32_t emit_literal(struct compiler* c, const char* text, int32_t next) {
	return emit_text(c->grammar, text, strlen(text), next);
}

static int32_t emit_shared(struct compiler*, enum shared, int32_t next);
static int32_t emit_space(struct compiler* c, int32_t next) { return emit_shared(c, SHARED_SPACE, next); }

/* separated by commas: begun with one where `more`; `item` emits one before what follows it */
static int32_t emit_list(struct compiler* c, int32_t (*item)(struct compiler*, int32_t), int32_t close) {
	struct grammar* g = c->grammar;
	const int32_t end = emit_space(c, close);
	const int32_t loop = emit_loop(g, end);
	const int32_t one = item(c, loop);
	loop_close(g, loop, emit_literal(c, ",", emit_space(c, one)));
	return emit_split(g, emit_space(c, one), close);
}

static int32_t any_value(struct compiler* c, int32_t next) { return emit_shared(c, SHARED_VALUE, next); }
static int32_t colon(struct compiler* c, int32_t next) {
	return emit_literal(c, ":", emit_split(c->grammar, next, emit_literal(c, " ", next)));
}
static int32_t any_member(struct compiler* c, int32_t next) {
	return emit_shared(c, SHARED_STRING, colon(c, any_value(c, next)));
}

static int32_t emit_any_value(struct compiler* c) {
	static const char* const words[] = {"true", "false", "null"};
	struct grammar* g = c->grammar;
	int32_t all = NOWHERE;
	for (int i = 0; i < 3; i++)
		all = emit_split(g, emit_literal(c, words[i], RETURNS), all);
	all = emit_split(g, emit_shared(c, SHARED_NUMBER, RETURNS), all);
	all = emit_split(g, emit_shared(c, SHARED_STRING, RETURNS), all);
	all = emit_split(g, emit_shared(c, SHARED_OBJECT, RETURNS), all);
	const int32_t list = emit_list(c, any_value, emit_literal(c, "]", RETURNS));
	return emit_split(g, emit_literal(c, "[", list), all);
}

static int32_t emit_shared_rule(struct compiler* c, enum shared which) {
	switch (which) {
	case SHARED_SPACE: /* bounded: a model may not dally */
		return emit_expression(c, "( |\\n[ \\t]{0,40})?", PATTERN_PLAIN, RETURNS);
	case SHARED_STRING:
		return emit_expression(c,
		                       "\"([^\"\\\\\\x00-\\x1f]|\\\\([\"\\\\/"
		                       "bfnrt]|u([0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})))*\"",
		                       PATTERN_PLAIN, RETURNS);
	case SHARED_INTEGER:
		return emit_expression(c, "-?(0|[1-9][0-9]*)", PATTERN_PLAIN, RETURNS);
	case SHARED_NUMBER:
		return emit_expression(c, "-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+\\-]?[0-9]{1,2})?", PATTERN_PLAIN,
		                       RETURNS);
	case SHARED_OBJECT:
		return emit_literal(c, "{", emit_list(c, any_member, emit_literal(c, "}", RETURNS)));
	default:
		return emit_any_value(c);
	}
}

static int32_t emit_shared(struct compiler* c, enum shared which, int32_t next) {
	if (c->shared[which] < 0) {
		const int rule = program_rule(c->grammar);
		c->shared[which] = rule; /* before its body, which may call it */
		const int32_t start = emit_shared_rule(c, which);
		if (!c->grammar->failed)
			c->grammar->rule[rule] = start;
	}
	return emit_call(c->grammar, c->shared[which], next);
}

/* ---- keywords ------------------------------------------------------------------------------- */

static bool is_one_of(const char* word, const char* const* list) {
	for (; *list; list++)
		if (strcmp(word, *list) == 0)
			return true;
	return false;
}

/* Every keyword is one that is kept, that only describes, or an error. */
static bool check_keywords(struct compiler* c, const cJSON* schema) {
	static const char* const known[] = {"$schema",
	                                    "$id",
	                                    "$anchor",
	                                    "$comment",
	                                    "$defs",
	                                    "definitions",
	                                    "$ref",
	                                    "title",
	                                    "description",
	                                    "default",
	                                    "examples",
	                                    "example",
	                                    "deprecated",
	                                    "readOnly",
	                                    "writeOnly",
	                                    "contentEncoding",
	                                    "contentMediaType",
	                                    "format",
	                                    "type",
	                                    "enum",
	                                    "const",
	                                    "anyOf",
	                                    "oneOf",
	                                    "allOf",
	                                    "properties",
	                                    "required",
	                                    "additionalProperties",
	                                    "items",
	                                    "prefixItems",
	                                    "minItems",
	                                    "maxItems",
	                                    "minLength",
	                                    "maxLength",
	                                    "pattern",
	                                    "minimum",
	                                    "maximum",
	                                    "exclusiveMinimum",
	                                    "exclusiveMaximum",
	                                    "multipleOf",
	                                    "nullable",
	                                    "minProperties",
	                                    "maxProperties",
	                                    "uniqueItems",
	                                    "propertyNames",
	                                    "$vocabulary",
	                                    "unevaluatedProperties",
	                                    "discriminator",
	                                    "strict",
	                                    NULL};
	const cJSON* field;
	cJSON_ArrayForEach (field, schema) {
		if (!is_one_of(field->string, known) && strncmp(field->string, "x-", 2) != 0)
			return refuse_keyword(c, field->string, "is not supported"), false;
	}
	return true;
}

/* A count from 0 on, or -1 where there is none. */
static int count_of(struct compiler* c, const cJSON* schema, const char* keyword) {
	const cJSON* value = json_field(schema, keyword);
	int64_t n = -1;
	if (value && !json_whole(value, 0, 1 << 20, &n))
		refuse_keyword(c, keyword, "is not a whole number from 0 to 1048576");
	return (int)n;
}

static const char* const type_names[] = {"object", "array", "string", "number", "integer", "boolean", "null"};
enum type {
	TYPE_OBJECT,
	TYPE_ARRAY,
	TYPE_STRING,
	TYPE_NUMBER,
	TYPE_INTEGER,
	TYPE_BOOLEAN,
	TYPE_NULL,
	TYPE_COUNT
};

static unsigned type_bit(struct compiler* c, const cJSON* name) {
	for (int i = 0; i < TYPE_COUNT; i++)
		if (cJSON_IsString(name) && strcmp(name->valuestring, type_names[i]) == 0)
			return 1u << i;
	refuse(c, "\"type\" names none of JSON's types");
	return 0;
}

/* The types that a schema allows, as it says or as its other keywords imply; 0: any. */
static unsigned types_of(struct compiler* c, const cJSON* schema) {
	static const struct {
		const char* keyword;
		enum type type;
	} implied[] = {{"properties", TYPE_OBJECT},       {"additionalProperties", TYPE_OBJECT},
	               {"required", TYPE_OBJECT},         {"items", TYPE_ARRAY},
	               {"prefixItems", TYPE_ARRAY},       {"minItems", TYPE_ARRAY},
	               {"maxItems", TYPE_ARRAY},          {"pattern", TYPE_STRING},
	               {"minLength", TYPE_STRING},        {"maxLength", TYPE_STRING},
	               {"format", TYPE_STRING},           {"minimum", TYPE_NUMBER},
	               {"maximum", TYPE_NUMBER},          {"exclusiveMinimum", TYPE_NUMBER},
	               {"exclusiveMaximum", TYPE_NUMBER}, {"multipleOf", TYPE_NUMBER}};
	const cJSON *type = json_field(schema, "type"), *name;
	unsigned types = 0;
	if (cJSON_IsArray(type)) {
		cJSON_ArrayForEach (name, type)
			types |= type_bit(c, name);
	} else if (type)
		types = type_bit(c, type);
	for (size_t i = 0; !type && i < sizeof implied / sizeof *implied; i++)
		if (json_field(schema, implied[i].keyword))
			types |= 1u << implied[i].type;
	if (types && cJSON_IsTrue(json_field(schema, "nullable")))
		types |= 1u << TYPE_NULL;
	return types;
}

/* ---- strings -------------------------------------------------------------------------------- */

static const char* format_expression(const char* format) {
	static const char* const known[][2] = {
	    {"date", "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])"},
	    {"time",
	     "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,6})?(Z|[+\\-]([01][0-9]|2[0-3]):[0-5][0-9])"},
	    {"date-time",
	     "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
	     "(\\.[0-9]{1,6})?(Z|[+\\-]([01][0-9]|2[0-3]):[0-5][0-9])"},
	    {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
	    {"email", "[A-Za-z0-9_+\\-]+(\\.[A-Za-z0-9_+\\-]+)*@[A-Za-z0-9]([A-Za-z0-9\\-]{0,30}[A-Za-z0-9])?"
	              "(\\.[A-Za-z0-9]([A-Za-z0-9\\-]{0,30}[A-Za-z0-9])?)+"},
	    {"ipv4", "((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]"
	             "?[0-9])"},
	    {"hostname",
	     "[A-Za-z0-9]([A-Za-z0-9\\-]{0,30}[A-Za-z0-9])?(\\.[A-Za-z0-9]([A-Za-z0-9\\-]{0,30}[A-Za-z0-9])?)*"},
	    {"uri", "[a-z][a-z0-9+.\\-]*://[A-Za-z0-9\\-._~/?#@!$&'()*+,;=:]+"},
	    {"duration", "P([0-9]+Y)?([0-9]+M)?[0-9]+D(T[0-9]+H([0-9]+M)?)?"}};
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strcmp(format, known[i][0]) == 0)
			return known[i][1];
	return NULL; /* an annotation */
}

static int32_t emit_string_expression(struct compiler* c, const char* expression, bool whole, int32_t next) {
	const int32_t close = emit_literal(c, "\"", next);
	const int32_t body =
	    pattern_emit(c->grammar, expression, strlen(expression), whole, PATTERN_JSON, close, c->error);
	if (body == NOWHERE)
		c->failed = true;
	return emit_literal(c, "\"", body);
}

static int32_t emit_string(struct compiler* c, const cJSON* schema, int32_t next) {
	const cJSON *pattern = json_field(schema, "pattern"), *format = json_field(schema, "format");
	const int least = count_of(c, schema, "minLength"), most = count_of(c, schema, "maxLength");
	const char* of_format = cJSON_IsString(format) ? format_expression(format->valuestring) : NULL;
	if ((pattern || of_format) && (least > 0 || most >= 0))
		return refuse(c, "a length beside \"pattern\" or a known \"format\" is not supported");
	if (pattern && of_format)
		return refuse(c, "\"pattern\" beside a known \"format\" is not supported");
	if (pattern && !cJSON_IsString(pattern))
		return refuse(c, "\"pattern\" is not a string");
	if (pattern)
		return emit_string_expression(c, pattern->valuestring, false, next);
	if (of_format)
		return emit_string_expression(c, of_format, true, next);
	if (least <= 0 && most < 0)
		return emit_shared(c, SHARED_STRING, next);
	if (most > MAX_ITEMS || least > MAX_ITEMS)
		return refuse(c, "a length over 4096 is not supported");
	if (most >= 0 && most < least)
		return NOWHERE;
	char expression[64];
	if (most < 0)
		snprintf(expression, sizeof expression, "[\\s\\S]{%d,}", least);
	else
		snprintf(expression, sizeof expression, "[\\s\\S]{%d,%d}", least < 0 ? 0 : least, most);
	return emit_string_expression(c, expression, true, next);
}

/* ---- numbers -------------------------------------------------------------------------------- */

/* The tightest of a bound and its exclusive twin; draft 4's boolean form too. */
static bool bound_of(struct compiler* c, const cJSON* schema, bool upper, double* bound, bool* exclusive) {
	const cJSON* plain = json_field(schema, upper ? "maximum" : "minimum");
	const cJSON* strict = json_field(schema, upper ? "exclusiveMaximum" : "exclusiveMinimum");
	const bool strict_number = cJSON_IsNumber(strict);
	*exclusive = cJSON_IsTrue(strict);
	if ((plain && !cJSON_IsNumber(plain)) || (strict && !strict_number && !cJSON_IsBool(strict)))
		return refuse(c, "a bound is not a number"), false;
	if (!plain && !strict_number)
		return false;
	*bound = plain ? plain->valuedouble : strict->valuedouble;
	if (strict_number &&
	    (!plain || (upper ? strict->valuedouble <= *bound : strict->valuedouble >= *bound))) {
		*bound = strict->valuedouble;
		*exclusive = true;
	}
	return true;
}

/* Digits after the point that a multipleOf allows: 0 for 1, 2 for 0.01; -1 where there is none. */
static int decimals_of(struct compiler* c, const cJSON* schema) {
	const cJSON* multiple = json_field(schema, "multipleOf");
	if (!multiple)
		return -1;
	for (int decimals = 0; cJSON_IsNumber(multiple) && decimals <= 9; decimals++)
		if (fabs(multiple->valuedouble * pow(10, decimals) - 1) < 1e-12)
			return decimals;
	refuse(c, "\"multipleOf\" other than 1, 0.1, 0.01 … is not supported");
	return -1;
}

static int32_t emit_number(struct compiler* c, const cJSON* schema, bool whole, int32_t next) {
	struct json_range range = {.whole = whole, .decimals = decimals_of(c, schema)};
	range.has_low = bound_of(c, schema, false, &range.low, &range.low_exclusive);
	range.has_high = bound_of(c, schema, true, &range.high, &range.high_exclusive);
	if (c->failed)
		return NOWHERE;
	if (range.decimals == 0)
		range.whole = true;
	if (!range.has_low && !range.has_high && range.decimals <= 0)
		return emit_shared(c, range.whole ? SHARED_INTEGER : SHARED_NUMBER, next);
	int32_t at = NOWHERE;
	if (!json_range_emit(c->grammar, &range, next, &at))
		return refuse(c, "a bound beyond ±10^15, or of a fraction, is not supported");
	return at;
}

/* ---- arrays --------------------------------------------------------------------------------- */

static int32_t emit_item(struct compiler* c, const cJSON* schema, int32_t next) {
	return schema ? emit_schema(c, schema, next) : any_value(c, next);
}

/* One rule for an item, however many there may be. 0: none is possible. */
static int item_rule(struct compiler* c, const cJSON* schema) {
	const int rule = program_rule(c->grammar);
	const int32_t item = emit_item(c, schema, RETURNS);
	if (c->failed || c->grammar->failed || item == NOWHERE)
		return 0;
	c->grammar->rule[rule] = item;
	return rule;
}

/* From `least` to `most` (-1: any number) items, each after a comma, then `close`. */
static int32_t emit_more_items(struct compiler* c, int rule, int least, int most, int32_t close) {
	struct grammar* g = c->grammar;
	int32_t at = close;
	if (rule == 0 || most == 0)
		return least > 0 ? NOWHERE : close;
	if (most < 0) {
		at = emit_loop(g, close);
		loop_close(g, at, emit_literal(c, ",", emit_space(c, emit_call(g, rule, at))));
	}
	for (int i = least; i < most && !g->failed; i++)
		at = emit_split(g, emit_literal(c, ",", emit_space(c, emit_call(g, rule, at))), close);
	for (int i = 0; i < least && !g->failed; i++)
		at = emit_literal(c, ",", emit_space(c, emit_call(g, rule, at)));
	return at;
}

/* What comes after "[" where every item is of one schema: the first has no comma before it. */
static int32_t emit_same_items(struct compiler* c, int rule, int least, int most, int32_t close,
                               int32_t end) {
	const int32_t none = least == 0 ? close : NOWHERE;
	if (rule == 0 || most == 0)
		return none;
	const int32_t rest = emit_more_items(c, rule, least > 1 ? least - 1 : 0, most < 0 ? -1 : most - 1, end);
	return emit_split(c->grammar, emit_space(c, emit_call(c->grammar, rule, rest)), none);
}

static int32_t emit_array(struct compiler* c, const cJSON* schema, int32_t next) {
	const cJSON *prefix = json_field(schema, "prefixItems"), *items = json_field(schema, "items");
	int least = count_of(c, schema, "minItems");
	const int most = count_of(c, schema, "maxItems");
	if (cJSON_IsArray(items)) { /* draft 7's tuples */
		prefix = items;
		items = NULL;
	}
	if (cJSON_IsTrue(json_field(schema, "uniqueItems")) && most != 1 && most != 0)
		return refuse(c, "\"uniqueItems\" is not supported");
	least = least < 0 ? 0 : least;
	const int fixed = prefix ? cJSON_GetArraySize(prefix) : 0;
	if (least > MAX_ITEMS || most > MAX_ITEMS || fixed > MAX_ITEMS)
		return refuse(c, "more than 4096 items are not supported");
	if (most >= 0 && (most < least || most < fixed))
		return most < least ? NOWHERE
		                    : refuse(c, "\"maxItems\" below the number of \"prefixItems\" is not supported");
	const int rule = most == fixed || cJSON_IsFalse(items) ? 0 : item_rule(c, items);
	const int32_t close = emit_literal(c, "]", next), end = emit_space(c, close);
	int32_t at;
	if (fixed == 0)
		at = emit_same_items(c, rule, least, most, close, end);
	else {
		at = emit_more_items(c, rule, least > fixed ? least - fixed : 0, most < 0 ? -1 : most - fixed, end);
		for (int i = fixed - 1; i >= 0; i--) {
			at = emit_space(c, emit_schema(c, cJSON_GetArrayItem(prefix, i), at));
			at = i > 0 ? emit_literal(c, ",", at) : at;
		}
	}
	return emit_literal(c, "[", at);
}

/* ---- objects -------------------------------------------------------------------------------- */

struct member {
	const char* name;
	const cJSON* schema; /* NULL: any value */
	bool required;
};

static int find_member(const struct member* member, int n, const char* name) {
	for (int i = 0; i < n; i++)
		if (strcmp(member[i].name, name) == 0)
			return i;
	return -1;
}

/* The members that the schema names, then those that it only requires. Their number, or -1. */
static int list_members(struct compiler* c, const cJSON* schema, struct member* member) {
	const cJSON *properties = json_field(schema, "properties"), *required = json_field(schema, "required"),
	            *field;
	const cJSON* others = json_field(schema, "additionalProperties");
	int n = 0;
	if ((properties && !cJSON_IsObject(properties)) || (required && !cJSON_IsArray(required)))
		return refuse(c, "\"properties\" is not an object, or \"required\" not an array"), -1;
	cJSON_ArrayForEach (field, properties) {
		if (n == MAX_PROPERTIES)
			return refuse(c, "more than 1024 properties are not supported"), -1;
		member[n++] = (struct member){.name = field->string, .schema = field};
	}
	cJSON_ArrayForEach (field, required) {
		if (!cJSON_IsString(field) || n == MAX_PROPERTIES)
			return refuse(c, "\"required\" holds no strings, or too many"), -1;
		const int found = find_member(member, n, field->valuestring);
		if (found >= 0)
			member[found].required = true;
		else
			member[n++] =
			    (struct member){.name = field->valuestring,
			                    .schema = cJSON_IsObject(others) || cJSON_IsFalse(others) ? others : NULL,
			                    .required = true};
	}
	return n;
}

static int32_t emit_name(struct compiler* c, const char* name, int32_t next) {
	cJSON* const string = cJSON_CreateString(name);
	char* const text = string ? cJSON_PrintUnformatted(string) : NULL;
	const int32_t at = text ? emit_literal(c, text, next) : refuse(c, "out of memory");
	cJSON_free(text);
	cJSON_Delete(string);
	return at;
}

static int32_t emit_member(struct compiler* c, const struct member* member, int32_t next) {
	const size_t before = c->path_size;
	const int written = snprintf(c->path + before, PATH_SIZE - before, "/properties/%.40s", member->name);
	if (written > 0 && (size_t)written < PATH_SIZE - before)
		c->path_size += (size_t)written;
	const int32_t value = emit_item(c, member->schema, next);
	if (!c->failed) {
		c->path_size = before;
		c->path[before] = 0;
	}
	return emit_name(c, member->name, colon(c, value));
}

/* Members in order, each there or, where it may, not: `begun` is where one has come already, `fresh` where
 * none. */
static int32_t emit_members(struct compiler* c, const struct member* member, int n, int32_t close) {
	struct grammar* g = c->grammar;
	int32_t begun = emit_space(c, close), fresh = close;
	for (int i = n - 1; i >= 0 && !c->failed; i--) {
		const int32_t spaced = emit_space(c, emit_member(c, &member[i], begun));
		const int32_t comma = emit_literal(c, ",", spaced);
		begun = member[i].required ? comma : emit_split(g, comma, begun);
		fresh = member[i].required ? spaced : emit_split(g, spaced, fresh);
	}
	return fresh;
}

/* Any names, with values of one schema. */
static int32_t emit_map(struct compiler* c, const cJSON* schema, const cJSON* others, int32_t next) {
	struct grammar* g = c->grammar;
	const int least = count_of(c, schema, "minProperties"), most = count_of(c, schema, "maxProperties");
	const int32_t close = emit_literal(c, "}", next);
	if (least > 1 || most > 1)
		return refuse(c, "a number of properties is not supported where none is named");
	if (most == 0)
		return least > 0 ? NOWHERE : emit_literal(c, "{", close);
	const int rule = program_rule(g);
	const int32_t value = emit_item(c, cJSON_IsObject(others) ? others : NULL, RETURNS);
	const int32_t none = least > 0 ? NOWHERE : close;
	if (c->failed || g->failed || value == NOWHERE)
		return emit_literal(c, "{", none);
	g->rule[rule] = emit_shared(c, SHARED_STRING, colon(c, value));
	const int32_t loop = emit_loop(g, emit_space(c, close));
	if (most < 0)
		loop_close(g, loop, emit_literal(c, ",", emit_space(c, emit_call(g, rule, loop))));
	return emit_literal(c, "{", emit_split(g, emit_space(c, emit_call(g, rule, loop)), none));
}

static int32_t emit_object(struct compiler* c, const cJSON* schema, int32_t next) {
	const cJSON* others = json_field(schema, "additionalProperties");
	struct member* member = malloc(MAX_PROPERTIES * sizeof *member);
	if (!member)
		return refuse(c, "out of memory");
	int32_t at = NOWHERE;
	const int n = list_members(c, schema, member);
	if (json_field(schema, "propertyNames") && !(n > 0))
		refuse_keyword(c, "propertyNames", "is not supported where no property is named");
	else if (n == 0 && !cJSON_IsFalse(others))
		at = emit_map(c, schema, others, next);
	else if (n >= 0) {
		int required = 0;
		for (int i = 0; i < n; i++)
			required += member[i].required;
		if (count_of(c, schema, "minProperties") > required ||
		    (json_field(schema, "maxProperties") && count_of(c, schema, "maxProperties") < n))
			refuse(c, "a number of properties beside named ones is not supported");
		if (!c->failed)
			at = emit_literal(c, "{", emit_members(c, member, n, emit_literal(c, "}", next)));
	}
	free(member);
	return at;
}

/* ---- values --------------------------------------------------------------------------------- */

static bool fits_type(const cJSON* value, unsigned types) {
	const double number = cJSON_IsNumber(value) ? value->valuedouble : 0;
	const bool whole = cJSON_IsNumber(value) && fabs(number - floor(number)) < 1e-300;
	return types == 0 || (cJSON_IsObject(value) && types >> TYPE_OBJECT & 1u) ||
	       (cJSON_IsArray(value) && types >> TYPE_ARRAY & 1u) ||
	       (cJSON_IsString(value) && types >> TYPE_STRING & 1u) ||
	       (cJSON_IsNumber(value) && (types >> TYPE_NUMBER & 1u || (whole && types >> TYPE_INTEGER & 1u))) ||
	       (cJSON_IsBool(value) && types >> TYPE_BOOLEAN & 1u) ||
	       (cJSON_IsNull(value) && types >> TYPE_NULL & 1u);
}

static int32_t emit_constant(struct compiler* c, const cJSON* value, int32_t next) {
	char* const text = cJSON_PrintUnformatted(value);
	const int32_t at = text ? emit_literal(c, text, next) : refuse(c, "out of memory");
	cJSON_free(text);
	return at;
}

static int32_t emit_enumeration(struct compiler* c, const cJSON* values, unsigned types, int32_t next) {
	const cJSON* value;
	int32_t all = NOWHERE;
	if (!cJSON_IsArray(values))
		return refuse(c, "\"enum\" is not an array");
	cJSON_ArrayForEach (value, values) {
		if (fits_type(value, types))
			all = emit_split(c->grammar, emit_constant(c, value, next), all);
	}
	return all;
}

static int32_t emit_type(struct compiler* c, const cJSON* schema, enum type type, int32_t next) {
	switch (type) {
	case TYPE_OBJECT:
		return emit_object(c, schema, next);
	case TYPE_ARRAY:
		return emit_array(c, schema, next);
	case TYPE_STRING:
		return emit_string(c, schema, next);
	case TYPE_NUMBER:
	case TYPE_INTEGER:
		return emit_number(c, schema, type == TYPE_INTEGER, next);
	case TYPE_BOOLEAN: {
		const int32_t no = emit_literal(c, "false", next);
		return emit_split(c->grammar, emit_literal(c, "true", next), no);
	}
	default:
		return emit_literal(c, "null", next);
	}
}

/* ---- references and combinations ------------------------------------------------------------ */

/* What a local reference points to, by RFC 6901; NULL: nothing. */
static const cJSON* resolve(const cJSON* root, const char* reference) {
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

/* A rule for what is referred to, made once: schemas may refer to themselves. */
static int reference_rule(struct compiler* c, const cJSON* schema) {
	for (int i = 0; i < c->n_references; i++)
		if (c->reference[i].schema == schema)
			return c->reference[i].rule;
	if (c->n_references == c->reference_capacity) {
		const int capacity = c->reference_capacity ? 2 * c->reference_capacity : 16;
		struct reference* more = realloc(c->reference, (size_t)capacity * sizeof *more);
		if (!more)
			return (int)refuse(c, "out of memory");
		c->reference = more;
		c->reference_capacity = capacity;
	}
	const int rule = program_rule(c->grammar);
	c->reference[c->n_references++] = (struct reference){schema, rule};
	const int32_t start = emit_schema(c, schema, RETURNS);
	if (start == NOWHERE && !c->failed)
		refuse(c, "what is referred to allows nothing");
	if (!c->failed && !c->grammar->failed)
		c->grammar->rule[rule] = start;
	return rule;
}

/* Keywords that constrain, beside a $ref or a combination, are not merged. */
static bool stands_alone(struct compiler* c, const cJSON* schema, const char* keyword) {
	static const char* const describing[] = {
	    "$schema",  "$id",         "$anchor",       "$comment", "$defs",   "definitions",
	    "title",    "description", "default",       "examples", "example", "deprecated",
	    "readOnly", "writeOnly",   "discriminator", "nullable", "strict",  NULL};
	const cJSON* field;
	cJSON_ArrayForEach (field, schema) {
		const bool type_beside = strcmp(field->string, "type") == 0 && strcmp(keyword, "$ref") != 0;
		if (strcmp(field->string, keyword) != 0 && !type_beside && !is_one_of(field->string, describing) &&
		    strncmp(field->string, "x-", 2) != 0) {
			char what[160];
			snprintf(what, sizeof what, "\"%.40s\" beside \"%s\" is not supported", field->string, keyword);
			return refuse(c, what), false;
		}
	}
	return true;
}

static const cJSON* followed(const struct compiler* c, const cJSON* schema) {
	for (int i = 0; i < MAX_SCHEMA_DEPTH && cJSON_IsObject(schema); i++) {
		const cJSON* reference = json_field(schema, "$ref");
		if (!cJSON_IsString(reference))
			break;
		schema = resolve(c->root, reference->valuestring);
	}
	return schema;
}

/* Whether no value can be valid under both: other types, or a member that both require with other constants.
 */
static bool disjoint(struct compiler* c, const cJSON* a, const cJSON* b) {
	a = followed(c, a);
	b = followed(c, b);
	if (!cJSON_IsObject(a) || !cJSON_IsObject(b))
		return false;
	const unsigned both = types_of(c, a) & types_of(c, b), whole = 1u << TYPE_INTEGER | 1u << TYPE_NUMBER;
	if (types_of(c, a) && types_of(c, b) && !both && !((types_of(c, a) & whole) && (types_of(c, b) & whole)))
		return true;
	const cJSON *x = json_field(a, "const"), *y = json_field(b, "const"), *field;
	if (x && y)
		return !cJSON_Compare(x, y, true);
	const cJSON *of_a = json_field(a, "properties"), *of_b = json_field(b, "properties");
	if (both != 1u << TYPE_OBJECT)
		return false;
	cJSON_ArrayForEach (field, json_field(a, "required")) {
		if (!cJSON_IsString(field))
			continue;
		const cJSON* of_both = NULL;
		cJSON_ArrayForEach (of_both, json_field(b, "required")) {
			if (cJSON_IsString(of_both) && strcmp(of_both->valuestring, field->valuestring) == 0)
				break;
		}
		const cJSON* one = followed(c, cJSON_GetObjectItemCaseSensitive(of_a, field->valuestring));
		const cJSON* other = followed(c, cJSON_GetObjectItemCaseSensitive(of_b, field->valuestring));
		x = cJSON_IsObject(one) ? json_field(one, "const") : NULL;
		y = cJSON_IsObject(other) ? json_field(other, "const") : NULL;
		if (!x && cJSON_IsObject(one) && cJSON_GetArraySize(json_field(one, "enum")) == 1)
			x = cJSON_GetArrayItem(json_field(one, "enum"), 0);
		if (!y && cJSON_IsObject(other) && cJSON_GetArraySize(json_field(other, "enum")) == 1)
			y = cJSON_GetArrayItem(json_field(other, "enum"), 0);
		if (of_both && x && y && !cJSON_Compare(x, y, true))
			return true;
	}
	return false;
}

static bool all_disjoint(struct compiler* c, const cJSON* list) {
	for (const cJSON* a = list->child; a; a = a->next)
		for (const cJSON* b = a->next; b; b = b->next)
			if (!disjoint(c, a, b))
				return false;
	return true;
}

static int32_t emit_either(struct compiler* c, const cJSON* list, int32_t next) {
	const cJSON* one;
	int32_t all = NOWHERE;
	cJSON_ArrayForEach (one, list)
		all = emit_split(c->grammar, emit_schema(c, one, next), all);
	return all;
}

/* A type beside a combination has to hold of each of its schemas. */
static bool within_types(struct compiler* c, const cJSON* schema, const cJSON* list) {
	unsigned allowed = json_field(schema, "type") ? types_of(c, schema) : 0;
	if (allowed >> TYPE_NUMBER & 1u)
		allowed |= 1u << TYPE_INTEGER;
	const cJSON* one;
	cJSON_ArrayForEach (one, list) {
		const cJSON* target = followed(c, one);
		const unsigned types = cJSON_IsObject(target) ? types_of(c, target) : 0;
		if (allowed && (types == 0 || (types & ~allowed) != 0))
			return false;
	}
	return true;
}

static int32_t emit_combination(struct compiler* c, const cJSON* schema, const char* keyword, int32_t next) {
	const cJSON* list = json_field(schema, keyword);
	if (!stands_alone(c, schema, keyword))
		return NOWHERE;
	if (!cJSON_IsArray(list) || !list->child || cJSON_GetArraySize(list) > MAX_SCHEMAS_EITHER)
		return refuse_keyword(c, keyword, "is not an array of 1 to 256 schemas");
	if (!within_types(c, schema, list))
		return refuse_keyword(c, keyword, "beside \"type\" allows other types");
	if (strcmp(keyword, "oneOf") == 0 && list->child->next && !all_disjoint(c, list))
		return refuse(c, "\"oneOf\" is supported where no value can be valid under two of its schemas");
	if (strcmp(keyword, "allOf") == 0 && list->child->next)
		return refuse(c, "\"allOf\" of more than one schema is not supported");
	return emit_either(c, list, next);
}

static int32_t emit_types(struct compiler* c, const cJSON* schema, unsigned types, int32_t next) {
	int32_t all = NOWHERE;
	if (types >> TYPE_NUMBER & 1u)
		types &= ~(1u << TYPE_INTEGER);
	for (int i = 0; i < TYPE_COUNT; i++)
		if (types >> i & 1u)
			all = emit_split(c->grammar, emit_type(c, schema, (enum type)i, next), all);
	return all;
}

static int32_t emit_whole_schema(struct compiler* c, const cJSON* schema, int32_t next) {
	static const char* const combinations[] = {"anyOf", "oneOf", "allOf"};
	if (cJSON_IsTrue(schema))
		return any_value(c, next);
	if (cJSON_IsFalse(schema))
		return NOWHERE;
	if (!cJSON_IsObject(schema))
		return refuse(c, "a schema is neither an object nor a boolean");
	if (!check_keywords(c, schema))
		return NOWHERE;
	const cJSON* reference = json_field(schema, "$ref");
	if (reference) {
		const cJSON* target = cJSON_IsString(reference) ? resolve(c->root, reference->valuestring) : NULL;
		if (!target)
			return refuse(c, "\"$ref\" points to nothing in this schema");
		if (!stands_alone(c, schema, "$ref"))
			return NOWHERE;
		const int rule = reference_rule(c, target);
		return c->failed ? NOWHERE : emit_call(c->grammar, rule, next);
	}
	for (int i = 0; i < 3; i++)
		if (json_field(schema, combinations[i]))
			return emit_combination(c, schema, combinations[i], next);
	const unsigned types = types_of(c, schema);
	/* json_field takes null for absent, and a constant may be null */
	const cJSON* constant = cJSON_GetObjectItemCaseSensitive(schema, "const");
	if (constant)
		return fits_type(constant, types) ? emit_constant(c, constant, next) : NOWHERE;
	if (json_field(schema, "enum"))
		return emit_enumeration(c, json_field(schema, "enum"), types, next);
	return types ? emit_types(c, schema, types, next) : any_value(c, next);
}

static int32_t emit_schema(struct compiler* c, const cJSON* schema, int32_t next) {
	if (c->failed || next == NOWHERE)
		return NOWHERE;
	if (++c->schemas > MAX_SCHEMAS)
		return refuse(c, "more than 16384 parts");
	if (++c->depth > MAX_SCHEMA_DEPTH)
		return refuse(c, "nested deeper than 64");
	const int32_t at = emit_whole_schema(c, schema, next);
	c->depth--;
	return c->failed ? NOWHERE : at;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static struct grammar* finished(struct grammar* g, int32_t start, bool failed, struct error* error) {
	if (!failed && !g->failed)
		g->rule[0] = start;
	if (failed || !program_close(g, error)) {
		grammar_free(g);
		return NULL;
	}
	return g;
}

static struct grammar* compile(const cJSON* schema, struct error* error) {
	struct compiler c = {.grammar = program_open(), .root = schema, .error = error};
	if (!c.grammar) {
		error_set(error, "out of memory for a grammar");
		return NULL;
	}
	for (int i = 0; i < SHARED_COUNT; i++)
		c.shared[i] = -1;
	const int32_t start = schema ? emit_schema(&c, schema, RETURNS) : emit_shared(&c, SHARED_OBJECT, RETURNS);
	free(c.reference);
	return finished(c.grammar, start, c.failed, error);
}

struct grammar* grammar_from_json_schema(const char* schema, size_t size, struct error* error) {
	if (size > MAX_SCHEMA_BYTES) { /* names are looked up one by one */
		error_set(error, "the schema has %zu bytes: at most %d are supported", size, MAX_SCHEMA_BYTES);
		return NULL;
	}
	cJSON* const parsed = json_parse(schema, size, "the schema", error);
	if (!parsed)
		return NULL;
	struct grammar* const grammar = compile(parsed, error);
	cJSON_Delete(parsed);
	return grammar;
}

struct grammar* grammar_from_json_object(struct error* error) {
	return compile(NULL, error);
}

struct grammar* grammar_from_regex(const char* expression, size_t size, struct error* error) {
	struct grammar* const g = program_open();
	if (!g) {
		error_set(error, "out of memory for a grammar");
		return NULL;
	}
	const int32_t start = pattern_emit(g, expression, size, true, PATTERN_PLAIN, RETURNS, error);
	return finished(g, start, start == NOWHERE, error);
}

struct grammar* grammar_from_choices(const char* const* choice, int n, struct error* error) {
	struct grammar* const g = program_open();
	if (!g) {
		error_set(error, "out of memory for a grammar");
		return NULL;
	}
	int32_t all = NOWHERE;
	for (int i = 0; i < n; i++)
		all = emit_split(g, emit_text(g, choice[i], strlen(choice[i]), RETURNS), all);
	return finished(g, all, false, error);
}
