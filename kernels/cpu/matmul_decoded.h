/* Products with weights that are widened a block at a time: DECODED_ROWS weight rows, CHUNK columns of each,
 * are decoded once and meet every activation row.
 *
 * Included with matmul_float.h's vectors and decode_row, which widens a row as dtype_to_float does. Every
 * element has one accumulator of V_LANES sums, fed by fused multiply-add in ascending order of the column,
 * whichever rows stand beside it. */

enum { DECODED_ROWS = 4, CHUNK = 256 };

/* sums (DECODED_ROWS, V_LANES) += w (DECODED_ROWS, CHUNK) · x (count) */
static void decoded_chunk(float* sums, const float* w, const float* x, int count) {
	V sum[DECODED_ROWS];
	for (int r = 0; r < DECODED_ROWS; r++)
		sum[r] = v_load(sums + r * V_LANES);
	for (int j = 0; j < count; j += V_LANES) {
		const V part = v_load(x + j);
		for (int r = 0; r < DECODED_ROWS; r++)
			sum[r] = v_fma(v_load(w + r * CHUNK + j), part, sum[r]);
	}
	for (int r = 0; r < DECODED_ROWS; r++)
		v_store(sums + r * V_LANES, sum[r]);
}

static void decoded_rows(float* out, size_t out_stride, const struct tensor* w, int64_t first, int rows,
                         const uint8_t* x, size_t x_bytes, int n) {
	float sums[MAX_ROWS][DECODED_ROWS * V_LANES], wide[DECODED_ROWS * CHUNK] = {0};
	const size_t row_bytes = dtype_row_bytes(w->type, w->cols);
	memset(sums, 0, (size_t)n * sizeof sums[0]);
	for (int64_t k = 0; k < w->cols; k += CHUNK) {
		const int count = (int)(w->cols - k < CHUNK ? w->cols - k : CHUNK);
		for (int r = 0; r < rows; r++)
			decode_row(w->type,
			           (const uint8_t*)w->data + row_bytes * (size_t)(first + r) +
			               dtype_row_bytes(w->type, k),
			           wide + r * CHUNK, count);
		for (int i = 0; i < n; i++)
			decoded_chunk(sums[i], wide, (const float*)(const void*)(x + (size_t)i * x_bytes) + k, count);
	}
	for (int i = 0; i < n; i++)
		for (int r = 0; r < rows; r++)
			out[(size_t)i * out_stride + (size_t)(first + r)] = v_sum(v_load(sums[i] + r * V_LANES));
}

static void decoded_matmul(float* out, size_t out_stride, const struct tensor* w, int64_t begin, int64_t end,
                           const void* x, int n) {
	const size_t x_bytes = prepared_float_bytes(w->cols);
	for (int64_t r = begin; r < end; r += DECODED_ROWS)
		decoded_rows(out, out_stride, w, r, (int)(end - r < DECODED_ROWS ? end - r : DECODED_ROWS), x,
		             x_bytes, n);
}
