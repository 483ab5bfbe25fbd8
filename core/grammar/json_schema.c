/* Compiles a JSON Schema (draft 7 and 2020-12, OpenAI's subset and more) into a program.
 *
 * Generated text is always valid: the language may be narrower than the schema's (members in the schema's
 * order, none that it does not name, little white space), never wider. Annotations are ignored. A keyword
 * that constrains and cannot be enforced is an error, which names the keyword and its place. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "core/grammar/json_compiler.h"
#include "core/grammar/states.h"

enum { MAX_RANKED = 64 }; /* members of a constant in items that differ */

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

int32_t schema_refuse_reference(struct compiler* c, const cJSON* reference) {
	char what[256];
	const char* to = cJSON_IsString(reference) ? reference->valuestring : "";
	snprintf(what, sizeof what, "\"$ref\" to \"%.100s\" points to nothing in this schema%s", to,
	         *to && *to != '#' ? ": other documents are not fetched" : "");
	return schema_refuse(c, what);
}

void schema_close(struct compiler* c) {
	for (int i = 0; i < c->n_made; i++)
		cJSON_Delete(c->made[i]);
	free(c->made);
	free(c->order);
	free(c->rules.reference);
	free(c->rules_apart.reference);
	class_rules_close(&c->rules.classes);
	class_rules_close(&c->rules_apart.classes);
	class_rules_close(&c->bare_classes);
}

/* The program of a text that starts there; NOWHERE: the error is set. */
static struct grammar* finish_grammar(struct grammar* g, int32_t start, struct error* error) {
	g->rule[0] = start;
	return program_close(g, start != NOWHERE, error);
}

/* Whether a whole text is one of the grammar's. */
static bool matches_text(struct states* states, const char* text, size_t size) {
	states_forget(states);
	int at = states_start(states);
	for (size_t i = 0; i < size && at != STATE_DEAD; i++) {
		if (states_filling(states))
			at = states_renew(states, at);
		at = states_step(states, at, (uint8_t)text[i]);
	}
	return at != STATE_DEAD && states_ends(states, at);
}

/* ---- shared rules --------------------------------------------------------------------------- */

static int32_t emit_matching(struct compiler* c, const char* expression) {
	const int32_t at =
	    pattern_emit(c->grammar, expression, strlen(expression), true, emit_characters, RETURNS, c->error);
	c->failed |= at == NOWHERE;
	return at;
}

int32_t schema_emit_literal(struct compiler* c, const char* text, int32_t next) {
	return emit_text(c->grammar, text, strlen(text), next);
}

static int32_t emit_shared(struct compiler*, enum shared, int32_t next);
int32_t schema_emit_space(struct compiler* c, int32_t next) {
	return c->once ? next : emit_shared(c, SHARED_SPACE, next);
}
int32_t schema_emit_comma(struct compiler* c, int32_t next) {
	return schema_emit_literal(c, c->once ? ", " : ",", next);
}
character_emitter* schema_characters(const struct compiler* c) {
	return c->bare ? emit_characters : c->once ? emit_json_characters_once : emit_json_characters;
}

/* separated by commas: begun with one where `more`; `item` emits one before what follows it */
static int32_t emit_list(struct compiler* c, int32_t (*item)(struct compiler*, int32_t), int32_t close) {
	struct grammar* g = c->grammar;
	const int32_t end = schema_emit_space(c, close);
	const int32_t loop = emit_loop(g, end);
	const int32_t one = item(c, loop);
	loop_close(g, loop, schema_emit_comma(c, schema_emit_space(c, one)));
	return emit_split(g, schema_emit_space(c, one), close);
}

int32_t schema_emit_any(struct compiler* c, int32_t next) { return emit_shared(c, SHARED_VALUE, next); }
int32_t schema_emit_colon(struct compiler* c, int32_t next) {
	const int32_t spaced = schema_emit_literal(c, " ", next);
	return schema_emit_literal(c, ":", c->once ? spaced : emit_split(c->grammar, next, spaced));
}
static int32_t any_member(struct compiler* c, int32_t next) {
	return emit_shared(c, SHARED_STRING, schema_emit_colon(c, schema_emit_any(c, next)));
}

static int32_t emit_any_value(struct compiler* c) {
	static const char* const words[] = {"true", "false", "null"};
	struct grammar* g = c->grammar;
	int32_t all = NOWHERE;
	for (int i = 0; i < 3; i++)
		all = emit_split(g, schema_emit_literal(c, words[i], RETURNS), all);
	all = emit_split(g, emit_shared(c, SHARED_NUMBER, RETURNS), all);
	all = emit_split(g, emit_shared(c, SHARED_STRING, RETURNS), all);
	all = emit_split(g, emit_shared(c, SHARED_OBJECT, RETURNS), all);
	return emit_split(g, emit_shared(c, SHARED_ARRAY, RETURNS), all);
}

static int32_t emit_shared_rule(struct compiler* c, enum shared which) {
	static const char* const expression[SHARED_COUNT] = {
	    [SHARED_SPACE] = "( |\\n[ \\t]{0,40})?", /* bounded: a model may not dally */
	    [SHARED_STRING] = ("\"([^\"\\\\\\x00-\\x1f]|\\\\([\"\\\\/"
	                       "bfnrt]|u([0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})))*\""),
	    [SHARED_INTEGER] = "-?(0|[1-9][0-9]*)",
	    [SHARED_NUMBER] = "-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+\\-]?[0-9]{1,2})?"};
	static const char* const once[SHARED_COUNT] = {
	    [SHARED_STRING] = "\"([^\"\\\\\\x00-\\x1f]|\\\\([\"\\\\bfnrt]|u00(0[0-7bef]|1[0-9a-f])))*\"",
	    [SHARED_INTEGER] = "0|-?[1-9][0-9]*",
	    [SHARED_NUMBER] = "0|-?[1-9][0-9]*|-?(0|[1-9][0-9]*)\\.[0-9]*[1-9]"};
	const char* const text = c->once ? once[which] : expression[which];
	if (text)
		return emit_matching(c, text);
	if (which == SHARED_OBJECT && c->once) { /* several could come in another order */
		const int32_t close = schema_emit_literal(c, "}", RETURNS);
		return schema_emit_literal(c, "{", emit_split(c->grammar, any_member(c, close), close));
	}
	if (which == SHARED_OBJECT)
		return schema_emit_literal(c, "{", emit_list(c, any_member, schema_emit_literal(c, "}", RETURNS)));
	if (which == SHARED_ARRAY)
		return schema_emit_literal(c, "[",
		                           emit_list(c, schema_emit_any, schema_emit_literal(c, "]", RETURNS)));
	return emit_any_value(c);
}

static int32_t emit_shared(struct compiler* c, enum shared which, int32_t next) {
	if (c->rules.shared[which] == 0) {
		const int rule = program_rule(c->grammar);
		c->rules.shared[which] = 1 + rule; /* before its body, which may call it */
		const int32_t start = emit_shared_rule(c, which);
		if (!c->grammar->failed)
			c->grammar->rule[rule] = start;
	}
	return emit_call(c->grammar, c->rules.shared[which] - 1, next);
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
		if (json_lists("$dynamicRef $recursiveRef", field->string))
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

int schema_count_of(struct compiler* c, const cJSON* schema, const char* keyword, int otherwise) {
	const cJSON* value = json_field(schema, keyword);
	return value ? schema_count(c, value) : otherwise;
}

unsigned schema_types(struct compiler* c, const cJSON* schema) {
	const cJSON* type = json_field(schema, "type");
	unsigned types = schema_type_set(type);
	for (const cJSON* one = cJSON_IsArray(type) ? type->child : type; one;
	     one = cJSON_IsArray(type) ? one->next : NULL)
		if (!schema_type_set(one))
			schema_refuse(c, "\"type\" names none of JSON's types");
	/* schemas that name properties usually mean objects, also without a type */
	if (!type && !c->literal && json_field(schema, "properties"))
		types = 1u << TYPE_OBJECT;
	if (types && cJSON_IsTrue(json_field(schema, "nullable")))
		types |= 1u << TYPE_NULL;
	return types;
}

/* Whether a keyword of the schema constrains values of the type. */
static bool constrains_type(const cJSON* schema, enum type type) {
	static const char* const keywords[TYPE_COUNT] = {
	    [TYPE_OBJECT] = "properties additionalProperties required patternProperties propertyNames "
	                    "minProperties maxProperties unevaluatedProperties " SCHEMA_MEMBERS " " SCHEMA_SOME,
	    [TYPE_ARRAY] = "uniqueItems items prefixItems minItems maxItems contains additionalItems "
	                   "unevaluatedItems " SCHEMA_ITEMS " " SCHEMA_CONTAINS,
	    [TYPE_STRING] = "pattern minLength maxLength format contentEncoding contentMediaType " SCHEMA_EXCEPT
	                    " " SCHEMA_ALSO " " SCHEMA_NEVER,
	    [TYPE_NUMBER] = "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf " SCHEMA_EXCEPT
	                    " " SCHEMA_ALSO " " SCHEMA_NEVER,
	    [TYPE_BOOLEAN] = SCHEMA_EXCEPT,
	    [TYPE_NULL] = SCHEMA_EXCEPT};
	return schema_has(schema, keywords[type == TYPE_INTEGER ? TYPE_NUMBER : type]);
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

static bool has_type(const cJSON* value, unsigned types) {
	const bool whole = cJSON_IsNumber(value) && fabs(value->valuedouble - floor(value->valuedouble)) < 1e-300;
	return types == 0 || types & schema_type_of(value) || (whole && types >> TYPE_INTEGER & 1u);
}

/* The text of a string as JSON, or a part of it; what is not of ASCII also as it is escaped. */
static int32_t emit_json_text(struct compiler* c, const char* text, int32_t next) {
	return emit_choices(c->grammar, &text, 1, schema_characters(c), next);
}

/* A constant is one text, as the schema wrote it: so it needs no pass. */
static char* constant_text(const struct compiler* c, const cJSON* value) {
	return c->once && cJSON_IsNumber(value) ? schema_number_text(value) : json_print(value);
}

static int32_t emit_scalar(struct compiler* c, const cJSON* value, int32_t next) {
	char* const text = constant_text(c, value);
	const int32_t at = text ? emit_json_text(c, text, next) : schema_refuse(c, "out of memory");
	cJSON_free(text);
	return at;
}

/* The one that comes before `before`, or last, in the order that members have. */
static const cJSON* part_before(struct compiler* c, const cJSON* value, const cJSON* before) {
	const cJSON *part, *best = NULL;
	if (!c->once || cJSON_IsArray(value))
		return !before                  ? (value->child ? value->child->prev : NULL)
		       : before == value->child ? NULL
		                                : before->prev;
	cJSON_ArrayForEach (part, value) {
		const int rank = schema_rank(c, part->string);
		if ((!before || rank < schema_rank(c, before->string)) &&
		    (!best || rank > schema_rank(c, best->string)))
			best = part;
	}
	return best;
}

static int32_t emit_constant(struct compiler* c, const cJSON* value, int32_t next) {
	const bool array = cJSON_IsArray(value);
	if (!array && !cJSON_IsObject(value))
		return emit_scalar(c, value, next);
	if (c->once && !array && cJSON_GetArraySize(value) > MAX_RANKED)
		return schema_refuse_keyword(c, "uniqueItems",
		                             "is not supported for constants with more than 64 members");
	/* an object's members as others write them too: with a blank after colons and commas */
	int32_t at = schema_emit_literal(c, array ? "]" : "}", next);
	for (const cJSON* one = part_before(c, value, NULL); one; one = part_before(c, value, one)) {
		at = emit_constant(c, one, at);
		if (!array) {
			const cJSON name = {.type = cJSON_String, .valuestring = one->string};
			at = emit_constant(c, &name, schema_emit_colon(c, at));
		}
		if (part_before(c, value, one))
			at = schema_emit_comma(
			    c, array || c->once ? at : emit_split(c->grammar, at, schema_emit_literal(c, " ", at)));
	}
	return schema_emit_literal(c, array ? "[" : "{", at);
}

/* ---- lists ---------------------------------------------------------------------------------- */

int schema_rule(struct compiler* c, int rule, int32_t start) {
	if (c->failed || c->grammar->failed || start == NOWHERE)
		return 0;
	c->grammar->rule[rule] = start;
	return rule;
}

static int32_t emit_another(struct compiler* c, int rule, int32_t next) {
	return schema_emit_comma(c, schema_emit_space(c, emit_call(c->grammar, rule, next)));
}

/* Each after a comma. */
int32_t schema_emit_more(struct compiler* c, int rule, int least, int most, int32_t end) {
	struct grammar* g = c->grammar;
	int32_t at = end;
	if (rule == 0 || most == 0)
		return least > 0 ? NOWHERE : end;
	if (most < 0) {
		at = emit_loop(g, end);
		loop_close(g, at, emit_another(c, rule, at));
	}
	for (int i = least; i < most && !g->failed; i++)
		at = emit_split(g, emit_another(c, rule, at), end);
	for (int i = 0; i < least && !g->failed; i++)
		at = emit_another(c, rule, at);
	return at;
}

int32_t schema_emit_list(struct compiler* c, int rule, int least, int most, int32_t close, int32_t end) {
	const int32_t none = least == 0 ? close : NOWHERE;
	if (rule == 0 || most == 0)
		return none;
	const int32_t rest = schema_emit_more(c, rule, least > 1 ? least - 1 : 0, most < 0 ? -1 : most - 1, end);
	return emit_split(c->grammar, schema_emit_space(c, emit_call(c->grammar, rule, rest)), none);
}

/* ---- any schema ---------------------------------------------------------------------------- */

/* Whether a value of this type is one of those that must not come. */
static bool leaves_out(const cJSON* schema, int type) {
	const cJSON* one;
	cJSON_ArrayForEach (one, json_field(schema, SCHEMA_EXCEPT)) {
		if ((one->type & 0xff) == type)
			return true;
	}
	return false;
}

static int32_t emit_type(struct compiler* c, const cJSON* schema, enum type type, int32_t next) {
	const bool any = !constrains_type(schema, type);
	switch (type) {
	case TYPE_OBJECT:
		return any ? emit_shared(c, SHARED_OBJECT, next) : schema_emit_object(c, schema, next);
	case TYPE_ARRAY:
		return any ? emit_shared(c, SHARED_ARRAY, next) : schema_emit_array(c, schema, next);
	case TYPE_STRING:
		return schema_emit_string(c, schema, next);
	case TYPE_NUMBER:
	case TYPE_INTEGER:
		return schema_emit_number(c, schema, type == TYPE_INTEGER, next);
	case TYPE_BOOLEAN: {
		const int32_t no = leaves_out(schema, cJSON_False) ? NOWHERE : schema_emit_literal(c, "false", next);
		return emit_split(
		    c->grammar, leaves_out(schema, cJSON_True) ? NOWHERE : schema_emit_literal(c, "true", next), no);
	}
	default:
		return leaves_out(schema, cJSON_NULL) ? NOWHERE : schema_emit_literal(c, "null", next);
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
	return schema_has(schema, SCHEMA_CONDITIONS " " SCHEMA_QUIET) ||
	       (json_field(schema, "$ref") && schema_constrains_beyond(schema, "$ref")) ||
	       (all && (schema_constrains_beyond(schema, "allOf") || !cJSON_IsArray(all) || !all->child ||
	                all->child->next));
}

/* Compiles the keywords beside a list of values into a grammar of their own, which then checks each value. */
static struct grammar* compile_apart(struct compiler* c, const cJSON* rest, bool item) {
	struct error ignored;
	struct compiler sub = {.grammar = program_open(c->error),
	                       .root = c->root,
	                       .error = c->error,
	                       .literal = c->literal,
	                       .once = item,
	                       .depth = c->depth,
	                       .joined = c->joined,
	                       .looks = c->looks,
	                       .schemas = c->schemas};
	int32_t start = sub.grammar ? RETURNS : schema_refuse(&sub, "out of memory");
	if (item && start != NOWHERE)
		start = emit_differ(sub.grammar, emit_finish(sub.grammar, start));
	if (start != NOWHERE)
		start = rest ? schema_emit(&sub, rest, start) : schema_emit_any(&sub, start);
	if (item && start != NOWHERE)
		start = emit_distinct_list(sub.grammar, emit_distinct_item(sub.grammar, start));
	c->schemas = sub.schemas;
	c->joined = sub.joined;
	c->looks = sub.looks;
	c->lost |= sub.lost;
	c->failed |= sub.failed;
	schema_close(&sub);
	if (start != NOWHERE)
		return finish_grammar(sub.grammar, start, &ignored);
	grammar_free(sub.grammar);
	return NULL;
}

/* A value that is no array or object, as its text alone; NULL: it is one. */
static char* scalar_text(const struct compiler* c, const cJSON* value) {
	return cJSON_IsArray(value) || cJSON_IsObject(value) ? NULL : constant_text(c, value);
}

/* The other ways to write a whole number that is written without an exponent: with a fraction of 0 and
 * without. -> how many; 0: it is no such. size: of each */
static int other_spellings(const char* number, char spelling[2][64]) {
	const char* digits = number + (*number == '-');
	const size_t n = (size_t)(digits - number) + strspn(digits, "0123456789");
	if (n + 3 > sizeof spelling[0] ||
	    (number[n] && (number[n] != '.' || number[n + 1 + strspn(number + n + 1, "0")])))
		return 0;
	memcpy(spelling[0], number, n);
	memcpy(spelling[1], number, n);
	memcpy(spelling[0] + n, "", 1);
	memcpy(spelling[1] + n, ".0", 3);
	return 2;
}

/* The texts of the scalars among the values, a number's in all its spellings where a fraction of 0 may come.
 * text: room for 3 a value. -> how many */
static int list_scalars(const struct compiler* c, const cJSON** value, int n, bool fractions, char** text) {
	int texts = 0;
	for (int i = 0; i < n; i++) {
		char spelling[2][64];
		char* written = scalar_text(c, value[i]);
		if (!written)
			continue;
		const int spellings = cJSON_IsNumber(value[i]) && fractions ? other_spellings(written, spelling) : 0;
		text[texts++] = written;
		for (int k = 0; k < spellings; k++)
			if (strcmp(spelling[k], written) != 0 && (text[texts] = strdup(spelling[k])))
				texts++;
	}
	return texts;
}

/* Values, of which those that are scalars become a trie. */
static int32_t emit_list_of_values(struct compiler* c, const cJSON** value, int n, bool fractions,
                                   int32_t next) {
	char** text = calloc(3 * (size_t)n + 1, sizeof *text);
	int32_t all = NOWHERE;
	for (int i = 0; i < n && text && !c->failed; i++)
		if (cJSON_IsArray(value[i]) || cJSON_IsObject(value[i]))
			all = emit_split(c->grammar, emit_constant(c, value[i], next), all);
	if (!text)
		return schema_refuse(c, "out of memory");
	const int texts = list_scalars(c, value, n, fractions && !c->once, text);
	all = emit_split(c->grammar,
	                 emit_choices(c->grammar, (const char**)text, texts, schema_characters(c), next), all);
	for (int i = 0; i < texts; i++)
		free(text[i]);
	free(text);
	return all;
}

/* ---- items that differ ------------------------------------------------------------------------ */

static void swap_rules(struct compiler* c) {
	const struct made_rules other = c->rules_apart;
	c->rules_apart = c->rules;
	c->rules = other;
	c->once = !c->once;
}

int32_t schema_emit_distinct(struct compiler* c, const cJSON* schema, int32_t next) {
	const bool before = c->once;
	int32_t at = emit_differ(c->grammar, next);
	if (!before)
		swap_rules(c);
	if (at != NOWHERE)
		at = schema ? schema_emit(c, schema, at) : schema_emit_any(c, at);
	if (!before)
		swap_rules(c);
	return emit_distinct_item(c->grammar, at);
}

int schema_count_values(struct compiler* c, const cJSON* schema, int most) {
	struct grammar* const g = compile_apart(c, schema, true);
	struct states* const states = g ? states_open(g) : NULL;
	const int n = states ? states_count(states, most) : 0;
	states_close(states);
	grammar_free(g);
	return n;
}

int schema_rank(struct compiler* c, const char* name) {
	int i = 0;
	while (i < c->n_order && strcmp(c->order[i], name) != 0)
		i++;
	if (i < c->n_order)
		return i;
	if (i == MAX_ORDER || !grow_by_one(&c->order, (size_t)i, sizeof *c->order)) {
		schema_refuse_keyword(c, "uniqueItems",
		                      "is not supported for items with more than 4096 different names of members");
		return 0;
	}
	c->order[c->n_order++] = name;
	return i;
}

/* "enum", "const", or both. */
static int32_t emit_values(struct compiler* c, const cJSON* schema, unsigned types, int32_t next) {
	const cJSON *constant = cJSON_GetObjectItemCaseSensitive(schema, "const"),
	            *list = json_field(schema, "enum"), *except = json_field(schema, SCHEMA_EXCEPT);
	struct grammar* apart = NULL;
	struct states* states = NULL;
	const bool more = schema_constrains_beyond(schema, "enum const type nullable " SCHEMA_EXCEPT);
	if (list && !cJSON_IsArray(list))
		return schema_refuse(c, "\"enum\" is not an array");
	if (more) {
		cJSON* rest = schema_without(c, schema, "enum const " SCHEMA_EXCEPT);
		apart = rest ? compile_apart(c, rest, false) : NULL;
		states = apart ? states_open(apart) : NULL;
		cJSON_Delete(rest);
	}
	const cJSON** kept = malloc(((size_t)cJSON_GetArraySize(list) + 1) * sizeof *kept);
	int n = 0;
	for (const cJSON* value = NULL; kept && !c->failed && (value = schema_value_after(schema, value));) {
		if (!has_type(value, types) || (constant && !json_same(value, constant)) ||
		    schema_holds(except, value))
			continue;
		char* text = more ? json_print(value) : NULL;
		if (!more || (states && text && matches_text(states, text, strlen(text))))
			kept[n++] = value;
		free(text);
	}
	const bool fractions = types == 0 || types >> TYPE_NUMBER & 1u;
	const int32_t all = kept && !c->failed ? emit_list_of_values(c, kept, n, fractions, next) : NOWHERE;
	free(kept);
	states_close(states);
	grammar_free(apart);
	return all;
}

static int32_t emit_whole_schema(struct compiler* c, const cJSON* schema, int32_t next) {
	if (cJSON_IsTrue(schema))
		return schema_emit_any(c, next);
	if (cJSON_IsFalse(schema))
		return NOWHERE;
	if (!cJSON_IsObject(schema))
		return schema_refuse(c, "a schema is neither an object nor a boolean");
	if (!check_keywords(c, schema))
		return NOWHERE;
	/* combinations first: each that is decided is one less to be joined */
	if (json_field(schema, "anyOf"))
		return schema_emit_combination(c, schema, "anyOf", next);
	if (json_field(schema, "oneOf"))
		return schema_emit_combination(c, schema, "oneOf", next);
	const bool joins = needs_joining(schema);
	if (joins || json_field(schema, "$ref"))
		return schema_emit_reference(c, schema, joins, next);
	if (json_field(schema, "allOf")) /* of one schema, alone */
		return schema_emit(c, json_field(schema, "allOf")->child, next);
	unsigned types = schema_types(c, schema);
	const cJSON* except;
	if (cJSON_GetObjectItemCaseSensitive(schema, "const") || json_field(schema, "enum"))
		return emit_values(c, schema, types, next);
	if (types == 0 && json_field(schema, "type"))
		return NOWHERE; /* of none */
	if (types == 0 && !schema_constrains_beyond(schema, "nullable"))
		return schema_emit_any(c, next);
	types = types ? types : ALL_TYPES;
	cJSON_ArrayForEach (except, json_field(schema, SCHEMA_EXCEPT)) {
		/* other arrays and objects than one are not known: none comes */
		if (cJSON_IsArray(except) || cJSON_IsObject(except))
			types &= ~schema_type_of(except);
	}
	return emit_types(c, schema, types, next);
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

int32_t json_schema_emit(struct grammar* grammar, cJSON* schema, bool literal, int32_t next,
                         struct error* error) {
	struct compiler c = {.grammar = grammar, .root = schema, .literal = literal, .error = error};
	if (schema)
		schema_point(&c, schema);
	const int32_t start = schema ? schema_emit(&c, schema, next) : emit_shared(&c, SHARED_OBJECT, next);
	schema_close(&c);
	if (start == NOWHERE && !c.failed)
		error_set(error, "the schema allows no text at all");
	return c.failed ? NOWHERE : start;
}

static struct grammar* compile_schema(cJSON* schema, bool literal, struct error* error) {
	struct grammar* g = program_open(error);
	return g ? states_checked(finish_grammar(g, json_schema_emit(g, schema, literal, RETURNS, error), error),
	                          error)
	         : NULL;
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

struct grammar* grammar_from_json_schema(const char* schema, size_t size, bool literal, struct error* error) {
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
	struct grammar* const grammar = compile_schema(parsed, literal, error);
	cJSON_Delete(parsed);
	return grammar;
}

struct grammar* grammar_from_json_object(struct error* error) {
	return compile_schema(NULL, false, error);
}

struct grammar* grammar_from_regex(const char* expression, size_t size, struct error* error) {
	struct grammar* g = program_open(error);
	if (!g)
		return NULL;
	const int32_t start = pattern_emit(g, expression, size, true, emit_characters, RETURNS, error);
	return states_checked(finish_grammar(g, start, error), error);
}

struct grammar* grammar_from_choices(const char* const* choice, int n, struct error* error) {
	struct grammar* g = program_open(error);
	const char** sorted = g ? malloc(((size_t)n + 1) * sizeof *sorted) : NULL;
	if (sorted) {
		memcpy(sorted, choice, (size_t)n * sizeof *sorted);
		g->rule[0] = emit_choices(g, sorted, n, NULL, RETURNS);
	} else if (g)
		g->failed = true;
	free(sorted);
	return g ? states_checked(program_close(g, true, error), error) : NULL;
}
