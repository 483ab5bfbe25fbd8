/* The vector type that matmul_quantized.h and neon_interleaved.h need, with NEON: a register is a word of
 * four weight rows. */
#pragma once

#include <arm_neon.h>
#include <string.h>

#include "kernels/cpu/quantized_blocks.h"

#if defined(__clang__)
#define NOT_UNROLLED _Pragma("clang loop unroll(disable)")
#else
#define NOT_UNROLLED _Pragma("GCC unroll 1")
#endif

typedef int32x4_t ints;
typedef float32x4_t floats;
enum { LANES = 4, SLOTS = 8, SUPER_SLOTS = 4, GROUP_ROWS = 8, TILES = 1, SIGNED_BYTES = true };

INLINED ints ints_from_bytes(uint8x16_t v) { return vreinterpretq_s32_u8(v); }
INLINED uint8x16_t bytes_of(ints v) { return vreinterpretq_u8_s32(v); }
INLINED int8x16_t signed_bytes_of(ints v) { return vreinterpretq_s8_s32(v); }

INLINED ints ints_set(int x) { return vdupq_n_s32(x); }
INLINED ints ints_bytes(int x) { return ints_from_bytes(vdupq_n_u8((uint8_t)x)); }
INLINED ints ints_load(const void* p) { return ints_from_bytes(vld1q_u8(p)); }
INLINED ints ints_load_anywhere(const void* p) { return ints_load(p); }
INLINED void ints_store(void* p, ints v) { vst1q_u8(p, bytes_of(v)); }
INLINED ints ints_and(ints a, ints b) { return vandq_s32(a, b); }
INLINED ints ints_or(ints a, ints b) { return vorrq_s32(a, b); }
INLINED ints ints_sub(ints a, ints b) { return vsubq_s32(a, b); }
INLINED ints ints_left(ints a, int n) { return a << n; }
INLINED ints ints_right(ints a, int n) { return vreinterpretq_s32_u32(vreinterpretq_u32_s32(a) >> n); }
INLINED ints ints_right_signed(ints a, int n) { return a >> n; }
INLINED ints ints_flip_signs(ints a) { return veorq_s32(a, ints_bytes(0x80)); }
INLINED ints ints_low_pairs(ints a, ints b) { return vzip1q_s32(a, b); }
INLINED ints ints_high_pairs(ints a, ints b) { return vzip2q_s32(a, b); }
INLINED ints ints_low_halves(ints a, ints b) {
	return vreinterpretq_s32_s64(vzip1q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}
INLINED ints ints_high_halves(ints a, ints b) {
	return vreinterpretq_s32_s64(vzip2q_s64(vreinterpretq_s64_s32(a), vreinterpretq_s64_s32(b)));
}
INLINED ints ints_shuffle(ints v, uint32_t index) {
	const uint32x4_t lane = {0, 0x04040404, 0x08080808, 0x0c0c0c0c};
	const uint32x4_t from = vorrq_u32(lane, vdupq_n_u32(index)); /* beyond 15: a zero */
	return ints_from_bytes(vqtbl1q_u8(bytes_of(v), vreinterpretq_u8_u32(from)));
}
INLINED ints ints_or_where(ints to, ints v, uint32_t bits, int what) {
	const uint8x16_t some = vtstq_u8(bytes_of(v), vreinterpretq_u8_u32(vdupq_n_u32(bits)));
	return ints_or(to, ints_from_bytes(vandq_u8(some, vdupq_n_u8((uint8_t)what))));
}
INLINED int8x16_t iq4_of(uint8x16_t index) { return vqtbl1q_s8(vld1q_s8(iq4_values), index); }
INLINED ints ints_iq4(ints index) { return vreinterpretq_s32_s8(iq4_of(bytes_of(index))); }
/* 16 bytes at one place: there are no more rows */
INLINED ints ints_quarters(const uint8_t* p, size_t stride, size_t three) {
	(void)stride;
	(void)three;
	return ints_load(p);
}
/* Scales multiply whole lanes */
INLINED ints ints_scale(ints scale) { return scale; }
/* sum + the products of the 16-bit halves of each lane */
INLINED ints ints_two_products(ints sum, ints a, ints b) {
	const int16x8_t x = vreinterpretq_s16_s32(a), y = vreinterpretq_s16_s32(b);
	const int32x4_t low = vmull_s16(vget_low_s16(x), vget_low_s16(y)), high = vmull_high_s16(x, y);
	return vaddq_s32(sum, vpaddq_s32(low, high));
}
INLINED ints ints_scaled(ints sum, ints products, ints scale) { return vmlaq_s32(sum, products, scale); }

INLINED floats floats_zero(void) { return vdupq_n_f32(0); }
INLINED floats floats_load(const float* p) { return vld1q_f32(p); }
INLINED void floats_store(float* p, floats v) { vst1q_f32(p, v); }
INLINED void floats_store_anywhere(float* p, floats v) { vst1q_f32(p, v); }
INLINED floats floats_add(floats a, floats b) { return vaddq_f32(a, b); }
INLINED floats floats_mul(floats a, floats b) { return vmulq_f32(a, b); }
INLINED floats floats_fma(floats a, floats b, floats c) { return vfmaq_f32(c, a, b); }
INLINED floats floats_from_ints(ints v) { return vcvtq_f32_s32(v); }
INLINED floats floats_negated(floats v) { return vnegq_f32(v); }
/* The low 16 bits of every lane */
INLINED floats floats_from_halves(ints v) {
	return vcvt_f32_f16(vreinterpret_f16_u16(vmovn_u32(vreinterpretq_u32_s32(v))));
}

/* LANES neighbouring half floats */
static inline floats floats_load_halves(const void* p) {
	return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

INLINED ints to_all(const void* p) { return vdupq_n_s32((int)load_u32(p)); }
INLINED floats float_to_all(const void* p) { return vreinterpretq_f32_s32(to_all(p)); }

/* ---- four weight rows side by side ------------------------------------------------------------ */

enum { SIDE = 4 };

/* 32 columns of four weight rows */
struct taken {
	int8x16_t q[SIDE][2];
};

/* Lane r is the sum of v[r]'s lanes. */
INLINED ints four_sums(const ints v[SIDE]) {
	return vpaddq_s32(vpaddq_s32(v[0], v[1]), vpaddq_s32(v[2], v[3]));
}
