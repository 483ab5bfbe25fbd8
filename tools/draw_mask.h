/* A mask drawn in the terminal as in SWIFT's Figure 12: attention above MLP, one cell a block. */
#ifndef SWIFTLET_TOOLS_DRAW_MASK_H
#define SWIFTLET_TOOLS_DRAW_MASK_H

#include <stdio.h>

#include "kernels/backend.h"

/* On a terminal kept sub-layers are gray, skipped attention red, skipped MLP blue; elsewhere, and where
 * NO_COLOR is set, filled cells are skipped and empty ones kept. */
void draw_mask(FILE*, const struct mask*, int blocks);
/* The same from lists of blocks, as the figures have them. */
void draw_blocks(FILE*, const int* attention, int n_attention, const int* mlp, int n_mlp, int blocks);

#endif
