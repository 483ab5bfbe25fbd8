/* Weights to the device: as stored where the kernels take them, converted where not.
 *
 * F16, BF16 (when the model's matrices are all BF16) and Q8_0 go as they are, Q8_0 with its blocks
 * interleaved; every other type becomes F16. Tensors without data are made on the device by the
 * counter-based generator, the same values as on a CPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.cuh"
#include "kernels/synth_value.h"

enum { PIECE_BYTES = 64 << 20, THREADS = 256 };

/* ---- made on the device ------------------------------------------------------------------- */

__global__ void make_half_kernel(uint16_t* out, struct synth_tensor t, int64_t rows, int64_t cols, int bf16) {
	const int64_t row = blockIdx.x;
	const struct synth_row r = synth_row_of(&t, row, rows, cols);
	for (int64_t j = threadIdx.x; j < cols; j += blockDim.x) {
		const float x = synth_element(&t, &r, j);
		out[row * cols + j] = bf16 ? synth_bf16(x) : synth_f16(x);
	}
}

__global__ void make_float_kernel(float* out, struct synth_tensor t, int64_t cols) {
	const struct synth_row r = synth_row_of(&t, 0, 1, cols);
	for (int64_t j = threadIdx.x; j < cols; j += blockDim.x)
		out[j] = synth_element(&t, &r, j);
}

/* Where byte `within` of a row's block lies: two blocks interleaved by eights. */
__device__ __host__ static inline int64_t interleaved(int64_t block, int within) {
	return block / 2 * 64 + 16 * (within / 8) + 8 * (block % 2) + within % 8;
}

__global__ void make_q8_kernel(signed char* data, __half* scale, struct synth_tensor t, int64_t rows,
                               int64_t cols) {
	const int64_t row = blockIdx.x, blocks = cols / 32;
	const struct synth_row r = synth_row_of(&t, row, rows, cols);
	for (int64_t i = threadIdx.x; i < blocks; i += blockDim.x) {
		float x[32];
		uint8_t q[34];
		for (int j = 0; j < 32; j++)
			x[j] = synth_element(&t, &r, 32 * i + j);
		synth_q8_0(q, x);
		scale[row * blocks + i] = __ushort_as_half((unsigned short)(q[0] | q[1] << 8));
		for (int j = 0; j < 32; j++)
			data[row * cols + interleaved(i, j)] = (signed char)q[2 + j];
	}
}

/* ---- copied ------------------------------------------------------------------------------- */

/* One row of a tensor on the host, in the form the device wants. */
static void convert_row(const struct tensor* t, int64_t row, int type, float* wide, void* out,
                        __half* scale) {
	const unsigned char* from =
	    (const unsigned char*)t->data + (size_t)row * dtype_row_bytes(t->type, t->cols);
	if (type == DTYPE_Q8_0) {
		for (int64_t i = 0; i < t->cols / 32; i++) {
			memcpy(&scale[i], from + 34 * i, 2);
			for (int j = 0; j < 32; j++)
				((unsigned char*)out)[interleaved(i, j)] = from[34 * i + 2 + j];
		}
		return;
	}
	if ((int)t->type == type) {
		memcpy(out, from, dtype_row_bytes(t->type, t->cols));
		return;
	}
	dtype_to_float(t->type, from, wide, t->cols);
	for (int64_t j = 0; j < t->cols; j++)
		if (type == DTYPE_BF16)
			((__nv_bfloat16*)out)[j] = __float2bfloat16_rn(wide[j]);
		else
			((__half*)out)[j] = __float2half_rn(wide[j]);
}

struct copier { /* pieces of rows, converted on the host */
	unsigned char* bytes;
	__half* scale;
	float* wide;
};

static bool copy_matrix(const struct tensor* t, int type, void* data, __half* scale, struct copier* copier,
                        struct error* error) {
	const size_t row_bytes = type == DTYPE_Q8_0 ? (size_t)t->cols : (size_t)t->cols * 2;
	const int64_t blocks = t->cols / 32,
	              at_once = (int64_t)(PIECE_BYTES / row_bytes) > 0 ? (int64_t)(PIECE_BYTES / row_bytes) : 1;
	for (int64_t row = 0; row < t->rows; row += at_once) {
		const int64_t n = t->rows - row < at_once ? t->rows - row : at_once;
		for (int64_t i = 0; i < n; i++)
			convert_row(t, row + i, type, copier->wide, copier->bytes + (size_t)i * row_bytes,
			            copier->scale + i * blocks);
		CUDA_TRY(cudaMemcpy((unsigned char*)data + (size_t)row * row_bytes, copier->bytes,
		                    (size_t)n * row_bytes, cudaMemcpyHostToDevice),
		         error);
		if (type == DTYPE_Q8_0)
			CUDA_TRY(cudaMemcpy(scale + row * blocks, copier->scale, (size_t)(n * blocks) * sizeof *scale,
			                    cudaMemcpyHostToDevice),
			         error);
	}
	return true;
}

static bool make_matrix(const struct tensor* t, int type, void* data, __half* scale, struct error* error) {
	if (t->synth.kind == SYNTH_NONE)
		return error_set(error, "a tensor of %lld x %lld has neither data nor a way to make it",
		                 (long long)t->rows, (long long)t->cols);
	if (type == DTYPE_Q8_0)
		make_q8_kernel<<<(unsigned)t->rows, THREADS>>>((signed char*)data, scale, t->synth, t->rows, t->cols);
	else
		make_half_kernel<<<(unsigned)t->rows, THREADS>>>((uint16_t*)data, t->synth, t->rows, t->cols,
		                                                 type == DTYPE_BF16);
	CUDA_TRY(cudaGetLastError(), error);
	return true;
}

static bool place(struct cuda_backend* b, const struct tensor* t, int type, struct matrix* m,
                  const char* what, struct copier* copier, struct error* error) {
	*m = {type, (int)t->rows, (int)t->cols, nullptr, nullptr};
	const size_t count = (size_t)t->rows * (size_t)t->cols;
	void* data = cuda_take(b, type == DTYPE_Q8_0 ? count : 2 * count, what, error);
	__half* scale = nullptr;
	if (data && type == DTYPE_Q8_0)
		scale = (__half*)cuda_take(b, count / 32 * sizeof *scale, what, error);
	if (!data || (type == DTYPE_Q8_0 && !scale))
		return false;
	m->data = data;
	m->scale = scale;
	return t->data ? copy_matrix(t, type, data, scale, copier, error)
	               : make_matrix(t, type, data, scale, error);
}

/* The type a matrix has on the device. */
static int placed_type(const struct cuda_backend* b, const struct tensor* t) {
	if (t->type == DTYPE_Q8_0 && t->cols % 64 == 0 && !b->bf16)
		return DTYPE_Q8_0;
	return b->bf16 ? DTYPE_BF16 : DTYPE_F16;
}

static bool vector_up(struct cuda_backend* b, const struct tensor* t, float** out, struct copier* copier,
                      struct error* error) {
	*out = nullptr;
	if (!tensor_present(t))
		return true;
	*out = (float*)cuda_take(b, (size_t)t->cols * sizeof **out, "a vector of weights", error);
	if (!*out)
		return false;
	if (!t->data) {
		make_float_kernel<<<1, THREADS>>>(*out, t->synth, t->cols);
		CUDA_TRY(cudaGetLastError(), error);
		return true;
	}
	dtype_to_float(t->type, t->data, copier->wide, t->cols);
	CUDA_TRY(cudaMemcpy(*out, copier->wide, (size_t)t->cols * sizeof **out, cudaMemcpyHostToDevice), error);
	return true;
}

/* ---- the model ---------------------------------------------------------------------------- */

static bool block_up(struct cuda_backend* b, int i, struct copier* c, struct error* error) {
	const struct block_weights* w = &b->head.weights->block[i];
	struct device_block* d = &b->block[i];
	const struct {
		const struct tensor* from;
		struct matrix* to;
		const char* what;
	} matrix[] = {{&w->wq, &d->wq, "query weights"},      {&w->wk, &d->wk, "key weights"},
	              {&w->wv, &d->wv, "value weights"},      {&w->wo, &d->wo, "attention output weights"},
	              {&w->w_gate, &d->gate, "gate weights"}, {&w->w_up, &d->up, "up weights"},
	              {&w->w_down, &d->down, "down weights"}};
	/* gate and up share a kernel, so they share a type */
	const int gate = placed_type(b, &w->w_gate) == placed_type(b, &w->w_up) ? placed_type(b, &w->w_gate)
	                 : b->bf16                                              ? DTYPE_BF16
	                                                                        : DTYPE_F16;
	for (size_t k = 0; k < sizeof matrix / sizeof matrix[0]; k++) {
		const bool pair = matrix[k].to == &d->gate || matrix[k].to == &d->up;
		if (!place(b, matrix[k].from, pair ? gate : placed_type(b, matrix[k].from), matrix[k].to,
		           matrix[k].what, c, error))
			return false;
	}
	const struct {
		const struct tensor* from;
		float** to;
	} vector[] = {{&w->attention_norm, &d->attention_norm},
	              {&w->mlp_norm, &d->mlp_norm},
	              {&w->post_attention_norm, &d->post_attention_norm},
	              {&w->post_mlp_norm, &d->post_mlp_norm},
	              {&w->q_norm, &d->q_norm},
	              {&w->k_norm, &d->k_norm},
	              {&w->bq, &d->bq},
	              {&w->bk, &d->bk},
	              {&w->bv, &d->bv},
	              {&w->bo, &d->bo},
	              {&w->b_gate, &d->b_gate},
	              {&w->b_up, &d->b_up},
	              {&w->b_down, &d->b_down}};
	for (size_t k = 0; k < sizeof vector / sizeof vector[0]; k++)
		if (!vector_up(b, vector[k].from, vector[k].to, c, error))
			return false;
	return true;
}

static size_t placed_bytes(int type, const struct tensor* t) {
	const size_t count = (size_t)t->rows * (size_t)t->cols;
	return type == DTYPE_Q8_0 ? count + count / 32 * sizeof(__half) : 2 * count;
}

static bool all_bf16(const struct weight_table* w);

size_t weight_bytes(const struct cuda_backend* b) {
	const struct weight_table* w = b->head.weights;
	struct cuda_backend typed = {};
	typed.bf16 = all_bf16(w);
	size_t bytes = 2 * (size_t)w->embedding.rows * (size_t)w->embedding.cols;
	const bool tied = w->output.data && w->output.data == w->embedding.data;
	if (!tied || placed_type(&typed, &w->output) == DTYPE_Q8_0)
		bytes += placed_bytes(placed_type(&typed, &w->output), &w->output);
	for (int i = 0; i < w->shape.n_blocks; i++) {
		const struct block_weights* k = &w->block[i];
		const struct tensor* const t[] = {&k->wq, &k->wk, &k->wv, &k->wo, &k->w_gate, &k->w_up, &k->w_down};
		for (size_t j = 0; j < sizeof t / sizeof t[0]; j++)
			bytes += placed_bytes(placed_type(&typed, t[j]), t[j]);
	}
	return bytes;
}

/* What is not taken as stored is said, once a type: it changes the bits and may change the size. */
static void say_conversions(const struct cuda_backend* b) {
	const struct weight_table* w = b->head.weights;
	bool said[DTYPE_COUNT] = {};
	for (int i = 0; i < w->shape.n_blocks; i++) {
		const struct block_weights* k = &w->block[i];
		const struct tensor* const t[] = {&k->wq, &k->wk, &k->wv, &k->wo, &k->w_gate, &k->w_up, &k->w_down};
		for (size_t j = 0; j < sizeof t / sizeof t[0]; j++) {
			const int to = placed_type(b, t[j]);
			if (to != (int)t[j]->type && !said[t[j]->type])
				fprintf(stderr, "swiftlet: weights of type %s are converted to %s for the GPU\n",
				        dtype_name(t[j]->type), dtype_name((enum dtype)to));
			said[t[j]->type] = said[t[j]->type] || to != (int)t[j]->type;
		}
	}
}

static bool check_widths(const struct cuda_backend* b, struct error* error) {
	const struct model_shape* m = &b->shape;
	const int width[] = {m->dim, m->heads * m->head_dim, m->ffn};
	const char* const name[] = {"hidden size", "attention width", "feed-forward width"};
	for (int i = 0; i < 3; i++)
		if (width[i] % 32 != 0)
			return error_set(error,
			                 "the CUDA backend takes a %s that is a multiple of 32; this model's is %d: use "
			                 "--backend cpu",
			                 name[i], width[i]);
	if (m->head_dim % 2 != 0 || m->head_dim > 512)
		return error_set(error, "the CUDA backend takes even head sizes up to 512; this model's is %d",
		                 m->head_dim);
	return true;
}

static bool all_bf16(const struct weight_table* w) {
	bool all = w->output.type == DTYPE_BF16;
	for (int i = 0; i < w->shape.n_blocks && all; i++) {
		const struct block_weights* k = &w->block[i];
		const struct tensor* const t[] = {&k->wq, &k->wk, &k->wv, &k->wo, &k->w_gate, &k->w_up, &k->w_down};
		for (size_t j = 0; j < sizeof t / sizeof t[0]; j++)
			all = all && t[j]->type == DTYPE_BF16;
	}
	return all;
}

static bool upload_with(struct cuda_backend* b, struct copier* c, struct error* error) {
	const struct weight_table* w = b->head.weights;
	struct matrix embedding;
	if (!place(b, &w->embedding, b->bf16 ? DTYPE_BF16 : DTYPE_F16, &embedding, "token embeddings", c, error))
		return false;
	b->embedding = (void*)embedding.data;
	const bool tied = w->output.data && w->output.data == w->embedding.data;
	if (tied && placed_type(b, &w->output) != DTYPE_Q8_0)
		b->output = embedding;
	else if (!place(b, &w->output, placed_type(b, &w->output), &b->output, "output weights", c, error))
		return false;
	for (int i = 0; i < w->shape.n_blocks; i++)
		if (!block_up(b, i, c, error))
			return false;
	return vector_up(b, &w->output_norm, &b->output_norm, c, error) &&
	       vector_up(b, &w->output_bias, &b->output_bias, c, error);
}

bool upload_weights(struct cuda_backend* b, struct error* error) {
	const struct weight_table* w = b->head.weights;
	b->bf16 = all_bf16(w);
	if (!check_widths(b, error))
		return false;
	say_conversions(b);
	int64_t widest = w->shape.vocab;
	const int64_t width[] = {w->shape.dim, w->shape.ffn, (int64_t)w->shape.heads * w->shape.head_dim};
	for (int i = 0; i < 3; i++)
		widest = width[i] > widest ? width[i] : widest;
	struct copier c;
	c.bytes = (unsigned char*)malloc(PIECE_BYTES + (size_t)widest * 4);
	c.scale = (__half*)malloc((PIECE_BYTES / 32 + (size_t)widest) * sizeof *c.scale);
	c.wide = (float*)malloc((size_t)widest * sizeof *c.wide);
	bool done = c.bytes && c.scale && c.wide;
	if (!done)
		error_set(error, "out of memory for copying weights to the device");
	done = done && upload_with(b, &c, error);
	free(c.bytes);
	free(c.scale);
	free(c.wide);
	return done && cuda_ok(cudaDeviceSynchronize(), "cudaDeviceSynchronize", error);
}
