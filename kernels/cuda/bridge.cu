/* A bridge on the device: one product in a span's place, of the state before it and the last token's final
 * state.
 *
 * It is carried there once, in the activations' type, whole to each device: a share of its rows would take a
 * gather. Passes with it have graphs of their own, in which the span's launches are not there at all; so have
 * draft loops. Final states are kept from the first bridge on, behind the cache's pending rows'. */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/tensor_core.cuh"

enum { THREADS = 256 };

/* ---- launches ----------------------------------------------------------------------------- */

/* Halves end at 65504: a state beyond is taken for the last one. */
template <class T> __device__ __forceinline__ T to_read(float x) { return to_activation<T>(x); }
template <> __device__ __forceinline__ __half to_read<__half>(float x) {
	return __float2half_rn(fminf(fmaxf(x, -65504.0f), 65504.0f));
}

/* out (n, 2·dim): a row's state and the final one of the token before it, zeros where that is not kept. */
template <class T>
__global__ void read_kernel(T* out, const float* x, int dim, const struct device_slice* s) {
	wait_for_inputs();
	if (blockIdx.x >= (unsigned)s->n)
		return;
	const struct device_row& row = s->row[blockIdx.x];
	const float* before = row.before < 0 ? NULL : row.hidden + (size_t)row.before * dim;
	T* to = out + (size_t)blockIdx.x * 2 * dim;
	for (int j = threadIdx.x; j < dim; j += blockDim.x) {
		to[j] = to_read<T>(x[(size_t)blockIdx.x * dim + j]);
		to[dim + j] = to_read<T>(before ? before[j] : 0.0f);
	}
}

void launch_bridge(const struct cuda_backend* b, cudaStream_t stream, int bucket) {
	const struct device_bridge* bridge = &b->bridge;
	const struct device_slice* slice = (const struct device_slice*)b->slice;
	const dim3 rows((unsigned)(8 * bucket));
	const float* x = b->work.x;
	if (b->bf16)
		launch(b, stream, rows, THREADS, 0, read_kernel<__nv_bfloat16>, (__nv_bfloat16*)bridge->read, x,
		       b->shape.dim, slice);
	else
		launch(b, stream, rows, THREADS, 0, read_kernel<__half>, (__half*)bridge->read, x, b->shape.dim,
		       slice);
	struct product product = {};
	product.end = PRODUCT_ADD;
	product.parts = 1;
	product.w[0] = product.low[0] = bridge->weight;
	product.out[0] = b->work.x;
	product.bias[0] = bridge->bias;
	launch_product(b, stream, &product, bridge->read, bucket, -1);
}

/* A prefill's rows are committed as they are: the state of a sequence's last one is the sequence's. */
__global__ void keep_final_kernel(const float* x, int dim, const struct device_slice* s) {
	const int i = (int)blockIdx.x;
	if (i >= s->n || (i + 1 < s->n && s->row[i + 1].hidden == s->row[i].hidden))
		return;
	for (int j = threadIdx.x; j < dim; j += blockDim.x)
		s->row[i].hidden[(size_t)FINAL_STATE * dim + j] = x[(size_t)i * dim + j];
}

void launch_keep_final(const struct cuda_backend* b, cudaStream_t stream, int rows) {
	keep_final_kernel<<<rows, THREADS, 0, stream>>>(b->work.x, b->shape.dim,
	                                                (const struct device_slice*)b->slice);
}

void keep_final(const struct cuda_backend* b, struct cuda_cache* c, const int32_t* path, int n) {
	struct paged_cache* p = &c->paged;
	const size_t dim = (size_t)b->shape.dim;
	if (n == 0)
		return;
	const bool whole = b->bridge.memory && p->row[path[n - 1]].at == 2 * b->shape.n_blocks;
	p->final_of = whole ? p->head.committed + n : 0;
	if (whole)
		each_device(b, [&](const struct cuda_backend* d) {
			float* hidden = c->hidden[d->rank];
			cudaMemcpyAsync(hidden + FINAL_STATE * dim, hidden + (size_t)path[n - 1] * dim,
			                dim * sizeof(float), cudaMemcpyDeviceToDevice, d->stream);
		});
}

int state_before(const struct cuda_backend* b, const struct paged_cache* c, int base, int parent) {
	if (parent < 0)
		return b->bridge.memory && c->final_of > 0 && c->final_of == base ? FINAL_STATE : -1;
	return c->row[parent].at == 2 * b->shape.n_blocks ? parent : -1;
}

/* ---- carrying it -------------------------------------------------------------------------- */

void bridge_close(struct cuda_backend* b) {
	cudaFree(b->bridge.memory);
	b->bridge = {};
}

bool bridge_is_carried(const struct cuda_backend* b, const struct bridge* bridge) {
	return b->bridge.memory && b->bridge.of.weight.data == bridge->weight.data &&
	       b->bridge.of.first == bridge->first && b->bridge.of.last == bridge->last;
}

/* Room for any bridge of the model: its weights, what it reads, its bias. */
static bool take_room(struct cuda_backend* b, struct error* error) {
	const size_t dim = (size_t)b->shape.dim;
	const size_t weights = 2 * dim * dim * sizeof(__half), read = 2 * dim * SLICE_ROWS * sizeof(__half);
	unsigned char* memory = (unsigned char*)b->bridge.memory;
	if (!memory && cudaMalloc((void**)&memory, weights + read + dim * sizeof(float)) != cudaSuccess) {
		cudaGetLastError();
		return error_set(error, "out of GPU memory for a bridge: %zu MiB asked for", (weights + read) >> 20);
	}
	b->bridge.memory = memory;
	b->bridge.weight = {
	    b->bf16 ? DTYPE_BF16 : DTYPE_F16, b->shape.dim, 2 * b->shape.dim, memory, NULL, NULL, NULL};
	b->bridge.read = memory + weights;
	b->bridge.bias = (float*)(memory + weights + read);
	return true;
}

/* to (dim, 2·dim) in the activations' type */
static bool convert(const struct cuda_backend* b, const struct tensor* from, uint16_t* to,
                    struct error* error) {
	const size_t cols = (size_t)from->cols, row_bytes = dtype_row_bytes(from->type, from->cols);
	float* wide = (float*)malloc(cols * sizeof *wide);
	if (!wide)
		return error_set(error, "out of memory for a bridge");
	for (size_t i = 0; i < (size_t)from->rows; i++) {
		dtype_to_float(from->type, (const unsigned char*)from->data + i * row_bytes, wide, from->cols);
		for (size_t j = 0; j < cols; j++)
			if (b->bf16)
				((__nv_bfloat16*)to)[i * cols + j] = __float2bfloat16_rn(wide[j]);
			else
				((__half*)to)[i * cols + j] = __float2half_rn(wide[j]);
	}
	free(wide);
	return true;
}

static bool carry(struct cuda_backend* b, const struct bridge* bridge, const uint16_t* weights,
                  struct error* error) {
	const size_t dim = (size_t)b->shape.dim;
	if (!take_room(b, error))
		return false;
	CUDA_TRY(cudaMemcpy(b->bridge.memory, weights, 2 * dim * dim * sizeof *weights, cudaMemcpyHostToDevice),
	         error);
	CUDA_TRY(cudaMemcpy(b->bridge.bias, bridge->bias, dim * sizeof(float), cudaMemcpyHostToDevice), error);
	CUDA_TRY(cudaDeviceSynchronize(), error); /* passes run on a stream of their own */
	b->bridge.of = *bridge;
	return true;
}

/* The graphs of the bridge before are of another span. */
static bool capture_bridged(struct cuda_backend* b, struct error* error) {
	bool done = true;
	b->group->with_bridge = true;
	for (int low = 0; low < (b->low ? 2 : 1) && done; low++) {
		b->group->with_low = low;
		each_device(b, [&](struct cuda_backend* p) { captured_close(captured_now(p)); });
		done = capture_passes(b, error);
	}
	b->group->with_low = b->group->with_bridge = false;
	return done;
}

bool bridge_recapture(struct cuda_backend* b, struct error* error) {
	return !b->bridge.memory || capture_bridged(b, error);
}

bool cuda_use_bridge(struct backend* backend, const struct bridge* bridge, struct error* error) {
	struct cuda_backend* b = (struct cuda_backend*)backend;
	const size_t dim = (size_t)b->shape.dim;
	if (devices_gone(b))
		return error_set(error, "%s", b->group->failure.message);
	uint16_t* weights = (uint16_t*)malloc(2 * dim * dim * sizeof *weights);
	bool done = (weights || error_set(error, "out of memory for a bridge")) &&
	            convert(b, &bridge->weight, weights, error);
	each_device(b, [&](struct cuda_backend* p) { done = done && carry(p, bridge, weights, error); });
	free(weights);
	return done && capture_bridged(b, error);
}
