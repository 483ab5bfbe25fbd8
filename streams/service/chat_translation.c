/* See chat_translation.h. */
#include "streams/service/chat_translation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/files/json.h"

/* Takes the value over. */
static void add(struct translation* t, cJSON* object, const char* name, cJSON* value) {
	if (!value || !cJSON_AddItemToObject(object, name, value)) {
		cJSON_Delete(value);
		t->failed = true;
	}
}

static void append(struct translation* t, cJSON* list, cJSON* value) {
	if (!value || !cJSON_AddItemToArray(list, value)) {
		cJSON_Delete(value);
		t->failed = true;
	}
}

void translate_as(struct translation* t, const char* name, const char* as) {
	const cJSON* value = api_get(t->from, name);
	if (value)
		add(t, t->to, as, cJSON_Duplicate(value, true));
}

cJSON* translate_message(struct translation* t, const char* role, const char* text) {
	cJSON* message = cJSON_CreateObject();
	append(t, t->messages, message);
	if (t->failed)
		return NULL;
	add(t, message, "role", cJSON_CreateString(role));
	add(t, message, "content", text ? cJSON_CreateString(text) : cJSON_CreateNull());
	return t->failed ? NULL : message;
}

void translate_call(struct translation* t, const char* id, const char* name, const char* arguments) {
	cJSON* last = cJSON_GetArrayItem(t->messages, cJSON_GetArraySize(t->messages) - 1);
	const char* role = api_text(last, "role");
	if (!role || strcmp(role, "assistant") != 0)
		last = translate_message(t, "assistant", NULL);
	cJSON* calls = last ? cJSON_GetObjectItemCaseSensitive(last, "tool_calls") : NULL;
	if (last && !calls)
		calls = cJSON_AddArrayToObject(last, "tool_calls");
	cJSON* call = calls ? cJSON_CreateObject() : NULL;
	if (!call) {
		t->failed = true;
		return;
	}
	append(t, calls, call);
	if (t->failed)
		return;
	add(t, call, "id", cJSON_CreateString(id));
	add(t, call, "type", cJSON_CreateString("function"));
	cJSON* function = cJSON_AddObjectToObject(call, "function");
	if (function) {
		add(t, function, "name", cJSON_CreateString(name));
		add(t, function, "arguments", cJSON_CreateString(arguments));
	} else
		t->failed = true;
}

static void translate_tool(struct translation* t, cJSON* tools, const cJSON* tool, const char* parameters) {
	const char* const members[][2] = {
	    {"name", "name"}, {"description", "description"}, {parameters, "parameters"}, {"strict", "strict"}};
	cJSON* translated = cJSON_CreateObject();
	append(t, tools, translated);
	cJSON* function = t->failed ? NULL : cJSON_AddObjectToObject(translated, "function");
	if (!function) {
		t->failed = true;
		return;
	}
	add(t, translated, "type", cJSON_CreateString("function"));
	for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
		const cJSON* value = api_get(tool, members[i][0]);
		if (value)
			add(t, function, members[i][1], cJSON_Duplicate(value, true));
	}
}

bool translate_tools(struct translation* t, const char* kind, const char* otherwise, const char* parameters) {
	const cJSON *tools = api_get(t->from, "tools"), *tool;
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

char* translate_text(struct translation* t, const cJSON* content, const char* field, const char* types) {
	return api_texts(content, field, field, types, t->error);
}

bool translate_result(struct translation* t, const char* id, const cJSON* content, const char* field,
                      const char* types) {
	char* text = translate_text(t, content, field, types);
	cJSON* message = text ? translate_message(t, "tool", text) : NULL;
	if (message)
		add(t, message, "tool_call_id", cJSON_CreateString(id));
	free(text);
	return text != NULL;
}

void translate_choice(struct translation* t, const char* name) {
	cJSON* choice = cJSON_AddObjectToObject(t->to, "tool_choice");
	cJSON* function = choice ? cJSON_AddObjectToObject(choice, "function") : NULL;
	t->failed |= !function || !cJSON_AddStringToObject(choice, "type", "function") ||
	             !cJSON_AddStringToObject(function, "name", name);
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
			return api_refuse(t->error, item->string, "unsupported_field",
			                  "The field '%.80s' is not supported.", item->string);
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
	t.messages = cJSON_AddArrayToObject(t.to, "messages");
	bool good = t.messages ? translate_fields(&t, how) && how->read(&t) : api_no_memory(e);
	char* text = good && !t.failed ? cJSON_PrintUnformatted(t.to) : NULL;
	if (good && !text)
		good = api_no_memory(e);
	if (good && !api_read_chat(text, strlen(text), vocab, q, e)) {
		rename_error(e, how->renamed);
		good = false;
	}
	if (good && how->echo && !(q->echoed = how->echo(t.from))) {
		api_request_free(q);
		good = api_no_memory(e);
	}
	cJSON_free(text);
	cJSON_Delete(t.to);
	cJSON_Delete(t.from);
	return good;
}
