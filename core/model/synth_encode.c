/* Stores floats in the element types that made-up models can have. Plain rounding to nearest within a
 * block's range: no search for better scales, which random weights would not notice. Formats and
 * formulas: kernels/dtype_blocks.h. */
#include <math.h>
#include <stdlib.h>

#include "core/model/synth.h"
#include "kernels/dtype_blocks.h"
#include "kernels/synth_value.h"

static void put_half(uint8_t out[2], float x) {
	const uint16_t half = synth_f16(x);
	out[0] = (uint8_t)half;
	out[1] = (uint8_t)(half >> 8);
}

static int nearest(float x, int least, int most) {
	const int q = (int)lroundf(x);
	return q < least ? least : q > most ? most : q;
}

static void range(const float* x, int n, float* least, float* most) {
	*least = *most = x[0];
	for (int i = 1; i < n; i++) {
		*least = x[i] < *least ? x[i] : *least;
		*most = x[i] > *most ? x[i] : *most;
	}
}

/* x = d·(q - zero), q in [0, 2·zero): the element farthest from 0 is met exactly, at q = 0. */
static float signed_scale(const float* x, int zero) {
	float extreme = 0.0f;
	for (int i = 0; i < BLOCK_SMALL; i++)
		extreme = fabsf(x[i]) > fabsf(extreme) ? x[i] : extreme;
	return extreme / (float)-zero;
}

static void encode_small(enum dtype type, void* out, const float* x) {
	const bool offset = type == DTYPE_Q4_1 || type == DTYPE_Q5_1,
	           five = type == DTYPE_Q5_0 || type == DTYPE_Q5_1;
	const int most = five ? 31 : 15, zero = offset ? 0 : (most + 1) / 2;
	uint8_t *d = out, *q = d + (offset ? 4 : 2) + (five ? 4 : 0);
	float low = 0.0f, high, scale;
	uint32_t fifth = 0;
	if (offset) {
		range(x, BLOCK_SMALL, &low, &high);
		scale = (high - low) / (float)most;
		put_half(d + 2, low);
	} else
		scale = signed_scale(x, zero);
	put_half(d, scale);
	const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
	for (int i = 0; i < BLOCK_SMALL; i++) {
		const unsigned v = (unsigned)nearest((x[i] - low) * inverse + (float)zero, 0, most);
		fifth |= (v >> 4) << i;
		if (i < 16)
			q[i] = (uint8_t)(v & 15u);
		else
			q[i - 16] = (uint8_t)(q[i - 16] | (v & 15u) << 4);
	}
	for (int i = 0; five && i < 4; i++)
		q[i - 4] = (uint8_t)(fifth >> 8 * i);
}

static void encode_q4_k(struct block_q4_k* b, const float* x) {
	float scale[8], minimum[8], most_scale = 0.0f, most_minimum = 0.0f;
	uint8_t s[8], m[8];
	for (int g = 0; g < 8; g++) {
		float low, high;
		range(x + 32 * g, 32, &low, &high);
		minimum[g] = low < 0.0f ? -low : 0.0f;
		scale[g] = (high + minimum[g] > 0.0f ? high + minimum[g] : 0.0f) / 15.0f;
		most_scale = fmaxf(most_scale, scale[g]);
		most_minimum = fmaxf(most_minimum, minimum[g]);
	}
	const float d = most_scale / 63.0f, dmin = most_minimum / 63.0f;
	put_half(b->d, d);
	put_half(b->dmin, dmin);
	for (int g = 0; g < 8; g++) {
		s[g] = (uint8_t)(d > 0.0f ? nearest(scale[g] / d, 0, 63) : 0);
		m[g] = (uint8_t)(dmin > 0.0f ? nearest(minimum[g] / dmin, 0, 63) : 0);
	}
	for (int g = 0; g < 4; g++) {
		b->scales[g] = (uint8_t)(s[g] | (s[g + 4] >> 4) << 6);
		b->scales[g + 4] = (uint8_t)(m[g] | (m[g + 4] >> 4) << 6);
		b->scales[g + 8] = (uint8_t)((s[g + 4] & 15) | (m[g + 4] & 15) << 4);
	}
	for (int i = 0; i < BLOCK_SUPER; i++) {
		const int g = i / 32, at = 32 * (g / 2) + i % 32;
		const float step = d * (float)s[g];
		const int v = step > 0.0f ? nearest((x[i] + dmin * (float)m[g]) / step, 0, 15) : 0;
		b->q[at] = (uint8_t)(g % 2 == 0 ? v : b->q[at] | v << 4);
	}
}

static void encode_q6_k(struct block_q6_k* b, const float* x) {
	float largest = 0.0f;
	memset(b, 0, sizeof *b);
	for (int i = 0; i < BLOCK_SUPER; i++)
		largest = fmaxf(largest, fabsf(x[i]));
	const float d = largest / (31.0f * 127.0f);
	put_half(b->d, d);
	for (int g = 0; g < 16; g++) {
		float size = 0.0f;
		for (int i = 0; i < 16; i++)
			size = fmaxf(size, fabsf(x[16 * g + i]));
		const int s = d > 0.0f ? nearest(size / (31.0f * d), 0, 127) : 0;
		b->scales[g] = (int8_t)s;
		for (int i = 0; i < 16; i++) {
			const int e = 16 * g + i, half = e / 128, in = e % 128;
			const float step = d * (float)s;
			const unsigned v = (unsigned)(step > 0.0f ? nearest(x[e] / step, -32, 31) : 0) + 32u;
			uint8_t* low = &b->low[64 * half + in % 64];
			uint8_t* high = &b->high[32 * half + in % 32];
			*low = (uint8_t)(*low | (v & 15u) << (in / 64 * 4));
			*high = (uint8_t)(*high | (v >> 4) << (in / 32 * 2));
		}
	}
}

bool synth_can_encode(enum dtype type, struct error* error) {
	switch (type) {
	case DTYPE_F32:
	case DTYPE_F16:
	case DTYPE_BF16:
	case DTYPE_Q8_0:
	case DTYPE_Q4_0:
	case DTYPE_Q4_1:
	case DTYPE_Q5_0:
	case DTYPE_Q5_1:
	case DTYPE_Q4_K:
	case DTYPE_Q6_K:
		return true;
	default:
		return error_set(error, "f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, q4_k, q6_k");
	}
}

void synth_encode(enum dtype type, void* out, const float* x, int64_t n) {
	const int block = dtype_block(type);
	const size_t bytes = dtype_block_bytes(type);
	uint8_t* to = out;
	for (int64_t i = 0; i < n; i += block, to += bytes) {
		const uint16_t half = type == DTYPE_F16 ? synth_f16(x[i]) : type == DTYPE_BF16 ? synth_bf16(x[i]) : 0;
		switch (type) {
		case DTYPE_F32:
			memcpy(to, x + i, sizeof *x);
			break;
		case DTYPE_F16:
		case DTYPE_BF16:
			memcpy(to, &half, sizeof half);
			break;
		case DTYPE_Q8_0:
			synth_q8_0(to, x + i);
			break;
		case DTYPE_Q4_K:
			encode_q4_k((struct block_q4_k*)(void*)to, x + i);
			break;
		case DTYPE_Q6_K:
			encode_q6_k((struct block_q6_k*)(void*)to, x + i);
			break;
		default:
			encode_small(type, to, x + i);
		}
	}
}
