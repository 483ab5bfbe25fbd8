/* Activations to int8 blocks, AVX2; the same bytes as the plain way. */
#include "kernels/cpu/matmul.h"

#if defined(__AVX2__)
#include <immintrin.h>
#include <math.h>

static float largest_lane(__m256 v) {
	const __m128 a = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
	const __m128 b = _mm_max_ps(a, _mm_movehl_ps(a, a));
	return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

/* max |x|, or NaN when a value is not finite */
static float largest_of(const float* x, int n) {
	const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
	__m256 largest = _mm256_setzero_ps(), finite = _mm256_castsi256_ps(_mm256_set1_epi32(-1));
	for (int i = 0; i < n; i += 8) {
		const __m256 a = _mm256_and_ps(_mm256_loadu_ps(x + i), magnitude);
		largest = _mm256_max_ps(largest, a);
		finite = _mm256_and_ps(finite, _mm256_cmp_ps(a, _mm256_set1_ps(INFINITY), _CMP_LT_OQ));
	}
	return _mm256_movemask_ps(finite) == 0xff ? largest_lane(largest) : NAN;
}

/* q (32) */
static void quantize_32(const float* x, int8_t* q, float inverse) {
	const __m256 scale = _mm256_set1_ps(inverse);
	const __m256i a = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), scale));
	const __m256i b = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8), scale));
	const __m256i c = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 16), scale));
	const __m256i d = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 24), scale));
	const __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
	const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7); /* packing goes by halves */
	_mm256_storeu_si256((void*)q, _mm256_permutevar8x32_epi32(bytes, order));
}

/* q (n), returns d; NaN when a value is not finite, 0 when all are zero or too small to divide by */
static float quantize(const float* x, int8_t* q, int n) {
	const float largest = largest_of(x, n), inverse = 127.0f / largest;
	if (!isfinite(inverse)) {
		memset(q, 0, (size_t)n);
		return isnan(largest) ? fabsf(largest) : 0;
	}
	for (int i = 0; i < n; i += 32)
		quantize_32(x + i, q + i, inverse);
	return largest / 127.0f;
}

/* Sums of 16 bytes each, at both halves' lane 0 and 4 of a vector of 32-bit integers */
static __m256i sums_of_16(const int8_t* q) {
	const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), _mm256_loadu_si256((const void*)q));
	__m256i sum = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
	sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32(sum, 0x4e));
	return _mm256_add_epi32(sum, _mm256_shuffle_epi32(sum, 0xb1));
}

static void prepare_small(enum dtype weight, uint8_t* out, const float* x, int cols) {
	const struct prepared layout = prepared_layout(weight, cols);
	const int bias = dtype_bias(weight);
	for (int b = 0; b < cols / 32; b++) {
		int8_t* q = (int8_t*)out + b * 32;
		const float d = quantize(x + b * 32, q, 32);
		const __m256i halves = sums_of_16(q);
		const int32_t sum = _mm256_extract_epi32(halves, 0) + _mm256_extract_epi32(halves, 4);
		const int32_t correction = -bias * sum;
		const float min_factor = d * (float)sum;
		memcpy(out + layout.d + (size_t)b * 4, &d, 4);
		memcpy(out + layout.sums + (size_t)b * 4,
		       dtype_has_min(weight) ? (const void*)&min_factor : (const void*)&correction, 4);
	}
}

/* -offset times the sums of two groups of 16, and of their columns 0, 1 mod 4 and 2, 3 mod 4 */
static void prepare_starts(uint8_t* out, const struct prepared* layout, int b, int offset, const int8_t* q,
                           const int32_t sums[2]) {
	__m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), _mm256_loadu_si256((const void*)q));
	pairs = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0x4e));
	pairs = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0xb1));
	pairs = _mm256_mullo_epi16(pairs, _mm256_set1_epi16((short)-offset));
	const int32_t halves[2] = {_mm256_extract_epi32(pairs, 0), _mm256_extract_epi32(pairs, 4)};
	const int32_t starts[2] = {-offset * sums[0], -offset * sums[1]};
	memcpy(out + layout->sums + (size_t)b * 8, halves, 8);
	memcpy(out + layout->starts + (size_t)b * 8, starts, 8);
}

/* Behind the scales of blocks of 256: sums by groups */
static void prepare_groups(enum dtype weight, uint8_t* out, const struct prepared* layout, int cols) {
	const int offset = group_offset(weight);
	for (int b = 0; b < cols / 32; b++) {
		const int8_t* q = (const int8_t*)out + b * 32;
		const __m256i halves = sums_of_16(q);
		const int32_t sums[2] = {_mm256_extract_epi32(halves, 0), _mm256_extract_epi32(halves, 4)};
		const int16_t each[2] = {(int16_t)sums[0], (int16_t)sums[1]}, both = (int16_t)(sums[0] + sums[1]);
		if (offset)
			prepare_starts(out, layout, b, offset, q, sums);
		else if (group_of(weight) == 16)
			memcpy(out + layout->sums + (size_t)b * 4, each, 4);
		else
			memcpy(out + layout->sums + (size_t)b * 2, &both, 2);
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

/* Zeros where the layout has no element */
static void clear_gaps(const struct prepared* layout, uint8_t* out, enum dtype weight, size_t cols) {
	const size_t d = cols / (size_t)activation_block(weight) * 4, sums = sums_bytes(weight, (int64_t)cols);
	const size_t starts = group_offset(weight) ? cols / 16 * 4 : 0;
	memset(out + cols, 0, layout->d - cols);
	memset(out + layout->d + d, 0, layout->sums - layout->d - d);
	memset(out + layout->sums + sums, 0, layout->starts - layout->sums - sums);
	memset(out + layout->starts + starts, 0, layout->bytes - layout->starts - starts);
}

size_t avx2_prepared_bytes(enum dtype weight, int cols) { return reference_prepared_bytes(weight, cols); }

void avx2_prepare(enum dtype weight, void* out, const float* x, int cols) {
	if (dtype_takes_floats(weight)) {
		reference_prepare(weight, out, x, cols);
		return;
	}
	const struct prepared layout = prepared_layout(weight, cols);
	if (activation_block(weight) == BLOCK_SMALL)
		prepare_small(weight, out, x, cols);
	else
		prepare_super(weight, out, x, cols);
	clear_gaps(&layout, out, weight, (size_t)cols);
}
#endif
