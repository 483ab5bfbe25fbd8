/* Rounding weights to the types that copies for drafting are made of: q4_k, the eight groups of a block side
 * by side, one a lane, and q8_0.
 *
 * Making a copy must cost few plain steps, or drafting earns it too late: so nothing here is summed across
 * lanes, and only one division is tried (low_round.c says what that is). It is compiled for any processor and
 * for AVX2 (cpu/avx2_low.c), to the same bytes. */
#if defined(__AVX2__)
#include <immintrin.h>
#endif
#include <float.h>
#include <string.h>

#include "kernels/dtype_blocks.h"

enum { GROUPS = 8, GROUP = 32, HIGHEST = 15 };

typedef float lanes __attribute__((vector_size(4 * GROUPS)));
typedef int32_t indices __attribute__((vector_size(4 * GROUPS)));

static inline lanes load_lanes(const float* x) {
	lanes v;
	memcpy(&v, x, sizeof v);
	return v;
}

static inline void store_lanes(float* out, lanes v) { memcpy(out, &v, sizeof v); }

static inline void store_indices(int32_t* out, indices v) { memcpy(out, &v, sizeof v); }

static inline lanes all(float x) { return (lanes){x, x, x, x, x, x, x, x}; }

/* v where `first` has all bits set, w where it has none */
static inline lanes choose(indices first, lanes v, lanes w) {
	return (lanes)(((indices)v & first) | ((indices)w & ~first));
}

/* w where v is not a number */
static inline lanes larger(lanes v, lanes w) {
#if defined(__AVX2__)
	return (lanes)_mm256_max_ps((__m256)v, (__m256)w);
#else
	return choose(v > w, v, w);
#endif
}

static inline lanes smaller(lanes v, lanes w) {
#if defined(__AVX2__)
	return (lanes)_mm256_min_ps((__m256)v, (__m256)w);
#else
	return choose(v < w, v, w);
#endif
}

/* 0…most, a half more than which is v; what is not a number becomes 0. */
static inline indices cut(lanes v, int most) {
	return __builtin_convertvector(smaller(larger(v, all(0)), all((float)most + 0.5f)), indices);
}

/* The whole number next to v, of less than 2^22; what is not a number stays so. */
static inline lanes nearest_whole(lanes v) {
	const float shift = 12582912; /* 2^23 + 2^22: nothing behind the point has room beside it */
	return v + shift - shift;
}

/* ---- a block turned round ------------------------------------------------------------------- */

#define PICK(a, b, ...) __builtin_shuffle(a, b, (indices){__VA_ARGS__})

/* t[i] becomes element i of eight groups. */
static inline void turn(const float* x, lanes t[8]) {
	lanes two[8], four[8];
#pragma GCC unroll 4
	for (int r = 0; r < 8; r += 2) {
		const lanes a = load_lanes(x + r * GROUP), b = load_lanes(x + (r + 1) * GROUP);
		two[r] = PICK(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
		two[r + 1] = PICK(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
	}
#pragma GCC unroll 4
	for (int k = 0; k < 4; k++) {
		const lanes a = two[k / 2 * 4 + k % 2], b = two[k / 2 * 4 + k % 2 + 2];
		four[k / 2 * 4 + k % 2 * 2] = PICK(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
		four[k / 2 * 4 + k % 2 * 2 + 1] = PICK(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
	}
#pragma GCC unroll 4
	for (int i = 0; i < 4; i++) {
		t[i] = PICK(four[i], four[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
		t[i + 4] = PICK(four[i], four[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
	}
}

/* ---- a group's line ------------------------------------------------------------------------- */

struct lines {
	lanes low, high, sum; /* of the groups */
	lanes scale, minimum;
};

static inline void measure(struct lines* g, const lanes t[GROUP]) {
	g->low = g->high = g->sum = t[0];
	for (int i = 1; i < GROUP; i++) {
		g->low = smaller(t[i], g->low);
		g->high = larger(t[i], g->high);
		g->sum += t[i];
	}
}

/* The line of one division of the range into somewhat more than its steps: on normal, Laplace, Student's and
 * uniform weights the error is within 1.5 % of the best of several divisions' and 4 % less than without a
 * line. The range's ends come to lie 0.2 of a step outside 0…HIGHEST, and are rounded to these. */
static inline void fit_lines(struct lines* g, const lanes t[GROUP]) {
	const float steps = (float)HIGHEST + 0.4f;
	measure(g, t);
	const lanes range = g->high - g->low;
	const indices divides = (range > 1e-30f) & (range <= FLT_MAX); /* and its inverse is a number */
	const lanes inverse = choose(divides, steps / range, all(0));
	const lanes offset = 0.5f * (float)HIGHEST - 0.5f * (g->low + g->high) * inverse;
	lanes sum = all(0), squares = sum, products = sum;
	for (int i = 0; i < GROUP; i++) {
		const lanes q = nearest_whole(t[i] * inverse + offset);
		sum += q;
		squares += q * q;
		products += q * t[i];
	}
	const lanes spread = squares - sum * sum / (float)GROUP;
	const lanes scale = (products - sum * g->sum / (float)GROUP) / spread;
	const indices fits = spread > 0; /* not in a constant group */
	g->scale = choose(fits, scale, all(0));
	g->minimum = choose(fits, (g->sum - scale * sum) / (float)GROUP, g->low);
	/* minima are stored negated, and a group above zero has none */
	const indices above = g->minimum > 0;
	g->scale = choose(above, g->high / (float)HIGHEST, g->scale);
	g->minimum = choose(above, all(0), g->minimum);
}

/* ---- a block -------------------------------------------------------------------------------- */

static inline float inverse_of(float x) { return x != 0.0f ? 1.0f / x : 0.0f; }

/* The largest of v, and at least 0. */
static inline float most_of(lanes v) {
	v = larger(v, all(0));
	v = larger(v, PICK(v, v, 4, 5, 6, 7, 0, 1, 2, 3));
	v = larger(v, PICK(v, v, 2, 3, 0, 1, 6, 7, 4, 5));
	v = larger(v, PICK(v, v, 1, 0, 3, 2, 5, 4, 7, 6));
	return v[0];
}

static inline void put_bytes(uint8_t out[GROUP], const indices v[GROUP / GROUPS]) {
#if defined(__AVX2__)
	const __m256i low = _mm256_packus_epi32((__m256i)v[0], (__m256i)v[1]);
	const __m256i high = _mm256_packus_epi32((__m256i)v[2], (__m256i)v[3]);
	/* packing goes by halves of a register */
	const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
	const __m256i bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), in_order);
	_mm256_storeu_si256((__m256i*)(void*)out, bytes);
#else
	for (int i = 0; i < GROUP; i++)
		out[i] = (uint8_t)v[i / GROUPS][i % GROUPS];
#endif
}

/* Two groups' integers, the second in the high nibbles. */
static inline void put_pair(uint8_t out[GROUP], const float* x, const float inverse[2],
                            const float offset[2]) {
	indices pair[GROUP / GROUPS];
	for (int i = 0; i < GROUP / GROUPS; i++) {
		const indices low = cut(load_lanes(x + GROUPS * i) * inverse[0] + offset[0], HIGHEST);
		const indices high = cut(load_lanes(x + GROUP + GROUPS * i) * inverse[1] + offset[1], HIGHEST);
		pair[i] = low | high << 4;
	}
	put_bytes(out, pair);
}

/* Stores a half, a finite one, and gives back what it became. */
static inline float put_half(uint8_t out[2], float x) {
	const float most = 65504;
	const uint16_t half = half_from_float(x > most ? most : x < -most ? -most : x == x ? x : 0);
	out[0] = (uint8_t)half;
	out[1] = (uint8_t)(half >> 8);
	return half_to_float(half);
}

/* Six bits each: the low ones of the first four groups, then, and the others' high ones beside them. */
static inline void put_scales(uint8_t out[12], indices s, indices m) {
	const indices s_after = PICK(s, s, 4, 5, 6, 7, 0, 1, 2, 3), m_after = PICK(m, m, 4, 5, 6, 7, 0, 1, 2, 3);
	int32_t first[GROUPS], second[GROUPS], third[GROUPS];
	store_indices(first, s | (s_after >> 4) << 6);
	store_indices(second, m | (m_after >> 4) << 6);
	store_indices(third, (s_after & 15) | (m_after & 15) << 4);
	for (int l = 0; l < 4; l++) {
		out[l] = (uint8_t)first[l];
		out[l + 4] = (uint8_t)second[l];
		out[l + 8] = (uint8_t)third[l];
	}
}

static inline void round_block_q4_k(struct block_q4_k* b, const float* x) {
	lanes t[GROUP];
	struct lines g;
	for (int i = 0; i < GROUP; i += 8)
		turn(x + i, t + i);
	fit_lines(&g, t);
	const float most_scale = most_of(g.scale) / 63, most_minimum = most_of(-g.minimum) / 63;
	const indices s = cut(g.scale * inverse_of(most_scale) + 0.5f, 63);
	const indices m = cut(-g.minimum * inverse_of(most_minimum) + 0.5f, 63);
	const lanes scale = __builtin_convertvector(s, lanes) * put_half(b->d, most_scale);
	const lanes minimum = __builtin_convertvector(m, lanes) * put_half(b->dmin, most_minimum);
	float inverse[GROUPS], offset[GROUPS];
	store_lanes(inverse, choose(scale != 0, 1.0f / scale, all(0)));
	store_lanes(offset, minimum * load_lanes(inverse) + 0.5f);
	put_scales(b->scales, s, m);
	for (int p = 0; p < 4; p++)
		put_pair(b->q + 32 * p, x + 64 * p, inverse + 2 * p, offset + 2 * p);
}

static inline void round_block_q8_0(struct block_q8_0* b, const float* x) {
	lanes low = load_lanes(x), high = low;
	for (int i = GROUPS; i < GROUP; i += GROUPS) {
		low = smaller(load_lanes(x + i), low);
		high = larger(load_lanes(x + i), high);
	}
	const float d = put_half(b->d, most_of(larger(-low, high)) / 127), inverse = inverse_of(d);
	indices v[GROUP / GROUPS];
	uint8_t q[GROUP];
	for (int i = 0; i < GROUP / GROUPS; i++)
		v[i] = cut(load_lanes(x + GROUPS * i) * inverse + 127.0f + 0.5f, 254);
	put_bytes(q, v);
	for (int i = 0; i < GROUP; i++)
		b->q[i] = (int8_t)(q[i] - 127);
}
