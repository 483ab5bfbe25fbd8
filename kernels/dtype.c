/* Element types: their names, block sizes, and how a stored row is widened to floats on any processor. */
#include "kernels/backend.h"
#include "kernels/dtype_table.h"

#include <ctype.h>

static bool is_known(enum dtype type) { return (unsigned)type < DTYPE_COUNT; }

const char* dtype_name(enum dtype type) { return is_known(type) ? dtype_table[type].name : "unknown"; }

bool dtype_parse(const char* name, enum dtype* out) {
	for (int t = 0; t < DTYPE_COUNT; t++) {
		const char *a = name, *b = dtype_table[t].name;
		while (*b && tolower((unsigned char)*a) == *b)
			a++, b++;
		if (!*a && !*b) {
			*out = (enum dtype)t;
			return true;
		}
	}
	return false;
}

int dtype_block(enum dtype type) { return is_known(type) ? dtype_table[type].elements : 0; }

size_t dtype_block_bytes(enum dtype type) { return is_known(type) ? dtype_table[type].bytes : 0; }

size_t dtype_row_bytes(enum dtype type, int64_t cols) {
	if (!is_known(type) || cols <= 0 || cols % dtype_table[type].elements)
		return 0;
	const uint64_t blocks = (uint64_t)cols / (uint64_t)dtype_table[type].elements;
	return blocks > SIZE_MAX / dtype_table[type].bytes ? 0 : (size_t)blocks * dtype_table[type].bytes;
}

/* ---- what dtype_widen.h leaves to processors ------------------------------------------------- */

static float half_at(const uint8_t* p) { return half_to_float(load_u16(p)); }

static void widen_halves(const uint8_t* row, float* x, int64_t cols) {
	for (int64_t i = 0; i < cols; i++)
		x[i] = half_at(row + 2 * i);
}

/* Eight elements of IQ2: x = scale·coordinate, negative where the sign's bit is set. */
static void put_iq2(float* x, float scale, uint16_t point, unsigned signs) {
	static const float value[4] = {8, 25, 43, 0};
	for (int j = 0; j < 8; j++) {
		const float v = scale * value[point >> 2 * j & 3];
		x[j] = signs >> j & 1 ? -v : v;
	}
}

static void put_iq3(float* x, float scale, const float value[8], uint16_t low, uint16_t high,
                    unsigned signs) {
	for (int j = 0; j < 8; j++) {
		const float v = scale * value[(j < 4 ? low : high) >> 4 * (j % 4) & 7];
		x[j] = signs >> j & 1 ? -v : v;
	}
}

/* x = scale·(coordinate ± 1/8) */
static void put_iq1(float* x, float scale, uint16_t point, bool less) {
	const float delta = less ? -0.125f : 0.125f;
	for (int j = 0; j < 8; j++)
		x[j] = scale * ((float)((point >> 2 * j & 3) - 1) + delta);
}

static void widen_q5_0(const struct block_q5_0* b, float* x) {
	const float d = half_at(b->d);
	const uint32_t high = load_u32(b->high);
	for (int j = 0; j < 16; j++) {
		x[j] = d * (float)((int)((b->q[j] & 15u) | (high >> j & 1) << 4) - 16);
		x[j + 16] = d * (float)((int)((b->q[j] >> 4u) | (high >> (j + 16) & 1) << 4) - 16);
	}
}

static void widen_q4_k(const struct block_q4_k* b, float* x) {
	const float d = half_at(b->d), dmin = half_at(b->dmin);
	for (int g = 0; g < 8; g++) {
		uint8_t scale, min;
		k4_scale_min(g, b->scales, &scale, &min);
		const float step = d * (float)scale, less = dmin * (float)min;
		const uint8_t* q = b->q + g / 2 * 32;
		for (int i = 0; i < 32; i++) /* k4_nibble, with what a group has in common taken out */
			x[32 * g + i] = step * (float)(q[i] >> 4 * (g & 1) & 15) - less;
	}
}

static void widen_q6_k(const struct block_q6_k* b, float* x) {
	const float d = half_at(b->d);
	for (int g = 0; g < 16; g++) {
		const float step = d * (float)b->scales[g];
		const int half = g / 8, part = g % 8 / 2, at = g % 2 * 16; /* parts of 32 elements */
		const uint8_t *low = b->low + half * 64 + part % 2 * 32 + at, *high = b->high + half * 32 + at;
		for (int i = 0; i < 16; i++) /* q6_bits */
			x[16 * g + i] =
			    step * (float)(((low[i] >> 4 * (part / 2) & 15) | (high[i] >> 2 * part & 3) << 4) - 32);
	}
}

static void widen_tq2_0(const struct block_tq2_0* b, float* x) {
	const float d = half_at(b->d);
	for (int j = 0; j < 256; j++)
		x[j] = d * (float)(low_two_bits(b->q, j) - 1);
}

static void widen_mxfp4(const struct block_mxfp4* b, float* x) {
	static const float value[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
	const float d = mxfp4_half_scale(b);
	for (int j = 0; j < 32; j++)
		x[j] = d * value[nibble(b->q, j)];
}

static void widen_q4_group(const struct block_q4_group* b, float* x) {
	const float d = float_from_bits(load_u32(b->d));
	for (int j = 0; j < 32; j++)
		x[j] = d * (float)(nibble(b->q, j) - b->zero);
}

static void widen_f8_group(const struct block_f8_group* b, float* x) {
	const float d = float_from_bits(load_u32(b->d));
	for (int j = 0; j < 32; j++)
		x[j] = e4m3_to_float(b->q[j]) * d;
}

#include "kernels/dtype_widen.h"

void dtype_put(enum dtype type, void* row, int64_t at, float x) {
	if (type == DTYPE_F32)
		((float*)row)[at] = x;
	else
		((uint16_t*)row)[at] = type == DTYPE_BF16 ? bf16_from_float(x) : half_from_float(x);
}

void dtype_to_float(enum dtype type, const void* row, float* x, int64_t cols) {
	widen_row(type, row, x, cols);
}
