/* Weights that no kernel reads as they are stored become others when a folder is opened: F64 F32, FP8 (E4M3)
 * with its scales groups of 32 (DTYPE_F8_GROUP), or F32 where groups do not end with its blocks. Nothing of
 * an FP8 weight is lost. */
#ifndef SWIFTLET_CORE_MODEL_WIDEN_H
#define SWIFTLET_CORE_MODEL_WIDEN_H

#include "core/files/tensor_table.h"
#include "core/model/kept.h"

/* How config.json says that FP8 weights are scaled: by blocks of this many rows and columns, or, where these
 * are 0, by row or as a whole, which the scale's shape tells. */
struct fp8_blocks {
	int rows, cols;
};

/* Widens every such tensor of the sealed table, and marks the scales used. False with the error set when a
 * scale is missing, of another shape or not a finite number. */
bool widen_tensors(struct tensor_table*, const struct fp8_blocks*, struct kept*, struct error*);

#endif
