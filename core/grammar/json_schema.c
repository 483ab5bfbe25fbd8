/* JSON Schema (draft 7 and 2020-12, OpenAI's subset and more) into a program.
 *
 * What is generated is always valid: the language may be narrower than the schema's (members in the schema's
 * order, none that it does not name, little white space), never wider. Keywords that only describe are passed
 * over; one that constrains and cannot be kept is an error that names it and where it stands. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/grammar/json_compiler.h"
#include "core/grammar/states.h"

int32_t schema_refuse(struct compiler* c, const char* what) {
	if (!c->failed)
		error_set(c->error, "the schema at #%s: %s", c->path, what);
	c->failed = true;
	return NOWHERE;
}

int32_t schema_refuse_keyword(struct compiler* c, const char* keyword, const char* why) {
	char what[200];
	snprintf(what, sizeof what, "\"%.60s\" %s", keyword, why);
	return schema_refuse(c, what);
}

static void close_compiler(struct compiler* c) {
	for (int i = 0; i < c->n_made; i++)
		cJSON_Delete(c->made[i]);
	free(c->made);
	free(c->reference);
	class_rules_close(&c->classes);
}

/* The program of a text that starts there; NOWHERE: the error is set. */
static struct grammar* finished(struct grammar* g, int32_t start, struct error* error) {
	g->rule[0] = start;
	return program_close(g, start != NOWHERE, error);
}

/* Whether a whole text is one of the grammar's. */
static bool grammar_takes(const struct grammar* grammar, const char* text, size_t size) {
	struct states* states = states_open(grammar);
	int at = states ? states_start(states) : STATE_DEAD;
	for (size_t i = 0; i < size && at != STATE_DEAD; i++)
		at = states_step(states, at, (uint8_t)text[i]);
	const bool good = at != STATE_DEAD && states_ends(states, at);
	states_close(states);
	return good;
}

/* ---- shared rules --------------------------------------------------------------------------- */

static int32_t emit_matching(struct compiler* c, const char* expression, bool whole,
                             character_emitter* characters, int32_t next) {
	const int32_t at =
	    pattern_emit(c->grammar, expression, strlen(expression), whole, characters, next, c->error);
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
	static const char* const expression[SHARED_COUNT] = {
	    [SHARED_SPACE] = "( |\\n[ \\t]{0,40})?", /* bounded: a model may not dally */
	    [SHARED_STRING] = "\"([^\"\\\\\\x00-\\x1f]|\\\\([\"\\\\/"
	                      "bfnrt]|u([0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})))*\"",
	    [SHARED_INTEGER] = "-?(0|[1-9][0-9]*)",
	    [SHARED_NUMBER] = "-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+\\-]?[0-9]{1,2})?"};
	if (expression[which])
		return emit_matching(c, expression[which], true, emit_characters, RETURNS);
	if (which == SHARED_OBJECT)
		return emit_literal(c, "{", emit_list(c, any_member, emit_literal(c, "}", RETURNS)));
	return emit_any_value(c);
}

static int32_t emit_shared(struct compiler* c, enum shared which, int32_t next) {
	if (c->shared[which] == 0) {
		const int rule = program_rule(c->grammar);
		c->shared[which] = 1 + rule; /* before its body, which may call it */
		const int32_t start = emit_shared_rule(c, which);
		if (!c->grammar->failed)
			c->grammar->rule[rule] = start;
	}
	return emit_call(c->grammar, c->shared[which] - 1, next);
}

int32_t schema_emit_any_string(struct compiler* c, int32_t next) {
	return emit_shared(c, SHARED_STRING, next);
}

int32_t schema_emit_any_number(struct compiler* c, bool whole, int32_t next) {
	return emit_shared(c, whole ? SHARED_INTEGER : SHARED_NUMBER, next);
}

/* ---- keywords ------------------------------------------------------------------------------- */

/* Every keyword is one that is kept, an annotation, or an error. */
static bool check_keywords(struct compiler* c, const cJSON* schema) {
	const cJSON* field;
	cJSON_ArrayForEach (field, schema) {
		if (json_lists("$dynamicRef $recursiveRef contains minContains maxContains additionalItems "
		               "unevaluatedItems",
		               field->string))
			schema_refuse_keyword(c, field->string, "is not supported");
	}
	return !c->failed;
}

int schema_count(struct compiler* c, const cJSON* value) {
	int64_t n = 0;
	if (!json_whole(value, 0, 1 << 30, &n))
		schema_refuse_keyword(c, value->string, "is not a whole number from 0 to 2^30");
	return (int)n;
}

static int count_of(struct compiler* c, const cJSON* schema, const char* keyword, int otherwise) {
	const cJSON* value = json_field(schema, keyword);
	return value ? schema_count(c, value) : otherwise;
}

unsigned schema_types(struct compiler* c, const cJSON* schema) {
	static const struct {
		const char* keywords;
		enum type type;
	} implied[] = {{"properties additionalProperties required patternProperties propertyNames minProperties "
	                "maxProperties",
	                TYPE_OBJECT},
	               {"uniqueItems items prefixItems minItems maxItems", TYPE_ARRAY},
	               {"pattern minLength maxLength format contentEncoding contentMediaType", TYPE_STRING},
	               {"minimum maximum exclusiveMinimum exclusiveMaximum multipleOf", TYPE_NUMBER}};
	const cJSON *type = json_field(schema, "type"), *field;
	unsigned types = schema_type_set(type);
	for (const cJSON* one = cJSON_IsArray(type) ? type->child : type; one;
	     one = cJSON_IsArray(type) ? one->next : NULL)
		if (!schema_type_set(one))
			schema_refuse(c, "\"type\" names none of JSON's types");
	cJSON_ArrayForEach (field, schema) {
		for (size_t i = 0; !type && i < sizeof implied / sizeof *implied; i++)
			if (!cJSON_IsNull(field) && json_lists(implied[i].keywords, field->string))
				types |= 1u << implied[i].type;
	}
	if (types && cJSON_IsTrue(json_field(schema, "nullable")))
		types |= 1u << TYPE_NULL;
	return types;
}

/* ---- values --------------------------------------------------------------------------------- */

const cJSON* schema_value_after(const cJSON* schema, const cJSON* value) {
	const cJSON* values = json_field(schema, "enum");
	if (values)
		return value ? value->next : values->child;
	/* json_field takes null for absent, and a constant may be null */
	return value ? NULL : cJSON_GetObjectItemCaseSensitive(schema, "const");
}

unsigned schema_type_of(const cJSON* value) {
	return 1u << (cJSON_IsObject(value)   ? TYPE_OBJECT
	              : cJSON_IsArray(value)  ? TYPE_ARRAY
	              : cJSON_IsString(value) ? TYPE_STRING
	              : cJSON_IsNumber(value) ? TYPE_NUMBER
	              : cJSON_IsBool(value)   ? TYPE_BOOLEAN
	                                      : TYPE_NULL);
}

static bool fits_type(const cJSON* value, unsigned types) {
	const bool whole = cJSON_IsNumber(value) && fabs(value->valuedouble - floor(value->valuedouble)) < 1e-300;
	return types == 0 || types & schema_type_of(value) || (whole && types >> TYPE_INTEGER & 1u);
}

static int32_t emit_constant(struct compiler* c, const cJSON* value, int32_t next) {
	char* const text = json_print(value);
	const int32_t at = text ? emit_literal(c, text, next) : schema_refuse(c, "out of memory");
	cJSON_free(text);
	return at;
}

/* ---- arrays --------------------------------------------------------------------------------- */

static int32_t emit_item(struct compiler* c, const cJSON* schema, int32_t next) {
	return schema ? schema_emit(c, schema, next) : any_value(c, next);
}

/* The rule, which starts there. 0: it matches nothing. */
static int started(struct compiler* c, int rule, int32_t start) {
	if (c->failed || c->grammar->failed || start == NOWHERE)
		return 0;
	c->grammar->rule[rule] = start;
	return rule;
}

/* One rule for an item, however many there may be. 0: none is possible. */
static int item_rule(struct compiler* c, const cJSON* schema) {
	const int rule = program_rule(c->grammar);
	return started(c, rule, emit_item(c, schema, RETURNS));
}

static int32_t emit_another(struct compiler* c, int rule, int32_t next) {
	return emit_literal(c, ",", emit_space(c, emit_call(c->grammar, rule, next)));
}

/* From `least` to `most` (-1: any number) items, each after a comma, then `close`. */
static int32_t emit_more_items(struct compiler* c, int rule, int least, int most, int32_t close) {
	struct grammar* g = c->grammar;
	int32_t at = close;
	if (rule == 0 || most == 0)
		return least > 0 ? NOWHERE : close;
	if (most < 0) {
		at = emit_loop(g, close);
		loop_close(g, at, emit_another(c, rule, at));
	}
	for (int i = least; i < most && !g->failed; i++)
		at = emit_split(g, emit_another(c, rule, at), close);
	for (int i = 0; i < least && !g->failed; i++)
		at = emit_another(c, rule, at);
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

/* Items that differ from one another, of a few values: some of these, in their order. */
static int32_t emit_different_items(struct compiler* c, const cJSON* items, int least, int most,
                                    int32_t close, int32_t end) {
	const cJSON* values = json_field(schema_followed(c, items), "enum");
	const int n = cJSON_GetArraySize(values);
	bool plain = n > 0 && n <= MAX_DIFFERENT && least <= 1 && (most < 0 || most >= n) &&
	             !schema_says_more_than(schema_followed(c, items), "enum type");
	for (int i = 0; i < n && plain; i++)
		for (int j = 0; j < i; j++)
			plain &= !cJSON_Compare(cJSON_GetArrayItem(values, i), cJSON_GetArrayItem(values, j), true);
	if (!plain)
		return schema_refuse(c,
		                     "\"uniqueItems\" is supported for items of an \"enum\", as many as there are");
	const unsigned types = schema_types(c, schema_followed(c, items));
	int32_t more = end, first = least == 0 ? close : NOWHERE;
	for (int i = n - 1; i >= 0; i--) {
		const cJSON* value = cJSON_GetArrayItem(values, i);
		if (!fits_type(value, types))
			continue;
		const int32_t at = emit_space(c, emit_constant(c, value, more));
		first = emit_split(c->grammar, at, first);
		more = emit_split(c->grammar, emit_literal(c, ",", at), more);
	}
	return first;
}

static int32_t emit_array(struct compiler* c, const cJSON* schema, int32_t next) {
	const cJSON *prefix = json_field(schema, "prefixItems"), *items = json_field(schema, "items");
	const int least = count_of(c, schema, "minItems", 0), most = count_of(c, schema, "maxItems", -1);
	if (cJSON_IsArray(items)) { /* draft 7's tuples */
		prefix = items;
		items = NULL;
	}
	const int fixed = prefix ? cJSON_GetArraySize(prefix) : 0;
	if (least > MAX_ITEMS || most > MAX_ITEMS || fixed > MAX_ITEMS)
		return schema_refuse(c, "more than 4096 items are not supported");
	if (most >= 0 && (most < least || most < fixed))
		return most < least
		           ? NOWHERE
		           : schema_refuse(c, "\"maxItems\" below the number of \"prefixItems\" is not supported");
	const bool different = cJSON_IsTrue(json_field(schema, "uniqueItems")) && most != 1 && most != 0;
	const int rule = most == fixed || different || cJSON_IsFalse(items) ? 0 : item_rule(c, items);
	const int32_t close = emit_literal(c, "]", next), end = emit_space(c, close);
	int32_t at;
	if (different)
		at = emit_different_items(c, prefix ? NULL : items, least, most, close, end);
	else if (fixed == 0)
		at = emit_same_items(c, rule, least, most, close, end);
	else {
		at = emit_more_items(c, rule, least > fixed ? least - fixed : 0, most < 0 ? -1 : most - fixed, end);
		for (int i = fixed - 1; i >= 0; i--) {
			at = emit_space(c, schema_emit(c, cJSON_GetArrayItem(prefix, i), at));
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

/* What members have to be that the schema does not name. */
static const cJSON* others_of(const cJSON* schema) {
	const cJSON* others = json_field(schema, "additionalProperties");
	return others ? others : json_field(schema, "unevaluatedProperties");
}

static bool allows(struct compiler*, const cJSON* rest, const cJSON* value);

/* Whether a name is a valid one: keywords beside the schema's own count too. */
static bool name_is_valid(struct compiler* c, const cJSON* schema, const char* name) {
	cJSON* const text = cJSON_CreateString(name);
	const bool good = text && allows(c, schema, text);
	if (!text)
		schema_refuse(c, "out of memory");
	cJSON_Delete(text);
	return good;
}

/* Whether it matches one of patternProperties; where it stands within. */
static bool name_matches(struct compiler* c, const char* pattern, const char* name) {
	cJSON* const schema = schema_wrapped(c, "pattern", cJSON_CreateString(pattern));
	const bool good = !c->failed && name_is_valid(c, schema, name);
	cJSON_Delete(schema);
	return good;
}

/* A member's schema, joined with those of the patterns that its name matches. */
static const cJSON* with_patterns(struct compiler* c, const cJSON* schema, const char* name, const cJSON* own,
                                  const cJSON* otherwise) {
	const cJSON* pattern;
	bool matched = false;
	cJSON_ArrayForEach (pattern, json_field(schema, "patternProperties")) {
		if (c->failed || !name_matches(c, pattern->string, name))
			continue;
		own = own ? schema_joined(c, own, pattern) : pattern;
		matched = true;
	}
	return own || matched ? own : otherwise;
}

/* The members that the schema names, then those that it only requires. Their number, or -1. */
static int list_members(struct compiler* c, const cJSON* schema, struct member* member) {
	const cJSON *properties = json_field(schema, "properties"), *required = json_field(schema, "required"),
	            *field;
	const cJSON* others = others_of(schema);
	int n = 0;
	if ((properties && !cJSON_IsObject(properties)) || (required && !cJSON_IsArray(required)))
		return schema_refuse(c, "\"properties\" is not an object, or \"required\" not an array"), -1;
	cJSON_ArrayForEach (field, properties) {
		if (n == MAX_PROPERTIES)
			return schema_refuse(c, "more than 1024 properties are not supported"), -1;
		member[n++] = (struct member){.name = field->string,
		                              .schema = with_patterns(c, schema, field->string, field, NULL)};
	}
	cJSON_ArrayForEach (field, required) {
		if (!cJSON_IsString(field) || n == MAX_PROPERTIES)
			return schema_refuse(c, "\"required\" holds no strings, or too many"), -1;
		const int found = find_member(member, n, field->valuestring);
		if (found >= 0)
			member[found].required = true;
		else
			member[n++] = (struct member){
			    .name = field->valuestring,
			    .schema = with_patterns(c, schema, field->valuestring, NULL,
			                            cJSON_IsObject(others) || cJSON_IsFalse(others) ? others : NULL),
			    .required = true};
	}
	return n;
}

static int32_t emit_name(struct compiler* c, const char* name, int32_t next) {
	cJSON* const string = cJSON_CreateString(name);
	const int32_t at = string ? emit_constant(c, string, next) : schema_refuse(c, "out of memory");
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

/* Members whose names are not valid cannot be there. */
static void keep_names(struct compiler* c, const cJSON* names, struct member* member, int n) {
	static const cJSON never = {.type = cJSON_False};
	for (int i = 0; names && i < n && !c->failed; i++)
		if (!name_is_valid(c, names, member[i].name))
			member[i].schema = &never;
}

/* Strings that are valid names. */
static int32_t emit_names(struct compiler* c, const cJSON* names, int32_t next) {
	cJSON* const string = schema_wrapped(c, "type", cJSON_CreateString("string"));
	const cJSON* const joined = schema_joined(c, names, string);
	cJSON_Delete(string);
	return joined ? schema_emit(c, joined, next) : NOWHERE;
}

/* Of patternProperties the one that says something of its values, else any; NULL with others failed. */
static const cJSON* telling_pattern(struct compiler* c, const cJSON* schema) {
	const cJSON *pattern, *found = NULL;
	cJSON_ArrayForEach (pattern, json_field(schema, "patternProperties")) {
		const bool tells = !cJSON_IsTrue(pattern) && pattern->child;
		if (tells && found && (found->child || cJSON_IsFalse(found)) &&
		    !cJSON_Compare(found, pattern, true)) {
			schema_refuse(
			    c, "\"patternProperties\" with several schemas is not supported where no property is named");
			return NULL;
		}
		if (!found || tells)
			found = pattern;
	}
	return found;
}

static int32_t emit_matching_name(struct compiler* c, const char* pattern, int32_t next) {
	cJSON* const schema = schema_wrapped(c, "pattern", cJSON_CreateString(pattern));
	const int32_t at = c->failed ? NOWHERE : schema_emit_string(c, schema, next);
	cJSON_Delete(schema);
	return at;
}

/* A name and its value, as a rule. 0: none is possible. */
static int member_rule(struct compiler* c, const cJSON* schema, const cJSON* others) {
	const cJSON *pattern = telling_pattern(c, schema), *names = json_field(schema, "propertyNames");
	if (pattern && names)
		return schema_refuse_keyword(c, "propertyNames", "beside \"patternProperties\" is not supported"), 0;
	const int rule = program_rule(c->grammar);
	const cJSON* of = pattern ? pattern : cJSON_IsObject(others) ? others : NULL;
	const int32_t value = emit_item(c, of, RETURNS);
	if (c->failed || c->grammar->failed || value == NOWHERE)
		return 0;
	const int32_t named = colon(c, value);
	return started(c, rule,
	               pattern ? emit_matching_name(c, pattern->string, named)
	               : names ? emit_names(c, names, named)
	                       : emit_shared(c, SHARED_STRING, named));
}

/* Any names, with values of one schema. A name may come twice, so that a number of them is sure up to one. */
static int32_t emit_map(struct compiler* c, const cJSON* schema, const cJSON* others, int32_t next) {
	const int least = count_of(c, schema, "minProperties", 0),
	          most = count_of(c, schema, "maxProperties", -1);
	const int32_t close = emit_literal(c, "}", next);
	if (least > 1 || most > MAX_ITEMS)
		return schema_refuse(c, "so many properties are not supported where none is named");
	if (most >= 0 && most < least)
		return NOWHERE;
	const int rule = member_rule(c, schema, others);
	return c->failed
	           ? NOWHERE
	           : emit_literal(c, "{", emit_same_items(c, rule, least, most, close, emit_space(c, close)));
}

static int32_t emit_object(struct compiler* c, const cJSON* schema, int32_t next) {
	const cJSON *others = others_of(schema), *patterns = json_field(schema, "patternProperties");
	struct member* member = malloc(MAX_PROPERTIES * sizeof *member);
	if (!member)
		return schema_refuse(c, "out of memory");
	int32_t at = NOWHERE;
	const int n = list_members(c, schema, member);
	if (n == 0 && (!cJSON_IsFalse(others) || (patterns && patterns->child)))
		at = emit_map(c, schema, others, next);
	else if (n >= 0) {
		int required = 0;
		keep_names(c, json_field(schema, "propertyNames"), member, n);
		for (int i = 0; i < n; i++)
			required += member[i].required;
		if (count_of(c, schema, "minProperties", 0) > required || count_of(c, schema, "maxProperties", n) < n)
			schema_refuse(c, "a number of properties beside named ones is not supported");
		if (!c->failed)
			at = emit_literal(c, "{", emit_members(c, member, n, emit_literal(c, "}", next)));
	}
	free(member);
	return at;
}

/* ---- any schema ---------------------------------------------------------------------------- */

static int32_t emit_type(struct compiler* c, const cJSON* schema, enum type type, int32_t next) {
	switch (type) {
	case TYPE_OBJECT:
		return emit_object(c, schema, next);
	case TYPE_ARRAY:
		return emit_array(c, schema, next);
	case TYPE_STRING:
		return schema_emit_string(c, schema, next);
	case TYPE_NUMBER:
	case TYPE_INTEGER:
		return schema_emit_number(c, schema, type == TYPE_INTEGER, next);
	case TYPE_BOOLEAN: {
		const int32_t no = emit_literal(c, "false", next);
		return emit_split(c->grammar, emit_literal(c, "true", next), no);
	}
	default:
		return emit_literal(c, "null", next);
	}
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

/* Whether $ref, allOf or conditions have to be joined with something. */
static bool needs_joining(const cJSON* schema) {
	const cJSON* all = json_field(schema, "allOf");
	return schema_has(schema, SCHEMA_CONDITIONS) ||
	       (json_field(schema, "$ref") && schema_says_more_than(schema, "$ref")) ||
	       (all && (schema_says_more_than(schema, "allOf") || !cJSON_IsArray(all) || !all->child ||
	                all->child->next));
}

/* Of a few values those that the other keywords allow; a text of their own grammar, so that no keyword is
 * forgotten. */
static bool allows(struct compiler* c, const cJSON* rest, const cJSON* value) {
	struct error ignored;
	struct compiler sub = {.grammar = program_open(c->error),
	                       .root = c->root,
	                       .error = c->error,
	                       .depth = c->depth,
	                       .joined = c->joined,
	                       .schemas = c->schemas + 16}; /* a test costs as much as some parts */
	char* text = json_print(value);
	bool good = false;
	if (!sub.grammar || !text)
		schema_refuse(&sub, "out of memory");
	const int32_t start = schema_emit(&sub, rest, RETURNS);
	if (start != NOWHERE) {
		sub.grammar = finished(sub.grammar, start, &ignored);
		good = sub.grammar && grammar_takes(sub.grammar, text, strlen(text));
	}
	c->schemas = sub.schemas;
	c->joined = sub.joined;
	c->failed |= sub.failed;
	close_compiler(&sub);
	grammar_free(sub.grammar);
	cJSON_free(text);
	return good;
}

/* "enum", "const", or both. */
static int32_t emit_values(struct compiler* c, const cJSON* schema, unsigned types, int32_t next) {
	const cJSON* constant = cJSON_GetObjectItemCaseSensitive(schema, "const");
	cJSON* rest = schema_says_more_than(schema, "enum const type nullable " SCHEMA_EXCEPT)
	                  ? schema_without(c, schema, "enum const " SCHEMA_EXCEPT)
	                  : NULL;
	int32_t all = NOWHERE;
	if (json_field(schema, "enum") && !cJSON_IsArray(json_field(schema, "enum")))
		schema_refuse(c, "\"enum\" is not an array");
	for (const cJSON* value = NULL; (value = schema_value_after(schema, value)) && !c->failed;)
		if (fits_type(value, types) && (!constant || cJSON_Compare(value, constant, true)) &&
		    !schema_holds(json_field(schema, SCHEMA_EXCEPT), value) && (!rest || allows(c, rest, value)))
			all = emit_split(c->grammar, emit_constant(c, value, next), all);
	cJSON_Delete(rest);
	return all;
}

static int32_t emit_whole_schema(struct compiler* c, const cJSON* schema, int32_t next) {
	if (cJSON_IsTrue(schema))
		return any_value(c, next);
	if (cJSON_IsFalse(schema))
		return NOWHERE;
	if (!cJSON_IsObject(schema))
		return schema_refuse(c, "a schema is neither an object nor a boolean");
	if (!check_keywords(c, schema))
		return NOWHERE;
	/* combinations first: each that is told apart is one less to be joined */
	if (json_field(schema, "anyOf"))
		return schema_emit_combination(c, schema, "anyOf", next);
	if (json_field(schema, "oneOf"))
		return schema_emit_combination(c, schema, "oneOf", next);
	if (needs_joining(schema)) {
		const cJSON* joined = schema_joined(c, schema, NULL);
		return joined ? schema_emit(c, joined, next) : NOWHERE;
	}
	if (json_field(schema, "$ref"))
		return schema_emit_reference(c, schema, next);
	if (json_field(schema, "allOf")) /* of one schema, alone */
		return schema_emit(c, json_field(schema, "allOf")->child, next);
	const unsigned types = schema_types(c, schema);
	if (cJSON_GetObjectItemCaseSensitive(schema, "const") || json_field(schema, "enum"))
		return emit_values(c, schema, types, next);
	if (json_field(schema, SCHEMA_EXCEPT))
		return schema_refuse(c, "\"not\" of values is supported where an \"enum\" lists those that may be");
	return types ? emit_types(c, schema, types, next) : any_value(c, next);
}

int32_t schema_emit(struct compiler* c, const cJSON* schema, int32_t next) {
	if (c->failed || next == NOWHERE)
		return NOWHERE;
	if (++c->schemas > MAX_SCHEMAS)
		return schema_refuse(c, "more than 16384 parts");
	if (++c->depth > MAX_SCHEMA_DEPTH)
		return schema_refuse(c, "nested deeper than 64");
	const int32_t at = emit_whole_schema(c, schema, next);
	c->depth--;
	return c->failed ? NOWHERE : at;
}

/* ---- the whole ------------------------------------------------------------------------------ */

int32_t json_schema_emit(struct grammar* grammar, const cJSON* schema, int32_t next, struct error* error) {
	struct compiler c = {.grammar = grammar, .root = schema, .error = error};
	const int32_t start = schema ? schema_emit(&c, schema, next) : emit_shared(&c, SHARED_OBJECT, next);
	close_compiler(&c);
	if (start == NOWHERE && !c.failed)
		error_set(error, "the schema allows no text at all");
	return c.failed ? NOWHERE : start;
}

static struct grammar* compile(const cJSON* schema, struct error* error) {
	struct grammar* g = program_open(error);
	return g ? finished(g, json_schema_emit(g, schema, RETURNS, error), error) : NULL;
}

/* Whether a string has a character of number 0, which would end it here. */
static bool names_nul(const char* text, size_t size) {
	for (size_t i = 0; i + 5 < size; i++) {
		if (text[i] != '\\')
			continue;
		if (memcmp(text + i, "\\u0000", 6) == 0)
			return true;
		i++;
	}
	return false;
}

struct grammar* grammar_from_json_schema(const char* schema, size_t size, struct error* error) {
	if (size > MAX_SCHEMA_BYTES) { /* names are looked up one by one */
		error_set(error, "the schema has %zu bytes: at most %d are supported", size, MAX_SCHEMA_BYTES);
		return NULL;
	}
	cJSON* const parsed = json_parse(schema, size, "the schema", error);
	if (!parsed)
		return NULL;
	if (names_nul(schema, size)) {
		error_set(error, "the schema: a text that holds the character of number 0 is not supported");
		cJSON_Delete(parsed);
		return NULL;
	}
	struct grammar* const grammar = compile(parsed, error);
	cJSON_Delete(parsed);
	return grammar;
}

struct grammar* grammar_from_json_object(struct error* error) {
	return compile(NULL, error);
}

struct grammar* grammar_from_regex(const char* expression, size_t size, struct error* error) {
	struct grammar* g = program_open(error);
	return g ? finished(g, pattern_emit(g, expression, size, true, emit_characters, RETURNS, error), error)
	         : NULL;
}

struct grammar* grammar_from_choices(const char* const* choice, int n, struct error* error) {
	struct grammar* g = program_open(error);
	for (int i = 0; i < n && g; i++)
		g->rule[0] = emit_split(g, emit_text(g, choice[i], strlen(choice[i]), RETURNS), g->rule[0]);
	return g ? program_close(g, true, error) : NULL;
}
