/* A stream of prompts: lines of JSON, each checked before it is believed. */
#include "streams/jsonl.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

static const char* kind_of(const cJSON* item) {
	return cJSON_IsNull(item)     ? "null"
	       : cJSON_IsBool(item)   ? "a truth value"
	       : cJSON_IsNumber(item) ? "a number"
	       : cJSON_IsString(item) ? "a string"
	       : cJSON_IsArray(item)  ? "a list"
	                              : "an object";
}

/* ---- fields -------------------------------------------------------------------------------- */

static bool read_task(const cJSON* root, struct instance* out, struct error* error) {
	const cJSON* const task = cJSON_GetObjectItemCaseSensitive(root, "task");
	if (!task || cJSON_IsNull(task))
		return true;
	if (!cJSON_IsString(task) || strlen(task->valuestring) > 127)
		return error_set(error, "\"task\" is %s, expected a string of at most 127 bytes",
		                 cJSON_IsString(task) ? "too long" : kind_of(task));
	return copy_string(task, &out->task, error);
}

static bool read_max_tokens(const cJSON* root, struct instance* out, struct error* error) {
	const cJSON* const max = cJSON_GetObjectItemCaseSensitive(root, "max_tokens");
	out->max_tokens = 128;
	if (!max || cJSON_IsNull(max))
		return true;
	if (!cJSON_IsNumber(max))
		return error_set(error, "\"max_tokens\" is %s, expected a number", kind_of(max));
	const double n = max->valuedouble;
	if (!(n >= 1 && n <= JSONL_MAX_TOKENS) || n != floor(n))
		return error_set(error, "\"max_tokens\" is %.15g, expected a whole number from 1 to %d", n,
		                 JSONL_MAX_TOKENS);
	out->max_tokens = (int)n;
	return true;
}

static bool read_message(const cJSON* item, int index, struct instance_message* out, struct error* error) {
	if (!cJSON_IsObject(item))
		return error_set(error, "message %d is %s, expected {\"role\", \"content\"}", index + 1,
		                 kind_of(item));
	const cJSON* const role = cJSON_GetObjectItemCaseSensitive(item, "role");
	const cJSON* const content = cJSON_GetObjectItemCaseSensitive(item, "content");
	static const char* const known[] = {"system", "user", "assistant"};
	bool good = false;
	for (size_t i = 0; i < sizeof known / sizeof *known && cJSON_IsString(role); i++)
		good = good || strcmp(role->valuestring, known[i]) == 0;
	if (!good)
		return error_set(error, "message %d: \"role\" is %.60s, expected system, user or assistant",
		                 index + 1,
		                 cJSON_IsString(role) ? role->valuestring
		                 : role               ? kind_of(role)
		                                      : "missing");
	if (!cJSON_IsString(content))
		return error_set(error, "message %d: \"content\" is %s, expected a string", index + 1,
		                 content ? kind_of(content) : "missing");
	return copy_string(role, &out->role, error) && copy_string(content, &out->content, error);
}

static bool read_messages(const cJSON* messages, struct instance* out, struct error* error) {
	if (!cJSON_IsArray(messages))
		return error_set(error, "\"messages\" is %s, expected a list", kind_of(messages));
	const int n = cJSON_GetArraySize(messages);
	if (n < 1 || n > JSONL_MAX_MESSAGES)
		return error_set(error, "\"messages\" holds %d, expected 1 to %d", n, JSONL_MAX_MESSAGES);
	out->message = calloc((size_t)n, sizeof *out->message);
	if (!out->message)
		return error_set(error, "out of memory");
	out->n_messages = n;
	int i = 0;
	const cJSON* item;
	cJSON_ArrayForEach(item, messages) {
		if (!read_message(item, i, &out->message[i], error))
			return false;
		i++;
	}
	return true;
}

static bool read_prompt(const cJSON* root, struct instance* out, struct error* error) {
	const cJSON* const prompt = cJSON_GetObjectItemCaseSensitive(root, "prompt");
	const cJSON* const messages = cJSON_GetObjectItemCaseSensitive(root, "messages");
	if (prompt && messages)
		return error_set(error, "both \"prompt\" and \"messages\", expected one of them");
	if (messages)
		return read_messages(messages, out, error);
	if (!prompt)
		return error_set(error, "neither \"prompt\" nor \"messages\"");
	if (!cJSON_IsString(prompt))
		return error_set(error, "\"prompt\" is %s, expected a string", kind_of(prompt));
	return copy_string(prompt, &out->prompt, error);
}

bool instance_parse(const char* text, size_t size, struct instance* out, struct error* error) {
	*out = (struct instance){0};
	if (!json_check(text, size, error))
		return false;
	size_t id_size = 0;
	const char* const id = json_member(text, size, "id", &id_size);
	if (id && !(out->id = copy(id, id_size)))
		return error_set(error, "out of memory");
	cJSON* const root = cJSON_ParseWithLength(text, size);
	if (!root)
		return error_set(error, "could not be read as JSON");
	const bool good = cJSON_IsObject(root)
	                      ? read_prompt(root, out, error) && read_task(root, out, error) &&
	                            read_max_tokens(root, out, error)
	                      : error_set(error, "the line is %s, expected an object", kind_of(root));
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
