/* Products with quantized weights, 64-bit ARM, written once over three ways of multiplying bytes.
 *
 * Included by one source file an instruction set, after neon_ints.h and
 *   tile_dot      as in matmul_tiles.h
 *   rows_dot      the same of four weight rows as they are stored
 *   interleaved_small_dot
 *                 as in neon_interleaved.h, with INTERLEAVED_BATCH
 *
 * Activation rows meet four weight rows side by side, which are read from end to end and stay in the
 * registers in which they are unpacked (neon_rows.h); many of them with blocks of 256, and types that real
 * files seldom have, go by matmul_quantized.h's tiles. All three ways add integers exactly and floats in one
 * order: they give the same bits, and so does each whatever rows, ranges and threads there are. */
/* Each uses what stands in those before it: the blank lines keep them from being sorted. */
#include "kernels/cpu/matmul_quantized.h"

#include "kernels/cpu/matmul_tiles.h"

#include "kernels/cpu/neon_interleaved.h"

#include "kernels/cpu/neon_rows.h"
