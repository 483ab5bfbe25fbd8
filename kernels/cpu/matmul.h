/* Matrix products: the parts that all instruction sets share.
 *
 * An output element is one dot product, and its bits depend on the weight's type and cols alone: every
 * kernel gives each element its own accumulators, feeds them in ascending order of the column and adds
 * them up in a fixed order at the end. Rows, tiles and threads only choose which elements are computed
 * side by side.
 *
 * A prepared activation row is, for F32, F16 and BF16 weights, its floats, filled with zeros to a
 * multiple of 16. For quantized weights it is int8: x ≈ d·q with d = max|x| / 127 of a block of 32 (types
 * with blocks of 32, and iq4_xs) or 256 (the others), q rounded to nearest even, behind it the blocks' d,
 * behind those what the type's offset or minimum needs. All instruction sets prepare the same bytes. A block
 * that holds a value that is not finite gets d = NaN, so that the product is not finite either. */
#pragma once

#include "kernels/backend.h"
#include "kernels/dtype_blocks.h"
#include "kernels/dtype_table.h"

#include <stdbool.h>

/* A kernel is one function for each type and count of rows, with its loops unrolled. Instrumented for a
 * sanitizer, those functions take the compiler minutes. There the same source is one function with loops: it
 * checks the same accesses and computes the same bits. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNROLLED
#define INLINED static inline
#elif defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#define INLINED static inline __attribute__((always_inline))
#else
#define UNROLLED _Pragma("GCC unroll 64")
#define INLINED static inline __attribute__((always_inline))
#endif

/* The compiler knows nothing of x from here on. So it computes no address from another one, which would fill
 * its registers, and compiles no loop twice. */
#define KEPT(x) __asm__("" : "+r"(x))

/* Lines are fetched into the first-level cache, but on AMD's processors into the second-level one and further
 * ahead, because a Zen 4's first level waits for few lines at a time (docs/lessons.md). Intel's processors
 * have been measured with the first level only. */
static inline bool fetches_to_second_level(void) {
#if defined(__x86_64__)
	return __builtin_cpu_is("amd");
#else
	return false;
#endif
}
INLINED void fetch_line(const void* at, bool second_level) {
	if (second_level)
		__builtin_prefetch(at, 0, 2);
	else
		__builtin_prefetch(at, 0, 3);
}

/* Counts of rows that a kernel is compiled for, and in a switch over a count: `call` with it as a constant */
#define UP_TO_2(X, ...) X(1, __VA_ARGS__) X(2, __VA_ARGS__)
#define UP_TO_3(X, ...) UP_TO_2(X, __VA_ARGS__) X(3, __VA_ARGS__)
#define UP_TO_4(X, ...) UP_TO_3(X, __VA_ARGS__) X(4, __VA_ARGS__)
#define UP_TO_6(X, ...) UP_TO_4(X, __VA_ARGS__) X(5, __VA_ARGS__) X(6, __VA_ARGS__)
#define UP_TO_8(X, ...) UP_TO_6(X, __VA_ARGS__) X(7, __VA_ARGS__) X(8, __VA_ARGS__)
#define CASE(n, call, ...)                                                                                   \
	case n:                                                                                                  \
		call(n, __VA_ARGS__);                                                                                \
		break;

static inline bool dtype_is_float(enum dtype type) { return dtype_table[type].floats; }

/* Types whose products take the activations as they are. */
static inline bool dtype_takes_floats(enum dtype type) {
	return dtype_is_float(type) || dtype_is_decoded(type);
}

/* Elements of an activation row that share a scale. */
static inline int activation_block(enum dtype type) {
	return type == DTYPE_IQ4_XS ? BLOCK_SMALL : dtype_block(type);
}

static inline int dtype_bias(enum dtype type) { return dtype_table[type].bias; }
static inline bool dtype_has_min(enum dtype type) { return dtype_table[type].minimum; }

static inline size_t round_up_64(size_t n) { return (n + 63) & ~(size_t)63; }

/* Bytes of a prepared row of floats: a line more than they need, so that rows of a power of two do not
 * all fall into the same sets of the cache. */
static inline size_t prepared_float_bytes(int64_t cols) { return round_up_64((size_t)cols * 4) + 64; }

static inline int group_offset(enum dtype type) { return dtype_table[type].group_offset; }
static inline int group_of(enum dtype type) { return dtype_table[type].group ? dtype_table[type].group : 16; }

/* A prepared row for quantized weights. */
struct prepared {
	size_t d;      /* offset of float d (cols / block) */
	size_t sums;   /* offset of blocks of 32: int32 -bias·Σq, or float d·Σq where the type has a minimum
	                  (cols / 32); types with minima of groups: int16 Σq of each group; with an offset: int16
	                  -offset·Σq of columns 0, 1 mod 4 and of columns 2, 3 mod 4 of each group, whose products
	                  with the weights then fit 16 bits (cols / 16, 2) */
	size_t starts; /* offset of int32 -offset·Σq (cols / 16), types with an offset in groups alone */
	size_t bytes;  /* of the whole row, a multiple of 64 */
};

/* Bytes of `sums` that `cols` columns have. */
static inline size_t sums_bytes(enum dtype type, int64_t cols) {
	const size_t n = (size_t)cols;
	if (activation_block(type) == BLOCK_SMALL)
		return n / 32 * 4;
	return group_offset(type) ? n / 16 * 4 : n / (size_t)group_of(type) * 2;
}

static inline struct prepared prepared_layout(enum dtype type, int cols) {
	const size_t n = (size_t)cols, block = (size_t)activation_block(type);
	struct prepared p;
	p.d = round_up_64(n);
	p.sums = p.d + round_up_64(n / block * 4);
	p.starts = p.sums + round_up_64(sums_bytes(type, cols));
	p.bytes = p.starts + (group_offset(type) ? round_up_64(n / 16 * 4) : 0);
	if (p.bytes % 128 == 0) /* rows spread over the sets of the cache */
		p.bytes += 64;
	return p;
}

/* As cpu_kernels.prepare has it */
typedef void prepare_function(enum dtype weight, void* out, const float* x, int cols);
prepare_function reference_prepare, avx2_prepare, neon_prepare;

/* As cpu_kernels.matmul has it; then the parts of these for quantized weights. */
typedef void matmul_function(float* out, size_t out_stride, const struct tensor* w, int64_t begin,
                             int64_t end, const void* x, int n);
matmul_function reference_matmul, avx2_matmul, avxvnni_matmul, avx512_matmul;
matmul_function neon_matmul, dotprod_matmul, i8mm_matmul; /* NEON, with dotprod, and with i8mm too */
matmul_function avx2_quantized_matmul, avxvnni_quantized_matmul, avx512_quantized_matmul;
matmul_function neon_quantized_matmul, dotprod_quantized_matmul, i8mm_quantized_matmul;

/* dtype_to_float, the same bits, faster for the decoded types, F16, BF16 and Q8_0. */
void avx2_decode(enum dtype, const void* row, float* x, int64_t cols);
/* quantize_row, the same bytes, faster. */
void avx2_quantize_row(enum dtype, void* out, const float* x, int64_t cols);
/* A row of the screened head's copy: coarse_row.h. */
void avx2_coarse_row(struct block_q4_0* out, float* x, int64_t cols, float squares[2]);

/* Whether the product of an instruction set takes interleaved rows of a type. */
bool avx2_interleaves(enum dtype), avxvnni_interleaves(enum dtype), avx512_interleaves(enum dtype);
/* AVX-512's several activation rows (up to sixteen), and one with a row of q8_0: false, and nothing done,
 * where there are too many activation rows, too few weight rows or no such kernel for the type. */
bool avx512_quantized_several(float* out, size_t out_stride, const struct tensor* w, int64_t begin,
                              int64_t end, const uint8_t* x, int n);

/* Whether this processor and system run the kernels of an instruction set; false on other architectures. avx2
 * needs AVX2, FMA and F16C; avx-vnni AVX-VNNI and all of avx2; avx512 F, BW, DQ, VL, VNNI and all of avx2;
 * i8mm all of dotprod. */
bool avx2_supported(void);
bool avxvnni_supported(void);
bool avx512_supported(void);
bool dotprod_supported(void);
bool i8mm_supported(void);
