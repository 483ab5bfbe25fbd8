/* Weights by input channel, AVX-512 with VNNI. */
#include "kernels/cpu/matmul.h"

#if defined(__AVX512VNNI__)
#include "kernels/column_round.h"
#include "kernels/column_threshold.h"
#include "kernels/cpu/avx512_ints.h"
#include "kernels/cpu/columns.h"

#define COLUMN_NARROW 0
#define COLUMN_WHOLE 1
INLINED floats floats_load_anywhere(const float* p) { return _mm512_loadu_ps(p); }
INLINED ints bytes_low(ints a, ints b) { return _mm512_unpacklo_epi8(a, b); }
INLINED ints bytes_high(ints a, ints b) { return _mm512_unpackhi_epi8(a, b); }
INLINED ints words_low(ints a, ints b) { return _mm512_unpacklo_epi16(a, b); }
INLINED ints words_high(ints a, ints b) { return _mm512_unpackhi_epi16(a, b); }
INLINED ints codes_dot(ints sum, ints codes, ints q) { return _mm512_dpbusd_epi32(sum, codes, q); }

#include "kernels/cpu/column_product.h"

float avx512_column_threshold(const struct column_map* map, const float* x, float share) {
	return find_threshold(map, x, share);
}

int avx512_column_keep(const struct column_map* map, struct column_range range, const float* x,
                       float threshold, const struct column_list* to) {
	const __m512 least = _mm512_set1_ps(threshold);
	const __m512i each = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
	int n = 0;
	for (int j = range.begin; j < range.end; j += 16) {
		const int left = range.end - j;
		const __mmask16 some = (__mmask16)(left < 16 ? (1u << left) - 1 : 0xffff);
		const __m512 v = _mm512_maskz_loadu_ps(some, x + j), size = _mm512_abs_ps(v);
		const __m512 norm = _mm512_castsi512_ps(
		    _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, map->norm + j)), 16));
		const __m512 peak = _mm512_castsi512_ps(_mm512_add_epi32(
		    _mm512_slli_epi32(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(some, map->peak + j)), 20),
		    _mm512_set1_epi32(COLUMN_LEAST_EXPONENT << 23)));
		const __mmask16 kept = _mm512_mask_cmp_ps_mask(some, _mm512_mul_ps(size, norm), least, _CMP_GT_OQ);
		const __m512i which = _mm512_maskz_compress_epi32(kept, _mm512_add_epi32(each, _mm512_set1_epi32(j)));
		_mm256_storeu_si256((void*)(to->channel + n), _mm512_cvtepi32_epi16(which));
		_mm512_storeu_ps(to->value + n, _mm512_maskz_compress_ps(kept, v));
		_mm512_storeu_ps(to->size + n, _mm512_maskz_compress_ps(kept, _mm512_mul_ps(size, peak)));
		n += __builtin_popcount(kept);
	}
	return n;
}

COLUMN_FUNCTIONS(avx512)
#endif
