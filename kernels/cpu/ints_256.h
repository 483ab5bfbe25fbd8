/* Vectors of 256 bits with the operations that matmul_quantized.h needs, shared by the instruction sets that
 * have such vectors. */
#include <immintrin.h>

typedef __m256i ints;
typedef __m256 floats;
enum { LANES = 8, SLOTS = 8, SUPER_SLOTS = 4, GROUP_ROWS = 4, TILES = 2, DIRECT_ROWS = 4 };

static inline ints ints_set(int x) { return _mm256_set1_epi32(x); }
static inline ints ints_bytes(int x) { return _mm256_set1_epi8((char)x); }
static inline ints ints_load(const void* p) { return _mm256_load_si256(p); }
static inline ints ints_load_anywhere(const void* p) { return _mm256_loadu_si256(p); }
static inline void ints_store(void* p, ints v) { _mm256_store_si256(p, v); }
static inline ints ints_and(ints a, ints b) { return _mm256_and_si256(a, b); }
static inline ints ints_or(ints a, ints b) { return _mm256_or_si256(a, b); }
static inline ints ints_add(ints a, ints b) { return _mm256_add_epi32(a, b); }
static inline ints ints_sub(ints a, ints b) { return _mm256_sub_epi32(a, b); }
static inline ints ints_left(ints a, int n) { return _mm256_slli_epi32(a, n); }
static inline ints ints_right(ints a, int n) { return _mm256_srli_epi32(a, n); }
static inline ints ints_right_signed(ints a, int n) { return _mm256_srai_epi32(a, n); }
static inline ints ints_flip_signs(ints a) { return _mm256_xor_si256(a, ints_bytes(0x80)); }
static inline ints ints_low_pairs(ints a, ints b) { return _mm256_unpacklo_epi32(a, b); }
static inline ints ints_high_pairs(ints a, ints b) { return _mm256_unpackhi_epi32(a, b); }
static inline ints ints_low_halves(ints a, ints b) { return _mm256_unpacklo_epi64(a, b); }
static inline ints ints_high_halves(ints a, ints b) { return _mm256_unpackhi_epi64(a, b); }
static inline ints ints_shuffle(ints v, uint32_t index) {
	const __m256i lane =
	    _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404, 0x08080808, 0x0c0c0c0c);
	return _mm256_shuffle_epi8(v, _mm256_or_si256(lane, ints_set((int)index)));
}
static inline ints ints_or_where(ints to, ints v, uint32_t bits, int what) {
	const ints none = _mm256_cmpeq_epi8(_mm256_and_si256(v, ints_set((int)bits)), ints_set(0));
	return _mm256_or_si256(to, _mm256_andnot_si256(none, ints_bytes(what)));
}
/* 16 bytes at each of two places */
static inline ints ints_quarters(const uint8_t* p, size_t stride, size_t three) {
	(void)three;
	const __m256i v = _mm256_castsi128_si256(_mm_loadu_si128((const void*)p));
	return _mm256_inserti128_si256(v, _mm_loadu_si128((const void*)(p + stride)), 1);
}
static inline void floats_store(float* p, floats v) { _mm256_store_ps(p, v); }
static inline floats floats_zero(void) { return _mm256_setzero_ps(); }
static inline floats floats_load(const float* p) { return _mm256_load_ps(p); }
static inline void floats_store_anywhere(float* p, floats v) { _mm256_storeu_ps(p, v); }
static inline floats floats_add(floats a, floats b) { return _mm256_add_ps(a, b); }
static inline floats floats_fma(floats a, floats b, floats c) { return _mm256_fmadd_ps(a, b, c); }
static inline floats floats_mul(floats a, floats b) { return _mm256_mul_ps(a, b); }
static inline floats floats_from_ints(ints v) { return _mm256_cvtepi32_ps(v); }
static inline floats floats_negated(floats v) { return _mm256_xor_ps(v, _mm256_set1_ps(-0.0f)); }
static inline floats floats_from_halves(ints v) {
	const __m256i low = ints_shuffle(v, 0x80800100); /* to 32 bits; then side by side */
	const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
	return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}

/* 4 bytes in every lane */
static inline ints to_all(const void* p) {
	int x;
	memcpy(&x, p, 4);
	return _mm256_set1_epi32(x);
}

static inline floats float_to_all(const void* p) { return _mm256_castsi256_ps(to_all(p)); }

/* The compiler adds to v here and now: left to itself it forms all products first, and stores them. */
#define IN_ORDER(v) __asm__("" : "+x"(v))

#define DIRECT 1
/* LANES neighbouring half floats */
static inline floats floats_load_halves(const void* p) { return _mm256_cvtph_ps(_mm_loadu_si128(p)); }
