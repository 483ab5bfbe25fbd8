/* Reads Anthropic's Messages: blocks become messages, calls and their results. Tools that the vendor hosts
 * are left out, documents are read as text, and images are refused by name. Earlier reasoning goes to the
 * template. The answer continues a last message of the assistant. */
#include <string.h>

#include "streams/service/chat_translation.h"

/* ---- messages ----------------------------------------------------------------------------- */

static bool is_of(const cJSON* block, const char* type) { return api_is(block, "type", type); }

/* Puts a block's text: its own, or that of a document or search result, with the title above it. False: it
 * has none, as an image or a PDF. */
static bool put_block(struct text* out, const cJSON* block) {
	const cJSON* source = json_field(block, "source");
	const bool document = is_of(block, "document"), found = is_of(block, "search_result");
	if (is_of(block, "text")) {
		text_put(out, api_text(block, "text") ? api_text(block, "text") : "");
		return true;
	}
	if (!found && !(document && (is_of(source, "text") || is_of(source, "content"))))
		return false;
	const cJSON* content = json_field(found ? block : source, "content");
	const char *title = api_text(block, "title"), *text = api_text(source, "data");
	text = text ? text : cJSON_GetStringValue(content);
	if (title)
		text_print(out, "%s\n", title);
	text_put(out, text ? text : "");
	for (const cJSON* part = cJSON_IsArray(content) ? content->child : NULL; part; part = part->next)
		text_put(out, api_text(part, "text") ? api_text(part, "text") : "");
	text_put(out, "\n");
	return true;
}

static bool refuse_block(struct translation* t, const cJSON* block) {
	const char* type = api_text(block, "type");
	return api_refuse(
	    t->error, "messages", "unsupported_field",
	    "'messages' holds a block of type \"%.40s\"; this model reads text: send blocks of type "
	    "\"text\", \"tool_use\" and \"tool_result\", and documents as text.",
	    type ? type : "");
}

static bool read_result(struct translation* t, const cJSON* block) {
	const char* id = api_text(block, "tool_use_id");
	const cJSON *content = json_field(block, "content"), *part;
	if (!id)
		return api_refuse(t->error, "messages", "invalid_value", "A tool_result needs 'tool_use_id'.");
	struct text all = {0};
	bool good = true;
	text_put(&all, cJSON_IsString(content) ? content->valuestring : "");
	for (part = cJSON_IsArray(content) ? content->child : NULL; part && good; part = part->next)
		good = put_block(&all, part) || refuse_block(t, part);
	t->to.failed |= all.failed;
	const cJSON text = {.type = cJSON_String, .valuestring = all.data ? all.data : ""};
	good = good && translate_result(t, id, &text, "messages", "text");
	text_free(&all);
	return good;
}

static bool read_use(struct translation* t, const cJSON* block) {
	const char *id = api_text(block, "id"), *name = api_text(block, "name");
	const cJSON* input = json_field(block, "input");
	if (!id || !name || (input && !cJSON_IsObject(input)))
		return api_refuse(t->error, "messages", "invalid_value",
		                  "A tool_use needs 'id', 'name' and an object 'input'.");
	char* arguments = input ? json_print(input) : NULL;
	t->to.failed |= input && !arguments;
	translate_call(t, id, name, input ? arguments : "{}");
	cJSON_free(arguments);
	return true;
}

/* Neighbouring texts are one message. Returns the first block that has none. */
static const cJSON* read_texts(struct translation* t, const char* role, const cJSON* block) {
	struct text all = {0};
	const cJSON* rest = block;
	while (rest && put_block(&all, rest))
		rest = rest->next;
	t->to.failed |= all.failed;
	if (rest != block)
		translate_message(t, role, all.data ? all.data : "");
	text_free(&all);
	return rest;
}

/* Calls of tools that the vendor hosts, and their results. */
static bool is_dropped(const char* type) {
	return json_lists("redacted_thinking server_tool_use mcp_tool_use compaction", type) ||
	       api_ends(type, "_tool_result");
}

static bool read_block(struct translation* t, const cJSON* block) {
	const char* type = api_text(block, "type");
	if (is_of(block, "tool_use"))
		return read_use(t, block);
	if (is_of(block, "tool_result"))
		return read_result(t, block);
	if (is_of(block, "thinking") && api_text(block, "thinking"))
		text_put(&t->thought, api_text(block, "thinking"));
	return is_of(block, "thinking") || is_dropped(type ? type : "") || refuse_block(t, block);
}

static bool read_blocks(struct translation* t, const char* role, const cJSON* block) {
	while (block) {
		const cJSON* rest = read_texts(t, role, block);
		if (rest == block && !read_block(t, block))
			return false;
		block = rest == block ? block->next : rest;
	}
	return true;
}

static bool read_messages(struct translation* t) {
	const cJSON *messages = json_field(t->from, "messages"), *system = json_field(t->from, "system");
	if (system && !translate_texts(t, "system", system, "system", "text"))
		return false;
	if (!cJSON_IsArray(messages))
		return api_refuse(t->error, "messages", "invalid_type", "'messages' must be an array.");
	for (const cJSON* message = messages->child; message; message = message->next) {
		const cJSON* content = json_field(message, "content");
		const char* role = api_text(message, "role");
		if (!role || !json_lists("user assistant system", role))
			return api_refuse(t->error, "messages", "invalid_value",
			                  "A message's 'role' must be \"user\" or \"assistant\".");
		if (cJSON_IsString(content))
			translate_message(t, role, content->valuestring);
		else if (!cJSON_IsArray(content))
			return api_refuse(t->error, "messages", "invalid_type",
			                  "A message's 'content' must be a string or an array of blocks.");
		else if (!read_blocks(t, role, content->child))
			return false;
	}
	t->goes_on = t->answer && !t->calls;
	return true;
}

/* ---- tools and the format of the answer ----------------------------------------------------------- */

static bool read_tool_choice(struct translation* t) {
	const cJSON* choice = json_field(t->from, "tool_choice");
	static const char* const words[][2] = {{"auto", "auto"}, {"any", "required"}, {"none", "none"}};
	if (!choice)
		return true;
	if (cJSON_IsTrue(json_field(choice, "disable_parallel_tool_use")))
		text_put(translate_member(t, "parallel_tool_calls"), "false");
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (is_of(choice, words[i][0])) {
			text_json(translate_member(t, "tool_choice"), "%q", words[i][1]);
			return true;
		}
	const char* name = api_text(choice, "name");
	if (!is_of(choice, "tool") || !name)
		return api_refuse(
		    t->error, "tool_choice", "invalid_value",
		    "'tool_choice' has a type of \"auto\", \"any\", \"none\" or \"tool\" with a 'name'.");
	translate_choice(t, name);
	return true;
}

static bool read_format(struct translation* t) {
	const cJSON* format = json_field(json_field(t->from, "output_config"), "format");
	format = format ? format : json_field(t->from, "output_format");
	const cJSON* schema = json_field(format, "schema");
	if (!format)
		return true;
	if (!is_of(format, "json_schema") || !schema)
		return api_refuse(t->error, "output_config", "invalid_value",
		                  "'output_config.format' has a type of \"json_schema\" and a 'schema'.");
	text_json(translate_member(t, "response_format"), "{'type': 'json_schema', 'json_schema': {'schema': ");
	api_put(&t->to, schema);
	text_put(&t->to, "}}");
	return true;
}

/* The name that Qwen3's templates use. */
static void read_thinking(struct translation* t) {
	const char* type = api_text(json_field(t->from, "thinking"), "type");
	if (type)
		text_json(translate_member(t, "chat_template_kwargs"), "{'enable_thinking': %b}",
		          strcmp(type, "disabled") != 0);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static bool translate_fields(struct translation* t) {
	read_thinking(t);
	return translate_tools(t, "custom", "custom", NULL, "input_schema") && read_tool_choice(t) &&
	       read_format(t);
}

static bool read_asked(struct translation* t) {
	return json_field(t->from, "max_tokens")
	           ? read_messages(t)
	           : api_refuse(t->error, "max_tokens", "missing_required_parameter",
	                        "'max_tokens' is required.");
}

static const char* const renamed[][2] = {{"stop", "stop_sequences"}, {NULL, NULL}};
static const struct translator counted = {
    .same = "model max_tokens temperature top_p top_k stream seed stop_token_ids repetition_penalty",
    .own = "messages system tools tool_choice output_config output_format thinking",
    .hints = "metadata service_tier cache_control inference_geo context_management container",
    .renamed = renamed,
    .messages = read_messages,
    .read = translate_fields};

bool messages_read(const char* body, size_t size, int vocab, struct api_request* q, struct api_error* e) {
	struct translator asked = counted;
	asked.messages = read_asked;
	return translation_read(&asked, body, size, vocab, q, e);
}

bool messages_read_counted(const char* body, size_t size, int vocab, struct api_request* q,
                           struct api_error* e) {
	return translation_read(&counted, body, size, vocab, q, e);
}
