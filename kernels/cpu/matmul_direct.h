/* Products of few activation rows with quantized weights. The weights are multiplied in the registers in
 * which they are unpacked. Only scales and minima go through a tile. The sums are those of the tiles, in
 * their order. Included behind matmul_products.h.
 *
 * A tile's rows lie as far apart as the range allows. So each lane reads a stream, row behind row, and eight
 * at once come faster than one (two Zen 3 cores: 27 and 14 to 17 GB/s with as much to compute). Each is
 * fetched ahead, a few lines at a time: a Zen 3 follows them by itself, a Zen 5 does not (SmolLM2 270, 225
 * without, one stream 210 tokens/s; Qwen 1.5B 36, 26, 36). */

INLINED void multiply_now(const struct use* u, size_t vector, const ints w[4]) {
	const int column = (int)vector * 4;
	const size_t shares = small_blocks(u->type) ? 2 : 16; /* of sixteen columns each */
	fetch_share(u->rows, dtype_bytes_of(u->type), vector / 4 % shares, shares);
	const struct weights held = {.held = w};
	if (small_blocks(u->type)) {
		small_products(u->type, 1, u->n, u->sums, u->some, &held, u->in, column);
		return;
	}
	super_products(u->type, 1, 4, u->n, u->sums, &held, &u->in->q, &u->in->behind, column,
	               (const int32_t(*)[LANES])u->tile->scale);
}

INLINED void direct_tile(enum dtype type, int n, const struct run* run, struct rows rows) {
	const bool small = small_blocks(type);
	const size_t bytes = dtype_bytes_of(type);
	struct tile header; /* of one block; its columns stay in registers */
	struct inputs in = inputs_of(type, run);
	ints sums[DIRECT_ROWS], some[DIRECT_ROWS];
	struct use use = {
	    .tile = &header, .type = type, .n = n, .in = &in, .sums = sums, .some = some, .rows = &rows};
	for (int64_t b = 0; b < run->columns / (small ? 32 : 256); b++, advance_inputs(type, &in)) {
		if (small) {
			small_start(type, 1, n, sums, &in);
			take_block(type, &use, 0, &rows);
			small_end(type, 1, n, sums, &in, &header, 0, run->sum, b);
		} else {
			zeros(1, n, sums);
			take_block(type, &use, 0, &rows);
			super_end(type, 1, n, sums, &in, &header, 0, run->sum, b);
		}
		rows.at += bytes;
	}
}

typedef void direct_function(const struct run* run, const struct rows* rows);

#define DIRECT_ROW(n, type)                                                                                  \
	static                                                                                                   \
	    __attribute__((noinline)) void direct_##type##_##n(const struct run* run, const struct rows* rows) { \
		direct_tile(type, n, run, *rows);                                                                    \
	}
#define DIRECT_OF(type) UP_TO_4(DIRECT_ROW, type)
#define DIRECTLY(n, type) [type][n - 1] = direct_##type##_##n,
#define DIRECTLY_OF(type) UP_TO_4(DIRECTLY, type)
MAIN_TYPES(DIRECT_OF)
static direct_function* const direct_of[DTYPE_COUNT][DIRECT_ROWS] = {MAIN_TYPES(DIRECTLY_OF)};

/* False, and nothing done, where there are too many activation rows (four of blocks of 256 cost less by a
 * tile, whose groups are multiplied as wholes), too few weight rows or no such kernel. */
static bool direct_matmul(float* out, size_t out_stride, const struct tensor* w, int64_t begin, int64_t end,
                          const uint8_t* x, int n) {
	_Alignas(64) float sums[GROUP_SUMS];
	direct_function* const* direct = direct_of[w->type];
	const int most = small_blocks(w->type) ? DIRECT_ROWS : DIRECT_ROWS - 1;
	if (!direct[0] || n > most || end - begin < LANES)
		return false;
	const struct prepared layout = prepared_layout(w->type, (int)w->cols);
	const size_t row_bytes = dtype_row_bytes(w->type, w->cols);
	const int slots = slots_of(w->type);
	if (w->cols < slots * activation_block(w->type)) /* some stay empty */
		memset(sums, 0, sizeof sums);
	const struct run run = whole_run(x, &layout, w->cols, sums);
	const int64_t apart = (end - begin) / LANES;
	for (int64_t r = 0; r < apart + ((end - begin) % LANES > 0); r++) {
		/* the last tile may do rows again */
		const int64_t first = r < apart ? begin + r : end - LANES, step = r < apart ? apart : 1;
		const struct rows rows = {.at = (const uint8_t*)w->data + row_bytes * (size_t)first,
		                          .stride = row_bytes * (size_t)step};
		direct[n - 1](&run, &rows);
		add_slots(sums, slots, n);
		for (int i = 0; i < n; i++)
			for (int lane = 0; lane < LANES; lane++)
				out[(size_t)i * out_stride + (size_t)(first + lane * step)] = sums[i * LANES + lane];
	}
	return true;
}
