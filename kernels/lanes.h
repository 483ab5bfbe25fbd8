/* Vectors of floats, with as many lanes as the instruction set of the including file has. The files that
 * round weights share them (quantize_blocks.h, column_round.h). Each function gives the same bits everywhere.
 */
#pragma once

#include <stdint.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { FLOAT_LANES = 16 };
#elif defined(__AVX2__)
enum { FLOAT_LANES = 8 };
#else
enum { FLOAT_LANES = 4 };
#endif

typedef float lanes __attribute__((vector_size(4 * FLOAT_LANES)));
typedef int32_t indices __attribute__((vector_size(4 * FLOAT_LANES)));

static inline lanes all(float x) { return x - (lanes){0}; }

/* Element i is element from[i] of v, or of w from FLOAT_LANES on. Only GCC has this builtin. clang makes
 * shuffles of the loop where `from` is constant. */
#ifdef __clang__
static inline indices shuffle_lanes(indices v, indices w, indices from) {
	indices out;
	for (int i = 0; i < FLOAT_LANES; i++)
		out[i] = from[i] < FLOAT_LANES ? v[from[i]] : w[from[i] - FLOAT_LANES];
	return out;
}
#define SHUFFLE(v, w, from) ((__typeof__(v))shuffle_lanes((indices)(v), (indices)(w), from))
#else
#define SHUFFLE(v, w, from) __builtin_shuffle(v, w, from)
#endif

/* A vector of unsigned bytes, as integers. The compiler's own conversion goes byte by byte. */
static inline indices load_bytes(const uint8_t* bytes) {
#if defined(__AVX512F__)
	return (indices)_mm512_cvtepu8_epi32(_mm_loadu_si128((const void*)bytes));
#elif defined(__AVX2__)
	return (indices)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void*)bytes));
#else
	indices v;
	for (int i = 0; i < FLOAT_LANES; i++)
		v[i] = bytes[i];
	return v;
#endif
}

/* v where `first` has all bits set, w where it has none */
static inline lanes choose_lanes(indices first, lanes v, lanes w) {
	return (lanes)(((indices)v & first) | ((indices)w & ~first));
}

/* w where v is not a number */
static inline lanes larger(lanes v, lanes w) {
#if defined(__AVX512F__)
	return (lanes)_mm512_max_ps((__m512)v, (__m512)w);
#elif defined(__AVX2__)
	return (lanes)_mm256_max_ps((__m256)v, (__m256)w);
#else
	return choose_lanes(v > w, v, w);
#endif
}

static inline lanes smaller(lanes v, lanes w) {
#if defined(__AVX512F__)
	return (lanes)_mm512_min_ps((__m512)v, (__m512)w);
#elif defined(__AVX2__)
	return (lanes)_mm256_min_ps((__m256)v, (__m256)w);
#else
	return choose_lanes(v < w, v, w);
#endif
}

/* 0…most, a half more than which is v; what is not a number becomes 0. */
static inline indices cut(lanes v, int most) {
	return __builtin_convertvector(smaller(larger(v, all(0)), all((float)most + 0.5f)), indices);
}
