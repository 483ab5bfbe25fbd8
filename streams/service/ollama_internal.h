/* The request readers of ollama_request.c, for ollama.c. */
#ifndef SWIFTLET_STREAMS_SERVICE_OLLAMA_INTERNAL_H
#define SWIFTLET_STREAMS_SERVICE_OLLAMA_INTERNAL_H

#include "streams/service/openai.h"

bool ollama_read_chat(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);
bool ollama_read_generate(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);
bool ollama_read_embed(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);

#endif
