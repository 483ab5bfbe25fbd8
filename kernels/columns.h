/* Weights by input channel: the quantized draft weights of the CPU.
 *
 * A draft step may leave out input channels of a matrix: the channels j with the smallest |x_j|·‖W_j‖, where
 * W_j is column j (Wanda's saliency, Sun et al. 2024, equation 1, for one row of activations). What is left
 * out must not be read, so a channel's weights lie side by side: a tile is COLUMN_OUTPUTS outputs of all
 * channels, and of each channel one cache line of 4-bit codes.
 *
 *   w[o][j] ≈ scale[tile][j][o / 32 mod 4] · (code - 7.5), code in 0…15
 *
 * Lines of a tile are read in ascending order of the channel, with gaps. A processor that sees ascending
 * addresses fetches the gaps too, which halves the rate; so the line of channel j stands at place order[j], a
 * fixed random permutation.
 *
 * Activations are quantized to 8 bits in groups of COLUMN_GROUP kept channels, after multiplication by the
 * channel's scale in the tile. A group's product is an integer; the floats are added in the order of the
 * groups. So every instruction set gives the same bits. Drafts are guesses: verification always runs the
 * stored weights. */
#ifndef SWIFTLET_KERNELS_COLUMNS_H
#define SWIFTLET_KERNELS_COLUMNS_H

#include <string.h>

#include "kernels/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
	COLUMN_OUTPUTS = 128,            /* outputs of a tile */
	COLUMN_LINE = 64,                /* bytes of a channel in a tile */
	COLUMN_SCALES = 4,               /* of a channel in a tile: one for 32 outputs */
	COLUMN_GROUP = 128,              /* kept channels whose activations share a step */
	COLUMN_CHANNELS = 1 << 16,       /* channels of a map at most */
	COLUMN_AHEAD = 64,               /* lines that are fetched ahead */
	COLUMN_LEAST_EXPONENT = 127 - 24 /* of a scale, biased as in a float */
};

/* A linear map, or several on the same input as one. Byte b = 16·l + 4·k + i of a line, with l, k, i in 0…3,
 * holds the codes of outputs 32·k + 4·l + i (low nibble) and 16 more (high nibble): vectors of any width
 * leave them in order when the bytes of four channels are interleaved. */
struct column_map {
	int64_t outputs;       /* the last tile is filled up with outputs whose weights are meaningless */
	int channels;          /* at most COLUMN_CHANNELS */
	const uint8_t* codes;  /* (tiles, channels, COLUMN_LINE) by place, aligned to COLUMN_LINE */
	const uint8_t* scale;  /* (tiles, channels, COLUMN_SCALES) by channel: column_scale */
	const float* peak;     /* (channels) the largest scale of a channel's tiles */
	const float* norm;     /* (channels) ‖W_j‖ over all outputs */
	const uint16_t* order; /* (channels) the place of each channel */
};

static inline int64_t column_tiles(int64_t outputs) {
	return (outputs + COLUMN_OUTPUTS - 1) / COLUMN_OUTPUTS;
}

/* A scale is a float of 5 bits of exponent and 3 of mantissa, always positive: 2^-24 to 240. */
static inline float column_scale(uint8_t code) {
	const uint32_t bits = ((uint32_t)code << 20) + ((uint32_t)COLUMN_LEAST_EXPONENT << 23);
	float scale;
	memcpy(&scale, &bits, sizeof scale);
	return scale;
}

/* The channels that a row of activations keeps, in ascending order, and their activations. The arrays are the
 * caller's, of column_list_room(channels) entries each. */
struct column_list {
	int n;             /* kept, filled up with activations of 0 to a multiple of 4 */
	uint16_t* channel; /* (n) */
	uint32_t*
	    place;    /* (n + COLUMN_AHEAD) lines from the tile's begin; behind the last those of the next tile */
	float* value; /* (n) x_j over its group's step: value·scale is at most 127 */
	float* step;  /* (groups of COLUMN_GROUP) */
};

static inline int column_groups(int n) { return (n + COLUMN_GROUP - 1) / COLUMN_GROUP; }
static inline size_t column_list_room(int channels) { return (size_t)channels + 4 + COLUMN_AHEAD; }

/* The least |x_j|·norm[j] with which a row keeps about `share` of its channels, in (0, 1): a quantile from a
 * histogram of every fourth channel, without a sort. 0, which keeps all channels but zeros, where share >= 1.
 */
float column_threshold(const struct column_map*, const float* x, float share);

/* From n kept channels and their x_j in `value`: fills up the list, finds places and steps, and scales the
 * values. */
void column_finish(const struct column_map*, struct column_list*, int n);

/* Writes the fixed order of so many channels. */
void column_order(uint16_t* order, int channels);

/* Rounds `outputs` (at most COLUMN_OUTPUTS) rows of n channels of a tile; codes points to the tile, scale,
 * peak, norm2 and order to the first of the n channels. x (outputs, stride). peak becomes the larger of
 * itself and the scale; norm2 grows by the squares. All instruction sets write the same bytes. */
typedef void column_round_function(uint8_t* codes, uint8_t* scale, float* peak, float* norm2,
                                   const uint16_t* order, const float* x, int64_t stride, int outputs, int n);
column_round_function column_round, avx2_column_round, avx512_column_round;

#ifdef __cplusplus
}
#endif

#endif
