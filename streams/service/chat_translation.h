/* Translates requests of other vendors into OpenAI's chats or completions. A body is rewritten member by
 * member and then read as OpenAI's. So there is one reader of fields, one of messages, and one way to an
 * answer. */
#pragma once

#include "streams/service/openai.h"

struct translation {
	const cJSON* from;
	struct text to;            /* the new body so far; the last of its messages is open */
	bool begun, answer, calls; /* there is one; it is the assistant's; it has a list of calls */
	bool goes_on;              /* the answer goes on with it */
	struct text thought;       /* the assistant's reasoning before its next text */
	struct text ignored;       /* fields, and tools, that are left out */
	struct text custom;        /* names of tools with free text, which became functions */
	struct api_error* error;
};

struct translator {
	/* Fields, words with a blank between: with the same meaning; read by `read`; without effect. */
	const char *same, *own, *hints;
	/* Pairs of our name and the vendor's name of a field, NULL-ended. Fields of a pair have the same meaning,
	 * and an error of ours names the vendor's. Other fields that are not `own` are ignored. */
	const char* const (*renamed)[2];
	bool (*messages)(
	    struct translation*);          /* false with a 400; NULL: the request is a completion, not a chat */
	bool (*read)(struct translation*); /* the other members, likewise */
	/* Sets further fields of the request; NULL: none. False: out of memory. */
	bool (*finish)(const cJSON* from, struct api_request*);
};
bool translation_read(const struct translator*, const char* body, size_t size, int vocab, struct api_request*,
                      struct api_error*);

/* Begins a member of the new body; the caller then writes its value. */
struct text* translate_member(struct translation*, const char* name);
/* Adds a message with a text; NULL: without content. The assistant's gets the reasoning before it. */
void translate_message(struct translation*, const char* role, const char* text);
/* Adds a call to the last message if that is the assistant's, else to a new one. arguments: JSON text. */
void translate_call(struct translation*, const char* id, const char* name, const char* arguments);
/* Writes "tools" as {"type": "function", "function": {"name", "description", "parameters", "strict"}}, each
 * with the members that it has. kind: the type of functions; otherwise: the type of a tool without one; text:
 * the type of tools with free text, which become functions, or NULL. Tools of other types are hosted by the
 * vendor and left out. False with a 400. */
bool translate_tools(struct translation*, const char* kind, const char* otherwise, const char* text,
                     const char* parameters);
/* A call of a tool of free text. */
void translate_text_call(struct translation*, const char* id, const char* name, const char* text);
/* Adds a message with the text that api_texts reads; and a message with a call's result. */
bool translate_texts(struct translation*, const char* role, const cJSON* content, const char* field,
                     const char* types);
bool translate_result(struct translation*, const char* id, const cJSON* content, const char* field,
                      const char* types);
/* The tool that has to be called. */
void translate_choice(struct translation*, const char* name);

/* The vendors' requests: OpenAI's Responses (/v1/responses), Anthropic's Messages (/v1/messages), and
 * Messages for counting tokens, which lack some fields. */
bool responses_read(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);
bool messages_read(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);
bool messages_read_counted(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);
/* An error in Anthropic's format, malloc'd; NULL on no memory. */
char* messages_error_text(const struct api_error*);
