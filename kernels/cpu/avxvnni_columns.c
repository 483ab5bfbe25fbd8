/* Weights by input channel, AVX-VNNI: 256 bits. */
#include "kernels/cpu/matmul.h"

#if defined(__AVXVNNI__)
#include "kernels/cpu/columns.h"
#include "kernels/cpu/ints_256.h"

#define COLUMN_NARROW 0
#define COLUMN_WHOLE 1
INLINED ints codes_dot(ints sum, ints codes, ints q) { return _mm256_dpbusd_avx_epi32(sum, codes, q); }

#include "kernels/cpu/column_vectors_256.h"

#include "kernels/cpu/column_product.h"

COLUMN_PRODUCT(avxvnni)
#endif
