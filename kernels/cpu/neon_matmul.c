/* Matrix products for 64-bit ARM: those with floats, and the way to the others. A vector is two registers. */
#include "kernels/cpu/matmul.h"

#if defined(__aarch64__)
#include <arm_neon.h>

typedef struct {
	float32x4_t low, high;
} V;
enum { V_LANES = 8, TILE_ROWS = 4, TILE_N = 3, STREAMS = 1 };
#define UP_TO_TILE_N UP_TO_3

static inline V v_zero(void) { return (V){vdupq_n_f32(0), vdupq_n_f32(0)}; }
static inline V v_load(const float* p) { return (V){vld1q_f32(p), vld1q_f32(p + 4)}; }
static inline void v_store(float* p, V a) {
	vst1q_f32(p, a.low);
	vst1q_f32(p + 4, a.high);
}
static inline V v_fma(V a, V b, V c) {
	return (V){vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)};
}
/* Halves to halves, until one is left */
static inline float v_sum(V a) {
	const float32x4_t s = vaddq_f32(a.low, a.high);
	return vpadds_f32(vadd_f32(vget_low_f32(s), vget_high_f32(s)));
}
static inline void v_sums(const V a[4], float* out) {
	for (int i = 0; i < 4; i++)
		out[i] = v_sum(a[i]);
}

static inline V v_weights(enum dtype type, const uint8_t* p) {
	const uint16x8_t half = vreinterpretq_u16_u8(vld1q_u8(p));
	switch (type) {
	case DTYPE_F16:
		return (V){vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(half))),
		           vcvt_high_f32_f16(vreinterpretq_f16_u16(half))};
	case DTYPE_BF16:
		return (V){vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(half), 16)),
		           vreinterpretq_f32_u32(vshll_high_n_u16(half, 16))};
	default:
		return (V){vreinterpretq_f32_u8(vld1q_u8(p)), vreinterpretq_f32_u8(vld1q_u8(p + 16))};
	}
}

#define decode_row dtype_to_float
#include "kernels/cpu/matmul_decoded.h"
#include "kernels/cpu/matmul_float.h"

MATMUL(neon)
MATMUL(dotprod)
MATMUL(i8mm)
#endif
