/* The CPU's functions for weights by input channel, one set an instruction set; all give the same bits. */
#pragma once

#include "kernels/columns.h"

/* As cpu_kernels has them */
typedef float column_threshold_function(const struct column_map*, const float* x, float share);
typedef void column_product_function(float* out, size_t out_stride, const struct column_map*, int64_t tile,
                                     struct column_span, const struct column_list*, int n);
typedef int column_keep_function(const struct column_map*, struct column_range, const float* x,
                                 float threshold, const struct column_list* to);
column_product_function reference_column_product, avx2_column_product, avxvnni_column_product;
column_product_function avx512_column_product, neon_column_product, dotprod_column_product;
column_keep_function reference_column_keep, avx2_column_keep, avx512_column_keep;
column_threshold_function reference_column_threshold, avx2_column_threshold, avx512_column_threshold;

/* The names under which a file that includes column_product.h, and column_round.h, gives what is in them. */
#define COLUMN_PRODUCT(isa)                                                                                  \
	void isa##_column_product(float* out, size_t out_stride, const struct column_map* map, int64_t tile,     \
	                          struct column_span span, const struct column_list* list, int n) {              \
		column_product(out, out_stride, map, tile, span, list, n);                                           \
	}
#define COLUMN_FUNCTIONS(isa)                                                                                \
	COLUMN_PRODUCT(isa)                                                                                      \
	void isa##_column_round(uint8_t* codes, uint8_t* scale, size_t run, float* peak, float* norm2,           \
	                        const float* x, int64_t x_stride, int outputs, int n) {                          \
		round_columns(codes, scale, run, peak, norm2, x, x_stride, outputs, n);                              \
	}
