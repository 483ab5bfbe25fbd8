/* A mask drawn in the terminal as in SWIFT's Figure 12: attention above MLP, one cell a block. */
#pragma once

#include <stdio.h>

#include "kernels/backend.h"
#include "swiftlet.h"

/* On a terminal kept sub-layers are gray, skipped attention red and skipped MLP blue. Elsewhere, and with
 * NO_COLOR, filled cells are skipped and empty ones kept. Half-filled cells run with quantized weights. Bars
 * show how much is read at a mask's levels, which the last lines give by kind of map. */
void draw_mask(FILE*, const struct mask*, int blocks);
/* Draws the last draft's sub-layers from the figures. */
void draw_figures(FILE*, const struct swiftlet_figures*, int blocks);
