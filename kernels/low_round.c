/* Rounding weights to few bits: the scale and minimum of a group of weights by least squares.
 *
 * A group x is to become s·q + m with q in 0…most (or s·(q - zero), without a minimum). Some divisions of its
 * range are tried; each gives integers q, and for given q the best s and m are a line through the points
 * (q, x), which explains (Σqx - ΣqΣx/n)² / (Σq² - (Σq)²/n) of Σ(x - mean)². The division whose line explains
 * most is kept, and the weights are rounded once more to what s and m became when they were stored.
 *
 * Formats: kernels/dtype_blocks.h. Sums run in LANES partial sums in a fixed order, so that the bytes are the
 * same everywhere. */
#include "kernels/low.h"

#include <math.h>

#include "kernels/low_round_blocks.h"

enum { LANES = 4, MOST_GROUP = 32 };
typedef float quad __attribute__((vector_size(4 * LANES)));

/* ---- a group -------------------------------------------------------------------------------- */

struct sums {
	float q, qq, qx;
};

static float inverse_of(float x) { return x != 0.0f ? 1.0f / x : 0.0f; }

/* Stores a half, a finite one, and gives back what it became. */
static float put_half(uint8_t out[2], float x) {
	const float most = 65504;
	const uint16_t half = half_from_float(x > most ? most : x < -most ? -most : x == x ? x : 0);
	out[0] = (uint8_t)half;
	out[1] = (uint8_t)(half >> 8);
	return half_to_float(half);
}

static float add_lanes(quad s) { return (s[0] + s[2]) + (s[1] + s[3]); }

/* v rounded to 0…most; what is not a number becomes 0. */
static inline float clamp_round(float v, float most) {
	v += 0.5f;
	v = v > 0 ? v : 0;
	v = v < most + 0.5f ? v : most + 0.5f;
	return (float)(int)v;
}

static float sum_of(const float* x, int n) {
	quad sum = {0}, v;
	for (int i = 0; i < n; i += LANES) {
		memcpy(&v, x + i, sizeof v);
		sum += v;
	}
	return add_lanes(sum);
}

/* q = x·inverse + offset, rounded to 0…most, less zero; and its sums. n a multiple of LANES. */
static struct sums divide(const float* x, int n, float inverse, float offset, float most, float zero) {
	float q[MOST_GROUP];
	quad sq = {0}, sqq = {0}, sqx = {0}, vx, vq;
	for (int i = 0; i < n; i++)
		q[i] = clamp_round(x[i] * inverse + offset, most) - zero;
	for (int i = 0; i < n; i += LANES) {
		memcpy(&vx, x + i, sizeof vx);
		memcpy(&vq, q + i, sizeof vq);
		sq += vq;
		sqq += vq * vq;
		sqx += vq * vx;
	}
	return (struct sums){add_lanes(sq), add_lanes(sqq), add_lanes(sqx)};
}

/* The integers themselves. */
static void take(const float* x, int n, float inverse, float offset, float most, uint8_t* q) {
	int rounded[MOST_GROUP];
	for (int i = 0; i < n; i++)
		rounded[i] = (int)clamp_round(x[i] * inverse + offset, most);
	for (int i = 0; i < n; i++)
		q[i] = (uint8_t)rounded[i];
}

static void range(const float* x, int n, float* low, float* high) {
	float least[LANES], most[LANES];
	memcpy(least, x, sizeof least);
	memcpy(most, x, sizeof most);
	for (int i = LANES; i < n; i += LANES)
		for (int l = 0; l < LANES; l++) {
			least[l] = x[i + l] < least[l] ? x[i + l] : least[l];
			most[l] = x[i + l] > most[l] ? x[i + l] : most[l];
		}
	*low = least[0];
	*high = most[0];
	for (int l = 1; l < LANES; l++) {
		*low = least[l] < *low ? least[l] : *low;
		*high = most[l] > *high ? most[l] : *high;
	}
}

/* s·q + m with q in 0…most. */
static void fit_line(const float* x, int n, int most, float* scale, float* minimum) {
	static const float step[] = {0.0f, 0.6f, 1.3f};
	float low, high, best = -1;
	range(x, n, &low, &high);
	*minimum = low;
	*scale = (high - low) / (float)most;
	const float unit = inverse_of(high - low), count = (float)n, sum = sum_of(x, n);
	for (size_t i = 0; unit > 0 && i < sizeof step / sizeof *step; i++) {
		/* a division finer than the range clips at both ends alike */
		const float inverse = ((float)most + step[i]) * unit;
		const float middle = 0.5f * (low + high);
		const struct sums s = divide(x, n, inverse, 0.5f * (float)most - middle * inverse, (float)most, 0);
		const float spread = s.qq - s.q * s.q / count, shared = s.qx - s.q * sum / count;
		if (spread > 0 && shared * shared / spread > best) {
			best = shared * shared / spread;
			*scale = shared / spread;
			*minimum = (sum - *scale * s.q) / count;
		}
	}
}

/* s·(q - zero) with q in 0…2·zero - 1; s may be negative, since the range reaches farther down. */
static float fit_signed(const float* x, int n, int zero) {
	static const float step[] = {0.0f, -0.5f, 0.5f};
	float low, high, best = -1;
	range(x, n, &low, &high);
	const float extreme = -low > high ? low : high;
	float scale = extreme / (float)-zero;
	const float unit = inverse_of(extreme), z = (float)zero;
	for (int sign = 0; unit != 0 && sign < 2; sign++)
		for (size_t i = 0; i < sizeof step / sizeof *step; i++) {
			const float inverse = (sign ? z + step[i] : -z - step[i]) * unit;
			const struct sums s = divide(x, n, inverse, z, 2 * z - 1, z);
			if (s.qq > 0 && s.qx * s.qx / s.qq > best) {
				best = s.qx * s.qx / s.qq;
				scale = s.qx / s.qq;
			}
		}
	return scale;
}

/* ---- blocks --------------------------------------------------------------------------------- */

static void put_nibbles(uint8_t* out, const uint8_t q[32]) {
	for (int i = 0; i < 16; i++)
		out[i] = (uint8_t)(q[i] | q[i + 16] << 4);
}

static void round_q4_1(struct block_q4_1* b, const float* x) {
	float scale, minimum;
	uint8_t q[BLOCK_SMALL];
	fit_line(x, BLOCK_SMALL, 15, &scale, &minimum);
	const float d = put_half(b->d, scale), m = put_half(b->m, minimum), inverse = inverse_of(d);
	take(x, BLOCK_SMALL, inverse, -m * inverse, 15, q);
	put_nibbles(b->q, q);
}

static int nearest(float x, int least, int most) {
	return least + (int)clamp_round(x - (float)least, (float)(most - least));
}

/* Sixteen groups of 16 with six-bit scales that have a sign, q in -4…3. */
static void round_q3_k(struct block_q3_k* b, const float* x) {
	float scale[16], most = 0;
	uint8_t q[BLOCK_SUPER];
	int s[16];
	for (int g = 0; g < 16; g++) {
		scale[g] = fit_signed(x + 16 * g, 16, 4);
		most = fabsf(scale[g]) > fabsf(most) ? scale[g] : most;
	}
	const float unit = inverse_of(most / -32), d = put_half(b->d, most / -32);
	for (int g = 0; g < 16; g++) {
		s[g] = nearest(scale[g] * unit, -32, 31);
		take(x + 16 * g, 16, inverse_of(d * (float)s[g]), 4, 7, q + 16 * g);
	}
	memset(b->high, 0, sizeof b->high);
	memset(b->q, 0, sizeof b->q);
	memset(b->scales, 0, sizeof b->scales);
	for (int j = 0; j < BLOCK_SUPER; j++) {
		b->q[j / 128 * 32 + j % 32] |= (uint8_t)((q[j] & 3) << 2 * (j / 32 % 4));
		b->high[j % 32] |= (uint8_t)((q[j] >> 2) << j / 32);
	}
	for (int g = 0; g < 16; g++) {
		const int v = s[g] + 32;
		b->scales[g % 8] |= (uint8_t)((v & 15) << (g < 8 ? 0 : 4));
		b->scales[8 + g % 4] |= (uint8_t)((v >> 4) << 2 * (g / 4));
	}
}

void low_round(enum dtype type, void* out, const float* x, int64_t cols) {
	struct block_q4_1* four = out;
	struct block_q3_k* three = out;
	if (type == DTYPE_Q4_1)
		for (int64_t i = 0; i < cols; i += BLOCK_SMALL)
			round_q4_1(four++, x + i);
	else if (type == DTYPE_Q3_K)
		for (int64_t i = 0; i < cols; i += BLOCK_SUPER)
			round_q3_k(three++, x + i);
	else
		round_blocks(type, out, x, cols);
}

void low_weave(enum dtype type, void* out, const float* x, int64_t stride) {
	round_woven(type, out, x, stride);
}
