/* The kernels of products of weights with 1 to 64 rows of activations, and their launches, by the
 * activations' type and whether weights may be quantized: product_TYPE.cu has each once.
 *
 * One block takes 16 rows of a weight matrix, its eight warps an eighth of the columns each, and every
 * weight is loaded once for all rows of activations. The order of every reduction depends on the matrix's
 * shape alone: along k within a warp, then warp by warp. If a matrix has so few rows that its blocks would
 * divide unevenly among multiprocessors, two or four blocks of fewer warps take a tile, and the last of
 * them to finish adds all eight warps' parts in the same order: so how many they are changes no bit. */
#pragma once

#include <type_traits>

#include "kernels/cuda/multiply.cuh"
#include "kernels/cuda/rows.cuh"

static_assert(WARPS * 32 == ROW_THREADS, "a row's norm is summed by as many threads as in its own kernel");

/* The warps' parts of the first n columns' outputs. to (WARPS, TILE, 8·TILES) */
template <int TILES> __device__ __forceinline__ void spill(float* to, int warp, int n, float (*acc)[4]) {
	const int lane = threadIdx.x % 32, group = lane / 4, q = lane % 4;
	float* mine = to + (size_t)warp * TILE * 8 * TILES;
#pragma unroll
	for (int t = 0; t < TILES; t++)
#pragma unroll
		for (int i = 0; i < 4; i++) {
			const int row = group + i / 2 * 8, column = 8 * t + 2 * q + i % 2;
			if (column < n)
				mine[row * 8 * TILES + column] = acc[t][i];
		}
}

/* They are summed in the order of the warps. */
template <int TILES> __device__ __forceinline__ float gather(const float* shared, int row, int column) {
	float sum = 0;
#pragma unroll
	for (int warp = 0; warp < WARPS; warp++)
		sum += shared[((size_t)warp * TILE + row) * 8 * TILES + column];
	return sum;
}

/* Every block needs the rows' roots, so each takes them. inverse (n) */
__device__ __forceinline__ void take_roots(float* inverse, const struct norm& norm, const float* x, int dim,
                                           const struct device_slice* s, float* shared) {
	for (int i = 0; i < s->n; i++) {
		const float* row = x + (size_t)i * dim;
		const float r = inverse_root(row, dim, norm.epsilon, shared);
		if (threadIdx.x == 0)
			inverse[i] = r;
	}
	__syncthreads();
}

/* The last block of a head's products rotates it in every row, a warp a row, and stores keys and values. It
 * reads other blocks' results past the first-level cache. buffer (WARPS, FUSED_HEAD) */
__device__ inline void finish_head(const struct head_rotation& t, int part, int head,
                                   const struct device_slice* s, float* buffer) {
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
			rotate_head(t, mine, part == 0 ? t.q_norm : t.k_norm, cosine,
			            cosine + (size_t)s->angle_rows * t.pairs);
		if (part > 0)
			store_head(t, s, row, part == 1 ? KEPT_KEY : KEPT_VALUE, head, mine);
		else
			for (int j = lane; j < hd; j += 32)
				at[j] = mine[j];
		__syncwarp();
	}
}

/* The matrix that the slice asks for: stored or quantized draft weights; for the head, which is alone in its
 * product, also the coarse one (screened_head.cu), stored after that. It is fixed before the launch. */
template <bool MIXED>
__device__ __forceinline__ const struct matrix& chosen(const struct device_product& p, int part,
                                                       const struct device_slice* s, int sub_layer) {
	if (!MIXED || !p.has_quantized)
		return p.w[part];
	if (sub_layer >= 0)
		return runs_quantized(s, sub_layer) ? p.quantized[part] : p.w[part];
	return s->head == HEAD_STORED ? p.w[part] : p.quantized[s->head == HEAD_COARSE];
}

__device__ __forceinline__ void put_output(const struct device_product& p, int part, int rows, int row,
                                           int column, float sum) {
	const float y = sum + (p.bias[part] ? p.bias[part][row] : 0.0f);
	float* out = &p.out[part][(size_t)column * rows + row];
	*out = p.end == PRODUCT_ADD ? *out + y : y;
}

/* Blocks that a multiprocessor is to have room for: what is under way hides memory's delay. */
constexpr int blocks_at_once(int tiles, bool mixed) {
	return mixed ? (tiles <= 2 ? 2 : 1) : tiles == 1 ? 4 : tiles == 2 ? 3 : 2;
}

/* GATE: the product ends with PRODUCT_GATE. It is a kernel of its own, because the others need not keep a
 * second sum. */
template <class T, int TILES, bool MIXED, bool NORM, bool GATE>
__global__ void __launch_bounds__(WARPS * 32, blocks_at_once(TILES, MIXED))
    product_kernel(struct device_product p, const void* x, const struct device_slice* slice, int sub_layer) {
	enum { SPILLED = WARPS * TILE * 8 * TILES, ROTATED = WARPS * FUSED_HEAD };
	__shared__ float shared[(int)SPILLED > (int)ROTATED ? (int)SPILLED : (int)ROTATED], inverse[8 * TILES];
	int tile = blockIdx.x, part = 0;
	if (!GATE)
		for (; part + 1 < p.parts && tile >= tiles_in(p.w[part].rows); part++)
			tile -= tiles_in(p.w[part].rows);
	const struct matrix& w = chosen<MIXED>(p, part, slice, sub_layer);
	const int row0 = tile * TILE, warp = threadIdx.x / 32;
	fetch_first<MIXED>(w, row0, warp);
	wait_for_inputs();
	if (leaves_out(slice, sub_layer))
		return;
	const int n = slice->n;
	const struct input in = {x, inverse, p.norm.weight, p.norm.plus, n, w.cols};
	if (NORM)
		take_roots(inverse, p.norm, static_cast<const float*>(x), w.cols, slice, shared);
	/* gate's sums are kept by the threads that will need them while up's go through the same memory */
	enum { KEPT = (TILE * 8 * TILES + WARPS * 32 - 1) / (WARPS * 32) };
	float gate[KEPT] = {};
#pragma unroll 1
	for (int of = 0; of <= (int)GATE; of++) {
		float acc[TILES][4];
		const struct matrix& from = chosen<MIXED>(p, GATE ? of : part, slice, sub_layer);
		accumulate<T, TILES, MIXED, NORM>(acc, from, rows_of_tile(from, row0), warp, in);
		spill<TILES>(shared, warp, 8 * TILES, acc);
		__syncthreads();
		if (of == (int)GATE)
			break;
#pragma unroll
		for (int kept = 0; kept < KEPT; kept++) {
			const int i = (int)threadIdx.x + kept * WARPS * 32;
			gate[kept] = i < TILE * 8 * TILES ? gather<TILES>(shared, i % TILE, i / TILE) : 0.0f;
		}
		__syncthreads();
	}
	if constexpr (GATE) {
#pragma unroll
		for (int kept = 0; kept < KEPT; kept++) {
			const int i = (int)threadIdx.x + kept * WARPS * 32, row = row0 + i % TILE, column = i / TILE;
			if (i >= TILE * 8 * TILES || row >= w.rows || column >= n)
				continue;
			const float g = gate[kept] + (p.bias[0] ? p.bias[0][row] : 0.0f);
			const float u = gather<TILES>(shared, i % TILE, column) + (p.bias[1] ? p.bias[1][row] : 0.0f);
			static_cast<T*>(p.gated)[(size_t)column * w.rows + row] =
			    to_activation<T>(activate(g, p.activation) * u);
		}
	} else {
		for (int i = threadIdx.x; i < TILE * 8 * TILES; i += WARPS * 32) {
			const int row = row0 + i % TILE, column = i / TILE;
			if (row < w.rows && column < n)
				put_output(p, part, w.rows, row, column, gather<TILES>(shared, i % TILE, column));
		}
		const int head = p.rotation.done ? row0 / p.rotation.head_dim : 0;
		if (p.rotation.done && is_last_block(&p.rotation.done[(size_t)part * p.rotation.heads + head],
		                                     p.rotation.head_dim / TILE))
			finish_head(p.rotation, part, head, slice, shared);
	}
}

/* The blocks that share out the columns of a tile. */
struct split {
	float* sums; /* (tiles, WARPS, TILE, 8·TILES) */
	unsigned* done;
	int parts;
};

/* A single matrix; a block's warps are some of the eight. It reads other blocks' results past the first-level
 * cache. */
template <class T, int TILES, bool MIXED>
__global__ void __launch_bounds__(WARPS * 32 / 2)
    split_kernel(struct device_product p, const void* x, const struct device_slice* slice, int sub_layer,
                 struct split split) {
	const int tile = (int)blockIdx.x / split.parts, part = (int)blockIdx.x % split.parts;
	const int row0 = tile * TILE, warp = part * (WARPS / split.parts) + (int)threadIdx.x / 32;
	const struct matrix& w = chosen<MIXED>(p, 0, slice, sub_layer);
	fetch_first<MIXED>(w, row0, warp);
	wait_for_inputs();
	if (leaves_out(slice, sub_layer))
		return;
	const struct input in = {x, NULL, NULL, 0, slice->n, w.cols};
	float acc[TILES][4];
	accumulate<T, TILES, MIXED, false>(acc, w, rows_of_tile(w, row0), warp, in);
	float* sums = split.sums + (size_t)tile * WARPS * TILE * 8 * TILES;
	spill<TILES>(sums, warp, in.n, acc);
	if (!is_last_block(&split.done[tile], split.parts))
		return;
	for (int i = threadIdx.x; i < TILE * in.n; i += blockDim.x) {
		const int row = i % TILE, column = i / TILE;
		float sum = 0;
#pragma unroll
		for (int k = 0; k < WARPS; k++)
			sum += __ldcg(&sums[(k * TILE + row) * 8 * TILES + column]);
		if (row0 + row < w.rows)
			put_output(p, 0, w.rows, row0 + row, column, sum);
	}
}

/* ---- launches ----------------------------------------------------------------------------- */

template <class T, bool MIXED, int TILES>
static void launch_split(const struct cuda_backend* b, const struct device_product& p, const void* x,
                         int sub_layer, int parts) {
	const struct split split = {b->work.tile_sums, b->work.tile_done, parts};
	launch(b, dim3((unsigned)(tiles_in(p.w[0].rows) * parts)), (unsigned)(WARPS * 32 / parts), 0,
	       split_kernel<T, TILES, MIXED>, p, x, b->slice, sub_layer, split);
}

template <class T, bool MIXED, int TILES, bool NORM>
static void launch_tiles(const struct cuda_backend* b, const struct device_product& p, const void* x,
                         int sub_layer) {
	int blocks = 0;
	for (int i = 0; i < (p.end == PRODUCT_GATE ? 1 : p.parts); i++)
		blocks += tiles_in(p.w[i].rows);
	launch(b, dim3((unsigned)blocks), WARPS * 32, 0,
	       p.end == PRODUCT_GATE ? product_kernel<T, TILES, MIXED, NORM, true>
	                             : product_kernel<T, TILES, MIXED, NORM, false>,
	       p, x, b->slice, sub_layer);
}

/* what(tiles) with the least number of tiles that hold so many rows, 8 a bucket, as a constant. */
template <class F> static void by_tiles(int bucket, F what) {
	if (bucket == 1)
		what(std::integral_constant<int, 1>());
	else if (bucket == 2)
		what(std::integral_constant<int, 2>());
	else if (bucket <= 4)
		what(std::integral_constant<int, 4>());
	else
		what(std::integral_constant<int, 8>());
}

template <class T, bool MIXED>
void launch_product_of(const struct cuda_backend* b, const struct device_product* p, const void* x,
                       int bucket, int sub_layer, int parts) {
	by_tiles(bucket, [&](auto tiles) {
		constexpr int TILES = decltype(tiles)::value;
		if constexpr (TILES <= FEW_BUCKETS) {
			if (parts > 1)
				return launch_split<T, MIXED, TILES>(b, *p, x, sub_layer, parts);
			if (p->norm.weight)
				return launch_tiles<T, MIXED, TILES, true>(b, *p, x, sub_layer);
		}
		launch_tiles<T, MIXED, TILES, false>(b, *p, x, sub_layer);
	});
}
