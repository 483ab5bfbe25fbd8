/* Fields that give the answer a form: OpenAI's response_format, and vLLM's guided_json, guided_regex,
 * guided_choice, guided_grammar; llama.cpp's grammar. */
#include <stdlib.h>
#include <string.h>

#include "core/grammar/grammar.h"
#include "streams/service/openai_fields.h"

enum { MOST_CHOICES = 1024 };

/* Takes what was compiled; one form an answer. */
static bool take(struct reading* r, const char* name, struct grammar* grammar, const struct error* error) {
	if (!grammar)
		return api_refuse(r->error, name, "invalid_value", "'%.40s': %.400s.", name, error->message);
	if (r->to->grammar) {
		grammar_free(grammar);
		return api_refuse(r->error, name, "invalid_value", "More than one form is asked for.");
	}
	r->to->grammar = grammar;
	return true;
}

static bool take_schema(struct reading* r, const char* name, const cJSON* schema) {
	struct error error = {""};
	char* text = cJSON_IsString(schema) ? NULL : cJSON_PrintUnformatted(schema);
	const char* of = cJSON_IsString(schema) ? schema->valuestring : text;
	if (!of)
		return api_refuse(r->error, name, "invalid_value", "'%.40s' holds no schema.", name);
	struct grammar* grammar = grammar_from_json_schema(of, strlen(of), &error);
	cJSON_free(text);
	return take(r, name, grammar, &error);
}

bool read_response_format(struct reading* r, const char* name) {
	const cJSON* format = reading_get(r, name);
	const char* type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(format, "type"));
	struct error error = {""};
	if (!format || (type && strcmp(type, "text") == 0 && !format->child->next))
		return true;
	if (type && strcmp(type, "json_object") == 0)
		return take(r, name, grammar_from_json_object(&error), &error);
	if (!type || strcmp(type, "json_schema") != 0)
		return api_refuse(r->error, name, "invalid_value",
		                  "'response_format' has a type of \"text\", \"json_object\" or \"json_schema\".");
	const cJSON* of = cJSON_GetObjectItemCaseSensitive(format, "json_schema");
	return take_schema(r, name, cJSON_GetObjectItemCaseSensitive(of, "schema"));
}

static bool take_choices(struct reading* r, const char* name, const cJSON* list) {
	const char* choice[MOST_CHOICES];
	struct error error = {""};
	const cJSON* item;
	int n = 0;
	cJSON_ArrayForEach (item, list) {
		if (!cJSON_IsString(item) || n == MOST_CHOICES)
			return api_refuse(r->error, name, "invalid_value", "'%.40s' is not a list of up to %d strings.",
			                  name, MOST_CHOICES);
		choice[n++] = item->valuestring;
	}
	return take(r, name, grammar_from_choices(choice, n, &error), &error);
}

bool read_guided(struct reading* r, const char* name) {
	const cJSON* value = reading_get(r, name);
	struct error error = {""};
	if (!value)
		return true;
	if (strcmp(name, "guided_json") == 0)
		return take_schema(r, name, value);
	if (strcmp(name, "guided_choice") == 0)
		return take_choices(r, name, value);
	if (!cJSON_IsString(value))
		return api_refuse(r->error, name, "invalid_value", "'%.40s' is not a string.", name);
	if (strcmp(name, "guided_regex") != 0)
		return take(r, name, grammar_from_gbnf(value->valuestring, strlen(value->valuestring), &error),
		            &error);
	return take(r, name, grammar_from_regex(value->valuestring, strlen(value->valuestring), &error), &error);
}
