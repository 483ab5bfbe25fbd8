/* Chats for templates without tools or system messages. For a template without tools, a system message
 * describes them in Hermes' words, and calls and their results become texts. For one without system messages,
 * they go to the beginning of the first user's message. A small test conversation finds the template's
 * abilities. */
#pragma once

#include "core/text/chat_template.h"

struct chat_json chat_json(const char* text); /* NULL: not given */
/* True when a prompt of the template does not show the tools that it is given. */
bool chat_template_lacks_tools(const char* template_text, const struct tokenizer*);
/* Tools, malloc'd, with an empty description of each function and parameter that has none, and with
 * parameters: some templates read these without asking. NULL where nothing is missing, or on no memory. */
char* chat_tools_filled(const char* tools);
/* Points the request to other messages where the template needs them, malloc'd into *messages; else they stay
 * as they are, and *messages NULL. False with the error set. */
bool chat_shape(const char* template_text, const struct tokenizer*, struct chat_request*, char** messages,
                struct error*);
