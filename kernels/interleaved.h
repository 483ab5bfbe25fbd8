/* Weight rows laid side by side, word by word: struct tensor's `interleaved`.
 *
 * A vector then holds a word of each row, and a product needs no sums across lanes and no transposition. It
 * is the same bytes in another order: byte `at` of a block of INTERLEAVED_ROWS rows begins at
 * INTERLEAVED_ROWS·at. Blocks of some types are not a whole number of words. In these a 16-bit float stands
 * alone, at the beginning of blocks of 32 and at the end of blocks of 256. */
#pragma once

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

/* The parts of a block: `words` bytes from `words_at` on, and a half float at half_at where has_half */
struct interleaved_parts {
	size_t words_at, words, half_at;
	bool has_half;
};

static inline struct interleaved_parts interleaved_parts_of(enum dtype type) {
	const size_t bytes = dtype_block_bytes(type);
	if (bytes % INTERLEAVED_BYTES == 0)
		return (struct interleaved_parts){.words = bytes};
	const bool first = dtype_block(type) == 32;
	return (struct interleaved_parts){
	    .words_at = first ? 2 : 0, .words = bytes - 2, .half_at = first ? 0 : bytes - 2, .has_half = true};
}

/* Block `lane` of an interleaved group of blocks of a type */
static inline void deinterleave_block(enum dtype type, void* block, const void* interleaved, int lane) {
	const struct interleaved_parts parts = interleaved_parts_of(type);
	const unsigned char* from = interleaved;
	unsigned char* to = block;
	deinterleave(to + parts.words_at, from + INTERLEAVED_ROWS * parts.words_at, lane, parts.words);
	if (parts.has_half)
		memcpy(to + parts.half_at, from + INTERLEAVED_ROWS * parts.half_at + lane * 2, 2);
}

/* INTERLEAVED_ROWS rows of `cols` columns, one behind the other, to `out`, of as many bytes. The type is
 * quantized, in blocks of an even number of bytes. */
void interleave_rows(enum dtype type, void* out, const void* rows, int64_t cols);
