/* Weight rows laid side by side, word by word: struct tensor's `interleaved`.
 *
 * A vector then holds a word of each row and a product needs no sums across lanes and nothing turned round.
 * It is the same bytes in another order. */
#ifndef SWIFTLET_KERNELS_INTERLEAVED_H
#define SWIFTLET_KERNELS_INTERLEAVED_H

#include <string.h>

#include "kernels/backend.h"

enum { INTERLEAVED_BYTES = 4 }; /* of a word */

/* A row of `bytes`, a multiple of 4, to its lane in [0, INTERLEAVED_ROWS) of `interleaved` (INTERLEAVED_ROWS,
 * bytes), and back. A row's parts are interleaved one by one: part p, of `bytes`, into what begins
 * p·INTERLEAVED_ROWS·bytes behind the first. */
static inline void interleave(void* interleaved, const void* row, int lane, size_t bytes) {
	unsigned char* to = (unsigned char*)interleaved + lane * INTERLEAVED_BYTES;
	for (size_t at = 0; at < bytes; at += INTERLEAVED_BYTES, to += INTERLEAVED_ROWS * INTERLEAVED_BYTES)
		memcpy(to, (const unsigned char*)row + at, INTERLEAVED_BYTES);
}

static inline void deinterleave(void* row, const void* interleaved, int lane, size_t bytes) {
	const unsigned char* from = (const unsigned char*)interleaved + lane * INTERLEAVED_BYTES;
	for (size_t at = 0; at < bytes; at += INTERLEAVED_BYTES, from += INTERLEAVED_ROWS * INTERLEAVED_BYTES)
		memcpy((unsigned char*)row + at, from, INTERLEAVED_BYTES);
}

#endif
