/* Requests of other shapes become OpenAI's chats, or completions: a body is rewritten, member by member, and
 * read as one of them then, so that there is one reader of fields, one of messages, and one way to an answer.
 */
#ifndef SWIFTLET_STREAMS_SERVICE_CHAT_TRANSLATION_H
#define SWIFTLET_STREAMS_SERVICE_CHAT_TRANSLATION_H

#include "streams/service/openai.h"

struct translation {
	cJSON* from;
	cJSON *to, *messages; /* the body, and in a chat's its messages */
	bool failed;          /* no memory */
	struct api_error* error;
};

struct translator {
	/* Fields, words with a blank between: that mean the same, that `read` reads, that change nothing. Any
	 * other is refused by its name. */
	const char *same, *own, *hints;
	bool (*read)(struct translation*); /* false with a 400 */
	/* What the request is told beside it; NULL: nothing. False: no memory. */
	bool (*finish)(const cJSON* from, struct api_request*);
	const char* const (*renamed)[2]; /* ours and the vendor's name of a field, for errors; NULL-ended */
	bool completion;                 /* no chat */
};
bool translation_read(const struct translator*, const char* body, size_t size, int vocab, struct api_request*,
                      struct api_error*);

/* A value of an object of the new body, which takes it over; both may be NULL. */
void translate_add(struct translation*, cJSON* object, const char* name, cJSON* value);
cJSON* translate_object(struct translation*, cJSON* object, const char* name);
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
/* What a call gave, as api_texts reads it; false with a 400. */
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
