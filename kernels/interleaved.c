/* Lays rows of any quantized type side by side. */
#include "kernels/interleaved.h"

void interleave_rows(enum dtype type, void* out, const void* rows, int64_t cols) {
	const struct interleaved_parts parts = interleaved_parts_of(type);
	const size_t bytes = dtype_block_bytes(type), row_bytes = dtype_row_bytes(type, cols);
	const unsigned char* from = rows;
	unsigned char* to = out;
	for (size_t b = 0; b < row_bytes / bytes; b++, from += bytes, to += INTERLEAVED_ROWS * bytes) {
		const unsigned char* words = from + parts.words_at;
		unsigned char* at = to + INTERLEAVED_ROWS * parts.words_at;
		for (size_t w = 0; w < parts.words; w += INTERLEAVED_BYTES, words += INTERLEAVED_BYTES)
			for (size_t r = 0; r < INTERLEAVED_ROWS; r++, at += INTERLEAVED_BYTES)
				memcpy(at, words + r * row_bytes, INTERLEAVED_BYTES);
		for (size_t r = 0; parts.has_half && r < INTERLEAVED_ROWS; r++)
			memcpy(to + INTERLEAVED_ROWS * parts.half_at + r * 2, from + r * row_bytes + parts.half_at, 2);
	}
}
