/* The bytes that attention reads after a text of some length, from which costs of steps at long contexts
 * begin, and the size of a KV cache. */
#pragma once

#include "kernels/backend.h"

/* Bytes of keys and values that one row reads in all blocks after a text of `positions`, in a cache of this
 * type. Blocks without a window read only `read` positions. */
double attention_bytes(const struct model_shape*, enum dtype, int positions, int read);
/* Bytes of a cache for so many positions. Blocks that share the keys of earlier ones take none. */
double cache_size(const struct model_shape*, enum dtype, int positions);
