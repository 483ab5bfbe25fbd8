/* Products of few activation rows with quantized weights: they are multiplied in the registers where they are
 * taken apart, and nothing goes to a tile and back but scales and minima. The sums are those of the tiles, in
 * their order. Included behind matmul_products.h. */

INLINED void multiply_now(const struct use* u, size_t vector, const ints w[4]) {
	const int column = (int)vector * 4;
	const struct weights held = {.held = w};
	if (small_blocks(u->type)) {
		small_products(u->type, 1, u->n, u->sums, u->some, &held, u->in, column);
		return;
	}
	const size_t lines = (LANES * dtype_bytes_of(u->type) + 63) / 64, part = vector / 4;
	UNROLLED for (size_t line = part * lines / 16; line < (part + 1) * lines / 16; line++)
	    _mm_prefetch((const char*)u->next + line * 64, _MM_HINT_T1);
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
	    .tile = &header, .type = type, .n = n, .in = &in, .sums = sums, .some = some, .next = run->next};
	for (int64_t b = 0; b < run->columns / (small ? 32 : 256); b++, advance_inputs(type, &in)) {
		if (small) {
			UNROLLED for (size_t line = 0; line < LANES * bytes; line += 64)
			    _mm_prefetch((const char*)use.next + line, _MM_HINT_T1);
			small_start(type, 1, n, sums, &in);
			take_block(type, &use, 0, &rows);
			small_end(type, 1, n, sums, &in, &header, 0, run->sum, b);
		} else {
			zeros(1, n, sums);
			take_block(type, &use, 0, &rows);
			super_end(type, 1, n, sums, &in, &header, 0, run->sum, b);
		}
		rows.at += bytes;
		use.next += LANES * bytes;
	}
}

typedef void direct_function(const struct run* run, const struct rows* rows);

#define DIRECT_ROW(type, n)                                                                                  \
	static                                                                                                   \
	    __attribute__((noinline)) void direct_##type##_##n(const struct run* run, const struct rows* rows) { \
		direct_tile(type, n, run, *rows);                                                                    \
	}
#define DIRECT_SMALL(type)                                                                                   \
	DIRECT_ROW(type, 1)                                                                                      \
	DIRECT_ROW(type, 2)                                                                                      \
	DIRECT_ROW(type, 3)                                                                                      \
	DIRECT_ROW(type, 4)                                                                                      \
	static direct_function* const direct_##type[DIRECT_ROWS] = {direct_##type##_1, direct_##type##_2,        \
	                                                            direct_##type##_3, direct_##type##_4};
#define DIRECT_SUPER(type) /* for more, a tile costs less: its groups are                                    \
                              multiplied as wholes */                                                        \
	DIRECT_ROW(type, 1)                                                                                      \
	DIRECT_ROW(type, 2)                                                                                      \
	DIRECT_ROW(type, 3)                                                                                      \
	static direct_function* const direct_##type[DIRECT_ROWS] = {direct_##type##_1, direct_##type##_2,        \
	                                                            direct_##type##_3};

DIRECT_SMALL(DTYPE_Q8_0)
DIRECT_SMALL(DTYPE_Q4_0)
DIRECT_SMALL(DTYPE_Q4_1)
DIRECT_SMALL(DTYPE_Q5_0)
DIRECT_SMALL(DTYPE_Q5_1)
DIRECT_SMALL(DTYPE_IQ4_NL)
DIRECT_SUPER(DTYPE_Q4_K)
DIRECT_SUPER(DTYPE_Q5_K)
DIRECT_SUPER(DTYPE_Q6_K)

static direct_function* const* direct_of(enum dtype type) {
#define DIRECTLY(type)                                                                                       \
	case type:                                                                                               \
		return direct_##type
	switch (type) {
		DIRECTLY(DTYPE_Q8_0);
		DIRECTLY(DTYPE_Q4_0);
		DIRECTLY(DTYPE_Q4_1);
		DIRECTLY(DTYPE_Q5_0);
		DIRECTLY(DTYPE_Q5_1);
		DIRECTLY(DTYPE_IQ4_NL);
		DIRECTLY(DTYPE_Q4_K);
		DIRECTLY(DTYPE_Q5_K);
		DIRECTLY(DTYPE_Q6_K);
	default:
		return NULL;
	}
#undef DIRECTLY
}

/* False, and nothing done, where there are too many activation rows, too few
 * weight rows or no such kernel.
 */
static bool direct_matmul(float* out, size_t out_stride, const struct tensor* w, int64_t begin, int64_t end,
                          const uint8_t* x, int n) {
	_Alignas(64) float sums[GROUP_SUMS];
	direct_function* const* direct = direct_of(w->type);
	if (!direct || n > DIRECT_ROWS || !direct[n - 1] || end - begin < LANES)
		return false;
	const struct prepared layout = prepared_layout(w->type, (int)w->cols);
	const size_t row_bytes = dtype_row_bytes(w->type, w->cols);
	const int slots = slots_of(w->type);
	if (w->cols < slots * activation_block(w->type)) /* some stay empty */
		memset(sums, 0, sizeof sums);
	struct run run = {.q = (const int8_t*)x,
	                  .d = x + layout.d,
	                  .sums = x + layout.sums,
	                  .starts = x + layout.starts,
	                  .x_stride = layout.bytes,
	                  .columns = (int)w->cols,
	                  .sum = sums};
	for (int64_t r = begin; r < end; r += LANES) {
		const int64_t at = r < end - LANES ? r : end - LANES; /* the last tile may do rows again */
		const struct rows rows = {.at = (const uint8_t*)w->data + row_bytes * (size_t)at,
		                          .stride = row_bytes};
		run.next = rows.at + LANES * row_bytes;
		direct[n - 1](&run, &rows);
		add_slots(sums, slots, n);
		for (int i = 0; i < n; i++)
			memcpy(out + (size_t)i * out_stride + at, sums + i * LANES, sizeof(float) * LANES);
	}
	return true;
}
