/* The kernels beside the products for processors with wide registers, written once over a vector type.
 *
 * avx2.c and avx512.c define `vec`, LANES and the vec_ operations, then include this file. An element is
 * computed alike in the middle of a row and in its tail, and sums are cut by index or by absolute
 * position: element i of a sum always falls to lane i mod LANES, lanes are added up in one tree at the
 * end. */

enum { DELTA_TILE = 4 }; /* vectors of a recurrence's values whose sums fit the registers */

static inline int smaller(int a, int b) { return a < b ? a : b; }

/* ---- elementary functions ------------------------------------------------------------------- */

/* e^x where x is from -87 to 88: the polynomial of Cephes' expf, some 1e-7 relative. */
static inline vec vec_exp_within(vec x) {
	const vec n = vec_round(vec_mul(x, vec_set(1.44269504f)));
	const vec r = vec_fma(n, vec_set(2.12194440e-4f), vec_fma(n, vec_set(-0.693359375f), x));
	vec p = vec_set(1.9875691500e-4f);
	p = vec_fma(p, r, vec_set(1.3981999507e-3f));
	p = vec_fma(p, r, vec_set(8.3334519073e-3f));
	p = vec_fma(p, r, vec_set(4.1665795894e-2f));
	p = vec_fma(p, r, vec_set(1.6666665459e-1f));
	p = vec_fma(p, r, vec_set(5.0000001201e-1f));
	p = vec_add(vec_fma(p, vec_mul(r, r), r), vec_set(1.0f));
	return vec_times_power(p, n);
}

/* e^x up to x = 88, 0 below -87 */
static inline vec vec_exp(vec x) {
	const vec within = vec_min(vec_set(88.0f), vec_max(vec_set(-87.0f), x));
	return vec_zero_below(x, -87.0f, vec_exp_within(within));
}

/* The same where x is at most 0. */
static inline vec vec_exp_of_negative(vec x) { return vec_zero_below(x, -87.0f, vec_exp_within(x)); }

/* cap·tanh(x / cap) = cap·(1 - 2 / (e^(2x/cap) + 1)) */
static inline vec vec_softcap(vec x, float cap) {
	const vec e = vec_exp(vec_mul(x, vec_set(2.0f / cap)));
	const vec tanh = vec_sub(vec_set(1.0f), vec_div(vec_set(2.0f), vec_add(e, vec_set(1.0f))));
	return vec_mul(tanh, vec_set(cap));
}

#include "kernels/cpu/wide_attention.h"

/* ---- recurrence ----------------------------------------------------------------------------- */

/* `count` vectors of values from the j-th on, or `part` lanes of one: a value's sums have an accumulator of
 * their own and go through the keys in order, whatever stands beside it. corrects: what the state holds for
 * the key already is subtracted from the value. */
__attribute__((always_inline)) static inline void delta_tile(float* to, const float* from, float* out,
                                                             const struct delta_row* row, int keys,
                                                             int values, int j, int count, int part,
                                                             bool corrects) {
	const bool whole = part >= LANES;
	vec held[DELTA_TILE], given[DELTA_TILE], delta[DELTA_TILE];
#pragma GCC unroll 4
	for (int c = 0; c < count; c++)
		held[c] = given[c] = vec_set(0);
	const float* at = from + j;
	for (int i = 0; i < keys && corrects; i++, at += values) {
		const vec k = vec_set(row->k[i]);
#pragma GCC unroll 4
		for (int c = 0; c < count; c++)
			held[c] = vec_fma(k, whole ? vec_load(at + c * LANES) : vec_load_part(at, part, 0), held[c]);
	}
	const vec decay = vec_set(row->decay), beta = vec_set(row->beta);
#pragma GCC unroll 4
	for (int c = 0; c < count; c++) {
		const float* at_v = row->v + j + c * LANES;
		const vec v = whole ? vec_load(at_v) : vec_load_part(at_v, part, 0);
		delta[c] = vec_mul(beta, corrects ? vec_sub(v, vec_mul(decay, held[c])) : v);
	}
	at = from + j;
	float* put = to + j;
	for (int i = 0; i < keys; i++, at += values, put += values) {
		const vec k = vec_set(row->k[i]), q = vec_set(row->q[i]);
#pragma GCC unroll 4
		for (int c = 0; c < count; c++) {
			const vec old = whole ? vec_load(at + c * LANES) : vec_load_part(at, part, 0);
			const vec s = vec_fma(k, delta[c], vec_mul(decay, old));
			given[c] = vec_fma(q, s, given[c]);
			if (whole)
				vec_store(put + c * LANES, s);
			else
				vec_store_part(put, s, part);
		}
	}
#pragma GCC unroll 4
	for (int c = 0; c < count && out; c++)
		if (whole)
			vec_store(out + j + c * LANES, given[c]);
		else
			vec_store_part(out + j, given[c], part);
}

__attribute__((always_inline)) static inline void delta_tiles(float* to, const float* from, float* out,
                                                              const struct delta_row* row, int keys,
                                                              int values, bool corrects) {
	int j = 0;
	for (; j + DELTA_TILE * LANES <= values; j += DELTA_TILE * LANES)
		delta_tile(to, from, out, row, keys, values, j, DELTA_TILE, LANES, corrects);
	for (; j + LANES <= values; j += LANES)
		delta_tile(to, from, out, row, keys, values, j, 1, LANES, corrects);
	if (j < values)
		delta_tile(to, from, out, row, keys, values, j, 1, values - j, corrects);
}

static void delta_step(float* to, const float* from, float* out, const struct delta_row* row, int keys,
                       int values) {
	delta_tiles(to, from, out, row, keys, values, true);
}

static void scan_step(float* to, const float* from, float* out, const struct delta_row* row, int keys,
                      int values) {
	delta_tiles(to, from, out, row, keys, values, false);
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void rms_norm(float* out, const float* x, const float* weight, float plus, float epsilon, int n) {
	const int whole = n / LANES * LANES, left = n - whole;
	vec squares = vec_set(0);
	for (int i = 0; i < whole; i += LANES)
		squares = vec_fma(vec_load(x + i), vec_load(x + i), squares);
	if (left) {
		const vec v = vec_load_part(x + whole, left, 0);
		squares = vec_fma(v, v, squares);
	}
	const vec scale = vec_set(1.0f / sqrtf(vec_sum(squares) / (float)n + epsilon)), added = vec_set(plus);
	for (int i = 0; i < whole; i += LANES)
		vec_store(out + i, vec_mul(vec_mul(vec_load(x + i), scale), vec_add(vec_load(weight + i), added)));
	if (left) {
		const vec w = vec_add(vec_load_part(weight + whole, left, 0), added);
		vec_store_part(out + whole, vec_mul(vec_mul(vec_load_part(x + whole, left, 0), scale), w), left);
	}
}

/* The exact GELU is max(x, 0) - |x|·erfc(z)/2, z = |x|/sqrt(2). With t = 1/(1 + z/2), erfc(z) is t·e^(p(t) -
 * z²) for a polynomial p, to 1.2e-7 of itself (Press et al. 1992, Numerical Recipes in C, section 6.2). */
static inline vec gelu(vec x) {
	static const float p[] = {-1.26551223f, 1.00002368f,  0.37409196f, 0.09678418f,  -0.18628806f,
	                          0.27886807f,  -1.13520398f, 1.48851587f, -0.82215223f, 0.17087277f};
	const vec magnitude = vec_max(x, vec_sub(vec_set(0), x)), z = vec_mul(magnitude, vec_set(0.7071067812f));
	const vec t = vec_div(vec_set(1.0f), vec_fma(z, vec_set(0.5f), vec_set(1.0f)));
	vec sum = vec_set(p[9]);
	for (int i = 8; i >= 0; i--)
		sum = vec_fma(sum, t, vec_set(p[i]));
	const vec tail = vec_mul(t, vec_exp(vec_sub(sum, vec_mul(z, z))));
	return vec_sub(vec_max(x, vec_set(0)), vec_mul(vec_mul(magnitude, vec_set(0.5f)), tail));
}

/* Others are x / (1 + e^-z): z = x for SiLU, and GELU's tanh form is z = 2·sqrt(2/pi)·(x + 0.044715·x³). The
 * clamped one's and quick GELU's are SiLU's with z = 1.702·x. */
static inline vec activate(vec x, enum activation activation) {
	vec z = x;
	if (activation == ACTIVATION_GELU)
		return gelu(x);
	if (activation == ACTIVATION_RELU)
		return vec_max(x, vec_set(0));
	if (activation == ACTIVATION_RELU2)
		return vec_mul(vec_max(x, vec_set(0)), vec_max(x, vec_set(0)));
	if (activation == ACTIVATION_GELU_TANH)
		z = vec_mul(vec_mul(x, vec_set(1.5957691216f)),
		            vec_fma(vec_mul(x, x), vec_set(0.044715f), vec_set(1.0f)));
	else if (activation == ACTIVATION_SWIGLU_CLAMPED || activation == ACTIVATION_QUICK_GELU)
		z = vec_mul(x, vec_set(1.702f));
	return vec_div(x, vec_add(vec_set(1.0f), vec_exp(vec_sub(vec_set(0), z))));
}

static inline vec gated(vec x, vec up, enum activation activation) {
	if (activation == ACTIVATION_SWIGLU_CLAMPED) {
		const vec most = vec_set(7.0f);
		up = vec_add(vec_max(vec_min(most, up), vec_set(-7.0f)), vec_set(1.0f));
		x = vec_min(most, x);
	}
	return vec_mul(activate(x, activation), up);
}

static void gate(float* values, const float* up, enum activation activation, int n) {
	const int whole = n / LANES * LANES, left = n - whole;
	for (int i = 0; i < whole; i += LANES)
		vec_store(values + i, gated(vec_load(values + i), vec_load(up + i), activation));
	if (left) {
		const vec x = vec_load_part(values + whole, left, 0), y = vec_load_part(up + whole, left, 0);
		vec_store_part(values + whole, gated(x, y, activation), left);
	}
}

static void join(float* x, const float* y, int n) {
	const int whole = n / LANES * LANES, left = n - whole;
	for (int i = 0; i < whole; i += LANES)
		vec_store(x + i, vec_add(vec_load(x + i), vec_load(y + i)));
	if (left)
		vec_store_part(x + whole,
		               vec_add(vec_load_part(x + whole, left, 0), vec_load_part(y + whole, left, 0)), left);
}

static void store(enum dtype type, void* out, const float* x, int n) {
	if (type == DTYPE_F32) {
		memcpy(out, x, (size_t)n * sizeof *x);
		return;
	}
	if (type == DTYPE_Q8_0) {
		quantize_row(type, out, x, n);
		return;
	}
	const int whole = n / LANES * LANES, left = n - whole;
	uint16_t* half = out;
	for (int i = 0; i < whole; i += LANES)
		vec_store_half(half + i, vec_load(x + i));
	if (left)
		vec_store_half_part(half + whole, vec_load_part(x + whole, left, 0), left);
}

static bool sum_exp(const float* x, int n, float* max, float* sum) {
	const int whole = n / LANES * LANES, left = n - whole;
	vec most = vec_set(-FLT_MAX);
	bool finite = true;
	for (int i = 0; i < whole; i += LANES) {
		const vec v = vec_load(x + i);
		finite &= vec_all_finite(v);
		most = vec_max(most, v);
	}
	if (left) {
		const vec v = vec_load_part(x + whole, left, -FLT_MAX);
		finite &= vec_all_finite(v);
		most = vec_max(most, v);
	}
	*max = vec_largest(most);
	const vec top = vec_set(*max);
	vec total = vec_set(0);
	for (int i = 0; i < whole; i += LANES)
		total = vec_add(total, vec_exp(vec_sub(vec_load(x + i), top)));
	if (left)
		total = vec_add(total, vec_exp(vec_sub(vec_load_part(x + whole, left, -INFINITY), top)));
	*sum = vec_sum(total);
	return finite;
}

static void softcap(float* x, float cap, int n) {
	const int whole = n / LANES * LANES, left = n - whole;
	for (int i = 0; i < whole; i += LANES)
		vec_store(x + i, vec_softcap(vec_load(x + i), cap));
	if (left)
		vec_store_part(x + whole, vec_softcap(vec_load_part(x + whole, left, 0), cap), left);
}
