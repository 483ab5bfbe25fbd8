/* Products of signed bytes, four columns an instruction: for neon_quantized.h, with dotprod. */
#include "kernels/cpu/neon_ints.h"

/* sum += 16 columns of four weight rows, word by word, times an activation row's */
INLINED ints dot_16(ints sum, const ints w[4], const int8_t* q) {
	const int8x16_t x = vld1q_s8(q);
	sum = vdotq_laneq_s32(sum, signed_bytes_of(w[0]), x, 0);
	sum = vdotq_laneq_s32(sum, signed_bytes_of(w[1]), x, 1);
	sum = vdotq_laneq_s32(sum, signed_bytes_of(w[2]), x, 2);
	return vdotq_laneq_s32(sum, signed_bytes_of(w[3]), x, 3);
}

/* sum (n) += `columns` columns of four weight rows, word by word, times those of the activation rows at q */
INLINED void tile_dot(int n, ints sum[], int columns, enum dtype type, const uint8_t* w, const int8_t* q,
                      size_t x_stride) {
	(void)type;
	UNROLLED for (int k = 0; k < columns; k += 16) {
		ints four[4];
		UNROLLED for (int c = 0; c < 4; c++) four[c] = ints_load(w + (size_t)(k / 4 + c) * LANES * 4);
		UNROLLED for (int i = 0; i < n; i++) sum[i] = dot_16(sum[i], four, q + (size_t)i * x_stride + k);
	}
}

enum { INTERLEAVED_BATCH = 8 };
#define UP_TO_INTERLEAVED_BATCH UP_TO_8

/* dot (n) += 32 columns of four weight rows times those of the activation rows at q */
INLINED void interleaved_small_dot(int n, ints dot[], const uint8_t* w, const int8_t* q, size_t x_stride) {
	ints four[4], others[4];
	UNROLLED for (int c = 0; c < 4; c++) {
		const uint8x16_t both = vld1q_u8(w + (size_t)c * INTERLEAVED_ROWS * 4);
		four[c] = ints_from_bytes(vandq_u8(both, vdupq_n_u8(15)));
		others[c] = ints_from_bytes(vshrq_n_u8(both, 4));
	}
	UNROLLED for (int i = 0; i < n; i++) {
		const int8_t* at = q + (size_t)i * x_stride;
		dot[i] = dot_16(dot_16(dot[i], four, at), others, at + 16);
	}
}

/* 16·vectors columns of four weight rows times those of the activation row at q */
INLINED ints row_dot(int vectors, const struct taken* w, const int8_t* q) {
	ints sums[SIDE];
	UNROLLED for (int r = 0; r < SIDE; r++) sums[r] = ints_set(0);
	UNROLLED for (int v = 0; v < vectors; v++) {
		const int8x16_t x = vld1q_s8(q + v * 16);
		UNROLLED for (int r = 0; r < SIDE; r++) sums[r] = vdotq_s32(sums[r], w->q[r][v], x);
	}
	return four_sums(sums);
}
