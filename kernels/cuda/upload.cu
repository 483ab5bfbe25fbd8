/* Weights to the device: as stored where the kernels take them, converted where not.
 *
 * F16, BF16 (when the model's matrices are all BF16), Q8_0, Q4_1, Q4_K and Q6_K keep their bits: the
 * quantized ones go over as stored, in pieces, and are laid out in planes there. Every other type becomes
 * F16. Tensors without data are made on the device by the counter-based generator, the same values as on a
 * CPU. If several devices share the model, each takes its share of a matrix's rows, and of the bias. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/planes.cuh"
#include "kernels/synth_block.h"
#include "kernels/synth_value.h"

enum { PIECE_BYTES = 64 << 20, THREADS = 256 };

bool kept_as_stored(enum dtype type) {
	return type == DTYPE_Q8_0 || type == DTYPE_Q4_1 || type == DTYPE_Q4_K || type == DTYPE_Q6_K;
}

/* ---- made on the device ------------------------------------------------------------------- */

__global__ void make_half_kernel(uint16_t* out, struct synth_tensor t, int64_t first, int64_t rows,
                                 int64_t cols, int bf16) {
	const int64_t row = blockIdx.x;
	const struct synth_row r = synth_row_of(&t, first + row, rows, cols);
	for (int64_t j = threadIdx.x; j < cols; j += blockDim.x) {
		const float x = synth_element(&t, &r, j);
		out[row * cols + j] = bf16 ? bf16_from_float(x) : half_from_float(x);
	}
}

__global__ void make_float_kernel(float* out, struct synth_tensor t, int64_t first, int64_t n, int64_t cols) {
	const struct synth_row r = synth_row_of(&t, 0, 1, cols);
	for (int64_t j = threadIdx.x; j < n; j += blockDim.x)
		out[j] = synth_element(&t, &r, first + j);
}

/* Rows from `first` on as a file would hold them, a thread a block. */
__global__ void make_blocks_kernel(uint8_t* out, enum dtype type, int block_columns, int block_bytes,
                                   struct synth_tensor t, int64_t first, int64_t rows, int64_t cols) {
	const int64_t blocks = cols / block_columns;
	const struct synth_row r = synth_row_of(&t, first + blockIdx.x, rows, cols);
	for (int64_t i = threadIdx.x; i < blocks; i += blockDim.x) {
		float x[SUPER_COLUMNS];
		for (int j = 0; j < block_columns; j++)
			x[j] = synth_element(&t, &r, block_columns * i + j);
		synth_block(type, out + (blockIdx.x * blocks + i) * block_bytes, x);
	}
}

/* ---- in planes ---------------------------------------------------------------------------- */

/* The whole number of a group's element: all its bits, without an offset. from: the group's block. */
__device__ static int bits_of(enum dtype type, const unsigned char* from, int group, int within) {
	if (type == DTYPE_Q4_1)
		return nibble(((const struct block_q4_1*)from)->q, within);
	const int at = group % 8 * GROUP_COLUMNS + within;
	return type == DTYPE_Q4_K ? k4_nibble(((const struct block_q4_k*)from)->q, at)
	                          : q6_bits((const struct block_q6_k*)from, at);
}

/* A group's scales, or a whole block's by its first group. */
__device__ static void copy_scales(const struct matrix& to, const struct planes& planes,
                                   const unsigned char* from, int64_t row, int64_t group) {
	const int64_t super = group / 8;
	unsigned char* scale = static_cast<unsigned char*>(to.scale) + row * planes.scale;
	const int size = to.type == DTYPE_Q8_0 ? 2 : to.type == DTYPE_Q4_1 ? 4 : group % 8 == 0 ? 16 : 0;
	const struct block_q6_k* six = to.type == DTYPE_Q6_K ? (const struct block_q6_k*)from : NULL;
	const void* begin = six ? (const void*)six->scales : from;
	memcpy(scale + (size == 16 ? super : group) * size, begin, size);
	if (six && group % 8 == 0)
		memcpy((unsigned char*)to.factor + row * planes.factor + 2 * super, six->d, sizeof six->d);
}

/* A thread a group of columns, so that no two write the same byte. */
__global__ void arrange_kernel(struct matrix to, struct planes planes, const unsigned char* raw,
                               int block_columns, int block_bytes, int64_t first) {
	const int64_t row = first + blockIdx.x, groups = to.cols / GROUP_COLUMNS;
	const bool bytes = to.type == DTYPE_Q8_0, six = to.type == DTYPE_Q6_K;
	const int64_t all = (int64_t)planes.data / (bytes ? 32 : 16);
	const unsigned char* from_row = raw + (int64_t)blockIdx.x * (to.cols / block_columns) * block_bytes;
	unsigned char* data = static_cast<unsigned char*>(to.data) + row * planes.data;
	unsigned char* high = static_cast<unsigned char*>(to.high) + row * planes.high;
	for (int64_t g = threadIdx.x; g < all; g += blockDim.x) {
		const unsigned char* from = from_row + g * GROUP_COLUMNS / block_columns * block_bytes;
		const bool there = g < groups;
		if (there)
			copy_scales(to, planes, from, row, g);
		for (int i = 0; i < GROUP_COLUMNS && bytes; i++)
			data[interleaved_byte(g, i)] = there ? from[2 + i] : 0;
		/* the two nibbles of a byte are columns two apart, and so are pairs of two bits */
		for (int i = 0; i < GROUP_COLUMNS && !bytes; i++) {
			const struct nibble_place at = nibble_place(g, i, six);
			const int value = there ? bits_of(to.type, from, (int)(g % 8), i) : 0;
			const int kept = at.shift ? data[at.byte] : 0;
			data[at.byte] = (unsigned char)(kept | (value & 15) << at.shift);
			if (six)
				high[at.high_byte] =
				    (unsigned char)((at.high_shift ? high[at.high_byte] : 0) | value >> 4 << at.high_shift);
		}
	}
}

static size_t aligned(size_t bytes) { return (bytes + 255) / 256 * 256; }

static size_t placed_bytes(enum dtype type, int64_t rows, int64_t cols) {
	const struct planes p = planes_of(type, cols);
	const size_t n = (size_t)rows;
	return aligned(n * p.data) + aligned(n * p.high) + aligned(n * p.scale) + aligned(n * p.factor);
}

bool take_matrix(struct cuda_backend* b, enum dtype type, int64_t rows, int64_t cols, struct matrix* m,
                 const char* what, struct error* error) {
	const struct planes p = planes_of(type, cols);
	unsigned char* data = (unsigned char*)cuda_take(b, placed_bytes(type, rows, cols), what, error);
	*m = {type, (int)rows, (int)cols, data, NULL, NULL, NULL};
	if (!data)
		return false;
	m->high = data + aligned((size_t)rows * p.data);
	m->scale = (unsigned char*)m->high + aligned((size_t)rows * p.high);
	m->factor = (__half*)((unsigned char*)m->scale + aligned((size_t)rows * p.scale));
	return true;
}

static bool arrange_matrix(const struct matrix* m, const unsigned char* raw, int64_t first, int64_t n,
                           struct error* error) {
	arrange_kernel<<<(unsigned)n, THREADS>>>(*m, planes_of(m->type, m->cols), raw, dtype_block(m->type),
	                                         (int)dtype_block_bytes(m->type), first);
	CUDA_TRY(cudaGetLastError(), error);
	return true;
}

bool arrange_rows(const struct matrix* m, const void* rows, void* raw, int64_t first, int64_t n,
                  struct error* error) {
	const size_t row_bytes = dtype_row_bytes(m->type, m->cols);
	CUDA_TRY(cudaMemcpy(raw, rows, (size_t)n * row_bytes, cudaMemcpyHostToDevice), error);
	return arrange_matrix(m, (const unsigned char*)raw, first, n, error);
}

/* ---- one matrix --------------------------------------------------------------------------- */

static struct own_rows rows_of(const struct cuda_backend* b, const struct shares& shares) {
	return {shares.first[b->rank], shares.first[b->rank + 1] - shares.first[b->rank]};
}

struct copier { /* pieces of rows: converted on the host, or raw on the device */
	unsigned char* bytes;
	float* wide;
	unsigned char* raw; /* NULL until needed */
	size_t raw_bytes;   /* that it will take */
};

/* One row of a tensor on the host in halves. */
static void convert_row(const struct tensor* t, int64_t row, enum dtype type, float* wide, void* out) {
	const unsigned char* from =
	    (const unsigned char*)t->data + (size_t)row * dtype_row_bytes(t->type, t->cols);
	if (t->type == type) {
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

static int64_t rows_at_once(size_t row_bytes) {
	return (int64_t)(PIECE_BYTES / row_bytes) > 0 ? (int64_t)(PIECE_BYTES / row_bytes) : 1;
}

static bool copy_halves(const struct tensor* t, struct own_rows share, const struct matrix* m,
                        struct copier* copier, struct error* error) {
	const size_t row_bytes = (size_t)t->cols * 2;
	const int64_t at_once = rows_at_once(row_bytes);
	for (int64_t row = 0; row < share.n; row += at_once) {
		const int64_t n = share.n - row < at_once ? share.n - row : at_once;
		for (int64_t i = 0; i < n; i++)
			convert_row(t, share.first + row + i, m->type, copier->wide,
			            copier->bytes + (size_t)i * row_bytes);
		CUDA_TRY(cudaMemcpy((unsigned char*)m->data + (size_t)row * row_bytes, copier->bytes,
		                    (size_t)n * row_bytes, cudaMemcpyHostToDevice),
		         error);
	}
	return true;
}

/* Quantized rows from the host or made on the device, by way of raw pieces. */
static bool fill_planes(const struct tensor* t, struct own_rows share, const struct matrix* m,
                        struct copier* copier, struct error* error) {
	const size_t row_bytes = dtype_row_bytes(t->type, t->cols);
	const int64_t at_once = rows_at_once(row_bytes);
	if (!copier->raw)
		CUDA_TRY(cudaMalloc((void**)&copier->raw, copier->raw_bytes), error);
	for (int64_t row = 0; row < share.n; row += at_once) {
		const int64_t n = share.n - row < at_once ? share.n - row : at_once;
		if (t->data) {
			if (!arrange_rows(m, (const unsigned char*)t->data + (size_t)(share.first + row) * row_bytes,
			                  copier->raw, row, n, error))
				return false;
			continue;
		}
		make_blocks_kernel<<<(unsigned)n, THREADS>>>(copier->raw, t->type, dtype_block(t->type),
		                                             (int)dtype_block_bytes(t->type), t->synth,
		                                             share.first + row, t->rows, t->cols);
		if (!arrange_matrix(m, copier->raw, row, n, error))
			return false;
	}
	return true;
}

static bool place_matrix(struct cuda_backend* b, const struct shared_matrix& from, enum dtype type,
                         struct matrix* m, struct copier* copier, struct error* error) {
	const struct tensor* t = from.of;
	const struct own_rows share = from.share;
	if (!take_matrix(b, type, share.n, t->cols, m, from.name, error))
		return false;
	if (!t->data && t->synth.kind == SYNTH_NONE)
		return error_set(error, "a tensor of %lld x %lld has neither data nor a way to make it",
		                 (long long)t->rows, (long long)t->cols);
	if (kept_as_stored(type))
		return fill_planes(t, share, m, copier, error);
	if (t->data)
		return copy_halves(t, share, m, copier, error);
	make_half_kernel<<<(unsigned)share.n, THREADS>>>((uint16_t*)m->data, t->synth, share.first, t->rows,
	                                                 t->cols, type == DTYPE_BF16);
	CUDA_TRY(cudaGetLastError(), error);
	return true;
}

/* The type a matrix has on the device. */
static enum dtype placed_type(const struct cuda_backend* b, const struct tensor* t) {
	if (kept_as_stored(t->type))
		return t->type;
	return b->bf16 ? DTYPE_BF16 : DTYPE_F16;
}

static bool vector_up(struct cuda_backend* b, const struct tensor* t, struct own_rows share, float** out,
                      struct copier* copier, struct error* error) {
	*out = nullptr;
	if (!tensor_present(t))
		return true;
	*out = (float*)cuda_take(b, (size_t)share.n * sizeof **out, "a vector of weights", error);
	if (!*out)
		return false;
	if (!t->data) {
		make_float_kernel<<<1, THREADS>>>(*out, t->synth, share.first, share.n, t->cols);
		CUDA_TRY(cudaGetLastError(), error);
		return true;
	}
	dtype_to_float(t->type, t->data, copier->wide, t->cols);
	CUDA_TRY(
	    cudaMemcpy(*out, copier->wide + share.first, (size_t)share.n * sizeof **out, cudaMemcpyHostToDevice),
	    error);
	return true;
}

/* ---- the model ---------------------------------------------------------------------------- */

struct matrix_shares shares_of(const struct cuda_backend* b) {
	const struct model_shape* m = &b->whole;
	const int n = b->group->devices, head = m->head_dim;
	return {rows_of(b, shares_of_heads(n, m->kv_heads, m->heads / m->kv_heads * head)),
	        rows_of(b, shares_of_heads(n, m->kv_heads, head)), rows_of(b, shares_of_rows(n, m->dim)),
	        rows_of(b, shares_of_rows(n, m->ffn)), rows_of(b, shares_of_rows(n, m->vocab))};
}

/* One device has all of a matrix's rows, or a vector's elements, even where the kind's number is another: of
 * recurrent blocks and gated attention, which several devices do not run. */
static struct own_rows own_of(const struct cuda_backend* b, int64_t all, struct own_rows share) {
	return is_alone(b) ? own_rows{0, all} : share;
}

static bool block_up(struct cuda_backend* b, int i, struct copier* c, struct error* error) {
	const struct block_weights* w = &b->head.weights->block[i];
	struct device_block* d = &b->block[i];
	const struct matrix_shares s = shares_of(b);
	const struct own_rows dim = {0, b->shape.dim}, head = {0, b->shape.head_dim};
	struct shared_matrix matrix[BLOCK_MATRICES];
	matrices_of(b, w, matrix);
	for (int k = 0; k < BLOCK_MATRICES; k++)
		if (tensor_present(matrix[k].of) &&
		    !place_matrix(b, matrix[k], placed_type(b, matrix[k].of), &d->matrix[k].stored, c, error))
			return false;
	const struct {
		const struct tensor* from;
		float** to;
		struct own_rows share;
	} vector[] = {{&w->attention_norm, &d->attention_norm, dim},
	              {&w->mlp_norm, &d->mlp_norm, dim},
	              {&w->post_attention_norm, &d->post_attention_norm, dim},
	              {&w->post_mlp_norm, &d->post_mlp_norm, dim},
	              {&w->q_norm, &d->q_norm, head},
	              {&w->k_norm, &d->k_norm, head},
	              {&w->bq, &d->bq, s.q},
	              {&w->bk, &d->bk, s.kv},
	              {&w->bv, &d->bv, s.kv},
	              {&w->bo, &d->bo, s.dim},
	              {&w->b_gate, &d->b_gate, s.ffn},
	              {&w->b_up, &d->b_up, s.ffn},
	              {&w->b_down, &d->b_down, s.dim},
	              {&w->convolution, &d->recurrence.convolution, {}},
	              {&w->decay_bias, &d->recurrence.decay_bias, {}},
	              {&w->decay_rate, &d->recurrence.decay_rate, {}},
	              {&w->state_norm, &d->recurrence.state_norm, {}}};
	for (size_t k = 0; k < sizeof vector / sizeof vector[0]; k++)
		if (!vector_up(b, vector[k].from, own_of(b, vector[k].from->cols, vector[k].share), vector[k].to, c,
		               error))
			return false;
	return true;
}

void matrices_of(const struct cuda_backend* b, const struct block_weights* w,
                 struct shared_matrix matrix[BLOCK_MATRICES]) {
	const struct matrix_shares s = shares_of(b);
	const struct shared_matrix all[BLOCK_MATRICES] = {
	    {&w->wq, s.q, "query weights"},      {&w->wk, s.kv, "key weights"},
	    {&w->wv, s.kv, "value weights"},     {&w->wo, s.dim, "attention output weights"},
	    {&w->w_gate, s.ffn, "gate weights"}, {&w->w_up, s.ffn, "up weights"},
	    {&w->w_down, s.dim, "down weights"}, {&w->w_beta, {}, "beta weights"},
	    {&w->w_decay, {}, "decay weights"}};
	memcpy(matrix, all, sizeof all);
	for (int k = 0; k < BLOCK_MATRICES; k++)
		matrix[k].share = own_of(b, matrix[k].of->rows, matrix[k].share);
}

/* BF16 if all weights are stored so, except the small ones of beta and decay, which GGUF has in F32. Models
 * with a GELU gate, such as Gemma, also need it: their activations were trained in BF16 and exceed the
 * largest half, 65,504. */
static bool takes_bf16(const struct cuda_backend* b) {
	const struct weight_table* w = b->head.weights;
	bool all = w->output.type == DTYPE_BF16;
	for (int i = 0; i < b->shape.n_blocks; i++) {
		struct shared_matrix matrix[BLOCK_MATRICES];
		matrices_of(b, &w->block[i], matrix);
		for (int k = 0; k < W_BETA; k++)
			all = all && (!tensor_present(matrix[k].of) || matrix[k].of->type == DTYPE_BF16);
	}
	return all || w->shape.activation == ACTIVATION_GELU_TANH || w->shape.activation == ACTIVATION_GELU;
}

/* Whether the head is the embedding's matrix on the device, too. */
static bool is_tied(const struct weight_table* w) {
	return w->output.data && w->output.data == w->embedding.data && !kept_as_stored(w->output.type);
}

size_t weight_bytes(const struct cuda_backend* b) {
	const struct weight_table* w = b->head.weights;
	const int64_t vocab = shares_of(b).vocab.n;
	size_t bytes = 2 * (size_t)vocab * (size_t)w->embedding.cols;
	if (!is_tied(w))
		bytes += placed_bytes(placed_type(b, &w->output), vocab, w->output.cols);
	each_matrix(b, [&](const struct shared_matrix& m) {
		bytes += placed_bytes(placed_type(b, m.of), m.share.n, m.of->cols);
	});
	return bytes;
}

/* The largest quantized matrix as stored, or a piece of it. */
size_t upload_room(const struct cuda_backend* b) {
	size_t most = 0;
	const auto look_at = [&](const struct shared_matrix& m) {
		const size_t row = dtype_row_bytes(m.of->type, m.of->cols);
		const size_t all = (size_t)m.share.n * row, piece = (size_t)rows_at_once(row) * row;
		const size_t bytes = all < piece ? all : piece;
		most = kept_as_stored(m.of->type) && bytes > most ? bytes : most;
	};
	each_matrix(b, look_at);
	look_at({&b->head.weights->output, shares_of(b).vocab, NULL});
	return most;
}

/* Reports each type that is not taken as stored, once: conversion changes the bits and may change the size.
 */
static void log_conversions(const struct cuda_backend* b) {
	bool logged[DTYPE_COUNT] = {};
	each_matrix(b, [&](const struct shared_matrix& m) {
		const enum dtype from = m.of->type, to = placed_type(b, m.of);
		if (to != from && !logged[from])
			fprintf(stderr, "swiftlet: weights of type %s are converted to %s for the GPU\n",
			        dtype_name(from), dtype_name(to));
		logged[from] = logged[from] || to != from;
	});
}

static bool check_widths(const struct cuda_backend* b, struct error* error) {
	const struct model_shape* m = &b->whole;
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

static bool upload_with(struct cuda_backend* b, struct copier* c, struct error* error) {
	const struct weight_table* w = b->head.weights;
	const struct own_rows vocab = shares_of(b).vocab;
	struct matrix embedding;
	if (!place_matrix(b, {&w->embedding, vocab, "token embeddings"}, b->bf16 ? DTYPE_BF16 : DTYPE_F16,
	                  &embedding, c, error))
		return false;
	b->embedding = embedding.data;
	if (is_tied(w))
		b->output.stored = embedding;
	else if (!place_matrix(b, {&w->output, vocab, "output weights"}, placed_type(b, &w->output),
	                       &b->output.stored, c, error))
		return false;
	for (int i = 0; i < w->shape.n_blocks; i++)
		if (!block_up(b, i, c, error))
			return false;
	return vector_up(b, &w->output_norm, {0, w->shape.dim}, &b->output_norm, c, error);
}

bool upload_weights(struct cuda_backend* b, struct error* error) {
	const struct weight_table* w = b->head.weights;
	b->bf16 = takes_bf16(b);
	if (!check_widths(b, error))
		return false;
	if (b->rank == 0)
		log_conversions(b);
	int64_t widest = w->shape.vocab;
	const int64_t width[] = {w->shape.dim, w->shape.ffn, (int64_t)w->shape.heads * w->shape.head_dim};
	for (int i = 0; i < 3; i++)
		widest = width[i] > widest ? width[i] : widest;
	for (int i = 0; i < w->shape.n_blocks; i++)
		for (int k = 0; k < BLOCK_PARTS; k++) {
			const int64_t cols = block_tensor(&w->block[i], k)->cols;
			widest = cols > widest ? cols : widest;
		}
	struct copier c = {};
	c.raw_bytes = upload_room(b);
	c.bytes = (unsigned char*)malloc(PIECE_BYTES + (size_t)widest * 4);
	c.wide = (float*)malloc((size_t)widest * sizeof *c.wide);
	bool done = c.bytes && c.wide;
	if (!done)
		error_set(error, "out of memory for copying weights to the device");
	done =
	    done && upload_with(b, &c, error) && cuda_ok(cudaDeviceSynchronize(), "cudaDeviceSynchronize", error);
	free(c.bytes);
	free(c.wide);
	cudaFree(c.raw);
	return done;
}
