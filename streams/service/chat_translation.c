/* See chat_translation.h. */
#include "streams/service/chat_translation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void translate_add(struct translation* t, cJSON* object, const char* name, cJSON* value) {
	if (!value || !cJSON_AddItemToObject(object, name, value)) {
		cJSON_Delete(value);
		t->failed = true;
	}
}

cJSON* translate_object(struct translation* t, cJSON* object, const char* name) {
	cJSON* added = cJSON_AddObjectToObject(object, name);
	t->failed |= !added;
	return added;
}

static cJSON* append_object(struct translation* t, cJSON* list) {
	cJSON* object = cJSON_CreateObject();
	if (object && cJSON_AddItemToArray(list, object))
		return object;
	cJSON_Delete(object);
	t->failed = true;
	return NULL;
}

void translate_as(struct translation* t, const char* name, const char* as) {
	const cJSON* value = json_field(t->from, name);
	if (value)
		translate_add(t, t->to, as, cJSON_Duplicate(value, true));
}

cJSON* translate_message(struct translation* t, const char* role, const char* text) {
	cJSON* message = append_object(t, t->messages);
	translate_add(t, message, "role", cJSON_CreateString(role));
	translate_add(t, message, "content", text ? cJSON_CreateString(text) : cJSON_CreateNull());
	return message;
}

void translate_call(struct translation* t, const char* id, const char* name, const char* arguments) {
	cJSON* last = cJSON_GetArrayItem(t->messages, cJSON_GetArraySize(t->messages) - 1);
	const char* role = api_text(last, "role");
	if (!role || strcmp(role, "assistant") != 0)
		last = translate_message(t, "assistant", NULL);
	cJSON* calls = cJSON_GetObjectItemCaseSensitive(last, "tool_calls");
	cJSON* call = append_object(t, calls ? calls : cJSON_AddArrayToObject(last, "tool_calls"));
	translate_add(t, call, "id", cJSON_CreateString(id));
	translate_add(t, call, "type", cJSON_CreateString("function"));
	cJSON* function = translate_object(t, call, "function");
	translate_add(t, function, "name", cJSON_CreateString(name));
	translate_add(t, function, "arguments", cJSON_CreateString(arguments));
}

static void translate_tool(struct translation* t, cJSON* tools, const cJSON* tool, const char* parameters) {
	const char* const members[][2] = {
	    {"name", "name"}, {"description", "description"}, {parameters, "parameters"}, {"strict", "strict"}};
	cJSON* translated = append_object(t, tools);
	cJSON* function = translate_object(t, translated, "function");
	translate_add(t, translated, "type", cJSON_CreateString("function"));
	for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
		const cJSON* value = json_field(tool, members[i][0]);
		if (value)
			translate_add(t, function, members[i][1], cJSON_Duplicate(value, true));
	}
}

bool translate_tools(struct translation* t, const char* kind, const char* otherwise, const char* parameters) {
	const cJSON *tools = json_field(t->from, "tools"), *tool;
	if (tools && !cJSON_IsArray(tools))
		return api_refuse(t->error, "tools", "invalid_type", "'tools' must be an array.");
	cJSON* list = tools ? cJSON_AddArrayToObject(t->to, "tools") : NULL;
	cJSON_ArrayForEach (tool, tools) {
		const char* type = api_text(tool, "type");
		if (strcmp(type ? type : otherwise, kind) != 0 || !api_text(tool, "name"))
			return api_refuse(t->error, "tools", "unsupported_field",
			                  "A tool of type \"%.40s\" is not supported; \"%s\", with a name, is.",
			                  type ? type : otherwise, kind);
		translate_tool(t, list, tool, parameters);
	}
	return true;
}

bool translate_result(struct translation* t, const char* id, const cJSON* content, const char* field,
                      const char* types) {
	char* text = api_texts(content, field, field, types, t->error);
	cJSON* message = text ? translate_message(t, "tool", text) : NULL;
	if (message)
		translate_add(t, message, "tool_call_id", cJSON_CreateString(id));
	free(text);
	return text != NULL;
}

void translate_choice(struct translation* t, const char* name) {
	cJSON* choice = translate_object(t, t->to, "tool_choice");
	translate_add(t, choice, "type", cJSON_CreateString("function"));
	translate_add(t, translate_object(t, choice, "function"), "name", cJSON_CreateString(name));
}

/* "messages[3].content" is of "messages" too. */
static void rename_error(struct api_error* error, const char* const (*renamed)[2]) {
	for (; (*renamed)[0]; renamed++)
		if (strncmp(error->param, (*renamed)[0], strlen((*renamed)[0])) == 0) {
			snprintf(error->param, sizeof error->param, "%s", (*renamed)[1]);
			return;
		}
}

static bool translate_fields(struct translation* t, const struct translator* how) {
	for (const cJSON* item = t->from->child; item; item = item->next) {
		if (json_lists(how->same, item->string))
			translate_as(t, item->string, item->string);
		else if (!json_lists(how->own, item->string) && !json_lists(how->hints, item->string))
			return api_unknown(t->error, item->string);
	}
	return true;
}

bool translation_read(const struct translator* how, const char* body, size_t size, int vocab,
                      struct api_request* q, struct api_error* e) {
	struct translation t = {.from = api_parse(body, size, e), .error = e};
	memset(q, 0, sizeof *q);
	if (!t.from)
		return false;
	t.to = cJSON_CreateObject();
	t.messages = how->completion ? NULL : cJSON_AddArrayToObject(t.to, "messages");
	bool good = translate_fields(&t, how) && how->read(&t);
	char* text = good && !t.failed ? cJSON_PrintUnformatted(t.to) : NULL;
	if (good && !text)
		good = api_no_memory(e);
	if (good && !(how->completion ? api_read_completion : api_read_chat)(text, strlen(text), vocab, q, e)) {
		rename_error(e, how->renamed);
		good = false;
	}
	if (good && how->finish && !how->finish(t.from, q)) {
		api_request_free(q);
		good = api_no_memory(e);
	}
	cJSON_free(text);
	cJSON_Delete(t.to);
	cJSON_Delete(t.from);
	return good;
}
