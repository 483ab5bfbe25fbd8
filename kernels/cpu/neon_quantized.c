/* Products with quantized weights, NEON alone.
 *
 * Products of bytes are 16 bits wide: as many as fit are added up there, then widened to 32 by pairs. */
#include "kernels/cpu/matmul.h"

#if defined(__aarch64__)
#include "kernels/cpu/neon_ints.h"

/* How many products of a weight with an activation, of at most 127, fit 16 bits */
INLINED int products_in_16_bits(enum dtype type) {
	switch (type) {
	case DTYPE_Q8_0:
	case DTYPE_IQ4_NL:
	case DTYPE_IQ4_XS:
		return 2;
	case DTYPE_Q6_K:
		return 4;
	default:
		return 8; /* of five bits or less */
	}
}

/* Four weight rows' sums of 16-bit products: `pair` has rows 0 and 1, `other` rows 2 and 3 */
struct wide_sums {
	int32x4_t pair, other;
};

/* += the products of `words` words of four weight rows with those of an activation row, in 16 bits */
INLINED void words_dot(struct wide_sums* sum, int words, const ints w[], const int8_t* q) {
	int16x8_t pair, other;
	UNROLLED for (int c = 0; c < words; c++) {
		const int8x16_t four = signed_bytes_of(w[c]), x = signed_bytes_of(to_all(q + c * 4));
		const int8x8_t low = vget_low_s8(four), part = vget_low_s8(x);
		pair = c ? vmlal_s8(pair, low, part) : vmull_s8(low, part);
		other = c ? vmlal_high_s8(other, four, x) : vmull_high_s8(four, x);
	}
	sum->pair = vpadalq_s16(sum->pair, pair);
	sum->other = vpadalq_s16(sum->other, other);
}

/* sum (n) += `columns` columns of four weight rows, word by word, times those of the activation rows at q */
INLINED void tile_dot(int n, ints sum[], int columns, enum dtype type, const uint8_t* w, const int8_t* q,
                      size_t x_stride) {
	const int most = products_in_16_bits(type), words = most < columns / 4 ? most : columns / 4;
	struct wide_sums sums[GROUP_ROWS];
	UNROLLED for (int i = 0; i < n; i++) sums[i] = (struct wide_sums){ints_set(0), ints_set(0)};
	UNROLLED for (int at = 0; at < columns / 4; at += words) {
		ints four[8];
		UNROLLED for (int c = 0; c < words; c++) four[c] = ints_load(w + (size_t)(at + c) * LANES * 4);
		UNROLLED for (int i = 0; i < n; i++)
		    words_dot(&sums[i], words, four, q + (size_t)i * x_stride + at * 4);
	}
	UNROLLED for (int i = 0; i < n; i++) sum[i] = vaddq_s32(sum[i], vpaddq_s32(sums[i].pair, sums[i].other));
}

enum { INTERLEAVED_BATCH = 4 };
#define UP_TO_INTERLEAVED_BATCH UP_TO_4

/* dot (n) += 32 columns of four weight rows times those of the activation rows at q */
INLINED void interleaved_small_dot(int n, ints dot[], const uint8_t* w, const int8_t* q, size_t x_stride) {
	ints four[8];
	UNROLLED for (int c = 0; c < 4; c++) {
		const uint8x16_t both = vld1q_u8(w + (size_t)c * INTERLEAVED_ROWS * 4);
		four[c] = ints_from_bytes(vandq_u8(both, vdupq_n_u8(15)));
		four[4 + c] = ints_from_bytes(vshrq_n_u8(both, 4));
	}
	UNROLLED for (int i = 0; i < n; i++) {
		struct wide_sums s = {ints_set(0), ints_set(0)};
		words_dot(&s, 8, four, q + (size_t)i * x_stride);
		dot[i] = vaddq_s32(dot[i], vpaddq_s32(s.pair, s.other));
	}
}

/* dot (n) = 16·vectors columns of four weight rows times those of the activation rows at q */
INLINED void rows_dot(int n, ints dot[], enum dtype type, int vectors, const struct taken* w, const int8_t* q,
                      size_t x_stride) {
	UNROLLED for (int i = 0; i < n; i++) {
		int8x16_t x[2];
		ints sums[SIDE];
		UNROLLED for (int v = 0; v < vectors; v++) x[v] = vld1q_s8(q + (size_t)i * x_stride + v * 16);
		UNROLLED for (int r = 0; r < SIDE; r++) {
			const int8x16_t* four = w->q[r];
			int16x8_t some = vmull_s8(vget_low_s8(four[0]), vget_low_s8(x[0]));
			some = vmlal_high_s8(some, four[0], x[0]);
			if (vectors == 1) {
				sums[r] = vpaddlq_s16(some);
				continue;
			}
			if (products_in_16_bits(type) >= 4) {
				some = vmlal_s8(some, vget_low_s8(four[1]), vget_low_s8(x[1]));
				sums[r] = vpaddlq_s16(vmlal_high_s8(some, four[1], x[1]));
				continue;
			}
			const int16x8_t more = vmull_s8(vget_low_s8(four[1]), vget_low_s8(x[1]));
			sums[r] = vpadalq_s16(vpaddlq_s16(some), vmlal_high_s8(more, four[1], x[1]));
		}
		dot[i] = four_sums(sums);
	}
}

#include "kernels/cpu/neon_quantized.h"

QUANTIZED_MATMUL(neon, rows_matmul)
#endif
