/* Weight rows laid side by side, word by word: struct tensor's `woven`.
 *
 * A vector then holds a word of each row and a product needs no sums across lanes and nothing turned round.
 * It is the same bytes in another order. */
#ifndef SWIFTLET_KERNELS_WOVEN_H
#define SWIFTLET_KERNELS_WOVEN_H

#include <stddef.h>

/* A row of `bytes`, a multiple of 4, to its lane in [0, WOVEN) of `woven` (WOVEN, bytes), and back. A row's
 * parts are woven one by one: part p, of `bytes`, into what begins p·WOVEN·bytes behind the first. */
void weave(void* woven, const void* row, int lane, size_t bytes);
void unweave(void* row, const void* woven, int lane, size_t bytes);

#endif
