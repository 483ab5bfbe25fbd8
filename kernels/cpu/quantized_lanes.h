/* Weight rows across lanes: a vector holds four neighbouring columns of LANES rows, a lane each. What both
 * ways of multiplying such vectors share; included after the vector type, which is told in
 * matmul_quantized.h. */
#include "kernels/cpu/quantized_blocks.h"

/* The rows of a tile */
struct rows {
	const uint8_t* at;
	size_t stride;
};

/* The 16 bytes at `at` of every row, as four vectors of 4 bytes a row */
INLINED void columns(const struct rows* rows, size_t at, ints out[4]) {
	ints z[4];
	UNROLLED for (int k = 0; k < 4; k++) z[k] =
	    ints_quarters(rows->at + (size_t)k * rows->stride + at, 4 * rows->stride);
	const ints a = ints_low_pairs(z[0], z[1]), b = ints_high_pairs(z[0], z[1]);
	const ints c = ints_low_pairs(z[2], z[3]), d = ints_high_pairs(z[2], z[3]);
	out[0] = ints_low_halves(a, c);
	out[1] = ints_high_halves(a, c);
	out[2] = ints_low_halves(b, d);
	out[3] = ints_high_halves(b, d);
}

/* Word k of the 16 bytes at `at` of every row */
INLINED ints words(const struct rows* rows, size_t at, int k) {
	ints out[4];
	columns(rows, at, out); /* what is not asked for is not computed */
	return out[k];
}

INLINED ints low_bits(ints v, int shift, int mask) {
	return ints_and(ints_right(v, shift), ints_bytes(mask));
}

/* Bits `from`… of each byte as bits `to`…, where `mask` has them */
INLINED ints moved_bits(ints v, int from, int to, int mask) {
	return ints_and(from < to ? ints_left(v, to - from) : ints_right(v, from - to), ints_bytes(mask));
}

/* Byte j of each lane as a 32-bit integer */
INLINED ints byte_of(ints v, int j) { return ints_shuffle(v, 0x80808000 | (uint32_t)j); }

/* Bytes j and k of each lane as 16-bit integers */
INLINED ints two_bytes(ints v, int j, int k) {
	return ints_shuffle(v, 0x80008000 | (uint32_t)j | (uint32_t)k << 16);
}

/* Where bits 4c…4c + 3 of a lane are set, 16 in its bytes */
INLINED ints fifth_bits(ints high, int c) {
	const ints mine = ints_shuffle(high, 0x01010101 * (uint32_t)(c / 2));
	return ints_where(mine, c % 2 ? 0x80402010 : 0x08040201, 16);
}

/* The fifth bits' place in a block, 0 without */
INLINED size_t high_at(enum dtype type) { return type == DTYPE_Q5_0 ? 2 : type == DTYPE_Q5_1 ? 4 : 0; }

/* Activation rows reached from two of them by three multiples of their distance: registers enough for all. */
struct columns_of_rows {
	const uint8_t *first, *fifth;
	size_t one, three;
};

#define KEPT(x) __asm__("" : "+r"(x)) /* the compiler shall not make one address of another */

INLINED struct columns_of_rows rows_from(const uint8_t* x, size_t stride) {
	struct columns_of_rows at = {.first = x, .fifth = x + 4 * stride, .one = stride, .three = 3 * stride};
	KEPT(at.fifth);
	KEPT(at.one);
	KEPT(at.three);
	return at;
}

/* The same rows at another place */
INLINED struct columns_of_rows rows_beside(const struct columns_of_rows* rows, const uint8_t* x) {
	struct columns_of_rows at = *rows;
	at.first = x;
	at.fifth = x + 4 * at.one;
	KEPT(at.fifth);
	return at;
}

INLINED const uint8_t* row_at(const struct columns_of_rows* x, int i) {
	return (i < 4 ? x->first : x->fifth) + (i % 4 == 3 ? x->three : (size_t)(i % 4) * x->one);
}

INLINED void advance(struct columns_of_rows* x, int bytes) {
	x->first += bytes;
	x->fifth += bytes;
}
