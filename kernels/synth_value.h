/* The elements of made-up tensors, as inline functions for C and for CUDA C++.
 *
 * An element is a pure function of (tensor, row, column). All draws are integers, and one rounded
 * multiplication turns them into a float: nothing that a compiler could fuse or reorder, so every
 * machine makes the same bits. A draw is the sum of the four bytes of a hash, less its mean: close to a
 * normal variate (Irwin-Hall of four), within 3.46 standard deviations. */
#ifndef SWIFTLET_KERNELS_SYNTH_VALUE_H
#define SWIFTLET_KERNELS_SYNTH_VALUE_H

#include <stdbool.h>
#include <string.h>

#include "kernels/synth.h"

#ifdef __CUDACC__
#define SYNTH_INLINE static __host__ __device__ __forceinline__
#elif defined(__GNUC__)
#define SYNTH_INLINE static inline __attribute__((always_inline, unused))
#else
#define SYNTH_INLINE static inline
#endif

enum {
	SYNTH_CLUSTER = 16, /* tokens a cluster */
	SYNTH_SPREAD = 510  /* a draw lies in [-SYNTH_SPREAD, SYNTH_SPREAD] */
};
/* Standard deviation of a draw: sqrt(4·(256² - 1)/12). */
#define SYNTH_DEVIATION 147.80053

struct synth_row_key { /* one row's stream of draws */
	uint32_t first, second;
};

/* A bijection of 64 bits that mixes well (the finalizer of SplitMix64, Steele et al. 2014). */
SYNTH_INLINE uint64_t synth_mix(uint64_t x) {
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

SYNTH_INLINE struct synth_row_key synth_row_key(uint64_t seed, uint64_t row) {
	const uint64_t mixed = synth_mix(synth_mix(seed) + row);
	struct synth_row_key key;
	key.first = (uint32_t)mixed;
	key.second = (uint32_t)(mixed >> 32);
	return key;
}

/* The draw at a column of a row, in [-SYNTH_SPREAD, SYNTH_SPREAD]. 32-bit arithmetic, so that it
 * vectorises; the second key keeps rows with near first keys from being shifts of each other. */
SYNTH_INLINE int32_t synth_draw(struct synth_row_key key, uint32_t column) {
	uint32_t x = column * 0x9e3779b1u + key.first;
	x ^= x >> 16;
	x *= 0x7feb352du;
	x ^= x >> 15;
	x += key.second;
	x *= 0x846ca68bu;
	x ^= x >> 16;
	x = (x & 0x00ff00ffu) + ((x >> 8) & 0x00ff00ffu);
	return (int32_t)((x & 0xffffu) + (x >> 16)) - SYNTH_SPREAD;
}

/* ---- halves and clusters ------------------------------------------------------------------ */

/* With two halves the vocabulary alternates between them every 128 ids: ASCII bytes belong to the first
 * half and all other bytes to the second, so that either can be reached by text. */
SYNTH_INLINE int synth_token_half(uint32_t token, int halves) {
	return halves == 2 ? (int)((token >> 7) & 1u) : 0;
}

/* The cluster of a token, counted within its half. */
SYNTH_INLINE uint32_t synth_token_cluster(uint32_t token, int halves) {
	const uint32_t within = halves == 2 ? ((token >> 8) << 7) | (token & 127u) : token;
	return within / SYNTH_CLUSTER;
}

/* Where a cluster lies on its half's cycle: a random permutation of [0, clusters), made by walking the
 * cycles of a bijection of the next power of two. The cluster at position p is followed by the one at
 * position p + 1, the last by the first. */
SYNTH_INLINE uint32_t synth_cluster_position(uint64_t shared, uint32_t cluster, uint32_t clusters) {
	uint32_t bits = 1;
	while ((1u << bits) < clusters)
		bits++;
	const uint32_t all = (1u << bits) - 1u, fold = (bits + 1u) / 2u;
	const uint64_t key = synth_mix(shared);
	const uint32_t a = (uint32_t)key | 1u, b = (uint32_t)(key >> 32) | 1u;
	uint32_t x = cluster;
	do {
		for (int round = 0; round < 3; round++) {
			x = (x * a + (uint32_t)(key >> 17)) & all;
			x ^= x >> fold;
			x = (x * b) & all;
			x ^= x >> fold;
		}
	} while (x >= clusters);
	return x;
}

/* ---- elements ----------------------------------------------------------------------------- */

/* Everything about a row that its elements share. */
struct synth_row {
	struct synth_row_key own, common;
	float scale;
	int64_t begin, end; /* columns that are not zero */
};

SYNTH_INLINE struct synth_row synth_row_of(const struct synth_tensor* t, int64_t row, int64_t rows,
                                           int64_t cols) {
	struct synth_row r;
	const bool tokens = t->kind == SYNTH_EMBEDDING || t->kind == SYNTH_HEAD;
	int half = 0;
	if (t->halves == 2)
		half = tokens ? synth_token_half((uint32_t)row, 2) : row >= rows / 2;
	r.own = synth_row_key(t->seed, (uint64_t)row);
	r.common = r.own;
	if (tokens) {
		const uint32_t clusters = (uint32_t)t->clusters;
		uint32_t position = synth_cluster_position(t->shared + (uint64_t)half,
		                                           synth_token_cluster((uint32_t)row, t->halves), clusters);
		if (t->kind == SYNTH_HEAD)
			position = (position + clusters - 1u) % clusters;
		r.common = synth_row_key(t->shared + 2u + (uint64_t)half, position);
	}
	r.scale = half == 1 ? t->scale_second : t->scale;
	r.begin = t->halves == 2 && half == 1 ? cols / 2 : 0;
	r.end = t->halves == 2 && half == 0 ? cols / 2 : cols;
	return r;
}

/* The element at a column of a row made by synth_row_of. */
SYNTH_INLINE float synth_element(const struct synth_tensor* t, const struct synth_row* r, int64_t column) {
	if (t->kind == SYNTH_CONSTANT)
		return t->scale;
	if (column < r->begin || column >= r->end)
		return 0.0f;
	int32_t draw = t->own * synth_draw(r->own, (uint32_t)column);
	if (t->common != 0)
		draw += t->common * synth_draw(r->common, (uint32_t)column);
	return (float)draw * r->scale;
}

/* ---- storing ------------------------------------------------------------------------------ */

/* IEEE half precision, to nearest, ties to even; finite input under 65520 in size. */
SYNTH_INLINE uint16_t synth_f16(float x) {
	uint32_t b;
	memcpy(&b, &x, sizeof b);
	const uint32_t sign = (b >> 16) & 0x8000u;
	b &= 0x7fffffffu;
	if (b >= 0x38800000u) /* a normal half */
		return (uint16_t)(sign | ((b + 0xfffu + ((b >> 13) & 1u) - 0x38000000u) >> 13));
	const uint32_t shift = 126u - (b >> 23);
	if (shift > 24u)
		return (uint16_t)sign;
	const uint32_t m = (b & 0x7fffffu) | 0x800000u, rest = m & ((1u << shift) - 1u),
	               middle = 1u << (shift - 1u);
	uint32_t h = m >> shift;
	if (rest > middle || (rest == middle && (h & 1u)))
		h++;
	return (uint16_t)(sign | h);
}

/* bfloat16, to nearest, ties to even. */
SYNTH_INLINE uint16_t synth_bf16(float x) {
	uint32_t b;
	memcpy(&b, &x, sizeof b);
	return (uint16_t)((b + 0x7fffu + ((b >> 16) & 1u)) >> 16);
}

/* One Q8_0 block of 32: the scale as a half, little-endian, then 32 signed bytes. */
SYNTH_INLINE void synth_q8_0(uint8_t out[34], const float x[32]) {
	float largest = 0.0f;
	for (int i = 0; i < 32; i++) {
		const float size = x[i] < 0.0f ? -x[i] : x[i];
		largest = size > largest ? size : largest;
	}
	const float scale = largest / 127.0f, inverse = largest > 0.0f ? 127.0f / largest : 0.0f;
	const uint16_t half = synth_f16(scale);
	out[0] = (uint8_t)half;
	out[1] = (uint8_t)(half >> 8);
	for (int i = 0; i < 32; i++) {
		/* to nearest, halves away from zero; the cast cuts towards zero, and the sum is one rounding */
		const float scaled = x[i] * inverse;
		const float moved = scaled < 0.0f ? -0.5f : 0.5f;
#ifdef __CUDA_ARCH__
		out[2 + i] = (uint8_t)(int8_t)(int)__fadd_rn(__fmul_rn(x[i], inverse), moved);
#else
		out[2 + i] = (uint8_t)(int8_t)(int)(scaled + moved);
#endif
	}
}

#endif
