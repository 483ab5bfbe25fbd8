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

/* q (n), returns d; NaN when a value is not finite, 0 when all are zero or too small to divide by */
static float quantize(const float* x, int8_t* q, int n) {
	const float largest = largest_of(x, n), inverse = 127.0f / largest;
	if (!isfinite(inverse)) {
		memset(q, 0, (size_t)n);
		return isnan(largest) ? fabsf(largest) : 0;
	}
	for (int i = 0; i < n; i += 16)
		quantize_16(x + i, q + i, inverse);
	return largest / 127.0f;
}

static int32_t sum_of_16(const int8_t* q) { return vaddlvq_s8(vld1q_s8(q)); }

static void prepare_small(enum dtype weight, uint8_t* out, const float* x, int cols) {
	const struct prepared layout = prepared_layout(weight, cols);
	const int bias = dtype_bias(weight);
	for (int b = 0; b < cols / 32; b++) {
		int8_t* q = (int8_t*)out + b * 32;
		const float d = quantize(x + b * 32, q, 32);
		const int32_t sum = sum_of_16(q) + sum_of_16(q + 16), correction = -bias * sum;
		const float min_factor = d * (float)sum;
		memcpy(out + layout.d + (size_t)b * 4, &d, 4);
		memcpy(out + layout.sums + (size_t)b * 4,
		       dtype_has_min(weight) ? (const void*)&min_factor : (const void*)&correction, 4);
	}
}

/* Behind the scales of blocks of 256: sums by groups */
static void prepare_groups(enum dtype weight, uint8_t* out, const struct prepared* layout, int cols) {
	const int offset = group_offset(weight), group = group_of(weight);
	const uint16x8_t first_two = vreinterpretq_u16_u32(vdupq_n_u32(0xffff)); /* of four columns */
	for (int g = 0; g < cols / 16; g++) {
		const int8_t* q = (const int8_t*)out + g * 16;
		const int32_t sum = sum_of_16(q), start = -offset * sum;
		const int16x8_t pairs = vpaddlq_s8(vld1q_s8(q));
		const int32_t first = vaddvq_s16(vandq_s16(pairs, vreinterpretq_s16_u16(first_two)));
		const int16_t whole = (int16_t)sum, both = (int16_t)(sum + (group == 32 ? sum_of_16(q + 16) : 0));
		const int16_t halves[2] = {(int16_t)(-offset * first), (int16_t)(-offset * (sum - first))};
		if (offset) {
			memcpy(out + layout->sums + (size_t)g * 4, halves, 4);
			memcpy(out + layout->starts + (size_t)g * 4, &start, 4);
		} else if (group == 16) {
			memcpy(out + layout->sums + (size_t)g * 2, &whole, 2);
		} else {
			memcpy(out + layout->sums + (size_t)g, &both, 2);
			g++;
		}
	}
}

static void prepare_super(enum dtype weight, uint8_t* out, const float* x, int cols) {
	const struct prepared layout = prepared_layout(weight, cols);
	for (int b = 0; b < cols / 256; b++) {
		const float d = quantize(x + b * 256, (int8_t*)out + b * 256, 256);
		memcpy(out + layout.d + (size_t)b * 4, &d, 4);
	}
	prepare_groups(weight, out, &layout, cols);
}

void neon_prepare(enum dtype weight, void* out, const float* x, int cols) {
	if (dtype_takes_floats(weight)) {
		reference_prepare(weight, out, x, cols);
		return;
	}
	const struct prepared layout = prepared_layout(weight, cols);
	memset((uint8_t*)out + cols, 0, layout.bytes - (size_t)cols); /* gaps are zeros */
	if (activation_block(weight) == BLOCK_SMALL)
		prepare_small(weight, out, x, cols);
	else
		prepare_super(weight, out, x, cols);
}
#endif
