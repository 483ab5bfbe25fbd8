/* Rewrites OpenAI's legacy functions as tools. */
#include "streams/service/legacy_functions.h"

#include <string.h>

#include "core/files/json.h"

/* Makes [{"type": "function", "function": {"name", …}}] of [{"name", …}]; NULL on no memory. Moves the
 * functions. */
static cJSON* tools_of(cJSON* functions) {
	cJSON* const tools = cJSON_CreateArray();
	for (cJSON *f = functions->child, *next; f && tools; f = next) {
		next = f->next;
		cJSON* const tool = cJSON_CreateObject();
		if (!tool || !cJSON_AddStringToObject(tool, "type", "function")) {
			cJSON_Delete(tool);
			cJSON_Delete(tools);
			return NULL;
		}
		cJSON_AddItemToObject(tool, "function", cJSON_DetachItemViaPointer(functions, f));
		cJSON_AddItemToArray(tools, tool);
	}
	return tools;
}

/* Makes a tool_choice of "auto", "none" or {"name"}. */
static cJSON* choice_of(const cJSON* call) {
	const char* const name = api_text(call, "name");
	if (cJSON_IsString(call))
		return cJSON_CreateString(call->valuestring);
	cJSON* const choice = cJSON_CreateObject();
	cJSON* const function = choice ? cJSON_AddObjectToObject(choice, "function") : NULL;
	if (!function || !cJSON_AddStringToObject(choice, "type", "function") ||
	    !cJSON_AddStringToObject(function, "name", name ? name : "")) {
		cJSON_Delete(choice);
		return NULL;
	}
	return choice;
}

int legacy_functions_rewrite(cJSON* body, struct api_error* e) {
	cJSON* const functions = cJSON_GetObjectItemCaseSensitive(body, "functions");
	const cJSON* const call = json_field(body, "function_call");
	if (!cJSON_IsArray(functions) || !functions->child || json_field(body, "tools"))
		return 0;
	for (const cJSON* f = functions->child; f; f = f->next)
		if (!api_text(f, "name")) {
			api_refuse(e, "functions", "invalid_value",
			           "'functions' must be a list of objects, each with a name.");
			return -1;
		}
	if (call && !cJSON_IsString(call) && !api_text(call, "name")) {
		api_refuse(e, "function_call", "invalid_value",
		           "'function_call' must be \"none\", \"auto\" or {\"name\"}.");
		return -1;
	}
	cJSON* const tools = tools_of(functions);
	cJSON* const choice = call ? choice_of(call) : NULL;
	if (!tools || (call && !choice)) {
		cJSON_Delete(tools);
		cJSON_Delete(choice);
		api_no_memory(e);
		return -1;
	}
	cJSON_DeleteItemFromObjectCaseSensitive(body, "functions");
	cJSON_DeleteItemFromObjectCaseSensitive(body, "function_call");
	cJSON_DeleteItemFromObjectCaseSensitive(body, "tools"); /* null */
	cJSON_AddItemToObject(body, "tools", tools);
	if (choice)
		cJSON_AddItemToObject(body, "tool_choice", choice);
	return 1;
}
