/* Requests of other vendors' chats become OpenAI's: a body in their shape is rewritten, member by member, and
 * read as a chat then, so that there is one reader of fields, one of messages, and one way to an answer. */
#ifndef SWIFTLET_STREAMS_SERVICE_CHAT_TRANSLATION_H
#define SWIFTLET_STREAMS_SERVICE_CHAT_TRANSLATION_H

#include "streams/service/openai.h"

struct translation {
	const cJSON* from;
	cJSON *to, *messages; /* the chat's body, and in it its messages */
	bool failed;          /* no memory */
	struct api_error* error;
};

/* A member that means the same, perhaps under another name, and is not null. */
void translate_as(struct translation*, const char* name, const char* as);
/* Those and fields that change nothing; false with a 400 that names any other member. `same` and `hints` are
 * NULL-ended; `own` are the vendor's, which its translation reads. */
bool translate_fields(struct translation*, const char* const* same, const char* const* own,
                      const char* const* hints);
/* A message with a text, which is copied; NULL: without content. The message, for more members. */
cJSON* translate_message(struct translation*, const char* role, const char* text);
/* A call in the last message, which is the assistant's, or in a new one. arguments: JSON text. */
void translate_call(struct translation*, const char* id, const char* name, const char* arguments);
/* {"type": "function", "function": {"name", "description", "parameters", "strict"}} in `tools`; of a tool's
 * members, where it has them. */
void translate_tool(struct translation*, cJSON* tools, const cJSON* tool, const char* parameters);
/* The texts of a list of parts whose types are among `types` (NULL-ended), joined; a string is itself. NULL
 * with a 400 that names the field. free() it. */
char* translate_text(struct translation*, const cJSON* content, const char* field, const char* const* types);
/* What a call gave, as translate_text reads it; false with a 400. */
bool translate_result(struct translation*, const char* id, const cJSON* content, const char* field,
                      const char* const* types);
/* The tool that has to be called. */
void translate_choice(struct translation*, const char* name);

/* Reads what was translated, and frees it. renamed: pairs of chat's and the vendor's name of a field, for
 * errors, NULL-ended. */
bool translation_read(struct translation*, int vocab, const char* const (*renamed)[2], struct api_request*);
/* Begins one; false with a 400. The body is to be deleted by the caller, translation_read or not. */
bool translation_open(struct translation*, cJSON* body, struct api_error*);
void translation_close(struct translation*);

#endif
