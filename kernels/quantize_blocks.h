/* Rounding weights to the types that draft weights are made of, q4_k, q4_1 and q8_0: many blocks
 * side by side, one a lane.
 *
 * A group x is to become s·q + m with q in 0…15. Two divisions of its range are tried; each gives integers q,
 * and for given q the best s and m are a line through the points (q, x), which explains
 * (Σqx - ΣqΣx/n)² / (Σq² - (Σq)²/n) of Σ(x - mean)². The division whose line explains more is kept, and the
 * weights are rounded once more to what s and m became when they were stored.
 *
 * Making draft weights must cost few plain steps, because drafting has to earn them back. So nothing here is
 * summed across lanes. It is compiled for any processor and for AVX2 (cpu/avx2_quantize_row.c), to the same
 * bytes. */
#include <float.h>
#include <string.h>

#include "kernels/backend.h"
#include "kernels/dtype_blocks.h"
#include "kernels/lanes.h"

enum { GROUP = 32, HIGHEST = 15, SUPER_GROUPS = BLOCK_SUPER / GROUP, BLOCKS = FLOAT_LANES };

/* sum + q·q, of whole numbers of less than 2^24: rounded once or twice, it is the same */
static inline lanes plus_square(lanes sum, lanes q) {
#if defined(__AVX2__)
	return (lanes)_mm256_fmadd_ps((__m256)q, (__m256)q, (__m256)sum);
#else
	return sum + q * q;
#endif
}

/* The whole number next to v, of less than 2^22; what is not a number stays so. */
static inline lanes nearest_whole(lanes v) {
	const float shift = 12582912; /* 2^23 + 2^22: nothing behind the point has room beside it */
	return v + shift - shift;
}

/* 1 / x, 0 of 0 */
static inline lanes inverse_of_lanes(lanes x) { return choose_lanes(x != 0, 1.0f / x, all(0)); }

/* ---- halves --------------------------------------------------------------------------------- */

/* x as halves (half_from_float), finite ones; what is not a number becomes 0. */
static inline indices to_halves(lanes x) {
	const float most = 65504;
	x = choose_lanes(x == x, x, all(0));
	x = smaller(larger(x, all(-most)), all(most));
	const indices sign = (indices)x >> 16 & 0x8000, magnitude = (indices)x & 0x7fffffff;
	const indices tiny = (indices)((lanes)magnitude + 0.5f) - 0x3f000000;
	const indices normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
	const indices subnormal = magnitude < 0x38800000;
	return sign | (tiny & subnormal) | (normal & ~subnormal);
}

/* half_to_float, of finite ones */
static inline lanes from_halves(indices half) {
	const indices magnitude = half & 0x7fff, subnormal = magnitude < 0x400;
	const lanes tiny = __builtin_convertvector(magnitude, lanes) * 0x1p-24f;
	const lanes value = choose_lanes(subnormal, tiny, (lanes)((magnitude << 13) + 0x38000000));
	return (lanes)((indices)value | (half & 0x8000) << 16);
}

/* ---- blocks turned round -------------------------------------------------------------------- */

/* The weights that are rounded at a time. */
struct stripe {
	const float* block[BLOCKS];
};

/* Four elements of blocks r, r + 4 and so on: a quarter of the lanes for each four blocks */
static inline lanes load_quads(const struct stripe* s, int r, int at) {
#if defined(__AVX2__)
	const __m256 v = _mm256_castps128_ps256(_mm_loadu_ps(s->block[r] + at));
	return (lanes)_mm256_insertf128_ps(v, _mm_loadu_ps(s->block[r + 4] + at), 1);
#else
	lanes v;
	memcpy(&v, s->block[r] + at, sizeof v);
	return v;
#endif
}

/* Selects in each quad of a and of b: indices 0…3 mean a's, 4…7 b's. */
#define IN_QUAD(i, quad) (((i) < 4 ? (i) : (i)-4 + BLOCKS) + 4 * (quad))
#define QUAD(i, j, k, l, quad) IN_QUAD(i, quad), IN_QUAD(j, quad), IN_QUAD(k, quad), IN_QUAD(l, quad)
#if defined(__AVX2__)
#define QUADS(...) QUAD(__VA_ARGS__, 0), QUAD(__VA_ARGS__, 1)
#else
#define QUADS(...) QUAD(__VA_ARGS__, 0)
#endif
#define PICK(a, b, ...) SHUFFLE(a, b, ((indices){QUADS(__VA_ARGS__)}))

/* t[i] becomes element i of the blocks' group. */
static inline void turn(const struct stripe* s, int group, lanes t[GROUP]) {
	for (int i = 0; i < GROUP; i += 4, t += 4) {
		const lanes a = load_quads(s, 0, group * GROUP + i), b = load_quads(s, 1, group * GROUP + i);
		const lanes c = load_quads(s, 2, group * GROUP + i), d = load_quads(s, 3, group * GROUP + i);
		const lanes ab = PICK(a, b, 0, 4, 1, 5), ab_after = PICK(a, b, 2, 6, 3, 7);
		const lanes cd = PICK(c, d, 0, 4, 1, 5), cd_after = PICK(c, d, 2, 6, 3, 7);
		t[0] = PICK(ab, cd, 0, 1, 4, 5);
		t[1] = PICK(ab, cd, 2, 3, 6, 7);
		t[2] = PICK(ab_after, cd_after, 0, 1, 4, 5);
		t[3] = PICK(ab_after, cd_after, 2, 3, 6, 7);
	}
}

/* The groups' ends: of even and odd elements apart, so that they need not wait for one another. */
static inline void find_ends(const lanes t[GROUP], lanes* low, lanes* high) {
	lanes even_low = t[0], even_high = t[0], odd_low = t[1], odd_high = t[1];
	for (int i = 2; i < GROUP; i += 2) {
		even_low = smaller(t[i], even_low);
		even_high = larger(t[i], even_high);
		odd_low = smaller(t[i + 1], odd_low);
		odd_high = larger(t[i + 1], odd_high);
	}
	*low = smaller(even_low, odd_low);
	*high = larger(even_high, odd_high);
}

/* ---- a group's line ------------------------------------------------------------------------- */

struct lines {
	lanes low, high, sum; /* of the groups */
	lanes scale, minimum; /* of their best division so far */
	lanes best;           /* what it explains */
};

struct division {
	lanes inverse, offset, q, qq, qx; /* the last three summed over the group */
};

static inline void divide_groups(struct division* d, const struct lines* g, float step) {
	/* less than a step finer than the range, at both ends alike: the ends are rounded to 0 and HIGHEST */
	const lanes range = g->high - g->low;
	const indices divides = (range > 1e-30f) & (range <= FLT_MAX); /* and its inverse is a number */
	d->inverse = choose_lanes(divides, ((float)HIGHEST + step) / range, all(0));
	d->offset = 0.5f * (float)HIGHEST - 0.5f * (g->low + g->high) * d->inverse;
	d->q = d->qq = d->qx = all(0);
}

static inline void add_to(struct division* d, lanes x) {
	const lanes q = nearest_whole(x * d->inverse + d->offset);
	d->q += q;
	d->qq = plus_square(d->qq, q);
	d->qx += q * x;
}

/* Keeps the division's line where it explains more. */
static inline void keep_better(struct lines* g, const struct division* d) {
	const lanes spread = d->qq - d->q * d->q / (float)GROUP, shared = d->qx - d->q * g->sum / (float)GROUP;
	const lanes scale = shared / spread, explained = shared * scale;
	const indices better = (spread > 0) & (explained > g->best);
	g->best = choose_lanes(better, explained, g->best);
	g->scale = choose_lanes(better, scale, g->scale);
	g->minimum = choose_lanes(better, (g->sum - scale * d->q) / (float)GROUP, g->minimum);
}

static inline void fit_lines(struct lines* g, const lanes t[GROUP]) {
	struct division even, finer;
	find_ends(t, &g->low, &g->high);
	g->scale = (g->high - g->low) / (float)HIGHEST;
	g->minimum = g->low;
	g->sum = all(0);
	g->best = all(-1);
	divide_groups(&even, g, 0);
	divide_groups(&finer, g, 0.9f);
	for (int i = 0; i < GROUP; i++) {
		g->sum += t[i];
		add_to(&even, t[i]);
		add_to(&finer, t[i]);
	}
	keep_better(g, &even);
	keep_better(g, &finer);
}

/* ---- groups with a minimum ------------------------------------------------------------------- */

enum {
	Q4_K_WORDS = sizeof(struct block_q4_k) / 4,
	Q4_1_WORDS = sizeof(struct block_q4_1) / 4,
	Q8_0_WORDS = GROUP / 4
};

/* Six bits each: the low ones of the first four groups, then, and the others' high ones beside them. */
static inline void put_scales(indices word[3], const indices s[SUPER_GROUPS], const indices m[SUPER_GROUPS]) {
	word[0] = word[1] = word[2] = (indices){0};
	for (int l = 0; l < 4; l++) {
		word[0] |= (s[l] | (s[l + 4] >> 4) << 6) << 8 * l;
		word[1] |= (m[l] | (m[l + 4] >> 4) << 6) << 8 * l;
		word[2] |= ((s[l + 4] & 15) | (m[l + 4] & 15) << 4) << 8 * l;
	}
}

/* Integers of two groups, or halves of one, to bytes: the second in the high nibbles. n a multiple of 4. */
static inline void put_nibbles_of(indices* word, int n, const lanes* low, const lanes* high,
                                  const lanes inverse[2], const lanes offset[2]) {
	for (int i = 0; i < n; i += 4) {
		word[i / 4] = (indices){0};
		for (int b = 0; b < 4; b++) {
			word[i / 4] |= cut(low[i + b] * inverse[0] + offset[0], HIGHEST) << 8 * b;
			word[i / 4] |= cut(high[i + b] * inverse[1] + offset[1], HIGHEST) << (8 * b + 4);
		}
	}
}

static inline void round_q4_1(indices word[Q4_1_WORDS], const struct stripe* stripe) {
	lanes t[GROUP];
	struct lines g;
	turn(stripe, 0, t);
	fit_lines(&g, t);
	const indices d = to_halves(g.scale), m = to_halves(g.minimum);
	const lanes inverse = inverse_of_lanes(from_halves(d)), offset = 0.5f - from_halves(m) * inverse;
	const lanes both[2] = {inverse, inverse}, offsets[2] = {offset, offset};
	word[0] = d | m << 16;
	put_nibbles_of(word + 1, GROUP / 2, t, t + GROUP / 2, both, offsets);
}

/* q4_k's minima are stored negated, and a group above zero has none. */
static inline void lower_minimum(struct lines* g) {
	const indices above = g->minimum > 0;
	g->scale = choose_lanes(above, g->high / (float)HIGHEST, g->scale);
	g->minimum = choose_lanes(above, all(0), g->minimum);
}

static inline void round_q4_k(indices word[Q4_K_WORDS], const struct stripe* stripe) {
	lanes t[SUPER_GROUPS][GROUP], most_scale = all(0), most_minimum = all(0);
	struct lines g[SUPER_GROUPS];
	for (int i = 0; i < SUPER_GROUPS; i++) {
		turn(stripe, i, t[i]);
		fit_lines(&g[i], t[i]);
		lower_minimum(&g[i]);
		most_scale = larger(g[i].scale, most_scale);
		most_minimum = larger(-g[i].minimum, most_minimum);
	}
	most_scale /= 63;
	most_minimum /= 63;
	const lanes scale_unit = inverse_of_lanes(most_scale), minimum_unit = inverse_of_lanes(most_minimum);
	const indices d = to_halves(most_scale), dmin = to_halves(most_minimum);
	indices s[SUPER_GROUPS], m[SUPER_GROUPS];
	lanes inverse[SUPER_GROUPS], offset[SUPER_GROUPS];
	for (int i = 0; i < SUPER_GROUPS; i++) {
		s[i] = cut(g[i].scale * scale_unit + 0.5f, 63);
		m[i] = cut(-g[i].minimum * minimum_unit + 0.5f, 63);
		inverse[i] = inverse_of_lanes(__builtin_convertvector(s[i], lanes) * from_halves(d));
		offset[i] = __builtin_convertvector(m[i], lanes) * from_halves(dmin) * inverse[i] + 0.5f;
	}
	word[0] = d | dmin << 16;
	put_scales(word + 1, s, m);
	for (int i = 0; i < SUPER_GROUPS; i += 2)
		put_nibbles_of(word + 4 + GROUP / 4 * (i / 2), GROUP, t[i], t[i + 1], inverse + i, offset + i);
}

/* ---- groups without a minimum ---------------------------------------------------------------- */

/* Weights are d q, the largest of them 127. Gives back d. */
static inline indices round_q8_0(indices word[Q8_0_WORDS], const struct stripe* stripe) {
	lanes t[GROUP], low, high;
	turn(stripe, 0, t);
	find_ends(t, &low, &high);
	const indices d = to_halves(larger(-low, high) / 127);
	const lanes inverse = inverse_of_lanes(from_halves(d));
	for (int i = 0; i < GROUP; i++) {
		const indices q = (cut(t[i] * inverse + 127.0f + 0.5f, 254) - 127) & 255;
		word[i / 4] = i % 4 ? word[i / 4] | q << 8 * (i % 4) : q;
	}
	return d;
}

/* ---- rows ----------------------------------------------------------------------------------- */

/* quantize_row for these types. x (cols), in whole blocks, of which the last one is rounded more
 * than once where lanes are left. */
static inline void round_blocks(enum dtype type, unsigned char* out, const float* x, int64_t cols) {
	const int block = type == DTYPE_Q4_K ? BLOCK_SUPER : BLOCK_SMALL;
	const bool with_minimum =
	    type == DTYPE_Q4_K || type == DTYPE_Q4_1; /* beside the scale in the first word */
	const int words = type == DTYPE_Q4_K ? Q4_K_WORDS : type == DTYPE_Q4_1 ? Q4_1_WORDS : Q8_0_WORDS;
	for (int64_t k = 0; k < cols; k += BLOCKS * block) {
		struct stripe stripe;
		indices word[Q4_K_WORDS], d = {0};
		const int64_t left = (cols - k) / block;
		for (int l = 0; l < BLOCKS; l++)
			stripe.block[l] = x + k + (l < left ? l : left - 1) * block;
		if (with_minimum)
			(type == DTYPE_Q4_K ? round_q4_k : round_q4_1)(word, &stripe);
		else
			d = round_q8_0(word, &stripe);
		for (int l = 0; l < BLOCKS && l < left; l++) {
			const uint16_t half = (uint16_t)d[l];
			if (!with_minimum) {
				memcpy(out, &half, sizeof half);
				out += sizeof half;
			}
			for (int w = 0; w < words; w++, out += 4)
				memcpy(out, (const int32_t*)&word[w] + l, 4);
		}
	}
}
