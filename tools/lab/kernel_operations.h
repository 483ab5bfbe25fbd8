/* What products with quantized weights cost on paper: the floor beside the memory's. */
#ifndef SWIFTLET_TOOLS_LAB_KERNEL_OPERATIONS_H
#define SWIFTLET_TOOLS_LAB_KERNEL_OPERATIONS_H

#include "kernels/backend.h"

/* Operations on vectors of 256 bits that 32 weights and `rows` activation rows need, loads and stores not
 * counted; 0 where they were not counted: other instruction sets than avx2 and avx-vnni, types of floats. Two
 * to four of them are done in a cycle at most, as the processor may be. */
double kernel_operations(const char* isa, enum dtype type, int rows);

/* This core's cycles a second now, by additions that wait for each other. */
double core_clock(void);

#endif
