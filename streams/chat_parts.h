/* The chat of a request, checked: its messages, tools, documents and template variables, as the JSON texts
 * that a template receives.
 *
 * Numbers stay as they were written. A content of text parts becomes one string. The JSON text that clients
 * give as a tool call's arguments becomes an object, which templates expect. `developer` becomes `system`.
 * The members that messages had before tools ("function_call", the role `function`) become today's.
 * chat_shape.h treats models that were not trained for tools or system messages. */
#pragma once

#include "kernels/backend.h"

struct model;
struct token_list;

enum { CHAT_MAX_MESSAGES = 4096 };

struct chat_parts { /* JSON texts, malloc'd and NUL-terminated; NULL: absent */
	char* messages;
	char* messages_as_written; /* with arguments as the client wrote them; NULL: no difference */
	char *tools, *documents, *variables;
	int n_messages;
	bool goes_on; /* the answer continues the last message, which is the assistant's */
	bool no_generation_prompt;
};

/* Reads the members "messages" (required), "tools", "documents", "chat_template_kwargs", "enable_thinking",
 * "reasoning_effort", "continue_final_message" and "add_generation_prompt" of an object that json_check
 * accepted. False with the error set; *field then names the member. Free in any case. */
bool chat_parts_read(const char* object, size_t size, struct chat_parts*, const char** field, struct error*);
/* Adds the variables of a checked JSON object that the chat itself does not give. NULL: none. */
bool chat_parts_add_variables(struct chat_parts*, const char* variables, struct error*);
/* False with the error set if the text is no JSON object of variables that a template can get. */
bool chat_variables_check(const char* variables, struct error*);
void chat_parts_free(struct chat_parts*);
/* True when the model's template has no tools, so that a system message describes them (chat_shape.h). */
bool chat_parts_list_tools(const struct chat_parts*, const struct model*);
/* The ids through the model's template. If it cannot take arguments as objects, it gets them as they were
 * written. */
bool chat_parts_encode(const struct chat_parts*, const struct model*, struct token_list*, struct error*);
