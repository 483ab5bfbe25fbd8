/* What a request is about: prompts, messages, a prediction, tools. */
#include "streams/service/openai_fields.h"

#include <stdlib.h>
#include <string.h>

/* ---- prompts ------------------------------------------------------------------------------ */

static bool read_text_prompt(struct reading* r, const cJSON* item, struct api_prompt* p) {
	p->text_size = strlen(item->valuestring);
	return reading_copy(r, item->valuestring, &p->text);
}

static bool read_id_prompt(struct reading* r, const cJSON* list, struct api_prompt* p) {
	const int n = cJSON_GetArraySize(list);
	if (n < 1)
		return api_refuse(r->error, "prompt", "invalid_value", "'prompt' holds an empty array.");
	p->id = malloc((size_t)n * sizeof *p->id);
	if (!p->id)
		return api_no_memory(r->error);
	p->n = api_tokens(list, "prompt", r->vocab, p->id, n, r->error);
	return p->n > 0;
}

static bool read_one_prompt(struct reading* r, const cJSON* item) {
	struct api_prompt* p = &r->to->prompt[r->to->n_prompts++];
	if (cJSON_IsString(item))
		return read_text_prompt(r, item, p);
	if (cJSON_IsArray(item))
		return read_id_prompt(r, item, p);
	return api_refuse(r->error, "prompt", "invalid_type",
	                  "'prompt' must be a string, an array of strings, an array of tokens or an array of "
	                  "arrays of tokens.");
}

bool read_prompt(struct reading* r, const char* name) {
	const cJSON* prompt = reading_get(r, name);
	if (!prompt)
		return api_refuse(r->error, name, "missing_required_parameter", "'prompt' is required.");
	/* an array of numbers is one prompt; any other array is one of prompts, all of one kind */
	const bool several = cJSON_IsArray(prompt) && prompt->child && !cJSON_IsNumber(prompt->child);
	const int n = several ? cJSON_GetArraySize(prompt) : 1;
	if (n > API_MAX_CHOICES)
		return api_refuse(r->error, name, "invalid_value", "'prompt' holds more than %d prompts.",
		                  API_MAX_CHOICES);
	r->to->prompt = calloc((size_t)n, sizeof *r->to->prompt);
	if (!r->to->prompt)
		return api_no_memory(r->error);
	if (!several)
		return read_one_prompt(r, prompt);
	for (const cJSON* item = prompt->child; item; item = item->next) {
		if ((item->type & 0xff) != (prompt->child->type & 0xff))
			return api_refuse(r->error, name, "invalid_type", "'prompt' mixes strings and tokens.");
		if (!read_one_prompt(r, item))
			return false;
	}
	return true;
}

/* ---- messages ----------------------------------------------------------------------------- */

/* Messages, tools, documents and chat_template_kwargs. */
bool read_chat(struct reading* r, const char* name) {
	struct error error;
	const char* field = name;
	return chat_parts_read(r->text, r->size, &r->to->parts, &field, &error) ||
	       api_refuse(r->error, field, "invalid_value", "%.300s", error.message);
}

/* OpenAI's {"type": "content", "content"}: a text that the output is expected to follow. */
bool read_prediction(struct reading* r, const char* name) {
	const cJSON* prediction = reading_get(r, name);
	if (!prediction)
		return true;
	const cJSON* type = cJSON_GetObjectItemCaseSensitive(prediction, "type");
	if (!cJSON_IsString(type) || strcmp(type->valuestring, "content") != 0)
		return api_refuse(r->error, name, "invalid_value",
		                  "'prediction' must be an object with \"type\": \"content\" and \"content\".");
	const cJSON* content = cJSON_GetObjectItemCaseSensitive(prediction, "content");
	r->to->prediction = api_texts(content, name, "prediction.content", "text", r->error);
	r->to->prediction_size = r->to->prediction ? strlen(r->to->prediction) : 0;
	return r->to->prediction != NULL;
}

/* ---- tools -------------------------------------------------------------------------------- */

static bool read_tool_name(struct reading* r, const char* name, const cJSON* choice) {
	const cJSON* function = cJSON_GetObjectItemCaseSensitive(choice, "function");
	const cJSON* wanted = cJSON_GetObjectItemCaseSensitive(function, "name");
	const char* text = cJSON_IsString(wanted) ? wanted->valuestring : "";
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
	if (!*text || strlen(text) > 64 || text[strspn(text, letters)])
		return api_refuse(
		    r->error, name, "invalid_value",
		    "'tool_choice' must be \"none\", \"auto\", \"required\" or {\"type\": \"function\", "
		    "\"function\": {\"name\"}}.");
	for (const cJSON* tool = reading_get(r, "tools") ? reading_get(r, "tools")->child : NULL; tool;
	     tool = tool->next) {
		const cJSON* known = cJSON_GetObjectItemCaseSensitive(tool, "function");
		known = cJSON_GetObjectItemCaseSensitive(known, "name");
		if (cJSON_IsString(known) && strcmp(known->valuestring, text) == 0)
			return reading_copy(r, text, &r->to->tool_name);
	}
	return api_refuse(r->error, name, "invalid_value",
	                  "'tool_choice' names '%.64s', which is none of 'tools'.", text);
}

bool read_tool_choice(struct reading* r, const char* name) {
	struct api_request* q = r->to;
	const cJSON* v = reading_get(r, name);
	const bool any = reading_get(r, "tools") && reading_get(r, "tools")->child;
	const char* word = cJSON_IsString(v) ? v->valuestring : "";
	q->tool_choice = any ? TOOLS_AUTO : TOOLS_NONE;
	if (!v || strcmp(word, "auto") == 0)
		return true;
	if (strcmp(word, "none") == 0) { /* the template is told of none */
		free(q->parts.tools);
		q->parts.tools = NULL;
		q->tool_choice = TOOLS_NONE;
		return true;
	}
	if (!any)
		return api_refuse(r->error, name, "invalid_value", "'tool_choice' needs 'tools'.");
	q->tool_choice = TOOLS_REQUIRED;
	return strcmp(word, "required") == 0 || read_tool_name(r, name, v);
}

bool read_parallel(struct reading* r, const char* name) {
	bool parallel = true;
	if (!api_flag(r->body, name, &parallel, r->error))
		return false;
	r->to->one_tool_call = !parallel;
	return true;
}
