/* Products with quantized weights, AVX-512 with VNNI. */
#include "kernels/cpu/matmul.h"

#if defined(__AVX512VNNI__)
#include <assert.h>

#include "kernels/cpu/avx512_ints.h"
#include "kernels/cpu/matmul_quantized.h"

INLINED void tile_dot(int n, ints sum[], int columns, enum dtype type, const uint8_t* w, const int8_t* q,
                      size_t x_stride) {
	(void)type;
	UNROLLED for (int c = 0; c < columns / 4; c++) {
		const ints four = ints_load(w + (size_t)c * LANES * 4);
		UNROLLED for (int i = 0; i < n; i++) sum[i] =
		    dot_four(sum[i], four, q + (size_t)i * x_stride + c * 4);
	}
}

#include "kernels/cpu/matmul_tiles.h"

static void interleaved_matmul(float* out, size_t out_stride, const struct tensor* w, int64_t begin,
                               int64_t end, const uint8_t* x, int n) {
	const bool done = avx512_quantized_several(out, out_stride, w, begin, end, x, n);
	assert(done);
	(void)done;
}

QUANTIZED_MATMUL(avx512, avx512_quantized_several)
#endif
