/* Products with quantized weights, AVX-512 with VNNI. */
#include "kernels/cpu/matmul.h"

#if defined(__AVX512VNNI__)
#include "kernels/cpu/lane_sums.h"

enum { Q_LANES = 16, Q_ROWS = 4, Q_N = 4 };
enum { STREAM_N = 8 }; /* as many activation rows meet weights that are not stored in between */

#include "kernels/cpu/matmul_quantized.h"

/* ---- taking weights apart -------------------------------------------------------------------- */

INLINED float half_at(const uint8_t* p) { return _cvtsh_ss(load_u16(p)); }

INLINED __m128i load_128(const void* p) { return _mm_loadu_si128(p); }
INLINED __m256i load_256(const void* p) { return _mm256_loadu_si256(p); }

/* Shifts every 32 bytes' half by its own count and keeps `mask` of each byte. */
INLINED __m512i bits_of(__m512i v, int low, int high, int mask) {
	const __m512i shift =
	    _mm512_inserti64x4(_mm512_set1_epi16((short)low), _mm256_set1_epi16((short)high), 1);
	return _mm512_and_si512(_mm512_srlv_epi16(v, shift), _mm512_set1_epi8((char)mask));
}

/* Two blocks' 16 bytes of nibbles as 64 bytes */
INLINED __m512i nibbles(const uint8_t* a, const uint8_t* b) {
	const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_broadcastsi128_si256(load_128(a))),
	                                        _mm256_broadcastsi128_si256(load_128(b)), 1);
	const __m512i shift = _mm512_set_epi64(0x0004000400040004, 0x0004000400040004, 0, 0, 0x0004000400040004,
	                                       0x0004000400040004, 0, 0);
	return _mm512_and_si512(_mm512_srlv_epi16(both, shift), _mm512_set1_epi8(15));
}

INLINED __m512i add_where(__m512i v, uint64_t where, int what) {
	return _mm512_mask_add_epi8(v, where, v, _mm512_set1_epi8((char)what));
}

/* iq4_values + 128 */
INLINED __m512i iq4_lookup(__m512i index) {
	const __m128i values = _mm_xor_si128(load_128(iq4_values), _mm_set1_epi8((char)0x80));
	return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(values), index);
}

/* The integers of two blocks of 32 */
INLINED __m512i small_pair(enum dtype type, const uint8_t* a, const uint8_t* b) {
	switch (type) {
	case DTYPE_Q8_0:
		return _mm512_xor_si512(
		    _mm512_inserti64x4(_mm512_castsi256_si512(load_256(a + 2)), load_256(b + 2), 1),
		    _mm512_set1_epi8((char)0x80));
	case DTYPE_Q4_0:
		return nibbles(a + 2, b + 2);
	case DTYPE_Q4_1:
		return nibbles(a + 4, b + 4);
	case DTYPE_Q5_0:
		return add_where(nibbles(a + 6, b + 6), load_u32(a + 2) | (uint64_t)load_u32(b + 2) << 32, 16);
	case DTYPE_Q5_1:
		return add_where(nibbles(a + 8, b + 8), load_u32(a + 4) | (uint64_t)load_u32(b + 4) << 32, 16);
	default:
		return iq4_lookup(nibbles(a + 2, b + 2));
	}
}

/* Stands for a block behind the last one. */
static const uint8_t zeros[sizeof(struct block_q8_0)];

INLINED void decode_small(enum dtype type, struct decoded* out, int r, const uint8_t* w, int64_t columns,
                          const uint8_t* next) {
	const size_t bytes = dtype_bytes_of(type);
	for (int64_t b = 0; b < columns / 32; b += 2) {
		const uint8_t* first = w + (size_t)b * bytes;
		const uint8_t* second = b + 1 < columns / 32 ? first + bytes : zeros;
		_mm_prefetch((const char*)next + (size_t)b * bytes, _MM_HINT_T1);
		if (2 * bytes > 64)
			_mm_prefetch((const char*)next + (size_t)b * bytes + 63, _MM_HINT_T1);
		_mm512_store_si512(out->q[r] + b * 32, small_pair(type, first, second));
		out->d[r][b] = half_at(first);
		out->d[r][b + 1] = half_at(second);
		if (dtype_has_min(type)) {
			out->m[r][b] = half_at(first + 2);
			out->m[r][b + 1] = half_at(second + 2);
		}
	}
}

INLINED void decode_iq4_xs(struct decoded* out, int r, int b, const struct block_iq4_xs* w) {
	UNROLLED for (int j = 0; j < 4; j++) _mm512_store_si512(
	    out->q[r] + b * 256 + j * 64, iq4_lookup(nibbles(w->q + j * 32, w->q + j * 32 + 16)));
	/* eight scales: nibbles of four bytes, and two bits each of sixteen */
	const __m256i low = _mm256_srlv_epi32(_mm256_set1_epi32((int)load_u32(w->scales_low)),
	                                      _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
	const __m256i high = _mm256_srlv_epi32(_mm256_set1_epi32(load_u16(w->scales_high)),
	                                       _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14));
	const __m256i scale = _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(15)),
	                                      _mm256_slli_epi32(_mm256_and_si256(high, _mm256_set1_epi32(3)), 4));
	const __m256 factor = _mm256_cvtepi32_ps(_mm256_sub_epi32(scale, _mm256_set1_epi32(32)));
	_mm256_storeu_ps(out->d[r] + b * 8, _mm256_mul_ps(factor, _mm256_set1_ps(half_at(w->d))));
}

/* A block of 256 with groups of 16, taken apart: as struct decoded has it. */
struct super {
	__m512i q[4];
	__m256i scale, minus;
	float d, m;
};

INLINED void set_scales(struct super* out, __m128i scales, __m128i minima) {
	out->scale = _mm256_cvtepu8_epi16(scales);
	out->minus = _mm256_cvtepu8_epi16(minima);
}

/* The 6-bit scales and minima of q4_k and q5_k, each for two groups of 16 */
INLINED void set_k4_scales(struct super* out, const uint8_t* packed) {
	uint64_t scales, minima;
	k4_scales_minima(packed, &scales, &minima);
	const __m128i s = _mm_cvtsi64_si128((long long)scales), m = _mm_cvtsi64_si128((long long)minima);
	set_scales(out, _mm_unpacklo_epi8(s, s), _mm_unpacklo_epi8(m, m));
}

/* d and dmin of q4_k, q5_k (first in the block) and q2_k (last) */
INLINED void set_min(struct super* out, const uint8_t* d, const uint8_t* dmin) {
	out->d = half_at(d);
	out->m = -half_at(dmin);
}

INLINED void super_q4_k(struct super* out, const struct block_q4_k* w) {
	set_min(out, w->d, w->dmin);
	set_k4_scales(out, w->scales);
	UNROLLED for (int p = 0; p < 4; p++) out->q[p] =
	    bits_of(_mm512_broadcast_i64x4(load_256(w->q + p * 32)), 0, 4, 15);
}

/* Where 64 elements' bit `low` (first 32) or `low` + 1 (last 32) of `high` is set */
INLINED uint64_t high_bits(__m512i high, int low) {
	return _mm512_test_epi8_mask(
	    high, _mm512_inserti64x4(_mm512_set1_epi8((char)(1 << low)), _mm256_set1_epi8((char)(2 << low)), 1));
}

INLINED void super_q5_k(struct super* out, const struct block_q5_k* w) {
	set_min(out, w->d, w->dmin);
	set_k4_scales(out, w->scales);
	const __m512i high = _mm512_broadcast_i64x4(load_256(w->high));
	UNROLLED for (int p = 0; p < 4; p++) {
		const __m512i low = bits_of(_mm512_broadcast_i64x4(load_256(w->q + p * 32)), 0, 4, 15);
		out->q[p] = add_where(low, high_bits(high, 2 * p), 16);
	}
}

INLINED void super_q2_k(struct super* out, const struct block_q2_k* w) {
	set_min(out, w->d, w->dmin);
	const __m128i packed = load_128(w->scales), four = _mm_set1_epi8(15);
	set_scales(out, _mm_and_si128(packed, four), _mm_and_si128(_mm_srli_epi16(packed, 4), four));
	UNROLLED for (int p = 0; p < 4; p++) out->q[p] =
	    bits_of(_mm512_broadcast_i64x4(load_256(w->q + p / 2 * 32)), p % 2 * 4, p % 2 * 4 + 2, 3);
}

/* Signed scales, and their products with the offset */
INLINED void set_signed_scales(struct super* out, __m256i scale, int offset) {
	out->scale = scale;
	out->minus = _mm256_mullo_epi16(scale, _mm256_set1_epi16((short)-offset));
	out->m = 0;
}

INLINED void super_q3_k(struct super* out, const struct block_q3_k* w) {
	out->d = half_at(w->d);
	uint64_t first, last;
	q3_scales(w->scales, &first, &last);
	const __m256i scale = _mm256_cvtepu8_epi16(_mm_set_epi64x((long long)last, (long long)first));
	set_signed_scales(out, _mm256_sub_epi16(scale, _mm256_set1_epi16(32)), 4);
	const __m512i third = _mm512_broadcast_i64x4(load_256(w->high));
	UNROLLED for (int p = 0; p < 4; p++) {
		const __m512i q = _mm512_broadcast_i64x4(load_256(w->q + p / 2 * 32));
		const __m512i two_bits = bits_of(q, p % 2 * 4, p % 2 * 4 + 2, 3);
		out->q[p] = add_where(two_bits, high_bits(third, 2 * p), 4);
	}
}

INLINED void super_q6_k(struct super* out, const struct block_q6_k* w) {
	out->d = half_at(w->d);
	set_signed_scales(out, _mm256_cvtepi8_epi16(load_128(w->scales)), 32);
	UNROLLED for (int p = 0; p < 4; p++) {
		const __m512i low = _mm512_loadu_si512(w->low + p / 2 * 64);
		const __m512i high = _mm512_broadcast_i64x4(load_256(w->high + p / 2 * 32));
		const __m512i four = bits_of(low, p % 2 * 4, p % 2 * 4, 15);
		const __m512i two = bits_of(high, p % 2 * 4, p % 2 * 4 + 2, 3);
		out->q[p] = _mm512_or_si512(four, _mm512_slli_epi16(two, 4));
	}
}

INLINED void super_block(enum dtype type, struct super* out, const uint8_t* w) {
	if (type == DTYPE_Q2_K)
		super_q2_k(out, (const void*)w);
	else if (type == DTYPE_Q3_K)
		super_q3_k(out, (const void*)w);
	else if (type == DTYPE_Q4_K)
		super_q4_k(out, (const void*)w);
	else if (type == DTYPE_Q5_K)
		super_q5_k(out, (const void*)w);
	else
		super_q6_k(out, (const void*)w);
}

INLINED void decode_super(enum dtype type, struct decoded* out, int r, int b, const uint8_t* w) {
	struct super block;
	super_block(type, &block, w);
	UNROLLED for (int p = 0; p < 4; p++) _mm512_store_si512(out->q[r] + b * 256 + p * 64, block.q[p]);
	_mm256_storeu_si256((void*)(out->scale[r] + b * 16), block.scale);
	_mm256_storeu_si256((void*)(out->minus[r] + b * 16), block.minus);
	out->d[r][b] = block.d;
	out->m[r][b] = block.m;
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
		if (type != DTYPE_IQ4_XS)
			decode_super(type, out, r, b, w);
		else
			decode_iq4_xs(out, r, b, (const void*)w);
	}
}

/* ---- products -------------------------------------------------------------------------------- */

/* Two floats or integers, the first in lanes 0…7, the second in 8…15 */
INLINED __m512 pair(const void* p) {
	const __m512i both = _mm512_set1_epi64((long long)load_u64(p));
	const __m512i index = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
	return _mm512_castsi512_ps(_mm512_permutexvar_epi32(index, both));
}

/* The same, in one lane of each half, zeros elsewhere */
INLINED __m512i pair_once(const void* p) {
	return _mm512_maskz_mov_epi32(0x0201, _mm512_set1_epi64((long long)load_u64(p)));
}

INLINED void small_run(bool minimum, int n, const struct run* run) {
	__m512 sum[Q_ROWS][Q_N];
	UNROLLED for (int r = 0; r < Q_ROWS; r++) UNROLLED for (int i = 0; i < n; i++) sum[r][i] =
	    run->first ? _mm512_setzero_ps() : _mm512_loadu_ps(run->out + (r * Q_N + i) * Q_LANES);
	const struct decoded* w = run->w;
	for (int64_t s = 0; s < (run->columns + 63) / 64; s++) {
		__m512i xq[Q_N], xs[Q_N];
		__m512 xd[Q_N];
		UNROLLED for (int i = 0; i < n; i++) {
			const size_t row = (size_t)i * run->x_stride;
			xq[i] = _mm512_loadu_si512(run->q + row + s * 64);
			xd[i] = pair(run->d + row + s * 8);
			xs[i] = pair_once(run->sums + row + s * 8);
		}
		UNROLLED for (int r = 0; r < Q_ROWS; r++) {
			const __m512i wq = _mm512_load_si512(w->q[r] + s * 64);
			const __m512 wd = pair(w->d[r] + s * 2);
			const __m512 wm = minimum ? pair(w->m[r] + s * 2) : wd;
			UNROLLED for (int i = 0; i < n; i++) {
				const __m512i start = minimum ? _mm512_setzero_si512() : xs[i];
				const __m512 dot = _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(start, wq, xq[i]));
				sum[r][i] = _mm512_fmadd_ps(dot, _mm512_mul_ps(wd, xd[i]), sum[r][i]);
				if (minimum)
					sum[r][i] = _mm512_fmadd_ps(wm, _mm512_castsi512_ps(xs[i]), sum[r][i]);
			}
		}
	}
	UNROLLED for (int r = 0; r < Q_ROWS; r++) UNROLLED for (int i = 0; i < n; i++)
	    _mm512_storeu_ps(run->out + (r * Q_N + i) * Q_LANES, sum[r][i]);
}

INLINED __m512 broadcast_float(const void* p) {
	return _mm512_castsi512_ps(_mm512_set1_epi32((int)load_u32(p)));
}

/* Scales of the four groups of 64 elements p of a block, each for its eight pairs */
INLINED __m512i scales_of(__m256i scale, int p) {
	const __m512i all = _mm512_broadcast_i64x4(scale);
	const __m512i first = _mm512_set_epi64(0x0003000300030003, 0x0003000300030003, 0x0002000200020002,
	                                       0x0002000200020002, 0x0001000100010001, 0x0001000100010001, 0, 0);
	return _mm512_permutexvar_epi16(_mm512_add_epi16(first, _mm512_set1_epi16((short)(p * 4))), all);
}

/* Σ groups of sums · minus */
INLINED __m512i minus_product(const uint8_t* sums, __m256i minus) {
	return _mm512_zextsi256_si512(_mm256_madd_epi16(load_256(sums), minus));
}

/* sum (n) += a block of 256 times the activations' columns that stand at q, d and sums */
INLINED void super_product(bool minimum, int n, __m512* sum, const struct super* w, const uint8_t* q,
                           const uint8_t* d, const uint8_t* sums, size_t x_stride) {
	__m512i dot[STREAM_N];
	UNROLLED for (int i = 0; i < n; i++) dot[i] =
	    minimum ? _mm512_setzero_si512() : minus_product(sums + (size_t)i * x_stride, w->minus);
	UNROLLED for (int p = 0; p < 4; p++) {
		const __m512i scale = scales_of(w->scale, p);
		UNROLLED for (int i = 0; i < n; i++) {
			const __m512i xq = _mm512_loadu_si512(q + (size_t)i * x_stride + p * 64);
			dot[i] = _mm512_dpwssd_epi32(dot[i], _mm512_maddubs_epi16(w->q[p], xq), scale);
		}
	}
	const __m512 wd = _mm512_set1_ps(w->d), wm = _mm512_set1_ps(w->m);
	UNROLLED for (int i = 0; i < n; i++) {
		const __m512 xd = broadcast_float(d + (size_t)i * x_stride);
		__m512 product = _mm512_mul_ps(wd, _mm512_cvtepi32_ps(dot[i]));
		if (minimum) {
			const __m512i less = minus_product(sums + (size_t)i * x_stride, w->minus);
			product = _mm512_fmadd_ps(wm, _mm512_cvtepi32_ps(less), product);
		}
		sum[i] = _mm512_fmadd_ps(xd, product, sum[i]);
	}
}

INLINED void super_run(bool minimum, int n, const struct run* run) {
	__m512 sum[Q_ROWS][Q_N];
	UNROLLED for (int r = 0; r < Q_ROWS; r++) UNROLLED for (int i = 0; i < n; i++) sum[r][i] =
	    run->first ? _mm512_setzero_ps() : _mm512_loadu_ps(run->out + (r * Q_N + i) * Q_LANES);
	const struct decoded* w = run->w;
	for (int64_t b = 0; b < run->columns / 256; b++)
		UNROLLED for (int r = 0; r < Q_ROWS; r++) {
			struct super block = {.scale = load_256(w->scale[r] + b * 16),
			                      .minus = load_256(w->minus[r] + b * 16),
			                      .d = w->d[r][b],
			                      .m = w->m[r][b]};
			UNROLLED for (int p = 0; p < 4; p++) block.q[p] = _mm512_load_si512(w->q[r] + b * 256 + p * 64);
			super_product(minimum, n, sum[r], &block, (const uint8_t*)run->q + b * 256, run->d + b * 4,
			              run->sums + b * 32, run->x_stride);
		}
	UNROLLED for (int r = 0; r < Q_ROWS; r++) UNROLLED for (int i = 0; i < n; i++)
	    _mm512_storeu_ps(run->out + (r * Q_N + i) * Q_LANES, sum[r][i]);
}

#define RUNS(name, function, minimum)                                                                        \
	static void name(int n, const struct run* run) {                                                         \
		if (n == 1)                                                                                          \
			function(minimum, 1, run);                                                                       \
		else if (n == 2)                                                                                     \
			function(minimum, 2, run);                                                                       \
		else if (n == 3)                                                                                     \
			function(minimum, 3, run);                                                                       \
		else                                                                                                 \
			function(minimum, 4, run);                                                                       \
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
	__m512 row[Q_ROWS];
	UNROLLED for (int r = 0; r < Q_ROWS; r++) row[r] = _mm512_loadu_ps(lanes + r * Q_N * Q_LANES);
	lane_sums_512(row, out);
}

/* ---- few activation rows --------------------------------------------------------------------- */

/* Weights that are used once are multiplied where they are taken apart, in registers: the sums of small_run
 * and super_run, in their order. */
enum { STREAM_ROWS = 3, STREAM_AHEAD = 8 << 10 };
#define SIDE_BY_SIDE(n) ((n) < 3 ? 1 : 3)

/* Two half floats, the first in lanes 0…7 */
INLINED __m512 half_pair(const uint8_t* a, const uint8_t* b) {
	return _mm512_cvtph_ps(_mm256_inserti128_si256(_mm256_castsi128_si256(_mm_set1_epi16((short)load_u16(a))),
	                                               _mm_set1_epi16((short)load_u16(b)), 1));
}

/* sum (side, n) += two blocks of each of `side` weight rows times the activations' columns at q, d, sums */
INLINED void small_step(enum dtype type, int side, int n, __m512 sum[][STREAM_N], const uint8_t* first,
                        size_t row_bytes, const uint8_t* second, const uint8_t* q, const uint8_t* d,
                        const uint8_t* sums, size_t x_stride) {
	const bool minimum = dtype_has_min(type);
	__m512i wq[STREAM_ROWS];
	__m512 wd[STREAM_ROWS], wm[STREAM_ROWS];
	UNROLLED for (int r = 0; r < side; r++) {
		const uint8_t *one = first + (size_t)r * row_bytes,
		              *two = second ? second + (size_t)r * row_bytes : zeros;
		wq[r] = small_pair(type, one, two);
		wd[r] = half_pair(one, two);
		wm[r] = minimum ? half_pair(one + 2, two + 2) : wd[r];
	}
	UNROLLED for (int i = 0; i < n; i++) {
		const size_t row = (size_t)i * x_stride;
		const __m512i xs = pair_once(sums + row), start = minimum ? _mm512_setzero_si512() : xs;
		const __m512i xq = _mm512_loadu_si512(q + row);
		const __m512 xd = pair(d + row);
		UNROLLED for (int r = 0; r < side; r++) {
			const __m512 dot = _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(start, wq[r], xq));
			sum[r][i] = _mm512_fmadd_ps(dot, _mm512_mul_ps(wd[r], xd), sum[r][i]);
			if (minimum)
				sum[r][i] = _mm512_fmadd_ps(wm[r], _mm512_castsi512_ps(xs), sum[r][i]);
		}
	}
}

/* `side` weight rows at w, from end to end */
INLINED void small_group(enum dtype type, int side, int n, const uint8_t* w, int64_t cols, const uint8_t* x,
                         const struct prepared* layout, float* out, size_t out_stride) {
	const size_t bytes = dtype_bytes_of(type), row_bytes = (size_t)(cols / 32) * bytes;
	const uint8_t *q = x, *d = x + layout->d, *sums = x + layout->sums;
	__m512 sum[STREAM_ROWS][STREAM_N];
	UNROLLED for (int r = 0; r < side; r++) UNROLLED for (int i = 0; i < n; i++) sum[r][i] =
	    _mm512_setzero_ps();
	int64_t b = 0;
	for (; b + 2 <= cols / 32; b += 2, w += 2 * bytes, q += 64, d += 8, sums += 8) {
		UNROLLED for (int r = 0; r < side; r++)
		    _mm_prefetch((const char*)w + (size_t)r * row_bytes + STREAM_AHEAD, _MM_HINT_T1);
		small_step(type, side, n, sum, w, row_bytes, w + bytes, q, d, sums, layout->bytes);
	}
	if (b < cols / 32)
		small_step(type, side, n, sum, w, row_bytes, NULL, q, d, sums, layout->bytes);
	UNROLLED for (int r = 0; r < side; r++) UNROLLED for (int i = 0; i < n; i++)
	    out[(size_t)i * out_stride + (size_t)r] = lane_sum_512(sum[r][i]);
}

INLINED void small_rows(enum dtype type, int side, int n, const struct tensor* w, int64_t begin, int64_t end,
                        const uint8_t* x, float* out, size_t out_stride) {
	const size_t row_bytes = dtype_row_bytes(type, w->cols);
	const struct prepared layout = prepared_layout(type, (int)w->cols);
	const uint8_t* first = w->data;
	int64_t r = begin;
	if (side > 1)
		for (; r + side <= end; r += side)
			small_group(type, side, n, first + row_bytes * (size_t)r, w->cols, x, &layout, out + r,
			            out_stride);
	for (; r < end; r++)
		small_group(type, 1, n, first + row_bytes * (size_t)r, w->cols, x, &layout, out + r, out_stride);
}

INLINED void super_rows(enum dtype type, int n, const struct tensor* w, int64_t begin, int64_t end,
                        const uint8_t* x, float* out, size_t out_stride) {
	const bool minimum = kind_of(type) == SUPER_MIN;
	const size_t bytes = dtype_bytes_of(type);
	const struct prepared layout = prepared_layout(type, (int)w->cols);
	const uint8_t* at = (const uint8_t*)w->data + dtype_row_bytes(type, w->cols) * (size_t)begin;
	for (int64_t r = begin; r < end; r++) {
		__m512 sum[STREAM_N];
		UNROLLED for (int i = 0; i < n; i++) sum[i] = _mm512_setzero_ps();
		for (int64_t b = 0; b < w->cols / 256; b++, at += bytes) {
			UNROLLED for (size_t line = 0; line < bytes; line += 64)
			    _mm_prefetch((const char*)at + STREAM_AHEAD + line, _MM_HINT_T1);
			struct super block;
			super_block(type, &block, at);
			super_product(minimum, n, sum, &block, x + b * 256, x + layout.d + b * 4,
			              x + layout.sums + b * 32, layout.bytes);
		}
		UNROLLED for (int i = 0; i < n; i++) out[(size_t)i * out_stride + (size_t)r] = lane_sum_512(sum[i]);
	}
}

#define STREAM_CASE(type, n)                                                                                 \
	case n:                                                                                                  \
		if (small_blocks(type))                                                                              \
			small_rows(type, SIDE_BY_SIDE(n), n, w, begin, end, x, out, out_stride);                         \
		else                                                                                                 \
			super_rows(type, n, w, begin, end, x, out, out_stride);                                          \
		break;
#define STREAM(type)                                                                                         \
	static void stream_##type(int n, const struct tensor* w, int64_t begin, int64_t end, const uint8_t* x,   \
	                          float* out, size_t out_stride) {                                               \
		switch (n) {                                                                                         \
			STREAM_CASE(type, 1)                                                                             \
			STREAM_CASE(type, 2)                                                                             \
			STREAM_CASE(type, 3)                                                                             \
			STREAM_CASE(type, 4)                                                                             \
			STREAM_CASE(type, 5)                                                                             \
			STREAM_CASE(type, 6)                                                                             \
			STREAM_CASE(type, 7)                                                                             \
			STREAM_CASE(type, 8)                                                                             \
		}                                                                                                    \
	}

STREAM(DTYPE_Q8_0)
STREAM(DTYPE_Q4_0)
STREAM(DTYPE_Q4_1)
STREAM(DTYPE_Q5_0)
STREAM(DTYPE_Q5_1)
STREAM(DTYPE_Q2_K)
STREAM(DTYPE_Q3_K)
STREAM(DTYPE_Q4_K)
STREAM(DTYPE_Q5_K)
STREAM(DTYPE_Q6_K)
STREAM(DTYPE_IQ4_NL)

void avx512_quantized_matmul(float* out, size_t out_stride, const struct tensor* w, int64_t begin,
                             int64_t end, const void* x, int n) {
#define STREAMED(type)                                                                                       \
	case type:                                                                                               \
		stream_##type(n, w, begin, end, x, out, out_stride);                                                 \
		return
	/* seven rows of blocks of 256 are faster as four and three: measured, GCC 12 */
	if (n <= STREAM_N && (n != 7 || small_blocks(w->type)))
		switch (w->type) {
			STREAMED(DTYPE_Q8_0);
			STREAMED(DTYPE_Q4_0);
			STREAMED(DTYPE_Q4_1);
			STREAMED(DTYPE_Q5_0);
			STREAMED(DTYPE_Q5_1);
			STREAMED(DTYPE_Q2_K);
			STREAMED(DTYPE_Q3_K);
			STREAMED(DTYPE_Q4_K);
			STREAMED(DTYPE_Q5_K);
			STREAMED(DTYPE_Q6_K);
			STREAMED(DTYPE_IQ4_NL);
		default:
			break;
		}
#undef STREAMED
	quantized_matmul(out, out_stride, w, begin, end, x, n);
}
#endif
