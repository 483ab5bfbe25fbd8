/* Products of tiles with activation rows, vectors of 256 bits.
 *
 * Included behind matmul_quantized.h by one source file an instruction set, which defines before it:
 *
 *   NARROW              1 where products of bytes come as sums of two in 16 bits (AVX2), 0 where as sums of
 *                       four in 32 (VNNI)
 *   dot_four            sum + four columns of the weights times four of an activation row, sent to all lanes
 *   dot_four_signed     NARROW: the same of weights with a sign, in 32 bits
 *   ints_scaled         sum + what dot_four gave, times a scale of ints_scale's form
 *   ints_two_products   sum + the products of the 16-bit halves of each lane
 *
 * NARROW: with weights of at most six bits some products add up in 16 bits before they are widened, offsets
 * included: 16 columns of any such type, 32 of four bits. Weights of eight bits keep their sign, which goes
 * over to the activation. */

INLINED bool signed_bytes(enum dtype type) { return NARROW && dtype_bias(type) == 128; }

/* Columns whose products dot_four may add up: of a group at most */
INLINED int narrow_of(enum dtype type) {
	const int group = small_blocks(type) || type == DTYPE_IQ4_XS ? 32 : group_of(type);
	return NARROW && !dtype_table[type].nibbles ? 16 : group;
}

INLINED bool has_minimum(enum dtype type) {
	return small_blocks(type) ? dtype_has_min(type) : !group_offset(type);
}

/* Sums of n activation rows with each of the tiles */
#define EACH_SUM(tiles, n) UNROLLED for (int t = 0; t < (tiles); t++) UNROLLED for (int i = 0; i < (n); i++)
#define SUM_OF(v) v[t * GROUP_ROWS + i]
enum { MOST_SUMS = TILES * GROUP_ROWS };

INLINED void zeros(int tiles, int n, ints v[]) { EACH_SUM(tiles, n) SUM_OF(v) = ints_set(0); }

/* A slot's content before its first block */
static const _Alignas(64) float nothing_yet[GROUP_SUMS];

/* Vectors of weights: held in registers, or of neighbouring tiles' memory */
struct weights {
	const ints* held;
	const uint8_t (*at)[LANES * 4];
};

INLINED ints vector_of(const struct weights* w, int tile, int c) {
	return w->held ? w->held[c]
	               : ints_load(w->at[(size_t)tile * (sizeof(struct tile) / (LANES * 4)) + (size_t)c]);
}

/* The activation rows that a run reads: at its first columns, and on as it goes */
struct inputs {
	struct columns_of_rows q, d, behind; /* behind the scales: sums, or for an offset what sums begin with */
};

INLINED struct inputs inputs_of(enum dtype type, const struct run* run) {
	const bool starts = !NARROW && !small_blocks(type) && !has_minimum(type);
	struct inputs in = {.q = rows_from((const uint8_t*)run->q, run->x_stride)};
	in.d = rows_beside(&in.q, run->d);
	in.behind = rows_beside(&in.q, starts ? run->starts : run->sums);
	return in;
}

/* All `columns` columns of prepared activation rows from x on */
INLINED struct run whole_run(const uint8_t* x, const struct prepared* layout, int64_t columns, float* sum) {
	return (struct run){.q = (const int8_t*)x,
	                    .d = x + layout->d,
	                    .sums = x + layout->sums,
	                    .starts = x + layout->starts,
	                    .x_stride = layout->bytes,
	                    .columns = (int)columns,
	                    .sum = sum};
}

INLINED void advance_inputs(enum dtype type, struct inputs* in) {
	const int columns = small_blocks(type) ? 32 : 256;
	advance(&in->q, columns);
	advance(&in->d, 4);
	advance(&in->behind, columns * 4 /
	                         (small_blocks(type)   ? 32
	                          : group_offset(type) ? 16
	                                               : group_of(type) * 2));
}

/* sums += 4·vectors columns of the weights times those of the activations from `column` on */
INLINED void dot(int tiles, int n, ints sums[], int vectors, const struct weights* w,
                 const struct columns_of_rows* q, int column) {
	UNROLLED for (int c = 0; c < vectors; c++) {
		ints four[TILES];
		UNROLLED for (int t = 0; t < tiles; t++) four[t] = vector_of(w, t, c);
		UNROLLED for (int i = 0; i < n; i++) UNROLLED for (int t = 0; t < tiles; t++) SUM_OF(sums) =
		    dot_four(SUM_OF(sums), four[t], row_at(q, i) + column + c * 4);
	}
}

/* ---- blocks of 32 ---------------------------------------------------------------------------- */

/* The first value of a block's sums */
INLINED void small_start(enum dtype type, int tiles, int n, ints sums[], const struct inputs* in) {
	const bool nothing = dtype_has_min(type) || signed_bytes(type);
	EACH_SUM(tiles, n) SUM_OF(sums) = nothing ? ints_set(0) : to_all(row_at(&in->behind, i));
}

/* Its 16 columns from `column` on join sums and, where they are narrow, first some. */
INLINED void small_products(enum dtype type, int tiles, int n, ints sums[], ints some[],
                            const struct weights* w, const struct inputs* in, int column) {
#if NARROW
	if (signed_bytes(type)) {
		UNROLLED for (int c = 0; c < 4; c++) UNROLLED for (int t = 0; t < tiles; t++) {
			const ints four = vector_of(w, t, c);
			UNROLLED for (int i = 0; i < n; i++) SUM_OF(sums) =
			    dot_four_signed(SUM_OF(sums), four, row_at(&in->q, i) + column + c * 4);
		}
		return;
	}
	const bool all = narrow_of(type) == 16;
	if (all || column == 0)
		zeros(tiles, n, some);
	dot(tiles, n, some, 4, w, &in->q, column);
	if (all || column > 0)
		EACH_SUM(tiles, n) SUM_OF(sums) = ints_scaled(SUM_OF(sums), SUM_OF(some), ints_scale(ints_set(1)));
#else
	(void)type, (void)some;
	dot(tiles, n, sums, 4, w, &in->q, column);
#endif
}

/* Block `block`'s sums, whose scales are the tiles' b-th, join those in `to` (tiles, SLOTS, GROUP_ROWS,
 * LANES). */
INLINED void small_end(enum dtype type, int tiles, int n, const ints sums[], const struct inputs* in,
                       const struct tile* tile, int b, float* to, int64_t block) {
	to += (block & (SLOTS - 1)) * GROUP_ROWS * LANES;
	const float* before = block < SLOTS ? nothing_yet : to;
	EACH_SUM(tiles, n) {
		const int mine = t * TILE_SUMS + i * LANES;
		const floats d = floats_mul(floats_load(tile[t].d[b]), float_to_all(row_at(&in->d, i)));
		floats sum = floats_fma(floats_from_ints(SUM_OF(sums)), d, floats_load(before + mine));
		if (dtype_has_min(type))
			sum = floats_fma(floats_load(tile[t].m[b]), float_to_all(row_at(&in->behind, i)), sum);
		floats_store(to + mine, sum);
	}
}

INLINED void small_run(enum dtype type, int n, const struct run* run) {
	struct inputs in = inputs_of(type, run);
	for (int b = 0; b < run->columns / 32; b++, advance_inputs(type, &in)) {
		ints sums[MOST_SUMS], some[MOST_SUMS];
		fetch(run, b * 32);
		small_start(type, TILES, n, sums, &in);
		UNROLLED for (int half = 0; half < 2; half++) {
			const struct weights w = {.at = run->w->q + b * 8 + half * 4};
			small_products(type, TILES, n, sums, some, &w, &in, half * 16);
		}
		small_end(type, TILES, n, sums, &in, run->w, b, run->sum, run->column / 32 + b);
	}
}

/* ---- blocks of 256 --------------------------------------------------------------------------- */

/* 4·vectors columns of a block from `column` on, of one group, join sums, scaled; `behind`: what stands
 * behind the scales at the block's first column. */
INLINED void super_products(enum dtype type, int tiles, int vectors, int n, ints sums[],
                            const struct weights* w, const struct columns_of_rows* q,
                            const struct columns_of_rows* behind, int column, const int32_t (*scale)[LANES]) {
	const int group = column / group_of(type);
	ints some[MOST_SUMS];
	EACH_SUM(tiles, n) SUM_OF(some) = has_minimum(type) ? ints_set(0) : to_all(row_at(behind, i) + group * 4);
	dot(tiles, n, some, vectors, w, q, column);
	EACH_SUM(tiles, n)
	SUM_OF(sums) =
	    ints_scaled(SUM_OF(sums), SUM_OF(some),
	                ints_load(scale[(size_t)t * (sizeof(struct tile) / sizeof *scale) + (size_t)group]));
}

/* Block `block`'s sums, whose scales and minima are the tiles' b-th, join those in `to` (tiles, SLOTS,
 * GROUP_ROWS, LANES). */
INLINED void super_end(enum dtype type, int tiles, int n, const ints sums[], const struct inputs* in,
                       const struct tile* tile, int b, float* to, int64_t block) {
	const int pairs = 128 / group_of(type);
	ints less[MOST_SUMS];
	zeros(tiles, n, less);
	if (has_minimum(type))
		UNROLLED for (int p = 0; p < pairs; p++) UNROLLED for (int t = 0; t < tiles; t++) {
			const ints min = ints_load(tile[t].min[b * pairs + p]);
			UNROLLED for (int i = 0; i < n; i++) SUM_OF(less) =
			    ints_two_products(SUM_OF(less), min, to_all(row_at(&in->behind, i) + p * 4));
		}
	to += (block & (SUPER_SLOTS - 1)) * GROUP_ROWS * LANES;
	const float* before = block < SUPER_SLOTS ? nothing_yet : to;
	EACH_SUM(tiles, n) {
		const int mine = t * TILE_SUMS + i * LANES;
		floats product = floats_mul(floats_load(tile[t].d[b]), floats_from_ints(SUM_OF(sums)));
		if (has_minimum(type))
			product = floats_fma(floats_load(tile[t].m[b]), floats_from_ints(SUM_OF(less)), product);
		product = floats_fma(float_to_all(row_at(&in->d, i)), product, floats_load(before + mine));
		floats_store(to + mine, product);
	}
}

INLINED void super_run(enum dtype type, int n, const struct run* run) {
	const int narrow = narrow_of(type), groups = 256 / group_of(type);
	struct inputs in = inputs_of(type, run);
	for (int b = 0; b < run->columns / 256; b++, advance_inputs(type, &in)) {
		struct weights w = {.at = run->w->q + b * 64};
		struct columns_of_rows q = in.q, behind = in.behind;
		const int32_t(*scale)[LANES] = run->w->scale + b * groups;
		ints sums[MOST_SUMS];
		zeros(TILES, n, sums);
		for (int column = 0; column < 256; column += narrow, w.at += narrow / 4) {
			if (column % 32 == 0)
				fetch(run, b * 256 + column);
			super_products(type, TILES, narrow / 4, n, sums, &w, &q, &behind, 0, scale);
			advance(&q, narrow);
			if (narrow == group_of(type) || column % 32) {
				advance(&behind, 4);
				scale++;
			}
		}
		super_end(type, TILES, n, sums, &in, run->w, b, run->sum, run->column / 256 + b);
	}
}

/* ---- what is compiled ------------------------------------------------------------------------- */

typedef void run_function(const struct run* run);

#define RUN(n, type)                                                                                         \
	static __attribute__((noinline)) void run_##type##_##n(const struct run* run) {                          \
		(small_blocks(type) ? small_run : super_run)(type, n, run);                                          \
	}
#define RUNS(type) UP_TO_4(RUN, type)
#define RUNNING(n, type) [type][n - 1] = run_##type##_##n,
#define RUN_OF(type) UP_TO_4(RUNNING, type)

/* Types whose tiles are alike share their products. */
#if NARROW
#define RUN_TYPES(X)                                                                                         \
	X(DTYPE_Q8_0)                                                                                            \
	X(DTYPE_Q4_0)                                                                                            \
	X(DTYPE_Q5_0)                                                                                            \
	X(DTYPE_Q4_1)                                                                                            \
	X(DTYPE_Q5_1)                                                                                            \
	X(DTYPE_Q2_K)                                                                                            \
	X(DTYPE_Q4_K)                                                                                            \
	X(DTYPE_Q5_K)                                                                                            \
	X(DTYPE_Q6_K)
#else
#define RUN_TYPES(X) X(DTYPE_Q8_0) X(DTYPE_Q4_1) X(DTYPE_Q2_K) X(DTYPE_Q4_K) X(DTYPE_Q6_K)
#endif
RUN_TYPES(RUNS)
static run_function* const run_of[DTYPE_COUNT][GROUP_ROWS] = {RUN_TYPES(RUN_OF)};

static void quantized_run(enum dtype type, int n, const struct run* run) {
	const bool itself = run_of[type][0] != NULL;
	const enum dtype alike = type == DTYPE_Q5_1   ? DTYPE_Q4_1
	                         : type == DTYPE_Q5_K ? DTYPE_Q4_K
	                         : type == DTYPE_Q3_K ? DTYPE_Q6_K
	                                              : DTYPE_Q8_0;
	run_of[itself ? type : alike][n - 1](run);
}
