/* Blocks of quantized elements for made-up tensors, as inline functions for C and for CUDA C++: plain
 * rounding to nearest within a block's range, with no search for better scales, which random weights would
 * not notice. Formats and formulas: kernels/dtype_blocks.h; offsets of bytes are written out here, for both
 * languages. */
#ifndef SWIFTLET_KERNELS_SYNTH_BLOCK_H
#define SWIFTLET_KERNELS_SYNTH_BLOCK_H

#include <math.h>

#include "kernels/backend.h"
#include "kernels/synth_value.h"

SYNTH_INLINE void synth_put_half(uint8_t* out, float x) {
	const uint16_t half = synth_f16(x);
	out[0] = (uint8_t)half;
	out[1] = (uint8_t)(half >> 8);
}

SYNTH_INLINE int synth_nearest(float x, int least, int most) {
	const int q = (int)lroundf(x);
	return q < least ? least : q > most ? most : q;
}

SYNTH_INLINE void synth_range(const float* x, int n, float* least, float* most) {
	*least = *most = x[0];
	for (int i = 1; i < n; i++) {
		*least = x[i] < *least ? x[i] : *least;
		*most = x[i] > *most ? x[i] : *most;
	}
}

/* x = d·(q - zero), q in [0, 2·zero): the element farthest from 0 is met exactly, at q = 0. */
SYNTH_INLINE float synth_signed_scale(const float* x, int zero) {
	float extreme = 0.0f;
	for (int i = 0; i < 32; i++)
		extreme = fabsf(x[i]) > fabsf(extreme) ? x[i] : extreme;
	return extreme / (float)-zero;
}

/* Blocks of 32: q4_0 and q4_1. */
SYNTH_INLINE void synth_small(enum dtype type, uint8_t* d, const float* x) {
	const bool offset = type == DTYPE_Q4_1;
	const int most = 15, zero = offset ? 0 : 8;
	uint8_t* q = d + (offset ? 4 : 2);
	float low = 0.0f, high, scale;
	if (offset) {
		synth_range(x, 32, &low, &high);
		scale = (high - low) / (float)most;
		synth_put_half(d + 2, low);
	} else
		scale = synth_signed_scale(x, zero);
	synth_put_half(d, scale);
	const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
	for (int i = 0; i < 32; i++) {
		const unsigned v = (unsigned)synth_nearest((x[i] - low) * inverse + (float)zero, 0, most);
		if (i < 16)
			q[i] = (uint8_t)v;
		else
			q[i - 16] = (uint8_t)(q[i - 16] | v << 4);
	}
}

/* d, dmin, 12 bytes of scales, 128 of nibbles. */
SYNTH_INLINE void synth_q4_k(uint8_t* out, const float* x) {
	float scale[8], minimum[8], most_scale = 0.0f, most_minimum = 0.0f;
	uint8_t s[8], m[8], *packed = out + 4, *q = out + 16;
	for (int g = 0; g < 8; g++) {
		float low, high;
		synth_range(x + 32 * g, 32, &low, &high);
		minimum[g] = low < 0.0f ? -low : 0.0f;
		scale[g] = (high + minimum[g] > 0.0f ? high + minimum[g] : 0.0f) / 15.0f;
		most_scale = fmaxf(most_scale, scale[g]);
		most_minimum = fmaxf(most_minimum, minimum[g]);
	}
	const float d = most_scale / 63.0f, dmin = most_minimum / 63.0f;
	synth_put_half(out, d);
	synth_put_half(out + 2, dmin);
	for (int g = 0; g < 8; g++) {
		s[g] = (uint8_t)(d > 0.0f ? synth_nearest(scale[g] / d, 0, 63) : 0);
		m[g] = (uint8_t)(dmin > 0.0f ? synth_nearest(minimum[g] / dmin, 0, 63) : 0);
	}
	for (int g = 0; g < 4; g++) {
		packed[g] = (uint8_t)(s[g] | (s[g + 4] >> 4) << 6);
		packed[g + 4] = (uint8_t)(m[g] | (m[g + 4] >> 4) << 6);
		packed[g + 8] = (uint8_t)((s[g + 4] & 15) | (m[g + 4] & 15) << 4);
	}
	for (int i = 0; i < 256; i++) {
		const int g = i / 32, at = 32 * (g / 2) + i % 32;
		const float step = d * (float)s[g];
		const int v = step > 0.0f ? synth_nearest((x[i] + dmin * (float)m[g]) / step, 0, 15) : 0;
		q[at] = (uint8_t)(g % 2 == 0 ? v : q[at] | v << 4);
	}
}

/* 128 bytes of nibbles, 64 of the bits above them, 16 scales, d. */
SYNTH_INLINE void synth_q6_k(uint8_t* out, const float* x) {
	float largest = 0.0f;
	memset(out, 0, 210);
	for (int i = 0; i < 256; i++)
		largest = fmaxf(largest, fabsf(x[i]));
	const float d = largest / (31.0f * 127.0f);
	synth_put_half(out + 208, d);
	for (int g = 0; g < 16; g++) {
		float size = 0.0f;
		for (int i = 0; i < 16; i++)
			size = fmaxf(size, fabsf(x[16 * g + i]));
		const int s = d > 0.0f ? synth_nearest(size / (31.0f * d), 0, 127) : 0;
		out[192 + g] = (uint8_t)s;
		for (int i = 0; i < 16; i++) {
			const int e = 16 * g + i, half = e / 128, in = e % 128;
			const float step = d * (float)s;
			const unsigned v = (unsigned)(step > 0.0f ? synth_nearest(x[e] / step, -32, 31) : 0) + 32u;
			uint8_t* low = &out[64 * half + in % 64];
			uint8_t* high = &out[128 + 32 * half + in % 32];
			*low = (uint8_t)(*low | (v & 15u) << (in / 64 * 4));
			*high = (uint8_t)(*high | (v >> 4) << (in / 32 * 2));
		}
	}
}

/* A block of one of the types above, or of q8_0. */
SYNTH_INLINE void synth_block(enum dtype type, uint8_t* out, const float* x) {
	if (type == DTYPE_Q8_0)
		synth_q8_0(out, x);
	else if (type == DTYPE_Q4_K)
		synth_q4_k(out, x);
	else if (type == DTYPE_Q6_K)
		synth_q6_k(out, x);
	else
		synth_small(type, out, x);
}

#endif
