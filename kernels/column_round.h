/* Rounding weights by input channel (columns.h), FLOAT_LANES channels side by side, one a lane.
 *
 * The scale comes from the largest |w| of each channel's outputs that share it. Trying lower scales too,
 * which cut off the largest weight and round the others better, did not raise acceptance and took half of the
 * time. It is compiled for any processor, for AVX2 and for AVX-512, to the same bytes. */
#pragma once

#include <stdbool.h>

#include "kernels/columns.h"
#include "kernels/lanes.h"

enum { SCALED = COLUMN_OUTPUTS / COLUMN_SCALES, COLUMN_WORDS = COLUMN_LINE / 4 };

static inline lanes load_lanes(const float* x) {
	lanes v;
	memcpy(&v, x, sizeof v);
	return v;
}
static inline lanes load_some(const float* x, int n) {
	lanes v = all(0);
	memcpy(&v, x, (size_t)n * sizeof *x);
	return v;
}

static inline bool any_lane(indices v) {
	int32_t any = 0;
	for (int i = 0; i < FLOAT_LANES; i++)
		any |= v[i];
	return any != 0;
}

/* The codes of the scales nearest to x: 0…255. */
static inline indices scale_codes(lanes x) {
	const indices least = (indices){0} + (COLUMN_LEAST_EXPONENT << 3);
	const indices code = (((indices)x + (1 << 19)) >> 20) - least;
	const indices low = code<0, high = code> 255;
	return (code & ~low & ~high) | (255 & high);
}

static inline lanes scales_of(indices code) { return (lanes)((code << 20) + (COLUMN_LEAST_EXPONENT << 23)); }

/* The code of w in steps of a scale, where v = w / scale + 8: the middle between two codes belongs to the
 * upper one. */
static inline indices code_at(lanes v, bool cuts) {
	return cuts ? cut(v, 15) : __builtin_convertvector(v, indices);
}

/* A line's largest |w| and sum of squares, by the outputs that share a scale. The four go side by side, since
 * each takes several cycles. */
struct line_sizes {
	lanes largest[COLUMN_SCALES], squares[COLUMN_SCALES];
};

static inline struct line_sizes line_sizes(const lanes* w) {
	struct line_sizes sizes;
	for (int part = 0; part < COLUMN_SCALES; part++)
		sizes.largest[part] = sizes.squares[part] = all(0);
	for (int o = 0; o < SCALED; o++)
		for (int part = 0; part < COLUMN_SCALES; part++) {
			const lanes v = w[SCALED * part + o];
			sizes.largest[part] = larger((lanes)((indices)v & 0x7fffffff), sizes.largest[part]);
			sizes.squares[part] += v * v;
		}
	return sizes;
}

/* Words of 4 bytes by word and channel become words by channel and word: each stage moves the highest bit of
 * an element's place to the lowest. */
static inline void turn_words(indices word[COLUMN_WORDS]) {
	indices low, high, next[COLUMN_WORDS];
	for (int i = 0; i < FLOAT_LANES; i++) {
		low[i] = i / 2 + i % 2 * FLOAT_LANES;
		high[i] = low[i] + FLOAT_LANES / 2;
	}
	for (int stage = 1; stage < COLUMN_WORDS; stage *= 2) {
		for (int i = 0; i < COLUMN_WORDS / 2; i++) {
			next[2 * i] = SHUFFLE(word[i], word[i + COLUMN_WORDS / 2], low);
			next[2 * i + 1] = SHUFFLE(word[i], word[i + COLUMN_WORDS / 2], high);
		}
		memcpy(word, next, sizeof next);
	}
}

/* The codes of n of FLOAT_LANES channels go to their lines. `cuts`: some may lie outside 0…15. */
static inline void write_codes(uint8_t* codes, size_t stride, int n, const lanes* w,
                               const lanes inverse[COLUMN_SCALES], bool cuts) {
	indices word[COLUMN_WORDS];
	for (int i = 0; i < COLUMN_WORDS; i++) {
		const int part = i % COLUMN_SCALES, first = SCALED * part + 4 * (i / COLUMN_SCALES);
		word[i] = (indices){0};
		for (int j = 0; j < 4; j++) {
			const indices low = code_at(w[first + j] * inverse[part] + 8.0f, cuts),
			              high = code_at(w[first + 16 + j] * inverse[part] + 8.0f, cuts);
			word[i] |= (low | high << 4) << (8 * j);
		}
	}
	turn_words(word);
	for (int lane = 0; lane < n; lane++)
		memcpy(codes + (size_t)lane * stride, (const uint8_t*)word + lane * COLUMN_LINE, COLUMN_LINE);
}

/* n of FLOAT_LANES channels whose weights are w (COLUMN_OUTPUTS, FLOAT_LANES), zeros behind the last output
 */
static inline void round_lanes(uint8_t* codes, uint8_t* scale, size_t run, float* peak, float* norm2,
                               const lanes* w, int n) {
	const struct line_sizes sizes = line_sizes(w);
	lanes squares = load_some(norm2, n), most = load_some(peak, n), inverse[COLUMN_SCALES];
	indices four = {0}, beyond = {0};
	for (int part = 0; part < COLUMN_SCALES; part++) {
		/* the code of the scale in which the largest weight is 7.5 steps, or nearly */
		const indices code = scale_codes(sizes.largest[part] * (1 / 7.5f));
		inverse[part] = 1.0f / scales_of(code);
		most = larger(scales_of(code), most);
		four |= code << (8 * part);
		squares += sizes.squares[part];
		/* A scale is at most a sixteenth lower than wanted, so |w| is at most 7.97 steps, unless it is the
		 * largest scale or w is no number. */
		beyond |= (code == 255) | (sizes.squares[part] != sizes.squares[part]);
	}
	if (any_lane(beyond))
		write_codes(codes, run, n, w, inverse, true);
	else
		write_codes(codes, run, n, w, inverse, false);
	for (int lane = 0; lane < n; lane++)
		memcpy(scale + (size_t)lane * run, (const uint8_t*)&four + lane * COLUMN_SCALES, COLUMN_SCALES);
	memcpy(peak, &most, (size_t)n * sizeof(float));
	memcpy(norm2, &squares, (size_t)n * sizeof(float));
}

static inline void round_columns(uint8_t* codes, uint8_t* scale, size_t run, float* peak, float* norm2,
                                 const float* x, int64_t x_stride, int outputs, int n) {
	lanes w[COLUMN_OUTPUTS];
	for (int o = outputs; o < COLUMN_OUTPUTS; o++)
		w[o] = all(0);
	for (int j = 0; j < n; j += FLOAT_LANES) {
		const int some = n - j < FLOAT_LANES ? n - j : FLOAT_LANES;
		for (int o = 0; o < outputs; o++) {
			const float* row = x + o * x_stride + j;
			w[o] = some == FLOAT_LANES ? load_lanes(row) : load_some(row, some);
		}
		round_lanes(codes + (size_t)j * run, scale + (size_t)j * run, run, peak + j, norm2 + j, w, some);
	}
}
