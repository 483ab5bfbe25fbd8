/* Writes the embedding vectors of prompts. */
#pragma once

#include "streams/service/generation.h"

/* Writes the choice's vector: of length 1, with as many dimensions as were requested. */
void embedding_put(struct text*, struct choice*);
