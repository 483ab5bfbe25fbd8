/* Reads a stream of prompts: lines of JSON, each checked before it is parsed. */
#include "streams/jsonl.h"

#include <stdlib.h>
#include <string.h>

#include "core/files/grow.h"
#include "core/files/json.h"
#include "streams/json_text.h"

static bool copy_string(const cJSON* item, char** out, struct error* error) {
	*out = strdup(item->valuestring);
	return *out || error_set(error, "out of memory");
}

/* ---- fields -------------------------------------------------------------------------------- */

enum { SHOWN = 80 }; /* of a value in a message */

static bool read_task(const cJSON* root, struct instance* out, struct error* error) {
	char shown[SHOWN];
	const cJSON* const task = json_field(root, "task");
	if (!task)
		return true;
	if (!cJSON_IsString(task) || strlen(task->valuestring) > 127)
		return error_set(error, "\"task\" is %s, expected a string of at most 127 bytes",
		                 json_show(task, shown, sizeof shown));
	return copy_string(task, &out->task, error);
}

static bool read_max_tokens(const cJSON* root, struct instance* out, struct error* error) {
	char shown[SHOWN];
	int64_t n = 128;
	const cJSON* max = json_field(root, "max_tokens");
	max = max ? max : json_field(root, "max_completion_tokens");
	if (max && !json_whole(max, 1, JSONL_MAX_TOKENS, &n))
		return error_set(error, "\"%s\" is %s, expected a whole number from 1 to %d", max->string,
		                 json_show(max, shown, sizeof shown), JSONL_MAX_TOKENS);
	out->max_tokens = (int)n;
	return true;
}

static bool read_prompt(const cJSON* root, const char* line, size_t size, struct instance* out,
                        struct error* error) {
	char shown[SHOWN];
	const char* field;
	const cJSON* const prompt = cJSON_GetObjectItemCaseSensitive(root, "prompt");
	const cJSON* const messages = cJSON_GetObjectItemCaseSensitive(root, "messages");
	if (prompt && messages)
		return error_set(error, "both \"prompt\" and \"messages\", expected one of them");
	if (messages)
		return chat_parts_read(line, size, &out->chat, &field, error);
	if (!prompt)
		return error_set(error, "neither \"prompt\" nor \"messages\"");
	if (!cJSON_IsString(prompt))
		return error_set(error, "\"prompt\" is %s, expected a string",
		                 json_show(prompt, shown, sizeof shown));
	return copy_string(prompt, &out->prompt, error);
}

/* A line of OpenAI's batch files keeps its request in "body". Sets *line to the body's text and returns its
 * object; of other lines, the line's own. NULL with the error set. */
static const cJSON* find_request(const cJSON* root, const char** line, size_t* size, struct error* error) {
	char shown[SHOWN];
	const cJSON* const body = json_field(root, "body");
	const cJSON* const url = json_field(root, "url");
	if (!body || json_field(root, "prompt") || json_field(root, "messages"))
		return root;
	if (url && (!cJSON_IsString(url) || (strcmp(url->valuestring, "/v1/chat/completions") != 0 &&
	                                     strcmp(url->valuestring, "/v1/completions") != 0))) {
		error_set(error, "\"url\" is %s, expected \"/v1/chat/completions\" or \"/v1/completions\"",
		          json_show(url, shown, sizeof shown));
		return NULL;
	}
	if (!cJSON_IsObject(body)) {
		error_set(error, "\"body\" is %s, expected an object", json_show(body, shown, sizeof shown));
		return NULL;
	}
	*line = json_member(*line, *size, "body", size);
	if (!*line) /* its name is written with escapes */
		error_set(error, "the name \"body\" is written with escapes: write it plainly");
	return *line ? body : NULL;
}

/* cJSON reads no number of more than 63 characters, but an id may have any length. It is replaced by 0
 * here. */
static cJSON* parse_but_id(const char* text, size_t size, size_t id_at, size_t id_size) {
	char* const line = strndup(text, size);
	if (!line)
		return NULL;
	if (id_size > 0) {
		memset(line + id_at, ' ', id_size);
		line[id_at] = '0';
	}
	cJSON* const root = cJSON_ParseWithLength(line, size);
	free(line);
	return root;
}

bool instance_parse(const char* text, size_t size, struct instance* out, struct error* error) {
	char shown[SHOWN];
	*out = (struct instance){0};
	if (!json_check(text, size, error))
		return false;
	size_t id_size = 0;
	const char* id = json_member(text, size, "id", &id_size);
	if (!id)
		id = json_member(text, size, "custom_id", &id_size);
	if (id && !(out->id = strndup(id, id_size)))
		return error_set(error, "out of memory");
	cJSON* const root = parse_but_id(text, size, id ? (size_t)(id - text) : 0, id_size);
	if (!root)
		return error_set(error, "a number of more than 63 characters, or out of memory");
	const cJSON* const request = cJSON_IsObject(root) ? find_request(root, &text, &size, error) : NULL;
	const bool good = request && read_prompt(request, text, size, out, error) &&
	                  read_task(root, out, error) && read_max_tokens(request, out, error);
	if (!cJSON_IsObject(root))
		error_set(error, "the line is %s, expected an object", json_show(root, shown, sizeof shown));
	cJSON_Delete(root);
	return good;
}

void instance_free(struct instance* instance) {
	free(instance->id);
	free(instance->task);
	free(instance->prompt);
	chat_parts_free(&instance->chat);
	*instance = (struct instance){0};
}

/* ---- lines --------------------------------------------------------------------------------- */

/* Reads a line of any length and keeps at most JSONL_MAX_LINE bytes. False at the end of the file. *size is
 * the whole line's, without the newline. */
static bool read_line(struct jsonl_reader* reader, size_t* size, bool* memory) {
	*size = 0;
	*memory = true;
	int c;
	bool any = false;
	while ((c = getc_unlocked(reader->file)) != EOF) {
		any = true;
		if (c == '\n')
			break;
		if (*size < JSONL_MAX_LINE) {
			*memory = *memory && grow_to(&reader->text, &reader->capacity, *size + 1, 1);
			if (*memory)
				reader->text[*size] = (char)c;
		}
		++*size;
	}
	return any;
}

static bool is_blank(const char* text, size_t size) {
	for (size_t i = 0; i < size; i++)
		if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
			return false;
	return true;
}

enum jsonl_status jsonl_next(struct jsonl_reader* reader, struct instance* instance, struct error* error) {
	size_t size;
	bool memory;
	*instance = (struct instance){0};
	while (read_line(reader, &size, &memory)) {
		reader->line++;
		const char* text = reader->text;
		if (reader->line == 1 && size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
			text += 3; /* a byte order mark */
			size -= 3;
		}
		bool good = false;
		if (!memory)
			error_set(error, "out of memory for a line of %zu bytes", size);
		else if (size > JSONL_MAX_LINE)
			error_set(error, "the line has %zu bytes, expected at most %d", size, JSONL_MAX_LINE);
		else if (is_blank(text, size))
			continue;
		else
			good = instance_parse(text, size, instance, error);
		instance->line = reader->line;
		return good ? JSONL_INSTANCE : JSONL_BROKEN;
	}
	return JSONL_END;
}

void jsonl_free(struct jsonl_reader* reader) {
	free(reader->text);
	reader->text = NULL;
	reader->capacity = 0;
}
