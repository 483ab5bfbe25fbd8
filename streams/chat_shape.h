/* Chats for templates that lack something: a template without tools is given a system message that tells of
 * them, in Hermes' words, and calls and their results as texts; one without system messages has them at the
 * beginning of the first user's. What a template can do is found by asking it for a small conversation. */
#ifndef SWIFTLET_STREAMS_CHAT_SHAPE_H
#define SWIFTLET_STREAMS_CHAT_SHAPE_H

#include "core/text/chat_template.h"

struct chat_json chat_json(const char* text); /* NULL: not given */
/* Whether a prompt of the template tells nothing of the tools that it is given. */
bool chat_template_lacks_tools(const char* template_text, const struct tokenizer*);
/* Points the request to other messages where the template needs them, malloc'd into *messages; else they stay
 * as they are, and *messages NULL. False with the error set. */
bool chat_shape(const char* template_text, const struct tokenizer*, struct chat_request*, char** messages,
                struct error*);

#endif
