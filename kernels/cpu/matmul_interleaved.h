/* Products with interleaved weights (kernels/interleaved.h), vectors of 256 bits.
 *
 * Included behind matmul_products.h. Each lane holds a word of its weight row from the start, so nothing has
 * to be transposed. Only the bits of the weights have to be unpacked. Columns are loaded, unpacked and
 * multiplied with up to INTERLEAVED_BATCH activation rows word by word, so that all sums stay in registers.
 * More activation rows read a group's weights again, from the cache. The sums are those of the tiles, in
 * their order. */

/* How many bytes ahead lines are fetched decides one row's speed: Qwen 1.5B decodes 28 tokens/s with 8192,
 * 23.5 with 4096 and 26.4 with 16384 (Zen 4, two threads, the runs that chose it). */
enum { FETCHED_AHEAD = 8192 };

enum {
	INTERLEAVED_BATCH = 6,
	HALF_SUMS = SLOTS * INTERLEAVED_BATCH * LANES /* of LANES rows */
};

/* A group of INTERLEAVED_ROWS weight rows against up to INTERLEAVED_BATCH activation rows, whose sums are
 * (INTERLEAVED_ROWS / LANES, SLOTS, INTERLEAVED_BATCH, LANES) */
struct group {
	const uint8_t* w;
	struct run run;
	bool fetched; /* it lies in the cache */
};

/* sum + four columns of the weights times four of an activation row, in 32 bits */
INLINED ints dot_whole(enum dtype type, ints sum, ints w, const uint8_t* x) {
#if NARROW
	if (signed_bytes(type))
		return dot_four_signed(sum, w, x);
#endif
	(void)type;
	return dot_four(sum, w, x);
}

/* Adds the 16-bit sums of products to whole ones, where products come so. */
INLINED void widen(int n, ints sums[], const ints some[]) {
	UNROLLED for (int i = 0; i < n; i++) sums[i] = ints_scaled(sums[i], some[i], ints_scale(ints_set(1)));
}

/* Block `block` of LANES rows, of 32 columns */
INLINED void interleaved_small(enum dtype type, int n, const struct rows* w, const struct inputs* in,
                               float* to, int64_t block) {
	const bool narrow = NARROW && !signed_bytes(type), each_half = narrow && narrow_of(type) == 16;
	const ints head = dtype_has_min(type) ? word_at(w, 0) : ints_set(0);
	const ints high = high_at(type) ? word_at(w, high_at(type)) : head;
	ints sums[INTERLEAVED_BATCH], some[INTERLEAVED_BATCH];
	small_start(type, 1, n, sums, in);
	UNROLLED for (int c = 0; c < 8; c++) {
		const ints four = interleaved_small_columns(type, w, high, c);
		if (narrow && c % (each_half ? 4 : 8) == 0)
			zeros(1, n, some);
		UNROLLED for (int i = 0; i < n; i++) {
			const uint8_t* x = row_at(&in->q, i) + c * 4;
			if (narrow)
				some[i] = dot_four(some[i], four, x);
			else
				sums[i] = dot_whole(type, sums[i], four, x);
		}
		if (narrow && (c == 7 || (each_half && c == 3)))
			widen(n, sums, some);
	}
	to += (block & (SLOTS - 1)) * INTERLEAVED_BATCH * LANES;
	const float* before = block < SLOTS ? nothing_yet : to;
	const floats d = dtype_has_min(type) ? floats_from_halves(head) : half_floats_at(w, 0);
	UNROLLED for (int i = 0; i < n; i++) {
		const floats both = floats_mul(d, float_to_all(row_at(&in->d, i)));
		floats sum = floats_fma(floats_from_ints(sums[i]), both, floats_load(before + i * LANES));
		if (dtype_has_min(type))
			sum = floats_fma(floats_from_halves(ints_right(head, 16)), float_to_all(row_at(&in->behind, i)),
			                 sum);
		floats_store(to + i * LANES, sum);
	}
}

/* Adds the products of 32 columns, which are share `share` of a step. */
INLINED void interleaved_share(enum dtype type, int n, int step, int share, const struct rows* w,
                               const struct header* header, const struct inputs* in, ints sums[]) {
	const int column = first_column(type, step, share), narrow = narrow_of(type);
	ints some[INTERLEAVED_BATCH];
	struct rows again = *w;
	KEPT(again.at); /* or words that two shares need would be kept, and drive sums out of the registers */
	UNROLLED for (int c = 0; c < 8; c++) {
		const int group = (column + c * 4) / group_of(type);
		if (c * 4 % narrow == 0)
			UNROLLED for (int i = 0; i < n; i++) some[i] =
			    has_minimum(type) ? ints_set(0) : to_all(row_at(&in->behind, i) + group * 4);
		const ints four = interleaved_columns(type, &again, step, share, c);
		UNROLLED for (int i = 0; i < n; i++) some[i] =
		    dot_four(some[i], four, row_at(&in->q, i) + column + c * 4);
		if ((c + 1) * 4 % narrow)
			continue;
		const ints scale = ints_scale(scale_of(type, header, group));
		UNROLLED for (int i = 0; i < n; i++) sums[i] = ints_scaled(sums[i], some[i], scale);
	}
}

/* Block `block` of LANES rows, of 256 columns */
INLINED void interleaved_super(enum dtype type, int n, const struct group* g, const struct rows* w,
                               const struct inputs* in, float* to, int64_t block) {
	const int halves = INTERLEAVED_ROWS / LANES;
	struct header header;
	ints sums[INTERLEAVED_BATCH];
	take_header(type, &header, w);
	zeros(1, n, sums);
	UNROLLED for (int step = 0; step < 4; step++) {
		if (!g->fetched)
			fetch_stream(w->at - w->lane * 4 + FETCHED_AHEAD, dtype_bytes_of(type),
			             (size_t)(step * halves + w->lane / LANES), (size_t)(4 * halves), true);
		UNROLLED for (int share = 0; share < 2; share++)
		    interleaved_share(type, n, step, share, w, &header, in, sums);
	}
	to += (block & (SUPER_SLOTS - 1)) * INTERLEAVED_BATCH * LANES;
	const float* before = block < SUPER_SLOTS ? nothing_yet : to;
	UNROLLED for (int i = 0; i < n; i++) {
		const floats product =
		    block_product(type, &header, floats_from_ints(sums[i]), row_at(&in->behind, i));
		const floats d = float_to_all(row_at(&in->d, i));
		floats_store(to + i * LANES, floats_fma(d, product, floats_load(before + i * LANES)));
	}
}

INLINED void interleaved_group(enum dtype type, int n, const struct group* g) {
	struct inputs in = inputs_of(type, &g->run);
	const size_t bytes = dtype_bytes_of(type);
	const uint8_t* at = g->w;
	for (int64_t b = 0; b < g->run.columns / (small_blocks(type) ? 32 : 256);
	     b++, advance_inputs(type, &in)) {
		if (small_blocks(type) && !g->fetched)
			fetch_stream(at + FETCHED_AHEAD, bytes, 0, 1, true);
		for (int lane = 0; lane < INTERLEAVED_ROWS; lane += LANES) {
			const struct rows w = {.at = at + lane * 4, .interleaved = true, .lane = lane};
			float* to = g->run.sum + lane / LANES * HALF_SUMS;
			if (small_blocks(type))
				interleaved_small(type, n, &w, &in, to, b);
			else
				interleaved_super(type, n, g, &w, &in, to, b);
		}
		at += INTERLEAVED_ROWS * bytes;
	}
}

/* ---- what is compiled ------------------------------------------------------------------------- */

typedef void group_function(const struct group*);

#define GROUP(n, type)                                                                                       \
	static __attribute__((noinline)) void group_##type##_##n(const struct group* g) {                        \
		interleaved_group(type, n, g);                                                                       \
	}
#define GROUPS(type) UP_TO_6(GROUP, type)
#define GROUPED(n, type) [type][n - 1] = group_##type##_##n,
#define GROUPS_OF(type) UP_TO_6(GROUPED, type)
MAIN_TYPES(GROUPS)
static group_function* const group_functions[DTYPE_COUNT][INTERLEAVED_BATCH] = {MAIN_TYPES(GROUPS_OF)};

#define TAKE_INTERLEAVED(type)                                                                               \
	static void take_interleaved_##type(struct tile* out, const struct rows* rows, int columns) {            \
		take_piece(type, true, out, *rows, columns);                                                         \
	}
#define TAKEN_INTERLEAVED(type) [type] = take_interleaved_##type,
MAIN_TYPES(TAKE_INTERLEAVED)
static take_function* const take_interleaved_of[DTYPE_COUNT] = {MAIN_TYPES(TAKEN_INTERLEAVED)};

/* begin and end are multiples of INTERLEAVED_ROWS. Many activation rows meet the weights in tiles. */
static void interleaved_matmul(float* out, size_t out_stride, const struct tensor* w, int64_t begin,
                               int64_t end, const uint8_t* x, int n) {
	_Alignas(64) float sums[INTERLEAVED_ROWS / LANES * HALF_SUMS];
	_Static_assert(TILES * LANES == INTERLEAVED_ROWS, "a group fills the tiles");
	const struct prepared layout = prepared_layout(w->type, (int)w->cols);
	const size_t row_bytes = dtype_row_bytes(w->type, w->cols);
	const int slots = slots_of(w->type), groups = (n + INTERLEAVED_BATCH - 1) / INTERLEAVED_BATCH;
	if (groups > 2) {
		tiled_matmul(out, out_stride, w, begin, end, x, n, take_interleaved_of[w->type]);
		return;
	}
	if (w->cols < slots * activation_block(w->type)) /* some stay empty */
		memset(sums, 0, sizeof sums);
	for (int64_t r = begin; r < end; r += INTERLEAVED_ROWS)
		for (int k = 0, i = 0; k < groups; k++) {
			const int some = n / groups + (k < n % groups);
			const struct group g = {.w = (const uint8_t*)w->data + row_bytes * (size_t)r,
			                        .run = whole_run(x + (size_t)i * layout.bytes, &layout, w->cols, sums),
			                        .fetched = k > 0};
			group_functions[w->type][some - 1](&g);
			for (int j = 0; j < some; j++, i++)
				for (int lane = 0; lane < INTERLEAVED_ROWS; lane += LANES) {
					const float* mine = sums + lane / LANES * HALF_SUMS + j * LANES;
					floats_store_anywhere(out + (size_t)i * out_stride + r + lane,
					                      slots == SLOTS
					                          ? slots_added(mine, SLOTS, INTERLEAVED_BATCH * LANES)
					                          : slots_added(mine, SUPER_SLOTS, INTERLEAVED_BATCH * LANES));
				}
		}
}
