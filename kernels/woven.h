/* Weight rows laid side by side, word by word: struct tensor's `woven`.
 *
 * A vector then holds a word of each row and a product needs no sums across lanes and nothing turned round.
 * It is the same bytes in another order. */
#ifndef SWIFTLET_KERNELS_WOVEN_H
#define SWIFTLET_KERNELS_WOVEN_H

#include <string.h>

#include "kernels/backend.h"

enum { WOVEN_BYTES = 4 }; /* of a word */

/* A row of `bytes`, a multiple of 4, to its lane in [0, WOVEN) of `woven` (WOVEN, bytes), and back. A row's
 * parts are woven one by one: part p, of `bytes`, into what begins p·WOVEN·bytes behind the first. */
static inline void weave(void* woven, const void* row, int lane, size_t bytes) {
	unsigned char* to = (unsigned char*)woven + lane * WOVEN_BYTES;
	for (size_t at = 0; at < bytes; at += WOVEN_BYTES, to += WOVEN * WOVEN_BYTES)
		memcpy(to, (const unsigned char*)row + at, WOVEN_BYTES);
}

static inline void unweave(void* row, const void* woven, int lane, size_t bytes) {
	const unsigned char* from = (const unsigned char*)woven + lane * WOVEN_BYTES;
	for (size_t at = 0; at < bytes; at += WOVEN_BYTES, from += WOVEN * WOVEN_BYTES)
		memcpy((unsigned char*)row + at, from, WOVEN_BYTES);
}

#endif
