/* Products with quantized weights, AVX-512 with VNNI. */
#include "kernels/cpu/matmul.h"

#if defined(__AVX512VNNI__)
#include "kernels/cpu/avx512_ints.h"
#include "kernels/cpu/matmul_quantized.h"

/* ---- products -------------------------------------------------------------------------------- */

/* sum (n) += the next `columns` columns of the weights times those of the activations at q */
INLINED void dot(int n, ints sum[], int columns, const uint8_t (*w)[LANES * 4], const int8_t* q,
                 size_t x_stride) {
	UNROLLED for (int c = 0; c < columns / 4; c++) {
		const ints four = ints_load(w[c]);
		UNROLLED for (int i = 0; i < n; i++) sum[i] =
		    dot_four(sum[i], four, q + (size_t)i * x_stride + c * 4);
	}
}

/* Block b's sum of activation row i */
INLINED float* slot(const struct run* run, int slots, int64_t b, int i) {
	return run->sum + (b % slots * GROUP_ROWS + i) * LANES;
}

INLINED void small_run(int n, bool minimum, const struct run* run) {
	const struct tile* w = run->w;
	for (int b = 0; b < run->columns / 32; b++) {
		const int64_t block = run->column / 32 + b;
		ints sums[GROUP_ROWS];
		fetch(run, b * 32);
		UNROLLED for (int i = 0; i < n; i++) sums[i] =
		    minimum ? ints_set(0) : to_all(run->sums + (size_t)i * run->x_stride + b * 4);
		dot(n, sums, 32, w->q + b * 8, run->q + b * 32, run->x_stride);
		const floats wd = _mm512_load_ps(w->d[b]), wm = minimum ? _mm512_load_ps(w->m[b]) : wd;
		UNROLLED for (int i = 0; i < n; i++) {
			const size_t row = (size_t)i * run->x_stride;
			const floats d = _mm512_mul_ps(wd, float_to_all(run->d + row + b * 4));
			floats sum = block < SLOTS ? _mm512_setzero_ps() : _mm512_load_ps(slot(run, SLOTS, block, i));
			sum = _mm512_fmadd_ps(floats_from_ints(sums[i]), d, sum);
			if (minimum)
				sum = _mm512_fmadd_ps(wm, float_to_all(run->sums + row + b * 4), sum);
			_mm512_store_ps(slot(run, SLOTS, block, i), sum);
		}
	}
}

/* Groups of `group` columns, with an offset or with a minimum */
INLINED void super_run(int n, bool minimum, int group, const struct run* run) {
	const struct tile* w = run->w;
	const int groups = 256 / group;
	for (int b = 0; b < run->columns / 256; b++) {
		const int64_t block = run->column / 256 + b;
		ints sums[GROUP_ROWS], less[GROUP_ROWS];
		UNROLLED for (int i = 0; i < n; i++) sums[i] = less[i] = ints_set(0);
		for (int g = b * groups; g < b * groups + groups; g++) {
			if (group == 32 || g % 2 == 0)
				fetch(run, g * group);
			ints one[GROUP_ROWS];
			UNROLLED for (int i = 0; i < n; i++) one[i] =
			    minimum ? ints_set(0) : to_all(run->starts + (size_t)i * run->x_stride + g * 4);
			dot(n, one, group, w->q + g * (group / 4), run->q + g * group, run->x_stride);
			const ints scale = ints_load(w->scale[g]);
			UNROLLED for (int i = 0; i < n; i++) sums[i] =
			    _mm512_add_epi32(sums[i], _mm512_mullo_epi32(one[i], scale));
		}
		if (minimum)
			UNROLLED for (int p = 0; p < groups / 2; p++) {
				const ints min = ints_load(w->min[b * groups / 2 + p]);
				UNROLLED for (int i = 0; i < n; i++) less[i] = _mm512_dpwssd_epi32(
				    less[i], min, to_all(run->sums + (size_t)i * run->x_stride + (b * groups / 2 + p) * 4));
			}
		const floats wd = _mm512_load_ps(w->d[b]), wm = minimum ? _mm512_load_ps(w->m[b]) : wd;
		UNROLLED for (int i = 0; i < n; i++) {
			floats product = _mm512_mul_ps(wd, floats_from_ints(sums[i]));
			if (minimum)
				product = _mm512_fmadd_ps(wm, floats_from_ints(less[i]), product);
			float* to = slot(run, SUPER_SLOTS, block, i);
			const floats before = block < SUPER_SLOTS ? _mm512_setzero_ps() : _mm512_load_ps(to);
			const floats d = float_to_all(run->d + (size_t)i * run->x_stride + b * 4);
			_mm512_store_ps(to, _mm512_fmadd_ps(d, product, before));
		}
	}
}

#define RUNS(name, ...)                                                                                      \
	static void name(int n, const struct run* run) {                                                         \
		switch (n) { UP_TO_8(CASE, __VA_ARGS__, run) }                                                       \
	}

RUNS(small_offset_run, small_run, false)
RUNS(small_min_run, small_run, true)
RUNS(super_offset_run, super_run, false, 16)
RUNS(super_min_16_run, super_run, true, 16)
RUNS(super_min_32_run, super_run, true, 32)

static void quantized_run(enum dtype type, int n, const struct run* run) {
	if (activation_block(type) == BLOCK_SMALL)
		(dtype_has_min(type) ? small_min_run : small_offset_run)(n, run);
	else if (type == DTYPE_Q3_K || type == DTYPE_Q6_K)
		super_offset_run(n, run);
	else if (type == DTYPE_Q2_K)
		super_min_16_run(n, run);
	else
		super_min_32_run(n, run);
}

/* ---- woven weights --------------------------------------------------------------------------- */

enum { WOVEN_ROWS = 8 };
#define WOVEN_CASES                                                                                          \
	WOVEN_CASE(1)                                                                                            \
	WOVEN_CASE(2)                                                                                            \
	WOVEN_CASE(3)                                                                                            \
	WOVEN_CASE(4)                                                                                            \
	WOVEN_CASE(5)                                                                                            \
	WOVEN_CASE(6)                                                                                            \
	WOVEN_CASE(7)                                                                                            \
	WOVEN_CASE(8)
#define WOVEN_HALVES_OF(p) _mm512_cvtph_ps(_mm256_load_si256((const void*)(p)))

INLINED ints ints_load_anywhere(const void* p) { return _mm512_loadu_si512(p); }
INLINED floats floats_load(const float* p) { return _mm512_load_ps(p); }
INLINED void floats_store_anywhere(float* p, floats v) { _mm512_storeu_ps(p, v); }
INLINED floats floats_add(floats a, floats b) { return _mm512_add_ps(a, b); }
INLINED floats floats_fma(floats a, floats b, floats c) { return _mm512_fmadd_ps(a, b, c); }
INLINED ints ints_two_products(ints sum, ints a, ints b) { return _mm512_dpwssd_epi32(sum, a, b); }
INLINED ints ints_scaled(ints sum, ints products, ints scale) {
	return _mm512_add_epi32(sum, _mm512_mullo_epi32(products, scale));
}

#include "kernels/cpu/matmul_woven.h"

QUANTIZED_MATMUL(avx512, avx512_quantized_several)
#endif
