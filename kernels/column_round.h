/* Rounding weights by input channel (columns.h), COLUMN_LANES channels side by side, one a lane.
 *
 * Of each channel's outputs that share a scale the largest |w| is found; the three scales from the least one
 * that reaches it downwards are tried, and the one with the least sum of squared errors is kept: a scale that
 * cuts off the largest weight often rounds the others better. It is compiled for any processor, for AVX2 and
 * for AVX-512, to the same bytes. */
#ifndef SWIFTLET_KERNELS_COLUMN_ROUND_H
#define SWIFTLET_KERNELS_COLUMN_ROUND_H

#include "kernels/columns.h"

#if defined(__AVX512F__)
enum { COLUMN_LANES = 16 };
#elif defined(__AVX2__)
enum { COLUMN_LANES = 8 };
#else
enum { COLUMN_LANES = 4 };
#endif
enum { SCALES_TRIED = 3, SCALED = COLUMN_OUTPUTS / COLUMN_SCALES };

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

/* The code of w in steps of a scale: the middle between two codes belongs to the upper one; 0…15. */
static inline column_ints codes_of(column_floats w, column_floats inverse) {
	column_floats v = w * inverse + 8.0f;
	v = select_lanes(v > 0, v, all_lanes(0)); /* what is not a number becomes 0, too */
	v = select_lanes(v < 15.5f, v, all_lanes(15));
	return __builtin_convertvector(v, column_ints);
}

/* The sum of squared errors of the channels' n weights in this scale */
static inline column_floats scale_error(const column_floats* w, int n, column_floats scale) {
	const column_floats inverse = 1.0f / scale;
	column_floats sum = all_lanes(0);
	for (int o = 0; o < n; o++) {
		const column_floats code = __builtin_convertvector(codes_of(w[o], inverse), column_floats);
		const column_floats error = w[o] - (code - 7.5f) * scale;
		sum += error * error;
	}
	return sum;
}

/* Of n weights of each channel */
static inline column_ints best_scales(const column_floats* w, int n) {
	column_floats largest = all_lanes(0);
	for (int o = 0; o < n; o++) {
		const column_floats size = (column_floats)((column_ints)w[o] & 0x7fffffff);
		largest = select_lanes(size > largest, size, largest);
	}
	const column_ints first = scale_codes(largest * (1 / 7.5f));
	column_ints best = first;
	column_floats least = scale_error(w, n, scales_of(first));
	for (int i = 1; i < SCALES_TRIED; i++) {
		const column_ints lower = first - i, none = lower < 0;
		const column_ints code = lower & ~none;
		const column_floats error = scale_error(w, n, scales_of(code));
		const column_ints better = error < least;
		best = (code & better) | (best & ~better);
		least = select_lanes(better, error, least);
	}
	return best;
}

/* The codes of COLUMN_LANES channels go to their lines, four bytes at a time. */
static inline void write_codes(uint8_t* codes, const uint16_t* order, int n, const column_floats* w,
                               const column_floats inverse[COLUMN_SCALES]) {
	for (int word = 0; word < COLUMN_LINE / 4; word++) {
		const int part = word % COLUMN_SCALES, first = SCALED * part + 4 * (word / COLUMN_SCALES);
		column_ints bytes = {0};
		for (int i = 0; i < 4; i++)
			bytes |= (codes_of(w[first + i], inverse[part]) | codes_of(w[first + 16 + i], inverse[part]) << 4)
			         << (8 * i);
		for (int lane = 0; lane < n; lane++) {
			const int32_t four = bytes[lane];
			memcpy(codes + (size_t)order[lane] * COLUMN_LINE + word * 4, &four, 4);
		}
	}
}

/* n of COLUMN_LANES channels whose weights are w (COLUMN_OUTPUTS, COLUMN_LANES), zeros behind the last output
 */
static inline void round_lanes(uint8_t* codes, uint8_t* scale, float* peak, float* norm2,
                               const uint16_t* order, const column_floats* w, int n) {
	column_floats squares = all_lanes(0), inverse[COLUMN_SCALES];
	for (int o = 0; o < COLUMN_OUTPUTS; o++)
		squares += w[o] * w[o];
	for (int part = 0; part < COLUMN_SCALES; part++) {
		const column_ints code = best_scales(w + SCALED * part, SCALED);
		const column_floats steps = scales_of(code);
		inverse[part] = 1.0f / steps;
		for (int lane = 0; lane < n; lane++) {
			scale[lane * COLUMN_SCALES + part] = (uint8_t)code[lane];
			peak[lane] = steps[lane] > peak[lane] ? steps[lane] : peak[lane];
		}
	}
	write_codes(codes, order, n, w, inverse);
	for (int lane = 0; lane < n; lane++)
		norm2[lane] += squares[lane];
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
			if (some == COLUMN_LANES)
				w[o] = load_lanes(row);
			else
				for (int lane = 0; lane < COLUMN_LANES; lane++)
					w[o][lane] = lane < some ? row[lane] : 0;
		}
		round_lanes(codes, scale + j * COLUMN_SCALES, peak + j, norm2 + j, order + j, w, some);
	}
}

#endif
