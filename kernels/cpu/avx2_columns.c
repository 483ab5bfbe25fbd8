/* Weights by input channel, AVX2. */
#include "kernels/cpu/matmul.h"

#if defined(__AVX2__)
#include "kernels/column_round.h"
#include "kernels/cpu/columns.h"
#include "kernels/cpu/ints_256.h"

/* Two products of 15 and 127 are at most 3,810: eight such sums fit 16 bits. */
#define COLUMN_NARROW 8
#define COLUMN_WHOLE 0
INLINED ints codes_dot(ints sum, ints codes, ints q) {
	sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, q));
	IN_ORDER(sum);
	return sum;
}
INLINED ints codes_widen(ints sum, ints narrow) {
	return ints_add(sum, _mm256_madd_epi16(narrow, _mm256_set1_epi16(1)));
}

#include "kernels/cpu/column_vectors_256.h"

#include "kernels/cpu/column_product.h"

COLUMN_FUNCTIONS(avx2)
#endif
