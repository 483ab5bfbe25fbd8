/* How what scores say of masks strays on a model: the constants of optimizer/belief.c. */
#ifndef SWIFTLET_TOOLS_LAB_SEARCH_NOISE_H
#define SWIFTLET_TOOLS_LAB_SEARCH_NOISE_H

#include "tools/lab/search_lab.h"

/* Scores 64 masks of 0.1 to 0.7 of the sub-layers, drawn around influence's order, on 12 windows, and each
 * sub-layer by itself on 3; prints one line: relative standard deviations of a sub-layer's damage about its
 * scaled influence (own), of a window's factor, of a score about its mask's damage times that, of a mask's
 * damage about the sum over its sub-layers as all other masks give it; and, absolute, of matchness about that
 * of the damage (link) and of a window's hits for all masks (ease). */
void search_noise(struct lab*);

#endif
