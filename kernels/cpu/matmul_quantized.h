/* Products with quantized weights, written once over a vector type.
 *
 * Included by one source file an instruction set, which defines before it:
 *   ints, LANES             a vector of integers; its 32-bit lanes, which are the weight rows of a tile
 *   SLOTS, SUPER_SLOTS      sums an element has, of blocks of 32 and of blocks of 256
 *   GROUP_ROWS              activation rows whose integers fit the registers
 *   SIGNED_BYTES            whether bytes that want a sign (q8_0, iq4) are stored with it, or plus 128
 *   ints_ ...               the operations on ints below, floats_from_halves
 * and after it:
 *   quantized_run           multiplies a decoded piece with a group of activation rows
 *
 * LANES weight rows are taken apart together, a lane each: a vector holds four neighbouring columns of
 * every row, so that one instruction multiplies them with four columns of an activation row, sent to all
 * lanes, and nothing is left to add up across lanes. What scales and minima a block has lies in vectors,
 * too, and meets a whole tile at once. A piece of the columns is taken apart into the first-level cache
 * and used by all activation rows. The loads are short and jump from row to row; so the lines of the next
 * tile are fetched ahead one after the other, as memory likes it.
 *
 * A block's integers are added up exactly. An element has `slots` sums: block b goes to sum b mod slots, in
 * ascending order, and at the end halves are added to halves. Pieces, tiles, groups and rows change no bit.
 */
#include "kernels/cpu/quantized_lanes.h"

enum {
	GROUP_SUMS = SLOTS * GROUP_ROWS * LANES,
	MAX_GROUPS = (MAX_ROWS + GROUP_ROWS - 1) / GROUP_ROWS,
	SHORT_PIECE = 256, /* columns where weights are waited for: memory and arithmetic overlap */
	LONG_PIECE = 2048  /* and where they are not */
};

/* A piece of LANES weight rows: in every vector, lane r belongs to row r. */
struct tile {
	_Alignas(64) uint8_t q[LONG_PIECE / 4][LANES * 4]; /* four columns each */
	float d[LONG_PIECE / 32][LANES];                   /* a block of 32, or of 256 */
	float m[LONG_PIECE / 32][LANES];                   /* what is added for it: its minimum, or -dmin */
	int32_t scale[LONG_PIECE / 16][LANES];             /* a group of 32, or of 16 */
	int16_t min[LONG_PIECE / 32][LANES * 2];           /* two groups' minima */
};

/* One piece against one group of activation rows. */
struct run {
	const struct tile* w;
	const int8_t* q;       /* first row of the group at the piece's first column; rows x_stride apart */
	const uint8_t* d;      /* the same of the scales */
	const uint8_t* sums;   /* and of what stands behind them */
	const uint8_t* starts; /* and behind those */
	size_t x_stride;
	int64_t column; /* where the piece begins; the sums start from 0 */
	int columns;
	float* sum;          /* (SLOTS, GROUP_ROWS, LANES) */
	const uint8_t* next; /* weights to fetch meanwhile: `lines` lines for each 32 columns */
	int lines;
};

/* What 32 columns from `column` on fetch: evenly, so that memory is never idle and keeps no load waiting. */
INLINED void fetch(const struct run* run, int column) {
	const char* at = (const char*)run->next + (size_t)(column / 32 * run->lines) * 64;
	for (int line = 0; line < run->lines; line++)
		__builtin_prefetch(at + line * 64, 0, 2);
}

static void quantized_run(enum dtype type, int n, const struct run* run);

/* ---- taking weights apart -------------------------------------------------------------------- */

INLINED void store_columns(struct tile* out, int column, ints q) { ints_store(out->q[column / 4], q); }

/* Blocks of 32 packed in nibbles, the first 16 in the low ones */
INLINED void store_nibbles(struct tile* out, int column, enum dtype type, const struct rows* rows, size_t at,
                           ints high) {
	ints packed[4];
	columns(rows, at, packed);
	UNROLLED for (int c = 0; c < 8; c++) {
		ints q = low_bits(packed[c % 4], c / 4 * 4, 15);
		if (type == DTYPE_Q5_0 || type == DTYPE_Q5_1)
			q = ints_or(q, fifth_bits(high, c));
		else if (type == DTYPE_IQ4_NL || type == DTYPE_IQ4_XS)
			q = ints_iq4(q);
		store_columns(out, column + c * 4, q);
	}
}

INLINED void take_small(enum dtype type, struct tile* out, int block, const struct rows* rows, size_t at) {
	const int column = block * 32;
	const ints halves = heads(rows, at);
	floats_store(out->d[block], floats_from_halves(halves));
	if (dtype_has_min(type))
		floats_store(out->m[block], floats_from_halves(ints_right(halves, 16)));
	const size_t q_at = at + 2 + (dtype_has_min(type) ? 2 : 0) + (high_at(type) ? 4 : 0);
	if (type != DTYPE_Q8_0) {
		const ints high = high_at(type) ? heads(rows, at + high_at(type)) : halves;
		store_nibbles(out, column, type, rows, q_at, high);
		return;
	}
	UNROLLED for (int half = 0; half < 2; half++) {
		ints q[4];
		columns(rows, q_at + (size_t)half * 16, q);
		UNROLLED for (int c = 0; c < 4; c++)
		    store_columns(out, column + half * 16 + c * 4, SIGNED_BYTES ? q[c] : ints_flip_signs(q[c]));
	}
}

INLINED void take_iq4_xs(struct tile* out, int block, const struct rows* rows, size_t at) {
	ints head[4];
	columns(rows, at, head);
	const floats d = floats_from_halves(head[0]);
	UNROLLED for (int j = 0; j < 8; j++) {
		const ints low = low_bits(head[1], j * 4, 15), high = low_bits(head[0], 16 + j * 2, 3);
		const ints scale = ints_or(low, ints_left(high, 4));
		const ints signed_scale = ints_sub(byte_of(scale, 0), ints_set(32));
		floats_store(out->d[block * 8 + j], floats_mul(d, floats_from_ints(signed_scale)));
		store_nibbles(out, (block * 8 + j) * 32, DTYPE_IQ4_XS, rows, at + 8 + (size_t)j * 16, head[0]);
	}
}

/* d and dmin, of which each lane holds the halves */
INLINED void store_d_dmin(struct tile* out, int block, ints both) {
	floats_store(out->d[block], floats_from_halves(both));
	floats_store(out->m[block], floats_negated(floats_from_halves(ints_right(both, 16))));
}

/* Scales of groups 4j…4j + 3, a byte each */
INLINED void store_scales(struct tile* out, int group, ints scales, bool signs, int less) {
	UNROLLED for (int g = 0; g < 4; g++) {
		const ints scale = signs ? ints_right_signed(ints_left(scales, 24 - 8 * g), 24) : byte_of(scales, g);
		ints_store(out->scale[group + g], ints_scale(less ? ints_sub(scale, ints_set(less)) : scale));
	}
}

INLINED void store_minima(struct tile* out, int group, ints minima) {
	ints_store(out->min[group / 2], two_bytes(minima, 0, 1));
	ints_store(out->min[group / 2 + 1], two_bytes(minima, 2, 3));
}

/* Header of q4_k and q5_k: k4_scale_min for all at once */
INLINED void take_k4_header(struct tile* out, int block, const struct rows* rows, size_t at) {
	ints head[4];
	columns(rows, at, head);
	store_d_dmin(out, block, head[0]);
	store_scales(out, block * 8, low_bits(head[1], 0, 63), false, 0);
	store_minima(out, block * 8, low_bits(head[2], 0, 63));
	const ints more_scales = moved_bits(head[1], 6, 4, 0x30);
	const ints more_minima = moved_bits(head[2], 6, 4, 0x30);
	store_scales(out, block * 8 + 4, ints_or(low_bits(head[3], 0, 15), more_scales), false, 0);
	store_minima(out, block * 8 + 4, ints_or(low_bits(head[3], 4, 15), more_minima));
}

INLINED void take_q4_k(struct tile* out, int block, const struct rows* rows, size_t at) {
	take_k4_header(out, block, rows, at);
	UNROLLED for (int p = 0; p < 8; p++) { /* 16 bytes, of two groups */
		ints q[4];
		columns(rows, at + 16 + (size_t)p * 16, q);
		const int column = block * 256 + p / 2 * 64 + p % 2 * 16;
		UNROLLED for (int c = 0; c < 4; c++) {
			store_columns(out, column + c * 4, low_bits(q[c], 0, 15));
			store_columns(out, column + 32 + c * 4, low_bits(q[c], 4, 15));
		}
	}
}

INLINED void take_q5_k(struct tile* out, int block, const struct rows* rows, size_t at) {
	take_k4_header(out, block, rows, at);
	UNROLLED for (int half = 0; half < 2; half++) {
		ints high[4];
		columns(rows, at + 16 + (size_t)half * 16, high);
		UNROLLED for (int p = 0; p < 4; p++) {
			ints q[4];
			columns(rows, at + 48 + (size_t)(p * 2 + half) * 16, q);
			const int column = block * 256 + p * 64 + half * 16;
			UNROLLED for (int c = 0; c < 4; c++) {
				store_columns(out, column + c * 4,
				              ints_or(low_bits(q[c], 0, 15), moved_bits(high[c], 2 * p, 4, 16)));
				store_columns(out, column + 32 + c * 4,
				              ints_or(low_bits(q[c], 4, 15), moved_bits(high[c], 2 * p + 1, 4, 16)));
			}
		}
	}
}

/* The two bits of q2_k, and with the third one of q3_k: 16 bytes hold four groups of 16 */
INLINED void take_two_bits(enum dtype type, struct tile* out, int block, const struct rows* rows, size_t at,
                           size_t high_at) {
	UNROLLED for (int part = 0; part < 2; part++) {
		ints high[4] = {ints_set(0), ints_set(0), ints_set(0), ints_set(0)};
		if (type == DTYPE_Q3_K)
			columns(rows, high_at + (size_t)part * 16, high);
		UNROLLED for (int half = 0; half < 2; half++) {
			ints q[4];
			columns(rows, at + (size_t)(half * 2 + part) * 16, q);
			UNROLLED for (int s = 0; s < 4; s++) UNROLLED for (int c = 0; c < 4; c++) {
				ints two = low_bits(q[c], s * 2, 3);
				if (type == DTYPE_Q3_K)
					two = ints_or(two, moved_bits(high[c], half * 4 + s, 2, 4));
				store_columns(out, block * 256 + half * 128 + s * 32 + part * 16 + c * 4, two);
			}
		}
	}
}

INLINED void take_q2_k(struct tile* out, int block, const struct rows* rows, size_t at) {
	ints packed[4];
	columns(rows, at, packed);
	UNROLLED for (int j = 0; j < 4; j++) {
		store_scales(out, block * 16 + j * 4, low_bits(packed[j], 0, 15), false, 0);
		store_minima(out, block * 16 + j * 4, low_bits(packed[j], 4, 15));
	}
	take_two_bits(DTYPE_Q2_K, out, block, rows, at + 16, 0);
	store_d_dmin(out, block, heads(rows, at + 80));
}

INLINED void take_q3_k(struct tile* out, int block, const struct rows* rows, size_t at) {
	ints tail[4]; /* from two bytes before the scales to the block's end, d */
	columns(rows, at + 94, tail);
	ints packed[3];
	UNROLLED for (int j = 0; j < 3; j++) packed[j] =
	    ints_or(ints_right(tail[j], 16), ints_left(tail[j + 1], 16));
	floats_store(out->d[block], floats_from_halves(ints_right(tail[3], 16)));
	UNROLLED for (int j = 0; j < 4; j++) {
		const ints low = low_bits(packed[j % 2], j / 2 * 4, 15);
		const ints high = moved_bits(packed[2], j * 2, 4, 0x30);
		store_scales(out, block * 16 + j * 4, ints_or(low, high), false, 32);
	}
	take_two_bits(DTYPE_Q3_K, out, block, rows, at + 32, at);
}

INLINED void take_q6_k(struct tile* out, int block, const struct rows* rows, size_t at) {
	ints scales[4];
	columns(rows, at + 192, scales);
	UNROLLED for (int j = 0; j < 4; j++) store_scales(out, block * 16 + j * 4, scales[j], true, 0);
	UNROLLED for (int half = 0; half < 2; half++) UNROLLED for (int part = 0; part < 2; part++) {
		ints high[4];
		columns(rows, at + 128 + (size_t)(half * 2 + part) * 16, high);
		UNROLLED for (int s = 0; s < 2; s++) { /* the nibbles of groups s and s + 2 of 32 */
			ints low[4];
			columns(rows, at + (size_t)half * 64 + (size_t)s * 32 + (size_t)part * 16, low);
			const int column = block * 256 + half * 128 + s * 32 + part * 16;
			UNROLLED for (int c = 0; c < 4; c++) {
				store_columns(out, column + c * 4,
				              ints_or(low_bits(low[c], 0, 15), moved_bits(high[c], s * 2, 4, 0x30)));
				store_columns(out, column + 64 + c * 4,
				              ints_or(low_bits(low[c], 4, 15), moved_bits(high[c], 4 + s * 2, 4, 0x30)));
			}
		}
	}
	floats_store(out->d[block], floats_from_halves(ints_right(heads(rows, at + 206), 16)));
}

INLINED void take_super(enum dtype type, struct tile* out, int block, const struct rows* rows, size_t at) {
	switch (type) {
	case DTYPE_Q2_K:
		take_q2_k(out, block, rows, at);
		break;
	case DTYPE_Q3_K:
		take_q3_k(out, block, rows, at);
		break;
	case DTYPE_Q4_K:
		take_q4_k(out, block, rows, at);
		break;
	case DTYPE_Q5_K:
		take_q5_k(out, block, rows, at);
		break;
	case DTYPE_Q6_K:
		take_q6_k(out, block, rows, at);
		break;
	default:
		take_iq4_xs(out, block, rows, at);
	}
}

INLINED void take_piece(enum dtype type, struct tile* out, const struct rows* rows, int columns) {
	const size_t bytes = dtype_bytes_of(type);
	if (small_blocks(type))
		for (int b = 0; b < columns / 32; b++)
			take_small(type, out, b, rows, (size_t)b * bytes);
	else
		for (int b = 0; b < columns / 256; b++)
			take_super(type, out, b, rows, (size_t)b * bytes);
}

#define TAKE(type)                                                                                           \
	static void take_##type(struct tile* out, const struct rows* rows, int columns) {                        \
		take_piece(type, out, rows, columns);                                                                \
	}
TAKE(DTYPE_Q8_0)
TAKE(DTYPE_Q4_0)
TAKE(DTYPE_Q4_1)
TAKE(DTYPE_Q5_0)
TAKE(DTYPE_Q5_1)
TAKE(DTYPE_Q2_K)
TAKE(DTYPE_Q3_K)
TAKE(DTYPE_Q4_K)
TAKE(DTYPE_Q5_K)
TAKE(DTYPE_Q6_K)
TAKE(DTYPE_IQ4_NL)
TAKE(DTYPE_IQ4_XS)
#undef TAKE

typedef void take_function(struct tile* out, const struct rows* rows, int columns);

static take_function* take_of(enum dtype type) {
#define TAKEN(type)                                                                                          \
	case type:                                                                                               \
		return take_##type
	switch (type) {
		TAKEN(DTYPE_Q8_0);
		TAKEN(DTYPE_Q4_0);
		TAKEN(DTYPE_Q4_1);
		TAKEN(DTYPE_Q5_0);
		TAKEN(DTYPE_Q5_1);
		TAKEN(DTYPE_Q2_K);
		TAKEN(DTYPE_Q3_K);
		TAKEN(DTYPE_Q4_K);
		TAKEN(DTYPE_Q5_K);
		TAKEN(DTYPE_Q6_K);
		TAKEN(DTYPE_IQ4_NL);
	default:
		return take_DTYPE_IQ4_XS;
	}
#undef TAKEN
}

/* ---- tiles ----------------------------------------------------------------------------------- */

/* A product of n activation rows with weight rows, tile by tile. */
struct work {
	const struct tensor* w;
	const uint8_t* x;
	struct prepared layout;
	int n, groups, piece;
	size_t row_bytes;
	take_function* take;
};

/* Fewer rows than a tile has: a copy of theirs, and the first one's for those that are dropped. */
static struct rows spare_rows(uint8_t* spare, const uint8_t* at, size_t stride, int count, size_t bytes) {
	for (int r = 0; r < LANES; r++)
		memcpy(spare + (size_t)r * bytes, at + (r < count ? (size_t)r * stride : 0), bytes);
	return (struct rows){.at = spare, .stride = bytes};
}

/* sums (groups, SLOTS, GROUP_ROWS, LANES) of the tile at `first` */
static void run_tile(const struct work* job, const uint8_t* first, int count, float* sums) {
	struct tile tile;
	uint8_t spare[LANES * LONG_PIECE / 32 * sizeof(struct block_q8_0)];
	const int64_t cols = job->w->cols;
	const enum dtype type = job->w->type;
	const size_t piece_bytes = dtype_row_bytes(type, job->piece), ahead = LANES * piece_bytes;
	const uint8_t* next = first + LANES * job->row_bytes;
	for (int64_t k = 0; k < cols; k += job->piece, first += piece_bytes, next += ahead) {
		const int columns = cols - k < job->piece ? (int)(cols - k) : job->piece;
		struct rows rows = {.at = first, .stride = job->row_bytes};
		if (count < LANES)
			rows = spare_rows(spare, first, job->row_bytes, count, dtype_row_bytes(type, columns));
		job->take(&tile, &rows, columns);
		struct run run = {.w = &tile, .x_stride = job->layout.bytes, .column = k, .columns = columns};
		run.next = next;
		run.lines = (int)(ahead / 64) / (columns / 32) + 1;
		for (int g = 0, i = 0; g < job->groups; g++) {
			const int some = job->n / job->groups + (g < job->n % job->groups);
			const uint8_t* xi = job->x + (size_t)i * job->layout.bytes;
			run.q = (const int8_t*)xi + k;
			run.d = xi + job->layout.d + (size_t)(k / activation_block(type)) * 4;
			run.sums = xi + job->layout.sums + sums_bytes(type, k);
			run.starts = xi + job->layout.starts + (size_t)(k / 16) * 4;
			run.sum = sums + (size_t)g * GROUP_SUMS;
			quantized_run(type, some, &run);
			run.lines = 0;
			i += some;
		}
	}
}

static int slots_of(enum dtype type) { return activation_block(type) == BLOCK_SMALL ? SLOTS : SUPER_SLOTS; }

/* The sums of a group of `n` rows over slots, halves to halves, into the first */
static void add_slots(float* sums, int slots, int n) {
	for (int half = slots / 2; half > 0; half /= 2)
		for (int s = 0; s < half; s++) {
			float* to = sums + s * GROUP_ROWS * LANES;
			const float* from = to + half * GROUP_ROWS * LANES;
			for (int i = 0; i < n * LANES; i++)
				to[i] += from[i];
		}
}

static void store_tile(const struct work* job, float* sums, float* out, size_t out_stride, int count) {
	for (int g = 0, i = 0; g < job->groups; g++, sums += GROUP_SUMS) {
		const int some = job->n / job->groups + (g < job->n % job->groups);
		add_slots(sums, slots_of(job->w->type), some);
		for (int j = 0; j < some; j++, i++)
			memcpy(out + (size_t)i * out_stride, sums + j * LANES, (size_t)count * sizeof(float));
	}
}

static void quantized_matmul(float* out, size_t out_stride, const struct tensor* w, int64_t begin,
                             int64_t end, const uint8_t* x, int n) {
	_Alignas(64) float sums[MAX_GROUPS * GROUP_SUMS];
	struct work job = {.w = w, .x = x, .n = n, .groups = (n + GROUP_ROWS - 1) / GROUP_ROWS};
	job.layout = prepared_layout(w->type, (int)w->cols);
	job.row_bytes = dtype_row_bytes(w->type, w->cols);
	job.piece = job.groups > 2 ? LONG_PIECE : SHORT_PIECE;
	job.take = take_of(w->type);
	if (w->cols < slots_of(w->type) * activation_block(w->type)) /* some stay empty */
		memset(sums, 0, (size_t)(job.groups * GROUP_SUMS) * sizeof *sums);
	for (int64_t r = begin; r < end; r += LANES) {
		const int count = end - r < LANES ? (int)(end - r) : LANES;
		run_tile(&job, (const uint8_t*)w->data + job.row_bytes * (size_t)r, count, sums);
		store_tile(&job, sums, out + r, out_stride, count);
	}
}
