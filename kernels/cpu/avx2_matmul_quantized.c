/* Products with quantized weights, AVX2.
 *
 * Products of bytes come as sums of two in 16 bits. With weights of at most six bits some of them add up
 * there before they are widened, offsets included: 16 columns of any such type, 32 of four bits. Weights
 * of eight bits keep their sign, which goes over to the activation. */
#include "kernels/cpu/matmul.h"

#if defined(__AVX2__)
#include <immintrin.h>

typedef __m256i ints;
typedef __m256 floats;
enum { LANES = 8, SLOTS = 8, SUPER_SLOTS = 4, GROUP_ROWS = 8, SIGNED_BYTES = true };

static inline ints ints_set(int x) { return _mm256_set1_epi32(x); }
static inline ints ints_bytes(int x) { return _mm256_set1_epi8((char)x); }
static inline ints ints_load(const void* p) { return _mm256_load_si256(p); }
static inline void ints_store(void* p, ints v) { _mm256_store_si256(p, v); }
static inline ints ints_and(ints a, ints b) { return _mm256_and_si256(a, b); }
static inline ints ints_or(ints a, ints b) { return _mm256_or_si256(a, b); }
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
static inline ints ints_where(ints v, uint32_t bits, int what) {
	const ints none = _mm256_cmpeq_epi8(_mm256_and_si256(v, ints_set((int)bits)), ints_set(0));
	return _mm256_andnot_si256(none, ints_bytes(what));
}
static inline ints ints_iq4(ints index) {
	const __m128i values = _mm_loadu_si128((const void*)iq4_values);
	return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(values), index);
}
/* 16 bytes at each of two places */
static inline ints ints_quarters(const uint8_t* p, size_t stride) {
	const __m256i v = _mm256_castsi128_si256(_mm_loadu_si128((const void*)p));
	return _mm256_inserti128_si256(v, _mm_loadu_si128((const void*)(p + stride)), 1);
}
/* In both 16-bit halves */
static inline ints ints_scale(ints scale) {
	return _mm256_blend_epi16(scale, _mm256_slli_epi32(scale, 16), 0xaa);
}
static inline void floats_store(float* p, floats v) { _mm256_store_ps(p, v); }
static inline floats floats_mul(floats a, floats b) { return _mm256_mul_ps(a, b); }
static inline floats floats_from_ints(ints v) { return _mm256_cvtepi32_ps(v); }
static inline floats floats_negated(floats v) { return _mm256_xor_ps(v, _mm256_set1_ps(-0.0f)); }
static inline floats floats_from_halves(ints v) {
	const __m256i low = ints_shuffle(v, 0x80800100); /* to 32 bits; then side by side */
	const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, low), 0x08);
	return _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
}

enum { DIRECT_ROWS = 4 };
#define DIRECT 1

/* The compiler adds to v here and now: left to itself it forms all products first, and spills them. */
#define IN_ORDER(v) __asm__("" : "+x"(v))

#include "kernels/cpu/matmul_quantized.h"

/* ---- products -------------------------------------------------------------------------------- */

INLINED ints to_all(const void* p) {
	int x;
	memcpy(&x, p, 4);
	return _mm256_set1_epi32(x);
}

INLINED floats float_to_all(const void* p) { return _mm256_castsi256_ps(to_all(p)); }

INLINED ints widened(ints sum, ints some, ints factor) {
	return _mm256_add_epi32(sum, _mm256_madd_epi16(some, factor));
}

/* some (n) += 4·count columns of the weights times those of the activations at q, in 16 bits */
INLINED void dot_16(int n, ints some[], int count, const ints w[], const int8_t* q, size_t x_stride) {
	UNROLLED for (int c = 0; c < count; c++) UNROLLED for (int i = 0; i < n; i++) {
		const ints x = to_all(q + (size_t)i * x_stride + c * 4);
		some[i] = _mm256_add_epi16(some[i], _mm256_maddubs_epi16(w[c], x));
		IN_ORDER(some[i]);
	}
}

/* The same of signed bytes, in 32 bits */
INLINED void dot_signed(int n, ints sum[], int count, const ints w[], const int8_t* q, size_t x_stride) {
	UNROLLED for (int c = 0; c < count; c++) {
		const ints size = _mm256_abs_epi8(w[c]);
		UNROLLED for (int i = 0; i < n; i++) {
			const ints x = _mm256_sign_epi8(to_all(q + (size_t)i * x_stride + c * 4), w[c]);
			sum[i] = widened(sum[i], _mm256_maddubs_epi16(size, x), _mm256_set1_epi16(1));
			IN_ORDER(sum[i]);
		}
	}
}

/* Columns of blocks of 32 whose products fit 16 bits; 0 where bytes are signed */
INLINED int narrow_of(enum dtype type) {
	switch (type) {
	case DTYPE_Q4_0:
	case DTYPE_Q4_1:
		return 32;
	case DTYPE_Q5_0:
	case DTYPE_Q5_1:
		return 16;
	default:
		return 0;
	}
}

INLINED void zeros(int n, ints v[]) { UNROLLED for (int i = 0; i < n; i++) v[i] = ints_set(0); }

INLINED void load_vectors(ints out[4], const uint8_t (*w)[LANES * 4]) {
	UNROLLED for (int c = 0; c < 4; c++) out[c] = ints_load(w[c]);
}

/* The next 16 columns of a block of 32, its first or last: sums (n) and, until they are full, some (n) */
INLINED void small_products(int narrow, bool last, int n, ints sums[], ints some[], const ints w[4],
                            const int8_t* q, size_t x_stride) {
	if (!narrow) {
		dot_signed(n, sums, 4, w, q, x_stride);
		return;
	}
	if (narrow == 16 || !last)
		zeros(n, some);
	dot_16(n, some, 4, w, q, x_stride);
	if (narrow == 16 || last)
		UNROLLED for (int i = 0; i < n; i++) sums[i] = widened(sums[i], some[i], _mm256_set1_epi16(1));
}

/* Block b's sum of activation row i */
INLINED float* slot(const struct run* run, int slots, int64_t b, int i) {
	return run->sum + ((b & (slots - 1)) * GROUP_ROWS + i) * LANES;
}

/* What a block's sums begin with */
INLINED void small_start(bool minimum, int narrow, int n, ints sums[], const struct run* run, int b) {
	UNROLLED for (int i = 0; i < n; i++) sums[i] =
	    minimum || !narrow ? ints_set(0) : to_all(run->sums + (size_t)i * run->x_stride + b * 4);
}

/* Block b of the run, whose sums are done, meets its scales. */
INLINED void small_end(bool minimum, int n, const ints sums[], const struct run* run, int b) {
	const int64_t block = (run->column >> 5) + b;
	const floats wd = _mm256_load_ps(run->w->d[b]), wm = minimum ? _mm256_load_ps(run->w->m[b]) : wd;
	UNROLLED for (int i = 0; i < n; i++) {
		const size_t row = (size_t)i * run->x_stride;
		const floats d = _mm256_mul_ps(wd, float_to_all(run->d + row + b * 4));
		float* to = slot(run, SLOTS, block, i);
		floats sum = _mm256_fmadd_ps(floats_from_ints(sums[i]), d, _mm256_load_ps(to));
		if (minimum)
			sum = _mm256_fmadd_ps(wm, float_to_all(run->sums + row + b * 4), sum);
		_mm256_store_ps(to, sum);
	}
}

INLINED void small_run(bool minimum, int narrow, int n, const struct run* run) {
	for (int b = 0; b < run->columns / 32; b++) {
		ints sums[GROUP_ROWS], some[GROUP_ROWS], w[4];
		fetch(run, b * 32);
		small_start(minimum, narrow, n, sums, run, b);
		UNROLLED for (int half = 0; half < 2; half++) {
			load_vectors(w, run->w->q + b * 8 + half * 4);
			small_products(narrow, half, n, sums, some, w, run->q + b * 32 + half * 16, run->x_stride);
		}
		small_end(minimum, n, sums, run, b);
	}
}

/* Group g's `vectors` vectors of products, with an offset or with a minimum, join sums (n), scaled. */
INLINED void super_products(bool minimum, int vectors, int n, ints sums[], const ints w[], const int8_t* q,
                            const struct run* run, int g) {
	ints some[GROUP_ROWS];
	UNROLLED for (int i = 0; i < n; i++) some[i] =
	    minimum ? ints_set(0) : to_all(run->sums + (size_t)i * run->x_stride + g * 4);
	dot_16(n, some, vectors, w, q, run->x_stride);
	UNROLLED for (int i = 0; i < n; i++) sums[i] = widened(sums[i], some[i], ints_load(run->w->scale[g]));
}

/* Block b of the run, of `groups` groups, whose sums are done, meets its scales and minima. */
INLINED void super_end(bool minimum, int groups, int n, const ints sums[], const struct run* run, int b) {
	const int64_t block = (run->column >> 8) + b;
	const floats wd = _mm256_load_ps(run->w->d[b]), wm = minimum ? _mm256_load_ps(run->w->m[b]) : wd;
	UNROLLED for (int i = 0; i < n; i++) {
		const size_t row = (size_t)i * run->x_stride;
		floats product = _mm256_mul_ps(wd, floats_from_ints(sums[i]));
		if (minimum) {
			ints less = ints_set(0);
			UNROLLED for (int p = b * groups / 2; p < b * groups / 2 + groups / 2; p++) less =
			    widened(less, ints_load(run->w->min[p]), to_all(run->sums + row + p * 4));
			product = _mm256_fmadd_ps(wm, floats_from_ints(less), product);
		}
		float* to = slot(run, SUPER_SLOTS, block, i);
		const floats d = float_to_all(run->d + row + b * 4);
		_mm256_store_ps(to, _mm256_fmadd_ps(d, product, _mm256_load_ps(to)));
	}
}

/* Groups of `group` columns; `narrow` columns fit 16 bits */
INLINED void super_run(bool minimum, int group, int narrow, int n, const struct run* run) {
	const int groups = 256 / group, vectors = narrow / 4;
	for (int b = 0; b < run->columns / 256; b++) {
		ints sums[GROUP_ROWS];
		zeros(n, sums);
		for (int g = b * groups; g < b * groups + groups; g++) {
			if (group == 32 || g % 2 == 0)
				fetch(run, g * group);
			for (int part = 0; part < group / narrow; part++) {
				const int column = g * group + part * narrow;
				ints w[8];
				UNROLLED for (int c = 0; c < vectors; c++) w[c] = ints_load(run->w->q[column / 4 + c]);
				super_products(minimum, vectors, n, sums, w, run->q + column, run, g);
			}
		}
		super_end(minimum, groups, n, sums, run, b);
	}
}

#define RUN(count, function, ...)                                                                            \
	case count:                                                                                              \
		function(__VA_ARGS__, count, run);                                                                   \
		break;
#define RUNS(name, ...)                                                                                      \
	static void name(int n, const struct run* run) {                                                         \
		switch (n) {                                                                                         \
			RUN(1, __VA_ARGS__)                                                                              \
			RUN(2, __VA_ARGS__)                                                                              \
			RUN(3, __VA_ARGS__)                                                                              \
			RUN(4, __VA_ARGS__)                                                                              \
			RUN(5, __VA_ARGS__)                                                                              \
			RUN(6, __VA_ARGS__)                                                                              \
			RUN(7, __VA_ARGS__)                                                                              \
			RUN(8, __VA_ARGS__)                                                                              \
		}                                                                                                    \
	}

RUNS(signed_run, small_run, false, 0)
RUNS(q4_0_run, small_run, false, 32)
RUNS(q4_1_run, small_run, true, 32)
RUNS(q5_0_run, small_run, false, 16)
RUNS(q5_1_run, small_run, true, 16)
RUNS(super_offset_run, super_run, false, 16, 16)
RUNS(q2_k_run, super_run, true, 16, 16)
RUNS(q4_k_run, super_run, true, 32, 32)
RUNS(q5_k_run, super_run, true, 32, 16)

static void quantized_run(enum dtype type, int n, const struct run* run) {
	switch (type) {
	case DTYPE_Q4_0:
		q4_0_run(n, run);
		break;
	case DTYPE_Q4_1:
		q4_1_run(n, run);
		break;
	case DTYPE_Q5_0:
		q5_0_run(n, run);
		break;
	case DTYPE_Q5_1:
		q5_1_run(n, run);
		break;
	case DTYPE_Q2_K:
		q2_k_run(n, run);
		break;
	case DTYPE_Q4_K:
		q4_k_run(n, run);
		break;
	case DTYPE_Q5_K:
		q5_k_run(n, run);
		break;
	case DTYPE_Q3_K:
	case DTYPE_Q6_K:
		super_offset_run(n, run);
		break;
	default:
		signed_run(n, run);
	}
}

#include "kernels/cpu/matmul_direct.h"

/* ---- woven weights --------------------------------------------------------------------------- */

enum { WOVEN_ROWS = 2 };
#define WOVEN_CASES                                                                                          \
	WOVEN_CASE(1)                                                                                            \
	WOVEN_CASE(2)

INLINED floats floats_load(const float* p) { return _mm256_load_ps(p); }
INLINED void floats_store_anywhere(float* p, floats v) { _mm256_storeu_ps(p, v); }
INLINED floats floats_add(floats a, floats b) { return _mm256_add_ps(a, b); }
INLINED floats floats_fma(floats a, floats b, floats c) { return _mm256_fmadd_ps(a, b, c); }
INLINED ints ints_two_products(ints sum, ints a, ints b) {
	return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}

/* sum (n) += 64 columns: those of the low nibbles times `first`, those of the high ones times `second` */
INLINED void woven_halves(int n, ints sum[], const uint8_t* w, ints first, ints second, const int8_t* q,
                          size_t x_stride) {
	ints low[WOVEN_ROWS], high[WOVEN_ROWS];
	UNROLLED for (int i = 0; i < n; i++) low[i] = high[i] = ints_set(0);
	UNROLLED for (int c = 0; c < 8; c++) {
		const ints both = ints_load(w + (size_t)c * WOVEN * 4);
		const ints a = low_bits(both, 0, 15), b = low_bits(both, 4, 15);
		UNROLLED for (int i = 0; i < n; i++) {
			const int8_t* x = q + (size_t)i * x_stride + c * 4;
			low[i] = _mm256_add_epi16(low[i], _mm256_maddubs_epi16(a, to_all(x)));
			high[i] = _mm256_add_epi16(high[i], _mm256_maddubs_epi16(b, to_all(x + 32)));
		}
	}
	UNROLLED for (int i = 0; i < n; i++) sum[i] = _mm256_add_epi32(
	    sum[i], _mm256_add_epi32(_mm256_madd_epi16(low[i], first), _mm256_madd_epi16(high[i], second)));
}

#include "kernels/cpu/matmul_woven.h"

void avx2_quantized_matmul(float* out, size_t out_stride, const struct tensor* w, int64_t begin, int64_t end,
                           const void* x, int n) {
	if (w->woven)
		woven_matmul(out, out_stride, w, begin, end, x, n);
	else if (!direct_matmul(out, out_stride, w, begin, end, x, n))
		quantized_matmul(out, out_stride, w, begin, end, x, n);
}
#endif
