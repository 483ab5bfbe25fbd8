/* Weights by input channel, AVX2. */
#include "kernels/cpu/matmul.h"

#if defined(__AVX2__)
#include "kernels/column_round.h"
#include "kernels/column_threshold.h"
#include "kernels/cpu/columns.h"
#include "kernels/cpu/ints_256.h"

/* Two products of 15 and 127 are at most 3,810: eight such sums fit 16 bits. */
#define COLUMN_NARROW 8
#define COLUMN_WHOLE 0
INLINED ints codes_dot(ints sum, ints codes, ints q) {
	sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, q));
	IN_ORDER(sum);
	return sum;
}
INLINED ints codes_widen(ints sum, ints narrow) {
	return ints_add(sum, _mm256_madd_epi16(narrow, _mm256_set1_epi16(1)));
}

#include "kernels/cpu/column_vectors_256.h"

#include "kernels/cpu/column_product.h"

COLUMN_FUNCTIONS(avx2)

/* For each mask of four lanes: its lanes, ascending, and then any */
static const uint8_t kept_lanes[16][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}, {1, 0, 0, 0}, {0, 1, 0, 0},
                                          {2, 0, 0, 0}, {0, 2, 0, 0}, {1, 2, 0, 0}, {0, 1, 2, 0},
                                          {3, 0, 0, 0}, {0, 3, 0, 0}, {1, 3, 0, 0}, {0, 1, 3, 0},
                                          {2, 3, 0, 0}, {0, 2, 3, 0}, {1, 2, 3, 0}, {0, 1, 2, 3}};

/* Channels j to j + 3 go to the list from its place n on, where they are kept; returns how many are. */
INLINED int keep_four(const struct column_map* map, int j, __m128 x, __m128 threshold,
                      const struct column_list* to, int n) {
	const __m128 size = _mm_andnot_ps(_mm_set1_ps(-0.0f), x);
	const __m128 norm = _mm_castsi128_ps(
	    _mm_slli_epi32(_mm_cvtepu16_epi32(_mm_loadl_epi64((const void*)(map->norm + j))), 16));
	const __m128 peak =
	    _mm_castsi128_ps(_mm_add_epi32(_mm_slli_epi32(_mm_cvtepu8_epi32(_mm_loadu_si32(map->peak + j)), 20),
	                                   _mm_set1_epi32(COLUMN_LEAST_EXPONENT << 23)));
	const int kept = _mm_movemask_ps(_mm_cmpgt_ps(_mm_mul_ps(size, norm), threshold));
	const __m128i lane = _mm_cvtepu8_epi32(_mm_loadu_si32(kept_lanes[kept]));
	const __m128i which = _mm_add_epi32(lane, _mm_set1_epi32(j));
	_mm_storel_epi64((void*)(to->channel + n), _mm_packus_epi32(which, which));
	_mm_storeu_ps(to->value + n, _mm_permutevar_ps(x, lane));
	_mm_storeu_ps(to->size + n, _mm_permutevar_ps(_mm_mul_ps(size, peak), lane));
	return __builtin_popcount((unsigned)kept);
}

float avx2_column_threshold(const struct column_map* map, const float* x, float share) {
	return find_threshold(map, x, share);
}

int avx2_column_keep(const struct column_map* map, struct column_range range, const float* x, float threshold,
                     const struct column_list* to) {
	const int fours = (range.end - range.begin) / 4 * 4;
	int n = 0;
	for (int j = range.begin; j < range.begin + fours; j += 4)
		n += keep_four(map, j, _mm_loadu_ps(x + j), _mm_set1_ps(threshold), to, n);
	const struct column_range rest = {range.begin + fours, range.end};
	const struct column_list behind = {
	    .channel = to->channel + n, .value = to->value + n, .size = to->size + n};
	return n + reference_column_keep(map, rest, x, threshold, &behind);
}
#endif
