/* Rounding a row to the screened head's four bits, written once for all processors: included by screened.c
 * and, with wider registers, by avx2_quantize_row.c. */
#pragma once

#include <string.h>

#include "kernels/cpu/quantized_blocks.h"

typedef float eight_floats __attribute__((vector_size(32)));
typedef int32_t eight_ints __attribute__((vector_size(32)));
typedef uint8_t eight_bytes __attribute__((vector_size(8)));

/* v where the lanes of `mask` are set, else other */
#define EIGHT_WHERE(mask, v, other)                                                                          \
	((eight_floats)(((eight_ints)(v) & (mask)) | ((eight_ints)(other) & ~(mask))))

/* A block's weight of the largest size, with its sign; something where one is not a number. */
INLINED float extreme_of(const eight_floats v[4]) {
	eight_floats least = v[0], most = v[0];
	UNROLLED for (int p = 1; p < 4; p++) {
		least = EIGHT_WHERE(v[p] < least, v[p], least);
		most = EIGHT_WHERE(v[p] > most, v[p], most);
	}
	most = EIGHT_WHERE(most > -least, most, least); /* of each lane the largest in size */
	float extreme = 0, size = 0;
	UNROLLED for (int l = 0; l < 8; l++) {
		const float here = most[l] < 0 ? -most[l] : most[l];
		extreme = here > size ? most[l] : extreme;
		size = here > size ? here : size;
	}
	return extreme;
}

/* The nearest of sixteen levels for 32 weights; x becomes what is left. */
INLINED void round_to_coarse(struct block_q4_0* out, float* x) {
	eight_floats v[4];
	eight_ints q[4];
	UNROLLED for (int p = 0; p < 4; p++) memcpy(&v[p], x + p * 8, sizeof v[p]);
	const uint16_t half = half_from_float(extreme_of(v) / -8);
	const float d = half_to_float(half), inverse = d != 0 ? 1 / d : 0;
	UNROLLED for (int p = 0; p < 4; p++) {
		const eight_floats top = (eight_floats){0} + 15.5f;
		eight_floats level = v[p] * inverse + 8.5f;
		level = EIGHT_WHERE(level > 0, level, (eight_floats){0}); /* what is not a number, too */
		level = EIGHT_WHERE(level < top, level, top);
		q[p] = __builtin_convertvector(level, eight_ints);
		v[p] -= (__builtin_convertvector(q[p], eight_floats) - 8) * d;
	}
	UNROLLED for (int p = 0; p < 4; p++) memcpy(x + p * 8, &v[p], sizeof v[p]);
	memcpy(out->d, &half, 2);
	UNROLLED for (int p = 0; p < 2; p++) {
		const eight_bytes both = __builtin_convertvector(q[p] | q[p + 2] << 4, eight_bytes);
		memcpy(out->q + p * 8, &both, 8);
	}
}

/* Σ x² in floats; n a multiple of 8 */
INLINED float squares_of(const float* x, int64_t n) {
	eight_floats sum = {0}, v;
	float all = 0;
	for (int64_t i = 0; i < n; i += 8) {
		memcpy(&v, x + i, sizeof v);
		sum += v * v;
	}
	UNROLLED for (int l = 0; l < 8; l++) all += sum[l];
	return all;
}

/* x (cols, in whole blocks of 32) as blocks; squares: of x and of what is left, in floats. x is lost. */
INLINED void coarse_row(struct block_q4_0* out, float* x, int64_t cols, float squares[2]) {
	squares[0] = squares_of(x, cols);
	for (int64_t k = 0; k < cols; k += 32)
		round_to_coarse(out++, x + k);
	squares[1] = squares_of(x, cols);
}
