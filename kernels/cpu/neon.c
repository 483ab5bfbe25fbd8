/* The kernels for 64-bit ARM: what stands beside the products, and the tables. Every such processor has NEON;
 * products of bytes in one instruction (dotprod) and of small matrices of them (i8mm) are asked for.
 *
 * A vector is two registers of four floats, so that sums have two chains at least and fall to lanes as AVX2's
 * do. Products and sums of halves (FEAT_FP16) are left alone: their rounding would be seen. */
#include "kernels/cpu/kernels.h"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <float.h>
#include <string.h>

#include "kernels/cpu/matmul.h"
#include "kernels/draft_weights.h"
#include "kernels/dtype_blocks.h"

typedef struct {
	float32x4_t low, high;
} vec;
enum { LANES = 8, TILE_CHUNKS = 4, PAGES_AT_ONCE = 1 };
#define TILE_HEADS 3
#define TILE_QUERIES 3

static inline vec vec_set(float x) { return (vec){vdupq_n_f32(x), vdupq_n_f32(x)}; }
static inline vec vec_load(const float* x) { return (vec){vld1q_f32(x), vld1q_f32(x + 4)}; }
static inline vec vec_load_part(const float* x, int n, float rest) {
	float part[LANES] = {rest, rest, rest, rest, rest, rest, rest, rest};
	memcpy(part, x, (size_t)n * sizeof *x);
	return vec_load(part);
}
static inline vec vec_load_half(const uint16_t* x) {
	const float16x8_t half = vreinterpretq_f16_u16(vld1q_u16(x));
	return (vec){vcvt_f32_f16(vget_low_f16(half)), vcvt_high_f32_f16(half)};
}
static inline vec vec_load_half_part(const uint16_t* x, int n) {
	uint16_t part[LANES] = {0};
	memcpy(part, x, (size_t)n * sizeof *x);
	return vec_load_half(part);
}
static inline vec vec_load_bytes(const int8_t* x) {
	const int16x8_t wide = vmovl_s8(vld1_s8(x));
	return (vec){vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))), vcvtq_f32_s32(vmovl_high_s16(wide))};
}
static inline void vec_store(float* out, vec x) {
	vst1q_f32(out, x.low);
	vst1q_f32(out + 4, x.high);
}
static inline void vec_store_part(float* out, vec x, int n) {
	float part[LANES];
	vec_store(part, x);
	memcpy(out, part, (size_t)n * sizeof *out);
}
static inline void vec_store_half(uint16_t* out, vec x) {
	vst1q_u16(out, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(x.low), x.high)));
}
static inline void vec_store_half_part(uint16_t* out, vec x, int n) {
	uint16_t part[LANES];
	vec_store_half(part, x);
	memcpy(out, part, (size_t)n * sizeof *out);
}
static inline vec vec_add(vec a, vec b) { return (vec){a.low + b.low, a.high + b.high}; }
static inline vec vec_sub(vec a, vec b) { return (vec){a.low - b.low, a.high - b.high}; }
static inline vec vec_mul(vec a, vec b) { return (vec){a.low * b.low, a.high * b.high}; }
static inline vec vec_div(vec a, vec b) { return (vec){a.low / b.low, a.high / b.high}; }
static inline vec vec_fma(vec a, vec b, vec c) {
	return (vec){vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)};
}
/* b where one is not a number */
static inline float32x4_t four_max(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
static inline float32x4_t four_min(float32x4_t a, float32x4_t b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
static inline vec vec_max(vec a, vec b) { return (vec){four_max(a.low, b.low), four_max(a.high, b.high)}; }
static inline vec vec_min(vec a, vec b) { return (vec){four_min(a.low, b.low), four_min(a.high, b.high)}; }
static inline vec vec_round(vec x) { return (vec){vrndnq_f32(x.low), vrndnq_f32(x.high)}; }
/* x·2^n, n a whole number from -126 to 127 */
static inline float32x4_t four_powers(float32x4_t n) {
	return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127)), 23));
}
static inline vec vec_times_power(vec x, vec n) {
	return (vec){x.low * four_powers(n.low), x.high * four_powers(n.high)};
}
static inline float32x4_t four_zero_below(float32x4_t x, float limit, float32x4_t otherwise) {
	const uint32x4_t below = vcltq_f32(x, vdupq_n_f32(limit));
	return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(otherwise), below));
}
static inline vec vec_zero_below(vec x, float limit, vec otherwise) {
	return (vec){four_zero_below(x.low, limit, otherwise.low),
	             four_zero_below(x.high, limit, otherwise.high)};
}
static inline bool vec_all_finite(vec x) {
	const float32x4_t most = vdupq_n_f32(FLT_MAX);
	return vminvq_u32(vandq_u32(vcaleq_f32(x.low, most), vcaleq_f32(x.high, most))) != 0;
}
static inline float vec_largest(vec x) {
	const float32x4_t m = four_max(x.low, x.high);
	const float a = vgetq_lane_f32(m, 0), b = vgetq_lane_f32(m, 1);
	const float c = vgetq_lane_f32(m, 2), d = vgetq_lane_f32(m, 3);
	const float ac = a > c ? a : c, bd = b > d ? b : d;
	return ac > bd ? ac : bd;
}

static inline float vec_sum(vec x) {
	const float32x4_t s = x.low + x.high;
	return vpadds_f32(vadd_f32(vget_low_f32(s), vget_high_f32(s)));
}

#include "kernels/cpu/wide.h"

static uint64_t read_memory(const void* memory, size_t bytes) {
	const uint64_t* words = memory;
	uint64x2_t a = vdupq_n_u64(0), b = a, c = a, d = a;
	for (size_t i = 0; i < bytes / 8; i += 8) {
		a = veorq_u64(a, vld1q_u64(words + i));
		b = veorq_u64(b, vld1q_u64(words + i + 2));
		c = veorq_u64(c, vld1q_u64(words + i + 4));
		d = veorq_u64(d, vld1q_u64(words + i + 6));
	}
	const uint64x2_t all = veorq_u64(veorq_u64(a, b), veorq_u64(c, d));
	return vgetq_lane_u64(all, 0) ^ vgetq_lane_u64(all, 1);
}

const struct cpu_kernels cpu_neon =
    CPU_KERNELS("neon", neon_prepare, neon_matmul, NULL, reference_column_threshold, reference_column_keep,
                neon_column_product);
const struct cpu_kernels cpu_dotprod =
    CPU_KERNELS("dotprod", neon_prepare, dotprod_matmul, NULL, reference_column_threshold,
                reference_column_keep, dotprod_column_product);
const struct cpu_kernels cpu_i8mm =
    CPU_KERNELS("i8mm", neon_prepare, i8mm_matmul, NULL, reference_column_threshold, reference_column_keep,
                dotprod_column_product);

#endif
