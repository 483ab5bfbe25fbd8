/* Weights by input channel: the quantized draft weights of the CPU and of one GPU.
 *
 * A draft step may leave out input channels of a matrix: the channels j with the smallest |x_j|·‖W_j‖, where
 * W_j is column j (Wanda's saliency, Sun et al. 2024, equation 1, for one row of activations). Left-out
 * channels must not be read, so a channel's weights lie side by side: one cache line of 4-bit codes for each
 * COLUMN_OUTPUTS outputs.
 *
 *   w[o][j] ≈ scale[j][o / 32] · (code - 7.5), code in 0…15
 *
 * Up to COLUMN_TILE_LINES neighbouring lines of all channels form a tile. The data of a channel in a tile is
 * a run: its scales, filled up to whole lines, and its lines of codes. (With the scales in an array of their
 * own every kept channel also touched a place far from its codes, which took a fifth of a product's time.) A
 * product walks through a tile's kept channels COLUMN_BESIDE at a time (kernels/cpu/column_product.h), line
 * by line. The processor's own prefetching follows such runs; single lines with gaps between them come at
 * about half the rate of a plain read. So threads do not share a map with few lines by its lines: each
 * multiplies a half of the channels.
 *
 * Activations are quantized to 8 bits in groups of COLUMN_GROUP kept channels, after multiplication by the
 * channel's scale of those outputs. A group's product is an integer; the floats are added in the order of the
 * groups. So every instruction set gives the same bits. Drafts are guesses: verification always runs the
 * stored weights. */
#pragma once

#include <string.h>

#include "kernels/backend.h"

enum {
	COLUMN_OUTPUTS = 128,            /* outputs of a line */
	COLUMN_LINE = 64,                /* its bytes */
	COLUMN_SCALES = 4,               /* of a channel in a line: one for 32 outputs */
	COLUMN_TILE_LINES = 40,          /* neighbouring lines of a tile at most: their sums fit into 20 KiB */
	COLUMN_FEW_LINES = 16,           /* of a map whose halves are multiplied by different threads, at most */
	COLUMN_GROUP = 128,              /* kept channels whose activations share a step */
	COLUMN_CHANNELS = 1 << 16,       /* channels of a map at most */
	COLUMN_LEAST_EXPONENT = 127 - 24 /* of a scale, biased as in a float */
};

/* A linear map, or several on the same input as one. Byte b = 16·l + 4·k + i of a line, with l, k, i in 0…3,
 * holds the codes of outputs 32·k + 4·l + i (low nibble) and 16 more (high nibble): vectors of any width
 * leave them in order when the bytes of four channels are interleaved. */
struct column_map {
	int64_t outputs;     /* the last line is filled up with outputs whose weights are meaningless */
	int channels;        /* at most COLUMN_CHANNELS */
	const uint8_t* runs; /* (tiles, channels, column_run of the tile's lines), aligned to COLUMN_LINE */
	/* Every step reads these of all channels, so they are kept short (column_keys). */
	const uint8_t* peak;  /* (channels) the code of a channel's largest scale */
	const uint16_t* norm; /* (channels) ‖W_j‖ over all outputs: the upper half of a float */
};

/* Lines of a channel */
static inline int64_t column_lines(int64_t outputs) {
	return (outputs + COLUMN_OUTPUTS - 1) / COLUMN_OUTPUTS;
}
static inline int64_t column_tiles(int64_t outputs) {
	return (column_lines(outputs) + COLUMN_TILE_LINES - 1) / COLUMN_TILE_LINES;
}

/* Neighbouring lines: from `line` on so many. */
struct column_span {
	int64_t line;
	int lines;
};
/* The lines of tile t. Tiles differ by one line at most. */
static inline struct column_span column_tile(int64_t outputs, int64_t t) {
	const int64_t lines = column_lines(outputs), tiles = column_tiles(outputs), first = lines * t / tiles;
	return (struct column_span){first, (int)(lines * (t + 1) / tiles - first)};
}

/* Bytes of a run before its codes (lines, COLUMN_LINE): its scales (lines, COLUMN_SCALES), and what fills up
 * the last of their lines. */
static inline size_t column_run_scales(int lines) {
	return ((size_t)lines * COLUMN_SCALES + COLUMN_LINE - 1) / COLUMN_LINE * COLUMN_LINE;
}
static inline size_t column_run(int lines) { return column_run_scales(lines) + (size_t)lines * COLUMN_LINE; }
/* Bytes of a map's runs before tile t; before the tile behind the last one: of all */
static inline size_t column_tile_offset(int64_t outputs, int channels, int64_t t) {
	size_t run = 0;
	for (int64_t i = 0; i < t; i++)
		run += column_run(column_tile(outputs, i).lines);
	return run * (size_t)channels;
}
static inline size_t column_bytes(int64_t outputs, int channels) {
	return column_tile_offset(outputs, channels, column_tiles(outputs));
}

/* A scale is a float of 5 bits of exponent and 3 of mantissa, always positive: 2^-24 to 240. */
static inline float column_scale(uint8_t code) {
	const uint32_t bits = ((uint32_t)code << 20) + ((uint32_t)COLUMN_LEAST_EXPONENT << 23);
	float scale;
	memcpy(&scale, &bits, sizeof scale);
	return scale;
}
static inline float column_norm(uint16_t norm) {
	const uint32_t bits = (uint32_t)norm << 16;
	float whole;
	memcpy(&whole, &bits, sizeof whole);
	return whole;
}

/* The channels of a half that a row of activations keeps, in ascending order, and their activations. The
 * arrays are the caller's, of column_list_room(channels) entries each. */
struct column_list {
	int n;             /* kept, filled up with activations of 0 to a multiple of 4 */
	uint16_t* channel; /* (n) */
	float* value;      /* (n) x_j over its group's step: value·scale is at most 127 */
	float* size;       /* (n) |x_j|·peak_j, from which the steps come */
	float* step;       /* (groups of COLUMN_GROUP) */
};

static inline int column_groups(int n) { return (n + COLUMN_GROUP - 1) / COLUMN_GROUP; }
static inline size_t column_list_room(int channels) { return (size_t)channels + 16; }

/* A product's sums are those of the first half of all channels and of the second, each in the order of its
 * groups. So two threads can share a map with few lines. */
struct column_range {
	int begin, end; /* begin is a multiple of 64 */
};
static inline struct column_range column_half(int channels, int half) {
	const int middle = ((channels + 1) / 2 + 63) / 64 * 64, least = middle < channels ? middle : channels;
	return half ? (struct column_range){least, channels} : (struct column_range){0, least};
}

/* From n kept channels, their x_j in `value` and their sizes: fills up the list, finds steps and scales the
 * values. */
void column_finish(struct column_list*, int n);

/* A map's own peak and norm (n) of n channels, from the peak and norm2 that rounding all their lines left. */
void column_keys(uint8_t* peak, uint16_t* norm, const float* largest_scale, const float* norm2, int n);

/* Rounds `outputs` (at most COLUMN_OUTPUTS) rows of n channels to a line of each channel. codes and scale
 * point to the first channel's line and scales, peak and norm2 to its own; from one channel's run to the next
 * are `run` bytes. x (outputs, x_stride). peak becomes the larger of itself and the scale; norm2 grows by the
 * squares. All instruction sets write the same bytes. */
typedef void column_round_function(uint8_t* codes, uint8_t* scale, size_t run, float* peak, float* norm2,
                                   const float* x, int64_t x_stride, int outputs, int n);
column_round_function column_round, avx2_column_round, avx512_column_round;
