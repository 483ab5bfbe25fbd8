/* Products with quantized weights: what the vector widths share.
 *
 * Included by one source file an instruction set, which defines before it:
 *   Q_LANES, Q_ROWS, Q_N    lanes of a vector of floats; weight rows and activation rows of a tile
 * and after it:
 *   decode_row              takes one weight row's piece apart into struct decoded
 *   quantized_run           multiplies a decoded piece with a group of activation rows
 *
 * Weights are taken apart once for all activation rows, piece by piece, into integers and scales that
 * stay in the first-level cache. Four kinds of product follow from there: blocks of 32 with an offset or
 * with a minimum, and blocks of 256 with groups of 16, again with an offset or with a minimum. Integer
 * dot products are exact; every element adds them, scaled, to its own Q_LANES sums in ascending order of
 * the column. Groups, pieces and tiles change no bit. */
#include "kernels/cpu/matmul.h"

#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 64")
#endif
#define INLINED static inline __attribute__((always_inline))

/* Block sizes the compiler can see through. */
INLINED size_t dtype_bytes_of(enum dtype type) {
	switch (type) {
	case DTYPE_Q8_0:
		return sizeof(struct block_q8_0);
	case DTYPE_Q4_0:
	case DTYPE_IQ4_NL:
		return sizeof(struct block_q4_0);
	case DTYPE_Q4_1:
		return sizeof(struct block_q4_1);
	case DTYPE_Q5_0:
		return sizeof(struct block_q5_0);
	case DTYPE_Q5_1:
		return sizeof(struct block_q5_1);
	case DTYPE_Q2_K:
		return sizeof(struct block_q2_k);
	case DTYPE_Q3_K:
		return sizeof(struct block_q3_k);
	case DTYPE_Q4_K:
		return sizeof(struct block_q4_k);
	case DTYPE_Q5_K:
		return sizeof(struct block_q5_k);
	case DTYPE_Q6_K:
		return sizeof(struct block_q6_k);
	default:
		return sizeof(struct block_iq4_xs);
	}
}

INLINED bool small_blocks(enum dtype type) {
	return type == DTYPE_Q8_0 || type == DTYPE_Q4_0 || type == DTYPE_Q4_1 || type == DTYPE_Q5_0 ||
	       type == DTYPE_Q5_1 || type == DTYPE_IQ4_NL;
}

INLINED uint32_t load_u32(const void* p) {
	uint32_t x;
	memcpy(&x, p, 4);
	return x;
}

INLINED uint64_t load_u64(const void* p) {
	uint64_t x;
	memcpy(&x, p, 8);
	return x;
}

/* Eight scales and eight minima of q4_k and q5_k, a byte each: k4_scale_min for all at once. */
INLINED void k4_scales_minima(const uint8_t* packed, uint64_t* scales, uint64_t* minima) {
	const uint64_t first = load_u32(packed), second = load_u32(packed + 4), third = load_u32(packed + 8);
	const uint64_t six = 0x3f3f3f3fu, four = 0x0f0f0f0fu, two = 0x03030303u;
	*scales = (first & six) | ((third & four) | (first >> 6 & two) << 4) << 32;
	*minima = (second & six) | ((third >> 4 & four) | (second >> 6 & two) << 4) << 32;
}

/* Sixteen scales of q3_k, a byte each, 32 not yet taken off: q3_scale for all at once. */
INLINED void q3_scales(const uint8_t* packed, uint64_t* first, uint64_t* last) {
	const uint64_t low = load_u64(packed), high = load_u32(packed + 8);
	const uint64_t four = 0x0f0f0f0f0f0f0f0fu, two = 0x03030303u;
	*first = (low & four) | (high & two) << 4 | (high >> 2 & two) << 36;
	*last = (low >> 4 & four) | (high >> 4 & two) << 4 | (high >> 6 & two) << 36;
}

enum kind { SMALL_OFFSET, SMALL_MIN, SUPER_OFFSET, SUPER_MIN };

static enum kind kind_of(enum dtype type) {
	if (activation_block(type) == BLOCK_SMALL)
		return dtype_has_min(type) ? SMALL_MIN : SMALL_OFFSET;
	return type == DTYPE_Q3_K || type == DTYPE_Q6_K ? SUPER_OFFSET : SUPER_MIN;
}

enum { PIECE = 2048, TILE_SUMS = Q_ROWS * Q_N * Q_LANES, MAX_GROUPS = (MAX_ROWS + Q_N - 1) / Q_N };

/* A piece of Q_ROWS weight rows. */
struct decoded {
	_Alignas(64) uint8_t q[Q_ROWS][PIECE];
	float d[Q_ROWS][PIECE / 32]; /* a block of 32, or of 256 */
	float m[Q_ROWS][PIECE / 32]; /* what is added for it: its minimum, or -dmin */
	/* a group of 16; `minus` is the group's minimum, or the offset times the scale, negated */
	_Alignas(32) int16_t scale[Q_ROWS][PIECE / 16], minus[Q_ROWS][PIECE / 16];
};

/* One decoded piece against one group of activation rows. */
struct run {
	const struct decoded* w;
	const int8_t* q;     /* first row of the group at the piece's first column; rows x_stride apart */
	const uint8_t* d;    /* the same of the scales */
	const uint8_t* sums; /* and of what stands behind them */
	size_t x_stride;
	bool first; /* piece: the sums start from 0 */
	float* out; /* (Q_ROWS, Q_N, Q_LANES) running sums */
	int64_t columns;
};

INLINED void decode_row(enum dtype type, struct decoded* out, int r, const uint8_t* w, int64_t columns,
                        const uint8_t* next);
static void quantized_run(enum kind kind, int n, const struct run* run);
/* out (Q_ROWS): sums of Q_LANES lanes, a tile's rows Q_N·Q_LANES apart */
static void lane_sums(const float* lanes, float* out);

static void decode_rows(enum dtype type, struct decoded* out, const uint8_t* w, size_t row_bytes, int rows,
                        int64_t columns, const uint8_t* next) {
#define DECODE(t)                                                                                            \
	case t:                                                                                                  \
		for (int r = 0; r < rows; r++)                                                                       \
			decode_row(t, out, r, w + (size_t)r * row_bytes, columns, next + (size_t)r * row_bytes);         \
		break
	switch (type) {
		DECODE(DTYPE_Q8_0);
		DECODE(DTYPE_Q4_0);
		DECODE(DTYPE_Q4_1);
		DECODE(DTYPE_Q5_0);
		DECODE(DTYPE_Q5_1);
		DECODE(DTYPE_Q2_K);
		DECODE(DTYPE_Q3_K);
		DECODE(DTYPE_Q4_K);
		DECODE(DTYPE_Q5_K);
		DECODE(DTYPE_Q6_K);
		DECODE(DTYPE_IQ4_NL);
		DECODE(DTYPE_IQ4_XS);
	default:
		break;
	}
#undef DECODE
}

/* out (n, rows) of one tile of at most Q_ROWS rows */
static void quantized_tile(const struct tensor* w, const uint8_t* tile, int rows, const uint8_t* x, int n,
                           float* out, size_t out_stride) {
	static const struct decoded nothing;
	struct decoded decoded;
	if (rows < Q_ROWS)
		decoded = nothing; /* rows beyond are computed with it and dropped */
	_Alignas(64) float sums[MAX_GROUPS * TILE_SUMS];
	const struct prepared layout = prepared_layout(w->type, (int)w->cols);
	const size_t row_bytes = dtype_row_bytes(w->type, w->cols);
	const size_t per_sum = 8; /* columns a byte: int32 or float of 32, int16 of 16 */
	const enum kind kind = kind_of(w->type);
	const int groups = (n + Q_N - 1) / Q_N;
	for (int64_t k = 0; k < w->cols; k += PIECE) {
		const bool last = w->cols - k <= PIECE;
		const int64_t columns = last ? w->cols - k : PIECE;
		const uint8_t* at = tile + (size_t)(k / dtype_block(w->type)) * dtype_block_bytes(w->type);
		decode_rows(w->type, &decoded, at, row_bytes, rows, columns,
		            last ? tile + Q_ROWS * row_bytes : at + dtype_row_bytes(w->type, PIECE));
		struct run run = {.w = &decoded, .x_stride = layout.bytes, .columns = columns, .first = k == 0};
		for (int g = 0, i = 0; g < groups; g++) {
			const int some = n / groups + (g < n % groups);
			const uint8_t* xi = x + (size_t)i * layout.bytes;
			run.q = (const int8_t*)xi + k;
			run.d = xi + layout.d + (size_t)(k / activation_block(w->type)) * 4;
			run.sums = xi + layout.sums + (size_t)k / per_sum;
			run.out = sums + g * TILE_SUMS;
			quantized_run(kind, some, &run);
			i += some;
		}
	}
	for (int g = 0, first = 0; g < groups; g++) {
		const int some = n / groups + (g < n % groups);
		for (int i = 0; i < some; i++) {
			float sum[Q_ROWS];
			lane_sums(sums + g * TILE_SUMS + i * Q_LANES, sum);
			memcpy(out + (size_t)(first + i) * out_stride, sum, (size_t)rows * sizeof *sum);
		}
		first += some;
	}
}

static void quantized_matmul(float* out, size_t out_stride, const struct tensor* w, int64_t begin,
                             int64_t end, const uint8_t* x, int n) {
	const size_t row_bytes = dtype_row_bytes(w->type, w->cols);
	for (int64_t r = begin; r < end; r += Q_ROWS)
		quantized_tile(w, (const uint8_t*)w->data + row_bytes * (size_t)r,
		               end - r < Q_ROWS ? (int)(end - r) : Q_ROWS, x, n, out + r, out_stride);
}
