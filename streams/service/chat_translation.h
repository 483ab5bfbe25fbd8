/* Requests of other shapes become OpenAI's chats, or completions: a body is rewritten, member by member, and
 * read as one of them then, so that there is one reader of fields, one of messages, and one way to an answer.
 */
#ifndef SWIFTLET_STREAMS_SERVICE_CHAT_TRANSLATION_H
#define SWIFTLET_STREAMS_SERVICE_CHAT_TRANSLATION_H

#include "streams/service/openai.h"

struct translation {
	const cJSON* from;
	struct text to;            /* the new body so far; among its messages the last one is open */
	bool begun, answer, calls; /* there is one; it is the assistant's; it has a list of calls */
	bool goes_on;              /* the answer goes on with it */
	struct text thought;       /* the assistant's reasoning before its next text */
	struct text ignored;       /* fields, and tools, that are left out */
	struct text custom;        /* tools of free text, which became functions */
	struct api_error* error;
};

struct translator {
	/* Fields, words with a blank between: that mean the same, that `read` reads, that change nothing. */
	const char *same, *own, *hints;
	/* Ours and the vendor's name of a field, NULL-ended: one that is not `own` means the same, and an error
	 * of ours names the vendor's. Any other field is ignored. */
	const char* const (*renamed)[2];
	bool (*messages)(struct translation*); /* false with a 400; NULL: it is no chat but a completion */
	bool (*read)(struct translation*);     /* the other members, likewise */
	/* Sets further fields of the request; NULL: there are none. False: out of memory. */
	bool (*finish)(const cJSON* from, struct api_request*);
};
bool translation_read(const struct translator*, const char* body, size_t size, int vocab, struct api_request*,
                      struct api_error*);

/* Begins a member of the new body; whoever asks writes its value. */
struct text* translate_member(struct translation*, const char* name);
/* A message with a text; NULL: without content. The assistant's has what he thought before. */
void translate_message(struct translation*, const char* role, const char* text);
/* A call in the last message, which is the assistant's, or in a new one. arguments: JSON text. */
void translate_call(struct translation*, const char* id, const char* name, const char* arguments);
/* "tools" as {"type": "function", "function": {"name", "description", "parameters", "strict"}}; of each its
 * members, where it has them. kind: the type of functions, otherwise: of a tool that names none, text: of
 * tools that take a free text, which become functions of it, or NULL. Others run at the vendor's: they are
 * left out. False with a 400. */
bool translate_tools(struct translation*, const char* kind, const char* otherwise, const char* text,
                     const char* parameters);
/* A call of a tool of free text. */
void translate_text_call(struct translation*, const char* id, const char* name, const char* text);
/* A message with what api_texts reads; and one with what a call gave. False with a 400. */
bool translate_texts(struct translation*, const char* role, const cJSON* content, const char* field,
                     const char* types);
bool translate_result(struct translation*, const char* id, const cJSON* content, const char* field,
                      const char* types);
/* The tool that has to be called. */
void translate_choice(struct translation*, const char* name);

/* The vendors' requests: OpenAI's Responses (/v1/responses), Anthropic's Messages (/v1/messages), and the
 * latter without the fields that counting tokens does without. */
bool responses_read(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);
bool messages_read(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);
bool messages_read_counted(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);
/* An error in Anthropic's shape, malloc'd; NULL on no memory. */
char* messages_error_text(const struct api_error*);

#endif
