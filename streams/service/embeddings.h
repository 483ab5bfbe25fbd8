/* Writes vectors of prompts. */
#ifndef SWIFTLET_STREAMS_SERVICE_EMBEDDINGS_H
#define SWIFTLET_STREAMS_SERVICE_EMBEDDINGS_H

#include "streams/service/generation.h"

/* Writes the choice's vector: of length 1, with as many dimensions as were requested. */
void embedding_put(struct text*, struct choice*);

#endif
