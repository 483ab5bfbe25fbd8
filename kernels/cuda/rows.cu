/* What happens to rows between products: embedding, norms, rotation, the cache's new keys and values.
 * One block a row throughout, so a row's result never depends on its company. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/influence.h"

enum { THREADS = 256 };

static const struct device_slice* slice_of(const struct cuda_backend* b) {
	return (const struct device_slice*)b->slice;
}

/* ---- embedding ---------------------------------------------------------------------------- */

template <class T>
__global__ void embed_kernel(float* x, const T* table, int dim, float scale, const struct device_slice* s) {
	if (blockIdx.x >= (unsigned)s->n)
		return;
	const struct device_row& row = s->row[blockIdx.x];
	for (int j = threadIdx.x; j < dim; j += blockDim.x)
		x[(size_t)blockIdx.x * dim + j] = s->first > 0 ? row.hidden[(size_t)row.pending * dim + j]
		                                               : to_float(table[(size_t)row.token * dim + j]) * scale;
}

void launch_embed(const struct cuda_backend* b, cudaStream_t stream, int rows) {
	const int dim = b->shape.dim;
	const float scale = b->shape.embedding_scale;
	if (b->bf16)
		embed_kernel<<<rows, THREADS, 0, stream>>>(b->work.x, (const __nv_bfloat16*)b->embedding, dim, scale,
		                                           slice_of(b));
	else
		embed_kernel<<<rows, THREADS, 0, stream>>>(b->work.x, (const __half*)b->embedding, dim, scale,
		                                           slice_of(b));
}

/* ---- influence ---------------------------------------------------------------------------- */

/* What a measuring slice needs: the hidden states before the last sub-layer, and where its influence goes. */
struct measure {
	float *before, *influence;
};

/* 1 - cos of the row's states before and after the last sub-layer below `end` that was run, as influence_of
 * in kernels/cpu/kernels.h. Between two sub-layers nothing else touches the states, so that the next one's
 * norm, which reads them anyway, is the place to measure. */
__device__ void measure_row(const float* x, const struct measure& m, int dim, const struct device_slice* s,
                            int end, float* shared) {
	int at = end - 1;
	while (at >= s->first && leaves_out(s, at))
		at--;
	if (at < s->first)
		return;
	const float* before = m.before + (size_t)blockIdx.x * dim;
	float xx = 0, xy = 0, yy = 0;
	for (int j = threadIdx.x; j < dim; j += blockDim.x) {
		const float y = x[j] - before[j];
		xx = __fmaf_rn(before[j], before[j], xx);
		xy = __fmaf_rn(before[j], y, xy);
		yy = __fmaf_rn(y, y, yy);
	}
	const float a = block_sum(xx, shared), b = block_sum(xy, shared), c = block_sum(yy, shared);
	if (threadIdx.x == 0)
		m.influence[(size_t)at * s->n + blockIdx.x] = influence_of(a, b, c);
}

__global__ void influence_kernel(const float* x, struct measure m, int dim, const struct device_slice* s,
                                 int end) {
	__shared__ float shared[THREADS / 32];
	if (blockIdx.x < (unsigned)s->n && s->measure)
		measure_row(x + (size_t)blockIdx.x * dim, m, dim, s, end, shared);
}

void launch_influence(const struct cuda_backend* b, cudaStream_t stream, int rows, int end) {
	const struct measure m = {b->work.before, b->work.influence};
	influence_kernel<<<rows, THREADS, 0, stream>>>(b->work.x, m, b->shape.dim, slice_of(b), end);
}

/* ---- norms -------------------------------------------------------------------------------- */

__device__ __forceinline__ float inverse_root(const float* x, int n, float epsilon, float* shared) {
	float sum = 0;
	for (int j = threadIdx.x; j < n; j += blockDim.x)
		sum = __fmaf_rn(x[j], x[j], sum);
	return rsqrtf(block_sum(sum, shared) / (float)n + epsilon);
}

template <class T>
__global__ void norm_kernel(T* out, const float* x, const float* weight, int dim, float plus, float epsilon,
                            const struct device_slice* s, int sub_layer, struct measure m) {
	__shared__ float shared[THREADS / 32];
	if (blockIdx.x >= (unsigned)s->n || leaves_out(s, sub_layer))
		return;
	const float* row = x + (size_t)blockIdx.x * dim;
	if (s->measure && sub_layer >= 0) {
		measure_row(row, m, dim, s, sub_layer, shared);
		for (int j = threadIdx.x; j < dim; j += blockDim.x)
			m.before[(size_t)blockIdx.x * dim + j] = row[j];
	}
	const float r = inverse_root(row, dim, epsilon, shared);
	for (int j = threadIdx.x; j < dim; j += blockDim.x)
		out[(size_t)blockIdx.x * dim + j] = to_activation<T>(row[j] * r * (weight[j] + plus));
}

void launch_norm(const struct cuda_backend* b, cudaStream_t stream, int rows, const float* weight,
                 int sub_layer) {
	const struct model_shape* m = &b->shape;
	const float plus = m->norm_plus_one ? 1.0f : 0.0f;
	const struct measure measure = {b->work.before, b->work.influence};
	if (b->bf16)
		norm_kernel<<<rows, THREADS, 0, stream>>>((__nv_bfloat16*)b->work.normed, b->work.x, weight, m->dim,
		                                          plus, m->norm_epsilon, slice_of(b), sub_layer, measure);
	else
		norm_kernel<<<rows, THREADS, 0, stream>>>((__half*)b->work.normed, b->work.x, weight, m->dim, plus,
		                                          m->norm_epsilon, slice_of(b), sub_layer, measure);
}

/* x += norm(y): Gemma 2's norm on a sub-layer's output */
__global__ void post_norm_kernel(float* x, const float* y, const float* weight, int dim, float plus,
                                 float epsilon, const struct device_slice* s, int sub_layer) {
	__shared__ float shared[THREADS / 32];
	if (blockIdx.x >= (unsigned)s->n || leaves_out(s, sub_layer))
		return;
	const float* row = y + (size_t)blockIdx.x * dim;
	const float r = inverse_root(row, dim, epsilon, shared);
	for (int j = threadIdx.x; j < dim; j += blockDim.x)
		x[(size_t)blockIdx.x * dim + j] += row[j] * r * (weight[j] + plus);
}

void launch_post_norm(const struct cuda_backend* b, cudaStream_t stream, int rows, const float* weight,
                      int sub_layer) {
	const struct model_shape* m = &b->shape;
	post_norm_kernel<<<rows, THREADS, 0, stream>>>(b->work.x, b->work.y, weight, m->dim,
	                                               m->norm_plus_one ? 1.0f : 0.0f, m->norm_epsilon,
	                                               slice_of(b), sub_layer);
}

/* ---- prefill's separate steps ------------------------------------------------------------- */

__global__ void add_kernel(float* x, const float* y, const float* bias, int dim) {
	const size_t at = (size_t)blockIdx.x * dim;
	for (int j = threadIdx.x; j < dim; j += blockDim.x)
		x[at + j] += y[at + j] + (bias ? bias[j] : 0.0f);
}

void launch_add(const struct cuda_backend* b, cudaStream_t stream, int rows, const float* bias) {
	add_kernel<<<rows, THREADS, 0, stream>>>(b->work.x, b->work.y, bias, b->shape.dim);
}

__global__ void bias_kernel(float* x, const float* bias, int width) {
	for (int j = threadIdx.x; j < width; j += blockDim.x)
		x[(size_t)blockIdx.x * width + j] += bias[j];
}

void launch_bias(const struct cuda_backend*, cudaStream_t stream, int rows, float* x, const float* bias,
                 int width) {
	if (bias)
		bias_kernel<<<rows, THREADS, 0, stream>>>(x, bias, width);
}

template <class T>
__global__ void gate_kernel(T* out, const float* gate, const float* up, const float* b_gate,
                            const float* b_up, int ffn, int gelu) {
	const size_t at = (size_t)blockIdx.x * ffn;
	for (int j = threadIdx.x; j < ffn; j += blockDim.x) {
		const float g = gate[at + j] + (b_gate ? b_gate[j] : 0.0f), u = up[at + j] + (b_up ? b_up[j] : 0.0f);
		const float a = gelu ? 0.5f * g * (1.0f + tanhf(0.7978845608028654f * (g + 0.044715f * g * g * g)))
		                     : g / (1.0f + __expf(-g));
		out[at + j] = to_activation<T>(a * u);
	}
}

void launch_gate(const struct cuda_backend* b, cudaStream_t stream, int rows, const float* b_gate,
                 const float* b_up) {
	const int gelu = b->shape.activation == ACTIVATION_GELU_TANH;
	if (b->bf16)
		gate_kernel<<<rows, THREADS, 0, stream>>>((__nv_bfloat16*)b->work.gated, b->work.wide,
		                                          b->work.wide_up, b_gate, b_up, b->shape.ffn, gelu);
	else
		gate_kernel<<<rows, THREADS, 0, stream>>>((__half*)b->work.gated, b->work.wide, b->work.wide_up,
		                                          b_gate, b_up, b->shape.ffn, gelu);
}

/* ---- rotation and the cache --------------------------------------------------------------- */

struct turn {
	float *q, *k, *v;
	const float *q_norm, *k_norm;
	int heads, kv_heads, head_dim, pairs, block, interleaved;
	float plus, epsilon;
};

/* One warp a head: its norm (Qwen3), its rotation, and for keys and values the rounding into the cache. */
__device__ void turn_head(const struct turn& t, float* head, const float* norm, const float* cosine,
                          const float* sine) {
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

__global__ void turn_kernel(struct turn t, const struct device_slice* s) {
	if (blockIdx.x >= (unsigned)s->n || leaves_out(s, 2 * t.block))
		return;
	const struct device_row& row = s->row[blockIdx.x];
	const float* cosine = (const float*)((const char*)s + s->angles) + (size_t)row.angle * t.pairs;
	const float* sine = cosine + (size_t)s->angle_rows * t.pairs;
	const int warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32, hd = t.head_dim;
	for (int h = warp; h < t.heads; h += warps)
		turn_head(t, t.q + ((size_t)blockIdx.x * t.heads + h) * hd, t.q_norm, cosine, sine);
	for (int h = warp; h < t.kv_heads; h += warps) {
		float* k = t.k + ((size_t)blockIdx.x * t.kv_heads + h) * hd;
		const float* v = t.v + ((size_t)blockIdx.x * t.kv_heads + h) * hd;
		turn_head(t, k, t.k_norm, cosine, sine);
		const size_t at = (((size_t)t.block * t.kv_heads + h) * row.slots + row.slot) * hd;
		for (int j = lane; j < hd; j += 32) {
			row.keys[at + j] = __float2half_rn(k[j]);
			row.values[at + j] = __float2half_rn(v[j]);
		}
	}
}

void launch_turn(const struct cuda_backend* b, cudaStream_t stream, int rows, int block) {
	const struct model_shape* m = &b->shape;
	const struct device_block* w = &b->block[block];
	const struct turn t = {b->work.q,      b->work.k, b->work.v,           w->q_norm,
	                       w->k_norm,      m->heads,  m->kv_heads,         m->head_dim,
	                       b->rope.pairs,  block,     m->rope.interleaved, m->norm_plus_one ? 1.0f : 0.0f,
	                       m->norm_epsilon};
	turn_kernel<<<rows, THREADS, 0, stream>>>(t, slice_of(b));
}

/* ---- hidden states ------------------------------------------------------------------------ */

__global__ void keep_kernel(const float* x, int dim, const struct device_slice* s) {
	if (blockIdx.x >= (unsigned)s->n)
		return;
	const struct device_row& row = s->row[blockIdx.x];
	for (int j = threadIdx.x; j < dim; j += blockDim.x)
		row.hidden[(size_t)row.pending * dim + j] = x[(size_t)blockIdx.x * dim + j];
}

void launch_keep(const struct cuda_backend* b, cudaStream_t stream, int rows) {
	keep_kernel<<<rows, THREADS, 0, stream>>>(b->work.x, b->shape.dim, slice_of(b));
}
