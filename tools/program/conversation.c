/* The messages of a conversation. */
#include "tools/program/conversation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/files/grow.h"
#include "core/files/json.h"
#include "streams/text.h"

static const char* const roles[] = {"system", "user", "assistant"};
enum { ROLES = sizeof roles / sizeof *roles };

bool conversation_append(struct conversation* c, const char* role, const char* text, size_t size) {
	char* const content =
	    grow_by_one(&c->message, (size_t)c->n, sizeof *c->message) ? malloc(size + 1) : NULL;
	if (!content)
		return false;
	if (size)
		memcpy(content, text, size);
	content[size] = 0;
	c->message[c->n++] = (struct chat_message){role, content, size};
	return true;
}

void conversation_forget(struct conversation* c, int from, int n) {
	for (int i = from; i < from + n; i++)
		free((void*)(uintptr_t)c->message[i].content);
	if (c->n > from + n)
		memmove(c->message + from, c->message + from + n, (size_t)(c->n - from - n) * sizeof *c->message);
	c->n -= n;
}

int conversation_first_turn(const struct conversation* c) {
	return c->n > 0 && strcmp(c->message[0].role, "system") == 0 ? 1 : 0;
}

bool conversation_set_system(struct conversation* c, const char* text) {
	if (*text && !conversation_append(c, "system", text, strlen(text)))
		return false;
	if (conversation_first_turn(c) && c->n > (*text ? 1 : 0))
		conversation_forget(c, 0, 1);
	if (*text) {
		const struct chat_message added = c->message[c->n - 1];
		memmove(c->message + 1, c->message, (size_t)(c->n - 1) * sizeof *c->message);
		c->message[0] = added;
	}
	return true;
}

bool conversation_save(const struct conversation* c, const char* path, struct error* error) {
	struct text text = {0};
	text_put(&text, "{\"messages\": [");
	for (int i = 0; i < c->n; i++) {
		text_print(&text, "%s\n  {\"role\": \"%s\", \"content\": ", i ? "," : "", c->message[i].role);
		text_quote(&text, c->message[i].content, c->message[i].content_size);
		text_put(&text, "}");
	}
	text_put(&text, "\n]}\n");
	/* Writes a new file first, so that a full disk leaves the old one. Only its owner may read it. */
	char part[4096];
	const bool fits = snprintf(part, sizeof part, "%s.part", path) < (int)sizeof part;
	const int made = text.failed || !fits ? -1 : open(part, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	FILE* const file = made < 0 ? NULL : fdopen(made, "w");
	bool good = file && fwrite(text.data, 1, text.size, file) == text.size;
	if (file)
		good = fclose(file) == 0 && good && rename(part, path) == 0;
	if (!good && !fits)
		errno = ENAMETOOLONG;
	if (!good)
		error_set(error, "%s could not be written: %s", path,
		          text.failed ? "out of memory" : strerror(errno));
	text_free(&text);
	return good;
}

static bool take_message(struct conversation* c, const cJSON* message, const char* path,
                         struct error* error) {
	const char *role = NULL, *content = NULL, *known = NULL;
	if (!json_string(message, path, "role", &role, error) ||
	    !json_string(message, path, "content", &content, error))
		return false;
	for (int i = 0; i < ROLES; i++)
		if (role && strcmp(role, roles[i]) == 0)
			known = roles[i];
	if (!known || !content)
		return error_set(error, "%s: message %d: %s", path, c->n + 1,
		                 known ? "\"content\" is missing" : "the role is not system, user or assistant");
	return conversation_append(c, known, content, strlen(content)) || error_set(error, "out of memory");
}

bool conversation_load(struct conversation* c, const char* path, struct error* error) {
	cJSON* const root = json_read(path, error);
	if (!root)
		return false;
	struct conversation read = {0};
	const cJSON* const list = cJSON_IsArray(root) ? root : json_field(root, "messages");
	const cJSON* message;
	bool good = cJSON_IsArray(list) || error_set(error, "%s: \"messages\" is not a list", path);
	cJSON_ArrayForEach (message, list)
		good = good && take_message(&read, message, path, error);
	cJSON_Delete(root);
	if (!good) {
		conversation_free(&read);
		return false;
	}
	conversation_free(c);
	*c = read;
	return true;
}

void conversation_free(struct conversation* c) {
	conversation_forget(c, 0, c->n);
	free(c->message);
	*c = (struct conversation){0};
}
