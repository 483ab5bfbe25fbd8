/* The layout of quantized weights on the device. Every bit of a GGUF block is kept, in planes by kind, so
 * that one of four lanes gets the bytes that it multiplies with one load of 16 bytes.
 *
 * Columns go in groups of 32 (GROUP_COLUMNS), which is what one step of a product takes. `data` holds a row
 * in units of 64 bytes, 16 a lane: with bytes, lane q's columns 8q…8q+7 of two groups one after the other;
 * with nibbles a word for each of four groups. In a word, nibbles k and k + 4 are the lane's columns 2k and
 * 2k + 1, so that one mask leaves both in the halves of a register. Rows are whole units; the bytes behind
 * the last group are zero.
 *
 *   Q8_0  scale: a half a group
 *   Q4_1  scale: a half and a half minimum a group
 *   Q4_K  scale: the block's first 16 bytes as they are, for every 256 columns
 *   Q6_K  scale: 16 signed bytes and factor: a half, for every 256 columns; high: the upper two bits, 8 bytes
 * a lane and unit. Lane q's columns of a group are 4q…4q+3 and 16+4q…16+4q+3 here, so that each instruction
 * keeps to 16 columns of one scale. */
#pragma once

#include "kernels/cuda/cuda.cuh"

enum { GROUP_COLUMNS = 32, SUPER_COLUMNS = 256, UNIT_BYTES = 64 };

/* Byte of a row where `within` of a group lies, in bytes. */
__device__ __host__ static inline int64_t interleaved_byte(int64_t group, int within) {
	return group / 2 * 64 + 16 * (within / 8) + 8 * (group % 2) + within % 8;
}

struct nibble_place {
	int64_t byte, high_byte; /* of a row in data and in high */
	int shift, high_shift;
};

__device__ __host__ static inline struct nibble_place nibble_place(int64_t group, int within, bool six) {
	const int lane = six ? within % 16 / 4 : within / 8;
	const int column = six ? within / 16 * 4 + within % 4 : within % 8; /* of the lane's eight */
	const int nibble = column / 2 + 4 * (column % 2), g = (int)(group % 4);
	struct nibble_place at;
	at.byte = group / 4 * UNIT_BYTES + 16 * lane + 4 * g + nibble / 2;
	at.shift = 4 * (nibble % 2);
	at.high_byte = group / 4 * (UNIT_BYTES / 2) + 8 * lane + 4 * (g / 2) + 2 * (column % 2) + g % 2;
	at.high_shift = 2 * (column / 2);
	return at;
}

/* Bytes a row takes in each plane; 0: none. */
struct planes {
	size_t data, high, scale, factor;
};

static inline struct planes planes_of(enum dtype type, int64_t cols) {
	const size_t groups = (size_t)cols / GROUP_COLUMNS, super = (size_t)cols / SUPER_COLUMNS;
	const size_t pairs = (groups + 1) / 2 * UNIT_BYTES, fours = (groups + 3) / 4 * UNIT_BYTES;
	switch (type) {
	case DTYPE_Q8_0:
		return {pairs, 0, groups * 2, 0};
	case DTYPE_Q4_1:
		return {fours, 0, groups * 4, 0};
	case DTYPE_Q4_K:
		return {fours, 0, super * 16, 0};
	case DTYPE_Q6_K:
		return {fours, fours / 2, super * 16, super * 2};
	default:
		return {(size_t)cols * 2, 0, 0, 0};
	}
}
