/* Products of a tile with activation rows, a tile at a time.
 *
 * Included behind matmul_quantized.h by one source file an instruction set, which defines before it:
 *
 *   tile_dot            adds the products of `columns` columns of a tile at w with those of n activation rows
 *                       at q, of a type or one whose tiles are alike
 *   ints_scaled         sum + products times a scale
 *   ints_two_products   sum + the products of the 16-bit halves of each lane
 *
 * Integers are added up exactly and floats in one order: no bit depends on how tile_dot does it. */

/* Block b's sum of activation row i */
INLINED float* slot(const struct run* run, int slots, int64_t b, int i) {
	return run->sum + (b % slots * GROUP_ROWS + i) * LANES;
}

INLINED void small_run(int n, enum dtype type, const struct run* run) {
	const struct tile* w = run->w;
	const bool minimum = dtype_has_min(type), nothing = minimum || (SIGNED_BYTES && dtype_bias(type) == 128);
	for (int b = 0; b < run->columns / 32; b++) {
		const int64_t block = run->column / 32 + b;
		ints sums[GROUP_ROWS];
		fetch(run, b * 32);
		UNROLLED for (int i = 0; i < n; i++) sums[i] =
		    nothing ? ints_set(0) : to_all(run->sums + (size_t)i * run->x_stride + b * 4);
		tile_dot(n, sums, 32, type, w->q[b * 8], run->q + b * 32, run->x_stride);
		const floats wd = floats_load(w->d[b]), wm = minimum ? floats_load(w->m[b]) : wd;
		UNROLLED for (int i = 0; i < n; i++) {
			const size_t row = (size_t)i * run->x_stride;
			float* to = slot(run, SLOTS, block, i);
			floats sum = block < SLOTS ? floats_zero() : floats_load(to);
			const floats d = floats_mul(wd, float_to_all(run->d + row + b * 4));
			sum = floats_fma(floats_from_ints(sums[i]), d, sum);
			if (minimum)
				sum = floats_fma(wm, float_to_all(run->sums + row + b * 4), sum);
			floats_store(to, sum);
		}
	}
}

INLINED void super_run(int n, enum dtype type, const struct run* run) {
	const struct tile* w = run->w;
	const int group = group_of(type), groups = 256 / group;
	const bool minimum = !group_offset(type);
	for (int b = 0; b < run->columns / 256; b++) {
		const int64_t block = run->column / 256 + b;
		ints sums[GROUP_ROWS];
		UNROLLED for (int i = 0; i < n; i++) sums[i] = ints_set(0);
		for (int g = b * groups; g < b * groups + groups; g++) {
			ints some[GROUP_ROWS];
			if (group == 32 || g % 2 == 0)
				fetch(run, g * group);
			UNROLLED for (int i = 0; i < n; i++) some[i] =
			    minimum ? ints_set(0) : to_all(run->starts + (size_t)i * run->x_stride + g * 4);
			tile_dot(n, some, group, type, w->q[g * group / 4], run->q + g * group, run->x_stride);
			const ints scale = ints_load(w->scale[g]);
			UNROLLED for (int i = 0; i < n; i++) sums[i] = ints_scaled(sums[i], some[i], scale);
		}
		ints min[8];
		if (minimum)
			UNROLLED for (int p = 0; p < groups / 2; p++) min[p] = ints_load(w->min[b * groups / 2 + p]);
		const floats wd = floats_load(w->d[b]), wm = minimum ? floats_load(w->m[b]) : wd;
		UNROLLED for (int i = 0; i < n; i++) {
			floats product = floats_mul(wd, floats_from_ints(sums[i]));
			if (minimum) {
				const uint8_t* behind = run->sums + (size_t)i * run->x_stride + b * groups / 2 * 4;
				ints less = ints_set(0);
				UNROLLED for (int p = 0; p < groups / 2; p++) less =
				    ints_two_products(less, min[p], to_all(behind + p * 4));
				product = floats_fma(wm, floats_from_ints(less), product);
			}
			float* to = slot(run, SUPER_SLOTS, block, i);
			const floats before = block < SUPER_SLOTS ? floats_zero() : floats_load(to);
			const floats d = float_to_all(run->d + (size_t)i * run->x_stride + b * 4);
			floats_store(to, floats_fma(d, product, before));
		}
	}
}

#define RUNS(name, function, type)                                                                           \
	static void name(int n, const struct run* run) {                                                         \
		switch (n) { UP_TO_8(CASE, function, type, run) }                                                    \
	}

RUNS(bytes_run, small_run, DTYPE_Q8_0)   /* and iq4, which tables made bytes */
RUNS(offset_run, small_run, DTYPE_Q4_0)  /* and q5_0 */
RUNS(minimum_run, small_run, DTYPE_Q4_1) /* and q5_1 */
RUNS(q2_k_run, super_run, DTYPE_Q2_K)
RUNS(k4_run, super_run, DTYPE_Q4_K)   /* and q5_k */
RUNS(q6_k_run, super_run, DTYPE_Q6_K) /* and q3_k */

static void quantized_run(enum dtype type, int n, const struct run* run) {
	switch (type) {
	case DTYPE_Q4_0:
	case DTYPE_Q5_0:
		offset_run(n, run);
		break;
	case DTYPE_Q4_1:
	case DTYPE_Q5_1:
		minimum_run(n, run);
		break;
	case DTYPE_Q2_K:
		q2_k_run(n, run);
		break;
	case DTYPE_Q4_K:
	case DTYPE_Q5_K:
		k4_run(n, run);
		break;
	case DTYPE_Q3_K:
	case DTYPE_Q6_K:
		q6_k_run(n, run);
		break;
	default:
		bytes_run(n, run);
	}
}
