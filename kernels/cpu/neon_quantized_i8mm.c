/* Products with quantized weights, NEON with dotprod and i8mm: two weight rows meet two activation rows in
 * one instruction, eight columns of each. */
#include "kernels/cpu/matmul.h"

#if defined(__aarch64__)
#include "kernels/cpu/neon_dotprod.h"

/* The first, or the second, eight columns of two rows */
INLINED int8x16_t two_rows(int8x16_t a, int8x16_t b, int second) {
	const int64x2_t x = vreinterpretq_s64_s8(a), y = vreinterpretq_s64_s8(b);
	return vreinterpretq_s8_s64(second ? vzip2q_s64(x, y) : vzip1q_s64(x, y));
}

/* dot (n) = 16·vectors columns of four weight rows times those of the activation rows at q */
INLINED void rows_dot(int n, ints dot[], enum dtype type, int vectors, const struct taken* w, const int8_t* q,
                      size_t x_stride) {
	(void)type;
	int8x16_t pair[4], other[4];
	UNROLLED for (int k = 0; k < 2 * vectors; k++) {
		pair[k] = two_rows(w->q[0][k / 2], w->q[1][k / 2], k % 2);
		other[k] = two_rows(w->q[2][k / 2], w->q[3][k / 2], k % 2);
	}
	UNROLLED for (int i = 0; i + 1 < n; i += 2) {
		/* activation row i with two weight rows, then row i + 1 with them */
		ints with_pair = ints_set(0), with_other = ints_set(0);
		const int8_t* at = q + (size_t)i * x_stride;
		UNROLLED for (int k = 0; k < 2 * vectors; k++) {
			const int8x16_t x =
			    two_rows(vld1q_s8(at + k / 2 * 16), vld1q_s8(at + x_stride + k / 2 * 16), k % 2);
			with_pair = vmmlaq_s32(with_pair, x, pair[k]);
			with_other = vmmlaq_s32(with_other, x, other[k]);
		}
		dot[i] = ints_low_halves(with_pair, with_other);
		dot[i + 1] = ints_high_halves(with_pair, with_other);
	}
	if (n % 2)
		dot[n - 1] = row_dot(vectors, w, q + (size_t)(n - 1) * x_stride);
}

#include "kernels/cpu/neon_quantized.h"

QUANTIZED_MATMUL(i8mm, rows_matmul)
#endif
