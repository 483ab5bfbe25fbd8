/* Blocks of quantized elements for synthetic tensors, as inline functions for C and for CUDA C++: plain
 * rounding to nearest within a block's range, with no search for better scales, which random weights would
 * not notice. Formats and formulas: kernels/dtype_blocks.h. */
#pragma once

#include <math.h>

#include "kernels/backend.h"
#include "kernels/dtype_blocks.h"

ANYWHERE void synth_put_half(uint8_t out[2], float x) {
	const uint16_t half = half_from_float(x);
	out[0] = (uint8_t)half;
	out[1] = (uint8_t)(half >> 8);
}

ANYWHERE int synth_nearest(float x, int least, int most) {
	const int q = (int)lroundf(x);
	return q < least ? least : q > most ? most : q;
}

ANYWHERE void synth_range(const float* x, int n, float* least, float* most) {
	*least = *most = x[0];
	for (int i = 1; i < n; i++) {
		*least = x[i] < *least ? x[i] : *least;
		*most = x[i] > *most ? x[i] : *most;
	}
}

/* The element farthest from 0 */
ANYWHERE float synth_extreme(const float* x, int n) {
	float extreme = 0.0f;
	for (int i = 0; i < n; i++)
		extreme = fabsf(x[i]) > fabsf(extreme) ? x[i] : extreme;
	return extreme;
}

ANYWHERE void synth_q8_0(struct block_q8_0* out, const float* x) {
	const float largest = fabsf(synth_extreme(x, 32)), inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
	synth_put_half(out->d, largest / 127.0f);
	for (int i = 0; i < 32; i++) {
		/* to nearest, halves away from zero; the cast cuts towards zero, and the sum is one rounding */
		const float scaled = x[i] * inverse;
		out->q[i] = (int8_t)(scaled + (scaled < 0.0f ? -0.5f : 0.5f));
	}
}

/* (value - low) / scale + zero in nibbles as q4_0 and q4_1 have them */
ANYWHERE void synth_nibbles(uint8_t q[16], const float* x, float low, float scale, int zero) {
	const float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
	for (int i = 0; i < 32; i++) {
		const unsigned v = (unsigned)synth_nearest((x[i] - low) * inverse + (float)zero, 0, 15);
		q[i % 16] = (uint8_t)(i < 16 ? v : q[i % 16] | v << 4);
	}
}

/* The element farthest from 0 is met exactly, at q = 0. */
ANYWHERE void synth_q4_0(struct block_q4_0* out, const float* x) {
	const float scale = synth_extreme(x, 32) / -8.0f;
	synth_put_half(out->d, scale);
	synth_nibbles(out->q, x, 0.0f, scale, 8);
}

ANYWHERE void synth_q4_1(struct block_q4_1* out, const float* x) {
	float low, high;
	synth_range(x, 32, &low, &high);
	const float scale = (high - low) / 15.0f;
	synth_put_half(out->d, scale);
	synth_put_half(out->m, low);
	synth_nibbles(out->q, x, low, scale, 0);
}

ANYWHERE void synth_q4_k(struct block_q4_k* out, const float* x) {
	float scale[8], minimum[8], most_scale = 0.0f, most_minimum = 0.0f;
	uint8_t s[8], m[8];
	for (int g = 0; g < 8; g++) {
		float low, high;
		synth_range(x + 32 * g, 32, &low, &high);
		minimum[g] = low < 0.0f ? -low : 0.0f;
		scale[g] = (high + minimum[g] > 0.0f ? high + minimum[g] : 0.0f) / 15.0f;
		most_scale = fmaxf(most_scale, scale[g]);
		most_minimum = fmaxf(most_minimum, minimum[g]);
	}
	const float d = most_scale / 63.0f, dmin = most_minimum / 63.0f;
	synth_put_half(out->d, d);
	synth_put_half(out->dmin, dmin);
	for (int g = 0; g < 8; g++) {
		s[g] = (uint8_t)(d > 0.0f ? synth_nearest(scale[g] / d, 0, 63) : 0);
		m[g] = (uint8_t)(dmin > 0.0f ? synth_nearest(minimum[g] / dmin, 0, 63) : 0);
	}
	for (int g = 0; g < 4; g++) {
		out->scales[g] = (uint8_t)(s[g] | (s[g + 4] >> 4) << 6);
		out->scales[g + 4] = (uint8_t)(m[g] | (m[g + 4] >> 4) << 6);
		out->scales[g + 8] = (uint8_t)((s[g + 4] & 15) | (m[g + 4] & 15) << 4);
	}
	for (int i = 0; i < 256; i++) {
		const int g = i / 32;
		uint8_t* q = &out->q[32 * (g / 2) + i % 32];
		const float step = d * (float)s[g];
		const int v = step > 0.0f ? synth_nearest((x[i] + dmin * (float)m[g]) / step, 0, 15) : 0;
		*q = (uint8_t)(g % 2 == 0 ? v : *q | v << 4);
	}
}

ANYWHERE void synth_q6_k(struct block_q6_k* out, const float* x) {
	const float d = fabsf(synth_extreme(x, 256)) / (31.0f * 127.0f);
	memset(out, 0, sizeof *out);
	synth_put_half(out->d, d);
	for (int g = 0; g < 16; g++) {
		const float size = fabsf(synth_extreme(x + 16 * g, 16));
		const int s = d > 0.0f ? synth_nearest(size / (31.0f * d), 0, 127) : 0;
		out->scales[g] = (int8_t)s;
		for (int i = 0; i < 16; i++) {
			const int e = 16 * g + i, half = e / 128, in = e % 128;
			const float step = d * (float)s;
			const unsigned v = (unsigned)(step > 0.0f ? synth_nearest(x[e] / step, -32, 31) : 0) + 32u;
			uint8_t* low = &out->low[64 * half + in % 64];
			uint8_t* high = &out->high[32 * half + in % 32];
			*low = (uint8_t)(*low | (v & 15u) << (in / 64 * 4));
			*high = (uint8_t)(*high | (v >> 4) << (in / 32 * 2));
		}
	}
}

/* A block of one of the types above. */
ANYWHERE void synth_block(enum dtype type, void* out, const float* x) {
	if (type == DTYPE_Q8_0)
		synth_q8_0((struct block_q8_0*)out, x);
	else if (type == DTYPE_Q4_0)
		synth_q4_0((struct block_q4_0*)out, x);
	else if (type == DTYPE_Q4_1)
		synth_q4_1((struct block_q4_1*)out, x);
	else if (type == DTYPE_Q4_K)
		synth_q4_k((struct block_q4_k*)out, x);
	else
		synth_q6_k((struct block_q6_k*)out, x);
}
