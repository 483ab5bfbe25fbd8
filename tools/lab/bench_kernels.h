/* `swiftlet bench kernels`: the CPU's inner loops against the time their bytes alone would take. */
#ifndef SWIFTLET_TOOLS_LAB_BENCH_KERNELS_H
#define SWIFTLET_TOOLS_LAB_BENCH_KERNELS_H

#include <stdbool.h>

/* Times matrix products of every weight type with 1 to 64 activation rows, the preparation of activations
 * and attention over a cache, all on data larger than the caches. isa: "auto" or one
 * instruction set; threads, 0: one for each CPU that it may use. Prints a table or one JSON object {isa,
 * threads, bandwidth_measured, clock, kernels: [{kernel, dtype, rows, seconds, share_of_floor, over_one_row,
 * cycles_for_32_weights_a_row, operations_a_cycle}], arithmetic_bound: [{dtype, rows}]}: the floor is bytes
 * read over the bandwidth measured in the same run (null where no bytes are streamed); operations are those
 * that kernel_operations.h counts, absent where it counts none; arithmetic_bound is the first of the row
 * counts tried that takes more than 1.5 times one row's time (null where none does). Returns the exit status.
 */
int bench_kernels(const char* isa, int threads, bool json);

#endif
