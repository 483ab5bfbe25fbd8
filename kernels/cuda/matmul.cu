/* Products of weights with 1 to 64 rows of activations, on the tensor cores.
 *
 * One block takes 16 rows of a weight matrix, its eight warps an eighth of the columns each, and every
 * weight is loaded once, 16 bytes a lane, for all rows of activations. The weights are the left operand of
 * mma.m16n8k16, so activation rows are its columns: a row alone and the same row among 64 go through the
 * same instructions in the same order, and the order of every reduction depends on the matrix's shape
 * alone: along k within a warp, then warp by warp.
 *
 * A dot product may take its columns in any order as long as both sides agree: lane q of four takes columns
 * 8q…8q+7 of each 32 with one load, where the instruction's own layout would need four. */
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/tensor_core.cuh"

enum { WARPS = 8, TILE = 16, UNIT = 32, AHEAD = 4, FUSED_HEAD = 256, FUSED_BUCKETS = 2 };
static_assert(WARPS * 32 == ROW_THREADS, "a row's norm is summed by as many threads as in its own kernel");

/* Four signed bytes as halves, exactly: 0x6400 | (byte ^ 0x80) is 1024 + 128 + byte. */
__device__ __forceinline__ uint2 widen_bytes(uint32_t bytes) {
	const uint32_t u = bytes ^ 0x80808080u;
	const __half2 offset = __half2half2(__ushort_as_half(0x6480)); /* 1152 */
	const uint32_t low = __byte_perm(u, 0x64646464u, 0x4140), high = __byte_perm(u, 0x64646464u, 0x4342);
	const __half2 a = __hsub2(*reinterpret_cast<const __half2*>(&low), offset);
	const __half2 b = __hsub2(*reinterpret_cast<const __half2*>(&high), offset);
	return make_uint2(*reinterpret_cast<const uint32_t*>(&a), *reinterpret_cast<const uint32_t*>(&b));
}

/* acc (tiles, 4) += the weights' two rows of this lane (r, r + 8) times the activations, over 32 columns. */
template <class T, int TILES>
__device__ __forceinline__ void multiply_unit(float (*acc)[4], uint4 low, uint4 high, const uint4* b) {
#pragma unroll
	for (int t = 0; t < TILES; t++) {
		tensor_core<T>::multiply(acc[t], low.x, high.x, low.y, high.y, b[t].x, b[t].y);
		tensor_core<T>::multiply(acc[t], low.z, high.z, low.w, high.w, b[t].z, b[t].w);
	}
}

/* What a product reads: activations, or with NORM hidden states that it normalises as it loads them. */
struct input {
	const void* x;        /* (n, cols) of T, with NORM of float */
	const float* inverse; /* (n) with NORM: 1 over each row's root mean square */
	const float* weight;
	float plus;
	int n, cols;
};

template <class T>
__device__ __forceinline__ uint4 normalised_eight(const float* x, const float* weight, float r, float plus) {
	alignas(16) T out[8];
#pragma unroll
	for (int i = 0; i < 8; i++)
		out[i] = to_activation<T>(x[i] * r * (weight[i] + plus));
	return *reinterpret_cast<const uint4*>(out);
}

template <class T, int TILES, bool NORM>
__device__ __forceinline__ void load_activations(uint4* b, const struct input& in, int column) {
	const int lane = threadIdx.x % 32, group = lane / 4;
#pragma unroll
	for (int t = 0; t < TILES; t++) {
		const int row = 8 * t + group;
		const size_t at = (size_t)row * in.cols + column;
		if (row >= in.n)
			b[t] = make_uint4(0, 0, 0, 0);
		else if (NORM)
			b[t] = normalised_eight<T>(static_cast<const float*>(in.x) + at, in.weight + column,
			                           in.inverse[row], in.plus);
		else
			b[t] = *reinterpret_cast<const uint4*>(static_cast<const T*>(in.x) + at);
	}
}

/* Where the lane's weights of two rows (r, r + 8) begin, and bytes from one unit of columns to the next: 16
 * bytes a lane, of 32 columns in halves, of 64 in bytes. */
struct lane_weights {
	const unsigned char *low, *high;
	int r0, r1;
};
template <bool Q8>
__device__ __forceinline__ struct lane_weights weights_of(const struct matrix& w, int row) {
	const int lane = threadIdx.x % 32, group = lane / 4, q = lane % 4;
	const size_t bytes = (size_t)w.cols * (Q8 ? 1 : 2);
	struct lane_weights l;
	l.r0 = min(row + group, w.rows - 1);
	l.r1 = min(row + group + 8, w.rows - 1);
	l.low = static_cast<const unsigned char*>(w.data) + l.r0 * bytes + 16 * q;
	l.high = static_cast<const unsigned char*>(w.data) + l.r1 * bytes + 16 * q;
	return l;
}
enum { UNIT_BYTES = 64 }; /* of a row of weights, either way */

template <class T, int TILES, bool NORM>
__device__ __forceinline__ void accumulate_plain(float (*acc)[4], const struct matrix& w, int row,
                                                 const struct input& in, int begin, int end) {
	const int q = threadIdx.x % 4;
	const struct lane_weights l = weights_of<false>(w, row);
	for (int u = begin; u < end; u += AHEAD) {
		uint4 a[AHEAD], c[AHEAD];
#pragma unroll
		for (int i = 0; i < AHEAD; i++)
			if (u + i < end) {
				a[i] = load_once(l.low + (size_t)(u + i) * UNIT_BYTES);
				c[i] = load_once(l.high + (size_t)(u + i) * UNIT_BYTES);
			}
#pragma unroll
		for (int i = 0; i < AHEAD; i++)
			if (u + i < end) {
				uint4 b[TILES];
				load_activations<T, TILES, NORM>(b, in, (u + i) * UNIT + 8 * q);
				multiply_unit<T, TILES>(acc, a[i], c[i], b);
			}
	}
}

/* Q8_0: a lane's 16 bytes are 8 of one block and 8 of the next. Each block's integer-valued products are
 * summed by themselves and then scaled, in the order of the blocks. */
template <int TILES, bool NORM>
__device__ __forceinline__ void accumulate_blocks(float (*acc)[4], const struct matrix& w, int row,
                                                  const struct input& in, int begin, int end) {
	const int q = threadIdx.x % 4, blocks = w.cols / UNIT;
	const struct lane_weights l = weights_of<true>(w, row);
	for (int u = begin; u < end; u += AHEAD) {
		uint4 a[AHEAD], c[AHEAD];
#pragma unroll
		for (int i = 0; i < AHEAD; i++)
			if (u + i < end) {
				a[i] = load_once(l.low + (size_t)(u + i) * UNIT_BYTES);
				c[i] = load_once(l.high + (size_t)(u + i) * UNIT_BYTES);
			}
#pragma unroll
		for (int i = 0; i < AHEAD; i++) {
			if (u + i >= end)
				break;
			const uint32_t* al = reinterpret_cast<const uint32_t*>(&a[i]);
			const uint32_t* ch = reinterpret_cast<const uint32_t*>(&c[i]);
#pragma unroll
			for (int half = 0; half < 2; half++) {
				const int block = 2 * (u + i) + half;
				if (block >= blocks)
					break;
				const uint2 l0 = widen_bytes(al[2 * half]), l1 = widen_bytes(al[2 * half + 1]);
				const uint2 h0 = widen_bytes(ch[2 * half]), h1 = widen_bytes(ch[2 * half + 1]);
				const float s0 = __half2float(w.scale[(size_t)l.r0 * blocks + block]);
				const float s1 = __half2float(w.scale[(size_t)l.r1 * blocks + block]);
				uint4 b[TILES];
				load_activations<__half, TILES, NORM>(b, in, block * UNIT + 8 * q);
#pragma unroll
				for (int t = 0; t < TILES; t++) {
					float part[4] = {0, 0, 0, 0};
					tensor_core<__half>::multiply(part, l0.x, h0.x, l0.y, h0.y, b[t].x, b[t].y);
					tensor_core<__half>::multiply(part, l1.x, h1.x, l1.y, h1.y, b[t].z, b[t].w);
					acc[t][0] = __fmaf_rn(s0, part[0], acc[t][0]);
					acc[t][1] = __fmaf_rn(s0, part[1], acc[t][1]);
					acc[t][2] = __fmaf_rn(s1, part[2], acc[t][2]);
					acc[t][3] = __fmaf_rn(s1, part[3], acc[t][3]);
				}
			}
		}
	}
}

/* A warp's share of the columns in units, fixed by the shape: [share(warp), share(warp + 1)). */
template <bool Q8> __device__ __forceinline__ int share(const struct matrix& w, int warp) {
	const int units = Q8 ? (w.cols / UNIT + 1) / 2 : w.cols / UNIT;
	return (int)((int64_t)units * warp / WARPS);
}

/* The first weights that the lane will load are on their way before what they multiply is there. */
template <bool Q8> __device__ __forceinline__ void fetch_first(const struct matrix& w, int row) {
	const struct lane_weights l = weights_of<Q8>(w, row);
	const int warp = threadIdx.x / 32, begin = share<Q8>(w, warp), end = share<Q8>(w, warp + 1);
#pragma unroll
	for (int i = 0; i < AHEAD; i++)
		if (begin + i < end) {
			fetch_ahead(l.low + (size_t)(begin + i) * UNIT_BYTES);
			fetch_ahead(l.high + (size_t)(begin + i) * UNIT_BYTES);
		}
}

template <class T, int TILES, bool Q8, bool NORM>
__device__ __forceinline__ void accumulate(float (*acc)[4], const struct matrix& w, int row,
                                           const struct input& in) {
#pragma unroll
	for (int t = 0; t < TILES; t++)
		for (int i = 0; i < 4; i++)
			acc[t][i] = 0;
	const int warp = threadIdx.x / 32, begin = share<Q8>(w, warp), end = share<Q8>(w, warp + 1);
	if (Q8)
		accumulate_blocks<TILES, NORM>(acc, w, row, in, begin, end);
	else
		accumulate_plain<T, TILES, NORM>(acc, w, row, in, begin, end);
}

/* The warps' parts of one output, summed in the order of the warps. shared (WARPS, TILE, 8·TILES) */
template <int TILES> __device__ __forceinline__ void spill(float* shared, float (*acc)[4]) {
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, q = lane % 4;
	float* mine = shared + (size_t)warp * TILE * 8 * TILES;
#pragma unroll
	for (int t = 0; t < TILES; t++) {
		mine[group * 8 * TILES + 8 * t + 2 * q] = acc[t][0];
		mine[group * 8 * TILES + 8 * t + 2 * q + 1] = acc[t][1];
		mine[(group + 8) * 8 * TILES + 8 * t + 2 * q] = acc[t][2];
		mine[(group + 8) * 8 * TILES + 8 * t + 2 * q + 1] = acc[t][3];
	}
}

template <int TILES> __device__ __forceinline__ float gather(const float* shared, int row, int column) {
	float sum = 0;
#pragma unroll
	for (int warp = 0; warp < WARPS; warp++)
		sum += shared[((size_t)warp * TILE + row) * 8 * TILES + column];
	return sum;
}

__device__ __forceinline__ float activate(float x, int gelu) {
	if (!gelu)
		return x / (1.0f + __expf(-x));
	return 0.5f * x * (1.0f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
}

/* Every block needs the rows' roots, so each takes them; the first also measures. inverse (n) */
__device__ __forceinline__ void take_roots(float* inverse, const struct norm& norm, const float* x, int dim,
                                           const struct device_slice* s, float* shared) {
	for (int i = 0; i < s->n; i++) {
		const float* row = x + (size_t)i * dim;
		if (blockIdx.x == 0)
			measure_before(row, i, norm, dim, s, shared);
		const float r = inverse_root(row, dim, norm.epsilon, shared);
		if (threadIdx.x == 0)
			inverse[i] = r;
	}
	__syncthreads();
}

/* Whether this block is the last of its head's to get here: part 0 queries, 1 keys, 2 values. */
__device__ bool is_last_of_head(const struct turn& t, int part, int head) {
	__shared__ bool last;
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0) {
		unsigned* done = &t.done[(size_t)part * t.heads + head];
		last = atomicAdd(done, 1u) == (unsigned)(t.head_dim / TILE) - 1;
		if (last)
			*done = 0;
	}
	__syncthreads();
	__threadfence();
	return last;
}

/* The last block of a head's products turns it in every row, a warp a row, and stores keys and values. What
 * other blocks wrote is read past the first-level cache. buffer (WARPS, FUSED_HEAD) */
__device__ void finish_head(const struct turn& t, int part, int head, const struct device_slice* s,
                            float* buffer) {
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, hd = t.head_dim;
	float* const from[] = {t.q, t.k, t.v};
	float* mine = buffer + warp * FUSED_HEAD;
	for (int r = warp; r < s->n; r += WARPS) {
		const struct device_row& row = s->row[r];
		const float* cosine = angles_of(t, s, r);
		float* at = from[part] + ((size_t)r * (part == 0 ? t.heads : t.kv_heads) + head) * hd;
		for (int j = lane; j < hd; j += 32)
			mine[j] = __ldcg(at + j);
		__syncwarp();
		if (part < 2)
			turn_head(t, mine, part == 0 ? t.q_norm : t.k_norm, cosine,
			          cosine + (size_t)s->angle_rows * t.pairs);
		if (part > 0)
			store_head(t, part == 1 ? row.keys : row.values, row, head, mine);
		else
			for (int j = lane; j < hd; j += 32)
				at[j] = mine[j];
		__syncwarp();
	}
}

template <class T, int TILES, bool Q8, bool NORM>
__global__ void __launch_bounds__(WARPS * 32)
    product_kernel(struct product p, const void* x, const struct device_slice* slice, int sub_layer) {
	enum { SPILLED = WARPS * TILE * 8 * TILES, TURNED = WARPS * FUSED_HEAD };
	__shared__ float shared[(int)SPILLED > (int)TURNED ? (int)SPILLED : (int)TURNED], inverse[8 * TILES];
	int tile = blockIdx.x, part = 0;
	if (p.end != PRODUCT_GATE)
		for (; part + 1 < p.parts && tile >= (p.w[part].rows + TILE - 1) / TILE; part++)
			tile -= (p.w[part].rows + TILE - 1) / TILE;
	const struct matrix& w = p.w[part];
	const int row0 = tile * TILE;
	fetch_first<Q8>(w, row0);
	wait_for_inputs();
	if (leaves_out(slice, sub_layer))
		return;
	const int n = slice->n;
	const struct input in = {x, inverse, p.norm.weight, p.norm.plus, n, w.cols};
	if (NORM)
		take_roots(inverse, p.norm, static_cast<const float*>(x), w.cols, slice, shared);
	float acc[TILES][4];
	accumulate<T, TILES, Q8, NORM>(acc, w, row0, in);
	if (NORM)
		__syncthreads();
	spill<TILES>(shared, acc);
	__syncthreads();
	if (p.end == PRODUCT_GATE) {
		/* gate's sums are kept by the threads that will need them while up's go through the same memory */
		enum { KEPT = (TILE * 8 * TILES + WARPS * 32 - 1) / (WARPS * 32) };
		float gate[KEPT];
#pragma unroll
		for (int kept = 0; kept < KEPT; kept++) {
			const int i = (int)threadIdx.x + kept * WARPS * 32;
			gate[kept] = i < TILE * 8 * TILES ? gather<TILES>(shared, i % TILE, i / TILE) : 0.0f;
		}
		__syncthreads();
		accumulate<T, TILES, Q8, NORM>(acc, p.w[1], row0, in);
		spill<TILES>(shared, acc);
		__syncthreads();
#pragma unroll
		for (int kept = 0; kept < KEPT; kept++) {
			const int i = (int)threadIdx.x + kept * WARPS * 32, row = row0 + i % TILE, column = i / TILE;
			if (i >= TILE * 8 * TILES || row >= w.rows || column >= n)
				continue;
			const float g = gate[kept] + (p.bias[0] ? p.bias[0][row] : 0.0f);
			const float u = gather<TILES>(shared, i % TILE, column) + (p.bias[1] ? p.bias[1][row] : 0.0f);
			static_cast<T*>(p.gated)[(size_t)column * w.rows + row] =
			    to_activation<T>(activate(g, p.gelu) * u);
		}
		return;
	}
	for (int i = threadIdx.x; i < TILE * 8 * TILES; i += WARPS * 32) {
		const int row = row0 + i % TILE, column = i / TILE;
		if (row >= w.rows || column >= n)
			continue;
		const float y = gather<TILES>(shared, i % TILE, column) + (p.bias[part] ? p.bias[part][row] : 0.0f);
		float* out = &p.out[part][(size_t)column * w.rows + row];
		*out = p.end == PRODUCT_ADD ? *out + y : y;
	}
	if (p.turn.done && is_last_of_head(p.turn, part, row0 / p.turn.head_dim))
		finish_head(p.turn, part, row0 / p.turn.head_dim, slice, shared);
}

template <int TILES, bool NORM>
static void launch_tiles(const struct cuda_backend* b, cudaStream_t stream, const struct product& p,
                         const void* x, int sub_layer) {
	int blocks = 0;
	for (int i = 0; i < (p.end == PRODUCT_GATE ? 1 : p.parts); i++)
		blocks += (p.w[i].rows + TILE - 1) / TILE;
	const struct device_slice* slice = (const struct device_slice*)b->slice;
	const auto go = [&](auto kernel) {
		launch(b, stream, dim3((unsigned)blocks), WARPS * 32, 0, kernel, p, x, slice, sub_layer);
	};
	if (p.w[0].type == DTYPE_Q8_0)
		go(product_kernel<__half, TILES, true, NORM>);
	else if (b->bf16)
		go(product_kernel<__nv_bfloat16, TILES, false, NORM>);
	else
		go(product_kernel<__half, TILES, false, NORM>);
}

static void launch_one(const struct cuda_backend* b, cudaStream_t stream, const struct product* p,
                       const void* x, int bucket, int sub_layer) {
	const bool norm = p->norm.weight != NULL;
	switch (bucket) {
	case 1:
		norm ? launch_tiles<1, true>(b, stream, *p, x, sub_layer)
		     : launch_tiles<1, false>(b, stream, *p, x, sub_layer);
		return;
	case 2:
		norm ? launch_tiles<2, true>(b, stream, *p, x, sub_layer)
		     : launch_tiles<2, false>(b, stream, *p, x, sub_layer);
		return;
	case 3:
	case 4:
		launch_tiles<4, false>(b, stream, *p, x, sub_layer);
		return;
	default:
		launch_tiles<8, false>(b, stream, *p, x, sub_layer);
	}
}

bool norm_goes_along(const struct cuda_backend* b, int bucket) {
	return b->launches != LAUNCHES_SEPARATE && bucket <= FUSED_BUCKETS;
}

bool turn_goes_along(const struct cuda_backend* b, int block) {
	const struct device_block* w = &b->block[block];
	const int head = b->shape.head_dim;
	return b->launches != LAUNCHES_SEPARATE && head % TILE == 0 && head <= FUSED_HEAD &&
	       w->wq.type == w->wk.type && w->wq.type == w->wv.type;
}

/* Parts of different types go one by one; a gate of different types through plain products. */
void launch_product(const struct cuda_backend* b, cudaStream_t stream, const struct product* p, const void* x,
                    int bucket, int sub_layer) {
	bool alike = true;
	for (int i = 1; i < p->parts; i++)
		alike = alike && p->w[i].type == p->w[0].type;
	if (alike || p->end == PRODUCT_GATE) {
		launch_one(b, stream, p, x, bucket, sub_layer);
		return;
	}
	for (int i = 0; i < p->parts; i++) {
		struct product single = *p;
		single.parts = 1;
		single.w[0] = p->w[i];
		single.out[0] = p->out[i];
		single.bias[0] = p->bias[i];
		launch_one(b, stream, &single, x, bucket, sub_layer);
	}
}

/* ---- prefill ------------------------------------------------------------------------------ */

__global__ void dequantize_kernel(__half* out, const signed char* data, const __half* scale, int cols,
                                  int64_t n) {
	const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= n)
		return;
	const int64_t row = i / cols;
	const int column = (int)(i % cols), block = column / UNIT, within = column % UNIT;
	const int64_t at =
	    row * cols + (int64_t)(block / 2) * 2 * UNIT + 16 * (within / 8) + 8 * (block % 2) + within % 8;
	out[i] = __float2half_rn((float)data[at] * __half2float(scale[row * (cols / UNIT) + block]));
}

bool prefill_product(struct cuda_backend* b, const struct matrix* w, const void* x, int n, float* out,
                     struct error* error) {
	const float one = 1, zero = 0;
	const void* data = w->data;
	cudaDataType_t type = w->type == DTYPE_BF16 ? CUDA_R_16BF : CUDA_R_16F;
	if (w->type == DTYPE_Q8_0) {
		const int64_t count = (int64_t)w->rows * w->cols;
		dequantize_kernel<<<(unsigned)((count + 255) / 256), 256, 0, b->stream>>>(
		    (__half*)b->work.dequantized, (const signed char*)w->data, w->scale, w->cols, count);
		data = b->work.dequantized;
	}
	CUBLAS_TRY(b->calls.gemm(b->cublas, CUBLAS_OP_T, CUBLAS_OP_N, w->rows, n, w->cols, &one, data, type,
	                         w->cols, x, type, w->cols, &zero, out, CUDA_R_32F, w->rows, CUBLAS_COMPUTE_32F,
	                         CUBLAS_GEMM_DEFAULT),
	           error);
	return true;
}
