/* Products of one or two activation rows with quantized weights, AVX2.
 *
 * Weights that are used once or twice are not worth turning round: each weight row is read from end to end
 * and multiplied where it is taken apart, for the second activation row once more, from the cache. A block's
 * integers are added up across lanes, exactly, and meet the float sums of avx2_matmul_quantized.c in its
 * order: a lane a sum. */
#include "kernels/cpu/matmul.h"

#if defined(__AVX2__)
#include <immintrin.h>

#include "kernels/cpu/quantized_blocks.h"

enum { FEW = 2 };

INLINED __m128i load_128(const void* p) { return _mm_loadu_si128(p); }
INLINED __m256i load_256(const void* p) { return _mm256_loadu_si256(p); }

/* Lane j is the sum of the lanes of vectors j and, in the upper half, j + 4. */
INLINED __m256i sums_of(const __m256i v[8]) {
	const __m256i a = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
	const __m256i b = _mm256_hadd_epi32(_mm256_hadd_epi32(v[4], v[5]), _mm256_hadd_epi32(v[6], v[7]));
	return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}

INLINED __m128i four_sums_of(const __m256i v[4]) {
	const __m256i a = _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
	return _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
}

INLINED float lanes_added(__m128 v) {
	const __m128 two = _mm_add_ps(v, _mm_movehl_ps(v, v));
	return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* ---- blocks of 32 ---------------------------------------------------------------------------- */

enum { CHUNK = 8 }; /* blocks of 32 at a time */

/* Eight sums of a block's integers times 32 columns */
INLINED __m256i small_dot(enum dtype type, const uint8_t* w, const uint8_t* q) {
	const __m256i x = load_256(q), ones = _mm256_set1_epi16(1);
	if (type == DTYPE_Q8_0) {
		const __m256i wq = load_256(w + 2);
		return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(wq), _mm256_sign_epi8(x, wq)), ones);
	}
	const __m128i packed = load_128(w + 2);
	const __m256i nibbles = _mm256_set_m128i(_mm_srli_epi16(packed, 4), packed);
	return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_and_si256(nibbles, _mm256_set1_epi8(15)), x), ones);
}

/* Sums after `count` blocks at w, at most CHUNK, times the columns at q, their d and what stands behind */
INLINED __m256 small_chunk(enum dtype type, int count, __m256 sum, const uint8_t* w, const uint8_t* q,
                           const uint8_t* d, const uint8_t* behind) {
	const size_t bytes = dtype_bytes_of(type);
	const __m256i present =
	    _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
	uint16_t head[CHUNK] = {0};
	__m256i dot[CHUNK];
	UNROLLED for (int b = 0; b < CHUNK; b++) {
		dot[b] = _mm256_setzero_si256();
		if (b >= count)
			continue;
		head[b] = load_u16(w + (size_t)b * bytes);
		dot[b] = small_dot(type, w + (size_t)b * bytes, q + b * 32);
	}
	const __m128i heads = _mm_setr_epi16((short)head[0], (short)head[1], (short)head[2], (short)head[3],
	                                     (short)head[4], (short)head[5], (short)head[6], (short)head[7]);
	__m256i whole = sums_of(dot);
	if (type == DTYPE_Q4_0)
		whole = _mm256_add_epi32(whole, _mm256_maskload_epi32((const int*)(const void*)behind, present));
	const __m256 xd = _mm256_maskload_ps((const float*)(const void*)d, present);
	const __m256 more =
	    _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole), _mm256_mul_ps(_mm256_cvtph_ps(heads), xd), sum);
	return _mm256_blendv_ps(sum, more, _mm256_castsi256_ps(present));
}

INLINED float small_row(enum dtype type, const uint8_t* w, int64_t cols, const uint8_t* x,
                        const struct prepared* layout) {
	const size_t bytes = dtype_bytes_of(type) * CHUNK;
	const uint8_t *q = x, *d = x + layout->d, *behind = x + layout->sums;
	__m256 sum = _mm256_setzero_ps();
	int64_t left = cols / 32;
	for (; left >= CHUNK; left -= CHUNK, w += bytes, q += CHUNK * 32, d += CHUNK * 4, behind += CHUNK * 4)
		sum = small_chunk(type, CHUNK, sum, w, q, d, behind);
	if (left)
		sum = small_chunk(type, (int)left, sum, w, q, d, behind);
	return lanes_added(_mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1)));
}

/* ---- blocks of 256 --------------------------------------------------------------------------- */

INLINED __m256i bits_of(__m256i v, int shift, int mask) {
	return _mm256_and_si256(_mm256_srli_epi16(v, shift), _mm256_set1_epi8((char)mask));
}

/* 16-bit number g of each half, in all of that half */
INLINED __m256i one_of(__m256i v, int g) {
	return _mm256_shuffle_epi8(v, _mm256_set1_epi16((short)(2 * g | (2 * g + 1) << 8)));
}

INLINED __m256i scaled(__m256i w, const uint8_t* q, __m256i scale) {
	return _mm256_madd_epi16(_mm256_maddubs_epi16(w, load_256(q)), scale);
}

/* A block of q4_k or q5_k; its minima, a byte each */
INLINED __m256i k4_dot(enum dtype type, const uint8_t* w, const uint8_t* q, uint64_t* minima) {
	uint64_t scales;
	k4_scales_minima(w + 4, &scales, minima);
	const __m256i scale =
	    _mm256_broadcastsi128_si256(_mm_cvtepu8_epi16(_mm_cvtsi64_si128((long long)scales)));
	const __m256i high = load_256(w + 16);
	const uint8_t* packed = w + (type == DTYPE_Q5_K ? 48 : 16);
	__m256i dot = _mm256_setzero_si256();
	UNROLLED for (int g = 0; g < 8; g++) {
		__m256i v = bits_of(load_256(packed + g / 2 * 32), g % 2 * 4, 15);
		if (type == DTYPE_Q5_K)
			v = _mm256_or_si256(v, _mm256_slli_epi16(bits_of(high, g, 1), 4));
		dot = _mm256_add_epi32(dot, scaled(v, q + g * 32, one_of(scale, g)));
	}
	return dot;
}

INLINED __m256i q6_k_dot(const uint8_t* w, const uint8_t* q, const uint8_t* starts) {
	const __m128i bytes = load_128(w + 192);
	const __m256i first = _mm256_mullo_epi32(_mm256_cvtepi8_epi32(bytes), load_256(starts));
	const __m256i last =
	    _mm256_mullo_epi32(_mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8)), load_256(starts + 32));
	__m256i dot = _mm256_add_epi32(first, last);
	const __m128i spread = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
	/* even groups in the lower half, odd ones in the upper */
	const __m256i scale = _mm256_cvtepi8_epi16(_mm_shuffle_epi8(bytes, spread));
	UNROLLED for (int s = 0; s < 8; s++) {
		const __m256i low = bits_of(load_256(w + s / 4 * 64 + s % 2 * 32), s % 4 / 2 * 4, 15);
		const __m256i two = bits_of(load_256(w + 128 + s / 4 * 32), s % 4 * 2, 3);
		const __m256i v = _mm256_or_si256(low, _mm256_slli_epi16(two, 4));
		dot = _mm256_add_epi32(dot, scaled(v, q + s * 32, one_of(scale, s)));
	}
	return dot;
}

INLINED __m128 four_halves(const uint16_t v[4]) {
	return _mm_cvtph_ps(_mm_setr_epi16((short)v[0], (short)v[1], (short)v[2], (short)v[3], 0, 0, 0, 0));
}

/* Sums after `count` blocks at w, at most four, times the columns from block b on */
INLINED __m128 super_chunk(enum dtype type, int count, __m128 sum, const uint8_t* w, int64_t b,
                           const uint8_t* x, const struct prepared* layout) {
	const __m128i present = _mm_cmpgt_epi32(_mm_set1_epi32(count), _mm_setr_epi32(0, 1, 2, 3));
	uint16_t head[4] = {0}, head_min[4] = {0};
	__m256i dot[4];
	__m128i less[4];
	UNROLLED for (int j = 0; j < 4; j++, w += dtype_bytes_of(type)) {
		dot[j] = _mm256_setzero_si256();
		less[j] = _mm_setzero_si128();
		if (j >= count)
			continue;
		if (type == DTYPE_Q6_K) {
			dot[j] = q6_k_dot(w, x + (b + j) * 256, x + layout->starts + (b + j) * 64);
			head[j] = load_u16(w + 208);
			continue;
		}
		uint64_t minima;
		dot[j] = k4_dot(type, w, x + (b + j) * 256, &minima);
		less[j] = _mm_madd_epi16(_mm_cvtepu8_epi16(_mm_cvtsi64_si128((long long)minima)),
		                         load_128(x + layout->sums + (b + j) * 16));
		head[j] = load_u16(w);
		head_min[j] = load_u16(w + 2);
	}
	__m128 product = _mm_mul_ps(four_halves(head), _mm_cvtepi32_ps(four_sums_of(dot)));
	if (type != DTYPE_Q6_K) {
		const __m128i all =
		    _mm_hadd_epi32(_mm_hadd_epi32(less[0], less[1]), _mm_hadd_epi32(less[2], less[3]));
		product = _mm_fnmadd_ps(four_halves(head_min), _mm_cvtepi32_ps(all), product);
	}
	const __m128 d = _mm_maskload_ps((const float*)(const void*)(x + layout->d + b * 4), present);
	return _mm_blendv_ps(sum, _mm_fmadd_ps(d, product, sum), _mm_castsi128_ps(present));
}

INLINED float super_row(enum dtype type, const uint8_t* w, int64_t cols, const uint8_t* x,
                        const struct prepared* layout) {
	const size_t bytes = dtype_bytes_of(type) * 4;
	__m128 sum = _mm_setzero_ps();
	int64_t b = 0;
	for (; b + 4 <= cols / 256; b += 4, w += bytes)
		sum = super_chunk(type, 4, sum, w, b, x, layout);
	if (b < cols / 256)
		sum = super_chunk(type, (int)(cols / 256 - b), sum, w, b, x, layout);
	return lanes_added(sum);
}

/* ---- rows ------------------------------------------------------------------------------------ */

INLINED void each_row(enum dtype type, const struct tensor* w, int64_t begin, int64_t end, const uint8_t* x,
                      int n, float* out, size_t out_stride) {
	const struct prepared layout = prepared_layout(type, (int)w->cols);
	const size_t row_bytes = (size_t)(w->cols / (small_blocks(type) ? 32 : 256)) * dtype_bytes_of(type);
	for (int64_t r = begin; r < end; r++) {
		const uint8_t* row = (const uint8_t*)w->data + row_bytes * (size_t)r;
		for (int i = 0; i < n; i++) {
			const uint8_t* xi = x + (size_t)i * layout.bytes;
			out[(size_t)i * out_stride + (size_t)r] = small_blocks(type)
			                                              ? small_row(type, row, w->cols, xi, &layout)
			                                              : super_row(type, row, w->cols, xi, &layout);
		}
	}
}

bool avx2_quantized_few(float* out, size_t out_stride, const struct tensor* w, int64_t begin, int64_t end,
                        const uint8_t* x, int n) {
#define ROWS(type)                                                                                           \
	case type:                                                                                               \
		each_row(type, w, begin, end, x, n, out, out_stride);                                                \
		return true
	if (n > FEW)
		return false;
	switch (w->type) {
		ROWS(DTYPE_Q8_0);
		ROWS(DTYPE_Q4_0);
		ROWS(DTYPE_Q4_K);
		ROWS(DTYPE_Q5_K);
		ROWS(DTYPE_Q6_K);
	default:
		return false;
	}
#undef ROWS
}
#endif
