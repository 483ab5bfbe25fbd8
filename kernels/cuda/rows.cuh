/* Work on one row, or one head of it, both for kernels of its own and within products. A row's sums are made
 * by ROW_THREADS threads, so that both ways give the same bits. */
#pragma once

#include "kernels/cuda/cuda.cuh"

enum { ROW_THREADS = 256 };

__device__ __forceinline__ float inverse_root(const float* x, int n, float epsilon, float* shared) {
	float sum = 0;
	for (int j = threadIdx.x; j < n; j += blockDim.x)
		sum = __fmaf_rn(x[j], x[j], sum);
	return rsqrtf(block_sum(sum, shared) / (float)n + epsilon);
}

__device__ __forceinline__ float activate(float x, enum activation activation) {
	const float positive = fmaxf(x, 0.0f);
	if (activation == ACTIVATION_GELU_TANH)
		return 0.5f * x * (1.0f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
	if (activation == ACTIVATION_GELU)
		return 0.5f * x * erfcf(-0.7071067811865475f * x);
	if (activation == ACTIVATION_RELU)
		return positive;
	if (activation == ACTIVATION_RELU2)
		return positive * positive;
	return x / (1.0f + __expf(activation == ACTIVATION_QUICK_GELU ? -1.702f * x : -x));
}

/* One warp a head: its norm (Qwen3), its rotation, and for keys and values the rounding into the cache. */
__device__ inline void rotate_head(const struct head_rotation& t, float* head, const float* norm,
                                   const float* cosine, const float* sine) {
	const int lane = threadIdx.x % 32;
	if (norm) {
		float sum = 0;
		for (int j = lane; j < t.head_dim; j += 32)
			sum = __fmaf_rn(head[j], head[j], sum);
		for (int step = 16; step > 0; step /= 2)
			sum += __shfl_xor_sync(0xffffffffu, sum, step);
		const float r = rsqrtf(sum / (float)t.head_dim + t.epsilon);
		for (int j = lane; j < t.head_dim; j += 32)
			head[j] = head[j] * r * (norm[j] + t.plus);
		__syncwarp();
	}
	for (int i = lane; i < t.pairs; i += 32) {
		const int a = t.interleaved ? 2 * i : i, b = t.interleaved ? 2 * i + 1 : i + t.pairs;
		const float x = head[a], y = head[b];
		head[a] = x * cosine[i] - y * sine[i];
		head[b] = x * sine[i] + y * cosine[i];
	}
	__syncwarp();
}

/* The angles of a row: cosines, and angle_rows · pairs further on the sines. */
__device__ __forceinline__ const float* angles_of(const struct head_rotation& t, const struct device_slice* s,
                                                  int row) {
	const int at = t.sliding ? s->sliding_angles : s->angles;
	return (const float*)((const char*)s + at) + (size_t)s->row[row].angle * t.pairs;
}

/* Which of a block's two parts of a page. */
enum kept { KEPT_KEY, KEPT_VALUE };
/* A row's new key or value of head h, rounded into the cache by a warp. */
__device__ __forceinline__ void store_head(const struct head_rotation& t, const struct device_slice* s,
                                           const struct device_row& row, enum kept kept, int h,
                                           const float* head) {
	__half* out = at_slot(s, row, row.slot, (2 * t.place + kept) * t.kv_heads + h, t.head_dim);
	for (int j = threadIdx.x % 32; j < t.head_dim; j += 32)
		out[j] = __float2half_rn(head[j]);
}
