/* Requests of other vendors' chats become OpenAI's: a body in their shape is rewritten, member by member, and
 * read as a chat then, so that there is one reader of fields, one of messages, and one way to an answer. */
#ifndef SWIFTLET_STREAMS_SERVICE_CHAT_TRANSLATION_H
#define SWIFTLET_STREAMS_SERVICE_CHAT_TRANSLATION_H

#include "streams/service/openai.h"

struct translation {
	cJSON* from;
	cJSON *to, *messages; /* the chat's body, and in it its messages */
	bool failed;          /* no memory */
	struct api_error* error;
};

struct translator {
	/* Fields, words with a blank between: that mean the same, that `read` reads, that change nothing. Any
	 * other is refused by its name. */
	const char *same, *own, *hints;
	bool (*read)(struct translation*); /* false with a 400 */
	char* (*echo)(const cJSON* body);  /* what the answer repeats; NULL: nothing */
	const char* const (*renamed)[2];   /* chat's and the vendor's name of a field, for errors; NULL-ended */
};
bool translation_read(const struct translator*, const char* body, size_t size, int vocab, struct api_request*,
                      struct api_error*);

/* A member that means the same under another name, and is not null. */
void translate_as(struct translation*, const char* name, const char* as);
/* A message with a text, which is copied; NULL: without content. The message, for more members. */
cJSON* translate_message(struct translation*, const char* role, const char* text);
/* A call in the last message, which is the assistant's, or in a new one. arguments: JSON text. */
void translate_call(struct translation*, const char* id, const char* name, const char* arguments);
/* "tools" as {"type": "function", "function": {"name", "description", "parameters", "strict"}}; of each its
 * members, where it has them. kind: the one type that is supported, otherwise: of a tool that names none.
 * False with a 400. */
bool translate_tools(struct translation*, const char* kind, const char* otherwise, const char* parameters);
/* The texts of a list of parts whose types are among `types` (words with a blank between), joined; a string
 * is itself. NULL with a 400 that names the field. free() it. */
char* translate_text(struct translation*, const cJSON* content, const char* field, const char* types);
/* What a call gave, as translate_text reads it; false with a 400. */
bool translate_result(struct translation*, const char* id, const cJSON* content, const char* field,
                      const char* types);
/* The tool that has to be called. */
void translate_choice(struct translation*, const char* name);

/* Whose they are: OpenAI's Responses (/v1/responses), Anthropic's Messages (/v1/messages), and the latter
 * without the fields that counting tokens does without. */
bool responses_read(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);
bool messages_read(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);
bool messages_read_counted(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);
/* An error in Anthropic's shape, malloc'd; NULL on no memory. */
char* messages_error_text(const struct api_error*);

#endif
