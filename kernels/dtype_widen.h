/* Widens a stored row to floats, written once for all processors.
 *
 * Included by dtype.c and, with wider registers, by cpu/avx2_decode.c, which define before it:
 *   half_at                                   a half in a block
 *   put_iq1, put_iq2, put_iq3                 eight elements of a codebook's points
 *   widen_halves                              a row of them
 *   widen_q5_0, widen_q4_k, widen_q6_k, widen_tq2_0, widen_mxfp4, widen_q4_group, widen_f8_group
 *                                             a block
 *
 * Products are written in the order of the format's published formula, so that every bit equals the
 * `gguf` package's dequantization. */
#include "kernels/dtype_blocks.h"

static void widen_q8_0(const struct block_q8_0* b, float* x) {
	const float d = half_at(b->d);
	for (int j = 0; j < 32; j++)
		x[j] = d * (float)b->q[j];
}

static void widen_q8_group(const struct block_q8_group* b, float* x) {
	const float d = float_from_bits(load_u32(b->d));
	for (int j = 0; j < 32; j++)
		x[j] = d * (float)b->q[j];
}

static void widen_q4_0(const struct block_q4_0* b, float* x) {
	const float d = half_at(b->d);
	for (int j = 0; j < 16; j++) {
		x[j] = d * (float)((b->q[j] & 15) - 8);
		x[j + 16] = d * (float)((b->q[j] >> 4) - 8);
	}
}

static void widen_q4_1(const struct block_q4_1* b, float* x) {
	const float d = half_at(b->d), m = half_at(b->m);
	for (int j = 0; j < 16; j++) {
		x[j] = d * (float)(b->q[j] & 15) + m;
		x[j + 16] = d * (float)(b->q[j] >> 4) + m;
	}
}

static void widen_q5_1(const struct block_q5_1* b, float* x) {
	const float d = half_at(b->d), m = half_at(b->m);
	for (int j = 0; j < 32; j++)
		x[j] = d * (float)five_bits(b->q, b->high, j) + m;
}

static void widen_q2_k(const struct block_q2_k* b, float* x) {
	const float d = half_at(b->d), dmin = half_at(b->dmin);
	for (int j = 0; j < 256; j++) {
		const uint8_t scale = b->scales[j / 16];
		x[j] = d * (float)(scale & 15) * (float)low_two_bits(b->q, j) - dmin * (float)(scale >> 4);
	}
}

static void widen_q3_k(const struct block_q3_k* b, float* x) {
	const float d = half_at(b->d);
	for (int j = 0; j < 256; j++)
		x[j] = d * (float)q3_scale(j / 16, b->scales) * (float)(q3_bits(b, j) - 4);
}

static void widen_q5_k(const struct block_q5_k* b, float* x) {
	const float d = half_at(b->d), dmin = half_at(b->dmin);
	for (int g = 0; g < 8; g++) {
		uint8_t scale, min;
		k4_scale_min(g, b->scales, &scale, &min);
		const float step = d * (float)scale, less = dmin * (float)min;
		const uint8_t* q = b->q + g / 2 * 32;
		for (int i = 0; i < 32; i++) /* q5_bits */
			x[32 * g + i] = step * (float)((q[i] >> 4 * (g & 1) & 15) | (b->high[i] >> g & 1) << 4) - less;
	}
}

static void widen_iq4_nl(const struct block_iq4_nl* b, float* x) {
	const float d = half_at(b->d);
	for (int j = 0; j < 32; j++)
		x[j] = d * (float)iq4_values[nibble(b->q, j)];
}

static void widen_iq4_xs(const struct block_iq4_xs* b, float* x) {
	const float d = half_at(b->d);
	for (int j = 0; j < 256; j++)
		x[j] = d * (float)iq4_scale(j / 32, b) * (float)iq4_values[nibble(b->q + j / 32 * 16, j % 32)];
}

/* ---- points of a codebook -------------------------------------------------------------------- */

/* Seven signs are stored; the eighth makes their number even. */
static unsigned eight_signs(uint32_t seven) {
	seven &= 127;
	return (unsigned)(seven | (uint32_t)__builtin_parity(seven) << 7);
}

static void widen_iq2_xxs(const struct block_iq2_xxs* b, float* x) {
	const float d = half_at(b->d);
	for (int g = 0; g < 8; g++) {
		const uint32_t more = load_u32(b->q + 8 * g + 4);
		const float scale = d * (0.5f + (float)(more >> 28)) * 0.25f;
		for (int p = 0; p < 4; p++)
			put_iq2(x + 32 * g + 8 * p, scale, codebook_iq2_xxs[b->q[8 * g + p]], eight_signs(more >> 7 * p));
	}
}

static void widen_iq2_xs(const struct block_iq2_xs* b, float* x) {
	const float d = half_at(b->d);
	for (int p = 0; p < 32; p++) {
		const uint16_t q = load_u16(b->q + 2 * p);
		const float scale = d * (0.5f + (float)(b->scales[p / 4] >> 4 * (p / 2 & 1) & 15)) * 0.25f;
		put_iq2(x + 8 * p, scale, codebook_iq2_xs[q & 511], eight_signs(q >> 9));
	}
}

static void widen_iq2_s(const struct block_iq2_s* b, float* x) {
	const float d = half_at(b->d);
	for (int p = 0; p < 32; p++) {
		const int q = b->q[p] | (b->high[p / 4] >> 2 * (p % 4) & 3) << 8;
		const float scale = d * (0.5f + (float)(b->scales[p / 4] >> 4 * (p / 2 & 1) & 15)) * 0.25f;
		put_iq2(x + 8 * p, scale, codebook_iq2_s[q], b->signs[p]);
	}
}

static void widen_iq3_xxs(const struct block_iq3_xxs* b, float* x) {
	static const float value[8] = {4, 12, 20, 28, 36, 44, 52, 62};
	const float d = half_at(b->d);
	for (int p = 0; p < 32; p++) {
		const uint32_t more = load_u32(b->scales + 4 * (p / 4));
		const float scale = d * (0.5f + (float)(more >> 28)) * 0.5f;
		put_iq3(x + 8 * p, scale, value, codebook_iq3_xxs[b->q[2 * p]], codebook_iq3_xxs[b->q[2 * p + 1]],
		        eight_signs(more >> 7 * (p % 4)));
	}
}

static void widen_iq3_s(const struct block_iq3_s* b, float* x) {
	static const float value[8] = {1, 3, 5, 7, 9, 11, 13, 15};
	const float d = half_at(b->d);
	for (int p = 0; p < 32; p++) {
		const int high = b->high[p / 4] >> 2 * (p % 4);
		const float scale = d * (float)(1 + 2 * (b->scales[p / 8] >> 4 * (p / 4 & 1) & 15));
		put_iq3(x + 8 * p, scale, value, codebook_iq3_s[b->q[2 * p] | (high & 1) << 8],
		        codebook_iq3_s[b->q[2 * p + 1] | (high & 2) << 7], b->signs[p]);
	}
}

static void widen_iq1_s(const struct block_iq1_s* b, float* x) {
	const float d = half_at(b->d);
	for (int p = 0; p < 32; p++) {
		const int high = load_u16(b->high + 2 * (p / 4));
		const float scale = d * (float)(2 * (high >> 12 & 7) + 1);
		put_iq1(x + 8 * p, scale, codebook_iq1[b->q[p] | (high >> 3 * (p % 4) & 7) << 8], high & 0x8000);
	}
}

static void widen_iq1_m(const struct block_iq1_m* b, float* x) {
	unsigned bits = 0; /* the block's half, a nibble on top of each of the four words of scales */
	for (int i = 0; i < 4; i++)
		bits |= (unsigned)(load_u16(b->scales + 2 * i) >> 12) << 4 * i;
	const float d = half_to_float((uint16_t)bits);
	for (int p = 0; p < 32; p++) {
		const int high = b->high[p / 2] >> 4 * (p % 2);
		const float scale = d * (float)(2 * (load_u16(b->scales + 2 * (p / 8)) >> 3 * (p / 2 % 4) & 7) + 1);
		put_iq1(x + 8 * p, scale, codebook_iq1[b->q[p] | (high & 7) << 8], high & 8);
	}
}

/* ---- ternary -------------------------------------------------------------------------------- */

/* Digit n, the highest first, of a byte that is a fraction of 256 in base 3. */
static float trit(uint8_t byte, int n) {
	static const uint8_t power[5] = {1, 3, 9, 27, 81};
	const uint8_t q = (uint8_t)(byte * power[n]);
	return (float)((q * 3 >> 8) - 1);
}

static void widen_tq1_0(const struct block_tq1_0* b, float* x) {
	const float d = half_at(b->d);
	for (int n = 0; n < 5; n++) {
		for (int j = 0; j < 32; j++)
			x[32 * n + j] = d * trit(b->q[j], n);
		for (int j = 0; j < 16; j++)
			x[160 + 16 * n + j] = d * trit(b->q[32 + j], n);
	}
	for (int j = 0; j < 16; j++)
		x[240 + j] = d * trit(b->rest[j % 4], j / 4);
}

/* ---- rows --------------------------------------------------------------------------------- */

#define WIDEN_BLOCKS(TYPE, type)                                                                             \
	case DTYPE_##TYPE:                                                                                       \
		for (int64_t i = 0; i < cols / elements; i++)                                                        \
			widen_##type((const struct block_##type*)row + i, x + i * elements);                             \
		break

static void widen_row(enum dtype type, const void* row, float* x, int64_t cols) {
	const int elements = dtype_block(type);
	const uint8_t* bytes = row;
	switch (type) {
	case DTYPE_F32:
		memcpy(x, row, (size_t)cols * 4);
		break;
	case DTYPE_F16:
		widen_halves(bytes, x, cols);
		break;
	case DTYPE_BF16:
		for (int64_t i = 0; i < cols; i++)
			x[i] = bf16_to_float(load_u16(bytes + 2 * i));
		break;
		WIDEN_BLOCKS(Q8_0, q8_0);
		WIDEN_BLOCKS(Q4_0, q4_0);
		WIDEN_BLOCKS(Q4_1, q4_1);
		WIDEN_BLOCKS(Q5_0, q5_0);
		WIDEN_BLOCKS(Q5_1, q5_1);
		WIDEN_BLOCKS(Q2_K, q2_k);
		WIDEN_BLOCKS(Q3_K, q3_k);
		WIDEN_BLOCKS(Q4_K, q4_k);
		WIDEN_BLOCKS(Q5_K, q5_k);
		WIDEN_BLOCKS(Q6_K, q6_k);
		WIDEN_BLOCKS(IQ4_NL, iq4_nl);
		WIDEN_BLOCKS(IQ4_XS, iq4_xs);
		WIDEN_BLOCKS(MXFP4, mxfp4);
		WIDEN_BLOCKS(IQ1_S, iq1_s);
		WIDEN_BLOCKS(IQ1_M, iq1_m);
		WIDEN_BLOCKS(IQ2_XXS, iq2_xxs);
		WIDEN_BLOCKS(IQ2_XS, iq2_xs);
		WIDEN_BLOCKS(IQ2_S, iq2_s);
		WIDEN_BLOCKS(IQ3_XXS, iq3_xxs);
		WIDEN_BLOCKS(IQ3_S, iq3_s);
		WIDEN_BLOCKS(TQ1_0, tq1_0);
		WIDEN_BLOCKS(TQ2_0, tq2_0);
		WIDEN_BLOCKS(Q4_GROUP, q4_group);
		WIDEN_BLOCKS(F8_GROUP, f8_group);
		WIDEN_BLOCKS(Q8_GROUP, q8_group);
	default:
		break;
	}
}
