/* Rounding weights by input channel (columns.h), COLUMN_LANES channels side by side, one a lane.
 *
 * Of each channel's outputs that share a scale the largest |w| is found; the three scales from the least one
 * that reaches it downwards are tried, and the one with the least sum of squared errors is kept: a scale that
 * cuts off the largest weight often rounds the others better. It is compiled for any processor, for AVX2 and
 * for AVX-512, to the same bytes. */
#ifndef SWIFTLET_KERNELS_COLUMN_ROUND_H
#define SWIFTLET_KERNELS_COLUMN_ROUND_H

#include "kernels/columns.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { COLUMN_LANES = 16 };
#elif defined(__AVX2__)
enum { COLUMN_LANES = 8 };
#else
enum { COLUMN_LANES = 4 };
#endif
enum { SCALES_TRIED = 3, SCALED = COLUMN_OUTPUTS / COLUMN_SCALES, COLUMN_WORDS = COLUMN_LINE / 4 };

typedef float column_floats __attribute__((vector_size(4 * COLUMN_LANES)));
typedef int32_t column_ints __attribute__((vector_size(4 * COLUMN_LANES)));

static inline column_floats all_lanes(float x) { return x - (column_floats){0}; }
static inline column_floats select_lanes(column_ints first, column_floats v, column_floats w) {
	return (column_floats)(((column_ints)v & first) | ((column_ints)w & ~first));
}
static inline column_floats load_lanes(const float* x) {
	column_floats v;
	memcpy(&v, x, sizeof v);
	return v;
}
static inline column_floats load_some(const float* x, int n) {
	column_floats v = all_lanes(0);
	memcpy(&v, x, (size_t)n * sizeof *x);
	return v;
}

/* The larger number; v where x is not a number. */
static inline column_floats larger_of(column_floats x, column_floats v) {
#if defined(__AVX512F__)
	return (column_floats)_mm512_max_ps((__m512)x, (__m512)v);
#elif defined(__AVX2__)
	return (column_floats)_mm256_max_ps((__m256)x, (__m256)v);
#else
	return select_lanes(x > v, x, v);
#endif
}

/* The least codes of scales that are not under x: 0…255. */
static inline column_ints scale_codes(column_floats x) {
	const column_ints least = (column_ints){0} + (COLUMN_LEAST_EXPONENT << 3);
	const column_ints code = (((column_ints)x + ((1 << 20) - 1)) >> 20) - least;
	const column_ints low = code<0, high = code> 255;
	return (code & ~low & ~high) | (255 & high);
}

static inline column_floats scales_of(column_ints code) {
	return (column_floats)((code << 20) + (COLUMN_LEAST_EXPONENT << 23));
}

/* v between 0 and 15; what is not a number becomes 0. */
static inline column_floats clamp_code(column_floats v) {
#if defined(__AVX512F__)
	return (column_floats)_mm512_min_ps(_mm512_max_ps((__m512)v, _mm512_setzero_ps()), _mm512_set1_ps(15));
#elif defined(__AVX2__)
	return (column_floats)_mm256_min_ps(_mm256_max_ps((__m256)v, _mm256_setzero_ps()), _mm256_set1_ps(15));
#else
	v = select_lanes(v > 0, v, all_lanes(0));
	return select_lanes(v < 15, v, all_lanes(15));
#endif
}

/* The code of w in steps of a scale, where v = w / scale + 8: the middle between two codes belongs to the
 * upper one; 0…15. */
static inline column_ints code_at(column_floats v) {
	return __builtin_convertvector(clamp_code(v), column_ints);
}

/* The codes of the least scales that reach the largest of n weights, or of a lower one that has the least sum
 * of squared errors. The scales are tried side by side, since each sum waits for its last addition. */
static inline column_ints best_scales(const column_floats* w, int n) {
	column_floats largest = all_lanes(0), sum[SCALES_TRIED], inverse[SCALES_TRIED];
	column_ints code[SCALES_TRIED];
	for (int o = 0; o < n; o++)
		largest = larger_of((column_floats)((column_ints)w[o] & 0x7fffffff), largest);
	const column_ints first = scale_codes(largest * (1 / 7.5f));
	for (int i = 0; i < SCALES_TRIED; i++) {
		const column_ints lower = first - i, none = lower < 0;
		code[i] = lower & ~none;
		inverse[i] = 1.0f / scales_of(code[i]);
		sum[i] = all_lanes(0);
	}
	for (int o = 0; o < n; o++)
		for (int i = 0; i < SCALES_TRIED; i++) {
			const column_floats v = w[o] * inverse[i] + 8.0f;
			const column_floats steps = v - 0.5f - __builtin_convertvector(code_at(v), column_floats);
			sum[i] += steps * steps;
		}
	column_ints best = code[0];
	column_floats least = sum[0] * scales_of(code[0]) * scales_of(code[0]);
	for (int i = 1; i < SCALES_TRIED; i++) {
		const column_floats scale = scales_of(code[i]), error = sum[i] * scale * scale;
		const column_ints better = error < least;
		best = (code[i] & better) | (best & ~better);
		least = select_lanes(better, error, least);
	}
	return best;
}

/* Words of 4 bytes by word and channel become words by channel and word: each stage moves the highest bit of
 * an element's place to the lowest. */
static inline void turn_words(column_ints word[COLUMN_WORDS]) {
	column_ints low, high, next[COLUMN_WORDS];
	for (int i = 0; i < COLUMN_LANES; i++) {
		low[i] = i / 2 + i % 2 * COLUMN_LANES;
		high[i] = low[i] + COLUMN_LANES / 2;
	}
	for (int stage = 1; stage < COLUMN_WORDS; stage *= 2) {
		for (int i = 0; i < COLUMN_WORDS / 2; i++) {
			next[2 * i] = __builtin_shuffle(word[i], word[i + COLUMN_WORDS / 2], low);
			next[2 * i + 1] = __builtin_shuffle(word[i], word[i + COLUMN_WORDS / 2], high);
		}
		memcpy(word, next, sizeof next);
	}
}

/* The codes of n of COLUMN_LANES channels go to their lines. */
static inline void write_codes(uint8_t* codes, const uint16_t* order, int n, const column_floats* w,
                               const column_floats inverse[COLUMN_SCALES]) {
	column_ints word[COLUMN_WORDS];
	for (int i = 0; i < COLUMN_WORDS; i++) {
		const int part = i % COLUMN_SCALES, first = SCALED * part + 4 * (i / COLUMN_SCALES);
		word[i] = (column_ints){0};
		for (int j = 0; j < 4; j++) {
			const column_ints low = code_at(w[first + j] * inverse[part] + 8.0f),
			                  high = code_at(w[first + 16 + j] * inverse[part] + 8.0f);
			word[i] |= (low | high << 4) << (8 * j);
		}
	}
	turn_words(word);
	for (int lane = 0; lane < n; lane++)
		memcpy(codes + (size_t)order[lane] * COLUMN_LINE, (const uint8_t*)word + lane * COLUMN_LINE,
		       COLUMN_LINE);
}

/* n of COLUMN_LANES channels whose weights are w (COLUMN_OUTPUTS, COLUMN_LANES), zeros behind the last output
 */
static inline void round_lanes(uint8_t* codes, uint8_t* scale, float* peak, float* norm2,
                               const uint16_t* order, const column_floats* w, int n) {
	column_floats squares = load_some(norm2, n), most = load_some(peak, n), inverse[COLUMN_SCALES];
	column_ints four = {0};
	for (int part = 0; part < COLUMN_SCALES; part++) {
		const column_ints code = best_scales(w + SCALED * part, SCALED);
		inverse[part] = 1.0f / scales_of(code);
		most = larger_of(scales_of(code), most);
		four |= code << (8 * part);
	}
	column_floats added = all_lanes(0);
	for (int o = 0; o < COLUMN_OUTPUTS; o++)
		added += w[o] * w[o];
	squares += added;
	write_codes(codes, order, n, w, inverse);
	memcpy(scale, &four, (size_t)n * sizeof(int32_t));
	memcpy(peak, &most, (size_t)n * sizeof(float));
	memcpy(norm2, &squares, (size_t)n * sizeof(float));
}

static inline void round_columns(uint8_t* codes, uint8_t* scale, float* peak, float* norm2,
                                 const uint16_t* order, const float* x, int64_t stride, int outputs, int n) {
	column_floats w[COLUMN_OUTPUTS];
	for (int o = outputs; o < COLUMN_OUTPUTS; o++)
		w[o] = all_lanes(0);
	for (int j = 0; j < n; j += COLUMN_LANES) {
		const int some = n - j < COLUMN_LANES ? n - j : COLUMN_LANES;
		for (int o = 0; o < outputs; o++) {
			const float* row = x + o * stride + j;
			w[o] = some == COLUMN_LANES ? load_lanes(row) : load_some(row, some);
		}
		round_lanes(codes, scale + j * COLUMN_SCALES, peak + j, norm2 + j, order + j, w, some);
	}
}

#endif
