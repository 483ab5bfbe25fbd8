/* A draft's levels as a point of few real dimensions, in which they are searched.
 *
 * A point sets the share of the layers' draft weights that a step reads, and how the channels are divided
 * among the kinds of map and the thirds of the blocks. Each map keeps the share s·kind·third of its channels,
 * at most all. The scale s makes the share read that of the point. All coordinates are in [0, 1]. Those of
 * kinds and thirds stand for the logarithm of the ratio to the MLP's input and to the middle third. */
#pragma once

#include "kernels/backend.h"

enum level_dimension {
	LEVEL_READ,      /* share of the layers' bytes, on a logarithmic scale from LEVEL_LEAST to 1 */
	LEVEL_ATTENTION, /* attention's input */
	LEVEL_OUTPUT,    /* attention's output */
	LEVEL_DOWN,      /* down's input */
	LEVEL_FIRST,     /* the first third */
	LEVEL_LAST,
	LEVEL_DIMS
};

#define LEVEL_LEAST 0.15 /* share read */

/* The properties of a model that its points are read by. */
struct level_model {
	int blocks;
	double bytes[COLUMN_KINDS]; /* of a block's whole maps, averaged, in any unit */
};

/* The share of the layers' bytes that drafts with the mask read. A mask without levels reads `otherwise`. */
double level_share(const struct level_model*, const struct mask*, const struct levels* otherwise);
/* The mask at a point. */
struct mask level_mask(const struct level_model*, const double x[LEVEL_DIMS]);
/* The point nearest to a mask. */
void level_point(const struct level_model*, const struct mask*, const struct levels* otherwise,
                 double x[LEVEL_DIMS]);
/* The coordinate of a share read. */
double level_read_coordinate(double share);
