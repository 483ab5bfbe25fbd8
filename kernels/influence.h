/* A sub-layer's influence on a row: 1 - cos(x, x + y), x the hidden state before it and y what it adds (Men
 * et al. 2024, "ShortGPT", eq. 1, per sub-layer), from three products, so that one walk over the row is
 * enough. */
#ifndef SWIFTLET_KERNELS_INFLUENCE_H
#define SWIFTLET_KERNELS_INFLUENCE_H

#include <math.h>

#include "kernels/anywhere.h"

/* From x·x, x·y and y·y, as sin² / (1 + cos), which keeps its digits where y is small. 1 where one of the two
 * states is zero and the other is not. */
ANYWHERE float influence_of(double xx, double xy, double yy) {
	const double zz = xx + 2 * xy + yy;
	if (xx <= 0 || zz <= 0)
		return yy > 0 ? 1.0f : 0.0f;
	const double cosine = (xx + xy) / sqrt(xx * zz), squared_sine = (xx * yy - xy * xy) / (xx * zz);
	if (cosine < 0)
		return (float)(1 - cosine);
	return squared_sine < 0 ? 0.0f : (float)(squared_sine / (1 + cosine));
}

#endif
