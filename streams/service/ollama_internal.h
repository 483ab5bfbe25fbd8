/* The request readers of ollama_request.c, for ollama.c. */
#pragma once

#include "streams/service/openai.h"

bool ollama_read_chat(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);
bool ollama_read_generate(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);
bool ollama_read_embed(const char* body, size_t size, int vocab, struct api_request*, struct api_error*);
