/* The quantized blocks of GGUF files, byte for byte as stored, and the 16-bit floats.
 *
 * Every field is made of bytes, so that a block may lie at any address of a mapped file; 16-bit fields
 * are little-endian. The layouts are ggml's (ggml-common.h); the formulas stand beside them. */
#pragma once

#include <assert.h>

#include "kernels/anywhere.h"

enum { BLOCK_SMALL = 32, BLOCK_SUPER = 256 };

/* x[j] = d·q[j] */
struct block_q8_0 {
	uint8_t d[2]; /* f16 */
	int8_t q[32];
};

/* x[j] = d·(q[j] - 8); low nibbles are elements 0…15, high ones 16…31 */
struct block_q4_0 {
	uint8_t d[2];
	uint8_t q[16];
};

/* x[j] = d·q[j] + m */
struct block_q4_1 {
	uint8_t d[2], m[2];
	uint8_t q[16];
};

/* x[j] = d·(q[j] - 16); the fifth bit of element j is bit j of high */
struct block_q5_0 {
	uint8_t d[2];
	uint8_t high[4];
	uint8_t q[16];
};

/* x[j] = d·q[j] + m */
struct block_q5_1 {
	uint8_t d[2], m[2];
	uint8_t high[4];
	uint8_t q[16];
};

/* x = d·scale·q - dmin·min for 16 groups of 16; scale the low, min the high nibble. Bits 2s, 2s+1 of
 * q[32h + i] are element 128h + 32s + i. */
struct block_q2_k {
	uint8_t scales[16];
	uint8_t q[64];
	uint8_t d[2], dmin[2];
};

/* x = d·(scale - 32)·(q - 4) for 16 groups of 16; q's low bits as in q2_k, the high bit of element
 * 32s + i is bit s of high[i]; 6-bit scales packed in 12 bytes */
struct block_q3_k {
	uint8_t high[32];
	uint8_t q[64];
	uint8_t scales[12];
	uint8_t d[2];
};

/* x = d·scale·q - dmin·min for 8 groups of 32; low nibbles of q[32p + i] are element 64p + i, high ones
 * 64p + 32 + i; 6-bit scales and mins packed in 12 bytes */
struct block_q4_k {
	uint8_t d[2], dmin[2];
	uint8_t scales[12];
	uint8_t q[128];
};

/* as q4_k, with the fifth bit of element 32s + i in bit s of high[i] */
struct block_q5_k {
	uint8_t d[2], dmin[2];
	uint8_t scales[12];
	uint8_t high[32];
	uint8_t q[128];
};

/* x = d·scale·(q - 32) for 16 groups of 16. In half h, low[64h + i] holds elements i (low nibble) and
 * 64 + i (high), i < 64; bits 2s, 2s+1 of high[32h + i] belong to element 128h + 32s + i. */
struct block_q6_k {
	uint8_t low[128];
	uint8_t high[64];
	int8_t scales[16];
	uint8_t d[2];
};

/* x[j] = d·iq4_values[q[j]] */
struct block_iq4_nl {
	uint8_t d[2];
	uint8_t q[16];
};

/* x = d·(scale - 32)·iq4_values[q] for 8 groups of 32, each nibble-packed as in q4_0; the scales' low
 * nibbles two a byte, their high two bits in scales_high */
struct block_iq4_xs {
	uint8_t d[2];
	uint8_t scales_high[2];
	uint8_t scales_low[4];
	uint8_t q[128];
};

/* x = 2^(exponent - 127)·e2m1(q) (OCP Microscaling Formats 1.0, section 5.3) */
struct block_mxfp4 {
	uint8_t exponent;
	uint8_t q[16];
};

/* A codebook's point of 11 bits for every 8 elements, low byte in q, its other bits with the scale of 32 and
 * the sign of their 1/8 in a word of `high`: x = d·(2·scale + 1)·(coordinate ± 1/8) */
struct block_iq1_s {
	uint8_t d[2];
	uint8_t q[32];
	uint8_t high[16]; /* u16 (8) */
};

/* As iq1_s, with a scale for every 16 elements and a sign for every 8; d is spread over the words of scales.
 */
struct block_iq1_m {
	uint8_t q[32];
	uint8_t high[16];
	uint8_t scales[8]; /* u16 (4) */
};

/* A point for every 8 elements, with signs: x = ±d·(scale + 1/2)/4·coordinate. In a group of 32 four bytes of
 * points, then a word: four times seven signs, and the scale. */
struct block_iq2_xxs {
	uint8_t d[2];
	uint8_t q[64];
};

/* The same with nine bits a point, its seven signs above them, and a scale for every 16 elements. */
struct block_iq2_xs {
	uint8_t d[2];
	uint8_t q[64]; /* u16 (32) */
	uint8_t scales[8];
};

/* The same with ten bits a point, two of them in high, and all signs stored. */
struct block_iq2_s {
	uint8_t d[2];
	uint8_t q[32], signs[32], high[8];
	uint8_t scales[8];
};

/* A point for every 4 elements: x = ±d·(scale + 1/2)/2·coordinate; signs and scale of 32 as in iq2_xxs. */
struct block_iq3_xxs {
	uint8_t d[2];
	uint8_t q[64];
	uint8_t scales[32]; /* u32 (8) */
};

/* The same with nine bits a point, all signs stored, and x = ±d·(1 + 2·scale)·coordinate. */
struct block_iq3_s {
	uint8_t d[2];
	uint8_t q[64], high[8], signs[32];
	uint8_t scales[4];
};

/* x = d·(digit - 1), five digits of base 3 a byte, the last bytes four: byte/256 is their fraction. */
struct block_tq1_0 {
	uint8_t q[48], rest[4];
	uint8_t d[2];
};

/* x = d·(q - 1), two bits each, laid as in q2_k. */
struct block_tq2_0 {
	uint8_t q[64];
	uint8_t d[2];
};

/* Ours, for what AWQ and GPTQ folders hold: x = d·(q - zero), nibbles as in q4_0. */
struct block_q4_group {
	uint8_t d[4]; /* f32 */
	uint8_t zero;
	uint8_t q[16];
};

/* Ours, for folders of 8-bit integers: x = d·q. */
struct block_q8_group {
	uint8_t d[4]; /* f32 */
	int8_t q[32];
};

/* Ours, for FP8 folders: x = e4m3(q)·d. */
struct block_f8_group {
	uint8_t d[4]; /* f32 */
	uint8_t q[32];
};

static_assert(sizeof(struct block_mxfp4) == 17 && sizeof(struct block_iq1_s) == 50 &&
                  sizeof(struct block_iq1_m) == 56 && sizeof(struct block_iq2_xxs) == 66 &&
                  sizeof(struct block_iq2_xs) == 74 && sizeof(struct block_iq2_s) == 82 &&
                  sizeof(struct block_iq3_xxs) == 98 && sizeof(struct block_iq3_s) == 110 &&
                  sizeof(struct block_tq1_0) == 54 && sizeof(struct block_tq2_0) == 66,
              "GGUF's block sizes");

static_assert(sizeof(struct block_q8_0) == 34 && sizeof(struct block_q4_0) == 18 &&
                  sizeof(struct block_q4_1) == 20 && sizeof(struct block_q5_0) == 22 &&
                  sizeof(struct block_q5_1) == 24 && sizeof(struct block_q2_k) == 84 &&
                  sizeof(struct block_q3_k) == 110 && sizeof(struct block_q4_k) == 144 &&
                  sizeof(struct block_q5_k) == 176 && sizeof(struct block_q6_k) == 210 &&
                  sizeof(struct block_iq4_nl) == 18 && sizeof(struct block_iq4_xs) == 136,
              "GGUF's block sizes");

/* The sixteen values of IQ4, ascending. */
static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};

/* The points that GGUF's IQ1, IQ2 and IQ3 types choose among (dtype_codebooks.c), coordinate 0 in the lowest
 * bits. Eight coordinates of two bits: iq1's stand for -1, 0, 1, iq2's for 8, 25, 43. */
extern const uint16_t codebook_iq1[2048], codebook_iq2_xxs[256], codebook_iq2_xs[512], codebook_iq2_s[1024];
/* Four coordinates of four bits: iq3_xxs's stand for 4, 12, 20, 28, 36, 44, 52, 62, iq3_s's for 1, 3 … 15. */
extern const uint16_t codebook_iq3_xxs[256], codebook_iq3_s[512];

ANYWHERE uint16_t load_u16(const void* p) {
	uint8_t b[2];
	memcpy(b, p, 2);
	return (uint16_t)(b[0] | b[1] << 8);
}

ANYWHERE uint32_t load_u32(const void* p) {
	uint8_t b[4];
	memcpy(b, p, 4);
	return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* IEEE half to float, exact; NaNs keep their payload and become quiet, as the processor's do. */
ANYWHERE float half_to_float(uint16_t h) {
	const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
	const uint32_t exponent = (h >> 10) & 0x1fu, fraction = h & 0x3ffu;
	if (exponent == 0x1f)
		return float_from_bits(sign | 0x7f800000u | fraction << 13 | (fraction ? 0x400000u : 0));
	if (exponent)
		return float_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
	const float magnitude = (float)fraction * 0x1p-24f;
	return float_from_bits(sign | bits_from_float(magnitude));
}

/* Float to IEEE half, to nearest, ties to even; NaNs as the processor converts them. */
ANYWHERE uint16_t half_from_float(float x) {
	const uint32_t bits = bits_from_float(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
	if (magnitude > 0x7f800000u)
		return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
	if (magnitude >= 0x477ff000u) /* rounds to 2^16 or beyond */
		return (uint16_t)(sign | 0x7c00u);
	if (magnitude < 0x38800000u) { /* a subnormal half: let the adder round at 2^-24 */
		const float aligned = float_from_bits(magnitude) + 0.5f;
		return (uint16_t)(sign | (bits_from_float(aligned) - 0x3f000000u));
	}
	const uint32_t odd = magnitude >> 13 & 1u;
	return (uint16_t)(sign | (magnitude - 0x38000000u + 0xfffu + odd) >> 13);
}

/* One sign, four exponent and three mantissa bits; no infinities (Micikevicius et al. 2022, table 1). */
ANYWHERE float e4m3_to_float(uint8_t bits) {
	const uint32_t sign = (uint32_t)(bits & 128) << 24, magnitude = bits & 127u;
	if (magnitude == 127)
		return float_from_bits(sign | 0x7fc00000u);
	if (magnitude >= 8)
		return float_from_bits(sign | (magnitude + (120u << 3)) << 20);
	return float_from_bits(sign | bits_from_float((float)magnitude * 0x1p-9f));
}

ANYWHERE float bf16_to_float(uint16_t b) { return float_from_bits((uint32_t)b << 16); }

/* To nearest, ties to even; NaNs become quiet. */
ANYWHERE uint16_t bf16_from_float(float x) {
	const uint32_t bits = bits_from_float(x);
	if ((bits & 0x7fffffffu) > 0x7f800000u)
		return (uint16_t)(bits >> 16 | 0x40u);
	return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* Scale and min of group j < 8 of q4_k and q5_k: six bits each, the first four whole, the others' top
 * two bits above them. */
ANYWHERE void k4_scale_min(int j, const uint8_t* packed, uint8_t* scale, uint8_t* min) {
	if (j < 4) {
		*scale = packed[j] & 63;
		*min = packed[j + 4] & 63;
	} else {
		*scale = (uint8_t)((packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4);
		*min = (uint8_t)(packed[j + 4] >> 4 | (packed[j] >> 6) << 4);
	}
}

/* Scale of group j < 16 of q3_k, 32 already taken off. */
ANYWHERE int8_t q3_scale(int j, const uint8_t* packed) {
	const int low = j < 8 ? packed[j] & 15 : packed[j - 8] >> 4;
	const int high = packed[8 + j % 4] >> 2 * (j / 4) & 3;
	return (int8_t)((low | high << 4) - 32);
}

/* Scale of group j < 8 of iq4_xs, 32 already taken off. */
ANYWHERE int8_t iq4_scale(int j, const struct block_iq4_xs* b) {
	const int low = b->scales_low[j / 2] >> 4 * (j & 1) & 15;
	const int high = load_u16(b->scales_high) >> 2 * j & 3;
	return (int8_t)((low | high << 4) - 32);
}

/* 2^(exponent - 128): for values that are doubled, and so whole */
ANYWHERE float mxfp4_half_scale(const struct block_mxfp4* b) {
	return float_from_bits(b->exponent < 2 ? 0x00200000u << b->exponent : (uint32_t)(b->exponent - 1) << 23);
}

/* ---- element j of a block, without its scale -------------------------------------------------- */

/* One of 32 in nibbles; then with the fifth bit of q5_0 and q5_1 */
ANYWHERE int nibble(const uint8_t* q, int j) { return j < 16 ? q[j] & 15 : q[j - 16] >> 4; }
ANYWHERE int five_bits(const uint8_t* q, const uint8_t* high, int j) {
	return nibble(q, j) | (high[j / 8] >> j % 8 & 1) << 4;
}

/* For q2_k and tq2_0, and the low bits of q3_k */
ANYWHERE int low_two_bits(const uint8_t* q, int j) {
	return q[j / 128 * 32 + j % 32] >> 2 * (j / 32 % 4) & 3;
}
ANYWHERE int q3_bits(const struct block_q3_k* b, int j) {
	return low_two_bits(b->q, j) + 4 * (b->high[j % 32] >> j / 32 & 1);
}

/* For q4_k, and the low bits of q5_k */
ANYWHERE int k4_nibble(const uint8_t* q, int j) { return q[j / 64 * 32 + j % 32] >> 4 * (j / 32 & 1) & 15; }
ANYWHERE int q5_bits(const struct block_q5_k* b, int j) {
	return k4_nibble(b->q, j) | (b->high[j % 32] >> j / 32 & 1) << 4;
}

ANYWHERE int q6_bits(const struct block_q6_k* b, int j) {
	const int half = j / 128, i = j % 128;
	const int low = b->low[half * 64 + i % 64] >> 4 * (i / 64) & 15;
	return low | (b->high[half * 32 + i % 32] >> 2 * (i / 32) & 3) << 4;
}
