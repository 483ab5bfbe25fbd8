/* Weight rows across lanes: a vector holds four neighbouring columns of LANES rows, a lane each. Shared by
 * both ways of multiplying such vectors; included after the vector type, which is defined in
 * matmul_quantized.h. */
#include "kernels/cpu/quantized_blocks.h"

/* The rows of a tile. Interleaved: they are LANES of a group's rows from `lane` on, `at` is the first one's
 * first word, byte b of their blocks stands INTERLEAVED_ROWS·b further, and there is no stride
 * (kernels/interleaved.h). */
struct rows {
	const uint8_t* at;
	size_t stride;
	bool interleaved; /* known when compiling */
	int lane;
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

/* Interleaved rows are one stream: fetches the share `part` of `parts` of the lines at `at`, where a group's
 * block of `bytes` a row lies. */
INLINED void fetch_stream(const uint8_t* at, size_t bytes, size_t part, size_t parts, bool second_level) {
	const size_t share = INTERLEAVED_ROWS * bytes / parts;
	UNROLLED for (size_t line = 0; line < share; line += 64)
	    fetch_line(at + share * part + line, second_level);
}

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
		UNROLLED for (size_t k = 0; k < 4; k++) out[k] =
		    ints_load_anywhere(rows->at + INTERLEAVED_ROWS * (at + 4 * k));
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

/* The half float at `at` of every block, interleaved: halves lie closer than words. */
INLINED floats half_floats_at(const struct rows* rows, size_t at) {
	return floats_load_halves(rows->at + INTERLEAVED_ROWS * at - rows->lane * 2);
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

/* ---- where a block's columns stand ------------------------------------------------------------ */

/* A step of a block of 256 is 64 of its columns, in two shares of 32. */
INLINED bool two_bits(enum dtype type) { return type == DTYPE_Q2_K || type == DTYPE_Q3_K; }
INLINED bool has_high(enum dtype type) {
	return type == DTYPE_Q3_K || type == DTYPE_Q5_K || type == DTYPE_Q6_K;
}

/* Where a step's packed columns stand in a block, and where their further bits */
INLINED size_t low_at(enum dtype type, int step) {
	const size_t first = type == DTYPE_Q5_K ? 48 : type == DTYPE_Q3_K ? 32 : type == DTYPE_Q6_K ? 0 : 16;
	return first + (size_t)(two_bits(type) ? step / 2 : step) * 32;
}
INLINED size_t high_at_step(enum dtype type, int step) {
	return type == DTYPE_Q6_K ? 128 + (size_t)(step / 2) * 32 : type == DTYPE_Q5_K ? 16 : 0;
}

/* How far a step's bits stand above the first step's that shares their bytes */
INLINED int low_moved(enum dtype type, int step) { return two_bits(type) ? step % 2 * 4 : 0; }
INLINED int high_moved(enum dtype type, int step) { return type == DTYPE_Q6_K ? step % 2 * 2 : step * 2; }

/* The first of the 32 columns of a share of a step */
INLINED int first_column(enum dtype type, int step, int share) {
	return type == DTYPE_Q6_K ? step / 2 * 128 + step % 2 * 32 + share * 64 : step * 64 + share * 32;
}

/* Four columns of share `share`, a byte each, from their bytes `low` and `high`, which stand low_up and
 * high_up bits higher than those of the first step */
INLINED ints four_columns(enum dtype type, ints low, int low_up, ints high, int high_up, int share) {
	low = low_bits(low, share * (two_bits(type) ? 2 : 4) + low_up, two_bits(type) ? 3 : 15);
	if (!has_high(type))
		return low;
	const int to = type == DTYPE_Q3_K ? 2 : 4, mask = type == DTYPE_Q6_K ? 0x30 : 1 << to;
	return ints_or(low, moved_bits(high, share * (type == DTYPE_Q6_K ? 4 : 1) + high_up, to, mask));
}

/* The word at `at` of every block, interleaved */
INLINED ints word_at(const struct rows* rows, size_t at) {
	return ints_load_anywhere(rows->at + INTERLEAVED_ROWS * at);
}

/* Columns 4c… of a share of a step, interleaved. They are loaded anew for each use: kept, they would drive
 * sums out of the registers. */
INLINED ints interleaved_columns(enum dtype type, const struct rows* w, int step, int share, int c) {
	const size_t word = (size_t)c * 4;
	const ints high = has_high(type) ? word_at(w, high_at_step(type, step) + word) : ints_set(0);
	return four_columns(type, word_at(w, low_at(type, step) + word), low_moved(type, step), high,
	                    high_moved(type, step), share);
}

/* Columns 4c… of a block of 32, interleaved, whose fifth bits are `high` */
INLINED ints interleaved_small_columns(enum dtype type, const struct rows* w, ints high, int c) {
	const size_t first = dtype_bytes_of(type) - (type == DTYPE_Q8_0 ? 32 : 16);
	if (type == DTYPE_Q8_0) {
		const ints four = word_at(w, first + (size_t)c * 4);
		return SIGNED_BYTES ? four : ints_flip_signs(four);
	}
	const ints low = low_bits(word_at(w, first + (size_t)(c % 4) * 4), c / 4 * 4, 15);
	if (type == DTYPE_IQ4_NL)
		return ints_iq4(low);
	return high_at(type) ? with_fifth_bits(low, high, c) : low;
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

/* A block's product with an activation row before that one's scale: `whole`, the integer products times their
 * groups' scales, times d, and less what the minima take off, whose sums of activations are at `sums`. */
INLINED floats block_product(enum dtype type, const struct header* header, floats whole,
                             const uint8_t* sums) {
	const floats product = floats_mul(header->d, whole);
	if (group_offset(type))
		return product;
	ints less = ints_set(0);
	UNROLLED for (int p = 0; p < 128 / group_of(type); p++) less =
	    ints_two_products(less, minima_of(header, p), to_all(sums + p * 4));
	return floats_fma(header->less, floats_from_ints(less), product);
}

/* LANES elements' sums over slots, which lie `apart` floats apart: halves to halves */
INLINED floats slots_added(const float* sum, int slots, size_t apart) {
	floats v[SLOTS];
	UNROLLED for (int s = 0; s < slots; s++) v[s] = floats_load(sum + (size_t)s * apart);
	UNROLLED for (int half = slots / 2; half > 0; half /= 2) UNROLLED for (int s = 0; s < half; s++) v[s] =
	    floats_add(v[s], v[s + half]);
	return v[0];
}

/* d and dmin, of which each lane holds the halves */
INLINED void put_d_dmin(struct header* out, ints both) {
	out->d = floats_from_halves(both);
	out->less = floats_negated(floats_from_halves(ints_right(both, 16)));
}

/* For q4_k and q5_k, from a block's first four words: k4_scale_min for all at once */
INLINED void k4_header(struct header* out, const ints head[4]) {
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
		out->d = half_floats_at(rows, 108);
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
	out->d = rows->interleaved ? half_floats_at(rows, 208)
	                           : floats_from_halves(ints_right(words(rows, 194, 3), 16));
}

INLINED void take_header(enum dtype type, struct header* out, const struct rows* rows) {
	if (type == DTYPE_Q2_K)
		q2_k_header(out, rows);
	else if (type == DTYPE_Q3_K)
		q3_k_header(out, rows);
	else if (type == DTYPE_Q6_K)
		q6_k_header(out, rows);
	else {
		ints head[4];
		columns(rows, 0, head);
		k4_header(out, head);
	}
}
