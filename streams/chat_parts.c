#include "streams/chat_parts.h"

#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "core/files/json.h"
#include "core/model/model.h"
#include "core/text/chat_template.h"
#include "streams/chat_shape.h"
#include "streams/json_text.h"
#include "streams/text.h"

enum { SHOWN = 80 }; /* of a value in a message */

struct part_writer {
	struct text* to;
	bool objects; /* arguments as objects */
	bool differ;  /* some were a text */
	int index;    /* of the message */
	bool goes_on; /* it is the last message, and the answer continues it */
	struct error* error;
};

static void write_name(struct part_writer* w, const char* separator, const struct json_item* item) {
	text_print(w->to, "%s\"%.*s\": ", separator, (int)item->name_size, item->name);
}

/* ---- tool calls --------------------------------------------------------------------------- */

/* Writes a text that is itself a JSON object as that object. */
static void write_arguments(struct part_writer* w, const struct json_item* item) {
	struct error ignored;
	cJSON* const value = cJSON_ParseWithLength(item->value, item->value_size);
	const char* const text = cJSON_IsString(value) ? value->valuestring : NULL;
	const bool object =
	    text && text[strspn(text, " \t\r\n")] == '{' && json_check(text, strlen(text), &ignored);
	w->differ = w->differ || object;
	if (object && w->objects)
		text_put(w->to, text);
	else
		text_add(w->to, item->value, item->value_size);
	cJSON_Delete(value);
}

/* Copies an object as it was written, except the arguments that lie at the path. */
static void write_object(struct part_writer* w, const char* object, size_t size, const char* const* path) {
	struct json_item item = {0};
	text_put(w->to, "{");
	for (const char* separator = ""; json_next(object, size, &item); separator = ", ") {
		write_name(w, separator, &item);
		const bool on_path = json_named(&item, path[0]);
		if (on_path && !path[1])
			write_arguments(w, &item);
		else if (on_path && item.value[0] == '{')
			write_object(w, item.value, item.value_size, path + 1);
		else
			text_add(w->to, item.value, item.value_size);
	}
	text_put(w->to, "}");
}

static bool write_calls(struct part_writer* w, const struct json_item* calls) {
	static const char* const path[] = {"function", "arguments", NULL};
	struct json_item item = {0};
	if (calls->value[0] != '[')
		return error_set(w->error, "messages[%d].tool_calls is not a list", w->index);
	write_name(w, ", ", calls);
	text_put(w->to, "[");
	for (const char* separator = ""; json_next(calls->value, calls->value_size, &item); separator = ", ") {
		if (item.value[0] != '{')
			return error_set(w->error, "messages[%d].tool_calls holds a value that is not an object",
			                 w->index);
		text_put(w->to, separator);
		write_object(w, item.value, item.value_size, path);
	}
	text_put(w->to, "]");
	return true;
}

/* ---- messages ----------------------------------------------------------------------------- */

static bool write_role(struct part_writer* w, const cJSON* role) {
	static const char* const known[][2] = {{"system", "system"}, {"developer", "system"},
	                                       {"user", "user"},     {"assistant", "assistant"},
	                                       {"tool", "tool"},     {"function", "tool"}};
	char shown[SHOWN];
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (cJSON_IsString(role) && strcmp(role->valuestring, known[i][0]) == 0) {
			text_print(w->to, "{\"role\": \"%s\"", known[i][1]);
			return true;
		}
	return error_set(w->error,
	                 "messages[%d].role is %s, expected system, developer, user, assistant, tool or function",
	                 w->index, role ? json_show(role, shown, sizeof shown) : "missing");
}

static void write_text(struct part_writer* w, const char* text, size_t size) {
	struct text whole = {0};
	text_add(&whole, text, size);
	if (w->goes_on)
		text_put(&whole, CHAT_GOES_ON);
	text_quote(w->to, whole.data ? whole.data : "", whole.size);
	w->to->failed |= whole.failed;
	text_free(&whole);
}

static bool is_thought_part(const cJSON* part) {
	const char* const type = cJSON_GetStringValue(json_field(part, "type"));
	return type && json_lists("thinking redacted_thinking reasoning reasoning_text", type);
}

/* A part's text; NULL: it has none. A part may be a string, or lack its type. */
static const char* text_of(const cJSON* part) {
	const cJSON* const given = json_field(part, "type");
	const char* const type = given ? cJSON_GetStringValue(given) : "text";
	const bool refusal = type && strcmp(type, "refusal") == 0;
	if (cJSON_IsString(part))
		return part->valuestring;
	return type && (refusal || json_lists("text input_text output_text", type))
	           ? cJSON_GetStringValue(json_field(part, refusal ? "refusal" : "text"))
	           : NULL;
}

/* An answer may have no text: it was a call, was refused, or ended amid its reasoning. A call's result may be
 * nothing. */
static bool may_lack_content(const cJSON* message) {
	const char* const role = cJSON_GetStringValue(json_field(message, "role"));
	return role && json_lists("assistant tool function", role);
}

/* A content: a string; parts {"type": "text", "text"}, which are joined; or nothing. */
static bool write_content(struct part_writer* w, const cJSON* message) {
	char shown[SHOWN];
	const cJSON* const content = json_field(message, "content");
	const char* const refusal = cJSON_GetStringValue(json_field(message, "refusal"));
	text_put(w->to, ", \"content\": ");
	if (cJSON_IsString(content) || (!content && may_lack_content(message))) {
		const char* const text = content ? content->valuestring : refusal ? refusal : "";
		write_text(w, text, strlen(text));
		return true;
	}
	if (!cJSON_IsArray(content))
		return error_set(w->error, "messages[%d].content is %s, expected a string or a list of text parts",
		                 w->index, content ? json_show(content, shown, sizeof shown) : "missing");
	struct text joined = {0};
	for (const cJSON* part = content->child; part; part = part->next) {
		const char* const text = is_thought_part(part) ? "" : text_of(part);
		if (!text) {
			text_free(&joined);
			return error_set(
			    w->error,
			    "messages[%d].content holds a part of type %s; only text is read: send parts of type "
			    "\"text\"",
			    w->index, json_show(json_field(part, "type"), shown, sizeof shown));
		}
		text_put(&joined, text);
	}
	write_text(w, joined.data ? joined.data : "", joined.size);
	w->to->failed |= joined.failed;
	text_free(&joined);
	return true;
}

/* "function_call", as it was before "tool_calls". */
static void write_function_call(struct part_writer* w, const struct json_item* call) {
	static const char* const path[] = {"arguments", NULL};
	text_put(w->to, ", \"tool_calls\": [{\"type\": \"function\", \"function\": ");
	write_object(w, call->value, call->value_size, path);
	text_put(w->to, "}]");
}

static bool is_thought(const struct json_item* item) {
	return item->value[0] == '"' && (json_named(item, "reasoning_content") || json_named(item, "reasoning") ||
	                                 json_named(item, "thinking"));
}

/* Writes the reasoning under the names by which templates read it. gpt-oss's template refuses "thinking"
 * beside the content of a message with calls. */
static void write_thought(struct part_writer* w, const char* message, size_t size,
                          const struct json_item* thought) {
	size_t content_size = 0, calls_size = 0;
	const char *content = json_member(message, size, "content", &content_size),
	           *calls = json_member(message, size, "tool_calls", &calls_size);
	const bool has_content =
	    content && content[0] == '"' ? content_size > strlen("\"\"") : content && content[0] == '[';
	text_put(w->to, ", \"reasoning_content\": ");
	text_add(w->to, thought->value, thought->value_size);
	if (has_content && calls && calls[0] == '[')
		return;
	text_put(w->to, ", \"thinking\": ");
	text_add(w->to, thought->value, thought->value_size);
}

/* The reasoning among a content's parts, as JSON text: Anthropic's and Mistral's blocks, whose text is a
 * string or a list of texts. NULL: there is none. */
static char* thought_of_parts(const cJSON* message) {
	static const char* const names[] = {"thinking", "reasoning", "text"};
	const cJSON *part, *inner, *content = json_field(message, "content");
	struct text all = {0}, quoted = {0};
	for (part = cJSON_IsArray(content) ? content->child : NULL; part; part = part->next)
		for (size_t i = 0; i < sizeof names / sizeof *names && is_thought_part(part); i++) {
			const cJSON* const of = json_field(part, names[i]);
			text_put(&all, cJSON_IsString(of) ? of->valuestring : "");
			for (inner = cJSON_IsArray(of) ? of->child : NULL; inner; inner = inner->next)
				text_put(&all, text_of(inner) ? text_of(inner) : "");
		}
	if (all.size)
		text_quote(&quoted, all.data, all.size);
	text_free(&all);
	return quoted.size ? text_take(&quoted) : NULL;
}

/* Copies the other members of a message. A null that a client sends back with an earlier answer (as the
 * openai package does) counts as absent. */
static bool write_others(struct part_writer* w, const cJSON* parsed, const char* message, size_t size) {
	struct json_item item = {0}, thought = {0};
	while (json_next(message, size, &item)) {
		if (is_thought(&item)) {
			thought = thought.value ? thought : item;
			continue;
		}
		if (json_named(&item, "role") || json_named(&item, "content") || item.value[0] == 'n' ||
		    json_named(&item, "refusal"))
			continue;
		if (json_named(&item, "function_call") && item.value[0] == '{') {
			write_function_call(w, &item);
			continue;
		}
		if (json_named(&item, "tool_calls")) {
			if (!write_calls(w, &item))
				return false;
			continue;
		}
		write_name(w, ", ", &item);
		text_add(w->to, item.value, item.value_size);
	}
	char* const within = thought.value ? NULL : thought_of_parts(parsed);
	if (within) {
		thought.value = within;
		thought.value_size = strlen(within);
	}
	if (thought.value)
		write_thought(w, message, size, &thought);
	free(within);
	text_put(w->to, "}");
	return true;
}

static bool write_message(struct part_writer* w, const char* text, size_t size) {
	char shown[SHOWN];
	cJSON* const message = cJSON_ParseWithLength(text, size);
	bool good =
	    message || error_set(w->error, "messages[%d] holds a number of more than 63 characters", w->index);
	if (good && !cJSON_IsObject(message))
		good = error_set(w->error, "messages[%d] is %s, expected an object with role and content", w->index,
		                 json_show(message, shown, sizeof shown));
	good = good && write_role(w, json_field(message, "role")) && write_content(w, message) &&
	       write_others(w, message, text, size);
	cJSON_Delete(message);
	return good;
}

static char* write_messages(struct part_writer* w, const char* list, size_t size, int* n) {
	struct text text = {0};
	struct json_item item = {0}, next;
	const bool goes_on = w->goes_on;
	bool good = true;
	w->to = &text;
	text_put(&text, "[");
	for (w->index = 0; good && json_next(list, size, &item); w->index++) {
		if (w->index == CHAT_MAX_MESSAGES)
			good = error_set(w->error, "messages holds more than %d", CHAT_MAX_MESSAGES);
		text_put(&text, w->index ? ", " : "");
		next = item;
		w->goes_on = goes_on && !json_next(list, size, &next);
		good = good && write_message(w, item.value, item.value_size);
	}
	text_put(&text, "]");
	*n = w->index;
	w->goes_on = goes_on;
	if (good && *n == 0)
		good = error_set(w->error, "messages is empty, expected at least one");
	char* const out = good ? text_take(&text) : NULL;
	if (good && !out)
		error_set(w->error, "out of memory");
	text_free(&text);
	return out;
}

static bool read_messages(const char* object, size_t size, struct chat_parts* p, struct error* error) {
	size_t list_size = 0;
	struct part_writer w = {.objects = true, .goes_on = p->goes_on, .error = error};
	const char* const list = json_member(object, size, "messages", &list_size);
	if (!list || *list != '[')
		return error_set(error, "messages is %s, expected a list", list ? "not a list" : "missing");
	p->messages = write_messages(&w, list, list_size, &p->n_messages);
	if (!p->messages || !w.differ)
		return p->messages != NULL;
	w.objects = false;
	p->messages_as_written = write_messages(&w, list, list_size, &p->n_messages);
	return p->messages_as_written != NULL;
}

/* ---- the others --------------------------------------------------------------------------- */

/* A member that must be a list or object, as the bracket specifies. An empty list and null count as absent.
 */
static bool copy_member(const char* object, size_t size, const char* name, char open, char** out,
                        struct error* error) {
	size_t n = 0;
	const char* const value = json_member(object, size, name, &n);
	struct json_item item = {0};
	if (!value || *value == 'n' || (*value == open && !json_next(value, n, &item)))
		return true;
	if (*value != open)
		return error_set(error, "%s is not %s", name, open == '[' ? "a list" : "an object");
	for (bool more = open == '['; more; more = json_next(value, n, &item))
		if (*item.value != '{')
			return error_set(error, "%s holds a value that is not an object", name);
	*out = strndup(value, n);
	return *out || error_set(error, "out of memory");
}

static bool is_true(const char* object, size_t size, const char* name, bool* is_false) {
	size_t n = 0;
	const char* const value = json_member(object, size, name, &n);
	*is_false = value && *value == 'f';
	return value && *value == 't';
}

/* Copies the template's variables, which requests give beside "messages". */
static bool copy_variables(const char* object, size_t size, struct chat_parts* p, struct error* error) {
	static const char* const names[] = {"enable_thinking", "reasoning_effort"};
	struct text all = {0};
	char* given = NULL;
	if (!copy_member(object, size, "chat_template_kwargs", '{', &given, error))
		return false;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		size_t n = 0, inner = 0;
		const char* const value = json_member(object, size, names[i], &n);
		if (!value || *value == 'n' || (given && json_member(given, strlen(given), names[i], &inner)))
			continue;
		text_print(&all, all.size ? ", \"%s\": %.*s" : "{\"%s\": %.*s", names[i], (int)n, value);
	}
	if (all.size && given) {
		text_put(&all, ", ");
		text_put(&all, given + 1 + strspn(given + 1, " \t\r\n"));
	} else if (all.size)
		text_put(&all, "}");
	if (!all.size) {
		p->variables = given;
		return true;
	}
	free(given);
	p->variables = text_take(&all);
	return p->variables || error_set(error, "out of memory");
}

static bool check_variables(const char* object, struct error* error) {
	static const char* const own[] = {"messages", "tools", "documents"};
	struct json_item item = {0};
	while (object && json_next(object, strlen(object), &item))
		for (size_t i = 0; i < sizeof own / sizeof *own; i++)
			if (json_named(&item, own[i]))
				return error_set(
				    error, "chat_template_kwargs.%s is not allowed: the template gets the request's own %s",
				    own[i], own[i]);
	return true;
}

bool chat_variables_check(const char* variables, struct error* error) {
	struct error why;
	if (!json_check(variables, strlen(variables), &why))
		return error_set(error, "%.400s", why.message);
	return variables[strspn(variables, " \t\r\n")] == '{' ? check_variables(variables, error)
	                                                      : error_set(error, "expected a JSON object");
}

static bool has_member(const char* object, const struct json_item* like) {
	struct json_item item = {0};
	while (object && json_next(object, strlen(object), &item))
		if (item.name_size == like->name_size && memcmp(item.name, like->name, like->name_size) == 0)
			return true;
	return false;
}

static void put_members(struct text* to, const char* object, const char* but) {
	struct json_item item = {0};
	while (object && json_next(object, strlen(object), &item))
		if (!has_member(but, &item))
			text_print(to, "%s\"%.*s\": %.*s", to->size ? ", " : "{", (int)item.name_size, item.name,
			           (int)item.value_size, item.value);
}

bool chat_parts_add_variables(struct chat_parts* p, const char* variables, struct error* error) {
	struct text all = {0};
	put_members(&all, variables, p->variables);
	if (!all.size)
		return true;
	put_members(&all, p->variables, NULL);
	text_put(&all, "}");
	free(p->variables);
	p->variables = text_take(&all);
	return p->variables || error_set(error, "out of memory");
}

bool chat_parts_read(const char* object, size_t size, struct chat_parts* p, const char** field,
                     struct error* error) {
	*p = (struct chat_parts){0};
	bool not_generated, unused;
	p->goes_on = is_true(object, size, "continue_final_message", &unused);
	const bool generated = is_true(object, size, "add_generation_prompt", &not_generated);
	p->no_generation_prompt = not_generated;
	if (p->goes_on && generated)
		return error_set(
		    (*field = "continue_final_message", error),
		    "continue_final_message and add_generation_prompt exclude each other; send one of them");
	*field = "messages";
	return read_messages(object, size, p, error) &&
	       copy_member(object, size, *field = "tools", '[', &p->tools, error) &&
	       copy_member(object, size, *field = "documents", '[', &p->documents, error) &&
	       copy_variables(object, size, p, (*field = "chat_template_kwargs", error)) &&
	       check_variables(p->variables, error);
}

void chat_parts_free(struct chat_parts* p) {
	free(p->messages);
	free(p->messages_as_written);
	free(p->tools);
	free(p->documents);
	free(p->variables);
	*p = (struct chat_parts){0};
}

/* ---- encoding ----------------------------------------------------------------------------- */

bool chat_parts_list_tools(const struct chat_parts* p, const struct model* model) {
	const char* const template_text = model_chat_template(model, p->tools != NULL);
	return p->tools && template_text && chat_template_lacks_tools(template_text, model->tokenizer);
}

static bool encode_messages(const struct chat_parts* p, const struct model* model, const char* messages,
                            const char* tools, struct token_list* out, struct error* error) {
	const char* const template_text = model_chat_template(model, p->tools != NULL);
	struct chat_request request = {.messages = chat_json(messages),
	                               .tools = chat_json(tools),
	                               .documents = chat_json(p->documents),
	                               .variables = chat_json(p->variables),
	                               .no_generation_prompt = p->no_generation_prompt,
	                               .goes_on = p->goes_on};
	char* shaped = NULL;
	if (template_text && !chat_shape(template_text, model->tokenizer, &request, &shaped, error))
		return false;
	const bool good = chat_template_encode(template_text, model->tokenizer, &request, out, error);
	free(shaped);
	return good;
}

bool chat_parts_encode(const struct chat_parts* p, const struct model* model, struct token_list* out,
                       struct error* error) {
	struct error second;
	if (encode_messages(p, model, p->messages, p->tools, out, error) ||
	    (p->messages_as_written && encode_messages(p, model, p->messages_as_written, p->tools, out, &second)))
		return true;
	char* const filled = p->tools ? chat_tools_filled(p->tools) : NULL;
	const bool good = filled && encode_messages(p, model, p->messages, filled, out, &second);
	free(filled);
	return good;
}
