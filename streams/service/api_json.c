/* Checks before parsing, typed fields after it; api_json.h explains why. */
#include "streams/service/api_json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "streams/json_text.h"
#include "streams/mask_file.h"

/* ---- errors ------------------------------------------------------------------------------- */

static void write_error(struct api_error* e, int status, const char* param, const char* code,
                        const char* format, va_list arguments) {
	memset(e, 0, sizeof *e);
	e->status = status;
	e->type = status == 429                    ? "rate_limit_error"
	          : status == 500 || status == 503 ? "server_error"
	                                           : "invalid_request_error";
	snprintf(e->param, sizeof e->param, "%s", param ? param : "");
	snprintf(e->code, sizeof e->code, "%s", code ? code : "");
	vsnprintf(e->message, sizeof e->message, format, arguments);
}

bool api_refuse(struct api_error* e, const char* param, const char* code, const char* format, ...) {
	va_list arguments;
	va_start(arguments, format);
	write_error(e, 400, param, code, format, arguments);
	va_end(arguments);
	return false;
}

bool api_fail(struct api_error* e, int status, const char* code, const char* format, ...) {
	va_list arguments;
	va_start(arguments, format);
	write_error(e, status, NULL, code, format, arguments);
	va_end(arguments);
	return false;
}

bool api_no_memory(struct api_error* e) { return api_fail(e, 500, NULL, "The server is out of memory."); }

bool api_unknown(struct api_error* e, const char* field) {
	return api_refuse(e, field, "unsupported_field", "The field '%.80s' is unknown: leave it out.", field);
}

char* api_error_text(const struct api_error* e) {
	struct text out = {0};
	text_json(&out, "{'error': {'message': %q, 'type': '%s', 'param': %q, 'code': %q}}\n", e->message,
	          e->type, e->param[0] ? e->param : NULL, e->code[0] ? e->code : NULL);
	return text_take(&out);
}

/* ---- the body ----------------------------------------------------------------------------- */

/* An upper bound on the values in a checked text: its commas, brackets and colons outside of strings. */
static size_t count_values(const char* text, size_t size) {
	size_t n = 1;
	bool inside = false;
	for (size_t i = 0; i < size; i++) {
		const char c = text[i];
		if (inside && c == '\\')
			i++;
		else if (c == '"')
			inside = !inside;
		else if (!inside && (c == ',' || c == '[' || c == '{' || c == ':'))
			n++;
	}
	return n;
}

static int compare_names(const void* a, const void* b) {
	return strcmp((*(const cJSON* const*)a)->string, (*(const cJSON* const*)b)->string);
}

/* n: the object's members. */
static bool names_differ(const cJSON* object, size_t n, struct api_error* e) {
	const cJSON** member = malloc((n + 1) * sizeof *member);
	if (!member)
		return api_no_memory(e);
	n = 0;
	for (const cJSON* item = object->child; item; item = item->next)
		member[n++] = item;
	qsort(member, n, sizeof *member, compare_names);
	bool differ = true;
	for (size_t i = 1; i < n && differ; i++)
		differ = compare_names(member + i - 1, member + i) != 0 ||
		         api_refuse(e, member[i]->string, "duplicate_key", "The key '%.80s' is given twice.",
		                    member[i]->string);
	free(member);
	return differ;
}

/* Other code searches members one by one, but not those of a map from names to numbers. */
static bool object_is_good(const cJSON* object, struct api_error* e) {
	size_t n = 0;
	bool numbers = true;
	for (const cJSON* item = object->child; item; item = item->next, n++)
		numbers &= cJSON_IsNumber(item) || cJSON_IsFalse(item);
	const int most = numbers ? API_MAX_NUMBERS : API_MAX_KEYS;
	if (n > (size_t)most)
		return api_refuse(e, NULL, NULL, "An object has more than %d members.", most);
	return names_differ(object, n, e);
}

/* cJSON keeps both members of a repeated name. json_check bounds the depth. */
static bool objects_are_good(const cJSON* value, struct api_error* e) {
	if (cJSON_IsObject(value) && !object_is_good(value, e))
		return false;
	for (const cJSON* item = value->child; item; item = item->next)
		if (item->child && !objects_are_good(item, e))
			return false;
	return true;
}

cJSON* api_parse(const char* body, size_t size, struct api_error* e) {
	struct error why;
	cJSON* json = NULL;
	if (size == 0)
		api_refuse(e, NULL, NULL, "The request has no body; a JSON object is expected.");
	else if (!json_check(body, size, &why))
		api_refuse(e, NULL, "invalid_json", "The body is %.300s", why.message);
	else if (count_values(body, size) > API_MAX_VALUES)
		api_refuse(e, NULL, NULL, "The body holds more than %d values.", API_MAX_VALUES);
	else if (!(json = json_parse(body, size, "the body", &why)))
		api_refuse(e, NULL, "invalid_json", "The body could not be parsed.");
	else if (!cJSON_IsObject(json))
		api_refuse(e, NULL, NULL, "The body is not a JSON object.");
	else if (objects_are_good(json, e))
		return json;
	cJSON_Delete(json);
	return NULL;
}

/* ---- fields ------------------------------------------------------------------------------- */

const char* api_text(const cJSON* object, const char* name) {
	return cJSON_GetStringValue(json_field(object, name));
}

bool api_is(const cJSON* object, const char* name, const char* text) {
	const char* is = api_text(object, name);
	return is && strcmp(is, text) == 0;
}

bool api_ends(const char* text, const char* end) {
	const size_t n = strlen(text), m = strlen(end);
	return n >= m && strcmp(text + n - m, end) == 0;
}

void api_put(struct text* out, const cJSON* value) {
	char* text = json_print(value);
	out->failed |= !text;
	text_put(out, text ? text : "");
	cJSON_free(text);
}

static const cJSON* find_field(const cJSON* object, const char* name) {
	const char* dot = strrchr(name, '.');
	return json_field(object, dot ? dot + 1 : name);
}

bool api_number(const cJSON* object, const char* name, double least, double most, bool whole, double* out,
                struct api_error* e) {
	const cJSON* value = find_field(object, name);
	if (!value)
		return true;
	const char* kind = whole ? "a whole number" : "a number";
	if (!cJSON_IsNumber(value))
		return api_refuse(e, name, "invalid_type", "'%s' must be %s.", name, kind);
	const double v = value->valuedouble;
	if (!isfinite(v) || v < least || v > most || (whole && v != floor(v)))
		return api_refuse(e, name, "invalid_value", "'%s' must be %s from %.17g to %.17g; %.6g was given.",
		                  name, kind, least, most, v);
	*out = v;
	return true;
}

bool api_int(const cJSON* object, const char* name, double least, double most, int* out,
             struct api_error* e) {
	double v = *out;
	if (!api_number(object, name, least, most, true, &v, e))
		return false;
	*out = (int)v;
	return true;
}

bool api_flag(const cJSON* object, const char* name, bool* out, struct api_error* e) {
	const cJSON* value = find_field(object, name);
	if (value && !cJSON_IsBool(value))
		return api_refuse(e, name, "invalid_type", "'%s' must be true or false.", name);
	if (value)
		*out = cJSON_IsTrue(value);
	return true;
}

bool api_string(const cJSON* object, const char* name, size_t limit, const char** out, struct api_error* e) {
	const cJSON* value = find_field(object, name);
	if (!value)
		return true;
	if (!cJSON_IsString(value))
		return api_refuse(e, name, "invalid_type", "'%s' must be a string.", name);
	if (strlen(value->valuestring) > limit)
		return api_refuse(e, name, "invalid_value", "'%s' is longer than %zu bytes.", name, limit);
	*out = value->valuestring;
	return true;
}

char* api_texts(const cJSON* content, const char* field, const char* name, const char* types,
                struct api_error* e) {
	const char* whole = cJSON_GetStringValue(content);
	struct text all = {0};
	const cJSON* part;
	if (!whole && !cJSON_IsArray(content)) {
		api_refuse(e, field, "invalid_type", "'%s' must be a string or an array of text parts.", name);
		return NULL;
	}
	text_put(&all, whole ? whole : "");
	cJSON_ArrayForEach (part, content) {
		const char* type = api_text(part, "type");
		const char* text = api_text(part, type && strcmp(type, "refusal") == 0 ? "refusal" : "text");
		if (!type || !text || !json_lists(types, type)) {
			api_refuse(
			    e, field, "unsupported_field",
			    "'%s' holds a part of type \"%.40s\", or a part without a text; this model reads only text.",
			    name, type ? type : "");
			text_free(&all);
			return NULL;
		}
		text_put(&all, text);
	}
	char* out = text_take(&all);
	if (!out)
		api_no_memory(e);
	return out;
}

int api_tokens(const cJSON* list, const char* name, int vocab, int32_t* out, int most, struct api_error* e) {
	const cJSON* item;
	int n = 0;
	if (!cJSON_IsArray(list))
		return api_refuse(e, name, "invalid_type", "'%s' must be an array of tokens.", name) - 1;
	cJSON_ArrayForEach (item, list) {
		const double v = cJSON_IsNumber(item) ? item->valuedouble : NAN;
		if (!(v >= 0 && v < vocab) || v != floor(v) || n == most)
			return api_refuse(e, name, "invalid_value",
			                  "'%s' must hold at most %d tokens, whole numbers from 0 to %d.", name, most,
			                  vocab - 1) -
			       1;
		out[n++] = (int32_t)v;
	}
	return n;
}

bool api_only(const cJSON* object, const char* known, struct api_error* e) {
	for (const cJSON* item = object->child; item; item = item->next)
		if (!cJSON_IsNull(item) && !json_lists(known, item->string))
			return api_unknown(e, item->string);
	return true;
}

/* ---- masks -------------------------------------------------------------------------------- */

bool api_mask(const cJSON* object, int blocks, bool states, struct mask* out, struct api_error* e) {
	static const char* const name[] = {"attention", "mlp"};
	struct error why;
	memset(out, 0, sizeof *out);
	for (int kind = 0; kind < 2; kind++)
		if (find_field(object, name[kind]) && !mask_read_blocks(object, name[kind], kind, blocks, out, &why))
			return api_refuse(e, name[kind], "invalid_value", "%s.", why.message);
	if (states && !mask_read_levels(object, out))
		return api_refuse(e, "levels", "invalid_value", "'levels' must be %s.", MASK_LEVELS);
	for (int kind = 0; kind < 2; kind++)
		if (mask_has(out, kind) || mask_has(out, 2 * (blocks - 1) + kind))
			return api_refuse(e, name[kind], "invalid_value",
			                  "The first and the last block are never skipped.");
	return true;
}
