/* Reads OpenAI's Responses: its items become messages, its text.format a response_format.
 *
 * Nothing is stored, so previous_response_id, conversation, background and stored prompts are refused by
 * name. Tools that the vendor hosts are left out together with their earlier calls. A tool with free text
 * becomes a function of one. Earlier reasoning goes to the template. */
#include <string.h>

#include "streams/service/chat_translation.h"

/* ---- items -------------------------------------------------------------------------------- */

static bool read_message(struct translation* t, const cJSON* item) {
	const char* role = api_text(item, "role");
	if (!role)
		return api_refuse(t->error, "input", "invalid_value", "A message of 'input' has no 'role'.");
	return translate_texts(t, role, json_field(item, "content"), "input",
	                       "input_text output_text text refusal");
}

/* A call of a function, or of a tool with free text, whose argument is `input`. */
static bool read_call(struct translation* t, const cJSON* item) {
	const bool free_text = api_is(item, "type", "custom_tool_call");
	const char *id = api_text(item, "call_id"), *name = api_text(item, "name"),
	           *given = api_text(item, free_text ? "input" : "arguments");
	if (!id || !name || !given)
		return api_refuse(t->error, "input", "invalid_value", "A %s needs 'call_id', 'name' and '%s'.",
		                  api_text(item, "type"), free_text ? "input" : "arguments");
	(free_text ? translate_text_call : translate_call)(t, id, name, given);
	return true;
}

static bool read_result(struct translation* t, const cJSON* item) {
	const char* id = api_text(item, "call_id");
	id = id ? id : api_is(item, "type", "local_shell_call_output") ? api_text(item, "id") : NULL;
	if (!id)
		return api_refuse(t->error, "input", "invalid_value", "A function_call_output needs 'call_id'.");
	return translate_result(t, id, json_field(item, "output"), "input", "input_text output_text text");
}

static bool read_shell_call(struct translation* t, const cJSON* item) {
	const char* id = api_text(item, "call_id");
	const cJSON* action = json_field(item, "action");
	char* arguments = action ? json_print(action) : NULL;
	translate_call(t, id ? id : "shell", "local_shell", arguments ? arguments : "{}");
	cJSON_free(arguments);
	return true;
}

/* The reasoning itself, or its summary. */
static void read_thought(struct translation* t, const cJSON* item) {
	const cJSON* list = json_field(item, "content");
	list = list && list->child ? list : json_field(item, "summary");
	for (const cJSON* part = list ? list->child : NULL; part; part = part->next)
		text_put(&t->thought, api_text(part, "text") ? api_text(part, "text") : "");
}

/* Calls of tools that the vendor hosts, their results, and what clients note for themselves. */
static bool is_dropped(const char* type) {
	return api_ends(type, "_call") || api_ends(type, "_call_output") ||
	       json_lists(
	           "mcp_list_tools mcp_approval_request mcp_approval_response tool_search_output compaction "
	           "compaction_summary ghost_snapshot",
	           type);
}

/* The answer after a dropped item holds its result. */
static bool read_item(struct translation* t, const cJSON* item) {
	const char* type = api_text(item, "type");
	if (!type || strcmp(type, "message") == 0)
		return read_message(t, item);
	if (json_lists("function_call custom_tool_call", type))
		return read_call(t, item);
	if (json_lists("function_call_output custom_tool_call_output local_shell_call_output", type))
		return read_result(t, item);
	if (strcmp(type, "local_shell_call") == 0)
		return read_shell_call(t, item);
	if (strcmp(type, "reasoning") == 0)
		read_thought(t, item);
	return strcmp(type, "reasoning") == 0 || is_dropped(type) ||
	       api_refuse(
	           t->error, "input", "unsupported_field",
	           "'input' holds an item of type \"%.40s\", which this server cannot look up; send messages, "
	           "calls and their outputs.",
	           type);
}

static bool refuse_stored(struct translation* t) {
	static const char* const names[] = {"previous_response_id", "conversation", "prompt"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (json_field(t->from, names[i]))
			return api_refuse(t->error, names[i], "unsupported_field",
			                  "'%s' is not supported: this server stores nothing; send the whole input.",
			                  names[i]);
	return !cJSON_IsTrue(json_field(t->from, "background")) ||
	       api_refuse(t->error, "background", "unsupported_field", "'background' is not supported.");
}

static bool read_input(struct translation* t) {
	if (!refuse_stored(t))
		return false;
	const cJSON* input = json_field(t->from, "input");
	const char* instructions = NULL;
	if (!api_string(t->from, "instructions", SIZE_MAX, &instructions, t->error))
		return false;
	if (instructions)
		translate_message(t, "system", instructions);
	if (cJSON_IsString(input)) {
		translate_message(t, "user", input->valuestring);
		return true;
	}
	if (!cJSON_IsArray(input))
		return api_refuse(t->error, "input", input ? "invalid_type" : "missing_required_parameter",
		                  "'input' must be a string or an array of items.");
	for (const cJSON* item = input->child; item; item = item->next)
		if (!read_item(t, item))
			return false;
	return true;
}

/* ---- tools and the format of the answer ----------------------------------------------------------- */

/* {"format": {"type": "json_schema", "name", "schema"}}, flat, while chat nests it. */
static void read_text(struct translation* t) {
	const cJSON* format = json_field(json_field(t->from, "text"), "format");
	const char* type = api_text(format, "type");
	if (!format)
		return;
	text_json(translate_member(t, "response_format"), "{'type': %q", type ? type : "");
	if (api_is(format, "type", "json_schema")) {
		text_json(&t->to, ", 'json_schema': ");
		api_put(&t->to, format);
	}
	text_put(&t->to, "}");
}

static bool translate_fields(struct translation* t) {
	const cJSON* choice = json_field(t->from, "tool_choice");
	const char* name = api_text(choice, "name");
	read_text(t);
	const char* effort = api_text(json_field(t->from, "reasoning"), "effort");
	if (effort)
		text_json(translate_member(t, "reasoning_effort"), "%q", effort);
	if (effort && strcmp(effort, "none") == 0)
		text_put(translate_member(t, "enable_thinking"), "false");
	const cJSON *include = json_field(t->from, "include"), *top = json_field(t->from, "top_logprobs");
	bool logprobs = cJSON_IsNumber(top) && top->valuedouble > 0;
	for (const cJSON* one = include ? include->child : NULL; one; one = one->next)
		logprobs |= cJSON_IsString(one) && strcmp(one->valuestring, "message.output_text.logprobs") == 0;
	if (logprobs)
		text_put(translate_member(t, "logprobs"), "true");
	if (top)
		api_put(translate_member(t, "top_logprobs"), top);
	if (name)
		translate_choice(t, name);
	else if (cJSON_IsString(choice) || api_is(choice, "type", "allowed_tools"))
		api_put(translate_member(t, "tool_choice"), choice);
	return translate_tools(t, "function", "", "custom", "parameters");
}

/* ---- what the answer repeats ---------------------------------------------------------------- */

static const struct {
	const char *name, *otherwise;
} repeated[] = {{"instructions", "null"},
                {"max_output_tokens", "null"},
                {"metadata", "{}"},
                {"parallel_tool_calls", "true"},
                {"previous_response_id", "null"},
                {"reasoning", "{\"effort\": null, \"summary\": null}"},
                {"temperature", "1"},
                {"text", "{\"format\": {\"type\": \"text\"}}"},
                {"tool_choice", "\"auto\""},
                {"tools", "[]"},
                {"top_p", "1"},
                {"truncation", "\"disabled\""},
                {"user", "null"}};

static bool echo_fields(const cJSON* body, struct api_request* q) {
	struct text out = {0};
	for (size_t i = 0; i < sizeof repeated / sizeof *repeated; i++) {
		const cJSON* value = json_field(body, repeated[i].name);
		text_json(&out, ", '%s': ", repeated[i].name);
		if (value)
			api_put(&out, value);
		else
			text_put(&out, repeated[i].otherwise);
	}
	text_put(&out, ", \"store\": false");
	q->echoed = text_take(&out);
	return q->echoed != NULL;
}

/* ---- the whole ------------------------------------------------------------------------------ */

bool responses_read(const char* body, size_t size, int vocab, struct api_request* q, struct api_error* e) {
	static const char* const renamed[][2] = {{"messages", "input"},
	                                         {"max_completion_tokens", "max_output_tokens"},
	                                         {"response_format", "text"},
	                                         {NULL, NULL}};
	static const struct translator how = {
	    .same =
	        "model metadata temperature top_p stream parallel_tool_calls seed top_k min_p stop ignore_eos "
	        "stop_token_ids presence_penalty logit_bias repetition_penalty frequency_penalty "
	        "chat_template_kwargs",
	    .own =
	        "input instructions tools text tool_choice background previous_response_id conversation prompt "
	        "max_tool_calls include top_logprobs",
	    .hints = "store reasoning truncation user service_tier stream_options prompt_cache_key "
	             "safety_identifier prompt_cache_retention client_metadata max_tool_calls",
	    .renamed = renamed,
	    .messages = read_input,
	    .read = translate_fields,
	    .finish = echo_fields};
	return translation_read(&how, body, size, vocab, q, e);
}
