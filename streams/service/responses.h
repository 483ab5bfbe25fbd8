/* OpenAI's Responses (/v1/responses): the reader and the voice. */
#ifndef SWIFTLET_STREAMS_SERVICE_RESPONSES_H
#define SWIFTLET_STREAMS_SERVICE_RESPONSES_H

#include "streams/service/openai.h"

/* As api_read_chat, of a body in this shape. */
bool responses_read(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);

#endif
