/* As much of CUDA and NCCL as kernels/cuda uses, on the CPU, so that its kernels and its host code run, and
 * can be tested, where there is no GPU.
 *
 * A thread is a fiber; a block's fibers run one after another until each stands at a barrier, in an order
 * that changes at random, so that a missing barrier shows as a result that differs. A stream holds its work
 * back until someone waits for it, so that memory reused too early shows. Device memory ends at a page that
 * cannot be touched and begins as not-a-number. Each of several devices (EMULATED_DEVICES) has memory that
 * only its own streams can touch, and a gather holds its stream until the others' have come to it. */
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#define __CUDACC__ 1
#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define CUDART_VERSION 13000

using std::isfinite;

/* ---- vectors ------------------------------------------------------------------------------ */

struct uint3 {
	unsigned x, y, z;
};
struct dim3 {
	unsigned x, y, z;
	dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct float2 {
	float x, y;
};
struct uint2 {
	unsigned x, y;
};
struct alignas(16) uint4 {
	unsigned x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

/* ---- inside a kernel ---------------------------------------------------------------------- */

struct emulated_matrices {
	float a[16][16], b[16][8];
};

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
void* emulated_dynamic_shared();
void emulated_warp_barrier();
/* Shared by a warp for one product; another call gives other memory. */
struct emulated_matrices* emulated_warp_matrices();
uint32_t emulated_shuffle(uint32_t value, unsigned from_lane);
/* The values of the warp's lanes, (32); another call gives other memory. */
const uint32_t* emulated_posted(uint32_t value);
void emulated_count_add(const void* where);
void emulated_count_weights();
void emulated_check(bool, const char* what);
void __syncthreads();
int __syncthreads_and(int);
int __syncthreads_count(int);
inline void __syncwarp() { emulated_warp_barrier(); }

template <class T> T __shfl_xor_sync(unsigned mask, T x, int step) {
	static_assert(sizeof(T) == 4, "four bytes");
	emulated_check(mask == 0xffffffffu, "a shuffle of part of a warp");
	uint32_t bits;
	memcpy(&bits, &x, 4);
	bits = emulated_shuffle(bits, (threadIdx.x % 32) ^ (unsigned)step);
	memcpy(&x, &bits, 4);
	return x;
}
template <class T> T __shfl_sync(unsigned mask, T x, int lane) {
	static_assert(sizeof(T) == 4, "four bytes");
	emulated_check(mask == 0xffffffffu, "a shuffle of part of a warp");
	uint32_t bits;
	memcpy(&bits, &x, 4);
	bits = emulated_shuffle(bits, (unsigned)lane % 32);
	memcpy(&x, &bits, 4);
	return x;
}
inline unsigned long long __shfl_up_sync(unsigned mask, unsigned long long x, unsigned step) {
	emulated_check(mask == 0xffffffffu, "a shuffle of part of a warp");
	const unsigned lane = threadIdx.x % 32, from = lane >= step ? lane - step : lane;
	const uint32_t low = emulated_shuffle((uint32_t)x, from);
	return (unsigned long long)emulated_shuffle((uint32_t)(x >> 32), from) << 32 | low;
}
inline unsigned __match_any_sync(unsigned mask, uint32_t x) {
	emulated_check(mask == 0xffffffffu, "a match within part of a warp");
	const uint32_t* all = emulated_posted(x);
	unsigned peers = 0;
	for (int i = 0; i < 32; i++)
		peers |= (unsigned)(all[i] == x) << i;
	return peers;
}
inline unsigned __reduce_add_sync(unsigned mask, unsigned x) {
	const uint32_t* all = emulated_posted(x);
	unsigned sum = 0;
	emulated_check(mask >> threadIdx.x % 32 & 1, "a sum of lanes without the one that asks");
	for (int i = 0; i < 32; i++)
		sum += mask >> i & 1 ? all[i] : 0;
	return sum;
}
inline unsigned __ballot_sync(unsigned mask, bool x) {
	emulated_check(mask == 0xffffffffu, "a vote of part of a warp");
	const uint32_t* all = emulated_posted(x);
	unsigned lanes = 0;
	for (int i = 0; i < 32; i++)
		lanes |= (all[i] != 0 ? 1u : 0u) << i;
	return lanes;
}
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned atomicMax(unsigned* p, unsigned x) {
	const unsigned old = *p;
	*p = x > old ? x : old;
	return old;
}
inline unsigned long long atomicAdd(unsigned long long* p, unsigned long long x) {
	emulated_count_add(p);
	const unsigned long long old = *p;
	*p += x;
	return old;
}
inline unsigned atomicAdd(unsigned* p, unsigned x) {
	const unsigned old = *p;
	*p += x;
	return old;
}
inline int atomicAdd(int* p, int x) {
	const int old = *p;
	*p += x;
	return old;
}
inline void __threadfence() {}
template <class T> T __ldcg(const T* p) { return *p; }
template <class T> T __ldcs(const T* p) { return *p; }
/* c + the products of the four signed bytes of a and b */
inline int __dp4a(int a, int b, int c) {
	for (int i = 0; i < 32; i += 8)
		c += (int8_t)(a >> i) * (int8_t)(b >> i);
	return c;
}
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline float __expf(float x) { return expf(x); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __uint_as_float(uint32_t bits) {
	float x;
	memcpy(&x, &bits, 4);
	return x;
}
inline uint32_t __float_as_uint(float x) {
	uint32_t bits;
	memcpy(&bits, &x, 4);
	return bits;
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
	const uint64_t both = (uint64_t)y << 32 | x;
	unsigned out = 0;
	for (int i = 0; i < 4; i++)
		out |= (unsigned)((both >> 8 * ((selector >> 4 * i) & 7)) & 0xff) << 8 * i;
	return out;
}

/* ---- the runtime -------------------------------------------------------------------------- */

enum cudaError_t {
	cudaSuccess,
	cudaErrorMemoryAllocation = 2,
	cudaErrorInsufficientDriver = 35,
	cudaErrorInvalidDevice = 101,
	cudaErrorNotReady = 600,
	cudaErrorLaunchFailure = 719,
	cudaErrorNotSupported = 801,
	cudaErrorUnknown = 999
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum { cudaStreamNonBlocking = 1 };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
struct cudaDeviceProp {
	char name[256];
	size_t totalGlobalMem;
	int major, minor, multiProcessorCount;
};

struct emulated_graph;
struct CUstream_st;
typedef CUstream_st* cudaStream_t;
typedef emulated_graph* cudaGraph_t;
typedef emulated_graph* cudaGraphExec_t;
typedef double* cudaEvent_t;
typedef void* cudaGraphNode_t;
typedef unsigned long long cudaGraphConditionalHandle;
enum { cudaGraphNodeTypeConditional = 1, cudaGraphCondTypeWhile = 1, cudaGraphCondAssignDefault = 1 };
struct cudaGraphNodeParams {
	int type;
	struct {
		cudaGraphConditionalHandle handle;
		int type;
		unsigned size;
		cudaGraph_t* phGraph_out;
	} conditional;
};

const char* cudaGetErrorString(cudaError_t);
const char* cudaGetErrorName(cudaError_t);
cudaError_t cudaGetLastError();
cudaError_t cudaDriverGetVersion(int*);
cudaError_t cudaGetDeviceCount(int*);
cudaError_t cudaSetDevice(int);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp*, int);
cudaError_t cudaMemGetInfo(size_t* available, size_t* total);
cudaError_t cudaMalloc(void**, size_t);
cudaError_t cudaFree(void*);
cudaError_t cudaMallocHost(void**, size_t);
cudaError_t cudaFreeHost(void*);
cudaError_t cudaMemcpy(void* to, const void* from, size_t, cudaMemcpyKind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t, cudaMemcpyKind, cudaStream_t);
cudaError_t cudaMemsetAsync(void*, int, size_t, cudaStream_t);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, unsigned);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamQuery(cudaStream_t);
cudaError_t cudaEventCreate(cudaEvent_t*);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventElapsedTime(float*, cudaEvent_t, cudaEvent_t);
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode);
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t, cudaGraph_t, const cudaGraphNode_t*, const void*,
                                          size_t, cudaStreamCaptureMode);
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*);
cudaError_t cudaGraphCreate(cudaGraph_t*, unsigned);
cudaError_t cudaGraphDestroy(cudaGraph_t);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t);
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t);
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle*, cudaGraph_t, unsigned initial,
                                             unsigned flags);
cudaError_t cudaGraphAddNode(cudaGraphNode_t*, cudaGraph_t, const cudaGraphNode_t*, const void*, size_t,
                             cudaGraphNodeParams*);
void cudaGraphSetConditional(cudaGraphConditionalHandle, unsigned);

template <class T> cudaError_t cudaMalloc(T** p, size_t bytes) { return cudaMalloc((void**)p, bytes); }

/* ---- launches ----------------------------------------------------------------------------- */

struct emulated_shape {
	dim3 grid, block;
	size_t shared;
	cudaStream_t stream;
};
inline emulated_shape emulated_config(dim3 grid, dim3 block, size_t shared = 0, cudaStream_t stream = 0) {
	return {grid, block, shared, stream};
}
void emulated_enqueue(cudaStream_t, std::function<void()>);
/* The stream is captured into a graph that has launches which start early. */
void emulated_starts_early(cudaStream_t);
/* A launch needs the stream's device to be the current one. */
void emulated_launch_here(cudaStream_t);
void emulated_run(const emulated_shape&, const char* name, const std::function<void()>& thread);

template <class F, class... A>
void emulated_launch(const emulated_shape& shape, const char* name, F kernel, A... arguments) {
	emulated_launch_here(shape.stream);
	emulated_enqueue(shape.stream, [=] { emulated_run(shape, name, [=] { kernel(arguments...); }); });
}

enum { cudaLaunchAttributeProgrammaticStreamSerialization = 6 };
struct cudaLaunchAttribute {
	int id;
	struct {
		int programmaticStreamSerializationAllowed;
	} val;
};
struct cudaLaunchConfig_t {
	dim3 gridDim, blockDim;
	size_t dynamicSmemBytes;
	cudaStream_t stream;
	cudaLaunchAttribute* attrs;
	unsigned numAttrs;
};
template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* c, void (*kernel)(P...), A... arguments) {
	if (c->numAttrs > 0)
		emulated_starts_early(c->stream);
	emulated_launch(emulated_config(c->gridDim, c->blockDim, c->dynamicSmemBytes, c->stream), "a kernel",
	                kernel, arguments...);
	return cudaSuccess;
}
