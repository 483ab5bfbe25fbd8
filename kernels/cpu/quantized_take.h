/* Quantized weights taken apart, LANES rows side by side: what becomes of every type's blocks.
 *
 * Included by matmul_quantized.h; with DIRECT 1, multiply_now is defined behind it (matmul_direct.h). */
#include "kernels/cpu/quantized_lanes.h"

enum {
	TILE_SUMS = SLOTS * GROUP_ROWS * LANES,
	GROUP_SUMS = TILES * TILE_SUMS,
	MAX_GROUPS = (MAX_ROWS + GROUP_ROWS - 1) / GROUP_ROWS,
	SHORT_PIECE = 256,        /* columns where weights are waited for: memory and arithmetic overlap */
	LONG_PIECE = 2048 / TILES /* and where they are not */
};

/* A piece of LANES weight rows: in every vector, lane r belongs to row r. */
struct tile {
	_Alignas(64) uint8_t q[LONG_PIECE / 4][LANES * 4]; /* four columns each */
	float d[LONG_PIECE / 32][LANES];                   /* a block of 32, or of 256 */
	float m[LONG_PIECE / 32][LANES];                   /* what is added for it: its minimum, or -dmin */
	int32_t scale[LONG_PIECE / 16][LANES];             /* a group of 32, or of 16 */
	int16_t min[LONG_PIECE / 32][LANES * 2];           /* two groups' minima */
};

/* One piece against one group of activation rows. */
struct run {
	const struct tile* w;  /* (TILES) */
	const int8_t* q;       /* first row of the group at the piece's first column; rows x_stride apart */
	const uint8_t* d;      /* the same of the scales */
	const uint8_t* sums;   /* and of what stands behind them */
	const uint8_t* starts; /* and behind those */
	size_t x_stride;
	int64_t column; /* where the piece begins; the sums start from 0 */
	int columns;
	float* sum;          /* (TILES, SLOTS, GROUP_ROWS, LANES) */
	const uint8_t* next; /* weights to fetch meanwhile: `lines` lines for each 32 columns */
	int lines;
};

/* What 32 columns from `column` on fetch: evenly, so that memory is never idle and keeps no load waiting. */
INLINED void fetch(const struct run* run, int column) {
	const char* at = (const char*)run->next + (size_t)(column / 32 * run->lines) * 64;
	for (int line = 0; line < run->lines; line++)
		__builtin_prefetch(at + line * 64, 0, 2);
}

static void quantized_run(enum dtype type, int n, const struct run* run);

/* ---- taking weights apart -------------------------------------------------------------------- */

/* What happens to columns that are taken apart: a tile keeps them, or, where n is not 0, they meet n
 * activation rows at once and are forgotten; scales and minima always go to the tile. */
struct use {
	struct tile* tile;
	enum dtype type;
	int n;
	const struct inputs* in; /* of matmul_products.h, at the block's first column */
	ints *sums, *some;       /* (n) */
	const uint8_t* next;     /* what to fetch meanwhile */
};

#if DIRECT
INLINED void multiply_now(const struct use* u, size_t vector, const ints w[4]);
#endif

/* Sixteen columns, of which `vector` holds the first four */
INLINED void give(const struct use* u, size_t vector, const ints w[4]) {
#if DIRECT
	if (u->n) {
		multiply_now(u, vector, w);
		return;
	}
#endif
	UNROLLED for (int c = 0; c < 4; c++) ints_store(u->tile->q[vector + (size_t)c], w[c]);
}

/* Blocks of 32 packed in nibbles, the first 16 in the low ones */
INLINED void take_nibbles(const struct use* u, enum dtype type, size_t vector, const struct rows* rows,
                          size_t at, ints high) {
	ints packed[4], q[4];
	columns(rows, at, packed);
	UNROLLED for (int half = 0; half < 2; half++) {
		UNROLLED for (int c = 0; c < 4; c++) {
			q[c] = low_bits(packed[c], half * 4, 15);
			if (type == DTYPE_Q5_0 || type == DTYPE_Q5_1)
				q[c] = ints_or(q[c], fifth_bits(high, half * 4 + c));
			else if (type == DTYPE_IQ4_NL || type == DTYPE_IQ4_XS)
				q[c] = ints_iq4(q[c]);
		}
		give(u, vector + (size_t)half * 4, q);
	}
}

INLINED void take_small(enum dtype type, const struct use* u, size_t block, const struct rows* rows) {
	const ints halves = words(rows, 0, 0);
	floats_store(u->tile->d[block], floats_from_halves(halves));
	if (dtype_has_min(type))
		floats_store(u->tile->m[block], floats_from_halves(ints_right(halves, 16)));
	const size_t q_at = (dtype_has_min(type) ? 4u : 2u) + (high_at(type) ? 4u : 0u);
	if (type != DTYPE_Q8_0) {
		const ints high = high_at(type) ? words(rows, high_at(type), 0) : halves;
		take_nibbles(u, type, block * 8, rows, q_at, high);
		return;
	}
	UNROLLED for (size_t half = 0; half < 2; half++) {
		ints q[4];
		columns(rows, q_at + half * 16, q);
		if (!SIGNED_BYTES)
			UNROLLED for (int c = 0; c < 4; c++) q[c] = ints_flip_signs(q[c]);
		give(u, block * 8 + half * 4, q);
	}
}

INLINED void take_iq4_xs(const struct use* u, size_t block, const struct rows* rows) {
	ints head[4];
	columns(rows, 0, head);
	const floats d = floats_from_halves(head[0]);
	UNROLLED for (int j = 0; j < 8; j++) {
		const ints low = low_bits(head[1], j * 4, 15), high = low_bits(head[0], 16 + j * 2, 3);
		const ints scale = ints_or(low, ints_left(high, 4));
		const ints signed_scale = ints_sub(byte_of(scale, 0), ints_set(32));
		const size_t small = block * 8 + (size_t)j;
		floats_store(u->tile->d[small], floats_mul(d, floats_from_ints(signed_scale)));
		take_nibbles(u, DTYPE_IQ4_XS, small * 8, rows, 8 + (size_t)j * 16, head[0]);
	}
}

/* d and dmin, of which each lane holds the halves */
INLINED void store_d_dmin(struct tile* out, size_t block, ints both) {
	floats_store(out->d[block], floats_from_halves(both));
	floats_store(out->m[block], floats_negated(floats_from_halves(ints_right(both, 16))));
}

/* Scales of four groups, a byte each */
INLINED void store_scales(int32_t (*out)[LANES], ints scales, bool signs, int less) {
	UNROLLED for (int g = 0; g < 4; g++) {
		const ints scale = signs ? ints_right_signed(ints_left(scales, 24 - 8 * g), 24) : byte_of(scales, g);
		ints_store(out[g], ints_scale(less ? ints_sub(scale, ints_set(less)) : scale));
	}
}

INLINED void store_minima(int16_t (*out)[LANES * 2], ints minima) {
	ints_store(out[0], two_bytes(minima, 0, 1));
	ints_store(out[1], two_bytes(minima, 2, 3));
}

/* Header of q4_k and q5_k: k4_scale_min for all at once */
INLINED void take_k4_header(struct tile* out, size_t block, const struct rows* rows) {
	ints head[4];
	columns(rows, 0, head);
	store_d_dmin(out, block, head[0]);
	store_scales(out->scale + block * 8, low_bits(head[1], 0, 63), false, 0);
	store_minima(out->min + block * 4, low_bits(head[2], 0, 63));
	const ints more_scales = moved_bits(head[1], 6, 4, 0x30);
	const ints more_minima = moved_bits(head[2], 6, 4, 0x30);
	store_scales(out->scale + block * 8 + 4, ints_or(low_bits(head[3], 0, 15), more_scales), false, 0);
	store_minima(out->min + block * 4 + 2, ints_or(low_bits(head[3], 4, 15), more_minima));
}

INLINED void take_k4(enum dtype type, const struct use* u, size_t block, const struct rows* rows) {
	take_k4_header(u->tile, block, rows);
	UNROLLED for (size_t half = 0; half < 2; half++) {
		ints high[4];
		if (type == DTYPE_Q5_K)
			columns(rows, 16 + half * 16, high);
		UNROLLED for (size_t p = 0; p < 4; p++) { /* 16 bytes, of two groups */
			ints packed[4], q[4];
			columns(rows, (type == DTYPE_Q5_K ? 48 : 16) + (p * 2 + half) * 16, packed);
			UNROLLED for (int g = 0; g < 2; g++) {
				UNROLLED for (int c = 0; c < 4; c++) {
					q[c] = low_bits(packed[c], g * 4, 15);
					if (type == DTYPE_Q5_K)
						q[c] = ints_or(q[c], moved_bits(high[c], 2 * (int)p + g, 4, 16));
				}
				give(u, block * 64 + p * 16 + (size_t)g * 8 + half * 4, q);
			}
		}
	}
}

/* The two bits of q2_k, and with the third one of q3_k: 16 bytes hold four groups of 16 */
INLINED void take_two_bits(enum dtype type, const struct use* u, size_t vector, const struct rows* rows,
                           size_t at, size_t high_at) {
	UNROLLED for (size_t part = 0; part < 2; part++) {
		ints high[4];
		if (type == DTYPE_Q3_K)
			columns(rows, high_at + part * 16, high);
		UNROLLED for (size_t half = 0; half < 2; half++) {
			ints packed[4], q[4];
			columns(rows, at + (half * 2 + part) * 16, packed);
			UNROLLED for (int s = 0; s < 4; s++) {
				UNROLLED for (int c = 0; c < 4; c++) {
					q[c] = low_bits(packed[c], s * 2, 3);
					if (type == DTYPE_Q3_K)
						q[c] = ints_or(q[c], moved_bits(high[c], (int)half * 4 + s, 2, 4));
				}
				give(u, vector + half * 32 + (size_t)s * 8 + part * 4, q);
			}
		}
	}
}

INLINED void take_q2_k(const struct use* u, size_t block, const struct rows* rows) {
	ints packed[4];
	columns(rows, 0, packed);
	UNROLLED for (int j = 0; j < 4; j++) {
		store_scales(u->tile->scale + block * 16 + j * 4, low_bits(packed[j], 0, 15), false, 0);
		store_minima(u->tile->min + block * 8 + j * 2, low_bits(packed[j], 4, 15));
	}
	take_two_bits(DTYPE_Q2_K, u, block * 64, rows, 16, 0);
	store_d_dmin(u->tile, block, words(rows, 68, 3));
}

INLINED void take_q3_k(const struct use* u, size_t block, const struct rows* rows) {
	ints tail[4]; /* from two bytes before the scales to the block's end, d */
	columns(rows, 94, tail);
	ints packed[3];
	UNROLLED for (int j = 0; j < 3; j++) packed[j] =
	    ints_or(ints_right(tail[j], 16), ints_left(tail[j + 1], 16));
	floats_store(u->tile->d[block], floats_from_halves(ints_right(tail[3], 16)));
	UNROLLED for (int j = 0; j < 4; j++) {
		const ints low = low_bits(packed[j % 2], j / 2 * 4, 15);
		const ints high = moved_bits(packed[2], j * 2, 4, 0x30);
		store_scales(u->tile->scale + block * 16 + j * 4, ints_or(low, high), false, 32);
	}
	take_two_bits(DTYPE_Q3_K, u, block * 64, rows, 32, 0);
}

INLINED void take_q6_k(const struct use* u, size_t block, const struct rows* rows) {
	ints scales[4];
	columns(rows, 192, scales);
	UNROLLED for (int j = 0; j < 4; j++)
	    store_scales(u->tile->scale + block * 16 + j * 4, scales[j], true, 0);
	floats_store(u->tile->d[block], floats_from_halves(ints_right(words(rows, 194, 3), 16)));
	UNROLLED for (size_t half = 0; half < 2; half++) UNROLLED for (size_t part = 0; part < 2; part++) {
		ints high[4];
		columns(rows, 128 + (half * 2 + part) * 16, high);
		UNROLLED for (size_t s = 0; s < 2; s++) { /* the nibbles of groups s and s + 2 of 32 */
			ints low[4], q[4];
			columns(rows, half * 64 + s * 32 + part * 16, low);
			UNROLLED for (int g = 0; g < 2; g++) {
				UNROLLED for (int c = 0; c < 4; c++) q[c] =
				    ints_or(low_bits(low[c], g * 4, 15), moved_bits(high[c], g * 4 + (int)s * 2, 4, 0x30));
				give(u, block * 64 + half * 32 + (size_t)g * 16 + s * 8 + part * 4, q);
			}
		}
	}
}

INLINED void take_block(enum dtype type, const struct use* u, size_t block, const struct rows* rows) {
	switch (type) {
	case DTYPE_Q2_K:
		take_q2_k(u, block, rows);
		break;
	case DTYPE_Q3_K:
		take_q3_k(u, block, rows);
		break;
	case DTYPE_Q4_K:
	case DTYPE_Q5_K:
		take_k4(type, u, block, rows);
		break;
	case DTYPE_Q6_K:
		take_q6_k(u, block, rows);
		break;
	case DTYPE_IQ4_XS:
		take_iq4_xs(u, block, rows);
		break;
	default:
		take_small(type, u, block, rows);
	}
}
