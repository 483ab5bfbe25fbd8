/* See custom_tools.h. */
#include "streams/service/custom_tools.h"

#include <string.h>

#include "core/files/json.h"

bool custom_tools_have(const struct generation* g, const struct tool_call* call) {
	return g->request.custom_tools && json_lists(g->request.custom_tools, call->name);
}

char* custom_tools_input(const struct tool_call* call) {
	cJSON* arguments = cJSON_Parse(call->arguments ? call->arguments : "");
	const char* input = api_text(arguments, "input");
	char* text = strdup(input ? input : call->arguments ? call->arguments : "");
	cJSON_Delete(arguments);
	return text;
}

/* Parses text that was made here, and takes it over. */
static cJSON* parse_text(struct text* text) {
	cJSON* json = text->failed || !text->data ? NULL : cJSON_Parse(text->data);
	text_free(text);
	return json;
}

static cJSON* function_of(const cJSON* custom) {
	const char* description = api_text(custom, "description");
	const cJSON* format = json_field(custom, "format");
	const cJSON* grammar = json_field(format, "grammar");
	const char* definition = api_text(grammar ? grammar : format, "definition");
	struct text all = {0}, to = {0};
	text_print(&all, "%s%s%s", description ? description : "",
	           definition ? "\nThe input keeps this grammar:\n" : "", definition ? definition : "");
	text_json(
	    &to,
	    "{'type': 'function', 'function': {'name': %q, 'description': %q, 'parameters': {'type': 'object', "
	    "'properties': {'input': {'type': 'string'}}, 'required': ['input'], 'additionalProperties': "
	    "false}}}",
	    api_text(custom, "name"), all.data ? all.data : "");
	to.failed |= all.failed;
	text_free(&all);
	return parse_text(&to);
}

/* The tool as a function. NULL with the error set. */
static cJSON* rewritten_tool(const cJSON* tool, struct text* names, struct api_error* e) {
	const cJSON *custom = json_field(tool, "custom"), *function = json_field(tool, "function");
	const bool text = api_is(tool, "type", "custom");
	const cJSON* named = text ? custom : function ? function : tool;
	if (!api_text(named, "name")) {
		api_refuse(e, "tools", "invalid_value",
		           "'tools' must hold objects such as {\"type\": \"function\", \"function\": {\"name\": "
		           "\"get_weather\", \"parameters\": {...}}}, each with a name.");
		return NULL;
	}
	cJSON* made = text ? function_of(custom) : cJSON_Duplicate(tool, true);
	if (text)
		text_print(names, names->size ? " %s" : "%s", api_text(custom, "name"));
	if (!made || names->failed) {
		cJSON_Delete(made);
		api_no_memory(e);
		return NULL;
	}
	return made;
}

/* {"type": "custom", "custom": {…}} as {"type": "function", "function": {…}}. True: it was one. */
static bool rename_custom(cJSON* object) {
	cJSON* custom = cJSON_GetObjectItemCaseSensitive(object, "custom");
	if (!api_is(object, "type", "custom") || !cJSON_IsObject(custom))
		return false;
	custom = cJSON_DetachItemViaPointer(object, custom);
	cJSON_ReplaceItemInObjectCaseSensitive(object, "type", cJSON_CreateString("function"));
	return cJSON_AddItemToObject(object, "function", custom);
}

static bool rewrite_choice(cJSON* choice) {
	cJSON* allowed = cJSON_GetObjectItemCaseSensitive(choice, "allowed_tools");
	cJSON *list = cJSON_GetObjectItemCaseSensitive(allowed ? allowed : choice, "tools"), *one;
	bool any = cJSON_IsObject(choice) && rename_custom(choice);
	cJSON_ArrayForEach (one, list)
		any |= rename_custom(one);
	return any;
}

/* Calls of earlier turns. */
static bool rewrite_calls(cJSON* messages) {
	cJSON *message, *call;
	bool any = false;
	cJSON_ArrayForEach (message, messages)
		cJSON_ArrayForEach (call, cJSON_GetObjectItemCaseSensitive(message, "tool_calls")) {
			if (!rename_custom(call))
				continue;
			cJSON* function = cJSON_GetObjectItemCaseSensitive(call, "function");
			const char* input = api_text(function, "input");
			struct text arguments = {0};
			text_json(&arguments, "{'input': %q}", input ? input : "");
			cJSON_DeleteItemFromObjectCaseSensitive(function, "input");
			cJSON_AddStringToObject(function, "arguments", arguments.data ? arguments.data : "{}");
			text_free(&arguments);
			any = true;
		}
	return any;
}

int custom_tools_rewrite(cJSON* body, struct text* names, struct text* ignored, struct api_error* e) {
	const cJSON *tools = cJSON_GetObjectItemCaseSensitive(body, "tools"), *tool;
	bool any = rewrite_calls(cJSON_GetObjectItemCaseSensitive(body, "messages"));
	if (!cJSON_IsArray(tools))
		return any;
	any |= rewrite_choice(cJSON_GetObjectItemCaseSensitive(body, "tool_choice"));
	cJSON* list = cJSON_CreateArray();
	cJSON_ArrayForEach (tool, tools) {
		const char* type = api_text(tool, "type");
		const bool hosted = type && !json_lists("function custom", type) && !json_field(tool, "function");
		any |= type && strcmp(type, "function") != 0;
		if (hosted) {
			api_ignore_name(ignored, "tools.", type);
			continue;
		}
		cJSON* made = list ? rewritten_tool(tool, names, e) : NULL;
		if (!made) {
			cJSON_Delete(list);
			return list ? -1 : (api_no_memory(e), -1);
		}
		cJSON_AddItemToArray(list, made);
	}
	if (any && list)
		cJSON_ReplaceItemInObjectCaseSensitive(body, "tools", list);
	else
		cJSON_Delete(list);
	return any;
}
