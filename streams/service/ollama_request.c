/* Reads Ollama's requests as chats, completions or embeddings; members of `options` become fields. */
#include <stdio.h>
#include <string.h>

#include "streams/service/chat_translation.h"
#include "streams/service/ollama_internal.h"

/* ---- options ---------------------------------------------------------------------------------- */

static void put_member(struct translation* t, const char* name, const cJSON* value) {
	if (value)
		api_put(translate_member(t, name), value);
}

/* Ollama's defaults that differ from OpenAI's. */
static const struct {
	const char *name, *ours;
	double otherwise; /* NaN would be none; negative: none */
} options[] = {{"temperature", "temperature", 0.8},
               {"top_p", "top_p", 0.9},
               {"top_k", "top_k", 40},
               {"min_p", "min_p", -1},
               {"num_predict", "max_tokens", -1},
               {"seed", "seed", -1},
               {"stop", "stop", -1},
               {"repeat_penalty", "repetition_penalty", -1},
               {"presence_penalty", "presence_penalty", -1},
               {"frequency_penalty", "frequency_penalty", -1}};
enum { OPTIONS = sizeof options / sizeof *options };

static void read_options(struct translation* t, bool chat) {
	const cJSON* given = json_field(t->from, "options");
	for (int i = 0; i < OPTIONS; i++) {
		const cJSON* value = json_field(given, options[i].name);
		if (cJSON_IsNumber(value) && strcmp(options[i].name, "num_predict") == 0 && value->valuedouble < 0)
			text_put(translate_member(t, "max_tokens"), "-1");
		else if (value)
			put_member(t, options[i].ours, value);
		else if (options[i].otherwise > 0)
			text_json(translate_member(t, options[i].ours), "%g", options[i].otherwise);
		else if (strcmp(options[i].name, "num_predict") == 0 && !chat)
			text_put(translate_member(t, "max_tokens"), "-1");
	}
	for (const cJSON* item = given ? given->child : NULL; item; item = item->next) {
		bool known =
		    json_lists("num_ctx num_keep num_batch num_gpu num_thread main_gpu use_mmap numa", item->string);
		for (int i = 0; i < OPTIONS; i++)
			known |= strcmp(options[i].name, item->string) == 0;
		if (!known)
			api_ignore(&t->ignored, "options.", item);
	}
}

static const char* text_of(const cJSON* value) { return cJSON_IsString(value) ? value->valuestring : "?"; }

/* "json", or a schema. */
static bool read_format(struct translation* t) {
	const cJSON* format = json_field(t->from, "format");
	if (cJSON_IsObject(format)) {
		text_json(translate_member(t, "structured_outputs"), "{'json': ");
		api_put(&t->to, format);
		text_put(&t->to, "}");
	} else if (api_is(t->from, "format", "json"))
		text_json(translate_member(t, "structured_outputs"), "{'json_object': true}");
	return !format || cJSON_IsObject(format) || json_lists("json", text_of(format)) || !*text_of(format) ||
	       api_refuse(t->error, "format", "invalid_value", "'format' must be \"json\" or a JSON Schema.");
}

static bool read_common(struct translation* t, bool chat) {
	const cJSON *stream = json_field(t->from, "stream"), *think = json_field(t->from, "think");
	if (stream)
		put_member(t, "stream", stream);
	else
		text_put(translate_member(t, "stream"), "true");
	if (chat && cJSON_IsBool(think))
		put_member(t, "enable_thinking", think);
	else if (chat && cJSON_IsString(think))
		put_member(t, "reasoning_effort", think);
	const cJSON* given = json_field(t->from, "options");
	if (given && !cJSON_IsObject(given))
		return api_refuse(t->error, "options", "invalid_type", "'options' must be an object.");
	read_options(t, chat);
	return read_format(t);
}

/* ---- chats -------------------------------------------------------------------------------------- */

static bool has_images(const cJSON* object) {
	const cJSON* images = json_field(object, "images");
	return images && images->child;
}

static bool refuse_images(struct translation* t) {
	return api_refuse(t->error, "images", "unsupported_field",
	                  "This model reads text: 'images' must be empty.");
}

static bool read_message(struct translation* t, const cJSON* message, int index) {
	const char *role = api_text(message, "role"), *content = api_text(message, "content"),
	           *thought = api_text(message, "thinking");
	const cJSON *calls = json_field(message, "tool_calls"), *call;
	if (!role || !json_lists("system user assistant tool", role))
		return api_refuse(t->error, "messages", "invalid_value",
		                  "messages[%d].role must be \"system\", \"user\", \"assistant\" or \"tool\".",
		                  index);
	if (has_images(message))
		return refuse_images(t);
	if (thought)
		text_put(&t->thought, thought);
	translate_message(t, role, content ? content : "");
	int number = 0;
	cJSON_ArrayForEach (call, calls) {
		const cJSON* function = json_field(call, "function");
		const cJSON* arguments = json_field(function, "arguments");
		char id[32], *text = arguments ? json_print(arguments) : NULL;
		snprintf(id, sizeof id, "call%05d", index * 16 + number++);
		translate_call(t, id, api_text(function, "name") ? api_text(function, "name") : "",
		               text ? text : "{}");
		cJSON_free(text);
	}
	return true;
}

/* Without messages or a prompt a client only wants the model to be loaded; it is. */
static bool only_loads(const cJSON* from) {
	const cJSON *messages = json_field(from, "messages"), *prompt = json_field(from, "prompt");
	return !(messages && messages->child) && !(cJSON_IsString(prompt) && prompt->valuestring[0]);
}

static bool finish_request(const cJSON* from, struct api_request* q) {
	if (only_loads(from)) {
		q->prompt_only = true;
		q->ask.max_tokens = 1;
	}
	return true;
}

static bool read_messages(struct translation* t) {
	const cJSON* messages = json_field(t->from, "messages");
	int index = 0;
	if (messages && !cJSON_IsArray(messages))
		return api_refuse(t->error, "messages", "invalid_type", "'messages' must be an array.");
	if (only_loads(t->from))
		translate_message(t, "user", "");
	for (const cJSON* message = messages ? messages->child : NULL; message; message = message->next)
		if (!read_message(t, message, index++))
			return false;
	t->goes_on = t->answer && !t->calls;
	return true;
}

static bool read_chat(struct translation* t) {
	put_member(t, "tools", json_field(t->from, "tools"));
	return read_common(t, true);
}

static const char* const renamed[][2] = {{NULL, NULL}};

bool ollama_read_chat(const char* body, size_t size, int vocab, struct api_request* q, struct api_error* e) {
	static const struct translator how = {.same = "model logprobs top_logprobs",
	                                      .own = "messages tools format options stream think",
	                                      .hints = "keep_alive",
	                                      .renamed = renamed,
	                                      .messages = read_messages,
	                                      .read = read_chat,
	                                      .finish = finish_request};
	return translation_read(&how, body, size, vocab, q, e);
}

/* ---- prompts -------------------------------------------------------------------------------------- */

static bool read_prompt_message(struct translation* t) {
	const char *system = api_text(t->from, "system"), *prompt = api_text(t->from, "prompt");
	if (has_images(t->from))
		return refuse_images(t);
	if (system && *system)
		translate_message(t, "system", system);
	translate_message(t, "user", prompt ? prompt : "");
	return true;
}

/* The model's own template makes the prompt, and nothing of earlier requests. */
static void ignore_others(struct translation* t) {
	const cJSON* template = json_field(t->from, "template"), *context = json_field(t->from, "context");
	if (template && *text_of(template))
		api_ignore(&t->ignored, "", template);
	if (context && context->child)
		api_ignore(&t->ignored, "", context);
}

static bool read_templated(struct translation* t) {
	ignore_others(t);
	return read_common(t, true);
}

static bool read_raw(struct translation* t) {
	ignore_others(t);
	put_member(t, "suffix", json_field(t->from, "suffix"));
	return read_common(t, false);
}

/* raw, or with a suffix: the prompt as it is; otherwise a user's message */
bool ollama_read_generate(const char* body, size_t size, int vocab, struct api_request* q,
                          struct api_error* e) {
	static const char own[] = "prompt system suffix raw template format options stream think images context",
	                  hints[] = "keep_alive";
	static const struct translator templated = {.same = "model",
	                                            .own = own,
	                                            .hints = hints,
	                                            .renamed = renamed,
	                                            .messages = read_prompt_message,
	                                            .read = read_templated,
	                                            .finish = finish_request};
	static const struct translator plain = {
	    .same = "model prompt",
	    .own = "system suffix raw template format options stream think images context",
	    .hints = hints,
	    .renamed = renamed,
	    .read = read_raw};
	cJSON* json = api_parse(body, size, e);
	if (!json)
		return false;
	const char* suffix = api_text(json, "suffix");
	const bool raw = cJSON_IsTrue(json_field(json, "raw")) || (suffix && *suffix);
	cJSON_Delete(json);
	return translation_read(raw ? &plain : &templated, body, size, vocab, q, e);
}

/* ---- embeddings ------------------------------------------------------------------------------------- */

static bool read_embedding(struct translation* t) {
	text_put(translate_member(t, "max_tokens"), "1");
	return true;
}

static bool finish_embedding(const cJSON* from, struct api_request* q) {
	const cJSON* dimensions = json_field(from, "dimensions");
	q->embedding = true;
	q->dimensions = cJSON_IsNumber(dimensions) && dimensions->valuedouble > 0 ? dimensions->valueint : 0;
	return true;
}

bool ollama_read_embed(const char* body, size_t size, int vocab, struct api_request* q, struct api_error* e) {
	static const char* const input[][2] = {{"prompt", "input"}, {NULL, NULL}};
	static const struct translator how = {.same = "model prompt",
	                                      .own = "options dimensions",
	                                      .hints = "keep_alive truncate",
	                                      .renamed = input,
	                                      .read = read_embedding,
	                                      .finish = finish_embedding};
	return translation_read(&how, body, size, vocab, q, e);
}
