/* Products with weights by input channel on the device, for tests. */
#pragma once

#include "kernels/columns.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Multiplies one row with a map in the host's memory, on device 0 as a draft step does. x (channels) floats
 * that F16 holds exactly; left_out: per cent of the channels, as a level has it; out (outputs). False with
 * the error set when the device fails. */
bool cuda_column_product(const struct column_map*, const float* x, int left_out, float* out, struct error*);

#ifdef __cplusplus
}
#endif
