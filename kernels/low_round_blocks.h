/* Rounding weights to the types that copies for drafting are made of: q4_k and q4_0, eight groups side by
 * side, one a lane, and q8_0.
 *
 * Making a copy must cost few plain steps, or drafting earns it too late: so nothing here is summed across
 * lanes, and the divisions that are tried (low_round.c says why they are) run beside each other. It is
 * compiled for any processor and for AVX2 (cpu/avx2_low.c), to the same bytes. */
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
	lanes scale, minimum; /* of their best division so far */
	lanes best;           /* what it explains */
};

static inline void measure(struct lines* g, const lanes t[GROUP]) {
	g->low = g->high = g->sum = t[0];
	for (int i = 1; i < GROUP; i++) {
		g->low = smaller(t[i], g->low);
		g->high = larger(t[i], g->high);
		g->sum += t[i];
	}
	g->scale = (g->high - g->low) / (float)HIGHEST;
	g->minimum = g->low;
	g->best = all(-1);
}

struct division {
	lanes inverse, offset, q, qq, qx; /* the last three summed over the group */
};

static inline void divide_groups(struct division* d, const struct lines* g, float step) {
	/* less than a step finer than the range, at both ends alike: the ends are rounded to 0 and HIGHEST */
	const lanes range = g->high - g->low;
	const indices divides = (range > 1e-30f) & (range <= FLT_MAX); /* and its inverse is a number */
	d->inverse = choose(divides, ((float)HIGHEST + step) / range, all(0));
	d->offset = 0.5f * (float)HIGHEST - 0.5f * (g->low + g->high) * d->inverse;
	d->q = d->qq = d->qx = all(0);
}

static inline void add_to(struct division* d, lanes x) {
	const lanes q = nearest_whole(x * d->inverse + d->offset);
	d->q += q;
	d->qq += q * q;
	d->qx += q * x;
}

/* Keeps the division's line where it explains more. */
static inline void keep_better(struct lines* g, const struct division* d) {
	const lanes spread = d->qq - d->q * d->q / (float)GROUP, shared = d->qx - d->q * g->sum / (float)GROUP;
	const lanes scale = shared / spread, explained = shared * scale;
	const indices better = (spread > 0) & (explained > g->best);
	g->best = choose(better, explained, g->best);
	g->scale = choose(better, scale, g->scale);
	g->minimum = choose(better, (g->sum - scale * d->q) / (float)GROUP, g->minimum);
}

static inline void fit_lines(struct lines* g, const lanes t[GROUP]) {
	struct division even, finer;
	measure(g, t);
	divide_groups(&even, g, 0);
	divide_groups(&finer, g, 0.9f);
	for (int i = 0; i < GROUP; i++) {
		add_to(&even, t[i]);
		add_to(&finer, t[i]);
	}
	keep_better(g, &even);
	keep_better(g, &finer);
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

/* ---- groups without a minimum ---------------------------------------------------------------- */

/* The weight of the largest size in each group, with its sign. */
static inline lanes extremes(const lanes t[GROUP]) {
	lanes low = t[0], high = t[0];
	for (int i = 1; i < GROUP; i++) {
		low = smaller(t[i], low);
		high = larger(t[i], high);
	}
	return choose(-low > high, low, high);
}

/* Up to eight blocks of 32, x (32 n): weights are d (q - 8). Of two divisions, which put the extreme half a
 * level beyond the last one and half a level short of it, the one whose line through 0 explains more of Σx²:
 * (Σqx)² / Σq². */
static inline void round_blocks_q4_0(struct block_q4_0* b, const float* x, int n) {
	static const float ends[2] = {-8.5f, -7.5f};
	float padded[GROUPS * GROUP] = {0};
	lanes t[GROUP], scale = all(0), best = all(-1);
	memcpy(padded, x, (size_t)n * GROUP * sizeof *x);
	for (int i = 0; i < GROUP; i += 8)
		turn(padded + i, t + i);
	const lanes extreme = extremes(t);
	const indices divides = ((extreme > 1e-30f) | (extreme < -1e-30f)) & (extreme - extreme == 0);
	for (int e = 0; e < 2; e++) {
		const lanes inverse = choose(divides, ends[e] / extreme, all(0));
		lanes qq = all(0), qx = all(0);
		for (int i = 0; i < GROUP; i++) {
			const lanes q = larger(smaller(nearest_whole(t[i] * inverse), all(7)), all(-8));
			qq += q * q;
			qx += q * t[i];
		}
		const indices better = (qq > 0) & (qx * qx > best * qq);
		best = choose(better, qx * qx / qq, best);
		scale = choose(better, qx / qq, scale);
	}
	for (int g = 0; g < n; g++) {
		const float inverse = inverse_of(put_half(b[g].d, scale[g]));
		indices q[GROUP / GROUPS];
		uint8_t bytes[GROUP];
		for (int i = 0; i < GROUP / GROUPS; i++)
			q[i] = cut(load_lanes(padded + g * GROUP + GROUPS * i) * inverse + 8.5f, HIGHEST);
		put_bytes(bytes, q);
		for (int i = 0; i < GROUP / 2; i++)
			b[g].q[i] = (uint8_t)(bytes[i] | bytes[i + GROUP / 2] << 4);
	}
}

/* x (cols), in whole blocks */
static inline void round_row_q4_0(struct block_q4_0* b, const float* x, int64_t cols) {
	for (int64_t k = 0; k < cols; k += GROUPS * GROUP, b += GROUPS)
		round_blocks_q4_0(b, x + k, (int)((cols - k < GROUPS * GROUP ? cols - k : GROUPS * GROUP) / GROUP));
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
