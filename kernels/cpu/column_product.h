/* Products of a row's kept channels with weights by input channel (kernels/columns.h), over a vector type.
 *
 * Included by one source file an instruction set, which defines before it: `ints` and `floats` of LANES lanes
 * with the operations that matmul_quantized.h asks for, to_all, and bytes_low, bytes_high(a, b)   the bytes
 * of a and b interleaved, of the low or high half of each 16 bytes words_low, words_high(a, b)   the same of
 * 16-bit words codes_dot(sum, codes, q)      sum + in each lane four bytes of `codes`, 0…15, times the four
 * signed bytes in q; in 16 bits where COLUMN_NARROW, for at most COLUMN_NARROW calls codes_widen(sum, narrow)
 * the sum of the lane's 16-bit halves joins sum, where COLUMN_NARROW
 *
 * A line is read in parts of a vector. Of four channels the bytes are interleaved, so that each lane holds
 * four channels' codes of two outputs, in the low and high nibbles. */
#include <string.h>

#include "kernels/columns.h"
#include "kernels/cpu/matmul.h"

enum { COLUMN_PARTS = COLUMN_LINE / (LANES * 4) };

/* The quantized activations of a group in one tile, by the channels' scales, which stand `next` bytes further
 * on in the next tile; less: 120 times their sums. */
static void quantize_kept(int8_t q[COLUMN_SCALES][COLUMN_GROUP], int32_t less[COLUMN_SCALES],
                          const struct column_list* list, int from, int n, const uint8_t* scale,
                          size_t next) {
	uint32_t codes[COLUMN_GROUP];
	for (int i = 0; i < n; i++) {
		const uint8_t* at = scale + (size_t)list->channel[from + i] * COLUMN_SCALES;
		memcpy(&codes[i], at, sizeof codes[i]);
		if (i % 4 == 0) /* of the next tile */
			__builtin_prefetch(at + next);
	}
	for (int k = 0; k < COLUMN_SCALES; k++) {
		int32_t sum = 0;
		for (int i = 0; i < n; i++) {
			/* 3·2^22 is so large that nothing behind the point has room beside it: the low bits are the whole
			 * number */
			const float shifted =
			    list->value[from + i] * column_scale((uint8_t)(codes[i] >> 8 * k & 255)) + 12582912.0f;
			int32_t bits;
			memcpy(&bits, &shifted, sizeof bits);
			q[k][i] = (int8_t)(bits & 0xff);
			sum += q[k][i];
		}
		less[k] = 120 * sum;
	}
}

/* Four channels' codes at `at` (part `p` of their lines), interleaved by channel */
INLINED void interleave_four(ints out[4], const uint8_t* tile, const uint32_t* place, int p) {
	const uint8_t* at = tile + p * LANES * 4;
	const ints a = ints_load_anywhere(at + (size_t)place[0] * COLUMN_LINE),
	           b = ints_load_anywhere(at + (size_t)place[1] * COLUMN_LINE);
	const ints c = ints_load_anywhere(at + (size_t)place[2] * COLUMN_LINE),
	           d = ints_load_anywhere(at + (size_t)place[3] * COLUMN_LINE);
	const ints ab = bytes_low(a, b), ba = bytes_high(a, b), cd = bytes_low(c, d), dc = bytes_high(c, d);
	out[0] = words_low(ab, cd);
	out[1] = words_high(ab, cd);
	out[2] = words_low(ba, dc);
	out[3] = words_high(ba, dc);
}

/* sum (8) += the products of n channels, a multiple of 4, with part p of their lines; their activations begin
 * at `from` in the rows of q */
INLINED void column_dots(ints sum[8], const uint8_t* tile, const uint32_t* place, int8_t (*q)[COLUMN_GROUP],
                         int from, int n, int p) {
	const ints low = ints_bytes(15);
	for (int i = 0; i < n; i += 4) {
		ints four[4];
		if (p == 0)
			UNROLLED for (int c = 0; c < 4; c++)
			    __builtin_prefetch(tile + (size_t)place[i + c + COLUMN_AHEAD] * COLUMN_LINE, 0, 2);
		interleave_four(four, tile, place + i, p);
		UNROLLED for (int k = 0; k < 4; k++) {
			const ints activations = to_all(q[k] + from + i);
			sum[2 * k] = codes_dot(sum[2 * k], ints_and(four[k], low), activations);
			sum[2 * k + 1] = codes_dot(sum[2 * k + 1], ints_and(ints_right(four[k], 4), low), activations);
		}
	}
}

/* The integer products of a group with part p of the tile's lines */
INLINED void group_dots(ints sum[8], const uint8_t* tile, const uint32_t* place, int8_t (*q)[COLUMN_GROUP],
                        int n, int p) {
	UNROLLED for (int k = 0; k < 8; k++) sum[k] = ints_set(0);
#if COLUMN_NARROW
	for (int i = 0; i < n; i += 4 * COLUMN_NARROW) {
		const int some = n - i < 4 * COLUMN_NARROW ? n - i : 4 * COLUMN_NARROW;
		ints narrow[8];
		UNROLLED for (int k = 0; k < 8; k++) narrow[k] = ints_set(0);
		column_dots(narrow, tile, place + i, q, i, some, p);
		UNROLLED for (int k = 0; k < 8; k++) sum[k] = codes_widen(sum[k], narrow[k]);
	}
#else
	column_dots(sum, tile, place, q, 0, n, p);
#endif
}

/* out (COLUMN_OUTPUTS) of one tile */
static void column_tile(float* out, const uint8_t* tile, const uint8_t* scale, size_t next,
                        const struct column_list* list) {
	int8_t q[COLUMN_SCALES][COLUMN_GROUP];
	int32_t less[COLUMN_SCALES];
	memset(out, 0, COLUMN_OUTPUTS * sizeof *out);
	for (int from = 0; from < list->n; from += COLUMN_GROUP) {
		const int n = list->n - from < COLUMN_GROUP ? list->n - from : COLUMN_GROUP;
		quantize_kept(q, less, list, from, n, scale, next);
		/* (16·code - 120)·q / 16: the 7.5 that codes lie above 0 stays a whole number */
		const float step = list->step[from / COLUMN_GROUP] / 16;
		UNROLLED for (int p = 0; p < COLUMN_PARTS; p++) {
			ints sum[8];
			group_dots(sum, tile, list->place + from, q, n, p);
			UNROLLED for (int k = 0; k < 8; k++) {
				float* to = out + 16 * k + LANES * p;
				const ints exact = ints_sub(ints_left(sum[k], 4), ints_set(less[k / 2]));
				const floats product = floats_mul(floats_from_ints(exact), float_to_all(&step));
				floats_store_anywhere(to, floats_add(floats_load_anywhere(to), product));
			}
		}
	}
}

/* As cpu_kernels.column_product has it */
static void column_product(float* out, size_t out_stride, const struct column_map* map, int64_t tile,
                           const struct column_list* list, int n) {
	const uint8_t* codes = map->codes + (size_t)tile * (size_t)map->channels * COLUMN_LINE;
	const uint8_t* scale = map->scale + (size_t)tile * (size_t)map->channels * COLUMN_SCALES;
	for (int i = 0; i < n; i++)
		column_tile(out + (size_t)i * out_stride, codes, scale, (size_t)map->channels * COLUMN_SCALES,
		            &list[i]);
}
