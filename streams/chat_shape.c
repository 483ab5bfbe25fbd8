/* See chat_shape.h. */
#include "streams/chat_shape.h"

#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "core/files/json.h"
#include "streams/text.h"

/* ---- what a template can do -------------------------------------------------------------------- */

static const char needle[] = "swiftletAsks4c2e";

struct chat_json chat_json(const char* text) {
	return (struct chat_json){text, text ? strlen(text) : 0};
}

/* True when the rendered text contains the needle, which the conversation or the tools hold. */
static bool prompt_shows(const char* template_text, const struct tokenizer* t, const char* messages,
                         const char* tools) {
	const struct chat_request request = {.messages = chat_json(messages), .tools = chat_json(tools)};
	struct error ignored;
	size_t size;
	char* const text = chat_template_text(template_text, t, &request, &size, &ignored);
	const bool found = text && strstr(text, needle);
	free(text);
	return found;
}

#define USER(content) "{\"role\": \"user\", \"content\": \"" content "\"}"
static const char user[] = "[" USER("x") "]", user_asks[] = "[" USER("swiftletAsks4c2e") "]",
                  system_asks[] =
                      "[{\"role\": \"system\", \"content\": \"swiftletAsks4c2e\"}, " USER("x") "]";
static const char tool[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"swiftletAsks4c2e\", \"description\": \"x\", "
    "\"parameters\": {\"type\": \"object\", \"properties\": {}}}}]";

/* True when a template renders users' messages but not this one. */
static bool leaves_out(const char* template_text, const struct tokenizer* t, const char* messages,
                       const char* tools) {
	return !prompt_shows(template_text, t, messages, tools) &&
	       prompt_shows(template_text, t, user_asks, NULL);
}

bool chat_template_lacks_tools(const char* template_text, const struct tokenizer* t) {
	return leaves_out(template_text, t, user, tool);
}

/* Adds a member where there is none. */
static bool fill_in(cJSON* object, const char* name, const char* json, bool* filled) {
	if (!cJSON_IsObject(object) || json_field(object, name))
		return true;
	*filled = true;
	cJSON* const value = cJSON_Parse(json);
	return value && cJSON_AddItemToObject(object, name, value);
}

char* chat_tools_filled(const char* tools) {
	cJSON* const list = cJSON_Parse(tools);
	bool good = list != NULL, filled = false;
	for (cJSON* one = list ? list->child : NULL; one && good; one = one->next) {
		cJSON* const inner = cJSON_GetObjectItemCaseSensitive(one, "function");
		cJSON* const function = inner ? inner : one;
		good = fill_in(function, "description", "\"\"", &filled) &&
		       fill_in(function, "parameters", "{\"type\": \"object\", \"properties\": {}}", &filled);
		cJSON* const parameters = cJSON_GetObjectItemCaseSensitive(function, "parameters");
		good = good && fill_in(parameters, "properties", "{}", &filled);
		cJSON* const properties = cJSON_GetObjectItemCaseSensitive(parameters, "properties");
		for (cJSON* of = properties ? properties->child : NULL; of && good; of = of->next)
			good = fill_in(of, "description", "\"\"", &filled);
	}
	char* const text = good && filled ? json_print(list) : NULL;
	char* const copy = text ? strdup(text) : NULL;
	cJSON_free(text);
	cJSON_Delete(list);
	return copy;
}

/* ---- messages ------------------------------------------------------------------------------------ */

static const char* text_of(const cJSON* object, const char* name) {
	const char* const text = cJSON_GetStringValue(json_field(object, name));
	return text ? text : "";
}

static bool is_from(const cJSON* message, const char* role) {
	return strcmp(text_of(message, "role"), role) == 0;
}

/* The text is taken. */
static bool set_text(cJSON* message, const char* name, struct text* text) {
	char* const value = text_take(text);
	cJSON* const item = value ? cJSON_CreateString(value) : NULL;
	free(value);
	return item && (cJSON_GetObjectItemCaseSensitive(message, name)
	                    ? cJSON_ReplaceItemInObjectCaseSensitive(message, name, item)
	                    : cJSON_AddItemToObject(message, name, item));
}

static cJSON* new_message(const char* role, struct text* content) {
	cJSON* const message = cJSON_CreateObject();
	if (message && cJSON_AddStringToObject(message, "role", role) && set_text(message, "content", content))
		return message;
	text_free(content);
	cJSON_Delete(message);
	return NULL;
}

static void put_json(struct text* out, const cJSON* value) {
	char* const text = json_print(value);
	out->failed |= !text;
	text_put(out, text ? text : "");
	cJSON_free(text);
}

/* ---- tools as text -------------------------------------------------------------------------------- */

static bool add_tool_list(cJSON* messages, const char* tools) {
	struct text all = {0};
	cJSON* first = messages->child;
	const bool system = first && is_from(first, "system");
	cJSON* const list = cJSON_Parse(tools);
	const cJSON* item;
	if (system)
		text_print(&all, "%s\n\n", text_of(first, "content"));
	text_put(&all, "You may call functions. They are given as JSON, one a line:\n<tools>\n");
	cJSON_ArrayForEach (item, list) {
		put_json(&all, item);
		text_put(&all, "\n");
	}
	text_put(
	    &all,
	    "</tools>\nTo call one, answer with its name and its arguments as JSON, between tags:\n<tool_call>\n"
	    "{\"name\": \"NAME\", \"arguments\": {}}\n</tool_call>");
	all.failed |= !list;
	cJSON_Delete(list);
	if (system)
		return set_text(first, "content", &all);
	cJSON* const message = new_message("system", &all);
	return message && (messages->child ? cJSON_InsertItemInArray(messages, 0, message)
	                                   : cJSON_AddItemToArray(messages, message));
}

/* Turns an assistant's calls into the text that it would have written. */
static bool write_calls(cJSON* message) {
	const cJSON *const calls = json_field(message, "tool_calls"), *call;
	struct text all = {0};
	text_put(&all, text_of(message, "content"));
	cJSON_ArrayForEach (call, calls) {
		const cJSON* const function = json_field(call, "function");
		const cJSON* const arguments = json_field(function, "arguments");
		text_put(&all, all.size ? "\n<tool_call>\n{\"name\": " : "<tool_call>\n{\"name\": ");
		text_quote(&all, text_of(function, "name"), strlen(text_of(function, "name")));
		text_put(&all, ", \"arguments\": ");
		if (cJSON_IsString(arguments))
			text_put(&all, arguments->valuestring);
		else if (arguments)
			put_json(&all, arguments);
		else
			text_put(&all, "{}");
		text_put(&all, "}\n</tool_call>");
	}
	cJSON_DeleteItemFromObjectCaseSensitive(message, "tool_calls");
	return set_text(message, "content", &all);
}

/* Turns a call's result into a user's message. */
static bool write_result(cJSON* message) {
	struct text role = {0}, all = {0};
	text_put(&role, "user");
	text_print(&all, "<tool_response>\n%s\n</tool_response>", text_of(message, "content"));
	return set_text(message, "role", &role) && set_text(message, "content", &all);
}

/* Joins neighbouring messages of one role, because such templates require roles to alternate. */
static bool join_users(cJSON* messages) {
	for (cJSON* message = messages->child; message && message->next;) {
		if (!is_from(message, "user") || !is_from(message->next, "user")) {
			message = message->next;
			continue;
		}
		struct text all = {0};
		text_print(&all, "%s\n%s", text_of(message, "content"), text_of(message->next, "content"));
		cJSON_Delete(cJSON_DetachItemViaPointer(messages, message->next));
		if (!set_text(message, "content", &all))
			return false;
	}
	return true;
}

static bool write_tools(cJSON* messages, const char* tools) {
	bool good = add_tool_list(messages, tools);
	for (cJSON* message = messages->child; message && good; message = message->next)
		if (is_from(message, "assistant") && json_field(message, "tool_calls"))
			good = write_calls(message);
		else if (is_from(message, "tool"))
			good = write_result(message);
	return good && join_users(messages);
}

/* ---- system messages as the user's ------------------------------------------------------------------ */

static bool fold_system(cJSON* messages) {
	struct text all = {0};
	while (messages->child && is_from(messages->child, "system")) {
		text_print(&all, "%s\n\n", text_of(messages->child, "content"));
		cJSON_Delete(cJSON_DetachItemViaPointer(messages, messages->child));
	}
	cJSON* const first = messages->child;
	if (first && is_from(first, "user")) {
		text_put(&all, text_of(first, "content"));
		return set_text(first, "content", &all);
	}
	cJSON* const message = new_message("user", &all);
	return message &&
	       (first ? cJSON_InsertItemInArray(messages, 0, message) : cJSON_AddItemToArray(messages, message));
}

bool chat_shape(const char* template_text, const struct tokenizer* t, struct chat_request* request,
                char** shaped, struct error* error) {
	const bool tools = request->tools.text && chat_template_lacks_tools(template_text, t);
	*shaped = NULL;
	cJSON* const messages = cJSON_ParseWithLength(request->messages.text, request->messages.size);
	if (!messages || !messages->child) {
		cJSON_Delete(messages);
		return messages || error_set(error, "out of memory");
	}
	bool good = !tools || write_tools(messages, request->tools.text);
	const bool fold =
	    good && is_from(messages->child, "system") && leaves_out(template_text, t, system_asks, NULL);
	good = good && (!fold || fold_system(messages));
	if (good && (tools || fold)) {
		char* const text = json_print(messages);
		*shaped = text ? strdup(text) : NULL;
		cJSON_free(text);
		good = *shaped != NULL;
		request->messages = chat_json(*shaped);
		request->tools = tools ? chat_json(NULL) : request->tools;
	}
	cJSON_Delete(messages);
	return good || error_set(error, "out of memory");
}
