/* The bytes and operations of attention after a text of some length: costs of steps at long contexts begin
 * from these. */
#ifndef SWIFTLET_KERNELS_ATTENTION_COST_H
#define SWIFTLET_KERNELS_ATTENTION_COST_H

#include "kernels/backend.h"

/* Positions that the attentions of all blocks together see of a text of `positions`, where those without a
 * window read only `read` of them. */
double attention_positions(const struct model_shape*, int positions, int read);
/* Bytes of keys and values that a row of theirs reads, in a cache of this type. */
double attention_bytes(const struct model_shape*, enum dtype, int positions, int read);
/* Multiply-adds that it takes, q·k and the mixing of values. */
double attention_operations(const struct model_shape*, int positions, int read);

#endif
