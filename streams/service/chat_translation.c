/* See chat_translation.h. */
#include "streams/service/chat_translation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool translation_open(struct translation* t, cJSON* body, struct api_error* error) {
	*t = (struct translation){.from = body, .to = cJSON_CreateObject(), .error = error};
	t->messages = cJSON_AddArrayToObject(t->to, "messages");
	return t->messages || api_no_memory(error);
}

void translation_close(struct translation* t) {
	cJSON_Delete(t->to);
	t->to = t->messages = NULL;
}

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

static bool is_one_of(const char* name, const char* const* list) {
	for (; *list; list++)
		if (strcmp(name, *list) == 0)
			return true;
	return false;
}

bool translate_fields(struct translation* t, const char* const* same, const char* const* own,
                      const char* const* hints) {
	for (const cJSON* item = t->from->child; item; item = item->next) {
		if (is_one_of(item->string, same))
			translate_as(t, item->string, item->string);
		else if (!is_one_of(item->string, own) && !is_one_of(item->string, hints))
			return api_refuse(t->error, item->string, "unsupported_field",
			                  "The field '%.80s' is not supported.", item->string);
	}
	return true;
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

void translate_tool(struct translation* t, cJSON* tools, const cJSON* tool, const char* parameters) {
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

char* translate_text(struct translation* t, const cJSON* content, const char* field,
                     const char* const* types) {
	struct text all = {0};
	if (cJSON_IsString(content)) {
		text_put(&all, content->valuestring);
	} else if (!cJSON_IsArray(content)) {
		api_refuse(t->error, field, "invalid_type", "'%s' must be a string or an array of text parts.",
		           field);
		return NULL;
	}
	for (const cJSON* part = cJSON_IsArray(content) ? content->child : NULL; part; part = part->next) {
		const char* type = api_text(part, "type");
		const char* text = api_text(part, "text");
		if (!type || !is_one_of(type, types) || !text) {
			text_free(&all);
			api_refuse(t->error, field, "unsupported_field",
			           "'%s' holds a part of type \"%.40s\" or without a text; text is supported.", field,
			           type ? type : "");
			return NULL;
		}
		text_put(&all, text);
	}
	text_put(&all, "");
	char* out = all.failed ? NULL : all.data ? text_take(&all) : strdup("");
	if (!out)
		api_no_memory(t->error);
	text_free(&all);
	return out;
}

bool translate_result(struct translation* t, const char* id, const cJSON* content, const char* field,
                      const char* const* types) {
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

bool translation_read(struct translation* t, int vocab, const char* const (*renamed)[2],
                      struct api_request* q) {
	char* text = t->failed ? NULL : cJSON_PrintUnformatted(t->to);
	const bool good = text ? api_read_chat(text, strlen(text), vocab, q, t->error) : api_no_memory(t->error);
	if (!good)
		rename_error(t->error, renamed);
	cJSON_free(text);
	return good;
}
