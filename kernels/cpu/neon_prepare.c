/* Activations to int8 blocks, NEON; the same bytes as the plain way. */
#include "kernels/cpu/matmul.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#include <math.h>

/* max |x|, or NaN when a value is not finite */
static float largest_of(const float* x, int n) {
	float32x4_t largest = vdupq_n_f32(0);
	for (int i = 0; i < n; i += 4)
		largest = vmaxq_f32(largest, vabsq_f32(vld1q_f32(x + i))); /* NaN where one is */
	const float most = vmaxvq_f32(largest);
	return most < INFINITY ? most : NAN;
}

/* q (16) */
static void quantize_16(const float* x, int8_t* q, float inverse) {
	int32x4_t v[4];
	for (int k = 0; k < 4; k++)
		v[k] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * k), inverse));
	const int16x8_t low = vcombine_s16(vmovn_s32(v[0]), vmovn_s32(v[1]));
	const int16x8_t high = vcombine_s16(vmovn_s32(v[2]), vmovn_s32(v[3]));
	vst1q_s8(q, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
}

static void quantize_32(const float* x, int8_t* q, float inverse) {
	quantize_16(x, q, inverse);
	quantize_16(x + 16, q + 16, inverse);
}

static void sums_of_16(const int8_t* q, int32_t sums[2]) {
	sums[0] = vaddlvq_s8(vld1q_s8(q));
	sums[1] = vaddlvq_s8(vld1q_s8(q + 16));
}

static void offset_sums(const int8_t* q, int offset, uint8_t sums[8]) {
	const uint16x8_t first_two = vreinterpretq_u16_u32(vdupq_n_u32(0xffff)); /* of four columns */
	for (int half = 0; half < 2; half++) {
		const int16x8_t pairs = vpaddlq_s8(vld1q_s8(q + half * 16));
		const int32_t first = vaddvq_s16(vandq_s16(pairs, vreinterpretq_s16_u16(first_two)));
		const int32_t last = vaddvq_s16(vbicq_s16(pairs, vreinterpretq_s16_u16(first_two)));
		const int16_t both[2] = {(int16_t)(-offset * first), (int16_t)(-offset * last)};
		memcpy(sums + half * 4, both, 4);
	}
}

#include "kernels/cpu/prepare.h"

void neon_prepare(enum dtype weight, void* out, const float* x, int cols) { prepare(weight, out, x, cols); }
#endif
