/* How vectors of prompts are told. */
#ifndef SWIFTLET_STREAMS_SERVICE_EMBEDDINGS_H
#define SWIFTLET_STREAMS_SERVICE_EMBEDDINGS_H

#include "streams/service/generation.h"

/* The choice's, of length 1, of as many dimensions as were asked for. */
void embedding_put(struct text*, struct choice*);

#endif
