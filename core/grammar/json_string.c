/* Makes one language of a schema's pattern, format and lengths, and emits strings. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/grammar/json_compiler.h"

/* The length is counted where its product with what else holds is larger. */
enum { SMALL_PRODUCT = 1 << 6 };

/* Whether a keyword is one of strings. */
bool schema_is_of_strings(const char* keyword) {
	return json_lists("pattern format minLength maxLength contentEncoding contentMediaType", keyword);
}

struct language* schema_keep_language(struct compiler* c, struct language* made) {
	if (!made && !c->failed)
		schema_refuse(c, "the conditions on a string or a number are too large together");
	return made;
}

struct language* schema_product(struct compiler* c, struct language* a, struct language* b,
                                enum language_product kind) {
	struct language* both = c->failed || !a || !b ? NULL : language_smallest(language_product(a, b, kind));
	language_free(a);
	language_free(b);
	return schema_keep_language(c, both);
}

static struct language* of_content(struct compiler* c, const cJSON* value) {
	const char* encoding = cJSON_IsString(value) ? value->valuestring : "";
	if (json_lists("base64 base64url", encoding))
		return json_format_language(encoding, c->error);
	if (!json_lists("7bit 8bit binary quoted-printable base16 base32", encoding) || encoding[0] == 'b' ||
	    encoding[0] == 'q')
		schema_refuse_keyword(c, "contentEncoding", "other than base64 is not supported");
	return c->failed ? NULL : language_all();
}

/* JSON within a string, as an expression. It is nested at most two deep: an automaton has to have states for
 * each depth. ascii: of such characters alone, and one deep. */
static struct language* json_language(struct compiler* c, bool ascii) {
	enum { SIZE = 1 << 14 };
	const int depth = ascii ? 1 : 2;
	static const char string[] =
	    "\"([%s]|\\\\([\"\\\\/bfnrt]|u([0-9a-cA-CefEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})))*\"";
	char text[160], *value = malloc(SIZE), *inner = malloc(SIZE);
	struct language* l = NULL;
	snprintf(text, sizeof text, string, ascii ? " !#-\\[\\]-~" : "^\"\\\\\\x00-\\x1f");
	if (value && inner) {
		snprintf(value, SIZE, "(%s|-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+\\-]?[0-9]{1,2})?|true|false|null)",
		         text);
		bool fits = true;
		for (int i = 0; i < depth; i++) {
			memcpy(inner, value, strlen(value) + 1);
			fits = fits && snprintf(value, SIZE, "(%s|\\[(%s(, ?%s)*)?\\]|\\{(%s: ?%s(, ?%s: ?%s)*)?\\})",
			                        inner, inner, inner, text, inner, text, inner) < SIZE;
		}
		if (!fits)
			schema_refuse(c, "JSON within a string is too large");
		else
			l = language_of_pattern(value, strlen(value), true, c->error);
	} else
		schema_refuse(c, "out of memory");
	c->failed |= !l;
	free(value);
	free(inner);
	return l;
}

/* "contentMediaType": JSON, as it is or in base64. */
static struct language* of_media_type(struct compiler* c, const cJSON* schema, const char* text) {
	const cJSON* encoding = json_field(schema, "contentEncoding");
	const cJSON* within = json_field(schema, "contentSchema");
	const char* as = cJSON_IsString(encoding) ? encoding->valuestring : "";
	if (!text || strcmp(text, "application/json") != 0)
		return language_all();
	if (within && !cJSON_IsTrue(within) && !(cJSON_IsObject(within) && !within->child))
		return schema_refuse_keyword(c, "contentSchema", "of JSON within a string is not supported"), NULL;
	const bool encoded = json_lists("base64 base64url", as);
	struct language* json = json_language(c, encoded);
	if (!json || !encoded)
		return json;
	struct language* l = language_in_base64(json, strcmp(as, "base64url") == 0);
	language_free(json);
	return schema_keep_language(c, l);
}

/* The strings that one keyword alone allows. */
static struct language* of_keyword(struct compiler* c, const cJSON* schema, const cJSON* field) {
	const char *name = field->string, *text = cJSON_IsString(field) ? field->valuestring : NULL;
	if (strcmp(name, "minLength") == 0 || strcmp(name, "maxLength") == 0) {
		const int n = schema_count(c, field);
		if (n >= LANGUAGE_STATES)
			return schema_refuse_keyword(c, name, "is too large"), NULL;
		return c->failed ? NULL : name[1] == 'i' ? language_of_length(n, -1) : language_of_length(0, n);
	}
	if (strcmp(name, "contentEncoding") == 0)
		return of_content(c, field);
	if (strcmp(name, "contentMediaType") == 0)
		return of_media_type(c, schema, text);
	if (!text)
		return schema_refuse_keyword(c, name, "is not a string"), NULL;
	if (strcmp(name, "format") == 0 && strcmp(text, "json-string") == 0)
		return json_language(c, false);
	if (strcmp(name, "format") == 0 && !json_format_is_known(text)) {
		const bool known =
		    c->literal || json_field(schema, "pattern"); /* the pattern stands for the format */
		if (!known)
			schema_refuse_keyword(c, text, "is not a supported format");
		return known ? language_all() : NULL;
	}
	struct language* of = strcmp(name, "format") == 0
	                          ? json_format_language(text, c->error)
	                          : language_of_pattern(text, strlen(text), false, c->error);
	c->failed |= !of;
	return of;
}

/* *all: NULL as long as any string is allowed. */
static void keep_language(struct compiler* c, struct language** all, struct language* one, bool must) {
	if (!*all)
		*all = must ? one : schema_product(c, language_all(), one, ONLY_FIRST);
	else
		*all = schema_product(c, *all, one, must ? BOTH : ONLY_FIRST);
}

/* The strings that all keywords allow, without those of the list. */
static struct language* language_without(struct compiler* c, const cJSON* schema, const char* left_out) {
	struct language* all = NULL;
	const cJSON *field, *one;
	cJSON_ArrayForEach (field, schema) {
		if (c->failed)
			break;
		if (json_lists(left_out, field->string))
			continue;
		if (schema_is_of_strings(field->string) && !cJSON_IsNull(field))
			keep_language(c, &all, of_keyword(c, schema, field), true);
		else if (strcmp(field->string, SCHEMA_EXCEPT) == 0)
			cJSON_ArrayForEach (one, field) {
				if (cJSON_IsString(one) && !c->failed)
					keep_language(c, &all, language_of_text(one->valuestring), false);
			}
		else if (strcmp(field->string, SCHEMA_ALSO) == 0 || strcmp(field->string, SCHEMA_NEVER) == 0)
			cJSON_ArrayForEach (one, field) {
				if (schema_is_of_strings(one->child->string) && !c->failed)
					keep_language(c, &all, of_keyword(c, one, one->child), field->string[1] == 'a');
			}
	}
	if (!c->failed)
		return all ? all : language_all();
	language_free(all);
	return NULL;
}

/* Whether the schema's format and its pattern have no text in common. */
static bool formats_disagree(struct compiler* c, const cJSON* schema) {
	const cJSON *format = json_field(schema, "format"), *pattern = json_field(schema, "pattern");
	if (!cJSON_IsString(format) || !cJSON_IsString(pattern))
		return false;
	struct language* const of = of_keyword(c, schema, format);
	struct language* const both =
	    schema_product(c, of, c->failed ? NULL : of_keyword(c, schema, pattern), BOTH);
	const bool none = both && both->n == 0;
	language_free(both);
	return none;
}

/* A pattern that contradicts its format stands for it: zod writes times without an offset so. */
static struct language* make_string_language(struct compiler* c, const cJSON* schema, bool lengths) {
	const char* const left_out = lengths ? "" : "minLength maxLength";
	struct language* all = language_without(c, schema, left_out);
	if (!all || all->n > 0 || !formats_disagree(c, schema))
		return all;
	language_free(all);
	return language_without(c, schema, lengths ? "format" : "format minLength maxLength");
}

/* The texts of at least so many characters; the most is counted where that needs less. */
static int32_t emit_counted(struct compiler* c, struct language* l, int least, int most, int32_t next) {
	if (least > 0)
		l = least >= LANGUAGE_STATES ? NULL : schema_product(c, l, language_of_length(least, -1), BOTH);
	if (!l)
		return schema_refuse(c, "\"minLength\" is too large");
	const int longest = most < 0 ? -1 : language_longest(l);
	if (most >= 0 && longest >= 0 && longest <= most)
		most = -1;
	if (most >= 0 && (int64_t)l->n * (most + 1) <= SMALL_PRODUCT) {
		l = schema_product(c, l, language_of_length(0, most), BOTH);
		most = -1;
	}
	struct class_rules* const classes = c->bare ? &c->bare_classes : &c->rules.classes;
	const int32_t at = l ? language_emit(c->grammar, l, schema_characters(c), classes, most, next) : NOWHERE;
	language_free(l);
	return at;
}

static int32_t emit_language(struct compiler* c, const cJSON* schema, int32_t next);

/* A schema with nothing but a format. */
static int32_t emit_format(struct compiler* c, const cJSON* schema, int32_t next) {
	const char* format = json_format_name(json_field(schema, "format")->valuestring);
	for (int i = 0; i < c->rules.n_formats; i++)
		if (c->rules.format[i].format == format)
			return emit_call(c->grammar, c->rules.format[i].rule, next);
	if (!format || c->rules.n_formats == MAX_FORMATS)
		return emit_language(c, schema, next);
	const int rule = program_rule(c->grammar);
	const int32_t start = emit_language(c, schema, RETURNS);
	if (schema_rule(c, rule, start) == 0)
		return NOWHERE;
	c->rules.format[c->rules.n_formats++] = (struct format_rule){format, rule};
	return emit_call(c->grammar, rule, next);
}

int32_t schema_emit_string(struct compiler* c, const cJSON* schema, int32_t next) {
	const cJSON* field;
	bool alone = cJSON_IsString(json_field(schema, "format"));
	cJSON_ArrayForEach (field, schema)
		alone = alone && (strcmp(field->string, "format") == 0 || !schema_is_of_strings(field->string)) &&
		        !json_lists(SCHEMA_EXCEPT " " SCHEMA_ALSO " " SCHEMA_NEVER, field->string);
	return alone ? emit_format(c, schema, next) : emit_language(c, schema, next);
}

/* ---- lengths within patterns ------------------------------------------------------------------ */

/* Whether a | divides the whole expression, outside of all groups and classes. */
static bool is_divided(const char* at) {
	bool class = false;
	int depth = 0;
	for (; *at; at++) {
		if (*at == '\\' && at[1])
			at++;
		else if (class || *at == '[')
			class = *at != ']';
		else if (*at == '(' || *at == ')')
			depth += *at == '(' ? 1 : -1;
		else if (*at == '|' && depth == 0)
			return true;
	}
	return false;
}

/* Reads what bounds the length at a pattern's beginning, as patterns of host names do: ^(?=.{1,253}$). What
 * follows it; NULL: there is no such. A dot that may come after the longest text (\.?$) is left out. */
static const char* read_length_ahead(const char* pattern, int* least, int* most) {
	static const char begin[] = "^(?=.{";
	char* end;
	if (!pattern || strncmp(pattern, begin, strlen(begin)) != 0 || is_divided(pattern))
		return NULL;
	const char* at = pattern + strlen(begin);
	if (!isdigit((unsigned char)*at)) /* nor a blank, which strtol would skip: .{ 5} is no repeat */
		return NULL;
	const long low = strtol(at, &end, 10);
	const bool range = *end == ',';
	at = range ? end + 1 : end;
	const bool open = range && *at == '}';
	if (range && !open && !isdigit((unsigned char)*at))
		return NULL;
	const long high = range && !open ? strtol(at, &end, 10) : low;
	at = open ? at : end;
	if (high < low || high >= LANGUAGE_STATES || *at++ != '}')
		return NULL;
	at += strncmp(at, "\\.?", 3) == 0 ? 3 : 0;
	*least = (int)low;
	*most = open ? -1 : (int)high;
	return strncmp(at, "$)", 2) == 0 ? at + 2 : NULL;
}

/* The schema's keywords of strings, without a length that its pattern looks ahead for. That becomes a bound,
 * which is counted: an automaton would have states for each length. NULL: there is no such length. */
static cJSON* without_length_ahead(struct compiler* c, const cJSON* schema, int* least, int* most) {
	const cJSON *pattern = json_field(schema, "pattern"), *field;
	int low = 0, high = -1;
	const char* rest = read_length_ahead(cJSON_IsString(pattern) ? pattern->valuestring : NULL, &low, &high);
	if (!rest)
		return NULL;
	cJSON* to = cJSON_CreateObject();
	cJSON_ArrayForEach (field, schema) {
		if (schema_is_of_strings(field->string) || json_lists(SCHEMA_EXCEPT " " SCHEMA_NEVER, field->string))
			schema_put(c, to, field->string, cJSON_Duplicate(field, true));
	}
	const cJSON* also = json_field(schema, SCHEMA_ALSO);
	cJSON* list = also ? cJSON_Duplicate(also, true) : cJSON_CreateArray();
	schema_append(c, list, schema_wrapped(c, "pattern", cJSON_CreateString("^.*$")));
	schema_put(c, to, SCHEMA_ALSO, list);
	char* anchored = malloc(strlen(rest) + 2);
	if (anchored)
		sprintf(anchored, "^%s", rest);
	schema_put(c, to, "pattern", anchored ? cJSON_CreateString(anchored) : NULL);
	free(anchored);
	*least = low > *least ? low : *least;
	*most = high >= 0 && (*most < 0 || high < *most) ? high : *most;
	return to;
}

static int32_t emit_language(struct compiler* c, const cJSON* schema, int32_t next) {
	const cJSON *min = json_field(schema, "minLength"), *max = json_field(schema, "maxLength");
	int least = min ? schema_count(c, min) : 0, most = max ? schema_count(c, max) : -1;
	cJSON* counted = without_length_ahead(c, schema, &least, &most);
	struct language* l = c->failed ? NULL : make_string_language(c, counted ? counted : schema, false);
	cJSON_Delete(counted);
	if (!l)
		return NOWHERE;
	const bool any = l->n == 1 && l->n_edges == 1 && l->edge[0].to == 0; /* not the empty text alone */
	if ((most >= 0 && most < least) || c->failed || (any && least == 0 && most < 0)) {
		language_free(l);
		return c->failed || (most >= 0 && most < least) ? NOWHERE : schema_emit_any_string(c, next);
	}
	const int32_t close = emit_text(c->grammar, "\"", 1, next);
	const int32_t at = emit_counted(c, l, least, most, close);
	return emit_text(c->grammar, "\"", 1, at);
}

/* ---- names ------------------------------------------------------------------------------------ */

static struct language* no_names(struct compiler* c) {
	return schema_product(c, language_all(), language_all(), ONLY_FIRST);
}

static struct language* of_values(struct compiler* c, const cJSON* schema) {
	struct language* all = no_names(c);
	for (const cJSON* value = NULL; all && !c->failed && (value = schema_value_after(schema, value));)
		if (cJSON_IsString(value))
			all = schema_product(c, all, language_of_text(value->valuestring), EITHER);
	return schema_keep_language(c, all);
}

/* Any, all or exactly one of a list. */
static struct language* of_list(struct compiler* c, const cJSON* list, const char* keyword, int depth) {
	struct language* all = keyword[0] == 'a' && keyword[1] == 'l' ? language_all() : no_names(c);
	struct language* several = keyword[0] == 'o' ? no_names(c) : NULL;
	const cJSON* one;
	cJSON_ArrayForEach (one, list) {
		if (c->failed)
			break;
		struct language* of = schema_names(c, one, depth + 1);
		if (several && of) {
			struct language* both = schema_keep_language(c, language_product(all, of, BOTH));
			several = schema_product(c, several, both, EITHER);
		}
		all = schema_product(c, all, of, keyword[1] == 'l' ? BOTH : EITHER);
	}
	return several ? schema_product(c, all, several, ONLY_FIRST) : all;
}

struct language* schema_names(struct compiler* c, const cJSON* schema, int depth) {
	const cJSON *field, *target;
	if (depth > MAX_NAMES_DEPTH || c->failed)
		return schema_refuse(c, "names are nested too deep"), NULL;
	if (cJSON_IsBool(schema))
		return cJSON_IsTrue(schema) ? language_all() : no_names(c);
	struct language* all = make_string_language(c, schema, true);
	const cJSON* type = json_field(schema, "type");
	if (type && !(schema_type_set(type) >> TYPE_STRING & 1u))
		all = schema_product(c, all, no_names(c), BOTH);
	if (schema_value_after(schema, NULL))
		all = schema_product(c, all, of_values(c, schema), BOTH);
	cJSON_ArrayForEach (field, schema) {
		if (c->failed)
			break;
		if (json_lists("anyOf oneOf allOf", field->string))
			all = schema_product(c, all, of_list(c, field, field->string, depth), BOTH);
		else if (strcmp(field->string, "not") == 0)
			all = schema_product(c, all, schema_names(c, field, depth + 1), ONLY_FIRST);
		else if (strcmp(field->string, "$ref") == 0) {
			target = schema_resolve(c->root, field);
			if (!target)
				schema_refuse_reference(c, field);
			all = schema_product(c, all, schema_names(c, target, depth + 1), BOTH);
		} else if (json_lists("if $dynamicRef", field->string))
			schema_refuse_keyword(c, field->string, "of names is not supported");
	}
	return all;
}

/* ---- strings as they are ----------------------------------------------------------------------- */

int32_t schema_emit_bare(struct compiler* c, const cJSON* schema, struct language* within, int32_t next) {
	if (c->failed || next == NOWHERE) {
		language_free(within);
		return NOWHERE;
	}
	const bool plain = cJSON_IsString(json_field(schema, "type")) &&
	                   !schema_constrains_beyond(schema, "type minLength maxLength pattern format");
	int least = plain ? schema_count_of(c, schema, "minLength", 0) : 0,
	    most = plain ? schema_count_of(c, schema, "maxLength", -1) : -1;
	struct language* of = plain ? make_string_language(c, schema, false) : schema_names(c, schema, 0);
	struct language* l = schema_product(c, of, within, BOTH);
	if (!l || l->n == 0 || (most >= 0 && most < least)) {
		language_free(l);
		return NOWHERE;
	}
	c->bare = true;
	const int32_t at = emit_counted(c, l, least, most, next);
	c->bare = false;
	return at;
}
