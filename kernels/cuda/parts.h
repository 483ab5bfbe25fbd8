/* Chooses the number of parts into which the columns of a product are split.
 *
 * A block takes 16 rows of a matrix, a tile. A multiprocessor runs several blocks at once, and one that gets
 * three while others get two ends last: 320 tiles keep 132 multiprocessors 0.81 busy, 640 halves of tiles
 * 0.97. In return the last block of a tile waits for a count and reads the others' sums. */
#pragma once

/* The cost of a count and a second look, about a microsecond of an H100's or H200's memory, in its bytes. */
enum { PARTS_COMBINING = 4 << 20, MOST_PARTS = 4 };

/* The cost of the product in bytes of memory's time, as far as every multiprocessor gets the same of it. */
static inline double parts_take(int tiles, double bytes, int parts, int multiprocessors) {
	const int blocks = tiles * parts;
	const int most = (blocks + multiprocessors - 1) / multiprocessors;
	return bytes * most * multiprocessors / blocks + (parts > 1 ? PARTS_COMBINING : 0);
}

/* 1, 2 or 4, by the matrix's shape and type, its tiles and all its bytes, and by the device. */
static inline int parts_by_shape(int tiles, double bytes, int multiprocessors) {
	int best = 1;
	for (int parts = 2; parts <= MOST_PARTS; parts *= 2)
		if (parts_take(tiles, bytes, parts, multiprocessors) <
		    parts_take(tiles, bytes, best, multiprocessors))
			best = parts;
	return best;
}
