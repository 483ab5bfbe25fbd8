/* The vector type of AVX-512's products with quantized weights: see matmul_quantized.h. */
#pragma once

#include "kernels/cpu/matmul.h"

#include <immintrin.h>

typedef __m512i ints;
typedef __m512 floats;
enum { LANES = 16, SLOTS = 16, SUPER_SLOTS = 4, GROUP_ROWS = 8, TILES = 1, SIGNED_BYTES = false };

static inline ints ints_set(int x) { return _mm512_set1_epi32(x); }
static inline ints ints_bytes(int x) { return _mm512_set1_epi8((char)x); }
static inline ints ints_load(const void* p) { return _mm512_load_si512(p); }
static inline ints ints_load_anywhere(const void* p) { return _mm512_loadu_si512(p); }
static inline void ints_store(void* p, ints v) { _mm512_store_si512(p, v); }
static inline ints ints_and(ints a, ints b) { return _mm512_and_si512(a, b); }
static inline ints ints_or(ints a, ints b) { return _mm512_or_si512(a, b); }
static inline ints ints_sub(ints a, ints b) { return _mm512_sub_epi32(a, b); }
static inline ints ints_left(ints a, int n) { return _mm512_slli_epi32(a, (unsigned)n); }
static inline ints ints_right(ints a, int n) { return _mm512_srli_epi32(a, (unsigned)n); }
static inline ints ints_right_signed(ints a, int n) { return _mm512_srai_epi32(a, (unsigned)n); }
static inline ints ints_flip_signs(ints a) { return _mm512_xor_si512(a, ints_bytes(0x80)); }
static inline ints ints_low_pairs(ints a, ints b) { return _mm512_unpacklo_epi32(a, b); }
static inline ints ints_high_pairs(ints a, ints b) { return _mm512_unpackhi_epi32(a, b); }
static inline ints ints_low_halves(ints a, ints b) { return _mm512_unpacklo_epi64(a, b); }
static inline ints ints_high_halves(ints a, ints b) { return _mm512_unpackhi_epi64(a, b); }
/* Selects in each lane the bytes that `index` names, 0 for 0x80 */
static inline ints ints_shuffle(ints v, uint32_t index) {
	const __m512i lane = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0);
	return _mm512_shuffle_epi8(v, _mm512_or_si512(lane, ints_set((int)index)));
}
/* to, with `what`, whose bits it has not, in the bytes where v shares a bit with `bits` */
static inline ints ints_or_where(ints to, ints v, uint32_t bits, int what) {
	return _mm512_mask_add_epi8(to, _mm512_test_epi8_mask(v, ints_set((int)bits)), to, ints_bytes(what));
}
/* iq4_values + 128 */
static inline ints ints_iq4(ints index) {
	const __m128i values = _mm_loadu_si128((const void*)iq4_values);
	return ints_flip_signs(_mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), index));
}
/* 16 bytes at each of four places, `stride` apart; `three` is three times that. Masked loads join them
 * without a shuffle. */
static inline ints ints_quarters(const uint8_t* p, size_t stride, size_t three) {
	ints v = _mm512_broadcast_i32x4(_mm_loadu_si128((const void*)p));
	v = _mm512_mask_broadcast_i32x4(v, 0x00f0, _mm_loadu_si128((const void*)(p + stride)));
	v = _mm512_mask_broadcast_i32x4(v, 0x0f00, _mm_loadu_si128((const void*)(p + 2 * stride)));
	return _mm512_mask_broadcast_i32x4(v, 0xf000, _mm_loadu_si128((const void*)(p + three)));
}
/* A scale as the products want it */
static inline ints ints_scale(ints scale) { return scale; }
static inline ints ints_two_products(ints sum, ints a, ints b) { return _mm512_dpwssd_epi32(sum, a, b); }
static inline ints ints_scaled(ints sum, ints products, ints scale) {
	return _mm512_add_epi32(sum, _mm512_mullo_epi32(products, scale));
}
static inline floats floats_zero(void) { return _mm512_setzero_ps(); }
static inline floats floats_load(const float* p) { return _mm512_load_ps(p); }
static inline void floats_store(float* p, floats v) { _mm512_store_ps(p, v); }
static inline void floats_store_anywhere(float* p, floats v) { _mm512_storeu_ps(p, v); }
static inline floats floats_add(floats a, floats b) { return _mm512_add_ps(a, b); }
static inline floats floats_fma(floats a, floats b, floats c) { return _mm512_fmadd_ps(a, b, c); }
static inline floats floats_mul(floats a, floats b) { return _mm512_mul_ps(a, b); }
static inline floats floats_from_ints(ints v) { return _mm512_cvtepi32_ps(v); }
static inline floats floats_negated(floats v) { return _mm512_sub_ps(_mm512_set1_ps(-0.0f), v); }
/* Widens the half floats in the low half of each lane */
static inline floats floats_from_halves(ints v) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v)); }
/* Sixteen neighbouring half floats */
static inline floats floats_load_halves(const void* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(p)); }

/* The compiler adds to v here and now: left to itself it forms all products first, and stores them. */
#define IN_ORDER(v) __asm__("" : "+v"(v))

/* 4 bytes in every lane */
static inline ints to_all(const void* p) {
	int x;
	memcpy(&x, p, 4);
	return _mm512_set1_epi32(x);
}

static inline floats float_to_all(const void* p) { return _mm512_castsi512_ps(to_all(p)); }

/* sum + four bytes of each lane of `w`, unsigned, times those at x, signed. Written out, since compilers load
 * the four bytes by an instruction of their own, which fills the processor's queues. */
static inline ints dot_four(ints sum, ints w, const void* x) {
	__asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(*(const uint8_t(*)[4])x));
	return sum;
}
