/* Ollama's API: /api/chat, /api/generate, /api/embed, /api/embeddings, and the descriptions of models.
 * Streams are lines of JSON; a request streams by default. */
#pragma once

#include "streams/service/generation.h"

extern const struct response_formatter formatter_ollama_chat, formatter_ollama_generate,
    formatter_ollama_embed, formatter_ollama_embeddings;
bool answer_ollama_tags(struct http_call*);
bool answer_ollama_show(struct http_call*);
/* {"error": …}, malloc'd; NULL on no memory. */
char* ollama_error_text(const struct api_error*);
