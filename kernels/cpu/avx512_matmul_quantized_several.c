/* Products of several activation rows with quantized weights, AVX-512 with VNNI.
 *
 * Sixteen weight rows lie across lanes as in matmul_quantized.h, but stay in registers from where they are
 * taken apart to where they are used: nothing goes to the cache and back, and the processor turns the next
 * columns round while it multiplies these. Up to eight rows share a turning, eight more turn anew, from the
 * cache. For more, the tile that all of them share is cheaper. Up to four rows a tile's rows lie apart and
 * are streams (matmul_direct.h): of the time that fetching the next tile takes, three rows of Q4_K, Q6_K and
 * Q8_0 take .93, .90 and .80, four 1 to .83, and eight are no faster (Cascade Lake, from memory). The sums
 * are those of avx512_matmul_quantized.c, in its order.
 *
 * The sums of a block stay in registers: a store of 64 bytes takes a Zen 4 as long as one to two products.
 * Therefore the steps of a block are unrolled. In a loop, GCC 12 stores every sum at the end of each step.
 */
#include "kernels/cpu/matmul.h"

#if defined(__AVX512VNNI__)
#include "kernels/cpu/avx512_ints.h"

#include "kernels/cpu/lane_sums.h"
#include "kernels/cpu/quantized_lanes.h"

/* A Q6_K block of all rows is 3,360 bytes and its scales stand last, so 4 KiB would fetch these too late. */
enum { SEVERAL = GROUP_ROWS, MOST_GROUPS = 2, FETCHED_AHEAD = 4096, FETCHED_FAR = 8192 };

/* One tile of LANES weight rows against up to SEVERAL activation rows. */
struct several {
	struct rows w;
	const uint8_t* x;
	const struct prepared* layout;
	int64_t cols;
	float* sum; /* (SLOTS or SUPER_SLOTS, SEVERAL, LANES) */
	bool far;   /* fetches go to the second-level cache */
};

/* Of every fourth row from `first` on, the lines of a block of `bytes`, STREAM_AHEAD later */
INLINED void fetch_fourth(const struct rows* rows, size_t first, size_t bytes, bool far) {
	const uint8_t* at = rows->at + first * rows->stride + STREAM_AHEAD;
	size_t four = 4 * rows->stride, twelve = 3 * four;
	KEPT(at);
	KEPT(four);
	KEPT(twelve);
	UNROLLED for (size_t line = 0; line < bytes; line += 64) {
		fetch_line(at + line, far);
		fetch_line(at + line + four, far);
		fetch_line(at + line + 2 * four, far);
		fetch_line(at + line + twelve, far);
	}
}

/* Of a block of all rows, interleaved, the share `part` of `parts`, further on */
INLINED void fetch_interleaved(const struct rows* rows, size_t bytes, size_t part, size_t parts, bool far) {
	fetch_stream(rows->at + (far ? FETCHED_FAR : FETCHED_AHEAD), bytes, part, parts, far);
}

/* A small block later. Two blocks fit a line, so each fetches half of the rows; q8_0's are longer, and each
 * fetches all. */
INLINED void fetch_small(const struct rows* rows, size_t bytes, int64_t b, bool far) {
	if (bytes > 32 || b % 2 == 0) {
		fetch_fourth(rows, 0, bytes, far);
		fetch_fourth(rows, 1, bytes, far);
	}
	if (bytes > 32 || b % 2 == 1) {
		fetch_fourth(rows, 2, bytes, far);
		fetch_fourth(rows, 3, bytes, far);
	}
}

/* The addresses of activation rows at a block, from which their scales, sums and starts are addressed, too */
struct places {
	const uint8_t* row[SEVERAL];
};

/* The compiler adds a column to each address in the instruction that loads. Left to itself, it computes the
 * sums of columns and multiples of `one` ahead of the loop, and they fill the registers. */
INLINED struct places places_of(int n, const struct columns_of_rows* columns) {
	struct places at;
	UNROLLED for (int i = 0; i < n; i++) {
		at.row[i] = row_at(columns, i);
		if (i >= 5)
			KEPT(at.row[i]);
	}
	return at;
}

/* ---- blocks of 32 ---------------------------------------------------------------------------- */

/* A block of 32 of each row, and its scale and minimum; Q8_0's columns are eight vectors, others' four. */
struct small {
	ints packed[8], high;
	floats d, m;
};

INLINED void take_small(enum dtype type, struct small* out, const struct rows* w) {
	if (w->interleaved && !dtype_has_min(type)) {
		out->d = half_floats_at(w, 0);
		if (type == DTYPE_Q5_0)
			out->high = words(w, 2, 0);
	} else {
		ints head[4];
		columns(w, 0, head); /* what is not used is not computed */
		out->d = floats_from_halves(head[0]);
		if (dtype_has_min(type))
			out->m = floats_from_halves(ints_right(head[0], 16));
		if (type == DTYPE_Q5_0)
			out->high = ints_or(ints_right(head[0], 16), ints_left(head[1], 16));
		else if (type == DTYPE_Q5_1)
			out->high = head[1];
	}
	columns(w, dtype_bytes_of(type) - (type == DTYPE_Q8_0 ? 32 : 16), out->packed);
	if (type == DTYPE_Q8_0)
		columns(w, 18, out->packed + 4);
}

/* Columns 4c…, a byte each */
INLINED ints small_columns(enum dtype type, const struct small* w, int c) {
	if (type == DTYPE_Q8_0)
		return ints_flip_signs(w->packed[c]);
	const ints low = low_bits(w->packed[c % 4], c / 4 * 4, 15);
	if (type == DTYPE_IQ4_NL)
		return ints_iq4(low);
	return high_at(type) ? with_fifth_bits(low, w->high, c) : low;
}

INLINED void small_tile(enum dtype type, int n, bool interleaved, const struct several* job) {
	static const float nothing_yet[SEVERAL * LANES];
	const bool minimum = dtype_has_min(type);
	int far = job->far;
	const size_t bytes = dtype_bytes_of(type), apart = interleaved ? LANES * bytes : bytes;
	const int64_t blocks = job->cols / 32;
	float* const slots = job->sum;
	struct rows w = {.at = job->w.at, .stride = job->w.stride, .interleaved = interleaved};
	struct columns_of_rows q = rows_from(job->x, job->layout->bytes);
	ptrdiff_t d_at = (ptrdiff_t)job->layout->d, behind_at = (ptrdiff_t)job->layout->sums;
	for (int64_t b = 0; b < blocks; b++, w.at += apart, advance(&q, 32)) {
		const struct places at = places_of(n, &q);
		struct small block;
		ints sums[SEVERAL];
		KEPT(far); /* or the loop would be compiled for both */
		if (interleaved)
			fetch_interleaved(&w, bytes, 0, 1, far);
		else
			fetch_small(&w, bytes, b, far);
		take_small(type, &block, &w);
		UNROLLED for (int i = 0; i < n; i++) sums[i] = minimum ? ints_set(0) : to_all(at.row[i] + behind_at);
		UNROLLED for (int c = 0; c < 8; c++) {
			const ints four = small_columns(type, &block, c);
			UNROLLED for (int i = 0; i < n; i++) sums[i] = dot_four(sums[i], four, at.row[i] + c * 4);
		}
		float* to = slots + b % SLOTS * SEVERAL * LANES;
		const float* before = b < SLOTS ? nothing_yet : to;
		UNROLLED for (int i = 0; i < n; i++) {
			const floats both = _mm512_mul_ps(block.d, float_to_all(at.row[i] + d_at));
			floats sum =
			    _mm512_fmadd_ps(floats_from_ints(sums[i]), both, _mm512_loadu_ps(before + i * LANES));
			if (minimum)
				sum = _mm512_fmadd_ps(block.m, float_to_all(at.row[i] + behind_at), sum);
			_mm512_store_ps(to + i * LANES, sum);
		}
		d_at -= 32 - 4;
		behind_at -= 32 - 4;
	}
}

/* ---- blocks of 256 --------------------------------------------------------------------------- */

/* A step's 64 columns, packed, and their further bits. Interleaved rows have them in memory as they are used,
 * and leave this alone. */
struct packed {
	ints low[8], high[8];
};

INLINED void load_eight(const struct rows* rows, size_t at, ints out[8]) {
	columns(rows, at, out);
	columns(rows, at + 16, out + 4);
}

INLINED void move_down(ints v[8], int bits) {
	UNROLLED for (int c = 0; c < 8; c++) v[c] = ints_right(v[c], bits);
}

/* The bits move down from step to step. */
INLINED void take_packed(enum dtype type, struct packed* p, int step, const struct rows* w) {
	if (low_moved(type, step))
		move_down(p->low, 4);
	else
		load_eight(w, low_at(type, step), p->low);
	if (!has_high(type))
		return;
	if (high_moved(type, step))
		move_down(p->high, 2);
	else
		load_eight(w, high_at_step(type, step), p->high);
}

/* Columns 4c… of share `share` of a step of a block of 256, a byte each */
INLINED ints take_block(enum dtype type, const struct rows* w, const struct packed* p, int step, int share,
                        int c) {
	return w->interleaved ? interleaved_columns(type, w, step, share, c)
	                      : four_columns(type, p->low[c], 0, p->high[c], 0, share);
}

/* A block's products with each row times their groups' scales. Of Q4_K they are added up in floats, low and
 * high nibbles apart: a conversion and a product with a sum are less work than an integer product and a sum.
 * They are exact. A group's products are below 32·15·128 in size and its scale is below 64, so sums of four
 * groups stay below 2^24, where floats have all integers. High nibbles stay where they are, sixteen times as
 * large, and their scales are a sixteenth. */
struct block_sums {
	ints whole[SEVERAL];
	floats half[2][SEVERAL];
};

INLINED bool sums_in_floats(enum dtype type) { return type == DTYPE_Q4_K; }

INLINED void start_sums(int n, struct block_sums* sums) {
	UNROLLED for (int i = 0; i < n; i++) {
		sums->whole[i] = ints_set(0);
		sums->half[0][i] = sums->half[1][i] = floats_zero();
	}
}

/* A block's whole sum with row i */
INLINED floats sum_of_block(enum dtype type, const struct block_sums* sums, int i) {
	return sums_in_floats(type) ? floats_add(sums->half[0][i], sums->half[1][i])
	                            : floats_from_ints(sums->whole[i]);
}

/* Columns 4c… of a share of a step of Q4_K, in the half of a byte where they are stored */
INLINED ints take_nibbles(const struct rows* w, const struct packed* p, int step, int share, int c) {
	const ints both = w->interleaved ? word_at(w, low_at(DTYPE_Q4_K, step) + (size_t)c * 4) : p->low[c];
	return ints_and(both, ints_bytes(share ? 0xf0 : 15));
}

/* Adds the products of the 32 columns of a share of a step of Q4_K, which are a group. */
INLINED void nibble_share(int n, int step, int share, const struct rows* w, const struct packed* p,
                          const struct header* header, const struct columns_of_rows* q, int column,
                          struct block_sums* sums) {
	ints one[SEVERAL];
	const struct places at = places_of(n, q);
	UNROLLED for (int i = 0; i < n; i++) one[i] = ints_set(0);
	UNROLLED for (int c = 0; c < 8; c++) {
		const ints four = take_nibbles(w, p, step, share, c);
		UNROLLED for (int i = 0; i < n; i++) one[i] = dot_four(one[i], four, at.row[i] + column + c * 4);
	}
	const floats scale = floats_from_ints(scale_of(DTYPE_Q4_K, header, column / 32));
	const floats factor = floats_mul(scale, _mm512_set1_ps(share ? 1.0f / 16 : 1));
	UNROLLED for (int i = 0; i < n; i++) sums->half[share][i] =
	    floats_fma(floats_from_ints(one[i]), factor, sums->half[share][i]);
}

/* Adds the products of the 32 columns from `column` on, which are share `share` of a step. */
INLINED void super_share(enum dtype type, int n, int step, int share, const struct rows* w,
                         const struct packed* p, const struct header* header, const struct columns_of_rows* q,
                         ptrdiff_t starts, int column, struct block_sums* sums) {
	const int group = group_of(type), groups = 32 / group;
	const struct places at = places_of(n, q);
	struct rows again = *w;
	KEPT(starts);
	UNROLLED for (int g = 0; g < groups; g++) {
		ints one[SEVERAL];
		KEPT(again.at);
		UNROLLED for (int i = 0; i < n; i++) one[i] =
		    group_offset(type) ? to_all(at.row[i] + starts + (column / 16 + g) * 4) : ints_set(0);
		UNROLLED for (int c = g * group / 4; c < (g + 1) * group / 4; c++) {
			const ints four = take_block(type, &again, p, step, share, c);
			UNROLLED for (int i = 0; i < n; i++) one[i] = dot_four(one[i], four, at.row[i] + column + c * 4);
		}
		const ints scale = scale_of(type, header, column / group + g);
		UNROLLED for (int i = 0; i < n; i++) {
			sums->whole[i] = _mm512_add_epi32(sums->whole[i], _mm512_mullo_epi32(one[i], scale));
			IN_ORDER(sums->whole[i]);
		}
	}
}

/* A block's whole sums meet its scales and minima, d and behind, and join those `before`. */
INLINED void super_end(enum dtype type, int n, const struct header* h, const struct block_sums* sums,
                       const struct columns_of_rows* q, ptrdiff_t d, ptrdiff_t behind, const float* before,
                       float* to) {
	const struct places at = places_of(n, q);
	UNROLLED for (int i = 0; i < n; i++) {
		const floats product = block_product(type, h, sum_of_block(type, sums, i), at.row[i] + behind);
		_mm512_store_ps(to + i * LANES, _mm512_fmadd_ps(float_to_all(at.row[i] + d), product,
		                                                _mm512_loadu_ps(before + i * LANES)));
	}
}

/* Adds the products of a step's 64 columns. */
INLINED void super_step(enum dtype type, int n, int step, bool interleaved, int far, size_t bytes,
                        const struct rows* w, struct packed* packed, const struct header* header,
                        const struct columns_of_rows* q, ptrdiff_t starts_at, struct block_sums* sums) {
	KEPT(far); /* or all that follows would be compiled for both */
	if (interleaved)
		fetch_interleaved(w, bytes, (size_t)step, 4, far);
	else {
		fetch_fourth(w, (size_t)step, bytes, far);
		take_packed(type, packed, step, w);
	}
	UNROLLED for (int share = 0; share < 2; share++) {
		const int column = first_column(type, step, share);
		if (sums_in_floats(type))
			nibble_share(n, step, share, w, packed, header, q, column, sums);
		else
			super_share(type, n, step, share, w, packed, header, q, starts_at, column, sums);
	}
}

INLINED void super_tile(enum dtype type, int n, bool interleaved, const struct several* job) {
	static const float nothing_yet[SEVERAL * LANES];
	int far = job->far;
	const size_t bytes = dtype_bytes_of(type), apart = interleaved ? LANES * bytes : bytes;
	const int64_t blocks = job->cols / 256;
	const int pair_bytes = 128 / group_of(type) * 4;
	float* const slots = job->sum;
	struct rows w = {.at = job->w.at, .stride = job->w.stride, .interleaved = interleaved};
	struct columns_of_rows q = rows_from(job->x, job->layout->bytes);
	ptrdiff_t d_at = (ptrdiff_t)job->layout->d, behind_at = (ptrdiff_t)job->layout->sums,
	          starts_at = (ptrdiff_t)job->layout->starts;
	for (int64_t b = 0; b < blocks; b++, w.at += apart, advance(&q, 256)) {
		struct header header;
		struct packed packed = {0};
		struct block_sums sums;
		take_header(type, &header, &w);
		start_sums(n, &sums);
		if (n == 1) /* it waits for memory, and is not faster unrolled; Q6_K takes .9 of the time in a loop */
			for (int step = 0; step < 4; step++)
				super_step(type, n, step, interleaved, far, bytes, &w, &packed, &header, &q, starts_at,
				           &sums);
		else
			UNROLLED for (int step = 0; step < 4; step++) super_step(
			    type, n, step, interleaved, far, bytes, &w, &packed, &header, &q, starts_at, &sums);
		int64_t block_now = b;
		KEPT(block_now); /* or the loop would be split, and compiled twice */
		float* to = slots + block_now % SUPER_SLOTS * SEVERAL * LANES;
		super_end(type, n, &header, &sums, &q, d_at, behind_at, block_now < SUPER_SLOTS ? nothing_yet : to,
		          to);
		d_at -= 256 - 4;
		behind_at -= 256 - pair_bytes;
		starts_at -= 256 - 64;
	}
}

/* ---- rows ------------------------------------------------------------------------------------ */

typedef void several_function(const struct several* job);

#define TILE(n, type)                                                                                        \
	static __attribute__((noinline)) void tile_##type##_##n(const struct several* job) {                     \
		(small_blocks(type) ? small_tile : super_tile)(type, n, false, job);                                 \
	}                                                                                                        \
	static __attribute__((noinline)) void stream_##type##_##n(const struct several* job) {                   \
		(small_blocks(type) ? small_tile : super_tile)(type, n, true, job);                                  \
	}
#define TILES_OF(type) UP_TO_8(TILE, type)
#define TILED(n, type) [type][n - 1] = tile_##type##_##n,
#define TILED_OF(type) UP_TO_8(TILED, type)
MOST_TYPES(TILES_OF)
static several_function* const tiles_of[DTYPE_COUNT][SEVERAL] = {MOST_TYPES(TILED_OF)};
#define STREAMED(n, type) [type][n - 1] = stream_##type##_##n,
#define STREAMED_OF(type) UP_TO_8(STREAMED, type)
static several_function* const streams_of[DTYPE_COUNT][SEVERAL] = {MOST_TYPES(STREAMED_OF)};

bool avx512_interleaves(enum dtype type) { return streams_of[type][0] != NULL; }

/* Lanes go `step` elements apart. */
INLINED void put_lanes(float* out, int64_t step, __m512 lanes) {
	if (step == 1) {
		_mm512_storeu_ps(out, lanes);
		return;
	}
	const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
	_mm512_i32scatter_ps(out, _mm512_mullo_epi32(lane, _mm512_set1_epi32((int)step)), lanes, 4);
}

/* ---- one row with one ------------------------------------------------------------------------ */

/* The sums of 32 bits in each half of eight vectors, a lane each */
INLINED ints half_sums(const ints v[8]) {
	const __m512i order = _mm512_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
	ints lane[2][4], four[2];
	UNROLLED for (int k = 0; k < 2; k++) {
		turn(v + 4 * k, lane[k]);
		four[k] = _mm512_add_epi32(_mm512_add_epi32(lane[k][0], lane[k][1]),
		                           _mm512_add_epi32(lane[k][2], lane[k][3]));
	}
	return _mm512_permutexvar_epi32(order, _mm512_add_epi32(_mm512_shuffle_i32x4(four[0], four[1], 0x88),
	                                                        _mm512_shuffle_i32x4(four[0], four[1], 0xdd)));
}

/* sum += the next `count` blocks of q8_0, at most sixteen, a lane each */
INLINED __m512 add_blocks(int count, __m512 sum, const struct block_q8_0* w, const uint8_t* q,
                          const uint8_t* d, const uint8_t* starts) {
	const __mmask16 here = (__mmask16)((1u << count) - 1);
	_Alignas(64) uint32_t head[LANES] = {0};
	ints dot[LANES / 2];
	UNROLLED for (int b = 0; b < LANES; b += 2) {
		ints two = ints_set(0);
		if (b < count)
			two = _mm512_castsi256_si512(_mm256_loadu_si256((const void*)w[b].q));
		if (b + 1 < count)
			two = _mm512_inserti64x4(two, _mm256_loadu_si256((const void*)w[b + 1].q), 1);
		dot[b / 2] = _mm512_dpbusd_epi32(ints_set(0), ints_flip_signs(two), _mm512_loadu_si512(q + b * 32));
	}
	UNROLLED for (int b = 0; b < LANES && b < count; b++) head[b] = load_u32(w + b);
	const ints whole = _mm512_add_epi32(half_sums(dot), _mm512_maskz_loadu_epi32(here, starts));
	const __m512 both = _mm512_mul_ps(floats_from_halves(ints_load(head)), _mm512_maskz_loadu_ps(here, d));
	return _mm512_mask3_fmadd_ps(floats_from_ints(whole), both, sum, here);
}

static float one_q8_0(const struct block_q8_0* w, int64_t cols, const uint8_t* x,
                      const struct prepared* layout) {
	const uint8_t *d = x + layout->d, *starts = x + layout->sums;
	__m512 sum = _mm512_setzero_ps();
	int left = (int)(cols / 32);
	for (; left >= LANES; left -= LANES, w += LANES, x += LANES * 32, d += LANES * 4, starts += LANES * 4)
		sum = add_blocks(LANES, sum, w, x, d, starts);
	return lane_sum_512(left ? add_blocks(left, sum, w, x, d, starts) : sum);
}

/* The screened head asks for rows one by one: a tile of each would do it sixteen times. */
static bool single_rows(float* out, const struct tensor* w, int64_t begin, int64_t end, const uint8_t* x,
                        int n) {
	const struct prepared layout = prepared_layout(DTYPE_Q8_0, (int)w->cols);
	const struct block_q8_0* blocks = w->data;
	if (w->type != DTYPE_Q8_0 || n > 1)
		return false;
	for (int64_t r = begin; r < end; r++)
		out[r] = one_q8_0(blocks + r * (w->cols / 32), w->cols, x, &layout);
	return true;
}

bool avx512_quantized_several(float* out, size_t out_stride, const struct tensor* w, int64_t begin,
                              int64_t end, const uint8_t* x, int n) {
	_Alignas(64) float sum[SLOTS * SEVERAL * LANES];
	several_function* const* tiles = (w->interleaved ? streams_of : tiles_of)[w->type];
	const int slots = small_blocks(w->type) ? SLOTS : SUPER_SLOTS;
	const int groups = (n + SEVERAL - 1) / SEVERAL;
	if (end - begin < LANES)
		return single_rows(out, w, begin, end, x, n);
	if (!tiles[0] || (!w->interleaved && groups > (two_bits(w->type) ? 1 : MOST_GROUPS)))
		return false;
	const struct prepared layout = prepared_layout(w->type, (int)w->cols);
	const size_t row_bytes = dtype_row_bytes(w->type, w->cols);
	const bool far = fetches_to_second_level();
	if (w->cols < slots * dtype_block(w->type)) /* some stay empty */
		memset(sum, 0, sizeof sum);
	const int64_t tiles_whole = (end - begin) / LANES;
	for (int64_t t = 0; t < tiles_whole + ((end - begin) % LANES > 0); t++) {
		/* the last tile may do rows again */
		const bool rest = t == tiles_whole;
		const int64_t step = rest || w->interleaved ? 1 : tiles_whole;
		const int64_t at = rest ? end - LANES : w->interleaved ? begin + t * LANES : begin + t;
		const uint8_t* first = (const uint8_t*)w->data + row_bytes * (size_t)at;
		for (int g = 0, i = 0; g < groups; g++) {
			const int some = n / groups + (g < n % groups);
			struct several job = {.w = {.at = first, .stride = row_bytes * (size_t)step},
			                      .x = x + (size_t)i * layout.bytes,
			                      .layout = &layout,
			                      .cols = w->cols,
			                      .sum = sum,
			                      .far = far};
			tiles[some - 1](&job);
			for (int j = 0; j < some; j++, i++)
				put_lanes(out + (size_t)i * out_stride + at, step,
				          slots == SLOTS ? slots_added(sum + j * LANES, SLOTS, SEVERAL * LANES)
				                         : slots_added(sum + j * LANES, SUPER_SLOTS, SEVERAL * LANES));
		}
	}
	return true;
}
#endif
