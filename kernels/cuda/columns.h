/* Products with weights by input channel on the device, for tests. */
#pragma once

#include "kernels/columns.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Multiplies one row with a map in the host's memory, on device 0 as a draft step does. x (channels) floats
 * that F16 holds exactly; share of the channels to keep, in (0, 1]; out (outputs). False with the error set
 * when the device fails. */
bool cuda_column_product(const struct column_map*, const float* x, float share, float* out, struct error*);

#ifdef __cplusplus
}
#endif
