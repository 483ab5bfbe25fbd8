/* The chat of a request: its messages, tools, documents and template variables, checked, as the JSON texts
 * that a template is given.
 *
 * Numbers stay as they were written. A content of text parts becomes one string; the JSON text that clients
 * give as a tool call's arguments becomes the object that templates expect; `developer` becomes `system`, and
 * what messages had before there were tools ("function_call", the role `function`) becomes what they have
 * now. For models that were not trained for tools or system messages, see chat_shape.h. */
#ifndef SWIFTLET_STREAMS_CHAT_PARTS_H
#define SWIFTLET_STREAMS_CHAT_PARTS_H

#include "kernels/backend.h"

struct model;
struct token_list;

enum { CHAT_MAX_MESSAGES = 4096 };

struct chat_parts { /* JSON texts, malloc'd and NUL-terminated; NULL: not given */
	char* messages;
	char* messages_as_written; /* with arguments as the text they came as; NULL where that is the same */
	char *tools, *documents, *variables;
	int n_messages;
	bool goes_on; /* the answer goes on with the last message, the assistant's */
	bool no_generation_prompt;
};

/* From the members "messages" (which must be there), "tools", "documents", "chat_template_kwargs",
 * "enable_thinking", "reasoning_effort", "continue_final_message" and "add_generation_prompt" of an object
 * that json_check took. False with the error, and *field names the member. Free in any case. */
bool chat_parts_read(const char* object, size_t size, struct chat_parts*, const char** field, struct error*);
void chat_parts_free(struct chat_parts*);
/* True when the model's template has no tools, so that a system message describes them (chat_shape.h). */
bool chat_parts_tell_tools(const struct chat_parts*, const struct model*);
/* The ids through the model's template; where it cannot take arguments as objects, as they were written. */
bool chat_parts_encode(const struct chat_parts*, const struct model*, struct token_list*, struct error*);

#endif
