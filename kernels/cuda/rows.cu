/* The work on rows between products: embedding, norms, rotation, the cache's new keys and values. One block
 * works on each row, so a row's result never depends on the others. */
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/tensor_core.cuh"

enum { THREADS = ROW_THREADS };

/* ---- embedding ---------------------------------------------------------------------------- */

/* The table holds the embeddings of tokens [first, end); other tokens' are left to who has them. */
template <class T>
__global__ void embed_kernel(float* x, const T* table, int first, int end, int dim, float scale,
                             const struct device_slice* s) {
	if (blockIdx.x >= (unsigned)s->n)
		return;
	const struct device_row& row = s->row[blockIdx.x];
	float* out = x + (size_t)blockIdx.x * dim;
	if (s->first > 0)
		for (int j = threadIdx.x; j < dim; j += blockDim.x)
			out[j] = row.hidden[(size_t)row.pending * dim + j];
	else if (row.token >= first && row.token < end)
		for (int j = threadIdx.x; j < dim; j += blockDim.x)
			out[j] = to_float(table[(size_t)(row.token - first) * dim + j]) * scale;
}

void launch_embed(const struct cuda_backend* b, int rows) {
	const int dim = b->shape.dim;
	const float scale = b->shape.embedding_scale;
	const struct shares shares = shares_of_rows(b->group->devices, b->shape.vocab);
	const int first = shares.first[b->rank], end = shares.first[b->rank + 1];
	float* x = is_alone(b) ? b->work.x : (float*)b->work.part;
	by_activation(b, [&](auto type) {
		embed_kernel<<<rows, THREADS, 0, b->stream>>>(x, (const decltype(type)*)b->embedding, first, end, dim,
		                                              scale, b->slice);
	});
}

/* ---- norms -------------------------------------------------------------------------------- */

struct norm norm_of(const struct cuda_backend* b, const float* weight, int sub_layer) {
	const struct model_shape* m = &b->shape;
	return {weight, m->norm_plus_one ? 1.0f : 0.0f, m->norm_epsilon, sub_layer};
}

template <class T>
__global__ void norm_kernel(T* out, const float* x, int dim, struct norm norm, const struct device_slice* s) {
	__shared__ float shared[THREADS / 32];
	wait_for_inputs();
	if (blockIdx.x >= (unsigned)s->n || leaves_out(s, norm.sub_layer))
		return;
	const float* row = x + (size_t)blockIdx.x * dim;
	const float r = inverse_root(row, dim, norm.epsilon, shared);
	for (int j = threadIdx.x; j < dim; j += blockDim.x)
		out[(size_t)blockIdx.x * dim + j] = to_activation<T>(row[j] * r * (norm.weight[j] + norm.plus));
}

void launch_norm(const struct cuda_backend* b, int rows, const float* weight, int sub_layer) {
	const struct norm norm = norm_of(b, weight, sub_layer);
	const int dim = b->shape.dim;
	const float* x = b->work.x;
	by_activation(b, [&](auto type) {
		using T = decltype(type);
		launch(b, dim3((unsigned)rows), THREADS, 0, norm_kernel<T>, (T*)b->work.normed, x, dim, norm,
		       b->slice);
	});
}

/* The states as they are, in the activations' type. */
template <class T> __global__ void round_kernel(T* out, const float* x, int dim) {
	for (int j = threadIdx.x; j < dim; j += blockDim.x)
		out[(size_t)blockIdx.x * dim + j] = to_activation<T>(x[(size_t)blockIdx.x * dim + j]);
}

void launch_round(const struct cuda_backend* b, int rows) {
	by_activation(b, [&](auto type) {
		round_kernel<<<rows, THREADS, 0, b->stream>>>((decltype(type)*)b->work.normed, b->work.x,
		                                              b->shape.dim);
	});
}

/* x += norm(y): Gemma 2's norm on a sub-layer's output */
__global__ void post_norm_kernel(float* x, const float* y, const float* weight, int dim, float plus,
                                 float epsilon, const struct device_slice* s, int sub_layer) {
	__shared__ float shared[THREADS / 32];
	wait_for_inputs();
	if (blockIdx.x >= (unsigned)s->n || leaves_out(s, sub_layer))
		return;
	const float* row = y + (size_t)blockIdx.x * dim;
	const float r = inverse_root(row, dim, epsilon, shared);
	for (int j = threadIdx.x; j < dim; j += blockDim.x)
		x[(size_t)blockIdx.x * dim + j] += row[j] * r * (weight[j] + plus);
}

void launch_post_norm(const struct cuda_backend* b, int rows, const float* weight, int sub_layer) {
	const struct model_shape* m = &b->shape;
	const float* y = b->work.y;
	launch(b, dim3((unsigned)rows), THREADS, 0, post_norm_kernel, b->work.x, y, weight, m->dim,
	       m->norm_plus_one ? 1.0f : 0.0f, m->norm_epsilon, b->slice, sub_layer);
}

/* ---- prefill's separate steps ------------------------------------------------------------- */

__global__ void add_kernel(float* x, const float* y, int dim) {
	const size_t at = (size_t)blockIdx.x * dim;
	for (int j = threadIdx.x; j < dim; j += blockDim.x)
		x[at + j] += y[at + j];
}

void launch_add(const struct cuda_backend* b, int rows) {
	add_kernel<<<rows, THREADS, 0, b->stream>>>(b->work.x, b->work.y, b->shape.dim);
}

template <class T>
__global__ void gate_kernel(T* out, const float* gate, const float* up, int ffn, enum activation activation) {
	const size_t at = (size_t)blockIdx.x * ffn;
	for (int j = threadIdx.x; j < ffn; j += blockDim.x)
		out[at + j] = to_activation<T>(activate(gate[at + j], activation) * up[at + j]);
}

void launch_gate(const struct cuda_backend* b, int rows) {
	by_activation(b, [&](auto type) {
		gate_kernel<<<rows, THREADS, 0, b->stream>>>((decltype(type)*)b->work.gated, b->work.wide,
		                                             b->work.wide_up, b->shape.ffn, b->shape.activation);
	});
}

/* ---- rotation and the cache --------------------------------------------------------------- */

__global__ void apply_rope_kernel(struct head_rotation t, const struct device_slice* s) {
	wait_for_inputs();
	if (blockIdx.x >= (unsigned)s->n || leaves_out(s, 2 * t.block))
		return;
	const struct device_row& row = s->row[blockIdx.x];
	const float* cosine = angles_of(t, s, (int)blockIdx.x);
	const float* sine = cosine + (size_t)s->angle_rows * t.pairs;
	const int warps = blockDim.x / 32, warp = threadIdx.x / 32, hd = t.head_dim;
	for (int h = warp; h < t.heads; h += warps) {
		const size_t head = (size_t)blockIdx.x * t.heads + h;
		for (int j = threadIdx.x % 32; t.gated && j < hd; j += 32)
			t.q[head * hd + j] = t.gated[2 * head * hd + j];
		__syncwarp();
		rotate_head(t, t.q + head * hd, t.q_norm, cosine, sine);
	}
	for (int h = warp; h < t.kv_heads; h += warps) {
		float* k = t.k + ((size_t)blockIdx.x * t.kv_heads + h) * hd;
		rotate_head(t, k, t.k_norm, cosine, sine);
		store_head(t, s, row, KEPT_KEY, h, k);
		store_head(t, s, row, KEPT_VALUE, h, t.v + ((size_t)blockIdx.x * t.kv_heads + h) * hd);
	}
}

struct head_rotation head_rotation_of(const struct cuda_backend* b, int block) {
	const struct model_shape* m = &b->shape;
	const struct device_block* w = &b->block[block];
	const struct workspace* k = &b->work;
	const bool sliding = b->sliding_rope.pairs > 0 && block_set_has(&m->sliding, block);
	const struct rope_frequencies* rope = sliding ? &b->sliding_rope : &b->rope;
	const int interleaved = rope->rope->interleaved;
	const float plus = m->norm_plus_one ? 1.0f : 0.0f;
	const float* gated = m->attention_gated ? k->recurrent.made : NULL;
	return {
	    k->q,        k->k,        k->v,  gated,       w->q_norm,       w->k_norm, m->heads, m->kv_heads,
	    m->head_dim, rope->pairs, block, interleaved, b->place[block], sliding,   plus,     m->norm_epsilon,
	    NULL};
}

void launch_apply_rope(const struct cuda_backend* b, int rows, int block) {
	launch(b, dim3((unsigned)rows), THREADS, 0, apply_rope_kernel, head_rotation_of(b, block), b->slice);
}

/* ---- hidden states ------------------------------------------------------------------------ */

__global__ void keep_kernel(const float* x, int dim, const struct device_slice* s) {
	if (blockIdx.x >= (unsigned)s->n)
		return;
	const struct device_row& row = s->row[blockIdx.x];
	for (int j = threadIdx.x; j < dim; j += blockDim.x)
		row.hidden[(size_t)row.pending * dim + j] = x[(size_t)blockIdx.x * dim + j];
}

void launch_keep(const struct cuda_backend* b, int rows) {
	keep_kernel<<<rows, THREADS, 0, b->stream>>>(b->work.x, b->shape.dim, b->slice);
}
