/* A stream of prompts: lines of JSON, each checked before it is believed. */
#include "streams/jsonl.h"

#include <stdlib.h>
#include <string.h>

#include "core/files/json.h"
#include "streams/json_text.h"

static char* copy(const char* text, size_t size) {
	char* const out = malloc(size + 1);
	if (out) {
		memcpy(out, text, size);
		out[size] = 0;
	}
	return out;
}

static bool copy_string(const cJSON* item, char** out, struct error* error) {
	*out = copy(item->valuestring, strlen(item->valuestring));
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
	const cJSON* const max = json_field(root, "max_tokens");
	if (max && !json_whole(max, 1, JSONL_MAX_TOKENS, &n))
		return error_set(error, "\"max_tokens\" is %s, expected a whole number from 1 to %d",
		                 json_show(max, shown, sizeof shown), JSONL_MAX_TOKENS);
	out->max_tokens = (int)n;
	return true;
}

static bool known_role(const cJSON* role) {
	static const char* const known[] = {"system", "user", "assistant"};
	for (size_t i = 0; i < sizeof known / sizeof *known && cJSON_IsString(role); i++)
		if (strcmp(role->valuestring, known[i]) == 0)
			return true;
	return false;
}

static bool read_message(const cJSON* item, int index, struct instance_message* out, struct error* error) {
	char shown[SHOWN];
	if (!cJSON_IsObject(item))
		return error_set(error, "message %d is %s, expected {\"role\", \"content\"}", index + 1,
		                 json_show(item, shown, sizeof shown));
	const cJSON* const role = json_field(item, "role");
	const cJSON* const content = json_field(item, "content");
	if (!known_role(role))
		return error_set(error, "message %d: \"role\" is %s, expected system, user or assistant", index + 1,
		                 role ? json_show(role, shown, sizeof shown) : "missing");
	if (!cJSON_IsString(content))
		return error_set(error, "message %d: \"content\" is %s, expected a string", index + 1,
		                 content ? json_show(content, shown, sizeof shown) : "missing");
	return copy_string(role, &out->role, error) && copy_string(content, &out->content, error);
}

static bool read_messages(const cJSON* messages, struct instance* out, struct error* error) {
	char shown[SHOWN];
	if (!cJSON_IsArray(messages))
		return error_set(error, "\"messages\" is %s, expected a list",
		                 json_show(messages, shown, sizeof shown));
	const int n = cJSON_GetArraySize(messages);
	if (n < 1 || n > JSONL_MAX_MESSAGES)
		return error_set(error, "\"messages\" holds %d, expected 1 to %d", n, JSONL_MAX_MESSAGES);
	out->message = calloc((size_t)n, sizeof *out->message);
	if (!out->message)
		return error_set(error, "out of memory");
	out->n_messages = n;
	int i = 0;
	const cJSON* item;
	cJSON_ArrayForEach (item, messages) {
		if (!read_message(item, i, &out->message[i], error))
			return false;
		i++;
	}
	return true;
}

static bool read_prompt(const cJSON* root, struct instance* out, struct error* error) {
	char shown[SHOWN];
	const cJSON* const prompt = cJSON_GetObjectItemCaseSensitive(root, "prompt");
	const cJSON* const messages = cJSON_GetObjectItemCaseSensitive(root, "messages");
	if (prompt && messages)
		return error_set(error, "both \"prompt\" and \"messages\", expected one of them");
	if (messages)
		return read_messages(messages, out, error);
	if (!prompt)
		return error_set(error, "neither \"prompt\" nor \"messages\"");
	if (!cJSON_IsString(prompt))
		return error_set(error, "\"prompt\" is %s, expected a string",
		                 json_show(prompt, shown, sizeof shown));
	return copy_string(prompt, &out->prompt, error);
}

/* cJSON reads no number of more than 63 characters, and an id may be any: it is read as 0 here. */
static cJSON* parse_but_id(const char* text, size_t size, size_t id_at, size_t id_size) {
	char* const line = copy(text, size);
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
	const char* const id = json_member(text, size, "id", &id_size);
	if (id && !(out->id = copy(id, id_size)))
		return error_set(error, "out of memory");
	cJSON* const root = parse_but_id(text, size, id ? (size_t)(id - text) : 0, id_size);
	if (!root)
		return error_set(error, "a number of more than 63 characters, or out of memory");
	const bool good = cJSON_IsObject(root) ? read_prompt(root, out, error) && read_task(root, out, error) &&
	                                             read_max_tokens(root, out, error)
	                                       : error_set(error, "the line is %s, expected an object",
	                                                   json_show(root, shown, sizeof shown));
	cJSON_Delete(root);
	return good;
}

void instance_free(struct instance* instance) {
	free(instance->id);
	free(instance->task);
	free(instance->prompt);
	for (int i = 0; i < instance->n_messages; i++) {
		free(instance->message[i].role);
		free(instance->message[i].content);
	}
	free(instance->message);
	*instance = (struct instance){0};
}

/* ---- lines --------------------------------------------------------------------------------- */

/* Reads a line of any length, keeps at most JSONL_MAX_LINE bytes. False at the end of the file; *size
 * is the whole line's, newline left out. */
static bool read_line(struct jsonl_reader* reader, size_t* size, bool* memory) {
	*size = 0;
	*memory = true;
	int c;
	bool any = false;
	while ((c = getc_unlocked(reader->file)) != EOF) {
		any = true;
		if (c == '\n')
			break;
		if (*size < JSONL_MAX_LINE && *size + 1 >= reader->capacity) {
			const size_t capacity = reader->capacity ? 2 * reader->capacity : 4096;
			char* const grown = realloc(reader->text, capacity);
			if (grown) {
				reader->text = grown;
				reader->capacity = capacity;
			} else {
				*memory = false;
			}
		}
		if (*size < JSONL_MAX_LINE && *memory)
			reader->text[*size] = (char)c;
		++*size;
	}
	return any;
}

static bool blank(const char* text, size_t size) {
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
		else if (blank(text, size))
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
