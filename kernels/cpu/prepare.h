/* Quantizes activations to int8 blocks, to the same bytes as the plain code (reference_matmul.c).
 *
 * Included by one source file an architecture, which defines before it:
 *   largest_of(x, n)          max |x|, or NaN when a value is not finite
 *   quantize_32(x, q, s)      q (32) = x·s, rounded
 *   sums_of_16(q, sums)       of q (32): of its halves
 *   offset_sums(q, o, sums)   -o times the sums of each half's columns 0, 1 mod 4 and of columns 2, 3 mod 4
 */

/* q (n), returns d; NaN when a value is not finite, 0 when all are zero or too small to divide by */
static float quantize(const float* x, int8_t* q, int n) {
	const float largest = largest_of(x, n), inverse = 127.0f / largest;
	if (!isfinite(inverse)) {
		memset(q, 0, (size_t)n);
		return isnan(largest) ? fabsf(largest) : 0;
	}
	for (int i = 0; i < n; i += 32)
		quantize_32(x + i, q + i, inverse);
	return largest / 127.0f;
}

static void prepare_small(enum dtype weight, uint8_t* out, const struct prepared* layout, const float* x,
                          int cols) {
	const int bias = dtype_bias(weight);
	for (int b = 0; b < cols / 32; b++) {
		int8_t* q = (int8_t*)out + b * 32;
		const float d = quantize(x + b * 32, q, 32);
		int32_t sums[2];
		sums_of_16(q, sums);
		const int32_t sum = sums[0] + sums[1], correction = -bias * sum;
		const float min_factor = d * (float)sum;
		memcpy(out + layout->d + (size_t)b * 4, &d, 4);
		memcpy(out + layout->sums + (size_t)b * 4,
		       dtype_has_min(weight) ? (const void*)&min_factor : (const void*)&correction, 4);
	}
}

/* Behind the scales of blocks of 256: sums by groups */
static void prepare_groups(enum dtype weight, uint8_t* out, const struct prepared* layout, int cols) {
	const int offset = group_offset(weight);
	for (int b = 0; b < cols / 32; b++) {
		const int8_t* q = (const int8_t*)out + b * 32;
		int32_t sums[2];
		sums_of_16(q, sums);
		const int32_t starts[2] = {-offset * sums[0], -offset * sums[1]};
		const int16_t each[2] = {(int16_t)sums[0], (int16_t)sums[1]}, both = (int16_t)(sums[0] + sums[1]);
		if (offset) {
			offset_sums(q, offset, out + layout->sums + (size_t)b * 8);
			memcpy(out + layout->starts + (size_t)b * 8, starts, 8);
		} else if (group_of(weight) == 16) {
			memcpy(out + layout->sums + (size_t)b * 4, each, 4);
		} else {
			memcpy(out + layout->sums + (size_t)b * 2, &both, 2);
		}
	}
}

static void prepare_super(enum dtype weight, uint8_t* out, const struct prepared* layout, const float* x,
                          int cols) {
	for (int b = 0; b < cols / 256; b++) {
		const float d = quantize(x + b * 256, (int8_t*)out + b * 256, 256);
		memcpy(out + layout->d + (size_t)b * 4, &d, 4);
	}
	prepare_groups(weight, out, layout, cols);
}

static void prepare(enum dtype weight, uint8_t* out, const float* x, int cols) {
	if (dtype_takes_floats(weight)) {
		reference_prepare(weight, out, x, cols);
		return;
	}
	const struct prepared layout = prepared_layout(weight, cols);
	memset(out + cols, 0, layout.bytes - (size_t)cols); /* gaps are zeros */
	if (activation_block(weight) == BLOCK_SMALL)
		prepare_small(weight, out, &layout, x, cols);
	else
		prepare_super(weight, out, &layout, x, cols);
}
