/* Element types: their names, block sizes, and how a stored row is widened to floats.
 *
 * Products are written in the order of the format's published formula, so that every bit equals the
 * `gguf` package's dequantization. */
#include "kernels/backend.h"
#include "kernels/dtype_blocks.h"
#include "kernels/dtype_decoded.h"
#include "kernels/dtype_table.h"

#include <ctype.h>

static bool known(enum dtype type) { return (unsigned)type < DTYPE_COUNT; }

const char* dtype_name(enum dtype type) { return known(type) ? dtype_table[type].name : "unknown"; }

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

int dtype_block(enum dtype type) { return known(type) ? dtype_table[type].elements : 0; }

size_t dtype_block_bytes(enum dtype type) { return known(type) ? dtype_table[type].bytes : 0; }

size_t dtype_row_bytes(enum dtype type, int64_t cols) {
	if (!known(type) || cols <= 0 || cols % dtype_table[type].elements)
		return 0;
	const uint64_t blocks = (uint64_t)cols / (uint64_t)dtype_table[type].elements;
	return blocks > SIZE_MAX / dtype_table[type].bytes ? 0 : (size_t)blocks * dtype_table[type].bytes;
}

static float half_at(const uint8_t* p) { return half_to_float(load_u16(p)); }

static void widen_q8_0(const struct block_q8_0* b, float* x) {
	const float d = half_at(b->d);
	for (int j = 0; j < 32; j++)
		x[j] = d * (float)b->q[j];
}

static int nibble(const uint8_t* q, int j) { return j < 16 ? q[j] & 15 : q[j - 16] >> 4; }

static int five_bits(const uint8_t* q, const uint8_t* high, int j) {
	return nibble(q, j) | (high[j / 8] >> j % 8 & 1) << 4;
}

static void widen_q4_0(const struct block_q4_0* b, float* x) {
	const float d = half_at(b->d);
	for (int j = 0; j < 32; j++)
		x[j] = d * (float)(nibble(b->q, j) - 8);
}

static void widen_q4_1(const struct block_q4_1* b, float* x) {
	const float d = half_at(b->d), m = half_at(b->m);
	for (int j = 0; j < 32; j++)
		x[j] = d * (float)nibble(b->q, j) + m;
}

static void widen_q5_0(const struct block_q5_0* b, float* x) {
	const float d = half_at(b->d);
	for (int j = 0; j < 32; j++)
		x[j] = d * (float)(five_bits(b->q, b->high, j) - 16);
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
		const int q = b->q[j / 128 * 32 + j % 32] >> 2 * (j / 32 % 4) & 3;
		x[j] = d * (float)(scale & 15) * (float)q - dmin * (float)(scale >> 4);
	}
}

static void widen_q3_k(const struct block_q3_k* b, float* x) {
	const float d = half_at(b->d);
	for (int j = 0; j < 256; j++) {
		const int low = b->q[j / 128 * 32 + j % 32] >> 2 * (j / 32 % 4) & 3;
		const int q = low + 4 * (b->high[j % 32] >> j / 32 & 1) - 4;
		x[j] = d * (float)q3_scale(j / 16, b->scales) * (float)q;
	}
}

static void widen_q4_k(const struct block_q4_k* b, float* x) {
	const float d = half_at(b->d), dmin = half_at(b->dmin);
	for (int j = 0; j < 256; j++) {
		uint8_t scale, min;
		k4_scale_min(j / 32, b->scales, &scale, &min);
		const int q = b->q[j / 64 * 32 + j % 32] >> 4 * (j / 32 & 1) & 15;
		x[j] = d * (float)scale * (float)q - dmin * (float)min;
	}
}

static void widen_q5_k(const struct block_q5_k* b, float* x) {
	const float d = half_at(b->d), dmin = half_at(b->dmin);
	for (int j = 0; j < 256; j++) {
		uint8_t scale, min;
		k4_scale_min(j / 32, b->scales, &scale, &min);
		const int low = b->q[j / 64 * 32 + j % 32] >> 4 * (j / 32 & 1) & 15;
		const int q = low | (b->high[j % 32] >> j / 32 & 1) << 4;
		x[j] = d * (float)scale * (float)q - dmin * (float)min;
	}
}

static void widen_q6_k(const struct block_q6_k* b, float* x) {
	const float d = half_at(b->d);
	for (int j = 0; j < 256; j++) {
		const int half = j / 128, i = j % 128;
		const int low = b->low[half * 64 + i % 64] >> 4 * (i / 64) & 15;
		const int high = b->high[half * 32 + i % 32] >> 2 * (i / 32) & 3;
		x[j] = d * (float)b->scales[j / 16] * (float)((low | high << 4) - 32);
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

#define WIDEN_BLOCKS(TYPE, type)                                                                             \
	case DTYPE_##TYPE:                                                                                       \
		for (int64_t i = 0; i < cols / elements; i++)                                                        \
			widen_##type((const struct block_##type*)row + i, x + i * elements);                             \
		break

void dtype_to_float(enum dtype type, const void* row, float* x, int64_t cols) {
	const int elements = dtype_block(type);
	const uint8_t* bytes = row;
	switch (type) {
	case DTYPE_F32:
		memcpy(x, row, (size_t)cols * 4);
		break;
	case DTYPE_F16:
		for (int64_t i = 0; i < cols; i++)
			x[i] = half_to_float(load_u16(bytes + 2 * i));
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
	default:
		for (int64_t i = 0; dtype_is_decoded(type) && i < cols / elements; i++)
			decoded_block_to_float(type, bytes + (size_t)i * dtype_block_bytes(type), x + i * elements);
	}
}
