/* Weights that no kernel reads as they are stored become F32 when a folder is opened: F64, and FP8 (E4M3)
 * with its scales. Nothing of an FP8 weight is lost; it takes four times its bytes. */
#ifndef SWIFTLET_CORE_MODEL_WIDEN_H
#define SWIFTLET_CORE_MODEL_WIDEN_H

#include "core/files/tensor_table.h"

/* How config.json says that FP8 weights are scaled: by blocks of this many rows and columns, or, where these
 * are 0, by row or as a whole, which the scale's shape tells. */
struct fp8_blocks {
	int rows, cols;
};

/* What the widened tensors lie in; freed by widened_free. */
struct widened {
	float** memory; /* (n) */
	size_t n;
};

/* Widens every such tensor of the sealed table, and marks the scales used. False with the error set when a
 * scale is missing, of another shape or not a finite number; widened_free in both cases. */
bool widen_tensors(struct tensor_table*, const struct fp8_blocks*, struct widened*, struct error*);
void widened_free(struct widened*);

#endif
