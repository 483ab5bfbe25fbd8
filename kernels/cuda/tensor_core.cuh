/* Instructions that C++ cannot express: the tensor core's product, loads that bypass the first-level cache or
 * only begin, and waiting for the previous launch. They are in a file of their own, so that a test can
 * replace them by a model. */
#pragma once

#include "kernels/cuda/cuda.cuh"

/* c (16, 8) += a (16, 16) · b (16, 8) over a warp, the operands' lanes as the PTX ISA lays them out for
 * mma.m16n8k16. */
template <class T> struct tensor_core;
template <> struct tensor_core<__half> {
	static __device__ __forceinline__ void multiply(float* c, uint32_t a0, uint32_t a1, uint32_t a2,
	                                                uint32_t a3, uint32_t b0, uint32_t b1) {
		asm volatile(
		    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
		    "{%0,%1,%2,%3};"
		    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
		    : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
	}
};
template <> struct tensor_core<__nv_bfloat16> {
	static __device__ __forceinline__ void multiply(float* c, uint32_t a0, uint32_t a1, uint32_t a2,
	                                                uint32_t a3, uint32_t b0, uint32_t b1) {
		asm volatile(
		    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
		    "{%0,%1,%2,%3};"
		    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
		    : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
	}
};

/* Streams past the first-level cache: a weight is read once a pass. */
__device__ __forceinline__ uint4 load_once(const void* p) {
	uint4 v;
	asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
	             : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
	             : "l"(p));
	return v;
}

/* Brings a cache line nearer; nothing is read yet. */
__device__ __forceinline__ void fetch_ahead(const void* p) {
	asm volatile("prefetch.global.L2 [%0];" : : "l"(p));
}

/* Programmatic dependent launch (PTX ISA, griddepcontrol): lets the next kernel begin; on return the results
 * of the kernels before are visible. A kernel that was not launched early waits for nothing. */
__device__ __forceinline__ void wait_for_inputs() {
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.launch_dependents;");
	asm volatile("griddepcontrol.wait;" : : : "memory");
#endif
}
