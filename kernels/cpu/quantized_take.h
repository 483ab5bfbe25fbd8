/* Unpacks the blocks of every type of quantized weights, LANES rows side by side.
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

/* Prefetches for 32 columns from `column` on: evenly, so that memory is never idle and keeps no load waiting.
 */
INLINED void fetch(const struct run* run, int column) {
	const char* at = (const char*)run->next + (size_t)(column / 32 * run->lines) * 64;
	for (int line = 0; line < run->lines; line++)
		__builtin_prefetch(at + line * 64, 0, 2);
}

static void quantized_run(enum dtype type, int n, const struct run* run);

/* ---- taking weights apart -------------------------------------------------------------------- */

/* The use of unpacked columns: a tile keeps them, or, if n is not 0, they are multiplied with n
 * activation rows at once and dropped; scales and minima always go to the tile. */
struct use {
	struct tile* tile;
	enum dtype type;
	int n;
	const struct inputs* in; /* of matmul_products.h, at the block's first column */
	ints *sums, *some;       /* (n) */
	const struct rows* rows; /* of the block */
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
				q[c] = with_fifth_bits(q[c], high, half * 4 + c);
			else if (type == DTYPE_IQ4_NL || type == DTYPE_IQ4_XS)
				q[c] = ints_iq4(q[c]);
		}
		give(u, vector + (size_t)half * 4, q);
	}
}

INLINED void take_small(enum dtype type, const struct use* u, size_t block, const struct rows* rows) {
	const bool alone = rows->interleaved && !dtype_has_min(type); /* a half float without a word */
	const ints halves = alone ? ints_set(0) : words(rows, 0, 0);
	floats_store(u->tile->d[block], alone ? half_floats_at(rows, 0) : floats_from_halves(halves));
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

/* Scales and minima of a block of 256, which a tile keeps in any case */
INLINED void keep_header(enum dtype type, struct tile* out, size_t block, const struct rows* rows) {
	const int groups = 256 / group_of(type);
	struct header header;
	take_header(type, &header, rows);
	floats_store(out->d[block], header.d);
	UNROLLED for (int g = 0; g < groups; g++)
	    ints_store(out->scale[block * (size_t)groups + (size_t)g], ints_scale(scale_of(type, &header, g)));
	if (group_offset(type))
		return;
	floats_store(out->m[block], header.less);
	UNROLLED for (int p = 0; p < groups / 2; p++)
	    ints_store(out->min[block * (size_t)groups / 2 + (size_t)p], minima_of(&header, p));
}

INLINED void take_k4(enum dtype type, const struct use* u, size_t block, const struct rows* rows) {
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
                           size_t at) {
	UNROLLED for (size_t part = 0; part < 2; part++) {
		ints high[4];
		if (type == DTYPE_Q3_K)
			columns(rows, part * 16, high);
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

INLINED void take_q6_k(const struct use* u, size_t block, const struct rows* rows) {
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
	if (small_blocks(type)) {
		take_small(type, u, block, rows);
		return;
	}
	if (type == DTYPE_IQ4_XS) {
		take_iq4_xs(u, block, rows);
		return;
	}
	keep_header(type, u->tile, block, rows);
	if (type == DTYPE_Q6_K)
		take_q6_k(u, block, rows);
	else if (type == DTYPE_Q4_K || type == DTYPE_Q5_K)
		take_k4(type, u, block, rows);
	else
		take_two_bits(type, u, block * 64, rows, type == DTYPE_Q3_K ? 32 : 16);
}
