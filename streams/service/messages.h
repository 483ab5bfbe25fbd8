/* Anthropic's Messages (/v1/messages): the reader and the voice. */
#ifndef SWIFTLET_STREAMS_SERVICE_MESSAGES_H
#define SWIFTLET_STREAMS_SERVICE_MESSAGES_H

#include "streams/service/openai.h"

/* As api_read_chat, of a body in this shape. */
bool messages_read(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);

/* The body of /v1/messages/count_tokens: the same without what says how to go on. */
bool messages_read_counted(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);
/* {"type": "error", "error": {"type", "message"}}, malloc'd. */
char* messages_error_text(const struct api_error*);

#endif
