/* See chat_translation.h. */
#include "streams/service/chat_translation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct text* translate_member(struct translation* t, const char* name) {
	text_json(&t->to, t->to.size ? ", %q: " : "{%q: ", name);
	return &t->to;
}

/* ---- messages ----------------------------------------------------------------------------- */

static void end_message(struct translation* t) {
	text_put(&t->to, t->calls ? "]}" : t->begun ? "}" : "");
	t->calls = false;
}

void translate_message(struct translation* t, const char* role, const char* text) {
	end_message(t);
	text_json(&t->to, t->begun ? ", {'role': %q, 'content': %q" : "{'role': %q, 'content': %q", role, text);
	t->begun = true;
	t->answer = strcmp(role, "assistant") == 0;
	if (t->answer && t->thought.size)
		text_json(&t->to, ", 'reasoning_content': %Q", t->thought.data, t->thought.size);
	text_clear(&t->thought);
}

void translate_call(struct translation* t, const char* id, const char* name, const char* arguments) {
	if (!t->answer)
		translate_message(t, "assistant", NULL);
	text_json(&t->to, t->calls ? ", " : ", 'tool_calls': [");
	text_json(&t->to, "{'id': %q, 'type': 'function', 'function': {'name': %q, 'arguments': %q}}", id, name,
	          arguments);
	t->calls = true;
}

void translate_text_call(struct translation* t, const char* id, const char* name, const char* text) {
	struct text arguments = {0};
	text_json(&arguments, "{'input': %q}", text);
	t->to.failed |= arguments.failed;
	translate_call(t, id, name, arguments.data ? arguments.data : "{}");
	text_free(&arguments);
}

bool translate_texts(struct translation* t, const char* role, const cJSON* content, const char* field,
                     const char* types) {
	char* text = api_texts(content, field, field, types, t->error);
	if (text)
		translate_message(t, role, text);
	free(text);
	return text != NULL;
}

bool translate_result(struct translation* t, const char* id, const cJSON* content, const char* field,
                      const char* types) {
	const bool good = translate_texts(t, "tool", content, field, types);
	text_json(&t->to, ", 'tool_call_id': %q", id);
	return good;
}

static bool translate_messages(struct translation* t, const struct translator* how) {
	text_put(translate_member(t, "messages"), "[");
	const bool good = how->messages(t);
	end_message(t);
	text_put(&t->to, "]");
	return good;
}

/* ---- tools -------------------------------------------------------------------------------- */

static void put_tool(struct text* to, const cJSON* tool, const char* parameters) {
	const char* const members[][2] = {
	    {"name", "name"}, {"description", "description"}, {parameters, "parameters"}, {"strict", "strict"}};
	text_json(to, "{'type': 'function', 'function': {");
	for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
		const cJSON* value = json_field(tool, members[i][0]);
		if (!value)
			continue;
		text_json(to, i ? ", '%s': " : "'%s': ", members[i][1]);
		api_put(to, value);
	}
	text_put(to, "}}");
}

/* {"input": TEXT} stands for the text. */
static void put_text_tool(struct translation* t, const cJSON* tool) {
	const char* description = api_text(tool, "description");
	const char* grammar = api_text(json_field(tool, "format"), "definition");
	struct text all = {0};
	text_print(&all, "%s%s%s", description ? description : "",
	           grammar ? "\nThe input keeps this grammar:\n" : "", grammar ? grammar : "");
	text_json(
	    &t->to,
	    "{'type': 'function', 'function': {'name': %q, 'description': %q, 'parameters': {'type': 'object', "
	    "'properties': {'input': {'type': 'string'}}, 'required': ['input'], 'additionalProperties': "
	    "false}}}",
	    api_text(tool, "name"), all.data ? all.data : "");
	t->to.failed |= all.failed;
	text_free(&all);
	text_print(&t->custom, t->custom.size ? " %s" : "%s", api_text(tool, "name"));
}

bool translate_tools(struct translation* t, const char* kind, const char* otherwise, const char* text,
                     const char* parameters) {
	const cJSON *tools = json_field(t->from, "tools"), *tool;
	if (!tools)
		return true;
	if (!cJSON_IsArray(tools))
		return api_refuse(t->error, "tools", "invalid_type", "'tools' must be an array.");
	text_put(translate_member(t, "tools"), "[");
	bool any = false;
	cJSON_ArrayForEach (tool, tools) {
		const char* type = api_text(tool, "type");
		type = type ? type : otherwise;
		const bool function = strcmp(type, kind) == 0, free_text = text && strcmp(type, text) == 0;
		if (!cJSON_IsObject(tool) || !*type || ((function || free_text) && !api_text(tool, "name")))
			return api_refuse(t->error, "tools", "invalid_value",
			                  "'tools' must hold objects of type \"%s\" with a 'name'.", kind);
		if (!function && !free_text) {
			api_ignore_name(&t->ignored, "tools.", type);
			continue;
		}
		text_put(&t->to, any ? ", " : "");
		any = true;
		if (function)
			put_tool(&t->to, tool, parameters);
		else
			put_text_tool(t, tool);
	}
	text_put(&t->to, "]");
	return true;
}

void translate_choice(struct translation* t, const char* name) {
	text_json(translate_member(t, "tool_choice"), "{'type': 'function', 'function': {'name': %q}}", name);
}

/* ---- the whole ---------------------------------------------------------------------------- */

/* True when the sentence begins with the field's name in quotes. */
static void rename_quoted(struct api_error* error, const char* from, const char* to) {
	const size_t n = strlen(from);
	char rest[sizeof error->message];
	if (error->message[0] != '\'' || strncmp(error->message + 1, from, n) != 0 ||
	    error->message[n + 1] != '\'')
		return;
	snprintf(rest, sizeof rest, "%s", error->message + n + 1);
	snprintf(error->message, sizeof error->message, "'%s%.*s", to, (int)(sizeof rest - strlen(to) - 2), rest);
}

/* True when the path belongs to the field: "messages[3].content" belongs to "messages". */
static void rename_error(struct api_error* error, const char* const (*renamed)[2]) {
	const size_t name = strcspn(error->param, "[.");
	for (; (*renamed)[0]; renamed++)
		if (strlen((*renamed)[0]) == name && strncmp(error->param, (*renamed)[0], name) == 0) {
			snprintf(error->param, sizeof error->param, "%s", (*renamed)[1]);
			rename_quoted(error, (*renamed)[0], (*renamed)[1]);
			return;
		}
}

/* Our name for a vendor's field with the same meaning, or NULL. */
static const char* name_of(const struct translator* how, const char* field) {
	if (json_lists(how->same, field))
		return field;
	for (int i = 0; how->renamed[i][0]; i++)
		if (strcmp(how->renamed[i][1], field) == 0)
			return how->renamed[i][0];
	return NULL;
}

static void translate_fields(struct translation* t, const struct translator* how) {
	for (const cJSON* item = t->from->child; item; item = item->next) {
		if (json_lists(how->own, item->string) || json_lists(how->hints, item->string))
			continue;
		const char* name = name_of(how, item->string);
		if (!name)
			api_ignore(&t->ignored, "", item);
		else if (!cJSON_IsNull(item))
			api_put(translate_member(t, name), item);
	}
}

/* The request's fields beside the body. */
static bool hand_over(struct translation* t, struct api_request* q) {
	if (q->ignored.size && t->ignored.size)
		text_put(&t->ignored, ", ");
	text_add(&t->ignored, q->ignored.data, q->ignored.size);
	text_free(&q->ignored);
	q->ignored = t->ignored;
	t->ignored = (struct text){0};
	const bool custom = t->custom.size > 0;
	free(q->custom_tools);
	q->custom_tools = custom ? text_take(&t->custom) : NULL;
	return !q->ignored.failed && (!custom || q->custom_tools);
}

bool translation_read(const struct translator* how, const char* body, size_t size, int vocab,
                      struct api_request* q, struct api_error* e) {
	cJSON* from = api_parse(body, size, e);
	struct translation t = {.from = from, .error = e};
	*q = (struct api_request){.literal_schemas = q->literal_schemas, .variables = q->variables};
	if (from)
		translate_fields(&t, how);
	bool good = from && (!how->messages || translate_messages(&t, how)) && how->read(&t);
	if (t.goes_on)
		text_put(translate_member(&t, "continue_final_message"), "true");
	text_put(&t.to, "}");
	if (good && t.to.failed)
		good = api_no_memory(e);
	if (good && !(how->messages ? api_read_chat : api_read_completion)(t.to.data, t.to.size, vocab, q, e)) {
		rename_error(e, how->renamed);
		good = false;
	}
	if (good && (!hand_over(&t, q) || (how->finish && !how->finish(from, q)))) {
		api_request_free(q);
		good = api_no_memory(e);
	}
	text_free(&t.to);
	text_free(&t.thought);
	text_free(&t.ignored);
	text_free(&t.custom);
	cJSON_Delete(from);
	return good;
}
