/* Weight rows across lanes: a vector holds four neighbouring columns of LANES rows, a lane each. Shared by
 * both ways of multiplying such vectors; included after the vector type, which is defined in
 * matmul_quantized.h. */
#include "kernels/cpu/quantized_blocks.h"

/* The rows of a tile. Interleaved: byte `at` of a block of all of them stands at LANES·at, in units of a word
 * or a half (kernels/interleaved.h), and there is no stride. */
struct rows {
	const uint8_t* at;
	size_t stride;
	bool interleaved; /* known when compiling */
};

enum { STREAM_AHEAD = 512 }; /* bytes; 256 is as fast, 1024 is .85 to 1, 128 .9 (Zen 5) */

/* Rows that lie apart are streams (matmul_direct.h): of each, STREAM_AHEAD later, share `share` of `shares`
 * of the lines of a block of `bytes`, into the first-level cache. All at once are as many as a core can wait
 * for, and Q6_K's more (one row of it .79 ms so, 1 KiB ahead, .57 now; AVX2). */
INLINED void fetch_share(const struct rows* rows, size_t bytes, size_t share, size_t shares) {
	const size_t lines = LANES * ((bytes + 63) / 64), each = (lines + shares - 1) / shares;
	UNROLLED for (size_t i = share * each; i < (share + 1) * each; i++) if (i < lines)
	    __builtin_prefetch(rows->at + i % LANES * rows->stride + STREAM_AHEAD + i / LANES * 64, 0, 3);
}

/* The compiler shall not compute an address from another one, or sixteen would have to fit its registers. */
#define KEPT(x) __asm__("" : "+r"(x))

/* Vectors of 16 bytes of every fourth row, as four of 4 bytes a row */
INLINED void turn(const ints z[4], ints out[4]) {
	const ints a = ints_low_pairs(z[0], z[1]), b = ints_high_pairs(z[0], z[1]);
	const ints c = ints_low_pairs(z[2], z[3]), d = ints_high_pairs(z[2], z[3]);
	out[0] = ints_low_halves(a, c);
	out[1] = ints_high_halves(a, c);
	out[2] = ints_low_halves(b, d);
	out[3] = ints_high_halves(b, d);
}

/* The 16 bytes at `at` of every row, as four vectors of 4 bytes a row */
INLINED void columns(const struct rows* rows, size_t at, ints out[4]) {
	if (rows->interleaved) {
		UNROLLED for (size_t k = 0; k < 4; k++) out[k] = ints_load_anywhere(rows->at + LANES * (at + 4 * k));
		return;
	}
	ints z[4];
	size_t four = 4 * rows->stride, twelve = 3 * four;
	KEPT(four);
	KEPT(twelve);
	UNROLLED for (int k = 0; k < 4; k++) {
		const uint8_t* row = rows->at + (size_t)k * rows->stride + at;
		KEPT(row);
		z[k] = ints_quarters(row, four, twelve);
	}
	turn(z, out);
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

/* Nibbles of columns 4c…, with 16 where their bits 4c…4c + 3 of `high` are set */
INLINED ints with_fifth_bits(ints nibbles, ints high, int c) {
	const ints mine = ints_shuffle(high, 0x01010101 * (uint32_t)(c / 2));
	return ints_or_where(nibbles, mine, c % 2 ? 0x80402010 : 0x08040201, 16);
}

/* The fifth bits' place in a block, 0 without */
INLINED size_t high_at(enum dtype type) { return type == DTYPE_Q5_0 ? 2 : type == DTYPE_Q5_1 ? 4 : 0; }

/* Activation rows: the first five by addresses of their own, the others by multiples of their distance from
 * the fifth. An instruction whose address has no index is one operation where others are two. */
struct columns_of_rows {
	const uint8_t* row[5];
	size_t one, three;
};

INLINED struct columns_of_rows rows_from(const uint8_t* x, size_t stride) {
	struct columns_of_rows at = {.one = stride, .three = 3 * stride};
	UNROLLED for (size_t i = 0; i < 5; i++) {
		at.row[i] = x + i * stride;
		KEPT(at.row[i]);
	}
	KEPT(at.one);
	KEPT(at.three);
	return at;
}

/* The same rows at another place */
INLINED struct columns_of_rows rows_beside(const struct columns_of_rows* rows, const uint8_t* x) {
	return rows_from(x, rows->one);
}

INLINED const uint8_t* row_at(const struct columns_of_rows* x, int i) {
	return i < 5 ? x->row[i] : x->row[4] + (i == 7 ? x->three : (size_t)(i - 4) * x->one);
}

INLINED void advance(struct columns_of_rows* x, int bytes) {
	UNROLLED for (int i = 0; i < 5; i++) x->row[i] += bytes;
}

/* ---- what stands beside a block's 256 columns ------------------------------------------------- */

/* Scales and minima, a byte a group, four groups a vector. scale_of and minima_of widen them where they are
 * used, because a whole block's would fill the registers. */
struct header {
	ints scale[4], min[4];
	floats d, less; /* less: -dmin */
};

/* Group g's scale */
INLINED ints scale_of(enum dtype type, const struct header* header, int g) {
	const ints four = header->scale[g / 4];
	if (type == DTYPE_Q6_K)
		return ints_right_signed(ints_left(four, 24 - g % 4 * 8), 24);
	const ints scale = byte_of(four, g % 4);
	return type == DTYPE_Q3_K ? ints_sub(scale, ints_set(32)) : scale;
}

/* Minima of groups 2p and 2p + 1, in 16 bits each */
INLINED ints minima_of(const struct header* header, int p) {
	return two_bytes(header->min[p / 2], p % 2 * 2, p % 2 * 2 + 1);
}

/* d and dmin, of which each lane holds the halves */
INLINED void put_d_dmin(struct header* out, ints both) {
	out->d = floats_from_halves(both);
	out->less = floats_negated(floats_from_halves(ints_right(both, 16)));
}

/* For q4_k and q5_k: k4_scale_min for all at once */
INLINED void k4_header(struct header* out, const struct rows* rows) {
	ints head[4];
	columns(rows, 0, head);
	put_d_dmin(out, head[0]);
	const ints more_scales = moved_bits(head[1], 6, 4, 0x30), more_minima = moved_bits(head[2], 6, 4, 0x30);
	out->scale[0] = low_bits(head[1], 0, 63);
	out->min[0] = low_bits(head[2], 0, 63);
	out->scale[1] = ints_or(low_bits(head[3], 0, 15), more_scales);
	out->min[1] = ints_or(low_bits(head[3], 4, 15), more_minima);
}

INLINED void q2_k_header(struct header* out, const struct rows* rows) {
	ints packed[4];
	columns(rows, 0, packed);
	UNROLLED for (int j = 0; j < 4; j++) {
		out->scale[j] = low_bits(packed[j], 0, 15);
		out->min[j] = low_bits(packed[j], 4, 15);
	}
	put_d_dmin(out, words(rows, 68, 3));
}

INLINED void q3_k_header(struct header* out, const struct rows* rows) {
	ints tail[4];
	ints* const packed = tail;
	if (rows->interleaved) {
		columns(rows, 92, tail);
		out->d = floats_load_halves(rows->at + LANES * 108);
		UNROLLED for (int j = 0; j < 3; j++) packed[j] = tail[j + 1];
	} else { /* from two bytes before the scales to the block's end, d */
		columns(rows, 94, tail);
		out->d = floats_from_halves(ints_right(tail[3], 16));
		UNROLLED for (int j = 0; j < 3; j++) packed[j] =
		    ints_or(ints_right(tail[j], 16), ints_left(tail[j + 1], 16));
	}
	UNROLLED for (int j = 0; j < 4; j++) {
		const ints low = low_bits(packed[j % 2], j / 2 * 4, 15);
		const ints high = moved_bits(packed[2], j * 2, 4, 0x30);
		out->scale[j] = ints_or(low, high);
	}
}

INLINED void q6_k_header(struct header* out, const struct rows* rows) {
	columns(rows, 192, out->scale);
	out->d = rows->interleaved ? floats_load_halves(rows->at + LANES * 208)
	                           : floats_from_halves(ints_right(words(rows, 194, 3), 16));
}

INLINED void take_header(enum dtype type, struct header* out, const struct rows* rows) {
	if (type == DTYPE_Q2_K)
		q2_k_header(out, rows);
	else if (type == DTYPE_Q3_K)
		q3_k_header(out, rows);
	else if (type == DTYPE_Q6_K)
		q6_k_header(out, rows);
	else
		k4_header(out, rows);
}
