/* The table of element types: the properties that readers, checks and products share. The table is a
 * constant, so the properties of a constant type are constants too. dtype_blocks.h has the layouts of blocks.
 */
#pragma once

#include "kernels/backend.h"
#include "kernels/dtype_blocks.h"

struct dtype_properties {
	const char* name;
	int elements; /* a block */
	size_t bytes; /* likewise */
	bool floats;  /* stored as such */
	bool nibbles; /* integers of four bits, multiplied as they are stored */
	/* of blocks of 32: what is subtracted from stored integers (iq4: from its table's entries stored with 128
	 * added), and whether a minimum is added */
	int bias;
	bool minimum;
	/* of blocks of 256: elements that share a scale (0: 16), and, where these are 16, what is subtracted */
	int group, group_offset;
};

static const struct dtype_properties dtype_table[DTYPE_COUNT] = {
    [DTYPE_F32] = {"f32", 1, 4, .floats = true},
    [DTYPE_F16] = {"f16", 1, 2, .floats = true},
    [DTYPE_BF16] = {"bf16", 1, 2, .floats = true},
    [DTYPE_Q8_0] = {"q8_0", BLOCK_SMALL, sizeof(struct block_q8_0), .bias = 128},
    [DTYPE_Q4_0] = {"q4_0", BLOCK_SMALL, sizeof(struct block_q4_0), .bias = 8, .nibbles = true},
    [DTYPE_Q4_1] = {"q4_1", BLOCK_SMALL, sizeof(struct block_q4_1), .minimum = true, .nibbles = true},
    [DTYPE_Q5_0] = {"q5_0", BLOCK_SMALL, sizeof(struct block_q5_0), .bias = 16},
    [DTYPE_Q5_1] = {"q5_1", BLOCK_SMALL, sizeof(struct block_q5_1), .minimum = true},
    [DTYPE_Q2_K] = {"q2_k", BLOCK_SUPER, sizeof(struct block_q2_k)},
    [DTYPE_Q3_K] = {"q3_k", BLOCK_SUPER, sizeof(struct block_q3_k), .group_offset = 4},
    [DTYPE_Q4_K] = {"q4_k", BLOCK_SUPER, sizeof(struct block_q4_k), .group = 32, .nibbles = true},
    [DTYPE_Q5_K] = {"q5_k", BLOCK_SUPER, sizeof(struct block_q5_k), .group = 32},
    [DTYPE_Q6_K] = {"q6_k", BLOCK_SUPER, sizeof(struct block_q6_k), .group_offset = 32},
    [DTYPE_IQ4_NL] = {"iq4_nl", BLOCK_SMALL, sizeof(struct block_iq4_nl), .bias = 128},
    [DTYPE_IQ4_XS] = {"iq4_xs", BLOCK_SUPER, sizeof(struct block_iq4_xs), .bias = 128},
    [DTYPE_MXFP4] = {"mxfp4", BLOCK_SMALL, sizeof(struct block_mxfp4)},
    [DTYPE_IQ1_S] = {"iq1_s", BLOCK_SUPER, sizeof(struct block_iq1_s)},
    [DTYPE_IQ1_M] = {"iq1_m", BLOCK_SUPER, sizeof(struct block_iq1_m)},
    [DTYPE_IQ2_XXS] = {"iq2_xxs", BLOCK_SUPER, sizeof(struct block_iq2_xxs)},
    [DTYPE_IQ2_XS] = {"iq2_xs", BLOCK_SUPER, sizeof(struct block_iq2_xs)},
    [DTYPE_IQ2_S] = {"iq2_s", BLOCK_SUPER, sizeof(struct block_iq2_s)},
    [DTYPE_IQ3_XXS] = {"iq3_xxs", BLOCK_SUPER, sizeof(struct block_iq3_xxs)},
    [DTYPE_IQ3_S] = {"iq3_s", BLOCK_SUPER, sizeof(struct block_iq3_s)},
    [DTYPE_TQ1_0] = {"tq1_0", BLOCK_SUPER, sizeof(struct block_tq1_0)},
    [DTYPE_TQ2_0] = {"tq2_0", BLOCK_SUPER, sizeof(struct block_tq2_0)},
    [DTYPE_Q4_GROUP] = {"q4_group", BLOCK_SMALL, sizeof(struct block_q4_group)},
    [DTYPE_F8_GROUP] = {"f8_group", BLOCK_SMALL, sizeof(struct block_f8_group)},
    [DTYPE_Q8_GROUP] = {"q8_group", BLOCK_SMALL, sizeof(struct block_q8_group)},
};

/* Types that are multiplied as floats, a block at a time: too rare, or too far from whole numbers on a grid,
 * for products of their own. */
static inline bool dtype_is_decoded(enum dtype type) { return type >= DTYPE_MXFP4 && type < DTYPE_COUNT; }
