/* The tensor core's product as the PTX ISA describes it (section "Matrix fragments for mma.m16n8k16 with
 * floating point type"), written from that text and not from the kernels: lane l has group l / 4 and place
 * l % 4. Register i of A holds columns 2·place and 2·place + 1, plus 8 for i >= 2, of row group, plus 8 for
 * odd i; register i of B rows 2·place and 2·place + 1, plus 8·i, of column group; C's elements 0, 1 are row
 * group, 2, 3 row group + 8, at columns 2·place and 2·place + 1. */
#pragma once

#include "kernels/cuda/cuda.cuh"

inline float emulated_widen(uint16_t bits, __half) { return __half2float(__ushort_as_half(bits)); }
inline float emulated_widen(uint16_t bits, __nv_bfloat16) {
	__nv_bfloat16 x;
	x.bits = bits;
	return __bfloat162float(x);
}

template <class T> struct tensor_core {
	static void multiply(float* c, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
	                     uint32_t b1) {
		struct emulated_matrices* m = emulated_warp_matrices();
		const unsigned lane = threadIdx.x % 32, group = lane / 4, place = lane % 4;
		const uint32_t a[4] = {a0, a1, a2, a3}, b[2] = {b0, b1};
		for (unsigned i = 0; i < 4; i++)
			for (unsigned half = 0; half < 2; half++)
				m->a[group + 8 * (i & 1)][2 * place + half + 8 * (i >> 1)] =
				    emulated_widen((uint16_t)(a[i] >> 16 * half), T());
		for (unsigned i = 0; i < 2; i++)
			for (unsigned half = 0; half < 2; half++)
				m->b[2 * place + half + 8 * i][group] = emulated_widen((uint16_t)(b[i] >> 16 * half), T());
		emulated_warp_barrier();
		for (unsigned i = 0; i < 4; i++) {
			float sum = c[i];
			for (unsigned k = 0; k < 16; k++)
				sum += m->a[group + 8 * (i >> 1)][k] * m->b[k][2 * place + (i & 1)];
			c[i] = sum;
		}
	}
};

inline uint4 load_once(const void* p) {
	emulated_check((uintptr_t)p % 16 == 0, "a load of 16 bytes from an address that is not a multiple of 16");
	emulated_count_weights();
	return *(const uint4*)p;
}

inline void fetch_ahead(const void* p) { (void)p; }
inline void wait_for_inputs() {}
