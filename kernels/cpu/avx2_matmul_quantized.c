/* Products with quantized weights, AVX2.
 *
 * Blocks of 32 are taken apart into signed bytes, their offset already off: the product of bytes wants
 * one side unsigned, so the weight's sign goes over to the activation. */
#include "kernels/cpu/matmul.h"

#if defined(__AVX2__)
#include "kernels/cpu/lane_sums.h"

enum { Q_LANES = 8, Q_ROWS = 2, Q_N = 3 };

#include "kernels/cpu/matmul_quantized.h"

/* ---- taking weights apart -------------------------------------------------------------------- */

INLINED float half_at(const uint8_t* p) { return _cvtsh_ss(load_u16(p)); }

INLINED __m128i load_128(const void* p) { return _mm_loadu_si128(p); }
INLINED __m256i load_256(const void* p) { return _mm256_loadu_si256(p); }
INLINED void store_256(void* p, __m256i v) { _mm256_storeu_si256(p, v); }

/* 16 bytes of nibbles as 32 bytes */
INLINED __m256i nibbles(const uint8_t* p) {
	const __m128i q = load_128(p);
	return _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(q, 4), q), _mm256_set1_epi8(15));
}

/* `what` in byte j where bit j of 32 is set */
INLINED __m256i where_set(const uint8_t* bits, int what) {
	int all;
	memcpy(&all, bits, 4);
	const __m256i spread = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
	const __m256i bit = _mm256_set1_epi64x((long long)0x8040201008040201);
	const __m256i mine = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(all), spread), bit);
	return _mm256_and_si256(_mm256_cmpeq_epi8(mine, bit), _mm256_set1_epi8((char)what));
}

INLINED __m256i iq4_lookup(__m256i index) {
	return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load_128(iq4_values)), index);
}

/* The signed integers of a block of 32 */
INLINED __m256i small_block(enum dtype type, const uint8_t* w) {
	switch (type) {
	case DTYPE_Q8_0:
		return load_256(w + 2);
	case DTYPE_Q4_0:
		return _mm256_sub_epi8(nibbles(w + 2), _mm256_set1_epi8(8));
	case DTYPE_Q4_1:
		return nibbles(w + 4);
	case DTYPE_Q5_0:
		return _mm256_sub_epi8(_mm256_or_si256(nibbles(w + 6), where_set(w + 2, 16)), _mm256_set1_epi8(16));
	case DTYPE_Q5_1:
		return _mm256_or_si256(nibbles(w + 8), where_set(w + 4, 16));
	default:
		return iq4_lookup(nibbles(w + 2));
	}
}

INLINED void decode_small(enum dtype type, struct decoded* out, int r, const uint8_t* w, int64_t columns,
                          const uint8_t* next) {
	const size_t bytes = dtype_bytes_of(type);
	for (int64_t b = 0; b < columns / 32; b++, w += bytes, next += bytes) {
		_mm_prefetch((const char*)next, _MM_HINT_T1);
		store_256(out->q[r] + b * 32, small_block(type, w));
		out->d[r][b] = half_at(w);
		if (dtype_has_min(type))
			out->m[r][b] = half_at(w + 2);
	}
}

INLINED void decode_iq4_xs(struct decoded* out, int r, int b, const struct block_iq4_xs* w) {
	const float d = half_at(w->d);
	for (int j = 0; j < 8; j++) {
		store_256(out->q[r] + b * 256 + j * 32, iq4_lookup(nibbles(w->q + j * 16)));
		out->d[r][b * 8 + j] = d * (float)iq4_scale(j, w);
	}
}

/* Sixteen bytes as scales or minima */
INLINED void store_groups(int16_t* out, __m128i bytes) { store_256(out, _mm256_cvtepu8_epi16(bytes)); }

INLINED void decode_k4_scales(struct decoded* out, int r, int b, const uint8_t* packed) {
	uint64_t scales, minima;
	k4_scales_minima(packed, &scales, &minima);
	const __m128i s = _mm_cvtsi64_si128((long long)scales), m = _mm_cvtsi64_si128((long long)minima);
	store_groups(out->scale[r] + b * 16, _mm_unpacklo_epi8(s, s));
	store_groups(out->minus[r] + b * 16, _mm_unpacklo_epi8(m, m));
}

INLINED void decode_min(struct decoded* out, int r, int b, const uint8_t* d, const uint8_t* dmin) {
	out->d[r][b] = half_at(d);
	out->m[r][b] = -half_at(dmin);
}

INLINED __m256i bits_of(__m256i v, int shift, int mask) {
	return _mm256_and_si256(_mm256_srli_epi16(v, shift), _mm256_set1_epi8((char)mask));
}

/* `what` where bit `bit` of each byte is set */
INLINED __m256i where_bit(__m256i v, int bit, int what) {
	const __m256i mask = _mm256_set1_epi8((char)(1 << bit));
	return _mm256_and_si256(_mm256_cmpeq_epi8(_mm256_and_si256(v, mask), mask), _mm256_set1_epi8((char)what));
}

INLINED void decode_q4_k(struct decoded* out, int r, int b, const struct block_q4_k* w) {
	decode_min(out, r, b, w->d, w->dmin);
	decode_k4_scales(out, r, b, w->scales);
	UNROLLED for (int s = 0; s < 8; s++)
	    store_256(out->q[r] + b * 256 + s * 32, bits_of(load_256(w->q + s / 2 * 32), s % 2 * 4, 15));
}

INLINED void decode_q5_k(struct decoded* out, int r, int b, const struct block_q5_k* w) {
	decode_min(out, r, b, w->d, w->dmin);
	decode_k4_scales(out, r, b, w->scales);
	const __m256i high = load_256(w->high);
	UNROLLED for (int s = 0; s < 8; s++) {
		const __m256i low = bits_of(load_256(w->q + s / 2 * 32), s % 2 * 4, 15);
		store_256(out->q[r] + b * 256 + s * 32, _mm256_or_si256(low, where_bit(high, s, 16)));
	}
}

INLINED void decode_q2_k(struct decoded* out, int r, int b, const struct block_q2_k* w) {
	decode_min(out, r, b, w->d, w->dmin);
	const __m128i packed = load_128(w->scales), four = _mm_set1_epi8(15);
	store_groups(out->scale[r] + b * 16, _mm_and_si128(packed, four));
	store_groups(out->minus[r] + b * 16, _mm_and_si128(_mm_srli_epi16(packed, 4), four));
	UNROLLED for (int s = 0; s < 8; s++)
	    store_256(out->q[r] + b * 256 + s * 32, bits_of(load_256(w->q + s / 4 * 32), s % 4 * 2, 3));
}

/* Signed scales, and their products with the offset */
INLINED void store_scales(struct decoded* out, int r, int b, __m256i scale, int offset) {
	store_256(out->scale[r] + b * 16, scale);
	store_256(out->minus[r] + b * 16, _mm256_mullo_epi16(scale, _mm256_set1_epi16((short)-offset)));
}

INLINED void decode_q3_k(struct decoded* out, int r, int b, const struct block_q3_k* w) {
	out->d[r][b] = half_at(w->d);
	uint64_t first, last;
	q3_scales(w->scales, &first, &last);
	const __m256i scale = _mm256_cvtepu8_epi16(_mm_set_epi64x((long long)last, (long long)first));
	store_scales(out, r, b, _mm256_sub_epi16(scale, _mm256_set1_epi16(32)), 4);
	const __m256i third = load_256(w->high);
	UNROLLED for (int s = 0; s < 8; s++) {
		const __m256i two_bits = bits_of(load_256(w->q + s / 4 * 32), s % 4 * 2, 3);
		store_256(out->q[r] + b * 256 + s * 32, _mm256_or_si256(two_bits, where_bit(third, s, 4)));
	}
}

INLINED void decode_q6_k(struct decoded* out, int r, int b, const struct block_q6_k* w) {
	out->d[r][b] = half_at(w->d);
	store_scales(out, r, b, _mm256_cvtepi8_epi16(load_128(w->scales)), 32);
	UNROLLED for (int s = 0; s < 8; s++) {
		const __m256i low = bits_of(load_256(w->low + s / 4 * 64 + s % 2 * 32), s % 4 / 2 * 4, 15);
		const __m256i high = bits_of(load_256(w->high + s / 4 * 32), s % 4 * 2, 3);
		store_256(out->q[r] + b * 256 + s * 32, _mm256_or_si256(low, _mm256_slli_epi16(high, 4)));
	}
}

INLINED void decode_row(enum dtype type, struct decoded* out, int r, const uint8_t* w, int64_t columns,
                        const uint8_t* next) {
	if (small_blocks(type)) {
		decode_small(type, out, r, w, columns, next);
		return;
	}
	const size_t bytes = dtype_bytes_of(type);
	for (int b = 0; b < (int)(columns / 256); b++, w += bytes, next += bytes) {
		UNROLLED for (size_t line = 0; line < bytes; line += 64)
		    _mm_prefetch((const char*)next + line, _MM_HINT_T1);
		if (type == DTYPE_Q2_K)
			decode_q2_k(out, r, b, (const void*)w);
		else if (type == DTYPE_Q3_K)
			decode_q3_k(out, r, b, (const void*)w);
		else if (type == DTYPE_Q4_K)
			decode_q4_k(out, r, b, (const void*)w);
		else if (type == DTYPE_Q5_K)
			decode_q5_k(out, r, b, (const void*)w);
		else if (type == DTYPE_Q6_K)
			decode_q6_k(out, r, b, (const void*)w);
		else
			decode_iq4_xs(out, r, b, (const void*)w);
	}
}

/* ---- products -------------------------------------------------------------------------------- */

INLINED __m256 broadcast_at(const void* p) {
	float x;
	memcpy(&x, p, 4);
	return _mm256_set1_ps(x);
}

/* In lane 0 alone */
INLINED __m256 once_at(const void* p) {
	float x;
	memcpy(&x, p, 4);
	return _mm256_zextps128_ps256(_mm_set_ss(x));
}

INLINED void small_run(bool minimum, int n, const struct run* run) {
	__m256 sum[Q_ROWS][Q_N];
	UNROLLED for (int r = 0; r < Q_ROWS; r++) UNROLLED for (int i = 0; i < n; i++) sum[r][i] =
	    run->first ? _mm256_setzero_ps() : _mm256_loadu_ps(run->out + (r * Q_N + i) * Q_LANES);
	const struct decoded* w = run->w;
	for (int64_t b = 0; b < run->columns / 32; b++)
		UNROLLED for (int r = 0; r < Q_ROWS; r++) {
			const __m256i wq = load_256(w->q[r] + b * 32), size = _mm256_abs_epi8(wq);
			const __m256 wd = _mm256_set1_ps(w->d[r][b]);
			UNROLLED for (int i = 0; i < n; i++) {
				const size_t row = (size_t)i * run->x_stride;
				const __m256i xq = _mm256_sign_epi8(load_256(run->q + row + b * 32), wq);
				const __m256i dot = _mm256_madd_epi16(_mm256_maddubs_epi16(size, xq), _mm256_set1_epi16(1));
				const __m256 d = _mm256_mul_ps(wd, broadcast_at(run->d + row + b * 4));
				sum[r][i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), d, sum[r][i]);
				if (minimum)
					sum[r][i] = _mm256_fmadd_ps(_mm256_set1_ps(w->m[r][b]), once_at(run->sums + row + b * 4),
					                            sum[r][i]);
			}
		}
	UNROLLED for (int r = 0; r < Q_ROWS; r++) UNROLLED for (int i = 0; i < n; i++)
	    _mm256_storeu_ps(run->out + (r * Q_N + i) * Q_LANES, sum[r][i]);
}

/* Scales of groups 2s and 2s + 1, each for its eight pairs */
INLINED __m256i scales_of(const int16_t* scale, int s) {
	return _mm256_set_m128i(_mm_set1_epi16(scale[2 * s + 1]), _mm_set1_epi16(scale[2 * s]));
}

/* Σ groups of sums · minus */
INLINED __m256i minus_product(const uint8_t* sums, const int16_t* minus) {
	return _mm256_madd_epi16(load_256(sums), load_256(minus));
}

INLINED void super_run(bool minimum, int n, const struct run* run) {
	__m256 sum[Q_ROWS][Q_N];
	UNROLLED for (int r = 0; r < Q_ROWS; r++) UNROLLED for (int i = 0; i < n; i++) sum[r][i] =
	    run->first ? _mm256_setzero_ps() : _mm256_loadu_ps(run->out + (r * Q_N + i) * Q_LANES);
	const struct decoded* w = run->w;
	for (int64_t b = 0; b < run->columns / 256; b++)
		UNROLLED for (int r = 0; r < Q_ROWS; r++) {
			const int16_t* minus = w->minus[r] + b * 16;
			__m256i dot[Q_N];
			UNROLLED for (int i = 0; i < n; i++) dot[i] =
			    minimum ? _mm256_setzero_si256()
			            : minus_product(run->sums + (size_t)i * run->x_stride + b * 32, minus);
			UNROLLED for (int s = 0; s < 8; s++) {
				const __m256i wq = load_256(w->q[r] + b * 256 + s * 32);
				const __m256i scale = scales_of(w->scale[r] + b * 16, s);
				UNROLLED for (int i = 0; i < n; i++) {
					const __m256i xq = load_256(run->q + (size_t)i * run->x_stride + b * 256 + s * 32);
					const __m256i product = _mm256_madd_epi16(_mm256_maddubs_epi16(wq, xq), scale);
					dot[i] = _mm256_add_epi32(dot[i], product);
				}
			}
			UNROLLED for (int i = 0; i < n; i++) {
				const __m256 xd = broadcast_at(run->d + (size_t)i * run->x_stride + b * 4);
				__m256 product = _mm256_mul_ps(_mm256_set1_ps(w->d[r][b]), _mm256_cvtepi32_ps(dot[i]));
				if (minimum) {
					const __m256i rest = minus_product(run->sums + (size_t)i * run->x_stride + b * 32, minus);
					product = _mm256_fmadd_ps(_mm256_set1_ps(w->m[r][b]), _mm256_cvtepi32_ps(rest), product);
				}
				sum[r][i] = _mm256_fmadd_ps(xd, product, sum[r][i]);
			}
		}
	UNROLLED for (int r = 0; r < Q_ROWS; r++) UNROLLED for (int i = 0; i < n; i++)
	    _mm256_storeu_ps(run->out + (r * Q_N + i) * Q_LANES, sum[r][i]);
}

#define RUNS(name, function, minimum)                                                                        \
	static void name(int n, const struct run* run) {                                                         \
		if (n == 1)                                                                                          \
			function(minimum, 1, run);                                                                       \
		else if (n == 2)                                                                                     \
			function(minimum, 2, run);                                                                       \
		else                                                                                                 \
			function(minimum, 3, run);                                                                       \
	}

RUNS(small_offset_run, small_run, false)
RUNS(small_min_run, small_run, true)
RUNS(super_offset_run, super_run, false)
RUNS(super_min_run, super_run, true)

static void quantized_run(enum kind kind, int n, const struct run* run) {
	if (kind == SMALL_OFFSET)
		small_offset_run(n, run);
	else if (kind == SMALL_MIN)
		small_min_run(n, run);
	else if (kind == SUPER_OFFSET)
		super_offset_run(n, run);
	else
		super_min_run(n, run);
}

static void lane_sums(const float* lanes, float* out) {
	lane_sums_256(_mm256_loadu_ps(lanes), _mm256_loadu_ps(lanes + Q_N * Q_LANES), out);
}

void avx2_quantized_matmul(float* out, size_t out_stride, const struct tensor* w, int64_t begin, int64_t end,
                           const void* x, int n) {
	quantized_matmul(out, out_stride, w, begin, end, x, n);
}
#endif
